"""What does a certificate grant?

An authority is one resource pattern, a set of actions, a set of attributes, a
restriction on their values, and a condition. Two of them always intersect to
one, exactly; a chain of certificates grants the intersection of all its
authorities, so a wider link further down is harmless (dissertation 5.1.3).

The restriction is kept apart from the attribute set on purpose. A link that
shows fewer attributes must not thereby drop a restriction on one it hides:
`{plate == "AE05 XYZ", time}` narrowed to `{time}` is still about one car.

A grant to subscribe may transform what it shows. Everything that a later link
of the chain says is then about the transformed event: its restriction, its
attributes and its own transformation. A holder of blurred places cannot
delegate exact ones, nor ask for them through a restriction.

A grant to publish may transform what its holder writes. Every link's attributes
and restriction are about the event as it is published; the transformations come
before, the last link's first, so that a delegate's events pass through those of all links before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Final, TypeAlias, TypeVar

from maia.credentials.keys import Owner, Principal
from maia.credentials.names import (
    ANY_NAME,
    NamePattern,
    NetworkName,
    PatternTooComplex,
    ResourceName,
    TopicName,
    TypeName,
    is_reserved,
)
from maia.errors import BadInput, BrokenCredential
from maia.events import AttributeUid
from maia.expressions.summaries import Summary, summary_size
from maia.expressions.syntax import Rule, Scope, rules_are_keyed, rules_size
from maia.predicates.syntax import (
    ALWAYS,
    AllOf,
    Predicate,
    PredicateTooLarge,
    attributes_of,
    checked_size,
    constraints_of,
    size_of,
    with_missing,
)


class Action(Enum):
    """What can be done with a network, a type or a topic."""

    CONNECT = "connect"
    BROKER = "broker"
    """To connect as a broker of the organisation that says so itself, to the broker's key (C18)."""
    INSTALL = "install"
    SERVE = "serve"
    """To serve clients of types to which the broker itself has no right: an open network (C16)."""
    EXTEND = "extend"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    MANAGE_ADD = "manage.add"
    MANAGE_REMOVE = "manage.remove"
    MANAGE_RENAME = "manage.rename"
    MANAGE_RETYPE = "manage.retype"


ALL_ACTIONS: Final = frozenset(Action) - {Action.BROKER}
"""What `*` means: to be a broker is never meant by it, nor by any other action."""


class AllAttributes(Enum):
    """The set of every attribute, those of later versions included."""

    ALL = "*"


ALL_ATTRIBUTES: Final = AllAttributes.ALL

AttributeSet: TypeAlias = frozenset[AttributeUid] | AllAttributes


@dataclass(frozen=True, slots=True)
class AnyResource:
    """Every network, type and topic, of one owner or (None) of any: a blanket capability.

    What the system reserves (`is_reserved`) is not among them.
    """

    owner: Owner | None = None
    name: ClassVar[NamePattern] = ANY_NAME


