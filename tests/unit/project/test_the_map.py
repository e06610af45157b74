"""The architecture page and the glossary name files, functions and classes that are there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "maia"
NAMED_FILE = re.compile(r"`([a-z_/]+\.py)(?:::([A-Za-z_.]+))?`")
NAMED_THING = re.compile(r"\| `([A-Za-z_.]+)` \|$", re.M)


def test_every_file_and_function_of_the_architecture_page_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = NAMED_FILE.findall(page)
    assert len(named) > 40
    files = {folder: list(folder.rglob("*.py")) for folder in (SOURCE, ROOT / "tests")}
    for path, name in named:
        folder = ROOT / "tests" if path.startswith("tests/") else SOURCE
        found = [one for one in files[folder] if one.as_posix().endswith(f"/{path}")]
        assert found, f"`{path}` is not there"
        if name:
            defined = re.compile(rf"(?:def|class) {name.rpartition('.')[2]}\b")
            assert any(defined.search(one.read_text(encoding="utf-8")) for one in found), f"`{path}::{name}`"


@pytest.mark.parametrize(
    "name", NAMED_THING.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
)
def test_a_word_of_the_glossary_is_in_the_code(name: str) -> None:
    module, *rest = _split(f"maia.{name}")
    found = import_module(module)
    for part in rest:
        fields = getattr(found, "__dataclass_fields__", {})
        assert hasattr(found, part) or part in fields, f"`{name}` is not in the code"
        found = getattr(found, part, None)


def _split(name: str) -> list[str]:
    """Return the longest module that a dotted name begins with, and the rest of it."""
    parts = name.split(".")
    while not _is_module(parts):
        parts.pop()
    return [".".join(parts), *name.split(".")[len(parts) :]]


def _is_module(parts: list[str]) -> bool:
    path = SOURCE.joinpath(*parts[1:])
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()
