"""Received webhooks, each acted on once. See `inbox.py`."""
