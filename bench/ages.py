"""Is a kept figure older than the code that it measures?

A record says at which commit it was measured. The headline figures of
`docs/performance.md` are old once more than `COMMITS_MAX` commits have changed
the rooms that they measure: then the page says so, or `make check` fails.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).resolve().parent / "results"
COMMITS_MAX: Final = 40
"""About what a week changes in the room of the broker."""
_PATH: Final = ("broker", "net", "routing", "wire")
MEASURED: Final[Mapping[str, tuple[str, ...]]] = {
    "profile": _PATH,
    "#5": (*_PATH, "sealing"),
    "#6": (*_PATH, "sealing"),
    "#12": _PATH,
    "#13": (*_PATH, "client"),
    "#16": ("broker", "validity"),
    "#18": ("spark", "views"),
    "#19": ("spark", "sealing", "log"),
    "#24": ("broker", "net", "routing"),
    "#25": (*_PATH, "client", "sealing"),
    "#42": (*_PATH, "sealing"),
}
"""The rooms of `src/maia` that a headline's source measures."""


def git(*words: str) -> str | None:
    """Return what git answers here; None without git, or where it does not know what it is asked about."""
    try:
        asked = subprocess.run(
            ["git", *words], cwd=RESULTS, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def commit_here() -> str:
    """Return the commit that is measured here, with a `+` if the code differs from it; empty without git."""
    commit = git("rev-parse", "--short=8", "HEAD")
    return (
        "" if commit is None else f"{commit}{'+' if git('status', '--porcelain', '--', '../../src') else ''}"
    )


def is_same_code(measured: str, here: str) -> bool:
    """Return whether a run measures the same at two commits: between may be others, of results or pages."""
    if "" in {measured, here} or measured.endswith("+") or here.endswith("+"):
        return False
    measures = ("../../src", "../../requirements.lock", "../*.py")
    return measured == here or git("diff", "--quiet", measured, here, "--", *measures) is not None


def commits_since(commit: str, rooms: tuple[str, ...]) -> int | None:
    """Return how many commits have changed rooms since; None if this clone does not know."""
    folders = [f"../../src/maia/{room}" for room in rooms]
    known = f"{commit.removesuffix('+')}..HEAD"
    found = git("rev-list", "--count", "--no-merges", known, "--", *folders) if commit else None
    return None if found is None else int(found)


def file_of(source: str, folder: Path = RESULTS) -> Path | None:
    """Return the record that a headline is read from."""
    if source == "profile":
        return folder / "budget.json"
    return next(iter(folder.glob(f"{int(source.removeprefix('#')):02d}-*.json")), None)


def _records(folder: Path) -> Iterator[tuple[str, Path, dict[str, Any], int | None]]:
    # Any: a record is what JSON holds.
    for source, rooms in MEASURED.items():
        path = file_of(source, folder)
        if path is not None and path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            yield source, path, record, commits_since(record["machine"].get("commit", ""), rooms)


def say_what_is_old(folder: Path = RESULTS) -> None:
    """Write into each record of a headline that it is old, if it is."""
    for _, path, record, since in _records(folder):
        if since is not None and since > COMMITS_MAX and not record["machine"].get("is_old"):
            record["machine"]["is_old"] = True
            path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def unsaid(folder: Path = RESULTS) -> Iterator[str]:
    """Yield a sentence for each record that is old and is not said to be."""
    for source, path, record, since in _records(folder):
        machine = record["machine"]
        if not machine.get("commit"):
            yield f"{path.name} does not say at which commit it was measured"
        elif since is None and git("rev-parse", "--is-shallow-repository") == "false":
            yield f"{path.name} was measured at {machine['commit']}, which is no commit here"
        elif since is not None and since > COMMITS_MAX and not machine.get("is_old"):
            again = "make profile" if source == "profile" else f"make bench NAMES={source.removeprefix('#')}"
            yield (
                f"{path.name} was measured {since} commits of {', '.join(MEASURED[source])} ago, and "
                f"docs/performance.md does not call it old; run: {again}, or make bench ARGS=--page"
            )


if __name__ == "__main__":
    for problem in unsaid():
        print(f"docs/performance.md: {problem}")
