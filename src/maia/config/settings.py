"""Which settings did the operator write, and what do they mean?

A server's settings come from a TOML file, from the environment and from
flags; a flag wins over the environment, and the environment over the file. The
fields of a msgspec struct say which settings there are and what each may
be. A value that is wrong ends in an error that names the file, the line, the
key and what was expected; a name that is not a setting is refused, not ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import msgspec
from msgspec import Meta

from maia.config.input_files import BadFile, kind_of_file, read_text
from maia.errors import BadInput
from maia.places import is_address, place_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_NUMBER_MAX: Final = 1 << 31
_LIST_MAX: Final = 1024
_TABLES_MAX: Final = 256
_SHOWN_MAX: Final = 80

_PORT: Final = r"(?:[0-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]|\d{1,4})"
_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
_LOOPBACK: Final = r"(?:127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\]|localhost)"

_AS_FLAG: Final = str.maketrans("_.", "--")
_HEADER: Final = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_.\"'-]+)\s*\]")
_LONG_QUOTES: Final = re.compile(r"\"{3}|'{3}")
_SYNTAX: Final = re.compile(
    r"(?P<what>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)\Z", re.S
)

_Built = TypeVar("_Built")
_Table = TypeVar("_Table", bound=msgspec.Struct)


class BadConfig(BadInput):
    """A configuration does not make sense at one place, which the sentence names."""

    code = "INPUT-CONFIG"


class Mismatch(ValueError):
    """The words of one table do not fit each other; `word` is the one to change."""

    def __init__(self, word: str, problem: str) -> None:
        super().__init__(problem)
        self.word, self.problem = word, problem


# ------------------------------------------------------------ what a setting may be


class ChosenWord(str):
    """Text of a form of its own: how it is read, and what an error says was expected."""

    __slots__ = ()
    expected: ClassVar[str] = "text"
    is_secret: ClassVar[bool] = False

    @classmethod
    def read(cls, text: str, folder: Path) -> Self:
        """Return the word, with paths from `folder`; raise ValueError if it has another form."""
        if not text:
            raise ValueError
        return cls(text)


class PrincipalWord(ChosenWord):
    """A key or a quorum, written out or by the name of its file."""

    __slots__ = ()
    expected = "a key, a file with one, or `quorum:…`"

    @classmethod
    def read(cls, text: str, folder: Path) -> Self:
        """Return a key or quorum as it is, and a file's name from the folder of the configuration."""
        word = super().read(text, folder)
        return word if word.startswith(("ed25519:", "quorum:")) else cls(folder / Path(word).expanduser())


class PlaceWord(ChosenWord):
    """A folder by its path, or the address of a place such as `s3://bucket/folder`."""

    __slots__ = ()
    expected = "a path, or an address such as `s3://bucket/folder` without any key in it"

    @classmethod
    def read(cls, text: str, folder: Path) -> Self:
        """Return an address as it is, and a path from the folder of the configuration."""
        word = super().read(text, folder)
        try:
            return cls(place_of(word if is_address(word) else folder / Path(word).expanduser()))
        except BadInput as problem:
            raise ValueError from problem


class Secret(ChosenWord):
    """Text that may hold a password: no error and no representation shows it."""

    __slots__ = ()
    is_secret = True

    def __repr__(self) -> str:
        """Say that there is something, never what."""
        return "<secret>"


Text = Annotated[str, Meta(min_length=1, description="text")]
Positive = Annotated[int, Meta(ge=1, le=_NUMBER_MAX, description=f"a whole number from 1 to {_NUMBER_MAX}")]
Whole = Annotated[int, Meta(ge=0, le=_NUMBER_MAX, description=f"a whole number from 0 to {_NUMBER_MAX}")]
Fraction = Annotated[float, Meta(ge=0, le=1, description="a fraction from 0 to 1")]
Address = Annotated[
    str, Meta(pattern=rf"^{_HOST}:{_PORT}\Z", description="HOST:PORT such as `127.0.0.1:7400`")
]
Addresses = tuple[Address, ...]


def checked_address(text: str) -> str:
    """Return an address as settings have it; refuse what is none."""
    try:
        return msgspec.convert(text, Address)
    except msgspec.ValidationError:
        shown = text[:64].encode("unicode_escape").decode()
        raise BadConfig(f"`{shown}` is not HOST:PORT such as `127.0.0.1:7400`") from None


