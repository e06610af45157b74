"""How does a certificate say what it grants?

    (tag RESOURCE (actions * | ACTION …) (attributes * | UID …)
         (restriction PREDICATE)? (condition PREDICATE)?)

    RESOURCE = (any) | (any (owner OWNER))
             | (network (owner * | OWNER) (name PATTERN …))
             | (type (owner * | OWNER) (name PATTERN …) (version * | VERSION))
             | (topic (owner * | OWNER) (path PATTERN …))

Sets are sorted by their bytes, each element once. Several patterns mean all
of them. A term that is always true is left out. A combination that means
nothing, such as publishing a network, is refused by writer and reader alike,
so that no issuer believes to have granted it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from maia.canonical import SExpression
from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    Action,
    AnyResource,
    AttributeSet,
    Authority,
    NetworkPattern,
    ResourcePattern,
    TopicPattern,
    TypePattern,
)
from maia.credentials.authority_algebra import EVENT_ACTIONS, FITTING_ACTIONS
from maia.credentials.encoding.errors import BadAuthority
from maia.credentials.encoding.subjects import owner_from_expression, owner_to_expression, text_from_atom
from maia.credentials.name_patterns import NamePattern, pattern_of_parts
from maia.credentials.names import NAME_MAX, checked_label, checked_topic_path, checked_version
from maia.credentials.principals import Owner
from maia.events import ATTRIBUTES_MAX, AttributeUid, attribute_uid
from maia.predicates.encoding import predicate_from_expression, predicate_to_expression
from maia.predicates.syntax import ALWAYS, Predicate

__all__ = [
    "actions_from_expression",
    "actions_to_expression",
    "attributes_from_expression",
    "attributes_to_expression",
    "authority_from_expression",
    "authority_to_expression",
    "checked_sense",
    "resource_from_expression",
    "resource_to_expression",
    "terms_from_expressions",
    "terms_to_expressions",
]

_ANY: Final = b"*"
_REMEMBERED_PATTERNS: Final = 1024
_ACTIONS: Final = {action.value.encode(): action for action in Action}


def authority_to_expression(authority: Authority) -> SExpression:
    """Return the one expression of an authority."""
    checked_sense(authority)
    return (
        b"tag",
        resource_to_expression(authority.resources),
        actions_to_expression(authority.actions),
        attributes_to_expression(authority.attributes),
        *terms_to_expressions((authority.restriction, authority.condition)),
    )


def authority_from_expression(expression: SExpression) -> Authority:
    """Read an authority strictly: whatever `authority_to_expression` would not write is refused."""
    match expression:
        case (b"tag", resource, actions, attributes, *terms):
            restriction, condition = terms_from_expressions(terms)
            authority = Authority(
                resource_from_expression(resource),
                actions_from_expression(actions),
                attributes_from_expression(attributes),
                restriction,
                condition,
            )
            return checked_sense(authority)
    raise BadAuthority("a `tag` must state a resource, `actions` and `attributes`, in this order")


def checked_sense(authority: Authority) -> Authority:
    """Return the authority, refused if it grants what cannot be done."""
    actions, fitting = authority.actions, FITTING_ACTIONS[type(authority.resources)]
    if not actions:
        raise BadAuthority("a certificate without actions grants nothing")
    if actions != ALL_ACTIONS and not actions <= fitting:
        odd = ", ".join(sorted(f"`{action.value}`" for action in actions - fitting))
        raise BadAuthority(f"{odd} cannot be done with a {_called(authority.resources)}")
    if not authority.attributes and actions & EVENT_ACTIONS:
        raise BadAuthority("publishing or subscribing without any attribute grants nothing")
    if isinstance(authority.resources, NetworkPattern) and (
        authority.attributes is not ALL_ATTRIBUTES or authority.restriction != ALWAYS
    ):
        raise BadAuthority("a network has no attributes to choose or to restrict")
    return authority


def _called(resources: ResourcePattern) -> str:
    return type(resources).__name__.removesuffix("Pattern").lower()


def resource_to_expression(resources: ResourcePattern) -> SExpression:
    """Return the one expression of a resource pattern."""
    match resources:
        case AnyResource(owner):
            return (b"any",) if owner is None else (b"any", _owner_field(owner))
        case NetworkPattern(owner, name):
            return (b"network", _owner_field(owner), _pattern_field(b"name", name, checked_label))
        case TypePattern(owner, name, version):
            written = _ANY if version is None else checked_version(version).encode()
            return (
                b"type",
                _owner_field(owner),
                _pattern_field(b"name", name, checked_label),
                (b"version", written),
            )
        case TopicPattern(owner, path):
            return (b"topic", _owner_field(owner), _pattern_field(b"path", path, checked_topic_path))


def resource_from_expression(expression: SExpression) -> ResourcePattern:
    """Read a resource pattern, strictly."""
    match expression:
        case (b"type", (b"owner", owner), (b"name", *parts), (b"version", version)):
            wanted = None if version == _ANY else checked_version(text_from_atom(version))
            return TypePattern(_owner(owner), _pattern(parts, checked_label), wanted)
        case (b"network", (b"owner", owner), (b"name", *parts)):
            return NetworkPattern(_owner(owner), _pattern(parts, checked_label))
        case (b"topic", (b"owner", owner), (b"path", *parts)):
            return TopicPattern(_owner(owner), _pattern(parts, checked_topic_path))
        case (b"any",):
            return AnyResource()
        case (b"any", (b"owner", owner)) if owner != _ANY:
            return AnyResource(_owner(owner))
    raise BadAuthority(
        "a resource must be `any`, a `network`, a `type` or a `topic`, with all its fields in order"
    )


def _owner_field(owner: Owner | None) -> SExpression:
    return (b"owner", _ANY if owner is None else owner_to_expression(owner))


def _owner(expression: SExpression) -> Owner | None:
    return None if expression == _ANY else owner_from_expression(expression)


# The same few names are below many owners, in certificate after certificate.
@lru_cache(maxsize=_REMEMBERED_PATTERNS)
def _pattern_field(field: bytes, pattern: NamePattern, checked_exact: Callable[[str], str]) -> SExpression:
    checked = _checked_pattern(pattern, checked_exact)
    return (field, *(part.encode("ascii") for part in checked.parts()))


def _pattern(parts: list[SExpression], checked_exact: Callable[[str], str]) -> NamePattern:
    # Only strings of a bounded length are remembered.
    return _pattern_of_texts(tuple(text_from_atom(part, NAME_MAX) for part in parts), checked_exact)


@lru_cache(maxsize=_REMEMBERED_PATTERNS)
def _pattern_of_texts(texts: tuple[str, ...], checked_exact: Callable[[str], str]) -> NamePattern:
    return _checked_pattern(pattern_of_parts(texts), checked_exact)


def _checked_pattern(pattern: NamePattern, checked_exact: Callable[[str], str]) -> NamePattern:
    """Refuse a pattern that no name of its kind could match."""
    if pattern.exact is not None:
        checked_exact(pattern.exact)
    foreign = "/" if checked_exact is checked_label else "."
    if any(foreign in part for part in pattern.parts()):
        raise BadAuthority(f"`{pattern}` matches no name of this kind, because of `{foreign}`")
    return pattern


def actions_to_expression(actions: frozenset[Action]) -> SExpression:
    """Return `(actions …)`, sorted; all of them together are `*`."""
    return (
        (b"actions", _ANY)
        if actions == ALL_ACTIONS
        else (b"actions", *sorted(a.value.encode() for a in actions))
    )


def actions_from_expression(expression: SExpression) -> frozenset[Action]:
    """Read `(actions …)`, strictly."""
    match expression:
        case (b"actions", b"*"):
            return ALL_ACTIONS
        case (b"actions", *atoms) if len(atoms) < len(ALL_ACTIONS):
            return frozenset(map(_action, _checked_set(atoms)))
    raise BadAuthority("`(actions …)` was expected, and all of them together as `*`")


def attributes_to_expression(attributes: AttributeSet) -> SExpression:
    """Return `(attributes …)`, sorted by uid, or `*`."""
    if attributes is ALL_ATTRIBUTES:
        return (b"attributes", _ANY)
    if len(attributes) > ATTRIBUTES_MAX:
        raise BadAuthority(f"more than {ATTRIBUTES_MAX} attributes are listed")
    return (b"attributes", *sorted(attribute_uid(uid).encode() for uid in attributes))


def attributes_from_expression(expression: SExpression) -> AttributeSet:
    """Read `(attributes …)`, strictly."""
    match expression:
        case (b"attributes", b"*"):
            return ALL_ATTRIBUTES
        case (b"attributes", *atoms) if len(atoms) <= ATTRIBUTES_MAX:
            return frozenset(map(_uid, _checked_set(atoms)))
    raise BadAuthority(f"`(attributes …)` was expected, with at most {ATTRIBUTES_MAX} of them, or `*`")


def _action(atom: bytes) -> Action:
    if atom not in _ACTIONS:
        raise BadAuthority(f"`{atom[:64].decode('ascii', 'backslashreplace')}` is no action")
    return _ACTIONS[atom]


def _uid(atom: bytes) -> AttributeUid:
    return attribute_uid(text_from_atom(atom))


def _checked_set(atoms: list[SExpression]) -> list[bytes]:
    """Return the strings of a set, refused unless they are sorted and unique."""
    strings = [atom for atom in atoms if isinstance(atom, bytes)]
    if len(strings) != len(atoms) or any(first >= second for first, second in pairwise(strings)):
        raise BadAuthority("the elements of a set must be strings in the order of their bytes, each once")
    return strings


def terms_to_expressions(terms: tuple[Predicate, Predicate]) -> tuple[SExpression, ...]:
    """Return restriction and condition, each left out where it is always true."""
    named = zip((b"restriction", b"condition"), terms, strict=True)
    return tuple((name, predicate_to_expression(term)) for name, term in named if term != ALWAYS)


def terms_from_expressions(terms: Sequence[SExpression]) -> tuple[Predicate, Predicate]:
    """Read restriction and condition, strictly; what is left out is always true."""
    match terms:
        case []:
            return ALWAYS, ALWAYS
        case [(b"restriction", restriction)]:
            return _term(restriction), ALWAYS
        case [(b"condition", condition)]:
            return ALWAYS, _term(condition)
        case [(b"restriction", restriction), (b"condition", condition)]:
            return _term(restriction), _term(condition)
    raise BadAuthority("after `attributes` a `tag` may have one `restriction` and then one `condition`")


def _term(expression: SExpression) -> Predicate:
    predicate = predicate_from_expression(expression)
    if predicate == ALWAYS:
        raise BadAuthority("a term that is always true must be left out")
    return predicate
