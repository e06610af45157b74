"""What do the journals of the participants say? Lines become the values that the checker compares."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chaos.checker import Acknowledged, Delivered, Reader, Reported


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


def readers(
    who: str,
    lines: Iterable[Mapping[str, Any]],
    *,
    wants: Mapping[str, frozenset[str]],
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
            reported=[report for one in told if "gap" in one for report in _reports(one)],
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


def _reports(line: Mapping[str, Any]) -> list[Reported]:
    named = [Reported(line["t"], *one, code=line["gap"]) for one in line.get("missing", ())]
    return named or [Reported(line["t"], code=line["gap"])]


def highest(lines: Iterable[Mapping[str, Any]], what: str) -> int:
    """Return the last number that was `sent` or `acked`, or -1."""
    return max((one[what][1] for one in lines if what in one), default=-1)
