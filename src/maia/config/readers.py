"""Is this value of a setting what it should be?

One reader for each form of value: text, paths, addresses, numbers. Brokers'
and key servers' settings share them. A value that is wrong ends in an error
that names the file, the line and the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from maia.config.sources import Said

__all__ = [
    "LOG_FORMATS",
    "LOG_LEVELS",
    "Reader",
    "address",
    "addresses",
    "fraction",
    "loopback",
    "one_of",
    "path",
    "paths",
    "principal_word",
    "principal_words",
    "tables",
    "text",
    "type_words",
    "whole",
    "yes_or_no",
]

Reader = Callable[[Said, str], object]

ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")
LOOPBACK: Final = re.compile(r"(?:127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\]|localhost):\d{1,5}")
LOG_FORMATS: Final = ("auto", "json", "text")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_NUMBER_MAX: Final = 1 << 31
_LIST_MAX: Final = 1024
_TABLES_MAX: Final = 256


def text(said: Said, name: str) -> str:
    """Read some text."""
    if not isinstance(said.value, str) or not said.value.strip():
        raise said.wrong(name, f"must be text, not {_shown(said.value)}")
    return said.value.strip()


def path(said: Said, name: str) -> Path:
    """Read a path, which begins at the folder of whoever wrote it."""
    return said.folder / Path(text(said, name)).expanduser()


def principal_word(said: Said, name: str) -> str:
    """Keep a key or quorum as it is; a file's name begins at the folder of whoever wrote it."""
    word = text(said, name)
    return word if word.startswith(("ed25519:", "quorum:")) else str(said.folder / Path(word).expanduser())


def address(said: Said, name: str) -> str:
    """Read HOST:PORT."""
    word = text(said, name)
    found = ADDRESS.fullmatch(word)
    if found is None or int(found["port"]) > 65_535:
        raise said.wrong(name, f"must be HOST:PORT such as `127.0.0.1:7400`, not {_shown(word)}")
    return word


def loopback(said: Said, name: str) -> str | None:
    """Read an address of this machine, or `off`."""
    if text(said, name) == "off":
        return None
    word = address(said, name)
    if LOOPBACK.fullmatch(word) is None:
        raise said.wrong(
            name, f"must be on this machine's loopback, such as `127.0.0.1:0`, not {_shown(word)}"
        )
    return word


def words(said: Said, name: str) -> list[Said]:
    """Return the members of a list; where only text can be written, commas divide it."""
    value = said.value
    if said.is_text and isinstance(value, str):
        value = [word for word in value.split(",") if word.strip()]
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or len(value) > _LIST_MAX:
        raise said.wrong(name, f"must be a list of at most {_LIST_MAX} words, not {_shown(said.value)}")
    return [
        Said(one if not isinstance(one, Path) else str(one), said.origin, said.folder, said.is_text)
        for one in value
    ]


def paths(said: Said, name: str) -> tuple[Path, ...]:
    """Read some paths."""
    return tuple(path(one, name) for one in words(said, name))


def addresses(said: Said, name: str) -> tuple[str, ...]:
    """Read some addresses."""
    return tuple(address(one, name) for one in words(said, name))


def principal_words(said: Said, name: str) -> tuple[str, ...]:
    """Read some keys or quorums, written out or by their files."""
    return tuple(principal_word(one, name) for one in words(said, name))


def type_words(said: Said, name: str) -> tuple[str, ...]:
    """Read the names or ids of some types, or `*` alone."""
    chosen = tuple(text(one, name) for one in words(said, name))
    if not chosen or ("*" in chosen and len(chosen) > 1):
        raise said.wrong(name, "must be `*` alone, or the names or ids of some types")
    return chosen


def whole(least: int) -> Callable[[Said, str], int]:
    """Return a reader of whole numbers."""

    def read(said: Said, name: str) -> int:
        value = said.value
        if said.is_text and isinstance(value, str) and re.fullmatch(r"\d{1,10}", value.strip()):
            value = int(value)
        if type(value) is not int or not least <= value <= _NUMBER_MAX:
            raise said.wrong(
                name, f"must be a whole number from {least} to {_NUMBER_MAX}, not {_shown(said.value)}"
            )
        return value

    return read


def fraction(said: Said, name: str) -> float:
    """Read a fraction."""
    value = said.value
    if said.is_text and isinstance(value, str) and re.fullmatch(r"\d(\.\d{1,12})?", value.strip()):
        value = float(value)
    if type(value) not in (int, float) or not 0 <= value <= 1:  # type: ignore[operator]  # a number by then
        raise said.wrong(name, f"must be a fraction from 0 to 1, not {_shown(said.value)}")
    return float(value)  # type: ignore[arg-type]  # the same


def yes_or_no(said: Said, name: str) -> bool:
    """Read true or false."""
    value = said.value
    if said.is_text and value in ("true", "false"):
        value = value == "true"
    if not isinstance(value, bool):
        raise said.wrong(name, f"must be true or false, not {_shown(said.value)}")
    return value


def one_of(words: tuple[str, ...]) -> Callable[[Said, str], str]:
    """Return a reader of one of these words."""

    def read(said: Said, name: str) -> str:
        if said.value not in words:
            raise said.wrong(name, f"must be one of {', '.join(words)}, not {_shown(said.value)}")
        return str(said.value)

    return read


def tables(said: Said, name: str, known: Mapping[str, Reader]) -> list[dict[str, object]]:
    """Read an array of tables, each word by its own reader."""
    found = said.value
    if not isinstance(found, list) or len(found) > _TABLES_MAX:
        raise said.wrong(name, f"must be at most {_TABLES_MAX} tables, each begun with `[[{name}]]`")
    read: list[dict[str, object]] = []
    for number, table in enumerate(found, start=1):
        if not isinstance(table, dict):
            raise said.in_table(number).wrong(name, f"number {number} is not a table")
        for word in table:
            if word not in known:
                problem = f"number {number}: `{str(word)[:64]}` is not one of {', '.join(known)}"
                raise said.in_table(number, word).wrong(name, problem)
        read.append({
            word: known[word](said.in_table(number, word, value), f"{name}.{word}")
            for word, value in table.items()
        })  # fmt: skip
    return read


def _shown(value: object) -> str:
    """Return what was written, short and on one line. No setting is a secret."""
    return (
        f"`{str(value)[:80]!s}`".replace("\n", "\\n")
        if isinstance(value, str | int | float)
        else f"a {type(value).__name__}"
    )
