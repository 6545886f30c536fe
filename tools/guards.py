"""The guards of the generated application, each with the edit that takes it out."""

from dataclasses import dataclass

STORE = "tests/outbox/test_store.py::"
RELAY = "tests/relay/test_relay.py::"
ORDER = "tests/relay/test_order.py::"
PLANS = "tests/outbox/test_plans.py::"
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
    Mutant(
        "token in settle, PostgreSQL",
        POSTGRESQL,
        ') i WHERE {_by("m.id", "i.id")} AND m.claim_token = i.token',
        ') i WHERE {_by("m.id", "i.id")} AND i.token IS NOT NULL',
        f"{SETTLES_ONLY_MINE}[postgresql-settle]",
    ),
    *(
        Mutant(
            f"token in {write}, PostgreSQL",
            POSTGRESQL,
            'WHERE {_by("m.id", "i.id")} AND m.claim_token = i.token RETURNING m.id',
            'WHERE {_by("m.id", "i.id")} AND i.token IS NOT NULL RETURNING m.id',
            f"{SETTLES_ONLY_MINE}[postgresql-{write}]",
        )
        for write in ("extend", "release")
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
        "rows are locked in the order of their ids",
        POSTGRESQL,
        "    ORDER BY id\n  ) i WHERE",
        "  ) i WHERE",
        PLANS + "test_what_follows_a_claim_locks_its_rows_in_the_order_of_their_ids",
    ),
    Mutant(
        "no plan can walk a table",
        POSTGRESQL,
        'return f"{key} = ANY (ARRAY[{value}])"',
        'return f"{key} = {value}"',
        PLANS + "test_no_plan_of_the_relay_walks_a_table",
    ),
    Mutant(
        "the lowest sequence of a key goes first",
        "app/outbox/statements_ordered.py",
        "ORDER BY sequence LIMIT 1) AS head",
        "ORDER BY sequence DESC LIMIT 1) AS head",
        ORDER + "test_g10_each_failed_attempt_is_repeated_before_the_next_message",
    ),
    Mutant(
        "strict: a parked message holds its key",
        "app/outbox/tables.py",
        'ORDERED = "sent_at IS NULL AND dismissed_at',
        'ORDERED = "sent_at IS NULL AND parked_at IS NULL AND dismissed_at',
        ORDER + "test_g10_strict_a_parked_message_blocks_its_key_alone_until_it_is_dismissed",
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
        "what is cancelled within a delivery ends no relay",
        "app/relay/courier.py",
        "    return task is not None and task.cancelling() > 0\n",
        "    return True\n",
        RELAY + "test_a_deliverer_whose_inner_task_is_cancelled_has_failed_its_attempt",
    ),
    Mutant(
        "an answer that came before the stop counts",
        "app/relay/courier.py",
        "stop.outcome if isinstance(stop, Answered) else unanswered",
        "unanswered",
        "tests/webhooks/test_end_to_end.py::test_an_answer_that_came_before_the_stop_counts",
    ),
    Mutant(
        "what never started is given back at the end",
        "app/relay/sending.py",
        "            await self.release(unstarted)\n",
        "            pass\n",
        RELAY + "test_what_waits_at_a_closed_door_when_the_relay_stops_is_released",
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
