"""How does a publisher's frame become one that only its readers can open, and only its signer can have made?

The publisher's broker asks for every frame of a sealed type; a broker that
cuts a frame seals again what is left. Each seal takes the next number of a
counter that never goes back, under keys of this process alone: no nonce comes
from a clock, and a restart, a fork or a second broker of one identity counts
under other keys (A45).

    sealer = Sealer(broker_key, random=os.urandom, process_id=os.getpid)
    sealed = sealer.seal(columns, keys=keys, level=level, publisher=…, …)

Frames that are on their way at the same time may share one signature: `draft`
each, then `sign` them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Final, NoReturn

import msgspec
from msgspec.structs import asdict, replace

from maia.credentials import Principal, SignedKind, SigningKey
from maia.errors import BadInput, Unavailable
from maia.events import AttributeUid, Column, Value
from maia.sealing.frames.blocks import Division, array_header, commitment_of, division, is_division
from maia.sealing.frames.ciphers import (
    INSTANCE_BYTES,
    Cipher,
    EpochKeys,
    HeldCiphers,
    description,
    event_described,
    frame_binding,
    nonce,
)
from maia.sealing.frames.content import (
    LEVEL_NUMBERS,
    OpenPart,
    column_to_seal,
    event_plaintext,
    leaves_of_parts,
    parts_of,
    plaintext_of,
    whole_commitments,
    whole_plaintexts,
)
from maia.sealing.frames.proof import BATCH_MAX, batch_of, event_root, frame_root
from maia.types import SealingLevel
from maia.wire.messages import Author, Sealed, SealedColumn, SealedWithAuthor, SealMark
from maia.wire.messages import Column as WireColumn

COUNTER_MAX: Final = (1 << 48) - 1
"""Seals of one instance: far fewer than AES-GCM bears under one key."""

NOT_SIGNED: Final = bytes(64)
_COUNTER_BYTES: Final = 8

_uid: Final = attrgetter("uid")
_kind_and_data: Final = attrgetter("kind", "data")


class KeyMissing(Unavailable):
    """A frame cannot be sealed: the key of one of its attributes is not held in this epoch."""

    code = "SEALING-KEY-MISSING"


class BadBatch(BadInput):
    """Frames that were to be sealed or signed together are none, too many, or have other columns."""

    code = "SEALING-BATCH"


class BadDivision(BadInput):
    """A frame was to be divided into too many blocks, or into blocks that are larger than itself."""

    code = "SEALING-DIVISION"


class SealerWornOut(Unavailable):
    """A process has sealed as much as its keys bear; the next one begins with other keys."""

    code = "SEALING-WORN-OUT"


class Publication(msgspec.Struct, frozen=True):
    """What is said in the clear about a frame that is to be sealed.

    `kept` numbers the rows in the publisher's frame, and is empty for all.
    `block_rows` says in how small pieces it can be cut later; 0 is for one that never is. Of a single event
    the ciphertext is signed then, and no plaintext can be compared with it.
    """

    publisher: Principal
    stream: bytes
    sequence: int
    published_at: int
    rows: int
    kept: Sequence[int] = ()
    block_rows: int = 0
    author: Author | None = None
    """What the signer attaches about the publisher."""

    def divided(self) -> Division:
        """Return the blocks of the frame; refuse what is no division of it."""
        size = self.block_rows or self.rows
        if not is_division(self.rows, size):
            raise BadDivision(f"{self.rows} rows cannot be divided into blocks of {size}")
        return division(self.rows, size)


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A sealed frame without its signature, and the hash that is to be signed."""

    frame: Sealed
    described: bytes
    root: bytes
    columns: Sequence[WireColumn] = ()
    """What was sealed; of single events that leave together, nothing."""
    parts: Sequence[OpenPart] = ()
    """What was sealed as one each, if that is not one column each in one block."""
    leaves: Sequence[Sequence[bytes]] = ()
    """What was said of the blocks of each part."""

    def __repr__(self) -> str:
        """Say which frame it is, and nothing of what is in it."""
        return f"Draft(sequence={self.frame.sequence}, rows={self.frame.rows})"


