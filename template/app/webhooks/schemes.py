"""How requests can be signed; a module of its own because the command line loads it every time."""

from enum import StrEnum


class Signature(StrEnum):
    """`v1`: HMAC with a shared secret. `v1a`: ed25519, the receiver has only the public key."""

    V1 = "v1"
    V1A = "v1a"
