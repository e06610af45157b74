"""Does the peer of a link still have the right to connect?

Asked when the right may have ended, when certificates count no more or again, when more of them are shown,
and when one-time answers came. A peer without it loses its link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from maia.broker.links.links import Link, ask_to_look_at_link, next_look_at_right_to_connect
from maia.broker.links.pending import CONNECTING, Answers, Pending
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.close import Closing
from maia.broker.timers import TimerWheel
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate
from maia.errors import Unavailable
from maia.policy import PolicyRefusal


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
            self._hold(link, decide(link.peer, pool, turn.now, link.remote, answers.vouched))
        except PolicyRefusal as problem:
            why = answers.missing or problem
            self.closing.close_link(link, why, turn)
            turn.refused(why, link.peer, link=link.id, asked="Connect")
            return
        self._look_later(link, turn)

    def show_more(self, link: Link, turn: Turn) -> None:
        """Decide the right with all that was shown: of what came with the hello, some was not read (A87)."""
        if link.connect is not None:
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
