"""What is asked of a neighbour's frames before they count for anything?

A plain frame names its publisher and proves nothing, so it counts by the way on which it came; a sealed one
is proved before it is remembered, recorded or passed on, for which no key is needed (A90). Then it is opened
as far as this broker's keys go, and its signer's right is judged if a subscriber here is to have it (A49).
A frame whose key or signer is not known yet waits, within limits. A broker without keys passes frames on
by their type and reads none. A blinded frame is the same with an envelope, and cover ends where it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import pairwise
from typing import Final

from maia.broker.publication.authors import check_signature
from maia.broker.publication.transit import BadCut, Transit, author_of, written_as
from maia.broker.refusals import PlainOfSealed, PublishedTooLongAgo, SealedTooWeakly, SealTooNew
from maia.broker.routing.router import Router
from maia.broker.sealed.blinded import BlindedIds, reveal
from maia.broker.sealed.keys import KeyRequests, SealingKeys
from maia.broker.sealed.publisher_rights import PublisherRights
from maia.broker.sessions.links import Link
from maia.broker.streams.run import END, Apart, Run, Stage, refuse
from maia.broker.turn import Turn
from maia.credentials import Principal, principal_from_bytes
from maia.errors import BrokenCredential, MaiaError
from maia.events import AttributeUid, Frame, Instant, Kinds
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, row_set
from maia.routing.table.hops import TypeId
from maia.routing.table.routing_table import RoutingTable
from maia.sealing import (
    EpochKeys,
    OpenedFrame,
    SignatureChecks,
    closed_frame,
    open_with_cache,
    verify_frame,
)
from maia.sealing.frames.content import LEVEL_NUMBERS
from maia.sealing.frames.opened_frame import open_further, verify_further
from maia.sealing.frames.runs import open_run
from maia.types import Sealing, TransitKindMismatch
from maia.wire.columns import FrameReader, check_kinds, columns_to_frame, events_to_frame
from maia.wire.messages import Sealed

EPOCHS_AHEAD_MAX: Final = 16
"""How far ahead of the newest epoch known here a frame may be: keys are on their way, not years away."""


def asked_for(
    link: Link,
    key: TypeId,
    router: Router,
    is_known: Callable[[], bool],
    refuse_unasked: Callable[[Link, Turn, str], None],
) -> Stage:
    """Let frames pass for which their neighbour was asked: before they use up another's numbers (A66)."""

    def stage(run: Run, turn: Turn) -> int | None:
        if not is_known():
            turn.count("maia_frames_unwanted_total", run.count)
            return END
        if router.expects(link, key, turn.now):
            return None
        for message in run.messages:
            refuse_unasked(link, turn, "Sealed" if isinstance(message, Sealed) else "Carried")
        return END

    return stage


def refuse_plain(run: Run, turn: Turn) -> int:
    """Refuse what is said in the clear of a sealed type: its sender may not know that it is one (A29)."""
    for _ in run.messages:
        refuse(PlainOfSealed, turn)
    return END


def reading_carried(type_id: bytes, kinds: Kinds) -> Stage:
    """Read the values of plain frames, all of a run as one; refuse a kind that its uid does not have here."""

    reader = FrameReader(None, kinds)

    def read(run: Run, turn: Turn) -> int | None:
        messages = run.carried
        first, kept = messages[0], messages[0].kept
        columns = run.columns = [one.columns for one in messages]
        try:
            if kept and (len(kept) != first.rows or any(b <= a for a, b in pairwise(kept))):
                raise BadCut("the rows that were kept are not numbered in their order")
            frame = reader.read(columns, first.rows)
        except TransitKindMismatch as problem:
            # Its sender may not know the type, so the frame ends here and the link does not.
            return refuse(problem, turn)
        if frame is None:
            raise Apart
        whose = principal_from_bytes(first.publisher), first.stream, first.sequence, first.published_at
        written = written_as(first.columns) if run.count == 1 else {}
        run.whole = Transit(type_id, *whose, frame, kept, written, author_of(first))
        return None

    return read


