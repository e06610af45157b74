"""`maia domain subject`, `trust` and `identity`: the identity provider of a domain.

The source of `maia domain subject load` is read as a whole, like a source of facts: a row that cannot be
read makes the whole reading fail, and nothing is changed. What is registered is compared with it, and only
differences are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from maia.api import endpoints as api
from maia.api.requests import ROWS_MAX, GuestBody, IdentityBody, Reason, SubjectBody, TrustBody
from maia.cli.command import arg, flag, need, opt
from maia.cli.domain.calls import (
    DomainCaller,
    EntitledCaller,
    ReasonText,
    arguments_from_words,
    repeat,
    shown_argument,
)
from maia.cli.inputs import BadFile, command_group, moment, read_principal, read_text, write_new
from maia.cli.output import Answer, plain, row, several, show
from maia.cli.trust.key import FORCE
from maia.errors import BadInput, Refusal, Unavailable
from maia.events import SECOND

if TYPE_CHECKING:
    from maia.api.client import DomainClient
    from maia.api.endpoints import Endpoint
    from maia.api.requests import ApiArgument
    from maia.api.responses import News, ProviderAnswer, SubjectAnswer
    from maia.credentials import Principal
    from maia.credentials.appointments import ParameterKind
    from maia.credentials.identity import SignedIdentity


app = command_group("")
subjects = command_group("Register the subjects of the identity provider.")
trust = command_group("Trust the identity providers of other domains: their subjects can be guests here.")
SubjectKey: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="SUBJECT", help="Whom: key, .pub file, or (to add) an X.509 certificate, .pem."),
]
ProviderKey: TypeAlias = Annotated[
    str, typer.Argument(metavar="PROVIDER", help="The other domain: key or .pub file.")
]
_KINDS: Final = {"text": "string", "string": "string", "int": "int", "float": "float", "bool": "bool"}
_KINDS_SHOWN: Final = "text, int, float, bool or time"
_LEAST_S: Final = 0.5


class BadSubjectSource(BadInput):
    """A source of subjects cannot be used as it is named, or has rows that are no subjects."""

    code = "INPUT-SUBJECT-SOURCE"


# ------------------------------------------------------------ subjects of a file or a database


@subjects.command()
def load(
    *,
    caller: EntitledCaller,
    file: Path | None = arg(
        "CSV with a heading, a JSON list of objects, or TOML with [[subject]] tables.", None
    ),
    from_database: str | None = opt(
        "In place of a file: sqlite:///FILE or postgresql://…", envvar="MAIA_SUBJECTS_URL"
    ),
    query: str | None = opt("SQL that gives key, identifier, and the attributes in their order."),
    attribute: list[str] | None = opt(
        f"A column: {_KINDS_SHOWN}. May be repeated.", "--attribute", "-a", metavar="NAME[:KIND]"
    ),
    remove_missing: bool = flag("Remove registered subjects that the source does not have."),
    watch: bool = flag("Stay, and load again, until Ctrl-C."),
    every: float = opt("With --watch: how often, in seconds.", default=60.0, min=0.5),
) -> None:
    """Register the subjects of a file or a database: columns `key`, `identifier`, and attributes.

    Examples:
        maia domain subject load people.csv -a nationality -a clearance:int -k desk.key --credentials certs
        maia domain subject load --from-database postgresql://hr/people --query 'SELECT key, name,
          clearance FROM staff' -a clearance:int --remove-missing --watch -k desk.key --credentials certs
    """
    names = dict(_column(one) for one in attribute or ())
    cells = _source(file, from_database, query, names)

    def once() -> float:
        with caller.client() as client:
            done = _load(client, _subjects(cells(), names), remove_missing=remove_missing)
        show(Answer(*(row(what, len(who), **{what: sorted(who)}) for what, who in done.items())))
        return every

    repeat(once, watch=watch, most_s=every, survives=(Refusal, Unavailable, BadSubjectSource))


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


def _subjects(
    cells: Sequence[Sequence[object]], names: Mapping[str, ParameterKind]
) -> dict[str, SubjectBody]:
    """Return the subjects of a source by their keys; an attribute without a value is left out."""
    from maia.api.arguments import written
    from maia.config.row_sources import row_of
    from maia.credentials.appointments import ParameterKind, Word
    from maia.events import named_uid

    found: dict[str, SubjectBody] = {}
    if len(cells) > ROWS_MAX:
        raise BadSubjectSource(f"there are more than the {ROWS_MAX} rows that are read")
    for number, cell in enumerate(cells, start=1):
        if len(cell) != 2 + len(names):
            raise BadSubjectSource(f"row {number} has {len(cell)} values, and {2 + len(names)} are declared")
        given = {name: value for name, value in zip(names, cell[2:], strict=True) if value is not None}
        kinds = (ParameterKind.PRINCIPAL, ParameterKind.STRING, *(names[name] for name in given))
        read = row_of((*cell[:2], *given.values()), kinds, number)
        principal, identifier, *values = (one for one in read if not isinstance(one, Word))
        if len(values) < len(given):
            raise BadSubjectSource(f"row {number}: a key stands here, and an X.509 name for none")
        if str(principal) in found:
            raise BadSubjectSource(f"row {number}: another row has the same key")
        attributes = {str(named_uid(name)): written(one) for name, one in zip(given, values, strict=True)}
        found[str(principal)] = SubjectBody(str(identifier), attributes)
    return found


def _load(
    client: DomainClient, wanted: Mapping[str, SubjectBody], *, remove_missing: bool
) -> dict[str, list[str]]:
    if remove_missing and not wanted:
        raise BadSubjectSource("the source has no subjects, and --remove-missing would remove all")
    known = {one.principal: SubjectBody(one.identifier, one.attributes) for one in client.every(api.SUBJECTS)}
    done: dict[str, list[str]] = {"added": [], "changed": [], "removed": [], "unchanged": []}
    # First: a new key may have the identifier of one that is gone.
    for principal in [one for one in known if remove_missing and one not in wanted]:
        client.ask(api.REMOVE_SUBJECT, Reason("not in the source of subjects"), principal=principal)
        done["removed"].append(principal)
    for principal, body in wanted.items():
        if known.get(principal) == body:
            done["unchanged"].append(principal)
            continue
        client.ask(api.REGISTER_SUBJECT, body, principal=principal)
        done["changed" if principal in known else "added"].append(principal)
    return done


# ------------------------------------------------------------ subjects


@subjects.command()
def add(
    *,
    subject: SubjectKey,
    identifier: str = arg("What the subject is called, such as anna@norway."),
    caller: EntitledCaller,
    attribute: list[str] | None = opt(
        "text; 42; 1.5; true; time:2026-11-15T08:30:00Z; in quotes always text. May be repeated.",
        "--attribute",
        "-a",
        metavar="NAME=VALUE",
    ),
) -> Answer:
    """Register a subject, or replace all that is registered about it.

    Examples:
        maia domain subject add anna.pub anna@norway -a nationality=no -a clearance=3 -k desk.key
          --credentials certs
        maia domain subject add anna.pem anna@norway -a nationality=no -k desk.key --credentials certs
    """
    attributes: dict[str, ApiArgument] = {}
    for word in attribute or ():
        name, equals, value = word.partition("=")
        if not equals or name in attributes:
            problem = "is given twice" if equals else "is not NAME=VALUE"
            raise BadInput("INPUT-ARGUMENT-WORD", f"the attribute `{word[:64]}` {problem}")
        (attributes[name],) = arguments_from_words([value])
    principal, certificates = _key_or_certificates(subject)
    body = SubjectBody(identifier, attributes, certificates)
    return _subject(caller.ask(api.REGISTER_SUBJECT, body, principal=principal))


def _key_or_certificates(word: str) -> tuple[Principal, list[bytes]]:
    """Return the key that is meant, and the X.509 certificates if a file with some was named."""
    from maia.credentials.x509_chains import key_of_x509, x509_from_file

    path = Path(word)
    data = path.read_bytes() if path.suffix in {".pem", ".crt", ".cer", ".der"} and path.is_file() else None
    if data is None:
        return read_principal(word), []
    certificates = x509_from_file(data)
    return key_of_x509(certificates[0]), certificates


@subjects.command()
def remove(*, subject: SubjectKey, caller: EntitledCaller, reason: ReasonText = "") -> Answer:
    """Remove a subject; statements that it has end within one lifetime.

    Examples:
        maia domain subject remove anna.pub --reason 'went home' -k desk.key --credentials certs
    """
    return _removed(caller, api.REMOVE_SUBJECT, subject, reason)


@subjects.command("list")
def list_subjects(caller: EntitledCaller) -> Answer:
    """List the subjects, with their attributes.

    Examples:
        maia domain subject list -k desk.key --credentials certs
    """

    def line(one: SubjectAnswer) -> Answer:
        shown = " ".join(f"{name}={shown_argument(value)}" for name, value in one.attributes.items())
        return row("", f"{one.identifier}  {one.principal}  {shown}".rstrip(), **plain(one))

    return several("subjects", map(line, caller.every(api.SUBJECTS)))


@subjects.command("show")
def show_subject(subject: SubjectKey, caller: EntitledCaller) -> Answer:
    """Show a subject: yourself, or any if you may read subjects.

    Examples:
        maia domain subject show anna.pub -k desk.key --credentials certs
    """
    return _subject(caller.ask(api.SUBJECT, principal=read_principal(subject)))


def _subject(found: SubjectAnswer) -> Answer:
    return Answer(
        row("subject", found.principal, **plain(found)),
        row("identifier", found.identifier),
        row("certified as", found.certified_as),
        row("attribute", [f"{name} = {shown_argument(value)}" for name, value in found.attributes.items()]),
        row("registered", f"{found.registered_at} by {found.registered_by}"),
    )


def _removed(caller: EntitledCaller, endpoint: Endpoint[Reason, News], key: str, reason: str) -> Answer:
    principal = read_principal(key)
    caller.ask(endpoint, Reason(reason), principal=principal)
    return row("removed", principal, removed=principal)


# ------------------------------------------------------------ trust


@trust.command("add")
def add_provider(
    *,
    provider: ProviderKey,
    identifier: str = arg("What the other domain's provider is called here."),
    caller: EntitledCaller,
    until: str = opt("A moment, or 'unbounded'.", default="unbounded"),
) -> Answer:
    """Trust the provider of another domain; it need not trust this one.

    Examples:
        maia domain trust add norway.pub norway --until 2027-01-01T00:00:00Z -k desk.key --credentials certs
    """
    body = TrustBody(identifier, until)
    return _provider(caller.ask(api.TRUST_PROVIDER, body, principal=read_principal(provider)))


@trust.command("remove")
def remove_provider(*, provider: ProviderKey, caller: EntitledCaller, reason: ReasonText = "") -> Answer:
    """Trust a provider no more; guest statements on it end within one lifetime.

    Examples:
        maia domain trust remove norway.pub --reason 'the exercise is over' -k desk.key --credentials certs
    """
    return _removed(caller, api.DISTRUST_PROVIDER, provider, reason)


@trust.command("list")
def list_providers(caller: EntitledCaller) -> Answer:
    """List the trusted providers: since when, until when, by whose act.

    Examples:
        maia domain trust list -k desk.key --credentials certs
    """
    return several("providers", map(_provider, caller.every(api.PROVIDERS)))


def _provider(one: ProviderAnswer) -> Answer:
    period = f"since {one.since} until {one.until or 'unbounded'}"
    return row("", f"{one.identifier}  {one.principal}  {period} by {one.trusted_by}", **plain(one))


# ------------------------------------------------------------ statements


@app.command()
def identity(
    *,
    caller: DomainCaller,
    out: Path = need("The file to write the statement to.", "--out", "-o"),
    lifetime_s: int | None = opt("Seconds; the domain may give fewer.", min=1, max=86_400),
    guest: Path | None = opt("Your home domain's statement: ask for a guest's.", metavar="FILE"),
    home_out: Path | None = opt("With --guest: where to write what is said of your home provider."),
    watch: bool = flag("Stay, and replace the file before the statement expires."),
    force: bool = FORCE,
) -> None:
    """Ask for an identity statement about yourself: at home, or as a guest.

    Examples:
        maia domain identity -k anna.key -o anna.identity
        maia domain identity -k anna.key -o anna.identity --watch
        maia domain identity --guest anna.identity -k anna.key -o anna-guest.identity --home-out
          norway.identity
    """
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
        show(Answer(_identity(signed), row("written", out, file=out)))
        # Until a third of the statement's life is left.
        said, now = signed.statement, moment(None)
        left, life = said.not_after - now, said.not_after - said.not_before
        return max((left - life / 3) / SECOND, _LEAST_S)

    repeat(once, watch=watch)


def identity_from(
    client: DomainClient, lifetime_s: int | None = None, guest: Path | None = None
) -> tuple[SignedIdentity, SignedIdentity | None]:
    """Return a statement about the caller, and of a guest the one about its home provider."""
    from maia.credentials.identity import identity_from_bytes, identity_from_text, identity_to_bytes

    if guest is None:
        return identity_from_bytes(client.ask(api.IDENTITY, IdentityBody(lifetime_s)).statement), None
    shown = GuestBody(identity_to_bytes(identity_from_text(read_text(guest))))
    given = client.ask(api.GUEST, shown)
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


def _identity(signed: SignedIdentity) -> Answer:
    from maia.api.arguments import written

    said = signed.statement
    attributes = {uid: written(value) for uid, value in said.attributes.items()}
    named = ("subject", "identifier", "community", "issuer", "home", "is_guest", "not_before", "not_after")
    record = {**{name: getattr(said, name) for name in named}, "attributes": attributes, "id": signed.id}
    return Answer(
        row("subject", said.subject, **record),
        row("identifier", said.identifier),
        row("attribute", [f"{uid} = {shown_argument(value)}" for uid, value in sorted(attributes.items())]),
        row("community", said.community),
        row("issuer", said.issuer),
        row("guest of", said.home if said.is_guest else None),
        row("valid", f"{said.not_before} to {said.not_after}"),
    )
