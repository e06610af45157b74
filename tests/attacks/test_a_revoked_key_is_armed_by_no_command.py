"""A123: a key was stolen and revoked; its thief, and the commands of an organisation that does not think."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import maia
from maia.clock import system_now
from maia.credentials import Principal
from maia.errors import Refusal
from maia.events import SECOND
from maia.keystore.key_files import public_half
from maia.testing import wait_until
from support.processes import Answer, running_maia
from support.processes import maia as command


@dataclass(frozen=True)
class World:
    """A hospital whose servers run, with a type; an institute that it invited."""

    home: Path
    hospital: maia.Organisation
    institute: maia.Organisation

    def run(self, *words: object) -> Answer:
        return command(*words, cwd=self.home)

    def key(self, member: str) -> Principal:
        return public_half(self.hospital.folder / f"{member}.maia" / f"{member}.key")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    made = World(home, *(maia.Organisation.create(home / name) for name in ("hospital", "institute")))
    made.hospital.define("Ward", place="string")
    made.hospital.add_member("lab", may="publish:Ward")
    with ExitStack() as stack:
        stack.enter_context(running_maia("up", "--org", made.hospital.folder, cwd=home / "hospital"))
        wait_until(lambda: bool((home / "hospital" / "out.log").read_text()))
        yield made


def test_a_revoked_member_is_disconnected_and_connects_no_more(world: World) -> None:
    """A123: it had a right to connect for a year, which `maia revoke` left."""
    profile = world.hospital.add_member("thief", may="subscribe:Ward")
    with maia.connect(profile.path) as thief:
        subscription = thief.subscribe("Ward")
        answer = world.run("revoke", "thief", "--org", "hospital")
        assert answer.returncode == 0, answer.stderr
        assert "connect to network" in answer.stdout
        with pytest.raises(maia.Refusal):
            subscription.some(timeout_s=30)
    for _ in range(2):
        with (
            pytest.raises(maia.MaiaError, match="revoked") as refused,
            maia.connect(profile.path, timeout_s=5),
        ):
            pass
        assert refused.value.code == "POLICY-REVOKED"
    assert "thief" not in {one.name for one in world.hospital.members()}


def test_no_command_gives_a_revoked_key_anything(world: World) -> None:
    """A123: a member again, a grant, an invitation, a move to another network, an account's own key."""
    world.hospital.add_member("taken", may="publish:Ward")
    stolen = world.key("taken")
    world.hospital.revoke("taken", reason="stolen")
    may, out = ("--org", "hospital", "--may", "subscribe:Ward"), ("-o", "x.grant")
    for words in (("grant", stolen, *may, *out), ("network", "invite", stolen, "--org", "hospital", *out)):
        answer = world.run(*words)
        assert (answer.returncode, "REFUSED-KEY-REVOKED" in answer.stderr) == (3, True), words
    assert world.hospital.issued_to(stolen) == []

    again = world.run("member", "add", "taken", *may)
    assert again.returncode == 0, again.stderr
    assert world.key("taken") != stolen
    assert world.hospital.issued_to(stolen) == []
    assert [one.name for one in world.hospital.members()].count("taken") == 1


def test_a_revoked_member_is_answered_by_no_page_of_its_domain(world: World) -> None:
    """A123: to log in by a role, to renew, to ask what it may do."""
    world.hospital.add_member("guest", may="subscribe:Ward")
    asked = ("login", "--as", "guest", "--wallet", "guest-wallet")
    before = world.run(*asked)
    world.hospital.revoke("guest")
    after = world.run(*asked)
    assert "REFUSED-KEY-REVOKED" not in before.stderr
    assert (after.returncode, "REFUSED-KEY-REVOKED" in after.stderr) == (3, True), after.stderr


def test_the_same_key_is_used_again_by_those_who_say_so(world: World) -> None:
    world.hospital.add_member("found", may="publish:Ward")
    key = world.key("found")
    world.hospital.revoke("found", reason="lost in the canteen")
    second = system_now() // SECOND
    wait_until(lambda: system_now() // SECOND > second)  # the same certificate would be the revoked one
    answer = world.run("member", "add", "found", "--same-key", "--org", "hospital", "--may", "publish:Ward")
    assert answer.returncode == 0, answer.stderr
    assert world.key("found") == key
    with maia.connect(world.hospital.folder / "found.maia") as client:
        client.publish("Ward", place="3")


def test_a_stolen_key_of_an_organisation_is_neither_invited_nor_believed(world: World) -> None:
    """A123: to revoke what an organisation may see is to leave it in; to call it stolen is not."""
    key = world.institute.principal
    world.institute.define("Trial", title="string")
    world.hospital.grant(key, may="subscribe:Ward")
    assert world.hospital.losses(str(key)).kept
    assert world.hospital.losses(str(key), is_stolen=True).kept == ()
    answer = world.run("revoke", key, "--stolen", "--org", "hospital")
    assert answer.returncode == 0, answer.stderr
    assert world.hospital.invited() == {}
    with pytest.raises(Refusal, match="was revoked here"):
        world.hospital.grant(key, may="subscribe:Ward")
    file = world.institute.grant(world.hospital.principal, may="subscribe:Trial").save(world.home / "t.grant")
    with pytest.raises(Refusal, match="is signed with the key") as refused:
        world.hospital.join(file, leave=True)
    assert refused.value.code == "REFUSED-KEY-REVOKED"
