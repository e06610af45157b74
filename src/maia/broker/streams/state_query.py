"""How does a subscriber get what was published before it came?

It asks for the state once its subscription is accepted. What this broker knows is
delivered through the subscriber's View; if that may not be everything, the
question goes from broker to broker towards the publishers, and the answers
come back the same way (dissertation 6.3.1, 6.3.2). The last publication of a
publisher is sent whole, with every event that travelled in it, to subscribers that
may have it now: a publisher's right is rechecked before its frame is passed on,
and that is forgotten everywhere when the right is taken away (A37).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from maia.broker.audiences.local_subscribers import Audiences, Seen
from maia.broker.interests.expected_sources import ExpectedSources
from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes, book_keys
from maia.broker.keys.blinded import BlindedIds
from maia.broker.links.links import Advertisement, Link, Subscription
from maia.broker.links.transit import Transit
from maia.broker.log.retained import RetainedFrame, RetainedFrames, Shows
from maia.broker.own import Own
from maia.broker.refusals import LedgerRequired, PlainOfSealed, SealedTooWeakly
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.streams.borders import Borders, right_of
from maia.broker.streams.disclosures import DeliveryRecords
from maia.broker.streams.recorded_frames import Readable, RecordedFrames
from maia.broker.streams.sealing import SealAlone
from maia.broker.timers import StateQueries, TimerWheel
from maia.broker.turn import Turn
from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation
from maia.events import Instant, seconds_after
from maia.policy import PolicyRefusal
from maia.predicates import ALWAYS
from maia.sealing.frames.signed import draft_signed
from maia.types import TransitKindMismatch
from maia.wire.codec import decode, encode, encode_known
from maia.wire.effects import LinkId, Logged
from maia.wire.messages import (
    AskState,
    Carried,
    Deliver,
    Sealed,
    StateDone,
    StateFrame,
    StateGone,
    StateQuery,
    StateTold,
)

_ANSWERED_WITHIN_S: Final = 3.0
_QUESTIONS_MAX: Final = 4096
_CLASSES_LOOKED_AT: Final = 256
_QUESTION_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class AskingClient:
    """A subscriber that waits for an answer."""

    link: LinkId
    ref: int
    request: int


@dataclass(slots=True)
class Question:
    """A question about the state of a type that was not answered by all neighbours yet."""

    id: bytes
    type_id: bytes
    asker: AskingClient | LinkId | None
    """A client, a neighbouring broker, or this broker itself."""
    waits_for: set[LinkId]
    until: Instant
    is_whole: bool = True
    ask_at: Instant | None = None
    """When the neighbours are asked, if they were not at once."""
    shown: dict[tuple[bytes, bytes], int] = field(default_factory=dict, repr=False)
    """The number of the last frame that was shown to its asker, by publisher and stream."""


@dataclass(slots=True, eq=False, repr=False)
class StateAnswers:
    """Questions about the present state, and what is answered."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    blinded: BlindedIds
    router: Router
    seal_alone: SealAlone
    links: dict[LinkId, Link]
    audiences: Audiences
    recorded_frames: RecordedFrames
    named_rights: NamedRights
    retained: RetainedFrames
    borders: Borders
    timers: TimerWheel
    sources: ExpectedSources
    records: DeliveryRecords
    questions: dict[bytes, Question] = field(default_factory=dict)
    """Those that were not answered by all neighbours yet, by their numbers."""

    # ------------------------------------------------------------ questions

    def ask_state(self, link: Link, message: AskState, turn: Turn) -> None:
        """Send a subscriber what is known of the state, and ask others if that may not be everything."""
        entry, now = link.subscription(message.ref), turn.now
        if entry.cursor is not None:
            raise BadInput(
                "INPUT-STATE-DURABLE",
                "a durable subscription goes on where it was, and has no use for the state",
            )
        asker = AskingClient(link.id, message.ref, message.id)
        for question in self.questions.values():
            waiting = question.asker
            if isinstance(waiting, AskingClient) and (waiting.link, waiting.ref) == (asker.link, asker.ref):
                question.asker = asker  # repeated, it waits for the same answer: it costs others nothing more
                turn.send(asker.link, StateTold(waiting.request, is_whole=False))
                return
        type_id = entry.right.event_type.type_id
        for said in self._usable(type_id, now, lambda one: self._is_seen(entry, one.frame, now)):
            self._show(entry, said.frame, turn)
        self._ask(asker, self.own.random(_QUESTION_BYTES), type_id, turn)

    def ask_for_own(self, type_id: bytes, turn: Turn) -> None:
        """Ask others for the last publications, for this broker itself: answers pass as frames do."""
        if not any(one.asker is None and one.type_id == type_id for one in self.questions.values()):
            self._ask(None, self.own.random(_QUESTION_BYTES), type_id, turn)

    def receive_state_query(self, link: Link, message: StateQuery, turn: Turn) -> None:
        """Answer a neighbour with what it may have, and ask further on if that may not be everything."""
        question, type_id = message.question, message.type_id
        if question in self.questions:
            turn.send(link.id, StateDone(question, is_whole=True))  # it came round in a circle
            return
        for last in self._usable(type_id, turn.now):
            # Those behind it may see different frames of a stream: the last that is wanted, and some before.
            for said in [last] if self.types.holds_topics(type_id) else self.retained.line(last.frame):
                for data in self._for_neighbour(link.id, said, turn):
                    turn.send(link.id, StateFrame(question, data))
        self._ask(link.id, question, type_id, turn)

    def _ask(self, asker: AskingClient | LinkId | None, number: bytes, type_id: bytes, turn: Turn) -> None:
        """Ask all neighbours behind which a publisher may be, unless the answer is known."""
        now = turn.now
        question = Question(number, type_id, asker, set(), seconds_after(now, _ANSWERED_WITHIN_S))
        # What this broker asks for itself it lacks, whatever it believes to have.
        if asker is not None and self.retained.is_complete(type_id, now):
            _answer(question, turn)
            return
        # A question names the type, and a broker on the way keeps the last frame of a stream, cover or not.
        if len(self.questions) >= _QUESTIONS_MAX or self.blinded.is_blinded(type_id):
            question.is_whole = False
            _answer(question, turn)
            return
        flooding = self.router.flooding if isinstance(asker, AskingClient) else None
        wait_s = 0.0 if flooding is None else flooding.question_wait_s
        if wait_s:
            question.ask_at, question.until = (
                seconds_after(now, wait_s),
                seconds_after(question.until, wait_s),
            )
        self.questions[number] = question
        if not wait_s:
            self._ask_neighbours(question, turn)
        due = asker.link if isinstance(asker, AskingClient) else asker
        if due is not None and number in self.questions:
            self.timers.add(StateQueries(due), question.ask_at or question.until)
            self.timers.add(StateQueries(due), question.until)

    def _ask_neighbours(self, question: Question, turn: Turn) -> None:
        question.ask_at = None
        question.waits_for = set(self._towards_publishers(question.type_id, besides=question.asker))
        if not question.waits_for:
            self._finish(question, turn)
            return
        query = encode(StateQuery(question.id, question.type_id))
        for link in sorted(question.waits_for):
            turn.send_bytes(link, query)

    def _towards_publishers(
        self, type_id: bytes, *, besides: AskingClient | LinkId | None
    ) -> Iterator[LinkId]:
        return (link for link in self.router.towards_publishers(book_keys(type_id)) if link != besides)

    # ------------------------------------------------------------ answers

    def pass_on_state_frame(self, link: Link, message: StateFrame, turn: Turn) -> None:
        """Pass an answer on to its asker, as far as it may have it; one without an asker goes nowhere."""
        question, now = self.questions.get(message.question), turn.now
        if question is None or link.id not in question.waits_for:
            return
        try:
            frame = self._frame_of(question, message, link, turn)
        except (PlainOfSealed, SealedTooWeakly, TransitKindMismatch, BrokenCredential) as problem:
            turn.count("maia_frames_refused_total", code=problem.code)
            return
        plain, sealed = book_keys(frame.type_id)
        if not self.router.expects(link, sealed if isinstance(frame, Sealed) else plain, now):
            # It was asked because it offers the type in the other form, for which it needed no proof here.
            self.sources.refuse_unasked(link, turn, said="StateFrame")
            return
        said = RetainedFrame(frame, now, self.routes.node_of[link.id])
        # Of topics there are several last events on one stream; only their publisher's broker knows which.
        is_retained = not frame.kept and not self.types.holds_topics(frame.type_id)
        if is_retained:
            self.retained.remember([said])
        newer = self.retained.line(frame) if is_retained else []
        newer = [one for one in newer if one.frame.sequence > frame.sequence]
        match question.asker:
            case AskingClient(link=number, ref=ref):
                holder = self.links.get(number)
                entry = None if holder is None else holder.subscriptions.get(ref)
                if entry is not None and not any(self._is_seen(entry, one.frame, now) for one in newer):
                    self._show_in_answer(question, entry, frame, turn)
            case None:
                pass
            case neighbour:
                for data in self._for_neighbour(neighbour, said, turn, link.id):
                    turn.send(neighbour, StateFrame(question.id, data))

    def _show_in_answer(
        self, question: Question, entry: Subscription, frame: Transit | Sealed, turn: Turn
    ) -> None:
        """Deliver a frame of an answer, unless a later one of its stream was in it; of topics, all."""
        publisher = frame.publisher if isinstance(frame, Sealed) else frame.publisher.key
        stream = publisher, frame.stream
        is_earlier = frame.sequence < question.shown.get(stream, 0)
        if is_earlier and not self.types.holds_topics(frame.type_id):
            return
        if self._is_seen(entry, frame, turn.now):
            question.shown[stream] = frame.sequence
            self._show(entry, frame, turn)

    def receive_state_done(self, link: Link, message: StateDone, turn: Turn) -> None:
        """Take note that a neighbour has sent all it knows."""
        question = self.questions.get(message.question)
        if question is not None and link.id in question.waits_for:
            self._one_less(question, link.id, turn, is_whole=message.is_whole)

    def overdue(self, turn: Turn) -> None:
        """Give up on those who have not answered in time, and ask what had to wait for its interest."""
        now = turn.now
        late = [one for one in self.questions.values() if one.until <= now]
        due = [
            one for one in self.questions.values() if one.ask_at is not None and one.ask_at <= now < one.until
        ]
        for question in due:
            self._ask_neighbours(question, turn)
        for question in late:
            question.is_whole = False
            self._finish(question, turn)

    def link_gone(self, link: LinkId, turn: Turn) -> None:
        """Expect no answer from a link that is gone, and answer nothing to it."""
        for question in list(self.questions.values()):
            asker = question.asker
            if (asker.link if isinstance(asker, AskingClient) else asker) == link:
                del self.questions[question.id]
            elif link in question.waits_for:
                self._one_less(question, link, turn, is_whole=False)

    def _one_less(self, question: Question, link: LinkId, turn: Turn, *, is_whole: bool) -> None:
        question.waits_for.discard(link)
        question.is_whole = question.is_whole and is_whole
        if not question.waits_for:
            self._finish(question, turn)

    def _finish(self, question: Question, turn: Turn) -> None:
        self.questions.pop(question.id, None)
        audience = self.audiences.get(question.type_id)
        classes = [] if audience is None else list(audience.classes.values())[:_CLASSES_LOOKED_AT]
        # With a subscriber here that wants everything of the type, all of it passes here.
        is_whole = question.is_whole and not self.types.holds_topics(question.type_id)
        is_for_all = audience is not None and not audience.is_mixed
        if is_whole and is_for_all and any(one.routed == ALWAYS for one in classes):
            self.retained.complete(question.type_id, seconds_after(turn.now, self.own.settings.lease_s))
        _answer(question, turn)

    # ------------------------------------------------------------ who may have what

    def _usable(self, type_id: bytes, now: Instant, shows: Shows = lambda _said: True) -> list[RetainedFrame]:
        """Return what may be sent: of publishers that may still publish, and of others while it is complete.

        Of each stream it is the last frame that `shows` something.
        """
        usable: list[RetainedFrame] = []
        is_complete = self.retained.is_complete(type_id, now)
        for publisher, stream, said in self.retained.of_type(type_id, shows):
            if said.right is None:
                if is_complete:
                    usable.append(said)
                continue
            try:
                for right in said.rights:
                    self.authoriser.still(right, now)
            except PolicyRefusal:
                self.retained.forget(type_id, publisher, stream)
            else:
                usable.append(said)
        return usable

    def _seen(
        self, entry: Subscription, frame: Transit | Sealed, now: Instant
    ) -> tuple[Transit, Seen] | str | None:
        """Return what one subscriber sees of a frame by its View now, or as a code why it is not read."""
        found: object = Readable(frame) if isinstance(frame, Transit) else None
        if isinstance(frame, Sealed):
            # Whoever signed it must be entitled now: this is the present state, and no record of the past.
            found = self.recorded_frames.read(Logged(0, now, encode_known(frame)))
        if not isinstance(found, Readable):
            return found.code if isinstance(found, MaiaError) else "SIGNER-AWAITED"
        seen = self.records.seen_by(entry, found.transit, found.missing, now)
        is_met = seen is not None and self.records.identities.admits(seen[0].requires, entry.link, now)
        return seen if is_met else None

    def _is_seen(self, entry: Subscription, frame: Transit | Sealed, now: Instant) -> bool:
        return isinstance(self._seen(entry, frame, now), tuple)

    def _show(self, entry: Subscription, frame: Transit | Sealed, turn: Turn) -> None:
        """Deliver a frame to one subscriber, if it sees something of it."""
        found = self._seen(entry, frame, turn.now)
        if found is None:
            return
        if isinstance(found, str):
            turn.count("maia_frames_refused_total", code=found)
            return
        transit, seen = found
        delivery = Deliver([entry.ref], *transit.labels, seen.rows, seen.columns, seen.author)
        try:
            self.records.send_to(entry, transit, seen, delivery, turn)
        except LedgerRequired as problem:
            turn.count("maia_frames_refused_total", code=problem.code)
            return
        turn.count("maia_states_sent_total")

    def _for_neighbour(
        self, link: LinkId, said: RetainedFrame, turn: Turn, came_from: LinkId | None = None
    ) -> list[bytes]:
        """Return a frame as a neighbour may have it: the rows wanted behind it, signed or sealed."""
        frame, router, now = said.frame, self.router, turn.now
        plain, sealed = book_keys(frame.type_id)
        if isinstance(frame, Sealed):
            return [encode_known(frame)] if router.wants(link, sealed) else []
        sealing = self.types.sealing(frame.type_id)
        key = plain if sealing is None else sealed
        found = self.borders.for_neighbour(link, key, frame, came_from=said.came_from)
        try:
            if not found:
                return []
            if sealing is not None:
                return [encode_known(self.seal_alone(frame, sealing, now))]
            if found[0].view is not None and frame.view is None:
                right = right_of(frame) or self._right_of(frame, said, turn)
                made = [self.borders.message(link, one, right, turn) for one in found]
                return [encode_known(one) for one in made if one is not None]
            if frame.signed is not None:  # it is not cut
                self.named_rights.show(link, frame.signed.right, came_from, turn)
                return [encode_known(frame.as_carried())]
            if self.types.is_signed(frame.type_id):
                return self._signed_alone(link, found[0], said, turn)
            return [encode_known(one.as_carried()) for one in found]
        except MaiaError:
            return []  # its keys are gone: what was sealed with them is not for today's readers

    def _right_of(self, frame: Transit, said: RetainedFrame, turn: Turn) -> bytes:
        """Return how a frame of a signed type names its publisher's right; nothing for another type."""
        if not self.types.is_signed(frame.type_id) or said.right is None:
            return b""
        return self.named_rights.naming(frame.type_id, said.right, turn)[0]

    def _signed_alone(self, link: LinkId, frame: Transit, said: RetainedFrame, turn: Turn) -> list[bytes]:
        name = self._right_of(frame, said, turn)
        if not name:
            return []  # it passed before its type was known to be signed
        draft = draft_signed(frame.as_carried(), self.own.principal, right=name, at=turn.now)
        self.named_rights.show(link, name, None, turn)
        return [encode_known(self.seal_alone.seals.sealer.sign([draft])[0])]

    def _frame_of(self, question: Question, message: StateFrame, link: Link, turn: Turn) -> Transit | Sealed:
        frame = decode(message.frame)
        if not isinstance(frame, Carried | Sealed) or frame.type_id != question.type_id:
            raise ProtocolViolation(
                "PROTOCOL-STATE", "a question about the state was answered with something else"
            )
        return self.recorded_frames.check(link.id, frame, turn)


