"""The figures with which a relay ends; `relay --json` prints them."""

from msgspec import Struct


class Counts(Struct, frozen=True):
    """What a run came to. `lost`: outcomes of claims that had been taken over."""

    claimed: int
    delivered: int
    failed: int
    deferred: int
    parked: int
    lost: int
    reclaimed: int
