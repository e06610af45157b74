"""What changed between two versions of a type, and who may change it?

There are four changes: add, remove, rename and retype an attribute
(dissertation, sections 4.3 and 5.2.2), each with a right of its own. A
verifier asks for the changes between a version and its previous one; an
author applies changes to make the next version. The two are inverse: applying
`diff(old, new)` to `old` gives the attributes of `new`.

A uid means one attribute of one kind for ever. Renaming keeps the uid.
Retyping keeps the name and takes a new uid, so it equals remove and add
(docs/decisions/type-definitions.md).

An event leaves one version of its type and arrives in another: the publisher's
broker translates into transit, where only uids exist: no
names, no version (dissertation, section 4.3.2). The subscriber's broker
translates out of transit into the subscriber's version. Attributes that the
subscriber's version does not have are dropped, those that the publisher did
not send are null, and a renamed attribute arrives under its new name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never
from uuid import UUID

from maia.credentials.authority import Action
from maia.credentials.certificate import SignedCertificate
from maia.credentials.names import TypeName
from maia.errors import BadInput, BrokenCredential, ProtocolViolation
from maia.events import (
    Attribute,
    AttributeUid,
    BadFrame,
    Column,
    Event,
    Frame,
    Kind,
    PresentValue,
    Value,
    kind_of,
)
from maia.types.checks import check_event, checked_attribute_value, named_attribute
from maia.types.definition import BadDefinition, Sealing, SignedDefinition, TypeDefinition, TypeShape


class UidReused(BrokenCredential):
    """A uid means an attribute of one kind here and of another kind there."""

    code = "TYPE-UID-REUSED"

    def __init__(self, uid: AttributeUid, *, before: Kind, after: Kind) -> None:
        self.uid, self.before, self.after = uid, before, after
        super().__init__(
            f"uid `{uid}` is of kind {before.value} in one version and of kind {after.value} in another: "
            "another kind needs a new uid"
        )


@dataclass(frozen=True, slots=True)
class Added:
    """A new attribute, with a uid that the previous version does not have."""

    attribute: Attribute


@dataclass(frozen=True, slots=True)
class Removed:
    """An attribute of the previous version is gone."""

    attribute: Attribute


@dataclass(frozen=True, slots=True)
class Renamed:
    """The same attribute, by uid, has another name."""

    before: Attribute
    name: str

    @property
    def after(self) -> Attribute:
        """Return the attribute under its new name."""
        return Attribute(self.name, self.before.uid, self.before.kind)


@dataclass(frozen=True, slots=True)
class Retyped:
    """The same name now means an attribute of another kind, under a new uid."""

    before: Attribute
    after: Attribute

    def __post_init__(self) -> None:
        """Refuse what is another change, or none."""
        if self.after.uid == self.before.uid and self.after.kind is not self.before.kind:
            raise UidReused(self.before.uid, before=self.before.kind, after=self.after.kind)
        same_name = self.after.name == self.before.name
        if not same_name or self.after.kind is self.before.kind:
            raise BadInput(
                "TYPE-CHANGE-DOES-NOT-APPLY",
                f"retyping `{self.before.name}` keeps the name and changes uid and kind",
            )


Change: TypeAlias = Added | Removed | Renamed | Retyped


def diff(old: TypeShape, new: TypeShape) -> tuple[Change, ...]:
    """Return what changed from `old` to `new`; the order of attributes does not count.

    Raises `UidReused` where a uid has changed its kind, which is never allowed.
    """
    before = {attribute.uid: attribute for attribute in old.attributes}
    after = {attribute.uid: attribute for attribute in new.attributes}
    added = {attribute.name: attribute for uid, attribute in after.items() if uid not in before}
    changes: list[Change] = []
    for uid, attribute in before.items():
        change = _fate(attribute, kept=after.get(uid), replaced_by=added.get(attribute.name))
        if isinstance(change, Retyped):
            del added[attribute.name]
        if change is not None:
            changes.append(change)
    changes.extend(Added(attribute) for attribute in added.values())
    return tuple(changes)


def _fate(attribute: Attribute, *, kept: Attribute | None, replaced_by: Attribute | None) -> Change | None:
    if kept is not None:
        if kept.kind is not attribute.kind:
            raise UidReused(attribute.uid, before=attribute.kind, after=kept.kind)
        return None if kept.name == attribute.name else Renamed(attribute, kept.name)
    if replaced_by is not None and replaced_by.kind is not attribute.kind:
        return Retyped(attribute, replaced_by)
    return Removed(attribute)


def ways_to_allow(change: Change) -> tuple[Mapping[Action, AttributeUid], ...]:
    """Return the ways in which `change` can be allowed: each lists rights, and the attribute each is about.

    One way is enough, and all rights of that way are needed.
    """
    match change:
        case Added(attribute):
            return ({Action.MANAGE_ADD: attribute.uid},)
        case Removed(attribute):
            return ({Action.MANAGE_REMOVE: attribute.uid},)
        case Renamed(before, _):
            return ({Action.MANAGE_RENAME: before.uid},)
        case Retyped(before, after):
            # Removing and adding reaches the same version, so a signer that may do both may retype.
            return (
                {Action.MANAGE_RETYPE: before.uid},
                {Action.MANAGE_REMOVE: before.uid, Action.MANAGE_ADD: after.uid},
            )
        case _:
            assert_never(change)


def describe(change: Change) -> str:
    """Return a change as people say it, such as ``rename `a` to `b` (uid 9525)``."""
    match change:
        case Added(attribute):
            return f"add `{attribute.name}` (uid {attribute.uid}, {attribute.kind.value})"
        case Removed(attribute):
            return f"remove `{attribute.name}` (uid {attribute.uid}, {attribute.kind.value})"
        case Renamed(before, name):
            return f"rename `{before.name}` to `{name}` (uid {before.uid})"
        case Retyped(before, after):
            return (
                f"retype `{before.name}` from {before.kind.value} (uid {before.uid}) "
                f"to {after.kind.value} (uid {after.uid})"
            )
        case _:
            assert_never(change)


def apply_changes(attributes: Sequence[Attribute], changes: Iterable[Change]) -> tuple[Attribute, ...]:
    """Return the attributes after all changes, which happen together and not one after another.

    Together, so that two attributes can exchange their names. A renamed or
    retyped attribute keeps its place and a new one goes to the end.
    """
    fates: dict[AttributeUid, Attribute | None] = {}
    added: list[Attribute] = []
    present = {attribute.uid: attribute for attribute in attributes}
    for change in changes:
        match change:
            case Added(attribute):
                _check_new(attribute, present)
                added.append(attribute)
            case Removed(attribute):
                _decide(fates, present, attribute, None)
            case Renamed(before, _):
                _decide(fates, present, before, change.after)
            case Retyped(before, after):
                _check_new(after, present)
                _decide(fates, present, before, after)
            case _:
                assert_never(change)
    kept = [fates.get(attribute.uid, attribute) for attribute in attributes]
    return (*(attribute for attribute in kept if attribute is not None), *added)


def _check_new(attribute: Attribute, present: Mapping[AttributeUid, Attribute]) -> None:
    found = present.get(attribute.uid)
    if found is None:
        return
    if found.kind is not attribute.kind:
        raise UidReused(attribute.uid, before=found.kind, after=attribute.kind)
    raise BadInput(
        "TYPE-CHANGE-DOES-NOT-APPLY",
        f"uid `{attribute.uid}` is taken by `{found.name}`: a new attribute needs a new uid",
    )


def _decide(
    fates: dict[AttributeUid, Attribute | None],
    present: Mapping[AttributeUid, Attribute],
    before: Attribute,
    after: Attribute | None,
) -> None:
    if present.get(before.uid) != before:
        raise BadInput(
            "TYPE-CHANGE-DOES-NOT-APPLY",
            f"the previous version has no attribute `{before.name}` with uid `{before.uid}`",
        )
    if before.uid in fates:
        raise BadInput("TYPE-CHANGE-DOES-NOT-APPLY", f"attribute `{before.name}` is changed twice")
    fates[before.uid] = after


def next_version(  # noqa: PLR0913 - the fields of a definition
    definition: TypeDefinition,
    changes: Iterable[Change],
    *,
    version: UUID,
    credentials: tuple[SignedCertificate, ...] = (),
    sealing: Sealing | None = None,
    extends: tuple[SignedDefinition, ...] | None = None,
    ledger: bool = False,
    signed: bool = False,
) -> TypeDefinition:
    """Return the version that follows `definition`, not yet signed.

    `version` is handed in because chance lives elsewhere. Credentials are
    never inherited: they belong to the signer (dissertation, section 4.3.3).
    Sealing is inherited unless another one is given; neither it nor signing can be given up.
    The super-type stays unless another one, or none, is given. A `ledger` that was demanded once
    is demanded for ever.
    """
    name, sealing = definition.name, sealing or definition.sealing
    attributes = apply_changes(definition.attributes, changes)
    if not attributes:
        raise BadDefinition("a type has at least one attribute")
    return TypeDefinition(
        name=TypeName(owner=name.owner, name=name.name, version=str(version)),
        previous=name.version,
        attributes=attributes,
        credentials=credentials,
        sealing=sealing,
        signed=sealing is None and (definition.signed or signed),
        extends=definition.extends if extends is None else extends,
        ledger=definition.ledger or ledger,
    )


class TransitKindMismatch(ProtocolViolation):
    """A transit event carries a value of a kind that its uid does not have.

    No two versions give one uid two kinds, so some peer did not check.
    """

    code = "TYPE-TRANSIT-KIND"


def to_transit(values: Mapping[str, object], event_type: TypeShape) -> dict[AttributeUid, PresentValue]:
    """Check a publisher's values against its version and return the transit event."""
    return check_event(values, event_type)


