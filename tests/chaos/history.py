"""What do the journals of the participants say? Lines become the values that the checker compares."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from chaos.checker import Acknowledged, Delivered, Reader, Reported

Frames: TypeAlias = Mapping[tuple[str, int], tuple[str, int, int]]
"""Whose events a publication has, from which number to which, by its stream and its own number."""

_RUN = re.compile(r"(\d+) to (\d+) of stream ([0-9a-f]{8})")


def lines_of(text: str) -> list[dict[str, Any]]:
    """Return the lines of a journal; the last one may be cut off, because its writer was killed."""
    return [json.loads(line) for line in text.split("\n")[:-1] if line.endswith("}")]


def acknowledged(
    publisher: str, lines: Iterable[Mapping[str, Any]], *, counts_from: int = 0
) -> list[Acknowledged]:
    """Return what was acknowledged to a publisher, from a number on."""
    return [
        Acknowledged(publisher, max(one["acked"][0], counts_from), one["acked"][1], one["t"])
        for one in lines
        if "acked" in one and one["acked"][1] >= counts_from
    ]


def frames_of(
    publisher: str, lines: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, int], tuple[str, int, int]]:
    """Return which of its events each publication of a publisher has."""
    found = [one["frame"] for one in lines if "frame" in one]
    return {(stream, number): (publisher, first, last) for stream, number, first, last in found}


def readers(
    who: str,
    lines: Iterable[Mapping[str, Any]],
    *,
    wants: Mapping[str, frozenset[str]],
    frames: Frames = MappingProxyType({}),
    put_back_at: Sequence[float] = (),
    right_ended_at: float | None = None,
) -> list[Reader]:
    """Return the subscriptions of one program; `wants` says by type whose events they are to have."""
    by_name: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in lines:
        by_name[one["name"]].append(one)
    return [
        Reader(
            f"{who} {name}",
            wants[name.split()[0]],
            is_durable=name.endswith("durable"),
            delivered=[
                Delivered(
                    *one["got"],
                    at=one["t"],
                    position=one.get("at"),
                    is_late=one.get("late", False),
                    stream=one["of"],
                )
                for one in told
                if "got" in one
            ],
            reported=[report for one in told if "gap" in one for report in _reports(one, frames)],
            waits=_waits(told),
            put_back_at=put_back_at,
            right_ended_at=right_ended_at,
        )
        for name, told in sorted(by_name.items())
    ]


def _waits(told: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the last word was that nothing can arrive: a warning, or the end of the subscription."""
    words = [one for one in told if "warning" in one or "ended" in one or "began" in one]
    return bool(words) and ("ended" in words[-1] or words[-1].get("warning") is not None)


def _reports(line: Mapping[str, Any], frames: Frames) -> list[Reported]:
    """Return which events a notice is about: it names publications of a stream, by their numbers."""
    runs = [(int(first), int(last), stream) for first, last, stream in _RUN.findall(line.get("why", ""))]
    named = [frames.get((stream, one)) for first, last, stream in runs for one in range(first, last + 1)]
    found = [Reported(line["t"], *one, code=line["gap"]) for one in named if one is not None]
    return found or [Reported(line["t"], code=line["gap"])]


def highest(lines: Iterable[Mapping[str, Any]], what: str) -> int:
    """Return the last number that was `sent` or `acked`, or -1."""
    return max((one[what][1] for one in lines if what in one), default=-1)
