"""The crash run in its short form; `make crash` is the long one."""

from pathlib import Path

from tests.crash.storm import SHORT, storm


async def test_g4_g5_nothing_is_lost_or_stuck_whatever_is_killed(tmp_path: Path):
    """API, relays and database are killed, frozen, cut off and made read-only while events flow:
    everything accepted arrives, again only where no 2xx was recorded, nothing innocent is parked.
    """
    ledger = await storm(tmp_path, SHORT)
    print(ledger)
    assert ledger.broken == [], str(ledger)
    assert ledger.accepted == SHORT.events
    assert ledger.reclaimed > 0, "the kills hit nothing"
