"""Where do facts come from? A query in SQLite or PostgreSQL, a file, a page.

Every source is read as a whole, bounded in size and in time, without being
able to change anything. The result is all of it, or a failure. A source
declares the kind of each column. A value that does not fit makes the whole
reading fail: a row that was left out in silence could take a right from the
wrong person, and one that was guessed could give one.
"""

from __future__ import annotations

import csv
import io
import json
import os
import socket
import sqlite3
import threading
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from maia.config.settings import Mismatch, Positive, Secret, Text
from maia.credentials import principal_from_text
from maia.credentials.appointments import X509_WORD, Given, ParameterKind, Word, checked_argument
from maia.errors import MaiaError, Unavailable
from maia.events import Instant

if TYPE_CHECKING:
    import psycopg


BYTES_MAX: Final = 64 << 20
READ_S: Final = 15.0
_STEPS: Final = 10_000
ROWS_MAX: Final = 200_000
_BOOLS: Final = {"true": True, "false": False, "1": True, "0": False}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS: Final = 1_000_000

_GRACE_S: Final = 2.0
"""How much longer than its own time limit a server is waited for."""

Row = tuple[Given, ...]
"""A principal that is named `x509:NAME` stays a word: the domain's server knows whom its authorities mean."""
Parameter = str | int | float | bool
"""A value that a query is asked with; it is bound by the driver, and never part of the text."""


class RowSource(ABC):
    """Something that says, whenever it is asked, all rows of one fact."""

    __slots__ = ()
    kinds: tuple[ParameterKind, ...]

    @abstractmethod
    def cells(self) -> list[Sequence[object]]:
        """Return every row as the source has it; raise if any part of the answer is missing."""

    def read(self) -> list[Row]:
        """Return every row as arguments of the declared kinds."""
        return rows_of(self.cells(), self.kinds)


@dataclass(frozen=True, slots=True)
class SqliteSource(RowSource):
    """The rows of a query in a SQLite file, which is opened for reading alone."""

    path: Path
    query: str
    kinds: tuple[ParameterKind, ...]
    clock: Callable[[], float] = field(repr=False, compare=False)
    parameters: Mapping[str, Parameter] = field(default_factory=dict, hash=False)
    """What stands for `:name` in the query."""
    timeout_s: float = READ_S

    def cells(self) -> list[Sequence[object]]:
        """Run the query; return its rows as the database gives them."""
        deadline = self.clock() + self.timeout_s
        try:
            file = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=self.timeout_s
            )
        except sqlite3.Error as problem:
            raise Unavailable(
                "UNAVAILABLE-FACT-SOURCE", f"`{self.path}` cannot be opened: {problem}"
            ) from None
        try:
            file.execute("PRAGMA query_only = ON")
            file.set_progress_handler(lambda: self.clock() > deadline, _STEPS)
            return file.execute(self.query, dict(self.parameters)).fetchmany(ROWS_MAX + 1)
        except sqlite3.Error as problem:
            raise Unavailable(
                "UNAVAILABLE-FACT-SOURCE", f"`{self.path}` cannot be asked: {problem}"
            ) from None
        finally:
            file.close()


@dataclass(frozen=True, slots=True)
class PostgresSource(RowSource):
    """The rows of a query in PostgreSQL, in a transaction that cannot write."""

    url: str = field(repr=False)
    query: str
    kinds: tuple[ParameterKind, ...]
    parameters: Mapping[str, Parameter] = field(default_factory=dict, hash=False)
    """What stands for `%(name)s` in the query. With any, a `%` of the query is written `%%`."""
    timeout_s: float = READ_S

    def cells(self) -> list[Sequence[object]]:
        """Run the query; return its rows as the database gives them."""
        import psycopg

        try:
            connection = psycopg.connect(self.url, connect_timeout=max(2, int(self.timeout_s)))
            with connection, _cut_off_after(connection, self.timeout_s + _GRACE_S):
                connection.read_only = True
                connection.execute(f"SET LOCAL statement_timeout = {int(self.timeout_s * 1000)}")
                # A cursor of the server's hands out a bounded number of rows, however many there are.
                cursor = connection.cursor("maia_facts")
                try:
                    cursor.execute(self.query.encode(), self.parameters or None)
                    return list(cursor.fetchmany(ROWS_MAX + 1))
                finally:
                    with suppress(psycopg.Error):
                        cursor.close()
                    cursor.close()  # where the server went meanwhile, the first attempt has noticed it
        except (psycopg.Error, OSError) as problem:
            # The address can hold a password, so only the kind of the problem is shown.
            raise Unavailable(
                "UNAVAILABLE-FACT-SOURCE", f"PostgreSQL cannot be asked: {type(problem).__name__}"
            ) from None


