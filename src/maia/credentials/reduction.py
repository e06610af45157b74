"""What does a chain of certificates amount to?

The 5-tuple reduction of SPKI (dissertation, section 2.6.1): two adjacent
certificates become one, whose authority and validity are the intersections.
Verifier and search ask; neither signature nor clock is looked at here. The
result never grants more than any of its parts, so a wider certificate further
down a chain is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    AnyResource,
    Authority,
)
from maia.credentials.authority_algebra import intersect
from maia.credentials.broken_chains import (
    BrokenChain,
    ChainGap,
    NotDelegable,
    NothingInCommon,
    NotOwnedByRoot,
    ValiditiesDisjoint,
    shown_id,
)
from maia.credentials.certificate import AuthorisationCertificate
from maia.credentials.principals import Owner, Principal, Subject
from maia.credentials.validity import Validity
from maia.predicates.syntax import ALWAYS, AllOf, Predicate

__all__ = [
    "FiveTuple",
    "Reducible",
    "five_tuple_of",
    "full_authority",
    "includes",
    "owned_part",
    "reduce_chain",
    "reduced",
]


@dataclass(frozen=True, slots=True)
class FiveTuple:
    """`issuer` grants `authority` to `subject`, who may pass it on if `may_delegate`."""

    issuer: Owner
    subject: Subject
    may_delegate: bool
    authority: Authority
    validity: Validity


Reducible: TypeAlias = FiveTuple | AuthorisationCertificate
"""Anything with the five fields; the signed text of a certificate is one such thing."""


def five_tuple_of(certificate: AuthorisationCertificate) -> FiveTuple:
    """Return the five fields of a certificate."""
    return FiveTuple(
        certificate.issuer,
        certificate.subject,
        certificate.may_delegate,
        certificate.authority,
        certificate.validity,
    )


def reduced(first: Reducible, second: Reducible) -> FiveTuple:
    """Return the one 5-tuple that two adjacent ones amount to, or say why there is none."""
    return reduce_chain((first, second))


def reduce_chain(links: Sequence[Reducible], ids: Sequence[bytes] = ()) -> FiveTuple:
    """Return the 5-tuple that a chain amounts to; `ids` name its certificates in refusals.

    This loop is the hot path of verification, so it unpacks the fields once
    and compares keys as bytes instead of building a 5-tuple per step.
    """
    if not links:
        raise ChainGap("a chain needs at least one certificate")
    first = links[0]
    subject, may_delegate, authority = first.subject, first.may_delegate, first.authority
    validity = first.validity
    start, end = validity.not_before, validity.not_after
    for place in range(1, len(links)):
        link = links[place]
        issuer = link.issuer
        if issuer is not subject and (
            issuer.__class__ is not Principal
            or subject.__class__ is not Principal
            or issuer.key != subject.key
        ):
            raise _gap(links, ids, place)
        if not may_delegate:
            raise _not_delegable(links, ids, place)
        other = link.authority
        if other is not authority:
            common = intersect(authority, other)
            if common is None:
                raise _nothing_in_common(ids, place)
            authority = common
        period = link.validity
        if period is not validity:
            bound = period.not_before
            if bound is not None and (start is None or bound > start):
                start = bound
            bound = period.not_after
            if bound is not None and (end is None or bound < end):
                end = bound
        subject, may_delegate = link.subject, link.may_delegate
    if start is not None and end is not None and end < start:
        raise _never_valid(links, ids)
    if start is not validity.not_before or end is not validity.not_after:
        validity = Validity(start, end)
    return FiveTuple(first.issuer, subject, may_delegate, authority, validity)


# ---------------------------------------------------------------- what an owner can grant


def full_authority(owner: Owner) -> Authority:
    """Return everything that `owner` may do with its own resources, and with no others."""
    return Authority(AnyResource(owner), ALL_ACTIONS, ALL_ATTRIBUTES, ALWAYS, ALWAYS)


def owned_part(authority: Authority, owner: Owner) -> Authority | None:
    """Return the part of `authority` about resources of `owner`; None if there is none.

    A chain conveys rights on the resources of its root alone. Without this
    step `type: *`, written by one type owner, would open every other owner's types.
    """
    resources = authority.resources
    named = resources.owner
    if named is None:
        return replace(authority, resources=replace(resources, owner=owner))
    return authority if named == owner else None


def checked_owned_part(authority: Authority, owner: Owner, identifier: bytes) -> Authority:
    """Return the part of `authority` that `owner` could grant, or blame the certificate."""
    owned = owned_part(authority, owner)
    if owned is None:
        raise NotOwnedByRoot(
            f"certificate {shown_id(identifier)} speaks of resources that do not belong to `{owner}`",
            certificate=identifier,
            field="authority",
        )
    return owned


# ---------------------------------------------------------------- is one wider than the other?


def includes(*, wide: Authority, narrow: Authority) -> bool:
    """Say whether `wide` surely grants all that `narrow` grants; a cautious no is possible."""
    if wide is narrow or wide == narrow:
        return True
    if not _terms_include(wide=wide.restriction, narrow=narrow.restriction):
        return False
    if not _terms_include(wide=wide.condition, narrow=narrow.condition):
        return False
    if not narrow.actions <= wide.actions or not _attributes_include(wide=wide, narrow=narrow):
        return False
    common = intersect(replace(wide, restriction=ALWAYS), replace(narrow, restriction=ALWAYS))
    return common is not None and common.resources == narrow.resources


def _attributes_include(*, wide: Authority, narrow: Authority) -> bool:
    if wide.attributes is ALL_ATTRIBUTES:
        return True
    return narrow.attributes is not ALL_ATTRIBUTES and narrow.attributes <= wide.attributes


def _terms_include(*, wide: Predicate, narrow: Predicate) -> bool:
    return wide == narrow or set(_conjuncts(wide)) <= set(_conjuncts(narrow))


def _conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, AllOf) else (predicate,)


# ---------------------------------------------------------------- why a reduction fails


def _called(ids: Sequence[bytes], place: int) -> tuple[str, bytes | None]:
    if place < len(ids):
        return f"certificate {shown_id(ids[place])}", ids[place]
    return f"certificate {place + 1} of the chain", None


def _gap(links: Sequence[Reducible], ids: Sequence[bytes], place: int) -> BrokenChain:
    name, identifier = _called(ids, place)
    return ChainGap(
        f"{name} was issued by `{links[place].issuer}`, to whom the one before it does not speak",
        certificate=identifier,
        field="issuer",
    )


def _not_delegable(links: Sequence[Reducible], ids: Sequence[bytes], place: int) -> BrokenChain:
    name, identifier = _called(ids, place - 1)
    return NotDelegable(
        f"{name} does not let its subject `{links[place].issuer}` pass the authority on",
        certificate=identifier,
        field="delegation",
    )


def _nothing_in_common(ids: Sequence[bytes], place: int) -> BrokenChain:
    name, identifier = _called(ids, place)
    return NothingInCommon(
        f"{name} grants nothing that the chain before it grants", certificate=identifier, field="authority"
    )


def _never_valid(links: Sequence[Reducible], ids: Sequence[bytes]) -> BrokenChain:
    so_far = links[0].validity
    place = 0
    while not so_far.is_empty:
        place += 1
        so_far = so_far.intersection(links[place].validity)
    name, identifier = _called(ids, place)
    return ValiditiesDisjoint(
        f"{name} is valid at no moment at which the chain before it is",
        certificate=identifier,
        field="validity",
    )
