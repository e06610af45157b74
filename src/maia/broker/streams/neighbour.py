"""What is asked of a neighbour's frames before they count for anything?

A plain frame names its publisher and proves nothing, so it counts by the way on which it came. One of a
signed type is proved where it is read, and elsewhere as often as this broker verifies in transit (A105).
A sealed one is proved before it is remembered, recorded or passed on, for which no key is needed (A90). Then
it is opened as far as this broker's keys go, and its signer's right is judged if a subscriber here is to have
it (A49). A frame whose key or signer is not known yet waits, within limits. A broker without keys passes
frames on by their type and reads none. A blinded frame is the same with an envelope, and cover ends where it
is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.keys.blinded import BlindedIds, reveal
from maia.broker.keys.keys import KeyRequests, SealingKeys, spoken_of
from maia.broker.keys.publisher_rights import PublisherRights, Read
from maia.broker.links.authors import check_signature
from maia.broker.links.links import Link
from maia.broker.links.transit import Transit, author_of, class_of_frame
from maia.broker.own import Own
from maia.broker.refusals import PlainOfSealed, PublishedTooLongAgo, SealedTooWeakly, SealTooNew
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.streams.run import END, Apart, Run, Stage, refuse
from maia.broker.turn import Turn
from maia.credentials import Principal, principal_from_bytes
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation, Refusal
from maia.events import AttributeUid, Frame, Instant, Kinds, seconds_after
from maia.policy import View
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, row_set
from maia.routing.overlay.table import node_id_of_key
from maia.routing.table.hops import TypeId
from maia.routing.table.routing_table import RoutingTable
from maia.sealing import LEVEL_NUMBERS, EpochKeys, SignatureChecks, VerifiedRun, open_run, read_run, verify
from maia.sealing.frames.signed import signer_of_run
from maia.types import Sealing, TransitKindMismatch
from maia.wire.columns import FrameReader
from maia.wire.effects import LinkId
from maia.wire.messages import CarriedSigned, Publish, Recorded, Sealed, Unblinded

SIGNED_FOR_S: Final = 600
"""How long a signed frame may be on its way: what is older is a repetition, whatever is still remembered."""
_UNSIGNED: Final = PlainOfSealed("REFUSED-UNSIGNED", "the owner of this type wants its frames signed")
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
        view, _ = class_of_frame(run.carried[0])  # the frames of a run are of one class
        if router.expects(link, key, turn.now, view):
            return None
        for message in run.messages:
            refuse_unasked(link, turn, "Sealed" if isinstance(message, Sealed) else "Carried")
        return END

    return stage


def refuse_plain(run: Run, turn: Turn) -> int:
    """Refuse what is said in the clear of a sealed type: its sender may not know that it is one (A29)."""
    for _ in run.messages:
        _dropped(run, turn, PlainOfSealed)
    return END


def refuse_unsigned(run: Run, turn: Turn) -> int:
    """Refuse what is not signed of a type whose definition says that it is (A105)."""
    for _ in run.messages:
        _dropped(run, turn, _UNSIGNED)
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
                raise ProtocolViolation(
                    "PROTOCOL-CUT", "the rows that were kept are not numbered in their order"
                )
            frame = reader.read(columns, first.rows)
        except TransitKindMismatch as problem:
            # Its sender may not know the type, so the frame ends here and the link does not.
            return _dropped(run, turn, problem)
        if frame is None:
            raise Apart
        whose = principal_from_bytes(first.publisher), first.stream, first.sequence, first.published_at
        written = columns[0] if run.count == 1 else ()
        view, origin = class_of_frame(first)
        about = author_of(first)
        run.whole = Transit(type_id, *whose, frame, kept, written, about, view=view, origin=origin)
        return None

    return read


def verifying(
    link: LinkId,
    checks: SignatureChecks,
    rights: NamedRights,
    skew_s: int,
    *,
    made_for: Callable[[Transit], View | None],
    was_here: Callable[[Run], bool],
    is_to_be_verified: Callable[[], bool],
) -> Stage:
    """Verify who signed frames of a signed type, when, and under which right; what is wrong goes nowhere."""

    def verify_signed(run: Run, turn: Turn) -> int | None:
        frames: Sequence[CarriedSigned] = run.carried  # type: ignore[assignment]  # of a stream of such frames
        signatures = [one.signed for one in frames]
        run.signer = run.unjudged = signatures[0].signer
        if len({(one.signer, one.right) for one in signatures}) > 1:
            raise Apart
        if was_here(run):
            turn.count("maia_duplicates_total")
            return END
        if not is_to_be_verified():
            return None
        try:
            for at in {one.signed_at for one in signatures}:
                if (
                    not seconds_after(turn.now, -SIGNED_FOR_S - skew_s)
                    <= at
                    <= seconds_after(turn.now, skew_s)
                ):
                    raise BrokenCredential("SIGNED-TOO-LONG-AGO", "a frame was signed too long ago, or ahead")
            rights.check(link, frames[0], run.whole.frame, made_for(run.whole), turn)
            signer_of_run(frames, checks)
        except BrokenCredential as problem:
            return _refused(run, turn, problem)
        run.unjudged = b""
        return None

    return verify_signed


def checking_author(is_read: Callable[[], bool]) -> Stage:
    """Check the publisher's signature where a frame is read: without its requirement it is no frame (A98)."""

    def check(run: Run, turn: Turn) -> int | None:
        if not is_read():
            return None
        try:
            check_signature(run.whole)
        except BrokenCredential as problem:
            return _dropped(run, turn, problem)
        return None

    return check


