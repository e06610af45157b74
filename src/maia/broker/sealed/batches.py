"""How are single events of one sealed stream sealed or opened that arrive with one read, or alone?

`publication/batches.py` takes such events on together, and asks here for what is sealed about them: the
keys with which a publisher's events are sealed, and what a neighbour's frames show. `publish_single`
(`publication/path.py`) asks the same for an event that a publisher sends alone. The meaning is
`sealed/publication.py`. What is asked there of each frame is asked here of all of them, once where the
answer is the same. Whatever is refused or out of the ordinary is left to it: None says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from maia.broker.publication.transit import Transit, check_kinds
from maia.broker.sealed.answers import answers_of
from maia.broker.sealed.forwarding import send_once_signed
from maia.broker.sealed.publication import SEALED_BYTES_MAX, may_publish, sealing_keys
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.errors import MaiaError
from maia.events import AttributeUid, Event, Frame, Instant
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.sealing import EpochKeys
from maia.sealing.frames.ciphers import HeldCiphers
from maia.sealing.frames.runs import open_run
from maia.types import Sealing, SealingLevel
from maia.wire.columns import EventsColumn, events_to_frame
from maia.wire.effects import Effect
from maia.wire.messages import Carried, Column, Publish, Sealed


@dataclass(frozen=True, slots=True)
class OpenedEvents:
    """What single events from a neighbour show here, as the rows of one frame."""

    frame: Frame = field(repr=False)
    columns: Sequence[Sequence[Column]] = field(repr=False)
    """The same for each event, as it travels in the clear."""
    missing: frozenset[AttributeUid]
    """Attributes that the events have, or may have, and that were not opened."""
    is_unread: bool = False
    """Whether they are for others alone: this broker has no keys of the type."""


def is_ordinary(state: BrokerState, sealing: Sealing | None) -> bool:
    """Say whether sealed frames go as they are, under the id of their type and at once."""
    is_covered = sealing is not None and (sealing.blinded or sealing.cover is not None)
    return not is_covered and not state.settings.share_plaintext


# ------------------------------------------------------------ this broker's publishers


def keys_for_events(
    state: BrokerState,
    whole: Transit,
    columns: Sequence[EventsColumn],
    moments: Sequence[int],
    now: Instant,
) -> EpochKeys | None:
    """Return the keys with which events of these moments are sealed; `whole` has all of them as its rows."""
    sealing = state.types.sealing(whole.type_id)
    if sealing is None or answers_of(state, whole.type_id):
        return None
    try:
        if sum([sum(map(len, data)) for _, _, data in columns]) > SEALED_BYTES_MAX:
            return None  # together; the path asks about each
        keys = sealing_keys(state, whole, sealing, now)
    except MaiaError:
        return None
    # If readers accept an epoch for the earliest and for the latest moment, they do for those between.
    found = [state.seals.sealing_keys(whole.type_id, at, now) for at in {min(moments), max(moments)}]
    return keys if all(one is keys for one in found) else None


def keys_for_event(
    state: BrokerState, link: Link, message: Publish, type_id: bytes, uids: tuple[str, ...], now: Instant
) -> tuple[EpochKeys, HeldCiphers] | None:
    """Return with what an event is sealed that comes alone; None if the path has to say that."""
    sealing, seals = state.types.sealing(type_id), state.seals
    if sealing is None or not is_ordinary(state, sealing) or state.types.requires_ledger(type_id):
        return None
    if seals.publishing.holds(type_id, (link.id, message.ref)) or answers_of(state, type_id):
        return None
    keys = seals.sealing_keys(type_id, message.published_at, now)
    if keys is None:
        return None
    held = keys.held(uids if sealing.level is SealingLevel.ATTRIBUTE else ("",), seals.sealer.instance)
    return None if held is None else (keys, held)


def forward_sealed_event(
    state: BrokerState, event: Carried, values: Event, keys: tuple[EpochKeys, HeldCiphers]
) -> list[Effect]:
    """Seal an event, and send it where the filters of neighbours admit it, once it is signed."""
    routes, sealing = state.routes, state.types.sealing(event.type_id)
    nodes = routes.book.targets(book_key_of_sealed(event.type_id), LOCAL, values)
    links = [link for node in nodes if (link := routes.link_to(node)) is not None]
    if not links or sealing is None:
        return []
    about = event.publisher, event.stream, event.sequence, event.published_at
    draft = state.seals.sealer.draft_event(event.columns, about, *keys, level=sealing.level)
    return [send_once_signed(state, link, draft.frame, draft) for link in links]


# ------------------------------------------------------------ other brokers


def opened_events(state: BrokerState, run: Sequence[Sealed], now: Instant) -> OpenedEvents | None:
    """Prove and open what a neighbour sent, and judge its signer if a subscriber here is to have it."""
    first, seals = run[0], state.seals
    type_id, epoch, moments = first.type_id, first.epoch, [one.published_at for one in run]
    ring, kinds = seals.ring_of(type_id), state.types.kinds(type_id)
    try:
        if ring is None:
            closed = open_run(run, None, seals.checks, only=None).closed.difference([""])
            missing = frozenset(map(AttributeUid, closed)).union(kinds)
            return OpenedEvents(Frame(len(run), {}), [()] * len(run), missing, is_unread=True)
        keys = seals.keys(type_id, epoch)
        # If an epoch opens for the earliest and for the latest moment, it does for those between.
        ends = {min(moments), max(moments)}
        if keys is None or not all(ring.opens(epoch, at, now) for at in ends):
            return None
        is_read = type_id in state.audiences
        asked = state.routes.book.asked_about(book_key_of_sealed(type_id))
        opened = open_run(run, keys, seals.checks, only=None if is_read else asked)
        frame = events_to_frame(opened.by_column) if opened.by_column else Frame(len(run), {})
        if frame is None:
            return None
        check_kinds(frame, kinds)
        missing = frozenset(kinds) if "" in opened.closed else frozenset(map(AttributeUid, opened.closed))
        if is_read and not may_publish(state, type_id, opened.signer, missing.union(frame.columns), now):
            return None
    except MaiaError:
        return None
    return OpenedEvents(frame, opened.columns, missing)
