"""What are a run, a stage and a stream?

A *run* is what one read brings of one publisher's stream: one frame of any number of rows, or many frames of
one row each, in their order. A *stream* is the stages that such runs go through. It is compiled for its
first frame, and again when something that it was compiled from has changed (`streams.py`).

    looks   read, open, shape and refuse, and change nothing. Frames of a run that do not fare alike are
            taken apart: then each of them is a run of its own.
    sends   what subscribers and neighbours wait for. Nothing is refused any more.
    later   what nobody but the publisher waits for: memory, super-types, and its answer.

A feature is a stage that stands in its tuple or does not; no other stage asks whether it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import msgspec

from maia.broker.publication.publisher_view import Shaped
from maia.broker.publication.transit import Transit, written_as
from maia.errors import MaiaError
from maia.events import AttributeUid, Frame, Instant
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, row_set, rows_in
from maia.sealing import EpochKeys, OpenedFrame, VerifiedFrame
from maia.wire.codec import encode_known
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.messages import Carried, Column, OpenContent, Publish, Sealed

if TYPE_CHECKING:
    from maia.broker.sessions.links import Link

LATER: Final = 1
"""What a stage returns when nothing of a run is left for subscribers and neighbours."""
END: Final = 2
"""What a stage returns when nothing is left to do at all."""
_Who = TypeVar("_Who")


class Apart(Exception):
    """The frames of a run do not fare alike."""


class Run:
    """Frames of one stream on their way: one of any number of rows, or many of one row each."""

    # Without slots: most runs set few of these, and the others are the same for all.
    whole: Transit
    """All rows, as far as they can be read here. Of one frame, this is the frame."""
    columns: Sequence[Sequence[Column]] = ()
    """The columns of each frame in the clear, as they travel."""
    given: Frame
    """The rows as their publisher wrote them."""
    shaped: Shaped | None = None
    """What the publisher's View has left of them, if it changes any."""
    missing: frozenset[AttributeUid] = frozenset()
    """Attributes that frames have, or may have, and that were not opened here."""
    signer: bytes = b""
    """Who signs, or has signed, what is sealed."""
    unjudged: bytes = b""
    """The same, where it is not known here that the signer may publish: it uses up its own numbers (A85)."""
    is_unread: bool = False
    """Whether this broker reads nothing of it, and passes it on by its type alone."""
    keys: EpochKeys | None = None
    """What a publisher's frames are sealed with, or a neighbour's were opened with."""
    verified: VerifiedFrame | None = None
    """That a neighbour's sealed frame is signed."""
    opened: OpenedFrame | None = None
    """What was opened of it."""
    contents: Sequence[OpenContent] = ()
    """Plaintext that its sender sent along."""
    inner: Transit | None = None
    """The publication that a blinded frame encloses; None for cover."""
    until: Instant | None = None
    """Up to when it may wait for keys, once it has begun to."""

    def __init__(
        self, link: Link, messages: Sequence[Publish | Carried | Sealed], data: Sequence[bytes]
    ) -> None:
        self.link, self.messages, self.data = link, messages, data
        self.numbers = [one.sequence for one in messages]
        self.taken: set[int] = set()
        """The rows that a subscriber or a neighbour got."""

    @property
    def published(self) -> Sequence[Publish]:
        """Return the messages of a publisher."""
        return cast("Sequence[Publish]", self.messages)

    @property
    def carried(self) -> Sequence[Carried]:
        """Return the messages of a neighbour about a plain type."""
        return cast("Sequence[Carried]", self.messages)

    @property
    def sealed(self) -> Sequence[Sealed]:
        """Return the messages of a neighbour about a sealed type."""
        return cast("Sequence[Sealed]", self.messages)

    @classmethod
    def of_own(cls, whole: Transit, keys: EpochKeys, signer: bytes) -> Run:
        """Return a frame that no publisher has sent: cover."""
        run = cls.__new__(cls)
        run.messages, run.data, run.numbers, run.taken = (), (), [whole.sequence], set()
        run.whole, run.columns, run.keys, run.signer = whole, (whole.columns(),), keys, signer
        return run

    def transit(self, number: int) -> Transit:
        """Return one of the frames."""
        whole = self.whole
        if len(self.numbers) == 1:
            return whole
        message = self.messages[number]
        return msgspec.structs.replace(
            whole,
            sequence=message.sequence,
            published_at=message.published_at,
            frame=whole.frame.take((number,)),
            written=written_as(self.columns[number]),
        )

    def as_carried(self, number: int) -> Carried:
        """Return one of the frames as it travels in the clear."""
        whole, message = self.whole, self.messages[number]
        if len(self.numbers) == 1 or whole.author is not None:
            return self.transit(number).as_carried()
        label = whole.stream, message.sequence, message.published_at
        return Carried(whole.type_id, whole.publisher.key, *label, 1, [], list(self.columns[number]))

    def by_frame(self, found: Mapping[_Who, Sequence[int]]) -> list[list[tuple[_Who, Sequence[int]]]]:
        """Return who gets which rows of each frame, by who gets which of all rows."""
        if len(self.numbers) == 1:
            return [list(found.items())]
        parts: list[list[tuple[_Who, Sequence[int]]]] = [[] for _ in self.numbers]
        for who, rows in found.items():
            one = who, _ONE_ROW
            for row in rows:
                parts[row].append(one)
        return parts

    def as_it_came(self, number: int) -> bytes:
        """Return the bytes of one of the frames as it came."""
        return self.data[number] if self.data else encode_known(self.messages[number])


