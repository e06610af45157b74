"""A broker without keys looks for a blinded type in its memory, disk, log, messages and answers (A100).

It knows the type's name and the keys of its owner and publishers, and finds none
of them. What it does find is stated in `docs/limitations/sealed.md`, and
`bench/observer.py` measures what that is worth.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from maia.predicates import AllOf, Comparison, Operator
from maia.routing.table.hops import type_of_book_key
from maia.sealing.keys.blinding import OVERLAP_S, blinded_ids
from maia.types import Cover, SealingLevel
from maia.wire.codec import encode
from maia.wire.messages import Interest, Message, Offer, Sealed, StateFrame, StateQuery
from support.numberplate import NUMBERPLATE, SUSPECT, BlindedNet, camera_and_reader, sighting, the_three
from support.sealed_messages import is_sealed

EVERY_MS = 500
THE_SUSPECT = Comparison(NUMBERPLATE, Operator.EQ, SUSPECT)


def atoms_in(root: object) -> Iterator[bytes]:
    """Yield every text and every string of bytes that can be reached from an object."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        if isinstance(one, bytes | bytearray):
            yield bytes(one)
        elif isinstance(one, str):
            yield one.encode()
        elif isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset) or type(one).__name__ in (
            "deque",
            "OrderedDict",
        ):
            todo += list(one)
        elif type(one).__module__.startswith("maia"):
            names = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            names += [*getattr(one, "__struct_fields__", ()), *getattr(one, "__dict__", ())]
            # A weak reference to itself says nothing, and cannot be asked what it is of every class.
            todo += [getattr(one, n) for n in names if n != "__weakref__" and hasattr(one, n)]


def a_day(net: BlindedNet) -> tuple[object, object]:
    """Let a camera publish and an office read in two epochs."""
    camera, office = camera_and_reader(net)
    office.subscribe(AllOf((THE_SUSPECT,)), ref=2)
    for epoch in (1, 2):
        for running in (net.ccs, net.met):
            net.bring(running, *range(1, epoch + 1))
        for number in range(5):
            camera.publish(1, sighting(f"{SUSPECT} {number}"))
        net.advance(OVERLAP_S)
    return camera, office


@pytest.mark.parametrize("cover", [None, Cover(EVERY_MS, 1024)])
def test_a_broker_on_the_way_holds_receives_logs_keeps_and_answers_nothing_that_names_the_type(cover):
    net = BlindedNet(cover=cover)
    camera, office = a_day(net)
    assert len(office.events(1)) == 10
    assert net.sealed_frames(to=net.middle), "the broker was not on the way"
    definition = net.cast.definition.definition
    secrets = {
        "the type's id": net.type_id,
        "the type's id as text": net.type_id.hex().encode(),
        "the type's name": definition.name.name.encode(),
        "the publisher": camera.principal.key,
        "its stream": camera.stream,
        "the reader's stream": office.stream,
        "a value": SUSPECT.encode(),
    } | {f"attribute {one.name}": one.name.encode() for one in definition.attributes}
    middle = net.middle
    places = {
        "memory": b"\x00".join(atoms_in(middle.parts)),
        "messages": net.heard_by(middle),
        "disk": b"\x00".join((*middle.kept.values(), *(name.encode() for name in middle.kept))),
        "log": repr([(note.event, note.fields) for note in middle.notes]).encode(),
        "status": repr(middle.broker.status(net.now)).encode(),
    }
    assert net.id_of(2) in places["memory"], "the search does not find what is there"
    for place, found in places.items():
        for what, secret in secrets.items():
            assert secret not in found, f"{what} is in the {place} of a broker without keys"


def test_the_same_search_finds_a_type_that_is_not_blinded():
    net, _, middle, _ = the_three(SealingLevel.EVENT)
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting(SUSPECT))
    assert net.type_id in net.heard_by(middle)
    assert camera.principal.key in b"\x00".join(atoms_in(middle.parts))


def linking_fields(message: Message) -> Iterator[bytes]:
    """Yield what a message bears that could be found again under another id."""
    if isinstance(message, Sealed):
        yield from (message.type_id, message.stream, message.columns[0].commitment)
    elif is_sealed(message, Interest):
        yield message.key
        for one in message.add:
            yield from (one.id, one.proof.seal, one.proof.tag, *(part.mark for part in one.filter))
    elif is_sealed(message, Offer):
        yield message.key
        if message.stands:
            yield from (message.proof.seal, message.proof.tag)


def test_nothing_that_a_message_bears_comes_again_under_the_next_id():
    net = BlindedNet(cover=Cover(EVERY_MS, 1024))
    a_day(net)
    by_id: dict[bytes, set[bytes]] = {}
    for message in [message for _, _, message in net.carried]:
        if isinstance(message, Sealed):
            by_id.setdefault(message.type_id, set()).update(linking_fields(message))
        elif is_sealed(message, Interest, Offer):
            by_id.setdefault(type_of_book_key(message.key), set()).update(linking_fields(message))
    assert by_id.keys() == {net.id_of(1), net.id_of(2)}
    first, second = by_id.values()
    assert not first & second


def test_who_knows_the_keys_of_one_epoch_cannot_name_the_next():
    """A member that was put out of the group knows the ids of its own time alone."""
    net = BlindedNet()
    put_out = net.ring_of(1)
    net.bring(net.ccs, 1, 2)
    name = net.id_of(2)
    assert name not in blinded_ids(put_out).values()


def test_a_broker_that_was_put_out_reads_nothing_new_and_soon_gets_no_frame():
    """A54: for the overlap it gets frames that it cannot open, and then none."""
    net = BlindedNet()
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("before"))
    net.bring(net.ccs, 1, 2)
    net.carried.clear()
    camera.publish(1, sighting("in the overlap"))
    (frame,) = net.sealed_frames(to=net.met)
    assert (frame.type_id, frame.epoch) == (net.id_of(1), 1)
    net.advance(OVERLAP_S)
    net.carried.clear()
    camera.publish(1, sighting("after"))
    assert not net.sealed_frames(to=net.met)
    assert [event[NUMBERPLATE] for event in office.events()] == ["before"]


def test_a_frame_with_an_event_and_one_without_differ_in_what_is_random_alone():
    """A55: the same fields, the same lengths, the same encoded size."""
    net = BlindedNet(cover=Cover(EVERY_MS, 1024))
    camera, _ = camera_and_reader(net)
    net.advance(EVERY_MS / 1000)
    sizes: dict[bool, set[int]] = {True: set(), False: set()}
    for number in range(20):
        if is_event := number % 2 == 0:
            camera.publish(1, sighting("x" * (17 * number)))
        net.carried.clear()
        net.advance(EVERY_MS / 1000)
        sizes[is_event] |= {len(encode(frame)) for frame in net.sealed_frames(to=net.middle)}
    assert sizes[True] == sizes[False]
    assert len(sizes[True]) == 1


def test_a_broker_without_keys_gets_no_state_of_a_blinded_type_by_asking():
    net = BlindedNet()
    a_day(net)
    net.carried.clear()
    wires = {(name, to): link for (name, link), (to, _) in net.wires.items()}
    for asked in (net.type_id, net.id_of(1), net.id_of(2)):
        net.send(net.middle.name, wires[net.middle.name, "CCS broker"], encode(StateQuery(bytes(16), asked)))
        net.settle()
    assert not [one for _, _, one in net.carried if isinstance(one, StateFrame)]
