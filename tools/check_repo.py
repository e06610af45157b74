"""Does the repository keep its own rules, the ones that no linter knows?

Locks carry hashes and no addresses. No file names a machine's folder. Error
codes are unique and documented. Links between documents lead somewhere, and so
does every row of the papers' table; every attack has a test. The list of unsteady
tests is in order. A figure that is older than what it measures is called old. One line
per problem; exit status 1 if any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import api_page
import attack_index
import decision_index
import error_codes
import pictures
import reference_pages
import unsteady

ROOT = Path(__file__).resolve().parent.parent
LOCKS = (
    "requirements.lock",
    "deploy/containers/requirements.lock",
    "tools/uv.lock.txt",
    "tools/build.lock.txt",
    "tools/fuzz.lock.txt",
)
ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]*://|\bgit@|^\s*(-i|-f|--index-url|--extra-index-url|--find-links)\b", re.M
)
# Folders that every machine has; whatever else is at the top belongs to one machine.
EVERYWHERE = {
    "bin", "boot", "dev", "etc", "home", "lib", "media", "mnt", "opt", "proc", "root", "run", "sbin", "srv",
    "sys", "tmp", "usr", "var",
}  # fmt: skip
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
NAMED_PATH = re.compile(r"`([\w.*-]+(?:/[\w.*-]*)+|[\w-]+\.py)(?:::([\w.]+))?`")
ROW_OF_PAPERS = re.compile(r"\| [A-Z]+\d+ \|")
NAMED_FILE = re.compile(r"\b[a-z_]+(?:/[a-z_]+)*\.py\b|\bdocs/[\w/-]+\.md\b")
FENCED = re.compile(r"^```.*?^```", re.M | re.S)


def machine_path(checkout: Path) -> re.Pattern[str]:
    """Return what finds people's home folders, and the folders in which this checkout lies."""
    top = checkout.parts[1]
    own = re.escape(checkout.as_posix().lstrip("/") if top in EVERYWHERE else top)
    # Written in pieces, so that this file does not find itself.
    return re.compile(r"(?<![\w.$~-])/(?:" + "|".join(["root", r"home/\w+", r"Users/\w+", own]) + r")/")


@cache
def tracked() -> tuple[Path, ...]:
    """Return the files that git tracks and that still exist; without git, all outside hidden folders."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return tuple(path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file())
    hidden = (path for path in ROOT.rglob("*") if path.is_file())
    return tuple(
        path for path in hidden if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    )


def text_of(path: Path) -> str:
    """Return the text of `path`, or nothing when it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def named(path: Path) -> str:
    """Return the name of `path` as people write it."""
    return path.relative_to(ROOT).as_posix()


def locks_have_no_address() -> Iterator[str]:
    """A lock says what is installed, by hash, and leaves open from where."""
    for name in LOCKS:
        text = text_of(ROOT / name)
        for found in ADDRESS.finditer(text):
            yield f"{name}:{line_of(text, found.start())} names an address: `{found[0].strip()}`"
        if "--hash=sha256:" not in text:
            yield f"{name} has no hashes"
    for path in tracked():
        if path.name in {"uv.lock", "poetry.lock", "Pipfile.lock"}:
            yield f"{named(path)} is tracked, and such files name hosts"


def no_file_names_a_machine() -> Iterator[str]:
    """A path of one machine is useless on another."""
    pattern = machine_path(ROOT)
    for path in tracked():
        if path == Path(__file__).resolve():
            continue
        text = text_of(path)
        for found in pattern.finditer(text):
            yield f"{named(path)}:{line_of(text, found.start())} names a machine's folder: `{found[0]}`"


def error_codes_are_unique_and_documented() -> Iterator[str]:
    """Programs match on codes and people look them up."""
    errors = error_codes.all_errors()
    yield from error_codes.problems(errors)
    yield from error_codes.lost_ways(errors)
    yield from error_codes.unlisted(errors)
    if text_of(error_codes.PAGE) != error_codes.page(errors):
        yield f"{named(error_codes.PAGE)} is out of date; run: make docs"


def the_interface_is_documented() -> Iterator[str]:
    """The page about a domain's HTTP interface lists what there is."""
    if text_of(api_page.PAGE) != api_page.page():
        yield f"{named(api_page.PAGE)} is out of date; run: make docs"


def the_reference_is_current() -> Iterator[str]:
    """Every setting and metric has a description; pages and pictures are those that the tools make."""
    yield from reference_pages.undocumented()
    for path, text in (reference_pages.pages() | pictures.pages()).items():
        if text_of(path) != text:
            yield f"{named(path)} is out of date; run: make docs"


def attacks_lead_to_tests() -> Iterator[str]:
    """Every attack of the catalogue is played by a test, and every number in a docstring is an attack's."""
    yield from attack_index.problems()
    if text_of(attack_index.PAGE) != attack_index.page():
        yield f"{named(attack_index.PAGE)} is out of date; run: make docs"


