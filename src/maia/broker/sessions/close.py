"""How does a link end, and what goes with it?

Everything that hung on the link: advertisements, subscriptions, what a
neighbouring broker had told. The rest of the network hears of it at once. A
broker that stops tells nobody what went with each of its links: its
neighbours forget all that it told when theirs ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.route_sync import RouteSyncs
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.links.links import Link, Role, Stage, ask_to_look_at_link, next_look_at_right_to_connect
from maia.broker.links.pending import CONNECTING, Answers, Pending
from maia.broker.log.recording import Recording
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.entries import Entries, let_go
from maia.broker.sessions.type_queries import TypeQueries
from maia.broker.streams.log_requests import LogRequests
from maia.broker.streams.state_query import StateAnswers
from maia.broker.timers import IdentityExpires, TimerWheel
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate
from maia.errors import MaiaError, Unavailable
from maia.policy import PolicyRefusal
from maia.sessions.admission import Places
from maia.sessions.session import goodbye
from maia.wire.effects import LinkId


@dataclass(slots=True, eq=False, repr=False)
class Closing:
    """How links end."""

    routes: Routes
    statements: ValidityTracker
    pending: Pending
    waiting: Places[LinkId]
    router: Router
    links: dict[LinkId, Link]
    identities: LinkIdentities
    recording: Recording | None
    named_rights: NamedRights
    log_requests: LogRequests
    syncs: RouteSyncs
    impairments: Impairments
    timers: TimerWheel
    entries: Entries
    state_answers: StateAnswers
    type_queries: TypeQueries

    def close_link(self, link: Link, problem: MaiaError, turn: Turn) -> None:
        """End a link from this side, and say why."""
        if link.stage is not Stage.CLOSING:
            _say_goodbye(link, problem, turn)
            self.forget_link(link, turn, f"{problem.message} [{problem.code}]")

    def part_from(self, link: Link, problem: MaiaError, turn: Turn) -> None:
        """End a link of a broker that stops: all links go, so what went with this one is told to nobody."""
        if link.stage is Stage.CLOSING:
            return
        link.stage = Stage.CLOSING
        for subscription in link.subscriptions.values():
            if subscription.cursor is not None:
                let_go(subscription.cursor, turn)
        _say_goodbye(link, problem, turn)

    def forget_link(self, link: Link, turn: Turn, why: str = "") -> None:
        """Take back whatever hung on a link that is gone or going, for a reason that one side has given."""
        was_ready = link.is_ready
        link.stage = Stage.CLOSING
        self.waiting.leave(link.id)
        if not was_ready and link.dialled is None:
            # It never was anybody: its place is free at once, however long its peer takes to hang up (A88).
            self.links.pop(link.id, None)
        self.state_answers.link_gone(link.id, turn)
        self.type_queries.link_gone(link.id, turn)
        self.syncs.forget(link.id, turn)
        if self.recording is not None:
            self.recording.link_gone(link.id)
        self.log_requests.link_gone(link.id, turn)
        self.named_rights.link_gone(link.id)
        self.statements.dependencies.forget(link.id)
        self.timers.reset(IdentityExpires(link.id), None)
        self.identities.hold(link.id, None)
        self.routes.spill.forget(link.id)
        self.pending.one_time.forget_link(link.id)
        self.entries.end_subscriptions(link, list(link.subscriptions.values()), turn)
        for advertisement in list(link.advertisements.values()):
            self.entries.end_advertisement(link, advertisement, turn)
        if was_ready:
            self.router.neighbour_gone(link, turn)
            self.routes.foreign.discard(link.id)
            self.routes.borders.discard(link.id)
        elif link.dialled is not None:
            self.router.dial_failed(link.dialled, turn)
            self.impairments.seed_refused(link.dialled, why)


def _say_goodbye(link: Link, problem: MaiaError, turn: Turn) -> None:
    turn.add(*goodbye(link.id, problem))
    turn.note("closing", link=link.id, peer=str(link.peer), role=link.role.value, code=problem.code)


# ------------------------------------------------------------ rights to connect
#
# Asked when the right may have ended, when certificates count no more or again, when more of them are shown,
# and when one-time answers came. A peer without it loses its link.


@dataclass(slots=True, eq=False, repr=False)
class Connections:
    """The rights to connect of all peers."""

    authoriser: Authoriser
    statements: ValidityTracker
    timers: TimerWheel
    pending: Pending
    closing: Closing

    def look(self, link: Link, turn: Turn) -> None:
        """End a handshake that takes too long; of a ready link, ask about its peer's right."""
        if not link.is_ready:
            self.closing.close_link(
                link, Unavailable("UNAVAILABLE-HANDSHAKE-TIME", "the handshake took too long"), turn
            )
        elif self.recheck(link, turn):
            self._look_later(link, turn)
            right = link.connect
            if right is not None and self.pending.is_due(link, CONNECTING, right, turn.now):
                go_on = partial(self._with_answers, link, right.pool)
                self.pending.ask_again(link, CONNECTING, right, go_on, turn)

    def recheck(self, link: Link, turn: Turn) -> bool:
        """Part from a peer whose right to connect has ended; say whether it has not."""
        assert link.connect is not None  # noqa: S101 - a link is ready only after its right was decided
        return self._decided(link, partial(self.authoriser.still, link.connect, turn.now), turn)

    def evidence_changed(self, link: Link, certificates: frozenset[bytes], turn: Turn) -> bool:
        """Decide the right again, if it depends on one of these certificates; say whether it holds."""
        connect = link.connect
        if connect is None or not connect.depends_on(certificates):
            return True
        return self._decided(link, partial(self.authoriser.decide_again, connect, turn.now), turn, "Connect")

    def _with_answers(
        self, link: Link, pool: tuple[SignedCertificate, ...], answers: Answers, turn: Turn
    ) -> None:
        """Decide a client's right to connect with fresh answers; without them the link ends."""
        decide = self.authoriser.decide_connect
        try:
            self._hold(link, decide(link.peer, pool, turn.now, link.circumstances, answers.vouched))
        except PolicyRefusal as problem:
            why = answers.missing or problem
            self.closing.close_link(link, why, turn)
            turn.refused(why, link.peer, link=link.id, asked="Connect")
            return
        self._look_later(link, turn)

    def show_more(self, link: Link, turn: Turn) -> None:
        """Decide the right with all that was shown: of what came with the hello, some was not read (A87)."""
        if link.connect is not None and link.role is Role.CLIENT:
            try:
                shown = self.authoriser.pool(link.shown)
                self._hold(link, self.authoriser.left_of(link.connect, shown, turn.now))
            except PolicyRefusal:
                pass  # looked at when its moment comes, as ever: more evidence takes nothing away

    def _decided(
        self, link: Link, decide: Callable[[], Authorisation], turn: Turn, asked: str | None = None
    ) -> bool:
        try:
            self._hold(link, decide())
        except PolicyRefusal as problem:
            self.closing.close_link(link, problem, turn)
            if asked is not None:
                turn.refused(problem, link.peer, link=link.id, asked=asked)
            return False
        return True

    def _hold(self, link: Link, right: Authorisation) -> None:
        link.connect = right
        self.statements.dependencies.note(link.id, right.watched)

    def _look_later(self, link: Link, turn: Turn) -> None:
        ask_to_look_at_link(self.timers, link, next_look_at_right_to_connect(link, turn.now))
