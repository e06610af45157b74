"""The broker: what happens to it, one input after the other, and what it asks for in return.

    broker.handle(Received(link, data), now) -> [Send(...), Keep(...), WakeAt(...), ...]

It has no clock, no socket and no disk. The asyncio runtime and the simulation
drive the same object. Errors of one peer end in an answer to that peer, or in
the end of its link, and never leave `handle`.

Which way of routing does a broker use?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, assert_never

from maia.broker.access.authoriser import forget_frames
from maia.broker.access.impairment import log_full, warn_of_impairments
from maia.broker.durable.catch_up import begin_due_rounds, go_on_with_rounds, serve_fetch
from maia.broker.durable.delivery import receive_log_read, receive_recorded, tell_gaps
from maia.broker.durable.recording import NO_LOG, LogAtStart, new_recording
from maia.broker.persistence import keep_what_changed, reload_kept
from maia.broker.publication.tally import DeliveryTally
from maia.broker.refusals import Shutdown
from maia.broker.revocation.streams import (
    begin_validity,
    certificates_without_statement,
    receive_fetched,
    subscribe_to_issuers,
)
from maia.broker.routing import peers
from maia.broker.routing.interests import recheck_own_interests
from maia.broker.routing.mesh import MeshRouter
from maia.broker.routing.rendezvous import RendezvousRouter
from maia.broker.routing.router import Router
from maia.broker.sealed.key_events import handle_key_input, leave_managers, look_for_keys, own_rights_changed
from maia.broker.sessions.close import close_link, forget_link, part_from
from maia.broker.sessions.dispatch import answer
from maia.broker.sessions.handshake import BrokerSessions
from maia.broker.sessions.identities import show_own_identity
from maia.broker.sessions.links import Link, Role, Stage
from maia.broker.settings import BrokerSettings, Routing
from maia.broker.state import BrokerState, new_state
from maia.broker.status import status_of
from maia.broker.streams.run import Apart, Frames, gathered
from maia.broker.streams.streams import Streams
from maia.broker.subscriptions.route_sync import go_on_with_syncs
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
        self._state: BrokerState = new_state(key, settings, random=random, process_id=process_id, kept=kept)
        self._state.router, self._state.streams = new_router(self._state), Streams(self._state)
        self._state.recording = new_recording(key.principal, settings, self._state.types)
        self._sessions = BrokerSessions(self._state)
        self._kept, self._log = dict(kept), log

    def start(self, now: Instant) -> list[Effect]:
        """Verify what was kept, and begin to dial other brokers."""
        state, kept = self._state, self._kept
        log, self._kept, self._log = self._log, {}, NO_LOG
        started = Note("started", {"principal": str(state.principal), "address": state.settings.address})
        begin_validity(state, now)
        reloaded = [*reload_kept(state, kept, now), *look_for_keys(state, list(state.types.sealed()), now)]
        recorded: list[Effect] = []
        if state.recording is not None:
            recorded = state.recording.reload(kept, log, state.routes.seen, random=state.random)
        recorded += recheck_own_interests(state, now)
        return self._finished([started, *reloaded, *recorded, *state.router.start(now)], now)

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on; rights and leases that have ended by `now` end first."""
        effects = self.take_on(happened, now)
        if self._state.rest:
            effects += self._all_the_rest(now)
        return self.signed(effects)

    def signed(self, effects: list[Effect]) -> list[Effect]:
        """Return the effects of a turn: what it sealed under one signature, what it delivers on record."""
        state = self._state
        ledger = state.disclosures
        if state.streams.signing:
            effects = state.streams.signing.signed(effects, state.recording)
        return effects if ledger is None else [*ledger.entries(), *effects]

    def take_on(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one of several inputs of a turn on; `signed` has to see the effects of all of them."""
        state = self._state
        if state.rest:
            return [*self._all_the_rest(now), *self.take_on(happened, now)]
        is_due = state.timers.is_due(now) and not state.is_draining  # then all links are closed
        effects = run_expired_timers(state, now) if is_due else []
        if type(happened) is Received and (link := state.links.get(happened.link)) is not None:
            effects += self._received(link, happened.data, now)  # nearly always
            return self._completed(effects, now)
        match happened:
            case Tick():
                self._state.timers.woken()  # what was due has been done
            case _ if self._is_of_key_manager(happened):
                effects += handle_key_input(self._state, happened, now)
            case Received():
                pass  # it was on its way when the link ended
            case LinkOpened(link=number) if self._state.is_draining:
                effects.append(Close(number, Shutdown.code))
            case LinkOpened():
                effects += self._sessions.connected(happened, now)
            case LinkClosed(link=number):
                effects += self._closed(self._state.links.get(number), now)
                self._state.links.pop(number, None)
            case DialFailed(address=address):
                effects += self._state.router.dial_failed(address, now)
            case Recorded(upto=upto, problem=problem):
                effects += receive_recorded(self._state, upto, now)
                effects += go_on_with_rounds(self._state, now)
                log_full(self._state, problem)
            case LogRead():
                effects += receive_log_read(self._state, happened, now)
                effects += serve_fetch(self._state, happened, now)
            case _:
                assert_never(happened)
        return self._completed(effects, now)

    def take_on_read(self, link: LinkId, data: Sequence[bytes], now: Instant) -> list[Effect]:
        """Take the messages of one read on, as if one after the other; `signed` has to see the effects."""
        effects, at = list[Effect](), 0
        if len(data) == 1:
            return self.take_on(Received(link, data[0]), now)
        while at < len(data):
            effects += self._all_the_rest(now)
            messages = self._gathered(link, data[at:], now)
            some = data[at : at + max(1, len(messages))]
            together = self._taken_together(link, messages, some, now) if messages else None
            if together is None:
                for one in some:
                    effects += self.take_on(Received(link, one), now)
            else:
                effects += together
            at += len(some)
        return effects

    def _gathered(self, number: LinkId, data: Sequence[bytes], now: Instant) -> Sequence[Frames]:
        """Return the frames with which a read begins that may be taken on together; none if only one may."""
        state, link = self._state, self._state.links.get(number)
        if len(data) < 2 or link is None or not link.is_ready or not state.router.asks_filters_alone:
            return ()
        is_quiet = not (state.timers.is_due(now) or state.statements.intake.shown_effects)
        return gathered(data, is_client=link.role is Role.CLIENT) if is_quiet else ()

    def _taken_together(
        self, number: LinkId, messages: Sequence[Frames], data: Sequence[bytes], now: Instant
    ) -> list[Effect] | None:
        """Take frames of one stream on together; None if they do not fare alike."""
        state, link = self._state, self._state.links[number]
        turn = state.streams.turn(now)
        try:
            if link.role is Role.CLIENT:
                state.streams.publish(link, messages, data, turn)  # type: ignore[arg-type]  # of publishers
            elif state.routes.is_current(number):
                state.streams.carry(link, messages, data, turn)  # type: ignore[arg-type]  # of brokers
        except (Apart, MaiaError):
            return None
        link.heard_at, link.silent_rounds = now, 0
        return self._completed(turn.effects, now)

    def go_on(self, now: Instant) -> list[Effect] | None:
        """Do more of what the last input left to do; None if nothing is left."""
        state = self._state
        if not state.rest:
            return None
        rest = state.rest.popleft()
        link = state.links.get(rest.link)
        try:
            effects = rest.work()
        except MaiaError as problem:
            if link is None:
                raise
            effects = self._blamed(link, problem, now)
        return self._completed(effects, now)

    def _all_the_rest(self, now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        while (more := self.go_on(now)) is not None:
            effects += more
        return effects

    def evidence_changed(self, now: Instant) -> list[Effect]:
        """Decide all entries again; what is no longer permitted ends."""
        return self._finished(recheck_everything(self._state, now), now)

    def hold(self, certificates: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Put these certificates in the place of the broker's own, as when they were renewed."""
        return self._finished(hold_certificates(self._state, certificates, now), now)

    def learn(self, definitions: Mapping[str, bytes], now: Instant) -> list[Effect]:
        """Answer questions about these types too, and look for their keys, as if they had been kept."""
        state = self._state
        learned = state.types.reload(definitions, now)
        learned += [
            *look_for_keys(state, list(state.types.sealed()), now),
            *recheck_own_interests(state, now),
        ]
        return self._finished(learned, now)

    def join(self, seeds: tuple[str, ...], now: Instant) -> list[Effect]:
        """Join the network through these brokers from now on."""
        return self._finished(peers.join(self._state, seeds, now), now)

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...], now: Instant) -> list[Effect]:
        """Put these constitutions of quorums in the place of those known before."""
        return self._finished(adopt_constitutions(self._state, constitutions, now), now)

    def identify(self, identity: SignedIdentity, now: Instant) -> list[Effect]:
        """Show this statement about the broker from now on, as when it was renewed."""
        return self._finished(show_own_identity(self._state, identity, self._state.links.values()), now)

    def not_vouched_for(self, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return certificates in use here that demand a statement which is not at hand."""
        return certificates_without_statement(self._state, now)

    def hear(self, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Accept statements that were fetched for this broker."""
        return self._finished(receive_fetched(self._state, statements, now), now)

    def take_challenges(self) -> list[Challenged]:
        """Return what key managers want to have vouched for, of this broker's own certificates."""
        keys = self._state.keys
        taken, keys.challenges = keys.challenges, []
        return taken

    def vouch(self, number: int, answers: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Bring a key manager the answers to a challenge: as many as there are, or none."""
        return self._finished(self._state.keys.member.vouch(number, answers), now)

    @property
    def deliveries(self) -> DeliveryTally:
        """Return how many rows were delivered so far, and how long that took."""
        return self._state.delivered

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: links, tables, leases, counters; no filter, no secret."""
        return status_of(self._state, now)

    def drain(self, now: Instant) -> list[Effect]:
        """Leave: say goodbye on every link, and keep what helps the next start."""
        state = self._state
        state.is_draining = True
        effects = [*state.router.leave(now), *leave_managers(state), *keep_what_changed(state)]
        for link in list(state.links.values()):
            effects += part_from(state, link, Shutdown("this broker is being stopped"))
        return self._finished(effects, now)

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

    def _received(self, link: Link, data: bytes, now: Instant) -> list[Effect]:
        if link.stage is Stage.CLOSING:
            return []  # it was on its way when the link ended
        state = self._state
        try:
            effects, message = self._sessions.receive(link, data, now)
            if message is not None:
                effects += self._said(link, message, now, data)
        except MaiaError as problem:
            effects = self._blamed(link, problem, now)
        intake = state.statements.intake
        if not intake.shown_effects:
            return effects
        shown, intake.shown_effects = intake.shown_effects, []
        return [*shown, *effects]

    def _said(self, link: Link, message: Message | Established, now: Instant, data: bytes) -> list[Effect]:
        if isinstance(message, Bye):
            fields = {"link": link.id, "peer": str(link.peer), "role": link.role.value, "code": message.code}
            gone = forget_link(self._state, link, now, f"it says: {message.message} [{message.code}]")
            return [Note("bye", fields), Close(link.id, message.code), *gone]
        if isinstance(message, Established):
            return self._sessions.ready(link, now)
        return answer(self._state, link, message, now, data)

    def _blamed(self, link: Link, problem: MaiaError, now: Instant) -> list[Effect]:
        """End a link on whose behalf something failed."""
        forget_frames(problem)
        refused = Count("maia_links_refused_total", labels={"code": problem.code})
        return [refused, *close_link(self._state, link, problem, now)]

    def _closed(self, link: Link | None, now: Instant) -> list[Effect]:
        """Take back what hung on a link, which is known until then: one thing may stand for another."""
        if link is None:
            return []
        gone = Note("disconnected", {"link": link.id, "peer": str(link.peer), "role": link.role.value})
        return [gone, *([] if link.stage is Stage.CLOSING else forget_link(self._state, link, now))]

    def _finished(self, effects: list[Effect], now: Instant) -> list[Effect]:
        return self.signed([*self._completed(effects, now), *self._all_the_rest(now)])

    def _completed(self, effects: list[Effect], now: Instant) -> list[Effect]:
        """Put what must be kept first, and ask for the next moment."""
        state = self._state
        if state.keys.is_touched:
            effects += own_rights_changed(state, now)
        if state.statements.new:
            effects += subscribe_to_issuers(state, now)
        if state.impairments.changed:
            effects += warn_of_impairments(state, now)
        if state.syncs.next or state.syncs.not_received:
            effects += go_on_with_syncs(state, now)
        if state.catch_up.is_changed:
            effects += begin_due_rounds(state, now)
            effects += tell_gaps(state, now)
        routes = state.routes
        if routes.is_changed or routes.is_sooner or routes.is_sent:
            schedule_upkeep(state, now)
        is_to_be_thinned = state.repeated.due_at <= now
        for effect in effects:
            if type(effect) is Count:
                state.counters[effect.name] += effect.amount
            elif type(effect) is Note:
                is_to_be_thinned = True
        if is_to_be_thinned:
            effects = state.repeated.thinned(effects, now)
        wake = None if state.is_draining else state.timers.promise_wake()
        if wake is not None:
            effects.append(WakeAt(wake))
        if not state.to_keep:
            return effects
        kept, state.to_keep = state.to_keep, []
        return kept + effects
