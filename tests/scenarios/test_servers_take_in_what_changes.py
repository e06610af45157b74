"""Two organisations whose servers run while types, members, grants and revocations come: no restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import maia
from maia.credentials import Action, AuthorisationCertificate, certificate_to_text
from maia.testing import wait_until
from support.processes import Answer, running_maia
from support.processes import maia as command

POLICY = """policy "Institute"
type LabResult = LabResult
fact analyst(who: principal)
role reader
rule reader
    while analyst(holder)
    until revoked
grant reader
    may subscribe to LabResult(ward, value)
end
"""


@dataclass
class World:
    """A hospital and an institute, each with its servers, and an analyst who logs in at the institute."""

    home: Path
    hospital: maia.Organisation
    institute: maia.Organisation
    granted: maia.Grant = field(init=False)

    def grant(self, name: str, **more: object) -> None:
        key, file = self.institute.folder / "institute.pub", self.home / f"{name}.grant"
        self.granted = self.hospital.grant(key, may="subscribe:LabResult", delegable=True, **more)
        self.granted.save(file)
        self.institute.join(file)

    def log(self, ours: maia.Organisation) -> str:
        return (self.home / ours.name / "err.log").read_text()

    def starts(self) -> list[int]:
        return [self.log(ours).count("listening on") for ours in (self.hospital, self.institute)]

    def ask(self, *words: object) -> Answer:
        at = ("--server", self.institute.addresses["server"], "--domain", "institute/institute.pub")
        return command(*words, *at, cwd=self.home)

    def login(self) -> dict[str, list[dict[str, str]]]:
        answer = self.ask("login", "-k", "anna.key", "--wallet", "wallet", "--json")
        assert answer.returncode == 0, answer.stderr
        found: dict[str, list[dict[str, str]]] = json.loads(answer.stdout)
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    made = World(home, *(maia.Organisation.create(home / name) for name in ("hospital", "institute")))
    made.hospital.define("LabResult", patient="string", ward="string", value="int")
    made.hospital.add_member("lab", may="publish:LabResult")
    made.grant("first", only=["ward", "value"])
    (home / "roles.policy").write_text(POLICY)
    command("key", "new", "anna.key", cwd=home)
    with ExitStack() as stack:
        for ours in (made.hospital, made.institute):
            output = home / ours.name
            stack.enter_context(running_maia("up", "--org", ours.folder, cwd=output))
        for ours in (made.hospital, made.institute):
            wait_until(lambda out=home / ours.name / "out.log": bool(out.read_text()))
        as_institute = ("-k", "institute/institute.key")
        for words in (
            ("domain", "policy", "load", "roles.policy"),
            ("domain", "fact", "assert", "analyst", (home / "anna.pub").read_text().strip()),
        ):
            answer = made.ask(*words, *as_institute)
            assert answer.returncode == 0, answer.stderr
        yield made


def test_the_first_login_waits_for_the_list_of_the_organisation_that_granted(world: World) -> None:
    """Roles pass on what another organisation granted, also when its first list has not arrived yet."""
    found = world.login()
    assert (len(found["rights"]), found["withheld"]) == (1, [])
    assert "unheard" not in world.log(world.institute)
    assert "warning" not in world.log(world.institute) + world.log(world.hospital)


def test_types_members_and_grants_are_taken_in_without_a_restart(world: World) -> None:
    before = world.starts()
    world.hospital.define("Alarm", ward="string", sealed=True)
    world.hospital.add_member("guard", may="publish:Alarm")
    file = world.home / "alarm.grant"
    key = world.institute.folder / "institute.pub"
    world.hospital.grant(key, may="subscribe:Alarm", delegable=True).save(file)
    world.institute.join(file)
    world.institute.add_member("desk", may="subscribe:Alarm")
    with (
        maia.connect(world.hospital.folder / "guard.maia") as guard,
        maia.connect(world.institute.folder / "desk.maia") as desk,
    ):
        subscription = desk.subscribe("Alarm")

        def arrives() -> bool:
            with suppress(maia.Unavailable):  # the keys of a new type are on their way
                guard.publish("Alarm", ward="7")
            return [one["ward"] for one in subscription.some(timeout_s=1)][:1] == ["7"]

        wait_until(arrives)
    assert world.starts() == before
    history = world.hospital.folder / "domain-data"
    wait_until(
        lambda: (
            '"history": true'
            in command("domain", "status", "--data", history, "--json", cwd=world.home).stdout
        )
    )


def test_settings_that_cannot_be_read_change_nothing(world: World) -> None:
    before, file = world.starts(), world.hospital.folder / "broker.toml"
    good = file.read_text()
    file.write_text(good + "\n[log\n")
    wait_until(lambda: "INPUT-CONFIG" in world.log(world.hospital))
    with maia.connect(world.hospital.folder / "lab.maia") as lab:
        lab.publish("LabResult", ward="3", value=1)
    file.write_text(good)
    assert world.starts() == before


def test_a_revoked_grant_is_shown_as_revoked_and_named_with_the_remedy(world: World) -> None:
    (revoked,) = [
        one
        for one in world.granted.certificates
        if isinstance(one.certificate, AuthorisationCertificate)
        and Action.SUBSCRIBE in one.certificate.authority.actions
    ]
    file = world.home / "revoked.cert"
    file.write_text(certificate_to_text(revoked))
    world.hospital.revoke(file)

    def register() -> str:
        return world.ask("domain", "register", "-k", "institute/institute.key").stdout

    wait_until(lambda: "revoked by " in register())
    (withheld,) = world.login()["withheld"]
    assert (withheld["right"], withheld["code"]) == ("subscribe LabResult", "CREDENTIAL-REVOKED")
    assert str(world.hospital.principal) in withheld["why"]


def test_a_new_grant_counts_at_once(world: World) -> None:
    before = world.starts()
    world.grant("second", only=["ward", "value"])
    wait_until(lambda: bool(world.login()["rights"]) and not world.login()["withheld"])
    assert world.starts() == before
