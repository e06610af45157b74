"""Rights that must be vouched for anew for each request, a client that has them, and who vouches."""

from __future__ import annotations

from collections.abc import Iterable

from maia.credentials import Action, SignedCertificate, SigningKey, TestKind, statement_to_bytes
from maia.validity import OneTimeQuestion, answer_question, question_from_bytes
from maia.wire.messages import Challenge, Ping, Vouched
from support.broker import Client, Net, sighting
from support.numberplate import NUMBERPLATE, TIMESTAMP
from support.revoking import grant_demanding, seeing

BILLING = "billing office"
CAMERA = "camera at Victoria"


def once(
    net: Net, who: str = BILLING, action: Action = Action.SUBSCRIBE, **changes: object
) -> SignedCertificate:
    """Return a right of somebody by CCS, which must vouch for it for each request."""
    named: dict[str, object] = {"now": net.now, "kind": TestKind.ONE_TIME}
    if action is Action.SUBSCRIBE:
        named["attributes"] = frozenset({NUMBERPLATE, TIMESTAMP})
    return grant_demanding(
        net.story, "CCS", net.story.principal(who), seeing(net.story), action, **(named | changes)
    )


def pool_with(
    net: Net, *certificates: SignedCertificate, who: str = BILLING
) -> tuple[SignedCertificate, ...]:
    """Return the story's certificates without the right of somebody to the type, and with these."""
    name = net.story.definition.definition.name.name
    kept = [
        one
        for one in net.story.certificates
        if one.certificate.subject != net.story.principal(who)
        or name not in str(one.certificate.authority.resources)
    ]
    return (*kept, *certificates)


def questions_of(challenge: Challenge) -> list[OneTimeQuestion]:
    return [question_from_bytes(data) for data in challenge.questions]


def answers_to(challenge: Challenge, key: SigningKey) -> list[bytes]:
    return [statement_to_bytes(answer_question(question, key)) for question in questions_of(challenge)]


def vouch(client: Client, key: SigningKey | None = None, challenge: Challenge | None = None) -> None:
    """Have the last challenge answered by CCS, or by whoever holds a key."""
    asked = client.last(Challenge) if challenge is None else challenge
    client.say(Vouched(asked.id, answers_to(asked, key or client.net.story.keys["CCS"])))


def refuse(client: Client, answers: Iterable[bytes] = ()) -> None:
    """Come back from the last challenge with other answers than it asked for, or with none."""
    client.say(Vouched(client.last(Challenge).id, list(answers)))


class Story:
    """A camera, and a billing office whose right must be vouched for, at one broker."""

    def __init__(self, net: Net, *, at: str = "CCS broker", answers: bool = True, **changes: object) -> None:
        self.net = net
        self.right = once(net, **changes)
        self.pool = pool_with(net, self.right)
        self.camera = net.client(CAMERA)
        self.offer = self.camera.advertise()
        self.billing = net.client(BILLING, at, credentials=self.pool)
        self.asked = self.billing.request(Action.SUBSCRIBE)
        self.ref = self.billing.subscribe(request=self.asked)
        if answers:
            vouch(self.billing)

    def renew(self) -> None:
        """Say that all still stands: the leases, and nobody's word on anything."""
        self.camera.say(Ping(0))
        self.billing.renew_all({self.ref: self.asked})
        self.offer = self.camera.advertise(ref=self.offer)

    def time_passes(self, seconds: float, *, answers: bool = True) -> None:
        """Let time pass, renewing leases and answering challenges as a client does."""
        for _ in range(round(seconds / 5)):
            before = len(self.billing.all_heard(Challenge))
            self.net.advance(5)
            if answers and len(self.billing.all_heard(Challenge)) > before:
                vouch(self.billing)
            self.renew()

    def sees(self) -> int:
        before = len(self.billing.events())
        self.camera.publish(self.offer, sighting())
        return len(self.billing.events()) - before
