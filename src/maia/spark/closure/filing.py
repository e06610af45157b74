"""Under which types do certificates go, and which of them count at all?

Tasks of a closure ask, of the certificates that Spark hands them: each signature is checked here, once,
however many types a certificate is about. What is forged, or revoked by a statement, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from maia.credentials import (
    Principal,
    SignedCertificate,
    certificate_from_bytes,
    quorum_of,
    statement_from_bytes,
    verify_constitution,
)
from maia.credentials.certificate import AuthorisationCertificate, NameCertificate
from maia.credentials.chains.chain import check_signature
from maia.credentials.chains.quorum import evidence_from_bytes
from maia.credentials.keys import LocalName
from maia.credentials.statements import CertificateNotRevalidated, CertificateRevoked
from maia.errors import BadInput, BrokenCredential
from maia.events import Instant
from maia.spark.closure.reach import covers_type, sought_by
from maia.spark.errors import told_to_spark
from maia.types import VerifiedType, definition_from_bytes, verify_definition
from maia.validity import Monitor

POOL: Final = pa.schema(
    [
        pa.field("id", pa.binary(), nullable=False),
        pa.field("issuer", pa.binary(), nullable=False),
        pa.field("subject", pa.binary()),
        pa.field("certificate", pa.binary(), nullable=False),
        pa.field("ends", pa.int64()),
    ]
)
"""`subject` is null where it is a name or a threshold, and in name certificates; `ends` is the last moment of
a certificate that was revoked, in microseconds, where the pool has such.
"""

Lineage: TypeAlias = tuple[bytes, ...]
"""A type of a closure: its newest version, after those that it was made from."""

TO_KEY, TO_NAME, TO_SEVERAL, NAME = range(4)
"""What a certificate grants to: a key, a name, a threshold; or it gives a name its meaning."""

FILED_DDL: Final = (
    "type_no int, id binary, issuer binary, subject binary, certificate binary, ends bigint, "
    "kind int, name binary, rank binary, sought array<string>"
)
"""The pool, beside what joins go by: `name` is the name that is granted to, or the first word of one that is
defined; certificates of one issuer are followed in the order of `rank`.
"""
_FILED: Final = pa.schema(
    [
        pa.field("type_no", pa.int32()),
        *POOL,
        pa.field("kind", pa.int32()),
        pa.field("name", pa.binary()),
        pa.field("rank", pa.binary()),
        pa.field("sought", pa.list_(pa.string())),
    ]
)


class World:
    """The types of a closure, verified by the process that works on them."""

    __slots__ = ("at", "constitutions", "types")

    def __init__(self, types: Sequence[Lineage], quorums: Sequence[bytes], at: Instant) -> None:
        self.at = at
        shown = map(evidence_from_bytes, quorums)
        self.constitutions = tuple(verify_constitution(one, quorum=quorum_of(one)) for one in shown)
        self.types = [self._verified(one) for one in types]

    def _verified(self, lineage: Lineage) -> VerifiedType:
        found: VerifiedType | None = None
        for data in lineage:
            signed = definition_from_bytes(data)
            found = verify_definition(signed, at=self.at, previous=found, constitutions=self.constitutions)
        if found is None:
            raise BadInput("INPUT-CLOSURE", "a type of the closure has no version")
        return found


class Filing:
    """Under which types does a certificate go? Asked once for each resource that certificates name."""

    def __init__(self, world: World) -> None:
        self._types, self._known = world.types, dict[object, tuple[int, ...]]()

    def numbers(self, signed: SignedCertificate) -> tuple[int, ...]:
        """Return the numbers of the types; a name may be used under all of them."""
        certificate = signed.certificate
        if not isinstance(certificate, AuthorisationCertificate):
            return tuple(range(len(self._types)))
        authority = certificate.authority
        key = (authority.resources, authority.actions, bool(authority.attributes))
        if key not in self._known:
            self._known[key] = tuple(no for no, one in enumerate(self._types) if covers_type(signed, one))
        return self._known[key]

    def filed(self, certificates: Mapping[bytes, int | None]) -> dict[int, list[dict[str, object]]]:
        """Return certificates, with their ends, as rows of the pools of their types."""
        found: dict[int, list[dict[str, object]]] = {}
        for data, ends in certificates.items():
            signed = certificate_from_bytes(data)
            for number in self.numbers(signed):
                found.setdefault(number, []).append(pool_row(signed, data, ends))
        return found


def pool_row(signed: SignedCertificate, data: bytes, ends: int | None) -> dict[str, object]:
    """Return a certificate as a row of a pool."""
    one, subject = signed.certificate, None
    if isinstance(one, AuthorisationCertificate) and isinstance(one.subject, Principal):
        subject = one.subject.key
    return dict(zip(POOL.names, (signed.id, one.issuer.key, subject, data, ends), strict=True))


def name_key(space: Principal, *words: str) -> bytes:
    """Return a name as joins compare it."""
    return msgspec.msgpack.encode([space.key, *words])


@dataclass(frozen=True, slots=True)
class FilingTask:
    """Files certificates, with their ends, in batches. Pickled into the job."""

    types: Sequence[Lineage]
    quorums: Sequence[bytes]
    at: Instant
    statements: Sequence[bytes] = ()

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn certificates into rows of the pools of their types."""
        with told_to_spark():
            files = Filing(World(self.types, self.quorums, self.at))
            heard = monitor_of(self.statements, self.at)
            for batch in batches:
                rows: list[dict[str, object]] = []
                for data, ends in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    signed = certificate_from_bytes(data)
                    numbers = files.numbers(signed)
                    if numbers and _counts(signed, heard, self.at):
                        row = pool_row(signed, data, ends) | _joined_by(signed)
                        rows += ({"type_no": number, **row} for number in numbers)
                yield pa.RecordBatch.from_pylist(rows, schema=_FILED)


