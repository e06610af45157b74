"""A broker without keys can neither read, make, alter nor widen a sealed interest, nor silence one."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import msgspec
import pytest

from maia.broker.audiences.local_subscribers import class_key, routed_filter
from maia.broker.interests.entries import SealedClaim, parts_to_wire, proof_from_wire, proof_to_wire
from maia.canonical import write_canonical
from maia.credentials import Action, SigningKey, issue
from maia.predicates import ALWAYS, Comparison, Operator, predicate_to_expression
from maia.sealing.filters.proofs import OpenedProof, SealedShowing, open_proof, seal_proof
from maia.sealing.filters.sealed_filters import seal_filter
from maia.testing import NetClient, random_from, shown
from maia.wire.messages import (
    Bye,
    Interest,
    Offer,
    SealedDoubted,
    SealedPart,
    SealedRights,
    Wanted,
)
from maia.wire.names import filter_to_bytes
from support.numberplate import EVERY_KEY, LOCATION, NUMBERPLATE, SUSPECT, SealedNet, sightings
from support.sealed_messages import (
    is_sealed,
    made_up_proof,
    sealed_interest,
    sealed_of,
    sealed_offer,
    sealed_wanted,
)

ROGUE = SigningKey.from_seed(b"\x0f" * 32)
THE_SUSPECT = Comparison(NUMBERPLATE, Operator.EQ, SUSPECT)
AT_VICTORIA = Comparison(LOCATION, Operator.EQ, "Victoria")


def everything(epoch: int = 1) -> Wanted:
    """Return an interest in everything, as a peer without keys would write it."""
    return sealed_wanted(b"w" * 16, made_up_proof(epoch=epoch))


def changed(wanted: Wanted, **fields: object) -> Wanted:
    """Return an interest with a proof that was changed."""
    return msgspec.structs.replace(wanted, proof=msgspec.structs.replace(wanted.proof, **fields))


class World:
    """The camera's broker and the detective's with all keys, a third one between them, and a rogue."""

    def __init__(self) -> None:
        self.net = SealedNet()
        self.ccs, self.third, self.met = self.net.three()
        self.net.hold(self.ccs, *EVERY_KEY)
        self.net.hold(self.met, *EVERY_KEY)
        camera = self.net.client("camera at Victoria")
        assert camera.was_accepted(camera.advertise())

    def detective(self) -> NetClient:
        detective = self.net.client("Detective Smith", "Met broker")
        assert detective.was_accepted(detective.subscribe(AT_VICTORIA))
        return detective

    def rogue(self, at: str) -> NetClient:
        credentials = (self.net.cast.broker_right(ROGUE),)
        return self.net.client("a rogue", at, key=ROGUE, credentials=credentials, address="rogue:1")

    def told(self) -> Wanted:
        """Return the detective's interest as the third broker saw it."""
        heard = [
            wanted
            for _, to, message in self.net.carried
            if to == self.third.name and is_sealed(message, Interest)
            for wanted in message.add
        ]
        return heard[-1]

    def rows_for_rogue(self, at) -> list[int]:
        from maia.routing.overlay.table import node_id_of_key

        book = at.parts.routes.book
        frame = sightings((SUSPECT, "Victoria"), ("LC04 ABC", "Victoria"))
        found = book.targets_of_frame(self.net.key, "x", frame)
        return list(found.get(node_id_of_key(ROGUE.principal.key), ()))

    def refusals(self, at) -> list[object]:
        return [note["code"] for note in at.noted("refused")]


@pytest.fixture
def world() -> World:
    return World()


# ------------------------------------------------------------ making, altering, widening


def test_an_interest_that_no_member_made_routes_nothing_at_a_member(world):
    """A67, A52: a broker without keys asks for everything, to see which events there are."""
    rogue = world.rogue("CCS broker")
    rogue.say(sealed_interest(world.net.type_id, [everything()], []))
    assert world.rows_for_rogue(world.ccs) == []
    assert world.refusals(world.ccs) == ["SEALING-NOT-BY-A-MEMBER"]
    assert not rogue.closed


