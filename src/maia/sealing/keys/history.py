"""Which keys of the past may this reader have?

A pipeline that reads a log asks the type's key manager, if the owner wants
old keys to be kept. The right is that of the time of publication: the key of
an epoch is for principals that could have been in its group at every moment of the
epoch, and the kernel says so from the certificates shown now. What an epoch's
secret would open later is not given away: a reader gets the content key of
each epoch by itself. The present epoch is no history; its keys are for
members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from maia.credentials import (
    Principal,
    SignedCertificate,
    certificate_from_bytes,
    certificate_to_bytes,
    principal_from_bytes,
)
from maia.errors import MaiaError, ProtocolViolation, Refusal
from maia.events import AttributeUid, Instant
from maia.policy.answers import Answers
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.membership import RightHistory
from maia.sealing.keys.key_ring import content_key
from maia.sealing.keys.records import (
    Number,
    Record,
    Uid,
    WrittenAnswers,
    read_answers,
    reader_of,
    write_answers,
    write_record,
)
from maia.sealing.keys.secrets import Secret

WRITERS_MAX: Final = 4096
CERTIFICATES_MAX: Final = 64
"""Certificates that are remembered of one member; those that ended first go first."""
PAGE_EPOCHS: Final = 256
"""Epochs in one answer; the rest is asked for again."""
_KEYS_MAX: Final = 1025
WRITERS_BYTES_MAX: Final = 8 << 20
"""Certificates that fit into one answer; a type with more writers tells the first of them."""

SecretOf: TypeAlias = Callable[[GroupId, int], Secret | None]


class BadPast(ProtocolViolation):
    """What a manager sealed to a reader of the past cannot be read."""

    code = "PROTOCOL-PAST-KEYS"


class HistoryNotKept(Refusal):
    """The keys of this type are destroyed when their time is over."""

    code = "REFUSED-NO-HISTORY"


class EpochSpan(NamedTuple):
    """An epoch that is over: from `since` up to, and without, `ends`."""

    number: int
    since: Instant
    ends: Instant


class PastEpoch(Record, frozen=True):
    """The content keys of an epoch that is over, from `since` up to, and without, `ends`."""

    number: Number
    since: Instant
    ends: Instant
    pairs: Annotated[list[tuple[Uid, Secret]], Meta(max_length=_KEYS_MAX)]

    @property
    def keys(self) -> dict[AttributeUid | None, Secret]:
        """Return the keys by attribute; None means the type's own group."""
        return dict(self.pairs)


class PastAnswer(Record, frozen=True):
    """What a manager tells a reader of the past: keys, and the certificates of those who published."""

    epochs: Annotated[list[PastEpoch], Meta(max_length=PAGE_EPOCHS)]
    written_writers: Annotated[
        list[tuple[bytes, Annotated[list[bytes], Meta(max_length=CERTIFICATES_MAX)]]],
        Meta(max_length=WRITERS_MAX),
    ] = msgspec.field(default_factory=list)
    written_answers: WrittenAnswers = msgspec.field(default_factory=dict)

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
        return read_answers(self.written_answers)


_read: Final = reader_of(PastAnswer)


def past_keys(spans: Iterable[EpochSpan], rights: RightHistory, secret_of: SecretOf) -> Iterator[PastEpoch]:
    """Yield, for each epoch, the keys of the groups that were open to a claim throughout."""
    for span in spans:
        opened = rights.throughout(span.since, Instant(span.ends - 1))
        pairs = [
            (group.uid, content_key(secret, group, span.number))
            for group in sorted(opened, key=lambda one: one.order)
            if (secret := secret_of(group, span.number)) is not None
        ]
        if pairs:
            yield PastEpoch(*span, pairs)


def past_info(type_id: bytes, *, manager: Principal, reader: Principal) -> bytes:
    """Return what a parcel of past keys is bound to: it cannot be passed off for another type or reader."""
    return b"maia/1/past-keys\x00" + type_id + manager.key + reader.key


def pack_past(
    epochs: Iterable[PastEpoch], writers: Mapping[Principal, Sequence[SignedCertificate]], answers: Answers
) -> bytes:
    """Write an answer, keys and all, with who published as long as there is room. The caller seals it."""
    told: list[tuple[bytes, list[bytes]]] = []
    room = WRITERS_BYTES_MAX
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
        found = _read(data)
        _ = found.writers, found.answers  # all of it can be read
    except (msgspec.MsgspecError, UnicodeDecodeError, MaiaError):
        # What was wrong is not said: the sentence would be about secrets.
        raise BadPast("what the manager sealed to a reader of the past cannot be read") from None
    return found
