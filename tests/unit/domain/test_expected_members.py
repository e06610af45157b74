"""How a domain makes its rights known to another owner's key server, whoever answers at its addresses."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from maia.credentials import SignedCertificate, SigningKey
from maia.domain.access.service import AccessControl
from maia.domain.storage.store import memory_store
from maia.sealing.member.expected import Announcing, ExpectedMember
from maia.sealing.member.settings import MemberSettings
from maia.wire.effects import Close, Dial, DialFailed, LinkClosed, LinkId, LinkOpened, Received, Send
from support.key_groups import (
    ADDRESS,
    MANAGER,
    NETWORK,
    NOON,
    OWNER,
    PLATE,
    WRITE,
    KeyNet,
    at,
    connects,
    grant,
    key_of,
    random_from,
    sealed_type,
)

LINK, ELSEWHERE = LinkId(5000), "127.0.0.1:7599"


def right_of(net: KeyNet, name: str, *pool: SignedCertificate) -> ExpectedMember:
    return ExpectedMember(key_of(name).principal, (net.event_type,), pool)


def told(
    net: KeyNet,
    rights: Sequence[ExpectedMember],
    *,
    answers_at: Sequence[str] = (ADDRESS,),
    peer: SigningKey = MANAGER,
    domain: str = "domain",
) -> Announcing:
    """Let a domain tell the server of rights; `peer` is who answers at these addresses, and no others."""
    key = key_of(domain)
    settings = replace(MemberSettings(NETWORK, (connects(key),)), addresses=(ELSEWHERE,))
    announcing = Announcing(settings, rights, random=random_from(b"domain"))
    queue = deque(announcing.start(net.now))
    while queue and not announcing.is_over:
        match queue.popleft():
            case Dial(address=address) if address in answers_at:
                queue.extend(announcing.handle(LinkOpened(LINK, peer.principal, address), net.now))
                if peer is MANAGER:
                    queue.extend(heard(net, announcing, LinkOpened(LINK, key.principal, None)))
            case Dial(address=address):
                queue.extend(announcing.handle(DialFailed(address), net.now))
            case Send(data=data):
                queue.extend(heard(net, announcing, Received(LINK, data)))
    net.server.handle(LinkClosed(LINK), net.now)
    return announcing


def heard(net: KeyNet, announcing: Announcing, happened: LinkOpened | Received) -> list[object]:
    """Let the server take something on, and the domain what the server says to that."""
    found: list[object] = []
    for effect in net.server.handle(happened, net.now):
        match effect:
            case Send(link=link, data=data) if link == LINK:
                found += announcing.handle(Received(LINK, data), net.now)
            case Close(link=link) if link == LINK:
                found += announcing.handle(LinkClosed(LINK), net.now)
    return found


def a_net() -> KeyNet:
    net = KeyNet()
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.run(10)
    return net


def test_a_domain_tells_of_what_is_new_with_all_that_its_holder_has():
    domain = AccessControl(OWNER, memory_store())
    domain.register_type(sealed_type().signed, actor=OWNER.principal, now=NOON)
    first, renewed = grant(key_of("city"), until=500), grant(key_of("city"), since=0, until=900)
    writes = grant(key_of("camera"), actions=WRITE, until=900)
    domain.hold([first, writes], actor=OWNER.principal, now=NOON)
    (told,) = domain.take_to_tell(NOON, every=False)
    assert (told.principal, told.pool) == (key_of("city").principal, (first,))
    assert domain.take_to_tell(NOON, every=False) == []
    domain.hold([renewed], actor=OWNER.principal, now=NOON)
    (told,) = domain.take_to_tell(NOON, every=False)
    assert set(told.pool) == {first, renewed}
    assert domain.take_to_tell(NOON, every=True) == [told]
    assert not told.is_over(at(900))
    assert told.is_over(at(901))


def test_rights_are_counted_or_refused_one_by_one():
    net = a_net()
    rights = [
        right_of(net, "city", grant(key_of("city"), [PLATE], since=10)),
        right_of(net, "harbour", grant(key_of("harbour"), until=5)),
    ]
    announcing = told(net, rights)
    assert announcing.accepted == rights[:1]
    assert announcing.refused == [(rights[1], "REFUSED-NO-KEY-GROUP")]
    assert net.epoch() == 2


def test_every_address_is_tried_once():
    net = a_net()
    right = right_of(net, "city", grant(key_of("city"), [PLATE], since=10))
    assert told(net, [right], answers_at=[ELSEWHERE]).accepted == [right]
    nowhere = told(net, [right], answers_at=[])
    assert nowhere.is_over
    assert nowhere.accepted == []


def test_nothing_is_told_to_another_peer():
    net = a_net()
    right = right_of(net, "city", grant(key_of("city"), [PLATE], since=10))
    announcing = told(net, [right], answers_at=[ADDRESS, ELSEWHERE], peer=key_of("other"))
    assert announcing.is_over
    assert announcing.accepted == announcing.refused == []
    assert net.epoch() == 1
