"""People, certificates and type definitions for tests about event types.

Keys come from fixed seeds, so that a failing test shows the same keys every
time. `versions()` draws a version and a successor of it that breaks no rule.
"""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    NetworkPattern,
    ResourcePattern,
    TypePattern,
)
from maia.credentials.certificate import UNBOUNDED, SignedCertificate, Validity
from maia.credentials.keys import Owner, SigningKey, Subject
from maia.credentials.names import FIRST_VERSION, NetworkName, TypeName, parse_name_pattern
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.testing import grant as granted
from maia.types import Sealing, SignedDefinition, TypeDefinition

NOON = Instant.parse("2026-11-15T12:00:00Z")
NUMBERPLATE = "uk.gov.pito.Numberplate"

MANAGE = frozenset({Action.MANAGE_ADD, Action.MANAGE_REMOVE, Action.MANAGE_RENAME, Action.MANAGE_RETYPE})


def key(number: int) -> SigningKey:
    """Return the signing key of test person `number`."""
    return SigningKey.from_seed(bytes([number]) * 32)


PITO, CCS, MET, MANAGER, HELPER, MALLORY = (key(number) for number in range(1, 7))

NETWORK = NetworkName(PITO.principal, "UK Police Network")


def version(number: int) -> UUID:
    """Return a UUID that shows its number, in place of the papers' four-digit versions."""
    return UUID(int=number)


def attribute(name: str, uid: str, kind: Kind = Kind.STRING) -> Attribute:
    """Return an attribute; most examples of the papers are strings."""
    return Attribute(name, AttributeUid(uid), kind)


PLATE = attribute("numberplate", "3265")
TIME = attribute("timestamp", "9058", Kind.TIMESTAMP)
LOCATION = attribute("location", "3467")


def numberplate(
    *attributes: Attribute,
    owner: Owner = PITO.principal,
    number: int = 0,
    previous: int = 0,
    credentials: tuple[SignedCertificate, ...] = (),
    sealing: Sealing | None = None,
) -> TypeDefinition:
    """Return version `number` of PITO's type, made from `previous`."""
    name = FIRST_VERSION if number == 0 else str(version(number))
    before = None if number == 0 else FIRST_VERSION if previous == 0 else str(version(previous))
    wanted = attributes or (PLATE, TIME, LOCATION)
    return TypeDefinition(TypeName(owner, NUMBERPLATE, name), before, wanted, credentials, sealing)


def sub_type(
    above: SignedDefinition,
    *more: Attribute,
    owner: SigningKey = PITO,
    name: str = "uk.gov.met.Stolen",
    credentials: tuple[SignedCertificate, ...] = (),
    sealing: Sealing | None = None,
    lineage: tuple[SignedDefinition, ...] = (),
) -> TypeDefinition:
    """Return the first version of a sub-type of `above` that has `more` attributes."""
    return TypeDefinition(
        TypeName(owner.principal, name, FIRST_VERSION),
        None,
        (*above.definition.attributes, *more),
        credentials,
        sealing,
        (*lineage, above),
    )


def grant(
    issuer: SigningKey,
    subject: Subject,
    actions: frozenset[Action],
    resources: ResourcePattern,
    *,
    attributes: AttributeSet = ALL_ATTRIBUTES,
    may_delegate: bool = False,
    validity: Validity = UNBOUNDED,
) -> SignedCertificate:
    """Issue one certificate."""
    return granted(
        issuer,
        subject,
        resources,
        *actions,
        attributes=attributes,
        may_delegate=may_delegate,
        validity=validity,
    )


def type_pattern(
    owner: Owner = PITO.principal, name: str = NUMBERPLATE, version: str | None = None
) -> TypePattern:
    """Return a pattern of type names; by default every version of PITO's type."""
    return TypePattern(owner, parse_name_pattern(name), version)


def manage(
    issuer: SigningKey,
    subject: SigningKey,
    *actions: Action,
    owner: Owner = PITO.principal,
    attributes: AttributeSet = ALL_ATTRIBUTES,
    may_delegate: bool = False,
    validity: Validity = UNBOUNDED,
) -> SignedCertificate:
    """Let `issuer` grant management rights: all four unless some are named."""
    rights = frozenset(actions) or MANAGE
    return grant(
        issuer,
        subject.principal,
        rights,
        type_pattern(owner),
        attributes=attributes,
        may_delegate=may_delegate,
        validity=validity,
    )


def extend(
    issuer: SigningKey,
    subject: SigningKey,
    *,
    owner: Owner = PITO.principal,
    name: str = NUMBERPLATE,
    attributes: AttributeSet = ALL_ATTRIBUTES,
    may_delegate: bool = False,
    validity: Validity = UNBOUNDED,
) -> SignedCertificate:
    """Let `issuer` grant the right to extend a type."""
    return grant(
        issuer,
        subject.principal,
        frozenset({Action.EXTEND}),
        type_pattern(owner, name),
        attributes=attributes,
        may_delegate=may_delegate,
        validity=validity,
    )


def install(
    issuer: SigningKey, subject: SigningKey, *, may_delegate: bool = False, validity: Validity = UNBOUNDED
) -> SignedCertificate:
    """Let `issuer` grant the right to install types on PITO's network."""
    pattern = NetworkPattern(NETWORK.owner, parse_name_pattern(NETWORK.name))
    return grant(
        issuer,
        subject.principal,
        frozenset({Action.INSTALL}),
        pattern,
        may_delegate=may_delegate,
        validity=validity,
    )


def everything(issuer: SigningKey, subject: SigningKey, owner: Owner) -> SignedCertificate:
    """Let a throw-away owner hand over all rights to its type, for good."""
    return grant(issuer, subject.principal, ALL_ACTIONS, type_pattern(owner), may_delegate=True)


_NAMES = st.sampled_from(("plate", "Plate", "time", "place", "colour", "speed-limit", "x_1", "_"))
_UIDS = st.sampled_from(tuple(AttributeUid(text) for text in ("0", "1", "2", "3265", "9525", "3879", "a-b")))


def attributes() -> SearchStrategy[Attribute]:
    """Draw an attribute from small pools, so that two of them often share a name or a uid."""
    return st.builds(Attribute, _NAMES, _UIDS, st.sampled_from(tuple(Kind)))


def attribute_tuples(max_size: int = 5) -> SearchStrategy[tuple[Attribute, ...]]:
    """Draw the attributes of one version: names differ by more than case, and uids differ."""
    return st.lists(
        attributes(),
        min_size=1,
        max_size=max_size,
        unique_by=(lambda one: one.name.lower(), lambda one: one.uid),
    ).map(tuple)


@st.composite
def versions(draw: st.DrawFn) -> tuple[TypeDefinition, TypeDefinition]:
    """Draw a version and a later one in which no uid changes its kind."""
    old = numberplate(*draw(attribute_tuples()))
    drawn = draw(attribute_tuples())
    kept = tuple(Attribute(one.name, one.uid, old.kinds.get(one.uid, one.kind)) for one in drawn)
    return old, numberplate(*kept, number=1)
