"""Two organisations whose servers run while types, members, grants and revocations come: no restart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import maia
from maia.credentials import Action, AuthorisationCertificate, NameCertificate, certificate_to_text
from maia.keystore.key_files import load_signing_key
from maia.organisation import read_grant
from maia.testing import wait_until
from maia.testing.x509 import Authority as X509Authority
from maia.testing.x509 import in_pem
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
    made.hospital.add_member("ward", may="subscribe:LabResult")  # so its broker serves readers
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


def test_all_versions_of_a_type_are_found_over_the_network(world: World) -> None:
    """MAIA 4.2, figure 4.1: a participant asks its broker, which asks others, or its owner's registry."""
    command("type", "change", "LabResult", "--add", "unit:string", "--org", "hospital", cwd=world.home)
    world.institute.add_member("dashboard", may="subscribe:LabResult")
    owner = str(world.hospital.principal)
    about = ("LabResult", "--owner", "hospital/hospital.pub", "--as", "institute/dashboard.maia", "--json")

    def listed(*words: object) -> list[dict[str, object]]:
        answer = command("type", "versions", *about, *words, cwd=world.home)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)["versions"]

    wait_until(lambda: len(listed()) == 2)
    first, second = listed("--from", world.institute.addresses["broker"])
    assert [first["is_newest"], second["is_newest"]] == [False, True]
    assert (second["previous"], second["attributes"]) == (
        first["version"],
        ["patient", "ward", "value", "unit"],
    )
    registry = ("--server", world.hospital.addresses["server"], "--domain", "hospital/hospital.pub")
    wait_until(lambda: listed(*registry, "--broker", world.hospital.addresses["broker"]) == [first, second])
    fetched = command("type", "fetch", *about, "-o", "newest.type", cwd=world.home)
    assert json.loads(fetched.stdout)["version"] == second["version"]
    older = command("type", "fetch", *about, "-o", "older.type", "--version", "0", cwd=world.home)
    assert json.loads(older.stdout)["version"] == "0"
    with maia.connect(world.institute.folder / "dashboard.maia") as dashboard:
        assert [one.name.version for one in dashboard.versions("LabResult", world.hospital.principal)] == [
            first["version"], second["version"]
        ]  # fmt: skip
    with maia.connect(world.institute.folder / "desk.maia") as desk, pytest.raises(maia.Refusal):
        desk.subscribe(f"LabResult@{owner}")  # it is found by its owner's key, and not granted
    answer = command("type", "versions", "LabResul", *about[1:], cwd=world.home)
    assert "UNAVAILABLE-TYPE" in answer.stderr + answer.stdout


def test_certificates_are_pushed_to_the_client_and_the_broker_that_they_are_for(world: World) -> None:
    """MAIA 6.5.2: what the institute issues reaches a client at another broker, and its own broker."""
    home, institute, owner = world.home, world.institute, str(world.hospital.principal)
    world.hospital.define("Notice", text="string")
    world.hospital.add_member("porter", may=["publish:Notice", "subscribe:Notice"])
    file = home / "notice.grant"
    world.hospital.grant(institute.folder / "institute.pub", may="subscribe:Notice", delegable=True).save(
        file
    )
    institute.join(file)
    institute.add_member("doctor", may="subscribe:LabResult")
    shutil.copytree(institute.folder / "doctor.maia", home / "laptop.maia")  # and nothing is copied later
    here, there = world.hospital.addresses["broker"], institute.addresses["broker"]
    profile = home / "laptop.maia" / "profile.toml"
    with_hospital = f'brokers_of = ["{owner}", '
    profile.write_text(profile.read_text().replace(there, here).replace("brokers_of = [", with_hospital))
    with (
        maia.connect(home / "laptop.maia") as doctor,
        maia.connect(home / "hospital" / "porter.maia") as porter,
    ):
        with pytest.raises(maia.Refusal):
            doctor.subscribe(f"Notice@{owner}")
        institute.add_member("doctor", may="subscribe:Notice")

        def is_granted() -> bool:
            with suppress(maia.Refusal):
                subscription = doctor.subscribe(f"Notice@{owner}")
                porter.publish("Notice", text="ward 3 is closed")
                return [one["text"] for one in subscription.some(timeout_s=5)] == ["ward 3 is closed"]
            return False

        wait_until(is_granted)
    # The right, and its chain. What the doctor was granted before may have arrived late, and be there too.
    pushed = [one.read_text() for one in (home / "laptop.maia" / "wallet").glob("pushed-*.cert")]
    assert sum("(name Notice)" in text for text in pushed) == 2
    words = (
        "--subject",
        "institute/broker.pub",
        "--owner",
        owner,
        "--type",
        "Notice",
        "--action",
        "subscribe",
    )
    command(
        "cert",
        "issue",
        "-k",
        "institute/institute.key",
        *words,
        "--days",
        "1",
        "-o",
        "institute/issued/b.cert",
        cwd=home,
    )
    folder = institute.folder / "broker-data" / "certificates"
    wait_until(lambda: len(list(folder.glob("pushed-*.cert"))) == 2)
    assert "Notice" not in "".join(
        one.read_text() for one in (home / "hospital").glob("log/**/*.arrow") if one.is_file()
    )


def test_a_subject_is_granted_rights_by_its_x509_name(world: World) -> None:
    """MAIA 2.6.2: the hospital grants to a name that Norway certifies; a chain proves it."""
    home, secret, norway = world.home, ec.generate_private_key(ec.SECP256R1()), X509Authority("CN=Norway")
    chain = norway.issue(secret.public_key(), "CN=Berit,O=Norway")
    pem = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for name, data in {"berit.pem": in_pem(chain), "berit.x509": pem, "norway.pem": norway.pem}.items():
        (home / name).write_bytes(data)
    (home / "norway.crl").write_bytes(norway.revoke())
    for words in (
        ("key", "new", "berit.key"),
        ("cert", "prove", "berit.pem", "--x509-key", "berit.x509", "-k", "berit.key",
         "--to", "hospital/hospital.pub", "-o", "berit.proof"),
        ("grant", "berit.proof", "--authority", "norway.pem", "--revocation-list", "norway.crl",
         "--org", "hospital", "--may", "subscribe:LabResult", "--only", "ward", "--days", "30",
         "-o", "berit.grant"),
    ):  # fmt: skip
        answer = command(*words, cwd=home)
        assert answer.returncode == 0, answer.stderr
    granted = read_grant(home / "berit.grant")
    key, address = load_signing_key(home / "berit.key"), world.hospital.addresses["broker"]
    network, shown = world.hospital.network, granted.certificates
    with (
        maia.connect(
            address, key=key, network=network, credentials=shown, types=granted.definitions
        ) as berit,
        maia.connect(world.hospital.folder / "lab.maia") as lab,
    ):
        heard = berit.subscribe("LabResult")
        lab.publish("LabResult", ward="3", value=1)
        (event,) = heard.some(timeout_s=60)
        assert (event["ward"], event["value"]) == ("3", None)
        assert {one.certificate.subject for one in shown if isinstance(one.certificate, NameCertificate)} == {
            key.principal
        }
        command("revoke", "berit.grant", "--org", "hospital", cwd=home)
        with pytest.raises(maia.Refusal):
            list(heard)
