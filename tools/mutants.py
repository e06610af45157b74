"""Which lines of a room could be broken without a test noticing?

    make mutants ROOM=ledger MINUTES=5

Breaks one line of a package of `src/maia` at a time, in a copy, and runs the tests of that room
(`tools/mutants.toml`) until the first one fails. What survives is printed. A survivor is a missing test, a
line that can go, or a change that makes no difference; `docs/searches.md` has a row with a sentence for each.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "searches.md"
_SWAPPED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Mutant:
    """One place, and what it becomes."""

    file: Path
    line: int
    before: str
    after: str
    text: str
    """The whole file with the change."""

    @property
    def row(self) -> str:
        """Return how the page begins its row."""
        place = self.file.relative_to(ROOT / "src" / "maia")
        return f"| `{place}` | `{_shown(self.before)}` | `{_shown(self.after)}` |"


def _shown(code: str) -> str:
    return " ".join(code.split()).replace("|", "\\|")


def mutants_of(file: Path) -> Iterator[Mutant]:
    """Yield every change of one place of a file."""
    text = file.read_text()
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, changed in _changes(ast.parse(text)):
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: S101, PT018 - parsed
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        data, beginning, end = text.encode(), starts[node.lineno - 1], starts[node.end_lineno]
        before, after = data[beginning:first], data[last:end]
        lines = data[beginning:end].decode(), (before + changed.encode() + after).decode()
        yield Mutant(file, node.lineno, *lines, (data[:first] + changed.encode() + data[last:]).decode())


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    quiet = set(_not_run(tree))
    for node in ast.walk(tree):
        if node in quiet:
            continue
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in _SWAPPED:
                other = copy.copy(node)
                other.ops = [_SWAPPED[type(operator)]()]
                yield node, f"({ast.unparse(other)})"
            case ast.BoolOp(op=operator):
                both = copy.copy(node)
                both.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
                yield node, f"({ast.unparse(both)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, f"({ast.unparse(operand)})"
            case ast.If(test=test) | ast.IfExp(test=test):
                yield test, "False"
            case ast.Constant(value=bool(value)):
                yield node, str(not value)
            case ast.Constant(value=int(value)):
                yield node, str(value + 1)
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise():
                yield node, "pass"


def _not_run(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what decides nothing: annotations, assertions, values of limits, what only type checkers read."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                parts = [node.returns]
            case ast.AnnAssign(annotation=ast.Name(id="Final"), value=value):
                parts = [value]
            case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
                parts = [annotation]
            case ast.ClassDef():
                parts = [*node.decorator_list, *node.keywords]
            case ast.Assert():
                parts = [node]
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                parts = [node]
        for part in parts:
            if part is not None:
                yield from ast.walk(part)


@dataclass
class Room:
    """A package, its tests, and copies of the source in which one line is broken."""

    name: str
    tests: list[str]
    copies: SimpleQueue[Path]

    def is_noticed(self, mutant: Mutant | None, timeout_s: float) -> bool:
        """Return whether a test fails, or hangs, with this change."""
        source = self.copies.get()
        file = None if mutant is None else source / mutant.file.relative_to(ROOT / "src")
        try:
            if file is not None and mutant is not None:
                file.write_text(mutant.text)
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *self.tests]
            # Broken code is not compiled into a cache that the next mutant could be taken from.
            known = {
                "PYTHONPATH": str(source),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HYPOTHESIS_STORAGE_DIRECTORY": str(source / ".hypothesis"),
            }
            done = subprocess.run(
                command, cwd=ROOT, env=os.environ | known, capture_output=True, timeout=timeout_s, check=False
            )
            if mutant is None and done.returncode:
                sys.exit(done.stdout.decode()[-2000:])
            return done.returncode != 0
        except subprocess.TimeoutExpired:
            return True
        finally:
            if file is not None and mutant is not None:
                shutil.copyfile(mutant.file, file)
            self.copies.put(source)


def main() -> int:
    """Try mutants of a room until the time is over; return 1 if one survives that the page does not name."""
    parser = argparse.ArgumentParser(description="Break one line at a time, and see whether a test notices.")
    parser.add_argument(
        "room", help="a package or file below src/maia, such as `ledger` or `private_files.py`"
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--seed", default="1", help="in which order places are tried")
    asked = parser.parse_args()
    place = ROOT / "src" / "maia" / asked.room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    rooms = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())["tests"]
    guessed = [f"tests/{kind}/{asked.room}" for kind in ("unit", "laws")]
    tests = rooms.get(asked.room) or [one for one in guessed if (ROOT / one).exists()]
    if not place.exists() or not tests:
        print(f"no such room, or no tests for it in tools/mutants.toml: {asked.room}", file=sys.stderr)
        return 2
    mutants = [one for file in files for one in mutants_of(file)]
    random.Random(asked.seed).shuffle(mutants)  # noqa: S311 - an order of work
    copies: SimpleQueue[Path] = SimpleQueue()
    build = ROOT / ".build" / "mutants"
    for lane in range(asked.lanes):
        source = build / str(lane)
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        copies.put(source)
    room = Room(asked.room, tests, copies)
    began = time.monotonic()
    room.is_noticed(None, 600)
    timeout_s = 20 + 5 * (time.monotonic() - began)
    print(
        f"{len(mutants)} places; the tests of `{asked.room}` take {time.monotonic() - began:.0f} s",
        flush=True,
    )
    explained = PAGE.read_text() if PAGE.exists() else ""
    tried = new = 0

    def noticed(mutant: Mutant) -> bool | None:
        if time.monotonic() - began > asked.minutes * 60:
            return None
        return room.is_noticed(mutant, timeout_s)

    survived = 0
    with ThreadPoolExecutor(asked.lanes) as pool:
        for mutant, answer in zip(mutants, pool.map(noticed, mutants), strict=True):
            tried += answer is not None
            if answer is False:
                survived += 1
                is_known = mutant.row in explained
                new += not is_known
                print(f"{mutant.row} line {mutant.line}{', explained' if is_known else ''}", flush=True)
    print(f"{asked.room}: {tried} of {len(mutants)} tried, {survived} survived, {new} without a sentence")
    shutil.rmtree(build)
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
