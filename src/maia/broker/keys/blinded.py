"""Which type is behind the id of a message, and under which ids does a blinded type travel?

Whatever travels between brokers bears the blinded id of an epoch. The routing
book, sealed interests and offers, and the keys of frames go by that id, as by
the id of any type; a broker without keys does nothing else. What is about the
type itself (its definition, its subscribers, its publishers' rights and its
keys at the manager) goes by the type's own id, and this finds one by the other.
Of a type that is not blinded both are the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from maia.broker.links.transit import Transit
from maia.broker.refusals import SealedTooWeakly
from maia.broker.rights.known_types import KnownTypes
from maia.credentials import Principal
from maia.errors import BadInput, Unavailable
from maia.events import Frame, Instant
from maia.sealing.keys.blinding import (
    BlindedRing,
    Inside,
    blinded_epochs,
    blinded_ids,
    envelope,
    fill_bytes,
    publishing_epoch,
    read_envelope,
)
from maia.sealing.keys.key_ring import KeyRing
from maia.types import Cover
from maia.types.definition import ENVELOPE_UID
from maia.wire.effects import LinkId
from maia.wire.messages import Publish, Sealed, Unblinded

_STREAM_BYTES: Final = 16


class BlindedIds:
    """The ids under which one broker knows blinded types, and what it publishes under each."""

    __slots__ = ("_ids", "_random", "_seen", "_streams", "_types", "generation", "held")

    def __init__(
        self, held: Callable[[bytes], KeyRing | None], types: KnownTypes, random: Callable[[int], bytes]
    ) -> None:
        """Begin with no id; `held` finds the keys of a type."""
        self.held = held
        self._types, self._random = types, random
        self.generation = 0
        """Grows when ids come or go."""
        self._ids: dict[bytes, dict[int, bytes]] = {}
        """By type, the id of each epoch."""
        self._seen: dict[bytes, tuple[bytes, int, BlindedRing]] = {}
        """By id, the type, the epoch, and the type's keys as they are seen through the id."""
        self._streams: dict[bytes, tuple[bytes, int]] = {}
        """By id, the stream of this broker under it, and its next number."""

    def is_blinded(self, type_id: bytes) -> bool:
        """Return whether the owner of a known type wants it blinded; `type_id` is the type's own id."""
        sealing = self._types.sealing(type_id)
        return sealing is not None and sealing.blinded

    def type_of(self, name: bytes) -> bytes:
        """Return the type behind an id; the id itself where no type is known to be behind it."""
        found = self._seen.get(name)
        return name if found is None else found[0]

    def is_id(self, name: bytes) -> bool:
        """Return whether something is a blinded id of a type whose keys are held here."""
        return name in self._seen

    def ids(self, type_id: bytes) -> tuple[bytes, ...]:
        """Return the ids under which a type travels at this moment: its own, unless it is blinded."""
        if not self.is_blinded(type_id):
            return (type_id,)
        return tuple(self._ids.get(type_id, {}).values())

    def publishing_id(self, type_id: bytes, now: Instant) -> bytes | None:
        """Return the id under which events of a type leave at this moment; None without keys."""
        if not self.is_blinded(type_id):
            return type_id
        ring = self.held(type_id)
        epoch = None if ring is None else publishing_epoch(ring, now)
        return None if epoch is None else self._ids.get(type_id, {}).get(epoch)

    def ring_of(self, name: bytes) -> KeyRing | None:
        """Return the keys of what travels under an id; None if this broker has none and expects none."""
        found = self._seen.get(name)
        if found is None:
            return self.held(name)
        type_id, base, seen = found
        ring = self.held(type_id)
        if ring is None or seen.ring is ring:
            return None if ring is None else seen
        # The ring was replaced, as when this broker joined its group again.
        if base not in blinded_epochs(ring):
            return None
        seen = BlindedRing(ring, base=base)
        if seen.type_id != name:
            return None
        self._seen[name] = (type_id, base, seen)
        return seen

    def check_id(self, type_id: bytes) -> None:
        """Refuse to hear a blinded type named by its own id: no member says it, and it must not be said."""
        if self.is_blinded(type_id):
            raise SealedTooWeakly("the owner of this type wants it under ids that change with each epoch")

    def covered(self) -> list[tuple[bytes, Cover]]:
        """Return the types whose keys are held here and whose owners want cover."""
        found = [(type_id, self._types.sealing(type_id)) for type_id in self._ids]
        return [(type_id, one.cover) for type_id, one in found if one is not None and one.cover is not None]

    # ------------------------------------------------------------ when keys change

    def outdated(self) -> list[bytes]:
        """Return the types of which other epochs are known than there are ids for."""
        rings = [(type_id, self.held(type_id)) for type_id in self._ids]
        return [
            type_id
            for type_id, ring in rings
            if list(self._ids[type_id]) != ([] if ring is None else blinded_epochs(ring))
        ]

    def refresh(self, type_id: bytes) -> list[bytes]:
        """Make the ids of a type's epochs as its keys are now; return those that are used no more."""
        self.generation += 1
        ring = self.held(type_id) if self.is_blinded(type_id) else None
        made = {} if ring is None else blinded_ids(ring)
        before = self._ids.pop(type_id, {})
        if ring is not None:
            self._ids[type_id] = made
            for epoch, name in made.items():
                self._seen[name] = (type_id, epoch, BlindedRing(ring, base=epoch))
        retired = [name for name in before.values() if name not in made.values()]
        for name in retired:
            del self._seen[name]
            self._streams.pop(name, None)
        return retired

    # ------------------------------------------------------------ frames

    def enclose(
        self, inner: Transit | None, name: bytes, *, by: Principal, cover: Cover | None, now: Instant
    ) -> Transit:
        """Return a publication, or cover, as this broker sends it under an id: by itself, at this moment."""
        rows, kept = (1, ()) if inner is None else (inner.frame.rows, inner.kept)
        fill = 0 if cover is None else _fill(inner, cover)
        inside = None
        if inner is not None:
            inside = Inside(inner.publisher, inner.stream, inner.sequence, Instant(inner.published_at))
        sealed = {} if inner is None else dict(inner.frame.columns)
        sealed[ENVELOPE_UID] = envelope(inside, rows=rows, fill=fill)
        stream, sequence = self._streams.get(name) or (self._random(_STREAM_BYTES), 0)
        self._streams[name] = (stream, sequence + 1)
        written = () if inner is None else inner.written
        return Transit(name, by, stream, sequence, now, Frame(rows, sealed), kept, written)

    def unblind(self, frame: Sealed, inner: Transit) -> Unblinded:
        """Return a blinded frame as a log keeps it: under its type, with the publication that is in it."""
        type_id, id_epoch, _ = self._seen[frame.type_id]
        fields = {name: getattr(frame, name) for name in frame.__struct_fields__}
        return Unblinded(
            **fields | {"type_id": type_id, "epoch": id_epoch + frame.epoch},
            blinded_id=frame.type_id,
            id_epoch=id_epoch,
            inner_publisher=inner.publisher.key,
            inner_stream=inner.stream,
            inner_sequence=inner.sequence,
        )


