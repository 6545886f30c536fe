"""Rate limits and slow-downs, by the clock that the test sets."""

import pytest

from app.webhooks.breaker import LEAST_CALLS, WINDOW_SECONDS, Window
from app.webhooks.pace import BURST_SECONDS, SLOWEST, Pace


@pytest.mark.parametrize("rate", [0.5, 3.0, 50.0, 1000.0])
def test_no_stretch_of_time_sees_more_starts_than_the_rate_allows(rate):
    """Offered far more, for five seconds; measured over every window between two starts."""
    pace, now, starts = Pace(), 100.0, []
    step = 1 / (rate * 7.3)
    while now < 105.0:
        if pace.start(now, rate) == 0:
            starts.append(now)
        now += step
    most = max(1.0, rate * BURST_SECONDS)
    for first in range(0, len(starts), max(1, len(starts) // 50)):
        for last in range(first, len(starts)):
            length = starts[last] - starts[first]
            assert last - first + 1 <= length * rate + most + 1e-6
    assert len(starts) >= 5.0 * rate * 0.9


def test_what_may_be_started_now_is_what_the_relay_is_told():
    """As many as the bucket holds; none: when to ask again, and then there is one."""
    pace = Pace()
    starts, _ = pace.starts(10.0, 50.0)
    assert starts == 5
    for _ in range(5):
        assert pace.start(10.0, 50.0) == 0
    starts, seconds = pace.starts(10.0, 50.0)
    assert starts == 0
    assert 1 <= (pace.starts(10.0 + seconds, 50.0)[0] or 0) < 5
    assert Pace().starts(10.0, None) == (None, 0.0)


def test_an_answer_that_asks_for_less_halves_the_rate_until_the_next_good_one():
    """Once for all requests that were under way at that moment."""
    pace, now = Pace(), 100.0
    for n in range(101):
        assert pace.start(now + n * 0.02, None) == 0
    now += 2.0
    assert pace.slow_down(now, now - 0.5, None)
    assert pace.slowed == pytest.approx(25, rel=0.1)
    assert not pace.slow_down(now + 0.1, now - 0.2, None), "was under way"
    pace.speed_up(now - 0.1)
    assert pace.slowed is not None, "was under way as well"
    assert pace.start(now + 0.001, None) > 0
    assert pace.slow_down(now + 1, now + 0.5, None)
    assert pace.slowed < 15
    for n in range(20):
        pace.slow_down(now + 2 + n, now + 2 + n, None)
    assert pace.slowed == SLOWEST
    pace.speed_up(now + 30)
    assert pace.rate(None) is None
    assert pace.rate(7.0) == 7.0


def test_a_slow_down_starts_from_the_limit_if_that_is_lower():
    """Half of what it takes, not of what it was offered."""
    pace = Pace()
    for n in range(20):
        pace.start(100.0 + n * 0.5, 2.0)
    pace.slow_down(110.0, 110.0, 2.0)
    assert pace.slowed == pytest.approx(1.0, rel=0.2)
    assert pace.rate(2.0) == pace.slowed


@pytest.mark.parametrize(
    ("good", "failed", "slow", "bad"),
    [
        (0, LEAST_CALLS - 1, 0, False),
        (0, LEAST_CALLS, 0, True),
        (6, 5, 0, False),
        (5, 5, 0, True),
        (2, 0, 9, False),
        (1, 0, 9, True),
    ],
)
def test_the_share_of_bad_calls_decides_once_there_are_enough(good, failed, slow, bad):
    """Half of them failed, or nine of ten slow."""
    window = Window()
    calls = [(False, False)] * good + [(True, False)] * failed + [(False, True)] * slow
    for index, (fails, is_slow) in enumerate(calls):
        window.add(100.0 + index, failed=fails, slow=is_slow)
    assert window.is_bad is bad


def test_old_calls_are_forgotten():
    """Failures of an hour ago open nothing."""
    window = Window()
    for _ in range(50):
        window.add(100.0, failed=True, slow=False)
    for n in range(LEAST_CALLS):
        window.add(100.0 + 2 * WINDOW_SECONDS + n, failed=False, slow=False)
    assert not window.is_bad
