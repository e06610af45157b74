"""Which epoch of a type's keys follows which, and who says so?

The manager of a type numbers its epochs and signs each one:

    (signed
      (epoch (version 1) (type ID) (number 7) (since MICROSECONDS)
        (refreshed (group COMMITMENT) (group UID COMMITMENT) ...)
        (previous DIGEST)?)
      (signer (ed25519 KEY))
      (signature ed25519 BYTES))

An epoch names the groups whose secret is new in it, with a commitment to each
secret: a member that receives a secret can check that it is the one the manager
meant. It also names the digest of the epoch before it, so two managers that
hold one key cannot lead a group in two directions unseen: a member refuses
whatever does not follow from what it holds (A54).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from maia.canonical import Limits, SExpression
from maia.canonical.fields import Items, Part, many, number, octets, one, record
from maia.credentials import Principal, SignedKind, same_secret, verify_signature
from maia.credentials.documents import Document
from maia.errors import BadInput, BrokenCredential, ProtocolViolation
from maia.events import ATTRIBUTES_MAX, INSTANT_MAX, INSTANT_MIN, AttributeUid, Instant
from maia.events.values import attribute_uid
from maia.sealing.groups.key_group import TYPE_ID_BYTES, GroupId
from maia.sealing.keys.secrets import Secret

EPOCH_BYTES_MAX: Final = 1 << 18
DIGEST_BYTES: Final = 32
CHAIN_MAX: Final = 1024
"""Epochs whose digest a chain remembers."""

_COMMITMENT: Final = b"maia/1/commitment"


class BadEpoch(ProtocolViolation):
    """Bytes are not a signed epoch as Maia writes it."""

    code = "PROTOCOL-EPOCH"


class EpochGap(ProtocolViolation):
    """An epoch was announced whose predecessors are missing; they have to be requested."""

    code = "PROTOCOL-EPOCH-GAP"


class EpochForked(ProtocolViolation):
    """An epoch does not follow from the one that is held: another process uses the manager's key."""

    code = "PROTOCOL-EPOCH-FORKED"


@dataclass(frozen=True, slots=True)
class EpochStatement:
    """Epoch `number` of a type begins at `since`, with new secrets for the groups in `refreshed`."""

    type_id: bytes
    number: int
    since: Instant
    refreshed: Mapping[GroupId, bytes]
    """The commitment to the new secret of each group that has one."""
    previous: bytes | None
    """The digest of the epoch before; None for the first."""


@dataclass(frozen=True, slots=True)
class SignedEpoch:
    """A statement, who is said to have signed it, and the exact bytes; nothing here is verified."""

    statement: EpochStatement
    signer: Principal
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @property
    def digest(self) -> bytes:
        """Return SHA-256 over the signed bytes and never over the signature."""
        return sha256(self.body).digest()


def commitment(secret: Secret, group: GroupId, number: int) -> bytes:
    """Return what binds a manager to the secret of a group; it tells nothing about the secret."""
    uid = b"type" if group.uid is None else b"attribute/" + group.uid.encode()
    return sha256(secret.derive(_COMMITMENT, group.type_id, uid, b"%d" % number).reveal()).digest()


def check_meant(secret: Secret, group: GroupId, statement: EpochStatement) -> None:
    """Refuse a secret that is not the one to which the epoch commits its manager."""
    meant = statement.refreshed.get(group)
    if meant is None or not same_secret(meant, commitment(secret, group, statement.number)):
        raise ProtocolViolation(
            "PROTOCOL-SECRET-NOT-MEANT",
            f"what was handed over for `{group}` is not what epoch {statement.number} says",
        )


# ------------------------------------------------------------ signing, writing, reading


def verify_epoch(signed: SignedEpoch, manager: Principal) -> EpochStatement:
    """Return the statement if the type's manager signed it."""
    if signed.signer != manager:
        raise BadEpoch(f"`{signed.signer}` does not run the key groups of this type")
    # What counts is what was signed, whatever came beside it.
    verify_signature(manager, SignedKind.EPOCH, signed.body, signed.signature)
    return EPOCH.said_by(signed.body)


_WRONG: Final = (BadEpoch, "a field of the epoch is missing, unknown, repeated or out of order")


_NUMBER: Final = number(1, 2**63 - 1, (BadEpoch, "the number of an epoch is a whole number from 1 on"))
_MOMENT: Final = number(
    INSTANT_MIN, INSTANT_MAX, (BadEpoch, "an epoch begins at a number of microseconds in years 1 to 9999")
)


