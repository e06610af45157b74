"""What follows when a client has had its certificates vouched for, or has not?

What waited is decided with the answers that count: those to this broker's own
open questions, put to this client, about this request, each once (A30). With
less than was asked for it stands on what is permitted without, if anything
is; else the request is refused, and what stood ends. Nothing else is touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.broker.links.challenges import CONNECTING, Challenges
from maia.broker.links.links import (
    Held,
    HeldEntry,
    HeldRequest,
    Link,
    ask_to_look_at_link,
    next_look_at_right_to_connect,
)
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.close import Closing
from maia.broker.sessions.entries import Entries
from maia.broker.sessions.requests import Requests
from maia.broker.timers import TimerWheel
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate
from maia.errors import MaiaError, ProtocolViolation
from maia.policy import PolicyRefusal
from maia.sessions.challenges import ChallengeDesk, Checked
from maia.validity import VouchedFor
from maia.wire.effects import LinkId
from maia.wire.messages import Failed, Hello, Vouched


@dataclass(slots=True, eq=False, repr=False)
class Continuing:
    """What goes on with one-time answers, or without."""

    authoriser: Authoriser
    statements: ValidityTracker
    one_time: ChallengeDesk[Held]
    links: dict[LinkId, Link]
    timers: TimerWheel
    challenges: Challenges
    entries: Entries
    closing: Closing
    client_requests: Requests

    def hear_vouched(self, link: Link, message: Vouched, turn: Turn) -> None:
        """Go on with what waited for these answers; what waits no longer is passed over."""
        checked = self.one_time.redeem(link.id, message, turn.now)
        if checked is None:
            turn.count("maia_late_answers_total")
            return
        turn.add(*checked.effects())
        self._go_on(link, checked, turn)

    def look_at_unanswered(self, turn: Turn) -> None:
        """Go on without the answers that did not come in time."""
        for checked in self.one_time.overdue(turn.now):
            link = self.links.get(checked.asked.link)
            if link is not None and link.is_ready:
                self._go_on(link, checked, turn)

    def _go_on(self, link: Link, checked: Checked[Held], turn: Turn) -> None:
        vouched, missing, ref = checked.vouched, checked.missing, checked.asked.ref
        match checked.asked.waits:
            case Hello():
                return  # the handshake has a deadline of its own, and goes on in `sessions/handshake.py`
            case HeldEntry(pool=pool) if checked.asked.about is CONNECTING:
                self._connect_again(link, pool, vouched, missing, turn)
            case HeldEntry(pool=pool):
                entry = link.subscriptions.get(ref) or link.advertisements[ref]
                self.entries.authorise_again(link, entry, pool, vouched, missing, turn)
            case HeldRequest(message=message, asked=asked):
                said = turn.mark()
                try:
                    self.client_requests.decide_held(link, message, asked, vouched, missing, turn)
                except ProtocolViolation:
                    raise
                except MaiaError as problem:
                    turn.drop(said)
                    turn.send(link.id, Failed(ref, problem.code, problem.message))
                    turn.refused(problem, link.peer, link=link.id, asked=type(message).__name__)
                    self._ask_about(link, ref, turn)

    def _connect_again(
        self,
        link: Link,
        pool: tuple[SignedCertificate, ...],
        vouched: VouchedFor | None,
        missing: MaiaError | None,
        turn: Turn,
    ) -> None:
        """Decide a client's right to connect with fresh answers; without them the link ends."""
        try:
            link.connect = self.authoriser.decide_connect(link.peer, pool, turn.now, link.remote, vouched)
        except PolicyRefusal as problem:
            why = missing or problem
            self.closing.close_link(link, why, turn)
            turn.refused(why, link.peer, link=link.id, asked="Connect")
            return
        self.statements.dependencies.note(link.id, link.connect.watched)
        ask_to_look_at_link(self.timers, link, next_look_at_right_to_connect(link, turn.now))

    def _ask_about(self, link: Link, ref: int, turn: Turn) -> None:
        """Ask about what stands under the reference of a request that failed, if that was put off for it."""
        entry = link.subscriptions.get(ref) or link.advertisements.get(ref)
        if entry is not None and self.challenges.is_to_be_asked_again(link, entry, turn.now):
            self.challenges.challenge_entry(link, entry, turn)
