"""Which stages do the frames of a stream go through, and who brings them here?

This is the one place that knows which feature is which stage. `Streams` compiles a stream for its first frame
and keeps it with the advertisement or link that it is of. It is compiled anew when its right, the versions
of its type, its publisher's statement or the ids of a blinded type have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from maia.broker.access.impairment import dial_or_lack, key_lack
from maia.broker.durable.catch_up import record_arrived
from maia.broker.publication.delivery import ledger_for
from maia.broker.publication.expected_sources import is_known_type, refuse_unasked
from maia.broker.publication.projection import consents_hold
from maia.broker.publication.transit import Transit
from maia.broker.revocation.streams import receive_frame
from maia.broker.sealed.publisher_rights import may_publish
from maia.broker.sealed.shares import share_of
from maia.broker.sessions.links import Advertisement, Link, Projection
from maia.broker.streams.neighbour import Asked, Open, Prove, ReadCarried, Signed, Wait, refuse_plain
from maia.broker.streams.publisher import (
    Answer,
    Attach,
    Numbers,
    Project,
    Rate,
    Read,
    Retain,
    RetainPassing,
    RetainTopics,
    Shape,
)
from maia.broker.streams.run import END, Apart, Run, Stage, Stream, Turn, Unseen, take, unseen_by
from maia.broker.streams.sealing import (
    AwaitKeys,
    Enclose,
    ForwardSealed,
    Sealer,
    SealKeys,
    SignTogether,
    matched_under_cover,
)
from maia.broker.streams.sending import (
    AgainOnMesh,
    Arrival,
    Deliver,
    Forward,
    Record,
    RecordArrived,
    Statements,
)
from maia.broker.subscriptions.registry import project_again, recheck_entry
from maia.errors import MaiaError
from maia.events import Instant
from maia.routing.table.hops import book_key_of_sealed
from maia.types import Sealing
from maia.wire.effects import Count, Effect, LinkId
from maia.wire.messages import (
    Carried,
    CarriedWithAuthor,
    OpenContent,
    Publish,
    PublishSigned,
    PublishTo,
    Sealed,
    SealedWithAuthor,
    SealedWithPlaintext,
)

if TYPE_CHECKING:
    from maia.broker.state import BrokerState

PUBLISHED: Final = frozenset({Publish, PublishTo, PublishSigned})
CARRIED: Final = frozenset({Carried, CarriedWithAuthor, Sealed, SealedWithAuthor})
_STREAMS_MAX: Final = 4096
_LOST: Final = Count("maia_projections_lost_total")


class Streams:
    """The streams of one broker."""

    __slots__ = ("_state", "signing")

    def __init__(self, state: BrokerState) -> None:
        """Compile from the parts of a broker; each stage is handed what it needs."""
        self._state = state
        self.signing = SignTogether(state.seals, state.blinded)

    def turn(self, now: Instant) -> Turn:
        """Begin a turn."""
        return Turn(now, self._state.rest)

    # ------------------------------------------------------------ entries

    def publish(self, link: Link, messages: Sequence[Publish], data: Sequence[bytes], turn: Turn) -> None:
        """Take a publisher's frames on, as far as its right goes at this moment."""
        state, first = self._state, messages[0]
        entry = link.advertisement(first.ref)
        if not state.authoriser.holds(entry.right, turn.now):
            if len(messages) > 1:
                raise Apart
            # What is left of the right, if anything, decides about the frame.
            turn.effects += recheck_entry(state, link, entry, turn.now)
            found = link.advertisements.get(first.ref)
            if found is None:
                return
            entry = found
        kind = type(first)
        stream = entry.streams.get(kind)
        type_id = entry.right.event_type.type_id
        made_from = self._made_from(type_id, link)
        if stream is None or stream.made_from != made_from:
            stream = entry.streams[kind] = self._of_publisher(link, entry, kind, made_from)
        take(stream, Run(link, messages, data), turn)

    def carry(
        self,
        link: Link,
        messages: Sequence[Carried | Sealed],
        data: Sequence[bytes],
        turn: Turn,
        contents: Sequence[OpenContent] = (),
    ) -> None:
        """Take a neighbour's frames to all that may have a part of them; `contents` came along."""
        first = messages[0]
        kind = Sealed if isinstance(first, Sealed) else type(first)
        stream, name = link.streams.get((kind, first.type_id)), first.type_id
        made_from = self._made_from(name, link)
        if stream is None or stream.made_from != made_from:
            if len(link.streams) >= _STREAMS_MAX:
                link.streams.clear()
            if kind is Sealed:
                stream = self._of_sealed(link, name, made_from)[0]
            else:
                stream = self._of_carried(link, name, kind, made_from)
            link.streams[kind, name] = stream
        run = Run(link, messages, data)
        run.contents = contents
        take(stream, run, turn)

    def resume(self, run: Run, turn: Turn, *, is_overdue: bool = False) -> None:
        """Take a neighbour's frame on again that waited; one that waited in vain is passed on unread."""
        name = run.sealed[0].type_id
        stream, opening = self._of_sealed(run.link, name, None)
        take(Stream((opening.unread if is_overdue else opening.again,), stream.sends), run, turn)

    def _made_from(self, type_id: bytes, link: Link) -> object:
        state = self._state
        is_of_statements = type_id in state.statements.streams
        return state.types.generation, state.blinded.generation, is_of_statements, link.statement

    # ------------------------------------------------------------ publishers

    def _of_publisher(self, link: Link, entry: Advertisement, kind: type, made_from: object) -> Stream:
        state, right, shaper = self._state, entry.right, entry.shaper
        type_id = right.event_type.type_id
        sealing = state.types.sealing(type_id)
        answer = Answer(link, entry, state.recording)
        numbers, unseen = Numbers(entry, answer), Unseen(state.routes.seen)
        looks: list[Stage] = []
        if sealing is not None:
            looks.append(self._await_keys(type_id, sealing).take)
        looks += [Read(entry, link, state.settings.limits.rows_per_frame).take, numbers.look]
        if not shaper.is_open or shaper.root is not None:
            looks.append(Shape(shaper, answer).take)
        if right.terms.is_rated:
            looks.append(Rate(state.authoriser, right, answer).take)
        if link.statement or entry.requires or kind is not Publish:
            looks.append(Attach(link, entry).take)
        if sealing is not None:
            looks.append(self._seal_keys(type_id, sealing, answer).take)
        looks.append(unseen.look)
        later: list[Stage] = [self._retain(type_id, entry)]
        if entry.projections:
            later.append(Project(link, entry, self._above, self._consenting).take)
        later.append(answer.take)
        sends = (numbers.take, *self._sends(type_id, sealing, link))
        return Stream(tuple(looks), sends, tuple(later), made_from)

    def _sends(self, type_id: bytes, sealing: Sealing | None, link: Link) -> tuple[Stage, ...]:
        """Return what subscribers and neighbours get of what is published here."""
        state, unseen = self._state, Unseen(self._state.routes.seen)
        deliver, log = self._deliver(type_id), state.recording
        is_recorded = log is not None and log.records(type_id)
        if sealing is None:
            forward = Forward(type_id, None, state.routes, state.router)
            given = (*((Record(log).take,) if log is not None and is_recorded else ()), deliver.take)
            if type_id in state.statements.streams:
                return unseen.take, forward.take, self._statements(given).take
            return (unseen.take, *given, forward.take)
        if sealing.blinded:
            enclose = self._enclose(type_id, sealing)
            return unseen.take, enclose.take, deliver.inner, enclose.send
        forward_sealed = self._forward_own(type_id, sealing)
        return unseen.take, deliver.take, forward_sealed.take

    def _forward_own(self, name: bytes, sealing: Sealing) -> ForwardSealed:
        """Return how frames leave that are sealed here, under a name."""
        state = self._state
        type_id, log = state.blinded.type_of(name), state.recording
        return ForwardSealed(
            book_key_of_sealed(name),
            None,
            router=state.router,
            signed=self.signing,
            sealer=Sealer(state.seals, sealing.level, is_shared=state.settings.share_plaintext),
            share=self._share(name, sealing),
            log=log if log is not None and log.records(type_id) else None,
            match=partial(matched_under_cover, sealing, state.types.kinds(type_id))
            if sealing.blinded
            else None,
        )

    def _enclose(self, type_id: bytes, sealing: Sealing) -> Enclose:
        state = self._state

        def send(name: bytes, run: Run, whole: Transit, turn: Turn) -> None:
            self._forward_own(name, sealing).send(run, whole, turn)

        seen = state.routes.seen
        return Enclose(type_id, sealing, state.blinded, state.cover, by=state.principal, seen=seen, send=send)

    def send_cover(self, type_id: bytes, sealing: Sealing, turn: Turn) -> None:
        """Send a frame without an event: the same as one with an event to whoever cannot open it."""
        state = self._state
        name = state.blinded.publishing_id(type_id, turn.now)
        keys = None if name is None else state.seals.sealing_keys(name, turn.now, turn.now)
        if keys is None:
            return
        enclosed = state.blinded.enclose(
            None, keys.type_id, by=state.principal, cover=sealing.cover, now=turn.now
        )
        run = Run.of_own(enclosed, keys, state.principal.key)
        self._enclose(type_id, sealing).send(run, turn)

    def sealed_alone(self, transit: Transit, sealing: Sealing, now: Instant) -> Sealed:
        """Return a publisher's frame sealed and signed by itself, for a neighbour that asks for it."""
        state = self._state
        keys = self._seal_keys(transit.type_id, sealing).of(transit, transit.columns(), now)
        sealer = Sealer(state.seals, sealing.level, is_shared=state.settings.share_plaintext)
        return state.seals.sealer.sign([sealer.answering(transit, keys)])[0]

    def _await_keys(self, type_id: bytes, sealing: Sealing) -> AwaitKeys:
        state = self._state
        lack = partial(key_lack, state)
        return AwaitKeys(type_id, sealing, state.seals, state.cover, lack=lack, changed=self._changed)

    def _seal_keys(self, type_id: bytes, sealing: Sealing, answer: Answer | None = None) -> SealKeys:
        state = self._state
        return SealKeys(type_id, sealing, state.seals, state.blinded, state.keys, answer)

    def _changed(self) -> None:
        self._state.routes.is_changed = True

    def _retain(self, type_id: bytes, entry: Advertisement, projection: Projection | None = None) -> Stage:
        state = self._state
        if state.types.holds_topics(type_id):
            return RetainTopics(state.retained, entry.right).take
        return Retain(state.retained, entry.right, () if projection is None else projection.consents).take

    # ------------------------------------------------------------ super-types

    def _consenting(self, link: Link, entry: Advertisement, turn: Turn) -> Advertisement:
        """Return an advertisement with those super-types to which there is consent at this moment."""
        state = self._state
        if consents_hold(state, entry, turn.now):
            return entry
        turn.effects += project_again(state, link, entry, turn.now)
        return link.advertisement(entry.ref)

    def _above(self, link: Link, entry: Advertisement, projection: Projection) -> Stream:
        """Compile what frames go through that are published as a super-type."""
        state, type_id = self._state, projection.type_id
        sealing = state.types.sealing(type_id)
        retain = self._retain(type_id, entry, projection)
        if sealing is None:
            return Stream((Unseen(state.routes.seen).look,), (retain, *self._sends(type_id, None, link)))
        sealed = (self._seal_keys(type_id, sealing).take, *self._sends(type_id, sealing, link))
        waits = partial(self._wait_above, entry.ref, type_id, sealed)
        return Stream((_one_by_one,), (retain, waits, *sealed))

    def _wait_above(
        self, ref: int, type_id: bytes, then: tuple[Stage, ...], run: Run, turn: Turn
    ) -> int | None:
        """Let a frame wait for the keys of a super-type, if it has to."""
        state, now = self._state, turn.now
        waiting, stream = state.seals.projecting, (run.link.id, ref)
        if state.seals.has_begun(type_id, now) and not waiting.holds(type_id, stream):
            return None
        effects, lack = dial_or_lack(state, type_id, now)
        turn.effects += effects
        size = 256 + sum(len(column.data) for column in run.columns[0])
        held = run.link.id, ref, run, then
        if lack is None and waiting.put(type_id, stream, held, size=size, until=waiting.until(now)):
            self._changed()
        else:
            turn.effects.append(_LOST)
        return END

    def publish_waiting(self, type_id: bytes, turn: Turn) -> None:
        """Publish as a super-type what waited for its keys, if its publisher still may."""
        state, now = self._state, turn.now
        if not state.seals.has_begun(type_id, now):
            return
        for number, ref, run, then in state.seals.projecting.take(type_id):
            link = state.links.get(number)
            entry = None if link is None else link.advertisements.get(ref)
            if entry is None or not state.authoriser.holds(entry.right, now):
                continue
            if not any(one.stream == run.whole.stream for one in entry.projections):
                continue
            if consents_hold(state, entry, now):
                try:
                    take(Stream((), then), run, turn)
                except MaiaError as problem:
                    turn.effects.append(_LOST)
                    turn.refuse(problem)

    # ------------------------------------------------------------ neighbours

    def _of_carried(self, link: Link, type_id: bytes, kind: type, made_from: object) -> Stream:
        state, routes = self._state, self._state.routes
        if state.types.sealing(type_id) is not None:
            return Stream((refuse_plain,), (), (), made_from)
        unseen, forward = Unseen(routes.seen), Forward(type_id, link.id, routes, state.router)
        looks: list[Stage] = [ReadCarried(type_id, state.types.kinds(type_id)).take]
        looks.append(self._asked(link, type_id, type_id).take)
        if kind is not Carried:
            looks.append(Signed(type_id, self._is_read).take)
        looks.append(unseen.look)
        sends: list[Stage] = []
        node, log = routes.node_of.get(link.id), state.recording
        if node is not None and not state.types.holds_topics(type_id):
            sends.append(RetainPassing(state.retained, node).take)
        given: list[Stage] = []
        if log is not None and log.records(type_id):
            given.append(RecordArrived(partial(record_arrived, state)).take)
        given.append(self._deliver(type_id).take)
        new, onward = unseen.take, forward.take
        if not state.router.asks_filters_alone:
            again = AgainOnMesh(unseen, forward.send, self._carries_again)
            new, onward = again.take, again.forward
        if type_id in state.statements.streams:
            sends += [new, onward, self._statements(tuple(given)).take]
        else:
            sends += [new, *given, onward, Arrival(link.id, type_id, routes.spill).take]
        return Stream(tuple(looks), tuple(sends), (), made_from)

    def _of_sealed(self, link: Link, name: bytes, made_from: object) -> tuple[Stream, Open]:
        """Compile what sealed frames under a name go through, and return what opens them."""
        state, routes = self._state, self._state.routes
        type_id, key = state.blinded.type_of(name), book_key_of_sealed(name)
        sealing, kinds = state.types.sealing(type_id), state.types.kinds(type_id)
        prove = Prove(type_id, sealing, state.seals, routes.seen, self._frame_carries_again)
        opening = Open(
            name,
            type_id,
            key,
            kinds,
            seals=state.seals,
            blinded=state.blinded,
            book=routes.book,
            audiences=state.audiences,
            judge=partial(may_publish, state),
            wait=Wait(name, type_id, state.seals, state.keys, state.writers, self._changed),
        )
        unseen = Unseen(routes.seen)
        looks = (prove.weak, self._asked(link, name, key).take, prove.take, opening.take, unseen.look)
        is_blinded = state.blinded.is_id(name)
        match = None
        if is_blinded and sealing is not None:
            match = partial(matched_under_cover, sealing, kinds)
        share = None if sealing is None else self._share(name, sealing)
        forward = ForwardSealed(
            key, link.id, router=state.router, signed=self.signing, share=share, match=match
        )
        new, onward = unseen.take, forward.take
        if not state.router.asks_filters_alone:
            again = AgainOnMesh(unseen, forward.send, self._carries_again)
            new, onward = again.take, again.forward
        given: list[Stage] = []
        if is_blinded:
            given.append(partial(self._give_inner, self._deliver(type_id)))
        else:
            node = routes.node_of.get(link.id)
            if node is not None and not state.types.holds_topics(type_id):
                given.append(RetainPassing(state.retained, node).take)
            if state.recording is not None and state.recording.records(name):
                given.append(RecordArrived(partial(record_arrived, state)).sealed)
            given.append(self._deliver(type_id).take)
        return Stream(looks, (new, *given, onward), (), made_from), opening

    def _give_inner(self, deliver: Deliver, run: Run, turn: Turn) -> None:
        """Take the publication out of a blinded frame; cover is neither delivered, recorded nor counted.

        Its publisher may have sent it through another broker before, in another envelope.
        """
        state, inner = self._state, run.inner
        if inner is None or inner.type_id not in state.audiences:
            return
        unseen = unseen_by(state.routes.seen, inner)
        if unseen is None:
            turn.count("maia_duplicates_total")
            return
        run.inner, frame = unseen, run.messages[0]
        if state.recording is not None and isinstance(frame, Sealed):
            turn.effects += state.recording.record(state.blinded.unblind(frame, inner), turn.now)
        deliver.inner(run, turn)

    def _asked(self, link: Link, name: bytes, key: bytes) -> Asked:
        state = self._state

        def refuse(link: Link, turn: Turn, said: str) -> None:
            turn.effects += refuse_unasked(state, link, turn.now, said=said)

        return Asked(link, key, state.router, partial(is_known_type, state, name), refuse)

    def _share(self, name: bytes, sealing: Sealing) -> Callable[[LinkId, Instant], frozenset[str]] | None:
        """Return what says which plaintext a neighbour may read anyway; None where none goes along."""
        state = self._state
        if not state.settings.share_plaintext:
            return None

        def share(link: LinkId, now: Instant) -> frozenset[str]:
            return share_of(state, state.links[link], name, sealing, now)

        return share

    def _carries_again(self, run: Run) -> bool:
        whole = run.whole
        return self._state.router.carries_again(whole.publisher.key, whole.stream, whole.sequence, run.signer)

    def _frame_carries_again(self, frame: Sealed) -> bool:
        return self._state.router.carries_again(frame.publisher, frame.stream, frame.sequence, frame.signer)

    # ------------------------------------------------------------ what all of them share

    def _deliver(self, type_id: bytes) -> Deliver:
        state = self._state
        return Deliver(
            type_id,
            state.audiences,
            state.routes.order,
            partial(ledger_for, state),
            links=state.links,
            identities=state.identities,
            attached=state.attached,
            delivered=state.delivered,
        )

    def _is_read(self, type_id: bytes) -> bool:
        state = self._state
        return type_id in state.audiences or (
            state.recording is not None and state.recording.records(type_id)
        )

    def _statements(self, given: tuple[Stage, ...]) -> Statements:
        state = self._state

        def receive(whole: Transit, now: Instant) -> list[Effect]:
            return receive_frame(state, whole, now) if whole.type_id in state.statements.streams else []

        def hold_back() -> Callable[[], None]:
            kept, state.to_keep = state.to_keep, []

            def let_go() -> None:
                state.to_keep += kept

            return let_go

        return Statements(given, receive, hold_back)


def _one_by_one(run: Run, _turn: Turn) -> None:
    if len(run.numbers) > 1:
        raise Apart


def publish(state: BrokerState, link: Link, message: Publish, now: Instant) -> list[Effect]:
    """Take on a publisher's frame that comes alone, or that waited."""
    turn = state.streams.turn(now)
    state.streams.publish(link, (message,), (), turn)
    return turn.effects


def carry(
    state: BrokerState,
    link: Link,
    message: Carried | Sealed | SealedWithPlaintext,
    now: Instant,
    data: bytes = b"",
) -> list[Effect]:
    """Take on a neighbour's frame that comes alone; `data` is how it came."""
    turn = state.streams.turn(now)
    if isinstance(message, SealedWithPlaintext):
        state.streams.carry(link, (message.frame,), (), turn, message.contents)
    else:
        state.streams.carry(link, (message,), (data,) if data else (), turn)
    return turn.effects
