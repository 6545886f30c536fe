"""Rows of the conformance page: Grit."""

from tools.conformance_row import Source, no, yes

GRIT = Source(
    "Grit",
    "From the post “Your Webhook Fired but the Order Never Saved: The Transactional Outbox in Go”.",
    {
        "Writing": (
            yes(
                "Order and message are two rows of one transaction",
                "The example feature does it; the event that cannot be stored takes the order along",
                "orders/test_orders.py::test_g1_an_order_whose_event_can_not_be_stored_is_not_stored",
                "orders/test_orders.py::test_g1_a_commit_that_fails_gives_5xx_and_leaves_no_order_no_event_no_message",
                "outbox/test_publish.py::test_g1_a_rollback_stores_no_event_and_no_message",
            ),
            yes(
                "A process that is killed after the commit loses nothing",
                "Killed at that very instant",
                "crash/test_windows.py::test_window_3_the_api_dies_between_the_commit_and_the_announcement",
            ),
            yes(
                "Effects other than webhooks: a receipt, a mail, a call to a third party",
                "Handlers: async functions of the project with lease, policy and parking",
                "orders/test_receipts.py::test_a_paid_order_gets_its_receipt",
                "handlers/test_publish.py::test_a_message_for_a_handler_goes_the_way_of_every_message",
                "handlers/test_publish.py::test_g1_a_rollback_owes_a_handler_nothing",
            ),
            yes(
                "`grit new` writes all of it",
                "`scaffolder new`; the first webhook arrives verified",
                "tests/acceptance/test_main_job.py::test_the_quick_start_of_the_readme_ends_in_a_verified_webhook",
            ),
        ),
        "The relay": (
            yes(
                "Rows are claimed, so two replicas do not both send",
                "One claim each, by any number of relays",
                "outbox/test_store.py::test_concurrent_claimers_claim_each_message_once",
                "relay/test_many_relays.py::test_relays_share_the_work_and_deliver_each_message_once",
            ),
            yes(
                "A lease: what a dead process held is taken over",
                "And renewed while the message is held. A slow request has to end before its lease,"
                " so a short one makes no duplicates",
                "relay/test_relay.py::test_g4_a_message_of_a_dead_relay_is_delivered_by_another",
                "relay/test_leases.py::test_no_request_starts_that_might_outlive_its_lease",
                "relay/test_leases.py::test_what_another_relay_has_taken_over_is_never_started",
            ),
            yes(
                "At least once, and the receiver recognises the repetition by its id",
                "A second arrival only after an attempt without a recorded 2xx, under the same id",
                "webhooks/test_deliverer.py::test_g5_every_attempt_carries_the_same_webhook_id",
                "inbox/test_killed_sender.py::test_window_8_a_sender_killed_between_answer_and_record_makes_a_receiver_act_once",
            ),
            no(
                "A relay may be limited to some types",
                "Every relay takes every type, so that none is forgotten. A slow type delays no other:"
                " endpoints take turns",
            ),
            yes(
                "Oldest first",
                "Among those of an endpoint; endpoints take turns",
                "outbox/test_store.py::test_a_claim_takes_what_there_is_room_for_oldest_first",
                "relay/test_lanes.py::test_whoever_was_asked_and_not_served_comes_first_next_time",
            ),
        ),
        "Trying again": (
            yes(
                "From 5 s, doubling, at most 30 min, 12 attempts",
                "The same numbers, with jitter. They come to 1 h 43 min, not to the five hours that"
                " the post names; the real span is shown with the policy",
                "relay/test_relay.py::test_g7_the_schedule_is_in_the_row_and_ends_parked",
                "outbox/test_policy.py::test_the_span_is_what_really_happens",
            ),
            yes(
                "The next attempt is in `available_at` and survives a restart",
                "Each attempt of the test is made by a relay that has just started",
                "relay/test_relay.py::test_g7_the_schedule_is_in_the_row_and_ends_parked",
                "outbox/test_store.py::test_a_message_that_is_not_due_is_not_claimed",
            ),
            yes(
                "Parked, not deleted",
                "Until a person acts; retention leaves parked messages and their attempts alone",
                "outbox/test_prune.py::test_g6_parked_messages_and_their_attempts_are_never_pruned",
                "db/test_migrations.py::test_parked_messages_is_a_view_that_can_be_read",
            ),
        ),
        "What it costs there, and here": (
            yes(
                "Each message waits for the next poll",
                "The commit wakes the relay, also one in another process",
                "relay/test_relay.py::test_a_running_relay_delivers_at_once_what_is_committed",
                "relay/test_wakeup.py::test_a_commit_in_one_process_wakes_the_relay_of_another",
            ),
            yes(
                "A table that grows and needs sweeping; what was sent stays as a trail",
                "Messages go after 7 days, the log of attempts after 90; claims do not slow down",
                "outbox/test_prune.py::test_sent_and_dismissed_messages_go_after_their_days",
                "outbox/test_prune.py::test_attempts_outlive_their_message_as_the_audit_trail",
                "relay/test_budget.py::test_a_claim_takes_no_longer_with_a_million_sent_rows",
            ),
            yes(
                "No strict order: a retried message arrives after later ones",
                "So too by default. With an ordering key and `strict`, none does",
                "relay/test_order.py::test_g10_nothing_arrives_out_of_order_though_one_in_ten_attempts_fails",
                "relay/test_order.py::test_g10_each_failed_attempt_is_repeated_before_the_next_message",
            ),
            yes(
                "A relay that has stopped is silent, so the number of pending rows is watched",
                "The age of the oldest due message as well, by servers that do not relay",
                "relay/test_gauges.py::test_a_server_without_a_relay_shows_that_nobody_delivers",
                "relay/test_gauges.py::test_an_empty_outbox_shows_zeros",
                "outbox/test_messages.py::test_stats_count_by_status_and_tell_the_oldest_age",
            ),
        ),
    },
)