@pytest.mark.parametrize("cut", ["a part", "all parts", "the proof", "the epoch", "a mark"])
def test_an_interest_that_was_seen_cannot_be_widened(world, cut):
    """A46, A52, A67: the rogue passes on the detective's interest with less in it."""
    world.detective()
    seen, rogue = world.told(), world.rogue("CCS broker")
    remade = msgspec.structs.replace(seen.filter[0], mark=b"m" * 16)
    changes = {
        "a part": msgspec.structs.replace(seen, filter=seen.filter[:1]),
        "all parts": msgspec.structs.replace(seen, filter=[]),
        "the proof": changed(seen, box=b""),
        "the epoch": changed(seen, epoch=0),
        "a mark": msgspec.structs.replace(seen, filter=[remade, *seen.filter[1:]]),
    }
    rogue.say(sealed_interest(world.net.type_id, [changes[cut]]))
    if cut == "the epoch":  # it may be one that was before the member came; that lasts for a lease
        assert world.rows_for_rogue(world.ccs) == [0, 1]
        world.net.advance(59)
        rogue.say(sealed_interest(world.net.type_id, [changed(seen, epoch=0)]))
        world.net.advance(2)
        rogue.say(sealed_interest(world.net.type_id, [changed(seen, epoch=0)]))
    assert world.rows_for_rogue(world.ccs) == []
    assert not rogue.closed


def test_an_interest_that_was_seen_can_be_repeated_and_asks_for_no_more_than_it_did(world):
    """A52: what a broker without keys can do with an interest that it carries, and what it cannot choose."""
    world.detective()
    rogue = world.rogue("CCS broker")
    rogue.say(sealed_interest(world.net.type_id, [world.told()], []))
    assert world.rows_for_rogue(world.ccs) == [0]


def test_an_interest_that_is_replaced_by_a_bad_one_is_gone(world):
    """A67: the same id, first repeated as it was seen, then widened."""
    world.detective()
    seen, rogue = world.told(), world.rogue("CCS broker")
    rogue.say(sealed_interest(world.net.type_id, [seen], []))
    rogue.say(sealed_interest(world.net.type_id, [msgspec.structs.replace(seen, filter=[])]))
    assert world.rows_for_rogue(world.ccs) == []


def test_an_epoch_that_is_far_ahead_is_refused(world):
    """A67: no peer waits for the key of epoch 2^62."""
    rogue = world.rogue("CCS broker")
    rogue.say(sealed_interest(world.net.type_id, [everything(epoch=1 << 62)], []))
    assert world.rows_for_rogue(world.ccs) == []
    assert world.refusals(world.ccs) == ["REFUSED-SEAL-TOO-NEW"]


def test_an_epoch_that_is_ahead_is_refused_once_its_key_is_here(world):
    """A67: what was taken on trust while a key was on its way."""
    rogue = world.rogue("CCS broker")
    rogue.say(sealed_interest(world.net.type_id, [everything(epoch=2)], []))
    assert world.rows_for_rogue(world.ccs) == [0, 1]
    world.net.hold(world.ccs, *EVERY_KEY, epochs=(1, 2))
    assert world.rows_for_rogue(world.ccs) == []


def test_an_offer_that_no_member_made_attracts_nothing_from_a_member(world):
    """A67: a broker without keys says that it has publishers."""
    world.detective()
    rogue = world.rogue("Met broker")
    rogue.heard.clear()
    rogue.say(sealed_offer(world.net.type_id, made_up_proof()))
    assert sealed_of(rogue.all_heard(Interest)) == []
    assert world.refusals(world.met) == ["SEALING-NOT-BY-A-MEMBER"]


# ------------------------------------------------------------ silencing


@pytest.mark.parametrize("order", ["first", "later"])
@pytest.mark.parametrize("marks", ["none", "copied"])
def test_a_made_up_interest_silences_no_peer_at_a_broker_that_cannot_check_it(world, order, marks):
    """A67: the third broker has no keys; an interest in everything must not stand for the detective's."""
    if order == "later":
        world.detective()
    rogue = world.rogue(world.third.name)
    wanted = everything()
    if marks == "copied" and order == "later":
        parts = [SealedPart(part.uids, part.mark, b"b" * len(part.box)) for part in world.told().filter[:1]]
        wanted = msgspec.structs.replace(wanted, filter=parts)
    rogue.say(sealed_interest(world.net.type_id, [wanted], []))
    if order == "first":
        world.detective()
    assert world.net.rows_for(world.ccs, of=world.third, frame=sightings((SUSPECT, "Victoria"))) == [0]