def checking_author(is_read: Callable[[], bool]) -> Stage:
    """Check the publisher's signature where a frame is read: without its requirement it is no frame (A98)."""

    def check(run: Run, turn: Turn) -> int | None:
        if not is_read():
            return None
        try:
            check_signature(run.whole)
        except BrokenCredential as problem:
            return refuse(problem, turn)
        return None

    return check


# ------------------------------------------------------------ sealed


def too_weak(type_id: bytes, sealing: Sealing | None) -> Stage:
    """Refuse what is sealed less than its type asks for, or names a blinded type."""

    def look(run: Run, turn: Turn) -> int | None:
        frame = run.sealed[0]
        if run.count == 1:
            run.opened = closed_frame(frame)  # a frame that contradicts itself ends the link
        if sealing is None:
            return None
        is_named = sealing.blinded and frame.type_id == type_id
        if not is_named and frame.level >= LEVEL_NUMBERS[sealing.level]:
            return None
        if run.count > 1:
            raise Apart
        return refuse(SealedTooWeakly, turn)

    return look


def proving(checks: SignatureChecks, seen: DuplicateMemory, carries_again: Callable[[Sealed], bool]) -> Stage:
    """Verify who signed a frame: before it is remembered, recorded or passed on, and before it waits.

    The frames of a run are proved when they are opened.
    """

    def prove(run: Run, turn: Turn) -> int | None:
        frame, closed = run.sealed[0], run.opened
        run.signer = frame.signer
        if closed is None:
            return None
        about, numbers = (frame.publisher, frame.stream, frame.sequence), closed.row_numbers
        asked = seen.unseen_rows(*about, row_set(numbers) if numbers else ALL_ROWS)
        if not seen.unseen_rows(*about, asked, frame.signer) and not carries_again(frame):
            turn.count("maia_duplicates_total")
            return END
        try:
            run.verified = verify_frame(closed, None, checks)
        except BrokenCredential as problem:
            return refuse(problem, turn)
        return None

    return prove


