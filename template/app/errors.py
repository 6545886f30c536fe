"""Every deliberate error of the application, in one tree.

AppError
├── ConfigError          a setting is missing or breaks a rule           (exit 1)
├── UsageError           the caller of a command asked for nonsense      (exit 2)
└── RequestError         the caller of the HTTP API is at fault          (4xx)
    ├── BadRequest       400  malformed input
    ├── Unauthorized     401  no key, or one we do not know
    ├── Forbidden        403  a known key without the right
    ├── NotFound         404  no such thing, or not yours
    ├── Conflict         409  the state of the thing forbids it
    ├── TooLarge         413  over a size limit
    ├── UnsupportedMedia 415  a body that is not JSON
    └── Unprocessable    422  well-formed, but it contradicts a rule

What the *world* does (a receiver answers 500, a name does not resolve) is no exception: it is an
`Outcome` (see `outbox/message.py`). `api/problems.py` turns `RequestError` into problem+json.
"""

from typing import ClassVar


class AppError(Exception):
    """What happened, with the value and the rule; `hint` is the next command or step."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(AppError):
    """A setting is missing or breaks a rule."""


class UsageError(AppError):
    """A command was called in a way that can't work."""

    exit_code = 2


class RequestError(AppError):
    """The HTTP caller's mistake; nothing was stored."""

    status: ClassVar[int] = 400
    title: ClassVar[str] = "Bad request"


class BadRequest(RequestError):
    """The input is malformed."""


class Unauthorized(RequestError):
    """There is no valid API key on the request."""

    status = 401
    title = "Unauthorized"


class Forbidden(RequestError):
    """The key is valid, but lacks the scope or the tenant."""

    status = 403
    title = "Forbidden"


class NotFound(RequestError):
    """There is no such thing, or it belongs to another tenant: the two look alike on purpose."""

    status = 404
    title = "Not found"


class Conflict(RequestError):
    """The present state of the thing forbids the request."""

    status = 409
    title = "Conflict"


class TooLarge(RequestError):
    """The input is over a size limit."""

    status = 413
    title = "Too large"


class UnsupportedMedia(RequestError):
    """The body is of a kind that this route doesn't read."""

    status = 415
    title = "Unsupported media type"


class Unprocessable(RequestError):
    """The input is well-formed and still contradicts a rule."""

    status = 422
    title = "Unprocessable"
