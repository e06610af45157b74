"""Where do a node's log lines and numbers go?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Records(Protocol):
    """A log and some metrics, such as `telemetry.Telemetry`."""

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Take one line for the log."""

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        """Add to a metric."""


class QuietRecords:
    """Drops everything: for clients, whose application gets notices."""

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Drop the line."""

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        """Drop the number."""
