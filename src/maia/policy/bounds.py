"""How wide, and how narrow, may a filter or an advertisement be?

A domain sets bounds on what its members may ask for or announce, on top of
what certificates grant (Miklós, sections 3.3 to 3.5). An upper bound must
cover the filter, a lower bound must cover it as an advertisement does, and
their strict forms leave no attribute unspoken. Bounds only ever take away:
each one that applies must hold (docs/decisions/views.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from maia.credentials.authority import Action, AnyResource, Authority, ResourcePattern, covers_request
from maia.credentials.keys import Principal
from maia.credentials.names import ResourceName
from maia.errors import BadInput
from maia.events import AttributeUid, Kinds
from maia.predicates.constraints import NotAConstraintFilter, constraints_of
from maia.predicates.covering.covers import covers
from maia.predicates.relations import (
    advertisement_covers_advertisement,
    advertisement_strictly_covers_advertisement,
    filter_strictly_covers_filter,
)
from maia.predicates.syntax import AllOf, AnyOf, Exists, Not, Predicate

Holder: TypeAlias = Principal | bytes
"""The holder of a bound: a principal, or every chain with the certificate of this id."""


class BadBound(BadInput):
    """A bound limits something that has no filter."""

    code = "INPUT-BOUND"


class Bound(Enum):
    """In which way a bound limits a filter."""

    UPPER = "upper"
    LOWER = "lower"
    STRICT_UPPER = "strict upper"
    STRICT_LOWER = "strict lower"


@dataclass(frozen=True, slots=True)
class BoundRule:
    """`holder` may `action` on `resources` only with filters inside the bound `filter`."""

    holder: Holder
    action: Action
    bound: Bound
    filter: Predicate
    resources: ResourcePattern = field(default_factory=AnyResource)

    def __post_init__(self) -> None:
        """Refuse a bound on an action without filter, and one that is no collection of constraints."""
        if self.action not in (Action.PUBLISH, Action.SUBSCRIBE):
            raise BadBound(f"`{self.action.value}` has no filter to put a bound on")
        if self.bound is not Bound.UPPER:
            constraints_of(self.filter)

    def applies_to(
        self, principal: Principal, certificates: frozenset[bytes], action: Action, resource: ResourceName
    ) -> bool:
        """Say whether the rule limits this principal, who relies on these certificates."""
        held = self.holder == principal if isinstance(self.holder, Principal) else self.holder in certificates
        if not held or action is not self.action:
            return False
        if isinstance(self.resources, AnyResource):
            # A bound takes away, so one on everything is on reserved names too: grants alone must spell them.
            return self.resources.owner in (None, resource.owner)
        return covers_request(Authority(self.resources, frozenset({action})), action, resource)


def permits(rule: BoundRule, requested: Predicate) -> bool:
    """Say whether a filter, or an advertisement, stays inside the bound; a cautious no if not proved."""
    try:
        return _RELATIONS[rule.bound](rule.filter, requested)
    except NotAConstraintFilter:
        return False


def screens(rule: BoundRule) -> bool:
    """Say whether the bound's holder sees only attributes in its own filter (section 3.5)."""
    return rule.action is Action.SUBSCRIBE and rule.bound in (Bound.STRICT_UPPER, Bound.STRICT_LOWER)


def passes_for_notifications(rule: BoundRule, kinds: Kinds) -> Predicate:
    """Return what each published event must satisfy under the bound, as a predicate on the whole event.

    `kinds` are the attributes that an event of the type can have; those the
    bound does not name must be absent where the definitions say so.
    """
    if rule.bound is Bound.UPPER:
        return rule.filter
    spoken = constraints_of(rule.filter)
    silent = tuple(Not(Exists(uid)) for uid in sorted(kinds.keys() - spoken.keys()))
    if rule.bound is Bound.LOWER:
        return AllOf((*_absent_or_covered(spoken), *silent))
    return AllOf((rule.filter, *silent))


def _absent_or_covered(spoken: Mapping[AttributeUid, tuple[Predicate, ...]]) -> tuple[Predicate, ...]:
    # Definition 5: whatever is present meets some constraint; nothing has to be present.
    return tuple(AnyOf((Not(Exists(uid)), *constraints)) for uid, constraints in spoken.items())


def _upper(bound: Predicate, requested: Predicate) -> bool:
    # The general relation equals definition 3 for conjunctions, and also reads filters with `or`.
    return covers(wide=bound, narrow=requested)


_RELATIONS: Final[Mapping[Bound, Callable[[Predicate, Predicate], bool]]] = {
    Bound.UPPER: _upper,
    Bound.LOWER: lambda bound, requested: advertisement_covers_advertisement(wide=bound, narrow=requested),
    Bound.STRICT_UPPER: lambda bound, requested: filter_strictly_covers_filter(wide=bound, narrow=requested),
    Bound.STRICT_LOWER: lambda bound, requested: advertisement_strictly_covers_advertisement(
        wide=bound, narrow=requested
    ),
}
