"""Programs that know a profile and a type's name, over the real servers of one organisation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal

import pytest

import maia
from maia.events import Attribute, Instant, Kind
from maia.testing import in_a_loop, wait_until
from maia.testing.refusals import raises
from maia.types import Added
from support.processes import maia as command
from support.processes import running_maia

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[maia.Organisation]:
    """A hospital whose lab publishes, and whose office sees everything but the patient."""
    made = maia.Organisation.create(tmp_path_factory.mktemp("home") / "hospital")
    made.define("LabResult", patient="string", ward="string", value="float", taken="timestamp")
    made.add_member("lab", may="publish:LabResult")
    made.add_member("office", may="subscribe:LabResult", only=["ward", "value", "taken"])
    with ExitStack() as stack:
        for name, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
            folder = made.folder / f"{name}-output"
            folder.mkdir()
            stack.enter_context(running_maia(*words, "--config", made.folder / f"{name}.toml", cwd=folder))
            wait_until(lambda out=folder / "out.log": "listening" in out.read_text())
        yield made


@in_a_loop
async def test_one_program_in_a_loop_publishes_and_another_sees_what_it_may(
    hospital: maia.Organisation,
) -> None:
    async with (
        maia.connect(hospital.folder / "lab.maia") as lab,
        maia.connect(str(hospital.folder / "office.maia")) as office,
    ):
        subscription = await office.subscribe("LabResult", "value > 100.0")
        await lab.publish("LabResult", patient="P-17", ward="3", value=142, taken=NOON)
        await lab.publish("LabResult", patient="P-18", value=7, taken="2026-11-15T13:00:00+01:00")
        await lab.publish("LabResult", {"patient": "P-19", "value": 101.5})
        first, second = [await anext(subscription) for _ in range(2)]
        assert first == {"patient": None, "ward": "3", "value": 142.0, "taken": Instant.from_datetime(NOON)}
        assert second == {"patient": None, "ward": None, "value": 101.5, "taken": None}
        assert first.hidden == second.hidden == {"patient"}  # the ward of the second is missing, not hidden
        assert first.publisher.principal == lab_key(hospital)
        assert first.published_at <= second.published_at


def lab_key(hospital: maia.Organisation) -> object:
    from maia.config.input_files import read_principal

    return read_principal(str(hospital.folder / "lab.maia" / "lab.pub"))


def test_a_program_without_a_loop_is_refused_with_a_reason(hospital: maia.Organisation) -> None:
    with maia.connect(hospital.folder / "lab.maia") as lab:
        with pytest.raises(maia.BadInput, match="a Decimal is refused"):
            lab.publish("LabResult", value=Decimal("1.5"))
        with pytest.raises(maia.BadInput, match="did you mean `LabResult`"):
            lab.publish("LabResults", value=1)
        with pytest.raises(maia.Refusal):
            lab.subscribe("LabResult")


def test_a_refusal_ends_with_the_command_that_explains_it(hospital: maia.Organisation) -> None:
    refused = command("subscribe", "LabResult", "--as", "lab", cwd=hospital.folder)
    explain = f"maia explain LabResult --as {hospital.folder / 'lab.maia'} --action subscribe"
    assert f"[POLICY-NO-CHAIN] (`{explain}` says why; " in refused.stderr
    assert "`maia member add lab --org hospital --may subscribe:LabResult` gives it" in refused.stderr
    assert refused.returncode == 3
    assert command(*explain.split()[1:], cwd=hospital.folder).returncode == 1


def test_a_program_speaks_the_newest_version_that_its_domain_has(hospital: maia.Organisation) -> None:
    old = hospital.event_type("LabResult").definition
    hospital.change(old, [Added(Attribute("unit", "d0e7a1b2-0000-4000-8000-000000000000", Kind.STRING))])
    with (
        maia.connect(hospital.folder / "lab.maia") as lab,
        maia.connect(hospital.folder / "office.maia") as office,
    ):
        subscription = office.subscribe("LabResult")
        lab.publish("LabResult", ward="3", value=1, unit="mg")
        (event,) = subscription.some(timeout_s=60)
        assert event["ward"] == "3"
        assert event.hidden == {"patient", "unit"}  # the office was granted other attributes by name


def test_a_member_that_is_revoked_publishes_no_more(hospital: maia.Organisation) -> None:
    hospital.add_member("leaver", may="publish:LabResult")
    with maia.connect(hospital.folder / "leaver.maia") as leaver:
        leaver.publish("LabResult", value=1)
        hospital.revoke("leaver", reason="left us")
        with pytest.raises(maia.Refusal):
            publish_for_ever(leaver)


def publish_for_ever(client: maia.BlockingClient) -> None:
    while True:
        client.publish("LabResult", value=1)


def test_options_of_spark_come_from_a_profile(hospital: maia.Organisation) -> None:
    from maia.spark.source.options import job_options

    profile = str(hospital.folder / "office.maia")
    found = job_options({"profile": profile, "path": "LabResult", "filter": "value > 1.0"})
    assert found.event_type().name.name == "LabResult"
    assert (found.network, found.brokers) == ("hospital", (hospital.addresses["broker"],))
    assert job_options({"profile": profile, "type": "LabResult", "broker": "127.0.0.1:1"}).brokers == (
        "127.0.0.1:1",
    )
    with raises("INPUT-SPARK-OPTION", match="name the type"):
        job_options({"profile": profile})