@dataclass(frozen=True, slots=True)
class RevokedTask:
    """Picks the certificates that statements revoke. Pickled into the job."""

    statements: tuple[bytes, ...]
    at: Instant

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Return those of each batch."""
        with told_to_spark():
            heard = monitor_of(self.statements, self.at)
            for batch in batches:
                found = map(certificate_from_bytes, batch.column(0).to_pylist())
                yield batch.filter(pa.array([is_revoked(one, heard, self.at) for one in found], pa.bool_()))


def monitor_of(statements: Iterable[bytes], at: Instant) -> Monitor | None:
    """Return what statements say about certificates; None without any. Raise what is wrong with one."""
    heard = [statement_from_bytes(one) for one in statements]
    if not heard:
        return None
    monitor = Monitor()
    for one in heard:
        if (refused := monitor.receive(one, at).refused) is not None:
            raise refused
    return monitor


def is_revoked(signed: SignedCertificate, heard: Monitor | None, at: Instant) -> bool:
    """Return whether statements revoke a certificate."""
    revoked = (CertificateRevoked, CertificateNotRevalidated)
    return heard is not None and isinstance(heard.check(signed, at), revoked)


def _counts(signed: SignedCertificate, heard: Monitor | None, at: Instant) -> bool:
    try:
        check_signature(signed)
    except BrokenCredential:
        return False
    return not is_revoked(signed, heard, at)


def _joined_by(signed: SignedCertificate) -> dict[str, object]:
    one, kind, name = signed.certificate, TO_KEY, None
    match one:
        case NameCertificate():
            kind, name = NAME, name_key(one.issuer, one.name)
        case AuthorisationCertificate(subject=LocalName(space, words)):
            kind, name = TO_NAME, name_key(space, *words)
        case AuthorisationCertificate() if not isinstance(one.subject, Principal):
            kind = TO_SEVERAL
    if isinstance(one, NameCertificate) and not isinstance(one.subject, Principal | LocalName):
        kind = TO_SEVERAL
    rank = signed.id + signed.signature
    return {"kind": kind, "name": name, "rank": rank, "sought": sorted(sought_by(signed))}
