"""Two ports and a customs office in one network: each with types of its own, membership and data apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import maia
from maia.testing import wait_until
from support.processes import maia as command
from support.processes import running_maia


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Hamburg coordinates, Rotterdam was invited, customs reads both ports; all servers run."""
    folder = tmp_path_factory.mktemp("ports")
    for words in (
        ("org", "new", "hamburg"),
        ("org", "new", "rotterdam"),
        ("org", "new", "customs"),
        ("type", "define", "ShipMovement", "ship:string", "quay:string", "--org", "hamburg"),
        ("type", "define", "Manifest", "ship:string", "cargo:string", "--sealed", "--org", "hamburg"),
        ("member", "add", "tower", "--may", "publish:ShipMovement", "--may", "publish:Manifest",
         "--org", "hamburg"),
        ("type", "define", "ShipMovement", "ship:string", "berth:int", "--org", "rotterdam"),
        ("member", "add", "pilot", "--may", "publish:ShipMovement", "--org", "rotterdam"),
        ("network", "invite", "rotterdam/rotterdam.pub", "--org", "hamburg", "-o", "rotterdam.invite"),
        ("network", "join", "rotterdam.invite", "--org", "rotterdam"),
        ("type", "define", "Notice", "text:string", "--org", "rotterdam"),
        ("member", "add", "pilot", "--may", "publish:Notice", "--org", "rotterdam"),
        ("grant", "customs/customs.pub", "--org", "hamburg", "--may", "subscribe:ShipMovement",
         "--may", "subscribe:Manifest", "--delegable", "-o", "hamburg.grant"),
        ("grant", "customs/customs.pub", "--org", "rotterdam", "--may", "subscribe:ShipMovement",
         "--may", "subscribe:Notice", "--delegable", "-o", "rotterdam.grant"),
        ("org", "join", "hamburg.grant", "--org", "customs"),
        ("org", "join", "rotterdam.grant", "--org", "customs"),
        ("member", "add", "desk", "--org", "customs", "--may", "subscribe:ShipMovement@hamburg",
         "--may", "subscribe:ShipMovement@rotterdam", "--may", "subscribe:Notice"),
        ("member", "add", "inspector", "--org", "customs"),
    ):  # fmt: skip
        answer = command(*words, cwd=folder)
        assert answer.returncode == 0, (words, answer.stderr)
    with ExitStack() as stack:
        for org in ("hamburg", "rotterdam", "customs"):
            for name, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
                output = folder / org / f"{name}-output"
                output.mkdir()
                config = ("--config", folder / org / f"{name}.toml")
                stack.enter_context(running_maia(*words, *config, cwd=output))
                wait_until(lambda out=output / "out.log": "listening" in out.read_text())
        yield folder


def test_types_of_one_name_are_told_apart_by_their_owners(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1, F6: a type from before joining and one of the coordinator, both read by a third organisation."""
    monkeypatch.chdir(home)
    with (
        maia.connect("tower") as tower,
        maia.connect("pilot") as pilot,
        maia.connect("desk") as desk,
    ):
        with pytest.raises(maia.BadInput, match="say which of ShipMovement@hamburg, ShipMovement@rotterdam"):
            desk.subscribe("ShipMovement")
        hamburg = desk.subscribe("ShipMovement@hamburg")
        rotterdam = desk.subscribe("ShipMovement@rotterdam")
        tower.publish("ShipMovement", ship="Otto", quay="Burchard")
        pilot.publish("ShipMovement", ship="Emma", berth=3)
        assert hamburg.some(timeout_s=60)[0] == {"ship": "Otto", "quay": "Burchard"}
        assert rotterdam.some(timeout_s=60)[0] == {"ship": "Emma", "berth": 3}


POLICY = """policy "Customs"
fact on_duty(who: principal)
role inspector
rule inspector
    while on_duty(holder)
    for 1 day
grant inspector
    may subscribe to Manifest@hamburg(ship, cargo)
grant inspector
    may subscribe to ShipMovement@hamburg(ship)
end
"""


def test_a_role_to_a_sealed_type_is_used_after_a_login(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F6: a member without a right and without a type logs in, and subscribes to both by name."""
    monkeypatch.chdir(home)
    (home / "customs.policy").write_text(POLICY)
    for words in (
        ("domain", "policy", "load", "customs.policy", "--as", "customs"),
        ("domain", "fact", "assert", "on_duty", "customs/inspector.maia/inspector.pub", "--as", "customs"),
        ("login", "--as", "inspector"),
    ):
        answer = command(*words, cwd=home)
        assert answer.returncode == 0, (words, answer.stderr)
    with maia.connect("tower") as tower, maia.connect("inspector") as inspector:
        manifests, ships = inspector.subscribe("Manifest"), inspector.subscribe("ShipMovement")
        tower.publish("Manifest", ship="Otto", cargo="coffee")
        tower.publish("ShipMovement", ship="Otto", quay="Burchard")
        assert manifests.some(timeout_s=60)[0] == {"ship": "Otto", "cargo": "coffee"}
        assert ships.some(timeout_s=60)[0] == {"ship": "Otto", "quay": None}


def test_a_grant_is_revoked_without_the_membership_and_membership_apart(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1, F7: customs loses Hamburg's data and goes on with Rotterdam's, until that is expelled."""
    monkeypatch.chdir(home)
    with maia.connect("pilot") as pilot, maia.connect("desk") as desk:
        hamburg = desk.subscribe("ShipMovement@hamburg")
        notices = desk.subscribe("Notice")
        answer = command("revoke", "hamburg.grant", "--org", "hamburg", cwd=home)
        assert answer.returncode == 0, answer.stderr
        with pytest.raises(maia.Refusal):
            hamburg.some(timeout_s=60)
        joined = command("network", "join", "hamburg.grant", "--org", "customs", cwd=home)
        assert (joined.returncode, "[REFUSED-GRANT-REVOKED]" in joined.stderr) == (3, True), joined.stderr
        listed = json.loads(command("member", "list", "--org", "customs", "--json", cwd=home).stdout)
        counts = {
            (listed["names"][right["rests_on"][0]["by"]]["name"], right["counts"])
            for right in listed["members"][0]["rights"]
        }
        assert counts == {("hamburg", False), ("rotterdam", True)}
        pilot.publish("Notice", text="fog")
        assert notices.some(timeout_s=60)[0] == {"text": "fog"}
        expel = ("network", "revoke", "rotterdam", "--org", "hamburg")
        assert "dry run      nothing was revoked" in command(*expel, "--dry-run", cwd=home).stdout
        answer = command(*expel, cwd=home)
        assert answer.returncode == 0, answer.stderr
        with pytest.raises(maia.MaiaError):
            publish_for_ever(pilot)
    shown = command("network", "show", "--org", "hamburg", "--json", cwd=home)
    assert '"rotterdam"' not in shown.stdout
    assert '"customs"' in shown.stdout


def publish_for_ever(client: maia.BlockingClient) -> None:
    while True:
        client.publish("Notice", text="still here")
