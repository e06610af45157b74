"""When are the frames that this broker seals signed?

At the end of a turn, all of that turn with one signature: whoever drives the
broker hands it what one read of a socket brought, and a signature costs more
than sealing a single event. Until then a frame's place in the order of effects
is held by an effect without bytes, which never leaves the broker.
"""

from __future__ import annotations

from msgspec.structs import replace

from maia.broker.durable.log_writer import numbered
from maia.broker.sealed.transit import SealedTransit
from maia.broker.state import BrokerState
from maia.events import Instant
from maia.sealing import BATCH_MAX, Draft
from maia.wire.codec import encode_known
from maia.wire.effects import Count, Effect, LinkId, Logged, Record, Send
from maia.wire.messages import Sealed, SealedWithPlaintext

__all__ = ["record_once_signed", "send_once_signed", "signed"]


class _SendOnceSigned(Send, frozen=True):
    """Send a frame, in one of its forms, when its draft is signed."""

    form: Sealed | SealedWithPlaintext
    draft: Draft


class _RecordOnceSigned(Record, frozen=True):
    """Record a frame when its draft is signed."""

    recorded_at: Instant
    draft: Draft


def record_once_signed(state: BrokerState, sealed: SealedTransit, now: Instant) -> list[Effect]:
    """Return the effect that holds a frame's place in the log; it was sealed here in this turn."""
    assert sealed.draft is not None  # noqa: S101 - sealed here
    _to_be_signed(state, sealed.draft)
    record = numbered(state, sealed.type_id, b"", now)
    return [_RecordOnceSigned(record.position, b"", now, sealed.draft), Count("maia_recorded_total")]


def send_once_signed(
    state: BrokerState, link: LinkId, form: Sealed | SealedWithPlaintext, draft: Draft
) -> Effect:
    """Return the effect that holds a frame's place; `form` is what goes to this link."""
    _to_be_signed(state, draft)
    return _SendOnceSigned(link, b"", form, draft)


def _to_be_signed(state: BrokerState, draft: Draft) -> None:
    unsigned = state.seals.unsigned
    if not unsigned or unsigned[-1] is not draft:
        unsigned.append(draft)


def signed(state: BrokerState, effects: list[Effect]) -> list[Effect]:
    """Sign what was sealed in this turn, and put the bytes where they belong."""
    drafts, state.seals.unsigned = state.seals.unsigned, []
    if not drafts:
        return effects
    frames: dict[int, Sealed] = {}
    for at in range(0, len(drafts), BATCH_MAX):
        together = drafts[at : at + BATCH_MAX]
        frames.update(zip(map(id, together), state.seals.sealer.sign(together), strict=True))
    ready: dict[int, bytes] = {}
    done: list[Effect] = []
    for effect in effects:
        if type(effect) is _SendOnceSigned:
            done.append(_sent(effect, frames[id(effect.draft)], ready))
        elif type(effect) is _RecordOnceSigned:
            done.append(_recorded(state, effect, frames[id(effect.draft)]))
        else:
            done.append(effect)
    return done


def _recorded(state: BrokerState, effect: _RecordOnceSigned, proved: Sealed) -> Effect:
    data = encode_known(proved)
    assert state.recording is not None  # noqa: S101 - it gave the frame its position
    state.recording.replace(Logged(effect.position, effect.recorded_at, data))
    return Record(effect.position, data)


def _sent(effect: _SendOnceSigned, proved: Sealed, ready: dict[int, bytes]) -> Effect:
    """Return what is sent; neighbours that get the same form get the same bytes."""
    form = effect.form
    data = ready.get(id(form))
    if data is None:
        data = ready[id(form)] = encode_known(_with_signature(form, effect.draft, proved))
    return Send(effect.link, data)


def _with_signature(
    form: Sealed | SealedWithPlaintext, draft: Draft, proved: Sealed
) -> Sealed | SealedWithPlaintext:
    if form is draft.frame:
        return proved
    if isinstance(form, SealedWithPlaintext):
        return SealedWithPlaintext(proved, form.contents)  # plaintext goes beside whole frames alone
    return replace(form, signature=proved.signature, place=proved.place, path=proved.path)
