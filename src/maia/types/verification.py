"""Is this definition what its owner wanted, and may it be used here and now?

Clients and brokers ask before they use a type. The answer needs no third
party: the owner's key is part of the name, and any other signer carries the
chain of certificates that leads from the owner to them (dissertation, figure
4.4). What comes back is a `VerifiedType`, or an error that says which right
is missing. Decisions are made on the bytes that were signed, read again here,
and never on what came beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from hashlib import sha256
from typing import Final

from maia.credentials.certificate import SignedCertificate
from maia.credentials.chains.budget import Budget
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.keys import SignedKind, verify_signature
from maia.credentials.names import NetworkName, TypeName
from maia.credentials.validity.period import UNBOUNDED, Validity
from maia.errors import BrokenCredential
from maia.events import Instant
from maia.types.changes import Change, diff
from maia.types.definition import SignedDefinition, TypeDefinition
from maia.types.encoding import definition_from_body
from maia.types.rights import (
    Evidence,
    Grounds,
    MissingRight,
    extension_grounds,
    install_grounds,
    management_grounds,
)
from maia.types.sealing import SealingWeakened, is_weaker
from maia.types.verified import _SEAL, VerifiedType, VerifiedTypeCache

__all__ = [
    "DefinitionExpired",
    "DefinitionNotYetValid",
    "TamperedDefinition",
    "WrongPreviousVersion",
    "verify_definition",
]

_WORK_MAX: Final = 100_000
"""Steps that the searches for all rights of one signer may take by default."""


class TamperedDefinition(BrokenCredential):
    """What a signed definition shows is not what its signed bytes say."""

    code = "TYPE-TAMPERED"


class WrongPreviousVersion(BrokenCredential):
    """A version was compared with a version that it does not name as its previous one."""

    code = "TYPE-WRONG-PREVIOUS"


class DefinitionExpired(BrokenCredential):
    """A definition depends on credentials that have expired."""

    code = "TYPE-EXPIRED"


class DefinitionNotYetValid(BrokenCredential):
    """A definition depends on credentials that are not valid yet."""

    code = "TYPE-NOT-YET-VALID"


def verify_definition(
    signed: SignedDefinition,
    *,
    at: Instant,
    previous: VerifiedType | None = None,
    network: NetworkName | None = None,
    constitutions: tuple[VerifiedConstitution, ...] = (),
    cache: VerifiedTypeCache | None = None,
    budget: Budget | None = None,
) -> VerifiedType:
    """Return the proof that `signed` holds at `at`, or raise what is wrong with it.

    `previous` is the version that the definition names; it is needed where the
    signer holds some management rights only, and compared wherever it is given.
    With `network` the signer must also be allowed to install types there.
    `budget` is what all searches for the signer's rights may cost.
    """
    budget = Budget.of(_WORK_MAX) if budget is None else budget
    if cache is None:
        cache = VerifiedTypeCache()
        return _verified_anew(signed, at, previous, network, constitutions, cache, budget)
    # The usual way is short on purpose: a subscription with a known type ends here.
    verified = cache.find(signed, at, network, previous, constitutions)
    if verified is None:
        verified = _verified_anew(signed, at, previous, network, constitutions, cache, budget)
        cache.keep(verified)
    return verified


def _verified_anew(
    signed: SignedDefinition,
    at: Instant,
    previous: VerifiedType | None,
    network: NetworkName | None,
    constitutions: tuple[VerifiedConstitution, ...],
    cache: VerifiedTypeCache,
    budget: Budget,
) -> VerifiedType:
    definition = _definition_as_signed(signed)
    changes = _changes_since(previous, definition)
    reseals = previous is not None and previous.sealing != definition.sealing
    re_extends = previous is not None and previous.definition.extends != definition.extends
    super_type: VerifiedType | None = None
    for one in definition.extends:
        budget.spend_check()
        super_type = verify_definition(
            one,
            at=at,
            previous=super_type,
            network=network,
            constitutions=constitutions,
            cache=cache,
            budget=budget,
        )
    extended = None if super_type is None else super_type.name

    def grounds_at(moment: Instant) -> tuple[Grounds, Grounds, Grounds]:
        evidence = Evidence(
            signed.signer, definition.credentials, moment, constitutions, cache.certificates, budget
        )
        managing = management_grounds(definition, changes, evidence, reseals=reseals, re_extends=re_extends)
        extending = extension_grounds(extended, definition, evidence)
        return managing, extending, install_grounds(network, definition, evidence)

    try:
        managing, extending, installing = grounds_at(at)
    except MissingRight as problem:
        raise _out_of_date(definition.credentials, at, grounds_at) or problem from None
    validity = _validity_of((managing, installing), previous if managing.compared else None)
    _check_compared_version(validity, at)
    if super_type is not None:
        validity = validity.intersection(super_type.validity)
    if extending.chains:
        # The longest lived one; its tests are made when an event is to be seen as the super-type.
        longest = extending.chains[0].validity
        validity = validity.intersection(Validity(longest.not_before, longest.not_after))
    return VerifiedType(
        signed=signed,
        validity=validity,
        chains=managing.chains + installing.chains,
        network=network,
        constitutions=_relevant(constitutions, definition, network, super_type),
        previous_id=None if previous is None else previous.id,
        changes=changes,
        super_type=super_type,
        extension=extending.chains,
        seal=_SEAL,
    )


def _definition_as_signed(signed: SignedDefinition) -> TypeDefinition:
    """Check the signature and return what the signed bytes say, if the object beside them agrees."""
    verify_signature(signed.signer, SignedKind.TYPE_DEFINITION, signed.body, signed.signature)
    definition = definition_from_body(signed.body)
    if definition != signed.definition or sha256(signed.body).digest() != signed.id:
        raise TamperedDefinition(f"the definition of `{signed.definition.name.name}` is not what was signed")
    return definition


def _changes_since(previous: VerifiedType | None, definition: TypeDefinition) -> tuple[Change, ...] | None:
    if previous is None:
        return None
    name = definition.name
    if definition.previous is None:
        raise WrongPreviousVersion(f"`{name.name}` is a first version and follows no other")
    if previous.name != TypeName(name.owner, name.name, definition.previous):
        raise WrongPreviousVersion(
            f"`{name.name}` says that it follows version `{definition.previous}`, "
            f"and was compared with version `{previous.name.version}` of `{previous.name.name}`"
        )
    if is_weaker(definition.sealing, than=previous.sealing):
        raise SealingWeakened(
            f"version `{name.version}` of `{name.name}` seals less than version `{definition.previous}`"
        )
    return diff(previous, definition)


def _relevant(
    constitutions: Iterable[VerifiedConstitution],
    definition: TypeDefinition,
    network: NetworkName | None,
    super_type: VerifiedType | None,
) -> tuple[VerifiedConstitution, ...]:
    owners = {definition.name.owner, None if network is None else network.owner}
    if super_type is not None:
        owners |= {one.name.owner for one in (super_type, *super_type.super_types)}
    return tuple(one for one in constitutions if one.quorum in owners)


def _validity_of(grounds: Iterable[Grounds], compared_with: VerifiedType | None) -> Validity:
    # Who may add and not remove depends on the version before: a change is only as good as its start.
    start = UNBOUNDED if compared_with is None else compared_with.validity
    validities = (chain.validity for ground in grounds for chain in ground.chains)
    return reduce(Validity.intersection, validities, start)


def _check_compared_version(validity: Validity, at: Instant) -> None:
    if not validity.contains(at):
        raise DefinitionExpired(f"the version that the signer was allowed to change does not hold at {at}")


def _out_of_date(
    credentials: tuple[SignedCertificate, ...],
    at: Instant,
    grounds_at: Callable[[Instant], object],
) -> BrokenCredential | None:
    """Say whether the rights were there at another moment, for which certificates inside give the hint."""
    validities = [signed.certificate.validity for signed in credentials]
    ends = [each.not_after for each in validities if each.not_after is not None and each.not_after < at]
    starts = [each.not_before for each in validities if each.not_before is not None and each.not_before > at]
    if ends and _succeeds(grounds_at, min(ends)):
        return DefinitionExpired(f"the credentials inside the definition expired at {min(ends)}")
    if starts and _succeeds(grounds_at, max(starts)):
        return DefinitionNotYetValid(f"the credentials inside the definition hold from {max(starts)} on")
    return None


def _succeeds(grounds_at: Callable[[Instant], object], moment: Instant) -> bool:
    try:
        grounds_at(moment)
    except BrokenCredential:
        return False
    return True
