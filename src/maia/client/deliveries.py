"""Which delivered frames are new to the application, and for which of its subscriptions?

The broker sends a frame once for all subscriptions of a client that see the
same of it, and may send it again after a reconnection. The application gets it
once for each subscription, in the order in which it arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from maia.client.authors import AuthorReader
from maia.client.entries import EntryStage, RequestEntry, Subscribed
from maia.client.errors import told_by_broker
from maia.client.notices import Delivered, GapDetected
from maia.credentials import principal_from_bytes
from maia.errors import ProtocolViolation
from maia.events import Instant
from maia.sealing.frames.authorship import Publishing
from maia.types import VerifiedType
from maia.wire.columns import columns_to_frame
from maia.wire.messages import Deliver, DeliverLogged
from maia.wire.messages import Missed as MissedMessage

_VALUE_BYTES: Final = 64
"""What a value takes in memory beside the bytes that it had on the wire."""


def what_arrived(
    message: Deliver | DeliverLogged | MissedMessage,
    entries: Mapping[int, RequestEntry],
    authors: AuthorReader,
) -> Delivered | GapDetected | None:
    """Return what to tell the application, if it is news; subscriptions remember that they have had it."""
    match message:
        case Deliver():
            return _delivered(message, entries, authors)
        case DeliverLogged():
            return _delivered_logged(message, entries, authors)
        case MissedMessage():
            return _missed(message, entries)


def _delivered(
    message: Deliver, entries: Mapping[int, RequestEntry], authors: AuthorReader
) -> Delivered | None:
    refs: list[int] = []
    version: VerifiedType | None = None
    for ref in message.refs:
        entry = entries.get(ref)
        if (
            isinstance(entry, Subscribed)
            and entry.stage is not EntryStage.WITHDRAWING
            and entry.seen.remember(message.publisher, message.stream, message.label, message.published_at)
        ):
            refs.append(ref)
            if version is None:
                version = entry.delivered_type
            elif entry.delivered_type.id != version.id:
                raise ProtocolViolation(
                    "PROTOCOL-WRONG-BROKER", "one delivery was for subscriptions to different types"
                )
    return None if version is None else _read(message, tuple(refs), version, authors)


def _delivered_logged(
    message: DeliverLogged, entries: Mapping[int, RequestEntry], authors: AuthorReader
) -> Delivered | None:
    entry = entries.get(message.ref)
    if not isinstance(entry, Subscribed) or entry.stage is EntryStage.WITHDRAWING:
        return None
    if message.position == entry.arrived:
        return None  # it was on its way when the link ended, and came again
    entry.arrived = message.position
    return _read(message, (entry.ref,), entry.delivered_type, authors, message.position)


def _read(
    message: Deliver | DeliverLogged,
    refs: tuple[int, ...],
    version: VerifiedType,
    authors: AuthorReader,
    position: bytes | None = None,
) -> Delivered:
    publisher = principal_from_bytes(message.publisher)
    frame = columns_to_frame(message.columns, message.rows, version.kinds)
    by = None
    if message.author is not None:
        about = Publishing(version.type_id, message.label, message.published_at, message.author.requires)
        by = authors.read(publisher, message.author, about, frame)
    columns, at = message.columns, Instant(message.published_at)
    size = sum(len(one.data) for one in columns) + message.rows * len(columns) * _VALUE_BYTES
    is_late = isinstance(message, DeliverLogged) and message.is_late
    return Delivered(refs, publisher, message.stream, message.label, at, frame, position, by, size, is_late)


def _missed(message: MissedMessage, entries: Mapping[int, RequestEntry]) -> GapDetected | None:
    entry = entries.get(message.ref)
    if not isinstance(entry, Subscribed):
        return None
    # What cannot be had is not waited for: it counts as had.
    entry.arrived = message.position
    return GapDetected(message.ref, message.position, told_by_broker(message.code, message.message))
