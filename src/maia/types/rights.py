"""May this signer publish this definition?

The verifier asks up to three times: may the signer manage the type, which the
type's owner grants; may the signer extend the super-type, which the
super-type's owner grants (MAIA'06, 3.1.3); and may the signer install types on
the network, which the network's coordinator grants (dissertation, section
5.2). Owners and coordinators need no certificate for what is theirs. Everybody else needs a
chain among the certificates inside the definition. An answer names the chains
it depends on, and a refusal names the right that is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from maia.credentials.authority import ALL_ATTRIBUTES, Action
from maia.credentials.authority_algebra import MANAGE_ACTIONS, covers_request
from maia.credentials.certificate import SignedCertificate
from maia.credentials.chains.budget import Budget
from maia.credentials.chains.cache import VerificationCache
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.chains.discovery import find_chains
from maia.credentials.chains.errors import NoChain
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.names import FIRST_VERSION, NetworkName, ResourceName, TypeName
from maia.credentials.principals import Principal
from maia.errors import BrokenCredential
from maia.events import INSTANT_MAX, AttributeUid, Instant
from maia.predicates.syntax import ALWAYS
from maia.types.changes import Change, describe, ways_to_allow
from maia.types.definition import TypeDefinition

__all__ = [
    "ChangeNotGranted",
    "Evidence",
    "ExtendNotGranted",
    "Grounds",
    "InstallNotGranted",
    "MissingRight",
    "NotAManager",
    "PreviousVersionNeeded",
    "extension_grounds",
    "install_grounds",
    "management_grounds",
]

_Held: TypeAlias = Mapping[Action, tuple[VerifiedChain, ...]]

_MANAGE_IN_ORDER: Final = tuple(action for action in Action if action in MANAGE_ACTIONS)


class MissingRight(BrokenCredential):
    """The certificates inside a definition do not grant what its signer has done."""

    code = "TYPE-RIGHT-MISSING"


class NotAManager(MissingRight):
    """The signer is neither the owner of the type nor a manager of it."""

    code = "TYPE-NOT-A-MANAGER"


class ChangeNotGranted(MissingRight):
    """The signer may manage the type, and not in this way."""

    code = "TYPE-CHANGE-NOT-GRANTED"


class InstallNotGranted(MissingRight):
    """The signer may not install types on this network."""

    code = "TYPE-INSTALL-NOT-GRANTED"


class ExtendNotGranted(MissingRight):
    """The signer may not extend the super-type; ask its owner for `extend`, and embed the certificates."""

    code = "TYPE-EXTEND-NOT-GRANTED"


class PreviousVersionNeeded(BrokenCredential):
    """The signer holds some management rights only, so the previous version must be at hand."""

    code = "TYPE-PREVIOUS-NEEDED"


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
        raise NotAManager(f"`{evidence.signer}` is neither the owner nor a manager of type `{name.name}`")
    everything = _chains_for_everything(held)
    if everything is not None:
        return Grounds(everything)
    if definition.previous is None:
        raise NotAManager(
            f"the first version of a type needs all management rights, and `{evidence.signer}` "
            f"holds {_words(held)} alone"
        )
    if changes is None:
        raise PreviousVersionNeeded(
            f"`{evidence.signer}` holds {_words(held)} alone: "
            f"version `{definition.previous}` is needed to see what was changed"
        )
    if reseals:
        raise ChangeNotGranted(
            "the signer may not change how the type is sealed: that needs every management right"
        )
    if re_extends:
        raise ChangeNotGranted("the signer may not change the super-type: that needs every management right")
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
        raise ExtendNotGranted(
            f"`{evidence.signer}` may not extend type `{super_type.name}` with `{definition.name.name}`: "
            "the definition holds no chain from the super-type's owner"
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
            raise ChangeNotGranted(
                f"the signer may not {describe(change)}: that needs " + " or ".join(map(_words, ways))
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
