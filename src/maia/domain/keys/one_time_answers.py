"""What follows when a member has had its certificates vouched for, or has not?

A question that waited is answered with the answers that count: those to this
server's own open questions, put to this member on this link, each once (A30).
A member that is here stays as far as it was vouched for; whoever nobody
vouches for is put out, and the keys change. Nobody else is touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.credentials.validity.one_time_answers import NO_ANSWERS
from maia.credentials.validity.validity_state import Once
from maia.domain.keys.challenges import Held, HeldMember, HeldQuestion, KeyChallenges
from maia.domain.keys.departures import Parting
from maia.domain.keys.links import Links, MemberLink
from maia.domain.keys.managed_types import ManagedTypes
from maia.domain.keys.requests import KeyRequestHandler, refusal_told
from maia.errors import MaiaError, ProtocolViolation
from maia.events import Instant
from maia.wire.effects import Count, Effect
from maia.wire.messages import Vouched
from maia.wire.one_time_pending import Challenged, NotVouchedFor, NotVouchedForInTime

__all__ = ["KeyAnswers"]


@dataclass(frozen=True, slots=True)
class KeyAnswers:
    """Goes on with what waited for one-time answers, and asks for the next ones."""

    challenges: KeyChallenges
    desk: KeyRequestHandler
    types: ManagedTypes
    links: Links
    parting: Parting

    def hear(self, link: MemberLink, message: Vouched, now: Instant) -> list[Effect]:
        """Go on with what waited for these answers; what waits no longer is passed over."""
        redeemed = self.challenges.redeem(link, message, now)
        if redeemed is None:
            return [Count("maia_late_answers_total")]
        wrong: list[Effect] = [
            Count("maia_statements_refused_total", labels={"code": problem.code})
            for problem in redeemed.problems
        ]
        refused = NotVouchedFor("a certificate of yours must be vouched for, for these keys, and was not")
        return [*wrong, *self._gone_on(link, redeemed.challenged, redeemed.once, refused, now)]

    def look(self, now: Instant) -> list[Effect]:
        """Go on without the answers that did not come in time, and ask again where it is time for that."""
        late = NotVouchedForInTime("nobody vouched in time for a certificate of yours that demands it")
        effects: list[Effect] = []
        for challenged in self.challenges.overdue(now):
            link = self.links.get(challenged.asked.link)
            if link is not None:
                effects += self._blamed(link, challenged, late, now)
        for principal, type_id in self.challenges.due(now):
            manager = self.types.get(type_id)
            effects += [] if manager is None else self.challenges.ask_again(principal, manager, now)
        return effects

    def _blamed(
        self, link: MemberLink, challenged: Challenged[Held], late: MaiaError, now: Instant
    ) -> list[Effect]:
        """Go on without answers; what breaks the rules in a question that waited ends its own link alone."""
        try:
            return self._gone_on(link, challenged, NO_ANSWERS, late, now)
        except MaiaError as problem:
            return self.parting.close(link, problem)

    def _gone_on(
        self,
        link: MemberLink,
        challenged: Challenged[Held],
        once: frozenset[Once],
        refused: MaiaError,
        now: Instant,
    ) -> list[Effect]:
        match challenged.asked.waits:
            case HeldMember(type_id=type_id):
                return self.desk.stay(link, type_id, once, now)
            case HeldQuestion(message=message):
                missing = None if challenged.wanted <= once else refused
                try:
                    return self.desk.go_on(link, message, once, missing, now)
                except ProtocolViolation:
                    raise
                except MaiaError as problem:
                    return refusal_told(link, message.id, problem)
