"""Identifiers: UUIDv7, so that ids made later sort later and an index on them grows at one end.

Retention prunes in id order, and lists page by id, because of that property (RFC 9562, 5.7).
"""

import secrets
import time
from uuid import UUID


def uuid7() -> UUID:
    """A new UUIDv7: 48 bits of unix milliseconds, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
