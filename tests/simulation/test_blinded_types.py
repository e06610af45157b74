"""Blinded types in a simulated city: ids that change with keys, carried by brokers that cannot name them."""

from __future__ import annotations

from functools import cache, partial
from itertools import pairwise

from maia.events import SECOND
from maia.predicates import Comparison, Operator
from maia.routing.table.hops import type_of_book_key
from maia.types import Cover, SealingLevel
from maia.wire.codec import decode
from maia.wire.messages import Interest, Message, Offer, Replica, Sealed
from support.city import PLACES, TERMS, SealedCity, Watched
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT
from support.sealed_messages import is_sealed
from support.seeds import with_seeds


def blinded_city(seed: int, *, outsiders: frozenset[int] = frozenset(), **about: object) -> SealedCity:
    return SealedCity(seed, level=SealingLevel.EVENT, blinded=True, outsiders=outsiders, **about)


def publish_for(city: SealedCity, seconds: int, *, every: int = 2, events: int = 2) -> list[int]:
    """Let every camera publish again and again; return the moments of what was sent."""
    sent: list[int] = []
    for _ in range(0, seconds, every):
        for camera in city.cameras:
            sent += city.sees(camera, events)
        city.network.run_for(every)
    city.network.run_for(10)
    return sent


def check_nothing_was_lost(city: SealedCity, sent: list[int]) -> None:
    for office in city.offices:
        missing = set(city.expected(office, sent)) - set(office.seen)
        assert not missing, f"{office.name} never heard {len(missing)} of {len(sent)}, {city.network.story()}"


@cache
def carried_by_strangers(seed: int) -> tuple[SealedCity, list[int]]:
    """Let six brokers carry a type, of which four cannot read it, through several epochs, once."""
    city = blinded_city(seed, outsiders=frozenset({1, 2, 3, 4}), brokers=6)
    city.camera("camera", PLACES[0], via=[0])
    city.office("detective", via=[5], restriction=Comparison(NUMBERPLATE, Operator.EQ, SUSPECT))
    city.office("desk", Comparison(LOCATION, Operator.EQ, PLACES[0]), via=[5])
    city.settle()
    return city, publish_for(city, 200)


def heard_by(city: SealedCity, number: int) -> list[Message]:
    return [decode(data) for data in city.overheard[city.brokers[number]]]


@with_seeds(2)
def test_everybody_sees_what_the_certificates_say_of_a_blinded_type(seed):
    city = blinded_city(seed)
    city.populate()
    city.settle()
    city.probe()


@with_seeds(1)
def test_a_new_id_in_the_middle_of_traffic_loses_nothing_and_doubles_nothing(seed):
    """Keys and ids change every minute; the city checks every row for order and doubling."""
    city = blinded_city(seed)
    city.populate()
    city.settle()
    before = city.epoch(0)
    sent = publish_for(city, 180)
    assert city.epoch(0) >= before + 2, "keys were not refreshed while events were published"
    check_nothing_was_lost(city, sent)


@with_seeds(1)
def test_clocks_that_differ_lose_nothing_at_a_new_id(seed):
    city = blinded_city(seed)
    city.populate()
    city.settle()
    for number, skew in enumerate((-3.0, 2.0, 4.0)):
        city.network.set_clock(city.brokers[number], skew_s=skew)
    check_nothing_was_lost(city, publish_for(city, 150))


@with_seeds(2)
def test_brokers_without_keys_carry_a_blinded_type_through_every_epoch(seed):
    city, sent = carried_by_strangers(seed)
    check_nothing_was_lost(city, sent)
    unread = [city.network.host(city.brokers[one]).counts["maia_frames_unread_total"] for one in (1, 2, 3, 4)]
    assert sum(unread) >= 10, "no stranger was on the way"


@with_seeds(2)
def test_brokers_without_keys_never_learn_which_type_it_is(seed):
    """A100: every byte that reaches them, and every byte on their disks, is searched."""
    city, _ = carried_by_strangers(seed)
    definition = city.cast.definition.definition
    known = city.known.event_type
    secrets = [
        known.type_id,
        known.type_id.hex().encode(),
        definition.name.name.encode(),
        *(one.name.encode() for one in definition.attributes),
        city.key("camera").principal.key,
        city.key("desk").principal.key,
    ]
    for number in (1, 2, 3, 4):
        host = city.network.host(city.brokers[number])
        answers = repr(host.node.status(city.network.now)).encode()
        everything = b"".join((*city.overheard[host.name], *host.disk.values(), answers))
        for secret in secrets:
            assert secret not in everything, "something that names the type reached a broker without rights"