PeerAddress = Annotated[
    str,
    Meta(
        pattern=rf"^(?:ed25519:[0-9a-f]{{64}}@)?{_HOST}:{_PORT}\Z",
        description="HOST:PORT such as `127.0.0.1:7400`, or KEY@HOST:PORT for a statement link",
    ),
]
PeerAddresses = tuple[PeerAddress, ...]
Loopback = Annotated[
    str,
    Meta(
        pattern=rf"^(?:{_LOOPBACK}:{_PORT}|off)\Z",
        description="on this machine's loopback, such as `127.0.0.1:0`, or `off`",
    ),
]
OutsideMetrics = Annotated[
    str,
    Meta(
        pattern=rf"^(?:{_HOST}:{_PORT}|off)\Z",
        description="HOST:PORT such as `192.0.2.7:9480`, which other machines may reach, or `off`",
    ),
]
Paths = tuple[Path, ...]


class WrittenConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What every server is configured with, and where an operator wrote it."""

    log_format: Literal["auto", "json", "text"] = "auto"
    """How log lines are written; `auto` means text exactly on a terminal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important lines that are written."""
    origins: dict[str, str] = {}
    """Where each setting was written, by its name."""

    def wrong(self, name: str, problem: str) -> BadConfig:
        """Return the error about a setting that turned out wrong when it was used."""
        return BadConfig(f"{self.origins.get(name, 'the default')}: `{name}` {problem}")


class ServerConfig(WrittenConfig, frozen=True, kw_only=True):
    """What brokers and key servers are both configured with: words and paths, nothing opened yet."""

    key: Path
    """The server's own signing key; its principal is the server's identity."""
    network: Text
    """The name of the network that this server is a part of."""
    coordinator: PrincipalWord
    """Who owns the network: a key, a .pub file or quorum:…."""
    credentials: Paths
    """Certificates and constitutions of quorums: files, and folders of *.cert and *.quorum."""
    listen: Address
    """Where to listen; port 0 takes a free one."""
    status: Loopback = "127.0.0.1:0"
    """Where to answer /health, /ready, /metrics and /status; loopback only; `off` for nowhere."""
    metrics: OutsideMetrics = "off"
    """Where other machines may ask for /health, /ready and /metrics: numbers, in the clear, for everyone."""
    lease_s: Positive = 60
    """How long an advertisement, subscription or membership lasts without being renewed."""
    require_install: bool = True
    """Whether a type's signer must be allowed to install types on the network."""
    bounds: Paths = ()
    """Files with bounds on what clients and members of key groups may advertise and subscribe to."""
    expiry_days: Whole = 14
    """How many days before the end of one of its own certificates the server begins to warn."""
    read_from: tuple[Path, ...] = ()
    """The files that were read for it."""


NOT_SETTINGS: Final = frozenset({"origins", "read_from", "limits", "access"})
"""Fields of a configuration that are put together from settings of other structs."""


def settings_changed(
    before: msgspec.Struct | None, after: msgspec.Struct | None, *, live: Collection[str]
) -> list[str]:
    """Return the names of settings that differ, without those that a running server takes in."""
    if before is None or after is None:
        return [] if before is after else ["access"]
    found: list[str] = []
    for one in msgspec.structs.fields(after):
        old, new = getattr(before, one.name), getattr(after, one.name)
        if one.name == "access":
            found += settings_changed(old, new, live=live)
        elif one.name not in {"origins", "read_from"} and one.encode_name not in live and old != new:
            found.append(one.encode_name)
    return found


def settings_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return what each setting of a struct may be, by the name that operators write."""
    return {one.encode_name: one.type for one in msgspec.structs.fields(kind) if one.name not in NOT_SETTINGS}


def limits_of(kind: type[DataclassInstance]) -> dict[str, object]:
    """Return the settings in `[limits]`: positive numbers, those of the dataclass's fields that it names."""
    names = getattr(kind, "SETTINGS", [one.name for one in fields(kind)])
    return {f"limits.{one.name}": Positive for one in fields(kind) if one.name in names}


# ------------------------------------------------------------ where it was written