@contextmanager
def _cut_off_after(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Shut the connection down if the body takes longer: a server that hangs keeps no limit of its own."""
    # Any: rows are tuples of whatever a statement returns.
    with socket.socket(fileno=os.dup(connection.fileno())) as line:

        def cut_off() -> None:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, cut_off)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@dataclass(frozen=True, slots=True)
class FileSource(RowSource):
    """The rows of a CSV file with a heading, or of a JSON file with a list of rows or of objects.

    A TOML file has one array of tables, as in `[[subject]]`.
    """

    path: Path
    columns: tuple[str, ...]
    kinds: tuple[ParameterKind, ...]
    optional: frozenset[str] = frozenset()
    """Columns that a row may lack; `cells` then has None in their place."""

    def cells(self) -> list[Sequence[object]]:
        """Read the file, unless it is written meanwhile; return its rows as they are there."""
        try:
            before = self.path.stat()
            if before.st_size > BYTES_MAX:
                raise Unavailable(
                    "UNAVAILABLE-FACT-SOURCE",
                    f"`{self.path}` is larger than the {BYTES_MAX} bytes that are read",
                )
            data = self.path.read_bytes()
            after = self.path.stat()
        except OSError as problem:
            raise Unavailable(
                "UNAVAILABLE-FACT-SOURCE", f"`{self.path}` cannot be read: {problem.strerror}"
            ) from None
        same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
        if not same or len(data) != after.st_size:
            raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{self.path}` is being written")
        parse = {".csv": _csv_rows, ".toml": _toml_rows}.get(self.path.suffix.lower(), _json_rows)
        return parse(data, self.columns, str(self.path), self.optional)


@dataclass(frozen=True, slots=True)
class HttpSource(RowSource):
    """The rows of a page in JSON; over TLS, or from this machine."""

    url: str
    columns: tuple[str, ...]
    kinds: tuple[ParameterKind, ...]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def cells(self) -> list[Sequence[object]]:
        """Fetch the page."""
        import httpx

        try:
            with (
                httpx.Client(timeout=READ_S, follow_redirects=False, trust_env=False) as client,
                client.stream("GET", self.url, headers=dict(self.headers)) as response,
            ):
                if response.status_code != 200:
                    raise Unavailable(
                        "UNAVAILABLE-FACT-SOURCE",
                        f"`{self.shown}` answers with status {response.status_code}",
                    )
                data = _bounded(response.iter_bytes(), self.shown, time.monotonic() + READ_S)
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise Unavailable(
                "UNAVAILABLE-FACT-SOURCE", f"`{self.shown}` does not answer: {type(problem).__name__}"
            ) from None
        return _json_rows(data, self.columns, self.shown)

    @property
    def shown(self) -> str:
        """Return where it is, without what may be a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{parts.path}"[:200]


def _bounded(parts: Iterable[bytes], where: str, deadline: float) -> bytes:
    data = bytearray()
    for part in parts:
        data += part
        if time.monotonic() > deadline:
            raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{where}` takes longer than {READ_S:.0f} seconds")
        if len(data) > BYTES_MAX:
            raise Unavailable(
                "UNAVAILABLE-FACT-SOURCE", f"`{where}` has more than the {BYTES_MAX} bytes that are read"
            )
    return bytes(data)


_NEEDED: Final = {
    "sqlite": ("path", "query"),
    "postgresql": ("url", "query"),
    "file": ("path", "columns"),
    "http": ("url", "columns"),
    "stream": ("path", "columns"),
}


class SourceConfig(Struct, frozen=True, kw_only=True):
    """A table of a configuration that names where rows come from, as the operator wrote it."""

    name: Text
    """The fact, as the policy declares it."""
    source: str
    """Where it is read: `sqlite`, `postgresql`, `file`, `http` or `stream`."""
    every_s: Positive
    """How many seconds lie between two readings."""
    stale_s: Positive
    """For how many seconds the last good reading counts when its source fails."""
    path: Path | None = None
    """A file, a database of SQLite, or the .type file of a stream."""
    url: Secret | None = None
    """The address of a database or a page; it may hold a password."""
    query: Text | None = None
    """A query with one column for each argument."""
    columns: tuple[Text, ...] = ()
    """The columns, or attributes, that are the arguments."""
    parameters: Annotated[
        dict[str, str | int | float | bool], Meta(description="a table of values, such as { ward = 'A4' }")
    ] = {}
    """What the query is asked with: `%(ward)s` in PostgreSQL, `:ward` in SQLite."""
    timeout_s: Positive = 15
    """How long the query may take."""

    def __post_init__(self) -> None:
        """Refuse words that do not fit each other."""
        missing = [word for word in _NEEDED[self.source] if not getattr(self, word)]
        if missing:
            raise Mismatch("", f"a source `{self.source}` needs `{missing[0]}`")
        if self.stale_s < self.every_s:
            raise Mismatch("every_s", "what is read every `every_s` is stale before, by `stale_s`")

    def opened(
        self, kinds: tuple[ParameterKind, ...] = (), clock: Callable[[], float] = time.monotonic
    ) -> RowSource | None:
        """Return the source; None for one that comes on a stream."""
        path, url, query = self.path or Path(), self.url or "", self.query or ""
        match self.source:
            case "sqlite":
                return SqliteSource(path, query, kinds, clock, self.parameters, self.timeout_s)
            case "postgresql":
                return PostgresSource(url, query, kinds, self.parameters, self.timeout_s)
            case "file":
                return FileSource(path, self.columns, kinds)
            case "http":
                return HttpSource(url, self.columns, kinds)
        return None


_NONE: Final[frozenset[str]] = frozenset()


def _csv_rows(
    data: bytes, columns: Sequence[str], where: str, optional: frozenset[str] = _NONE
) -> list[Sequence[object]]:
    if data and not data.endswith(b"\n"):
        raise Unavailable(
            "UNAVAILABLE-FACT-SOURCE", f"`{where}` ends in the middle of a line: it may be half written"
        )
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{where}` has no column `{missing[0][:64]}`")
        # CSV has no null: an empty cell of a column that may be missing is taken for one.
        return [
            [None if name in optional and not row[name] else row[name] for name in columns] for row in reader
        ]
    except (csv.Error, UnicodeDecodeError) as problem:
        raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{where}` is not CSV: {problem}") from None


def _toml_rows(
    data: bytes, columns: Sequence[str], where: str, optional: frozenset[str] = _NONE
) -> list[Sequence[object]]:
    try:
        found = tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{where}` is not TOML") from None
    tables = list(found.values())
    if len(tables) != 1 or not isinstance(tables[0], list) or len(tables[0]) > ROWS_MAX:
        raise Unavailable(
            "UNAVAILABLE-FACT-SOURCE", f"`{where}` is not one array of at most {ROWS_MAX} tables"
        )
    return [_json_row(one, columns, where, optional) for one in tables[0]]


def _json_rows(
    data: bytes, columns: Sequence[str], where: str, optional: frozenset[str] = _NONE
) -> list[Sequence[object]]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{where}` is not JSON") from None
    if not isinstance(found, list) or len(found) > ROWS_MAX:
        raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{where}` is not a list of at most {ROWS_MAX} rows")
    return [_json_row(one, columns, where, optional) for one in found]


def _json_row(
    one: object, columns: Sequence[str], where: str, optional: frozenset[str] = _NONE
) -> Sequence[object]:
    if isinstance(one, dict):
        missing = [name for name in columns if name not in one and name not in optional]
        if missing:
            raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{where}` has a row without `{missing[0][:64]}`")
        return [one.get(name) for name in columns]
    if isinstance(one, list):
        return one
    raise Unavailable("UNAVAILABLE-FACT-SOURCE", f"`{where}` has a row that is neither a list nor an object")


def rows_of(found: Iterable[Sequence[object]], kinds: Sequence[ParameterKind]) -> list[Row]:
    """Return the rows of a source as arguments; refuse all of them if one does not fit."""
    rows: list[Row] = []
    for number, one in enumerate(found, start=1):
        if number > ROWS_MAX:
            raise Unavailable(
                "UNAVAILABLE-FACT-ROW", f"there are more than the {ROWS_MAX} rows that are read"
            )
        rows.append(row_of(one, kinds, number))
    return rows


def row_of(found: Sequence[object], kinds: Sequence[ParameterKind], number: int = 1) -> Row:
    """Return one row as arguments."""
    if len(found) != len(kinds):
        raise Unavailable(
            "UNAVAILABLE-FACT-ROW",
            f"row {number} has {len(found)} values, and {len(kinds)} kinds are declared",
        )
    try:
        return tuple(_argument(value, kind) for value, kind in zip(found, kinds, strict=True))
    except (MaiaError, ValueError, OverflowError) as problem:
        said = problem.message if isinstance(problem, MaiaError) else "a value cannot be read"
        raise Unavailable("UNAVAILABLE-FACT-ROW", f"row {number}: {said}") from None


def _argument(value: object, kind: ParameterKind) -> Given:
    match kind, value:
        case ParameterKind.PRINCIPAL, str() if value.strip().startswith(X509_WORD):
            return Word(value.strip())
        case ParameterKind.PRINCIPAL, str():
            return principal_from_text(value.strip())
        case ParameterKind.TIMESTAMP, str():
            return Instant.parse(value.strip())
        case ParameterKind.TIMESTAMP, datetime():
            if value.tzinfo is None:
                raise ValueError("a moment without a zone can mean several")
            passed = value - _EPOCH
            return Instant((passed.days * 86_400 + passed.seconds) * _MICROSECONDS + passed.microseconds)
        case ParameterKind.INT, str():
            return checked_argument(int(value.strip(), 10), kind)
        case ParameterKind.FLOAT, str():
            return checked_argument(float(value.strip()), kind)
        case ParameterKind.FLOAT, int() if type(value) is int:
            return checked_argument(float(value), kind)
        case ParameterKind.BOOL, str() if value.strip().lower() in _BOOLS:
            return _BOOLS[value.strip().lower()]
        case ParameterKind.BOOL, int() if type(value) is int and value in (0, 1):
            return bool(value)
    return checked_argument(value, kind)
