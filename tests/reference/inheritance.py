"""Slowly and plainly: which definitions are sub-types, and who sees what of an event?

No bytes, keys, brokers or caches: a type is a few plain values, and every
answer is written as the issue's sentence says it. The system must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

DEPTH_MAX = 8
STRENGTH = {None: 0, "event": 1, "attribute": 2}


@dataclass(frozen=True)
class PlainType:
    """One version of a type: names are (owner, name), attributes are (name, uid, kind)."""

    name: tuple[str, str]
    attributes: frozenset[tuple[str, str, str]]
    above: PlainType | None = None
    sealing: str | None = None
    signer: str = ""
    """Who signed it; the owner unless said otherwise."""
    extend: frozenset[tuple[str, tuple[str, str], int]] = frozenset()
    """Grants inside it: to whom, on which type, and up to which moment."""


def lineage(one: PlainType) -> Iterator[PlainType]:
    """Yield the super-types, the nearest first."""
    while one.above is not None:
        one = one.above
        yield one


def problems(one: PlainType, now: int) -> set[str]:
    """Return every reason for which a definition is refused; nothing if it is good."""
    found: set[str] = set()
    above = one.above
    if above is None:
        return found
    supers = list(lineage(one))
    if one.name in [other.name for other in supers]:
        found.add("TYPE-SUPER-TYPES-IN-A-CIRCLE")
    if len(supers) > DEPTH_MAX:
        found.add("TYPE-INHERITANCE-TOO-DEEP")
    if not above.attributes <= one.attributes:
        found.add("TYPE-INHERITED-CHANGED")
    if STRENGTH[one.sealing] < STRENGTH[above.sealing]:
        found.add("TYPE-SUB-TYPE-SEALS-LESS")
    signer = one.signer or one.name[0]
    grants = [until for who, what, until in one.extend if (who, what) == (signer, above.name)]
    if signer != above.name[0] and not any(now <= until for until in grants):
        found.add("TYPE-EXPIRED" if grants else "TYPE-EXTEND-NOT-GRANTED")
    return found | problems(above, now)


def consented(one: PlainType, revoked: frozenset[tuple[str, str]] = frozenset()) -> Iterator[PlainType]:
    """Yield the types as which an event of a type is seen: itself, and up to the first consent that is lost.

    `revoked` names the types whose right to extend their super-type was revoked.
    """
    yield one
    while one.above is not None and one.name not in revoked:
        one = one.above
        yield one


def seen_as(event: Mapping[str, object], seen: PlainType) -> dict[str, object]:
    """Return what there is of an event in a type: the attributes of the type, by uid, and no others."""
    return {uid: event[uid] for _, uid, _ in seen.attributes if uid in event}
