"""Which tests have failed among others and passed alone, and does the commit hold all the same?

    tools/unsteady.py again SAID ONCE     may what failed be tried again, alone? Keeps it in the file ONCE
    tools/unsteady.py judge ONCE          it has passed alone: may that be, once more?

`.ci/run` asks, and `tests/unsteady.toml` remembers. A test that is not on that list is let through once,
with the entry that belongs there. One that is on it fails the commit: it was known, and was not mended.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
LIST: Final = ROOT / "tests" / "unsteady.toml"
FAILED: Final = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
AGAIN_MAX: Final = 3
"""Whatever breaks more tests at once is not chance."""
LISTED_MAX: Final = 12
"""A longer list is no list of exceptions: first mend what is on it."""
WHAT_MAX: Final = 300
_COMMIT: Final = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True)
class Seen:
    """A test that failed among others and passed alone: when, at which commit, and what it said."""

    test: str
    date: date
    commit: str
    what: str

    @property
    def function(self) -> str:
        """Return the test without its parameters: it is one test, whatever it was asked about."""
        return function_of(self.test)

    def entry(self) -> str:
        """Return what stands in the list."""
        return (
            f"[[seen]]\ntest = {json.dumps(self.test)}\ndate = {self.date}\n"
            f"commit = {json.dumps(self.commit)}\nwhat = {json.dumps(self.what, ensure_ascii=False)}\n"
        )


def function_of(test: str) -> str:
    return test.partition("[")[0]


def known(listed: Path = LIST) -> list[Seen]:
    """Return the list of the tree."""
    return [Seen(**row) for row in rows(listed)]


# Any: a row is what TOML holds.
def rows(listed: Path) -> list[dict[str, Any]]:
    return list(tomllib.loads(listed.read_text(encoding="utf-8")).get("seen", []))


def may_be_tried_again(failed: Sequence[str]) -> bool:
    """Return whether tests failed, few of them, and each is a test rather than a file that does not load."""
    return 0 < len(failed) <= AGAIN_MAX and all("::" in test for test in failed)


def reasons(said: str, failed: Iterable[str]) -> dict[str, str]:
    """Return what pytest's summary gives as the reason of each test that failed, or nothing."""
    found = {}
    for test in failed:
        line = re.search(rf"^(?:FAILED|ERROR) {re.escape(test)}(?: - (.*))?$", said, re.M)
        found[test] = (line[1] or "") if line else ""
    return found


def judge(once: Mapping[str, str], listed: Sequence[Seen], *, today: date, commit: str) -> tuple[bool, str]:
    """Return whether the commit holds, and what to tell of tests that failed once and passed alone."""
    before = {seen.function: seen for seen in listed}
    again = [test for test in once if function_of(test) in before]
    told = []
    for test in again:
        seen = before[function_of(test)]
        told.append(
            f"== UNSTEADY, and known: {test}\n   first seen on {seen.date} at {seen.commit}: {seen.what}\n"
            "   It has failed among others again. Mend it: this commit does not hold."
        )
    for test, what in once.items():
        if test not in again:
            entry = Seen(test, today, commit, what[:WHAT_MAX] or "no reason was printed").entry()
            told.append(
                f"== UNSTEADY: {test} failed once and passed alone.\n"
                "   Mend it, or add this to tests/unsteady.toml; the next time it fails the commit.\n\n"
                f"{entry}"
            )
    return not again, "\n".join(told)


def problems(listed: Path = LIST, root: Path = ROOT) -> Iterator[str]:
    """Say what is wrong with the list: `make check` asks."""
    found = rows(listed)
    if len(found) > LISTED_MAX:
        yield f"{listed.name} has {len(found)} tests, and at most {LISTED_MAX} may wait to be mended"
    functions = set()
    for row in found:
        test = str(row.get("test"))
        if set(row) != {"test", "date", "commit", "what"}:
            yield f"{listed.name}: `{test}` needs test, date, commit and what, and nothing else"
            continue
        file, _, name = function_of(test).partition("::")
        text = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
        if not re.search(rf"^\s*(?:async )?def {re.escape(name.rpartition('::')[2])}\(", text, re.M):
            yield f"{listed.name}: there is no test `{test}`; an entry leaves with its test"
        if function_of(test) in functions:
            yield f"{listed.name}: `{test}` is there twice; the second time it is mended"
        if not isinstance(row["date"], date) or not _COMMIT.fullmatch(str(row["commit"])) or not row["what"]:
            yield f"{listed.name}: `{test}` needs a date, a commit and what was seen"
        functions.add(function_of(test))


def main(arguments: Sequence[str]) -> int:
    """Answer `.ci/run`; return the exit code."""
    match list(arguments):
        case ["again", said, once]:
            failed = list(json.loads(FAILED.read_text(encoding="utf-8"))) if FAILED.is_file() else []
            print("== failed among others:", *failed, sep="\n   ")
            why = reasons(Path(said).read_text(encoding="utf-8", errors="replace"), failed)
            Path(once).write_text(json.dumps(why), encoding="utf-8")
            return 0 if may_be_tried_again(failed) else 1
        case ["judge", once]:
            names = json.loads(Path(once).read_text(encoding="utf-8"))
            asked = ["git", "rev-parse", "--short=8", "HEAD"]
            commit = subprocess.run(
                asked, cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.strip()
            holds, told = judge(names, known(), today=datetime.now(UTC).date(), commit=commit)
            print(told)
            return 0 if holds else 1
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
