"""When are the frames that this broker seals signed?

At the end of a turn, all of that turn with one signature: whoever drives the
broker hands it what one read of a socket brought, and a signature costs more
than sealing a single event. Until then a frame's place in the order of effects
is held by an effect without bytes, which never leaves the broker.
"""

from __future__ import annotations

from msgspec.structs import replace

from maia.broker.state import BrokerState
from maia.sealing import BATCH_MAX, Draft
from maia.wire.codec import encode_known
from maia.wire.effects import Effect, LinkId, Send
from maia.wire.messages import Sealed, SealedWithPlaintext

__all__ = ["send_once_signed", "signed"]


class _SendOnceSigned(Send, frozen=True):
    """Send a frame, in one of its forms, when its draft is signed."""

    form: Sealed | SealedWithPlaintext
    draft: Draft


def send_once_signed(
    state: BrokerState, link: LinkId, form: Sealed | SealedWithPlaintext, draft: Draft
) -> Effect:
    """Return the effect that holds a frame's place; `form` is what goes to this link."""
    unsigned = state.seals.unsigned
    if not unsigned or unsigned[-1] is not draft:
        unsigned.append(draft)
    return _SendOnceSigned(link, b"", form, draft)


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
    return [
        _sent(effect, frames[id(effect.draft)], ready) if type(effect) is _SendOnceSigned else effect
        for effect in effects
    ]


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
