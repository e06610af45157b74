"""What earlier searches reached ends in an answer or in an error of ours, also with small changes (A74)."""

from __future__ import annotations

import pytest

from support.fuzz_targets import KEPT, NASTY, TARGETS, kept, nearby


@pytest.mark.parametrize("name", TARGETS)
def test_no_reader_of_foreign_bytes_fails_at_what_was_kept(name: str) -> None:
    found = kept(name)
    assert found, "make fuzz ARGS=--keep"
    for one in (*found, *NASTY):
        for data in nearby(one):
            TARGETS[name][0](data)


def test_what_is_kept_is_small_and_of_a_target_that_is_there() -> None:
    files = list(KEPT.iterdir())
    assert {file.stem for file in files} == set(TARGETS)
    assert sum(file.stat().st_size for file in files) < 300_000