def test_a_member_that_cannot_read_the_proof_lets_no_outsider_silence_any_peer(world):
    """A67: the same at a broker that is in the type's group and reads no attribute."""
    world.net.hold(world.third, None)
    world.detective()
    rogue = world.rogue(world.third.name)
    rogue.say(sealed_interest(world.net.type_id, [everything()], []))
    assert world.rows_for_rogue(world.third) == []
    assert world.net.rows_for(world.ccs, of=world.third, frame=sightings((SUSPECT, "Victoria"))) == [0]


def test_an_interest_that_its_own_broker_cannot_prove_represents_no_other_peer(world):
    """A67, the honest way: a broker without the key of plates, and a certificate that names plates."""
    world.net.hold(world.third, None, LOCATION)
    *connects, whole = (signed.certificate for signed in world.net.cast.certificates[:7])
    places = replace(whole, authority=replace(whole.authority, attributes=frozenset({LOCATION})))
    suspect = replace(whole, authority=replace(whole.authority, restriction=THE_SUSPECT))
    rights = [issue(one, world.net.cast.keys["PITO"]) for one in (connects[1], places, suspect)]
    client = world.net.client("CCS", world.third.name, credentials=tuple(rights))
    assert client.was_accepted(client.subscribe())
    world.detective()
    assert world.net.rows_for(world.ccs, of=world.third, frame=sightings((SUSPECT, "Victoria"))) == [0]


# ------------------------------------------------------------ members that ask for too much


def sealed_by_a_member(world: World, wanted, proof: bytes | None, certificates, *uids) -> Wanted:
    """Return what a member of the type's group could write: anything, under the right keys."""
    ring, random = world.net.ring(*EVERY_KEY), random_from(b"member")
    filter_ = seal_filter(
        wanted, type_id=world.net.type_id, epoch=1, by_attribute=True, keys=ring, random=random
    )
    opened = None if proof is None else OpenedProof(proof, tuple(shown(certificates)))
    sealed = seal_proof(filter_, opened, uids=frozenset(uids), keys=ring, random=random)
    assert sealed is not None
    claim = SealedClaim(filter_, sealed)
    return sealed_wanted(b"w" * 16, proof_to_wire(filter_, sealed), parts_to_wire(claim))


def test_a_sealed_proof_routes_no_more_than_it_proves(world):
    """A67, C9: the detective's own request, sealed with a wider filter around it."""
    rogue = world.rogue("CCS broker")
    detective = NetClient(world.net, world.net.cast.keys["Detective Smith"], world.net.cast.certificates)
    proof = detective.request(Action.SUBSCRIBE)
    wanted = sealed_by_a_member(world, ALWAYS, proof, world.net.cast.certificates, NUMBERPLATE)
    rogue.say(sealed_interest(world.net.type_id, [wanted], []))
    assert world.rows_for_rogue(world.ccs) == [0]


@pytest.mark.parametrize("order", ["first", "later"])
def test_a_member_that_lies_to_brokers_with_fewer_keys_silences_no_peer_for_long(world, order):
    """A67: the third broker must believe a member about a proof that it cannot read; the next does not."""
    world.net.hold(world.third, None)
    if order == "later":
        world.detective()
    rogue = world.rogue(world.third.name)
    wanted = sealed_by_a_member(world, ALWAYS, b"not a request", (), NUMBERPLATE)
    rogue.say(sealed_interest(world.net.type_id, [wanted], []))
    if order == "first":
        world.detective()
    assert set(world.refusals(world.ccs)) == {"PROTOCOL-REQUEST"}
    assert [message.ids for message in rogue.all_heard(SealedDoubted)] == [[b"w" * 16]]
    assert world.net.rows_for(world.ccs, of=world.third, frame=sightings((SUSPECT, "Victoria"))) == [0]
    world.net.hold(world.third, None, LOCATION)  # what is known of it later does not bring it back
    assert world.net.rows_for(world.ccs, of=world.third, frame=sightings((SUSPECT, "Victoria"))) == [0]


