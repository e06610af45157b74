"""`maia ledger`: what was delivered to whom, on which certificates, and is the account whole?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import arg, flag, opt
from maia.cli.domain.calls import EntitledCaller
from maia.cli.inputs import command_group, read_certificates, read_principal
from maia.cli.output import Answer, book, name_places, row, use_folder
from maia.cli.trust.grants import shown_subject
from maia.config.input_files import read_definition
from maia.errors import MaiaError

if TYPE_CHECKING:
    from maia.credentials import SignedCertificate, TypeName
    from maia.events import AttributeUid
    from maia.ledger.files import LedgerHead
    from maia.ledger.records import Disclosure, StandingDisclosure, TableRead


app = command_group("Read and verify a broker's ledger of deliveries.")
FOLDER = arg("The folder of the ledger; of a ledger of reads, also a place such as s3://…")
_CHECK_DIGITS: Final = 64


@app.command()
def show(
    folder: str = FOLDER,
    recipient: str | None = opt("Deliveries to this key or .pub file alone."),
    publisher: str | None = opt("Deliveries of this publisher's events alone."),
    types: list[str] | None = opt(
        "Deliveries of this type alone: its file, or its name, or NAME@OWNER, if you have it.", "--type"
    ),
    attribute: str | None = opt("Deliveries that show this attribute alone: its name, or its uid."),
) -> Iterator[Answer]:
    """Print each delivery: when, to whom, which rows of which frame, which attributes, by which certificates.

    The ledger is verified as it is read.

    Examples:
        maia ledger show ledger --recipient office.pub
        maia ledger show ledger --type lab.type --attribute patient --json
    """
    from maia.ledger.files import ledger_at, read_ledger
    from maia.ledger.records import LedgerReader

    use_folder(Path(folder).absolute().parent)
    names = _Names.of(types or ())
    to = None if recipient is None else read_principal(recipient).key
    by = None if publisher is None else read_principal(publisher).key

    def is_asked_for(one: Disclosure | StandingDisclosure) -> bool:
        shown = {*one.attributes, *names.attributes(one)}
        return (
            to in (None, one.recipient)
            and (names.wanted is None or one.type_id in names.wanted)
            and (attribute is None or attribute in shown)
        )

    found = 0
    reader = LedgerReader()
    for one in read_ledger(ledger_at(folder), reader):
        if is_asked_for(one) and by in (None, one.publisher):
            found += 1
            yield _delivery(one, names)
    standing = [one for one in reader.standing if by is None and is_asked_for(one)]
    yield from (_standing(one, names) for one in standing)
    asked = {(one.recipient, one.source) for one in standing}
    reads = [one for one in reader.reads.values() if (one.recipient, one.source) in asked]
    yield from map(_read, reads)
    yield row("", f"{found} deliveries")
    yield row("", f"{len(standing)} tables that are read by themselves" if standing else None)
    yield row("", f"{sum(one.reads for one in reads)} reads of these" if reads else None)


@app.command()
def verify(
    folder: str = FOLDER,
    head: str | None = opt("A check that `maia ledger head` printed before: it has to be in the ledger."),
    audit: Path | None = opt("The audit of a witness, from `maia domain audit show -o`; with --of."),
    of: str | None = opt("With --audit: the broker, a key or .pub file."),
) -> Answer:
    """Read every entry and compare every check; exit status 1 if an earlier head is not in the ledger.

    Without --head or --audit it is not found that the last entries are missing.

    Examples:
        maia ledger verify ledger
        maia ledger verify ledger --head
          5a0e000000000000000000000000000000000000000000000000000000000000
    """
    from maia.ledger.files import ledger_at, missing_heads, verify_ledger

    stated = _stated(audit, of)
    missing = missing_heads(ledger_at(folder), stated) if stated else []
    check = None if head is None else _check(head)
    found = verify_ledger(ledger_at(folder), check)
    last, deliveries, before = found.head, found.deliveries, found.earlier
    is_whole = (check is None or before is not None) and not missing
    at = None if before is None else before.entries
    lost = "the earlier head: entries were removed or replaced"
    gone = [f"the head of entry {one.entries}, which a witness has" for one in missing]
    told = {"witnessed": len(stated), "missing": [one.entries for one in missing]} if audit else {}
    counted = f"{len(stated)} heads, {len(missing)} of which are missing" if audit else None
    waiting = f"{found.unchained} parts of a job that runs, or was killed: the next read chains them"
    return Answer(
        row("ledger", folder, folder=folder),
        row("entries", f"{last.entries}, with {deliveries} deliveries", entries=last.entries),
        row("head", last.check, deliveries=deliveries, head=last.check),
        row("not chained", waiting if found.unchained else None, unchained=found.unchained),
        row("found", None if at is None else f"the earlier head, at entry {at}", earlier_head_at=at),
        row("missing", None if check is None or before is not None else lost, whole=is_whole),
        row("witnessed", counted, **told),
        row("missing", gone),
        no=not is_whole,
    )


def _stated(audit: Path | None, of: str | None) -> list[LedgerHead]:
    """Return the heads that a broker stated to the domain whose audit this is."""
    if audit is None:
        return []
    if of is None:
        raise typer.BadParameter("with --audit, name the broker with --of")
    from maia.cli.domain.audit import read_records
    from maia.domain.access.audit import LEDGER_HEAD
    from maia.ledger.files import LedgerHead

    broker, found = read_principal(of), list[LedgerHead]()
    for one in read_records(audit):
        if one.act == LEDGER_HEAD and one.actor == broker:
            said = dict(one.details)
            found.append(LedgerHead(int(said["entries"]), bytes.fromhex(said["head"])))
    return found


@app.command()
def witness(*, folder: str = FOLDER, caller: EntitledCaller) -> Answer:
    """State the head of a ledger, which is verified first, to a domain, which puts it on record in its audit.

    Exit status 1 if it contradicts what was stated before. Needs `publish` on the domain's `/admin/ledgers`.

    Examples:
        maia ledger witness ledger --server 127.0.0.1:7600 --domain court.pub -k broker.key
          --credentials broker
    """
    from maia.api import endpoints
    from maia.api.requests import LedgerHeadBody
    from maia.ledger.files import ledger_at, verify_ledger

    last = verify_ledger(ledger_at(folder)).head
    body = LedgerHeadBody(last.entries, last.check.hex())
    found = caller.ask(endpoints.LEDGER_HEAD, body)
    text = f"record {found.record} of the audit of {read_principal(caller.domain)}"
    return Answer(
        row("head", f"{last.check.hex()}, of {last.entries} entries", entries=last.entries, head=last.check),
        row("witnessed", text, record=found.record),
        row("contradicts", found.problem or None, problem=found.problem),
        no=bool(found.problem),
    )


@app.command()
def head(folder: str = FOLDER) -> Answer:
    """Print the check of the last entry: kept elsewhere, it shows later that nothing was taken away.

    Examples:
        maia ledger head ledger --json
    """
    from maia.ledger.files import ledger_at, verify_ledger

    last = verify_ledger(ledger_at(folder)).head
    return row("", last.check, entries=last.entries, head=last.check)


@app.command()
def export(
    folder: str = FOLDER,
    out: Path = arg("The Parquet file to write."),
    force: bool = flag("Replace the file if it is there."),
) -> Answer:
    """Write the deliveries as a table for Spark and others: a row for each recipient and run of rows.

    Examples:
        maia ledger export ledger disclosures.parquet
    """
    from maia.ledger.files import ledger_at
    from maia.ledger.parquet import export_ledger

    if out.exists() and not force:
        raise typer.BadParameter(f"`{out}` is there already: say --force to replace it")
    count = export_ledger(ledger_at(folder), out)
    return row("wrote", f"{count} rows to {out}", rows=count, file=out)


def _check(text: str) -> bytes:
    try:
        found = bytes.fromhex(text.strip())
    except ValueError:
        found = b""
    if len(found) * 2 != _CHECK_DIGITS:
        raise typer.BadParameter(f"a head has {_CHECK_DIGITS} hexadecimal digits")
    return found


@dataclass(frozen=True, slots=True)
class _Names:
    """What types, their attributes and certificates are called: by files that were given, and by the book."""

    types: Mapping[bytes, TypeName]
    words: Mapping[bytes, str]
    """What a type is called: its name, or NAME@OWNER where owners share it."""
    called: Mapping[tuple[str, str], Mapping[AttributeUid, str]]
    wanted: frozenset[bytes] | None
    """The types that are asked for; None: all."""
    certificates: Mapping[bytes, SignedCertificate]

    @classmethod
    def of(cls, words: Sequence[str]) -> _Names:
        """Read the types that were named, each by its file or its name, and the names that the user has."""
        from maia.credentials.names import type_id
        from maia.profile.type_names import type_meant, words_for

        known = {bytes.fromhex(one): name for one, name in book().types.items()}
        called, wanted = dict(book().attributes), set[bytes]()
        for word in words:
            ids = {one for one, name in known.items() if name.name == word}
            if "@" in word and not Path(word).is_file():
                owned = {(name.owner, name.name) for name in known.values()}
                ids = {type_id(*type_meant(word, owned, folders=name_places()))}
            if not ids:
                definition = read_definition(Path(word)).definition
                name = definition.name
                ids = {type_id(name.owner, name.name)}
                known |= dict.fromkeys(ids, name)
                called[str(name.owner), name.name] = {one.uid: one.name for one in definition.attributes}
            wanted |= ids
        owned = {(name.owner, name.name) for name in known.values()}
        said = {type_id(*meant): one for one, meant in words_for(owned, folders=name_places()).items()}
        return cls(known, said, called, frozenset(wanted) if words else None, _known_certificates())

    def type_of(self, one: Disclosure | StandingDisclosure) -> str:
        return self.words.get(one.type_id) or one.type_id.hex()

    def attributes(self, one: Disclosure | StandingDisclosure) -> list[str]:
        name = self.types.get(one.type_id)
        called = {} if name is None else self.called.get((str(name.owner), name.name), {})
        return [called.get(uid, str(uid)) for uid in one.attributes]

    def shown(self, one: Disclosure | StandingDisclosure) -> Answer:
        """Return which attributes were shown, in which View, on which certificates."""
        lines = list[str]()
        for id_ in one.certificates:
            known = self.certificates.get(id_)
            said = None if known is None else known.certificate
            whose = "" if said is None else f" of {said.issuer} to {shown_subject(said.subject)}"
            lines.append(f"certificate {id_.hex()[:16]}{whose or ', which is not known here'}")
        attributes = self.attributes(one)
        return Answer(
            row("attributes", ", ".join(attributes), attributes=attributes, view=one.view),
            row("by", lines, certificates=one.certificates),
            row("", ""),
        )


def _known_certificates() -> dict[bytes, SignedCertificate]:
    """Return the certificates of the organisation, the profile in use and wallets here, by their ids."""
    found: dict[bytes, SignedCertificate] = {}
    places = [one for folder in name_places() for one in (folder.glob("*/*.cert"), folder.glob("*/*/*.cert"))]
    for file in chain(*places, Path.cwd().glob("*/*.cert")):
        with suppress(MaiaError):  # it is none
            found |= {one.id: one for one in read_certificates([file])}
    return found


def _standing(one: StandingDisclosure, names: _Names) -> Answer:
    from maia.credentials import Principal

    to, source = Principal(one.recipient), f"{one.source}, by its own queries"
    opened = f"{one.since} until {one.until or 'further notice'}"
    return Answer(
        row("open from", opened, open_from=one.since, open_until=one.until, owner=Principal(one.by)),
        row("to", to, recipient=to),
        row("type", names.type_of(one), type_id=one.type_id, version_id=one.version),
        row("in", source, source=one.source),
        names.shown(one),
    )


def _read(one: TableRead) -> Answer:
    from maia.credentials import Principal
    from maia.events import Instant

    at, to = Instant(one.at), Principal(one.recipient)
    rows = f"{one.rows} of {one.source}, in a session of {one.role}"
    if not one.number:
        rows = f"{one.rows} of {one.source}, in {one.reads} reads that had not committed then"
    ids = None if one.ids is None else list(one.ids)
    return Answer(
        row("read", at, read_at=at, committed=bool(one.number), reads=one.reads),
        row("by", to, recipient=to, role=one.role),
        row("rows", rows, source=one.source, rows=one.rows),
        row("row ids", None if ids is None else " ".join(ids), ids=ids),
        row("", ""),
    )


def _delivery(one: Disclosure, names: _Names) -> Answer:
    from maia.credentials import Principal
    from maia.events import Instant

    at = datetime.fromtimestamp(one.at / 1_000_000, UTC).isoformat(timespec="milliseconds")
    to, by, summary = Principal(one.recipient), Principal(one.publisher), one.summary
    ranges = [(first, first + more) for first, more in zip(one.ranges[::2], one.ranges[1::2], strict=True)]
    run = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    made = Answer()
    if summary is not None:
        period = f"{Instant(summary.begins)} to {Instant(summary.ends)}"
        made = row("made of", f"{summary.events} events of {period}", made_of=summary.events, period=period)
    return Answer(
        row("delivered", at, delivered_at=at, broker=Principal(one.broker)),
        row("to", to, recipient=to),
        row("type", names.type_of(one), type_id=one.type_id, version_id=one.version),
        row("of", f"{by}, frame {one.sequence}, rows {run}", publisher=by, stream=one.stream),
        row(sequence=one.sequence, rows=ranges),
        made,
        names.shown(one),
    )
