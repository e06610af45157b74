"""Keys on a cluster: a worker of another job, and a stranger on the network, get nothing from a desk."""

from __future__ import annotations

import pickle
import socket
from contextlib import closing, suppress

import pytest

from maia.spark.errors import told_to_spark
from maia.spark.keys.key_server import DeskPass, job_desk
from maia.testing.refusals import raises
from maia.types import SealingLevel
from support.governed import Recorded, secret_of


@pytest.fixture
def source(tmp_path):
    """The keys of a sealed log."""
    return Recorded(tmp_path / "log", SealingLevel.ATTRIBUTE).keys(None).source


@pytest.fixture
def patient(monkeypatch):
    """Let workers ask once: what is refused here is refused each time."""
    monkeypatch.setattr("maia.spark.keys.key_server._PAUSES_S", ())


def test_a_worker_of_another_job_gets_no_key(source, patient):
    """A114: the pass of one job opens the grant of no other, at the same desk or at another."""
    with job_desk() as desk, job_desk() as other:
        mine, theirs = desk.open(source, frozenset({None})), desk.open(None, frozenset())
        elsewhere = other.open(None, frozenset())
        assert mine.keys_of([1])
        for stranger in (theirs, elsewhere):
            forged = DeskPass(mine.host, mine.port, mine.grant, stranger.token)
            with raises("UNAVAILABLE-JOB-DESK"):
                forged.keys_of([1])
            with raises("UNAVAILABLE-JOB-DESK"):
                DeskPass(elsewhere.host, elsewhere.port, mine.grant, mine.token).keys_of([1])
        assert theirs.keys_of([1]) == {}


def test_a_stranger_that_records_the_network_and_sends_it_again_opens_nothing(source):
    """A114: the answer is sealed to a key of the question's own, which its asker forgets."""
    recorded: list[bytes] = []
    with job_desk() as desk:
        mine = desk.open(source, frozenset({None}))
        real = desk.answer

        class Recording:
            @staticmethod
            def answer(question: bytes) -> bytes:
                recorded.append(question)
                return real(question)

        desk._server.desk = Recording()
        assert mine.keys_of([1])
        with closing(socket.create_connection((mine.host, mine.port), timeout=180)) as stranger:
            stranger.sendall(len(recorded[0]).to_bytes(4, "big") + recorded[0])
            answer = stranger.recv(1 << 16)
        secrets = [secret_of(epoch, None) for epoch in (1, 2)]
        assert answer
        for one in (*recorded, answer):
            assert mine.token not in one
            assert not any(secret.reveal() in one for secret in secrets)


def test_a_desk_that_listens_for_a_cluster_answers_its_own_jobs_only(source, patient):
    """A114: where workers of other machines reach it, strangers do; they are told nothing, not even no."""
    with job_desk() as desk:
        mine = desk.listen("127.0.0.2", "127.0.0.2", desk.open(source, frozenset({None})))
        assert mine.host == "127.0.0.2"
        assert mine.keys_of([1])
        for asked in (
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(64),
            len(bytes(64)).to_bytes(4, "big") + bytes(64),
        ):
            with closing(socket.create_connection((mine.host, mine.port), timeout=180)) as stranger:
                told = b""
                with suppress(OSError):  # it may be gone before all is said
                    stranger.sendall(asked)
                    stranger.shutdown(socket.SHUT_WR)
                with suppress(ConnectionError):
                    told = stranger.recv(1)
                assert told == b""


def test_passes_show_nothing_where_jobs_are_printed(source):
    """A114: plans, logs and errors print objects; a pass prints where it leads to, and an error its text."""
    with job_desk() as desk:
        mine = desk.open(source, frozenset({None}))
        assert mine.token not in repr(mine).encode()
        assert mine.token.hex() not in repr(mine)
        desk.end(mine)
        with pytest.raises(Exception, match="PIPELINE-GRANT-ENDED") as problem, told_to_spark():
            mine.keys_of([1])
        shown = str(problem.value) + repr(problem.value)
        assert mine.token.hex() not in shown
        assert repr(mine.token)[2:-1] not in shown
        with raises("PIPELINE-GRANT-ENDED"):
            pickle.loads(pickle.dumps(mine)).keys_of([1])  # noqa: S301 - our own
