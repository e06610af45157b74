"""Which numbers do servers offer for monitoring, and what does each say?

`/metrics` shows these sentences beside the numbers, and `docs/reference/metrics.md` is written from them. A
name in the code that is not here fails `make check`, and so does a name here that the code does not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

METRICS: Final[Mapping[str, Mapping[str, str]]] = {
    "Every server": {
        "maia_certificates_expiring": "own certificates that end within `expiry_days` and are not renewed",
        "maia_certificate_expiry_seconds": "seconds until the first certificate ends that is not renewed",
        "maia_failures_total": "errors in the server itself; each has a log line `failed`",
        "maia_links_waiting": "connections whose right to connect is not known yet",
        "maia_links_failed_total": "connections to others that could not be opened, by code",
        "maia_links_refused_total": "connections that were refused, by code",
        "maia_handshakes_failed_total": "connections that ended before the peer had proved its key, by code",
        "maia_refused_total": "requests that were refused, by code",
        "maia_grants_left_out_total": "requests of a holder with more grants than the limit counts",
        "maia_statements_received_total": "validity statements that were accepted",
        "maia_statements_refused_total": "validity statements that were refused, by code",
        "maia_challenges_total": "one-time questions that were sent",
        "maia_late_answers_total": "answers to one-time questions that came too late",
        "maia_types": "versions of event types that are known",
    },
    "Brokers": {
        "maia_clients": "connected clients",
        "maia_peers": "connected brokers",
        "maia_certificates": "certificates that are remembered",
        "maia_subscriptions": "subscriptions of connected clients",
        "maia_advertisements": "advertisements of connected clients",
        "maia_rows_published_total": "events that clients of this broker published",
        "maia_duplicates_total": "frames that arrived more than once, of which one was used",
        "maia_late_frames_total": "frames behind a newer one of their stream, which were not delivered",
        "maia_frames_refused_total": "frames that were refused, by code",
        "maia_frames_unwanted_total": "frames that neither a client nor another broker wanted",
        "maia_frames_unread_total": "sealed frames that were forwarded without a key",
        "maia_frames_waiting_total": "sealed frames that had to wait for a key",
        "maia_plaintext_dropped_total": "plaintexts beside ciphertexts that were not equal to them",
        "maia_projections_lost_total": "events of a sub-type that could not be published as its super-type",
        "maia_requirements_unmet_total": "durable deliveries whose requirements were not met at that moment",
        "maia_states_sent_total": "answers to questions for the current state",
        "maia_summaries_delivered_total": "rows of summaries that were delivered",
        "maia_summaries_left_out_total": "rows of summaries that were withheld or too late",
        "maia_ended_total": "subscriptions and advertisements that the broker ended, by code",
        "maia_rights_changed_total": "subscriptions that go on with other rights than before",
        "maia_own_certificates_changed_total": "times that the broker's own certificates changed",
        "maia_identities_refused_total": "identity statements that were refused, by code",
        "maia_links_slowed_total": "times that a broker was read later, because it had used up its share",
        "maia_interests_narrowed_total": "filters of other brokers that reach further than their proof",
        "maia_replicas_not_proved_total": "copied routes whose proof did not hold when they were needed",
        "maia_syncs_overdue_total": "clients answered before all brokers knew of their requests (3 s passed)",
        "maia_syncs_dropped_total": "such questions of one neighbour that were too many at once",
        "maia_aggregates_merged_total": "times that filters of clients were merged anew",
        "maia_spilled_rows_total": "events that arrived because filters were merged, and were not wanted",
        "maia_spill_reported_bytes_total": "bytes that neighbours report as sent to them for nothing",
        "maia_spill_reports_ignored_total": "such reports that came too often",
        "maia_keys_followed_total": "new keys of sealed types that were received",
        "maia_keys_missed_total": "new keys that were missed, so that they were asked for again",
        "maia_keys_refused_total": "answers of key servers that give no keys, by code",
        "maia_keys_distrusted_total": "answers of key servers that did not hold, by code",
        "maia_recorded_total": "frames for the event log",
        "maia_log_position": "position of the last frame that is safely on disk",
        "maia_log_unsafe": "recorded frames that are not on disk yet",
        "maia_log_unsafe_bytes": "bytes of these",
        "maia_log_types": "types that are recorded",
        "maia_log_cursors": "durable subscriptions that are remembered",
        "maia_log_cursors_attached": "durable subscriptions whose client is connected",
        "maia_log_farthest_behind": "frames that the slowest durable subscription has not acknowledged",
        "maia_log_bytes": "bytes of the event log on disk",
        "maia_log_waiting_bytes": "bytes that wait to be written to it",
    },
    "Domain servers": {
        "maia_members": "connected members of key groups",
        "maia_versions": "versions of sealed types whose keys are managed",
        "maia_evicted": "members that were excluded from key groups",
        "maia_revoked": "revoked certificates that are remembered",
        "maia_key_joins_total": "members that were admitted to key groups",
        "maia_key_epochs_total": "epochs that were begun",
        "maia_key_refreshes_total": "key groups that got a new key, by reason (`why`)",
        "maia_key_shut_out_total": "members that lost a key group, by code",
        "maia_history_keys_total": "answers with keys of past epochs",
    },
    "PostgreSQL connectors": {
        "maia_postgres_ready": "1 while every store and release works",
        "maia_postgres_events_stored_total": "events that were stored in tables",
        "maia_postgres_rows_released_total": "rows that were published",
    },
}
"""What each metric says, by the kind of server that has it."""
