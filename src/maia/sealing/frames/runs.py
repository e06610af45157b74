"""How are frames of one stream sealed that leave together, and what do those show that arrive together?

A broker asks that reads many single events at once. They have the same columns and keys, so that these
are looked up once. Each frame is sealed as `Sealer.draft` does it, and proved and opened as `verify_frame`,
`open_further` and `verify_further` do it (`opened_frame.py`); those are the meaning of this file. A run
in which any frame is refused is refused as a whole: one by one, they say which it was.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import InitVar, dataclass
from hashlib import sha256
from operator import attrgetter
from typing import Final, final

from cryptography.exceptions import InvalidTag

from maia.credentials import Principal
from maia.credentials.proof import Proof
from maia.events import AttributeUid
from maia.sealing.frames.blocks import array_header
from maia.sealing.frames.ciphers import Cipher, EpochKeys, RunDescription, frame_binding, nonce
from maia.sealing.frames.content import (
    LEVEL_NUMBERS,
    column_starts,
    leaves_of,
    read_plaintext,
    read_whole_column,
    whole_head,
    whole_plaintext,
)
from maia.sealing.frames.opened_frame import BadSealedFrame, BrokenSeal, check_shape, not_what_was_signed
from maia.sealing.frames.proof import SignatureChecks, frame_root
from maia.sealing.frames.sealer import (
    NOT_SIGNED,
    BadBatch,
    Draft,
    KeyMissing,
    Publication,
    Sealer,
    ciphers_for,
    counter_bytes,
)
from maia.types import SealingLevel
from maia.wire.messages import Column, Sealed, SealedColumn

_SEAL: Final = object()
_uid_and_kind: Final = attrgetter("uid", "kind")
_run_of: Final = attrgetter(
    "type_id", "epoch", "signer", "publisher", "stream", "level", "rows", "kept", "blocks"
)


@final
@dataclass(frozen=True, slots=True)
class VerifiedRun(Proof):
    """The proof that `signer` signed these frames, and what was opened of each; made by `open_run` alone."""

    signer: Principal
    columns: Sequence[Sequence[Column]]
    closed: frozenset[str]
    """The uids of what was not opened, the same in all frames."""
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only open_run makes a VerifiedRun")


def seal_run(
    sealer: Sealer,
    labels: Sequence[tuple[int, int]],
    columns: Sequence[Sequence[Column]],
    about: Publication,
    *,
    keys: EpochKeys,
    level: SealingLevel,
) -> list[Draft]:
    """Return whole frames sealed, each with its number and moment, all with the columns of the first.

    The rest is said of all of them in `about`, with no rows left out and nothing attached.
    """
    if level is SealingLevel.EVENT or not labels or not columns[0]:
        by = about.publisher, about.stream
        return [
            sealer.draft(one, Publication(*by, *label, about.rows), keys=keys, level=level)
            for one, label in zip(columns, labels, strict=True)
        ]
    # One step for all frames and then the next: code that has just run runs twice as fast.
    layout, rows, start = list(map(_uid_and_kind, columns[0])), about.rows, len(array_header(about.rows))
    if any(list(map(_uid_and_kind, one)) != layout for one in columns):
        raise BadBatch("frames of a run have other columns than the first")
    marks = sealer.next_marks(len(labels))
    ciphers = ciphers_for(keys, tuple([uid for uid, _ in layout]), marks[0])
    whose = keys.type_id, about.publisher.key, sealer.principal.key, about.stream
    run = RunDescription(LEVEL_NUMBERS[level], *whose, epoch=keys.epoch, rows=rows)
    described = [run.of(*label, mark) for label, mark in zip(labels, marks, strict=True)]
    bindings = [frame_binding(one, mark, []) for one, mark in zip(described, marks, strict=True)]
    numbers, counters = list(map(nonce, marks)), list(map(counter_bytes, marks))
    sealed: list[list[SealedColumn]] = []
    for at, ((uid, kind), cipher) in enumerate(zip(layout, ciphers, strict=True)):
        data = [one[at].data for one in columns]
        salt, head, name = cipher.salt, whole_head(uid, kind), uid.encode()
        salted = [b"".join((salt, by, head, one[start:])) for by, one in zip(counters, data, strict=True)]
        said = [sha256(one).digest() for one in salted]
        content = [whole_plaintext(kind, one) for one in data]
        closed = [
            cipher.encrypt(number, one, binding + name)
            for number, one, binding in zip(numbers, content, bindings, strict=True)
        ]
        sealed.append([SealedColumn(uid, one, by, b"") for one, by in zip(closed, said, strict=True)])
    by_frame = list(map(list, zip(*sealed, strict=True)))
    level_to_rows = LEVEL_NUMBERS[level], keys.epoch, rows, rows
    return [
        Draft(
            Sealed(*whose, *label, *level_to_rows, [], mark, mark, [], own, NOT_SIGNED, 0, []),
            said_of,
            frame_root(said_of, own),
            one,
        )
        for label, mark, own, said_of, one in zip(labels, marks, by_frame, described, columns, strict=True)
    ]


def open_run(
    frames: Sequence[Sealed],
    keys: EpochKeys | None,
    checks: SignatureChecks,
    *,
    only: Collection[AttributeUid] | None,
) -> VerifiedRun:
    """Prove and open whole frames of one signer, type, epoch, level and number of rows.

    Without `only`, all that `keys` open is opened, and compared with what the signer said of it. With it,
    these attributes are opened for whoever carries the frames; if there are none, the shortest column is,
    so that no broken ciphertext goes through (A66), and nothing is returned of it. Without keys, signatures
    are verified, and nothing is opened.
    """
    first = frames[0]
    check_shape(first)
    run, uids = _run_of(first), tuple([column.uid for column in first.columns])
    if first.kept or first.blocks:
        raise BadSealedFrame("a run is of frames that were not cut")
    if keys is not None and (keys.type_id != first.type_id or keys.epoch != first.epoch):
        raise BrokenSeal("frames cannot be opened with the keys of another type or epoch")
    marks = [frame.origin for frame in frames]
    for frame, mark in zip(frames, marks, strict=True):
        columns = frame.columns
        is_whole = mark == frame.sealed_by and frame.rows == frame.block_rows
        if _run_of(frame) != run or mark.instance != marks[0].instance or not is_whole:
            raise BadSealedFrame("a frame is of another run, or in parts")
        if tuple([column.uid for column in columns]) != uids or b"".join([one.path for one in columns]):
            raise BadSealedFrame("frames of a run have other columns than the first")
    whose = first.type_id, first.publisher, first.signer, first.stream
    description_of = RunDescription(first.level, *whose, epoch=first.epoch, rows=first.rows).of
    described = [
        description_of(frame.sequence, frame.published_at, mark)
        for frame, mark in zip(frames, marks, strict=True)
    ]
    roots = [frame_root(one, frame.columns) for one, frame in zip(described, frames, strict=True)]
    signer = checks.check_run(frames, roots)
    nothing: Sequence[Sequence[Column]] = [()] * len(frames)
    if keys is None:
        return VerifiedRun(signer, nothing, frozenset(uids), _SEAL)
    bindings = [frame_binding(one, mark, []) for one, mark in zip(described, marks, strict=True)]
    bound = list(zip(map(nonce, marks), map(counter_bytes, marks), bindings, strict=True))
    found = keys.ciphers(uids, marks[0].instance)
    held = [(at, one) for at, one in enumerate(found) if one is not None]
    if only:
        held = [(at, one) for at, one in held if not uids[at] or uids[at] in only]
    if not held:
        raise KeyMissing(f"no attribute of a frame can be opened in epoch `{keys.epoch}`")
    is_carried = only is not None and not only
    if uids == ("",):
        events = _opened_events(frames, bound, held[0][1], is_proved=only is None)
        return VerifiedRun(signer, nothing if is_carried else events, frozenset(uids[:is_carried]), _SEAL)
    if is_carried:
        for frame, one in zip(frames, bound, strict=True):
            sizes = [(len(frame.columns[at].sealed), number) for number, (at, _) in enumerate(held)]
            _opened_column([frame], [one], *held[min(sizes)[1]], is_proved=False)
        return VerifiedRun(signer, nothing, frozenset(uids), _SEAL)
    opened = [_opened_column(frames, bound, *one, is_proved=only is None) for one in held]
    closed = frozenset(uids).difference([uids[at] for at, _ in held])
    return VerifiedRun(signer, list(zip(*opened, strict=True)), closed, _SEAL)


def _opened_column(
    frames: Sequence[Sealed],
    bound: Sequence[tuple[bytes, bytes, bytes]],
    at: int,
    cipher: Cipher,
    *,
    is_proved: bool,
) -> list[Column]:
    """Open the column at one place of all frames; `bound` are the nonce, counter and binding of each.

    If it is to be proved, it is compared with what the signer said of it.
    """
    sealed, uid = [frame.columns[at] for frame in frames], frames[0].columns[at].uid
    decrypt, name = cipher.decrypt, uid.encode()
    try:
        plaintexts = [
            decrypt(number, one.sealed, binding + name)
            for one, (number, _, binding) in zip(sealed, bound, strict=True)
        ]
    except InvalidTag:
        raise BrokenSeal(f"the seal of attribute `{uid or '*'}` is broken") from None
    starts, start_bytes = column_starts(frames[0].rows)
    columns = [read_whole_column(uid, one, starts, start_bytes) for one in plaintexts]
    if is_proved:
        salt, start = cipher.salt, start_bytes - 1
        salted = [
            b"".join((salt, counter, whole_head(uid, one.kind), one.data[start:]))
            for one, (_, counter, _) in zip(columns, bound, strict=True)
        ]
        said = [sha256(one).digest() for one in salted]
        if said != [one.commitment for one in sealed]:
            raise not_what_was_signed(sealed[0])
    return columns


def _opened_events(
    frames: Sequence[Sealed], bound: Sequence[tuple[bytes, bytes, bytes]], cipher: Cipher, *, is_proved: bool
) -> list[list[Column]]:
    """Do the same for frames that are sealed as a whole, and return all columns of each."""
    opened: list[list[Column]] = []
    start = column_starts(frames[0].rows)[1] - 1
    for frame, (number, counter, binding) in zip(frames, bound, strict=True):
        (sealed,) = frame.columns
        try:
            plaintext = cipher.decrypt(number, sealed.sealed, binding)
        except InvalidTag:
            raise BrokenSeal("the seal of attribute `*` is broken") from None
        part = read_plaintext("", plaintext, blocks=0, rows=frame.rows)
        if is_proved and leaves_of(part, cipher.salt, counter, blocks=(), start=start) != [sealed.commitment]:
            raise not_what_was_signed(sealed)
        opened.append([one.column for one in part.columns])
    return opened