class Sealer:
    """What one process seals and signs with. It is never copied: two counters would be one nonce twice."""

    __slots__ = ("_counter", "_instance", "_key", "_process", "_process_id", "_random")

    def __init__(
        self, key: SigningKey, *, random: Callable[[int], bytes], process_id: Callable[[], int]
    ) -> None:
        """Begin a new instance. `process_id` tells a fork from its parent."""
        self._key = key
        self._random = random
        self._process_id = process_id
        self._begin()

    def _begin(self) -> None:
        self._instance = self._random(INSTANCE_BYTES)
        self._process = self._process_id()
        self._counter = 0

    @property
    def instance(self) -> bytes:
        """Return under whose keys this process seals, unless it was forked meanwhile."""
        return self._instance

    @property
    def principal(self) -> Principal:
        """Return who signs."""
        return self._key.principal

    def next_mark(self) -> SealMark:
        """Return a mark that no seal has had: the counter's next number, under this process's instance."""
        if self._process != self._process_id() or self._counter >= COUNTER_MAX:
            return self.next_marks(1)[0]
        self._counter += 1
        return SealMark(self._instance, self._counter)

    def next_marks(self, count: int) -> list[SealMark]:
        """Return as many marks, all under one instance."""
        if self._process != self._process_id():
            # A child of the process that counted so far. It goes on under keys of its own.
            self._begin()
        first = self._counter + 1
        if self._counter + count > COUNTER_MAX:
            raise SealerWornOut("this process has sealed as much as its keys bear")
        self._counter += count
        return [SealMark(self._instance, number) for number in range(first, first + count)]

    # -------------------------------------------------------- sealing

    def seal(
        self,
        columns: Sequence[WireColumn],
        about: Publication,
        *,
        keys: EpochKeys,
        level: SealingLevel,
        values: Mapping[AttributeUid, Column] | None = None,
    ) -> Sealed:
        """Return a frame sealed and signed; `values` are those of the columns, if they are known."""
        return self.sign([self.draft(columns, about, keys=keys, level=level, values=values)])[0]

    def draft(
        self,
        columns: Sequence[WireColumn],
        about: Publication,
        *,
        keys: EpochKeys,
        level: SealingLevel,
        values: Mapping[AttributeUid, Column] | None = None,
    ) -> Draft:
        """Return a frame sealed, to be signed together with others."""
        is_event = about.rows == 1
        if not about.block_rows and (is_event or (about.rows > 1 and level is SealingLevel.ATTRIBUTE)):
            if is_event and not about.kept and about.author is None:
                label = about.publisher.key, about.stream, about.sequence, about.published_at
                uids = ("",) if level is SealingLevel.EVENT else tuple(map(_uid, columns))
                held = held_for(keys, uids, self._instance)
                return self.draft_event(columns, label, keys, held, level=level)
            return self._draft_whole(columns, about, keys, level)
        divided, mark = about.divided(), self.next_mark()
        frame = _skeleton(about, divided.size, keys, level, signer=self.principal, mark=mark)
        described, counter, start = description(frame), counter_bytes(mark), len(array_header(divided.rows))
        binding, number = frame_binding(described, mark, []), nonce(mark)
        parts = parts_of(
            [column_to_seal(one, _values(values, one.uid), divided) for one in columns], level=level
        )
        ciphers = ciphers_for(keys, tuple([part.uid for part in parts]), mark)
        blocks = leaves_of_parts(parts, ciphers, counter, blocks=divided.numbers, start=start)
        for part, cipher, leaves in zip(parts, ciphers, blocks, strict=True):
            sealed = cipher.encrypt(number, plaintext_of(part), binding + part.uid.encode())
            frame.columns.append(SealedColumn(part.uid, sealed, commitment_of(leaves), b""))
        return Draft(frame, described, frame_root(described, frame), columns, parts, blocks)

    def draft_event(
        self,
        columns: Sequence[WireColumn],
        about: tuple[bytes, bytes, int, int],
        keys: EpochKeys,
        held: HeldCiphers,
        *,
        level: SealingLevel,
    ) -> Draft:
        """Return an event that leaves alone sealed; `about` are its publisher, stream, number and moment.

        `held` is what `keys` have for its columns.
        """
        mark, (publisher, stream, number, moment) = self.next_mark(), about
        label = keys.type_id, publisher, self._key.principal.key, stream, number, +moment
        if held.instance != mark.instance:  # asked for before this process was forked
            held = held_for(keys, held.uids, mark.instance)
        if level is SealingLevel.EVENT:
            contents = iter([event_plaintext(columns)])
        else:
            contents = whole_plaintexts(map(_kind_and_data, columns))
        described = event_described(LEVEL_NUMBERS[level], label, keys.epoch, mark)
        binding, number_once = frame_binding(described, mark, []), nonce(mark)
        sealed = [
            cipher.encrypt(number_once, one, binding + name)
            for cipher, one, name in zip(held.ciphers, contents, held.names, strict=True)
        ]
        own = list(map(SealedColumn, held.uids, sealed, held.key_names, repeat(b"")))
        said = LEVEL_NUMBERS[level], keys.epoch, 1, 0
        frame = Sealed(*label, *said, [], mark, mark, [], own, NOT_SIGNED, 0, [])
        return Draft(frame, described, event_root(held.head, described, sealed), columns)

    def _draft_whole(
        self, columns: Sequence[WireColumn], about: Publication, keys: EpochKeys, level: SealingLevel
    ) -> Draft:
        """Return the columns of one block sealed, or a single event, of which the ciphertexts are signed.

        Most frames are one or the other. There is no call for each step of each column.
        """
        mark, rows = self.next_mark(), about.rows
        if level is SealingLevel.EVENT:
            uids: tuple[str, ...] = ("",)
            content = iter([event_plaintext(columns)])
        else:
            uids = tuple(map(_uid, columns))
            content = whole_plaintexts(map(_kind_and_data, columns))
        held = held_for(keys, uids, mark.instance)
        size = 0 if rows == 1 else rows
        frame = _skeleton(about, size, keys, level, signer=self.principal, mark=mark)
        described = description(frame)
        binding, number, said = frame_binding(described, mark, []), nonce(mark), held.key_names
        if size:
            said = whole_commitments(columns, held.ciphers, counter_bytes(mark), len(array_header(rows)))
        sealed = [
            cipher.encrypt(number, one, binding + name)
            for cipher, one, name in zip(held.ciphers, content, held.names, strict=True)
        ]
        frame.columns.extend(map(SealedColumn, uids, sealed, said, repeat(b"")))
        root = frame_root(described, frame) if size else event_root(held.head, described, sealed)
        return Draft(frame, described, root, columns)

    def sign(self, drafts: Sequence[Draft]) -> list[Sealed]:
        """Return drafts with one signature over all of them; each one alone is provable."""
        if not 1 <= len(drafts) <= BATCH_MAX:
            raise BadBatch(f"one signature covers 1 to {BATCH_MAX} frames, and {len(drafts)} were given")
        if len(drafts) == 1:
            return [self.sign_alone(drafts[0])]
        root, paths = batch_of([draft.root for draft in drafts])
        signature = self._key.sign(SignedKind.FRAME, root)
        return [
            replace(draft.frame, signature=signature, place=place, path=path)
            for place, (draft, path) in enumerate(zip(drafts, paths, strict=True))
        ]

    def sign_alone(self, draft: Draft) -> Sealed:
        """Return a draft with a signature of its own: its root is what is signed."""
        return replace(draft.frame, signature=self._key.sign(SignedKind.FRAME, draft.root))

    def __repr__(self) -> str:
        """Say who seals, and nothing of its keys."""
        return f"Sealer(principal={self.principal})"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        raise TypeError("a sealer cannot be pickled or copied")


