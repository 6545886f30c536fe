"""The certificate with which an endpoint's requests prove who sends them (mutual TLS).

Invariant: what is stored can be used: one PEM text of a certificate, those that sign it, and the
private key of the first one. It is encrypted at rest; only its name and end are shown.
"""

import os
import ssl
import tempfile
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec import Struct

from app.errors import BadRequest

LENGTH = 32_768


class CertificateShown(Struct, frozen=True):
    """What is shown of a client certificate."""

    subject: str
    expires_at: datetime


def check_certificate(pem: str, now: datetime | None = None) -> CertificateShown:
    """What it says of itself; raises `BadRequest` with the rule it breaks, and never repeats it."""
    if len(pem) > LENGTH:
        raise _bad(f"{len(pem)} characters; at most {LENGTH} are allowed")
    try:
        raw = pem.encode("ascii")
        leaf = x509.load_pem_x509_certificates(raw)[0]
        load_pem_private_key(raw, password=None)  # would else be asked for on the terminal
        client_context(raw)  # the key is the certificate's, and TLS takes both
    except (ValueError, TypeError, ssl.SSLError, x509.InvalidVersion):
        raise _bad("not a certificate and its unencrypted private key, both PEM") from None
    except Exception as error:  # of the many that these parsers raise, for kinds they don't know
        raise _bad(f"it can't be read ({type(error).__name__})") from None
    if leaf.not_valid_after_utc <= (now or datetime.now(UTC)):
        raise _bad(f"it has expired at {leaf.not_valid_after_utc.isoformat()}")
    return CertificateShown(leaf.subject.rfc4514_string()[:200], leaf.not_valid_after_utc)


def _bad(problem: str) -> BadRequest:
    return BadRequest(
        f"client_certificate: {problem}", hint="give certificate, chain and key as one PEM text"
    )


def client_context(pem: bytes) -> ssl.SSLContext:
    """A context that shows the certificate. `ssl` reads files only; this one lives for a moment."""
    context = ssl.create_default_context()
    handle, path = tempfile.mkstemp(prefix="client-", suffix=".pem")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
    return context
