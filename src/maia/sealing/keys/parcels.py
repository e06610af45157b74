"""What does a key manager seal to one member, or to a reader of the past, and how is it written?

To a member, for each group that is open to it: the secrets it may hold, each with the epoch that it is
new in and the one that replaced it, and its place in the group's key tree. The signed epochs travel beside
the parcel: a member checks every secret against the commitment in its epoch. To a reader of the past, the
content key of each epoch by itself: what an epoch's secret would open later is not given away. For the group
of an answer both are told the restriction that it is about.

A record is an array of its fields. Secrets and moments are written in the one form that each has; what is
not in that form is refused while it is read. The caller seals what is secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from maia.credentials import (
    Principal,
    SignedCertificate,
    certificate_from_bytes,
    certificate_to_bytes,
    principal_from_bytes,
)
from maia.errors import MaiaError, ProtocolViolation
from maia.events import AttributeUid, Instant
from maia.policy.answers import (
    ANSWERS_MAX,
    SAID_BYTES_MAX,
    Answers,
    said_from_bytes,
    said_to_bytes,
    with_columns,
)
from maia.sealing.keys.secrets import Secret

PAGE_EPOCHS: Final = 256
"""Epochs of the past in one parcel; the rest is asked for again."""
WRITERS_MAX: Final = 4096
CERTIFICATES_MAX: Final = 64
"""Certificates that are remembered of one publisher; those that ended first go first."""
_WRITERS_BYTES_MAX: Final = 8 << 20
"""Certificates that fit into one parcel; a type with more writers tells the first of them."""
_KEYS_MAX: Final = 1025

_Record = TypeVar("_Record")


# ------------------------------------------------------------ records


_Name: TypeAlias = Annotated[AttributeUid, Meta(max_length=64)]
Uid: TypeAlias = _Name | None
"""An attribute, or an answer; None for the type's own group."""
_Number: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class MemberRecord(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Fields that are written one after the other, and read strictly."""


def _plain(value: object) -> object:
    match value:
        case Secret():
            return value.reveal()
        case Instant():
            return +value
    raise TypeError(f"`{type(value).__name__}` is no field of a record")


def _rich(kind: type, data: object) -> object:
    match data:
        case bytes() if kind is Secret:
            return Secret.from_bytes(data)
        case int() if kind is Instant:
            return Instant(data)
    raise TypeError(f"`{kind.__name__}` was expected")


write_record: Final = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def reader_of(kind: type[_Record]) -> Callable[[bytes], _Record]:
    """Return what reads records of a kind. It raises `msgspec.MsgspecError`, `MaiaError` or `ValueError`."""
    return msgspec.msgpack.Decoder(kind, dec_hook=_rich).decode


_WrittenAnswers: TypeAlias = Annotated[
    dict[_Name, Annotated[bytes, Meta(max_length=SAID_BYTES_MAX)]], Meta(max_length=2 * ANSWERS_MAX)
]
"""What answers are about, by their uids, as it travels."""


def write_answers(answers: Answers) -> dict[AttributeUid, bytes]:
    """Return what answers are about, as a manager tells it."""
    return {uid: said_to_bytes(said) for uid, said in sorted(answers.items())}


def _read_answers(written: Mapping[AttributeUid, bytes]) -> Answers:
    return with_columns({uid: said_from_bytes(said) for uid, said in written.items()})


# ------------------------------------------------------------ to a member


class Handed(MemberRecord, frozen=True):
    """A secret of a group, new in `epoch` and in use up to the one before `until`."""

    uid: Uid
    epoch: _Number
    until: _Number | None
    secret: Secret


class HeldPath(MemberRecord, frozen=True):
    """A member's place in the key tree of a group."""

    uid: Uid
    path: Annotated[bytes, Meta(max_length=4096)]

    def __repr__(self) -> str:
        return "HeldPath(…)"


class GroupWelcome(MemberRecord, frozen=True):
    """Everything that one member may hold of a type: of which groups, named by their uids, in their order."""

    uids: Annotated[list[Uid], Meta(max_length=_KEYS_MAX)]
    secrets: Annotated[list[Handed], Meta(max_length=65_536)]
    paths: Annotated[list[HeldPath], Meta(max_length=_KEYS_MAX)]
    written_answers: _WrittenAnswers = msgspec.field(default_factory=dict)

    @property
    def answers(self) -> Answers:
        """Return what the answers are about of which the member has a key."""
        return _read_answers(self.written_answers)


def parcel_info(type_id: bytes, *, manager: Principal, member: Principal) -> bytes:
    """Return what a parcel is bound to: it cannot be passed off for another type or member."""
    return b"maia/1/key-parcel\x00" + type_id + manager.key + member.key


def pack(parcel: GroupWelcome) -> bytes:
    """Write a parcel, secrets and all; without answers it has three fields, as ever. The caller seals it."""
    fields = msgspec.structs.astuple(parcel)
    return write_record(fields if parcel.written_answers else fields[:3])


def unpack(data: bytes) -> GroupWelcome:
    """Read a parcel."""
    try:
        found = _read_welcome(data)
        _ = found.answers  # all of it can be read
    except (msgspec.MsgspecError, UnicodeDecodeError, MaiaError):
        # What was wrong is not said: the sentence would be about secrets.
        raise ProtocolViolation(
            "PROTOCOL-KEY-PARCEL", "what the manager sealed to this member cannot be read"
        ) from None
    return found


# ------------------------------------------------------------ to a reader of the past


class PastEpoch(MemberRecord, frozen=True):
    """The content keys of an epoch that is over, from `since` up to, and without, `ends`."""

    number: _Number
    since: Instant
    ends: Instant
    pairs: Annotated[list[tuple[Uid, Secret]], Meta(max_length=_KEYS_MAX)]

    @property
    def keys(self) -> dict[AttributeUid | None, Secret]:
        """Return the keys by attribute; None means the type's own group."""
        return dict(self.pairs)


class PastAnswer(MemberRecord, frozen=True):
    """What a manager tells a reader of the past: keys, and the certificates of those who published."""

    epochs: Annotated[list[PastEpoch], Meta(max_length=PAGE_EPOCHS)]
    written_writers: Annotated[
        list[tuple[bytes, Annotated[list[bytes], Meta(max_length=CERTIFICATES_MAX)]]],
        Meta(max_length=WRITERS_MAX),
    ] = msgspec.field(default_factory=list)
    written_answers: _WrittenAnswers = msgspec.field(default_factory=dict)

    @property
    def writers(self) -> dict[Principal, tuple[SignedCertificate, ...]]:
        """Return who has published what the keys open, and what spoke for it."""
        written = self.written_writers
        return {
            principal_from_bytes(key): tuple(map(certificate_from_bytes, shown)) for key, shown in written
        }

    @property
    def answers(self) -> Answers:
        """Return what the answers are about of which there are keys."""
        return _read_answers(self.written_answers)


def past_info(type_id: bytes, *, manager: Principal, reader: Principal) -> bytes:
    """Return what a parcel of past keys is bound to: it cannot be passed off for another type or reader."""
    return b"maia/1/past-keys\x00" + type_id + manager.key + reader.key


def pack_past(
    epochs: Iterable[PastEpoch], writers: Mapping[Principal, Sequence[SignedCertificate]], answers: Answers
) -> bytes:
    """Write an answer, keys and all, with who published as long as there is room. The caller seals it."""
    told: list[tuple[bytes, list[bytes]]] = []
    room = _WRITERS_BYTES_MAX
    for principal, shown in sorted(writers.items(), key=lambda one: one[0].key):
        written = list(map(certificate_to_bytes, shown))
        room -= sum(map(len, written))
        if room < 0:
            break
        told.append((principal.key, written))
    return write_record(PastAnswer(list(epochs), told, write_answers(answers)))


def unpack_past(data: bytes) -> PastAnswer:
    """Read an answer."""
    try:
        found = _read_past(data)
        _ = found.writers, found.answers  # all of it can be read
    except (msgspec.MsgspecError, UnicodeDecodeError, MaiaError):
        raise ProtocolViolation(
            "PROTOCOL-PAST-KEYS", "what the manager sealed to a reader of the past cannot be read"
        ) from None
    return found


_read_welcome: Final = reader_of(GroupWelcome)
_read_past: Final = reader_of(PastAnswer)
