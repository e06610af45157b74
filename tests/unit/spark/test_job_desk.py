"""A driver's desk and its passes: who gets keys, and what every other reader receives."""

from __future__ import annotations

import errno
import pickle
import socket
import threading
from dataclasses import replace
from hashlib import sha256

import pytest

from maia.events import AttributeUid
from maia.sealing import Secret
from maia.spark.keys import key_server as module
from maia.spark.keys.content_keys import HeldEpoch, SeveralSources, read_handout
from maia.spark.keys.key_server import job_desk
from maia.testing.refusals import raises
from maia.types import SealingLevel
from support.governed import Recorded, governed, reader, sightings

PLATE, PLACE = AttributeUid("plate"), AttributeUid("place")
ALL = frozenset({None, PLATE, PLACE})


def secret(name):
    return Secret.from_bytes(sha256(name.encode()).digest())


class Held:
    def __init__(self, **epochs):
        self.epochs = {int(name[1:]): keys for name, keys in epochs.items()}

    def held(self, epoch, wanted):
        keys = self.epochs.get(epoch)
        found = None if keys is None else {uid: key for uid, key in keys.items() if uid in wanted}
        return None if found is None else HeldEpoch(0, 10, found)


SOURCE = Held(e1={None: secret("type"), PLATE: secret("plate")}, e2={PLACE: secret("place")})


@pytest.fixture
def desk():
    with job_desk() as opened:
        yield opened


def test_a_worker_gets_what_the_table_needs_of_the_epochs_it_names(desk):
    shown = pickle.loads(pickle.dumps(desk.open(SOURCE, frozenset({PLATE, PLACE}))))  # noqa: S301 - as Spark does
    found = shown.keys_of([1, 2, 3])
    assert {number: set(one.keys) for number, one in found.items()} == {1: {PLATE}, 2: {PLACE}}
    assert found[1].keys[PLATE] == secret("plate")
    assert (found[1].first, found[1].last) == (0, 10)
    assert shown.keys_of(()) == {}
    assert desk.open(None, ALL).keys_of([1]) == {}


def test_a_pass_holds_no_key_and_does_not_print_its_token(desk):
    shown = desk.open(SOURCE, ALL)
    pickled = pickle.dumps(shown)
    assert secret("plate").reveal() not in pickled
    for said in (repr(shown), str(shown), repr(desk)):
        assert shown.token.hex() not in said
        assert repr(shown.token) not in said


def test_a_grant_that_was_taken_back_is_refused(desk):
    shown = desk.open(SOURCE, ALL)
    desk.end_all()
    with raises("PIPELINE-GRANT-ENDED"):
        shown.keys_of([1])
    assert desk.open(SOURCE, ALL).keys_of([1])


