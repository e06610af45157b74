"""What does a subscriber ask of publishers, and a publisher of subscribers?

A requirement is a predicate over the attributes of an identity statement, in
the language of filters (Gismo 3.1): `nationality == "uk" or clearance >= 3`.
It may compare two attributes of the statement: `rank >= needed_rank`.
It is fail-closed. An attribute that a statement lacks, or has with another
kind, satisfies nothing, also under `not`; a requirement may not ask whether
an attribute is missing. So an identity with fewer attributes never meets more,
and a peer that shows no statement meets nothing but what every peer meets.

What a subscriber asks of publishers is joined to its filter, as questions
about reserved attributes: `publisher.clearance`. No type can define one, and
no frame can have one as a column. A frame is matched as if each of its rows had the
publisher's attributes, so covering, merging and matching work as for filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

from maia.canonical import Limits, read_canonical, write_canonical
from maia.credentials.identity import Identity, identity_values
from maia.errors import BadInput, ProtocolViolation
from maia.events import PUBLISHER_PREFIX, AttributeUid, Column, Frame, PresentValue, kind_of, stated_uid
from maia.predicates import (
    ALWAYS,
    DEPTH_MAX,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Predicate,
    TextMatch,
    admits,
    attributes_of,
    checked_size,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.predicates.attribute_pairs import with_pairs
from maia.predicates.language.parser import parse_about_statement
from maia.predicates.syntax import conjuncts

Attributes: TypeAlias = Mapping[AttributeUid, PresentValue]
"""What a statement says, as a requirement reads it."""

PATH_LEVEL: Final = AttributeUid("path-level")
PATH_TRUST: Final = AttributeUid("path-trust")
PATH_ROUTERS: Final = AttributeUid("path-routers")
PATH_PROVIDERS: Final = AttributeUid("path-providers")
_OF_PATH: Final = frozenset({PATH_LEVEL, PATH_TRUST, PATH_ROUTERS, PATH_PROVIDERS})
"""What a subscription may require of the routers on the way; no provider states these (`paths.py`)."""

NO_ATTRIBUTES: Final[Attributes] = {}
NO_REQUIREMENT: Final[Predicate] = ALWAYS
REQUIREMENT_BYTES_MAX: Final = 4096
"""A requirement travels with every frame, so it is shorter than a filter may be."""

_LIMITS: Final = Limits(
    size_max=REQUIREMENT_BYTES_MAX, depth_max=DEPTH_MAX + 2, atom_max=REQUIREMENT_BYTES_MAX
)
_REQUIREMENTS_REMEMBERED: Final = 1024


def parse_requirement(text: str) -> Predicate:
    """Read a requirement as people write it; refuse it with the column and a hint, as a filter is."""
    return checked_requirement(parse_about_statement(text))


def checked_requirement(requirement: Predicate) -> Predicate:
    """Return a requirement, refused if it is too large or if a missing attribute could satisfy it."""
    pending: list[tuple[Predicate, bool]] = [(checked_size(requirement), True)]
    while pending:
        node, is_positive = pending.pop()
        match node:
            case Not(inner):
                pending.append((inner, not is_positive))
            case AllOf(parts) | AnyOf(parts):
                pending.extend((part, is_positive) for part in parts)
            case Exists(uid) if not is_positive:
                raise BadInput(
                    "INPUT-REQUIREMENT",
                    f"`not exists({uid})` asks for a missing attribute, and what is missing satisfies "
                    "no requirement: ask for a value instead",
                )
            case _:
                pass
    for part in conjuncts(requirement):
        if not (about := _OF_PATH & attributes_of(part)) or attributes_of(part) <= _OF_PATH:
            continue
        raise BadInput(
            "INPUT-REQUIREMENT",
            f"`{min(about)}` is about the routers on the way: ask in a part of its own, joined by `and`",
        )
    if len(write_canonical(predicate_to_expression(requirement))) > REQUIREMENT_BYTES_MAX:
        raise BadInput("INPUT-REQUIREMENT", f"a requirement is longer than {REQUIREMENT_BYTES_MAX} bytes")
    return requirement


def of_path(requirement: Predicate) -> Predicate:
    """Return the part of a requirement that is about the routers on the way."""
    parts = tuple(one for one in conjuncts(requirement) if attributes_of(one) & _OF_PATH)
    return AllOf(parts) if parts else NO_REQUIREMENT


def _of_publisher(requirement: Predicate) -> Predicate:
    """Return the rest of it, which brokers on the way can decide, too."""
    if not attributes_of(requirement) & _OF_PATH:
        return requirement
    parts = tuple(one for one in conjuncts(requirement) if not attributes_of(one) & _OF_PATH)
    return parts[0] if len(parts) == 1 else AllOf(parts)


def attributes_of_identity(identity: Identity | None) -> Attributes:
    """Return what requirements ask about; nothing of a peer that has shown no statement."""
    return NO_ATTRIBUTES if identity is None else with_pairs(identity_values(identity))


def is_met(requirement: Predicate, attributes: Attributes) -> bool:
    """True if these attributes satisfy the requirement; this is the definition."""
    return admits(requirement, attributes)


# ------------------------------------------------------------ as bytes


def requirement_to_bytes(requirement: Predicate) -> bytes:
    """Return the one form of a requirement as it travels; no bytes if nothing is required."""
    return b"" if requirement == ALWAYS else write_canonical(predicate_to_expression(requirement))


@lru_cache(maxsize=_REQUIREMENTS_REMEMBERED)
def requirement_from_bytes(data: bytes) -> Predicate:
    """Read exactly what `requirement_to_bytes` writes of a requirement that can be used."""
    if not data:
        return NO_REQUIREMENT
    try:
        requirement = checked_requirement(
            predicate_from_expression(read_canonical(data, _LIMITS), stated_uid)
        )
    except BadInput as problem:
        raise ProtocolViolation(
            "PROTOCOL-REQUIREMENT", f"the requirement cannot be read: {problem.message}"
        ) from problem
    if requirement == ALWAYS:
        raise ProtocolViolation("PROTOCOL-REQUIREMENT", "a requirement of nothing is written as no bytes")
    return requirement


# ------------------------------------------------------------ as a part of a filter


def about_publisher(requirement: Predicate) -> Predicate:
    """Return a requirement as questions about the reserved attributes of a frame's publisher."""
    # Recursive behind the depth that `checked_requirement` keeps.
    match requirement:
        case AllOf(parts):
            return AllOf(tuple(map(about_publisher, parts)))
        case AnyOf(parts):
            return AnyOf(tuple(map(about_publisher, parts)))
        case Not(inner):
            return Not(about_publisher(inner))
        case Exists(uid):
            return Exists(_reserved(uid))
        case Comparison(uid, operator, literal):
            return Comparison(_reserved(uid), operator, literal)
        case Membership(uid, literals):
            return Membership(_reserved(uid), literals)
        case TextMatch(uid, test, text):
            return TextMatch(_reserved(uid), test, text)
        case _:
            assert_never(requirement)