@dataclass(frozen=True, slots=True)
class NetworkPattern:
    """Networks by owner (None: any owner) and name."""

    owner: Owner | None
    name: NamePattern
    version: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class TypePattern:
    """Event types by owner (None: any), name and version (None: any)."""

    owner: Owner | None
    name: NamePattern
    version: str | None


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Topics by owner (None: any) and path."""

    owner: Owner | None
    path: NamePattern
    version: ClassVar[None] = None

    @property
    def name(self) -> NamePattern:
        """Return the path: what a name is for others."""
        return self.path


ResourcePattern: TypeAlias = AnyResource | NetworkPattern | TypePattern | TopicPattern


@dataclass(frozen=True, slots=True)
class Transformation:
    """What one certificate makes of an event before its subject sees it, or before it is published.

    `rules` read the attributes that the grant names, and nothing else; `attributes` are those of the
    outcome that are shown. With a `result` the holder of the right sees, or writes, events of that type
    in place of the resource's, and the outcome has only what the rules assign. `by` is the certificate's
    issuer, whose secret keys pseudonyms and noise.
    `restriction` says which events come this far: a later link of a chain states it about what the
    links before it show, so that it tells nothing else apart. With a `summary`, which has no rules
    beside it, the outcome is what many events of a period come to.
    """

    by: Principal
    rules: tuple[Rule, ...]
    attributes: AttributeSet = ALL_ATTRIBUTES
    restriction: Predicate = ALWAYS
    result: TypeName | None = None
    summary: Summary | None = None
    holder: bytes = b""
    """Whom its certificate names, where noise is its own; keys that it is passed on to share it."""

    def is_keyed(self, scope: Scope | None = None) -> bool:
        """Return whether a secret is needed to apply it; with a `scope`, a key of that scope."""
        summarises = self.summary is not None and self.summary.is_keyed(scope)
        return summarises or rules_are_keyed(self.rules, scope)


class Bound(Enum):
    """In which way a bound limits a filter (Miklós 3.3 to 3.5)."""

    UPPER = "upper"
    LOWER = "lower"
    STRICT_UPPER = "strict upper"
    STRICT_LOWER = "strict lower"


@dataclass(frozen=True, slots=True)
class FilterBound:
    """Filters, or advertisements, stay inside this one; it follows the right to every broker."""

    bound: Bound
    filter: Predicate

    def __post_init__(self) -> None:
        """Refuse a bound that is no collection of constraints; an upper one may be any filter."""
        if self.bound is not Bound.UPPER:
            constraints_of(self.filter)


@dataclass(frozen=True, slots=True)
class Authority:
    """One grant: these actions, on these resources, of these attributes, under these terms.

    `attributes` and `restriction` are about the event as it is published. A subscriber's transformations
    come behind them, each about what the one before it shows; a publisher's come before them.
    """

    resources: ResourcePattern
    actions: frozenset[Action]
    attributes: AttributeSet = ALL_ATTRIBUTES
    restriction: Predicate = ALWAYS
    condition: Predicate = ALWAYS
    transformations: tuple[Transformation, ...] = ()
    bounds: tuple[FilterBound, ...] = ()
    """What its holder may ask for or announce; those of all links of a chain hold."""


# Grants put together, and compared with a request.


TERMS_MAX: Final = 256
"""How many different restrictions, or conditions, may add up along a chain."""

FILTER_BOUNDS_MAX: Final = 16
"""How many bounds may add up along a chain."""

TRANSFORMATIONS_MAX: Final = 8
"""How many steps of transformation may add up along a chain."""

EVENT_ACTIONS: Final = frozenset({Action.PUBLISH, Action.SUBSCRIBE})
"""The actions that touch attributes; without attributes they grant nothing."""

MANAGE_ACTIONS: Final = frozenset(
    {Action.MANAGE_ADD, Action.MANAGE_REMOVE, Action.MANAGE_RENAME, Action.MANAGE_RETYPE}
)

FITTING_ACTIONS: Final[dict[type[ResourcePattern], frozenset[Action]]] = {
    AnyResource: ALL_ACTIONS,
    NetworkPattern: frozenset({Action.CONNECT, Action.BROKER, Action.INSTALL, Action.SERVE}),
    TypePattern: EVENT_ACTIONS | MANAGE_ACTIONS | {Action.EXTEND},
    TopicPattern: EVENT_ACTIONS | {Action.EXTEND},
}
"""What can be done with a resource at all; any other combination means nothing."""

_WITHOUT_ATTRIBUTES: Final = ALL_ACTIONS - EVENT_ACTIONS
_PUBLISH_ALONE: Final = frozenset({Action.PUBLISH})

_Part = TypeVar("_Part")


class AuthorityTooLarge(BrokenCredential):
    """The terms of a chain add up to more than a verifier is willing to carry."""

    code = "CREDENTIAL-AUTHORITY-SIZE"


class UnknownAction(BadInput):
    """A word names no action."""

    code = "INPUT-ACTION"


def actions_from_words(words: Iterable[str]) -> frozenset[Action]:
    """Read actions as people write them: `manage` means all four changes, `*` for everything."""
    found: set[Action] = set()
    for word in words:
        found |= _actions_of_word(word)
    return frozenset(found)


def composed(first: Authority, second: Authority) -> Authority | None:
    """Return what a link of a chain leaves of the links before it, or None where that is nothing.

    What `second` says is about what `first` shows: an attribute that its issuer may not read, or write, is
    missing for its restriction (A104), and behind transformations everything is about their outcome. On
    publication what its holder writes passes through the transformation of `second`, then through those of
    `first`, and the terms of both are about what is published.
    """
    if not first.transformations and not second.transformations:
        return intersect(first, _about_shown(first.attributes, second))
    if _PUBLISH_ALONE in (first.actions, second.actions):
        later = _about_shown(first.attributes, second)
        plain = intersect(replace(first, transformations=()), replace(later, transformations=()))
        both = (*second.transformations, *first.transformations)
        # What is for subscribers says nothing about publishing: then no action is left.
        return None if plain is None else replace(plain, transformations=_checked_steps(both))
    if not first.transformations:
        plain = intersect(first, replace(_about_shown(first.attributes, second), transformations=()))
        return None if plain is None else replace(plain, transformations=second.transformations)
    about_outcome = replace(second, attributes=ALL_ATTRIBUTES, restriction=ALWAYS, transformations=())
    common = intersect(replace(first, transformations=()), about_outcome)
    last = first.transformations[-1]
    if common is None or not both_attributes(last.attributes, second.attributes):
        return None
    steps = list(first.transformations)
    if second.attributes is not ALL_ATTRIBUTES or second.restriction != ALWAYS:
        if last.rules or last.result is not None or last.summary is not None:
            steps.append(Transformation(last.by, (), second.attributes, second.restriction))
        else:
            later = _about_shown(last.attributes, second)
            attributes = both_attributes(last.attributes, later.attributes)
            steps[-1] = Transformation(
                last.by, (), attributes, _both_terms(last.restriction, later.restriction)
            )
    steps += second.transformations
    return replace(common, transformations=_checked_steps(tuple(steps)))


def _about_shown(shown: AttributeSet, later: Authority) -> Authority:
    """Return what a later link says where every attribute that is not shown to its issuer is missing."""
    restriction = later.restriction
    if shown is ALL_ATTRIBUTES or attributes_of(restriction) <= shown:
        return later
    return replace(later, restriction=with_missing(restriction, shown))


def _checked_steps(steps: tuple[Transformation, ...]) -> tuple[Transformation, ...]:
    if len(steps) > TRANSFORMATIONS_MAX:
        raise AuthorityTooLarge(f"a chain transforms an event in at most {TRANSFORMATIONS_MAX} steps")
    if sum(step.summary is not None for step in steps) > 1:
        raise AuthorityTooLarge("a chain summarises events once: what it makes of them is summarised no more")
    return steps


def intersect(one: Authority, other: Authority) -> Authority | None:
    """Return what both grants allow, or None where that is nothing.

    Two different transformations have nothing in common: neither outcome is part of the other.
    """
    if one is other:
        return one
    if one.transformations != other.transformations:
        return None
    # Parts of certificates are remembered, so the usual case is the same part twice: no call for that.
    mine, yours = one.resources, other.resources
    resources = yours if mine is yours else _both_resources(mine, yours)
    if resources is None:
        return None
    # What is shared says nothing; each part that differs says which of the two the result still may be.
    is_one, is_other = resources is mine, resources is yours
    attributes, actions = one.attributes, one.actions
    if attributes is not other.attributes:
        attributes = both_attributes(attributes, other.attributes)
        is_one, is_other = (
            is_one and attributes is one.attributes,
            is_other and attributes is other.attributes,
        )
    if actions is not other.actions:
        actions = _narrower(actions, other.actions)
        is_one, is_other = is_one and actions is one.actions, is_other and actions is other.actions
    if not attributes:
        actions &= _WITHOUT_ATTRIBUTES
        is_one, is_other = is_one and actions == one.actions, is_other and actions == other.actions
    if actions.isdisjoint(FITTING_ACTIONS[type(resources)]):
        return None
    restriction, condition = one.restriction, one.condition
    if restriction is not other.restriction or condition is not other.condition:
        restriction = _both_terms(restriction, other.restriction)
        condition = _both_terms(condition, other.condition)
        is_one = is_one and restriction is one.restriction and condition is one.condition
        is_other = is_other and restriction is other.restriction and condition is other.condition
    bounds = one.bounds
    if bounds is not other.bounds and bounds != other.bounds:
        bounds = tuple(dict.fromkeys((*bounds, *other.bounds)))
        if len(bounds) > FILTER_BOUNDS_MAX:
            raise AuthorityTooLarge(f"the bounds of a chain add up to more than {FILTER_BOUNDS_MAX}")
        is_one, is_other = is_one and bounds == one.bounds, is_other and bounds == other.bounds
    if is_other:
        return other
    if is_one:
        return one
    return Authority(resources, actions, attributes, restriction, condition, one.transformations, bounds)


def covers_request(authority: Authority, action: Action, resource: ResourceName) -> bool:
    """Return whether a grant allows `action` on `resource`; attributes and terms are asked later.

    To administer is to publish or subscribe without an event: attributes and a restriction could
    not be kept there, so a grant with any does not allow it.
    """
    if action not in authority.actions:
        return False
    if isinstance(resource, TopicName) and is_reserved(resource.path) and not _is_whole(authority):
        return False
    if action in EVENT_ACTIONS and not authority.attributes:
        return False
    return _matches(authority.resources, action, resource)


def _is_whole(authority: Authority) -> bool:
    return (
        authority.attributes is ALL_ATTRIBUTES
        and authority.restriction == ALWAYS
        and not authority.transformations
    )


def _matches(pattern: ResourcePattern, action: Action, resource: ResourceName) -> bool:
    kind = _PATTERN_OF[type(resource)]
    if action not in FITTING_ACTIONS[kind] or pattern.owner not in (None, resource.owner):
        return False
    if isinstance(pattern, AnyResource):
        return not is_reserved(resource.name)
    return (
        isinstance(pattern, kind)
        and pattern.version in (None, resource.version)
        and pattern.name.matches(resource.name)
    )


NAMED_BY: Final[dict[type[ResourcePattern], type[ResourceName]]] = {
    NetworkPattern: NetworkName,
    TypePattern: TypeName,
    TopicPattern: TopicName,
}
"""What a pattern matches."""
_PATTERN_OF: Final = {name: pattern for pattern, name in NAMED_BY.items()}


def _both_resources(one: ResourcePattern, other: ResourcePattern) -> ResourcePattern | None:
    """Return what two patterns have in common: one of the two themselves, where it lies inside the other."""
    if isinstance(other, AnyResource):
        return _part_of_owner(one, other.owner)
    if isinstance(one, AnyResource):
        return _part_of_owner(other, one.owner)
    if type(one) is not type(other) or _apart(one.owner, other.owner) or _apart(one.version, other.version):
        return None
    try:
        name = other.name.intersection(one.name)
    except PatternTooComplex as problem:
        raise AuthorityTooLarge(f"the name patterns of a chain do not add up: {problem.message}") from problem
    if name is None:
        return None
    owner, version = one.owner or other.owner, one.version or other.version
    for given in (other, one):
        if name is given.name and owner == given.owner and version == given.version:
            return given
    return TypePattern(owner, name, version) if isinstance(one, TypePattern) else type(one)(owner, name)


def _part_of_owner(pattern: ResourcePattern, owner: Owner | None) -> ResourcePattern | None:
    """Return what a blanket resource of `owner` has in common with a pattern."""
    if pattern.name.is_reserved:
        return None
    if owner is None or pattern.owner == owner:
        return pattern
    return replace(pattern, owner=owner) if pattern.owner is None else None


def _apart(one: object, other: object) -> bool:
    return one is not other and one is not None and other is not None and one != other


def both_attributes(one: AttributeSet, other: AttributeSet) -> AttributeSet:
    """Return the attributes in both sets; one of the two themselves where it lies inside the other."""
    if one is other or other is ALL_ATTRIBUTES:
        return one
    if one is ALL_ATTRIBUTES:
        return other
    return _narrower(one, other)


def _narrower(one: frozenset[_Part], other: frozenset[_Part]) -> frozenset[_Part]:
    if one is other or other <= one:
        return other
    return one if one <= other else one & other


def _both_terms(one: Predicate, other: Predicate) -> Predicate:
    """Return the conjunction, flat and without repetition, so that a long chain stays small."""
    if one is other or other is ALWAYS:
        return one
    if one is ALWAYS or one == other:
        return other
    terms = tuple(dict.fromkeys((*terms_of(one), *terms_of(other))))
    if len(terms) > TERMS_MAX:
        raise AuthorityTooLarge(f"the terms of a chain add up to more than {TERMS_MAX}")
    try:
        return checked_size(terms[0] if len(terms) == 1 else AllOf(terms))
    except PredicateTooLarge as problem:
        raise AuthorityTooLarge(f"the terms of a chain add up: {problem.message}") from problem


def terms_of(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return what must all hold for `predicate` to hold."""
    return predicate.parts if isinstance(predicate, AllOf) else (predicate,)


def terms_in(authority: Authority) -> int:
    """Return of how many parts the terms and attributes of a grant are made: what comparing it costs."""
    attributes = 0 if authority.attributes is ALL_ATTRIBUTES else len(authority.attributes)
    steps = sum(rules_size(one.rules) + size_of(one.restriction) for one in authority.transformations)
    steps += sum(0 if one.summary is None else summary_size(one.summary) for one in authority.transformations)
    steps += sum(size_of(one.filter) for one in authority.bounds)
    return attributes + size_of(authority.restriction) + size_of(authority.condition) + steps


def _actions_of_word(word: str) -> frozenset[Action]:
    if word == "*":
        return ALL_ACTIONS
    if word == "manage":
        return MANAGE_ACTIONS
    try:
        return frozenset({Action(word)})
    except ValueError:
        known = ", ".join(f"`{action.value}`" for action in Action)
        shown = word[:64].encode("unicode_escape").decode()
        raise UnknownAction(f"`{shown}` is no action: use {known}, `manage` or `*`") from None
