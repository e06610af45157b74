"""What do brokers ask of each other's event logs, and who is answered what?

`FetchLog` goes where interests go, from broker to broker, whether these record or not. Each one
that records the type answers with frames of its log as they travelled, as far as the asker's
interest in them is registered on the link: what a right of today does not open is not sent (A109).
Answers come back as frames come: from expected sources, proved, and each once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from msgspec import structs

from maia.bounded_map import BoundedMap
from maia.broker.interests.entries import Proof
from maia.broker.interests.named_rights import NOT_CONFIRMED, NamedRights
from maia.broker.interests.proofs import Proofs
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes, book_keys
from maia.broker.keys.blinded import BlindedIds
from maia.broker.links.authors import check_signature
from maia.broker.links.links import OWN_LINK, Link
from maia.broker.links.transit import Transit, class_of_frame, from_carried
from maia.broker.log.progress import Asker, FetchRequest, is_among, runs_by_stream
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.refusals import PlainOfSealed, SealedTooWeakly
from maia.broker.rights.known_types import KnownTypes
from maia.broker.streams.borders import Borders, released_stream, right_of
from maia.broker.streams.recorded_frames import RecordedFrames
from maia.broker.timers import FetchMissed, TimerWheel
from maia.broker.turn import Turn
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation
from maia.events import INSTANT_MIN, Instant, seconds_after
from maia.policy.view_bytes import EVERYTHING
from maia.predicates import ALWAYS, Predicate, verdict
from maia.routing.table.hops import LOCAL, RouteEntry
from maia.sessions.admission import RequestQuota
from maia.types import TransitKindMismatch
from maia.wire.codec import decode, decode_recorded, encode, encode_known
from maia.wire.effects import LinkId, Logged, LogRead, ReadLog
from maia.wire.log_places import signed_place, verify_place
from maia.wire.messages import (
    Carried,
    CarriedSigned,
    FetchLog,
    LogAnswered,
    LogFetched,
    LogPlace,
    Recorded,
    RecordedRun,
    Sealed,
    Unblinded,
)

ANSWERED_WITHIN_S: Final = 5.0
"""How long a round waits for one that is silent before it goes on with what the others have sent."""
LATE_WITHIN_S: Final = 60.0
"""How long one that is slower than that may take from one answer to the next."""
PAGE_BYTES: Final = 1 << 20
"""How many bytes of frames one broker sends in answer to one request, unless the first frame has more."""
_ANSWER_BYTES_MAX: Final = 32 << 20
"""How many bytes the answers to one request may have, all brokers together."""
_STEPS_PER_FRAME: Final = 16
_BYTES_PER_STEP: Final = 1024
"""What a neighbour is charged for what is read for it: bytes are moved, and not worked through."""
_READ_FRAMES: Final = 4096
_READ_BYTES: Final = 4 << 20
_REQUESTS_OF_A_LINK: Final = 1024
_INTERESTS_MAX: Final = 256
_ALL_SEALED: Final = RouteEntry(bytes(16), ALWAYS)
_REMEMBERED: Final = 4096

_Interest: TypeAlias = tuple[RouteEntry, int]
"""What is wanted, and since when there is a right to it."""


@dataclass(slots=True, eq=False, kw_only=True)
class LogRequests:
    """The requests that are under way, this broker's own and those of its neighbours."""

    own: Own
    recording: Recording | None
    recorded_frames: RecordedFrames
    router: Router
    routes: Routes
    proofs: Proofs
    named_rights: NamedRights
    types: KnownTypes
    blinded: BlindedIds
    borders: Borders
    links: Mapping[LinkId, Link]
    broker_quota: RequestQuota
    timers: TimerWheel
    _requests: dict[tuple[bytes, LinkId], FetchRequest] = field(default_factory=dict)
    _passed_on: dict[bytes, FetchRequest] = field(default_factory=dict)
    """Those whose answers come from other brokers."""
    _known: BoundedMap[bytes, bool] = field(default_factory=lambda: BoundedMap(_REMEMBERED))
    """Those that were passed on, and whether this broker has read its log for them."""
    _reads: dict[int, tuple[FetchRequest, LogPlace | None, int]] = field(default_factory=dict)
    """What the own log is read for: where the asker was with it before, and since when it may be recorded."""

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._requests)

    def targets(self, type_id: bytes, besides: LinkId | None = None) -> list[LinkId]:
        """Return the neighbours that a type comes from; those from which it came, if nobody publishes it."""
        keys = book_keys(type_id)
        found = {*self.router.towards_publishers(keys)} - {besides}
        return sorted(found or {*self.routes.former_sources(keys)} - {besides})

    def everybody(self, type_id: bytes) -> list[LinkId]:
        """Return all neighbours, if frames of a type prove by themselves whose they are."""
        proves = self.types.sealing(type_id) is not None or self.types.is_signed(type_id)
        return sorted(one.link for one in self.routes.neighbours.values()) if proves else []

    def awaited(self, type_id: bytes) -> set[LinkId]:
        """Return the neighbours that still work on an answer, for longer than a round waits."""
        late = (one for one in self._passed_on.values() if one.is_late and one.message.type_id == type_id)
        return {link for one in late for link in one.waits_for}

    def classes_here(self, type_id: bytes) -> list[bytes]:
        """Return the classes of this broker's own subscribers, whose interests have to be known elsewhere."""
        wanted = self.routes.book.wanted(LOCAL, book_keys(type_id)[0])
        return sorted({one.view for one in wanted})[:_INTERESTS_MAX]

    def ask(self, message: FetchLog, own: Asker, links: Collection[LinkId], turn: Turn) -> FetchRequest:
        """Ask other brokers for the sake of this one."""
        request = self._placed(message, OWN_LINK, links, turn)
        self._passed_on[message.id], request.own = request, own
        return request

    def _placed(
        self, message: FetchLog, asker: LinkId, links: Collection[LinkId], turn: Turn
    ) -> FetchRequest:
        patience_s = ANSWERED_WITHIN_S if asker == OWN_LINK else LATE_WITHIN_S
        until = seconds_after(turn.now, patience_s)
        request = FetchRequest(message, asker, set(links), until, frozenset(links))
        self._requests[request.key] = request
        self.timers.add(FetchMissed(), request.until)
        data, keys = encode(message), book_keys(message.type_id)
        for link in links:
            self.router.let_ask(keys, link, 1, turn)
            turn.send_bytes(link, data)
        return request

    def _forget(self, request: FetchRequest, turn: Turn) -> None:
        del self._requests[request.key]
        if self._passed_on.get(request.message.id) is request:
            del self._passed_on[request.message.id]
        for link in request.asked:
            self.router.let_ask(book_keys(request.message.type_id), link, -1, turn)

    def forget_overdue(self, turn: Turn) -> None:
        """Go on without those that have not answered in time: what they send later is taken when it comes."""
        for request in list(self._requests.values()):
            silent = request.waits_for - {OWN_LINK}
            if request.until > turn.now or not silent:
                continue
            request.is_short, request.waits_for = True, request.waits_for - silent
            if request.own is None or request.is_late:
                self.answer_if_all_have(request, turn)
                continue
            request.asked -= silent
            self._forget(request, turn)
            until = seconds_after(turn.now, LATE_WITHIN_S)
            late = FetchRequest(request.message, OWN_LINK, silent, until, frozenset(silent), request.own)
            late.is_late = True
            self._requests[late.key] = self._passed_on[late.message.id] = late
            self.timers.add(FetchMissed(), until)
            request.own.receive_answers(request, turn)

    def link_gone(self, link: LinkId, turn: Turn) -> None:
        """Expect no answer from a link that is gone, and answer nothing to it."""
        for request in list(self._requests.values()):
            if request.asker == link:
                self._forget(request, turn)
            elif link in request.waits_for:
                request.waits_for.discard(link)
                request.is_short = True
                self.answer_if_all_have(request, turn)

    def answer_if_all_have(self, request: FetchRequest, turn: Turn) -> None:
        """Answer a request to which nothing is to come any more."""
        if request.waits_for:
            return
        self._forget(request, turn)
        if request.own is None:
            turn.send(request.asker, LogAnswered(request.message.id, request.is_whole, request.is_short))
        elif not request.is_late:
            request.own.receive_answers(request, turn)

    # ------------------------------------------------------------ requests of neighbours

    def receive(self, link: Link, message: FetchLog, turn: Turn) -> None:
        """Answer a neighbour with what is recorded here and behind this broker, as far as it may have it."""
        type_id, log = message.type_id, self.recording
        if (message.id, link.id) in self._requests or (message.id, OWN_LINK) in self._requests:
            turn.send(link.id, LogAnswered(message.id, is_whole=True))  # it came round in a circle
            return
        if sum(asker == link.id for _, asker in self._requests) >= _REQUESTS_OF_A_LINK:
            turn.count("maia_catch_up_dropped_total")  # it asks again in a while
            return
        if self.blinded.is_blinded(type_id):
            turn.send(link.id, LogAnswered(message.id, is_whole=False))
            return
        is_first = message.id not in self._known
        links = self.targets(type_id, besides=link.id) if is_first else []
        request = self._placed(message, link.id, links, turn)
        if is_first:
            self._passed_on[message.id] = request
            self._known.put(message.id, False)
        if log is None or not log.records(type_id):
            request.is_whole = type_id not in self.routes.published
        elif self._interests(link.id, type_id, turn.now) is None:
            request.is_short = True  # its interests, or the statements behind them, may be on their way
        elif not self._known.get(message.id):
            self._known.put(message.id, True)
            self._read_for(request, log, turn)
        self.answer_if_all_have(request, turn)

    def _read_for(self, request: FetchRequest, log: Recording, turn: Turn) -> None:
        # A position that this log has not reached was not said of it by this broker, and says nothing.
        place = next((one for one in request.message.places if log.has_place(one)), None)
        oldest, number = seconds_after(turn.now, -self.own.settings.limits.catch_up_s), log.next_read()
        since = oldest if place is not None else max(oldest, request.message.since)
        request.waits_for.add(OWN_LINK)
        self._reads[number] = request, place, since
        # What was published before the asker's interest came may be on its way to the disk.
        about = request.message.type_id, 1 if place is None else place.position + 1, log.next_position - 1
        first = int(since) if place is None else INSTANT_MIN
        log.once_safe(ReadLog(number, *about, _READ_FRAMES, _READ_BYTES, first), turn)

    def receive_log_read(self, found: LogRead, turn: Turn) -> None:
        """Send a neighbour what was read for it: frames as they travelled, at most a page of them."""
        if self.recording is None or found.read not in self._reads:
            return
        (request, place, since), log = self._reads.pop(found.read), self.recording
        if self._requests.get(request.key) is not request:
            return  # it was given up
        asker, type_id = request.asker, request.message.type_id
        request.waits_for.discard(OWN_LINK)
        interests = self._interests(asker, type_id, turn.now)
        if interests is None:
            self.answer_if_all_have(request, turn)  # not any more
            return
        work = sum(_STEPS_PER_FRAME + len(one.data) // _BYTES_PER_STEP for one in found.frames)
        self.broker_quota.owe(self.links[asker].peer, turn.now, work)
        had = runs_by_stream(request.message.recorded)
        frames: list[bytes] = []
        size, upto, is_cut = 0, found.upto, False
        # What a publisher's broker, or one that is sent everything, has no more of does not exist.
        has_parts = type_id not in self.routes.published and not log.takes_all(type_id)
        is_whole = found.problem is None and (place is None or found.removed_upto <= place.position)
        for logged in found.frames:
            if logged.recorded_at < since:
                is_whole = is_whole and place is None
                continue
            frame = _recorded(logged)
            if frame is None or _has(had, frame):
                continue
            was_fetched = log.was_fetched(logged.position)
            if was_fetched and frame.published_at < request.message.since:
                continue  # recorded here since, and published before the asker began to record
            moment = frame.published_at if was_fetched else logged.recorded_at
            entries = _held_at(interests, Instant(moment))
            if not entries:
                is_whole = is_whole and place is None
                continue  # from before the asker's right began
            found_here, is_less = self._admitted(asker, frame, entries, turn)
            is_less = is_less and len(entries) == len(interests)
            is_cut = is_cut or is_less or (has_parts and not isinstance(frame, Sealed) and bool(frame.kept))
            data = [encode_known(one) for one in found_here if one is frame or not _has(had, one)]
            more = sum(map(len, data))
            if frames and size + more > PAGE_BYTES:
                upto = logged.position - 1
                break
            self._show_right(asker, frame, None, turn)
            frames += data
            size += more
        end = upto if found.problem is not None else log.upto
        is_early = _is_early(request.message, interests)
        is_last = upto >= end and found.problem is None
        settled = self._settled(request.message, interests, turn.now) if is_last else []
        about = request.message.id, log.place_at(upto), max(upto, end), is_whole, b"", is_cut, frames
        answer = LogFetched(*about, is_early, settled, log.was_put_back(request.message))
        turn.send(asker, signed_place(answer, self.own.settings.network, self.own.key))
        turn.count("maia_catch_up_served_total", len(frames))
        self.answer_if_all_have(request, turn)

    def _settled(self, asked: FetchLog, interests: Sequence[_Interest], now: Instant) -> list[RecordedRun]:
        """Return which of the numbers that a neighbour lacks are recorded here and not for it, or refused.

        It may know a stream only as it is made for it at this border.
        """
        if self.recording is None or not asked.missing:
            return []
        progress = self.recording.progress_of(asked.type_id, now)
        views = {entry.view for entry, _ in interests} - {EVERYTHING}
        known = progress.streams_of({one.publisher for one in asked.missing})
        made = {(one[0], released_stream(one[1], view)): one for one in known for view in views}
        return progress.settled_here(asked.missing, made)

    # ------------------------------------------------------------ what a neighbour may have

    def _interests(self, link: LinkId, type_id: bytes, now: Instant) -> list[_Interest] | None:
        """Return what is wanted of a type behind a link, as far as it is proved now; None for nothing.

        Beside it, since when: a right that begins opens nothing that was published before. Sealed frames are
        for whoever has their keys, so an interest in these is not limited.
        """
        book, link_to = self.routes.book, self.routes.link_to
        plain, sealed = book_keys(type_id)
        found: list[_Interest] = []
        is_released = link in self.routes.borders
        hops = [hop for hop in book.hops(plain) if link_to(hop) == link]
        entries = [entry for hop in hops for entry in book.entries(hop, plain)]
        for entry in sorted(entries, key=lambda one: one.predicate != ALWAYS)[:_INTERESTS_MAX]:
            if not isinstance(entry.baggage, Proof):
                found.append((entry, INSTANT_MIN))
                continue
            about = type_id, entry.baggage, entry.predicate, now
            try:
                proved = self.proofs.proved_filter(*about, is_released=is_released)
            except MaiaError:
                continue  # its right has ended, and the neighbour has not taken it back yet (A109)
            *earlier, last = proved.begins or (INSTANT_MIN,)
            found.append((replace(entry, predicate=proved.filter), last))
            for begun in earlier:
                with suppress(MaiaError):  # it showed less then
                    was = self.proofs.proved_filter(*about, is_released=is_released, begun_by=begun)
                    found.append((replace(entry, predicate=was.filter), begun))
        if any(book.wanted(hop, sealed) for hop in book.hops(sealed) if link_to(hop) == link):
            found.append((_ALL_SEALED, INSTANT_MIN))
        return found or None

    def _admitted(
        self, link: LinkId, frame: Recorded, interests: Sequence[RouteEntry], turn: Turn
    ) -> tuple[list[Recorded], bool]:
        """Return what interests admit of a frame, as it travels, and whether that is less than all of it."""
        if isinstance(frame, Sealed):
            return ([], True) if isinstance(frame, Unblinded) else ([frame], False)
        is_signed = isinstance(frame, CarriedSigned)
        if self.types.sealing(frame.type_id) is not None or self.types.is_signed(frame.type_id) > is_signed:
            return [], True
        mark, _ = class_of_frame(frame)
        if mark is not None:
            of_class = [one for one in interests if one.view == mark]
            if not of_class:
                return [], False  # it is for others, and the asker misses nothing by it
            return _admitted_as_it_is(
                frame, [one.predicate if one.behind is None else one.behind for one in of_class]
            )
        if link not in self.routes.borders:
            return _admitted_as_it_is(frame, [one.predicate for one in interests])
        transit, found, is_less = from_carried(frame, {}), list[Recorded](), True
        for view in dict.fromkeys(one.view for one in interests):
            rows = _rows_in(transit, [one.predicate for one in interests if one.view == view])
            is_less = is_less and len(rows) < transit.frame.rows
            seen = self.borders.seen(frame.type_id, view, transit, rows) if rows else None
            made = None if seen is None else self.borders.message(link, seen, right_of(transit), turn)
            if made is not None:
                found.append(made)
        return found, is_less

    def _show_right(self, to: LinkId, frame: Recorded, came_from: LinkId | None, turn: Turn) -> None:
        if isinstance(frame, CarriedSigned):
            self.named_rights.show(to, frame.signed.right, came_from, turn)

    # ------------------------------------------------------------ answers

    def _awaited(self, link: Link, number: bytes) -> FetchRequest | None:
        """Return the request that a neighbour answers; None if it was given up."""
        request = self._passed_on.get(number)
        return None if request is None or link.id not in request.waits_for else request

    def receive_fetched(self, link: Link, message: LogFetched, turn: Turn) -> None:
        """Take in what another broker has recorded, or pass it on to the neighbour that asked for it."""
        request = self._awaited(link, message.id)
        if request is None:
            return
        try:
            verify_place(message, self.own.settings.network)
        except MaiaError as problem:
            raise ProtocolViolation(
                "PROTOCOL-CATCH-UP", "an answer names a place in a log whose broker has not said so"
            ) from problem
        type_id = request.message.type_id
        request.size += sum(map(len, message.frames))
        if request.size > _ANSWER_BYTES_MAX:
            raise ProtocolViolation(
                "PROTOCOL-CATCH-UP", "the answers to one request for recorded frames are too long"
            )
        is_in_round = request.own is not None and not request.is_late
        request.until = seconds_after(turn.now, ANSWERED_WITHIN_S if is_in_round else LATE_WITHIN_S)
        self.timers.add(FetchMissed(), request.until)
        frames, is_awaited = self._checked(link, request, message.frames, turn)
        request.is_whole = request.is_whole and message.is_whole
        if request.own is not None:
            # One that takes all is not content with less.
            is_less = message.is_cut and self.recording is not None and self.recording.takes_all(type_id)
            is_refused = frames is None or message.is_early or is_less
            request.is_refused = request.is_refused or is_refused
            request.is_awaited = request.is_awaited or is_awaited
            request.frames += frames or ()
            if message.settled:
                request.settled.setdefault(message.place.broker, []).extend(message.settled)
            if not is_awaited and not is_refused:
                request.places[message.place.broker] = (message.place, message.end)
                if message.was_put_back:
                    request.put_back.add(message.place.broker)
            if request.is_late:
                request.own.receive_late(request, turn)
            return
        interests = self._interests(request.asker, type_id, turn.now)
        if frames is None or interests is None:
            return
        data: list[bytes] = []
        is_cut = message.is_cut
        for frame in frames:
            entries = _held_at(interests, Instant(frame.published_at))
            admitted, is_less = self._admitted(request.asker, frame, entries, turn)
            data += [encode_known(one) for one in admitted]
            is_cut = is_cut or (is_less and len(entries) == len(interests))
            self._show_right(request.asker, frame, link.id, turn)
        is_early = message.is_early or is_awaited or _is_early(request.message, interests)
        turn.send(request.asker, structs.replace(message, is_cut=is_cut, frames=data, is_early=is_early))

    def _checked(
        self, link: Link, request: FetchRequest, frames: Iterable[bytes], turn: Turn
    ) -> tuple[list[Recorded] | None, bool]:
        """Return what may be recorded or passed on, or None for what was not expected from a neighbour.

        Beside it, whether a frame's publisher is still to be confirmed, or its subscriber is to come back.
        The checks are those of frames that come by themselves.
        """
        checked: list[Recorded] = []
        is_expected, is_awaited, (plain, sealed) = True, False, book_keys(request.message.type_id)
        for data in frames:
            frame = decode(data)
            if not isinstance(frame, Carried | Sealed) or frame.type_id != request.message.type_id:
                raise ProtocolViolation(
                    "PROTOCOL-CATCH-UP", "a request for recorded frames was answered with something else"
                )
            key = sealed if isinstance(frame, Sealed) else plain
            if link.id not in request.asked and not self.router.expects(link, key, turn.now):
                is_expected = request.is_whole = False
                continue
            if isinstance(frame, Carried) and _is_for_nobody(request, frame):
                is_awaited = True
                continue
            try:
                found = self.recorded_frames.check(link.id, frame, turn)
                if isinstance(found, Transit):
                    check_signature(found)
            except (BrokenCredential, PlainOfSealed, SealedTooWeakly, TransitKindMismatch) as problem:
                if problem.code == NOT_CONFIRMED:
                    is_awaited = True
                else:
                    request.is_whole, request.is_doubted = False, True
                turn.count("maia_frames_refused_total", code=problem.code)
            else:
                checked.append(frame)
        if is_expected:
            return checked, is_awaited
        turn.count("maia_frames_refused_total", code="REFUSED-FRAME-UNASKED")
        return None, False

    def receive_answered(self, link: Link, message: LogAnswered, turn: Turn) -> None:
        """Take note that a neighbour, and those behind it, have sent all they have."""
        request = self._awaited(link, message.id)
        if request is not None:
            request.waits_for.discard(link.id)
            request.is_whole = request.is_whole and message.is_whole
            request.is_short = request.is_short or message.is_short
            self.answer_if_all_have(request, turn)


def _recorded(logged: Logged) -> Recorded | None:
    """Return a recorded frame; None for one of another version."""
    try:
        return decode_recorded(logged.data)
    except ProtocolViolation:
        return None


def _has(had: Mapping[tuple[bytes, bytes, bytes], Collection[RecordedRun]], frame: Recorded) -> bool:
    """Return whether the asker has a frame."""
    try:
        return is_among(had, frame)
    except ProtocolViolation:
        return True


def _is_early(asked: FetchLog, interests: Sequence[_Interest]) -> bool:
    """Return whether an asker's interests have not come yet: its place must stay where it was."""
    return not {one.view for one, _ in interests}.issuperset(asked.views)


def _held_at(interests: Sequence[_Interest], moment: Instant) -> list[RouteEntry]:
    """Return what there was a right to at a moment."""
    return [one for one, since in interests if since <= moment]


def _is_for_nobody(request: FetchRequest, frame: Carried) -> bool:
    """Return whether a frame was released for those who were here before a restart, and are not back yet."""
    return request.own is not None and not request.message.views and class_of_frame(frame)[0] is not None


def _admitted_as_it_is(frame: Carried, wanted: Sequence[Predicate]) -> tuple[list[Recorded], bool]:
    if ALWAYS in wanted:
        return [frame], False
    transit = from_carried(frame, {})
    rows = _rows_in(transit, wanted)
    if isinstance(frame, CarriedSigned):  # it is not cut
        return ([frame], False) if rows else ([], True)
    return [transit.cut(rows).as_carried()] if rows else [], len(rows) < transit.frame.rows


def _rows_in(transit: Transit, wanted: Sequence[Predicate]) -> list[int]:
    events = enumerate(transit.matched.events())
    return [row for row, event in events if any(verdict(one, event) is True for one in wanted)]
