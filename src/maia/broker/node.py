"""The broker: what happens to it, one input after the other, and what it asks for in return.

    broker.handle(Received(link, data), now) -> [Send(...), Keep(...), WakeAt(...), ...]

    turn = broker.turn(now)                 # of a runtime that sends each part before the next is worked out
    turn.take((Received(link, data),))
    turn.leave() -> [Send(...), ...], then [Send(...), ...], then None

It has no clock, no socket and no disk. The asyncio runtime and the simulation
drive the same object. Errors of one peer end in an answer to that peer, or in
the end of its link, and never leave `handle`.

Which way of routing does a broker use?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from maia.broker.access.authoriser import forget_frames
from maia.broker.access.impairment import Impairments
from maia.broker.durable.catch_up import CatchUp
from maia.broker.durable.delivery import DurableSubscriptions
from maia.broker.durable.log_requests import LogRequests
from maia.broker.durable.recorded_frames import RecordedFrames
from maia.broker.durable.recording import NO_LOG, new_recording
from maia.broker.persistence import keep_what_changed, reload_kept
from maia.broker.publication.delivery import put_on_record
from maia.broker.publication.tally import DeliveryTally
from maia.broker.refusals import Shutdown
from maia.broker.revocation.streams import (
    begin_validity,
    certificates_without_statement,
    receive_fetched,
    subscribe_to_issuers,
)
from maia.broker.routing.interests import recheck_own_interests
from maia.broker.routing.mesh import MeshRouter
from maia.broker.routing.peers import OverlayPeers
from maia.broker.routing.proofs import proved_filter
from maia.broker.routing.rendezvous import RendezvousRouter
from maia.broker.routing.router import Router
from maia.broker.sealed.key_events import handle_key_input, look_for_keys, own_rights_changed
from maia.broker.sealed.publisher_rights import learn_what_is_at_hand
from maia.broker.sessions.close import close_link, forget_link, part_from
from maia.broker.sessions.dispatch import Dispatch
from maia.broker.sessions.handshake import BrokerSessions
from maia.broker.sessions.identities import show_own_identity
from maia.broker.sessions.links import Link, Role, Stage
from maia.broker.settings import BrokerSettings, Routing
from maia.broker.state import BrokerState, new_state
from maia.broker.status import status_of
from maia.broker.streams.run import Apart, Frames, gathered
from maia.broker.streams.streams import Streams
from maia.broker.subscriptions.route_sync import RouteSyncs, table_names
from maia.broker.turn import Turn
from maia.broker.upkeep import (
    adopt_constitutions,
    hold_certificates,
    recheck_everything,
    run_expired_timers,
    schedule_upkeep,
)
from maia.credentials import SignedCertificate, SignedStatement, SigningKey, VerifiedConstitution
from maia.credentials.identity import SignedIdentity
from maia.errors import MaiaError
from maia.events import Instant
from maia.sessions.challenges import Challenged
from maia.sessions.session import Established
from maia.wire.effects import (
    Close,
    Count,
    DialFailed,
    Effect,
    Input,
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
from maia.wire.messages import Bye, Message


def new_router(state: BrokerState) -> Router:
    """Return the router that a broker's settings name."""
    match state.settings.routing:
        case Routing.RENDEZVOUS:
            return RendezvousRouter(state)
        case Routing.MESH:
            return MeshRouter(state)
        case other:
            assert_never(other)


