"""What follows when keys come, change, are refused or do not come?

Interests are sealed and opened anew, frames that waited are taken on again in
their order, and publishers that waited in vain are refused. Whatever happens
on a link to a key manager is the key member's; the broker only listens for
what it means.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.broker.sealed.keys import without_alarms
from maia.broker.sealed.rekeying import keys_changed, open_rights_again
from maia.broker.sessions.close import close_link
from maia.broker.state import BrokerState, seconds_after
from maia.broker.subscriptions.registry import end_advertisement
from maia.broker.turn import Turn
from maia.errors import MaiaError
from maia.events import Instant
from maia.sealing.member.settings import KeysChanged, KeysRefused, WriterReceived
from maia.sessions.challenges import Challenged
from maia.wire.effects import Input, LinkId, Tick
from maia.wire.messages import Publish

_LOOK_AGAIN_S: Final = 0.25
"""How often it is asked whether an epoch that was announced has begun, while frames wait for it."""


def handle_key_input(state: BrokerState, happened: Input, turn: Turn) -> None:
    """Let the key member take an input on, and do what follows from it."""
    member = state.keys.member
    reach = member.reach()
    turn.add(*without_alarms(member.handle(happened, turn.now)))
    state.routes.is_changed = True
    if member.reach() != reach:
        state.impairments.changed.update(state.types.sealed())
    _notice(state, turn)
    _refuse_waiting(state, turn)


def own_rights_changed(state: BrokerState, turn: Turn) -> None:
    """Let go of keys to which this broker has no right any more, and do what follows from that."""
    state.keys.rights_changed(turn)
    state.routes.is_changed = True
    state.impairments.changed.update(state.types.sealed())
    _notice(state, turn)


def look_for_keys(state: BrokerState, types: Iterable[bytes], turn: Turn) -> None:
    """Look for the keys of types that are known from before; of sealed ones only sealed things are said."""
    for type_id in types:
        if state.types.sealing(type_id) is not None:
            state.keys.look_for(type_id, turn)
            keys_changed(state, type_id, turn)
    state.routes.is_changed = True


def maintain_keys(state: BrokerState, turn: Turn) -> None:
    """Do what is due by itself: the key member's business, and frames that waited long enough."""
    now, is_asked = turn.now, state.keys.look_again(turn)
    state.impairments.changed |= state.impairments.late(now) | (
        state.types.sealed().keys() if is_asked else set()
    )
    member = state.keys.member.next_look()
    if member is not None and member <= now:
        handle_key_input(state, Tick(), turn)
        state.seals.forget_dropped()
        for type_id in state.blinded.outdated():
            keys_changed(state, type_id, turn)
    for type_id in state.seals.publishing.types():
        _publish_again(state, type_id, turn)
    for type_id in state.seals.projecting.types():
        state.streams.publish_waiting(type_id, turn)
    for run in state.seals.carrying.take_overdue(now):
        state.streams.resume(run, turn, is_overdue=True)  # others may have the keys
    for link, message in state.seals.publishing.take_overdue(now):
        _refuse_frame(state, link, message, turn)
    if lost := len(state.seals.projecting.take_overdue(now)):
        turn.count("maia_projections_lost_total", lost)


def next_key_moment(state: BrokerState, now: Instant) -> Instant | None:
    """Return when there is something to do about keys."""
    waiting = len(state.seals.publishing) or len(state.seals.projecting)
    again = seconds_after(now, _LOOK_AGAIN_S) if waiting else None
    late = state.impairments.next_due(now)
    moments = (state.keys.next_look(), state.seals.next_due(), again, late)
    return min((moment for moment in moments if moment is not None), default=None)


def apply_new_keys(state: BrokerState, type_id: bytes, turn: Turn) -> None:
    """Do what other keys of a type make possible or necessary."""
    state.seals.forget_dropped()
    keys_changed(state, type_id, turn)
    open_rights_again(state, type_id, turn)
    _try_again(state, type_id, turn)


# ------------------------------------------------------------ what the key member has noticed


def _notice(state: BrokerState, turn: Turn) -> None:
    for notice in state.keys.member.take_notices():
        match notice:
            case KeysChanged(type_id=type_id):
                state.keys.refused.pop(type_id, None)
                state.impairments.changed.add(type_id)
                apply_new_keys(state, type_id, turn)
            case KeysRefused(type_id=type_id, code=code):
                state.keys.refused[type_id] = code
                state.impairments.changed.add(type_id)
                turn.note("keys-not-granted", type=type_id.hex(), code=code)
                _refuse_waiting(state, turn)
                _try_again(state, type_id, turn)
            case Challenged():
                state.keys.challenges.append(notice)
            case WriterReceived(type_id=type_id, principal=principal, certificates=certificates):
                state.writers.learn(type_id, principal, certificates)
                _try_again(state, type_id, turn)


def _try_again(state: BrokerState, type_id: bytes, turn: Turn) -> None:
    """Take on again what waited, in its order; what still lacks something waits on, no longer than before."""
    for run in state.seals.carrying.take(type_id):
        state.streams.resume(run, turn)
    _publish_again(state, type_id, turn)
    state.streams.publish_waiting(type_id, turn)


def _publish_again(state: BrokerState, type_id: bytes, turn: Turn) -> None:
    if state.seals.has_begun(type_id, turn.now):
        for link, message in state.seals.publishing.take(type_id):
            answer_waiting(state, link, message, turn)


def answer_waiting(state: BrokerState, number: LinkId, message: Publish, turn: Turn) -> None:
    """Take on a publisher's frame that waited."""
    link = state.links.get(number)
    if link is None or not link.is_ready:
        return  # its publisher is gone, and sends it again elsewhere
    said = turn.mark()
    try:
        state.dispatch.answer(link, message, turn)
    except MaiaError as problem:
        turn.drop(said)
        close_link(state, link, problem, turn)


# ------------------------------------------------------------ keys that do not come


def _refuse_waiting(state: BrokerState, turn: Turn) -> None:
    """Tell publishers at once whose frames wait for keys that are not on their way any more."""
    for type_id in state.seals.publishing.types():
        lack = state.impairments.key_lack(type_id, turn.now)
        for link, message in [] if lack is None else state.seals.publishing.take(type_id):
            _refuse_frame(state, link, message, turn, lack)


def _refuse_frame(
    state: BrokerState, number: LinkId, message: Publish, turn: Turn, problem: MaiaError | None = None
) -> None:
    """Tell a publisher that its frame was not taken on: nothing of a sealed type leaves in the clear."""
    link = state.links.get(number)
    entry = None if link is None else link.advertisements.get(message.ref)
    if link is None or entry is None:
        return
    overdue = state.impairments.keys_overdue(entry.right.event_type.type_id)
    end_advertisement(state, link, entry, turn, problem or overdue)
