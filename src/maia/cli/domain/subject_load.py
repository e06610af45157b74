"""`maia domain subject load`: register the subjects of a file or of a database.

The source is read as a whole, like a source of facts: a row that cannot be read makes the whole reading fail,
and nothing is changed. What is registered is compared with it, and only differences are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from maia.cli.domain.calls import EntitledCaller, every_item, repeat
from maia.cli.inputs import AsJson
from maia.cli.output import answer
from maia.errors import BadInput, Refusal, Unavailable

if TYPE_CHECKING:
    from maia.api.client import DomainClient
    from maia.api.requests import ApiArgument
    from maia.credentials.appointments import ParameterKind


EXAMPLES: Final = (
    "Examples: maia domain subject load people.csv -a nationality -a clearance:int -k desk.key --credentials "
    "certs; maia domain subject load --from-database postgresql://hr/people --query 'SELECT key, name, "
    "clearance FROM staff' -a clearance:int --remove-missing --watch -k desk.key --credentials certs"
)
_KINDS: Final = {"text": "string", "string": "string", "int": "int", "float": "float", "bool": "bool"}
_KINDS_SHOWN: Final = "text, int, float, bool or time"


class BadSubjectSource(BadInput):
    """A source of subjects cannot be used as it is named, or has rows that are no subjects."""

    code = "INPUT-SUBJECT-SOURCE"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a source says of one subject."""

    identifier: str
    attributes: Mapping[str, ApiArgument]


def load(
    caller: EntitledCaller,
    file: Annotated[
        Path | None,
        typer.Argument(help="CSV with a heading, a JSON list of objects, or TOML with [[subject]] tables."),
    ] = None,
    from_database: Annotated[
        str | None,
        typer.Option(envvar="MAIA_SUBJECTS_URL", help="In place of a file: sqlite:///FILE or postgresql://…"),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="SQL that gives key, identifier, and the attributes in their order.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute", "-a", metavar="NAME[:KIND]", help=f"A column: {_KINDS_SHOWN}. May be repeated."
        ),
    ] = None,
    remove_missing: Annotated[
        bool,
        typer.Option("--remove-missing", help="Remove registered subjects that the source does not have."),
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and load again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.5, help="With --watch: how often, in seconds.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Register the subjects of a file or a database: columns `key`, `identifier`, and attributes."""

    names = dict(_column(one) for one in attribute or ())
    cells = _source(file, from_database, query, names)

    def once() -> float:
        with caller.client() as client:
            done = _load(client, _subjects(cells(), names), remove_missing=remove_missing)
        lines = [f"{what:<12} {len(who)}" for what, who in done.items()]
        answer(lines, {what: sorted(who) for what, who in done.items()}, as_json=as_json)
        return every

    repeat(
        once, watch=watch, as_json=as_json, most_s=every, survives=(Refusal, Unavailable, BadSubjectSource)
    )


def _column(word: str) -> tuple[str, ParameterKind]:
    from maia.credentials.appointments import ParameterKind

    name, _, kind = word.partition(":")
    try:
        return name, ParameterKind.TIMESTAMP if kind == "time" else ParameterKind(_KINDS[kind or "text"])
    except (KeyError, ValueError):
        raise BadSubjectSource(f"`{word[:64]}` is not NAME:KIND, with a kind of {_KINDS_SHOWN}") from None


def _source(
    file: Path | None, url: str | None, query: str | None, names: Mapping[str, ParameterKind]
) -> Callable[[], Sequence[Sequence[object]]]:
    import time

    from maia.config.row_sources import FileSource, PostgresSource, SqliteSource

    if (file is None) == (url is None) or (url is None) != (query is None):
        raise BadSubjectSource("name a file, or a database with --from-database and --query")
    if file is not None:
        return FileSource(file, ("key", "identifier", *names), (), frozenset(names)).cells
    if url is not None and query is not None and url.startswith("sqlite:///"):
        return SqliteSource(Path(url.removeprefix("sqlite:///")), query, (), time.monotonic).cells
    if url is not None and query is not None and url.startswith("postgresql://"):
        return PostgresSource(url, query, ()).cells
    raise BadSubjectSource("a database is `sqlite:///FILE` or `postgresql://…`")


def _subjects(cells: Sequence[Sequence[object]], names: Mapping[str, ParameterKind]) -> dict[str, _Wanted]:
    """Return the subjects of a source by their keys; an attribute without a value is left out."""
    from maia.api.requests import ROWS_MAX, written
    from maia.config.row_sources import row_of
    from maia.credentials.appointments import ParameterKind

    found: dict[str, _Wanted] = {}
    if len(cells) > ROWS_MAX:
        raise BadSubjectSource(f"there are more than the {ROWS_MAX} rows that are read")
    for number, row in enumerate(cells, start=1):
        if len(row) != 2 + len(names):
            raise BadSubjectSource(f"row {number} has {len(row)} values, and {2 + len(names)} are declared")
        given = {name: value for name, value in zip(names, row[2:], strict=True) if value is not None}
        kinds = (ParameterKind.PRINCIPAL, ParameterKind.STRING, *(names[name] for name in given))
        principal, identifier, *values = row_of((*row[:2], *given.values()), kinds, number)
        if str(principal) in found:
            raise BadSubjectSource(f"row {number}: another row has the same key")
        attributes = {name: written(value) for name, value in zip(given, values, strict=True)}
        found[str(principal)] = _Wanted(str(identifier), attributes)
    return found


def _load(
    client: DomainClient, wanted: Mapping[str, _Wanted], *, remove_missing: bool
) -> dict[str, list[str]]:
    from maia.api.client import new_once
    from maia.api.requests import Reason, SubjectBody
    from maia.api.responses import News, SubjectAnswer, SubjectPage

    if remove_missing and not wanted:
        raise BadSubjectSource("the source has no subjects, and --remove-missing would remove all")
    known = {one.principal: one for one in every_item(client, "/v1/subjects", SubjectPage)}
    done: dict[str, list[str]] = {"added": [], "changed": [], "removed": [], "unchanged": []}

    def remove(principals: Iterator[str]) -> None:
        for principal in principals:
            path = f"/v1/subjects/{principal}/removal"
            reason = Reason("not in the source of subjects")
            client.call("POST", path, reason, answer=News, once=new_once())
            done["removed"].append(principal)

    if remove_missing:  # first: a new key may have the identifier of one that is gone
        remove(one for one in known if one not in wanted)
    for principal, one in wanted.items():
        before = known.get(principal)
        if before is not None and (before.identifier, before.attributes) == (one.identifier, one.attributes):
            done["unchanged"].append(principal)
            continue
        body = SubjectBody(one.identifier, dict(one.attributes))
        client.call("PUT", f"/v1/subjects/{principal}", body, answer=SubjectAnswer, once=new_once())
        done["added" if before is None else "changed"].append(principal)
    return done
