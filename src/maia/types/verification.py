"""Is this definition what its owner wanted, and may it be used here and now?

Clients and brokers ask before they use a type. The answer needs no third
party: the owner's key is part of the name, and any other signer carries the
chain of certificates that leads from the owner to them (dissertation, figure
4.4). What comes back is a `VerifiedType`, or an error that says which right
is missing. Decisions are made on the bytes that were signed, read again here,
and never on what came beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from typing import Final, TypeAlias

from maia.credentials.authority import ALL_ATTRIBUTES, MANAGE_ACTIONS, Action, covers_request
from maia.credentials.certificate import UNBOUNDED, SignedCertificate, Validity
from maia.credentials.chains.chain import VerificationCache, VerifiedChain
from maia.credentials.chains.discovery import find_chains
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.chains.reduction import Budget, NoChain
from maia.credentials.keys import Principal, SignedKind, verify_signature
from maia.credentials.names import FIRST_VERSION, NetworkName, ResourceName, TypeName
from maia.errors import BrokenCredential
from maia.events import INSTANT_MAX, AttributeUid, Instant
from maia.predicates.syntax import ALWAYS
from maia.types.changes import Change, describe, diff, ways_to_allow
from maia.types.definition import SignedDefinition, TypeDefinition, protects_less
from maia.types.encoding import definition_from_body
from maia.types.verified import _SEAL, VerifiedType, VerifiedTypeCache

# The signer's right to publish a definition.


_Held: TypeAlias = Mapping[Action, tuple[VerifiedChain, ...]]

_MANAGE_IN_ORDER: Final = tuple(action for action in Action if action in MANAGE_ACTIONS)


class MissingRight(BrokenCredential):
    """The certificates inside a definition do not grant what its signer has done."""

    code = "TYPE-RIGHT-MISSING"


class InstallNotGranted(MissingRight):
    """The signer may not install types on this network."""

    code = "TYPE-INSTALL-NOT-GRANTED"


@dataclass(frozen=True, slots=True)
class Grounds:
    """Why a right is there: the chains, and whether the previous version was relied on."""

    chains: tuple[VerifiedChain, ...] = ()
    compared: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Who signed, what they carry, and the moment they are asked about."""

    signer: Principal
    credentials: tuple[SignedCertificate, ...]
    at: Instant
    constitutions: tuple[VerifiedConstitution, ...]
    cache: VerificationCache
    budget: Budget
    """What is left of the work for this definition: clients that may install nothing show them too (A87)."""

    def chains_for(
        self, action: Action, resource: ResourceName, *, may_be_tested: bool = False
    ) -> tuple[VerifiedChain, ...]:
        """Return the chains from the owner of `resource` to the signer, the longest lived first.

        Those that demand online tests count only where `may_be_tested` says that these are made later.
        """
        try:
            chains = find_chains(
                self.credentials,
                root=resource.owner,
                subject=self.signer,
                action=action,
                resource=resource,
                at=self.at,
                constitutions=self.constitutions,
                cache=self.cache,
                budget=self.budget,
            )
        except NoChain:
            return ()
        counting = [
            one for one in chains if _is_unconditional(one) and (may_be_tested or not one.validity.tests)
        ]
        return tuple(sorted(counting, key=_last_moment, reverse=True))


def management_grounds(
    definition: TypeDefinition,
    changes: tuple[Change, ...] | None,
    evidence: Evidence,
    *,
    reseals: bool = False,
    re_extends: bool = False,
) -> Grounds:
    """Return why the signer may make this version; `changes` is None where nothing was compared.

    `reseals` and `re_extends` say that the version is sealed otherwise, or has
    another super-type, than the one it was made from, which no single right allows.
    """
    name = definition.name
    if evidence.signer == name.owner:
        return Grounds()
    # The version in a manage capability is the one that may be changed (dissertation, section 5.2.2).
    changed = TypeName(name.owner, name.name, definition.previous or FIRST_VERSION)
    held = _rights(changed, evidence)
    if not held:
        raise MissingRight(
            "TYPE-NOT-A-MANAGER",
            f"`{evidence.signer}` is neither the owner nor a manager of type `{name.name}`",
        )
    everything = _chains_for_everything(held)
    if everything is not None:
        return Grounds(everything)
    if definition.previous is None:
        raise MissingRight(
            "TYPE-NOT-A-MANAGER",
            f"the first version of a type needs all management rights, and `{evidence.signer}` "
            f"holds {_words(held)} alone",
        )
    if changes is None:
        raise BrokenCredential(
            "TYPE-PREVIOUS-NEEDED",
            f"`{evidence.signer}` holds {_words(held)} alone: "
            f"version `{definition.previous}` is needed to see what was changed",
        )
    if reseals:
        raise MissingRight(
            "TYPE-CHANGE-NOT-GRANTED",
            "the signer may not change how the type is sealed: that needs every management right",
        )
    if re_extends:
        raise MissingRight(
            "TYPE-CHANGE-NOT-GRANTED",
            "the signer may not change the super-type: that needs every management right",
        )
    return Grounds(_chains_for_changes(changes, held), compared=True)


