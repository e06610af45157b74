"""How shall the access control service of a domain run?

    [api]         where the HTTP interface listens
    [database]    SQLite in the data folder, or PostgreSQL
    [broker]      which broker carries statements, and whose are heard
    [policy]      the policy's file, the role sets it imports, types and certificates it stands on
    [statements]  the rhythm of lists
    [[facts]]     where facts come from
    [[push]]      which brokers' credential folders are kept fresh

A domain that says nothing of this is a key server and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from maia.config import readers
from maia.config.sources import Said
from maia.credentials.arguments import ParameterKind

__all__ = ["ACCESS_SETTINGS", "AccessConfig", "FactConfig", "PushConfig", "access_config"]

DEFAULT_LISTEN: Final = "127.0.0.1:7600"
SOURCES: Final = ("sqlite", "postgresql", "file", "http", "stream")
_EVERY_S: Final = 10
_STALE_S: Final = 60


@dataclass(frozen=True, slots=True)
class FactConfig:
    """One `[[facts]]` table, as the operator wrote it."""

    name: str
    source: str
    kinds: tuple[ParameterKind, ...]
    every_s: int = _EVERY_S
    stale_s: int = _STALE_S
    path: Path | None = None
    url: str | None = field(default=None, repr=False)
    query: str | None = None
    columns: tuple[str, ...] = ()
    holds: str | None = None
    """For a stream: the attribute that says whether the fact holds."""


@dataclass(frozen=True, slots=True)
class PushConfig:
    """One `[[push]]` table: whose certificates are kept fresh in which folder."""

    subject: str
    folder: Path


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """The settings of the service: words and paths, nothing opened yet."""

    api_listen: str = DEFAULT_LISTEN
    api_skew_s: int = 60
    api_requests: int = 1200
    """Requests of one principal within twice the skew."""
    api_public: str | None = None
    """How others reach the interface; certificates then say that statements can be asked for there."""
    database_url: str | None = field(default=None, repr=False)
    broker_addresses: tuple[str, ...] = ()
    broker_hear: tuple[str, ...] = ()
    broker_carry_s: int = 10
    policy_file: Path | None = None
    policy_parents: tuple[tuple[str, Path], ...] = ()
    policy_types: tuple[Path, ...] = ()
    policy_held: tuple[Path, ...] = ()
    statements_period_s: int = 30
    statements_lead_s: int = 5
    rights_seconds: int = 86_400
    facts: tuple[FactConfig, ...] = ()
    push: tuple[PushConfig, ...] = ()


def access_config(values: Mapping[str, object]) -> AccessConfig | None:
    """Return the service's settings; None where nothing was said about it."""
    if not values:
        return None
    # object: each reader has checked one setting, and the table below pairs it with its field.
    named = {name.replace(".", "_"): value for name, value in values.items()}
    return AccessConfig(**named)  # type: ignore[arg-type]  # by the table


# ------------------------------------------------------------ readers


def _database(said: Said, name: str) -> str:
    """Read a database's address, which may hold a password and is never shown."""
    value = said.value
    if not isinstance(value, str) or not value.startswith(("sqlite:///", "postgresql://")):
        raise said.wrong(name, "must be `sqlite:///FILE` or `postgresql://…`")
    if value.startswith("sqlite:///"):
        return f"sqlite:///{said.folder / value.removeprefix('sqlite:///')}"
    return value


def _parents(said: Said, name: str) -> tuple[tuple[str, Path], ...]:
    if not isinstance(said.value, dict):
        raise said.wrong(name, "must be a table of names and files, such as { home = 'home.policy' }")
    return tuple(
        (str(word), readers.path(Said(file, said.origin, said.folder), f"{name}.{word}"))
        for word, file in said.value.items()  # each may import the ones before it
    )


def _kinds(said: Said, name: str) -> tuple[ParameterKind, ...]:
    words = [readers.text(one, name) for one in readers.words(said, name)]
    kinds = {kind.value: kind for kind in ParameterKind}
    for word in words:
        if word not in kinds:
            raise said.wrong(name, f"has `{word[:32]}`, which is not one of {', '.join(kinds)}")
    return tuple(kinds[word] for word in words)


