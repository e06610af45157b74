"""What follows when keys come, change, are refused or do not come?

Interests are sealed and opened anew, frames that waited are taken on again in
their order, and publishers that waited in vain are refused. Whatever happens
on a link to a key manager is the key member's; the broker only listens for
what it means.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.broker.access.impairment import key_lack, keys_overdue, late_keys, next_impairment
from maia.broker.sealed.keys import without_alarms
from maia.broker.sealed.rekeying import keys_changed, open_rights_again
from maia.broker.sessions.close import close_link
from maia.broker.sessions.dispatch import answer
from maia.broker.state import BrokerState, seconds_after
from maia.broker.subscriptions.registry import end_advertisement
from maia.errors import MaiaError
from maia.events import Instant
from maia.sealing.member.settings import Challenged, KeysChanged, KeysRefused, WriterReceived
from maia.wire.effects import Count, Effect, Input, LinkId, Note, Tick
from maia.wire.messages import Publish

_LOOK_AGAIN_S: Final = 0.25
"""How often it is asked whether an epoch that was announced has begun, while frames wait for it."""


def handle_key_input(state: BrokerState, happened: Input, now: Instant) -> list[Effect]:
    """Let the key member take an input on, and do what follows from it."""
    member = state.keys.member
    reach = member.reach()
    effects = without_alarms(member.handle(happened, now))
    state.routes.is_changed = True
    if member.reach() != reach:
        state.impairments.changed.update(state.types.sealed())
    return [*effects, *_noticed(state, now), *_refuse_waiting(state, now)]


def own_rights_changed(state: BrokerState, now: Instant) -> list[Effect]:
    """Let go of keys to which this broker has no right any more, and do what follows from that."""
    effects = state.keys.rights_changed(now)
    state.routes.is_changed = True
    state.impairments.changed.update(state.types.sealed())
    return [*effects, *_noticed(state, now)]


def look_for_keys(state: BrokerState, types: Iterable[bytes], now: Instant) -> list[Effect]:
    """Look for the keys of types that are known from before; of sealed ones only sealed things are said."""
    effects: list[Effect] = []
    for type_id in types:
        if state.types.sealing(type_id) is not None:
            effects += [*state.keys.look_for(type_id, now), *keys_changed(state, type_id, now)]
    state.routes.is_changed = True
    return effects


def maintain_keys(state: BrokerState, now: Instant) -> list[Effect]:
    """Do what is due by itself: the key member's business, and frames that waited long enough."""
    effects = state.keys.look_again(now)
    state.impairments.changed |= late_keys(state, now) | (state.types.sealed().keys() if effects else set())
    member = state.keys.member.next_look()
    if member is not None and member <= now:
        effects += handle_key_input(state, Tick(), now)
        state.seals.forget_dropped()
        for type_id in state.blinded.outdated():
            effects += keys_changed(state, type_id, now)
    for type_id in state.seals.publishing.types():
        effects += _published_again(state, type_id, now)
    turn = state.streams.turn(now)
    for type_id in state.seals.projecting.types():
        state.streams.publish_waiting(type_id, turn)
    for run in state.seals.carrying.take_overdue(now):
        state.streams.resume(run, turn, is_overdue=True)  # others may have the keys
    effects += turn.effects
    for link, message in state.seals.publishing.take_overdue(now):
        effects += _not_taken(state, link, message, now)
    lost = len(state.seals.projecting.take_overdue(now))
    return [*effects, *([Count("maia_projections_lost_total", lost)] if lost else [])]


def next_key_moment(state: BrokerState, now: Instant) -> Instant | None:
    """Return when there is something to do about keys."""
    waiting = len(state.seals.publishing) or len(state.seals.projecting)
    again = seconds_after(now, _LOOK_AGAIN_S) if waiting else None
    late = next_impairment(state, now)
    moments = (state.keys.next_look(), state.seals.next_due(), again, late)
    return min((moment for moment in moments if moment is not None), default=None)


def leave_managers(state: BrokerState) -> list[Effect]:
    """Say goodbye to the key managers, and forget their keys."""
    return state.keys.member.leave()


def apply_new_keys(state: BrokerState, type_id: bytes, now: Instant) -> list[Effect]:
    """Do what other keys of a type make possible or necessary."""
    state.seals.forget_dropped()
    changed = [*keys_changed(state, type_id, now), *open_rights_again(state, type_id)]
    return [*changed, *_tried_again(state, type_id, now)]


# ------------------------------------------------------------ what the key member has noticed


def _noticed(state: BrokerState, now: Instant) -> list[Effect]:
    effects: list[Effect] = []
    for notice in state.keys.member.take_notices():
        match notice:
            case KeysChanged(type_id=type_id):
                state.keys.refused.pop(type_id, None)
                state.impairments.changed.add(type_id)
                effects += apply_new_keys(state, type_id, now)
            case KeysRefused(type_id=type_id, code=code):
                state.keys.refused[type_id] = code
                state.impairments.changed.add(type_id)
                effects.append(Note("keys-not-granted", {"type": type_id.hex(), "code": code}))
                effects += [*_refuse_waiting(state, now), *_tried_again(state, type_id, now)]
            case Challenged():
                state.keys.challenges.append(notice)
            case WriterReceived(type_id=type_id, principal=principal):
                certificates = state.keys.member.writer(type_id, principal)
                state.writers.learn(type_id, principal, certificates or ())
                effects += _tried_again(state, type_id, now)
    return effects


def _tried_again(state: BrokerState, type_id: bytes, now: Instant) -> list[Effect]:
    """Take on again what waited, in its order; what still lacks something waits on, no longer than before."""
    turn = state.streams.turn(now)
    for run in state.seals.carrying.take(type_id):
        state.streams.resume(run, turn)
    turn.effects += _published_again(state, type_id, now)
    state.streams.publish_waiting(type_id, turn)
    return turn.effects


def _published_again(state: BrokerState, type_id: bytes, now: Instant) -> list[Effect]:
    if not state.seals.has_begun(type_id, now):
        return []
    waited = state.seals.publishing.take(type_id)
    return [effect for link, message in waited for effect in answer_waiting(state, link, message, now)]


def answer_waiting(state: BrokerState, number: LinkId, message: Publish, now: Instant) -> list[Effect]:
    """Take on a publisher's frame that waited."""
    link = state.links.get(number)
    if link is None or not link.is_ready:
        return []  # its publisher is gone, and sends it again elsewhere
    try:
        return answer(state, link, message, now)
    except MaiaError as problem:
        return close_link(state, link, problem, now)


# ------------------------------------------------------------ keys that do not come


def _refuse_waiting(state: BrokerState, now: Instant) -> list[Effect]:
    """Tell publishers at once whose frames wait for keys that are not on their way any more."""
    effects: list[Effect] = []
    for type_id in state.seals.publishing.types():
        lack = key_lack(state, type_id, now)
        for link, message in [] if lack is None else state.seals.publishing.take(type_id):
            effects += _not_taken(state, link, message, now, lack)
    return effects


def _not_taken(
    state: BrokerState, number: LinkId, message: Publish, now: Instant, problem: MaiaError | None = None
) -> list[Effect]:
    """Tell a publisher that its frame was not taken on: nothing of a sealed type leaves in the clear."""
    link = state.links.get(number)
    entry = None if link is None else link.advertisements.get(message.ref)
    if link is None or entry is None:
        return []
    overdue = keys_overdue(state, entry.right.event_type.type_id)
    return end_advertisement(state, link, entry, now, problem or overdue)
