"""Which errors can Maia raise, under which codes, and who can fix each?

The page `docs/errors.md` is written from the tables `errors.toml` of the rooms and from the classes that
are caught by name, so it cannot forget one. The check refuses two errors with one code, a code without a
sentence of explanation or a way out (`error_ways.toml`), a code that is raised and stands in no table, one
that stands in a table and is never said, and a family that is raised without a code.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

import maia
from maia.error_codes import classes_below, tables
from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable

SOURCE = Path(__file__).resolve().parent.parent / "src" / "maia"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
WAYS = Path(__file__).resolve().parent / "error_ways.toml"
SHAPE = re.compile(r"[A-Z][A-Z0-9]*(-[A-Z0-9]+)*")

FAMILIES: dict[type[MaiaError], tuple[str, str]] = {
    Refusal: ("Refusals", "The person who was refused, or the issuer of the right."),
    BrokenCredential: ("Broken credentials", "The issuer of the credential."),
    BadInput: ("Bad input", "The author of the input."),
    ProtocolViolation: ("Protocol violations", "The peer's operator."),
    Unavailable: ("Unavailable", "The operator."),
}


@dataclass(frozen=True)
class Error:
    """One code: where it is declared, the class that is raised with it, and what it means."""

    code: str
    where: str
    kind: type[MaiaError]
    means: str


def all_errors() -> list[Error]:
    """Import every module of Maia and return its errors, families included, by code."""
    for module in pkgutil.walk_packages(maia.__path__, prefix="maia."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    classes = [one for one in classes_below(MaiaError) if one.__module__.startswith("maia.")]
    found = {one: of_class(one) for one in classes if one is not MaiaError}
    by_name = {one.__name__: one for one in classes}
    listed = [
        Error(code, f"src/maia/{room}/errors.toml", by_name.get(kind, MaiaError), means)
        for room, table in tables().items()
        for kind, meanings in table.items()
        for code, means in meanings.items()
    ]
    return sorted([*found.values(), *listed], key=lambda error: (error.code, error.where))


def of_class(kind: type[MaiaError]) -> Error:
    """Return the error that a class is."""
    return Error(
        kind.code, f"{kind.__module__}.{kind.__qualname__}", kind, inspect.cleandoc(kind.__doc__ or "")
    )


def problems(errors: list[Error]) -> list[str]:
    """Return what is wrong with the codes, one sentence each."""
    times = Counter(error.code for error in errors)
    found = [f"`{code}` is the code of {count} errors" for code, count in times.items() if count > 1]
    for error in errors:
        if not SHAPE.fullmatch(error.code):
            found.append(
                f"the code `{error.code}` of {error.where} is not upper-case words joined by hyphens"
            )
        if not error.means.strip():
            found.append(f"nothing explains `{error.code}` of {error.where}")
        if not issubclass(error.kind, tuple(FAMILIES)):
            found.append(f"`{error.code}` of {error.where} belongs to none of the five families")
    return found


def unlisted(errors: list[Error]) -> list[str]:
    """Return codes that no table has under their class, those that nothing says, and families without one."""
    listed = {(error.kind.__name__, error.code) for error in errors if error.where.endswith(".toml")}
    kinds = {error.kind.__name__ for error in errors}
    said: set[str] = set()
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE.parent)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                said.add(node.value)
            raised = _raised(node, kinds)
            if _is_bare_family(node):
                found.append(f"{where}:{node.lineno}: a family is raised with a code and a sentence")
            if raised is not None and raised not in listed:
                found.append(f"{where}: no errors.toml has `{raised[1]}` under [{raised[0]}]")
    return found + [
        f"no module says `{code}`, which an errors.toml has" for _, code in listed if code not in said
    ]


def _raised(node: ast.AST, kinds: set[str]) -> tuple[str, str] | None:
    """Return the class and the code of an error that is made with both."""
    match node:
        case ast.Call(func=ast.Name(id=kind), args=[ast.Constant(value=str(code)), _, *_]) if kind in kinds:
            return (kind, code) if SHAPE.fullmatch(code) else None
    return None


def _is_bare_family(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether an error of a whole family is made without a code of its own."""
    match node:
        case ast.Call(func=ast.Name(id=kind), args=[] | [_]):
            return kind in {one.__name__ for one in FAMILIES}
    return False


def lost_ways(errors: list[Error]) -> list[str]:
    """Return codes without a way out, and ways out of nothing."""
    begun = {one for error in errors for one in _beginnings(error.code)}
    found = [
        f"tools/error_ways.toml has nothing for `{one.code}`" for one in errors if way_out(one.code) is None
    ]
    return found + [
        f"tools/error_ways.toml: no code begins with `{one}`" for one in _ways() if one not in begun
    ]


@cache
def _ways() -> dict[str, str]:
    return tomllib.loads(WAYS.read_text(encoding="utf-8"))


def _beginnings(code: str) -> list[str]:
    """Return a code and what it begins with, word by word, the longest first."""
    words = code.split("-")
    return ["-".join(words[:count]) for count in range(len(words), 0, -1)]


def way_out(code: str) -> str | None:
    """Return what to do about an error of this code."""
    return next((_ways()[one] for one in _beginnings(code) if one in _ways()), None)


def page(errors: list[Error]) -> str:
    """Return the page that explains every code."""
    lines = [
        "# Errors",
        "",
        "<!-- Written by `make docs` from every errors.toml of src/maia. Edit those, not this page. -->",
        "",
        "Programs match on the code, which never changes once released. The sentence that comes with it is",
        "for people and may improve. The family says whose turn it is, the last column what to do.",
    ]
    for family, (title, who_acts) in FAMILIES.items():
        members = [error for error in errors if issubclass(error.kind, family) and error.code != family.code]
        lines += [
            "",
            f"## {title}",
            "",
            f"{_sentence(of_class(family))} Who acts: {who_acts[0].lower()}{who_acts[1:]}",
        ]
        lines += ["", "| code | meaning | what to do |", "| --- | --- | --- |"]
        lines += [f"| `{family.code}` | any of this family | {way_out(family.code)} |"]
        lines += [f"| `{error.code}` | {_sentence(error)} | {way_out(error.code)} |" for error in members]
    return "\n".join(lines) + "\n"


def _sentence(error: Error) -> str:
    first_paragraph = error.means.split("\n\n")[0]
    return " ".join(first_paragraph.split()).replace("|", "\\|")