def extension_grounds(super_type: TypeName | None, definition: TypeDefinition, evidence: Evidence) -> Grounds:
    """Return why the signer may extend `super_type`: every chain, because one of them may be revoked.

    A grant of `extend` for some attributes only is none: a sub-type has them all. Tests are left to
    those who hear statements, each time that an event of the sub-type is seen as the super-type.
    """
    if super_type is None or evidence.signer == super_type.owner:
        return Grounds()
    found = evidence.chains_for(Action.EXTEND, super_type, may_be_tested=True)
    chains = tuple(chain for chain in found if chain.authority.attributes is ALL_ATTRIBUTES)
    if not chains:
        raise MissingRight(
            "TYPE-EXTEND-NOT-GRANTED",
            f"`{evidence.signer}` may not extend type `{super_type.name}` with `{definition.name.name}`: "
            "the definition holds no chain from the super-type's owner",
        )
    return Grounds(chains)


def install_grounds(network: NetworkName | None, definition: TypeDefinition, evidence: Evidence) -> Grounds:
    """Return why the signer may install types on `network`; without a network it is not required."""
    if network is None or evidence.signer == network.owner:
        return Grounds()
    chains = evidence.chains_for(Action.INSTALL, network)
    if not chains:
        raise InstallNotGranted(
            f"`{evidence.signer}` may not install type `{definition.name.name}` on network `{network.name}`: "
            "the definition holds no chain from the network's coordinator"
        )
    return Grounds(chains[:1])


def install_credentials(
    principal: Principal,
    network: NetworkName,
    pool: Iterable[SignedCertificate],
    now: Instant,
    constitutions: tuple[VerifiedConstitution, ...] = (),
) -> tuple[SignedCertificate, ...]:
    """Return the certificates that let a principal install types on a network; none if it has no right.

    They are embedded in the definitions that it signs.
    """
    budget = Budget.of(_WORK_MAX)
    evidence = Evidence(principal, tuple(pool), now, constitutions, VerificationCache(), budget)
    chains = () if principal == network.owner else evidence.chains_for(Action.INSTALL, network)
    return chains[0].certificates if chains else ()


def _rights(changed: TypeName, evidence: Evidence) -> _Held:
    """Return the chains for each management right that the signer holds; one chain often grants all."""
    held: dict[Action, tuple[VerifiedChain, ...]] = {}
    for action in _MANAGE_IN_ORDER:
        known = {id(chain): chain for chains in held.values() for chain in chains}.values()
        complete = [
            chain
            for chain in known
            if chain.authority.attributes is ALL_ATTRIBUTES
            and covers_request(chain.authority, action, changed)
        ]
        chains = tuple(complete) or evidence.chains_for(action, changed)
        if chains:
            held[action] = chains
    return held


def _chains_for_everything(held: _Held) -> tuple[VerifiedChain, ...] | None:
    """Return chains that grant every change of every attribute, if there are such."""
    complete = [_first_about(held.get(action, ()), None) for action in _MANAGE_IN_ORDER]
    found = [chain for chain in complete if chain is not None]
    return _distinct(found) if len(found) == len(complete) else None


def _chains_for_changes(changes: tuple[Change, ...], held: _Held) -> tuple[VerifiedChain, ...]:
    # A version without changes needs some management right, and any one will do.
    used = [] if changes else [next(iter(held.values()))[0]]
    for change in changes:
        ways = ways_to_allow(change)
        allowed = next(filter(None, (_chains_for_way(way, held) for way in ways)), None)
        if allowed is None:
            raise MissingRight(
                "TYPE-CHANGE-NOT-GRANTED",
                f"the signer may not {describe(change)}: that needs " + " or ".join(map(_words, ways)),
            )
        used += allowed
    return _distinct(used)


