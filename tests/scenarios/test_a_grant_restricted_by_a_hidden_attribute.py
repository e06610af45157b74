"""A hospital shows an institute the values of two wards, and not the ward, of events that travel sealed.

Over the servers of both organisations: what arrives live, what a durable subscription is handed later and
what a table shows of the log is the same (the README's "same rows and columns").
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

import maia
from maia.spark.governed.reader import RowsWithheld
from maia.testing import wait_until
from maia.testing.refusals import raises
from support.processes import maia as command
from support.processes import running_maia

WARDS = 'ward in ("3", "4")'
ROWS = range(60)


@dataclass(frozen=True)
class TwoOrganisations:
    hospital: maia.Organisation
    institute: maia.Organisation

    def profile(self, name: str) -> Path:
        at_home = self.hospital.folder / f"{name}.maia"
        return at_home if at_home.exists() else self.institute.folder / f"{name}.maia"


def start(stack: ExitStack, organisation: maia.Organisation) -> None:
    for name, words in (("domain", ("domain", "serve")), ("broker", ("broker",))):
        folder = organisation.folder / f"{name}-output"
        folder.mkdir()
        config = organisation.folder / f"{name}.toml"
        stack.enter_context(running_maia(*words, "--config", config, cwd=folder))
        wait_until(lambda out=folder / "out.log": "listening" in out.read_text())


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
        start(stack, hospital)
        start(stack, institute)
        yield TwoOrganisations(hospital, institute)


def publish(lab: maia.BlockingClient, rows: range) -> None:
    for number in rows:
        lab.publish("LabResult", patient="P-17", ward=str(number % 6), value=number)


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
    world.institute.add_member("late", may="subscribe:LabResult")
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


def test_an_organisation_restricts_by_nothing_that_it_may_not_read(world: TwoOrganisations) -> None:
    with raises("POLICY-ATTRIBUTE-NOT-READABLE", match="cannot restrict a right by `ward`"):
        world.institute.add_member("intern", may="subscribe:LabResult", where='ward == "3"')
    world.institute.add_member("intern", may="subscribe:LabResult", where="value > 100")


def test_explain_says_since_when_hidden_restrictions_are_answered(world: TwoOrganisations) -> None:
    words = ("explain", "LabResult", "--as", world.profile("dashboard"), "--action", "subscribe")
    answer = command(*words, cwd=world.institute.folder)
    assert answer.returncode == 0
    assert "what was recorded before is not shown" in answer.stdout
