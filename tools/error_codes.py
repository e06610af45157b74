"""Which errors can Maia raise, under which codes, and who can fix each?

The page `docs/errors.md` is written from the classes themselves, so it cannot
forget one. The check refuses two classes with one code, a class that inherits
its code unchanged, and a class without a sentence of explanation or a way out (`error_ways.toml`).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import maia
from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable

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


def all_errors() -> list[type[MaiaError]]:
    """Import every module of Maia and return its error classes, families included, by code."""
    for module in pkgutil.walk_packages(maia.__path__, prefix="maia."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return sorted(_below(MaiaError), key=lambda error: (error.code, error.__qualname__))


def _below(error: type[MaiaError]) -> set[type[MaiaError]]:
    children = {child for child in error.__subclasses__() if child.__module__.startswith("maia.")}
    return children.union(*(_below(child) for child in children))


def problems(errors: list[type[MaiaError]]) -> list[str]:
    """Return what is wrong with the codes, one sentence each."""
    times = Counter(error.code for error in errors)
    found = [f"`{code}` is the code of {count} error classes" for code, count in times.items() if count > 1]
    for error in errors:
        name = f"{error.__module__}.{error.__qualname__}"
        if not SHAPE.fullmatch(error.code):
            found.append(f"the code `{error.code}` of {name} is not upper-case words joined by hyphens")
        if not (error.__doc__ or "").strip():
            found.append(f"{name} has no docstring, so docs/errors.md cannot explain it")
        if not issubclass(error, tuple(FAMILIES)):
            found.append(f"{name} belongs to none of the five families")
    return found


def lost_ways(errors: list[type[MaiaError]]) -> list[str]:
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


def page(errors: list[type[MaiaError]]) -> str:
    """Return the page that explains every code."""
    lines = [
        "# Errors",
        "",
        "<!-- Written by `make docs` from the classes in src/maia. Edit their docstrings, not this page. -->",
        "",
        "Programs match on the code, which never changes once released. The sentence that comes with it is",
        "for people and may improve. The family says whose turn it is, the last column what to do.",
    ]
    for family, (title, who_acts) in FAMILIES.items():
        members = [error for error in errors if issubclass(error, family) and error is not family]
        lines += ["", f"## {title}", "", f"{_sentence(family)} Who acts: {who_acts[0].lower()}{who_acts[1:]}"]
        lines += ["", "| code | meaning | what to do |", "| --- | --- | --- |"]
        lines += [f"| `{family.code}` | any of this family | {way_out(family.code)} |"]
        lines += [f"| `{error.code}` | {_sentence(error)} | {way_out(error.code)} |" for error in members]
    return "\n".join(lines) + "\n"


def _sentence(error: type[MaiaError]) -> str:
    first_paragraph = inspect.cleandoc(error.__doc__ or "").split("\n\n")[0]
    return " ".join(first_paragraph.split()).replace("|", "\\|")
