"""What documents show, works: every block marked `python` is run, and prints what it says it prints."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
PROGRAM = re.compile(r"^```py\n(.*?)^```$", re.M | re.S)
PRINTED = re.compile(r"  # -> (.*)$", re.M)
FIRST_SCREEN_LINES = 24
PROGRAM_LINES_MAX = 7


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples() -> list[object]:
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
        for page in pages()
        for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
    ]


@pytest.mark.parametrize("block", examples())
def test_an_example_prints_what_it_says(block, capsys):
    exec(compile(block, "example", "exec"), {"__name__": "example"})  # noqa: S102 - our own documents
    assert capsys.readouterr().out.splitlines() == PRINTED.findall(block)


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_a_program_of_seven_lines_at_most():
    (program,) = PROGRAM.findall(readme())  # the quickstart's test runs it
    assert len(program.splitlines()) <= PROGRAM_LINES_MAX


def test_every_variable_of_the_code_is_in_the_list_of_variables():
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "maia").rglob("*.py"))
    prefixes = re.findall(r"^\| `(MAIA_[A-Z]+_)` ", page, re.M)
    used = {one for one in re.findall(r"\"(MAIA_[A-Z_]+)\"", sources) if not one.startswith(tuple(prefixes))}
    assert len(prefixes) == 5
    assert sorted(one for one in used if f"`{one}`" not in page) == []


def test_the_first_screen_has_exactly_two_commands():
    first_screen = "\n".join(readme().splitlines()[:FIRST_SCREEN_LINES])
    commands = [
        line.partition("#")[0].strip() for block in SHELL.findall(first_screen) for line in block.splitlines()
    ]
    assert commands == ["make demo", "make test"]


def test_the_readme_opens_with_one_sentence():
    sentence = readme().split("\n\n")[1]
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")


def test_the_readme_links_to_what_is_not_protected():
    assert "(docs/limitations.md)" in readme()


def test_make_help_lists_every_command_of_the_readme():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "check", "laws", "bench", "docs"):
        assert f"make {target} " in listed
