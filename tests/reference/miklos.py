"""Miklós's definitions 1 to 8, word for word, over every notification that can be made of a few values.

Slow and obvious on purpose. A notification is a set of attributes (uid and
value); a filter or advertisement is a list of constraints. Quantifiers are
loops over all of a small universe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

from maia.events import AttributeUid, PresentValue
from maia.predicates.meaning import admits
from maia.predicates.syntax import Predicate, attributes_of

Attribute = tuple[AttributeUid, PresentValue]
Notification = tuple[Attribute, ...]
Filter = Sequence[Predicate]
Universe = Sequence[Notification]


def notifications(values: Mapping[AttributeUid, Iterable[PresentValue]]) -> Iterator[Notification]:
    """Every notification in which each attribute is missing or has one of its values."""
    choices = [[None, *((uid, value) for value in some)] for uid, some in values.items()]
    for choice in product(*choices):
        yield tuple(attribute for attribute in choice if attribute is not None)


def constraint_covers(phi: Predicate, alpha: Attribute) -> bool:
    """Same name, same type, and the operator holds; the operator's meaning is that of the language."""
    uid, value = alpha
    return attributes_of(phi) == {uid} and admits(phi, {uid: value})


def covers_sn(f: Filter, n: Notification) -> bool:
    """Definition 1."""
    return all(any(constraint_covers(phi, alpha) for alpha in n) for phi in f)


def strictly_covers_sn(f: Filter, n: Notification) -> bool:
    """Definition 2."""
    return covers_sn(f, n) and all(any(constraint_covers(phi, alpha) for phi in f) for alpha in n)


def covers_ss(f1: Filter, f2: Filter, everything: Universe) -> bool:
    """Definition 3."""
    return all(covers_sn(f1, n) for n in everything if covers_sn(f2, n))


def strictly_covers_ss(f1: Filter, f2: Filter, everything: Universe) -> bool:
    """Definition 4."""
    return all(strictly_covers_sn(f1, n) for n in everything if strictly_covers_sn(f2, n))


def covers_an(a: Filter, n: Notification) -> bool:
    """Definition 5."""
    return all(any(constraint_covers(phi, alpha) for phi in a) for alpha in n)


def strictly_covers_an(a: Filter, n: Notification) -> bool:
    """The analogue of definition 2 for advertisements, which definition 7 needs and the paper leaves out."""
    return covers_an(a, n) and all(any(constraint_covers(phi, alpha) for alpha in n) for phi in a)


def covers_aa(a1: Filter, a2: Filter, everything: Universe) -> bool:
    """Definition 6."""
    return all(covers_an(a1, n) for n in everything if covers_an(a2, n))


def strictly_covers_aa(a1: Filter, a2: Filter, everything: Universe) -> bool:
    """Definition 7."""
    return all(strictly_covers_an(a1, n) for n in everything if strictly_covers_an(a2, n))


def screenings(f: Filter, n: Notification) -> list[Notification]:
    """Definition 8: every part of `n` that `f` strictly covers, when `f` covers `n`."""
    if not covers_sn(f, n):
        return []
    parts = [part for size in range(len(n) + 1) for part in combinations(n, size)]
    return [part for part in parts if strictly_covers_sn(f, part)]
