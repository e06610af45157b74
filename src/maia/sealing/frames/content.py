"""What is inside a sealed column, byte by byte?

The kind of the attribute and the column as it travels in the clear: its *content*. Sealed as a whole, an
event has one content, which is the list of those of its columns. It is padded, so that its length says
little (A55). Sealers write this, openers read it strictly, the signer commits to it, and a neighbour may be
sent it beside the ciphertext (K4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from struct import Struct
from typing import Final

import msgspec

from maia.errors import BrokenCredential
from maia.events import BadAttribute, attribute_uid
from maia.policy.answers import part_of
from maia.types import SealingLevel
from maia.wire.columns import array_header
from maia.wire.messages import Column

LEVEL_NUMBERS: Final = {SealingLevel.EVENT: 1, SealingLevel.ATTRIBUTE: 2}
"""The number of a level in a message."""

PADDED_TO: Final = 64
"""Content is padded to a multiple of this; from a kilobyte on, to a multiple of about a sixteenth."""

_LENGTH_BYTES: Final = 4
_FRAMING: Final = 16
"""At least as much as a column of an event takes beside its uid and its values."""
_NIL: Final = b"\xc0"
_LENGTH: Final = Struct(">I")
_FIRST_LARGE: Final = 1024
_ZEROS: Final = [bytes(length) for length in range(PADDED_TO)]
_KIND_BYTES: Final = [bytes((number,)) for number in range(16)]
_LENGTHS: Final = [bytes((length,)) for length in range(256)]
_KINDS: Final = range(1, 7)
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


@lru_cache(maxsize=4096)
def parts_of_event(uids: tuple[str, ...]) -> tuple[str, ...]:
    """Return as what columns are sealed that are sealed as a whole: the event itself first, then parts."""
    return tuple(dict.fromkeys(("", *map(part_of, uids))))


def event_content(columns: Sequence[Column]) -> bytes:
    """Return the content of columns that are sealed as a whole."""
    return _ENCODER.encode([(one.uid, _KIND_BYTES[one.kind] + one.data) for one in columns])


def plaintexts_of(frames: Sequence[Sequence[Column]], level: SealingLevel) -> list[bytes]:
    """Return what is sealed as one each: by column, and of each column frame after frame.

    Each is a content with its length in front and zeros behind.
    """
    if level is SealingLevel.EVENT:
        parts = parts_of_event(tuple(one.uid for one in frames[0])) if frames else ()
        if len(parts) > 1:
            return [one for part in parts for one in _in_part(part, frames)]
        cells = [(b"", event_content(columns)) for columns in frames]
    else:
        cells = [(_KIND_BYTES[one.kind], one.data) for same in zip(*frames, strict=True) for one in same]
    known, size, front, padding, found = b"none", -1, b"", b"", []
    for kind, data in cells:
        if len(data) != size or kind != known:  # many are of the kind and length of the one before
            known, size = kind, len(data)
            front, padding = _LENGTH.pack(len(kind) + size) + kind, _padding(len(kind) + size)
        found.append(b"".join((front, data, padding)))
    return found


def _in_part(part: str, frames: Sequence[Sequence[Column]]) -> Iterator[bytes]:
    """Yield what is sealed as one part of each frame.

    It is as long as it would be if it showed all of the event: carriers do not see which rows it shows.
    """
    for columns in frames:
        own = [one for one in columns if part_of(one.uid) == part]
        content, room = event_content(own), 0
        if part:
            event = event_content([one for one in columns if not part_of(one.uid)])
            empty = min(len(one.data) for one in own)  # as of a column without a value
            room = len(event) + sum(len(one.uid) + _FRAMING + empty for one in own)
        yield _LENGTH.pack(len(content)) + content + _padding(len(content), room)


def plaintexts_by_uid(columns: Sequence[Column], level: int) -> dict[str, bytes]:
    """Return what was sealed, or is now open, of a frame; of a whole event, by an empty uid."""
    if not columns:
        return {}
    uids = [one.uid for one in columns]
    if level == LEVEL_NUMBERS[SealingLevel.EVENT]:
        found = plaintexts_of([columns], SealingLevel.EVENT)
        sealed = zip(parts_of_event(tuple(uids)), found, strict=True)
        there = set(map(part_of, uids))
        return {part: one for part, one in sealed if part in there}
    return dict(zip(uids, plaintexts_of([columns], SealingLevel.ATTRIBUTE), strict=True))


def read_columns(uids: Iterable[str], plaintexts: Iterable[bytes], rows: int) -> list[Column]:
    """Read columns that were sealed as one each; none of their values is read yet."""
    kinds, stop = _beginnings(rows)
    size, start, end, padding, kind, read = -1, b"", 0, b"", 0, []
    for uid, plaintext in zip(uids, plaintexts, strict=True):
        if len(plaintext) != size or not plaintext.startswith(start):
            size, start, end = len(plaintext), plaintext[: _LENGTH_BYTES + stop], _end_of_content(plaintext)
            padding, kind = plaintext[end:], kinds.get(start[_LENGTH_BYTES:], 0)
            if not kind:
                raise BrokenCredential("SEALING-CONTENT", "what was sealed is no column of its frame")
        elif not plaintext.endswith(padding):  # many begin, and end, as the one before
            raise BrokenCredential("SEALING-CONTENT", "what was sealed is not padded in its one form")
        read.append(Column(uid, kind, plaintext[_LENGTH_BYTES + 1 : end]))
    return read


def read_event(plaintext: bytes, rows: int, part: str = "") -> list[Column]:
    """Read all columns of a frame that was sealed as a whole, or of a part of it."""
    end, (kinds, stop) = _end_of_content(plaintext, is_part=bool(part)), _beginnings(rows)
    content = plaintext[_LENGTH_BYTES:end]
    try:
        found = _DECODER.decode(content)
        columns = [Column(uid, kinds[one[:stop]], one[1:]) for uid, one in found]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as problem:
        raise BrokenCredential(
            "SEALING-CONTENT", "what was sealed is no list of columns of its frame"
        ) from problem
    uids = [uid for uid, _ in found]
    if _ENCODER.encode(found) != content or len(set(uids)) != len(uids):
        raise BrokenCredential("SEALING-CONTENT", "sealed columns are not written in their one form")
    if not all(is_uid(uid) and part_of(uid) == part for uid in uids):
        raise BrokenCredential("SEALING-CONTENT", "a sealed column belongs to no attribute")
    if part:  # what it shows nothing of is not there
        nothing = array_header(rows) + _NIL * rows
        return [one for one in columns if one.data != nothing]
    return columns


@lru_cache(maxsize=4096)
def _beginnings(rows: int) -> tuple[Mapping[bytes, int], int]:
    """Return how a content of so many rows may begin, with the kind it is of then, and where that ends."""
    header = array_header(rows)
    return {_KIND_BYTES[kind] + header: kind for kind in _KINDS}, 1 + len(header)


@lru_cache(maxsize=8192)
def is_uid(text: str) -> bool:
    """Return whether a text can be the uid of an attribute."""
    try:
        attribute_uid(text)
    except BadAttribute:
        return False
    return True


def _end_of_content(plaintext: bytes, *, is_part: bool = False) -> int:
    """Return where the padding begins; refuse any but the one that there is. That of a part may be longer."""
    if len(plaintext) >= _LENGTH_BYTES:
        length: int = _LENGTH.unpack_from(plaintext)[0]
        end = _LENGTH_BYTES + length
        padding = plaintext[end:]
        if end <= len(plaintext) and (padding == _padding(length) or (is_part and not any(padding))):
            return end
    raise BrokenCredential("SEALING-CONTENT", "what was sealed is not padded in its one form")


def _padding(length: int, room: int = 0) -> bytes:
    """Return what follows a content; with `room`, as much as if it were so long."""
    if room > length:
        return bytes(room - length) + _padding(room)
    whole = length + _LENGTH_BYTES
    if whole < _FIRST_LARGE:
        return _ZEROS[-whole % PADDED_TO]
    return bytes(-whole % (1 << (whole.bit_length() - 5)))


def commitments(
    salts: Iterable[bytes], counters: Iterable[int], names: Iterable[bytes], plaintexts: Iterable[bytes]
) -> list[bytes]:
    """Return what a signer says of what it sealed; without the key that a salt grew from it tells nothing."""
    return [
        sha256(b"".join((salt, counter.to_bytes(8, "big"), _LENGTHS[len(name)], name, one))).digest()
        for salt, counter, name, one in zip(salts, counters, names, plaintexts)  # noqa: B905 - a counter may be repeated
    ]
