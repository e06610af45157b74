"""A line between two processes is cut one way, both ways, and is whole again, without a byte lost."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from chaos.relay import OUTSIDE, Relay, process_of
from maia.testing import free_port


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay(dict)
    yield made
    made.stop()


@pytest.fixture
def ends(relay: Relay) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A line from outside to `alfa`: both of its ends."""
    front = f"127.0.0.1:{free_port()}"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        relay.stand_at(front, f"127.0.0.1:{listening.getsockname()[1]}", "alfa")
        with socket.create_connection(("127.0.0.1", int(front.rpartition(":")[2]))) as dialled:
            accepted, _ = listening.accept()
            with accepted:
                yield dialled, accepted


def hears_nothing(end: socket.socket) -> bool:
    end.settimeout(0.2)
    try:
        return not end.recv(1)
    except TimeoutError:
        return True
    finally:
        end.settimeout(20)


def test_what_is_cut_is_held_and_comes_when_the_line_is_whole(relay, ends):
    dialled, accepted = ends
    dialled.sendall(b"a")
    assert accepted.recv(9) == b"a"
    relay.cut(OUTSIDE, "alfa")
    dialled.sendall(b"b")
    assert hears_nothing(accepted)
    accepted.sendall(b"the other way")
    assert dialled.recv(99) == b"the other way"
    relay.cut("alfa", OUTSIDE)
    accepted.sendall(b"c")
    assert hears_nothing(dialled)
    relay.mend(OUTSIDE, "alfa")
    assert accepted.recv(9) == b"b"
    relay.mend("alfa", OUTSIDE)
    assert dialled.recv(9) == b"c"


def test_an_end_that_closes_closes_the_other(ends):
    dialled, accepted = ends
    dialled.close()
    assert accepted.recv(1) == b""


def test_the_kernel_says_whose_a_connection_is(ends):
    dialled, _ = ends
    port = dialled.getsockname()[1]
    assert process_of(port, [os.getpid()]) == os.getpid()
    assert process_of(port, [os.getppid()]) is None
