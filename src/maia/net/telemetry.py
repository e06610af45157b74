"""What does a broker tell its operator while it runs?

Log lines and metrics. A log line is an event with named fields: JSON where a
program reads it, one aligned line where a person watches. There is no line
for a publication, and no field for a secret: fields that could be one are
left out by name, and bytes are shown by their number only. Metrics count, and
name no principal; what a peer can choose never becomes a label beyond a limit.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate
from time import monotonic
from typing import IO, Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

# The numbers for monitoring, and what each says.
#
# `/metrics` shows these sentences beside the numbers, and `docs/reference/metrics.md` is written from them. A
# name in the code that is not here fails `make check`, and so does a name here that the code does not use.


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
        "process_resident_memory_bytes": "memory of the process (this and all `process_…` on Linux)",
        "process_open_fds": "files and connections that the process has open",
        "python_info": "which Python this is; `python_gc_…` count its garbage collections",
    },
    "Brokers": {
        "maia_clients": "connected clients",
        "maia_peers": "connected brokers",
        "maia_certificates": "certificates that are remembered",
        "maia_subscriptions": "subscriptions of connected clients",
        "maia_advertisements": "advertisements of connected clients",
        "maia_rows_published_total": "events that clients of this broker published",
        "maia_rows_delivered_total": "events that clients of this broker were sent, once for each subscriber",
        "maia_delivery_seconds": "seconds from publication (publisher's clock) to live delivery: a histogram",
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
        "maia_catch_up_frames_total": "frames that were missed and fetched from the logs of other brokers",
        "maia_catch_up_missed_total": "times that events are missing that no broker could send, by code",
        "maia_catch_up_served_total": "recorded frames that were sent to brokers that had missed them",
        "maia_catch_up_overflows_total": "frames left for the next fetch, because too much came meanwhile",
        "maia_catch_up_dropped_total": "requests of one neighbour for recorded frames that were too many",
        "maia_log_missing_events": "publications that the log lacks, by their numbers",
        "maia_log_position": "position of the last frame that is safely on disk",
        "maia_log_unsafe": "recorded frames that are not on disk yet",
        "maia_log_unsafe_bytes": "bytes of these",
        "maia_log_types": "types that are recorded",
        "maia_log_cursors": "durable subscriptions that are remembered",
        "maia_log_cursors_attached": "durable subscriptions whose client is connected",
        "maia_log_farthest_behind": "frames that the slowest durable subscription has not acknowledged",
        "maia_log_bytes": "bytes of the event log on disk",
        "maia_log_waiting_bytes": "bytes that wait to be written to it",
        "maia_log_is_full": "1 while the disk of the event log takes nothing",
        "maia_store_is_failing": "1 while the disk of the data folder takes nothing",
        "maia_log_place_upto": "position up to which the log is safe in its place",
        "maia_log_place_behind": "recorded frames that are not in the place of the log yet",
        "maia_log_place_failed": "1 while nothing can be put into the place of the log",
    },
    "Domain servers": {
        "maia_members": "connected members of key groups",
        "maia_versions": "versions of sealed types whose keys are managed",
        "maia_rights_expiring": "what this domain issued, ends within `expiry_days` and is not renewed",
        "maia_rights_expiring_next": "of these, those that end within two days",
        "maia_evicted": "members that were excluded from key groups",
        "maia_revoked": "revoked certificates that are remembered",
        "maia_key_joins_total": "members that were admitted to key groups",
        "maia_key_epochs_total": "epochs that were begun",
        "maia_key_refreshes_total": "key groups that got a new key, by reason (`why`)",
        "maia_key_shut_out_total": "members that lost a key group, by code",
        "maia_history_keys_total": "answers with keys of past epochs",
    },
    "Sharing servers": {
        "maia_share_rights": "rights to types that are watched",
        "maia_share_cache_bytes": "bytes of the files of shared tables",
        "maia_share_calls": "calls of recipients that are under way",
        "maia_share_queries": "answers with addresses of files since the server was started",
        "maia_share_rows": "rows of the files whose addresses were handed out",
        "maia_share_files": "files, or ranges of them, that were sent",
        "maia_share_bytes": "bytes of these",
        "maia_share_refused_total": "calls that were refused, by code",
    },
    "PostgreSQL connectors": {
        "maia_postgres_ready": "1 while every store and release works",
        "maia_postgres_events_stored_total": "events that were stored in tables",
        "maia_postgres_rows_released_total": "rows that were published",
    },
    "Continuous applications": {
        "maia_pipeline_batches_total": "batches that a continuous application has ended since it was started",
        "maia_pipeline_events_total": "events that were in them",
        "maia_pipeline_batch_seconds": "how long the last of them took",
        "maia_pipeline_lag_events": "events that its log has and it has not read (with --log)",
        "maia_pipeline_lag_seconds": "how much later the newest was published than what it has read",
        "maia_pipeline_log_missing": "publications that its log is known to lack",
        "maia_pipeline_state_rows": "rows that the application has to remember for later batches",
    },
}
"""What each metric says, by the kind of server that has it."""


LABEL_SETS_MAX: Final = 256
"""Combinations of labels that one metric remembers; the rest are counted together as `other`."""

_METRICS_MAX: Final = 256
_TEXT_MAX: Final = 300
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,99}")
_SECRET: Final = re.compile(r"secret|seed|passphrase|password|token|private|nonce", re.I)
_HELP: Final = {name: text for group in METRICS.values() for name, text in group.items()}
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_WORTH_A_WARNING: Final = frozenset(
    {
        "refused",
        "closing",
        "kept-dropped",
        "failed",
        "impaired",
        "expiring",
        "metrics-open",
        "log-full",
        "log-failed",
    }
)
_ROUTINE: Final = frozenset({"log-rolled", "dial-again"})
"""What happens again and again where all is well."""
_EXPECTED: Final = frozenset(
    {"UNAVAILABLE-LINK-NOT-NEEDED", "STATEMENT-OLD", "REFUSED-NO-KEY-GROUP", "SEALING-NOT-BY-A-MEMBER"}
)
"""Codes of what happens where nothing is wrong: two brokers dial each other at once, a list comes by
two ways, a broker asks for keys, or for events, of a sealed type whose grant was just revoked."""

_EXPECTED_AT_START: Final = _EXPECTED | {"UNAVAILABLE-STATEMENT-AWAITED"}
"""Codes of what is so for a moment when servers are started together: whoever is refused comes again."""
_STARTING_S: Final = 60.0


class Deliveries(Protocol):
    """How many rows were delivered, and how long after their publication."""

    @property
    def rows(self) -> int:
        """Return how many."""

    @property
    def timed(self) -> Sequence[int]:
        """Return rows by the first of `BOUNDS_S` that they took no longer than, and behind them the rest."""

    @property
    def seconds(self) -> float:
        """Return what all times come to."""


BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""The bounds of the histogram of delivery times."""


