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
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from maia.net.metrics import METRICS

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
_WORTH_A_WARNING: Final = frozenset({"refused", "closing", "kept-dropped", "failed", "impaired", "expiring"})


class Telemetry:
    """The log and the metrics of one process."""

    def __init__(self, stream: IO[str], *, log_format: str = "auto", level: str = "info") -> None:
        """Write log lines to `stream`; `auto` means for people exactly if it is a terminal."""
        for_people = log_format == "text" or (log_format == "auto" and stream.isatty())
        self._stream = stream
        self._least = _LEVELS[level]
        self._render = _for_people(colours=stream.isatty()) if for_people else _for_programs
        self._registry = CollectorRegistry(auto_describe=False)
        self._counters: dict[tuple[str, tuple[str, ...]], Counter] = {}
        self._label_sets: dict[str, set[tuple[str, ...]]] = {}
        self._gauges: dict[str, Gauge] = {}
        self._unlabelled: dict[str, int] = {}
        """What was added to metrics without labels since these were read: most counts, with every event."""

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Write one line; whatever names a problem is a warning."""
        self._write("warning" if event in _WORTH_A_WARNING else "info", event, fields)

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