def test_a_broker_that_doubts_without_reason_takes_nothing_away(world):
    """A67: it is told more than before."""
    world.detective()
    rogue, ids = world.rogue(world.third.name), [world.told().id]
    rogue.say(SealedDoubted(world.net.type_id, [*ids, b"?" * 16]))
    rogue.say(SealedDoubted(b"\x01" * 32, ids))
    assert world.net.rows_for(world.ccs, of=world.third, frame=sightings((SUSPECT, "Victoria"))) == [0]
    assert not rogue.closed


@pytest.mark.parametrize("change", ["no proof", "signer", "action", "certificates"])
def test_a_sealed_proof_of_something_else_proves_nothing(world, change):
    """A67, A32, C9: members are not above the owner."""
    rogue = world.rogue("CCS broker")
    who = "camera at Victoria" if change == "signer" else "Detective Smith"
    client = NetClient(world.net, world.net.cast.keys[who], world.net.cast.certificates)
    proof = client.request(Action.PUBLISH if change == "action" else Action.SUBSCRIBE)
    certificates = () if change == "certificates" else world.net.cast.certificates
    wanted = sealed_by_a_member(world, ALWAYS, None if change == "no proof" else proof, certificates)
    rogue.say(sealed_interest(world.net.type_id, [wanted], []))
    assert world.rows_for_rogue(world.ccs) == []
    assert not rogue.closed


# ------------------------------------------------------------ in the open


def test_a_plain_interest_or_offer_of_a_sealed_type_is_refused_with_the_best_of_proofs(world):
    """A29, A67: no peer makes a broker speak of a sealed type in the open."""
    world.detective()
    rogue, story = world.rogue("CCS broker"), world.net.cast
    detective = NetClient(world.net, story.keys["Detective Smith"], story.certificates)
    camera = NetClient(world.net, story.keys["camera at Victoria"], story.certificates)
    proof = detective.request(Action.SUBSCRIBE)
    rogue.heard.clear()
    plain = Wanted(b"w" * 16, filter_to_bytes(ALWAYS), proof, shown(story.certificates))
    rogue.say(Interest(world.net.type_id, [plain], []))
    rogue.say(Offer(world.net.type_id, True, camera.request(Action.PUBLISH), shown(story.certificates)))
    assert world.refusals(world.ccs) == ["REFUSED-PLAIN-OF-SEALED"] * 2
    assert rogue.all_heard(Interest) == []


@pytest.mark.parametrize("verified", [0.0, 1.0])
def test_plain_interests_of_a_sealed_type_are_refused_however_seldom_proofs_are_verified(verified):
    """A29: what is refused does not depend on how often an operator verifies."""
    net = SealedNet(verify_in_transit=verified)
    (ccs, *_) = net.three()
    net.hold(ccs, *EVERY_KEY)
    net.client("camera at Victoria").advertise()
    credentials = (net.cast.broker_right(ROGUE),)
    rogue = net.client("a rogue", key=ROGUE, credentials=credentials, address="rogue:1")
    rogue.say(Interest(net.type_id, [Wanted(b"w" * 16, filter_to_bytes(ALWAYS), None, [])], []))
    assert net.type_id not in ccs.parts.routes.book.types()


# ------------------------------------------------------------ guessing


def test_neither_ids_nor_marks_nor_digests_are_hashes_of_a_filter_that_can_be_guessed(world):
    """S8: there are few places in London; hashing them all finds nothing that was on the wire."""
    detective = world.detective()
    heard = world.net.heard_by(world.third)
    (link,) = [one for one in world.met.parts.links.values() if one.peer == detective.principal]
    right = link.subscriptions[1].right
    guesses = [AT_VICTORIA, THE_SUSPECT, routed_filter(right.view)]
    written = [write_canonical(predicate_to_expression(guess)) for guess in guesses]
    hashes = [sha256(one).digest() for one in written]
    hashes += [sha256(b"maia/1/filter-mark" + one).digest() for one in written]
    hashes.append(class_key(right.view, right.event_type))
    for one in (*hashes, *written):
        assert one[:16] not in heard


