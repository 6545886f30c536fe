"""Rows of the conformance page: Railhook."""  # size: one table, nothing but data

from tools.conformance_row import Source, no, partly, yes

WINDOWS = "crash/test_windows.py::"

RAILHOOK = Source(
    "Railhook",
    "From the post “The transactional outbox, or how Railhook never loses an event it has"
    " accepted”; the outgoing side.",
    {
        "Accepting": (
            yes(
                "The event and what it owes are stored in one transaction, whole or not at all",
                "`publish` inside `transaction()`: business row, event and messages commit together;"
                " outside of one it refuses",
                "outbox/test_publish.py::test_g1_a_rollback_stores_no_event_and_no_message",
                "outbox/test_publish.py::test_g1_a_commit_that_fails_raises_and_stores_nothing",
                "orders/test_orders.py::test_g1_a_commit_that_fails_gives_5xx_and_leaves_no_order_no_event_no_message",
                "outbox/test_publish.py::test_publish_outside_transaction_raises",
            ),
            yes(
                "One row for each matching subscription, written in that transaction",
                "One message for each endpoint, however many of its patterns match",
                "outbox/test_publish.py::test_an_event_owes_one_message_to_each_subscribed_destination",
                "outbox/test_routing.py::test_a_destination_gets_one_message_however_many_of_its_patterns_match",
            ),
            yes(
                "`Idempotency-Key`: a repeated POST gets the event of the first one",
                "The same status and bytes; another body under a used key is 422",
                "api/test_idempotency.py::test_the_second_request_gets_the_first_answer_and_stores_nothing",
                "api/test_idempotency.py::test_another_body_under_a_used_key_is_refused_by_name",
            ),
            yes(
                "Of two repetitions at the same time the loser gets the winner's event",
                "A unique index decides; all callers get the one answer",
                "api/test_idempotency.py::test_of_requests_at_the_same_time_one_is_carried_out_and_all_get_its_answer",
                "cli/test_concurrent_posts.py::test_a_thousand_posts_with_a_hundred_keys_are_a_hundred_events",
            ),
            yes(
                "Writes that may be lost are named",
                "A page lists them all: `docs/disagree.md`. The row proved here is the wake-up",
                "relay/test_relay.py::test_a_message_that_nobody_announced_is_found_by_the_poll",
                "relay/test_wakeup.py::test_without_a_server_neither_notifier_nor_listener_raises",
            ),
            no(
                "A monthly quota, counted in Redis",
                "Nobody is billed by a generated project. Limits are those of an endpoint",
            ),
        ),
        "From the table to the sender": (
            yes(
                "Batches claimed with SKIP LOCKED; the transaction ends before anything is sent",
                "No transaction is open while a request is out",
                "outbox/test_store.py::test_concurrent_claimers_claim_each_message_once",
                "relay/test_relay.py::test_g9_no_transaction_is_open_while_a_deliverer_works",
                "webhooks/test_deliverer.py::test_g9_no_transaction_is_open_while_a_request_is_out",
            ),
            yes(
                "A poll every second, by one instance at a time",
                "Woken by the commit; the poll (1 s) is the backstop. Any number of relays at once",
                "relay/test_wakeup.py::test_a_commit_in_one_process_wakes_the_relay_of_another",
                "relay/test_wakeup.py::test_poll_only_relays_need_no_listener",
                "relay/test_many_relays.py::test_relays_share_the_work_and_deliver_each_message_once",
            ),
            yes(
                "At most ten rows of one endpoint in a batch: a burst starves nobody",
                "A limit in flight for each endpoint, and turns between endpoints",
                "relay/test_relay.py::test_g8_a_blocked_destination_delays_no_other",
                "relay/test_stretch.py::test_g8_more_slow_destinations_than_senders_delay_no_other",
                "relay/test_lanes.py::test_no_destination_exceeds_its_limit_in_flight",
                "webhooks/test_end_to_end.py::test_g8_a_stalled_endpoint_delays_no_other",
            ),
            yes(
                "At most thirty rows of one project in a batch",
                "Tenants take turns, whatever the number of their endpoints, and one alone may not have"
                " all senders",
                "relay/test_owners.py::test_owners_take_turns_however_many_destinations_they_have",
                "relay/test_owners.py::test_g8_a_tenant_with_a_hundred_slow_endpoints_delays_no_other",
            ),
            yes(
                "When the next stage is away, rows wait and are late, not lost",
                "There is no stage between table and receiver; a database that fails is survived",
                "relay/test_relay.py::test_a_database_error_is_survived",
                "relay/test_many_relays.py::test_a_relay_whose_connections_are_cut_goes_on",
            ),
            yes(
                "A sweep finds what is owed and was never announced",
                "Every poll does: what is due is due whether or not anybody was told",
                "relay/test_relay.py::test_a_message_that_nobody_announced_is_found_by_the_poll",
                WINDOWS + "test_window_3_the_api_dies_between_the_commit_and_the_announcement",
            ),
            no(
                "Kafka between outbox and senders",
                "The table is the queue, which that post calls enough where PostgreSQL is the only"
                " store. See [the decision](../template/docs/decisions/0004-no-broker.md)",
            ),
        ),
        "Claims and fences": (
            yes(
                "A conditional claim: one sender gets the row, every other copy matches nothing",
                "A live lease is claimed by nobody else, also over a crash of the server",
                "outbox/test_store.py::test_g2_a_live_lease_is_never_claimed",
                "crash/test_server_crash.py::test_g2_a_claim_survives_a_crash_of_the_server",
                WINDOWS + "test_window_5_an_announcement_that_comes_many_times_is_one_message",
            ),
            yes(
                "`claim_token` guards the writes of whoever lost the claim",
                "Settle, extend, defer and release all carry the token; a lost write is counted",
                "outbox/test_store.py::test_g3_only_the_token_that_claimed_may_write",
                "outbox/test_store.py::test_g3_a_lost_settle_writes_nothing",
                "relay/test_relay.py::test_g3_an_outcome_that_comes_after_a_takeover_is_lost_and_counted",
            ),
            yes(
                "A late acknowledgement of a row that was taken over changes nothing",
                "The same token. If nobody has taken over, the late outcome counts",
                WINDOWS + "test_window_7_a_stalled_relay_wakes_up_after_another_has_taken_over",
                "outbox/test_store.py::test_a_late_outcome_that_nobody_has_reclaimed_counts",
            ),
            yes(
                "No next attempt unless the end of this one was written",
                "Outcome and next due time are one statement with the token in it",
                "outbox/test_store.py::test_g3_a_claim_settles_once",
                "outbox/test_state_machine.py::test_g2_g3_g6_no_history_breaks_a_promise",
            ),
            yes(
                "Claims older than five minutes are handed back",
                "A lease of 60 s, extended while the message is held; the loss is in the log",
                "relay/test_relay.py::test_g4_a_message_of_a_dead_relay_is_delivered_by_another",
                "relay/test_relay.py::test_g2_a_lease_is_extended_as_long_as_the_message_is_held",
                "outbox/test_store.py::test_a_claim_whose_lease_ran_out_is_logged_as_lost_and_goes_alone",
                "crash/test_lost_relays.py::test_g4_a_relay_frozen_inside_its_claim_delays_nothing_beyond_the_lease",
            ),
            yes(
                "No database work between the answer and the outcome that could turn a success"
                " into a failure",
                "The outcome is decided by the answer alone, then settled; a broken policy or"
                " database cannot change it",
                "relay/test_relay.py::test_what_was_delivered_stays_delivered_when_the_policy_is_broken",
                "relay/test_relay.py::test_an_outcome_that_no_database_can_hold_holds_back_no_other",
                "outbox/test_store.py::test_a_settle_whose_answer_was_lost_is_found_in_the_log",
            ),
            yes(
                "Accepted is never lost, whatever is killed",
                "API, relays and database are killed, frozen and cut off; a ledger compares",
                "crash/test_storm.py::test_g4_g5_nothing_is_lost_or_stuck_whatever_is_killed",
            ),
        ),
        "The eight windows for a duplicate": (
            yes(
                "1. The client repeats its POST",
                "`Idempotency-Key`; the server is killed between commit and answer",
                WINDOWS + "test_window_1_the_api_dies_after_the_commit_and_before_its_answer",
            ),
            partly(
                "2. A provider sends its webhook again",
                "The inbox and `once()` recognise the id. Ready-made receiving addresses for"
                " providers do not exist: a project writes the route",
                WINDOWS + "test_window_2_a_webhook_that_is_sent_again_acts_once",
                "inbox/test_inbox.py::test_of_deliveries_at_the_same_time_exactly_one_acts",
            ),
            yes(
                "3. The process ends after the commit and before anybody is told",
                "Killed at that instant; the poll finds the row",
                WINDOWS + "test_window_3_the_api_dies_between_the_commit_and_the_announcement",
            ),
            yes(
                "4. The publisher dies before it marks the row",
                "Here: a relay dies between claim and request. Sent once, after the lease",
                WINDOWS + "test_window_4_a_relay_dies_between_its_claim_and_the_request",
            ),
            yes(
                "5. The announcement comes many times",
                "Two relays, many notifications: one claim each",
                WINDOWS + "test_window_5_an_announcement_that_comes_many_times_is_one_message",
            ),
            yes(
                "6. Two parties write one row",
                "Here: a person's retry and a stalled relay",
                WINDOWS + "test_window_6_a_person_and_a_stalled_relay_write_the_same_message",
            ),
            yes(
                "7. A stalled sender wakes up after a takeover",
                "One outcome is written, the other is lost and counted",
                WINDOWS + "test_window_7_a_stalled_relay_wakes_up_after_another_has_taken_over",
            ),
            yes(
                "8. The receiver answered and nobody wrote it down: open for every sender",
                "Repeated under the same `webhook-id`; the receiver's inbox closes it",
                WINDOWS + "test_window_8_a_relay_dies_between_the_answer_and_its_record",
                "inbox/test_killed_sender.py::test_window_8_a_sender_killed_between_answer_and_record_makes_a_receiver_act_once",
            ),
        ),
        "The answer, and trying again": (
            yes(
                "A 2xx counts at its status line, whatever the body does",
                "Also when headers or body stall, drip or break off",
                "webhooks/test_http1.py::test_a_2xx_status_line_is_a_delivery_whatever_follows",
                "webhooks/test_sender.py::test_a_status_counts_whatever_happens_to_the_rest",
                "webhooks/test_http1_fuzz.py::test_only_a_2xx_status_line_is_a_delivery_and_each_request_goes_out_once",
            ),
            yes(
                "408, 429, 5xx, timeouts and connection errors are tried again",
                "425 as well; rules per status can be given to an endpoint",
                "webhooks/test_outcomes.py::test_what_may_pass_is_tried_again",
                "webhooks/test_sender.py::test_no_status_is_told_apart_by_its_cause",
                "webhooks/test_sender.py::test_a_closed_port_is_a_failed_connection",
                "webhooks/test_outcomes.py::test_the_policy_may_have_rules_for_statuses",
            ),
            yes(
                "Any other 4xx, and every 3xx, goes straight to a person",
                "Parked `rejected`; redirects are not followed. 410 also disables the endpoint",
                "webhooks/test_outcomes.py::test_a_refusal_is_parked_at_once",
                "webhooks/test_sender.py::test_a_redirect_is_not_followed",
                "webhooks/test_deliverer.py::test_410_parks_the_message_and_disables_the_endpoint",
            ),
            yes(
                "A timeout for the attempt, 30 s by default",
                "15 s in total by default, connect and body included; an endpoint may have its own,"
                " up to the lease less 2 s",
                "webhooks/test_deliverer.py::test_an_endpoints_own_timeout_counts",
                "webhooks/test_endpoints.py::test_the_longest_timeout_is_the_lease_less_its_margin",
            ),
            yes(
                "A ladder: 7 attempts over 31 h 21 min",
                "`--retry 1m,5m,15m,1h,6h,24h` is that ladder. The default is exponential, 12"
                " attempts over 1 h 43 min; the real span is shown",
                "outbox/test_policy.py::test_the_span_is_what_really_happens",
                "outbox/test_policy.py::test_the_attempts_that_are_made_are_the_span_that_is_shown",
                "cli/test_endpoints.py::test_a_retry_policy_and_limits_are_given_changed_and_taken_back",
            ),
            yes(
                "Jitter, 50 to 150 %",
                "The same for ladders; 80 to 120 % for the exponential policy; can be set",
                "outbox/test_policy.py::test_waits_are_spread_by_the_jitter_to_either_side",
            ),
            partly(
                "A hard cap of 96 hours",
                "`max_age_seconds` parks as `expired` before an attempt that would come later. It has"
                " no default, and waiting without attempts (deferrals) is not ended by it",
                "outbox/test_policy.py::test_the_span_is_what_really_happens",
                "outbox/test_policy.py::test_retry_after_is_capped_and_never_earlier_than_the_plan",
            ),
            yes(
                "The schedule is in the row",
                "`available_at`; each attempt of the test is made by a relay that has just started",
                "relay/test_relay.py::test_g7_the_schedule_is_in_the_row_and_ends_parked",
            ),
        ),
        "Deferrals": (
            yes(
                "Breaker and limits release the claim and spend no attempt",
                "The same, fenced by the token; the reason is visible",
                "webhooks/test_limits.py::test_a_deferral_costs_no_attempt_and_the_reason_is_visible",
                "outbox/test_store.py::test_release_gives_the_attempt_back",
            ),
            yes(
                "A circuit breaker",
                "Shared by all relays; one probe per open period",
                "webhooks/test_limits.py::test_a_dead_endpoint_costs_at_most_one_probe_per_open_period",
                "webhooks/test_limits.py::test_an_open_breaker_costs_no_claims_and_delays_no_other",
            ),
            yes(
                "A rate limit",
                "`rate_per_second`, kept by all relays together",
                "webhooks/test_limits.py::test_the_rate_and_what_is_in_flight_are_kept",
                "webhooks/test_pace.py::test_no_stretch_of_time_sees_more_starts_than_the_rate_allows",
            ),
            yes(
                "A concurrency limit",
                "`max_in_flight`, kept by all relays together",
                "webhooks/test_limits.py::test_two_relays_together_keep_the_limits_and_deliver_everything",
            ),
        ),
        "Order": (
            yes(
                "Opt-in",
                "A field of the endpoint; order is per ordering key, so one bad event holds up its"
                " key and not the whole endpoint",
                "webhooks/test_ordering.py::test_ordering_is_a_field_of_the_endpoint",
                "relay/test_order.py::test_g10_strict_a_parked_message_blocks_its_key_alone_until_it_is_dismissed",
            ),
            yes(
                "Sequence numbers that a rollback does not burn, sent in a header",
                "Taken right before COMMIT: their order is the order of commits. `webhook-sequence`",
                "outbox/test_sequences.py::test_a_rollback_burns_no_sequence",
                "outbox/test_sequences.py::test_a_watcher_never_sees_a_lower_sequence_after_a_higher_one",
                "outbox/test_sequences.py::test_two_writers_with_opposite_key_orders_never_deadlock",
                "webhooks/test_ordering.py::test_an_ordered_request_carries_its_sequence_and_no_other_does",
            ),
            yes(
                "Whoever has predecessors waits, without spending an attempt",
                "It is not even claimed until its turn comes",
                "relay/test_order.py::test_g10_nothing_arrives_out_of_order_though_one_in_ten_attempts_fails",
                "relay/test_order.py::test_g10_two_relays_keep_the_order_too",
                "outbox/test_ordering_histories.py::test_g10_no_history_lets_a_message_go_that_has_to_wait",
            ),
            yes(
                "After 60 s of its own waiting it goes anyway, and that is counted",
                "`yield` with `gap_seconds`; beside it `strict` and `skip`",
                "relay/test_order.py::test_g10_yield_goes_on_after_the_gap_and_counts_it",
                "outbox/test_ordering.py::test_yield_a_message_goes_after_the_gap_from_its_own_first_wait",
                "relay/test_order.py::test_g10_skip_goes_on_at_once_and_counts_the_gap",
            ),
            yes(
                "Order through an outage for those who ask for it",
                "`strict`: a parked message blocks its key until a person acts; blocked keys are"
                " counted for an alert",
                "outbox/test_ordering.py::test_strict_a_parked_message_blocks_until_it_is_retried",
                "outbox/test_ordering.py::test_keys_that_are_blocked_are_counted",
            ),
        ),
        "What the receiver gets": (
            yes(
                "Standard Webhooks headers; the signature covers id, timestamp and body",
                "Verified by the official libraries. Signatures of kind v1a (ed25519) can be chosen",
                "webhooks/test_signing.py::test_the_published_vectors_come_out",
                "webhooks/test_libraries.py::test_a_request_is_verified_by_the_libraries_of_python",
                "webhooks/test_libraries.py::test_a_request_is_verified_by_the_libraries_of_javascript",
            ),
            yes(
                "`webhook-id` is the same on every attempt, the timestamp is fresh",
                "A receiver recognises each repetition, and refuses a request whose time is long past",
                "webhooks/test_deliverer.py::test_the_official_library_verifies_what_arrives",
                "webhooks/test_signing.py::test_a_bad_request_is_refused_with_its_reason",
                "webhooks/test_deliverer.py::test_g5_every_attempt_carries_the_same_webhook_id",
            ),
            yes(
                "A receiver that stores the id in the transaction of its work",
                "`once()` in a project, and a receiver of one file for any other system",
                "inbox/test_inbox.py::test_the_second_delivery_of_an_id_is_recognised",
                "inbox/test_inbox.py::test_a_rollback_forgets_the_id",
                "docs/test_receiving.py::test_a_receiver_acts_once_on_a_repeated_message",
                "docs/test_receiving.py::test_a_receiver_that_fails_acts_on_the_next_attempt",
            ),
            yes(
                "The id of the event travels too, for replays",
                "`webhook-event-id`",
                "webhooks/test_end_to_end.py::test_an_event_reaches_every_subscriber_signed_with_its_own_secret",
            ),
        ),
        "People": (
            yes(
                "What failed for good waits for a person",
                "Parked with a reason; a retry keeps the id, a dismissal keeps its reason",
                "outbox/test_prune.py::test_g6_parked_messages_and_their_attempts_are_never_pruned",
                "webhooks/test_end_to_end.py::test_a_rejected_message_is_parked_and_a_retry_delivers_it_under_the_same_id",
                "outbox/test_messages.py::test_a_dismissed_message_is_closed_for_good",
            ),
            yes(
                "Many are retried at once",
                "By filter, at a pace, with a dry run; each step is audited",
                "outbox/test_bulk_retry.py::test_batch_after_batch_is_committed_with_its_own_record",
                "outbox/test_bulk_retry.py::test_a_run_that_is_cut_off_goes_on_when_it_is_run_again",
                "cli/test_parked.py::test_retry_all_needs_to_be_said_and_can_be_tried_dry",
            ),
            yes(
                "Replay: a stored event again, under a new `webhook-id`",
                "By range and filter, at a pace; cut off, a relay finishes it",
                "outbox/test_replay.py::test_each_endpoint_that_had_a_message_gets_a_new_one_of_the_same_event",
                "outbox/test_replay.py::test_a_replay_cut_off_anywhere_is_finished_by_whoever_comes",
            ),
            partly(
                "A dashboard",
                "Pages for parked messages only: list, attempts, retry, dismiss. Everything else is"
                " the command line and the API",
                "admin/test_pages.py::test_a_message_shows_its_attempts_its_answer_and_its_body",
                "admin/test_pages.py::test_retry_makes_it_pending_and_is_audited",
                "browser/test_retried.py::test_a_message_parked_by_a_receiver_is_retried_on_the_page_and_arrives",
            ),
            yes(
                "A command line",
                "Endpoints, messages, parked, retry, replay, listen and more",
                "cli/test_help.py::test_every_command_is_there",
                "cli/test_help.py::test_every_command_option_and_argument_has_help",
                "cli/test_listen.py::test_it_prints_what_a_test_sends_and_that_it_is_verified",
            ),
        ),
        "Running it": (
            yes(
                "The age of the oldest row that is due, and how many there are, as metrics",
                "Shown by every server, so that a stopped relay is seen",
                "relay/test_gauges.py::test_the_gauges_tell_how_long_the_oldest_message_has_been_due",
                "relay/test_gauges.py::test_a_server_without_a_relay_shows_that_nobody_delivers",
                "docs/test_operations.py::test_the_page_explains_every_metric_and_no_other",
            ),
            yes(
                "Sent rows go after three days, in bounded batches; given-up ones after ninety",
                "Sent after 7 days, can be set; parked ones never, only a person closes them",
                "outbox/test_prune.py::test_sent_and_dismissed_messages_go_after_their_days",
                "outbox/test_prune.py::test_many_rows_go_in_many_batches",
                "outbox/test_prune.py::test_a_run_ends_when_its_time_is_over_and_the_next_goes_on",
            ),
            yes(
                "One command on one machine",
                "`dev`, or `serve` on a SQLite file: no other service is needed",
                "tests/acceptance/test_main_job.py::test_the_quick_start_of_the_readme_ends_in_a_verified_webhook",
                "cli/test_serve.py::test_one_process_serves_and_relays_on_a_sqlite_file",
            ),
            no(
                "Change data capture (named there as a step for later, not built either)",
                "A commit wakes the relay, so the delay of a poll is gone; a replication slot that"
                " nobody reads would hold the log on disk",
            ),
        ),
        "The other direction": (
            no(
                "Incoming webhooks: sources, verifiers, a shorter ladder to pass them on",
                "Not part of a generated project yet. The inbox recognises what was seen (window 2),"
                " and `verify` checks Standard Webhooks signatures",
            ),
        ),
    },
)
