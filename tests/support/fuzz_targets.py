"""Every reader of foreign bytes, as a function from bytes to nothing that raises errors of ours alone.

`make fuzz` searches for bytes that raise anything else, or take too long. The suite tries what was kept of
these searches (`tests/vectors/fuzz`), with and without small changes.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from inspect import getmembers, isclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from maia.api import requests as api_bodies
from maia.api.http_calls import signed_request_in
from maia.api.problems import credentials_from_header
from maia.broker.links.cursors import cursor_from_bytes
from maia.broker.log.progress import progress_from_bytes
from maia.canonical import read_advanced, read_canonical
from maia.credentials import SigningKey, TypeName
from maia.credentials.appointments import appointment_from_bytes
from maia.credentials.attestation import attestation_key_from_bytes, verify_endorsement, verify_quote
from maia.credentials.chains.quorum import evidence_from_bytes
from maia.credentials.encoding.certificates import CERTIFICATE
from maia.credentials.identity import identity_from_bytes, unpack_identity
from maia.credentials.requirements import parse_requirement, requirement_from_bytes
from maia.credentials.statements import statement_from_bytes
from maia.domain.http.application import _decoded as decoded_body
from maia.errors import MaiaError
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.expressions.language import parse_expression, parse_rule
from maia.gateway.accounts import account_from_bytes, secret_of_token
from maia.gateway.mqtt.effects import Attached, MqttLimits, ReceivedBytes
from maia.gateway.mqtt.packets import V3, V5, ConnectPacket
from maia.gateway.mqtt.session import MqttSession
from maia.gateway.server.http.streams import positions_from_id
from maia.gateway.topic_table import PayloadForm, TopicTable, check_filter, row_of
from maia.ledger.files import disclosures_of
from maia.ledger.records import LedgerReader, records_from_bytes
from maia.log.format.journal import FileKind, JournalReader
from maia.log.format.manifest import read_manifest
from maia.log.format.names import SegmentName
from maia.log.format.segments import digest_of, message_of, records_in
from maia.organisation.grant_file import read_grant
from maia.policy.answers import said_from_bytes
from maia.predicates import parse_predicate
from maia.roles import parse_policy
from maia.sealing.filters.sealed_filters import part_from_bytes
from maia.sealing.frames.authorship import AuthorProof
from maia.sealing.keys.epochs import epoch_from_bytes
from maia.sealing.keys.parcels import unpack as unpack_welcome
from maia.sealing.keys.parcels import unpack_past
from maia.sealing.tree.rekey import read_path, read_rekey
from maia.types import TypeDefinition, definition_from_bytes, sign_definition, verify_definition
from maia.types.foreign_schemas import schema_from_text
from maia.validity import question_from_bytes
from maia.validity.records import series_from_bytes
from maia.wire import filter_from_bytes, request_from_bytes, type_from_bytes
from maia.wire.api_requests import api_request_from_bytes
from maia.wire.codec import decode, decode_recorded
from maia.wire.columns import columns_to_frame
from maia.wire.mesh_messages import part_from_bytes as aggregate_from_bytes
from maia.wire.messages import Carried, Deliver, Publish

Target = Callable[[bytes], None]
VECTORS = Path(__file__).resolve().parent.parent / "vectors"
KEPT = VECTORS / "fuzz"
NOW = Instant.parse("2026-11-16T09:00:00Z")
OWNER = SigningKey.from_seed(b"o" * 32)
TYPE = verify_definition(
    sign_definition(
        TypeDefinition(
            TypeName(OWNER.principal, "All", "0"),
            None,
            tuple(Attribute(kind.value, AttributeUid(kind.value), kind) for kind in Kind),
        ),
        OWNER,
    ),
    at=NOW,
)
POLICY = """policy "A"
type Row = All
fact works_as(who: principal, what: string)
fact treats(doctor: string, patient: string)
role reader
role doctor(doctor: string)
rule reader
    while works_as(holder, "reader")
    for 30 days
rule doctor(d)
    while works_as(holder, d)
    for 30 days
grant reader
    may subscribe Row(string, int)
    where int > 3
grant doctor(d)
    may subscribe Row(*)
transform Row for reader
    set string := first(string, 2) when not bool == true