def links_lead_somewhere() -> Iterator[str]:
    """A link inside the repository points at a file that is there, and at a heading in it.

    A page of `docs/` links to pages there: the site has no others (`make docs`).
    """
    site = ROOT / "docs"
    for page in documents():
        text = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text_of(page))
        for found in LINK.finditer(text):
            link = found[1] or found[2]
            if "://" in link or link.startswith("mailto:"):
                continue
            target, _, heading = link.partition("#")
            where = f"{named(page)}:{line_of(text, found.start())}"
            leads_to = page.parent / target if target else page
            if not leads_to.exists():
                yield f"{where} links to `{target}`, which is not there"
            elif page.is_relative_to(site) and leads_to.suffix == ".md" and not is_below(leads_to, site):
                yield f"{where} links to `{target}`, which the site does not have"
            elif heading and leads_to.suffix == ".md" and heading not in headings(leads_to.resolve()):
                yield f"{where} links to `{link}`, and there is no such heading"


def is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


@cache
def headings(page: Path) -> frozenset[str]:
    """Return the names by which the headings of a page are linked to."""
    lines = FENCED.sub("", text_of(page)).splitlines()
    titles = [re.sub(r"\]\([^)]*\)", "]", line.lstrip("# ")) for line in lines if line.startswith("#")]
    return frozenset(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles)


def papers_rows_name_files_that_exist() -> Iterator[str]:
    """Every row of the papers' table can be followed to its code and its tests."""
    page = ROOT / "docs" / "papers.md"
    for number, line in enumerate(text_of(page).splitlines(), start=1):
        if ROW_OF_PAPERS.match(line):
            yield from (f"{named(page)}:{number} {problem}" for problem in lost_in_row(line))


def lost_in_row(line: str) -> Iterator[str]:
    """Say what of a row leads nowhere: paths begin at the top of the repository, in whatever folder."""
    _, code, tests, _ = line.strip().strip("|").split(" | ", 1)[1].split(" | ")
    for found in NAMED_PATH.finditer(code + tests):
        paths, name = [*ROOT.glob(found[1].rstrip("/"))], found[2]
        if not paths:
            yield f"names `{found[1]}`, which is not there"
        elif name and name.rpartition(".")[2] not in text_of(paths[0]):
            yield f"names `{found[1]}::{name}`, which is not there"
    if "`tests/" not in tests:
        yield "names no test"


def decisions_have_their_four_parts() -> Iterator[str]:
    """A record says what we needed, chose, gave up and would choose again for; the index lists it."""
    for record in decision_index.records():
        text = text_of(record).lower()
        missing = [part for part in decision_index.PARTS if f"## {part}" not in text]
        if missing:
            yield f"{named(record)} lacks the part `{missing[0]}`"
    if text_of(decision_index.PAGE) != decision_index.page():
        yield f"{named(decision_index.PAGE)} is out of date; run: make docs"


def docstrings_name_files_that_exist() -> Iterator[str]:
    """A file that a docstring or a comment of the code names is there."""
    code = [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "src")]
    known = {f"/{path.relative_to(ROOT / 'src' / 'maia').as_posix()}" for path in code}
    for path in code:
        for found in NAMED_FILE.finditer(text_of(path)):
            file = found[0]
            is_there = (ROOT / file).exists() or any(one.endswith(f"/{file}") for one in known)
            if not is_there:
                yield f"{named(path)}:{line_of(text_of(path), found.start())} names `{file}`: not there"


def unsteady_tests_are_listed_in_order() -> Iterator[str]:
    """A test that waits to be mended is there, with when and at which commit it failed, and what was seen."""
    yield from unsteady.problems()


def figures_that_are_old_are_called_so() -> Iterator[str]:
    """A headline of the performance page is younger than most of the code that it measures, or called old."""
    asked = [sys.executable, str(ROOT / "bench" / "ages.py")]
    yield from subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()


def documents() -> Iterator[Path]:
    """Return the pages that people read."""
    for path in tracked():
        if path.suffix == ".md":
            yield path


def line_of(text: str, place: int) -> int:
    """Return the number of the line that `place` is on."""
    return text.count("\n", 0, place) + 1


CHECKS = (
    locks_have_no_address,
    no_file_names_a_machine,
    error_codes_are_unique_and_documented,
    the_interface_is_documented,
    the_reference_is_current,
    attacks_lead_to_tests,
    links_lead_somewhere,
    papers_rows_name_files_that_exist,
    decisions_have_their_four_parts,
    docstrings_name_files_that_exist,
    unsteady_tests_are_listed_in_order,
    figures_that_are_old_are_called_so,
)


def main() -> int:
    """Run every check; return the exit code."""
    found = [problem for check in CHECKS for problem in check()]
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