class _DeliveryMetrics(Collector):
    """Makes metrics of what was delivered when they are read, so that a delivery costs next to nothing."""

    def __init__(self, deliveries: Callable[[], Deliveries]) -> None:
        self._deliveries = deliveries

    def collect(self) -> Iterable[Metric]:
        found = self._deliveries()
        rows, times = "maia_rows_delivered_total", "maia_delivery_seconds"
        yield CounterMetricFamily(rows.removesuffix("_total"), _HELP[rows], value=found.rows)
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        summed = list(zip(bounds, accumulate(found.timed), strict=True))
        yield HistogramMetricFamily(times, _HELP[times], buckets=summed, sum_value=found.seconds)


class Telemetry:
    """The log and the metrics of one process."""

    def __init__(
        self,
        stream: IO[str],
        *,
        log_format: str = "auto",
        level: str = "info",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Write log lines to `stream`; `auto` means for people exactly if it is a terminal."""
        self._clock, self._began = clock, clock()
        for_people = log_format == "text" or (log_format == "auto" and stream.isatty())
        self._stream = stream
        self._least = _LEVELS[level]
        self._render = _for_people(colours=stream.isatty()) if for_people else _for_programs
        self._registry = CollectorRegistry(auto_describe=False)
        for own in (ProcessCollector, PlatformCollector, GCCollector):
            own(registry=self._registry)
        self._counters: dict[tuple[str, tuple[str, ...]], Counter] = {}
        self._label_sets: dict[str, set[tuple[str, ...]]] = {}
        self._gauges: dict[str, Gauge] = {}
        self._unlabelled: dict[str, int] = {}
        """What was added to metrics without labels since these were read: most counts, with every event."""

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Write one line; whatever names a problem is a warning."""
        is_starting = self._clock() - self._began < _STARTING_S
        expected = _EXPECTED_AT_START if is_starting else _EXPECTED
        is_warning = event in _WORTH_A_WARNING and fields.get("code") not in expected
        self._write("warning" if is_warning else "debug" if event in _ROUTINE else "info", event, fields)

    def _write(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        if _LEVELS[level] < self._least:
            return
        line = self._render({
            "event": event,
            **{_field(name): _shown(value) for name, value in fields.items() if not _SECRET.search(name)},
            "level": level,
            "at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        })  # fmt: skip
        # An operator's closed terminal does not stop a broker, and there is nowhere to say so.
        with suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        """Add to a counter, which is made when it is first needed."""
        if not labels:
            if amount >= 0 and (name in self._unlabelled or self._counter(name, ()) is not None):
                self._unlabelled[name] = self._unlabelled.get(name, 0) + amount
            return
        names = tuple(sorted(labels))
        counter = self._counter(name, names)
        if counter is None or amount < 0:
            return
        counter.labels(*self._bounded(name, [labels[one] for one in names])).inc(amount)

    def measure(self, name: str, value: float) -> None:
        """Set a gauge."""
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, _HELP.get(name, name), registry=self._registry)
        self._gauges[name].set(value)

    def show(self, deliveries: Callable[[], Deliveries]) -> None:
        """Offer what was delivered, as it is whenever the metrics are read."""
        self._registry.register(_DeliveryMetrics(deliveries))

    def metrics(self) -> bytes:
        """Return every metric in the text format of Prometheus."""
        for name, amount in self._unlabelled.items():
            counter = self._counter(name, ())
            if counter is not None:
                counter.inc(amount)
                self._unlabelled[name] = 0
        return generate_latest(self._registry)

    def _counter(self, name: str, labels: tuple[str, ...]) -> Counter | None:
        name = name.removesuffix("_total")
        known = self._counters.get((name, labels))
        if known is not None:
            return known
        taken = any(one == name for one, _ in self._counters)
        if taken or len(self._counters) >= _METRICS_MAX or not _NAME.fullmatch(name):
            return None  # a metric under one name has one set of labels; another set is not counted
        help_text = _HELP.get(f"{name}_total", name)
        counter = Counter(name, help_text, labels, registry=self._registry)
        self._counters[name, labels] = counter
        return counter

    def _bounded(self, name: str, values: list[str]) -> tuple[str, ...]:
        known = self._label_sets.setdefault(name, set())
        labels = tuple(str(value)[:100] for value in values)
        if labels not in known and len(known) >= LABEL_SETS_MAX:
            return ("other",) * len(labels)
        known.add(labels)
        return labels


def _for_programs(line: dict[str, object]) -> str:
    return json.dumps(line, default=str)


def _for_people(*, colours: bool) -> Callable[[dict[str, object]], str]:
    # Loaded here, because it loads much that a broker without a terminal has no use for.
    from structlog.dev import ConsoleRenderer

    render = ConsoleRenderer(colors=colours)
    return lambda line: str(render(None, str(line["level"]), line))


def _shown(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, list | tuple | set | frozenset):
        return [_shown(one) for one in list(value)[:20]]
    text = str(value)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


def _field(name: str) -> str:
    """Return a name that does not collide with those that every line has."""
    return f"{name}_" if name in {"event", "level", "at"} else name
