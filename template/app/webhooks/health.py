"""Lets a message through to its endpoint or holds it back, and learns from the answer.

    admit  limits, circuit breaker, owner -> a Pass, or why it waits (`Deferred`, no attempt spent)
    learn  the answer -> pace and window here; breaker, failing since, disabled in the database

Invariant: the database is written when a state changes, not per message, and no trouble with that
changes anything about the attempt (`writes.py`).
"""

import time
from uuid import uuid4

from msgspec import Struct, structs
from sqlalchemy.ext.asyncio import AsyncSession

from app.config import Settings
from app.db.engine import Database
from app.outbox.message import Claim, Deferred, Delivered, Failed
from app.outbox.subscriptions import is_operator_type
from app.webhooks import state
from app.webhooks.answers import Answer, News
from app.webhooks.metrics import WebhookMetrics
from app.webhooks.ready import Ready
from app.webhooks.traffic import Traffic, breaker_open
from app.webhooks.writes import Writes

OWN_SECONDS = 10.0  # beyond the longest request
FAILING_SECONDS, FAILING_CALLS = 60.0, 3  # nothing but failures for so long, and so many


class Pass(Struct, frozen=True, gc=False):
    """Leave to make one request."""

    started: float
    probe: bool  # the one request of an open circuit breaker's period


