"""How is what a key manager hands out, or keeps, written and read?

A record is an array of its fields. Secrets and moments are written in the one form that each has; what is not
in that form is refused while it is read. The caller seals what is secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from maia.events import AttributeUid, Instant
from maia.policy.answers import (
    ANSWERS_MAX,
    RESTRICTION_BYTES_MAX,
    Answers,
    restriction_from_bytes,
    restriction_to_bytes,
)
from maia.sealing.keys.secrets import Secret

_Record = TypeVar("_Record")

Uid: TypeAlias = Annotated[AttributeUid, Meta(max_length=64)] | None
"""An attribute, or an answer; None for the type's own group."""
Number: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]
WrittenAnswers: TypeAlias = Annotated[
    dict[
        Annotated[AttributeUid, Meta(max_length=64)],
        Annotated[bytes, Meta(max_length=RESTRICTION_BYTES_MAX)],
    ],
    Meta(max_length=2 * ANSWERS_MAX),
]
"""What answers are about, by their uids, as it travels."""


class Record(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Fields that are written one after the other, and read strictly."""


def _plain(value: object) -> object:
    match value:
        case Secret():
            return value.reveal()
        case Instant():
            return +value
    raise NotImplementedError


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


def write_answers(answers: Answers) -> dict[AttributeUid, bytes]:
    """Return what answers are about, as a manager tells it."""
    return {uid: restriction_to_bytes(said) for uid, said in sorted(answers.items())}


def read_answers(written: Mapping[AttributeUid, bytes]) -> Answers:
    """Read what answers are about."""
    return {uid: restriction_from_bytes(said) for uid, said in written.items()}
