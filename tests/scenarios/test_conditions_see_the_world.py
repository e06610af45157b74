"""X9 in processes: what a hospital's policy asks of the world, beside the certificate and the event.

One organisation with its server and broker, used by documented commands and policy documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import maia
from maia.client.api.blocking_client import BlockingSubscription
from maia.testing import wait_until
from support.processes import maia as command
from support.processes import running_maia

HEAD = """policy "County hospital"
fact works_here(who: principal)
fact incident
fact clearance(who: principal, level: int)
fact site(name: string)
role porter
rule porter
    while works_here(holder)
    for 1 day
grant porter
    may subscribe to Alarm(place, ward)
"""


LOOKUPS = """[[lookups]]
name = "site"
of = "client-address"
issuer = "hospital.pub"
key = "string"
value = "string"
source = "file"
path = "sites.csv"
columns = ["address", "site"]
every_s = 1
stale_s = 60
"""


def done(home: Path, *words: object) -> str:
    answer = command(*words, cwd=home)
    assert answer.returncode == 0, (words, answer.stdout, answer.stderr)
    return answer.stdout


def load(home: Path, clauses: str) -> None:
    (home / "hospital.policy").write_text(f"{HEAD}{clauses}end\n")
    done(home, "domain", "policy", "load", "hospital.policy", "--as", "hospital")
    done(home, "login", "--as", "ann")


def fact(home: Path, act: str, *words: object) -> None:
    done(home, "domain", "fact", act, *words, "--as", "hospital")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hospital")
    for words in (
        ("org", "new", "hospital"),
        ("type", "define", "Alarm", "place:string", "ward:string", "--org", "hospital"),
        ("member", "add", "desk", "--may", "publish:Alarm", "--org", "hospital"),
        ("member", "add", "ann", "--org", "hospital"),
    ):
        done(folder, *words)
    (folder / "hospital/sites.csv").write_text("address,site\n127.0.0.1,ward\n")
    (folder / "hospital/lookups.toml").write_text(LOOKUPS)
    with (folder / "hospital/broker.toml").open("a") as config_file:
        config_file.write('lookups = "lookups.toml"\n')
    with ExitStack() as stack:
        for name, words in (("domain", ("domain", "serve")), ("broker", ("broker",))):
            output = folder / "hospital" / f"{name}-output"
            output.mkdir()
            config = ("--config", folder / "hospital" / f"{name}.toml")
            stack.enter_context(running_maia(*words, *config, cwd=output))
            wait_until(lambda out=output / "out.log": "listening" in out.read_text())
        (folder / "hospital.policy").write_text(f"{HEAD}end\n")
        done(folder, "domain", "policy", "load", "hospital.policy", "--as", "hospital")
        fact(folder, "assert", "works_here", "hospital/ann.maia/ann.pub")
        yield folder


def subscribed(ann: maia.BlockingClient) -> BlockingSubscription:
    """Subscribe once the broker has heard what the condition asks for."""
    found: list[BlockingSubscription] = []

    def tried() -> bool:
        with suppress(maia.Refusal):
            found.append(ann.subscribe("Alarm"))
        return bool(found)

    wait_until(tried)
    return found[0]


def test_a_fact_about_no_person_opens_a_right_and_ends_it(home: Path, monkeypatch) -> None:
    """X9: `fact incident` is stated, watched and revoked like a fact about a person."""
    monkeypatch.chdir(home)
    load(home, "    provided incident == true\n")
    with maia.connect("desk") as desk, maia.connect("ann") as ann:
        with pytest.raises(maia.Refusal, match="condition"):
            ann.subscribe("Alarm")
        fact(home, "assert", "incident")
        alarms = subscribed(ann)
        desk.publish("Alarm", place="CB3 0FD", ward="A")
        assert alarms.some(timeout_s=60)[0] == {"place": "CB3 0FD", "ward": "A"}
        fact(home, "retract", "incident")
        with pytest.raises(maia.Refusal, match="condition"):
            alarms.some(timeout_s=60)


def test_a_fact_that_can_never_be_stated_is_found_before_it_is_in_force(home: Path) -> None:
    (home / "wrong.policy").write_text(f"{HEAD}    provided incidents == true\nend\n")
    found = command("domain", "policy", "check", "wrong.policy", "--as", "hospital", cwd=home)
    assert (found.returncode, "there is no fact `incidents`" in found.stderr) == (2, True), found


def places(alarms: BlockingSubscription, desk: maia.BlockingClient) -> object:
    """Publish an alarm, and return where its reader is told that it is."""
    desk.publish("Alarm", place="CB3 0FD", ward="A")
    return alarms.some(timeout_s=60)[0]["place"]


def test_a_transformation_sees_the_world_and_follows_it(home: Path, monkeypatch) -> None:
    """X9: the place is coarse unless there is an incident, for subscriptions that stand."""
    monkeypatch.chdir(home)
    load(home, "    set place := first(place, 2) when world.incident == false\n")
    with maia.connect("desk") as desk, maia.connect("ann") as ann:
        alarms = ann.subscribe("Alarm")
        wait_until(lambda: places(alarms, desk) == "CB")
        fact(home, "assert", "incident")
        wait_until(lambda: places(alarms, desk) == "CB3 0FD")
        fact(home, "retract", "incident")
        wait_until(lambda: places(alarms, desk) == "CB")


def test_a_transformation_sees_its_reader_and_functions_of_the_place(home: Path, monkeypatch) -> None:
    """X9: a value of a fact about the reader, and a table that the broker's operator registered."""
    monkeypatch.chdir(home)
    ann = "hospital/ann.maia/ann.pub"
    load(
        home,
        "    set place := first(place, 2) when not world.clearance >= 3\n"
        '    set ward := none when not world.site == "ward"\n',
    )
    with maia.connect("desk") as desk, maia.connect("ann") as reader:
        alarms = reader.subscribe("Alarm")

        def seen() -> dict[str, object]:
            desk.publish("Alarm", place="CB3 0FD", ward="A")
            return dict(alarms.some(timeout_s=60)[0])

        assert seen() == {"place": None, "ward": "A"}, "of whom nothing is stated, nothing is known"
        fact(home, "assert", "clearance", ann, 2)
        wait_until(lambda: seen()["place"] == "CB")
        fact(home, "retract", "clearance", ann, 2)
        fact(home, "assert", "clearance", ann, 3)
        wait_until(lambda: seen() == {"place": "CB3 0FD", "ward": "A"})
        (home / "hospital/sites.csv").write_text("address,site\n127.0.0.1,street\n")
        wait_until(lambda: seen() == {"place": "CB3 0FD", "ward": None})