def _answer(question: Question, turn: Turn) -> None:
    match question.asker:
        case AskingClient(link=link, request=request):
            turn.send(link, StateTold(request, question.is_whole))
        case None:
            pass
        case neighbour:
            turn.send(neighbour, StateDone(question.id, question.is_whole))


# ------------------------------------------------------------ when is it forgotten?


@dataclass(slots=True, eq=False, repr=False)
class Retention:
    """What is forgotten of the last frames of publishers, and who is told."""

    authoriser: Authoriser
    routes: Routes
    retained: RetainedFrames

    def move_retained(self, entry: Advertisement) -> None:
        """Keep what a publisher said last under the right that it has now: the one before serves no more."""
        for type_id, stream in _streams(entry):
            self.retained.rest_on(type_id, entry.right.principal.key, stream, entry.right)

    def publisher_lost_its_right(self, entry: Advertisement, turn: Turn) -> None:
        """Forget what a publisher said last, and have others forget it."""
        for type_id, stream in _streams(entry):
            self.forget_stream(type_id, entry.right.principal.key, stream, turn)

    def forget_stream(self, type_id: bytes, publisher: bytes, stream: bytes, turn: Turn) -> None:
        """Forget what was said last on one stream, and have others forget it."""
        self.retained.forget(type_id, publisher, stream)
        self._tell_gone(StateGone(type_id, publisher, stream), turn, besides=None)

    def forget_retained(self, certificates: Collection[bytes], turn: Turn) -> None:
        """Forget what was said by publishers who could say it by one of these certificates alone."""
        changed = frozenset(certificates)
        for type_id, publisher, stream, said in self.retained.under_rights():
            touched = [one for one in said.rights if one.depends_on(changed)]
            try:
                for right in touched:
                    self.authoriser.decide_again(right, turn.now)
            except PolicyRefusal:
                self.forget_stream(type_id, publisher, stream, turn)

    def receive_state_gone(self, link: Link, message: StateGone, turn: Turn) -> None:
        """Forget what a publisher said last, if that came the same way, and have others forget it."""
        node = self.routes.node_of[link.id]
        if self.retained.forget(message.type_id, message.publisher, message.stream, node):
            self._tell_gone(message, turn, besides=link.id)

    def _tell_gone(self, message: StateGone, turn: Turn, *, besides: LinkId | None) -> None:
        data, book = encode(message), self.routes.book
        keys = book_keys(message.type_id)
        hops = dict.fromkeys(hop for key in keys for hop in book.hops(key) if book.wanted(hop, key))
        for link in dict.fromkeys(self.routes.link_to(hop) for hop in hops):
            if link is not None and link != besides:
                turn.send_bytes(link, data)


def _streams(entry: Advertisement) -> list[tuple[bytes, bytes]]:
    """Return under which types and streams a publisher's frames are remembered."""
    above = [(one.type_id, one.stream) for one in entry.projections]
    return [(entry.right.event_type.type_id, entry.stream), *above]
