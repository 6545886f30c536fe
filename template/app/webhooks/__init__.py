"""Destinations of kind `webhook`: endpoints, their secrets, signing, and the sender.

Receivers get Standard Webhooks 1.0 requests. Only `sender.py` touches the network.
"""
