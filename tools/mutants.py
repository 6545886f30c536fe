"""Takes one guard out of the generated application and shows which test turns red.

    python -m tools.mutants [NAME]...     default: all; the quick ones run in seconds each

Each mutant is a copy of the template with one edit. Its test must fail there and pass on the
template as it is: a test that stays green has not been watching. Prints a table; exit code 1 if a
mutant survives, or if an edit no longer finds its place.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "template"
SECONDS = 180
STORE = "tests/outbox/test_store.py::"
RELAY = "tests/relay/test_relay.py::"
POSTGRESQL = "app/outbox/statements_postgresql.py"
SQLITE = "app/outbox/statements_sqlite.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One guard, taken out: `old` becomes `new` in `path`, and `test` must fail."""

    name: str
    path: str
    old: str
    new: str
    test: str


def both(name: str, old: str, new: str, test: str) -> list[Mutant]:
    """The same guard in the statements of both databases."""
    return [
        Mutant(f"{name}, PostgreSQL", POSTGRESQL, old, new, f"{test}[postgresql]"),
        Mutant(f"{name}, SQLite", SQLITE, old, new, f"{test}[sqlite]"),
    ]


FREE = "claim_token IS NULL OR lease_until < "
SETTLES_ONLY_MINE = STORE + "test_g3_only_the_token_that_claimed_may_write"
MUTANTS = [
    *(
        Mutant(
            f"token in {write}, PostgreSQL",
            POSTGRESQL,
            "m.id = i.id AND m.claim_token = i.token",
            "m.id = i.id AND i.token IS NOT NULL",
            f"{SETTLES_ONLY_MINE}[postgresql-{write}]",
        )
        for write in ("settle", "extend", "release")
    ),
    Mutant(
        "token in settle, SQLite",
        SQLITE,
        "outbox_messages.id = i.id AND claim_token = i.token",
        "outbox_messages.id = i.id",
        SETTLES_ONLY_MINE + "[sqlite-settle]",
    ),
    *both(
        "lease check",
        FREE,
        "claim_token IS NULL OR lease_until IS NOT NULL OR lease_until < ",
        STORE + "test_g2_a_live_lease_is_never_claimed",
    ),
    Mutant(
        "attempt spent at claim, PostgreSQL",
        POSTGRESQL,
        "attempts = m.attempts + CASE WHEN p.lost THEN 0 ELSE 1 END",
        "attempts = m.attempts + 0",
        STORE + "test_a_claim_takes_what_there_is_room_for_oldest_first[postgresql]",
    ),
    Mutant(
        "attempt spent at claim, SQLite",
        SQLITE,
        "attempts = attempts + CASE WHEN {_LOST} THEN 0 ELSE 1 END",
        "attempts = attempts + 0",
        STORE + "test_a_claim_takes_what_there_is_room_for_oldest_first[sqlite]",
    ),
    Mutant(
        "a loss counts only when alone, PostgreSQL",
        POSTGRESQL,
        "CASE WHEN p.lost AND m.alone THEN",
        "CASE WHEN p.lost THEN",
        STORE + "test_a_loss_beside_other_work_never_counts_as_a_loss_alone[postgresql]",
    ),
    Mutant(
        "a loss counts only when alone, SQLite",
        SQLITE,
        "lone_losses + CASE WHEN {_LOST} AND alone THEN",
        "lone_losses + CASE WHEN {_LOST} THEN",
        STORE + "test_a_loss_beside_other_work_never_counts_as_a_loss_alone[sqlite]",
    ),
    Mutant(
        "parked is final (claim), both",
        "app/outbox/tables.py",
        'DUE = "sent_at IS NULL AND parked_at IS NULL AND',
        'DUE = "sent_at IS NULL AND',
        RELAY + "test_g7_the_schedule_is_in_the_row_and_ends_parked[sqlite]",
    ),
    Mutant(
        "parked is final (retention)",
        "app/outbox/prune_tables.py",
        "or_(m.sent_at < sent, m.dismissed_at < sent)",
        "or_(m.sent_at < sent, m.dismissed_at < sent, m.parked_at < sent)",
        "tests/outbox/test_prune.py::test_g6_parked_messages_and_their_attempts_are_never_pruned",
    ),
    Mutant(
        "commit boundary: publish only inside transaction()",
        "app/outbox/publish.py",
        "if not session.info.get(IN_TRANSACTION) or",
        "if",
        "tests/outbox/test_publish.py::test_publish_outside_transaction_raises",
    ),
    Mutant(
        "commit boundary: nothing commits before the block ends",
        "app/outbox/publish.py",
        "    return [Published(row.id, counts[row.id]) for row in rows]\n",
        "    await (await session.connection()).commit()\n"
        "    return [Published(row.id, counts[row.id]) for row in rows]\n",
        "tests/outbox/test_publish.py::test_g1_a_rollback_stores_no_event_and_no_message",
    ),
    Mutant(
        "claims wait for the disk",
        "app/outbox/driver.py",
        "set_config('jit', 'off', $3)",
        "set_config('jit', 'off', $3), set_config('synchronous_commit', 'off', $3)",
        "tests/outbox/test_driver.py::test_every_write_waits_for_the_disk",
    ),
    Mutant(
        "a request only for a lease that outlives it",
        "app/relay/leases.py",
        "return not held.taken_over and time.monotonic() - held.leased_at <= self._longest_wait",
        "return True",
        "tests/relay/test_leases.py",
    ),
    Mutant(
        "leases are extended while held",
        "app/relay/upkeep.py",
        'self._every("extend", self._leases.beat_seconds, self._leases.extend),',
        "",
        RELAY + "test_g2_a_lease_is_extended_as_long_as_the_message_is_held",
    ),
    Mutant(
        "a tenant's endpoints have one share together",
        "app/relay/owner.py",
        "self._tenant_of[destination] = tenant\n",
        "self._tenant_of[destination] = destination\n",
        "tests/relay/test_owners.py::test_g8_a_fresh_message_is_next_while_one_tenant_holds_all",
    ),
    Mutant(
        "nothing is in flight beside a twice lost message",
        "app/relay/gate.py",
        "        self._open.clear()\n",
        "",
        "tests/relay/test_suspects.py::test_a_twice_lost_message_goes_alone",
    ),
    Mutant(
        "the status line decides",
        "app/webhooks/http1.py",
        "        elif self._status >= 200:\n            self._finish(keep=False)\n",
        "",
        "tests/webhooks/test_sender.py::test_a_status_counts_whatever_happens_to_the_rest",
    ),
    Mutant(
        "SSRF: an address is judged before it is connected to",
        "app/webhooks/connect.py",
        "    if rule is not None:",
        "    if rule is not None and not host:",
        "tests/webhooks/test_sender.py::test_a_forbidden_address_is_never_connected_to",
    ),
    Mutant(
        "CSRF: the session's token is asked for",
        "app/admin/gate.py",
        "or foreign or not token or not same:",
        "or foreign or not token:",
        "tests/admin/test_gate.py::test_the_token_of_another_session_is_refused",
    ),
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a mutant ended."""

    mutant: Mutant
    word: str
    seconds: float


def edited(mutant: Mutant, folder: Path) -> bool:
    """Make the edit; False when its place is not there, or there is more than one."""
    path = folder / mutant.path
    source = path.read_text()
    if source.count(mutant.old) != 1:
        return False
    path.write_text(source.replace(mutant.old, mutant.new))
    return True


def tested(folder: Path, *tests: str) -> bool:
    """Whether the tests pass there."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=SECONDS)
    if done.returncode not in (0, 1):  # an error of the run itself is no verdict
        raise SystemExit(done.stdout.decode() + done.stderr.decode())
    return done.returncode == 0


def tried(mutant: Mutant) -> Verdict:
    """Run its test in a copy of the template with the edit."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        folder = Path(place) / "template"
        ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "data")
        shutil.copytree(TEMPLATE, folder, ignore=ignored)
        word = "NO SUCH PLACE"
        if edited(mutant, folder):
            word = "SURVIVED" if tested(folder, mutant.test) else "caught"
    return Verdict(mutant, word, time.monotonic() - started)


def main() -> int:
    """Try each and print the table; 1 unless every one is caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="words that a name contains")
    names = parser.parse_args().names
    chosen = [m for m in MUTANTS if not names or any(name in m.name for name in names)]
    if not tested(TEMPLATE, *sorted({mutant.test for mutant in chosen})):
        print("the tests fail without any mutant: nothing is proven", file=sys.stderr)
        return 1
    verdicts = []
    for mutant in chosen:
        verdicts.append(tried(mutant))
        last = verdicts[-1]
        print(f"{last.word:<14}{mutant.name:<58}{last.seconds:>5.0f} s  {mutant.test}", flush=True)
    caught = sum(verdict.word == "caught" for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} caught")
    return int(caught < len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
