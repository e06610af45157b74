"""What may this broker read of a frame that it recorded earlier?

Durable subscriptions ask. Plaintext frames were judged when they were
published. A sealed frame is opened with the keys that are still held, or that
the type's key manager hands out again for an epoch that is over; its proof is
checked as if it arrived now. Whether its signer was entitled is asked about
the moment at which it was recorded, because a right that ended later does not
take back what was said under it (A37).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from maia.broker.publication.transit import Transit, from_carried
from maia.broker.refusals import LogKeysGone, LogUnreadable, SignerNotEntitled
from maia.broker.sealed.publication import learn_what_is_at_hand
from maia.broker.sealed.transit import sealed_transit
from maia.broker.state import BrokerState
from maia.credentials import Principal
from maia.errors import MaiaError
from maia.events import AttributeUid
from maia.sealing import EpochKeys, OpenedFrame, open_frame, verify_frame
from maia.wire.codec import decode
from maia.wire.effects import Logged
from maia.wire.messages import Carried, Sealed

__all__ = ["KeysAwaited", "Readable", "SignerAwaited", "read_logged"]


@dataclass(frozen=True, slots=True)
class Readable:
    """A recorded frame as far as it can be read here."""

    transit: Transit
    missing: frozenset[AttributeUid] = frozenset()
    signer: bytes = b""
    """Who signed it, entitled to; empty for a plain frame."""


@dataclass(frozen=True, slots=True)
class SignerAwaited:
    """Nothing can be said of a frame before this signer's certificates are known."""

    signer: Principal


@dataclass(frozen=True, slots=True)
class KeysAwaited:
    """Nothing can be said of a frame before its manager says whether we may have its epoch's keys."""

    epoch: int


Outcome: TypeAlias = Readable | SignerAwaited | KeysAwaited | MaiaError


def read_logged(state: BrokerState, logged: Logged) -> Outcome:
    """Return what can be read of a recorded frame, or why nothing can."""
    try:
        message = decode(logged.data)
        if isinstance(message, Carried):
            return Readable(from_carried(message, state.types.kinds(message.type_id)))
        if isinstance(message, Sealed):
            return _opened(state, message, logged)
    except MaiaError as problem:
        return problem
    return LogUnreadable("a frame was recorded in a form that is not known here")


def _opened(state: BrokerState, frame: Sealed, logged: Logged) -> Outcome:
    keys = state.seals.keys(frame.type_id, frame.epoch)
    opened = None if keys is None else open_frame(frame, keys)
    if keys is not None and opened is not None and opened.parts:
        return _proved(state, opened, keys, logged)
    if state.keys.awaits_past(frame.type_id, frame.epoch):
        return KeysAwaited(frame.epoch)
    past = state.keys.member.past.opening(frame.type_id, frame.epoch)
    if past is not None and past.is_of_its_time(
        published_at=frame.published_at, recorded_at=logged.recorded_at
    ):
        opened = open_frame(frame, past.keys)
        if opened.parts:
            return _proved(state, opened, past.keys, logged)
    return LogKeysGone("the keys of the time at which it was published are not to be had any more")


def _proved(state: BrokerState, opened: OpenedFrame, keys: EpochKeys, logged: Logged) -> Outcome:
    frame = opened.frame
    sealed = sealed_transit(opened, state.types.kinds(frame.type_id))
    signer = verify_frame(opened, keys, state.seals.checks).signer
    if not state.writers.knows(frame.type_id, signer):
        learn_what_is_at_hand(state, frame.type_id, signer)
    uids = sealed.missing.union(sealed.part.frame.columns)
    versions = state.types.versions(frame.type_id)
    may = state.writers.might_write(signer, versions, uids, logged.recorded_at)
    if may is None:
        return SignerAwaited(signer)
    if not may:
        return SignerNotEntitled("a frame was signed by somebody who could not publish what is in it")
    return Readable(sealed.part, sealed.missing, signer.key)
