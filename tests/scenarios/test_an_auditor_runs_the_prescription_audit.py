"""D5: an auditor audits a hospital's log under a View without patients (OASIS'08, section 7.2)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from maia.cli import main
from maia.clock import system_now
from maia.config.input_files import read_certificates
from maia.credentials import certificate_to_text
from maia.demo.homecare import STORY
from maia.demo.world import StoryWorld
from maia.events import Instant
from maia.keystore.key_files import load_signing_key
from maia.keystore.lookup_tables import create_transformation_keys
from maia.organisation import Organisation
from maia.spark.generators import PRESCRIPTIONS
from maia.spark.session import session as spark_session
from maia.testing import grant
from reference import pipeline_applications as by_hand
from support.governed import Recorded

PUBLISHED, SHOWN = "Authorisation", "ControlledDrugAuth"


@pytest.fixture
def hospital(tmp_path, monkeypatch):
    """A recorded log of authorisations, and the auditor's key, certificate, types and secrets."""
    monkeypatch.chdir(tmp_path)
    StoryWorld(STORY, tmp_path).type_all(STORY.setup)
    event_type = Organisation("hospital").event_type(PUBLISHED)
    owner = load_signing_key(Path("hospital/hospital.key"))
    # What the hospital grants the auditor, with no need of the servers that say whether it still does.
    said = [one.certificate.authority for one in read_certificates([Path("hospital/issued")])]
    (right,) = [
        one for one in said if any(step.result and step.result.name == SHOWN for step in one.transformations)
    ]
    auditor = load_signing_key(Path("auditor/auditor.key"))
    (tmp_path / "auditor.cert").write_text(certificate_to_text(grant(owner, auditor.principal, right)))
    create_transformation_keys(tmp_path / "transformations.key", owner.principal)
    for name in (PUBLISHED, SHOWN):
        shutil.copy(Path("hospital", "types", f"{name}.type"), tmp_path)
    rows = PRESCRIPTIONS.rows(rows=1_200, seed=5, per_day=300).to_pylist()
    recorded = Recorded(tmp_path / "log", event_type=event_type)
    named = {"doctor": "prescriber", "time": "time"}
    events = [
        {
            one.uid: Instant.from_datetime(row["time"])
            if one.name == "time"
            else ({"operation": "insert"} | row)[named.get(one.name, one.name)]
            for one in event_type.attributes
        }
        for row in rows
    ]
    recorded.publish(events, published_at=system_now())
    recorded.write()
    return rows


def run(*more: str) -> int:
    whose = ("-k", "auditor/auditor.key", "--credentials", "auditor.cert")
    words = ("--log", "log", "-d", f"{PUBLISHED}.type", *whose)
    return main(("pipeline", "run", "prescription-audit", *words, "--out", "audited", "--json", *more))


def test_the_audit_is_right_and_no_patient_is_in_it(sparkling, hospital, capsys, tmp_path: Path) -> None:
    secrets = ("--transformation-keys", "transformations.key")
    assert run("--shown-as", f"{SHOWN}.type", *secrets) == 0, capsys.readouterr().err
    record = json.loads(capsys.readouterr().out)
    # The auditor sees the day and not the hour.
    seen = [
        row | {"time": row["time"].replace(hour=0, minute=0, second=0, microsecond=0)} for row in hospital
    ]
    found = pq.read_table(tmp_path / "audited").to_pylist()
    assert {tuple(row.values()) for row in found} == by_hand.audit(seen)
    assert record["prescriptions"] == sum(row["drug_class"] in {"A", "B"} for row in hospital)
    assert record["untreated"] > 0
    kept = b"".join(path.read_bytes() for path in (tmp_path / "audited").rglob("*.parquet"))
    assert b"Dr 0" in kept, "the search would find a name"
    assert b"patient 0" not in kept


def test_the_auditor_sees_nothing_as_it_was_published(hospital, monkeypatch, capsys) -> None:
    """Without the name of the type that events become, the command is refused before Spark starts."""
    monkeypatch.setattr(spark_session, "spark_session", None)
    assert run() == 2
    assert "INPUT-PIPELINE-COLUMN" in capsys.readouterr().err
