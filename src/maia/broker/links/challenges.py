"""When does a broker ask a client to have its certificates vouched for, and what waits for that?

A certificate may demand a one-time test. If it leads to a permit, and to more
than was permitted without it, the client is challenged: it has the testers
answer, and what was asked for is decided with their answers
(`sessions/one_time_answers.py`). An answer serves one authorisation, and that stands
for one lease at most; half way through, the client is challenged again. Why
so: docs/decisions/one-time-tests.md.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from maia.broker.links.links import (
    Entry,
    Held,
    HeldEntry,
    HeldRequest,
    Link,
    ask_to_look_at_link,
    ask_to_recheck,
)
from maia.broker.own import Own
from maia.broker.refusals import TooManyQuestions
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.timers import OneTimeAnswers, TimerWheel
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate
from maia.events import Instant, seconds_after
from maia.policy import PolicyRefusal, Request, request_digest
from maia.sessions.admission import RequestQuota
from maia.sessions.challenges import CONNECTION, Asked, ChallengeDesk
from maia.validity import Once
from maia.wire.messages import Hello

CONNECTING: Final = None
"""What a challenge about the right to connect is about, in place of a client's reference."""
_NO_ROOM_S: Final = 1.0
"""After so many seconds a standing entry is asked about for which there was no room."""


@dataclass(slots=True, eq=False, repr=False)
class Challenges:
    """What clients are asked to have vouched for."""

    own: Own
    authoriser: Authoriser
    quota: RequestQuota
    one_time: ChallengeDesk[Held]
    timers: TimerWheel

    def challenge_request(
        self,
        link: Link,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        held: HeldRequest | Hello,
        turn: Turn,
    ) -> bool:
        """Ask a client to have certificates vouched for, if a request or hello needs that; say whether so."""
        now = turn.now
        beyond = None  # what is to be seen without any answers
        if not isinstance(held, Hello):
            with suppress(PolicyRefusal):
                beyond = self.authoriser.decide(request, pool, now, link.remote).view
        wanted = self.authoriser.demanded(request, pool, now, link.remote, beyond=beyond)
        if not wanted:
            return False
        # Each answer costs a signature check: the quota pays for them before they are asked for.
        self.quota.spend(link.peer, now, requests=len(wanted))
        ref = CONNECTING if isinstance(held, Hello) else held.message.id
        self._challenge(link, ref, request, held, wanted, turn)
        return True

    def challenge_entry(self, link: Link, entry: Entry, turn: Turn) -> None:
        """Ask a client to have vouched anew for an entry, or for what it could depend on besides."""
        self._challenge_again(link, entry.ref, entry.right, turn)

    def challenge_connection(self, link: Link, turn: Turn) -> None:
        """Ask a client to have its right to connect vouched for anew, if it depends on an answer."""
        right = link.connect
        is_asked = self.one_time.is_asked(link.id, CONNECTING)
        if right is None or right.vouched is None or turn.now < right.vouched.ask_at or is_asked:
            return
        self._challenge_again(link, CONNECTING, right, turn)

    def _challenge_again(self, link: Link, ref: int | None, right: Authorisation, turn: Turn) -> None:
        now, beyond = turn.now, None if right.vouched is not None else right.view
        wanted = self.authoriser.demanded(right.request, right.pool, now, right.terms.remote, beyond=beyond)
        if not wanted:
            return
        try:
            self._challenge(link, ref, right.request, HeldEntry(right.pool), wanted, turn)
        except TooManyQuestions as problem:
            if ref is CONNECTING:
                ask_to_look_at_link(self.timers, link, seconds_after(now, _NO_ROOM_S))
            else:
                ask_to_recheck(self.timers, link, seconds_after(now, _NO_ROOM_S))
            turn.count("maia_refused_total", code=problem.code)

    def is_to_be_asked_again(self, link: Link, entry: Entry, now: Instant) -> bool:
        """Say whether what stands has to be vouched for anew, and nobody was asked yet."""
        vouched = entry.right.vouched
        return (
            vouched is not None and vouched.ask_at <= now and not self.one_time.is_asked(link.id, entry.ref)
        )

    def _challenge(
        self,
        link: Link,
        ref: int | None,
        request: Request,
        held: Held,
        wanted: frozenset[Once],
        turn: Turn,
    ) -> None:
        shown = CONNECTION if ref is CONNECTING else ref
        asked = Asked(link.peer, link.id, ref, shown, request_digest(request), held)
        seconds_max = None if link.is_ready else self.own.settings.limits.handshake_s
        challenge = self.one_time.ask(asked, wanted, turn.now, seconds_max=seconds_max)
        self.timers.add(OneTimeAnswers(), challenge.until)
        turn.add(*challenge.effects())