restrict Row to doctor(d) when treats(d, string)
end
"""


def _each(*readers: Callable[[Any], object]) -> Target:
    """Return a target that hands the same bytes to several readers."""

    def read(data: bytes) -> None:
        for reader in readers:
            with suppress(MaiaError):
                reader(data)

    return read


def _text(reader: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: reader(data.decode("utf-8", errors="replace"))


def _message(data: bytes) -> None:
    message = decode(data)
    if isinstance(message, Publish | Carried | Deliver):
        columns_to_frame(message.columns, message.rows)
    decode_recorded(data)


def _quote(data: bytes) -> None:
    """Read a key, a quote, its signature and a boot log, each with its length before it."""
    parts = []
    for _ in range(4):
        size = int.from_bytes(data[:2], "big")
        parts.append(data[2 : 2 + size])
        data = data[2 + size :]
    key = attestation_key_from_bytes(parts[0])
    verify_quote(parts[1], parts[2], parts[3], key=key, nonce=b"n" * 20, pcrs=(0, 7))


def _mqtt(data: bytes) -> None:
    """Let a client that has connected send these bytes, in one piece and byte by byte."""
    version = V5 if data[:1] < b"\x80" else V3
    for parts in ([data[1:]], [bytes([byte]) for byte in data[1:200]]):
        session = MqttSession("one", TopicTable(ROWS), MqttLimits(packet_bytes=4096))
        session.handle(Attached(ConnectPacket(version, "one", True, 0, None, None, None)), NOW)
        for part in parts:
            session.handle(ReceivedBytes(part), NOW)


ROWS = [
    row_of(
        mqtt=f"{form.value}/{{string}}/{{int}}",
        event_type=TYPE,
        form=form,
        attribute="float" if form is PayloadForm.PLAIN else None,
        is_durable=False,
        is_retained=False,
    )
    for form in PayloadForm
]
BODIES = [
    kind
    for _, kind in getmembers(api_bodies, isclass)
    if issubclass(kind, msgspec.Struct) and kind.__module__ == api_bodies.__name__
]


class _Source:
    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


def _journal(data: bytes) -> None:
    for _ in JournalReader(_Source(data), "journal", FileKind.JOURNAL).entries():
        pass


def _segment(data: bytes) -> None:
    """Read a file that is named after its own digest, as an account that writes to the folder would."""
    for _ in records_in(data, SegmentName(b"t" * 32, "2026-11-15", 1, 1 << 40, digest_of(data))):
        pass


def _file(reader: Callable[[Path], object]) -> Callable[[bytes], object]:
    def read(data: bytes) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "00000001.ledger"
            path.write_bytes(data)
            reader(path)

    return read


TARGETS: dict[str, tuple[Target, tuple[str, ...]]] = {
    "sexpressions": (_each(read_canonical, _text(read_advanced)), ("canonical",)),
    "wire": (
        _each(_message, request_from_bytes, api_request_from_bytes, type_from_bytes, aggregate_from_bytes),
        ("wire",),
    ),
    "certificates": (
        _each(
            CERTIFICATE.from_bytes,
            CERTIFICATE.read_in_full,
            statement_from_bytes,
            identity_from_bytes,
            unpack_identity,
            appointment_from_bytes,
            evidence_from_bytes,
            question_from_bytes,
            definition_from_bytes,
        ),
        ("certificates", "statements", "appointments", "types"),
    ),
    "attestation": (
        _each(_quote, attestation_key_from_bytes, lambda data: verify_endorsement(data, [], [], now=NOW)),
        ("attestation",),
    ),
    "filters": (
        _each(
            filter_from_bytes,
            part_from_bytes,
            requirement_from_bytes,
            said_from_bytes,
            _text(partial(parse_predicate, vocabulary=TYPE.vocabulary)),
            _text(parse_requirement),
            _text(partial(parse_expression, vocabulary=TYPE.vocabulary)),
            _text(partial(parse_rule, vocabulary=TYPE.vocabulary)),
        ),
        ("predicates",),
    ),
    "policies": (
        _each(partial(parse_policy, origin="a", domain=OWNER.principal, types={"All": TYPE})),
        (),
    ),
    "mqtt": (_each(_mqtt, _text(check_filter)), ()),
    "http": (
        _each(
            *(partial(decoded_body, kind=kind) for kind in BODIES),
            *(
                lambda data, row=row: row.columns_of({}, [data], None)  # type: ignore[misc]
                for row in ROWS
            ),
            account_from_bytes,
            _text(signed_request_in),
            _text(credentials_from_header),
            _text(positions_from_id),
            secret_of_token,
        ),
        (),
    ),
    "sealing": (
        _each(
            read_rekey,
            read_path,
            unpack_past,
            epoch_from_bytes,
            AuthorProof.from_bytes,
            unpack_welcome,
        ),
        ("sealing",),
    ),
    "journal": (_each(_journal, lambda data: read_manifest(_Source(data), "manifest")), ("log",)),
    "segments": (_each(_segment, lambda data: message_of(data, {"a": b""})), ()),
    "ledger": (
        _each(
            lambda data: list(LedgerReader().read(records_from_bytes(data))),
            _file(lambda path: list(disclosures_of(path))),
        ),
        (),
    ),
    "kept": (_each(cursor_from_bytes, progress_from_bytes, series_from_bytes), ("statements",)),
    "files": (_each(_file(read_grant), _text(schema_from_text)), ("types",)),
}
"""By name: the target, and the folders of `tests/vectors` whose bytes it begins with."""


_DEEP = 3000
NASTY = (
    *(one * _DEEP for one in (b"(", b"[", b'{"a":', b"\x91", b"\x81", b"(1:a", b"not ", b"exists(", b"-")),
    *(one % (b"9" * 400) for one in (b"%s", b"int == %s", b'{"float":%s}', b'{"int":%s}', b'{"float":-%s}')),
    b'{"timestamp":"2026-02-30T23:59:60+99:99"}',
    b'{"string":"\\ud800"}',
    "Maia é".encode(),
    '{"timestamp":"٢٠٢٦-11-15T08:30:00Z"}'.encode(),
    b"\xff\xfe" * 50,
    bytes(50),
    b"",
)
"""What is worth trying everywhere: nesting, long numbers, texts that are none."""


def kept(name: str) -> list[bytes]:
    """Return what earlier searches found worth keeping."""
    file = KEPT / f"{name}.txt"
    return [b64decode(line) for line in file.read_text().splitlines()] if file.exists() else []


def seeds(name: str) -> Iterator[bytes]:
    """Yield what a search begins with: bytes and texts of kept vectors, and whole examples made here."""
    for folder in TARGETS[name][1]:
        for file in sorted((VECTORS / folder).glob("*.*")):
            if file.suffix == ".json":
                yield from _strings(json.loads(file.read_text()))
            elif file.suffix in {".hex", ".txt"}:
                for line in file.read_text().splitlines():
                    yield from _strings([line, *line.split(" ", 1)])
    yield from _MADE.get(name, lambda: iter(()))()
    yield from NASTY


def _strings(found: object) -> Iterator[bytes]:
    match found:
        case str():
            with suppress(ValueError):
                yield bytes.fromhex(found)
            yield found.encode()
        case dict():
            for one in found.values():
                yield from _strings(one)
        case list():
            for one in found:
                yield from _strings(one)


def _payloads() -> Iterator[bytes]:
    event = {"string": "a", "int": 1, "float": 1.5, "bool": True, "timestamp": "2026-11-15T08:30:00Z"}
    yield json.dumps(event | {"bytes": "00ff"}).encode()
    yield bytes.fromhex("a266737472696e6761616369" + "6e7401")
    yield b"1.5"
    yield b"Maia " + b"QUJD"
    for kind in BODIES:
        fields = {one.encode_name: "" for one in msgspec.structs.fields(kind)}
        yield json.dumps(fields).encode()


def _packets() -> Iterator[bytes]:
    topic = b"\x00\x08json/a/1"
    for version in (b"\x00", b"\xff"):
        yield version + b"\x30\x17" + topic + b"\x00" + b'{"bool":true}'[:12]
        yield version + b"\x32\x0e" + topic + b"\x00\x01\x00{}"
        yield version + b"\x82\x0c\x00\x01\x00\x00\x06json/#\x01"
        yield version + b"\xa2\x0a\x00\x02\x00\x00\x06json/#"
        yield version + b"\xc0\x00\xe0\x00"


def _ledgers() -> Iterator[bytes]:
    from maia.ledger.records import Audience, Begin, Disclosed, Ground, Shown, records_to_bytes

    ground = Ground(1, b"k" * 32, b"t" * 32, b"v" * 32, b"w" * 16, (b"c" * 32,))
    told = Disclosed(1001, 2, 3, b"k" * 32, b"s" * 16, 1, (0, 2))
    yield records_to_bytes(
        [Begin(1, b"k" * 32, b"r" * 16, 1000), ground, Audience(2, (1,)), Shown(3, ("3265",)), told]
    )


def _segments() -> Iterator[bytes]:
    from maia.log.format.segments import parquet_bytes, row_of, table_of

    message = bytes.fromhex(json.loads((VECTORS / "log" / "journal.json").read_text())["messages"][0])
    row = row_of(message, position=1, recorded_at=+NOW)
    yield parquet_bytes(table_of([row]), b"t" * 32)
    yield row.header


_MADE: dict[str, Callable[[], Iterator[bytes]]] = {
    "policies": lambda: iter([POLICY.encode()]),
    "http": _payloads,
    "mqtt": _packets,
    "ledger": _ledgers,
    "segments": _segments,
    "filters": lambda: iter(
        [b'string == "a" and int >= 3 or not exists(bytes)', b"int := int * 2 when bool"]
    ),
}


def nearby(data: bytes) -> Iterator[bytes]:
    """Yield some bytes that differ little, the same ones each time."""
    yield data
    if data:
        at = int.from_bytes(sha256(data).digest()[:4], "big") % len(data)
        yield data[:at]
        yield data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        yield data[:at] + data[at:][::-1]
        yield data + data[:at]
