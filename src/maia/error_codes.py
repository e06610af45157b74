"""What does the code of an error mean?

Most codes stand in the table `errors.toml` of the room that raises them, by
the class they are raised with; an error that some code catches is a class,
whose docstring says the same.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from maia.errors import MaiaError

__all__ = ["classes_below", "meaning_of", "tables"]


@cache
def tables() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Return the table of each room: class, code, meaning."""
    found = {}
    for room in sorted(files("maia").iterdir(), key=lambda one: one.name):
        table = room / "errors.toml"
        if room.is_dir() and table.is_file():
            found[room.name] = tomllib.loads(table.read_text(encoding="utf-8"))
    return MappingProxyType(found)


def meaning_of(code: str) -> str | None:
    """Return the sentence that explains a code; None if it is not known here."""
    for table in tables().values():
        for meanings in table.values():
            if code in meanings:
                return meanings[code]
    kind = next((one for one in classes_below(MaiaError) if one.code == code), None)
    return None if kind is None else " ".join((kind.__doc__ or "").split())


def classes_below(kind: type[MaiaError]) -> Iterator[type[MaiaError]]:
    """Yield an error class and those below it that are loaded."""
    yield kind
    for one in kind.__subclasses__():
        yield from classes_below(one)
