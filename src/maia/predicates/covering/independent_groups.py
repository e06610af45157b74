"""Which parts of a conjunction have anything to do with each other?

Covering asks about one part of the wide filter at a time. Conjuncts of the
narrow filter that share no attribute with it, directly or through a third
one, cannot help to prove it (unless they can never be true), so only its own
group is spread out into clauses. A conjunction of a hundred alternatives
about a hundred attributes then costs a hundred small questions and not 2^100
cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from maia.events import AttributeUid
from maia.predicates.covering.normal_form import Clause, clauses_of, intersected
from maia.predicates.steps import Steps
from maia.predicates.syntax import AllOf, Predicate, attributes_of

__all__ = ["Group", "conjuncts", "groups_of", "product"]


class Group:
    """Conjuncts that share attributes among themselves and with no other group."""

    __slots__ = ("_clauses", "attributes", "parts")

    def __init__(self, attributes: frozenset[AttributeUid], parts: tuple[Predicate, ...]) -> None:
        """Start without clauses; they are made when first asked for."""
        self.attributes, self.parts = attributes, parts
        self._clauses: list[Clause] | None = None

    def clauses(self, steps: Steps) -> list[Clause]:
        """Return the group spread out into clauses, or raise `OutOfSteps`."""
        if self._clauses is None:
            self._clauses = clauses_of(AllOf(self.parts), steps)
        return self._clauses


def conjuncts(formula: Predicate) -> Iterator[Predicate]:
    """Yield the parts of nested conjunctions; the formula itself if it is none."""
    if isinstance(formula, AllOf):
        for part in formula.parts:
            yield from conjuncts(part)
    else:
        yield formula


def groups_of(formula: Predicate) -> list[Group]:
    """Return a conjunction as groups that share no attributes."""
    group_by_uid: dict[AttributeUid, int] = {}
    members: dict[int, list[Predicate]] = {}
    for index, part in enumerate(conjuncts(formula)):
        own = attributes_of(part)
        joined = {group_by_uid[uid] for uid in own if uid in group_by_uid}
        # The largest group keeps its number, so that moving members stays cheap overall.
        home = max(joined, key=lambda number: len(members[number]), default=index)
        moved = list(chain.from_iterable(members.pop(number) for number in joined if number != home))
        members.setdefault(home, []).extend((*moved, part))
        for uid in chain(own, chain.from_iterable(map(attributes_of, moved))):
            group_by_uid[uid] = home
    uids: dict[int, set[AttributeUid]] = {}
    for uid, number in group_by_uid.items():
        uids.setdefault(number, set()).add(uid)
    return [Group(frozenset(uids.get(number, ())), tuple(parts)) for number, parts in members.items()]


def product(groups: Iterable[Group], steps: Steps) -> list[Clause]:
    """Return the clauses of several groups together."""
    clauses: list[Clause] = [{}]
    for group in groups:
        clauses = [
            both
            for one in clauses
            for other in group.clauses(steps)
            if (both := intersected(one, other, steps)) is not None
        ]
    return clauses
