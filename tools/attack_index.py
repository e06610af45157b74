"""Which attacks must fail, and which test shows that each of them does?

The catalogue is `attacks.toml`; a test names the attacks that it plays by
their numbers in its docstring, or in its file's. `docs/attacks.md` puts both
together. An attack without a test belongs to a feature that is not there yet,
and says so; a number in a docstring that no attack has is a mistake.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = Path(__file__).with_name("attacks.toml")
PAGE = ROOT / "docs" / "attacks.md"
NUMBER = re.compile(r"\b[AS][1-9][0-9]{0,2}\b")
FILES_NAMED = 3

INTRODUCTION = """\
# Attacks that must fail

<!-- Written by `make docs` from tools/attacks.toml and from the docstrings of the tests. -->

Most of these have succeeded against a message broker or a database somewhere. Each is played by tests in
which the attacker has to lose. S-numbers are weak points of the papers themselves, where we follow the intent
and not the text. What is not protected at all is under [limitations](limitations.md).
"""
TITLES = {
    "papers": "Weak points of the papers",
    "patterns-and-names": "Patterns and names",
    "identity": "Identity and authentication",
    "capabilities": "Capabilities and delegation",
    "signatures": "Canonical forms and signatures",
    "revocation": "Revocation, expiry, state",
    "encryption": "Encryption and keys",
    "comparison": "Filters and comparison",
    "routing-and-injection": "Replay, routing, injection",
    "resources": "Resources and time",
    "durability": "Durability",
    "found-later": "Found later, or new with features to come",
}


def page() -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for group, attacks in _catalogue().items():
        parts += [
            f"## {TITLES[group]}",
            "",
            "| attack | what the attacker tries | shown to fail by |",
            "| --- | --- | --- |",
        ]
        parts += [_row(number, entry) for number, entry in attacks.items()]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def problems() -> Iterator[str]:
    """Yield numbers that lead nowhere: of tests without an attack, and of attacks without a test."""
    entries = {number: entry for attacks in _catalogue().values() for number, entry in attacks.items()}
    for number, files in _played().items():
        if number not in entries:
            yield f"{files[0]} names attack {number}, which is not in {CATALOGUE.name}"
    for number, entry in entries.items():
        waits = isinstance(entry, dict) and "with" in entry
        played = _tests_of(number, entry)
        if not waits and not played:
            yield f"no test names attack {number} in its docstring"
        if waits and played:
            yield f"attack {number} is played by {played[0]}: drop its `with` from {CATALOGUE.name}"


def _row(number: str, entry: str | dict[str, str]) -> str:
    text = entry if isinstance(entry, str) else entry["text"]
    if isinstance(entry, dict) and "with" in entry:
        return f"| {number} | {text} | comes with {entry['with']} |"
    files = _tests_of(number, entry)
    shown = ", ".join(f"[{_claim(name)}](../{name})" for name in files[:FILES_NAMED])
    others = len(files) - FILES_NAMED
    return f"| {number} | {text} | {shown}{f', and {others} more' if others > 0 else ''} |"


def _tests_of(number: str, entry: str | dict[str, str]) -> list[str]:
    same = entry.get("as", number) if isinstance(entry, dict) else number
    return _played().get(number, []) or _played().get(same, [])


def _claim(name: str) -> str:
    return Path(name).stem.removeprefix("test_").replace("_", " ")


@cache
def _catalogue() -> dict[str, dict[str, str | dict[str, str]]]:
    return tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))


@cache
def _played() -> dict[str, list[str]]:
    """Return the files that play each attack: attacks first, then whichever names it most."""
    counts: dict[str, dict[str, int]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for number in set(NUMBER.findall(ast.get_docstring(node) or "")):
                    counts.setdefault(number, {}).setdefault(name, 0)
                    counts[number][name] += 1
    return {
        number: sorted(files, key=lambda one: ("/attacks/" not in one, -files[one], one))
        for number, files in counts.items()
    }