def ciphers_for(keys: EpochKeys, uids: tuple[str, ...], mark: SealMark) -> list[Cipher]:
    """Return the ciphers under a mark for what has these uids (empty: all attributes); refuse to lack one."""
    return held_for(keys, uids, mark.instance).ciphers


def held_for(keys: EpochKeys, uids: tuple[str, ...], instance: bytes) -> HeldCiphers:
    """Return the same for one process, with what they have in common."""
    held = keys.held(uids, instance)
    if held is None:
        lacking = uids[keys.ciphers(uids, instance).index(None)]
        raise KeyMissing(f"the key of attribute `{lacking or '*'}` is not held in epoch `{keys.epoch}`")
    return held


def counter_bytes(origin: SealMark) -> bytes:
    """Return what tells the leaves of one frame from those of the next."""
    return origin.counter.to_bytes(_COUNTER_BYTES, "big")


def _values(known: Mapping[AttributeUid, Column] | None, uid: str) -> Sequence[Value] | None:
    found = known.get(AttributeUid(uid)) if known else None
    return None if found is None else found.values


def _skeleton(
    about: Publication,
    block_rows: int,
    keys: EpochKeys,
    level: SealingLevel,
    *,
    signer: Principal,
    mark: SealMark,
) -> Sealed:
    frame = Sealed(
        keys.type_id,
        about.publisher.key,
        signer.key,
        about.stream,
        about.sequence,
        +about.published_at,  # an Instant becomes the int that travels
        LEVEL_NUMBERS[level],
        keys.epoch,
        about.rows,
        block_rows,
        list(about.kept),
        mark,
        mark,
        [],
        [],
        NOT_SIGNED,
        0,
        [],
    )
    if about.author is None:
        return frame
    return SealedWithAuthor(**asdict(frame), author=about.author)
