"""X8: a hospital shows an institute pulses in steps of ten, of two wards, of events that travel sealed.

The institute has no key of the pulse, the ward or the patient. What it is shown is made where the events
are published, and sealed for it. Over the servers of both organisations: what arrives live, what a
durable subscription is handed later and what a table shows of the log is the same.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice

import pytest

import maia
from maia.spark.governed.reader import RowsWithheld
from maia.testing import DEADLINE_S, wait_until
from support.processes import maia as command
from support.two_organisations import TwoOrganisations

WARDS = 'ward in ("3", "4")'
PATIENT = "P-17"


@pytest.fixture(scope="module", params=["attribute", "event"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoOrganisations]:
    home = tmp_path_factory.mktemp("home")
    hospital = maia.Organisation.create(home / "hospital")
    hospital.define(
        "Vital", patient="string", ward="string", pulse="int", number="int", sealed=True, level=request.param
    )
    hospital.add_member("monitor", may="publish:Vital")
    institute = maia.Organisation.create(home / "institute")
    grant = hospital.grant(
        institute.principal,
        may="subscribe:Vital",
        set=["pulse := bucket(pulse, 10)"],
        only=["pulse", "number"],
        where=WARDS,
        delegable=True,
    )
    grant.save(home / "institute.grant")
    institute.join(home / "institute.grant")
    institute.add_member("dashboard", may="subscribe:Vital")
    institute.add_member("trainee", may="subscribe:Vital", only=["pulse"], where="pulse >= 50")
    with ExitStack() as stack:
        yield TwoOrganisations(hospital, institute).start(stack)


def publish(monitor: maia.BlockingClient, rows: range) -> None:
    for number in rows:
        monitor.publish("Vital", patient=PATIENT, ward=str(number % 6), pulse=number % 100, number=number)


def shown(rows: range) -> list[dict[str, int]]:
    return [{"pulse": row % 100 // 10 * 10, "number": row} for row in rows if row % 6 in (3, 4)]


def test_live_durable_and_recorded_are_the_same_rows(world: TwoOrganisations) -> None:
    with world.connect("monitor") as monitor, world.connect("dashboard") as dashboard:
        live = dashboard.subscribe("Vital")
        durable = dashboard.subscribe("Vital", durable="nightly", timeout_s=120)
        seen: list[dict[str, int]] = []
        sent = 0
        deadline = time.monotonic() + DEADLINE_S
        while not seen:  # from the moment on at which the institute's broker has its keys
            assert time.monotonic() < deadline
            publish(monitor, range(sent, sent + 6))
            sent += 6
            seen += [dict(event) for event in live.some(timeout_s=1)]
        with world.connect("trainee") as trainee:
            less = trainee.subscribe("Vital", timeout_s=120)
            asked = dashboard.subscribe("Vital", "pulse == 70 and number >= 0")
            first, sent = sent, sent + 120
            publish(monitor, range(first, sent))
            wanted = shown(range(seen[0]["number"], sent))
            while len(seen) < len(wanted):
                (event,) = live.some(1, timeout_s=60)
                assert event.hidden == {"patient", "ward"}
                seen.append({name: event[name] for name in ("pulse", "number")})
            assert seen[-40:] == wanted[-40:]
            found = [(event["pulse"], event["number"]) for event in islice(durable, len(wanted))]
            assert found == [(one["pulse"], one["number"]) for one in wanted]
            high = [one["pulse"] for one in shown(range(first, sent)) if one["pulse"] >= 50]
            assert [event["pulse"] for event in islice(less, len(high))] == high
            of_70 = [one["number"] for one in shown(range(first, sent)) if one["pulse"] == 70]
            assert [event["number"] for event in islice(asked, len(of_70))] == of_70 != []

    def are_recorded() -> bool:
        with (
            warnings.catch_warnings(action="ignore", category=RowsWithheld),
            maia.open_log(as_=world.profile("dashboard")) as log,
        ):
            rows = log.table("Vital").to_arrow().to_pylist()
        found = sorted((row for row in rows if row["number"] >= first), key=lambda row: row["number"])
        assert all(row["patient"] is row["ward"] is None for row in found)
        return [(row["pulse"], row["number"]) for row in found] == [
            (one["pulse"], one["number"]) for one in wanted if one["number"] >= first
        ]

    wait_until(are_recorded)  # once the broker has written all of it to the files of its log


def test_explain_says_who_makes_what_is_shown(world: TwoOrganisations) -> None:
    words = ("explain", "Vital", "--as", world.profile("dashboard"), "--action", "subscribe")
    answer = command(*words, cwd=world.institute.folder)
    assert answer.returncode == 0
    assert "publishers' brokers make it" in answer.stdout
    assert "brings a broker no key" not in answer.stdout