def _fill(inner: Transit | None, cover: Cover) -> int:
    """Return how many bytes fill a slot behind one event, or without any; refuse what does not fit."""
    rows, columns = (1, []) if inner is None else (inner.frame.rows, inner.columns())
    fill = fill_bytes(columns, rows=rows, size=cover.size_bytes)
    if fill is None or rows > 1:
        raise BadInput(
            "INPUT-BEYOND-COVER",
            f"a frame of this type holds one event, of no more than {cover.size_bytes} bytes",
        )
    return fill


def reveal(outer: Transit, type_id: bytes) -> Transit | None:
    """Return the publication in a frame that was opened; None for cover. Refuse one without an envelope."""
    inside = read_envelope(outer.frame.columns.get(ENVELOPE_UID))
    if inside is None:
        return None
    columns = {uid: column for uid, column in outer.frame.columns.items() if uid != ENVELOPE_UID}
    written = [one for one in outer.written if one.uid != ENVELOPE_UID]
    return Transit(
        type_id,
        inside.publisher,
        inside.stream,
        inside.sequence,
        int(inside.published_at),
        Frame(outer.frame.rows, columns),
        outer.kept,
        written,
    )


@dataclass(slots=True)
class CoverSlots:
    """What waits for a slot: publishers' frames of one event each, by type, which are not answered yet."""

    frames_max: int
    bytes_max: int
    taking: bytes | None = None
    """The type whose slot it is at this moment."""
    is_filled: bool = False
    """Whether an event has left in that slot."""
    last: dict[bytes, int] = field(default_factory=dict)
    """By type, the number of the slot that was filled last."""
    _frames: dict[bytes, deque[tuple[LinkId, Publish, int]]] = field(default_factory=dict, repr=False)
    _sizes: dict[bytes, int] = field(default_factory=dict)

    def wait(self, type_id: bytes, link: LinkId, message: Publish) -> None:
        """Let a publisher's frame wait; refuse more than there is room for."""
        size = 256 + sum(len(column.data) for column in message.columns)
        waiting = self._frames.setdefault(type_id, deque())
        held = self._sizes.get(type_id, 0)
        if len(waiting) >= self.frames_max or held + size > self.bytes_max:
            raise Unavailable(
                "UNAVAILABLE-SLOTS", "too many frames of this covered type wait for their slots"
            )
        waiting.append((link, message, size))
        self._sizes[type_id] = held + size

    def next_frame(self, type_id: bytes) -> tuple[LinkId, Publish] | None:
        """Return the frame that waited longest, which waits no more; None if there is none."""
        waiting = self._frames.get(type_id)
        if not waiting:
            return None
        link, message, size = waiting.popleft()
        self._sizes[type_id] -= size
        if not waiting:
            del self._frames[type_id], self._sizes[type_id]
        return link, message
