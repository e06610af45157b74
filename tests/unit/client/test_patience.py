"""How long a client waits before it dials again."""

from __future__ import annotations

import pytest

from maia.client.connection import Redialling
from maia.client.settings import ClientSettings
from support.client_session import STORY

SETTINGS = ClientSettings(STORY.network, ("one", "two"), dial_again_s=0.5, dial_again_most_s=4.0)


def redialling(chance: int = 0) -> Redialling:
    return Redialling(SETTINGS, lambda size: bytes([chance]) * size)


def test_each_failure_doubles_the_wait_up_to_the_most() -> None:
    again = redialling()
    assert [again.failed_s() for _ in range(6)] == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


def test_a_client_that_was_welcomed_waits_as_briefly_as_at_first() -> None:
    again = redialling()
    first, second = again.failed_s(), again.failed_s()
    again.succeeded()
    assert again.failed_s() == first < second


def test_clients_are_not_in_step() -> None:
    """Half of the wait is certain and half is chance, so a whole wait is the longest."""
    assert redialling(0).failed_s() == 0.25
    assert redialling(255).failed_s() == pytest.approx(0.5, abs=1e-4)


def test_no_number_of_failures_is_too_many() -> None:
    again = redialling()
    assert max(again.failed_s() for _ in range(2000)) == 2.0


def test_addresses_take_turns() -> None:
    again, dialled = redialling(), []
    for _ in range(3):
        dialled.append(again.address)
        again.failed_s()
    assert dialled == ["one", "two", "one"]