@dataclass(frozen=True, slots=True)
class Setting:
    """One value as it was written, and where. Relative paths begin at `folder`."""

    value: object
    origin: str
    folder: Path
    is_text: bool = False
    """Whether the value could only be written as text: flags and variables know no numbers."""
    tables: tuple[Mapping[str, str], ...] = ()
    """For an array of tables: where each of them begins (under no name), and where it sets which word."""

    def in_table(self, number: int, word: str = "", value: object = None) -> Setting:
        """Return the table of this number (from 1), or one of its words, with its place."""
        places = self.tables[number - 1] if number <= len(self.tables) else {}
        origin = places.get(word) or places.get("") or self.origin
        return Setting(value, origin, self.folder, self.is_text)

    def wrong(self, name: str, problem: str) -> BadConfig:
        """Return the error that sends the operator to this value."""
        return BadConfig(f"{self.origin}: `{name}` {problem}")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What an organisation or a profile says of settings that the operator has not written."""

    origin: str
    values: Mapping[str, object]

    def settings(self) -> dict[str, Setting]:
        """Return them as settings; paths in them are whole."""
        return {name: Setting(value, self.origin, Path()) for name, value in self.values.items()}


def gather(
    known: Collection[str],
    *,
    file: Path | None,
    environment: Mapping[str, str],
    prefix: str,
    flags: Mapping[str, object],
    defaults: Defaults | None = None,
) -> dict[str, Setting]:
    """Put the sources together; refuse a name that is not a setting. `defaults` are weaker than all.

    Of a file and the one that was generated beside it, the file is stronger.
    """
    found = {} if defaults is None else defaults.settings()
    if file is not None:
        beside = generated_beside(file)
        found |= (from_file(beside, known) if beside.is_file() else {}) | from_file(file, known)
    return found | _from_environment(environment, known, prefix) | _from_flags(flags)


def generated_beside(file: Path) -> Path:
    """Return where the generated settings beside a file of the operator's are, if there are any."""
    return file.with_suffix(f".generated{file.suffix}")


def settings_files(file: Path | None) -> tuple[Path, ...]:
    """Return a settings file, behind the one of generated settings beside it; each may not be there."""
    return () if file is None else (generated_beside(file), file)


def from_file(path: Path, known: Collection[str]) -> dict[str, Setting]:
    """Read a TOML file into values by their dotted names; refuse a name that is not a setting."""
    try:
        text = read_text(path)
    except BadFile as problem:
        raise BadConfig(f"the configuration cannot be read: {problem.message}") from problem
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        kind = kind_of_file(text)
        if kind is not None:  # it may be a secret, and is not quoted
            raise BadConfig(f"`{path}` is {kind}; a configuration was expected") from None
        raise BadConfig(_syntax_error(path, text, problem)) from problem
    settings: dict[str, Setting] = {}
    for name, value in _flattened(found, known):
        origin = f"`{path}` line {_line_of(text, name)}"
        if name not in known:
            raise BadConfig(f"{origin}: `{name[:64]}` is not a setting; {_nearest(name, known)}")
        tables = tuple(
            {word: f"`{path}` line {line}" for word, line in lines.items()}
            for lines in _tables_called(name, text)
        )
        settings[name] = Setting(value, origin, path.parent, tables=tables)
    return settings


def _from_environment(
    variables: Mapping[str, str], known: Collection[str], prefix: str
) -> dict[str, Setting]:
    """Read every variable that begins with the prefix; a misspelt one is refused, not ignored."""
    by_variable = {prefix + name.replace(".", "_").upper(): name for name in known}
    settings: dict[str, Setting] = {}
    for variable, value in sorted(variables.items()):
        if not variable.startswith(prefix):
            continue
        if variable not in by_variable:
            wrong = variable.removeprefix(prefix).lower()
            raise BadConfig(f"the environment: `{variable[:64]}` is not a setting; {_nearest(wrong, known)}")
        settings[by_variable[variable]] = Setting(
            value, f"the environment variable `{variable}`", Path(), is_text=True
        )
    return settings