def _write_groups(refreshed: Mapping[GroupId, bytes]) -> Items:
    ordered = sorted(refreshed.items(), key=lambda item: item[0].order)
    return tuple((b"group", *([group.uid.encode()] if group.uid else []), made) for group, made in ordered)


def _read_groups(items: Items) -> dict[AttributeUid | None, bytes]:
    if len(items) > ATTRIBUTES_MAX + 1:
        raise BadEpoch(_WRONG[1])
    return dict(map(_read_group, items))


def _read_group(expression: SExpression) -> tuple[AttributeUid | None, bytes]:
    match expression:
        case (b"group", bytes(made)) if len(made) == DIGEST_BYTES:
            return None, made
        case (b"group", bytes(uid), bytes(made)) if len(made) == DIGEST_BYTES and uid.isascii():
            return attribute_uid(uid.decode("ascii")), made
    raise BadEpoch("a group is written `(group UID? COMMITMENT)`")


# Any: the number and the digest, as they are declared below.
def _stated(
    type_id: bytes, since: int, refreshed: Mapping[AttributeUid | None, bytes], **others: Any
) -> EpochStatement:
    groups = {GroupId(type_id, uid): made for uid, made in refreshed.items()}
    return EpochStatement(type_id=type_id, since=Instant(since), refreshed=groups, **others)


EPOCH: Final = Document[EpochStatement, SignedEpoch](
    record(
        b"epoch",
        _stated,
        _WRONG,
        version_of="epoch format",
        type_id=one(octets(TYPE_ID_BYTES, TYPE_ID_BYTES, _WRONG), b"type"),
        number=one(_NUMBER),
        since=one(_MOMENT),
        refreshed=many(Part(_write_groups, _read_groups)),
        previous=one(
            octets(DIGEST_BYTES, DIGEST_BYTES, (BadEpoch, "the epoch before is named by its digest")),
            left_out=None,
        ),
    ),
    "epoch",
    BadEpoch,
    Limits(size_max=EPOCH_BYTES_MAX, depth_max=8, atom_max=256),
    lambda _: SignedKind.EPOCH,
    lambda said, body, signature, signer: SignedEpoch(said, signer, body, signature),
    wraps=(BadInput, BrokenCredential),
    names_signer=True,
)

sign_epoch = EPOCH.sign
epoch_to_bytes = EPOCH.to_bytes
epoch_from_bytes = EPOCH.from_bytes


# ------------------------------------------------------------ what follows what


class EpochChain:
    """The epochs that one member, or the manager itself, holds to be the type's; each follows the last."""

    __slots__ = ("_digests", "_head", "manager", "type_id")

    def __init__(self, type_id: bytes, manager: Principal) -> None:
        """Begin with no epoch."""
        self.type_id = type_id
        self.manager = manager
        self._digests: dict[int, bytes] = {}
        self._head: SignedEpoch | None = None

    @property
    def head(self) -> SignedEpoch | None:
        """Return the newest epoch."""
        return self._head

    @property
    def number(self) -> int:
        """Return the number of the newest epoch; 0 before the first."""
        return 0 if self._head is None else self._head.statement.number

    def start_at(self, signed: SignedEpoch) -> EpochStatement:
        """Begin with this epoch, whatever came before it: for a member that holds nothing yet."""
        statement = self._verified(signed)
        self._digests = {statement.number: signed.digest}
        self._head = signed
        return statement

    def follow(self, signed: SignedEpoch) -> EpochStatement | None:
        """Take the next epoch on; return None for one that is held, and refuse what does not follow."""
        statement = self._verified(signed)
        held = self._digests.get(statement.number)
        if held is not None:
            if held != signed.digest:
                raise EpochForked(f"epoch {statement.number} is not the one that is held under this number")
            return None
        if self._head is None:
            return self.start_at(signed)
        if statement.number <= self.number:
            return None  # older than anything that is held: of no use
        if statement.number > self.number + 1:
            raise EpochGap(f"epoch {statement.number} was announced, and {self.number} is the last one held")
        self._check_next(statement, self._head)
        self._digests[statement.number] = signed.digest
        self._digests.pop(statement.number - CHAIN_MAX, None)
        self._head = signed
        return statement

    def _check_next(self, statement: EpochStatement, head: SignedEpoch) -> None:
        if statement.previous != head.digest or statement.since <= head.statement.since:
            raise EpochForked(f"epoch {statement.number} does not follow from epoch {self.number}")

    def _verified(self, signed: SignedEpoch) -> EpochStatement:
        statement = verify_epoch(signed, self.manager)
        if statement.type_id != self.type_id:
            raise BadEpoch("the epoch is one of another type")
        return statement
