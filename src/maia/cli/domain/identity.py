"""`maia domain subject`, `trust` and `identity`: the identity provider of a domain.

`maia domain subject load`: register the subjects of a file or of a database.

The source is read as a whole, like a source of facts: a row that cannot be read makes the whole reading fail,
and nothing is changed. What is registered is compared with it, and only differences are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from maia.cli.domain.calls import (
    BadArgumentWord,
    Caller,
    EntitledCaller,
    ReasonText,
    arguments_from_words,
    every_item,
    record_of,
    repeat,
    shown_argument,
)
from maia.cli.inputs import AsJson, BadFile, command_group, moment, read_principal, read_text, write_new
from maia.cli.output import answer
from maia.cli.trust.key import Force
from maia.errors import BadInput, Refusal, Unavailable

if TYPE_CHECKING:
    from maia.api.client import DomainClient
    from maia.api.requests import ApiArgument
    from maia.api.responses import ProviderAnswer, SubjectAnswer
    from maia.credentials.appointments import ParameterKind
    from maia.credentials.identity import SignedIdentity


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
    from maia.api.arguments import written
    from maia.api.requests import ROWS_MAX
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


_LEAST_S: Final = 0.5

subjects = command_group("Register the subjects of the identity provider.")
trust = command_group("Trust the identity providers of other domains: their subjects can be guests here.")
SubjectKey: TypeAlias = Annotated[str, typer.Argument(metavar="SUBJECT", help="Whom: key or .pub file.")]
ProviderKey: TypeAlias = Annotated[
    str, typer.Argument(metavar="PROVIDER", help="The other domain: key or .pub file.")
]


subjects.command(epilog=EXAMPLES)(load)


def add_commands(app: typer.Typer) -> None:
    """Add `maia domain identity`."""
    app.command(
        epilog="Examples: maia domain identity -k anna.key -o anna.identity; "
        "maia domain identity -k anna.key -o anna.identity --watch; "
        "maia domain identity --guest anna.identity -k anna.key -o anna-guest.identity "
        "--home-out norway.identity"
    )(identity)


# ------------------------------------------------------------ subjects


@subjects.command(
    epilog="Example: maia domain subject add anna.pub anna@norway -a nationality=no -a clearance=3 "
    "-k desk.key --credentials certs"
)
def add(
    subject: SubjectKey,
    identifier: Annotated[str, typer.Argument(help="What the subject is called, such as anna@norway.")],
    caller: EntitledCaller,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            "-a",
            metavar="NAME=VALUE",
            help="text; 42; 1.5; true; time:2026-11-15T08:30:00Z; in quotes always text. May be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Register a subject, or replace all that is registered about it."""
    from maia.api.requests import SubjectBody
    from maia.api.responses import SubjectAnswer

    body = SubjectBody(identifier, _attributes(attribute or ()))
    path = f"/v1/subjects/{read_principal(subject)}"
    found = caller.change("PUT", path, body, answer=SubjectAnswer)
    answer(_subject_lines(found), record_of(found), as_json=as_json)


@subjects.command(
    epilog="Example: maia domain subject remove anna.pub --reason 'went home' -k desk.key --credentials certs"
)
def remove(
    subject: SubjectKey, caller: EntitledCaller, reason: ReasonText = "", as_json: AsJson = False
) -> None:
    """Remove a subject; statements that it has end within one lifetime."""
    _remove(caller, "subjects", subject, reason, as_json=as_json)


@subjects.command(name="list", epilog="Example: maia domain subject list -k desk.key --credentials certs")
def list_subjects(caller: EntitledCaller, as_json: AsJson = False) -> None:
    """List the subjects, with their attributes."""
    from maia.api.responses import SubjectPage

    found = caller.every("/v1/subjects", SubjectPage)
    lines = [f"{one.identifier}  {one.principal}  {_shown(one.attributes)}".rstrip() for one in found]
    answer(lines, {"subjects": [record_of(one) for one in found]}, as_json=as_json)


