"""Handlers: the owner's own functions as destinations of events, beside webhooks.

`handler.py` is what you write with, `registry.py` what publish and the relay know of it,
`deliverer.py` how a message reaches the function.
"""
