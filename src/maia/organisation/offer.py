"""What of a grant or an invitation counts for the organisation that it was made for?

A file of another organisation brings what it grants, and nothing else (A71).
A certificate counts if it is on a chain from the owner of a network or a type
to us. A definition counts if such a chain is about it. Our own types never
come from others, and a version that we have is replaced by the same version
alone, signed again with certificates that hold for longer. What does not count is
named, and not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.config.type_folder import TypeNotFound, verified_lineage
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    BrokenChain,
    NameCertificate,
    NetworkName,
    Owner,
    Principal,
    SignedCertificate,
    TypeName,
    TypePattern,
    VerificationCache,
    check_signature,
    find_chains,
)
from maia.credentials.authority import FITTING_ACTIONS
from maia.credentials.names import ResourceName
from maia.errors import BadInput, BrokenCredential
from maia.events import Instant
from maia.organisation.grant_file import Grant
from maia.organisation.losses import is_membership
from maia.types import SignedDefinition, VerifiedType, content_digest

CERTIFICATES_MAX: Final = 128
"""How many certificates of one grant count at most: each is shown at every connection from then on."""
HELD_MAX: Final = 256
HELD_BYTES_MAX: Final = 256 << 10
"""How much an organisation holds at most: brokers read no more than twice that before they know a peer."""
_NETWORK_ACTIONS: Final = (Action.CONNECT, Action.INSTALL, Action.SERVE)
_TYPE_ACTIONS: Final = tuple(one for one in Action if one in FITTING_ACTIONS[TypePattern])

_Type = tuple[Owner, str]


@dataclass(frozen=True, slots=True)
class Offer:
    """What of a grant counts here, verified; `unused` says what does not, for people."""

    grant: Grant
    network: NetworkName
    invites: bool
    """Whether it brings a right to connect, and so brokers to join through."""
    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    definitions: tuple[SignedDefinition, ...] = field(repr=False)
    """What is new here, each after the version that it was made from."""
    types: tuple[str, ...]
    """The types that it grants a right to."""
    unused: tuple[str, ...]


def examine(
    grant: Grant,
    ours: Principal,
    held: Sequence[SignedCertificate],
    known: Iterable[SignedDefinition],
    now: Instant,
) -> Offer:
    """Verify a grant, and return what of it counts for the organisation with this key."""
    for one in grant.certificates:
        check_signature(one)
    network = NetworkName(grant.coordinator, grant.network)
    # A grant proves what it grants by itself: what it adds to the others counts if they are revoked.
    alone, together = (_Pool([*some, *grant.certificates], ours, now) for some in ((), held))
    membership = alone.leading_to(network, _NETWORK_ACTIONS)
    offered, before = _by_type(grant.definitions), _by_type(known)
    used = dict(membership)
    about: set[_Type] = set()
    for (owner, name), versions in offered.items():
        # One version that its owner has not signed, and all of the file is refused.
        newest = _verified(versions, (), now)[-1].name
        leading = alone.leading_to(newest, _TYPE_ACTIONS) or together.leading_to(newest, _TYPE_ACTIONS)
        if leading and owner != ours:
            used |= leading
            about.add((owner, name))
    about |= {one for signed in used.values() for one in _results(signed)}
    definitions: list[SignedDefinition] = []
    unused: list[str] = []
    for (owner, name), versions in offered.items():
        if owner == ours:
            unused.append(f"a definition of our own `{name}`, which is ours to change")
        elif (owner, name) not in about:
            unused.append(f"a definition of `{name}`, which no certificate in it is about")
        else:
            definitions += news_of(versions, before.get((owner, name), ()), now)
    new = {one.id: one for one in grant.certificates}
    kept = tuple(one for id_, one in new.items() if id_ in used)
    if len(kept) < len(new):
        unused.append(f"{len(new) - len(kept)} certificates that grant nothing here")
    _check_size(kept, held)
    invites = any(is_membership(one) for one in kept)
    types = tuple(sorted(name for owner, name in about if owner != ours and (owner, name) in offered))
    return Offer(grant, network, invites, kept, tuple(definitions), types, tuple(unused))


def chain_certificates(
    pool: Sequence[SignedCertificate],
    subject: Principal,
    wanted: Iterable[tuple[Action, ResourceName]],
    now: Instant,
) -> tuple[SignedCertificate, ...]:
    """Return the certificates by which a subject may do what is wanted, and no others of the pool."""
    found = _Pool(pool, subject, now)
    used: dict[bytes, SignedCertificate] = {}
    for action, resource in wanted:
        used |= found.leading_to(resource, (action,))
    return tuple(used.values())


class _Pool:
    """Certificates, sorted once by what they are about, so that a hundred types take a hundred times one."""

    def __init__(self, certificates: Sequence[SignedCertificate], ours: Principal, now: Instant) -> None:
        self._ours, self._now, self._cache = ours, now, VerificationCache()
        self._general: list[SignedCertificate] = []
        self._by_type: dict[_Type, list[SignedCertificate]] = {}
        for signed in certificates:
            one = signed.certificate
            about = None if isinstance(one, NameCertificate) else one.authority.resources
            if isinstance(about, TypePattern) and about.owner is not None and about.name.exact is not None:
                self._by_type.setdefault((about.owner, about.name.exact), []).append(signed)
            else:
                self._general.append(signed)

    def leading_to(self, resource: ResourceName, actions: Iterable[Action]) -> dict[bytes, SignedCertificate]:
        """Return the certificates on chains from the owner of a resource to us, by their ids."""
        special = (
            self._by_type.get((resource.owner, resource.name), []) if isinstance(resource, TypeName) else []
        )
        pool = [*special, *self._general]
        spoken = {
            action
            for one in pool
            if isinstance(one.certificate, AuthorisationCertificate)
            for action in one.certificate.authority.actions
        }
        found: dict[bytes, SignedCertificate] = {}
        for action in spoken.intersection(actions):
            try:
                chains = find_chains(
                    pool, root=resource.owner, subject=self._ours, action=action, resource=resource,
                    at=self._now, cache=self._cache,
                )  # fmt: skip
            except BrokenChain:
                continue
            found |= {one.id: one for chain in chains for one in chain.certificates}
        return found


def _results(signed: SignedCertificate) -> set[_Type]:
    """Return the types as which a certificate shows events, or writes them."""
    one = signed.certificate
    steps = one.authority.transformations if isinstance(one, AuthorisationCertificate) else ()
    return {(step.result.owner, step.result.name) for step in steps if step.result is not None}


def _by_type(definitions: Iterable[SignedDefinition]) -> Mapping[_Type, list[SignedDefinition]]:
    found: dict[_Type, list[SignedDefinition]] = {}
    for one in definitions:
        found.setdefault((one.definition.name.owner, one.definition.name.name), []).append(one)
    return found


def news_of(
    offered: Sequence[SignedDefinition], known: Sequence[SignedDefinition], now: Instant
) -> list[SignedDefinition]:
    """Return what is new of the versions of one type, if together with the known ones they verify."""
    by_version = {one.definition.name: content_digest(one.definition) for one in known}
    for name, content in ((one.definition.name, content_digest(one.definition)) for one in offered):
        if by_version.get(name, content) != content:
            raise BrokenCredential(
                "TYPE-FORK", f"version `{name.version}` of `{name.name}` is known here with other content"
            )
    ids = {one.id for one in known}
    return [one.signed for one in _verified(offered, known, now) if one.id not in ids]


def _verified(
    offered: Sequence[SignedDefinition], known: Sequence[SignedDefinition], now: Instant
) -> tuple[VerifiedType, ...]:
    name = offered[0].definition.name
    try:
        return verified_lineage([*known, *offered], owner=name.owner, name=name.name, version=None, at=now)
    except TypeNotFound as problem:
        raise BadInput(
            "INPUT-GRANT-FILE", f"the versions of `{name.name}` do not fit together: {problem.message}"
        ) from problem


def _check_size(kept: Sequence[SignedCertificate], held: Sequence[SignedCertificate]) -> None:
    if len(kept) > CERTIFICATES_MAX:
        raise BadInput(
            "INPUT-GRANT-FILE",
            f"the grant needs {len(kept)} certificates, more than the {CERTIFICATES_MAX} that one may bring",
        )
    after = {one.id: one for one in (*held, *kept)}
    size = sum(len(one.body) for one in after.values())
    if len(after) > HELD_MAX or size > HELD_BYTES_MAX:
        raise BadInput(
            "INPUT-GRANT-FILE",
            f"with this grant there would be {len(after)} certificates of {size} bytes, more than the "
            f"{HELD_MAX} of {HELD_BYTES_MAX} that can be shown: remove those in `certs` that have ended",
        )