@subjects.command(epilog="Example: maia domain subject show anna.pub -k desk.key --credentials certs")
def show(subject: SubjectKey, caller: EntitledCaller, as_json: AsJson = False) -> None:
    """Show a subject: yourself, or any if you may read subjects."""
    from maia.api.responses import SubjectAnswer

    found = caller.ask("GET", f"/v1/subjects/{read_principal(subject)}", answer=SubjectAnswer)
    answer(_subject_lines(found), record_of(found), as_json=as_json)


# ------------------------------------------------------------ trust


@trust.command(
    name="add",
    epilog="Example: maia domain trust add norway.pub norway --until 2027-01-01T00:00:00Z "
    "-k desk.key --credentials certs",
)
def add_provider(
    provider: ProviderKey,
    identifier: Annotated[str, typer.Argument(help="What the other domain's provider is called here.")],
    caller: EntitledCaller,
    until: Annotated[str, typer.Option(help="A moment, or 'unbounded'.")] = "unbounded",
    as_json: AsJson = False,
) -> None:
    """Trust the provider of another domain; it need not trust this one."""
    from maia.api.requests import TrustBody
    from maia.api.responses import ProviderAnswer

    path = f"/v1/trusted-providers/{read_principal(provider)}"
    found = caller.change("PUT", path, TrustBody(identifier, until), answer=ProviderAnswer)
    answer([_provider_line(found)], record_of(found), as_json=as_json)


@trust.command(
    name="remove",
    epilog="Example: maia domain trust remove norway.pub --reason 'the exercise is over' "
    "-k desk.key --credentials certs",
)
def remove_provider(
    provider: ProviderKey, caller: EntitledCaller, reason: ReasonText = "", as_json: AsJson = False
) -> None:
    """Trust a provider no more; guest statements on it end within one lifetime."""
    _remove(caller, "trusted-providers", provider, reason, as_json=as_json)


def _remove(caller: EntitledCaller, among: str, key: str, reason: str, *, as_json: bool) -> None:
    from maia.api.requests import Reason
    from maia.api.responses import News

    principal = read_principal(key)
    caller.change("POST", f"/v1/{among}/{principal}/removal", Reason(reason), answer=News)
    answer([f"removed      {principal}"], {"removed": str(principal)}, as_json=as_json)


@trust.command(name="list", epilog="Example: maia domain trust list -k desk.key --credentials certs")
def list_providers(caller: EntitledCaller, as_json: AsJson = False) -> None:
    """List the trusted providers: since when, until when, by whose act."""
    from maia.api.responses import ProviderPage

    found = caller.every("/v1/trusted-providers", ProviderPage)
    lines = [_provider_line(one) for one in found]
    answer(lines, {"providers": [record_of(one) for one in found]}, as_json=as_json)


# ------------------------------------------------------------ statements


