"""What does a key server answer when a member asks for keys, or who publishes?

    JoinGroups    -> the keys of the groups that are open to it
    HistoryKeys   -> the keys that it could have had at their time
    WhoWrites     -> the certificates with which somebody publishes
    KeysHeld      -> which epoch is the newest, so that it sees what it missed
    ExpectMember  -> the keys of a right begin, before its holder asks for them

A member that asks was admitted before (`keys/links.py`). A refusal is raised, and
the server sends it to that member.

A certificate may demand a one-time test. If it opens a key group that nothing
else opens, the member is challenged, and its question waits for the answers.
They let it in for one lease at most; half way through, it is challenged again.
It is as at brokers: docs/decisions/one-time-tests.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Final

from maia.credentials import Principal, certificate_to_bytes
from maia.domain.keys.links import Held, KeyServerValidity, Links, MemberLink, Topic
from maia.domain.keys.managed_types import ManagedTypes
from maia.domain.keys.settings import DomainSettings
from maia.errors import MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.events import INSTANT_MAX, Instant
from maia.sealing.groups.manager import Delivery, GroupManager, Outcome
from maia.sealing.groups.membership import Claim, NoGroupOpen, demanded, keys_digest, requests_for, standing
from maia.sealing.keys.delivery import EncryptionKey, check_encryption_key, seal_to
from maia.sealing.keys.epochs import epoch_from_bytes, verify_epoch
from maia.sealing.keys.parcels import pack_past, past_info
from maia.sessions.challenges import Asked, ChallengeDesk, Checked, TooManyQuestions
from maia.sessions.session import goodbye
from maia.validity import VouchedFor
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, LinkId, Note, Send
from maia.wire.messages import (
    Accepted,
    ExpectMember,
    Failed,
    HistoryKeys,
    HistoryKeysReply,
    JoinGroups,
    KeysHeld,
    Vouched,
    WhoWrites,
    Writer,
)

_NO_ROOM_US: Final = 1_000_000
"""After so many microseconds a member is challenged again for whose challenge there was no room."""


@dataclass(frozen=True, slots=True)
class KeyRequestHandler:
    """Answers what members ask the manager `principal`."""

    principal: Principal
    settings: DomainSettings
    types: ManagedTypes
    links: Links
    validity: KeyServerValidity
    desk: ChallengeDesk[Held]
    random: Callable[[int], bytes] = field(repr=False)
    _again: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    """A heap of the members that are challenged again: when, whom, for keys of which type."""

    def answer(
        self, link: MemberLink, message: JoinGroups | WhoWrites | HistoryKeys | ExpectMember, now: Instant
    ) -> list[Effect]:
        """Answer a question, or raise why not."""
        match message:
            case JoinGroups() | HistoryKeys():
                return self._asked_for_keys(link, message, now)
            case WhoWrites():
                return self._tell_writer(link, message, now)
            case ExpectMember():
                claimed = self._shown(link, Principal(message.principal), message, now)
                return [*self.expect(*claimed, now), Send(link.id, encode(Accepted(message.id, None)))]

    def expect(self, manager: GroupManager, claim: Claim, now: Instant) -> list[Effect]:
        """Begin the keys of a right whose holder has not asked for them; it is handed nothing by that."""
        outcomes = manager.expect(claim, now)
        self.types.joined(manager, claim.versions)
        fields = {"principal": str(claim.principal), "type": manager.type_id.hex(), "epoch": manager.number}
        return [Note("expected", fields), *self.types.told(manager, outcomes)]

    def held(self, link: MemberLink, type_id: bytes) -> KeysHeld:
        """Say which epoch of a type is the newest, to whoever has joined it."""
        manager = self.types.get(type_id)
        if manager is None or type_id not in link.joined or manager.head is None:
            return KeysHeld(type_id, 0, None)
        return KeysHeld(type_id, manager.number, manager.head.digest)

    # -------------------------------------------------------- keys, when they are vouched for

    def _asked_for_keys(
        self, link: MemberLink, message: JoinGroups | HistoryKeys, now: Instant
    ) -> list[Effect]:
        """Answer a question for keys; where somebody has to vouch for that, once they have."""
        manager, claim = self._claimed(link, message, now)
        topic = _topic(manager, message)
        claim = replace(claim, vouched=link.answers(topic, claim.pool, now))
        challenged = self._challenged(link, message, topic, manager, claim, now)
        return challenged or self._granted(link, message, manager, claim, now)

    def _challenged(
        self,
        link: MemberLink,
        message: JoinGroups | HistoryKeys,
        topic: Topic,
        manager: GroupManager,
        claim: Claim,
        now: Instant,
    ) -> list[Effect]:
        """Ask a member to have its certificates vouched for, if its question needs that; else nothing."""
        self.desk.drop(link.id, topic)
        is_past, vouched = topic[1], claim.vouched
        held = None if vouched is None or is_past else manager.held_by(link.peer)
        most = self.settings.limits.one_time_questions_per_request
        wanted = demanded(claim, manager.grounds, now, most=most, held=held)
        # What was over then is over now: for another page of the past, the same answers do.
        if not wanted or (is_past and vouched is not None and wanted <= vouched.once):
            return []
        # Each answer costs a signature check: the quota pays for them before they are asked for.
        self.links.quota.spend(link.peer, now, requests=len(wanted))
        asked = self._asked(link, topic, message.key, message.id, message)
        return self.desk.ask(asked, wanted, now).effects()

    def _challenge_again(self, principal: Principal, manager: GroupManager, now: Instant) -> list[Effect]:
        """Ask a member to have vouched anew for what it holds, if it is here and was not asked yet."""
        claim, type_id = manager.claim_of(principal), manager.type_id
        links = [link for link in self.links.of(principal) if type_id in link.joined]
        if claim is None or claim.vouched is None or now < claim.vouched.ask_at or not links:
            return []
        # It belongs to the link that brought the answers; if that is gone, to the member's next one.
        topic = (type_id, False)
        link = next((one for one in links if topic in one.brought), links[0])
        most = self.settings.limits.one_time_questions_per_request
        wanted = demanded(claim, manager.grounds, now, most=most)
        if not wanted or self.desk.is_asked(link.id, topic):
            return []
        try:
            asked = self._asked(link, topic, link.joined[type_id], link.refs[type_id], None)
            return self.desk.ask(asked, wanted, now).effects()
        except TooManyQuestions as problem:
            self._ask_again(min(INSTANT_MAX, now + _NO_ROOM_US), principal, type_id)
            return [Count("maia_refused_total", labels={"code": problem.code})]

    def _asked(self, link: MemberLink, topic: Topic, session: bytes, ref: int, held: Held) -> Asked[Held]:
        type_id, is_past = topic
        digest = keys_digest(
            member=link.peer, manager=self.principal, type_id=type_id, session=session, is_past=is_past
        )
        return Asked(link.peer, link.id, topic, ref, digest, held)

    def _ask_again(self, at: int, principal: Principal, type_id: bytes) -> None:
        heappush(self._again, (at, principal.key, type_id))

    def hear_vouched(self, link: MemberLink, message: Vouched, now: Instant) -> list[Effect]:
        """Go on with what waited for one-time answers; what waits no longer is passed over."""
        checked = self.desk.redeem(link.id, message, now)
        if checked is None:
            return [Count("maia_late_answers_total")]
        return [*checked.effects(), *self._gone_on(link, checked, now)]

    def look(self, now: Instant) -> list[Effect]:
        """Go on without the answers that did not come in time, and ask again where it is time for that."""
        effects: list[Effect] = []
        for checked in self.desk.overdue(now):
            link = self.links.get(checked.asked.link)
            if link is not None:
                try:
                    effects += self._gone_on(link, checked, now)
                except MaiaError as problem:  # what breaks the rules in a question ends its own link alone
                    effects += self.close(link, problem)
        due: dict[tuple[bytes, bytes], None] = {}
        while self._again and self._again[0][0] <= now:
            _, key, type_id = heappop(self._again)
            due[key, type_id] = None
        for key, type_id in due:
            manager = self.types.get(type_id)
            effects += [] if manager is None else self._challenge_again(Principal(key), manager, now)
        return effects

    def next_look(self) -> Instant | None:
        """Return when a member is to be asked again, or has not answered."""
        moments = [self.desk.next_due(), *(Instant(when) for when, _, _ in self._again[:1])]
        return min((one for one in moments if one is not None), default=None)

    def _gone_on(self, link: MemberLink, checked: Checked[Held], now: Instant) -> list[Effect]:
        message, topic = checked.asked.waits, checked.asked.about
        if message is None:
            assert isinstance(topic, tuple)  # noqa: S101 - what is asked about is a topic
            return self._stay(link, topic[0], checked.vouched, now)
        try:
            manager, claim = self._claimed(link, message, now)
            claim = replace(claim, vouched=checked.vouched)
            granted = self._granted(link, message, manager, claim, now, checked.missing)
            link.bring(_topic(manager, message), claim.pool, claim.vouched)
            return granted
        except ProtocolViolation:
            raise
        except MaiaError as problem:
            return refusal_told(link, message.id, problem)

    def _stay(
        self, link: MemberLink, type_id: bytes, vouched: VouchedFor | None, now: Instant
    ) -> list[Effect]:
        """Let a member stay as far as it was vouched for anew; one that no tester vouches for is put out."""
        manager = self.types.get(type_id)
        claim = None if manager is None else manager.claim_of(link.peer)
        if manager is None or claim is None:
            return []
        known = link.brought.pop((type_id, False), None)
        if vouched is not None and known is not None:
            link.brought[type_id, False] = replace(known, vouched=vouched)
        if vouched is not None:
            self._ask_again(vouched.ask_at, link.peer, type_id)
        return self.types.told(manager, manager.vouch(link.peer, vouched, now))

    def _granted(
        self,
        link: MemberLink,
        message: JoinGroups | HistoryKeys,
        manager: GroupManager,
        claim: Claim,
        now: Instant,
        missing: MaiaError | None = None,
    ) -> list[Effect]:
        """Give what a claim opens; if that is nothing, and answers are missing, raise that they are."""
        if isinstance(message, HistoryKeys):
            return self._tell_past(link, message, manager, claim, now, missing)
        try:
            return self._join(link, message, manager, claim, now)
        except (NoGroupOpen, Unavailable) as problem:
            raise missing or problem from None

    def _claimed(
        self, link: MemberLink, message: JoinGroups | HistoryKeys, now: Instant
    ) -> tuple[GroupManager, Claim]:
        """Check who asks and for what: the encryption key, the type, the certificates, in this order."""
        shown = EncryptionKey(message.key, message.signature)
        check_encryption_key(shown, member=link.peer, manager=self.principal, session=self.links.instance)
        return self._shown(link, link.peer, message, now)

    def _shown(
        self,
        link: MemberLink,
        principal: Principal,
        message: JoinGroups | HistoryKeys | ExpectMember,
        now: Instant,
    ) -> tuple[GroupManager, Claim]:
        """Return what the certificates of a message claim for a principal, of a type that is managed here."""
        versions = self.types.definitions.verified(message.definitions, now)
        manager = self.types.of(versions)
        pool = self.links.pool_of_member(message.credentials, versions[-1].name.owner)
        claim = Claim(principal, versions, pool)
        self.validity.receive_held(link, requests_for(claim), pool, now)
        return manager, claim

    def _join(
        self, link: MemberLink, message: JoinGroups, manager: GroupManager, claim: Claim, now: Instant
    ) -> list[Effect]:
        """Let a member in, if its certificates open a group."""
        head = None if message.head is None else epoch_from_bytes(message.head)
        if head is not None:
            verify_epoch(head, self.principal)
        outcomes = manager.join(claim, head, now)
        self.types.joined(manager, claim.versions)
        link.joined[manager.type_id], link.refs[manager.type_id] = message.key, message.id
        if claim.vouched is not None:
            self._ask_again(claim.vouched.ask_at, link.peer, manager.type_id)
        fields = {**link.named(), "type": manager.type_id.hex(), "epoch": manager.number}
        return [
            Note("joined", fields),
            Count("maia_key_joins_total"),
            *_left_out(link, outcomes),
            *self.types.told(manager, outcomes, asked=(link, message.id)),
        ]

    def _tell_writer(self, link: MemberLink, message: WhoWrites, now: Instant) -> list[Effect]:
        manager = self.types.get(message.type_id)
        if manager is None or not manager.held_by(link.peer).groups:
            raise Refusal("REFUSED-NOT-A-MEMBER", "only members of a type's groups are told who publishes")
        shown = [certificate_to_bytes(one) for one in manager.writer(Principal(message.principal), now)]
        return [Send(link.id, encode(Writer(message.id, message.type_id, message.principal, shown)))]

    def _tell_past(
        self,
        link: MemberLink,
        message: HistoryKeys,
        manager: GroupManager,
        claim: Claim,
        now: Instant,
        missing: MaiaError | None,
    ) -> list[Effect]:
        """Send a reader the keys of epochs that are over, sealed to the key that it has shown.

        Those for which its certificates were good at every moment of the epoch, and the certificates of the
        publishers meanwhile. If there are none, and one-time answers are `missing`, that is why.
        """
        since, until = Instant(message.since), Instant(message.until)
        epochs, after = manager.past(claim, since=since, until=until, after=message.after, now=now)
        # Who publishes is sent to readers who may read anything of the type, as it is to members.
        reads = bool(epochs or standing(claim, manager.grounds, now).groups)
        if missing is not None and not reads:
            raise missing
        writers = manager.past_writers(now) if reads and not message.after else {}
        info = past_info(manager.type_id, manager=self.principal, reader=claim.principal)
        answers = manager.answers_among({uid for one in epochs for uid in one.keys})
        sealed = seal_to(message.key, pack_past(epochs, writers, answers), info, self.random)
        reply = HistoryKeysReply(message.id, manager.type_id, manager.terms.as_record(), sealed, after)
        fields = {**link.named(), "type": manager.type_id.hex(), "after": message.after}
        return [Note("history-told", fields), Count("maia_history_keys_total"), Send(link.id, encode(reply))]

    # -------------------------------------------------------- who has gone, and what ends with that

    # A member may be here by several links: its membership ends with the last one.
    # Its keys stay good for as long as its right (`maia.sealing.groups.manager`).

    def close(self, link: MemberLink, problem: MaiaError) -> list[Effect]:
        """End a link, and say why."""
        if self.links.pop(link.id) is None:
            return []
        return [
            *goodbye(link.id, problem),
            Note("closing", {**link.named(), "code": problem.code}),
            *self._left_all(link),
        ]

    def closed(self, link: LinkId) -> list[Effect]:
        """Take leave of a member whose link is gone."""
        gone = self.links.pop(link)
        return [] if gone is None else self._left_all(gone)

    def _left_all(self, link: MemberLink) -> list[Effect]:
        self.desk.forget_link(link.id)
        return [effect for type_id in list(link.joined) for effect in self.left(link, type_id)]

    def left(self, link: MemberLink, type_id: bytes) -> list[Effect]:
        """Let a member go, unless it is still here by another link."""
        manager = self.types.get(type_id)
        self.desk.drop(link.id, (type_id, False))
        link.brought.pop((type_id, False), None)
        if link.joined.pop(type_id, None) is None or manager is None:
            return []
        if any(type_id in other.joined for other in self.links.of(link.peer)):
            return []
        manager.leave(link.peer)
        return self.types.told(manager, [])


def refusal_told(link: MemberLink, number: int, problem: MaiaError) -> list[Effect]:
    """Return what is said, noted and counted when a question is refused."""
    return [
        Note("refused", {**link.named(), "code": problem.code}),
        Count("maia_refused_total", labels={"code": problem.code}),
        Send(link.id, encode(Failed(number, problem.code, problem.message))),
    ]


def _left_out(link: MemberLink, outcomes: Iterable[Outcome]) -> list[Effect]:
    """Return what is noted and counted where a limit kept a member's grants from being counted."""
    if not any(isinstance(one, Delivery) and one.is_cut and one.member == link.peer for one in outcomes):
        return []
    return [
        Note("grants-left-out", {**link.named(), "code": "POLICY-GRANTS-LEFT-OUT"}),
        Count("maia_grants_left_out_total"),
    ]


def _topic(manager: GroupManager, message: JoinGroups | HistoryKeys) -> Topic:
    return manager.type_id, isinstance(message, HistoryKeys)
