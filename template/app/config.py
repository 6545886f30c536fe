"""Settings: read once from the environment and `.env`, checked, then passed as an argument.

Invariant: no other module reads the environment. The environment wins over `.env`, which is looked
for in the working directory. A new setting is one field here (unit in the name, default, reason);
`docs/configuration.md` is generated from the fields and a test fails until it is current.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec
from dotenv import dotenv_values

from app.errors import ConfigError
from app.program import program

PREFIX = "APP_"
PLACEHOLDER_SECRET = "change-me"  # noqa: S105 - the value that production refuses
MIN_SECRET_LENGTH = 32
LEASE_MARGIN_SECONDS = 2.0


def _setting(default: Any, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one process. `APP_` plus the upper-case name is the variable."""

    env: Literal["production", "development", "test"] = _setting(
        "production", "production refuses placeholder secrets and private targets"
    )
    database_url: str = _setting(
        "sqlite+aiosqlite:///data/app.db", "a path is relative to the working directory"
    )
    secret_key: str = _setting("", "encrypts endpoint secrets at rest; at least 32 characters")
    secret_key_old: str = _setting(
        "", "other keys, separated by spaces, to read with while the key is being replaced"
    )
    allow_private_targets: bool = _setting(
        False, "webhooks may go to loopback and private addresses; refused in production"
    )
    lease_seconds: float = _setting(
        60.0, "how long a claim holds; at least the request timeout + 2 s"
    )
    request_timeout_seconds: float = _setting(15.0, "one request in total, body included")
    connect_timeout_seconds: float = _setting(5.0, "its connect part; never above the total")
    poll_seconds: float = _setting(1.0, "backstop: look for due messages at least this often")
    listen: bool = _setting(
        True, "PostgreSQL wakes relays; false behind a pooler of transactions: they poll"
    )
    relay_concurrency: int = _setting(
        64, "requests in flight per relay; above 0.1 s they don't count, up to 8 times as many"
    )
    endpoint_concurrency: int = _setting(8, "requests in flight per endpoint and relay")
    relay_metrics_port: int | None = _setting(
        None, "`/metrics` of a `relay` process; without it there is none"
    )
    relay_metrics_host: str = _setting("127.0.0.1", "the address of that port; it asks for no key")
    breaker_open_seconds: float = _setting(
        30.0, "an endpoint that fails gets one probe in this time, see endpoints.md"
    )
    disable_after_hours: float = _setting(
        120.0, "an endpoint is disabled after so long with nothing but failures"
    )
    claim_batch: int = _setting(500, "messages claimed at once")
    shutdown_seconds: float = _setting(20.0, "drain budget after SIGTERM")
    database_pool_size: int = _setting(10, "connections per process (PostgreSQL)")
    body_limit_bytes: int = _setting(1_048_576, "largest request body")
    event_limit_bytes: int = _setting(262_144, "largest event body")
    require_registered_types: bool = _setting(
        False, "refuse event types that the catalogue does not know"
    )
    metrics_public: bool = _setting(False, "/metrics without a key")
    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", "least level shown")
    public_url: str = _setting("http://127.0.0.1:8000", "where people reach this application")
    prune_sent_days: int = _setting(7, "sent and dismissed messages; parked ones stay for ever")
    prune_attempts_days: int = _setting(90, "the attempts log")
    prune_idempotency_hours: int = _setting(24, "idempotency keys")
    prune_inbox_days: int = _setting(30, "received webhook ids")
    prune_audit_days: int = _setting(365, "the audit log")

    @property
    def is_production(self) -> bool:
        """True unless `.env` or the environment says otherwise."""
        return self.env == "production"

    @property
    def is_sqlite(self) -> bool:
        """True on the embedded database: one process serves HTTP and relays."""
        return self.database_url.startswith("sqlite")


def variable(name: str) -> str:
    """The environment variable of a setting: `lease_seconds` -> `APP_LEASE_SECONDS`."""
    return PREFIX + name.upper()


