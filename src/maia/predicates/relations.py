"""Miklós's relations: does a filter or an advertisement cover this, and strictly?

Policy asks, when a bound of a certificate is held against a notification, a
subscription or an advertisement (Miklós, definitions 1 to 7). Both sides of
every relation are named, because the papers draw its sign in opposite
directions. Towards notifications the answers are exact. Between filters a
"yes" is proved; where no proof is found the answer is a cautious "no", which
for the constraints of our language happens only past the limits of
`covering/covers.py` (docs/decisions/miklos-relations.md).

A filter is the conjunction of its constraints, an advertisement the
disjunction of the same constraints. Null attributes are missing ones.
"""
# ruff: noqa: A002 - `filter=` is the word of the papers and of every caller; the builtin is not used here

from __future__ import annotations

from maia.events import Event
from maia.predicates.covering.covers import covers, provably_empty
from maia.predicates.meaning import admits
from maia.predicates.syntax import AllOf, AnyOf, Constraints, Predicate, constraints_of


def filter_covers_notification(*, filter: Predicate, notification: Event) -> bool:
    """Return whether every constraint is met by some attribute (definition 1)."""
    return _all_met(constraints_of(filter), notification)


def filter_strictly_covers_notification(*, filter: Predicate, notification: Event) -> bool:
    """Return whether, besides, every attribute meets some constraint (definition 2)."""
    constraints = constraints_of(filter)
    return _all_met(constraints, notification) and _all_asked_for(constraints, notification)


def filter_covers_filter(*, wide: Predicate, narrow: Predicate) -> bool:
    """Return whether `wide` covers every notification that `narrow` covers (definition 3)."""
    outer, inner = constraints_of(wide), constraints_of(narrow)
    if _contradictory(inner):
        return True
    return outer.keys() <= inner.keys() and _each_within(outer, inner)


def filter_strictly_covers_filter(*, wide: Predicate, narrow: Predicate) -> bool:
    """Whether `wide` strictly covers every notification that `narrow` strictly covers (definition 4)."""
    outer, inner = constraints_of(wide), constraints_of(narrow)
    if _contradictory(inner):
        return True
    return outer.keys() == inner.keys() and _each_within(outer, inner)


def advertisement_covers_notification(*, advertisement: Predicate, notification: Event) -> bool:
    """Return whether every attribute meets some constraint (definition 5).

    A notification without attributes is covered by every advertisement. An
    attribute that the advertisement does not name is never covered: the
    definition wins over the paper's own example with `color`.
    """
    return _all_asked_for(constraints_of(advertisement), notification)


def advertisement_strictly_covers_notification(*, advertisement: Predicate, notification: Event) -> bool:
    """Return whether, besides, every constraint is met by some attribute.

    Definition 7 uses this relation without defining it. We take the analogue
    of definition 2, which makes it the same question as for a filter.
    """
    return filter_strictly_covers_notification(filter=advertisement, notification=notification)


def advertisement_covers_advertisement(*, wide: Predicate, narrow: Predicate) -> bool:
    """Return whether `wide` covers every notification that `narrow` covers (definition 6)."""
    outer, inner = constraints_of(wide), constraints_of(narrow)
    return all(
        covers(wide=AnyOf(outer.get(uid, ())), narrow=AnyOf(offered)) for uid, offered in inner.items()
    )


def advertisement_strictly_covers_advertisement(*, wide: Predicate, narrow: Predicate) -> bool:
    """Whether `wide` strictly covers every notification that `narrow` strictly covers (definition 7)."""
    return filter_strictly_covers_filter(wide=wide, narrow=narrow)


def _all_met(constraints: Constraints, notification: Event) -> bool:
    # A notification has one value per attribute, so "met by some attribute" is "met by that value".
    return all(admits(one, notification) for asked in constraints.values() for one in asked)


def _all_asked_for(constraints: Constraints, notification: Event) -> bool:
    return all(
        any(admits(one, notification) for one in constraints.get(uid, ()))
        for uid, value in notification.items()
        if value is not None
    )


def _contradictory(constraints: Constraints) -> bool:
    return any(provably_empty(AllOf(asked)) for asked in constraints.values())


def _each_within(outer: Constraints, inner: Constraints) -> bool:
    """Return whether `outer` asks for no less than `inner` does, attribute by attribute."""
    return all(covers(wide=AllOf(outer[uid]), narrow=AllOf(inner[uid])) for uid in outer)
