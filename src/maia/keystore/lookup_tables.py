"""Where do the tables live that `lookup` of a policy finds values in?

A file names them: whose rules may use each, what kind its keys and values are of, and the file or query it
is read from. It lies where Views are applied, as the secrets of transformations do: at brokers, and on the
workers of Spark jobs. No certificate, plan or message has a row of it.

    [[lookups]]
    name = "wards"
    issuer = "hospital.pub"
    key = "string"
    value = "string"
    source = "file"
    path = "wards.csv"
    columns = ["ward", "title"]

Each table is read again every `every_s`. While that fails, the last good reading is used for `stale_s`; then
every key is missing.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Literal

from maia.canonical import SExpression, write_advanced
from maia.config.input_files import read_principal
from maia.config.row_sources import ROWS_MAX, SourceConfig, row_of
from maia.config.settings import (
    BadConfig,
    Mismatch,
    Positive,
    PrincipalWord,
    Text,
    from_file,
    read_tables,
)
from maia.credentials.appointments import ParameterKind
from maia.credentials.keys import Principal, principal_from_expression, principal_to_expression
from maia.errors import BadInput, MaiaError, Unavailable
from maia.events import (
    SUBSCRIBER_PREFIX,
    AttributeUid,
    BadAttribute,
    Kind,
    PresentValue,
    Value,
    attribute_uid,
    checked_value,
    condition_uid,
)
from maia.expressions.meaning import NO_KEYS, SECRET_BYTES, Lookup, LookupTable, TransformationKeys
from maia.keystore.key_files import read_guarded_expression, write_guarded_file
from maia.net.observer import Records
from maia.policy.facts import CLIENT_ADDRESS, SUBSCRIBER, VERIFIERS_OWN, WorldFunction

TABLES_MAX: Final = 64
_LOOK_S: Final = 1.0


class LookupConfig(SourceConfig, frozen=True, kw_only=True):
    """One `[[lookups]]` table, as the operator wrote it."""

    source: Literal["file", "sqlite", "postgresql", "http"]
    every_s: Positive = 60
    stale_s: Positive = 600
    issuer: PrincipalWord
    key: Kind
    value: Kind
    of: Text | None = None
    """Of what conditions ask it, as `world.NAME`: `client-address`, `subscriber`, `subscriber.clearance`."""

    def __post_init__(self) -> None:
        """Refuse words that do not fit each other."""
        super().__post_init__()
        if self.of is not None:
            _check_function(self.name, self.of)
        if self.columns and len(self.columns) != 2:
            raise Mismatch("columns", "names two columns: the key's and the value's")


def _check_function(name: str, of: str) -> None:
    if of not in (SUBSCRIBER, *VERIFIERS_OWN) and not of.startswith(SUBSCRIBER_PREFIX):
        known = ", ".join(f"`{one}`" for one in (SUBSCRIBER, f"{SUBSCRIBER_PREFIX}NAME", CLIENT_ADDRESS))
        raise Mismatch("of", f"is one of what is known when a right is decided: {known}")
    try:
        condition_uid(of)
        attribute_uid(name)
    except BadAttribute as problem:
        raise Mismatch("name", f"is asked for in conditions: {problem.message}") from problem


class ReadTable:
    """A table that is read again and again; what is too old is not there. Prints no row."""

    def __init__(self, config: LookupConfig, clock: Callable[[], float]) -> None:
        """Begin without rows."""
        self.name, self.every_s, self._stale_s = config.name, config.every_s, config.stale_s
        self.of, self.kind = config.of, config.value
        self._config, self._clock, source = config, clock, config.opened(clock=clock)
        assert source is not None  # noqa: S101 - a lookup has no stream
        self._source = source
        self._table: LookupTable | None = None
        self._read_at = self._asked_at = float("-inf")

    def find(self, key: PresentValue, kind: Kind) -> Value:
        """Return what the table has for a key."""
        table = self._table
        if table is None or self._clock() - self._read_at > self._stale_s:
            return None
        return table.find(key, kind)

    @property
    def is_due(self) -> bool:
        """Return whether it is time to read the table again."""
        return self._clock() - self._asked_at >= self.every_s

    def refresh(self) -> None:
        """Read the table; raise if that fails, and keep what was read before."""
        self._asked_at = asked_at = self._clock()
        config = self._config
        rows: dict[PresentValue, PresentValue] = {}
        for number, cells in enumerate(self._source.cells(), start=1):
            if number > ROWS_MAX or len(cells) != 2:
                raise Unavailable(
                    "UNAVAILABLE-FACT-ROW",
                    f"a table of lookups has at most {ROWS_MAX} rows of a key and a value",
                )
            key, value = _value(cells[0], config.key, number), _value(cells[1], config.value, number)
            if rows.setdefault(key, value) != value:
                raise Unavailable(
                    "UNAVAILABLE-FACT-ROW", f"row {number}: the key has another value in a row before"
                )
        self._table, self._read_at = LookupTable(config.key, config.value, rows), asked_at


class _LazyTable:
    """A table of a worker, which has nothing that runs beside it: it is read when it is used and due."""

    def __init__(self, table: ReadTable) -> None:
        self._table, self._reading = table, threading.Lock()

    def find(self, key: PresentValue, kind: Kind) -> Value:
        if self._table.is_due:
            with self._reading:
                _refresh(self._table)
        return self._table.find(key, kind)


def _value(cell: object, kind: Kind, number: int) -> PresentValue:
    if kind is Kind.BYTES and isinstance(cell, bytes | bytearray | memoryview):
        return bytes(cell)
    if kind is Kind.BYTES:
        try:
            return bytes.fromhex(cell if isinstance(cell, str) else "not bytes")
        except ValueError:
            raise Unavailable(
                "UNAVAILABLE-FACT-ROW", f"row {number}: a value is neither bytes nor hexadecimal digits"
            ) from None
    (argument,) = row_of([cell], (ParameterKind(kind.value),), number)
    value = checked_value(argument, kind)
    if value is None:
        raise Unavailable("UNAVAILABLE-FACT-ROW", f"row {number}: a value is missing")
    return value


def read_lookups(
    file: Path, clock: Callable[[], float] = time.monotonic
) -> dict[bytes, dict[str, ReadTable]]:
    """Return the tables that a file names, by the issuer whose rules may use them; none is read yet."""
    settings = from_file(file, {"lookups"})
    if "lookups" not in settings:
        raise BadConfig(f"`{file}` names no table: begin one with `[[lookups]]`")
    setting = settings["lookups"]
    tables: dict[bytes, dict[str, ReadTable]] = {}
    configs = read_tables(setting, "lookups", LookupConfig)
    if len(configs) > TABLES_MAX:
        raise setting.wrong("lookups", f"are at most {TABLES_MAX} tables")
    for number, config in enumerate(configs, start=1):
        named = tables.setdefault(read_principal(config.issuer).key, {})
        if config.name in named:
            problem = f"number {number}: the issuer has another table `{config.name[:64]}`"
            raise setting.in_table(number, "name").wrong("lookups", problem)
        named[config.name] = ReadTable(config, clock)
    return tables


def functions_in(tables: Mapping[bytes, Mapping[str, ReadTable]]) -> tuple[WorldFunction, ...]:
    """Return those tables that conditions ask as functions."""
    every = ((Principal(issuer), table) for issuer, named in tables.items() for table in named.values())
    return tuple(
        WorldFunction(
            issuer, AttributeUid(table.name), AttributeUid(table.of), partial(table.find, kind=table.kind),
            table.every_s,
        )
        for issuer, table in every
        if table.of is not None
    )  # fmt: skip


def _refresh(table: ReadTable, records: Records | None = None) -> None:
    """Read a table if that is due; a failure leaves what was read before."""
    if not table.is_due:
        return
    try:
        table.refresh()
    except MaiaError as problem:
        if records is not None:
            records.note("failed", {"lookup": table.name, "code": problem.code, "why": problem.message})


async def refresh_lookups(tables: Mapping[bytes, Mapping[str, ReadTable]], records: Records) -> None:
    """Read the tables for which that is due, beside whatever else runs."""
    # One that is slow keeps no other waiting.
    await asyncio.gather(
        *(asyncio.to_thread(_refresh, one, records) for named in tables.values() for one in named.values())
    )


async def keep_lookups_fresh(tables: Mapping[bytes, Mapping[str, ReadTable]], records: Records) -> None:
    """Read tables again and again."""
    while True:
        await asyncio.sleep(_LOOK_S)
        await refresh_lookups(tables, records)


@lru_cache(maxsize=16)
def lookups_in(path: str) -> Mapping[bytes, Mapping[str, Lookup]]:
    """Return the tables of a file for a process that reads each of them when it is used and due."""
    found = read_lookups(Path(path))
    return {issuer: {name: _LazyTable(one) for name, one in named.items()} for issuer, named in found.items()}


# ------------------------------------------------------------ the secrets of pseudonyms and noise

# In a file of their own that only its owner may read. The issuer of keyed
# transformations makes it once, and hands copies to those who apply them: the
# brokers of the recipients' domains, and the workers of Spark jobs.
# Whoever holds it can calculate the pseudonym of any value it guesses.
#
#     (maia-transformation-keys (version 1) (key (issuer (ed25519 KEY)) (secret SECRET)) …)


ISSUERS_MAX: Final = 1024
_HEAD: Final = b"maia-transformation-keys"
_VERSION: Final = (b"version", b"1")


def create_transformation_keys(path: Path, issuer: Principal) -> None:
    """Make a secret for an issuer's transformations, in a new file that only its owner may read."""
    key = (b"key", (b"issuer", principal_to_expression(issuer)), (b"secret", os.urandom(SECRET_BYTES)))
    write_guarded_file(path, write_advanced((_HEAD, _VERSION, key)) + "\n")


