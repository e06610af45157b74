"""What does a publication look like between its publisher's edge and its subscribers' edges?

It is a frame by type id and attribute uids, with the publisher's key, stream
and number, which together are its identity (A66). Brokers cut it to the rows
that are wanted behind the next hop. Columns keep the bytes in which they
arrived for as long as no broker cuts them, so that passing a frame on costs no
encoding.

While the tree of a type changes, a later frame may overtake an earlier one on
another way. Subscribers get each publisher's frames in their order (`StreamOrder`): a
frame that comes too late is left out, and counted. The numbers of a sealed frame
are its signer's own: only frames of the same signer make it late. A plain
frame is late within limits, because its number proves nothing (A85).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec

from maia.bounded_map import BoundedMap
from maia.credentials import Principal, principal_from_bytes
from maia.credentials.identity import unpack_identity
from maia.credentials.requirements import (
    NO_ATTRIBUTES,
    Attributes,
    attributes_of_identity,
    requirement_from_bytes,
    seen_with_publisher,
)
from maia.errors import BrokenCredential, ProtocolViolation
from maia.events import AttributeUid, Frame, Kinds
from maia.sealing.frames.authorship import AuthorProof
from maia.wire.columns import (
    check_kinds,
    columns_to_frame,
    encode_column,
    frame_label,
    is_late,
    kind_to_number,
    stream_label,
)
from maia.wire.messages import (
    Author,
    Carried,
    CarriedSigned,
    CarriedWithAuthor,
    Column,
    FrameSignature,
    Released,
    Sealed,
)

_STATEMENTS_REMEMBERED: Final = 4096
_NO_AUTHOR: Final = Author(b"", b"")

Labels: TypeAlias = tuple[bytes, bytes, bytes, int]
"""Publisher, stream and frame, as subscribers know them, and the moment of publication."""


# A struct: a broker makes one for each event, and a frozen dataclass takes five times as long.
class Transit(msgspec.Struct, frozen=True):
    """One frame on its way; `kept` numbers its rows in the publisher's frame, and is empty for all."""

    type_id: bytes
    publisher: Principal
    stream: bytes
    sequence: int
    published_at: int
    frame: Frame
    kept: Sequence[int] = ()
    written: Sequence[Column] = ()
    """Columns in the form in which they travel, as far as that is known already, in the frame's order."""
    author: Author | None = None
    """The publisher's statement, signature and requirement, as they travel: not verified by being here."""
    signed: FrameSignature | None = None
    """Its broker's signature over all of it, as it travels."""
    view: bytes | None = None
    """The class for which it was released at a border, to be seen as it is; None for what was published."""
    origin: bytes = b""
    """The publisher's stream, if this is another one."""

    def __repr__(self) -> str:
        """Say which frame it is, and nothing of what is in it."""
        return f"Transit({self.type_id!r}, {self.publisher!r}, {self.stream!r}, {self.sequence})"

    @property
    def requires(self) -> bytes:
        """Return what subscribers have to meet; no bytes for nothing."""
        return b"" if self.author is None else self.author.requires

    @property
    def identity(self) -> tuple[bytes, bytes, int]:
        """Return what tells a frame from all others: its publisher's key, stream and number."""
        return self.publisher.key, self.stream, self.sequence

    @property
    def publication(self) -> tuple[bytes, bytes, int]:
        """Return the frame of its publisher that it is, or that it was released from."""
        return self.publisher.key, self.published_in, self.sequence

    @property
    def published_in(self) -> bytes:
        """Return the publisher's stream, of which subscribers, signatures and ledgers speak."""
        return self.origin or self.stream

    @property
    def matched(self) -> Frame:
        """Return the frame as filters see it: with what the statement here says of its publisher."""
        if self.author is None or not self.author.statement:
            return self.frame
        return seen_with_publisher(self.frame, _attributes_of(self.author.statement))

    @property
    def labels(self) -> Labels:
        """Return what a subscriber knows a frame by: publisher, stream and frame as labels, moment."""
        return self.labels_of(self.sequence, self.published_at)

    def labels_of(self, sequence: int, published_at: int) -> Labels:
        """Return what a subscriber knows another frame of the same stream by."""
        publisher, stream = self.publisher.key, self.published_in
        label = frame_label(publisher, stream, sequence)
        return publisher, stream_label(publisher, stream), label, published_at

    def columns(self, only: Set[AttributeUid] | None = None) -> list[Column]:
        """Return the columns as they travel, all or those among `only`."""
        written, columns = self.written, self.frame.columns
        if len(written) == len(columns):
            return [one for one in written if only is None or one.uid in only]
        known = {one.uid: one for one in written}
        return [
            known.get(uid) or Column(uid, kind_to_number(one.kind), encode_column(one.kind, one.values))
            for uid, one in columns.items()
            if only is None or uid in only
        ]

    def cut(self, rows: Sequence[int]) -> Transit:
        """Return the frame with the given rows alone, or itself if these are all."""
        if len(rows) == self.frame.rows:
            return self
        numbers = [self.kept[row] for row in rows] if self.kept else list(rows)
        return Transit(
            self.type_id,
            self.publisher,
            self.stream,
            self.sequence,
            self.published_at,
            self.frame.take(rows),
            numbers,
            author=author_of_part(self.author, self.frame, rows),
            view=self.view,
            origin=self.origin,
        )

    def as_carried(self) -> Carried:
        """Return the message that takes this frame to the next broker; a part is not signed any more."""
        whom = self.publisher.key, self.stream, self.sequence, self.published_at
        rows, kept, columns = self.frame.rows, list(self.kept), self.columns()
        if self.signed is not None:
            about = self.author, self.view, self.origin or None, self.signed
            return CarriedSigned(self.type_id, *whom, rows, kept, columns, *about)
        if self.view is not None:
            author = _NO_AUTHOR if self.author is None else self.author
            return Released(self.type_id, *whom, rows, kept, columns, author, self.view, self.origin)
        if self.author is None:
            return Carried(self.type_id, *whom, rows, kept, columns)
        return CarriedWithAuthor(self.type_id, *whom, rows, kept, columns, self.author)


