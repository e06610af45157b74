"""Where do a node's log lines and metrics go?

Log lines are events with named fields, written by structlog; metrics are
counters of prometheus-client in a registry that belongs to one node. There is
no line per event, and no metric without a bound on its labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter
from structlog.typing import FilteringBoundLogger

__all__ = ["LABELS_MAX", "LoggedRecords", "QuietRecords", "Records"]

LABELS_MAX: Final = 256
"""How many combinations of labels one metric may have; the rest are counted together."""

_REST: Final = "other"


class Records(Protocol):
    """Whoever is told what is worth knowing about a node."""

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Take one line for the log."""

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        """Add to a metric."""


class QuietRecords:
    """Tells nobody: for clients, whose application hears of everything that matters to it."""

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Drop the line."""

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        """Drop the number."""


class LoggedRecords:
    """Lines to a structlog logger, numbers to a Prometheus registry."""

    def __init__(self, logger: FilteringBoundLogger, registry: CollectorRegistry | None = None) -> None:
        """Write to `logger`; without a registry, make one for this node alone."""
        self.registry = CollectorRegistry() if registry is None else registry
        self._logger = logger
        self._counters: dict[str, Counter] = {}
        self._labels: dict[str, set[tuple[str, ...]]] = {}

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Write one line."""
        self._logger.info(event, **fields)

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        """Add to a counter, which is made when it is first needed."""
        names = sorted(labels)
        counter = self._counters.get(name)
        if counter is None:
            counter = Counter(
                name.removesuffix("_total"), name.replace("_", " "), names, registry=self.registry
            )
            self._counters[name] = counter
        if not names:
            counter.inc(amount)
            return
        counter.labels(*self._bounded(name, tuple(labels[one] for one in names))).inc(amount)

    def _bounded(self, name: str, values: tuple[str, ...]) -> tuple[str, ...]:
        known = self._labels.setdefault(name, set())
        if values not in known and len(known) >= LABELS_MAX:
            return (_REST,) * len(values)
        known.add(values)
        return values