class Open:
    """What this broker can read of sealed frames, and whether a subscriber here may have it."""

    __slots__ = (
        "_audiences",
        "_blinded",
        "_book",
        "_judge",
        "_key",
        "_kinds",
        "_name",
        "_seals",
        "_type_id",
        "_wait",
    )

    def __init__(  # noqa: PLR0913 - all but the first four are named at the call
        self,
        name: bytes,
        type_id: bytes,
        key: TypeId,
        kinds: Kinds,
        *,
        seals: SealingKeys,
        blinded: BlindedIds,
        book: RoutingTable,
        audiences: Container[bytes],
        judge: Callable[[bytes, Principal, frozenset[AttributeUid], Instant], bool],
        wait: Wait,
    ) -> None:
        """Open frames that travel under a name, which is their type's id or a blinded id of it.

        `judge` says whether a signer is known to be entitled to these attributes, and raises if it is not.
        """
        self._name, self._type_id, self._key, self._kinds = name, type_id, key, kinds
        self._seals, self._blinded, self._book, self._audiences = seals, blinded, book, audiences
        self._judge, self._wait = judge, wait

    def take(self, run: Run, turn: Turn) -> int | None:
        """Open, judge, or let wait."""
        if run.count > 1:
            self._together(run, turn)
            return None
        frame = run.sealed[0]
        if run.until is None and self._wait.is_behind(self._type_id, frame):
            return self._waits(run, turn)  # it must not overtake what its publisher sent before
        return self.again(run, turn)

    def again(self, run: Run, turn: Turn) -> int | None:
        """Open a frame that may have waited."""
        frame = run.sealed[0]
        seals, name = self._seals, self._name
        ring = seals.ring_of(name)
        if ring is None:
            return self.unread(run, turn)
        keys = seals.keys(name, frame.epoch)
        if keys is None:
            if ring.newest is not None and frame.epoch < ring.newest:
                return self.unread(run, turn)  # before this broker's time: not for it to read
            if ring.newest is not None and frame.epoch > ring.newest + EPOCHS_AHEAD_MAX:
                return refuse(SealTooNew, turn)
            return self._waits(run, turn)
        if not ring.opens(frame.epoch, frame.published_at, turn.now):
            return refuse(PublishedTooLongAgo, turn)
        try:
            return self._read(run, keys, turn)
        except MaiaError as problem:
            # Whoever passed it on may not be able to read it, so the frame ends here and the link does not.
            return refuse(problem, turn)

    def _read(self, run: Run, keys: EpochKeys, turn: Turn) -> int | None:
        is_read = self._type_id in self._audiences
        opened = self._opened(run, keys, turn, is_read=is_read)
        if not opened.parts:
            return self.unread(run, turn)
        is_blinded = self._blinded.is_id(self._name)
        if not is_blinded and not is_read and not self._book.asked_about(self._key):
            opened = self._closed(run)  # its seal holds, and no filter asks what is in it
        self._show(run, opened, self._kinds)
        if is_blinded:
            inner = run.inner = reveal(run.whole, self._type_id)
            ring = self._seals.ring_of(self._name)
            moment = None if inner is None else inner.published_at
            if moment is not None and ring is not None and not ring.opens(keys.epoch, moment, turn.now):
                return refuse(PublishedTooLongAgo, turn)
        run.unjudged = run.signer
        if is_read:
            assert run.verified is not None  # noqa: S101 - proved before
            signer = verify_further(run.verified, opened, keys).signer
            if not self._judge(self._type_id, signer, run.missing.union(run.whole.frame.columns), turn.now):
                return self._waits(run, turn)
            run.unjudged = run.signer if is_blinded else b""
        return None

    def _opened(self, run: Run, keys: EpochKeys, turn: Turn, *, is_read: bool) -> OpenedFrame:
        """Open a frame as far as it is read here, and by what came along where it is delivered (A51)."""
        closed = self._closed(run)
        if not is_read:
            return open_further(closed, keys, only=self._read_on_the_way(closed.frame, keys))
        if not run.contents:
            return open_further(closed, keys)
        opened, lies = open_with_cache(closed, {one.uid: one.content for one in run.contents}, keys)
        if lies:
            turn.count("maia_plaintext_dropped_total", len(lies))
        return opened

    def _closed(self, run: Run) -> OpenedFrame:
        assert run.verified is not None  # noqa: S101 - proved before
        return run.verified.opened

    def _read_on_the_way(self, frame: Sealed, keys: EpochKeys) -> frozenset[AttributeUid]:
        """Return what a broker reads of a frame that it does not deliver: what neighbours ask about.

        It opens at least one column, with its key and not by what came along: the signature does not
        cover ciphertexts, and a broken one must not use up the number of the frame it was taken from (A66).
        """
        asked = self._book.asked_about(self._key)
        uids = tuple([column.uid for column in frame.columns])
        ciphers = keys.ciphers(uids, frame.sealed_by.instance)
        held = [column for column, cipher in zip(frame.columns, ciphers, strict=True) if cipher is not None]
        wanted = asked.intersection([column.uid for column in held])
        if not wanted and held:
            return frozenset({AttributeUid(min(held, key=lambda column: len(column.sealed)).uid)})
        return wanted

    def unread(self, run: Run, turn: Turn) -> int | None:
        """Pass a frame on by its type alone; no subscriber here gets any of it."""
        try:
            self._show(run, self._closed(run), {})
        except MaiaError as problem:
            return refuse(problem, turn)
        run.missing, run.unjudged, run.is_unread = run.missing.union(self._kinds), run.signer, True
        run.inner = None
        return None

    def _show(self, run: Run, opened: OpenedFrame, kinds: Kinds) -> None:
        """Read what was opened, every value checked."""
        run.opened = opened
        run.whole, run.missing = opened_part(opened, kinds)
        run.columns = (opened.columns,)

    def _waits(self, run: Run, turn: Turn) -> int | None:
        if self._wait.begin(self._type_id, run, turn):
            return END
        return self.unread(run, turn)  # there is no room, or no time

    def _together(self, run: Run, turn: Turn) -> None:
        """Prove and open single events; what is asked of each is asked once where the answer is the same."""
        frames = run.sealed
        first, seals, name = frames[0], self._seals, self._name
        if self._wait.is_behind(self._type_id, first) or self._blinded.is_id(name):
            raise Apart
        ring, count = seals.ring_of(name), len(frames)
        moments = [one.published_at for one in frames]
        by = principal_from_bytes(first.publisher), first.stream, first.sequence, first.published_at
        if ring is None:
            closed = open_run(frames, None, seals.checks, only=None).closed.difference([""])
            run.missing, run.is_unread = frozenset(map(AttributeUid, closed)).union(self._kinds), True
            run.whole, run.columns, run.unjudged = (
                Transit(name, *by, Frame(count, {})),
                [()] * count,
                run.signer,
            )
            return
        keys = seals.keys(name, first.epoch)
        # If an epoch opens for the earliest and for the latest moment, it does for those between.
        ends = {min(moments), max(moments)}
        if keys is None or not all(ring.opens(first.epoch, at, turn.now) for at in ends):
            raise Apart
        is_read = self._type_id in self._audiences
        opened = open_run(
            frames, keys, seals.checks, only=None if is_read else self._book.asked_about(self._key)
        )
        frame = events_to_frame(opened.by_column) if opened.by_column else Frame(count, {})
        if frame is None:
            raise Apart
        check_kinds(frame, self._kinds)
        missing = (
            frozenset(self._kinds) if "" in opened.closed else frozenset(map(AttributeUid, opened.closed))
        )
        if is_read and not self._judge(self._type_id, opened.signer, missing.union(frame.columns), turn.now):
            raise Apart
        run.missing, run.columns = missing, opened.columns
        run.whole, run.unjudged = Transit(name, *by, frame), b"" if is_read else run.signer


