"""Do these values, or does this filter, fit the type?

Publishers ask before an event leaves, subscribers before a filter is sent,
issuers before a restriction is signed. The first mismatch is an error to its
author that names the attribute, the kind expected and the kind found, and a
near name where there is one. Nothing is ever coerced.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import assert_never

from maia.credentials.authority import ALL_ATTRIBUTES, Authority
from maia.errors import BadInput
from maia.events import Attribute, AttributeUid, BadValue, Kind, PresentValue, Value, checked_value
from maia.predicates.syntax import (
    Atom,
    Comparison,
    Exists,
    Membership,
    Operator,
    Predicate,
    TextMatch,
    atoms,
    checked_size,
)
from maia.types.definition import TypeShape

_SHOWN_MAX = 64
_EQUALITY = (Operator.EQ, Operator.NE)


class KindMismatch(BadInput):
    """A filter or restriction asks something that this kind of attribute cannot answer."""

    code = "TYPE-KIND-MISMATCH"

    def __init__(self, attribute: Attribute, *, asked: str) -> None:
        self.attribute, self.expected = attribute, attribute.kind
        super().__init__(f"attribute `{attribute.name}` is of kind {attribute.kind.value}, and {asked}")


class ValueMismatch(BadInput):
    """A value is not one of the kind that its attribute declares."""

    code = "TYPE-VALUE-MISMATCH"


def named_attribute(name: str, event_type: TypeShape) -> Attribute:
    """Return the attribute called `name`, or say which near name may have been meant."""
    attribute = event_type.vocabulary.get(name)
    if attribute is None:
        raise BadInput(
            "TYPE-UNKNOWN-ATTRIBUTE",
            f"the type has no attribute `{_shown(name)}`{_near(name, event_type.vocabulary)}",
        )
    return attribute


def checked_attribute_value(attribute: Attribute, given: object) -> Value:
    """Return `given` as a value of the attribute's kind, or null; refuse everything else."""
    try:
        return checked_value(given, attribute.kind)
    except BadValue as problem:
        raise ValueMismatch(f"attribute `{attribute.name}`: {problem.message}") from problem


def check_event(values: Mapping[str, object], event_type: TypeShape) -> dict[AttributeUid, PresentValue]:
    """Return a publisher's values by uid, nulls left out, each checked against its attribute."""
    event: dict[AttributeUid, PresentValue] = {}
    vocabulary = event_type.vocabulary
    for name, given in values.items():
        attribute = vocabulary.get(name) or named_attribute(name, event_type)  # which says what is wrong
        value = checked_attribute_value(attribute, given)
        if value is not None:
            event[attribute.uid] = value
    return event


def check_predicate(predicate: Predicate, event_type: TypeShape) -> Predicate:
    """Return `predicate`, refused if it asks what this version of the type cannot answer."""
    kinds = event_type.kinds
    for atom in atoms(checked_size(predicate)):
        kind = kinds.get(atom.uid)
        if kind is None:
            raise BadInput(
                "TYPE-UNKNOWN-ATTRIBUTE",
                f"the type has no attribute with uid `{_shown(atom.uid)}`{_near(atom.uid, kinds)}",
            )
        asked = _misfit(atom, kind)
        if asked is not None:
            attribute = next(one for one in event_type.attributes if one.uid == atom.uid)
            raise KindMismatch(attribute, asked=asked)
    return predicate


def check_restriction(authority: Authority, event_type: TypeShape) -> Authority:
    """Return `authority`, refused if its attributes or its restriction do not fit the type.

    Its condition is about facts and not events, so it is not checked.
    """
    if authority.attributes is not ALL_ATTRIBUTES:
        for uid in sorted(authority.attributes - event_type.kinds.keys()):
            raise BadInput(
                "TYPE-UNKNOWN-ATTRIBUTE",
                f"the type has no attribute with uid `{_shown(uid)}`{_near(uid, event_type.kinds)}",
            )
    check_predicate(authority.restriction, event_type)
    return authority


def _misfit(atom: Atom, kind: Kind) -> str | None:
    """Say what `atom` asks of an attribute of `kind` that it cannot answer; None if it can."""
    match atom:
        case Exists():
            return None
        case TextMatch(_, test, _):
            return None if kind is Kind.STRING else f"`{test.value}` asks for a string"
        case Comparison(_, operator, _):
            if operator not in _EQUALITY and not kind.is_ordered:
                return f"`{operator.value}` asks for a kind with an order"
            return _literal_misfit(atom.kind, kind)
        case Membership():
            return _literal_misfit(atom.kind, kind)
        case _:
            assert_never(atom)


def _literal_misfit(found: Kind, expected: Kind) -> str | None:
    return None if found is expected else f"it is compared with a literal of kind {found.value}"


def _near(name: str, known: Iterable[str]) -> str:
    # Lower case on both sides: a wrong capital letter is the commonest slip.
    folded = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name[:_SHOWN_MAX].lower(), folded, n=1)
    return f": did you mean `{folded[close[0]]}`?" if close else ""


def _shown(text: str) -> str:
    return text[:_SHOWN_MAX].encode("unicode_escape").decode()
