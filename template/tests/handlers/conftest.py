"""Relays, as the relay's own tests make them."""

from tests.relay.conftest import make_relay, registry

__all__ = ["make_relay", "registry"]
