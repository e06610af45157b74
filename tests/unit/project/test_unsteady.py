"""A test that fails among others and passes alone is let through once: the tree remembers it."""

from __future__ import annotations

import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TODAY = date(2026, 11, 19)


@pytest.fixture(scope="module")
def unsteady():
    sys.path.insert(0, str(ROOT / "tools"))
    import unsteady

    yield unsteady
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def known(unsteady):
    test = "tests/unit/test_clock.py::test_it_ticks[fast]"
    return [unsteady.Seen(test, date(2026, 11, 1), "0123abcd", "stood still")]


def judged(unsteady, once: dict[str, str], known) -> tuple[bool, str]:
    return unsteady.judge(once, known, today=TODAY, commit="89abcdef")


def test_the_first_time_is_let_through_and_printed_as_the_entry_to_add(unsteady, known):
    holds, told = judged(unsteady, {"tests/a.py::test_b": 'assert "é" == 2'}, known)
    assert holds
    entry = tomllib.loads(told[told.index("[[seen]]") :])["seen"]
    assert entry == [
        {"test": "tests/a.py::test_b", "date": TODAY, "commit": "89abcdef", "what": 'assert "é" == 2'}
    ]


def test_the_second_time_fails_the_commit_and_says_what_was_seen_before(unsteady, known):
    holds, told = judged(unsteady, {"tests/unit/test_clock.py::test_it_ticks[fast]": ""}, known)
    assert not holds
    assert "2026-11-01 at 0123abcd: stood still" in told


def test_a_test_is_the_same_one_whatever_it_was_asked_about(unsteady, known):
    assert not judged(unsteady, {"tests/unit/test_clock.py::test_it_ticks[slow]": ""}, known)[0]
    assert judged(unsteady, {"tests/unit/test_clock.py::test_it_ticks_loudly": ""}, known)[0]


def test_a_known_one_fails_the_commit_beside_a_new_one_too_and_both_are_told(unsteady, known):
    once = {"tests/a.py::test_b": "new", "tests/unit/test_clock.py::test_it_ticks": "old"}
    holds, told = judged(unsteady, once, known)
    assert not holds
    assert told.count("[[seen]]") == 1
    assert "mend it" in told.lower()


def test_what_was_seen_is_cut_and_never_empty(unsteady):
    _, told = judged(unsteady, {"tests/a.py::test_b": "x" * 10_000, "tests/a.py::test_c": ""}, [])
    first, second = tomllib.loads("[[seen]]".join(["", *_entries(told)]))["seen"]
    assert len(first["what"]) == unsteady.WHAT_MAX
    assert second["what"]


def _entries(told: str) -> list[str]:
    return [part.partition("== UNSTEADY")[0] for part in told.split("[[seen]]")[1:]]


def test_only_a_few_tests_are_tried_again_and_a_file_that_does_not_load_is_not(unsteady):
    few = [f"tests/a.py::test_{at}" for at in range(unsteady.AGAIN_MAX)]
    assert unsteady.may_be_tried_again(few)
    assert not unsteady.may_be_tried_again([*few, "tests/a.py::test_more"])
    assert not unsteady.may_be_tried_again(["tests/a.py"])
    assert not unsteady.may_be_tried_again([])


def test_the_reasons_are_those_of_pytests_summary(unsteady):
    said = (
        "tests/a.py F\nE  assert 1 == 2\n"
        "FAILED tests/a.py::test_b[x - y] - assert 1 == 2\n"
        "FAILED tests/a.py::test_c\nERROR tests/a.py::test_d - OSError: full\n1 passed\n"
    )
    failed = ["tests/a.py::test_b[x - y]", "tests/a.py::test_c", "tests/a.py::test_d", "tests/a.py::test_e"]
    assert unsteady.reasons(said, failed) == dict(
        zip(failed, ["assert 1 == 2", "", "OSError: full", ""], strict=True)
    )


def test_the_list_of_this_tree_is_in_order(unsteady):
    assert list(unsteady.problems()) == []
    assert len(unsteady.known()) == len(unsteady.rows(unsteady.LIST))


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('test = "tests/a.py::test_b"\ndate = 2026-11-19\ncommit = "0123abcd"', "needs test, date"),
        ('test = "tests/a.py::gone"\ndate = 2026-11-19\ncommit = "0123abcd"\nwhat = "x"', "there is no test"),
        (
            'test = "tests/no.py::test_b"\ndate = 2026-11-19\ncommit = "0123abcd"\nwhat = "x"',
            "there is no test",
        ),
        ('test = "tests/a.py::test_b"\ndate = "today"\ncommit = "0123abcd"\nwhat = "x"', "needs a date"),
        ('test = "tests/a.py::test_b"\ndate = 2026-11-19\ncommit = "HEAD"\nwhat = "x"', "needs a date"),
        ('test = "tests/a.py::test_b"\ndate = 2026-11-19\ncommit = "0123abcd"\nwhat = ""', "needs a date"),
    ],
)
def test_an_entry_that_says_too_little_or_of_no_test_is_found(unsteady, tmp_path: Path, entry, problem):
    listed = _listed(tmp_path, [entry])
    assert [problem in found for found in unsteady.problems(listed, tmp_path)] == [True]


def test_an_entry_that_is_there_twice_and_a_list_that_is_too_long_are_found(unsteady, tmp_path: Path):
    entry = 'test = "tests/a.py::test_b"\ndate = 2026-11-19\ncommit = "0123abcd"\nwhat = "x"'
    assert list(unsteady.problems(_listed(tmp_path, [entry]), tmp_path)) == []
    found = list(unsteady.problems(_listed(tmp_path, [entry] * (unsteady.LISTED_MAX + 1)), tmp_path))
    assert "may wait to be mended" in found[0]
    assert "is there twice" in found[1]


def _listed(folder: Path, entries: list[str]) -> Path:
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "a.py").write_text("class TestIt:\n    async def test_b(self): ...\n")
    listed = folder / "unsteady.toml"
    listed.write_text("\n".join(f"[[seen]]\n{entry}" for entry in entries))
    return listed


def test_ci_asks_this_tool_and_no_other(unsteady):
    run = (ROOT / ".ci" / "run").read_text()
    assert "tools/unsteady.py again" in run
    assert "tools/unsteady.py judge" in run
