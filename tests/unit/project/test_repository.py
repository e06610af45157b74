"""The repository's own rules find what they are there to find. `make check` asks them of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maia.errors import BadInput, MaiaError, Refusal

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture(scope="module")
def check_repo():
    sys.path.insert(0, str(TOOLS))
    import check_repo

    yield check_repo
    sys.path.remove(str(TOOLS))


def test_no_lock_names_an_address(check_repo):
    assert list(check_repo.locks_have_no_address()) == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url something",
        "-i mirror",
        "    --extra-index-url x",
        "maia @ file:///srv/maia",
        "maia @ git+ssh://somewhere/maia",
        "# from https://example.org/simple",
    ],
)
def test_an_address_in_a_lock_is_found(check_repo, line):
    assert check_repo.ADDRESS.search(f"six==1.0 \\\n{line}\n")


@pytest.mark.parametrize("folder", ["root", "home/me", "Users/Me", "checkouts", "checkouts/other"])
def test_a_path_of_a_machine_is_found(check_repo, folder):
    pattern = check_repo.machine_path(Path("/checkouts/maia"))
    assert pattern.search(f"see /{folder}/notes.txt")


def test_where_a_checkout_lies_is_found_and_its_neighbours_are_not(check_repo):
    pattern = check_repo.machine_path(Path("/srv/git/maia"))
    assert pattern.search("see /srv/git/maia/notes.txt")
    assert not pattern.search("see /srv/www/notes.txt")


@pytest.mark.parametrize(
    "text", ["src/home/x", "the root/branch", "/usr/bin/python3", "/proc/stat", "./home/x", "/data/x"]
)
def test_other_paths_are_left_alone(check_repo, text):
    assert not check_repo.machine_path(Path("/checkouts/maia")).search(text)


def test_no_file_names_a_machine(check_repo):
    assert list(check_repo.no_file_names_a_machine()) == []


def test_links_between_documents_lead_somewhere(check_repo):
    assert list(check_repo.links_lead_somewhere()) == []


def test_rows_of_the_papers_name_files_that_exist(check_repo):
    assert list(check_repo.papers_rows_name_files_that_exist()) == []


@pytest.mark.parametrize(
    "path",
    [
        "broker/interests/proofs.py",
        "scenarios/test_requests_stay_fresh",
        "proofs.py",
        "src/maia/broker/interests/proofs.py::Proofs.check_nothing",
        "deploy/nowhere",
    ],
)
def test_a_path_in_a_row_of_the_papers_that_leads_nowhere_is_found(check_repo, path):
    row = "| C16 | a promise | `{}` | `tests/laws/` | a paper |"
    assert list(check_repo.lost_in_row(row.format("src/maia/"))) == []
    assert list(check_repo.lost_in_row(row.format(path))) == [f"names `{path}`, which is not there"]


def test_a_row_of_the_papers_without_a_test_is_found(check_repo):
    row = "| C16 | a promise | `src/maia/policy/view.py::View` | by hand | a paper |"
    assert list(check_repo.lost_in_row(row)) == ["names no test"]


def test_every_row_of_the_papers_has_a_line(check_repo):
    first = {"N": 10, "C": 13, "E": 8, "B": 11, "K": 10, "P": 8, "I": 9, "X": 6, "D": 10}
    later = {"N": 11, "C": 18, "E": 10, "P": 10, "X": 11, "I": 12, "F": 2, "D": 20}
    lines = (TOOLS.parent / "docs" / "papers.md").read_text(encoding="utf-8").splitlines()
    listed = [
        line.split("|")[1].strip() for line in lines if line.startswith("| ") and not line.startswith("| id")
    ]
    wanted = [f"{letter}{number}" for letter, count in first.items() for number in range(1, count + 1)]
    wanted += [
        f"{letter}{number}"
        for letter, count in later.items()
        for number in range(first.get(letter, 0) + 1, count + 1)
    ]
    assert [row for row in listed if not row.startswith("-")] == wanted


def test_two_errors_with_one_code_are_found(check_repo):
    codes = check_repo.error_codes
    both = [
        codes.Error("TEST-TWICE", "here", BadInput, "One."),
        codes.Error("TEST-TWICE", "there", Refusal, "Two."),
    ]
    assert codes.problems(both) == ["`TEST-TWICE` is the code of 2 errors"]


def test_an_error_outside_the_families_or_without_sentence_or_badly_coded_is_found(check_repo):
    codes = check_repo.error_codes
    found = "\n".join(codes.problems([codes.Error("not-loud", "here", MaiaError, "")]))
    assert "none of the five families" in found
    assert "nothing explains" in found
    assert "not upper-case words" in found


def test_a_code_that_no_table_has_and_one_that_nothing_says_are_found(check_repo, tmp_path, monkeypatch):
    codes = check_repo.error_codes
    (tmp_path / "maia").mkdir()
    (tmp_path / "maia" / "one.py").write_text('raise Refusal("TEST-RAISED", "no")\nraise BadInput("no")\n')
    monkeypatch.setattr(codes, "SOURCE", tmp_path / "maia")
    assert codes.unlisted([codes.Error("TEST-LISTED", "errors.toml", Refusal, "One.")]) == [
        "maia/one.py: no errors.toml has `TEST-RAISED` under [Refusal]",
        "maia/one.py:2: a family is raised with a code and a sentence",
        "no module says `TEST-LISTED`, which an errors.toml has",
    ]