_ONE_ROW: Final = (0,)


class Rest(msgspec.Struct, frozen=True):
    """A part of the work on one input, for which no peer that was answered so far has to wait.

    It is done before anything else happens to the broker, so it finds what it
    was put off with. The runtime sends first what was said before it.
    """

    link: LinkId
    """Where the input came from, and who is blamed if the rest of it fails."""
    work: Callable[[], list[Effect]]


class Turn:
    """What follows from one input, in the order in which it leaves."""

    __slots__ = ("_rest", "effects", "now")

    def __init__(self, now: Instant, rest: deque[Rest]) -> None:
        """Begin with nothing; `rest` is where work is left for later."""
        self.now, self._rest = now, rest
        self.effects: list[Effect] = []

    def send(self, link: LinkId, data: bytes) -> None:
        """Send a message."""
        self.effects.append(Send(link, data))

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a metric."""
        self.effects.append(Count(name, amount))

    def refuse(self, problem: type[MaiaError] | MaiaError) -> int:
        """Count a frame that goes nowhere, for this reason."""
        self.effects.append(Count("maia_frames_refused_total", labels={"code": problem.code}))
        return END

    def after(self, link: LinkId, work: Callable[[], list[Effect]]) -> None:
        """Do this when what was said so far has left, and before anything else happens to the broker."""
        self._rest.append(Rest(link, work))

    def next(self, link: LinkId, work: Callable[[], list[Effect]]) -> None:
        """Do this before all else that was left for later."""
        self._rest.appendleft(Rest(link, work))


Stage: TypeAlias = Callable[[Run, Turn], int | None]


class Stream(msgspec.Struct, frozen=True, gc=False):
    """What the frames of one stream go through."""

    looks: tuple[Stage, ...]
    sends: tuple[Stage, ...]
    later: tuple[Stage, ...] = ()
    made_from: object = None
    """What it was compiled from: it is compiled again when that is not the same any more."""


def take(stream: Stream, run: Run, turn: Turn) -> None:
    """Let a run pass the stages of its stream; raise what is wrong with it before anything has changed."""
    for stage in stream.looks:
        if stage(run, turn):
            return
    for stage in stream.sends:
        ended = stage(run, turn)
        if ended is not None:
            if ended == END:
                return
            break
    if stream.later:
        turn.after(run.link.id, lambda: _finished(stream, run, turn))


def _finished(stream: Stream, run: Run, turn: Turn) -> list[Effect]:
    turn.effects = []
    for stage in stream.later:
        stage(run, turn)
    return turn.effects


# ------------------------------------------------------------ has it been here before?


class Unseen:
    """What was here before goes nowhere again (A66)."""

    __slots__ = ("_seen",)

    def __init__(self, seen: DuplicateMemory) -> None:
        self._seen = seen

    def look(self, run: Run, _turn: Turn) -> None:
        """Take a run apart of which some frames were here."""
        if len(run.numbers) > 1:
            stream = run.whole.publisher.key, run.whole.stream
            for signer in {b"", run.signer}:
                if not self._seen.are_new(*stream, run.numbers, signer):
                    raise Apart

    def take(self, run: Run, turn: Turn) -> int | None:
        """Remember frames, and leave what is new of them."""
        if len(run.numbers) > 1:
            whole = run.whole
            self._seen.remember_all(whole.publisher.key, whole.stream, run.numbers, run.unjudged)
            return None
        new = unseen_by(self._seen, run.whole, run.unjudged)
        if new is None:
            turn.count("maia_duplicates_total")
            return LATER
        if new is not run.whole:
            run.whole, run.columns = new, (new.columns(),)
        return None


def unseen_by(memory: DuplicateMemory, transit: Transit, unjudged: bytes = b"") -> Transit | None:
    """Remember a frame and return the part that a memory did not know; None if it knew all of it."""
    kept = transit.kept
    asked = row_set(kept) if kept else ALL_ROWS
    new = memory.new_rows(transit.publisher.key, transit.stream, transit.sequence, asked, unjudged)
    if new == asked:
        return transit
    # Of all rows without some, those that this frame has.
    whole: Sequence[int] = kept or range(transit.frame.rows)
    fresh = set(rows_in(new & (1 << whole[-1] + 1) - 1, among=whole))
    rows = [at for at, row in enumerate(whole) if row in fresh]
    return transit.cut(rows) if rows else None
