"""How far behind its log is a stream, in events and in seconds, and what does the log itself lack?

`log.lag(query)` asks, and `maia pipeline run --follow`. Spark says up to where a query has read, and the
manifest says what lies behind that position: how many events, and when they were published.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from maia.errors import Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN, SECOND
from maia.spark.governed.log_folder import LogFolder, TypeInLog, missing_of

__all__ = ["Lag", "lag_of"]

_UNKNOWN: Final = frozenset({INSTANT_MIN, INSTANT_MAX})


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a query is behind the logs that it reads, and what they are known to lack."""

    events: int
    """Events of its types that the query has not read; copies in several logs count each."""
    seconds: float
    """How much later the newest of them was published than the newest event that the query has read."""
    missing: int
    """Publications of its types that the log is known to lack; its broker asks others for them."""
    is_held: bool
    """Whether the query waits where it is until the log lacks nothing (`require_complete`)."""


# Any: of Spark's query, whatever kind of session it is of; and of offsets, which are what JSON holds.
def lag_of(query: Any, logs: Sequence[LogFolder]) -> Lag:
    """Return how far a query is behind some logs; raise if it reads none of them, or has read nothing yet."""
    words = [str(log.place) for log in logs]
    done = query.lastProgress
    sources = [_Source.of(one, words) for one in (done.sources if done is not None else [])]
    by_type: dict[str, list[_Source]] = {}
    for one in sources:
        if one is not None:
            by_type.setdefault(one.kind, []).append(one)
    if not by_type:
        raise Unavailable(
            "UNAVAILABLE-LAG",
            "the query has ended no batch yet" if done is None else "the query reads no stream of this log",
        )
    lags = [_lag_of_type(bytes.fromhex(kind), found, logs) for kind, found in by_type.items()]
    return Lag(
        sum(one.events for one in lags),
        max(one.seconds for one in lags),
        sum(one.missing for one in lags),
        any(one.is_held for one in lags),
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """Up to where a stream of a type has read each log, as Spark reports it."""

    kind: str
    positions: tuple[int, ...]
    is_held: bool

    @classmethod
    def of(cls, source: Any, logs: list[str]) -> _Source | None:
        """Return it; None for a source that is no stream of these logs."""
        end, latest = _offset(source.endOffset), _offset(source.latestOffset)
        if "type" not in end or latest.get("log", logs) != logs:
            return None
        if "logs" in end:
            positions = tuple(end["logs"].get(log, (0, 0))[0] for log in logs)
        else:
            positions = (end.get("position", 0),)
        if len(positions) != len(logs):
            return None
        return cls(end["type"], positions, bool(latest.get("held")))


def _offset(text: Any) -> dict[str, Any]:
    found = json.loads(text) if isinstance(text, str) and text else text
    return found if isinstance(found, dict) else {}


def _lag_of_type(kind: bytes, sources: Sequence[_Source], logs: Sequence[LogFolder]) -> Lag:
    found = [log.of_type(kind) for log in logs]
    # A right of several periods is read by several sources; the one that is behind most counts.
    behind = [[_behind(*each) for each in zip(found, one.positions, strict=True)] for one in sources]
    return Lag(
        max(sum(events for events, _ in one) for one in behind),
        max(seconds for one in behind for _, seconds in one),
        missing_of(found),
        any(one.is_held for one in sources),
    )


def _behind(found: TypeInLog, position: int) -> tuple[int, float]:
    """Return how many events lie behind a position, and how many seconds they are later."""
    unread = found.between(position + 1, found.newest)
    # A file that was joined of what was read and what was not holds about so many of each.
    events = sum(
        -(-one.events * (one.last - max(position, one.first - 1)) // (one.last - one.first + 1))
        for one in unread
    )
    if not unread:
        return 0, 0.0
    read = [one.published_until for one in found.stretches if one.last <= position]
    last = max(read, default=min(one.published_from for one in unread))
    newest = max(one.published_until for one in found.stretches)
    is_known = not {last, newest} & _UNKNOWN
    return events, max(0, newest - last) / SECOND if is_known else 0.0