def from_carried(message: Carried, kinds: Kinds) -> Transit:
    """Read a frame from another broker; `kinds` are those of the uids that are known here."""
    kept = message.kept
    if kept and (len(kept) != message.rows or any(b <= a for a, b in pairwise(kept))):
        raise ProtocolViolation("PROTOCOL-CUT", "the rows that were kept are not numbered in their order")
    frame = columns_to_frame(message.columns, message.rows)
    check_kinds(frame, kinds)
    return Transit(
        message.type_id,
        principal_from_bytes(message.publisher),
        message.stream,
        message.sequence,
        message.published_at,
        frame,
        kept,
        message.columns,
        author_of(message),
        message.signed if isinstance(message, CarriedSigned) else None,
        *class_of_frame(message),
    )


def author_of_part(
    author: Author | None, frame: Frame, rows: Sequence[int], only: Collection[AttributeUid] | None = None
) -> Author | None:
    """Return what goes along with some rows and columns of a frame: the publisher's signature is cut, too."""
    if author is None or not author.proof:
        return author
    try:
        part = AuthorProof.from_bytes(author.proof).part(frame.columns, rows, only=only)
    except BrokenCredential:
        return without_proof(author)  # a broker on the way has made it up
    return Author(author.statement, part.to_bytes(), author.requires)


def without_proof(author: Author | None) -> Author | None:
    """Return what is left about a publisher where its signature does not hold, if anything is."""
    if author is None or not (author.statement or author.requires):
        return None
    return Author(author.statement, b"", author.requires)


@lru_cache(maxsize=_STATEMENTS_REMEMBERED)
def _attributes_of(statement: bytes) -> Attributes:
    """Return what an attached statement says, verified or not; nothing if it is none."""
    try:
        return attributes_of_identity(unpack_identity(statement).statement)
    except BrokenCredential:
        return NO_ATTRIBUTES


def author_of(message: Carried | Sealed) -> Author | None:
    """Return what travels with a frame about its publisher; refuse a requirement that cannot be read."""
    author: Author | None = getattr(message, "author", None)
    if author is None or author == _NO_AUTHOR:
        return None
    requirement_from_bytes(author.requires)
    return author


def class_of_frame(message: Carried) -> tuple[bytes | None, bytes]:
    """Return the class for which a frame was released, None for one as it was published; and its origin."""
    view: bytes | None = getattr(message, "view", None)
    origin: bytes | None = getattr(message, "origin", None)
    return view, origin or b""


class StreamOrder:
    """The last frame of each stream that was delivered here, for a bounded number of streams."""

    __slots__ = ("_last",)

    def __init__(self, streams_max: int) -> None:
        self._last: BoundedMap[tuple[bytes, bytes, bytes], int] = BoundedMap(streams_max)

    def admit(self, publisher: bytes, stream: bytes, sequence: int, signer: bytes = b"") -> bool:
        """Take note of a frame; say whether no later one was delivered before it.

        `signer` is whose signature was verified, empty for a plain frame. Other
        rows of the same frame are not too late.
        """
        key = (publisher, stream, signer)
        last = self._last.get(key) or 0
        if sequence < last and (signer or is_late(sequence, newest=last)):
            return False
        self._last.put(key, sequence)
        return True

    def is_behind(self, publisher: bytes, stream: bytes, sequence: int, signer: bytes = b"") -> bool:
        """Take note of a frame; say whether a later one was delivered before it, however much later."""
        key = (publisher, stream, signer)
        last = self._last.get(key) or 0
        self._last.put(key, max(last, sequence))
        return sequence < last

    def late_in(
        self, publisher: bytes, stream: bytes, numbers: Sequence[int], signer: bytes
    ) -> list[bool] | None:
        """Take note of frames whose numbers grow; say which come behind a later one, None if none does."""
        if self.admit(publisher, stream, numbers[0], signer):
            if len(numbers) > 1:
                self._last.put((publisher, stream, signer), numbers[-1])
            return None
        return [True, *(not self.admit(publisher, stream, one, signer) for one in numbers[1:])]
