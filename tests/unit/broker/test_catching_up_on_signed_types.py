"""What a broker fetches of a signed type before it hears again who may publish it is not lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker.log.progress import identity_of
from maia.credentials import Action, SignedCertificate, TestKind
from maia.events import seconds_after
from maia.testing import Issuer
from maia.wire.codec import decode_recorded
from maia.wire.messages import Message, Ping, StateFrame
from support.numberplate import NUMBERPLATE, READ, RECORDING, WRITE, Net, sighting

CAMERA, READER = "camera at Victoria", "CCS"
FIRST, LAST = "CCS broker", "Met broker"


def withhold(message: Message) -> Message:
    """Lose the answers to what a broker asks about the present state: an issuer's last statements are one."""
    return Ping(1) if isinstance(message, StateFrame) else message


def with_tested_right(net: Net) -> tuple[SignedCertificate, ...]:
    """Return the camera's certificates, whose right to publish is to be confirmed by lists of CCS."""
    to, name = net.cast.principal(CAMERA), net.cast.type_name.name
    right = net.cast.grant("CCS", to, net.cast.definition, Action.PUBLISH, test=TestKind.TIMED_CRL)
    others = [
        one
        for one in net.cast.certificates
        if one.certificate.subject != to or name not in str(one.certificate.authority.resources)
    ]
    return (*others, right)


@pytest.mark.parametrize("own_test", [None, TestKind.TIMED_CRL])
def test_what_is_fetched_before_the_list_that_confirms_its_publisher_is_asked_for_again(
    own_test: TestKind | None,
) -> None:
    """A broker was down for longer than the list that it has kept holds, and the next one comes late."""
    net = Net(open_borders=True, lease_s=3600)
    net.cast = net.cast.defined(replace(net.cast.definition.definition, signed=True))
    net.entitle(FIRST, READ, WRITE)
    net.entitle(LAST, READ, test=own_test)
    net.broker(FIRST, recording=RECORDING)
    net.broker(LAST, seeds=[FIRST], recording=RECORDING)
    issuers, end = [Issuer(net, who, FIRST) for who in ("CCS", "PITO")], seconds_after(net.now, 30)
    for issuer in issuers:
        issuer.vouch(30)
    camera = net.client(CAMERA, FIRST, credentials=with_tested_right(net))
    offer = camera.advertise()
    reader = net.client(READER, LAST)
    assert reader.was_accepted(reader.durable())

    def sees(*numbers: int) -> None:
        for number in numbers:
            camera.publish(offer, sighting(f"plate {number}"), sequence=number)

    def recorded() -> list[int]:
        return [identity_of(decode_recorded(one.data))[1] for one in net.log(LAST).safe]

    sees(0, 1)
    net.crash(LAST)
    sees(2, 3)
    net.advance(25)
    for issuer in issuers:
        issuer.vouch(3600, since=end)
    net.advance(25)
    net.tamper = withhold
    net.restart(LAST)
    net.advance(10)
    assert recorded() == [0, 1]
    net.tamper = None
    net.advance(20)
    assert recorded() == [0, 1, 2, 3]
    sees(4)
    again = net.client(READER, LAST)
    again.durable()
    net.settle()
    assert [one[NUMBERPLATE] for one in again.logged_events()] == [f"plate {number}" for number in range(5)]
    assert net.brokers[LAST].noted("events-missed") == []