def open_log(state: BrokerState) -> None:
    """Make the owners of the event log, as far as a broker keeps one, and of what others ask of theirs."""
    settings, timers = state.settings, state.timers
    log = state.recording = new_recording(state.principal, settings, state.types)
    state.recorded_frames = RecordedFrames(
        state.types, state.seals, state.keys, state.writers, partial(learn_what_is_at_hand, state), log
    )
    state.log_requests = LogRequests(
        key=state.principal.key,
        log=log,
        frames=state.recorded_frames,
        router=state.router,
        routes=state.routes,
        prove=partial(proved_filter, state),
        types=state.types,
        blinded=state.blinded,
        links=state.links,
        quota=state.broker_quota,
        timers=timers,
        catch_up_s=settings.limits.catch_up_s,
    )
    if log is None:
        return
    state.durable = DurableSubscriptions(
        log=log,
        frames=state.recorded_frames,
        links=state.links,
        audiences=state.audiences,
        identities=state.identities,
        attached=state.attached,
        put_on_record=partial(put_on_record, state),
        tally=state.delivered,
        limits=settings.limits,
        timers=timers,
        random=state.random,
    )
    state.catch_up = CatchUp(
        log=log,
        durable=state.durable,
        requests=state.log_requests,
        router=state.router,
        blinded=state.blinded,
        timers=timers,
        random=state.random,
    )


_NOTHING_KEPT: Final[Mapping[str, bytes]] = {}


