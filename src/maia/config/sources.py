"""Where did the operator say this, and in which line?

A broker's settings come from a file, from the environment and from flags; a
flag wins over the environment, and the environment over the file. Each value
keeps its origin, so that an error can send the operator to the line to mend.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maia.config.input_files import BadFile, read_text
from maia.errors import BadInput

__all__ = ["PREFIX", "BadConfig", "Said", "from_environment", "from_file", "from_flags"]

PREFIX: Final = "MAIA_BROKER_"
"""How the names of the environment's variables begin; any other word behind it is refused."""

_AS_FLAG: Final = str.maketrans("_.", "--")
_HEADER: Final = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_.\"'-]+)\s*\]")
_LONG_QUOTES: Final = re.compile(r"\"{3}|'{3}")
_SYNTAX: Final = re.compile(
    r"(?P<what>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)\Z", re.S
)


class BadConfig(BadInput):
    """The broker's configuration does not make sense at one place, which the sentence names."""

    code = "INPUT-CONFIG"


@dataclass(frozen=True, slots=True)
class Said:
    """One value, as it was written, and who said it where. Relative paths begin at `folder`."""

    value: object
    origin: str
    folder: Path
    is_text: bool = False
    """Whether the value could only be written as text: flags and variables know no numbers."""
    tables: tuple[Mapping[str, str], ...] = ()
    """For an array of tables: where each of them begins (under no name), and where it sets which word."""

    def in_table(self, number: int, word: str = "", value: object = None) -> Said:
        """Return what the table of this number (from 1) says, or what one of its words does, at its place."""
        places = self.tables[number - 1] if number <= len(self.tables) else {}
        origin = places.get(word) or places.get("") or self.origin
        return Said(value, origin, self.folder, self.is_text)

    def wrong(self, name: str, problem: str) -> BadConfig:
        """Return the error that sends the operator to this value."""
        return BadConfig(f"{self.origin}: `{name}` {problem}")


def from_file(path: Path, known: Collection[str]) -> dict[str, Said]:
    """Read a TOML file into values by their dotted names; refuse a name that nobody knows."""
    try:
        text = read_text(path)
    except BadFile as problem:
        raise BadConfig(f"the configuration cannot be read: {problem.message}") from problem
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise BadConfig(_syntax_error(path, text, problem)) from problem
    said: dict[str, Said] = {}
    for name, value in _flattened(found, known):
        origin = f"`{path}` line {_line_of(text, name)}"
        if name not in known:
            raise BadConfig(f"{origin}: `{name[:64]}` is not a setting; {_nearest(name, known)}")
        tables = tuple(
            {word: f"`{path}` line {line}" for word, line in lines.items()}
            for lines in _tables_called(name, text)
        )
        said[name] = Said(value, origin, path.parent, tables=tables)
    return said


def from_environment(
    variables: Mapping[str, str], known: Collection[str], *, prefix: str = PREFIX
) -> dict[str, Said]:
    """Read every variable that begins with the prefix; a misspelt one is refused, not ignored."""
    by_variable = {prefix + name.replace(".", "_").upper(): name for name in known}
    said: dict[str, Said] = {}
    for variable, value in sorted(variables.items()):
        if not variable.startswith(prefix):
            continue
        if variable not in by_variable:
            wrong = variable.removeprefix(prefix).lower()
            raise BadConfig(f"the environment: `{variable[:64]}` is not a setting; {_nearest(wrong, known)}")
        said[by_variable[variable]] = Said(
            value, f"the environment variable `{variable}`", Path(), is_text=True
        )
    return said


def from_flags(flags: Mapping[str, object]) -> dict[str, Said]:
    """Take the flags that were given; None and an empty list mean that a flag was not."""
    return {
        name: Said(value, f"the option `--{name.translate(_AS_FLAG)}`", Path(), is_text=True)
        for name, value in flags.items()
        if value is not None and value != []
    }


def _flattened(tables: Mapping[str, object], known: Collection[str]) -> Iterator[tuple[str, object]]:
    for name, value in tables.items():
        if isinstance(value, dict) and name not in known:
            if not value:
                yield f"{name}.", value
            yield from ((f"{name}.{inner}", one) for inner, one in value.items())
        else:
            yield name, value


def _line_of(text: str, name: str) -> int:
    """Return the line that sets a dotted name, or the one that begins its table."""
    wanted, _, inner = name.partition(".")
    table, table_line = "", 1
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header:
            table = header[1].strip("\"'")
            table_line = number if table == wanted else table_line
        elif _sets(line, f"{table}.{{}}" if table else "{}", name):
            return number
        elif inner and not table and _sets(line, "{}", wanted):
            table_line = number
    return table_line


def _tables_called(name: str, text: str) -> list[dict[str, int]]:
    """Return the lines of every table that begins with `[[name]]`: its own, and those of its words."""
    tables: list[dict[str, int]] = []
    is_inside = is_quoted = False
    for number, line in enumerate(text.splitlines(), start=1):
        header = None if is_quoted else _HEADER.match(line)
        if header:
            is_inside = header[1].strip("\"'") == name and line.strip().startswith("[[")
            tables += [{"": number}] if is_inside else []
        elif is_inside and not is_quoted and "=" in line:
            tables[-1].setdefault(line.partition("=")[0].strip().strip("\"'"), number)
        is_quoted ^= len(_LONG_QUOTES.findall(line)) % 2 == 1
    return tables


def _sets(line: str, within: str, name: str) -> bool:
    key = line.partition("=")[0].strip().replace('"', "").replace("'", "").replace(" ", "")
    return "=" in line and within.format(key) == name


def _syntax_error(path: Path, text: str, problem: Exception) -> str:
    found = _SYNTAX.match(str(problem))
    if found is None:
        return f"`{path}`: this is not TOML: it is nested too deeply"
    line = found["line"] or max(1, len(text.splitlines()))
    what = found["what"].replace("\n", "\\n")
    return f"`{path}` line {line}: this is not TOML: {what[:1].lower()}{what[1:160]}"


def _nearest(name: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name[:64], list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else "the settings are " + ", ".join(sorted(known))
