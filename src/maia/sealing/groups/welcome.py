"""What is inside the parcel that a manager seals to one member?

For each group that is open to the member: the secrets it may hold, each with
the epoch that it is new in and the one that replaced it, and its place in the
group's key tree; for the group of an answer, the restriction that it is about.
The signed epochs travel beside the parcel. A member that unpacks
checks every secret against the commitment in its epoch.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from maia.credentials import Principal
from maia.errors import MaiaError, ProtocolViolation
from maia.policy.answers import Answers
from maia.sealing.keys.records import (
    Number,
    Record,
    Uid,
    WrittenAnswers,
    read_answers,
    reader_of,
    write_record,
)
from maia.sealing.keys.secrets import Secret


class BadParcel(ProtocolViolation):
    """What a manager sealed to this member cannot be read."""

    code = "PROTOCOL-KEY-PARCEL"


class Handed(Record, frozen=True):
    """A secret of a group, new in `epoch` and in use up to the one before `until`."""

    uid: Uid
    epoch: Number
    until: Number | None
    secret: Secret


class HeldPath(Record, frozen=True):
    """A member's place in the key tree of a group."""

    uid: Uid
    path: Annotated[bytes, Meta(max_length=4096)]

    def __repr__(self) -> str:
        return "HeldPath(…)"


class GroupWelcome(Record, frozen=True):
    """Everything that one member may hold of a type: of which groups, named by their uids, in their order."""

    uids: Annotated[list[Uid], Meta(max_length=1025)]
    secrets: Annotated[list[Handed], Meta(max_length=65_536)]
    paths: Annotated[list[HeldPath], Meta(max_length=1025)]
    written_answers: WrittenAnswers = msgspec.field(default_factory=dict)

    @property
    def answers(self) -> Answers:
        """Return what the answers are about of which the member has a key."""
        return read_answers(self.written_answers)


_read: Final = reader_of(GroupWelcome)


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
        found = _read(data)
        _ = found.answers  # all of it can be read
    except (msgspec.MsgspecError, UnicodeDecodeError, MaiaError):
        # What was wrong is not said: the sentence would be about secrets.
        raise BadParcel("what the manager sealed to this member cannot be read") from None
    return found
