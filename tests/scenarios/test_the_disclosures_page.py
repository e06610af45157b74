"""X5 with real brokers, one of which is killed: docs/disclosures.md, command by command."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.pages import THE_END, follow


@pytest.fixture(scope="module")
def followed(sparkling, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    return folder / "disclosures", follow("disclosures.md", folder, ports=[7441, 7442])


def test_a_broker_without_a_ledger_delivers_nothing_of_a_type_that_demands_one(followed):
    _, printed = followed
    assert THE_END in printed, printed[-4000:]
    assert "REFUSED-LEDGER-REQUIRED" in printed
    assert "no ledger, no delivery" in printed


def test_the_ledger_names_who_saw_patients_and_by_which_certificate(followed):
    folder, printed = followed
    saw = [json.loads(line) for line in (folder / "saw-patients.jsonl").read_text().splitlines()]
    ward = (folder / "ward.pub").read_text()
    assert {one["recipient"] for one in saw} == {word for word in ward.split() if word.startswith("ed25519:")}
    assert sum(last - first + 1 for one in saw for first, last in one["rows"]) >= 3
    assert all(one["attributes"] == ["patient", "value", "ward"] and one["certificates"] for one in saw)
    assert "attributes   value, ward" in printed
    assert "P-17" not in (folder / "saw-patients.jsonl").read_text()


def test_the_table_has_every_delivery_and_no_value(followed):
    folder, _ = followed
    table = pq.read_table(folder / "disclosures.parquet").to_pylist()
    shown = {tuple(row["attributes"]) for row in table}
    assert shown == {("patient", "value", "ward"), ("value", "ward")}
    assert sum(row["last_row"] - row["first_row"] + 1 for row in table) >= 5
    # The broker was stopped in the middle, and has since made a table of what it had written until then.
    rolled = pq.read_table(folder / "ledger-tables").to_pylist()
    assert rolled[: len(table)] == table
    for file in (folder / "ledger").iterdir():
        assert b"P-17" not in file.read_bytes()


def test_who_saw_the_results_of_a_patient_is_answered_with_the_attributes_that_each_saw(followed):
    """D6: the ledger is joined with the log under the asker's own rights."""
    folder, _ = followed
    found = {
        tuple(row["attributes"]): row["events"]
        for row in map(json.loads, (folder / "who-saw.jsonl").read_text().splitlines())
    }
    assert set(found) == {("patient", "value", "ward"), ("value", "ward")}
    # Asking was reading, which is on record in the same way: of these rows, who the patient is.
    read = [json.loads(line) for line in (folder / "ward-read.jsonl").read_text().splitlines()]
    assert {tuple(one["attributes"]) for one in read} == {("patient",)}
    assert {one["recipient"] for one in read} == {one["broker"] for one in read}
    rows = sum(last - first + 1 for one in read for first, last in one["rows"])
    assert rows >= found["patient", "value", "ward"]
    for name, shown in (("ward", ("patient", "value", "ward")), ("office", ("value", "ward"))):
        assert found[shown] >= len((folder / f"{name}.jsonl").read_text().splitlines())


def test_the_ledger_of_a_killed_broker_is_whole_and_a_forged_one_is_found(followed):
    _, printed = followed
    assert printed.count("found        the earlier head") == 2
    assert "missing      the earlier head" in printed
    assert "forged" in printed.splitlines()