def test_a_member_without_the_key_of_plates_learns_no_plate_from_requests_and_certificates():
    """S7, A52: proofs and shown rights hold values too; they open for readers of these values alone."""
    from support.numberplate import READ, SealedNet

    net = SealedNet()
    net.entitle("Met broker", READ)
    right = net.rights["Met broker"][0].certificate
    restricted = replace(right, authority=replace(right.authority, restriction=THE_SUSPECT))
    net.rights["Met broker"] = (issue(restricted, net.cast.keys["PITO"]),)
    ccs, third, met = net.three()
    for running in (ccs, met):
        net.hold(running, *EVERY_KEY)
    net.hold(third, None, LOCATION)
    net.client("camera at Victoria").advertise()
    net.client("Detective Smith", "Met broker").subscribe()
    shown = [one for _, to, one in net.carried if to == third.name and isinstance(one, SealedRights)]
    told = [one for _, to, one in net.carried if to == third.name and is_sealed(one, Interest)]
    assert [one.proof.uids for one in shown if one.proof.uids] == [[NUMBERPLATE]]
    assert [wanted.proof.uids for one in told for wanted in one.add] == [[NUMBERPLATE]]
    ring = net.ring(None, LOCATION)
    for message in shown[-1:]:
        about = SealedShowing(message.type_id, message.proof.epoch, message.proof.seal)
        assert open_proof(about, proof_from_wire(message.proof), ring) is None


# ------------------------------------------------------------ clients


def test_a_filter_on_an_attribute_that_is_not_granted_is_refused_for_sealed_types_too(world):
    """A52, S7: the billing office may read plates and times, and asks about places."""
    billing = world.net.client("billing office")
    ref = billing.subscribe(AT_VICTORIA)
    assert not billing.was_accepted(ref)
    assert billing.code_of(ref) == "POLICY-ATTRIBUTE-NOT-READABLE"


def test_a_search_by_subscriptions_ends_at_the_quota():
    """A52: halving an interval by one subscription after the other is refused, and then not even received."""
    from maia.broker import BrokerLimits

    net = SealedNet(limits=BrokerLimits(requests_per_minute=20))
    ccs = net.broker()
    net.hold(ccs, *EVERY_KEY)
    billing = net.client("billing office")
    refs = [
        billing.subscribe(Comparison(LOCATION, Operator.LT, text))
        for text in map(chr, range(ord("A"), ord("Z")))
    ]
    codes = {billing.code_of(ref) for ref in refs}
    assert codes == {"POLICY-ATTRIBUTE-NOT-READABLE", "UNAVAILABLE-REQUEST-QUOTA"}
    assert not any(billing.was_accepted(ref) for ref in refs)


def test_a_client_cannot_speak_as_brokers_do(world):
    """A68."""
    billing = world.net.client("billing office")
    billing.say(sealed_interest(world.net.type_id, [everything()], []))
    assert billing.bye == "PROTOCOL-BROKERS-ONLY"


@pytest.mark.parametrize(
    "parts",
    [
        [SealedPart(["b", "a"], b"m" * 16, b"b" * 64)],
        [SealedPart(["a", "a"], b"m" * 16, b"b" * 64)],
        [SealedPart(["~mark"], b"m" * 16, b"b" * 64)],
        [SealedPart(["a"], b"m" * 16, b"")],
        [SealedPart(["a"], b"m" * 16, b"b" * 64)] * 2,
    ],
)
def test_a_sealed_filter_in_another_form_closes_the_link(world, parts):
    """A75: order, repetition, names that only the book itself uses, sizes that no sealer makes."""
    rogue = world.rogue(world.third.name)
    rogue.say(sealed_interest(world.net.type_id, [sealed_wanted(b"w" * 16, made_up_proof(), parts)]))
    assert rogue.last(Bye).code == "PROTOCOL-SEALED-FILTER"