class EndpointHealth:
    """The keeper of all endpoints in this process; `me` is its name among the relays."""

    def __init__(self, database: Database, settings: Settings, metrics: WebhookMetrics) -> None:
        self.me = uuid4()
        self._metrics = metrics
        self._open_seconds = settings.breaker_open_seconds
        self._disable_hours = settings.disable_after_hours
        self._write = Writes(database)
        self._owns = False

    async def admit(self, ready: Ready, traffic: Traffic) -> Pass | Deferred:
        """Leave to send, which `learn` or `leave` gives back; or why the message has to wait."""
        held_back = traffic.held_back(ready.limits, time.monotonic())
        if held_back is not None:
            return self._deferred(*held_back)
        traffic.in_flight += 1
        if traffic.shared.open_until is None and not ready.limits.any:
            return Pass(time.monotonic(), False)
        try:
            leave = await self._leave(ready, traffic)
        except BaseException:
            traffic.in_flight -= 1
            raise
        if isinstance(leave, Deferred):
            traffic.in_flight -= 1
        return leave

    async def _leave(self, ready: Ready, traffic: Traffic) -> Pass | Deferred:
        probe = False
        if traffic.shared.open_until is not None:
            async with traffic.lock:
                until = traffic.shared.open_until
                if until is not None:
                    probe = until <= time.monotonic() and await self._win_probe(ready, traffic)
                    if not probe:
                        return self._deferred("breaker", breaker_open(self._left(traffic)))
        if ready.limits.any and not await self._own(ready, traffic):
            reason = "another relay sends to this endpoint, which has a limit"
            return self._deferred("owner", Deferred(reason, 0.0))
        return Pass(time.monotonic(), probe)

    def _left(self, traffic: Traffic) -> float:
        return (traffic.shared.open_until or 0.0) - time.monotonic()

    async def _win_probe(self, ready: Ready, traffic: Traffic) -> bool:
        seconds = max(self._open_seconds, ready.target.total_seconds + 1.0)
        _changed(traffic, open_until=time.monotonic() + seconds)
        return bool(await self._write(lambda s: state.win_probe(s, ready.endpoint_id, seconds)))

    async def _own(self, ready: Ready, traffic: Traffic) -> bool:
        longest = ready.target.total_seconds + 1.0
        async with traffic.lock:
            now, mine = time.monotonic(), traffic.shared.owner == self.me
            if mine and traffic.shared.owned_until >= now + longest:
                return True
            if not mine and traffic.shared.owned_until > now:
                return False  # another relay's
            self._owns, until = True, now + longest
            seconds = longest + OWN_SECONDS
            won = await self._write(lambda s: state.own(s, ready.endpoint_id, self.me, seconds))
            if won:
                _changed(traffic, owner=self.me, owned_until=until + OWN_SECONDS)
            else:  # another relay was faster; until when is read within a second
                _changed(traffic, owner=None, owned_until=time.monotonic() + 1.0)
            return bool(won)

    def _deferred(self, limit: str, outcome: Deferred) -> Deferred:
        self._metrics.held_back.labels(limit).inc()
        return outcome

    async def learn(
        self, claim: Claim, ready: Ready, traffic: Traffic, leave: Pass, outcome: Delivered | Failed
    ) -> None:
        """What the answer says about the endpoint."""
        now = time.monotonic()
        answer = Answer.of(outcome, now - leave.started, ready.target.total_seconds)
        traffic.window.add(now, failed=answer.failed, slow=answer.slow)
        if answer.slow_down:
            limit = ready.limits.rate_per_second
            self._metrics.slowdowns.inc(traffic.pace.slow_down(now, leave.started, limit))
        if isinstance(outcome, Delivered):
            traffic.pace.speed_up(leave.started)
            traffic.failing_at, traffic.failures = None, 0
            if not leave.probe and traffic.shared.failing_at is None:
                return  # as nearly always
        told, news = not is_operator_type(claim.type), set[News]()
        if leave.probe and not answer.failed:
            news.add(News.CLOSES)
        if isinstance(outcome, Failed):
            news |= self._bad(traffic, now, told=told)
        elif told and traffic.shared.failing_at is not None:
            news.add(News.RECOVERS)
        if news:
            await self._spread(ready, traffic, now, news)

    def _bad(self, traffic: Traffic, now: float, *, told: bool) -> set[News]:
        news, since = set[News](), traffic.shared.failing_at
        if traffic.shared.open_until is None and traffic.window.is_bad:
            news.add(News.OPENS)
        if told and self._is_failing(traffic, now, opens=News.OPENS in news):
            news.add(News.FAILS)
        if told and since is not None and now - since >= self._disable_hours * 3600:
            news.add(News.DISABLES)
        return news

    async def _spread(self, ready: Ready, traffic: Traffic, now: float, news: set[News]) -> None:
        """Here first, so that nothing else is sent meanwhile; then to all relays."""
        seconds = now - (traffic.failing_at or now)
        if News.CLOSES in news:
            traffic.window.clear(now)
            _changed(traffic, open_until=None)
        if News.OPENS in news:
            self._metrics.opened.inc()
            _changed(traffic, open_until=now + self._open_seconds)
        if news & {News.FAILS, News.RECOVERS}:
            failing_at = traffic.failing_at if News.FAILS in news else None
            _changed(traffic, failing_at=failing_at)

        async def write(session: AsyncSession) -> None:
            for one in sorted(news):
                match one:
                    case News.CLOSES:
                        await state.close_breaker(session, ready.endpoint_id)
                    case News.OPENS:
                        await state.open_breaker(session, ready.endpoint_id, self._open_seconds)
                    case News.RECOVERS:
                        await state.note_recovered(session, ready.endpoint_id)
                    case News.FAILS:
                        await state.note_failing(session, ready.endpoint_id, seconds)
                    case News.DISABLES:
                        hours = self._disable_hours
                        await state.disable_failing(session, ready.endpoint_id, hours)

        await self._write(write)

    def _is_failing(self, traffic: Traffic, now: float, *, opens: bool) -> bool:
        if traffic.failing_at is None:
            traffic.failing_at = now
        traffic.failures += 1
        long = now - traffic.failing_at >= FAILING_SECONDS and traffic.failures >= FAILING_CALLS
        only = opens and traffic.failures >= FAILING_CALLS
        return traffic.shared.failing_at is None and (long or only)

    async def gone(self, claim: Claim, ready: Ready) -> None:
        """It answered 410: disable it, unless it was changed since the request was made."""
        quiet = is_operator_type(claim.type)
        await self._write(
            lambda s: state.disable_gone(s, ready.endpoint_id, ready.version, quiet=quiet)
        )

    async def close(self) -> None:
        """Let what is being written end, and other relays have the endpoints at once."""
        if self._owns:
            await self._write(lambda s: state.disown(s, self.me))
        await self._write.close()


def _changed(traffic: Traffic, **changes: object) -> None:
    traffic.shared = structs.replace(traffic.shared, **changes)
    traffic.changed_at = time.monotonic()