# ------------------------------------------------------------ sealed


def too_weak(type_id: bytes, sealing: Sealing | None) -> Stage:
    """Refuse what is sealed less than its type asks for, or names a blinded type."""

    def look(run: Run, turn: Turn) -> int | None:
        run.closed = read_run(run.sealed)  # a frame that contradicts itself ends the link
        frame = run.sealed[0]
        is_named = sealing is not None and sealing.blinded and frame.type_id == type_id
        if sealing is None or (not is_named and frame.level >= LEVEL_NUMBERS[sealing.level]):
            return None
        return _refused(run, turn, SealedTooWeakly)

    return look


def proving(checks: SignatureChecks, seen: DuplicateMemory, carries_again: Callable[[Sealed], bool]) -> Stage:
    """Verify who signed frames: before they are remembered, recorded or passed on, and before they wait."""

    def prove(run: Run, turn: Turn) -> int | None:
        run.signer = run.sealed[0].signer
        if is_repeated(run, seen) and not carries_again(run.sealed[0]):
            turn.count("maia_duplicates_total")
            return END
        try:
            run.verified = verify(run.closed, checks)
        except BrokenCredential as problem:
            return _refused(run, turn, problem)
        return None

    return prove


def is_repeated(run: Run, seen: DuplicateMemory) -> bool:
    """Return whether all of a signed frame was here before, so that it need not be proved again."""
    if run.count > 1:
        return False
    frame = run.messages[0]
    assert not isinstance(frame, Publish)  # noqa: S101 - of a neighbour
    about, numbers = (frame.publisher, frame.stream, frame.sequence), frame.kept
    asked = seen.unseen_rows(*about, row_set(numbers) if numbers else ALL_ROWS)
    return not seen.unseen_rows(*about, asked, run.signer)


def _refused(run: Run, turn: Turn, problem: type[MaiaError] | MaiaError) -> int:
    """Count a frame that goes nowhere; those of a run are asked one by one which of them it is."""
    if run.count > 1:
        raise Apart
    return _dropped(run, turn, problem)


