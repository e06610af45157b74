"""How does a link end, and what goes with it?

Everything that hung on the link: advertisements, subscriptions, what a
neighbouring broker had told. The rest of the network hears of it at once. A
broker that stops tells nobody what went with each of its links: its
neighbours forget all that it told when theirs ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.route_sync import RouteSyncs
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.links.links import Link, Stage
from maia.broker.links.pending import Pending
from maia.broker.log.recording import Recording
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.entries import Entries, let_go
from maia.broker.streams.log_requests import LogRequests
from maia.broker.streams.state_query import StateAnswers
from maia.broker.timers import IdentityExpires, TimerWheel
from maia.broker.turn import Turn
from maia.errors import MaiaError
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
    log_requests: LogRequests
    syncs: RouteSyncs
    impairments: Impairments
    timers: TimerWheel
    entries: Entries
    state_answers: StateAnswers

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
        self.syncs.forget(link.id, turn)
        if self.recording is not None:
            self.recording.link_gone(link.id)
        self.log_requests.link_gone(link.id, turn)
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
        elif link.dialled is not None:
            self.router.dial_failed(link.dialled, turn)
            self.impairments.seed_refused(link.dialled, why)


def _say_goodbye(link: Link, problem: MaiaError, turn: Turn) -> None:
    turn.add(*goodbye(link.id, problem))
    turn.note("closing", link=link.id, peer=str(link.peer), role=link.role.value, code=problem.code)
