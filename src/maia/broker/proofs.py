"""Is somebody entitled to what another broker says they want, or offer?

The edge has decided it. Any broker on the way may decide it again, always, at
times, or never (C9): the signed request is from the principal it names, and a
chain of certificates leads from the owner of the type to that principal. No
definition is needed for that, so a broker can verify types it has never met.
"""

from __future__ import annotations

from typing import Final

from maia.broker.refusals import NotProved
from maia.broker.state import BrokerState
from maia.broker.tells import Proof
from maia.credentials import Action, VerifiedChain, find_chains
from maia.events import Instant
from maia.predicates import AllOf, AnyOf, Predicate, covers
from maia.types import type_id
from maia.wire.filters import filter_to_bytes
from maia.wire.requests import request_from_bytes, verify_proof

__all__ = ["is_to_be_verified", "proved_filter", "prove_offer"]

_PROOF_AGE_S: Final = 10 * 366 * 86_400
"""A proof says that somebody asked. That they still do is what leases are for, so its age hardly counts."""


def is_to_be_verified(state: BrokerState) -> bool:
    """Say, with the configured probability, whether the next proof is verified here."""
    share = state.settings.verify_in_transit
    return share > 0 and (share >= 1 or int.from_bytes(state.random(4), "big") < share * (1 << 32))


def proved_filter(
    state: BrokerState, kind: bytes, proof: Proof, wanted: Predicate, now: Instant
) -> Predicate:
    """Return the part of `wanted` that the proof entitles to, or raise what is wrong with the proof."""
    chains = _chains(state, kind, proof, Action.SUBSCRIBE, now)
    granted = AnyOf(tuple(chain.authority.restriction for chain in chains))
    # An honest edge has joined the restrictions to the filter, and then nothing is taken away here.
    if covers(wide=granted, narrow=wanted):
        return wanted
    narrowed = AllOf((wanted, granted))
    filter_to_bytes(narrowed)  # refused if it could not be passed on
    return narrowed


def prove_offer(state: BrokerState, kind: bytes, proof: Proof, now: Instant) -> None:
    """Return if the proof entitles somebody to publish this type, or raise what is wrong with it."""
    _chains(state, kind, proof, Action.PUBLISH, now)


def _chains(
    state: BrokerState, kind: bytes, proof: Proof, action: Action, now: Instant
) -> tuple[VerifiedChain, ...]:
    settings = state.settings
    if proof.request is None:
        raise NotProved("an interest or offer came without the request that caused it")
    verified = verify_proof(
        request_from_bytes(proof.request),
        at=now,
        skew_s=settings.skew_s,
        age_max_s=_PROOF_AGE_S,
        network=settings.network,
    )
    name = verified.request.event_type
    if verified.request.action is not action or type_id(name.owner, name.name) != kind:
        raise NotProved("the request behind an interest or offer is about something else")
    return find_chains(
        state.edge.pool(proof.credentials),
        root=name.owner,
        subject=verified.signer,
        action=action,
        resource=name,
        at=now,
        cache=state.certificates,
        constitutions=settings.constitutions,
    )