def load_transformation_keys(path: Path) -> TransformationKeys:
    """Read secrets back; refuse a file that others could have read or replaced."""
    match read_guarded_expression(path):
        case (head, version, *keys) if head == _HEAD and version == _VERSION and 0 < len(keys) <= ISSUERS_MAX:
            found = [_read_key(path, key) for key in keys]
            if len({issuer for issuer, _ in found}) == len(found):
                return TransformationKeys(dict(found))
    raise BadInput("INPUT-KEY-FILE", f"`{path}` does not hold secrets of transformations")


def _read_key(path: Path, expression: SExpression) -> tuple[bytes, bytes]:
    match expression:
        case (b"key", (b"issuer", issuer), (b"secret", bytes(secret))) if len(secret) == SECRET_BYTES:
            try:
                return principal_from_expression(issuer).key, secret
            except BadInput:
                pass
    # The cause is left out: what cannot be read may still be most of a secret.
    raise BadInput("INPUT-KEY-FILE", f"`{path}` does not hold secrets of transformations")


@dataclass(frozen=True, slots=True)
class TransformationKeyFile:
    """Names of files with secrets and lookups, for workers that have them under the same paths.

    It holds no secret. Either may be left out; what depends on it is missing.
    """

    path: str | None = None
    lookups: str | None = None

    def transformation_keys(self) -> TransformationKeys:
        """Read the files, where this is called."""
        keys = NO_KEYS if self.path is None else load_transformation_keys(Path(self.path))
        return keys if self.lookups is None else keys.with_tables(lookups_in(self.lookups))
