"""A peer that is not installed is named, and the raw clients speak their peers' protocols."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    # Loaded anew together: a benchmark that another test had imported would know another MissingPeer.
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").parent == BENCH:
            monkeypatch.delitem(sys.modules, name)
    import live_peers

    return live_peers


@pytest.fixture
def bare_machine(peers, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(peers, "SERVER_PLACES", "")
    return peers


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("mosquitto_line", "peer mosquitto is not installed: apt-get install mosquitto"),
        ("nats_line", "peer nats-server is not installed: apt-get install nats-server"),
        ("redis_line", "peer redis-server is not installed: apt-get install redis-server"),
    ],
)
def test_a_missing_peer_is_named_with_the_package_that_brings_it(bare_machine, start, sentence):
    with pytest.raises(bare_machine.MissingPeer, match=f"^{sentence}$"), getattr(bare_machine, start)():
        pass


def test_a_case_against_a_missing_peer_is_not_measured(bare_machine):
    import b12_broker_throughput as bench
    from harness import NotMeasured, Side

    (case,) = bench._against("mosquitto", bare_machine.mosquitto_line, 2.0, Side(run=lambda: None), 1)
    assert isinstance(case, NotMeasured)
    assert case.why == "peer mosquitto is not installed: apt-get install mosquitto"


@pytest.mark.parametrize(
    ("length", "written"), [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (16_384, b"\x80\x80\x01")]
)
def test_an_mqtt_packet_says_its_length_in_sevens_of_bits(peers, length, written):
    assert peers.mqtt_packet(0x30, bytes(length)) == b"\x30" + written + bytes(length)


def test_a_redis_command_is_an_array_of_words_with_their_lengths(peers):
    assert peers._resp(b"PUBLISH", b"c", b"hello") == b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$5\r\nhello\r\n"


def test_a_nats_ping_in_the_middle_is_no_message(peers):
    connection = object.__new__(peers.NatsConnection)
    connection._tail, connection._bytes, connection._messages = b"", 0, 0
    connection.ready_to_count(lambda data: b"MSG s 1 4\r\nabcd\r\n")
    sent = []
    connection.socket = type("Sent", (), {"send": lambda _self, data: sent.append(data)})()
    message = b"MSG s 1 4\r\nabcd\r\n"
    assert connection.counted(message + b"PI") + connection.counted(b"NG\r\n" + message) == 2
    assert sent == [b"PONG\r\n"]
