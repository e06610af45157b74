"""Where do facts come from? A query in SQLite or PostgreSQL, a file, a page.

Every source is read as a whole, bounded in size and in time, without being
able to change anything. What it says is either all of it, or a failure.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from maia.credentials.arguments import ParameterKind
from maia.domain.facts.values import ROWS_MAX, Row, rows_of
from maia.errors import Unavailable

__all__ = [
    "FactSource",
    "FactSourceFailed",
    "FileSource",
    "HttpSource",
    "PostgresSource",
    "SqliteSource",
]

BYTES_MAX: Final = 64 << 20
READ_S: Final = 15.0
_STEPS: Final = 10_000


class FactSourceFailed(Unavailable):
    """A source of facts cannot be read now."""

    code = "UNAVAILABLE-FACT-SOURCE"


class FactSource(Protocol):
    """Something that says, whenever it is asked, all rows of one fact."""

    def read(self) -> list[Row]:
        """Return every row; raise if any part of the answer is missing."""
        ...


@dataclass(frozen=True, slots=True)
class SqliteSource:
    """The rows of a query in a SQLite file, which is opened for reading alone."""

    path: Path
    query: str
    kinds: tuple[ParameterKind, ...]
    clock: Callable[[], float] = field(repr=False, compare=False)

    def read(self) -> list[Row]:
        """Run the query."""
        deadline = self.clock() + READ_S
        try:
            file = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=READ_S)
        except sqlite3.Error as problem:
            raise FactSourceFailed(f"`{self.path}` cannot be opened: {problem}") from None
        try:
            file.execute("PRAGMA query_only = ON")
            file.set_progress_handler(lambda: self.clock() > deadline, _STEPS)
            return rows_of(file.execute(self.query), self.kinds)
        except sqlite3.Error as problem:
            raise FactSourceFailed(f"`{self.path}` cannot be asked: {problem}") from None
        finally:
            file.close()


@dataclass(frozen=True, slots=True)
class PostgresSource:
    """The rows of a query in PostgreSQL, in a transaction that cannot write."""

    url: str = field(repr=False)
    query: str
    kinds: tuple[ParameterKind, ...]

    def read(self) -> list[Row]:
        """Run the query."""
        import psycopg

        try:
            with psycopg.connect(self.url, connect_timeout=int(READ_S)) as connection:
                connection.read_only = True
                connection.execute(f"SET LOCAL statement_timeout = {int(READ_S * 1000)}")
                # A cursor of the server's hands out a bounded number of rows, however many there are.
                with connection.cursor("maia_facts") as cursor:
                    cursor.execute(self.query.encode())
                    return rows_of(cursor.fetchmany(ROWS_MAX + 1), self.kinds)
        except (psycopg.Error, OSError) as problem:
            # The address can hold a password, so only the kind of the problem is shown.
            raise FactSourceFailed(f"PostgreSQL cannot be asked: {type(problem).__name__}") from None


@dataclass(frozen=True, slots=True)
class FileSource:
    """The rows of a CSV file with a heading, or of a JSON file with a list of rows or of objects."""

    path: Path
    columns: tuple[str, ...]
    kinds: tuple[ParameterKind, ...]

    def read(self) -> list[Row]:
        """Read the file, unless it is written meanwhile."""
        try:
            before = self.path.stat()
            if before.st_size > BYTES_MAX:
                raise FactSourceFailed(f"`{self.path}` is larger than the {BYTES_MAX} bytes that are read")
            data = self.path.read_bytes()
            after = self.path.stat()
        except OSError as problem:
            raise FactSourceFailed(f"`{self.path}` cannot be read: {problem.strerror}") from None
        same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
        if not same or len(data) != after.st_size:
            raise FactSourceFailed(f"`{self.path}` is being written")
        parse = _csv_rows if self.path.suffix.lower() == ".csv" else _json_rows
        return rows_of(parse(data, self.columns, str(self.path)), self.kinds)


@dataclass(frozen=True, slots=True)
class HttpSource:
    """The rows of a page in JSON; over TLS, or from this machine."""

    url: str
    columns: tuple[str, ...]
    kinds: tuple[ParameterKind, ...]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read(self) -> list[Row]:
        """Fetch the page."""
        import httpx

        try:
            with (
                httpx.Client(timeout=READ_S, follow_redirects=False, trust_env=False) as client,
                client.stream("GET", self.url, headers=dict(self.headers)) as response,
            ):
                if response.status_code != 200:
                    raise FactSourceFailed(f"`{self.shown}` answers with status {response.status_code}")
                data = _bounded(response.iter_bytes(), self.shown)
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise FactSourceFailed(f"`{self.shown}` does not answer: {type(problem).__name__}") from None
        return rows_of(_json_rows(data, self.columns, self.shown), self.kinds)

    @property
    def shown(self) -> str:
        """Return where it is, without what may be a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{parts.path}"[:200]


def _bounded(parts: object, where: str) -> bytes:
    data = bytearray()
    for part in parts:  # type: ignore[attr-defined]  # an iterator of httpx, which is loaded when it is needed
        data += part
        if len(data) > BYTES_MAX:
            raise FactSourceFailed(f"`{where}` has more than the {BYTES_MAX} bytes that are read")
    return bytes(data)


def _csv_rows(data: bytes, columns: Sequence[str], where: str) -> list[Sequence[object]]:
    if data and not data.endswith(b"\n"):
        raise FactSourceFailed(f"`{where}` ends in the middle of a line: it may be half written")
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise FactSourceFailed(f"`{where}` has no column `{missing[0][:64]}`")
        return [[row[name] for name in columns] for row in reader]
    except (csv.Error, UnicodeDecodeError) as problem:
        raise FactSourceFailed(f"`{where}` is not CSV: {problem}") from None


def _json_rows(data: bytes, columns: Sequence[str], where: str) -> list[Sequence[object]]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise FactSourceFailed(f"`{where}` is not JSON") from None
    if not isinstance(found, list) or len(found) > ROWS_MAX:
        raise FactSourceFailed(f"`{where}` is not a list of at most {ROWS_MAX} rows")
    return [_json_row(one, columns, where) for one in found]


def _json_row(one: object, columns: Sequence[str], where: str) -> Sequence[object]:
    if isinstance(one, dict):
        missing = [name for name in columns if name not in one]
        if missing:
            raise FactSourceFailed(f"`{where}` has a row without `{missing[0][:64]}`")
        return [one[name] for name in columns]
    if isinstance(one, list):
        return one
    raise FactSourceFailed(f"`{where}` has a row that is neither a list nor an object")
