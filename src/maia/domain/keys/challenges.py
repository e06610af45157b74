"""When does a key server ask a member to have its certificates vouched for, and what waits for that?

A certificate may demand a one-time test. If it opens a key group that nothing
else opens, the member is challenged: it has the testers answer, and what it
asked for is decided with their answers (`keys/requests.py`). They let it in for one
lease at most; half way through, it is challenged again. It is as at brokers:
docs/decisions/one-time-tests.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from maia.credentials import Principal
from maia.credentials.validity.one_time_answers import VouchedFor
from maia.credentials.validity.validity_state import Once
from maia.domain.keys.links import Links, MemberLink, Topic
from maia.domain.keys.settings import DomainSettings
from maia.events import INSTANT_MAX, Instant
from maia.sealing.groups.manager import GroupManager
from maia.sealing.groups.membership import Claim
from maia.sealing.groups.membership import Held as HeldKeys
from maia.sealing.groups.one_time_questions import demanded, keys_digest
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.messages import HistoryKeys, JoinGroups, Vouched
from maia.wire.one_time_pending import Asked, Challenged, OneTimePending, Redeemed, TooManyQuestions

__all__ = ["Held", "HeldMember", "HeldQuestion", "KeyChallenges"]

_SECOND: Final = 1_000_000
_NO_ROOM_S: Final = 1
"""After so many seconds a member is asked about for whom there was no room."""


@dataclass(frozen=True, slots=True)
class HeldQuestion:
    """A question for keys that is decided when its certificates are vouched for."""

    topic: Topic
    message: JoinGroups | HistoryKeys = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeldMember:
    """A member that stays if it is vouched for anew."""

    type_id: bytes

    @property
    def topic(self) -> Topic:
        """Return what it holds: keys of the present."""
        return self.type_id, False


Held: TypeAlias = HeldQuestion | HeldMember


class KeyChallenges:
    """What one key server has asked its members, and whom it is going to ask."""

    __slots__ = (
        "_again",
        "_desk",
        "_dues",
        "_links",
        "_principal",
        "_random",
        "_refs",
        "_settings",
        "_waiting",
    )

    def __init__(
        self, principal: Principal, settings: DomainSettings, links: Links, random: Callable[[int], bytes]
    ) -> None:
        """Begin with nobody asked."""
        self._principal, self._settings, self._links, self._random = principal, settings, links, random
        self._desk: OneTimePending[Held] = OneTimePending(settings.limits.one_time)
        self._refs = count(1)  # a member numbers its questions as it likes, and these are never the same
        self._waiting: dict[tuple[LinkId, Topic], int] = {}
        """Under which reference a link was asked about a topic: of each the latest."""
        self._dues: list[int] = []  # a heap; a moment at which nothing waits any more is looked at in vain
        self._again: list[tuple[int, bytes, bytes]] = []  # a heap: when, whom, of which type

    def __len__(self) -> int:
        """Return how many challenges are open."""
        return len(self._desk)

    # -------------------------------------------------------- asking

    def ask(
        self,
        link: MemberLink,
        message: JoinGroups | HistoryKeys,
        topic: Topic,
        manager: GroupManager,
        claim: Claim,
        now: Instant,
    ) -> list[Effect]:
        """Ask a member to have its certificates vouched for, if its question needs that; else nothing."""
        self.drop(link, topic)
        is_past, vouched = topic[1], claim.vouched
        held = None if vouched is None or is_past else manager.held_by(link.peer)
        wanted = self._demanded(claim, manager, now, held)
        # What was over then is over now: for another page of the past, the same answers do.
        if not wanted or (is_past and vouched is not None and wanted <= vouched.once):
            return []
        # Each answer costs a signature check: the quota pays for them before they are asked for.
        self._links.spend(link, now, requests=len(wanted))
        digest = self._digest(link, topic, message.key)
        asked = Asked(link.peer, link.id, next(self._refs), digest, HeldQuestion(topic, message))
        return self._challenged(asked, message.id, wanted, now)

    def again(self, principal: Principal, type_id: bytes, vouched: VouchedFor) -> None:
        """Have a member asked again before the answers that let it in have served."""
        heappush(self._again, (vouched.ask_at, principal.key, type_id))

    def due(self, now: Instant) -> list[tuple[Principal, bytes]]:
        """Return which members are to be asked again, each of which type."""
        found: dict[tuple[bytes, bytes], None] = {}
        while self._again and self._again[0][0] <= now:
            _, key, type_id = heappop(self._again)
            found[key, type_id] = None
        return [(Principal(key), type_id) for key, type_id in found]

    def ask_again(self, principal: Principal, manager: GroupManager, now: Instant) -> list[Effect]:
        """Ask a member to have vouched anew for what it holds, if it is here and was not asked yet."""
        claim, type_id = manager.claim_of(principal), manager.type_id
        links = [link for link in self._links.of(principal) if type_id in link.joined]
        if claim is None or claim.vouched is None or now < claim.vouched.ask_at or not links:
            return []
        # It belongs to whoever brought the answers; if that link is gone, to the member's next one.
        member = HeldMember(type_id)
        link = next((one for one in links if member.topic in one.brought), links[0])
        wanted = self._demanded(claim, manager, now)
        if not wanted or (link.id, member.topic) in self._waiting:
            return []
        digest = self._digest(link, member.topic, link.joined[type_id])
        asked = Asked(principal, link.id, next(self._refs), digest, member)
        try:
            return self._challenged(asked, link.refs[type_id], wanted, now)
        except TooManyQuestions as problem:
            heappush(self._again, (_later(now, _NO_ROOM_S), principal.key, type_id))
            return [Count("maia_refused_total", labels={"code": problem.code})]

    def _demanded(
        self, claim: Claim, manager: GroupManager, now: Instant, held: HeldKeys | None = None
    ) -> frozenset[Once]:
        most = self._settings.limits.one_time.questions_per_request
        return demanded(claim, manager.grounds, now, most=most, held=held)

    def _digest(self, link: MemberLink, topic: Topic, session: bytes) -> bytes:
        type_id, is_past = topic
        return keys_digest(
            member=link.peer, manager=self._principal, type_id=type_id, session=session, is_past=is_past
        )

    def _challenged(
        self, asked: Asked[Held], number: int, wanted: frozenset[Once], now: Instant
    ) -> list[Effect]:
        """Open a challenge; the member knows what it is about by the number of its own question."""
        seconds = min(self._settings.limits.one_time.seconds, max(1, self._settings.lease_s // 2))
        until = _later(now, seconds)
        challenged = self._desk.ask(asked, wanted, until=until, now=now, random=self._random)
        self._waiting[asked.link, asked.waits.topic] = asked.ref
        heappush(self._dues, until)
        said = encode(challenged.message(number, seconds))
        return [Send(asked.link, said), Count("maia_challenges_total")]

    # -------------------------------------------------------- answers

    def redeem(self, link: MemberLink, message: Vouched, now: Instant) -> Redeemed[Held] | None:
        """Close a challenge with what came as answers; None if it is not open on this link."""
        redeemed = self._desk.redeem(link.id, message.id, message.answers, now)
        if redeemed is not None:
            self._forget(redeemed.challenged)
        return redeemed

    def serving(self, once: frozenset[Once], now: Instant) -> VouchedFor | None:
        """Return what may rest on answers that came now: something for one lease, or nothing."""
        return VouchedFor.for_a_lease(once, now, self._settings.lease_s)

    def overdue(self, now: Instant) -> list[Challenged[Held]]:
        """Close and return the challenges that are waited for no longer."""
        if not self._dues or self._dues[0] > now:
            return []
        while self._dues and self._dues[0] <= now:
            heappop(self._dues)
        late = self._desk.overdue(now)
        for challenged in late:
            self._forget(challenged)
        return late

    def _forget(self, challenged: Challenged[Held]) -> None:
        del self._waiting[challenged.asked.link, challenged.asked.waits.topic]

    def drop(self, link: MemberLink, topic: Topic) -> None:
        """Forget what was asked on a link about a topic: it is left, or asked for anew."""
        number = self._waiting.pop((link.id, topic), None)
        if number is not None:
            self._desk.drop(link.id, number)

    def forget(self, link: MemberLink) -> None:
        """Forget everything that was asked on a link that is gone."""
        for topic in [topic for number, topic in self._waiting if number == link.id]:
            self.drop(link, topic)

    def next_look(self) -> Instant | None:
        """Return when somebody is to be asked, or has not answered."""
        moments = [*self._dues[:1], *(when for when, _, _ in self._again[:1])]
        return Instant(min(moments)) if moments else None


def _later(now: Instant, seconds: int) -> Instant:
    return Instant(min(INSTANT_MAX, now + seconds * _SECOND))
