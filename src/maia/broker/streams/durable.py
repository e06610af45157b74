"""How are durable subscriptions served from the event log?

A durable subscription is named by its owner. The name means nothing without the
key that the link has proved: no principal can use, move or even find another's
cursor (A69). Cursors are bounded in number, for all and for each.

There is one order: the positions of the event log. A subscription that is far
behind is served from the disk, one that has caught up from memory, and both
read the same numbers, so that nothing is left out or doubled where one turns
into the other. What is delivered is what the View decided now shows of it. At
most so much is under way that was not acknowledged; the rest waits in the log.
An acknowledgement is on disk before the broker sends anything else, so that
what was acknowledged never comes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.broker.audiences.local_subscribers import routed_filter
from maia.broker.interests.impairment import Impairments
from maia.broker.links.cursors import (
    CURSOR_KEY_BYTES,
    KEPT_CURSOR,
    BadCursor,
    Cursor,
    UnderWay,
    cursor_from_bytes,
)
from maia.broker.links.links import Link, Subscription
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.refusals import LedgerRequired
from maia.broker.streams.disclosures import DeliveryRecords
from maia.broker.streams.recorded_frames import Awaited, Readable, RecordedFrames
from maia.broker.streams.run import unseen_by
from maia.broker.timers import CatchUp, TimerWheel
from maia.broker.turn import Turn
from maia.errors import BadInput, MaiaError, Refusal, Unavailable
from maia.events import Instant, seconds_after
from maia.predicates import ALWAYS
from maia.wire.codec import sendable_text
from maia.wire.effects import Keep, LinkId, Logged, LogRead, ReadLog
from maia.wire.messages import DeliverLogged, Missed

NUMBERS: Final = "; missing: "
"""What stands in a gap notice before the numbers of publications: only those who see all of them are told."""
_LOST: Final = (
    "the event log of this broker was lost or put back: what it alone had is gone, the rest comes from others"
)
_READ_BYTES: Final = 4 << 20
_LOOK_AGAIN_S: Final = 0.5


@dataclass(slots=True, eq=False, kw_only=True)
class DurableSubscriptions:
    """The cursors of one broker, and how they are served."""

    own: Own
    recording: Recording
    recorded_frames: RecordedFrames
    links: Mapping[LinkId, Link]
    records: DeliveryRecords
    timers: TimerWheel
    impairments: Impairments
    _cursors: dict[tuple[bytes, str], Cursor] = field(default_factory=dict)
    """By principal's key and name."""
    _reads: dict[int, Cursor] = field(default_factory=dict)
    """Which one waits for which reading of the log."""

    # ------------------------------------------------------------ cursors

    def cursor_for(self, link: Link, name: str, seen: bytes | None, type_id: bytes, turn: Turn) -> Cursor:
        """Return the cursor that a permitted request names, a new one at the end of the log if need be."""
        log, limits, owner = self.recording, self.own.settings.limits, link.peer.key
        known = self._cursors.get((owner, name))
        position = None if known is None or seen is None else known.opened(seen)
        if seen is not None and (position is None or position > log.upto):
            raise Refusal(
                "REFUSED-DURABLE-OTHER-LOG",
                "you were served from another event log, or from this one before it was put back",
            )
        if known is None:
            most = limits.durable_names_per_principal
            if sum(one == owner for one, _ in self._cursors) >= most:
                raise Refusal(
                    "REFUSED-DURABLE-QUOTA",
                    f"a principal has at most {most} durable subscriptions: forget one",
                )
            if len(self._cursors) >= limits.durable_names:
                raise Refusal(
                    "REFUSED-DURABLE-QUOTA",
                    f"this broker remembers no more than {limits.durable_names} of these",
                )
            self.own.refuse_unkept()
            # Up to what is safe, and no further: a crash may give the positions behind it to other frames.
            key = self.own.random(CURSOR_KEY_BYTES)
            known = Cursor(owner, name, type_id, key, log.upto, seen_at=turn.now, runs=log.runs)
            self._cursors[owner, name] = known
            turn.keep(known.kept(link.id))
            log.look_for(type_id)
        elif known.type_id != type_id:
            raise BadInput(
                "INPUT-DURABLE-OTHER-TYPE", f"`{name}` is the name of your subscription to another type"
            )
        return known

    def range_for(self, link: Link, name: str, seen: bytes | None, upto: bytes, type_id: bytes) -> Cursor:
        """Return what reads behind a position up to another, for one of several readers of one name."""
        known = self._cursors.get((link.peer.key, name))
        last = None if known is None or known.type_id != type_id else known.opened(upto)
        first = None if known is None else known.seen if seen is None else known.opened(seen)
        if known is None or first is None or last is None or last > self.recording.upto:
            raise Refusal(
                "REFUSED-DURABLE-OTHER-LOG",
                "you were served from another event log, or from this one before it was put back",
            )
        gaps = [one for one in known.gaps if first <= one[0] < last]
        about = known.owner, name, type_id, known.key, first
        return Cursor(*about, gaps=gaps, runs=known.runs, upto=last)

    def forget(self, cursor: Cursor, link: Link, turn: Turn) -> None:
        """Forget a cursor, whose subscription has ended, at the wish of its owner at a link."""
        del self._cursors[cursor.owner, cursor.name]
        turn.keep(cursor.forgotten(link.id))

    def serves(self, type_id: bytes) -> bool:
        """Return whether there is something to be served of a type."""
        return self.recording.records(type_id)

    def types(self) -> set[bytes]:
        """Return the types that cursors are of."""
        return {cursor.type_id for cursor in self._cursors.values()}

    def reload(self, kept_before: Mapping[str, bytes], turn: Turn) -> None:
        """Go on with the cursors that were kept."""
        upto = self.recording.upto
        for name, data in kept_before.items():
            if not name.startswith(KEPT_CURSOR):
                continue
            try:
                cursor = cursor_from_bytes(data)
            except BadCursor as problem:
                turn.note("kept-dropped", name=name, code=problem.code)
                turn.add(Keep(name, None))
                continue
            self._cursors[cursor.owner, cursor.name] = cursor
            cursor.runs = self.recording.runs
            if self.recording.is_replaced:
                self._begin_in_another_log(cursor, turn)
            cursor.gaps = [(min(at, upto), code, text) for at, code, text in cursor.gaps]
            if cursor.seen > upto:
                # The log is another one, or was restored from a copy: what came after it is not there.
                turn.note("cursor-ahead-of-log", cursor=cursor.name, seen=cursor.seen, position=upto)
                cursor.seen = upto
                turn.add(cursor.kept())

    def _begin_in_another_log(self, cursor: Cursor, turn: Turn) -> None:
        """Fetch from others what the owner of a cursor has not had, and tell it."""
        cursor.begin_in_another_log(turn.now)
        if cursor.seen_at is not None:
            skew_s = self.own.settings.skew_s
            self.recording.begin_at(cursor.type_id, cursor.seen_at, turn.now, skew_s=skew_s)
        cursor.note_gap(min(cursor.seen, self.recording.upto), "UNAVAILABLE-LOG-LOST", _LOST)
        turn.add(cursor.kept())

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: how far the log is, and how far behind they are."""
        cursors = self._cursors.values()
        return {
            **self.recording.status(),
            "cursors": len(cursors),
            "cursors_attached": sum(cursor.is_attached for cursor in cursors),
            "farthest_behind": max(
                (max(0, self.recording.upto - cursor.seen) for cursor in cursors), default=0
            ),
        }

    # ------------------------------------------------------------ what happens

    def receive_recorded(self, upto: int, turn: Turn) -> None:
        """Answer publishers whose frames are safe now, and let durable subscriptions have these."""
        self.recording.made_safe(upto, turn)
        for cursor in self._cursors.values():
            self.advance(cursor, turn)

    def receive_log_read(self, found: LogRead, turn: Turn) -> None:
        """Deliver what was read, as far as there is room; the rest is read again."""
        cursor = self._reads.pop(found.read, None)
        entry = None if cursor is None else self._holder(cursor)
        if cursor is None or entry is None or cursor.reading != found.read:
            return
        cursor.reading = None
        # Retention has taken what is before; what was read just before that is still delivered.
        last = min([found.removed_upto, *(frame.position - 1 for frame in found.frames[:1])])
        if last >= cursor.next:
            cursor.next = last + 1
            removed = Unavailable("UNAVAILABLE-LOG-REMOVED", "it was longer ago than the event log goes back")
            _tell_missed(entry, cursor, last, removed, turn)
        self._take_all(cursor, entry, found.frames, found.upto, turn)
        if found.problem is not None:
            cursor.is_stuck = True
            damaged = Unavailable(
                "UNAVAILABLE-LOG-UNREADABLE", f"the event log cannot be read from here on [{found.problem}]"
            )
            _tell_missed(entry, cursor, cursor.next, damaged, turn)
        elif cursor.waits_since is None:
            # What waits is tried again in a while; to read it again at once would never end.
            self.advance(cursor, turn)

    def acknowledge(self, cursor: Cursor, sealed: bytes, turn: Turn) -> None:
        """Move a cursor up to what its owner has had, and deliver what there is room for now."""
        position = cursor.opened(sealed)
        if position is not None and cursor.acknowledge(position) and cursor.upto is None:
            turn.keep(cursor.kept())
        self.advance(cursor, turn)

    def go_on(self, cursor: Cursor, holder: tuple[LinkId, int], seen: bytes | None, turn: Turn) -> None:
        """Let the owner of a cursor go on where it was."""
        if cursor.holder != holder:
            cursor.attach(holder, arrived=None if seen is None else cursor.opened(seen))
        self.advance(cursor, turn)

    def note_gap(self, type_id: bytes, problem: MaiaError, turn: Turn) -> None:
        """Have every subscription of a type get a gap notice where the log is now."""
        for cursor in self._cursors.values():
            if cursor.type_id == type_id:
                cursor.note_gap(self.recording.next_position - 1, problem.code, problem.message)
                turn.keep(cursor.kept())
                self.recording.is_changed = True

    def tell_gaps(self, turn: Turn) -> None:
        """Send gap notices that were added to those that have come so far."""
        for cursor in self._cursors.values():
            if cursor.gaps:
                self.advance(cursor, turn)

    def advance_link(self, link: LinkId, turn: Turn) -> None:
        """Let the subscriptions of a link go on that waited for keys or certificates."""
        for entry in list(self.links[link].subscriptions.values()) if link in self.links else ():
            if entry.cursor is not None:
                self.advance(entry.cursor, turn)

    def advance(self, cursor: Cursor, turn: Turn) -> None:
        """Deliver what is safe and not delivered yet, as far as there is room; read what is older."""
        entry = self._holder(cursor)
        if entry is not None and cursor.is_answered and cursor.reading is None and not cursor.is_stuck:
            self._take_next(cursor, entry, turn)
            _tell_gaps_before(entry, cursor, cursor.next, turn)
            self._end_range(cursor, entry, turn)

    # ------------------------------------------------------------ one after the other

    def _holder(self, cursor: Cursor) -> Subscription | None:
        if cursor.holder is None:
            return None
        number, ref = cursor.holder
        link = self.links.get(number)
        return None if link is None else link.subscriptions.get(ref)

    def _has_room(self, cursor: Cursor) -> bool:
        limits, under_way = self.own.settings.limits, cursor.under_way
        # One frame may always be under way, however long it is.
        return not under_way or (
            len(under_way) < limits.durable_frames_under_way
            and cursor.bytes_under_way < limits.durable_bytes_under_way
        )

    def _take_next(self, cursor: Cursor, entry: Subscription, turn: Turn) -> None:
        log, type_id, upto = self.recording, cursor.type_id, self._upto(cursor)
        if cursor.upto is not None and cursor.next > cursor.upto:
            return
        if cursor.next > log.upto:
            # Keys of the past are destroyed once no cursor that is attached here is behind.
            here = (one for one in self._cursors.values() if one.is_attached and one.type_id == type_id)
            if all(one.next > log.upto for one in here):
                self.recorded_frames.forget_past(type_id)
        elif not self._has_room(cursor):
            return
        elif (frames := log.in_memory(type_id, cursor.next)) is not None:
            self._take_all(cursor, entry, frames, upto, turn)
        else:
            cursor.reading = log.next_read()
            self._reads[cursor.reading] = cursor
            room = self.own.settings.limits.durable_frames_under_way - len(cursor.under_way)
            turn.add(ReadLog(cursor.reading, type_id, cursor.next, upto, room, _READ_BYTES))

    def _upto(self, cursor: Cursor) -> int:
        """Return how far a cursor goes for now."""
        return self.recording.upto if cursor.upto is None else cursor.upto

    def _end_range(self, cursor: Cursor, entry: Subscription, turn: Turn) -> None:
        """Send the last position of a range that was read: its reader goes by that."""
        if cursor.upto is None or cursor.next <= cursor.upto or cursor.reading is not None or cursor.is_stuck:
            return
        cursor.is_stuck = True  # there is no more
        nothing, about = bytes(16), (entry.ref, cursor.sealed(cursor.upto), self.own.principal.key)
        turn.send(entry.link, DeliverLogged(*about, nothing, nothing, int(turn.now), 0, []))

    def _take_all(
        self, cursor: Cursor, entry: Subscription, frames: Iterable[Logged], upto: int, turn: Turn
    ) -> None:
        """Deliver frames of a type as far as there is room: all that there are up to a position."""
        for logged in frames:
            if logged.position < cursor.next:
                continue
            if logged.position > upto:
                cursor.next = upto + 1
                break
            cursor.next = logged.position  # what is between is of other types
            if not self._has_room(cursor) or not self._take(cursor, entry, logged, turn):
                break
        else:
            cursor.next = max(cursor.next, upto + 1)
        cursor.passed()

    def _take(self, cursor: Cursor, entry: Subscription, logged: Logged, turn: Turn) -> bool:
        """Deliver one frame, if there is something in it for its reader; False if it waits where it is."""
        found = self.recorded_frames.read(logged)
        if isinstance(found, Awaited):
            if self._waits(cursor, entry, found, turn):
                return False
            found = found.in_vain
        _tell_gaps_before(entry, cursor, logged.position, turn)
        cursor.next = logged.position + 1
        if cursor.waits_since is not None:
            cursor.waits_since = cursor.waits_until = None
            self.impairments.warn(self.links[entry.link], entry, turn)
        problem: MaiaError | None
        if isinstance(found, MaiaError):
            problem = found
            turn.count("maia_frames_refused_total", code=found.code)
        else:
            problem = self._deliver(cursor, entry, logged, found, turn)
        if problem is not None:
            _tell_missed(entry, cursor, logged.position, problem, turn)
        return True

    def _waits(self, cursor: Cursor, entry: Subscription, found: Awaited, turn: Turn) -> bool:
        """Say whether a frame goes on waiting. Its reader is warned when that takes long.

        Only the manager of its keys can say that they will not come; while that one is away, or has not
        answered, nothing is given up.
        """
        now = turn.now
        if cursor.waits_since is None:
            cursor.waits_since = now
        if cursor.waits_until is None or found.may_come():
            cursor.waits_until = seconds_after(now, self.own.settings.limits.wait_for_keys_s)
        if now > cursor.waits_until:
            return False
        found.ask(turn)
        self.timers.add(CatchUp(entry.link), seconds_after(now, _LOOK_AGAIN_S))
        self.impairments.warn(self.links[entry.link], entry, turn)
        return True

    def _deliver(
        self, cursor: Cursor, entry: Subscription, logged: Logged, found: Readable, turn: Turn
    ) -> MaiaError | None:
        """Send what the owner's View of now shows of a frame; return why it misses something, if it does."""
        transit = found.transit
        unseen = unseen_by(cursor.rows, transit)
        published_at = Instant(transit.published_at)
        is_behind = cursor.order.is_behind(
            transit.publisher.key, transit.stream, transit.sequence, found.signer
        )
        # What its owner had before it came back is not in the order of this link, or not in this log.
        is_behind = is_behind or cursor.had_later(published_at)
        is_late = is_behind or self.recording.is_late(logged.position)
        if is_late:
            turn.count("maia_late_frames_total")
        if not self.records.identities.admits(transit.requires, entry.link, turn.now):
            turn.count("maia_requirements_unmet_total")  # by the statement of this moment
            return None
        if unseen is None:
            return None
        # What its publisher's provider said when it was recorded: the statement has expired since.
        shown = self.records.seen_by(entry, unseen, found.missing, logged.recorded_at)
        if shown is None:
            return None
        # What was fetched was recorded here long after it was elsewhere.
        moments = Instant(min(logged.recorded_at, published_at)), published_at
        transit, seen = shown
        about = entry.ref, cursor.sealed(logged.position), *transit.labels, seen.rows
        if not cursor.shows:
            # Whoever reads the range is sent what is in it, and that goes on record.
            turn.send(entry.link, DeliverLogged(*about, [], is_late=is_late))
            cursor.delivered(UnderWay(logged.position, 0, *moments))
            return None
        try:
            message = DeliverLogged(*about, seen.columns, seen.author, is_late)
            size = self.records.send_to(entry, transit, seen, message, turn)
        except LedgerRequired as refused:
            return refused
        cursor.delivered(UnderWay(logged.position, size, *moments))
        return None


def _tell_gaps_before(entry: Subscription, cursor: Cursor, position: int, turn: Turn) -> None:
    """Send the gap notices of a durable subscription that belong before a position."""
    sees_all = routed_filter(entry.right.view) == ALWAYS
    for at, code, whole in cursor.take_gaps(position):
        text = whole if sees_all else whole.split(NUMBERS)[0]
        _tell_missed(entry, cursor, at, Unavailable("UNAVAILABLE-LOG-GAP", text), turn, code)


def _tell_missed(
    entry: Subscription, cursor: Cursor, upto: int, problem: MaiaError, turn: Turn, code: str | None = None
) -> None:
    text = sendable_text(problem.message)
    turn.send(entry.link, Missed(entry.ref, cursor.sealed(upto), code or problem.code, text))