def from_transit(event: Event, event_type: TypeShape) -> dict[str, Value]:
    """Return a transit event as the subscriber's version names it; missing attributes are null."""
    return {attribute.name: _arrived(attribute, event) for attribute in event_type.attributes}


def translate(values: Mapping[str, object], *, sender: TypeShape, receiver: TypeShape) -> dict[str, Value]:
    """Carry a sender's values through transit to the receiver's version."""
    return from_transit(to_transit(values, sender), receiver)


def frame_to_transit(columns: Mapping[str, Sequence[object]], event_type: TypeShape, *, rows: int) -> Frame:
    """Check a publisher's columns and return the transit frame, one column per attribute given."""
    transit: dict[AttributeUid, Column] = {}
    for name, given in columns.items():
        attribute = named_attribute(name, event_type)
        if len(given) != rows:
            raise BadFrame(f"column `{name}` has {len(given)} rows where the frame has {rows}")
        values = tuple(checked_attribute_value(attribute, value) for value in given)
        transit[attribute.uid] = Column(attribute.kind, values)
    return Frame(rows, transit)


def frame_from_transit(frame: Frame, event_type: TypeShape) -> dict[str, Column]:
    """Return a transit frame's columns as the subscriber's version names them."""
    return {attribute.name: _arrived_column(attribute, frame) for attribute in event_type.attributes}


def _arrived(attribute: Attribute, event: Event) -> Value:
    value = event.get(attribute.uid)
    if value is not None and kind_of(value) is not attribute.kind:
        raise TransitKindMismatch(
            f"uid `{attribute.uid}` is of kind {attribute.kind.value}, and {kind_of(value).value} arrived"
        )
    return value


def _arrived_column(attribute: Attribute, frame: Frame) -> Column:
    column = frame.columns.get(attribute.uid)
    if column is None:
        return Column(attribute.kind, (None,) * frame.rows)
    if column.kind is not attribute.kind:
        raise TransitKindMismatch(
            f"uid `{attribute.uid}` is of kind {attribute.kind.value}, and {column.kind.value} arrived"
        )
    return column
