"""What does a sealed publication look like inside a broker?

It is the sealed frame as it travels, and beside it whatever this broker could
open: a frame of the opened columns, in which the others are missing. Routing
and local subscribers see the opened part alone. A broker without any key
holds the sealed frame and an empty part, and decodes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from maia.broker.publication.transit import Transit, check_kinds, written_as
from maia.credentials import principal_from_bytes
from maia.events import AttributeUid, Kind
from maia.sealing import Draft, OpenedFrame
from maia.wire.columns import columns_to_frame

__all__ = ["SealedTransit", "sealed_transit"]

_NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})


class SealedTransit(msgspec.Struct, frozen=True):
    """One sealed frame on its way: `part` has the rows that are here and the columns that were opened."""

    opened: OpenedFrame
    part: Transit
    missing: frozenset[AttributeUid]
    """Attributes that the frame has, or may have, and that were not opened."""
    draft: Draft | None = None
    """What is still to be signed, if the frame was sealed here."""
    along: Mapping[str, bytes] = _NOTHING
    """Plaintext that came along and that nobody here had to read: not checked, for others to check."""

    def __repr__(self) -> str:
        """Say which frame it is, and nothing of what is in it."""
        return f"SealedTransit({self.opened!r})"

    @property
    def type_id(self) -> bytes:
        """Return the type by which the frame is routed."""
        return self.opened.frame.type_id


def sealed_transit(
    opened: OpenedFrame, kinds: Mapping[AttributeUid, Kind], along: Mapping[str, bytes] = _NOTHING
) -> SealedTransit:
    """Read what was opened, every value checked; `kinds` are those of the uids that are known here."""
    frame = opened.frame
    columns = opened.columns
    part = columns_to_frame(columns, opened.rows)
    check_kinds(part, kinds)
    transit = Transit(
        frame.type_id,
        principal_from_bytes(frame.publisher),
        frame.stream,
        frame.sequence,
        frame.published_at,
        part,
        opened.row_numbers,
        written_as(columns),
    )
    return SealedTransit(opened, transit, _missing(opened, kinds), along=along)


def _missing(opened: OpenedFrame, kinds: Collection[AttributeUid]) -> frozenset[AttributeUid]:
    if opened.is_whole:
        return frozenset()
    closed = [column.uid for column in opened.frame.columns if column.uid not in opened.parts]
    # Sealed as a whole, a frame does not say which attributes it has: any that the type has.
    return frozenset(kinds) if closed == [""] else frozenset(map(AttributeUid, closed))