class Broker:
    """One broker of one network, as a value that is handed time, chance and messages."""

    __slots__ = ("_kept", "_log", "_sessions", "_state")

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
        state = self._state = new_state(key, settings, random=random, process_id=process_id, kept=kept)
        state.router, state.streams = new_router(state), Streams(state)
        open_log(state)
        state.impairments = Impairments(
            key.principal,
            lambda: state.settings,
            state.links,
            state.routes,
            types=state.types,
            keys=state.keys,
            seals=state.seals,
            statements=state.statements,
            log=state.recording,
        )
        state.syncs = RouteSyncs(
            key.principal.key,
            state.router,
            state.routes.node_of,
            state.links,
            state.timers,
            random=random,
            names=partial(table_names, state.types, state.blinded, state.sealed),
        )
        state.dispatch = Dispatch(state)
        self._sessions = BrokerSessions(state)
        self._kept, self._log = dict(kept), log

    def start(self, now: Instant) -> list[Effect]:
        """Verify what was kept, and begin to dial other brokers."""
        return self._do(self._start, now)

    def _start(self, turn: Turn) -> None:
        state, kept = self._state, self._kept
        log, self._kept, self._log = self._log, {}, NO_LOG
        turn.note("started", principal=str(state.principal), address=state.settings.address)
        begin_validity(state, turn.now)
        reload_kept(state, kept, turn)
        look_for_keys(state, list(state.types.sealed()), turn)
        if state.recording is not None and state.durable is not None:
            state.recording.reload(kept, log, state.routes.seen, turn, random=state.random)
            state.durable.reload(kept, turn)
        recheck_own_interests(state, turn)
        state.router.start(turn)

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
        state, now = self._state, turn.now
        while turn.parts:
            self._go_on(turn)
        if state.timers.is_due(now) and not state.is_draining:  # then all links are closed
            run_expired_timers(state, turn)
        if type(happened) is Received and (link := state.links.get(happened.link)) is not None:
            self._receive(link, happened.data, turn)  # nearly always
            self._follow(turn)
            return
        match happened:
            case Tick():
                state.timers.woken()  # what was due has been done
            case _ if self._is_of_key_manager(happened):
                handle_key_input(state, happened, turn)
            case Received():
                pass  # it was on its way when the link ended
            case LinkOpened(link=number) if state.is_draining:
                turn.add(Close(number, Shutdown.code))
            case LinkOpened():
                self._sessions.connected(happened, turn)
            case LinkClosed(link=number):
                self._closed(state.links.get(number), turn)
                state.links.pop(number, None)
            case DialFailed(address=address):
                state.router.dial_failed(address, turn)
            case Recorded(upto=upto, problem=problem):
                if state.durable is not None and state.catch_up is not None:
                    state.durable.receive_recorded(upto, turn)
                    state.catch_up.go_on(turn)
                state.impairments.note_log(problem)
            case LogRead():
                if state.durable is not None:
                    state.durable.receive_log_read(happened, turn)
                state.log_requests.receive_log_read(happened, turn)
            case _:
                assert_never(happened)
        self._follow(turn)

    def _gathered(self, number: LinkId, data: Sequence[bytes], now: Instant) -> Sequence[Frames]:
        """Return the frames with which a read begins that may be taken on together; none if only one may."""
        state, link = self._state, self._state.links.get(number)
        if len(data) < 2 or link is None or not link.is_ready or state.router.flooding is not None:
            return ()
        if state.timers.is_due(now):
            return ()
        return gathered(data, is_client=link.role is Role.CLIENT)

    def _take_together(
        self, number: LinkId, messages: Sequence[Frames], data: Sequence[bytes], turn: Turn
    ) -> bool:
        """Take frames of one stream on together; False if they do not fare alike, and nothing has changed."""
        state, link, said = self._state, self._state.links[number], turn.mark()
        try:
            if link.role is Role.CLIENT:
                state.streams.publish(link, messages, data, turn)  # type: ignore[arg-type]  # of publishers
            elif state.routes.is_current(number):
                state.streams.carry(link, messages, data, turn)  # type: ignore[arg-type]  # of brokers
        except (Apart, MaiaError):
            turn.drop(said)
            return False
        link.heard_at, link.silent_rounds = turn.now, 0
        self._follow(turn)
        return True

    def _go_on(self, turn: Turn) -> None:
        """Do the next part of what an input has left to do."""
        part, said = turn.parts.popleft(), turn.mark()
        try:
            part.work(turn)
        except MaiaError as problem:
            link = self._state.links.get(part.link)
            if link is None:
                raise
            turn.drop(said)
            self._blame(link, problem, turn)
        self._follow(turn)

    def _receive(self, link: Link, data: bytes, turn: Turn) -> None:
        if link.stage is Stage.CLOSING:
            return  # it was on its way when the link ended
        said, sessions = turn.mark(), self._sessions
        try:
            sessions.turn = turn
            effects, message = sessions.receive(link, data, turn.now)
            turn.add(*effects)
            if message is not None:
                self._hear(link, message, turn, data)
        except MaiaError as problem:
            turn.drop(said)
            self._blame(link, problem, turn)
        turn.put_first(said)

    def _hear(self, link: Link, message: Message | Established, turn: Turn, data: bytes) -> None:
        if isinstance(message, Bye):
            peer, role, code = str(link.peer), link.role.value, message.code
            turn.note("bye", link=link.id, peer=peer, role=role, code=code)
            turn.add(Close(link.id, code))
            forget_link(self._state, link, turn, f"it says: {message.message} [{code}]")
        elif isinstance(message, Established):
            self._sessions.ready(link, turn)
        else:
            self._state.dispatch.answer(link, message, turn, data)

    def _blame(self, link: Link, problem: MaiaError, turn: Turn) -> None:
        """End a link on whose behalf something failed."""
        forget_frames(problem)
        turn.count("maia_links_refused_total", code=problem.code)
        close_link(self._state, link, problem, turn)

    def _closed(self, link: Link | None, turn: Turn) -> None:
        """Take back what hung on a link, which is known until then: one thing may stand for another."""
        if link is not None:
            turn.note("disconnected", link=link.id, peer=str(link.peer), role=link.role.value)
            if link.stage is not Stage.CLOSING:
                forget_link(self._state, link, turn)

    def _is_of_key_manager(self, happened: Input) -> bool:
        """Say whether something happened on the way to a key manager, which belongs to the key member."""
        member = self._state.keys.member
        match happened:
            case Received(link=link) | LinkClosed(link=link):
                return member.owns(link)
            case LinkOpened(dialled=str(address)) | DialFailed(address=address):
                return member.dials(address)
            case _:
                return False

    def _follow(self, turn: Turn) -> None:
        """Do what follows from what an input, or a part of one, has changed."""
        state = self._state
        if state.keys.is_touched:
            own_rights_changed(state, turn)
        if state.statements.new:
            subscribe_to_issuers(state, turn)
        if state.impairments.changed:
            state.impairments.warn_of_changes(turn)
        if state.syncs.next or state.syncs.not_received:
            state.syncs.go_on(turn)
        if state.catch_up is not None and state.catch_up.is_changed:
            state.catch_up.follow(turn)
        routes = state.routes
        if routes.is_changed or routes.is_sooner or routes.is_sent:
            schedule_upkeep(state, turn.now)

    def _leave(self, turn: Turn) -> list[Effect]:
        """Return what leaves with a part of a turn: counted, thinned, signed, and on record."""
        state, effects = self._state, turn.part()
        is_to_be_thinned = state.repeated.due_at <= turn.now
        for effect in effects:
            if type(effect) is Count:
                state.counters[effect.name] += effect.amount
            elif type(effect) is Note:
                is_to_be_thinned = True
        if is_to_be_thinned:
            effects = state.repeated.thinned(effects, turn.now)
        wake = None if state.is_draining else state.timers.promise_wake()
        if wake is not None:
            effects.append(WakeAt(wake))
        if state.streams.signing:
            effects = state.streams.signing.signed(effects, state.recording)
        ledger = state.disclosures
        return effects if ledger is None else [*ledger.entries(), *effects]

    # ------------------------------------------------------------ what its operator does

    def evidence_changed(self, now: Instant) -> list[Effect]:
        """Decide all entries again; what is no longer permitted ends."""
        return self._do(partial(recheck_everything, self._state), now)

    def hold(self, certificates: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Put these certificates in the place of the broker's own, as when they were renewed."""
        return self._do(partial(hold_certificates, self._state, certificates), now)

    def learn(self, definitions: Mapping[str, bytes], now: Instant) -> list[Effect]:
        """Answer questions about these types too, and look for their keys, as if they had been kept."""
        state = self._state

        def learn(turn: Turn) -> None:
            state.types.reload(definitions, turn)
            look_for_keys(state, list(state.types.sealed()), turn)
            recheck_own_interests(state, turn)

        return self._do(learn, now)

    def join(self, seeds: tuple[str, ...], now: Instant) -> list[Effect]:
        """Join the network through these brokers from now on."""
        router = self._state.router
        return self._do(partial(router.join, seeds), now) if isinstance(router, OverlayPeers) else []

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...], now: Instant) -> list[Effect]:
        """Put these constitutions of quorums in the place of those known before."""
        return self._do(partial(adopt_constitutions, self._state, constitutions), now)

    def identify(self, identity: SignedIdentity, now: Instant) -> list[Effect]:
        """Show this statement about the broker from now on, as when it was renewed."""
        return self._do(partial(show_own_identity, self._state, identity, self._state.links.values()), now)

    def not_vouched_for(self, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return certificates in use here that demand a statement which is not at hand."""
        return certificates_without_statement(self._state, now)

    def hear(self, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Accept statements that were fetched for this broker."""
        return self._do(partial(receive_fetched, self._state, statements), now)

    def take_challenges(self) -> list[Challenged]:
        """Return what key managers want to have vouched for, of this broker's own certificates."""
        keys = self._state.keys
        taken, keys.challenges = keys.challenges, []
        return taken

    def vouch(self, number: int, answers: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Bring a key manager the answers to a challenge: as many as there are, or none."""
        return self._do(lambda turn: turn.add(*self._state.keys.member.vouch(number, answers)), now)

    @property
    def deliveries(self) -> DeliveryTally:
        """Return how many rows were delivered so far, and how long that took."""
        return self._state.delivered

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: links, tables, leases, counters; no filter, no secret."""
        return status_of(self._state, now)

    def drain(self, now: Instant) -> list[Effect]:
        """Leave: say goodbye on every link, and keep what helps the next start."""
        return self._do(self._drain, now)

    def _drain(self, turn: Turn) -> None:
        state = self._state
        state.is_draining = True
        state.router.leave(turn)
        turn.add(*state.keys.member.leave())
        keep_what_changed(state, turn)
        for link in list(state.links.values()):
            part_from(state, link, Shutdown("this broker is being stopped"), turn)


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
