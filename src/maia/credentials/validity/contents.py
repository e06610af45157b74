"""What do the statements that a verifier holds say, taken together?

Mostly there is one, and it says what it says. Where an issuer has signed two
different statements with one number, the strict reading of both holds:
whatever either revokes is revoked, and only what both confirm is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from maia.credentials.principals import Principal
from maia.credentials.validity.series import Hold, Series
from maia.credentials.validity.statements import FactList, Revalidation, RevocationList, SignedStatement
from maia.events import PresentValue

__all__ = [
    "agreed_facts",
    "facts_at",
    "facts_in",
    "revoked_in",
    "valid_in",
    "weight_of",
    "whose_facts_changed",
]

_NONE: frozenset[bytes] = frozenset()


def revoked_in(series: Series) -> frozenset[bytes]:
    """Return what the list of the moment revokes, or a newer one."""
    lists = [_revoked(source) for source in series.said]
    return reduce(frozenset.union, lists) if lists else _NONE


def valid_in(sources: Sequence[SignedStatement]) -> frozenset[bytes]:
    """Return what all of these revalidations confirm."""
    lists = [source.statement.valid for source in sources if isinstance(source.statement, Revalidation)]
    return reduce(frozenset.intersection, lists) if lists else _NONE


def agreed_facts(sources: Sequence[SignedStatement]) -> Mapping[tuple[Principal, str], PresentValue]:
    """Return the facts that all of these statements state, of the same kind and value."""
    first, *others = (facts_in(source) for source in sources)
    if not others:
        return first
    # Python takes 1, 1.0 and True for equal, and here they are three different facts.
    return {
        key: value
        for key, value in first.items()
        if all(key in other and _same(value, other[key]) for other in others)
    }


def facts_in(source: SignedStatement) -> Mapping[tuple[Principal, str], PresentValue]:
    """Return what one statement says."""
    return source.statement.facts if isinstance(source.statement, FactList) else {}


def facts_at(series: Series, hold: Hold) -> Mapping[tuple[Principal, str], PresentValue]:
    """Return what holds during a period: what is said of it, and is not taken back by the newest word."""
    sources = {source.id: source for source in (*hold.sources, *series.newest)}
    return agreed_facts(tuple(sources.values()))


def whose_facts_changed(before: Series, after: Series) -> frozenset[Principal]:
    """Return of whom something else is said after a statement than before it, now or later."""
    changed = _all_said(before.statements()) ^ _all_said(after.statements())
    # What an older list still says counts only as far as the newest one says it too.
    changed |= _all_said(before.newest) ^ _all_said(after.newest)
    return frozenset(whom for whom, _, _, _ in changed)


def weight_of(series: Series) -> int:
    """Return how many certificates and facts a series names."""
    return sum(map(_size, series.statements()))


def _revoked(source: SignedStatement) -> frozenset[bytes]:
    return source.statement.revoked if isinstance(source.statement, RevocationList) else _NONE


def _size(source: SignedStatement) -> int:
    match source.statement:
        case RevocationList(revoked=ids) | Revalidation(valid=ids):
            return len(ids)
        case FactList(facts=facts):
            return len(facts)
    return 0


def _all_said(sources: Iterable[SignedStatement]) -> set[tuple[Principal, str, type, PresentValue]]:
    return {_said(key, value) for source in sources for key, value in facts_in(source).items()}


def _said(key: tuple[Principal, str], value: PresentValue) -> tuple[Principal, str, type, PresentValue]:
    return (*key, type(value), value)


def _same(one: PresentValue, other: PresentValue) -> bool:
    return type(one) is type(other) and one == other
