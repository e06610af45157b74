"""OASIS'08, figure 4, over real brokers: each recipient gets its own version of a prescription.

The prescription is published at the patient's home and read at the clinic, in
another broker, which applies each recipient's transformation.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import maia
from maia.clock import system_now
from maia.events import Instant
from maia.expressions.meaning import pseudonym_of
from maia.expressions.syntax import Function, Scope
from maia.testing import in_a_loop, soon
from support.homecare import (
    AUDITOR,
    AUTHORISED,
    CARER,
    HOSPITAL,
    PHARMACY,
    PRESCRIBE,
    SECRETS,
    SENSOR,
    connected,
    home_and_clinic,
)

AT = Instant.parse("2026-11-15T08:30:00Z")
DAY = 20_772


def prescription(patient: str, drug: str, drug_class: str, *, emergency: bool | None) -> dict[str, object]:
    return {
        "patient": patient,
        "drug": drug,
        "drug_class": drug_class,
        "place": "CB3 0FD",
        "emergency": emergency,
        "dose": 2.5,
        "at": AT,
    }


PRESCRIPTIONS = (
    prescription("Ann", "morphine", "A", emergency=False),
    prescription("Bob", "aspirin", "C", emergency=True),
    prescription("Cas", "morphine", "B", emergency=None),
    prescription("Dee", "codeine", "B", emergency=True),
)


def reference(patient: str) -> str:
    key = SECRETS.of(HOSPITAL.principal.key, AUDITOR.principal.key).key(Function.PSEUDONYM, Scope.RECIPIENT)
    assert key is not None
    return pseudonym_of(key, patient)


@in_a_loop
async def test_every_recipient_sees_what_the_policy_makes_of_a_prescription(tmp_path: Path):
    async with (
        home_and_clinic(tmp_path) as (home, clinic),
        connected(SENSOR, home.address) as sensor,
        connected(AUDITOR, clinic.address) as auditor,
        connected(PHARMACY, clinic.address) as pharmacy,
        connected(CARER, clinic.address) as carer,
    ):
        audit = await auditor.subscribe(PRESCRIBE, shown_as=AUTHORISED)
        durable = await auditor.subscribe(PRESCRIBE, shown_as=AUTHORISED, durable="nightly")
        # Asked of the outcome: what is published is in lower case, so the filter must not travel home.
        morphine = await auditor.subscribe(PRESCRIBE, 'drug == "MORPHINE"', shown_as=AUTHORISED)
        sold = await pharmacy.subscribe(PRESCRIBE)
        seen = await carer.subscribe(PRESCRIBE)
        nearby = await carer.subscribe(PRESCRIBE, 'place == "CB"')
        written = await sensor.advertise(PRESCRIBE)
        for one in PRESCRIPTIONS:
            await written.publish(one)
        await written.flush()

        audited = [
            {"drug": "MORPHINE", "reference": reference("Ann"), "day": DAY},
            {"drug": "MORPHINE", "reference": reference("Cas"), "day": DAY},
            {"drug": "CODEINE", "reference": reference("Dee"), "day": DAY},
        ]
        assert [await soon(anext(audit)) for _ in range(3)] == audited
        assert [await soon(anext(durable)) for _ in range(3)] == audited
        assert [await soon(anext(morphine)) for _ in range(2)] == audited[:2]
        assert [(await soon(anext(sold)))["drug"] for _ in range(4)] == [
            "morphine", "aspirin", "morphine", "codeine",
        ]  # fmt: skip
        # Exact in an emergency, blurred otherwise, and hidden where it is not known which.
        assert [(await soon(anext(seen)))["place"] for _ in range(4)] == ["CB", "CB3 0FD", None, "CB3 0FD"]
        assert (await soon(anext(nearby)))["patient"] == "Ann"
        for quiet in (audit, morphine, nearby):
            assert await quiet.some(1, timeout_s=0.05) == []
    log = b"".join(path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert reference("Ann").encode() not in log


@in_a_loop
async def test_a93_a_filter_of_the_auditor_asks_about_the_outcome_alone(tmp_path: Path):
    """A93: what a transformation has taken away cannot be asked for, by name, by uid or by kind."""
    async with home_and_clinic(tmp_path) as (_, clinic), connected(AUDITOR, clinic.address) as auditor:
        for wanted in ('patient == "Ann"', "#7 == @2026-11-15T08:30:00Z", 'place == "CB3 0FD"'):
            with pytest.raises(maia.MaiaError):
                await auditor.subscribe(PRESCRIBE, wanted, shown_as=AUTHORISED)
        # By uid and past the client's own check: uid 1 is the patient as published, and the drug as shown.
        from maia.predicates import Comparison, Operator

        for uid, literal in (("4", "CB3 0FD"), ("5", True), ("7", system_now())):
            with pytest.raises(maia.MaiaError) as refused:
                await auditor.subscribe(PRESCRIBE, Comparison(uid, Operator.EQ, literal))
            assert refused.value.code == "POLICY-ATTRIBUTE-NOT-READABLE"
        await asyncio.sleep(0)