def _chains_for_way(way: Mapping[Action, AttributeUid], held: _Held) -> list[VerifiedChain] | None:
    chains = [_first_about(held.get(action, ()), uid) for action, uid in way.items()]
    found = [chain for chain in chains if chain is not None]
    return found if len(found) == len(way) else None


def _first_about(chains: tuple[VerifiedChain, ...], uid: AttributeUid | None) -> VerifiedChain | None:
    """Return the first chain that is about `uid`; None means all attributes."""
    for chain in chains:
        about = chain.authority.attributes
        if about is ALL_ATTRIBUTES or uid in about:
            return chain
    return None


def _is_unconditional(chain: VerifiedChain) -> bool:
    # Terms speak of events and of facts, and tests of what is known at a moment. There is nothing here to
    # ask, and a definition is believed for long: so a right under terms is no right, nor one under tests
    # unless the caller makes them later.
    authority = chain.authority
    return authority.restriction == ALWAYS and authority.condition == ALWAYS


def _last_moment(chain: VerifiedChain) -> int:
    last = chain.validity.not_after
    return INSTANT_MAX + 1 if last is None else last


def _distinct(chains: Iterable[VerifiedChain]) -> tuple[VerifiedChain, ...]:
    return tuple({id(chain): chain for chain in chains}.values())


def _words(actions: Iterable[Action]) -> str:
    return " and ".join(f"`{action.value}`" for action in actions)


_WORK_MAX: Final = 100_000
"""Steps that the searches for all rights of one signer may take by default."""


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
    # Who may change how events are sealed may also demand that their deliveries are on record.
    reseals = previous is not None and (
        previous.sealing != definition.sealing
        or previous.definition.signed != definition.signed
        or previous.definition.ledger != definition.ledger
    )
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
        raise BrokenCredential(
            "TYPE-TAMPERED", f"the definition of `{signed.definition.name.name}` is not what was signed"
        )
    return definition


def _changes_since(previous: VerifiedType | None, definition: TypeDefinition) -> tuple[Change, ...] | None:
    if previous is None:
        return None
    name = definition.name
    if definition.previous is None:
        raise BrokenCredential(
            "TYPE-WRONG-PREVIOUS", f"`{name.name}` is a first version and follows no other"
        )
    if previous.name != TypeName(name.owner, name.name, definition.previous):
        raise BrokenCredential(
            "TYPE-WRONG-PREVIOUS",
            f"`{name.name}` says that it follows version `{definition.previous}`, "
            f"and was compared with version `{previous.name.version}` of `{previous.name.name}`",
        )
    if previous.definition.ledger and not definition.ledger:
        raise BrokenCredential(
            "TYPE-LEDGER-GIVEN-UP",
            f"version `{name.version}` of `{name.name}` demands no ledger, and version "
            f"`{definition.previous}` does",
        )
    if protects_less(definition, than=previous.definition):
        raise BrokenCredential(
            "TYPE-SEALING-WEAKENED",
            f"version `{name.version}` of `{name.name}` protects its events less than version "
            f"`{definition.previous}`",
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
        raise BrokenCredential(
            "TYPE-EXPIRED", f"the version that the signer was allowed to change does not hold at {at}"
        )


def _out_of_date(
    credentials: tuple[SignedCertificate, ...], at: Instant, grounds_at: Callable[[Instant], object]
) -> BrokenCredential | None:
    """Return whether the rights were there at another moment, for which certificates inside give the hint."""
    validities = [signed.certificate.validity for signed in credentials]
    ends = [each.not_after for each in validities if each.not_after is not None and each.not_after < at]
    starts = [each.not_before for each in validities if each.not_before is not None and each.not_before > at]
    if ends and _succeeds(grounds_at, min(ends)):
        return BrokenCredential(
            "TYPE-EXPIRED", f"the credentials inside the definition expired at {min(ends)}"
        )
    if starts and _succeeds(grounds_at, max(starts)):
        return BrokenCredential(
            "TYPE-NOT-YET-VALID", f"the credentials inside the definition hold from {max(starts)} on"
        )
    return None


def _succeeds(grounds_at: Callable[[Instant], object], moment: Instant) -> bool:
    try:
        grounds_at(moment)
    except BrokenCredential:
        return False
    return True
