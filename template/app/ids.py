"""Identifiers: UUIDv7, so that ids made later sort later and an index on them grows at one end.

Retention prunes in id order, lists page by id, a replay goes through events in id order, because
of that property (RFC 9562, 5.7). Within one process it holds inside a millisecond too.
"""

import secrets
import time
from uuid import UUID

_last = 0


def uuid7() -> UUID:
    """A new UUIDv7: 48 bits of unix milliseconds, then 74 bits; random, or one above the last."""
    global _last
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    if value <= _last and value >> 80 == _last >> 80:
        value = _last + 1
    _last = value
    return UUID(int=value)
