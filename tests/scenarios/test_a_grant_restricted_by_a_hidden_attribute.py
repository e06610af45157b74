"""A hospital shows an institute the values of two wards, and not the ward, of events that travel sealed.

Over the servers of both organisations: what arrives live, what a durable subscription is handed later and
what a table shows of the log is the same (the README's "same rows and columns").
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import maia
from maia.config.input_files import read_principal
from maia.credentials import certificate_to_text
from maia.spark.governed.reader import RowsWithheld
from maia.testing import wait_until
from maia.testing.refusals import raises
from support.processes import maia as command
from support.two_organisations import TwoOrganisations

WARDS = 'ward in ("3", "4")'
ROWS = range(60)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoOrganisations]:
    home = tmp_path_factory.mktemp("home")
    hospital = maia.Organisation.create(home / "hospital")
    hospital.define("LabResult", patient="string", ward="string", value="int", sealed=True)
    hospital.add_member("lab", may="publish:LabResult")
    institute = maia.Organisation.create(home / "institute")
    grant = hospital.grant(
        institute.principal, may="subscribe:LabResult", only=["value"], where=WARDS, delegable=True
    )
    grant.save(home / "institute.grant")
    institute.join(home / "institute.grant")
    institute.add_member("dashboard", may="subscribe:LabResult")
    with ExitStack() as stack:
        yield TwoOrganisations(hospital, institute).start(stack)


def publish(lab: maia.BlockingClient, rows: range) -> None:
    for number in rows:
        lab.publish("LabResult", patient="P-17", ward=str(number % 6), value=number)


def give_unseen(ours: maia.Organisation, name: str) -> None:
    """Give a member a right that the organisation's server does not know of, as `maia cert issue` does."""
    folder = ours.add_member(name).path
    (right,) = ours.rights("subscribe:LabResult")
    signed = ours._signing().right(right, read_principal(str(folder / f"{name}.pub")))
    (folder / "certs" / "unseen.cert").write_text(certificate_to_text(signed))
    for one in (ours.folder / "types").glob("*.type"):
        shutil.copy(one, folder / "types")


def are_begun(owner: maia.Organisation, who: str) -> bool:
    """Return whether the publishers' broker has the keys that the key server has begun for a reader."""
    began = [one["epoch"] for one in noted(owner, "domain", "expected") if one["principal"] == who]
    return bool(began) and any(one["epoch"] >= began[0] for one in noted(owner, "broker", "keys"))


def noted(owner: maia.Organisation, server: str, event: str) -> list[dict[str, Any]]:
    """Return what a server has logged of some kind."""
    lines = (owner.folder / f"{server}-output" / "err.log").read_text().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
    return [one for one in found if one["event"] == event]


def recorded_for(profile: Path, log: Path) -> list[int]:
    """Return the values that a member finds in a table of a log."""
    with (
        warnings.catch_warnings(action="ignore", category=RowsWithheld),
        maia.open_log(log, as_=profile) as opened,
    ):
        return sorted(row["value"] for row in opened.table("LabResult").to_arrow().to_pylist())


def granted(rows: range) -> list[int]:
    return [number for number in rows if number % 6 in (3, 4)]


def test_live_durable_and_recorded_are_the_same_rows(world: TwoOrganisations, spark) -> None:
    with (
        maia.connect(world.profile("lab")) as lab,
        maia.connect(world.profile("dashboard")) as dashboard,
    ):
        live = dashboard.subscribe("LabResult")
        durable = dashboard.subscribe("LabResult", durable="nightly", timeout_s=120)
        seen: list[int] = []
        sent = 0
        while not seen:  # from the moment on at which the institute's broker has its keys
            publish(lab, range(sent, sent + 6))
            sent += 6
            seen += [event["value"] for event in live.some(timeout_s=1)]
        publish(lab, range(sent, sent + len(ROWS)))
        wanted = granted(range(seen[0], sent + len(ROWS)))
        while len(seen) < len(wanted):
            (event,) = live.some(1, timeout_s=60)
            assert event.hidden == {"patient", "ward"}
            seen.append(event["value"])
        assert seen == wanted
        assert [event["value"] for event in islice(durable, len(wanted))] == wanted
    recorded = [{"patient": None, "ward": None, "value": value} for value in wanted]

    def are_recorded() -> bool:
        with maia.open_log(as_=world.profile("dashboard")) as log:
            rows = log.table("LabResult").to_spark(spark).collect()
        found = sorted((row.asDict() for row in rows), key=lambda row: row["value"])
        assert found == recorded[: len(found)]
        return len(found) == len(recorded)

    wait_until(are_recorded)  # once the broker has written all of it to the files of its log


def test_what_was_recorded_before_a_members_keys_is_not_shown_and_that_is_said(
    world: TwoOrganisations, spark
) -> None:
    give_unseen(world.institute, "late")
    with maia.connect(world.profile("lab")) as lab:
        publish(lab, range(3, 5))
    warned: list[str] = []

    def is_warned() -> bool:
        with (
            warnings.catch_warnings(record=True, action="always", category=RowsWithheld) as found,
            maia.open_log(as_=world.profile("late")) as log,
        ):
            log.table("LabResult").to_spark(spark)
        warned.extend(str(one.message) for one in found if one.category is RowsWithheld)
        return bool(warned)

    wait_until(is_warned)  # once the broker has written them to the files of its log
    assert re.search(r"what was published before 20.* is not shown \[PIPELINE-KEYS-BEGIN-LATER\]", warned[0])


def test_a_members_first_table_shows_what_was_published_since_it_was_added(world: TwoOrganisations) -> None:
    """X8: what its right is shown is sealed for it, before it asks for a key."""
    readers = [
        world.hospital.add_member("nurse", may="subscribe:LabResult", only=["value"], where='ward == "3"'),
        world.institute.add_member("trainee", may="subscribe:LabResult", set=["value := bucket(value, 10)"]),
    ]
    world.hospital.add_member("clerk", may="subscribe:LabResult")
    log, rows = world.hospital.folder / "log", range(1002, 1014)
    with maia.connect(world.profile("lab")) as lab:
        wait_until(lambda: all(are_begun(world.hospital, one.principal()) for one in readers))
        publish(lab, rows)
    # Once the broker has written them to the files of its log.
    wait_until(lambda: rows[-1] in recorded_for(world.profile("clerk"), log))
    assert recorded_for(world.profile("nurse"), log) == [1005, 1011]
    assert recorded_for(world.profile("trainee"), log) == [1000, 1000, 1010, 1010]


def test_an_organisation_restricts_by_nothing_that_it_may_not_read(world: TwoOrganisations) -> None:
    with raises("POLICY-ATTRIBUTE-NOT-READABLE", match="cannot restrict a right by `ward`"):
        world.institute.add_member("intern", may="subscribe:LabResult", where='ward == "3"')
    world.institute.add_member("intern", may="subscribe:LabResult", where="value > 100")


def test_the_status_of_an_organisations_broker_is_asked_for_by_its_folder(world: TwoOrganisations) -> None:
    answer = command("status", "--org", world.hospital.folder, cwd=world.institute.folder)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "hospital/broker" in answer.stdout


def test_explain_says_since_when_hidden_restrictions_are_answered(world: TwoOrganisations) -> None:
    words = ("explain", "LabResult", "--as", world.profile("dashboard"), "--action", "subscribe")
    answer = command(*words, cwd=world.institute.folder)
    assert answer.returncode == 0
    assert "what was recorded before is not shown" in answer.stdout
