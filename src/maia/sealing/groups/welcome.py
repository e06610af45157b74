"""What is inside the parcel that a manager seals to one member?

For each group that is open to the member: the secrets it may hold, each with
the epoch that it is new in and the one that replaced it, and its place in the
group's key tree; for the group of an answer, the restriction that it is about.
The signed epochs travel beside the parcel. A member that unpacks
checks every secret against the commitment in its epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from maia.credentials import Principal
from maia.errors import BadInput, ProtocolViolation
from maia.events import AttributeUid
from maia.policy.answers import (
    ANSWERS_MAX,
    RESTRICTION_BYTES_MAX,
    Answers,
    restriction_from_bytes,
    restriction_to_bytes,
)
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.secrets import BadSecret, Secret

_Uid: TypeAlias = Annotated[str, Meta(max_length=64)]
_Number: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]
AnswersWritten: TypeAlias = Annotated[
    dict[_Uid, Annotated[bytes, Meta(max_length=RESTRICTION_BYTES_MAX)]], Meta(max_length=2 * ANSWERS_MAX)
]
"""What answers are about, by their uids, as it travels."""


class BadParcel(ProtocolViolation):
    """What a manager sealed to this member cannot be read."""

    code = "PROTOCOL-KEY-PARCEL"


@dataclass(frozen=True, slots=True)
class Handed:
    """A secret of a group, new in `epoch` and in use up to the one before `until`."""

    group: GroupId
    epoch: int
    until: int | None
    secret: Secret = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeldPath:
    """A member's place in the key tree of a group."""

    group: GroupId
    path: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class GroupWelcome:
    """Everything that one member may hold of a type."""

    groups: frozenset[GroupId]
    secrets: tuple[Handed, ...]
    paths: tuple[HeldPath, ...]
    answers: Answers = field(default_factory=dict, repr=False)
    """What the answers are about of which the member has a key."""


class _Secret(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    uid: _Uid | None
    epoch: _Number
    until: _Number | None
    secret: Annotated[bytes, Meta(min_length=32, max_length=32)]

    def __repr__(self) -> str:
        return "_Secret(…)"


class _Path(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    uid: _Uid | None
    path: Annotated[bytes, Meta(max_length=4096)]

    def __repr__(self) -> str:
        return "_Path(…)"


class _Parcel(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    groups: Annotated[list[_Uid | None], Meta(max_length=1025)]
    secrets: Annotated[list[_Secret], Meta(max_length=65_536)]
    paths: Annotated[list[_Path], Meta(max_length=1025)]


class _Answered(_Parcel, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A parcel of a member that reads answers; without them it is written as ever."""

    answers: AnswersWritten = {}


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Answered)


def parcel_info(type_id: bytes, *, manager: Principal, member: Principal) -> bytes:
    """Return what a parcel is bound to: it cannot be passed off for another type or member."""
    return b"maia/1/key-parcel\x00" + type_id + manager.key + member.key


def pack(parcel: GroupWelcome) -> bytes:
    """Write a parcel, secrets and all. The caller seals it."""
    ordered = sorted(parcel.groups, key=lambda group: group.order)
    secrets = [_Secret(one.group.uid, one.epoch, one.until, one.secret.reveal()) for one in parcel.secrets]
    uids: list[str | None] = [group.uid for group in ordered]
    paths = [_Path(one.group.uid, one.path) for one in parcel.paths]
    if not parcel.answers:
        return _ENCODER.encode(_Parcel(uids, secrets, paths))
    return _ENCODER.encode(_Answered(uids, secrets, paths, write_answers(parcel.answers)))


def write_answers(answers: Answers) -> dict[str, bytes]:
    """Return what answers are about, as a manager tells it."""
    return {uid: restriction_to_bytes(said) for uid, said in sorted(answers.items())}


def read_answers(written: Mapping[str, bytes]) -> Answers:
    """Read what answers are about."""
    return {AttributeUid(uid): restriction_from_bytes(said) for uid, said in written.items()}


def unpack(data: bytes, type_id: bytes) -> GroupWelcome:
    try:
        found = _DECODER.decode(data)
        secrets = tuple(
            Handed(_group(type_id, one.uid), one.epoch, one.until, Secret.from_bytes(one.secret))
            for one in found.secrets
        )
        answers = read_answers(found.answers)
    except (msgspec.MsgspecError, UnicodeDecodeError, BadSecret, BadInput):
        # What was wrong is not said: the sentence would be about secrets.
        raise BadParcel("what the manager sealed to this member cannot be read") from None
    paths = tuple(HeldPath(_group(type_id, one.uid), one.path) for one in found.paths)
    return GroupWelcome(frozenset(_group(type_id, uid) for uid in found.groups), secrets, paths, answers)


def _group(type_id: bytes, uid: str | None) -> GroupId:
    return GroupId(type_id, None if uid is None else AttributeUid(uid))
