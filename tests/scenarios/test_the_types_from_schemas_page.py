"""Types from samples, JSON Schema and Avro: docs/types-from-schemas.md, command by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    return folder / "samples", follow("types-from-schemas.md", folder, ports=[])


def test_the_events_of_a_type_defined_from_a_sample_are_those_of_the_sample(followed):
    folder, printed = followed
    assert THE_END in printed, printed[-4000:]
    sample, seen = (
        [json.loads(line) for line in (folder / name).read_text().splitlines()]
        for name in ("visits.jsonl", "seen.jsonl")
    )
    present = [{name: value for name, value in one.items() if value is not None} for one in seen]
    assert sorted(present, key=lambda one: one["patient"]) == sample  # the reader may begin with the second


def test_the_answer_says_what_was_chosen_and_why_and_a_dry_run_defines_nothing(followed):
    folder, printed = followed
    dry = (folder / "dry.txt").read_text()
    assert "kind         share: float (int in line 2, float in line 3)" in dry
    assert "attribute    ward: string" in dry
    assert "left out     note" in dry
    assert "P-17" not in dry
    assert "not checked  pattern, required" in printed
    assert '"defined": false' in printed
    types = {one.stem for one in (folder / "hospital" / "types").iterdir()}
    assert types == {"LabResult", "Visit", "Admission"}


def test_what_has_no_kind_is_refused_with_its_code_until_it_is_left_out(followed):
    _, printed = followed
    assert "`address` is an object with street" in printed
    assert "[TYPE-SCHEMA-ATTRIBUTE]" in printed
    assert "refused, as it should be" in printed
    assert "left out     address" in printed
