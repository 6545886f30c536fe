"""What happens to a message after an attempt: pure decisions, no database, no clock.

Invariant: an attempt is spent when it is claimed, so a message that kills its relay runs out too;
a deferral gives the attempt back. Where to change what: the default numbers are the fields of
`Exponential`; `settle` in `store.py` only carries out the `Transition` decided here.
"""

from random import Random
from typing import Literal, assert_never

from msgspec import Struct

from app.outbox.message import Claim, Deferred, Delivered, Failed, Outcome, ParkedReason

RETRY_AFTER_CAP_SECONDS = 6 * 3600.0
OnStatus = dict[str, Literal["retry", "park"]]  # "404" or "4xx": what that answer does instead
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
LONE_LOSSES = 3  # losses while claimed alone, after which a message is parked as `crashed`


class Exponential(
    Struct, frozen=True, forbid_unknown_fields=True, tag="exponential", tag_field="kind"
):
    """Doubling waits up to a cap. The defaults wait 1 h 43 min in all, over 12 attempts."""

    base_seconds: float = 5.0
    cap_seconds: float = 1800.0
    attempts: int = 12
    jitter: float = 0.2
    max_age_seconds: float | None = None
    on_status: OnStatus = {}

    def wait(self, rung: int) -> float:
        """Seconds after attempt `rung` (from 1), without jitter."""
        return min(self.cap_seconds, self.base_seconds * 2.0 ** min(rung - 1, 60))

    @property
    def longest_wait(self) -> float:
        """No wait is longer than this, jitter included."""
        return self.cap_seconds


class Ladder(Struct, frozen=True, forbid_unknown_fields=True, tag="ladder", tag_field="kind"):
    """A list of waits; one attempt more than there are waits."""

    delays_seconds: tuple[float, ...]
    jitter: float = 0.5
    max_age_seconds: float | None = None
    on_status: OnStatus = {}

    @property
    def attempts(self) -> int:
        """How many attempts the ladder has."""
        return len(self.delays_seconds) + 1

    def wait(self, rung: int) -> float:
        """Seconds after attempt `rung` (from 1), without jitter."""
        return self.delays_seconds[min(rung, len(self.delays_seconds)) - 1]

    @property
    def longest_wait(self) -> float:
        """No wait is longer than this, jitter included."""
        return max(self.delays_seconds) * (1 + self.jitter)


RetryPolicy = Exponential | Ladder
DEFAULT_POLICY = Exponential()


class Sent(Struct, frozen=True):
    """The message is done."""


class RetryIn(Struct, frozen=True):
    """Pending again, due after a delay on the database's clock."""

    seconds: float


class Park(Struct, frozen=True):
    """Parked; the attempt stays spent."""

    reason: ParkedReason


class GiveBack(Struct, frozen=True):
    """Pending again, attempt given back, no attempt row; parked instead if there is a reason."""

    seconds: float
    park: ParkedReason | None = None


Transition = Sent | RetryIn | Park | GiveBack


def next_step(outcome: Outcome, claim: Claim, policy: RetryPolicy, random: Random) -> Transition:
    """The transition that settles `claim` after `outcome`."""
    match outcome:
        case Delivered():
            return Sent()
        case Deferred(delay_seconds=seconds, park=reason):
            return GiveBack(seconds, reason)
        case Failed(park=ParkedReason() as reason):
            return Park(reason)
        case Failed():
            return _after_failure(outcome, claim, policy, random)
        case _:
            assert_never(outcome)


def none_left(claim: Claim, policy: RetryPolicy) -> Deferred | None:
    """The outcome of a claim beyond the last attempt; a deliverer asks before it makes one.

    The last one was lost with its relay, or the policy has become shorter.
    """
    if claim.rung <= policy.attempts:
        return None
    reason = f"none of the {policy.attempts} attempts that its retry policy allows is left"
    return Deferred(reason, park=ParkedReason.EXHAUSTED)


def _after_failure(
    failed: Failed, claim: Claim, policy: RetryPolicy, random: Random
) -> RetryIn | Park:
    if claim.rung >= policy.attempts:
        return Park(ParkedReason.EXHAUSTED)
    wait = jittered(policy, claim.rung, random)
    if failed.retry_after_seconds is not None:
        cap = policy.max_age_seconds or RETRY_AFTER_CAP_SECONDS
        wait = max(wait, min(failed.retry_after_seconds, cap))
    if policy.max_age_seconds is not None and claim.age_seconds + wait > policy.max_age_seconds:
        return Park(ParkedReason.EXPIRED)
    return RetryIn(wait)


def jittered(policy: RetryPolicy, rung: int, random: Random) -> float:
    """The wait after attempt `rung`, spread by the policy's jitter, never above its longest."""
    spread = 1.0 + policy.jitter * (2.0 * random.random() - 1.0)
    return min(policy.longest_wait, policy.wait(rung) * spread)


class Span(Struct, frozen=True):
    """How far a policy really goes, without jitter: its attempts, and from the first to the last.

    The age cap may end it earlier than the number of attempts says.
    """

    attempts: int
    seconds: float


def span_of(policy: RetryPolicy) -> Span:
    """The real span of a policy; shown wherever the policy is."""
    seconds, oldest = 0.0, policy.max_age_seconds
    for rung in range(1, policy.attempts):
        wait = policy.wait(rung)
        if oldest is not None and seconds + wait > oldest:
            return Span(rung, seconds)
        seconds += wait
    return Span(policy.attempts, seconds)


def in_words(seconds: float) -> str:
    """`1 h 43 min`, `15 s`, `0.12 s`: two units at most, for people."""
    for size, larger, part, smaller in _UNITS:
        parts = round(seconds / part)
        if seconds >= size:
            whole, rest = divmod(parts, size // part)
            return f"{whole} {larger} {rest} {smaller}" if rest else f"{whole} {larger}"
    return f"{seconds:.3g} s"
