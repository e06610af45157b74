"""A74, A77, A89: whatever peers make a broker remember has a bound, and each bound is reached here.

A case says where its limit is set and how a peer fills what it bounds, message
by message. The limit is made small, more is said than it lets in, and the size
is checked after each message: it grows to the limit and never beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from types import ModuleType
from typing import Any

import pytest

from maia.broker import BrokerLimits
from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.interests import received, routes
from maia.broker.keys import publisher_rights as writers
from maia.broker.rights import authoriser as edge
from maia.credentials import (
    FIRST_VERSION,
    Action,
    Principal,
    RevocationList,
    SignedCertificate,
    SigningKey,
    TestKind,
    TypeName,
    TypePattern,
    exact_name,
    sign_statement,
)
from maia.credentials.identity import Identity
from maia.events import AttributeUid, Instant
from maia.predicates import ALWAYS, Comparison, Operator
from maia.routing.overlay.table import node_id_of_key
from maia.sessions import admission
from maia.testing import NetClient, key_of, shown
from maia.testing import grant as granted
from maia.types import type_id
from maia.wire.effects import LinkId
from maia.wire.messages import (
    Interest,
    NodeRecord,
    Replica,
    SealedDoubted,
    SealedRights,
    Wanted,
)
from maia.wire.names import filter_to_bytes
from support.key_groups import KeyNet, grant
from support.key_groups import key_of as member_key_of
from support.numberplate import EVERY_KEY, LOCATION, READ, WRITE, Net, SealedNet, sighting
from support.numberplate import RECORDING as EVERYTHING_RECORDED
from support.sealed_messages import is_sealed, made_up_proof

LIMIT = 4
STEPS = 2 * LIMIT + 2

ROGUE = SigningKey.from_seed(b"\x0f" * 32)
Sizes = Iterator[int]


def rogue_broker(net: Net, at: str = "CCS broker") -> NetClient:
    """Connect a key with nothing but a right to connect; it says that it is a broker."""
    credentials = (net.cast.broker_right(ROGUE),)
    return net.client("a rogue broker", at, key=ROGUE, credentials=credentials, address="rogue:1")


def fresh_key(number: int) -> SigningKey:
    return SigningKey.from_seed(sha256(b"stranger %d" % number).digest())


def the_type(net: Net) -> bytes:
    name = net.cast.type_name
    return type_id(name.owner, name.name)


def one_broker(**limits: int) -> tuple[Net, Any]:
    net = Net(verify_in_transit=1.0, limits=BrokerLimits(**limits))
    return net, net.broker().parts


# ------------------------------------------------------------ how each is filled


def pools(**limits: int) -> Sizes:
    """Readers show different certificates, all of which lead somewhere."""
    net, state = one_broker(**limits)
    for number in range(STEPS):
        more = net.cast.connect_right(fresh_key(number).principal)
        office = net.client("billing office", credentials=(*net.cast.certificates, more))
        assert office.was_accepted(office.subscribe())
        yield len(state.authoriser._pools)


def evidence(**limits: int) -> Sizes:
    """Chains that were found in those pools."""
    net, state = one_broker(**limits)
    for number in range(STEPS):
        more = net.cast.connect_right(fresh_key(number).principal)
        office = net.client("billing office", credentials=(*net.cast.certificates, more))
        assert office.was_accepted(office.subscribe())
        yield len(state.authoriser._found)


def refused_certificates(**limits: int) -> Sizes:
    """A broker shows revoked certificates, with one interest after the other; they were a proof once."""
    net, state = one_broker(**limits)
    rogue, owner = rogue_broker(net), fresh_key(STEPS)
    neighbour = state.routes.neighbours[node_id_of_key(ROGUE.principal.key)]
    name = TypeName(owner.principal, "of-its-own", FIRST_VERSION)
    askers = [NetClient(net, fresh_key(number), ()) for number in range(STEPS)]
    rights = [right_to_read(owner, asker.principal) for asker in askers]
    revoked = RevocationList(owner.principal, 1, None, frozenset(right.id for right in rights))
    state.statements.monitor.receive(sign_statement(revoked, owner), net.now)
    for number, (asker, right) in enumerate(zip(askers, rights, strict=True)):
        proof = asker.request(Action.SUBSCRIBE, event_type=name)
        wanted = Wanted(b"%016d" % number, filter_to_bytes(ALWAYS), proof, shown([right]))
        rogue.say(Interest(type_id(name.owner, name.name), [wanted], []))
        yield len(neighbour.refused_on)


def right_to_read(owner: SigningKey, to: Principal) -> SignedCertificate:
    """Return a right to a type, as its owner gives it who publishes lists of what it takes back."""
    return granted(
        owner,
        to,
        TypePattern(owner.principal, exact_name("of-its-own"), None),
        Action.SUBSCRIBE,
        test=TestKind.TIMED_CRL,
    )


def contacts(**limits: int) -> Sizes:
    """A broker hands over replicas of brokers that do not exist."""
    net, state = one_broker(**limits)
    rogue = rogue_broker(net)
    for number in range(STEPS):
        rogue.say(Replica(the_type(net), NodeRecord(b"%032d" % number, f"nowhere:{number}"), [], True))
        yield len(state.routes.contacts)


def sealed_rights(**limits: int) -> Sizes:
    """A broker shows rights to types for which no key is here."""
    net, state = one_broker(**limits)
    rogue = rogue_broker(net)
    link = state.links[rogue.link]
    for number in range(STEPS):
        rogue.say(SealedRights(b"%032d" % number, made_up_proof()))
        yield len(link.sealed_rights)


def signers(**limits: int) -> Sizes:
    """Frames of one sealed type are signed by many brokers."""
    net = SealedNet(limits=BrokerLimits(**limits))
    names = [f"signing broker {number}" for number in range(STEPS)]
    net.entitle("CCS broker", READ)
    for name in names:
        net.entitle(name, READ, WRITE)
    ccs = net.broker("CCS broker")
    state = ccs.parts
    net.hold(ccs, *EVERY_KEY)
    office = net.client("CCS")
    assert office.was_accepted(office.subscribe())
    for number, name in enumerate(names):
        net.hold(net.broker(name, seeds=["CCS broker"]), *EVERY_KEY)
        camera = net.client("camera at Victoria", name)
        camera.stream = b"%016d" % number
        camera.publish(camera.advertise(), sighting())
        assert len(office.events()) == number + 1
        yield len(state.writers._known)


def principals_with_a_quota(**limits: int) -> Sizes:
    """Strangers to the type ask for it, each once."""
    net, state = one_broker(**limits)
    for number in range(STEPS):
        key = fresh_key(number)
        net.client("x", key=key, credentials=(net.cast.broker_right(key),)).subscribe()
        yield len(state.dispatch.quota._buckets)


def members_with_a_quota(**limits: int) -> Sizes:
    """The same at a key server."""
    assert not limits
    net = KeyNet()
    for number in range(STEPS):
        net.member(f"member {number}", grant(member_key_of(f"member {number}")))
        yield len(net.server._links.quota._buckets)


def durable_names(**limits: int) -> Sizes:
    """Readers leave names behind, each its own."""
    net = Net()
    state = net.broker(recording=EVERYTHING_RECORDED, limits=BrokerLimits(**limits)).parts
    for number in range(STEPS):
        name = f"reader {number}"
        one = net.guest(name, net.cast.right(key_of(name).principal, Action.SUBSCRIBE))
        ref = one.durable()
        one.hang_up()
        assert one.was_accepted(ref) == (number < LIMIT)
        yield len(state.durable._cursors)


def doubted_interests(**limits: int) -> Sizes:
    """A broker doubts each of many sealed interests."""
    net = SealedNet(limits=BrokerLimits(**limits))
    ccs, third, met = net.three()
    for one in (ccs, met):
        net.hold(one, *EVERY_KEY)
    camera = net.client("camera at Victoria")
    assert camera.was_accepted(camera.advertise())
    detective = net.client("Detective Smith", "Met broker")
    rogue = rogue_broker(net, third.name)
    for number in range(STEPS):
        wanted = Comparison(LOCATION, Operator.EQ, f"street {number}")
        assert detective.was_accepted(detective.subscribe(wanted))
        told = [
            entry.id
            for _, to, message in net.carried
            if to == third.name and is_sealed(message, Interest)
            for entry in message.add
        ]
        rogue.say(SealedDoubted(net.type_id, told[-1:]))
        yield len(third.parts.key_events.rekeying.sealed.doubted)


# ------------------------------------------------------------ the claim


@dataclass(frozen=True)
class Bound:
    """A limit, as a name in a module or in the settings, and how peers reach it."""

    fills: Callable[..., Sizes]
    name: str
    module: ModuleType | None = None
    """Where the name is; None for a setting."""


BOUNDS = [
    Bound(pools, "_POOLS_MAX", edge),
    Bound(evidence, "_POOLS_MAX", edge),
    Bound(refused_certificates, "REFUSED_ON_MAX", routes),
    Bound(contacts, "_CONTACTS_MAX", routes),
    Bound(sealed_rights, "types"),
    Bound(signers, "_WRITERS_MAX", writers),
    Bound(principals_with_a_quota, "_PRINCIPALS_MAX", admission),
    Bound(members_with_a_quota, "_PRINCIPALS_MAX", admission),
    Bound(durable_names, "durable_names"),
    Bound(doubted_interests, "DOUBTED_MAX", received),
]


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.fills.__name__)
def test_what_peers_make_a_broker_remember_grows_to_its_limit_and_no_further(
    bound: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A74, A77, A89: one message too many is refused, or takes the place of the oldest."""
    if bound.module is not None:
        assert getattr(bound.module, bound.name) > STEPS
        monkeypatch.setattr(bound.module, bound.name, LIMIT)
        sizes = list(bound.fills())
    else:
        assert getattr(BrokerLimits(), bound.name) > STEPS
        sizes = list(bound.fills(**{bound.name: LIMIT}))
    assert len(sizes) == STEPS
    assert max(sizes) == LIMIT
    assert sizes[-LIMIT:] == [LIMIT] * LIMIT


def test_a89_a_peer_that_shows_one_statement_after_the_other_leaves_one_behind() -> None:
    """A89: what a statement said is forgotten with it, not with the link."""
    provider, peer = key_of("provider").principal, key_of("peer").principal
    identities = LinkIdentities()
    for number in range(3_000):
        attributes = {AttributeUid("clearance"): number}
        stated = Identity(provider, "north", peer, "peer", attributes, Instant(0), Instant(1), provider)
        identities.hold(LinkId(1), stated)
    assert len(identities._classes) <= 2