def read_environment(
    environ: Mapping[str, str] | None = None, dotenv: Path | None = None
) -> dict[str, str]:
    """All `APP_` variables; the environment wins over `.env` of the working directory."""
    path = Path(".env") if dotenv is None else dotenv
    merged: dict[str, str | None] = {}
    if path.is_file():
        try:
            merged.update(dotenv_values(path, interpolate=False))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path} can't be read: {error}",
                hint="look at its owner, mode and encoding",
            ) from None
    merged.update(os.environ if environ is None else environ)
    return {k: v for k, v in merged.items() if k.startswith(PREFIX) and v is not None}


def unknown_variables(values: Mapping[str, str]) -> list[str]:
    """One warning for each `APP_` variable that no setting has, with the nearest name."""
    known = [variable(f.name) for f in fields(Settings)]
    warnings = []
    for name in sorted(set(values) - set(known)):
        nearest = get_close_matches(name, known, n=1)
        suffix = f"; did you mean {nearest[0]}?" if nearest else ""
        warnings.append(f"{name} is not a setting{suffix}")
    return warnings


def load_settings(values: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process, each rule checked.

    Raises `ConfigError` naming the variable, its value, the rule and the command that helps.
    """
    given = read_environment() if values is None else values
    hints = get_type_hints(Settings)
    parsed: dict[str, Any] = {}
    for f in fields(Settings):
        raw = given.get(variable(f.name))
        if raw is not None and (raw != "" or hints[f.name] is str):
            parsed[f.name] = _parse(variable(f.name), raw, hints[f.name])
    settings = Settings(**parsed)
    problems = broken_rules(settings)
    if problems:
        correct = "correct it in .env or in the environment"
        hint = correct if settings.secret_key else f"run: {program()} init"
        raise ConfigError("; ".join(problems), hint=hint)
    return settings


def _parse(name: str, raw: str, kind: Any) -> Any:
    text = raw.strip().lower() if kind is bool else raw.strip()
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}={raw!r}: {str(error).lower()}", hint="edit .env") from None


def broken_rules(s: Settings) -> list[str]:
    """Every rule that the settings break, one sentence each; never prints a secret."""
    positive = [
        f.name for f in fields(s) if isinstance(getattr(s, f.name), int | float)
        and not isinstance(getattr(s, f.name), bool) and getattr(s, f.name) <= 0
    ]  # fmt: skip
    problems = [f"{variable(name)} must be above 0" for name in positive]
    scheme = s.database_url.partition(":")[0]
    if scheme not in ("sqlite+aiosqlite", "postgresql+asyncpg"):
        problems.append(
            f"APP_DATABASE_URL starts with {scheme!r}; use sqlite+aiosqlite or postgresql+asyncpg"
        )
    if s.connect_timeout_seconds > s.request_timeout_seconds:
        problems.append("APP_CONNECT_TIMEOUT_SECONDS is above APP_REQUEST_TIMEOUT_SECONDS")
    if s.lease_seconds < s.request_timeout_seconds + LEASE_MARGIN_SECONDS:
        problems.append(
            f"APP_LEASE_SECONDS={s.lease_seconds:g} is below APP_REQUEST_TIMEOUT_SECONDS + "
            f"{LEASE_MARGIN_SECONDS:g} s: a request could outlive its lease and go out twice"
        )
    return problems + _broken_secrets(s)


def _broken_secrets(s: Settings) -> list[str]:
    if not s.secret_key:
        return ["APP_SECRET_KEY is not set (no .env here?)"]
    if s.is_production and s.secret_key == PLACEHOLDER_SECRET:
        return ["APP_SECRET_KEY is the placeholder of .env.example; production needs its own"]
    problems = []
    if s.is_production and len(s.secret_key) < MIN_SECRET_LENGTH:
        problems.append(f"APP_SECRET_KEY is shorter than {MIN_SECRET_LENGTH} characters")
    if s.is_production and s.allow_private_targets:
        problems.append("APP_ALLOW_PRIVATE_TARGETS is true; production refuses it")
    return problems