def _dropped(run: Run, turn: Turn, problem: type[MaiaError] | MaiaError) -> int:
    """Let a frame go nowhere, and tell the operator: its publisher is no client of this broker."""
    type_id = run.messages[0].type_id.hex()  # type: ignore[union-attr]  # of a neighbour
    turn.note_refused(problem, run.link.peer, link=run.link.id, asked="Frame", type=type_id)
    return refuse(problem, turn)


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
        "_reader",
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
        judge: Callable[[bytes, Principal, frozenset[AttributeUid], Instant, Read], bool],
        wait: Wait,
    ) -> None:
        """Open frames that travel under a name, which is their type's id or a blinded id of it.

        `judge` says whether a signer is known to be entitled to what was read, and raises if it is not.
        """
        self._name, self._type_id, self._key, self._kinds = name, type_id, key, kinds
        self._seals, self._blinded, self._book, self._audiences = seals, blinded, book, audiences
        self._judge, self._wait, self._reader = judge, wait, FrameReader(None, kinds)

    def take(self, run: Run, turn: Turn) -> int | None:
        """Open, judge, or let wait."""
        if run.until is None and self._wait.is_behind(self._type_id, run.sealed[0]):
            return self._waits(run, turn)  # it must not overtake what its publisher sent before
        return self.again(run, turn)

    def again(self, run: Run, turn: Turn) -> int | None:
        """Open frames that may have waited."""
        frame, seals, name = run.sealed[0], self._seals, self._name
        ring = seals.ring_of(name)
        if ring is None:
            return self.unread(run, turn)
        keys = seals.keys(name, frame.epoch)
        if keys is None:
            if ring.newest is not None and frame.epoch < ring.newest:
                return self.unread(run, turn)  # before this broker's time: not for it to read
            if ring.newest is not None and frame.epoch > ring.newest + EPOCHS_AHEAD_MAX:
                return _refused(run, turn, SealTooNew)
            return self._waits(run, turn)
        # If an epoch opens for the earliest and for the latest moment, it does for those between.
        moments = [one.published_at for one in run.sealed]
        if not all(ring.opens(frame.epoch, at, turn.now) for at in {min(moments), max(moments)}):
            return _refused(run, turn, PublishedTooLongAgo)
        try:
            return self._read(run, keys, turn)
        except MaiaError as problem:
            # The neighbour may not be able to read it, so the frame ends here and the link does not.
            return _refused(run, turn, problem)

    def _read(self, run: Run, keys: EpochKeys, turn: Turn) -> int | None:
        is_read, is_blinded = self._type_id in self._audiences, self._blinded.is_id(self._name)
        if is_blinded and run.count > 1:
            raise Apart
        opened = self._opened(run, keys, turn, is_read=is_read)
        if opened.is_closed:
            return self.unread(run, turn)
        if not is_blinded and not is_read and not self._book.asked_about(self._key):
            opened = run.verified  # its seal holds, and no filter asks what is in it
        self._show(run, opened)
        if is_blinded:
            inner = run.inner = reveal(run.whole, self._type_id)
            ring = self._seals.ring_of(self._name)
            moment = None if inner is None else inner.published_at
            if moment is not None and ring is not None and not ring.opens(keys.epoch, moment, turn.now):
                return _dropped(run, turn, PublishedTooLongAgo)
        run.unjudged = run.signer
        if is_read:
            uids = said_in(run.whole, opened)
            read = run.whole.frame, run.missing
            if not self._judge(self._type_id, opened.signer, uids, turn.now, read):
                return self._waits(run, turn)
            run.unjudged = run.signer if is_blinded else b""
        return None

    def _opened(self, run: Run, keys: EpochKeys, turn: Turn, *, is_read: bool) -> VerifiedRun:
        """Open frames as far as they are read here, and by what came along where they are delivered (A51)."""
        if not is_read:
            return open_run(run.verified, keys, only=self._read_on_the_way(run, keys))
        opened = open_run(run.verified, keys, along={one.uid: one.content for one in run.contents})
        if opened.lies:
            turn.count("maia_plaintext_dropped_total", len(opened.lies))
        return opened

    def _read_on_the_way(self, run: Run, keys: EpochKeys) -> frozenset[str]:
        """Return what a broker reads of frames that it does not deliver: what neighbours ask about.

        It opens at least one column, with its key and not by what came along: commitments do not
        cover ciphertexts, and a broken one must not use up the number of the frame it was taken from (A66).
        """
        frame = run.sealed[0]
        ciphers = keys.ciphers(run.closed.uids, frame.mark.instance)
        held = [column for column, cipher in zip(frame.columns, ciphers, strict=True) if cipher is not None]
        wanted = frozenset(self._book.asked_about(self._key)).intersection([column.uid for column in held])
        if not wanted and held:
            return frozenset({min(held, key=lambda column: len(column.sealed)).uid})
        return wanted

    def unread(self, run: Run, turn: Turn) -> int | None:
        """Pass frames on by their type alone; no subscriber here gets any of them."""
        try:
            self._show(run, run.verified)
        except MaiaError as problem:
            return _refused(run, turn, problem)
        run.missing, run.unjudged, run.is_unread = run.missing.union(self._kinds), run.signer, True
        run.inner = None
        return None

    def _show(self, run: Run, opened: VerifiedRun) -> None:
        """Read what was opened, every value checked."""
        run.opened, run.columns = opened, opened.columns
        run.whole, run.missing = opened_part(opened, self._kinds, self._reader)

    def _waits(self, run: Run, turn: Turn) -> int | None:
        if run.count > 1:
            raise Apart
        if self._wait.begin(self._type_id, run, turn):
            return END
        return self.unread(run, turn)  # there is no room, or no time