def opened_part(opened: OpenedFrame, kinds: Kinds) -> tuple[Transit, frozenset[AttributeUid]]:
    """Return what was opened of a frame, every value checked, and the attributes that were not."""
    frame, columns = opened.frame, opened.columns
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
        author_of(frame),
    )
    if opened.is_whole:
        return transit, frozenset()
    closed = [column.uid for column in frame.columns if column.uid not in opened.parts]
    # Sealed as a whole, a frame does not say which attributes it has: any that the type has.
    return transit, frozenset(kinds) if closed == [""] else frozenset(map(AttributeUid, closed))


class Wait:
    """Frames that wait for a key or for the certificates of their signer."""

    __slots__ = ("_changed", "_keys", "_seals", "_writers")

    def __init__(
        self, seals: SealingKeys, keys: KeyRequests, writers: PublisherRights, changed: Callable[[], None]
    ) -> None:
        """Let frames wait; `changed` is told that there is another moment to be woken at."""
        self._seals, self._keys, self._writers, self._changed = seals, keys, writers, changed

    def is_behind(self, type_id: bytes, frame: Sealed) -> bool:
        """Say whether an earlier frame of the same stream and signer waits (A85)."""
        return self._seals.carrying.holds(type_id, (frame.publisher, frame.stream, frame.signer))

    def begin(self, type_id: bytes, run: Run, turn: Turn) -> bool:
        """Let a frame wait for its key or its signer; say whether there is room and time for that."""
        frame, waiting, now = run.sealed[0], self._seals.carrying, turn.now
        until = run.until = run.until or waiting.until(now)
        signer = Principal(frame.signer)
        # Any key can be an unknown signer: such frames do not take all the room (A85).
        is_doubtful = not self._writers.knows(type_id, signer)
        stream, size = (frame.publisher, frame.stream, frame.signer), _size_of(run, frame)
        has_room = until > now and waiting.put(
            type_id, stream, run, size=size, until=until, is_doubtful=is_doubtful
        )
        if not has_room:
            return False
        self._changed()
        turn.count("maia_frames_waiting_total")
        # The key manager is asked, not more often than it can answer.
        if self._seals.keys(frame.type_id, frame.epoch) is None:
            self._keys.ask_for_epoch(type_id, turn)
        else:
            self._keys.ask_for_writer(type_id, signer, turn)
        return True


def _size_of(run: Run, frame: Sealed) -> int:
    """Return roughly how much memory a frame holds on to."""
    sealed = sum(len(column.sealed) + len(column.commitment) for column in frame.columns)
    return 512 + 2 * len(frame.kept) + sealed + sum(len(one.content) for one in run.contents)