def identity(
    caller: Caller,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write the statement to.")],
    lifetime_s: Annotated[
        int | None,
        typer.Option("--lifetime-s", min=1, max=86_400, help="Seconds; the domain may give fewer."),
    ] = None,
    guest: Annotated[
        Path | None,
        typer.Option("--guest", metavar="FILE", help="Your home domain's statement: ask for a guest's."),
    ] = None,
    home_out: Annotated[
        Path | None,
        typer.Option("--home-out", help="With --guest: where to write what is said of your home provider."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and replace the file before the statement expires.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Ask for an identity statement about yourself: at home, or as a guest."""
    if guest is None and home_out is not None:
        raise typer.BadParameter("--home-out goes with --guest")
    if guest is not None and lifetime_s is not None:
        raise typer.BadParameter("a guest statement ends with the one of the home domain: no --lifetime-s")
    for file in (out, home_out):
        if file is not None and file.exists() and not force and not watch:
            raise BadFile(f"`{file}` is already there; `--force` replaces it")

    def once() -> float:
        with caller.client() as client:
            signed, home = identity_from(client, lifetime_s, guest)
        write_identity(out, signed)
        if home_out is not None and home is not None:
            write_identity(home_out, home)
        lines = [*_identity_lines(signed), f"written      {out}"]
        answer(lines, _identity_record(signed) | {"file": str(out)}, as_json=as_json)
        return _until_renewal(signed)

    repeat(once, watch=watch, as_json=as_json)


def identity_from(
    client: DomainClient, lifetime_s: int | None = None, guest: Path | None = None
) -> tuple[SignedIdentity, SignedIdentity | None]:
    """Return a statement about the caller, and of a guest the one about its home provider."""
    from maia.api.requests import GuestBody, IdentityBody
    from maia.api.responses import GuestAnswer, IdentityAnswer
    from maia.credentials.identity import identity_from_bytes, identity_from_text, identity_to_bytes

    if guest is None:
        body = IdentityBody(lifetime_s)
        found = client.call("POST", "/v1/identity", body, answer=IdentityAnswer)
        return identity_from_bytes(found.statement), None
    shown = GuestBody(identity_to_bytes(identity_from_text(read_text(guest))))
    given = client.call("POST", "/v1/identity/guest", shown, answer=GuestAnswer)
    return identity_from_bytes(given.statement), identity_from_bytes(given.home)


def write_identity(path: Path, signed: SignedIdentity) -> None:
    """Replace a file at once: who follows it reads the old statement or the new one, and no half."""
    from maia.credentials.identity import identity_to_text

    new = path.with_name(f".{path.name}.new")
    write_new(new, identity_to_text(signed), overwrite=True)
    try:
        new.replace(path)
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be written: {problem.strerror}") from problem


def _until_renewal(signed: SignedIdentity) -> float:
    """Return how long to wait: until a third of the statement's life is left."""
    from maia.events import SECOND

    left = (signed.statement.not_after - moment(None)) / SECOND
    life = (signed.statement.not_after - signed.statement.not_before) / SECOND
    return max(left - life / 3, _LEAST_S)


def _attributes(words: list[str] | tuple[str, ...]) -> dict[str, ApiArgument]:
    found: dict[str, ApiArgument] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in found:
            problem = "is given twice" if equals else "is not NAME=VALUE"
            raise BadArgumentWord(f"the attribute `{word[:64]}` {problem}")
        (found[name],) = arguments_from_words([value])
    return found


def _shown(attributes: dict[str, ApiArgument]) -> str:
    return " ".join(f"{name}={shown_argument(value)}" for name, value in attributes.items())


def _subject_lines(found: SubjectAnswer) -> list[str]:
    return [
        f"subject      {found.principal}",
        f"identifier   {found.identifier}",
        *(f"attribute    {name} = {shown_argument(value)}" for name, value in found.attributes.items()),
        f"registered   {found.registered_at} by {found.registered_by}",
    ]


def _provider_line(one: ProviderAnswer) -> str:
    until = one.until or "unbounded"
    return f"{one.identifier}  {one.principal}  since {one.since} until {until} by {one.trusted_by}"


def _identity_lines(signed: SignedIdentity) -> list[str]:
    from maia.api.arguments import written

    said = signed.statement
    return [
        f"subject      {said.subject}",
        f"identifier   {said.identifier}",
        *(
            f"attribute    {uid} = {shown_argument(written(value))}"
            for uid, value in sorted(said.attributes.items())
        ),
        f"community    {said.community}",
        f"issuer       {said.issuer}",
        *([f"guest of     {said.home}"] if said.is_guest else []),
        f"valid        {said.not_before} to {said.not_after}",
    ]


def _identity_record(signed: SignedIdentity) -> dict[str, object]:
    import msgspec

    from maia.api.arguments import written

    said = signed.statement
    return {
        "subject": str(said.subject),
        "identifier": said.identifier,
        "attributes": msgspec.to_builtins({uid: written(value) for uid, value in said.attributes.items()}),
        "community": said.community,
        "issuer": str(said.issuer),
        "home": str(said.home),
        "is_guest": said.is_guest,
        "not_before": str(said.not_before),
        "not_after": str(said.not_after),
        "id": signed.id.hex(),
    }
