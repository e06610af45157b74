"""Rights that must be vouched for anew for each request, a client that has them, and who vouches."""

from __future__ import annotations

from maia.credentials import Action, SignedCertificate, SigningKey, TestKind
from maia.testing import NetClient
from maia.wire.messages import Challenge, Ping
from support.numberplate import CAMERA, NUMBERPLATE, TIMESTAMP, Net, sighting, without_right_of

BILLING = "billing office"


def once(
    net: Net, who: str = BILLING, action: Action = Action.SUBSCRIBE, **changes: object
) -> SignedCertificate:
    """Return a right of somebody by CCS, which must vouch for it for each request."""
    named: dict[str, object] = {"test": TestKind.ONE_TIME}
    if action is Action.SUBSCRIBE:
        named["attributes"] = frozenset({NUMBERPLATE, TIMESTAMP})
    return net.cast.grant("CCS", net.cast.principal(who), net.cast.definition, action, **(named | changes))


def pool_with(
    net: Net, *certificates: SignedCertificate, who: str = BILLING
) -> tuple[SignedCertificate, ...]:
    """Return the story's certificates without the right of somebody to the type, and with these."""
    return (*without_right_of(net.cast, who, net.cast.type_name.name), *certificates)


def vouch(client: NetClient, key: SigningKey | None = None, challenge: Challenge | None = None) -> None:
    """Have the last challenge answered by CCS, or by whoever holds a key."""
    client.vouch(key or client.net.cast.keys["CCS"], challenge)


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
