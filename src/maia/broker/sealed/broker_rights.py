"""How does a broker show its rights to a sealed type, and to whom?

In the handshake a broker shows everything that concerns the network. What it
may do with a type says which types and attributes there are, so it is shown
to members of the type's own key group alone: sealed, after the handshake, and
again when keys change. Neighbours that cannot open it learn that there is
something.
"""

from __future__ import annotations

from collections.abc import Iterable

from maia.broker.routing.outbox import restricted_in
from maia.broker.sealed.messages import proof_from_wire, proof_to_wire
from maia.broker.sealed.state import size_of_proof
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.credentials import (
    AuthorisationCertificate,
    SignedCertificate,
    TypeName,
    TypePattern,
    certificate_to_bytes,
)
from maia.errors import MaiaError
from maia.events import Instant
from maia.sealing.filters.proofs import OpenedProof, SealedShowing, open_proof, seal_proof
from maia.sealing.filters.sealed_filters import FILTER_ID_BYTES
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.messages import SealedRights

__all__ = ["hear_rights", "open_rights_again", "show_rights"]


# ------------------------------------------------------------ showing


def show_rights(state: BrokerState, links: Iterable[LinkId], types: Iterable[bytes]) -> list[Effect]:
    """Show neighbours this broker's rights to types, sealed with the newest key of each type's group."""
    told = [(type_id, message) for type_id in types if (message := _sealed(state, type_id)) is not None]
    return [Send(link, encode(message)) for link in list(links) for _, message in told]


def _sealed(state: BrokerState, type_id: bytes) -> SealedRights | None:
    ring, epoch = state.sealed.ring_of(type_id), state.sealed.in_use.get(type_id)
    mine = _rights_to(state, type_id)
    if ring is None or epoch is None or not mine or not state.settings.share_plaintext:
        return None
    showing = SealedShowing(type_id, epoch, state.random(FILTER_ID_BYTES))
    # Bound to who shows it: the request of a proof is its place for that.
    proof = OpenedProof(state.principal.key, tuple(certificate_to_bytes(signed) for signed in mine))
    # A restriction holds values, which are for readers of that attribute alone.
    uids = restricted_in(state, type_id, mine)
    sealed = seal_proof(showing, proof, uids=uids, keys=ring, random=state.random)
    return None if sealed is None else SealedRights(type_id, epoch, showing.id, proof_to_wire(sealed))


def _rights_to(state: BrokerState, type_id: bytes) -> tuple[SignedCertificate, ...]:
    names = {version.name for version in state.types.versions(type_id)}
    return tuple(
        signed
        for signed in state.settings.credentials
        if isinstance(signed.certificate, AuthorisationCertificate)
        and any(_is_about(signed.certificate, name) for name in names)
    )


def _is_about(certificate: AuthorisationCertificate, name: TypeName) -> bool:
    pattern = certificate.authority.resources
    if not isinstance(pattern, TypePattern):
        return False
    return pattern.owner in (None, name.owner) and pattern.name.matches(name.name)


# ------------------------------------------------------------ being shown


def hear_rights(state: BrokerState, link: Link, message: SealedRights, _now: Instant) -> list[Effect]:
    """Look at what a neighbour may do with a type, or keep it until there is a key for it."""
    if message.type_id not in link.sealed_rights and len(link.sealed_rights) >= state.settings.limits.types:
        return []
    _forget(link, message.type_id)
    link.sealed_rights[message.type_id] = message
    link.rights_bytes += size_of_proof(message.proof)
    return _opened(state, link, message)


def _forget(link: Link, type_id: bytes) -> None:
    """Forget what waited for a key, if something did."""
    waited = link.sealed_rights.pop(type_id, None)
    if waited is not None:
        link.rights_bytes -= size_of_proof(waited.proof)


def open_rights_again(state: BrokerState, type_id: bytes) -> list[Effect]:
    """Look again at what neighbours showed before the key was here."""
    waiting = [(link, link.sealed_rights.get(type_id)) for link in state.links.values()]
    return [
        effect for link, message in waiting if message is not None for effect in _opened(state, link, message)
    ]


def _opened(state: BrokerState, link: Link, message: SealedRights) -> list[Effect]:
    ring = state.sealed.ring_of(message.type_id)
    if ring is None:
        return []
    showing = SealedShowing(message.type_id, message.epoch, message.seal)
    try:
        shown = open_proof(showing, proof_from_wire(message.proof), ring)
    except MaiaError as problem:
        _forget(link, message.type_id)
        return [Count("maia_refused_total", labels={"code": problem.code})]
    if shown is None:
        return []  # the key may come
    _forget(link, message.type_id)
    if shown.request == link.peer.key:  # what somebody else showed is worth nothing here
        link.rights_bytes += sum(map(len, shown.certificates))
        link.rights_bytes -= sum(map(len, link.rights.get(message.type_id, ())))
        link.rights[message.type_id] = shown.certificates
        link.shares.pop(message.type_id, None)
    return []
