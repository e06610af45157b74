"""What are a run, a stage and a stream?

A *run* is what one read brings of one publisher's stream: one frame of any number of rows, or many frames of
one row each, in their order. A *stream* is the stages that such runs go through. It is compiled for its
first frame, and again when something that it was compiled from has changed (`streams.py`).

    looks   read, open, shape and refuse, and change nothing. Frames of a run that do not fare alike are
            taken apart: then each of them is a run of its own.
    sends   what subscribers and neighbours wait for. Nothing is refused any more.
    later   what nobody but the publisher waits for: memory, super-types, and its answer.

A stage is a function that was made with what it needs. A feature is a stage that stands in its tuple or does
not; no other stage asks whether it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from maia.broker.links.transit import Transit, author_of, class_of_frame
from maia.broker.rights.publisher_view import Shaped
from maia.broker.turn import Turn
from maia.errors import MaiaError
from maia.events import AttributeUid, Frame, Instant
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, row_set, rows_in
from maia.sealing import EpochKeys, SealedRun, VerifiedRun
from maia.wire.codec import beginning_of, decode, encode_known
from maia.wire.messages import Carried, CarriedSigned, Column, OpenContent, Publish, Released, Sealed

if TYPE_CHECKING:
    from maia.broker.links.links import Link

Frames: TypeAlias = Publish | Carried | Sealed
_Who = TypeVar("_Who")
LATER: Final = 1
"""What a stage returns when nothing of a run is left for subscribers and neighbours."""
END: Final = 2
"""What a stage returns when nothing is left to do at all."""
_ONE_ROW: Final = (0,)


class Apart(Exception):
    """The frames of a run do not fare alike."""


class Run:
    """Frames of one stream on their way: one of any number of rows, or many of one row each."""

    # Without slots: most runs set few of these, and the others are the same for all.
    published: Sequence[Publish]
    """The messages, of a publisher."""
    carried: Sequence[Carried]
    """The same, of a neighbour about a plain type."""
    sealed: Sequence[Sealed]
    """The same, of a neighbour about a sealed type."""
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
    """What a publisher's frames are sealed with."""
    closed: SealedRun
    """A neighbour's sealed frames, whose fields fit together."""
    verified: VerifiedRun
    """That they are signed."""
    opened: VerifiedRun | None = None
    """What was opened of them."""
    contents: Sequence[OpenContent] = ()
    """Plaintext that its sender sent along."""
    inner: Transit | None = None
    """The publication that a blinded frame encloses; None for cover."""
    until: Instant | None = None
    """Up to when it may wait for keys, once it has begun to."""
    taken: Collection[int] = ()
    """The rows that a subscriber or a neighbour got."""

    def __init__(self, link: Link, messages: Sequence[Frames], data: Sequence[bytes] = ()) -> None:
        self.link, self.messages, self.data, self.count = link, messages, data, len(messages)
        # The stages of a stream know of which kind these are.
        self.published = self.carried = self.sealed = messages  # type: ignore[assignment]

    @classmethod
    def of_cover(cls, whole: Transit, keys: EpochKeys, signer: bytes) -> Run:
        """Return a frame that no publisher has sent."""
        run = cls.__new__(cls)
        run.messages, run.data, run.count = (), (), 1
        run.whole, run.keys, run.signer = whole, keys, signer
        return run

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the frames, which grow."""
        return [one.sequence for one in self.messages]

    def transit(self, number: int) -> Transit:
        """Return one of the frames."""
        whole = self.whole
        if self.count == 1:
            return whole
        message = self.messages[number]
        return msgspec.structs.replace(
            whole,
            sequence=message.sequence,
            published_at=message.published_at,
            frame=whole.frame.take((number,)),
            written=self.columns[number],
        )

    def as_carried(self, number: int) -> Carried:
        """Return one of the frames as it travels in the clear."""
        whole, message = self.whole, self.messages[number]
        if whole.author is not None or whole.kept or whole.view is not None:
            return self.transit(number).as_carried()
        label = whole.stream, message.sequence, message.published_at
        rows, columns = 1 if self.count > 1 else whole.frame.rows, self.columns[number]
        return Carried(whole.type_id, whole.publisher.key, *label, rows, [], list(columns))

    def got(self, rows: Sequence[int]) -> None:
        """Take note of rows that a subscriber or a neighbour gets."""
        every = self.whole.frame.rows
        if len(rows) == every:
            self.taken = range(every)
        elif isinstance(self.taken, set):
            self.taken.update(rows)
        elif len(self.taken) < every:
            self.taken = set(rows)

    def as_it_came(self, number: int) -> bytes:
        """Return the bytes of one of the frames as it came."""
        return self.data[number] if self.data else encode_known(self.messages[number])

    def by_frame(self, found: Mapping[_Who, Sequence[int]]) -> list[list[tuple[_Who, Sequence[int]]]]:
        """Return who gets which rows of each frame, by who gets which of all rows."""
        if self.count == 1:
            return [list(found.items())]
        parts: list[list[tuple[_Who, Sequence[int]]]] = [[] for _ in self.messages]
        for who, rows in found.items():
            one = who, _ONE_ROW
            for row in rows:
                parts[row].append(one)
        return parts


def refuse(problem: type[MaiaError] | MaiaError, turn: Turn) -> int:
    """Count a frame that goes nowhere, for this reason."""
    turn.count("maia_frames_refused_total", code=problem.code)
    return END


Stage: TypeAlias = Callable[[Run, Turn], int | None]


class Stream(msgspec.Struct, frozen=True):
    """What the frames of one stream go through."""

    looks: tuple[Stage, ...]
    sends: tuple[Stage, ...]
    later: tuple[Stage, ...] = ()
    version: int = 0
    """It is compiled again when this is not the version of what it was compiled from any more."""


def take(stream: Stream, run: Run, turn: Turn) -> None:
    """Let a run pass the stages of its stream; raise what is wrong with it before anything has changed."""
    for stage in stream.looks:
        if stage(run, turn):
            return
    for stage in stream.sends:
        if stage(run, turn):
            break
    if stream.later:
        turn.after(run.link.id, partial(pass_all, stream.later, run))


def pass_all(stages: Sequence[Stage], run: Run, turn: Turn) -> None:
    """Let a run pass stages none of which ends it."""
    for stage in stages:
        stage(run, turn)


# ------------------------------------------------------------ which messages are a run?


_KEY: Final = 34
_TOKEN: Final = 18
"""How long keys and tokens are in a message, with what says so."""
_PUBLISH: Final = beginning_of(Publish)
_OF_BROKERS: Final = (
    (beginning_of(Carried), len(beginning_of(Carried)) + 2 * _KEY + _TOKEN),
    (beginning_of(CarriedSigned), len(beginning_of(CarriedSigned)) + 2 * _KEY + _TOKEN),
    (beginning_of(Released), len(beginning_of(Released)) + 2 * _KEY + _TOKEN),
    (beginning_of(Sealed), len(beginning_of(Sealed)) + 3 * _KEY + _TOKEN),
)
_OF_A_CLASS: Final = (CarriedSigned, Released)
_INTEGERS: Final = {0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}
"""How many bytes an integer has that is not one byte, by the first of them."""


def gathered(data: Sequence[bytes], *, is_client: bool) -> Sequence[Frames]:
    """Return the single events of one stream with which a read begins, in their order; none if it is one.

    They begin with the same bytes: kind and reference, or kind, type, publisher and stream. So most messages
    that do not belong together are told apart before they are read.
    """
    start = _start(data[0], is_client=is_client)
    if not start or not data[1].startswith(start):
        return ()
    found: list[Frames] = []
    seen_as: tuple[bytes | None, bytes] | None = None
    for one in data:
        try:
            message = decode(one) if one.startswith(start) else None
        except MaiaError:
            break  # it is said when it is its turn
        if not isinstance(message, Publish | Carried | Sealed) or message.rows != 1:
            break
        is_more = not message.is_bare if isinstance(message, Publish) else bool(message.kept)
        if isinstance(message, _OF_A_CLASS):
            seen_as = seen_as or class_of_frame(message)
            is_more = is_more or author_of(message) is not None or class_of_frame(message) != seen_as
        if is_more or (found and message.sequence <= found[-1].sequence):
            break
        found.append(message)
    return found if len(found) > 1 else ()


def _start(data: bytes, *, is_client: bool) -> bytes:
    """Return with what all frames of a stream begin; nothing if it is no frame."""
    if not is_client:
        return next((data[:size] for kind, size in _OF_BROKERS if data.startswith(kind)), b"")
    size = len(_PUBLISH)
    return data[: size + _INTEGERS.get(data[size], 1)] if data.startswith(_PUBLISH) else b""


# ------------------------------------------------------------ has it been here before?


def new_to(seen: DuplicateMemory) -> tuple[Stage, Stage]:
    """Return what takes a run apart of which some was here, and what leaves the part that was not (A66)."""

    def look(run: Run, _turn: Turn) -> None:
        if run.count > 1:
            stream, numbers = (run.whole.publisher.key, run.whole.stream), run.numbers
            for signer in {b"", run.signer}:
                if not seen.are_new(*stream, numbers, signer):
                    raise Apart

    def remember(run: Run, turn: Turn) -> int | None:
        whole = run.whole
        if run.count > 1:
            seen.remember_all(whole.publisher.key, whole.stream, run.numbers, run.unjudged)
            return None
        new = unseen_by(seen, whole, run.unjudged)
        if new is None:
            turn.count("maia_duplicates_total")
            return LATER
        if new is not whole:
            run.whole, run.columns = new, (new.columns(),)
        return None

    return look, remember


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
