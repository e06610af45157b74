"""No byte of a key is in a log, an error, a repr, a status page, a metric or a file."""

from __future__ import annotations

import gc
import io
import json
import pickle
import traceback
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from copy import copy, deepcopy

import pytest

from maia.net.telemetry import Telemetry
from maia.sealing.groups.key_group import Issued
from maia.sealing.keys.delivery import SessionKey
from maia.sealing.keys.parcels import GroupWelcome, Handed, HeldPath, PastAnswer, PastEpoch, pack, unpack
from maia.sealing.keys.secrets import AtRest, Secret
from maia.sealing.tree.key_tree import KeyTree, TreeMember
from maia.wire.codec import decode
from maia.wire.effects import Count
from maia.wire.messages import GroupKeys
from support.key_groups import NOON, PLATE, UIDS, WRITE, KeyNet, at, grant, key_of, random_from


@pytest.fixture(scope="module")
def lived():
    """A domain in which everything has happened, and every secret that there was."""
    # Tests before this one may have left trees behind whose secrets are zeros, which are in every text.
    others = [found for found in gc.get_objects() if isinstance(found, KeyTree | TreeMember | SessionKey)]
    net = KeyNet(history=True)
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.member("reader", grant(key_of("reader"), [PLATE], until=30))
    secrets = set(secrets_of(net, others))
    net.run_to(at(40))
    net.member("guest", grant(key_of("guest"), since=35))
    secrets |= set(secrets_of(net, others))
    net.serve(net.server.evict(key_of("guest").principal, net.now))
    net.restart_server()
    net.restart_member(camera)
    net.member("stranger")
    secrets |= set(secrets_of(net, others))
    net.run_to(at(1200))
    return net, secrets | set(secrets_of(net, others))


def secrets_of(net: KeyNet, others: list[object]) -> Iterator[bytes]:
    """Yield every secret byte string but those of `others`: of groups, content keys, trees and sessions."""
    known = {id(one) for one in others}
    for member in net.members.values():
        ring = net.ring(member)
        for group in (net.group(), *(net.group(uid) for uid in UIDS)):
            for epoch in range(1, net.epoch() + 1):
                for secret in (ring.secret(group, epoch), ring.key(group, epoch)):
                    if secret is not None:
                        yield secret.reveal()
    for found in gc.get_objects():
        if id(found) in known:
            continue
        if isinstance(found, KeyTree | TreeMember):
            yield from found._secrets.values()
            yield found._root
        elif isinstance(found, SessionKey):
            yield found._secret.private_bytes_raw()


def forms(secret: bytes) -> tuple[str, ...]:
    """Return how a secret could show itself in text."""
    return (
        secret.hex(),
        repr(secret)[2:-1],
        b64encode(secret).decode().rstrip("="),
        urlsafe_b64encode(secret).decode().rstrip("="),
        str(list(secret))[1:-1],
        str(int.from_bytes(secret, "big")),
    )


def assert_quiet(text: str, secrets: set[bytes]) -> None:
    assert len(secrets) > 20
    for secret in secrets:
        assert_quiet_about(secret, text)


def assert_quiet_about(secret: bytes, text: str) -> None:
    for form in forms(secret):
        assert form not in text


def test_records_on_their_way_to_a_parcel_or_a_store_keep_quiet():
    """A70: what is written beside the secrets' own type hides them too."""
    secret = random_from(b"a record")(32)
    held = Secret.from_bytes(secret)
    records = [
        GroupWelcome(["1"], [Handed("1", 1, None, held)], [HeldPath("1", secret)]),
        Issued(NOON, None, None, held),
        PastAnswer([PastEpoch(1, NOON, NOON, [("1", held)])]),
    ]
    assert_quiet_about(secret, repr(records) + "".join(f"{one} {one!r}" for one in records))


def test_no_key_is_in_a_log_line_or_a_metric(lived):
    """A70: everything that was ever noted or counted, as the operator's files would have it."""
    net, secrets = lived
    out = io.StringIO()
    telemetry = Telemetry(out, log_format="json", level="debug")
    notes = [*net.notes, *(note for member in net.members.values() for note in member.notes)]
    for note in notes:
        telemetry.note(note.event, note.fields)
    for effect in net.effects:
        if isinstance(effect, Count):
            telemetry.count(effect.name, effect.amount, effect.labels)
    assert len(notes) > 20
    assert_quiet(out.getvalue() + telemetry.metrics().decode() + repr(notes), secrets)


def test_no_key_is_on_the_status_page(lived):
    """A70: neither the server's nor a member's."""
    net, secrets = lived
    pages = [net.server.status(net.now), *(member.node.status() for member in net.members.values())]
    assert_quiet(json.dumps(pages, default=str), secrets)


def test_no_key_is_in_a_file_as_it_is(lived):
    """A70: what is kept is sealed under a key that is not in the data folder."""
    net, secrets = lived
    kept = [*net.kept.values(), *(one for member in net.members.values() for one in member.kept.values())]
    assert any("/history/" in name for name in net.kept)
    for data in kept:
        assert not any(secret in data for secret in secrets)


def test_no_key_travels_as_it_is(lived):
    """A54: not even inside the encrypted links."""
    net, secrets = lived
    assert any(isinstance(decode(data), GroupKeys) for _, _, data in net.trace)
    for _, _, data in net.trace:
        assert not any(secret in data for secret in secrets)


def test_no_object_prints_a_key(lived):
    """A70: a repr of anything that holds a key, however deep."""
    net, secrets = lived
    manager = net.server.groups_of(net.type_id)
    group = net.group(PLATE)
    camera = net.members["camera"]
    things = [
        manager,
        list(manager._members.values()),
        manager._groups.by_id[group].tree,
        manager._groups.by_id[group].issued,
        net.server,
        camera.node,
        list(camera.node._types.values()),
        camera.node._managers,
        net.ring(camera),
        net.ring(camera)._epochs,
        net.ring(camera).key(group, net.epoch()),
        net.effects,
    ]
    assert_quiet(repr(things) + "".join(str(one) for one in things), secrets)


def test_a_session_key_and_a_ring_cannot_be_copied_out():
    """A70: no pickle, no copy."""
    session = SessionKey(random_from(b"session"))
    for leave in (pickle.dumps, copy, deepcopy):
        with pytest.raises(TypeError):
            leave(session)
    assert session._secret.private_bytes_raw().hex() not in repr(session)


def test_errors_about_keys_say_nothing_of_them():
    """A70: a delivery, a parcel and a record that do not open."""
    secret = Secret.fresh(random_from(b"told"))
    parcel = GroupWelcome([], [Handed(None, 1, None, secret)], [])
    session = SessionKey(random_from(b"session"))
    kept = AtRest(Secret.fresh(random_from(b"rest")), random_from(b"nonces"))
    said = []
    for attempt in (
        lambda: unpack(pack(parcel)[:-1]),
        lambda: session.open(pack(parcel), b""),
        lambda: kept.open("name", pack(parcel)),
        lambda: AtRest(secret, random_from(b"n")).open("a", kept.seal("a", secret.reveal())),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is quiet
            attempt()
        said.append("".join(traceback.format_exception(caught.value)))
    for form in forms(secret.reveal()):
        assert form not in "".join(said)


def test_notes_name_keys_by_epoch_and_group_alone(lived):
    """A70: what a line about keys says, in full."""
    net, _ = lived
    fields = {field for note in net.notes if note.event == "epoch" for field in note.fields}
    reasons = {"first", "join", "expiry", "eviction", "timer", "adopted"}
    assert fields - reasons == {"type", "epoch", "groups", "told"}