@with_seeds(2)
def test_what_brokers_without_keys_see_under_one_id_does_not_come_again_under_the_next(seed):
    """A100: ids, publishers, streams, marks and numbers of epochs lead nowhere."""
    city, _ = carried_by_strangers(seed)
    ids: set[bytes] = set()
    for number in (1, 2, 3, 4):
        streams: dict[bytes, set[bytes]] = {}
        marks: dict[bytes, set[bytes]] = {}
        for message in heard_by(city, number):
            if is_sealed(message, Interest, Offer, Replica):
                ids.add(type_of_book_key(message.key))
            if isinstance(message, Sealed):
                ids.add(message.type_id)
                streams.setdefault(message.type_id, set()).add(message.stream)
                assert message.publisher == message.signer, "the publisher shows"
                assert message.epoch <= 1, "the number of the epoch shows"
            if is_sealed(message, Interest):
                assert {one.proof.epoch for one in message.add} <= {0}
                found = {part.mark for one in message.add for part in one.filter}
                marks.setdefault(message.key, set()).update(found)
        for seen in (streams, marks):
            for one, other in pairwise(seen.values()):
                assert not one & other, "one id leads to the next"
    assert city.cast.type_id not in ids
    assert len(ids) >= 3, "the id did not change with the epochs"


@with_seeds(1)
def test_blinded_types_are_refreshed_at_moments_that_do_not_depend_on_the_type(seed):
    """A100: types of one key server go over to new ids together, and hide each other."""
    city = blinded_city(seed)
    city.network.run_for(17)
    city.populate()
    city.settle()
    city.network.run_for(130)
    ring = city.network.host(city.brokers[0]).node.parts.keys.member.ring(city.cast.type_id)
    since, _ = ring.period(ring.newest)
    assert since % (TERMS.refresh_s * SECOND) < SECOND


@with_seeds(1)
def test_old_ids_are_let_go_of(seed):
    city = blinded_city(seed)
    city.populate()
    city.settle()
    publish_for(city, 240)
    states = [city.network.host(name).node.parts for name in city.brokers]
    # In some cities a camera publishes a sub-type, which is blinded too.
    entries = [
        one for state in states for link in state.links.values() for one in link.advertisements.values()
    ]
    types = {city.cast.type_id, *(kind for one in entries for kind in one.type_ids)}
    for state in states:
        of_each = [state.streams.blinded.ids(type_id) for type_id in types]
        assert all(len(some) <= 2 for some in of_each)
        ids = {name for some in of_each for name in some}
        own = set(state.streams.blinded.ids(city.cast.type_id))
        assert own
        assert own <= set(state.key_events.rekeying.sealed.in_use) <= ids
        assert {name for name, _ in state.key_events.rekeying.sealed.placed} <= ids
        assert {type_of_book_key(key) for keys in state.routes.offered.values() for key in keys} <= ids


@with_seeds(1)
def test_brokers_in_trouble_find_together_again_under_blinded_ids(seed):
    """Crashes and a cut while keys rotate: afterwards everything flows as before."""
    city = blinded_city(seed)
    city.populate()
    city.settle()
    for number in range(3):
        city.network.crash(city.brokers[number], dark=number == 1)
        publish_for(city, 10)
        city.network.restart(city.brokers[number])
        publish_for(city, 20)
    city.network.partition([city.brokers[0]], city.brokers[1:])
    publish_for(city, 40)
    city.network.heal()
    city.settle()
    city.network.run_for(60)
    city.probe(10.0)


@with_seeds(1)
def test_cover_hides_events_and_loses_none_of_them(seed):
    """A100: a stranger on the way counts as many frames of a silent minute as of a busy one."""
    city = blinded_city(seed, cover=Cover(250, 1024))
    city.populate()
    city.settle()
    seen = frames_sent(city)
    city.network.run_for(20)
    silent = len(seen)
    sent = publish_for(city, 60, events=1)
    check_nothing_was_lost(city, sent)
    busy = frames_sent(city)
    city.network.run_for(20)
    assert abs(len(busy) - silent) <= 4
    assert silent >= 60, "there was no cover"
    assert len({size for _, size in (*seen, *busy)}) == 1


def frames_sent(city: SealedCity) -> list[tuple[str, int]]:
    """Begin to write down every sealed frame that a broker gets, with the size of its content."""
    found: list[tuple[str, int]] = []

    def listening(name: str, data: bytes) -> None:
        if isinstance(frame := decode(data), Sealed):
            found.append((name, len(frame.columns[0].sealed)))

    for name in city.brokers:
        host = city.network.host(name)
        host.node = Watched(host.node, partial(listening, name))
    return found
