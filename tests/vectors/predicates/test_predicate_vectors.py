"""Bytes of this year's predicates, which next year's code must still read."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.canonical import read_canonical, write_canonical
from maia.predicates import (
    format_predicate,
    parse_predicate,
    predicate_from_expression,
    predicate_to_expression,
)

LINES = (Path(__file__).parent / "canonical.txt").read_text(encoding="utf-8").splitlines()
VECTORS = [line.split(" ", 1) for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize(("octets", "text"), VECTORS, ids=[text for _, text in VECTORS])
def test_bytes_and_text_of_a_predicate_stay_as_they_are(octets, text):
    predicate = predicate_from_expression(read_canonical(bytes.fromhex(octets)))
    assert format_predicate(predicate) == text
    assert write_canonical(predicate_to_expression(parse_predicate(text))).hex() == octets
