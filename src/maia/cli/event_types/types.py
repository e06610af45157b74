"""`maia type`: define an event type, change it, verify it, compare two versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import arg, flag, need, opt, options
from maia.cli.inputs import (
    AT,
    attribute_from_words,
    command_group,
    moment,
    network_named,
    read_certificates,
    read_constitutions,
    read_definition,
    read_owner,
    read_principal,
    read_schema,
    write_new,
)
from maia.cli.organisation import ORG, opened
from maia.cli.output import Answer, book, name_places, row, rows, several, type_places
from maia.cli.participate.membership import IDENTITY, PROVIDERS, WAIT_S, Participant
from maia.cli.trust.key import FORCE, open_key
from maia.config.input_files import read_definitions
from maia.errors import BadInput, MaiaError

if TYPE_CHECKING:
    from maia.credentials import Owner, Principal, SigningKey
    from maia.events import Attribute
    from maia.organisation import Organisation
    from maia.types import Change, Sealing, SignedDefinition, TypeDefinition, VerifiedType


app = command_group("Define, change, verify and compare event types.")
_VERIFIED: Final = "the signature and every right it needs hold"


DEFINITION_FILE = arg("A signed definition: a file of `maia type`.")
CREDENTIALS = opt(
    "Certificates to embed: files, or folders of *.cert. May be repeated.",
    "--credentials",
    "--credential",
    "-c",
)

EXTENDS = opt(
    "The super-type, after versions it was made from; embed the right to `extend` it with -c.",
    "--extends",
    metavar="FILE",
)


OWNER = opt("The owner, if not the signing key; then embed the chain.", "--owner")
LEDGER = flag("Demand that brokers put every delivery on record, or deliver nothing.", "--ledger")


@options
class SealingOptions:
    """How events of a type travel."""

    protection: str | None = opt(
        "What is done for events between brokers: nothing, signed, sealed whole, or by attribute.",
        metavar="none|signed|event|attribute",
    )
    sealing: str | None = opt("The same as --protection event or attribute.", metavar="event|attribute")
    keys: str | None = opt("Who runs the key groups: key or .pub file. Default: the signing key.")
    keys_at: list[str] | None = opt("Where the keys are run; may be repeated.", metavar="HOST:PORT")
    blinded: bool = flag("Let the type travel under ids that change with its keys.")
    cover: str | None = opt(
        "Send one frame of this size in every slot of so many milliseconds, with an event or without.",
        metavar="MILLISECONDS:BYTES",
    )

    @property
    def level(self) -> str | None:
        """Return the level of sealing that is asked for, if one is."""
        from maia.types import Protection, SealingLevel

        levels = {one.value for one in SealingLevel}
        if self.protection is not None and self.protection not in {one.value for one in Protection}:
            raise typer.BadParameter(
                f"--protection is `none`, `signed`, `event` or `attribute`, not `{self.protection[:64]}`"
            )
        if self.sealing is not None and self.sealing not in levels:
            raise typer.BadParameter(f"--sealing is `event` or `attribute`, not `{self.sealing}`")
        if self.sealing is not None and self.protection not in (None, self.sealing):
            raise typer.BadParameter("--protection and --sealing say different things: leave one out")
        return self.protection if self.protection in levels else self.sealing

    def chosen(
        self, *, before: Sealing | None, signer: Principal, least: Sealing | None = None
    ) -> Sealing | None:
        """Return what the options choose; what they leave out stays as it was, or is that of `least`."""
        from maia.types import Cover

        found = self._sealing(before, signer, least)
        if not self.blinded and self.cover is None:
            return found
        if found is None:
            raise typer.BadParameter("--blinded and --cover need --sealing event")
        found = replace(found, blinded=found.blinded or self.blinded)
        if self.cover is None:
            return found
        every, _, size = self.cover.partition(":")
        if not (every.isdecimal() and size.isdecimal()):
            raise typer.BadParameter(
                f"--cover is milliseconds and bytes, such as `500:1024`, not `{self.cover[:64]}`"
            )
        return replace(found, cover=Cover(int(every), int(size)))

    def _sealing(self, before: Sealing | None, signer: Principal, least: Sealing | None) -> Sealing | None:
        from maia.credentials import Principal as Key
        from maia.types import Sealing, SealingLevel

        asked = self.level
        level = next((one.level for one in (before, least) if one is not None), None)
        level = level if asked is None else SealingLevel(asked)
        if level is None:
            if self.keys is not None or self.keys_at:
                raise typer.BadParameter("--keys and --keys-at need --sealing event or --sealing attribute")
            return None
        manager = read_owner(self.keys) if self.keys is not None else before.manager if before else signer
        if not isinstance(manager, Key):
            raise typer.BadParameter("--keys names one key; a quorum cannot run key groups itself")
        addresses = tuple(self.keys_at) if self.keys_at else before.addresses if before else ()
        if before is not None:
            return replace(before, level=level, manager=manager, addresses=addresses)
        return Sealing(level, manager, addresses)


@options
class SigningOptions(SealingOptions):
    """Who signs a definition, and where it is kept: by files, or in the folder of an organisation."""

    key: Path | None = opt(
        "The signing key: a file of `maia key new`; else your organisation's.", "--key", "-k"
    )
    out: Path | None = opt("With --key: the file to write the signed definition to.", "--out", "-o")
    credentials: list[Path] | None = CREDENTIALS
    org: Path | None = ORG
    force: bool = FORCE

    def exact(self, *others: object) -> tuple[SigningKey, Path] | None:
        """Return the key and the file; None for an organisation, which takes no exact options."""
        if (self.key is None) != (self.out is None):
            raise typer.BadParameter("--key and --out go together; without them, it is your organisation's")
        if self.key is not None and self.out is not None:
            return open_key(self.key), self.out
        if any((*others, self.credentials, self.keys, self.keys_at, self.blinded, self.cover)):
            raise typer.BadParameter("this option needs the exact form, with --key and --out")
        return None

    def kept(self, signed: SignedDefinition, about: Answer | None = None) -> Answer:
        """Answer with what a signed definition says, where it comes from, and where it was written to."""
        from maia.types import definition_to_text

        if self.out is not None:
            write_new(self.out, definition_to_text(signed), overwrite=self.force)
        out = opened(self.org).folder / "types" if self.out is None else self.out
        written = row("written to", out, file=out, id=signed.id)
        return Answer(_described(signed.definition), about or Answer(), written)


@app.command()
def define(
    *,
    words: list[str] | None = arg(
        "A type of your organisation, with attributes as name:kind; instead of -k, --name, -a, -o.",
        default=None, metavar="NAME ATTRIBUTE",
    ),
    name: str | None = opt("The readable name, such as uk.gov.pito.Numberplate."),
    attributes: list[str] | None = opt("name:kind or name:kind:uid; may be repeated.", "--attribute", "-a"),
    source: Path | None = opt(
        "Take attributes from a JSON Schema, an Avro schema, or a sample of CSV or JSON.",
        "--from", metavar="FILE",
    ),
    skip: list[str] | None = opt("Leave an attribute of --from out; may be repeated.", metavar="PATH"),
    dry_run: bool = flag("Show what --from would define, and define nothing."),
    extends: list[Path] | None = EXTENDS,
    owner: str | None = OWNER,
    signing: SigningOptions,
    ledger: bool = LEDGER,
    is_sealed: bool = flag("A type of your organisation whose attributes travel sealed.", "--sealed"),
) -> Answer:  # fmt: skip
    """Define version 0 of an event type and sign it.

    Frames are signed between brokers, unless --protection says otherwise.

    Examples:
        maia type define LabResult patient:string ward:string value:int --sealed
        maia type define Weather place:string degrees:float --protection none
        maia type define LabResult --from results.csv --skip note --dry-run
        maia type define --key pito.key --name uk.gov.pito.Numberplate -a numberplate:string -a
          timestamp:timestamp -a location:string -o numberplate.type
        maia type define --key ccs.key --name uk.gov.ccs.Charge --extends numberplate.type -c
          extend.cert -a fee:int -o charge.type
    """
    from maia.credentials import FIRST_VERSION, TypeName
    from maia.types import TypeDefinition, sign_definition

    about = Answer()
    if source is not None:
        by_hand = [*(words or ())[1:], *(attributes or ())]
        found, about = read_schema(source, skip=skip or (), given={one.partition(":")[0] for one in by_hand})
        called = words[0] if words else name
        if called is None:
            raise typer.BadParameter("say NAME, such as `LabResult --from results.csv`; or --key and --name")
        if dry_run:
            return _not_defined(called, [*found, *by_hand], about)
        if words:
            words = [words[0], *found, *words[1:]]
        else:
            attributes = [*found, *(attributes or ())]
    elif skip or dry_run:
        raise typer.BadParameter("--skip and --dry-run go with --from FILE")
    if words and (signing.key is not None or name is not None or signing.out is not None):
        raise typer.BadParameter("give NAME ATTRIBUTE... for an organisation, or -k, --name, -a and -o")
    if not words and (signing.key is None or name is None or signing.out is None):
        raise typer.BadParameter(
            "say NAME ATTRIBUTE..., such as `LabResult patient:string value:int`, in the folder of an "
            "organisation; or --key, --name, --attribute and --out"
        )
    exact = signing.exact(attributes, extends, owner, ledger)
    if exact is None:
        level, (called, *shown) = signing.level or ("attribute" if is_sealed else None), words or [""]
        is_signed = level is None and signing.protection != "none"
        made = opened(signing.org).define(
            called, *shown, sealed=level is not None, level=level or "attribute", signed=is_signed
        )
        return signing.kept(made, about)
    signing_key = exact[0]
    above = tuple(read_definition(path) for path in extends or ())
    inherited = above[-1].definition.attributes if above else ()
    if not attributes and not above:
        raise typer.BadParameter("a type has attributes: say --attribute name:kind, or --extends FILE")
    shape = (*inherited, *(attribute_from_words(words) for words in attributes or ()))
    embedded = tuple(read_certificates(signing.credentials or ()))
    least = above[-1].definition.sealing if above else None
    sealed = signing.chosen(before=None, signer=signing_key.principal, least=least)
    type_name = TypeName(read_owner(owner) if owner else signing_key.principal, str(name), FIRST_VERSION)
    is_signed = sealed is None and signing.protection != "none"
    definition = TypeDefinition(type_name, None, shape, embedded, sealed, above, ledger, is_signed)
    return signing.kept(sign_definition(definition, signing_key), about)


def _not_defined(name: str, words: list[str], about: Answer) -> Answer:
    """Return the attributes that a type would have, if they can be those of one type."""
    from maia.events import vocabulary_of

    shape = [attribute_from_words(one) for one in words]
    vocabulary_of(shape)
    attributes = (
        row("attribute", f"{a.name}: {a.kind.value}", name=a.name, kind=a.kind.value) for a in shape
    )
    head = row("type", f"{name}, not defined yet", name=name, defined=False)
    return Answer(head, several("attributes", attributes), about)


@app.command()
def change(
    *,
    base: Path = arg("The version to start from; without -k, a type of your organisation by name."),
    add: list[str] | None = opt("name:kind[:uid]"),
    remove: list[str] | None = opt("name"),
    rename: list[str] | None = opt("old=new"),
    retype: list[str] | None = opt("name:kind[:uid]; the attribute gets a new uid"),
    extends: list[Path] | None = EXTENDS,
    signing: SigningOptions,
    ledger: bool = LEDGER,
    for_members: bool = flag("Members whose rights list attributes get those that are added, too."),
) -> Answer:
    """Make the next version of a type and sign it; say what is to be done next.

    Members here have it at once. Servers of partners take it in by themselves, where they hold a right.

    Examples:
        maia type change LabResult --add unit:string
        maia type change LabResult --add unit:string --for-members
        maia type change LabResult --protection signed
        maia type change numberplate.type -k pito.key --rename location=place -o v2.type
    """
    from uuid import uuid4

    from maia.types import Added, Removed, Renamed, Retyped, next_version, sign_definition

    is_signed = signing.protection == "signed"
    exact = signing.exact(extends, signing.level, ledger)
    if exact is not None and for_members:
        raise typer.BadParameter("--for-members is for a type of your organisation, without --key")
    old = read_definition(base).definition if exact else opened(signing.org).event_type(str(base)).definition
    changes: list[Change] = [Removed(_attribute(old, name)) for name in remove or ()]
    for before, _, after in (words.partition("=") for words in rename or ()):
        changes.append(Renamed(_attribute(old, before), after))
    for one in map(attribute_from_words, retype or ()):
        changes.append(Retyped(_attribute(old, one.name), one))
    changes += [Added(attribute_from_words(words)) for words in add or ()]
    if exact is None:
        _check_kept(old, signing.protection)
        ours = opened(signing.org)
        signed = ours.change(old, changes, signed=is_signed, for_members=for_members)
        return Answer(
            _described(signed.definition),
            row(id=signed.id),
            next_steps(ours, signed.definition, called=str(base)),
        )
    signing_key = exact[0]
    embedded = tuple(read_certificates(signing.credentials or ()))
    sealed = signing.chosen(before=old.sealing, signer=signing_key.principal)
    above = tuple(read_definition(path) for path in extends or ()) or old.extends
    new = next_version(
        old, changes, version=uuid4(), credentials=embedded, sealing=sealed, extends=above, ledger=ledger,
        signed=is_signed,
    )  # fmt: skip
    _check_kept(new, signing.protection)
    return signing.kept(sign_definition(new, signing_key))


@app.command()
def users(
    name: str = arg("A type that your organisation knows: NAME, or NAME@OWNER."), org: Path | None = ORG
) -> Answer:
    """Say who uses which version of a type, and what is to be done until all use the newest.

    Examples:
        maia type users LabResult
        maia type users LabResult@hospital --org institute
    """
    ours = opened(org)
    newest = ours.event_type(name).definition
    head = rows(type=newest.name.name, owner=newest.name.owner, newest=newest.name.version)
    return Answer(head, next_steps(ours, newest, called=name))


def next_steps(ours: Organisation, newest: TypeDefinition, *, called: str) -> Answer:
    """Return who has an old version of a type at our brokers, and whose right to it needs another one."""
    import shlex

    using, silent = ours.versions_in_use(newest.name)
    holders, members = ours.holders(newest), {one.principal(): one.name for one in ours.members()}
    others = {str(one.subject): None for one in holders if str(one.subject) not in members}
    found: list[Answer] = []
    for use in using:
        does = "publishes" if use.action == "publish" else "reads"
        until = "the newest" if use.is_newest else f"version {use.version} until its program starts again"
        found.append(
            row("in use", f"{use.peer} {does} {until}", peer=use.peer, action=use.action,
                version=use.version, is_newest=use.is_newest)
        )  # fmt: skip
    for one in holders:
        if not one.hidden and not one.gone:
            continue
        whom, what = members.get(str(one.subject)), f"{one.action.value}:{called}"
        verb = "write" if one.action.value == "publish" else "see"
        said = f"{whom or one.subject} does not {verb} {', '.join(one.hidden)}, which its right does not list"
        terms = f"--only {','.join(one.all_listed)}{' …' if one.has_other_terms else ''}"
        if one.gone:
            said = f"{whom or one.subject} has no part in the newest version: its right asks for "
            said += f"{', '.join(one.gone)}, which that lacks"
            terms = "--where …"
        known = book().keys.get(str(one.subject))
        command = f"maia grant {known.name if known else one.subject} --may {what} {terms} -o FILE"
        if whom is not None:
            command = f"maia member add {shlex.quote(whom)} --may {what} {terms}"
        found.append(
            row("narrower", f"{said}: `{command}`", subject=one.subject, action=one.action.value,
                hidden=list(one.hidden), gone=list(one.gone), command=command)
        )  # fmt: skip
    taken_in = "; their servers take the newest version in by themselves while they run"
    return Answer(
        several("steps", found),
        row("others", [f"{one}{taken_in}" for one in others], others=list(others)),
        row("unknown", [f"which versions are in use: {one}" for one in silent], unknown=silent),
    )


def _check_kept(definition: TypeDefinition, asked: str | None) -> None:
    """Refuse a protection below what a type has: no later version gives it up."""
    order = ["none", "signed", "event", "attribute"]
    has = definition.protection.value
    if asked is not None and order.index(asked) < order.index(has):
        raise BadInput(
            "INPUT-PROTECTION-GIVEN-UP",
            f"`{definition.name.name}` has the protection `{has}`, which no later version gives up",
        )


@app.command()
def verify(
    definition: Path = DEFINITION_FILE,
    previous: list[Path] | None = opt("Earlier versions, the oldest first; may be repeated."),
    network: str | None = opt("Also ask for the right to install on this network."),
    coordinator: str | None = opt("The coordinator of that network: key or .pub file."),
    constitutions: list[Path] | None = opt(
        "Constitutions of quorums that own the type or the network.", "--constitution"
    ),
    at: str | None = AT,
) -> Answer:
    """Check the signature, the signer's right to make these changes, and the right to install.

    Examples:
        maia type verify v2.type --previous numberplate.type
    """
    from maia.types import verify_definition

    quorums = read_constitutions(constitutions or ())
    if (network is None) != (coordinator is None):
        raise typer.BadParameter("--network and --coordinator go together")
    where = None if network is None or coordinator is None else network_named(coordinator, network)
    now = moment(at)
    verified: VerifiedType | None = None
    for path in previous or ():
        verified = verify_definition(read_definition(path), at=now, previous=verified, constitutions=quorums)
    verified = verify_definition(
        read_definition(definition), at=now, previous=verified, network=where, constitutions=quorums
    )
    return Answer(_described(verified.definition), row("verified", _VERIFIED, verified=True, id=verified.id))


@app.command()
def diff(
    old: Path = arg("The version before: a file of `maia type`."), new: Path = arg("The version after it.")
) -> Answer:
    """Print what changed from OLD to NEW.

    Examples:
        maia type diff numberplate.type v2.type
    """
    from maia.types import describe
    from maia.types import diff as changes_between

    before, after = read_definition(old).definition, read_definition(new).definition
    lines = [describe(change) for change in changes_between(before, after)]
    if before.protection is not after.protection and not before.sealing and not after.sealing:
        lines.append(f"protect as {after.protection.value}, and not as {before.protection.value}")
    if before.sealing != after.sealing:
        lines.append(f"seal as {_sealing_words(after.sealing)}, and not as {_sealing_words(before.sealing)}")
    if before.ledger != after.ledger:
        lines.append(f"demand {'a' if after.ledger else 'no'} record of every delivery")
    if before.extends != after.extends:
        lines.append(f"extend {_super_words(after)}, and not {_super_words(before)}")
    return row("", lines or "no change", changes=lines)


@app.command()
def show(
    definition: str = arg("A file of `maia type`; or a type that is known here: NAME, NAME@OWNER."),
) -> Answer:
    """Print a definition as people read it; one that is known by its name is verified.

    Examples:
        maia type show numberplate.type
        maia type show LabResult
        maia type show LabResult@hospital --as dashboard
    """
    if Path(definition).is_file() or not (places := type_places()):
        found = read_definition(Path(definition))
    else:
        from maia.profile.profile import types_named

        found = types_named(definition, places, at=moment(None))[-1].signed
    return Answer(
        _described(found.definition), row("signed by", found.signer, signer=found.signer, id=found.id)
    )


@options
class TypeSource:
    """Whose type is looked for, and where: in a folder, at brokers, in the registry of a domain."""

    name: str = arg("The readable name, such as uk.gov.pito.Numberplate; or NAME@OWNER.")
    owner: str | None = opt("Whose type it is: key, .pub file, name that you know, or quorum:….")
    source: str | None = opt(
        "A broker, or a folder of *.type files; default: --broker, and the registry of --server.",
        "--from",
        metavar="ADDRESS|FOLDER",
    )
    key: Path | None = opt("To ask over the network: who is asking.", "--key", "-k", envvar="MAIA_KEY")
    credentials: list[Path] | None = opt(
        "Files, or folders of *.cert, to ask a broker, and *.quorum.", "--credentials", "-c"
    )
    network: str | None = opt("To ask a broker: its network.", envvar="MAIA_NETWORK")
    coordinator: str | None = opt("To ask a broker: the owner.", envvar="MAIA_COORDINATOR")
    broker: list[str] | None = opt(
        "A broker to ask; it asks others. May be repeated.", envvar="MAIA_ADDRESS", metavar="ADDRESS"
    )
    server: str | None = opt(
        "A domain whose registry is asked: HOST:PORT.", envvar="MAIA_SERVER", metavar="ADDRESS"
    )
    domain: str | None = opt("The domain that must answer there: key or .pub file.", envvar="MAIA_DOMAIN")
    wallet: Path | None = opt("A wallet of `maia login`, to ask a broker.", envvar="MAIA_WALLET")
    identity: Path | None = IDENTITY
    provider: list[str] | None = PROVIDERS
    wait_s: float = WAIT_S

    @property
    def meant(self) -> tuple[Owner, str]:
        """Return whose type it is, and its name: as it is said, or as the type is known here."""
        from maia.profile.type_names import owner_named, type_meant

        name, _, whose = self.name.partition("@")
        if self.owner is not None:
            return read_owner(self.owner), name
        if whose:
            return owner_named(whose, folders=name_places()) or read_owner(whose), name
        here = [] if self.source is None else [Path(self.source)]
        places = [*type_places(), *(one for one in here if one.is_dir())]
        known = {(one.definition.name.owner, one.definition.name.name) for one in read_definitions(places)}
        return type_meant(name, known, folders=name_places())

    def versions(self, version: str | None = None) -> tuple[tuple[VerifiedType, ...], list[str]]:
        """Return all versions that are found and verify, and which sources did not answer."""
        from maia.config.type_folder import TypeFolder, TypeNotFound, verified_lineage, verified_versions

        (whose, name), asked = self.meant, self._sources(version)
        quorums = read_constitutions(self.credentials or ())
        found: list[SignedDefinition] = []
        problems: dict[str, MaiaError] = {}
        if self.source is not None and Path(self.source).is_dir():
            found += TypeFolder(Path(self.source)).definitions()
        for where, ask in asked.items():
            try:
                found += ask(whose)
            except MaiaError as problem:
                problems[where] = problem
        if problems and len(problems) == len(asked):
            raise next(iter(problems.values()))
        now = moment(None)
        verified = verified_versions(found, owner=whose, name=name, at=now, constitutions=quorums)
        if not verified and found:  # which says why none of them counts
            verified_lineage(found, owner=whose, name=name, version=version, at=now, constitutions=quorums)
        if not verified:
            raise TypeNotFound(f"`{name[:200]}` of this owner is not there")
        return verified, [f"{where}: {one.message} [{one.code}]" for where, one in problems.items()]

    def _sources(self, version: str | None) -> dict[str, Callable[[Owner], Sequence[SignedDefinition]]]:
        """Return what is to be asked over the network."""
        if self.source is not None and Path(self.source).is_dir():
            return {}
        brokers = [self.source] if self.source is not None else self.broker
        has_registry = self.source is None and self.server is not None and self.domain is not None
        if not brokers and not has_registry:
            raise typer.BadParameter("say where to look: --from, --broker, --server and --domain, or --as")
        if self.key is None:
            raise typer.BadParameter("to ask over the network, say who is asking with --key, or --as")
        found: dict[str, Callable[[Owner], Sequence[SignedDefinition]]] = {}
        if brokers:
            if self.network is None or self.coordinator is None:
                raise typer.BadParameter(
                    "to ask a broker, say --key, --credentials, --network and --coordinator"
                )
            asking = Participant(
                key=self.key, credentials=self.credentials or [], network=self.network,
                coordinator=self.coordinator, broker=brokers, wallet=self.wallet, identity=self.identity,
                provider=self.provider, wait_s=self.wait_s,
            )  # fmt: skip
            found["broker"] = partial(_told_by_broker, asking, self.meant[1], version)
        if has_registry:
            found["domain"] = self._told_by_domain
        return found

    def _told_by_domain(self, owner: Owner) -> Sequence[SignedDefinition]:
        from maia.api import endpoints
        from maia.api.client import DomainClient
        from maia.api.requests import TypesQuestion
        from maia.types import definition_from_bytes

        assert self.server is not None and self.domain is not None and self.key is not None  # noqa: S101, PT018
        asked = TypesQuestion(owner=str(owner), name=self.meant[1])
        domain = read_principal(self.domain)
        with DomainClient(
            self.server, domain=domain, key=open_key(self.key), timeout_s=self.wait_s
        ) as client:
            return [definition_from_bytes(one.definition) for one in client.every(endpoints.TYPES, asked)]


def _told_by_broker(
    asking: Participant, name: str, version: str | None, owner: Owner
) -> tuple[SignedDefinition, ...]:
    import asyncio

    from maia.client.api.client import fetch_definitions
    from maia.credentials import FIRST_VERSION, TypeName

    member, wanted = asking.membership(), TypeName(owner, name, version or FIRST_VERSION)

    async def fetched() -> tuple[SignedDefinition, ...]:
        async with member.connect() as client:
            return await fetch_definitions(client, wanted, every=version is None, timeout_s=member.wait_s)

    return asyncio.run(fetched())


@app.command()
def versions(source: TypeSource) -> Answer:
    """List all versions of a type that a broker, a domain's registry or a folder knows, the oldest first.

    A broker asks the other brokers. Each version is verified against the owner's key. A source can
    withhold a version, and never forge one.

    Examples:
        maia type versions LabResult@hospital --as dashboard
        maia type versions uk.gov.pito.Numberplate --owner pito.pub --server met.example:7600 --domain met.pub
          --key smith.key
    """
    found, silent = source.versions()
    older = {one.definition.previous for one in found}
    lines = (
        row(
            "newest" if one.name.version not in older else "",
            f"{one.name.version}  {' '.join(one.vocabulary)}  signed by {one.signer}",
            version=one.name.version, previous=one.definition.previous, id=one.id, signer=one.signer,
            attributes=list(one.vocabulary), is_newest=one.name.version not in older,
        )
        for one in found
    )  # fmt: skip
    return Answer(
        row("type", found[0].name.name, name=found[0].name.name),
        rows(owner=found[0].name.owner),
        several("versions", lines),
        row("did not answer", silent or None, did_not_answer=silent),
    )


@app.command()
def fetch(
    *,
    source: TypeSource,
    out: Path = need("The file to write the signed definition to.", "--out", "-o"),
    version: str | None = opt("Which version; default: the newest."),
    force: bool = FORCE,
) -> Answer:
    """Fetch a definition, and verify it against the owner's key, whatever its source.

    Examples:
        maia type fetch LabResult@hospital --as dashboard -o lab.type
        maia type fetch uk.gov.pito.Numberplate --owner pito.pub --from types/ -o np.type
        maia type fetch uk.gov.pito.Numberplate --owner pito.pub --from 127.0.0.1:7400 --key smith.key
          --credentials certs --network 'UK Police Network' --coordinator pito.pub -o np.type
    """
    from maia.config.type_folder import lineage_in

    found, silent = source.versions(version)
    saved = _save_lineage(lineage_in(found, version), out, force=force)
    return Answer(saved, row("did not answer", silent or None, did_not_answer=silent))


def _save_lineage(lineage: tuple[VerifiedType, ...], out: Path, *, force: bool) -> Answer:
    """Write the version that was asked for, and beside it those it was made from."""
    from maia.types import definition_to_text

    before = [out.with_name(f"{out.stem}.{one.name.version}{out.suffix}") for one in lineage[:-1]]
    for path, one in zip([*before, out], lineage, strict=True):
        write_new(path, definition_to_text(one.signed), overwrite=force)
    return Answer(
        _described(lineage[-1].definition),
        row("verified", _VERIFIED, verified=True, id=lineage[-1].id),
        row("made from", before, previous_files=before),
        row("written to", out, file=out),
    )


def _sealing_words(sealing: Sealing | None) -> str:
    if sealing is None:
        return "plaintext"
    places = f" at {', '.join(sealing.addresses)}" if sealing.addresses else ""
    blinded = ", blinded" if sealing.blinded else ""
    cover = sealing.cover
    covered = "" if cover is None else f", covered every {cover.every_ms} ms with {cover.size_bytes} bytes"
    return f"{sealing.level.value}{blinded}{covered}, keys of {sealing.manager}{places}"


def _super_words(definition: TypeDefinition) -> str:
    above = definition.super_type
    if above is None:
        return "nothing"
    return f"{above.name.name} of {above.name.owner}, version {above.name.version}"


def _attribute(old: TypeDefinition, name: str) -> Attribute:
    found = old.vocabulary.get(name)
    if found is None:
        raise BadInput(
            "INPUT-NO-SUCH-ATTRIBUTE",
            f"there is no attribute `{name[:64]}`; the type has {', '.join(old.vocabulary)}",
        )
    return found


def _described(definition: TypeDefinition) -> Answer:
    name, sealing, above = definition.name, definition.sealing, definition.super_type
    inherited = {} if above is None else above.kinds
    attributes = (
        row(
            "attribute",
            f"{a.name}: {a.kind.value} (uid {a.uid}){', inherited' if a.uid in inherited else ''}",
            name=a.name, uid=a.uid, kind=a.kind.value,
        )
        for a in definition.attributes
    )  # fmt: skip
    super_types = [
        {"name": one.name.name, "owner": one.name.owner, "version": one.name.version}
        for one in definition.super_types
    ]
    return Answer(
        row("type", name.name, name=name.name),
        rows(owner=name.owner, version=name.version),
        row("made from", definition.previous or None, previous=definition.previous),
        row("extends", None if above is None else _super_words(definition), extends=super_types),
        several("attributes", attributes),
        rows(protection=definition.protection.value),
        row(
            "sealing", None if sealing is None else _sealing_words(sealing), sealing=_sealing_record(sealing)
        ),
        row("ledger", "required" if definition.ledger else None, ledger=definition.ledger),
    )


def _sealing_record(sealing: Sealing | None) -> dict[str, object] | None:
    if sealing is None:
        return None
    cover = sealing.cover
    return {
        "level": sealing.level.value, "manager": sealing.manager, "addresses": sealing.addresses,
        "blinded": sealing.blinded,
        "cover": None if cover is None else {"every_ms": cover.every_ms, "size_bytes": cover.size_bytes},
    }  # fmt: skip