def opened_part(
    opened: VerifiedRun, kinds: Kinds, reader: FrameReader
) -> tuple[Transit, frozenset[AttributeUid]]:
    """Return what was opened of frames, every value checked, and the attributes that were not."""
    first, columns, count = opened.frame, opened.columns, len(opened.columns)
    rows = reader.read(columns, first.rows) if columns[0] else Frame(count * first.rows, {})
    if rows is None:
        raise Apart
    transit = Transit(
        first.type_id,
        principal_from_bytes(first.publisher),
        first.stream,
        first.sequence,
        first.published_at,
        rows,
        first.kept,
        columns[0] if count == 1 else (),
        author_of(first),
    )
    # Sealed as a whole, a frame does not say which attributes it has: any that the type has.
    missing = frozenset(kinds if "" in opened.closed else ())
    return transit, missing.union(map(AttributeUid, opened.closed - {""}))


def said_in(part: Transit, opened: VerifiedRun) -> frozenset[AttributeUid]:
    """Return the attributes, and answers, that frames have, as far as that shows here."""
    return frozenset(map(AttributeUid, opened.closed - {""})).union(part.frame.columns)


class Wait:
    """Frames that wait for a key or for the certificates of their signer."""

    __slots__ = ("_changed", "_keys", "_seals", "_writers")

    def __init__(
        self, seals: SealingKeys, keys: KeyRequests, writers: PublisherRights, changed: Callable[[], None]
    ) -> None:
        """Let frames wait; `changed` is told that there is another moment to be woken at."""
        self._seals, self._keys, self._writers, self._changed = seals, keys, writers, changed

    def is_behind(self, type_id: bytes, frame: Sealed) -> bool:
        """Return whether an earlier frame of the same stream and signer waits (A85)."""
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


# ------------------------------------------------------------ who signed a sealed frame?


@dataclass(slots=True, eq=False, repr=False)
class Signers:
    """Whether those who sign sealed frames may publish what is in them."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    seals: SealingKeys
    writers: PublisherRights
    links: dict[LinkId, Link]

    def may_publish(
        self,
        type_id: bytes,
        signer: Principal,
        uids: frozenset[AttributeUid],
        now: Instant,
        read: Read | None = None,
    ) -> bool:
        """Return whether a signer is known to be entitled to what is in a frame; refuse one that is not."""
        if not self.writers.knows(type_id, signer):
            self.learn_what_is_at_hand(type_id, signer)
        uids = spoken_of(self.seals, type_id, uids)
        answer = self.writers.judge(signer, self.types.versions(type_id), uids, now, read)
        if answer is False:
            raise Refusal(
                "SEALING-SIGNER-NOT-ENTITLED",
                "a frame was signed by a principal that may not publish what is in it",
            )
        return answer is not None

    def unjudged(self, frame: Recorded, now: Instant) -> bytes:
        """Return who signed a frame that is recorded, unless it is known here that this one may publish it.

        One in the clear was proved under its right, and one out of an envelope was judged, before they came
        to the log.
        """
        if not isinstance(frame, Sealed) or isinstance(frame, Unblinded):
            return b""
        uids = frozenset(AttributeUid(one.uid) for one in frame.columns)
        if "" in uids:
            uids = frozenset(self.types.kinds(frame.type_id))
        try:
            may = self.may_publish(frame.type_id, Principal(frame.signer), uids, now)
        except Refusal:
            may = False
        return b"" if may else frame.signer

    def learn_what_is_at_hand(self, type_id: bytes, signer: Principal) -> None:
        """Take a signer's certificates from what it showed itself, if it is this broker or a neighbour."""
        if signer == self.own.principal:
            self.writers.learn(type_id, signer, self.own.settings.credentials)
            return
        neighbour = self.routes.neighbours.get(node_id_of_key(signer.key))
        link = None if neighbour is None else self.links[neighbour.link]
        if link is not None and link.peer == signer and type_id in link.rights:
            self.writers.learn(type_id, signer, self.authoriser.pool(link.shown, link.rights[type_id]))