def _from_flags(flags: Mapping[str, object]) -> dict[str, Setting]:
    """Take the flags that were given; None and an empty list mean that a flag was not."""
    return {
        name: Setting(value, f"the option `--{name.translate(_AS_FLAG)}`", Path(), is_text=True)
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
    """Return the line that sets a dotted name, or the one that begins its table.

    The parser of the standard library keeps no positions, so the line is searched for again.
    """
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


# ------------------------------------------------------------ what it means


def build(
    kind: Callable[..., _Built],
    known: Mapping[str, object],
    settings: Mapping[str, Setting],
    *,
    prefix: str = "",
    **more: object,
) -> _Built:
    """Return the struct (or dataclass) whose settings are `known`; raise BadConfig at the first wrong value.

    Dots are written as `_` in the names of fields, and fields in `more` are no settings.
    """
    values = {
        name.removeprefix(prefix).replace(".", "_"): _converted(settings[name], name, known[name])
        for name in known
        if name in settings
    }
    return kind(**values, **more)


def _converted(setting: Setting, name: str, kind: object) -> object:
    """Return the value that a setting means; lists may be written as text where only text can be."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is not tuple:
        return _one(setting, name, kind)
    inner = get_args(kind)[0]
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        return read_tables(setting, name, inner)
    value = setting.value
    if setting.is_text and isinstance(value, str):
        value = [word for word in value.split(",") if word.strip()]
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or len(value) > _LIST_MAX:
        raise setting.wrong(name, f"must be a list of at most {_LIST_MAX} words, not {_shown(value)}")
    return tuple(_one(replace(setting, value=one), name, inner) for one in value)


def _one(setting: Setting, name: str, kind: object) -> object:
    def read(form: type, written: object) -> object:
        if not isinstance(written, str) or not written:
            raise ValueError
        if issubclass(form, ChosenWord):
            return form.read(written, setting.folder)
        return setting.folder / Path(written).expanduser()

    value = str(setting.value) if isinstance(setting.value, Path) else setting.value
    try:
        return msgspec.convert(
            value.strip() if isinstance(value, str) else value,
            kind,
            strict=not setting.is_text,
            dec_hook=read,
        )
    except (msgspec.ValidationError, ValueError):
        is_secret = isinstance(kind, type) and issubclass(kind, ChosenWord) and kind.is_secret
        found = "" if is_secret else f", not {_shown(setting.value)}"
        raise setting.wrong(name, f"must be {_expected(kind)}{found}") from None


def _expected(kind: object) -> str:
    """Say what a setting must be, in the words of the person who writes it."""
    if get_origin(kind) is Annotated:
        return next(one.description for one in get_args(kind) if isinstance(one, Meta) and one.description)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(one.value for one in kind)}"
    if isinstance(kind, type) and issubclass(kind, ChosenWord):
        return kind.expected
    return {bool: "true or false", Path: "a path"}[kind]  # type: ignore[index]  # no other kinds are fields


def read_tables(setting: Setting, name: str, kind: type[_Table]) -> tuple[_Table, ...]:
    """Read an array of tables, each of them one struct."""
    tables, known = setting.value, settings_of(kind)
    if not isinstance(tables, list) or len(tables) > _TABLES_MAX:
        raise setting.wrong(name, f"must be at most {_TABLES_MAX} tables, each begun with `[[{name}]]`")
    found: list[_Table] = []
    for number, table in enumerate(tables, start=1):
        here = setting.in_table(number)
        if not isinstance(table, dict):
            raise here.wrong(name, f"number {number} is not a table")
        for word in table:
            if word not in known:
                problem = f"number {number}: `{str(word)[:64]}` is not one of {', '.join(known)}"
                raise setting.in_table(number, word).wrong(name, problem)
        for one in msgspec.structs.fields(kind):
            if one.required and one.encode_name not in table:
                raise here.wrong(name, f"number {number}: `{one.encode_name}` is missing")
        values = {
            word: _converted(setting.in_table(number, word, value), f"{name}.{word}", known[word])
            for word, value in table.items()
        }
        try:
            found.append(kind(**values))
        except Mismatch as misfit:
            problem = f"number {number}: {misfit.problem}"
            raise setting.in_table(number, misfit.word).wrong(name, problem) from None
    return tuple(found)


def _shown(value: object) -> str:
    """Return what was written, short and on one line."""
    if isinstance(value, str | int | float):
        return f"`{str(value)[:_SHOWN_MAX]}`".replace("\n", "\\n")
    return f"a {type(value).__name__}"
