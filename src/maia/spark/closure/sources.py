"""Which certificates, types and constitutions is a closure made of?

A pool is a folder of `*.cert` and `*.quorum`, such as a wallet; one such file; the register of a domain, as
`maia domain register --json` prints it; or a Parquet file with a column `certificate`. Nothing is verified
here. What is revoked, by an entry of a register or by a validity statement, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset

from maia.config.constitutions import constitutions_of, read_quorums
from maia.config.input_files import QUORUM_SUFFIX, BadFile, read_certificates, read_definitions
from maia.config.type_folder import verified_lineage
from maia.credentials import (
    QuorumEvidence,
    certificate_from_bytes,
    certificate_to_bytes,
    statement_to_bytes,
)
from maia.credentials.encoding.certificates import signed_part
from maia.events import Instant
from maia.spark.closure.filing import is_revoked, monitor_of
from maia.spark.governed.right_watch import read_statements
from maia.types import VerifiedType

REGISTER_BYTES_MAX: Final = 1 << 30
CERTIFICATES_MAX: Final = 10_000_000
"""Certificates of one pool that a process reads; what is larger is a table, which Spark reads."""


class RegisterLine(msgspec.Struct, frozen=True):
    """What counts here of a line of a register."""

    certificate: bytes
    subject: str = ""
    rule: str = ""
    membership: str | None = None
    revoked_at: str | None = None


class _RegisterFile(msgspec.Struct, frozen=True):
    """What `maia domain register --json` prints."""

    register: list[RegisterLine]


@dataclass(frozen=True, slots=True)
class Pool:
    """Certificates as they are signed, and the constitutions beside them."""

    certificates: tuple[bytes, ...] = field(repr=False)
    quorums: tuple[QuorumEvidence, ...] = field(default=(), repr=False)
    revoked: int = 0
    """How many certificates were left out because they are revoked."""
    ends: Mapping[bytes, Instant] = field(default_factory=dict, repr=False)
    """Until when certificates counted that were revoked and not left out."""


def read_pool(
    paths: Sequence[Path], *, statements: Iterable[Path] = (), with_revoked: bool = False, at: Instant
) -> Pool:
    """Read pools; statements that do not hold at `at` revoke nothing."""
    found: dict[bytes, None] = {}
    ends: dict[bytes, Instant] = {}
    revoked = 0
    texts: list[Path] = []
    for path in paths:
        if path.suffix == ".json":
            entries = read_register(path)
            counted = [one.certificate for one in entries if with_revoked or one.revoked_at is None]
            found |= dict.fromkeys(counted)
            if with_revoked:
                ends |= {
                    one.certificate: Instant(Instant.parse(one.revoked_at) - 1)
                    for one in entries
                    if one.revoked_at is not None
                }
            revoked += len(entries) - len(counted)
        elif path.suffix == ".parquet":
            found |= dict.fromkeys(_column(path))
        else:
            texts.append(path)
    found |= dict.fromkeys(map(certificate_to_bytes, read_certificates(texts)))
    if len(found) > CERTIFICATES_MAX:
        raise BadFile(f"a pool has at most {CERTIFICATES_MAX} certificates")
    for data in found:
        signed_part(data)  # framed like a certificate, or refused
    gone = frozenset[bytes]() if with_revoked else _revoked(found, statements, at)
    quorums = tuple(evidence for evidence, _ in read_quorums(texts).values())
    return Pool(tuple(one for one in found if one not in gone), quorums, revoked + len(gone), ends)


def read_register(path: Path) -> list[RegisterLine]:
    try:
        if path.stat().st_size > REGISTER_BYTES_MAX:
            raise BadFile(f"`{path}` is larger than the {REGISTER_BYTES_MAX} bytes that are read")
        return msgspec.json.decode(path.read_bytes(), type=_RegisterFile).register
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be read: {problem.strerror}") from problem
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise BadFile(f"`{path}` is no register, as `maia domain register --json` prints it") from problem


def read_types(
    paths: Iterable[Path], quorums: Iterable[Path], *, at: Instant
) -> list[tuple[VerifiedType, ...]]:
    """Verify each type in files and folders, with the versions that the newest was made from."""
    signed = read_definitions(one for one in paths if one.suffix != QUORUM_SUFFIX)
    known = constitutions_of(read_quorums(quorums))
    owned = sorted({(one.definition.name.name, str(one.definition.name.owner)) for one in signed})
    owners = {str(one.definition.name.owner): one.definition.name.owner for one in signed}
    return [
        verified_lineage(signed, owner=owners[owner], name=name, version=None, at=at, constitutions=known)
        for name, owner in owned
    ]


def check_table(path: Path) -> None:
    """Refuse what is no Parquet file, or folder of such, with a column of certificates; read no row of it."""
    try:
        kind = dataset.dataset(path, format="parquet").schema.field("certificate").type
    except (OSError, pa.ArrowException, KeyError) as problem:
        raise BadFile(f"`{path}` is no Parquet file with a column `certificate`") from problem
    if not pa.types.is_binary(kind):
        raise BadFile(f"the column `certificate` of `{path}` holds no certificates")


def _column(path: Path) -> list[bytes]:
    check_table(path)
    table = pq.read_table(path, columns=["certificate"])
    return [bytes(one) for one in table.column(0).to_pylist() if isinstance(one, bytes)]


def _revoked(certificates: Iterable[bytes], statements: Iterable[Path], at: Instant) -> frozenset[bytes]:
    """Return the certificates that are revoked, by what their issuers and testers state."""
    heard = monitor_of(map(statement_to_bytes, read_statements(statements)), at)
    return frozenset(
        one for one in certificates if heard and is_revoked(certificate_from_bytes(one), heard, at)
    )