def _columns(said: Said, name: str) -> tuple[str, ...]:
    return tuple(readers.text(one, name) for one in readers.words(said, name))


def _secret_text(said: Said, name: str) -> str:
    if not isinstance(said.value, str) or not said.value.strip():
        raise said.wrong(name, "must be text")
    return said.value.strip()


_FACT_WORDS: Final[Mapping[str, readers.Reader]] = {
    "name": readers.text,
    "source": readers.one_of(SOURCES),
    "kinds": _kinds,
    "every_s": readers.whole(1),
    "stale_s": readers.whole(1),
    "path": readers.path,
    "url": _secret_text,
    "query": readers.text,
    "columns": _columns,
    "holds": readers.text,
}
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "sqlite": ("path", "query"),
    "postgresql": ("url", "query"),
    "file": ("path", "columns"),
    "http": ("url", "columns"),
    "stream": ("path", "columns"),
}
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def _facts(said: Said, name: str) -> tuple[FactConfig, ...]:
    found: list[FactConfig] = []
    for number, table in enumerate(readers.tables(said, name, _FACT_WORDS), start=1):
        for word in ("name", "source", "kinds"):
            if word not in table:
                raise said.in_table(number).wrong(name, f"number {number}: `{word}` is missing")
        one = FactConfig(**table)  # type: ignore[arg-type]  # by the table above
        wrong = _what_is_wrong(one)
        if wrong is not None:
            word, problem = wrong
            raise said.in_table(number, word).wrong(name, f"`{one.name[:64]}`: {problem}")
        if one.name in {before.name for before in found}:
            problem = f"number {number}: `{one.name[:64]}` has a source already"
            raise said.in_table(number, "name").wrong(name, problem)
        found.append(one)
    return tuple(found)


def _what_is_wrong(one: FactConfig) -> tuple[str, str] | None:
    """Return the word of a table that does not fit the others, and why; None if all of them do."""
    missing = [word for word in _NEEDED[one.source] if not getattr(one, word)]
    if missing:
        return "", f"a source `{one.source}` needs `{missing[0]}`"
    if one.columns and len(one.columns) != len(one.kinds):
        return "columns", "there are not as many columns as kinds"
    if one.stale_s < one.every_s:
        return "every_s", "what is read every `every_s` is stale before, by `stale_s`"
    if one.source == "http" and one.url is not None:
        parts = urlsplit(one.url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            return "url", "a page is fetched over https, or from this machine"
    return None


def _pushes(said: Said, name: str) -> tuple[PushConfig, ...]:
    known: Mapping[str, readers.Reader] = {"subject": readers.principal_word, "folder": readers.path}
    found: list[PushConfig] = []
    for number, table in enumerate(readers.tables(said, name, known), start=1):
        if set(table) != set(known):
            raise said.in_table(number).wrong(name, f"number {number} needs `subject` and `folder`")
        found.append(PushConfig(**table))  # type: ignore[arg-type]  # by the table above
    return tuple(found)


_whole: Callable[[int], readers.Reader] = readers.whole

ACCESS_SETTINGS: Final[Mapping[str, readers.Reader]] = {
    "api.listen": readers.address,
    "api.skew_s": _whole(1),
    "api.requests": _whole(1),
    "api.public": readers.address,
    "database.url": _database,
    "broker.addresses": readers.addresses,
    "broker.hear": readers.principal_words,
    "broker.carry_s": _whole(1),
    "policy.file": readers.path,
    "policy.parents": _parents,
    "policy.types": readers.paths,
    "policy.held": readers.paths,
    "statements.period_s": _whole(1),
    "statements.lead_s": _whole(0),
    "rights.seconds": _whole(1),
    "facts": _facts,
    "push": _pushes,
}
"""Every setting of the service by its name, with the reader that checks it."""
