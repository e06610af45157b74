"""What waits until certificates are vouched for anew, and how does it go on?

A certificate may demand a one-time test. If it leads to a permit, and to more than was permitted without it,
the client is challenged: it has the testers answer. Here is the one place in which a request, an entry or a
connection waits for that, together with how it goes on: with the answers that count, which are those to this
broker's own open questions, put to this client, about this request, each once (A30); or without. An answer
serves one authorisation, and that stands for one lease at most; half way through, the client is challenged
again. Why so: docs/decisions/one-time-tests.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from maia.broker.links.links import Link, ask_to_look_at_link, ask_to_recheck
from maia.broker.own import Own
from maia.broker.refusals import TooManyQuestions
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.timers import OneTimeAnswers, TimerWheel
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate
from maia.errors import MaiaError
from maia.events import Instant, seconds_after
from maia.policy import PolicyRefusal, Request, request_digest
from maia.sessions.admission import RequestQuota
from maia.sessions.challenges import CONNECTION, Asked, ChallengeDesk, Checked
from maia.validity import Once, VouchedFor
from maia.wire.effects import LinkId
from maia.wire.messages import Hello, Vouched

CONNECTING: Final = None
"""What a challenge about the right to connect is about, in place of a client's reference."""
_NO_ROOM_S: Final = 1.0
"""After so many seconds a standing entry is asked about for which there was no room."""


class Answers(NamedTuple):
    """Who has vouched for certificates, for one request, and what to say if that was not everybody."""

    vouched: VouchedFor | None = None
    missing: MaiaError | None = None


GoOn: TypeAlias = Callable[[Answers, Turn], None]
Waits: TypeAlias = GoOn | Hello
"""How what waits goes on; a hello goes on in the handshake, which has a deadline of its own."""


@dataclass(slots=True, eq=False, repr=False)
class Pending:
    """What waits for one-time answers."""

    own: Own
    authoriser: Authoriser
    quota: RequestQuota
    one_time: ChallengeDesk[Waits]
    timers: TimerWheel
    links: Mapping[LinkId, Link]

    def ask_first(
        self,
        link: Link,
        ref: int | None,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        waits: Waits,
        turn: Turn,
    ) -> bool:
        """Ask a client to have certificates vouched for, if a request or hello needs that; say whether so."""
        now, beyond = turn.now, None  # what is to be seen without any answers
        if not isinstance(waits, Hello):
            with suppress(PolicyRefusal):
                beyond = self.authoriser.decide(request, pool, now, link.circumstances).view
        wanted = self.authoriser.demanded(request, pool, now, link.circumstances, beyond=beyond)
        if not wanted:
            return False
        # Each answer costs a signature check: the quota pays for them before they are asked for.
        self.quota.spend(link.peer, now, requests=len(wanted))
        self._ask(link, ref, request, waits, wanted, turn)
        return True

    def ask_again(self, link: Link, ref: int | None, right: Authorisation, go_on: GoOn, turn: Turn) -> None:
        """Ask a client to have vouched anew for what stands, or for what it could depend on besides."""
        now, beyond = turn.now, None if right.vouched is not None else right.view
        wanted = self.authoriser.demanded(right.request, right.pool, now, right.terms.around, beyond=beyond)
        if not wanted:
            return
        try:
            self._ask(link, ref, right.request, go_on, wanted, turn)
        except TooManyQuestions as problem:
            look = ask_to_look_at_link if ref is CONNECTING else ask_to_recheck
            look(self.timers, link, seconds_after(now, _NO_ROOM_S))
            turn.count("maia_refused_total", code=problem.code)

    def is_due(self, link: Link, ref: int | None, right: Authorisation | None, now: Instant) -> bool:
        """Return whether what stands has to be vouched for anew, and its holder was not asked yet."""
        vouched = None if right is None else right.vouched
        return vouched is not None and vouched.ask_at <= now and not self.one_time.is_asked(link.id, ref)

    def _ask(
        self, link: Link, ref: int | None, request: Request, waits: Waits, wanted: frozenset[Once], turn: Turn
    ) -> None:
        shown = CONNECTION if ref is CONNECTING else ref
        asked = Asked(link.peer, link.id, ref, shown, request_digest(request), waits)
        seconds_max = None if link.is_ready else self.own.settings.limits.handshake_s
        challenge = self.one_time.ask(asked, wanted, turn.now, seconds_max=seconds_max)
        self.timers.add(OneTimeAnswers(), challenge.until)
        turn.add(*challenge.effects())

    # ------------------------------------------------------------ going on

    def hear(self, link: Link, message: Vouched, turn: Turn) -> None:
        """Go on with what waited for these answers; what waits no longer is passed over."""
        checked = self.one_time.redeem(link.id, message, turn.now)
        if checked is None:
            turn.count("maia_late_answers_total")
            return
        turn.add(*checked.effects())
        _go_on(checked, turn)

    def give_up(self, turn: Turn) -> None:
        """Go on without the answers that did not come in time."""
        for checked in self.one_time.overdue(turn.now):
            link = self.links.get(checked.asked.link)
            if link is not None and link.is_ready:
                _go_on(checked, turn)


def _go_on(checked: Checked[Waits], turn: Turn) -> None:
    waits = checked.asked.waits
    if not isinstance(waits, Hello):
        waits(Answers(checked.vouched, checked.missing), turn)
