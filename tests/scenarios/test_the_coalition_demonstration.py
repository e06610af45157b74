"""The coalition of the Gismo paper as `maia demo coalition` plays it: six processes, real sockets."""

from __future__ import annotations

import json
import subprocess

import pytest

from maia.demo.coalition import HIGHEST
from support.nursery import maia_command

ROUNDS = ("a guest", "raised", "expired", "changed firmware", "is back")


@pytest.fixture(scope="module")
def played() -> dict:
    """Play the story once."""
    command = [maia_command(), "demo", "coalition", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout) | {"status": done.returncode}


def seen(played: dict, who: str, *, requires: str | None = None) -> list[int]:
    """Return how many contacts a reader saw in each round."""
    return [
        sum(who in one["received"] for one in each["contacts"] if requires in (None, one["requires"]))
        for each in played["rounds"]
    ]


def test_what_arrives_is_what_the_kernel_says_in_every_round(played: dict) -> None:
    assert (played["failed"], played["status"]) == ([], 0)
    assert [part in one["title"] for part, one in zip(ROUNDS, played["rounds"], strict=True)] == [True] * 5
    for one in (contact for each in played["rounds"] for contact in each["contacts"]):
        assert {who: [it] for who, it in one["expected"].items()} == one["received"]


def test_a_raised_clearance_acts_in_the_same_link_and_an_expired_statement_ends_it(played: dict) -> None:
    assert seen(played, "Brown", requires=HIGHEST) == [0, 1, 1, 1, 1]
    assert seen(played, "Bo") == [6, 6, 0, 0, 0]


def test_a_guest_sees_what_its_home_attributes_allow_and_of_the_publishers_it_asked_for(played: dict) -> None:
    assert seen(played, "Vries") == [2] * 5
    by = {one["by"] for each in played["rounds"] for one in each["contacts"] if "Vries" in one["received"]}
    assert by == {"anna"}


def test_a_router_whose_boot_has_changed_loses_its_cluster_and_gets_it_back(played: dict) -> None:
    """I9: neighbours demand a level, and clusters form by themselves."""
    assert seen(played, "Smit") == [1, 1, 1, 0, 1]
    without = played["rounds"][3]["neighbours"]
    assert [router for router, peers in without.items() if not peers] == ["netherlands"]
    assert not any("netherlands" in peers for peers in without.values())
    assert played["rounds"][4]["neighbours"] == played["rounds"][0]["neighbours"]


def test_views_hold_too_and_those_who_try_for_more_are_refused(played: dict) -> None:
    received = [one["received"] for each in played["rounds"] for one in each["contacts"]]
    assert {one["Smit"][0]["source"] for one in received if "Smit" in one} == {None}
    assert list(played["refused"].values()) == [
        "CREDENTIAL-IDENTITY-PROVIDER",
        "CREDENTIAL-IDENTITY-GUEST",
        "REFUSED-NOT-REGISTERED",
        "REFUSED-TPM-NOT-APPROVED",
    ]
