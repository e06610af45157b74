"""Which stages do the frames of a stream go through, and who brings them here?

This is the one place that knows which feature is which stage. `Streams` compiles a stream for its first frame
and keeps it with the advertisement or link that it is of. It is compiled anew when its right, the versions
of its type, its publisher's statement or the ids of a blinded type have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from maia.broker.publication.delivery import ledger_for
from maia.broker.publication.expected_sources import is_known_type, refuse_unasked
from maia.broker.publication.projection import consents_hold
from maia.broker.publication.transit import Transit
from maia.broker.revocation.streams import receive_frame
from maia.broker.sealed.publisher_rights import may_publish
from maia.broker.sealed.shares import share_of
from maia.broker.sessions.links import Advertisement, Link, Projection
from maia.broker.streams.neighbour import (
    Open,
    Wait,
    asked_for,
    checking_author,
    proving,
    reading_carried,
    refuse_plain,
    too_weak,
)
from maia.broker.streams.publisher import (
    LOST,
    answered,
    answering,
    attaching,
    numbering,
    projecting,
    rating,
    reading,
    retaining,
    retaining_passing,
    retaining_topics,
    shaping,
    take_or_lose,
)
from maia.broker.streams.run import END, Apart, Run, Stage, Stream, new_to, take, unseen_by
from maia.broker.streams.sealing import (
    ForwardSealed,
    Sealer,
    SealKeys,
    Share,
    SignTogether,
    awaiting_keys,
    enclosing,
    matched_under_cover,
)
from maia.broker.streams.sending import (
    Deliveries,
    counting_arrivals,
    forwarding,
    hearing,
    on_mesh,
    recording,
    recording_arrived,
)
from maia.broker.subscriptions.registry import project_again, recheck_entry
from maia.broker.turn import Turn
from maia.events import Instant
from maia.routing.table.hops import book_key_of_sealed
from maia.types import Sealing
from maia.wire.messages import (
    Carried,
    OpenContent,
    Publish,
    Sealed,
    SealedWithPlaintext,
)

if TYPE_CHECKING:
    from maia.broker.state import BrokerState

_STREAMS_MAX: Final = 1024
"""Of how many types and messages of one neighbour what they go through is remembered (A89)."""


class Streams:
    """The streams of one broker."""

    __slots__ = ("_deliveries", "_look_at_seen", "_remember", "_state", "_wait", "signing")

    def __init__(self, state: BrokerState) -> None:
        """Compile from the parts of a broker; each stage is handed what it needs."""
        self._state, routes = state, state.routes
        self.signing = SignTogether(state.seals, state.blinded)
        self._wait = Wait(state.seals, state.keys, state.writers, self._changed)
        self._look_at_seen, self._remember = new_to(routes.seen)
        ledger = partial(ledger_for, state)
        self._deliveries = Deliveries(
            state.audiences,
            routes.order,
            ledger,
            state.links,
            state.identities,
            state.attached,
            state.delivered,
        )

    # ------------------------------------------------------------ entries

    def publish(self, link: Link, messages: Sequence[Publish], data: Sequence[bytes], turn: Turn) -> None:
        """Take a publisher's frames on, as far as its right goes at this moment."""
        state, first = self._state, messages[0]
        entry = link.advertisement(first.ref)
        if not state.authoriser.holds(entry.right, turn.now):
            if len(messages) > 1:
                raise Apart
            # What is left of the right, if anything, decides about the frame.
            recheck_entry(state, link, entry, turn)
            found = link.advertisements.get(first.ref)
            if found is None:
                return
            entry = found
        is_bare = first.is_bare
        stream = entry.streams.get(is_bare)
        version = self._version()
        if stream is None or stream.version != version:
            stream = self._of_publisher(link, entry, version, is_bare=is_bare)
            entry.streams[is_bare] = stream
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
        version = self._version()
        if stream is None or stream.version != version:
            if len(link.streams) >= _STREAMS_MAX:
                link.streams.clear()
            if kind is Sealed:
                stream = self._of_sealed(link, name, version)[0]
            else:
                stream = self._of_carried(link, name, kind, version)
            link.streams[kind, name] = stream
        run = Run(link, messages, data)
        run.contents = contents
        take(stream, run, turn)

    def publish_one(self, link: Link, message: Publish, turn: Turn) -> None:
        """Take on a publisher's frame that comes alone, or that waited."""
        self.publish(link, (message,), (), turn)

    def carry_one(
        self, link: Link, message: Carried | Sealed | SealedWithPlaintext, turn: Turn, data: bytes = b""
    ) -> None:
        """Take on a neighbour's frame that comes alone; `data` is how it came."""
        if isinstance(message, SealedWithPlaintext):
            self.carry(link, (message.frame,), (), turn, message.contents)
        else:
            self.carry(link, (message,), (data,) if data else (), turn)

    def resume(self, run: Run, turn: Turn, *, is_overdue: bool = False) -> None:
        """Take a neighbour's frame on again that waited; one that waited in vain is passed on unread."""
        stream, opening = self._of_sealed(run.link, run.sealed[0].type_id, 0)
        take(Stream((opening.unread if is_overdue else opening.again,), stream.sends), run, turn)

    def _version(self) -> int:
        """Return a number that grows with each change that streams were compiled from.

        Rights, and what a publisher shows, are not among them: with those, its streams are dropped.
        """
        state = self._state
        return state.types.generation + state.blinded.generation + state.statements.generation

    # ------------------------------------------------------------ publishers

    def _of_publisher(self, link: Link, entry: Advertisement, version: int, *, is_bare: bool) -> Stream:
        state, right, shaper = self._state, entry.right, entry.shaper
        type_id = right.event_type.type_id
        sealing = state.types.sealing(type_id)
        answer = answering(link, entry, state.recording)
        look_at_number, note_number = numbering(entry, answer)
        looks: list[Stage] = []
        if sealing is not None:
            looks.append(self._awaiting_keys(type_id, sealing))
        looks += [reading(entry, link, state.settings.limits.rows_per_frame), look_at_number]
        if not shaper.is_open or shaper.root is not None:
            looks.append(shaping(shaper, answer))
        if right.terms.is_rated:
            looks.append(rating(state.authoriser, right, answer))
        if link.statement or entry.requires or not is_bare:
            looks.append(attaching(link, entry))
        if sealing is not None:
            looks.append(self._seal_keys(type_id, sealing).stage(answer))
        looks.append(self._look_at_seen)
        later = [self._retaining(type_id, entry)]
        if entry.projections:
            later.append(projecting(link, entry, self._above, self._consenting))
        later.append(answered(answer))
        return Stream(tuple(looks), (note_number, *self._sends(type_id, sealing)), tuple(later), version)

    def _sends(self, type_id: bytes, sealing: Sealing | None) -> tuple[Stage, ...]:
        """Return what subscribers and neighbours get of what is published here."""
        state, log, deliver = self._state, self._state.recording, self._deliveries.of(type_id)
        if sealing is None:
            forward, _ = forwarding(type_id, None, state.routes, state.router)
            is_recorded = log is not None and log.records(type_id)
            given = (recording(log), deliver) if log is not None and is_recorded else (deliver,)
            if type_id in state.statements.streams:
                return self._remember, forward, self._hearing(given)
            return (self._remember, *given, forward)
        if not sealing.blinded:
            return self._remember, deliver, self._forward_own(type_id, sealing).stage
        enclose, send = self._enclosing(sealing)
        return self._remember, enclose, self._deliveries.of(type_id), send

    def _forward_own(self, name: bytes, sealing: Sealing) -> ForwardSealed:
        """Return how frames leave that are sealed here, under a name."""
        state, log = self._state, self._state.recording
        type_id = state.blinded.type_of(name)
        is_recorded = log is not None and log.records(type_id)
        match = partial(matched_under_cover, sealing, state.types.kinds(type_id)) if sealing.blinded else None
        return ForwardSealed(
            book_key_of_sealed(name),
            None,
            state.router,
            self.signing,
            sealer=Sealer(state.seals, sealing.level, is_shared=state.settings.share_plaintext),
            share=self._share(name, sealing),
            log=log if is_recorded else None,
            match=match,
        )

    def _enclosing(self, sealing: Sealing) -> tuple[Stage, Stage]:
        state = self._state
        forward = partial(self._forward_own, sealing=sealing)
        return enclosing(sealing, state.blinded, state.cover, state.principal, state.routes.seen, forward)

    def send_cover(self, type_id: bytes, sealing: Sealing, turn: Turn) -> None:
        """Send a frame without an event: the same as one with an event to whoever cannot open it."""
        state, by, now = self._state, self._state.principal, turn.now
        name = state.blinded.publishing_id(type_id, now)
        keys = None if name is None else state.seals.sealing_keys(name, now, now)
        if keys is not None:
            whole = state.blinded.enclose(None, keys.type_id, by=by, cover=sealing.cover, now=now)
            self._enclosing(sealing)[1](Run.of_cover(whole, keys, by.key), turn)

    def sealed_alone(self, transit: Transit, sealing: Sealing, now: Instant) -> Sealed:
        """Return a publisher's frame sealed and signed by itself, for a neighbour that asks for it."""
        state = self._state
        keys = self._seal_keys(transit.type_id, sealing).of(transit, transit.columns(), now)
        sealer = Sealer(state.seals, sealing.level, is_shared=state.settings.share_plaintext)
        return state.seals.sealer.sign([sealer.answering(transit, keys)])[0]

    def _awaiting_keys(self, type_id: bytes, sealing: Sealing) -> Stage:
        state, lack = self._state, self._state.impairments.key_lack
        return awaiting_keys(type_id, sealing, state.seals, state.cover, lack=lack, changed=self._changed)

    def _seal_keys(self, type_id: bytes, sealing: Sealing) -> SealKeys:
        state = self._state
        return SealKeys(type_id, sealing, state.seals, state.blinded, state.keys)

    def _changed(self) -> None:
        self._state.routes.is_changed = True

    def _retaining(self, type_id: bytes, entry: Advertisement, projection: Projection | None = None) -> Stage:
        retained, consents = self._state.retained, () if projection is None else projection.consents
        if self._state.types.holds_topics(type_id):
            return retaining_topics(retained, entry.right)
        return retaining(retained, entry.right, consents)

    # ------------------------------------------------------------ super-types

    def _consenting(self, link: Link, entry: Advertisement, turn: Turn) -> Advertisement:
        """Return an advertisement with those super-types to which there is consent at this moment."""
        state = self._state
        if consents_hold(state, entry, turn.now):
            return entry
        project_again(state, link, entry, turn)
        return link.advertisement(entry.ref)

    def _above(self, _link: Link, entry: Advertisement, projection: Projection) -> Stream:
        """Compile what frames go through that are published as a super-type."""
        type_id = projection.type_id
        sealing = self._state.types.sealing(type_id)
        retain, sends = self._retaining(type_id, entry, projection), self._sends(type_id, sealing)
        if sealing is None:
            return Stream((self._look_at_seen,), (retain, *sends))
        sealed = (self._seal_keys(type_id, sealing).stage(), *sends)
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
        lack = state.impairments.dial_or_lack(type_id, turn)
        size = 256 + sum(len(column.data) for column in run.columns[0])
        held = run.link.id, ref, run, then
        if lack is None and waiting.put(type_id, stream, held, size=size, until=waiting.until(now)):
            self._changed()
        else:
            turn.count(LOST)
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
            is_projected = any(one.stream == run.whole.stream for one in entry.projections)
            if is_projected and consents_hold(state, entry, now):
                take_or_lose(Stream((), then), run, turn)

    # ------------------------------------------------------------ neighbours

    def _of_carried(self, link: Link, type_id: bytes, kind: type, version: int) -> Stream:
        state, routes = self._state, self._state.routes
        if state.types.sealing(type_id) is not None:
            return Stream((refuse_plain,), (), (), version)
        looks = [
            reading_carried(type_id, state.types.kinds(type_id)),
            self._asked_for(link, type_id, type_id),
        ]
        if kind is not Carried:
            looks.append(checking_author(partial(self._is_read, type_id)))
        looks.append(self._look_at_seen)
        given = [self._deliveries.of(type_id)]
        if state.catch_up is not None and state.catch_up.records(type_id):
            given.insert(0, recording_arrived(state.catch_up.record_arrived, is_sealed=False))
        forward, send = forwarding(type_id, link.id, routes, state.router)
        remember, onward = self._remember, forward
        if state.router.flooding is not None:
            remember, onward = on_mesh(remember, send, self._carries_again)
        sends = [*self._retaining_passing(link, type_id), remember]
        if type_id in state.statements.streams:
            sends += [onward, self._hearing(given)]
        else:
            sends += [*given, onward, counting_arrivals(link.id, type_id, routes.spill)]
        return Stream(tuple(looks), tuple(sends), (), version)

    def _of_sealed(self, link: Link, name: bytes, version: int) -> tuple[Stream, Open]:
        """Compile what sealed frames under a name go through, and return what opens them."""
        state, routes = self._state, self._state.routes
        type_id, key, is_blinded = (
            state.blinded.type_of(name),
            book_key_of_sealed(name),
            state.blinded.is_id(name),
        )
        sealing, kinds = state.types.sealing(type_id), state.types.kinds(type_id)
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
            wait=self._wait,
        )
        looks = (
            too_weak(type_id, sealing),
            self._asked_for(link, name, key),
            proving(state.seals.checks, routes.seen, self._frame_carries_again),
            opening.take,
            self._look_at_seen,
        )
        match = partial(matched_under_cover, sealing, kinds) if is_blinded and sealing is not None else None
        share = None if sealing is None else self._share(name, sealing)
        forward = ForwardSealed(key, link.id, state.router, self.signing, share=share, match=match)
        remember: Stage = self._remember
        onward: Stage = forward.stage
        if state.router.flooding is not None:
            remember, onward = on_mesh(remember, forward.send, self._carries_again)
        if is_blinded:
            given: tuple[Stage, ...] = (partial(self._give_inner, self._deliveries.of(type_id)),)
        else:
            given = (*self._retaining_passing(link, type_id), self._deliveries.of(type_id))
            if state.catch_up is not None and state.catch_up.records(name):
                given = (recording_arrived(state.catch_up.record_arrived, is_sealed=True), *given)
        return Stream(looks, (remember, *given, onward), (), version), opening

    def _give_inner(self, deliver: Stage, run: Run, turn: Turn) -> None:
        """Take the publication out of a blinded frame; cover is neither delivered, recorded nor counted.

        Its publisher may have sent it through another broker before, in another envelope.
        """
        state, inner, frame = self._state, run.inner, run.sealed[0]
        if inner is None or inner.type_id not in state.audiences:
            return
        run.inner = unseen_by(state.routes.seen, inner)
        if run.inner is None:
            turn.count("maia_duplicates_total")
            return
        if state.recording is not None:
            state.recording.record(state.blinded.unblind(frame, inner), turn)
        deliver(run, turn)

    def _retaining_passing(self, link: Link, type_id: bytes) -> tuple[Stage, ...]:
        state, node = self._state, self._state.routes.node_of.get(link.id)
        is_retained = node is not None and not state.types.holds_topics(type_id)
        return (retaining_passing(state.retained, node),) if is_retained else ()

    def _asked_for(self, link: Link, name: bytes, key: bytes) -> Stage:
        state = self._state
        return asked_for(
            link, key, state.router, partial(is_known_type, state, name), partial(refuse_unasked, state)
        )

    def _share(self, name: bytes, sealing: Sealing) -> Share | None:
        """Return what says which plaintext a neighbour may read anyway; None where none goes along."""
        state = self._state
        if not state.settings.share_plaintext:
            return None
        return lambda link, now: share_of(state, state.links[link], name, sealing, now)

    def _carries_again(self, run: Run) -> bool:
        flooding = self._state.router.flooding
        return flooding is not None and flooding.carries_again(*run.whole.identity, run.signer)

    def _frame_carries_again(self, frame: Sealed) -> bool:
        flooding, about = self._state.router.flooding, (frame.publisher, frame.stream, frame.sequence)
        return flooding is not None and flooding.carries_again(*about, frame.signer)

    def _is_read(self, type_id: bytes) -> bool:
        state = self._state
        return type_id in state.audiences or (
            state.recording is not None and state.recording.records(type_id)
        )

    def _hearing(self, given: Sequence[Stage]) -> Stage:
        state = self._state

        def receive(whole: Transit, turn: Turn) -> None:
            if whole.type_id in state.statements.streams:
                receive_frame(state, whole, turn)

        return hearing(given, receive)


def _one_by_one(run: Run, _turn: Turn) -> None:
    if run.count > 1:
        raise Apart
