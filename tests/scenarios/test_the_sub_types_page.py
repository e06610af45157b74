"""A type that extends another, over two broker processes: docs/sub-types.md, command by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    return folder / "sub-types", follow("sub-types.md", folder, ports=[7431, 7432])


def test_readers_of_the_super_type_see_sightings_and_readers_of_the_sub_type_see_fees(followed):
    folder, printed = followed
    assert THE_END in printed, printed[-4000:]
    police = [json.loads(line) for line in (folder / "police.jsonl").read_text().splitlines()]
    assert police == [{"numberplate": "AE05 XYZ", "location": "Victoria"}] * 2
    billing = [json.loads(line) for line in (folder / "billing.jsonl").read_text().splitlines()]
    assert billing == [{"numberplate": "AE05 XYZ", "location": "Victoria", "fee": 8}] * 2


def test_what_is_refused_is_refused_with_its_code(followed):
    _, printed = followed
    assert "TYPE-EXTEND-NOT-GRANTED" in printed
    assert "refused, as it should be" in printed
    assert "and this" in printed


def test_the_definition_says_what_it_extends(followed):
    _, printed = followed
    assert "extends      city.Sighting of ed25519:" in printed
    assert "numberplate: string" in printed
    assert ", inherited" in printed
