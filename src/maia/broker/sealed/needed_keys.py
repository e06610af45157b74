"""Which keys does a client's request make this broker want, and which will it have to do without?

Advertisements and subscriptions ask here once they are permitted. A client is
not refused because its broker lacks a key: it sees nulls in place of what the
broker cannot read, and the log says so once.
"""

from __future__ import annotations

from collections.abc import Collection

from maia.broker.sealed.rekeyed import keys_changed
from maia.broker.sessions.links import Right
from maia.broker.state import BrokerState
from maia.events import AttributeUid, Instant
from maia.policy.view import shows
from maia.types import SealingLevel
from maia.wire.effects import Effect, Note

__all__ = ["note_missing_keys", "type_met"]


def type_met(state: BrokerState, type_id: bytes, new: Collection[Effect], now: Instant) -> list[Effect]:
    """Look for the keys of a sealed type; if a version of it is `new` here, what was said in clear ends."""
    if state.types.sealing(type_id) is None:
        return []
    looked = state.keys.look_for(type_id, now)
    if looked or new:
        state.routes.is_stirred = True
        state.impairments.stirred.add(type_id)
    return [*looked, *keys_changed(state, type_id, now)] if new else looked


def note_missing_keys(state: BrokerState, right: Right, now: Instant) -> list[Effect]:
    """Say in the log which attributes a subscriber may see, and this broker cannot read at this moment."""
    type_id = right.event_type.type_id
    sealing = state.types.sealing(type_id)
    ring = state.seals.ring_of(type_id)
    if sealing is None or (ring is not None and ring.newest is None):
        return []  # nothing to miss, or the keys are on their way
    seen = [uid for uid in right.event_type.kinds if any(shows(one, uid) for one in right.view.windows)]
    wanted: list[AttributeUid | None] = [*seen] if sealing.level is SealingLevel.ATTRIBUTE else [None]
    missing = [uid or "*" for uid in wanted if not state.seals.holds(type_id, uid, now)]
    if not missing:
        return []
    fields = {"type": type_id.hex(), "attributes": missing, "principal": str(right.request.principal)}
    return [Note("keys-missing", fields)]