def joined_with_filter(wanted: Predicate, requirement: Predicate) -> Predicate:
    """Return a filter that admits what `wanted` admits of publishers that meet the requirement.

    What it requires of the path is decided at its end, by the subscriber's broker.
    """
    requirement = _of_publisher(requirement)
    if requirement == ALWAYS:
        return wanted
    asked = about_publisher(requirement)
    return asked if wanted == ALWAYS else AllOf((wanted, asked))


def seen_with_publisher(frame: Frame, attributes: Attributes) -> Frame:
    """Return a frame as filters with requirements see it: with the publisher's attributes in each row."""
    if not attributes:
        return frame
    constant = {
        _reserved(uid): Column(kind_of(value), (value,) * frame.rows) for uid, value in attributes.items()
    }
    return _MatchedFrame(frame.rows, {**frame.columns, **constant})


class _MatchedFrame(Frame, frozen=True):
    """A frame with the publisher's attributes, which may be more columns than a type may have."""

    def __post_init__(self) -> None:
        """Check nothing: the frame was checked, and the other columns were counted."""


@lru_cache(maxsize=_REQUIREMENTS_REMEMBERED)
def _reserved(uid: AttributeUid) -> AttributeUid:
    return AttributeUid(PUBLISHER_PREFIX + uid)
