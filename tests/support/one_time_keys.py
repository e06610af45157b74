"""A key server whose members' certificates are vouched for anew for each request, by a tester in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from maia.credentials import (
    OnlineTest,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    issue,
    sign_statement,
)
from maia.events import AttributeUid
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import MemberSettings
from maia.sessions.challenges import Challenged
from maia.testing import NetBroker
from maia.validity import Monitor, OneTimeQuestion, answer_question
from maia.wire.codec import decode
from maia.wire.effects import Effect
from maia.wire.messages import Challenge
from support.key_groups import NETWORK, OWNER, KeyNet, Member, connects, grant, key_of, random_from

TESTER = key_of("tester")
LEASE_S = 60
WAIT_S = 20


def asked_each_time(signed: SignedCertificate, by: SigningKey = TESTER) -> SignedCertificate:
    """Return the same certificate, but one that `by` must vouch for anew for each request."""
    said = signed.certificate
    validity = said.validity.with_tests(OnlineTest(TestKind.ONE_TIME, by.principal))
    return issue(replace(said, validity=validity), OWNER)


def reading(name: str, *uids: AttributeUid, **bounds: float) -> SignedCertificate:
    """Let somebody read these, if it is vouched for each time."""
    return asked_each_time(grant(key_of(name), uids, **bounds))  # type: ignore[arg-type]


def revoked(number: int, *certificates: SignedCertificate, by: SigningKey = OWNER) -> SignedStatement:
    """Return a list of the owner in which these are revoked."""
    return sign_statement(
        RevocationList(by.principal, number, None, frozenset(one.id for one in certificates)), by
    )


Answering = Callable[[OneTimeQuestion], SignedStatement | None]


def vouches(question: OneTimeQuestion) -> SignedStatement | None:
    """Answer as the tester does."""
    return answer_question(question, TESTER)


def silent(_question: OneTimeQuestion) -> SignedStatement | None:
    """Answer nothing."""
    return None


class OneTimeNet(KeyNet):
    """Members that have their testers asked at once; a test may put itself between."""

    def __init__(self, **settings: object) -> None:
        self.answering: dict[str, Answering] = {}
        self.challenged: list[tuple[Member, Challenged]] = []
        self.answers: list[SignedStatement] = []
        """Every answer that was ever given."""
        self.holds_back = False
        """Whether a test brings the answers itself, or not at all."""
        self.heard: dict[str, Monitor] = {}
        super().__init__(**settings)  # type: ignore[arg-type]

    def node_of(self, name, key, pool, kept, start) -> KeyMember:  # type: ignore[no-untyped-def]
        settings = MemberSettings(NETWORK, (connects(key), *pool))
        random = random_from(self.seed + name.encode() + bytes([start]))
        standing = self.heard.setdefault(name, Monitor())
        return KeyMember(key, settings, random=random, kept=dict(kept), standing=standing)

    def perform(self, running: NetBroker, effects: list[Effect]) -> None:
        seen = len(getattr(running, "notices", ()))
        super().perform(running, effects)
        for notice in getattr(running, "notices", ())[seen:]:
            if isinstance(notice, Challenged):
                self.challenged.append((running, notice))
                if not self.holds_back:
                    self.queue.append(lambda notice=notice: self.bring(running, notice))

    def bring(self, member: Member, challenged: Challenged) -> None:
        """Have a member's challenge answered, and bring the answers."""
        answering = self.answering.get(member.name, vouches)
        found = [answer for one, _ in challenged.questions if (answer := answering(one)) is not None]
        self.answers += found
        self.perform(member, member.node.vouch(challenged.id, found))

    def challenges(self) -> list[Challenge]:
        """Return every challenge that the server has sent."""
        said = [decode(data) for _, way, data in self.trace if way == "to member"]
        return [one for one in said if isinstance(one, Challenge)]

    def tell_server(self, *statements: SignedStatement) -> None:
        """Have the domain hear statements."""
        for one in statements:
            self.serve(self.server.hear(one, self.now))
