"""The broker: what happens to it, one input after the other, and what it asks for in return.

    broker.handle(Received(link, data), now) -> [Send(...), Keep(...), WakeAt(...), ...]

    turn = broker.turn(now)                 # of a runtime that sends each part before the next is worked out
    turn.take((Received(link, data),))
    turn.leave() -> [Send(...), ...], then [Send(...), ...], then None

It has no clock, no socket and no disk. The asyncio runtime and the simulation
drive the same object. Errors of one peer end in an answer to that peer, or in
the end of its link, and never leave `handle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from maia.broker.interests.peers import OverlayPeers
from maia.broker.links.links import Link, Role, Stage
from maia.broker.log.recording import NO_LOG
from maia.broker.parts import Parts, assemble
from maia.broker.rights.authoriser import forget_frames
from maia.broker.settings import BrokerSettings
from maia.broker.streams.disclosures import DeliveryTally
from maia.broker.streams.run import Apart, Frames, gathered
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate, SignedStatement, SigningKey, VerifiedConstitution
from maia.credentials.identity import SignedIdentity
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.sessions.challenges import Challenged
from maia.sessions.session import Established
from maia.wire.effects import (
    Close,
    Count,
    DialFailed,
    Effect,
    Input,
    Kept,
    LinkClosed,
    LinkId,
    LinkOpened,
    LogAtStart,
    LogRead,
    Note,
    Received,
    Recorded,
    Tick,
    WakeAt,
)
from maia.wire.messages import Bye

_NOTHING_KEPT: Final[Mapping[str, bytes]] = {}


class Broker:
    """One broker of one network, as a value that is handed time, chance and messages."""

    __slots__ = ("_kept", "_log", "_parts")

    def __init__(
        self,
        key: SigningKey,
        settings: BrokerSettings,
        *,
        random: Callable[[int], bytes],
        kept: Mapping[str, bytes] = _NOTHING_KEPT,
        process_id: Callable[[], int] = lambda: 0,
        log: LogAtStart = NO_LOG,
    ) -> None:
        """Make a broker that holds `key`; `kept` is what `Keep` stored before.

        `log` says what is in the event log of a broker that records.

        `process_id` changes where a process is forked: a child never seals
        under its parent's keys.
        """
        self._parts = assemble(key, settings, random=random, process_id=process_id, kept=kept)
        self._kept, self._log = dict(kept), log

    def start(self, now: Instant) -> list[Effect]:
        """Verify what was kept, and begin to dial other brokers."""
        return self._do(self._start, now)

    def _start(self, turn: Turn) -> None:
        parts, kept = self._parts, self._kept
        log, self._kept, self._log = self._log, {}, NO_LOG
        turn.note("started", principal=str(parts.own.principal), address=parts.own.settings.address)
        parts.revocation.begin_validity(turn.now)
        parts.persistence.reload_kept(kept, turn)
        parts.key_events.look_for_keys(list(parts.types.sealed()), turn)
        if parts.recording is not None and parts.durable is not None:
            parts.recording.reload(kept, log, parts.routes.seen, turn, random=parts.own.random)
            parts.durable.reload(kept, turn)
        parts.interests.recheck_own_interests(turn)
        parts.router.start(turn)

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on; rights and leases that have ended by `now` end first."""
        turn = self.turn(now)
        turn.take((happened,))
        return turn.all()

    def turn(self, now: Instant) -> BrokerTurn:
        """Begin a turn, for a runtime that sends each part of it before the next one is worked out."""
        return BrokerTurn(self, now)

    def _do(self, work: Callable[[Turn], None], now: Instant) -> list[Effect]:
        """Do something that no input has asked for."""
        turn = BrokerTurn(self, now)
        work(turn)
        self._follow(turn)
        return turn.all()

    # ------------------------------------------------------------ one input after the other

    def _take(self, happened: Input, turn: Turn) -> None:  # noqa: PLR0912 - a case for each input
        """Take one input on, behind what is left of the one before."""
        parts, now = self._parts, turn.now
        while turn.parts:
            self._go_on(turn)
        if parts.timers.is_due(now) and not parts.own.is_draining:  # then all links are closed
            parts.maintenance.run_expired_timers(turn)
        if type(happened) is Received and (link := parts.links.get(happened.link)) is not None:
            self._receive(link, happened.data, turn)  # nearly always
            self._follow(turn)
            return
        match happened:
            case Tick():
                parts.timers.woken()  # what was due has been done
            case _ if self._is_of_key_manager(happened):
                parts.key_events.handle_key_input(happened, turn)
            case Received():
                pass  # it was on its way when the link ended
            case LinkOpened(link=number) if parts.own.is_draining:
                turn.add(Close(number, "UNAVAILABLE-SHUTDOWN"))
            case LinkOpened():
                self._parts.sessions.connected(happened, turn)
            case LinkClosed(link=number):
                self._closed(parts.links.get(number), turn)
                parts.links.pop(number, None)
            case DialFailed(address=address):
                parts.router.dial_failed(address, turn)
            case Recorded(upto=upto, problem=problem):
                if parts.durable is not None and parts.catch_up is not None:
                    parts.durable.receive_recorded(upto, turn)
                    parts.catch_up.go_on(turn)
                    parts.durable.recording.note_problem(problem)
                parts.impairments.note_log(problem)
            case Kept(problem=problem):
                parts.own.unkept = problem
            case LogRead():
                if parts.durable is not None:
                    parts.durable.receive_log_read(happened, turn)
                parts.log_requests.receive_log_read(happened, turn)
            case _:
                assert_never(happened)
        self._follow(turn)

    def _gathered(self, number: LinkId, data: Sequence[bytes], now: Instant) -> Sequence[Frames]:
        """Return the frames with which a read begins that may be taken on together; none if only one may."""
        parts, link = self._parts, self._parts.links.get(number)
        if len(data) < 2 or link is None or not link.is_ready or parts.router.flooding is not None:
            return ()
        if parts.timers.is_due(now):
            return ()
        return gathered(data, is_client=link.role is Role.CLIENT)

    def _take_together(
        self, number: LinkId, messages: Sequence[Frames], data: Sequence[bytes], turn: Turn
    ) -> bool:
        """Take frames of one stream on together; False if they do not fare alike, and nothing has changed."""
        parts, link = self._parts, self._parts.links[number]
        try:
            if link.role is Role.CLIENT:
                parts.streams.publish(link, messages[0], turn, messages, data)  # type: ignore[arg-type]  # of publishers
            elif parts.routes.is_current(number):
                parts.streams.carry(link, messages[0], turn, messages, data)  # type: ignore[arg-type]  # of brokers
        except (Apart, MaiaError):
            return False  # from a look, which says nothing of a run that it takes apart
        link.heard_at, link.silent_rounds = turn.now, 0
        self._follow(turn)
        return True

    def _go_on(self, turn: Turn) -> None:
        """Do the next part of what an input has left to do."""
        part, said = turn.parts.popleft(), turn.mark()
        try:
            part.work(turn)
        except MaiaError as problem:
            link = self._parts.links.get(part.link)
            if link is None:
                raise
            turn.drop(said)
            self._blame(link, problem, turn)
        self._follow(turn)

    def _receive(self, link: Link, data: bytes, turn: Turn) -> None:
        if link.stage is Stage.CLOSING:
            return  # it was on its way when the link ended
        said, sessions = turn.mark(), self._parts.sessions
        try:
            sessions.turn = turn
            effects, message = sessions.receive(link, data, turn.now)
            turn.effects += effects
            if isinstance(message, Bye):
                peer, role, code = str(link.peer), link.role.value, message.code
                turn.note("bye", link=link.id, peer=peer, role=role, code=code, why=message.message)
                turn.add(Close(link.id, code))
                self._parts.closing.forget_link(link, turn, f"it says: {message.message} [{code}]")
            elif isinstance(message, Established):
                sessions.ready(link, turn)
            elif message is not None:
                self._parts.dispatch.answer(link, message, turn, data)
        except MaiaError as problem:
            turn.drop(said)
            self._blame(link, problem, turn)
        turn.put_first(said)

    def _blame(self, link: Link, problem: MaiaError, turn: Turn) -> None:
        """End a link on whose behalf something failed."""
        forget_frames(problem)
        turn.count("maia_links_refused_total", code=problem.code)
        self._parts.closing.close_link(link, problem, turn)

    def _closed(self, link: Link | None, turn: Turn) -> None:
        """Take back what hung on a link, which is known until then: one thing may stand for another."""
        if link is not None:
            turn.note("disconnected", link=link.id, peer=str(link.peer), role=link.role.value)
            if link.stage is not Stage.CLOSING:
                self._parts.closing.forget_link(link, turn)

    def _is_of_key_manager(self, happened: Input) -> bool:
        """Return whether something happened on the way to a key manager, which belongs to the key member."""
        member = self._parts.keys.member
        match happened:
            case Received(link=link) | LinkClosed(link=link):
                return member.owns(link)
            case LinkOpened(dialled=str(address)) | DialFailed(address=address):
                return member.dials(address)
            case _:
                return False

    def _follow(self, turn: Turn) -> None:
        """Do what follows from what an input, or a part of one, has changed."""
        parts = self._parts
        if parts.keys.is_touched:
            parts.key_events.own_rights_changed(turn)
        if parts.statements.new:
            parts.revocation.subscribe_to_issuers(turn)
        if parts.impairments.changed:
            parts.impairments.warn_of_changes(turn)
        if parts.syncs.next or parts.syncs.not_received:
            parts.syncs.go_on(turn)
        if parts.catch_up is not None and parts.catch_up.is_changed:
            parts.catch_up.follow(turn)
        routes = parts.routes
        if routes.is_changed or routes.is_sooner or routes.is_sent:
            parts.maintenance.schedule_upkeep(turn.now)

    def _leave(self, turn: Turn) -> list[Effect]:
        """Return what leaves with a part of a turn: counted, thinned, signed, and on record."""
        parts, effects = self._parts, turn.part()
        is_to_be_thinned = parts.repeated.due_at <= turn.now
        for effect in effects:
            if type(effect) is Count:
                parts.counters[effect.name] += effect.amount
            elif type(effect) is Note:
                is_to_be_thinned = True
        if is_to_be_thinned:
            effects = parts.repeated.thinned(effects, turn.now)
        wake = None if parts.own.is_draining else parts.timers.promise_wake()
        if wake is not None:
            effects.append(WakeAt(wake))
        if parts.streams.signing:
            effects = parts.streams.signing.signed(effects, parts.recording)
        ledger = parts.disclosures
        return effects if ledger is None else [*ledger.entries(), *effects]

    # ------------------------------------------------------------ what its operator does

    def evidence_changed(self, now: Instant) -> list[Effect]:
        """Decide all entries again; what is no longer permitted ends."""
        return self._do(self._parts.own_rights.recheck_everything, now)

    def hold(self, certificates: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Put these certificates in the place of the broker's own, as when they were renewed."""
        return self._do(partial(self._parts.own_rights.hold_certificates, certificates), now)

    def learn(self, definitions: Mapping[str, bytes], now: Instant) -> list[Effect]:
        """Answer questions about these types too, and look for their keys, as if they had been kept."""
        parts = self._parts

        def learn(turn: Turn) -> None:
            parts.types.reload(definitions, turn)
            parts.key_events.look_for_keys(list(parts.types.sealed()), turn)
            parts.interests.recheck_own_interests(turn)

        return self._do(learn, now)

    def join(self, seeds: tuple[str, ...], now: Instant) -> list[Effect]:
        """Join the network through these brokers from now on."""
        router = self._parts.router
        return self._do(partial(router.join, seeds), now) if isinstance(router, OverlayPeers) else []

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...], now: Instant) -> list[Effect]:
        """Put these constitutions of quorums in the place of those known before."""
        return self._do(partial(self._parts.own_rights.adopt_constitutions, constitutions), now)

    def identify(self, identity: SignedIdentity, now: Instant) -> list[Effect]:
        """Show this statement about the broker from now on, as when it was renewed."""
        return self._do(
            partial(self._parts.peer_identities.show_own_identity, identity, self._parts.links.values()), now
        )

    def not_vouched_for(self, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return certificates in use here that demand a statement which is not at hand."""
        return self._parts.revocation.certificates_without_statement(now)

    def hear(self, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Accept statements that were fetched for this broker."""
        return self._do(partial(self._parts.revocation.receive_fetched, statements), now)

    def take_challenges(self) -> list[Challenged]:
        """Return what key managers want to have vouched for, of this broker's own certificates."""
        keys = self._parts.keys
        taken, keys.challenges = keys.challenges, []
        return taken

    def vouch(self, number: int, answers: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Bring a key manager the answers to a challenge: as many as there are, or none."""
        return self._do(lambda turn: turn.add(*self._parts.keys.member.vouch(number, answers)), now)

    @property
    def parts(self) -> Parts:
        """Return what this broker is made of, for tests of its inside (`maia.testing`)."""
        return self._parts

    @property
    def deliveries(self) -> DeliveryTally:
        """Return how many rows were delivered so far, and how long that took."""
        return self._parts.delivered

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: links, tables, leases, counters; no filter, no secret."""
        return self._parts.status.status_of(now)

    def drain(self, now: Instant) -> list[Effect]:
        """Leave: say goodbye on every link, and keep what helps the next start."""
        return self._do(self._drain, now)

    def _drain(self, turn: Turn) -> None:
        parts = self._parts
        parts.own.is_draining = True
        parts.router.leave(turn)
        turn.add(*parts.keys.member.leave())
        parts.persistence.keep_what_changed(turn)
        for link in list(parts.links.values()):
            parts.closing.part_from(
                link, Unavailable("UNAVAILABLE-SHUTDOWN", "this broker is being stopped"), turn
            )


class BrokerTurn(Turn):
    """A turn of one broker, as its runtime sees it."""

    __slots__ = ("_broker", "_has_left")

    def __init__(self, broker: Broker, now: Instant) -> None:
        """Begin with no input."""
        super().__init__(now)
        self._broker, self._has_left = broker, False

    def take(self, inputs: Sequence[Input]) -> None:
        """Take one input on, or the messages of one read: the same as one after the other, and faster."""
        said = self.mark()
        try:
            if len(inputs) == 1:
                self._broker._take(inputs[0], self)
            else:
                self._take_read(inputs)
        except Exception:
            self.drop(said)
            raise

    def _take_read(self, inputs: Sequence[Input]) -> None:
        broker, at, read = self._broker, 0, [one for one in inputs if isinstance(one, Received)]
        link, data = read[0].link, [one.data for one in read]
        while at < len(inputs):
            while self.parts:
                broker._go_on(self)
            messages = broker._gathered(link, data[at:], self.now)
            upto = at + max(1, len(messages))
            if not messages or not broker._take_together(link, messages, data[at:upto], self):
                for happened in inputs[at:upto]:
                    broker._take(happened, self)
            at = upto

    def leave(self) -> list[Effect] | None:
        """Return what leaves now; None if nothing is left to do. What was returned before is sent by then."""
        if self._has_left:
            if not self.parts:
                return None
            self._broker._go_on(self)
        self._has_left = True
        return self._broker._leave(self)

    def all(self) -> list[Effect]:
        """Return all that leaves, for a runtime that sends it at once."""
        while self.parts:
            self._broker._go_on(self)
        return self._broker._leave(self)