def test_strangers_hear_nothing(desk, monkeypatch):
    monkeypatch.setattr(module, "_PAUSES_S", ())
    shown = desk.open(SOURCE, ALL)
    for other in (replace(shown, token=bytes(32)), replace(shown, grant=bytes(16))):
        with raises("UNAVAILABLE-JOB-DESK"):
            other.keys_of([1])
    for data in (b"", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x40" + bytes(64), bytes(200)):
        assert _heard_after(shown, data) == b""
    assert shown.keys_of([1])


def _heard_after(shown, data):
    """What a stranger receives that says ``data``. A desk that has hung up may have reset the connection."""
    with socket.create_connection((shown.host, shown.port), timeout=60) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(1)
        except OSError as error:
            if error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                return b""
            raise


def test_what_is_on_the_wire_is_sealed_and_fresh(desk):
    shown = desk.open(SOURCE, ALL)
    heard = []
    answer = desk.answer

    class Listening:
        def answer(self, question):
            heard.append((question, answer(question)))
            return heard[-1][1]

    desk._server.desk = Listening()
    shown.keys_of([1])
    shown.keys_of([1])
    (_, first), (asked, second) = heard
    assert first != second
    for data in (*heard[0], *heard[1]):
        assert secret("plate").reveal() not in data
        assert shown.token not in data
    desk._server.desk = type("Replays", (), {"answer": lambda _self, _question: first})()
    with raises("PROTOCOL-JOB-DESK"):
        shown.keys_of([1])
    with raises("PROTOCOL-JOB-DESK"):
        desk.answer(asked[:-1])


def test_a_desk_that_is_gone_is_said_to_be(monkeypatch):
    monkeypatch.setattr(module, "_PAUSES_S", ())
    with job_desk() as desk:
        shown = desk.open(SOURCE, ALL)
    with raises("UNAVAILABLE-JOB-DESK", match="does not answer"):
        shown.keys_of([1])
    with raises("UNAVAILABLE-JOB-DESK", match="cannot be opened"), job_desk("192.0.2.1"):
        pass


def test_a_driver_that_is_there_and_says_nothing_for_a_while_is_waited_for(desk, monkeypatch):
    """T8: its process may be paused, or busy with other things, for longer than a worker has tries."""
    shown, over = desk.open(SOURCE, ALL), threading.Event()
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    answer, heard = desk.answer, []

    class Busy:
        def answer(self, question):
            heard.append(question)
            if len(heard) < 9:
                over.wait(60)
            return answer(question)

    desk._server.desk = Busy()
    assert shown.keys_of([1]).keys() == {1}
    over.set()
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    heard.clear()
    over.clear()
    with raises("UNAVAILABLE-JOB-DESK", match="does not answer"):
        shown.keys_of([1])
    over.set()


class Broken:
    def __init__(self, problem):
        self.problem = problem

    def held(self, _epoch, _wanted):
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "keys.json"), "keys.json"),
        (KeyError(secret("plate").reveal()), r"KeyError at test_job_desk\.py:\d+$"),
    ],
)
def test_a_worker_hears_why_the_driver_cannot_answer_and_no_value_of_its_own(desk, problem, said):
    with raises("UNAVAILABLE-JOB-DESK", match=f"the driver of this job cannot answer: .*{said}"):
        desk.open(Broken(problem), ALL).keys_of([1])


def test_a_worker_hears_why_the_right_of_its_table_cannot_be_looked_at(desk):
    def look():
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    desk.look = look
    with raises("UNAVAILABLE-JOB-DESK", match="Connection refused"):
        desk.open(SOURCE, ALL).keys_of([1])


def test_workers_tell_what_they_left_out(desk):
    shown = desk.open(SOURCE, ALL)
    shown.report({"SEALING-PROOF": 2})
    shown.report({"SEALING-PROOF": 1, "PIPELINE-SIGNER": 4})
    assert desk.refused == {"SEALING-PROOF": 3, "PIPELINE-SIGNER": 4}


def test_a_desk_has_limits(desk, monkeypatch):
    monkeypatch.setattr(module, "GRANTS_MAX", 1)
    desk.open(SOURCE, ALL)
    with raises("UNAVAILABLE-JOB-DESK-FULL"):
        desk.open(SOURCE, ALL)


def test_sources_add_up():
    both = SeveralSources(
        (Held(e1={PLATE: secret("first")}), Held(e1={PLATE: secret("other"), PLACE: secret("x")}))
    )
    found = both.held(1, ALL)
    assert found.keys == {PLATE: secret("first"), PLACE: secret("x")}
    assert both.held(2, ALL) is None


def test_handouts_that_cannot_be_read_are_refused_without_detail():
    for data in (b"", b"\x91\x94\x01\x00\x00\x91\x92\xc0\xc4\x20" + bytes(32), b"\xc0"):
        with raises("PROTOCOL-KEY-HANDOUT", match="cannot be read"):
            read_handout(data)


def test_workers_of_a_cluster_ask_where_they_reach_the_driver(spark, tmp_path, monkeypatch):
    """D12: a right is decided before there is a session; its desk listens where that one's workers are."""
    log = Recorded(tmp_path / "log", SealingLevel.ATTRIBUTE)
    log.publish(sightings(3))
    log.write()
    with job_desk() as desk:
        monkeypatch.setattr("maia.spark.governed.table.desk_place", lambda _spark: ("127.0.0.5", "127.0.0.5"))
        table = governed(
            spark, log=str(log.folder), event_type=log.event_type, reader=reader(), keys=log.keys(desk)
        )
        desk._server.shutdown()
        desk._server.server_close()  # nothing answers on loopback as such
        assert table.count() == 3
