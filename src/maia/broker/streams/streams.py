"""Which stages do the frames of a stream go through, and who brings them here?

This is the one place that knows which feature is which stage. `Streams` compiles a stream for its first frame
and keeps it with the advertisement or link that it is of. It is compiled anew when its right, the versions
of its type, its publisher's statement or the ids of a blinded type have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.audiences.local_subscribers import Audiences
from maia.broker.interests.expected_sources import ExpectedSources
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.keys.blinded import BlindedIds, CoverSlots
from maia.broker.keys.keys import KeyRequests, SealingKeys
from maia.broker.keys.publisher_rights import PublisherRights
from maia.broker.links.authors import AttachedStatements
from maia.broker.links.links import Advertisement, Link, Projection
from maia.broker.links.projection import Projections
from maia.broker.links.shares import Shares
from maia.broker.links.transit import Transit
from maia.broker.log.recording import Recording
from maia.broker.log.retained import RetainedFrames
from maia.broker.own import Own
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.broker.streams.answers import AnswersGiven
from maia.broker.streams.borders import Borders
from maia.broker.streams.catch_up import CatchUp
from maia.broker.streams.disclosures import DeliveryRecords, DeliveryTally
from maia.broker.streams.neighbour import (
    Open,
    Signers,
    Wait,
    asked_for,
    checking_author,
    is_repeated,
    proving,
    reading_carried,
    refuse_plain,
    refuse_unsigned,
    too_weak,
    verifying,
)
from maia.broker.streams.paths import Paths
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
    SignPlain,
    SignTogether,
    awaiting_keys,
    enclosing,
    matched_under_cover,
)
from maia.broker.streams.sending import (
    Deliveries,
    Send,
    counting_arrivals,
    forwarding,
    hearing,
    in_turn,
    on_mesh,
    recording,
    recording_arrived,
    releasing,
)
from maia.broker.turn import Turn
from maia.routing.table.hops import book_key_of_sealed
from maia.types import Sealing
from maia.wire.effects import LinkId
from maia.wire.messages import (
    Carried,
    CarriedSigned,
    OpenContent,
    Publish,
    Sealed,
    SealedWithPlaintext,
)

_STREAMS_MAX: Final = 1024
"""Of how many types and messages of one neighbour what they go through is remembered (A89)."""


class Publishers(Protocol):
    """Those who decide about advertisements again."""

    def recheck_entry(self, link: Link, entry: Advertisement, turn: Turn, /) -> None:
        """Check whether an advertisement still holds."""

    def project_again(self, link: Link, entry: Advertisement, turn: Turn, /) -> None:
        """Publish an advertisement as those super-types alone to which there is consent now."""


class Listener(Protocol):
    """Who listens to validity streams."""

    def receive_frame(self, transit: Transit, turn: Turn, /) -> None:
        """Hear the statements in a frame."""


@dataclass(slots=True, eq=False, repr=False)
class Streams:
    """The streams of one broker."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    keys: KeyRequests
    blinded: BlindedIds
    cover: CoverSlots
    seals: SealingKeys
    answers_given: AnswersGiven
    writers: PublisherRights
    statements: ValidityTracker
    router: Router
    links: dict[LinkId, Link]
    identities: LinkIdentities
    audiences: Audiences
    recording: Recording | None
    catch_up: CatchUp | None
    retained: RetainedFrames
    attached: AttachedStatements
    impairments: Impairments
    delivered: DeliveryTally
    shares: Shares
    paths: Paths
    signers: Signers
    named_rights: NamedRights
    projections: Projections
    sources: ExpectedSources
    records: DeliveryRecords
    borders: Borders
    entries: Publishers
    revocation: Listener
    signing: SignTogether = field(init=False)
    _wait: Wait = field(init=False)
    _look_at_seen: Stage = field(init=False)
    _remember: Stage = field(init=False)
    _deliveries: Deliveries = field(init=False)

    def __post_init__(self) -> None:
        """Compile from the parts of a broker; each stage is handed what it needs."""
        routes = self.routes
        self.signing = SignTogether(self.seals, self.blinded)
        self._wait = Wait(self.seals, self.keys, self.writers, self._changed)
        self._look_at_seen, self._remember = new_to(routes.seen)
        ledger = self.records.ledger_for
        self._deliveries = Deliveries(
            self.audiences,
            routes.order,
            ledger,
            self.links,
            self.identities,
            self.attached,
            self.delivered,
            paths=self.paths,
        )

    # ------------------------------------------------------------ entries

    def publish(
        self,
        link: Link,
        first: Publish,
        turn: Turn,
        together: Sequence[Publish] = (),
        data: Sequence[bytes] = (),
    ) -> None:
        """Take a publisher's frame on, or the frames that came `together`, as far as its right goes now."""
        entry = link.advertisement(first.ref)
        if not self.authoriser.holds(entry.right, turn.now):
            if together:
                raise Apart
            # What is left of the right, if anything, decides about the frame.
            self.entries.recheck_entry(link, entry, turn)
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
        take(stream, Run(link, together or (first,), data), turn)

    def carry(
        self,
        link: Link,
        message: Carried | Sealed | SealedWithPlaintext,
        turn: Turn,
        together: Sequence[Carried | Sealed] = (),
        data: Sequence[bytes] = (),
    ) -> None:
        """Take a neighbour's frame to all that may have a part of it, or those that came `together`."""
        first: Carried | Sealed
        contents: Sequence[OpenContent] = ()
        if isinstance(message, SealedWithPlaintext):
            first, contents, data = message.frame, message.contents, ()
        else:
            first = message
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
        run = Run(link, together or (first,), data)
        run.contents = contents
        take(stream, run, turn)

    def resume(self, run: Run, turn: Turn, *, is_overdue: bool = False) -> None:
        """Take a neighbour's frame on again that waited; one that waited in vain is passed on unread."""
        stream, opening = self._of_sealed(run.link, run.sealed[0].type_id, 0)
        take(Stream((opening.unread if is_overdue else opening.again,), stream.sends), run, turn)

    def _version(self) -> int:
        """Return a number that grows with each change that streams were compiled from.

        Rights, and what a publisher shows, are not among them: with those, its streams are dropped.
        """
        return self.types.generation + self.blinded.generation + self.statements.generation

    # ------------------------------------------------------------ publishers

    def _of_publisher(self, link: Link, entry: Advertisement, version: int, *, is_bare: bool) -> Stream:
        right, shaper = entry.right, entry.shaper
        type_id = right.event_type.type_id
        sealing = self.types.sealing(type_id)
        answer = answering(link, entry, self.recording)
        look_at_number, note_number = numbering(entry, answer)
        looks: list[Stage] = []
        if sealing is not None:
            looks.append(self._awaiting_keys(type_id, sealing))
        looks += [reading(entry, link, self.own.settings.limits.rows_per_frame), look_at_number]
        if not shaper.is_open or shaper.root is not None:
            looks.append(shaping(shaper, answer))
        if right.terms.is_rated:
            looks.append(rating(self.authoriser, right, answer))
        if link.statement or entry.requires or not is_bare:
            looks.append(attaching(link, entry))
        if sealing is not None:
            looks.append(self._seal_keys(type_id, sealing).stage(answer))
        signer = self._signer(type_id, right) if self.types.is_signed(type_id) else None
        if signer is not None:
            looks.append(signer.stage)
        looks.append(self._look_at_seen)
        later = [self._retaining(type_id, entry)]
        if entry.projections:
            later.append(projecting(link, entry, self._above, self._consenting))
        later.append(answered(answer))
        return Stream(
            tuple(looks), (note_number, *self._sends(type_id, sealing, signer)), tuple(later), version
        )

    def _signer(self, type_id: bytes, right: Authorisation) -> SignPlain:
        return SignPlain(type_id, right, self.named_rights, self.own.principal)

    def _sends(
        self, type_id: bytes, sealing: Sealing | None, signer: SignPlain | None = None
    ) -> tuple[Stage, ...]:
        """Return what subscribers and neighbours get of what is published here."""
        log, deliver = self.recording, self._deliveries.of(type_id)
        if signer is not None:
            log = log if log is not None and log.records(type_id) else None
            to = type_id, None, self.router, self.signing
            signed = ForwardSealed(
                *to, sealer=signer, log=log, rights=self.named_rights, paths=self.paths
            ).send
            release = self._releasing(type_id, None, lambda _run, _number: signer.name)
            return self._remember, deliver, in_turn(signed, release)[0]
        if sealing is None:
            to_neighbours = forwarding(type_id, None, self.routes, self.router, self.paths)
            forward, _ = in_turn(to_neighbours, self._releasing(type_id, None, _unsigned))
            is_recorded = log is not None and log.records(type_id)
            given = (recording(log), deliver) if log is not None and is_recorded else (deliver,)
            if type_id in self.statements.streams:
                return self._remember, forward, self._hearing(given)
            return (self._remember, *given, forward)
        if not sealing.blinded:
            return self._remember, deliver, self._forward_own(type_id, sealing).stage
        enclose, send = self._enclosing(sealing)
        return self._remember, enclose, self._deliveries.of(type_id), send

    def _forward_own(self, name: bytes, sealing: Sealing) -> ForwardSealed:
        """Return how frames leave that are sealed here, under a name."""
        log = self.recording
        type_id = self.blinded.type_of(name)
        is_recorded = log is not None and log.records(type_id)
        match = partial(matched_under_cover, sealing, self.types.kinds(type_id)) if sealing.blinded else None
        return ForwardSealed(
            book_key_of_sealed(name),
            None,
            self.router,
            self.signing,
            sealer=Sealer(
                self.seals, self.answers_given, sealing.level, is_shared=self.own.settings.share_plaintext
            ),
            share=self._share(name, sealing),
            log=log if is_recorded else None,
            match=match,
            paths=self.paths,
        )

    def _enclosing(self, sealing: Sealing) -> tuple[Stage, Stage]:
        forward = partial(self._forward_own, sealing=sealing)
        return enclosing(sealing, self.blinded, self.cover, self.own.principal, self.routes.seen, forward)

    def send_cover(self, type_id: bytes, sealing: Sealing, turn: Turn) -> None:
        """Send a frame without an event: the same as one with an event to whoever cannot open it."""
        by, now = self.own.principal, turn.now
        name = self.blinded.publishing_id(type_id, now)
        keys = None if name is None else self.seals.sealing_keys(name, now, now)
        if keys is not None:
            whole = self.blinded.enclose(None, keys.type_id, by=by, cover=sealing.cover, now=now)
            self._enclosing(sealing)[1](Run.of_cover(whole, keys, by.key), turn)

    def _awaiting_keys(self, type_id: bytes, sealing: Sealing) -> Stage:
        lack = self.impairments.key_lack
        return awaiting_keys(type_id, sealing, self.seals, self.cover, lack=lack, changed=self._changed)

    def _seal_keys(self, type_id: bytes, sealing: Sealing) -> SealKeys:
        return SealKeys(type_id, sealing, self.seals, self.blinded, self.keys)

    def _changed(self) -> None:
        self.routes.is_changed = True

    def _retaining(self, type_id: bytes, entry: Advertisement, projection: Projection | None = None) -> Stage:
        retained, consents = self.retained, () if projection is None else projection.consents
        if self.types.holds_topics(type_id):
            return retaining_topics(retained, entry.right)
        return retaining(retained, entry.right, consents)

    # ------------------------------------------------------------ super-types

    def _consenting(self, link: Link, entry: Advertisement, turn: Turn) -> Advertisement:
        """Return an advertisement with those super-types to which there is consent at this moment."""
        if self.projections.consents_hold(entry, turn.now):
            return entry
        self.entries.project_again(link, entry, turn)
        return link.advertisement(entry.ref)

    def _above(self, _link: Link, entry: Advertisement, projection: Projection) -> Stream:
        """Compile what frames go through that are published as a super-type."""
        type_id = projection.type_id
        sealing = self.types.sealing(type_id)
        retain = self._retaining(type_id, entry, projection)
        signer = self._signer(type_id, entry.right) if self.types.is_signed(type_id) else None
        sends = self._sends(type_id, sealing, signer)
        if signer is not None:
            return Stream((signer.stage, self._look_at_seen), (retain, *sends))
        if sealing is None:
            return Stream((self._look_at_seen,), (retain, *sends))
        sealed = (self._seal_keys(type_id, sealing).stage(), *sends)
        waits = partial(self._wait_above, entry.ref, type_id, sealed)
        return Stream((_one_by_one,), (retain, waits, *sealed))

    def _wait_above(
        self, ref: int, type_id: bytes, then: tuple[Stage, ...], run: Run, turn: Turn
    ) -> int | None:
        """Let a frame wait for the keys of a super-type, if it has to."""
        now = turn.now
        waiting, stream = self.seals.projecting, (run.link.id, ref)
        if self.seals.has_begun(type_id, now) and not waiting.holds(type_id, stream):
            return None
        lack = self.impairments.dial_or_lack(type_id, turn)
        size = 256 + sum(len(column.data) for column in run.columns[0])
        held = run.link.id, ref, run, then
        if lack is None and waiting.put(type_id, stream, held, size=size, until=waiting.until(now)):
            self._changed()
        else:
            turn.count(LOST)
        return END

    def publish_waiting(self, type_id: bytes, turn: Turn) -> None:
        """Publish as a super-type what waited for its keys, if its publisher still may."""
        now = turn.now
        if not self.seals.has_begun(type_id, now):
            return
        for number, ref, run, then in self.seals.projecting.take(type_id):
            link = self.links.get(number)
            entry = None if link is None else link.advertisements.get(ref)
            if entry is None or not self.authoriser.holds(entry.right, now):
                continue
            is_projected = any(one.stream == run.whole.stream for one in entry.projections)
            if is_projected and self.projections.consents_hold(entry, now):
                take_or_lose(Stream((), then), run, turn)

    # ------------------------------------------------------------ neighbours

    def _of_carried(self, link: Link, type_id: bytes, kind: type, version: int) -> Stream:
        routes = self.routes
        if self.types.sealing(type_id) is not None:
            return Stream((refuse_plain,), (), (), version)
        is_signed = issubclass(kind, CarriedSigned)
        if self.types.is_signed(type_id) and not is_signed:
            return Stream((refuse_unsigned,), (), (), version)
        looks = [
            reading_carried(type_id, self.types.kinds(type_id)),
            self._asked_for(link, type_id, type_id),
        ]
        if is_signed:
            looks.append(self._verifying(link.id, type_id))
        if kind is not Carried:
            looks.append(checking_author(partial(self._is_read, type_id)))
        looks.append(self._look_at_seen)
        given = [self._deliveries.of(type_id)]
        if self.catch_up is not None and self.catch_up.records(type_id):
            to = self.catch_up.recording, self.catch_up.record_arrived
            given.insert(0, recording_arrived(*to, is_sealed=is_signed))
        onward_as_it_is = forwarding(type_id, link.id, routes, self.router, self.paths)
        if is_signed:
            onward_as_it_is = ForwardSealed(
                type_id, link.id, self.router, self.signing, rights=self.named_rights, paths=self.paths
            ).send
        right = _signed_right if is_signed else _unsigned
        forward, send = in_turn(onward_as_it_is, self._releasing(type_id, link.id, right))
        remember, onward = self._remember, forward
        if self.router.flooding is not None:
            remember, onward = on_mesh(remember, send, self._carries_again)
        sends = [*self._retaining_passing(link, type_id), remember]
        if type_id in self.statements.streams:
            sends += [onward, self._hearing(given)]
        else:
            sends += [*given, onward]
            if not is_signed:  # what is not cut is not all wanted
                sends.append(counting_arrivals(link.id, type_id, routes.spill))
        return Stream(tuple(looks), tuple(sends), (), version)

    def _releasing(self, type_id: bytes, source: LinkId | None, right: Callable[[Run, int], bytes]) -> Send:
        return releasing(type_id, source, self.router, self.borders, self.paths, right)

    def _verifying(self, link: LinkId, type_id: bytes) -> Stage:
        return verifying(
            link,
            self.seals.checks,
            self.named_rights,
            self.own.settings.skew_s,
            made_for=self.borders.made_for,
            was_here=lambda run: is_repeated(run, self.routes.seen) and not self._carries_again(run),
            is_to_be_verified=lambda: self._is_read(type_id) or self.named_rights.proofs.is_to_be_verified(),
        )

    def _of_sealed(self, link: Link, name: bytes, version: int) -> tuple[Stream, Open]:
        """Compile what sealed frames under a name go through, and return what opens them."""
        routes = self.routes
        type_id, key, is_blinded = (
            self.blinded.type_of(name),
            book_key_of_sealed(name),
            self.blinded.is_id(name),
        )
        sealing, kinds = self.types.sealing(type_id), self.types.kinds(type_id)
        opening = Open(
            name,
            type_id,
            key,
            kinds,
            seals=self.seals,
            blinded=self.blinded,
            book=routes.book,
            audiences=self.audiences,
            judge=self.signers.may_publish,
            wait=self._wait,
        )
        looks = (
            too_weak(type_id, sealing),
            self._asked_for(link, name, key),
            proving(self.seals.checks, routes.seen, self._frame_carries_again),
            opening.take,
            self._look_at_seen,
        )
        match = partial(matched_under_cover, sealing, kinds) if is_blinded and sealing is not None else None
        share = None if sealing is None else self._share(name, sealing)
        forward = ForwardSealed(
            key, link.id, self.router, self.signing, share=share, match=match, paths=self.paths
        )
        remember: Stage = self._remember
        onward: Stage = forward.stage
        if self.router.flooding is not None:
            remember, onward = on_mesh(remember, forward.send, self._carries_again)
        if is_blinded:
            given: tuple[Stage, ...] = (partial(self._give_inner, self._deliveries.of(type_id)),)
        else:
            given = (*self._retaining_passing(link, type_id), self._deliveries.of(type_id))
            if self.catch_up is not None and self.catch_up.records(name):
                to = self.catch_up.recording, self.catch_up.record_arrived
                given = (recording_arrived(*to, is_sealed=True), *given)
        return Stream(looks, (remember, *given, onward), (), version), opening

    def _give_inner(self, deliver: Stage, run: Run, turn: Turn) -> None:
        """Take the publication out of a blinded frame; cover is neither delivered, recorded nor counted.

        Its publisher may have sent it through another broker before, in another envelope.
        """
        inner, frame = run.inner, run.sealed[0]
        if inner is None or inner.type_id not in self.audiences:
            return
        run.inner = unseen_by(self.routes.seen, inner)
        if run.inner is None:
            turn.count("maia_duplicates_total")
            return
        if self.recording is not None:
            self.recording.record(self.blinded.unblind(frame, inner), turn)
        deliver(run, turn)

    def _retaining_passing(self, link: Link, type_id: bytes) -> tuple[Stage, ...]:
        node = self.routes.node_of.get(link.id)
        is_retained = node is not None and not self.types.holds_topics(type_id)
        return (retaining_passing(self.retained, node),) if is_retained else ()

    def _asked_for(self, link: Link, name: bytes, key: bytes) -> Stage:
        return asked_for(
            link, key, self.router, partial(self.sources.is_known_type, name), self.sources.refuse_unasked
        )

    def _share(self, name: bytes, sealing: Sealing) -> Share | None:
        """Return what says which plaintext a neighbour may read anyway; None where none goes along."""
        if not self.own.settings.share_plaintext:
            return None
        return lambda link, now: self.shares.share_of(self.links[link], name, sealing, now)

    def _carries_again(self, run: Run) -> bool:
        flooding = self.router.flooding
        return flooding is not None and flooding.carries_again(*run.whole.identity, run.signer)

    def _frame_carries_again(self, frame: Sealed) -> bool:
        flooding, about = self.router.flooding, (frame.publisher, frame.stream, frame.sequence)
        return flooding is not None and flooding.carries_again(*about, frame.signer)

    def _is_read(self, type_id: bytes) -> bool:
        return type_id in self.audiences or (self.recording is not None and self.recording.records(type_id))

    def _hearing(self, given: Sequence[Stage]) -> Stage:

        def receive(whole: Transit, turn: Turn) -> None:
            if whole.type_id in self.statements.streams:
                self.revocation.receive_frame(whole, turn)

        return hearing(given, receive)


def _one_by_one(run: Run, _turn: Turn) -> None:
    if run.count > 1:
        raise Apart


def _unsigned(_run: Run, _number: int) -> bytes:
    return b""


def _signed_right(run: Run, number: int) -> bytes:
    """Return how one of a neighbour's signed frames names its right."""
    message = run.messages[number]
    return message.signed.right if isinstance(message, CarriedSigned) else b""
