"""How are frames of one stream sealed that leave together, and what do those show that arrive together?

A broker asks that reads many single events at once. They have the same columns and keys, so that these
are looked up once. Each frame is sealed as `Sealer.draft` does it, and proved and opened as `verify_frame`,
`open_further` and `verify_further` do it (`opened_frame.py`); those are the meaning of this file. A run
in which any frame is refused is refused as a whole: one by one, they say which it was.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import InitVar, dataclass
from itertools import repeat
from operator import add, attrgetter, itemgetter
from typing import Final, final

from cryptography.exceptions import InvalidTag

from maia.credentials import Principal
from maia.credentials.proof import Proof
from maia.events import AttributeUid
from maia.sealing.frames.blocks import array_header
from maia.sealing.frames.ciphers import (
    Cipher,
    EpochKeys,
    description,
    events_described,
    frame_binding,
    nonce,
    nonce_of_counter,
)
from maia.sealing.frames.content import (
    LEVEL_NUMBERS,
    events_plaintexts,
    leaves_of,
    read_events,
    read_plaintext,
    read_whole_columns,
    whole_commitments,
)
from maia.sealing.frames.opened_frame import (
    BadSealedFrame,
    BrokenSeal,
    check_shape,
    has_columns,
    not_what_was_signed,
)
from maia.sealing.frames.proof import (
    BadFrameProof,
    SignatureChecks,
    event_head,
    event_root,
    event_roots,
    frame_root,
)
from maia.sealing.frames.sealer import (
    NOT_SIGNED,
    BadBatch,
    Draft,
    KeyMissing,
    Publication,
    Sealer,
    counter_bytes,
    held_for,
)
from maia.types import SealingLevel
from maia.wire.columns import EventsColumn, by_column, by_event
from maia.wire.messages import Column, Sealed, SealedColumn

_SEAL: Final = object()
_parts_of: Final = attrgetter("uid", "sealed", "commitment", "path")
_run_of: Final = attrgetter(
    "type_id", "epoch", "signer", "publisher", "stream", "level", "rows", "block_rows", "kept", "blocks"
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
    by_column: Sequence[EventsColumn] = ()
    """The same of several single events, by column."""

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only open_run makes a VerifiedRun")


def seal_run(
    sealer: Sealer,
    labels: tuple[Sequence[int], Sequence[int]],
    columns: Sequence[EventsColumn],
    about: Publication,
    *,
    keys: EpochKeys,
    level: SealingLevel,
) -> list[Draft]:
    """Return single events sealed; `labels` are their numbers and their moments.

    The rest is said of all of them in `about`, with nothing attached.
    """
    numbers, moments = labels
    if not numbers or not columns:
        raise BadBatch("there is no event, or no attribute, in what is to be sealed together")
    # One step for all events and then the next: code that has just run runs twice as fast.
    contents, marks = events_plaintexts(columns, level), sealer.next_marks(len(numbers))
    uids, instance, counters = tuple(contents), marks[0].instance, [mark.counter for mark in marks]
    held = held_for(keys, uids, instance)
    whose = keys.type_id, about.publisher.key, sealer.principal.key, about.stream
    common = LEVEL_NUMBERS[level], keys.epoch, 1, 0
    described, bindings = events_described(
        common[0],
        *whose,
        epoch=keys.epoch,
        numbers=numbers,
        moments=moments,
        instance=instance,
        counters=counters,
    )
    nonces = list(map(nonce_of_counter, counters))
    sealed = [
        list(map(cipher.encrypt, nonces, content, map(add, bindings, repeat(name))))
        for content, cipher, name in zip(contents.values(), held.ciphers, held.names, strict=True)
    ]
    roots = event_roots(held.head, described, sealed)
    same = [
        map(SealedColumn, repeat(uid), column, repeat(key), repeat(b""))
        for uid, column, key in zip(uids, sealed, held.key_names, strict=True)
    ]
    frames = [
        Sealed(*whose, number, moment, *common, [], mark, mark, [], own, NOT_SIGNED, 0, [])
        for number, moment, mark, own in zip(
            numbers, moments, marks, map(list, zip(*same, strict=True)), strict=True
        )
    ]
    return list(map(Draft, frames, described, roots))


def open_run(
    frames: Sequence[Sealed],
    keys: EpochKeys | None,
    checks: SignatureChecks,
    *,
    only: Collection[AttributeUid] | None,
) -> VerifiedRun:
    """Prove and open single events of one signer, type, epoch and level.

    Without `only`, all that `keys` open is opened, and its key compared with the one that the signer named.
    With it, these attributes are opened for whoever carries the frames; if there are none, the shortest
    column is, as one by one, and nothing is returned of it. Without keys, signatures are verified, and
    nothing is opened.
    """
    first, count, sealed = frames[0], len(frames), _ciphertexts(frames)
    if keys is not None and (keys.type_id != first.type_id or keys.epoch != first.epoch):
        raise BrokenSeal("frames cannot be opened with the keys of another type or epoch")
    said, counters = [one.commitment for one in first.columns], [frame.origin.counter for frame in frames]
    uids = tuple([one.uid for one in first.columns])
    described, bindings = events_described(
        first.level,
        *(first.type_id, first.publisher, first.signer, first.stream),
        epoch=first.epoch,
        numbers=[frame.sequence for frame in frames],
        moments=[frame.published_at for frame in frames],
        instance=first.origin.instance,
        counters=counters,
    )
    roots = event_roots(event_head(uids, said), described, sealed)
    signer = checks.check_run(frames, roots)
    if keys is None:
        return VerifiedRun(signer, [()] * count, frozenset(uids), _SEAL)
    held = [(at, one) for at, one in enumerate(keys.ciphers(uids, first.origin.instance)) if one is not None]
    if only:
        held = [(at, one) for at, one in held if not uids[at] or uids[at] in only]
    if not held:
        raise KeyMissing(f"no attribute of a frame can be opened in epoch `{keys.epoch}`")
    is_carried, nonces = only is not None and not only, list(map(nonce_of_counter, counters))
    if is_carried and uids != ("",):
        _check_shortest(uids, sealed, list(zip(nonces, bindings, strict=True)), held)
        return VerifiedRun(signer, [()] * count, frozenset(uids), _SEAL)
    opened: list[EventsColumn] = []
    for at, cipher in held:
        if only is None and cipher.name != said[at]:
            raise not_what_was_signed(first.columns[at])
        plaintexts = _opened(uids[at], sealed[at], nonces, bindings, cipher)
        if uids[at]:
            opened.append(read_events(uids[at], plaintexts))
            continue
        parts = [read_plaintext("", one, blocks=0, rows=1).columns for one in plaintexts]
        found = by_column([[one.column for one in part] for part in parts])
        if found is None:
            raise BadSealedFrame("frames of a run have other columns than the first")
        opened = [] if is_carried else found
    closed = frozenset(uids if is_carried else set(uids).difference([uids[at] for at, _ in held]))
    return VerifiedRun(signer, by_event(opened) if opened else [()] * count, closed, _SEAL, opened)


def _ciphertexts(frames: Sequence[Sealed]) -> list[list[bytes]]:
    """Return what is sealed in single events of one run, by column; refuse others."""
    first, sealed = frames[0], list[list[bytes]]()
    check_shape(first)
    if first.kept or first.block_rows:
        raise BadSealedFrame("a run is of single events")
    run, instance, width = _run_of(first), first.origin.instance, len(first.columns)
    for frame in frames:
        mark = frame.origin
        if _run_of(frame) != run or mark.instance != instance or mark != frame.sealed_by:
            raise BadSealedFrame("a frame is of another run, or in parts")
        if len(frame.columns) != width:
            raise BadSealedFrame("frames of a run have other columns than the first")
    for one, same in zip(first.columns, zip(*[frame.columns for frame in frames], strict=True), strict=True):
        uid, key = one.uid, one.commitment
        for column in same:  # one by one is fastest
            if column.uid != uid or column.commitment != key or column.path:
                raise BadSealedFrame("frames of a run have other columns than the first")
        sealed.append([column.sealed for column in same])
    return sealed


def _check_shortest(
    uids: Sequence[str],
    sealed: Sequence[Sequence[bytes]],
    bound: Sequence[tuple[bytes, bytes]],
    held: Sequence[tuple[int, Cipher]],
) -> None:
    for row, (number, binding) in enumerate(bound):
        _, (at, cipher) = min([(len(sealed[at][row]), (at, one)) for at, one in held], key=itemgetter(0))
        read_events(uids[at], _opened(uids[at], [sealed[at][row]], [number], [binding], cipher))


def _opened(
    uid: str, sealed: Sequence[bytes], numbers: Sequence[bytes], bindings: Sequence[bytes], cipher: Cipher
) -> list[bytes]:
    """Open columns of one attribute, each of a frame with its nonce and binding."""
    try:
        return list(map(cipher.decrypt, numbers, sealed, map(add, bindings, repeat(uid.encode()))))
    except InvalidTag:
        raise BrokenSeal(f"the seal of attribute `{uid or '*'}` is broken") from None


def open_whole(frame: Sealed, keys: EpochKeys, checks: SignatureChecks) -> VerifiedRun:
    """Prove and open one frame, all of it; refuse one that may be cut, or of which a key is not held."""
    columns, mark, size = frame.columns, frame.origin, frame.block_rows
    if frame.kept or frame.blocks or mark != frame.sealed_by or (size or 1) != frame.rows:
        raise BadSealedFrame("a frame is in parts, or may be cut")
    uids, sealed, said, paths = zip(*map(_parts_of, columns), strict=True) if columns else ((),) * 4
    is_event = uids == ("",)
    if not has_columns(frame.level, uids) or b"".join(paths):
        raise BadSealedFrame("the columns of a sealed frame do not fit its level, or are cut")
    if keys.type_id != frame.type_id or keys.epoch != frame.epoch:
        raise BrokenSeal("a frame cannot be opened with the keys of another type or epoch")
    held = held_for(keys, uids, mark.instance)
    described = description(frame)
    if size:
        root = frame_root(described, frame)
    elif list(said) == held.key_names:
        root = event_root(held.head, described, sealed)
    else:
        raise BadFrameProof("an event is sealed with other keys than its signer named")
    signer = checks.check(frame, root)
    binding, number = frame_binding(described, mark, []), nonce(mark)
    start, counter = len(array_header(frame.rows)), counter_bytes(mark)
    plaintexts = (
        cipher.decrypt(number, one, binding + name)
        for cipher, one, name in zip(held.ciphers, sealed, held.names, strict=True)
    )
    try:
        if is_event:
            part = read_plaintext("", next(plaintexts), blocks=0, rows=frame.rows)
            opened, salt = [one.column for one in part.columns], held.ciphers[0].salt
            commitments = leaves_of(part, salt, counter, blocks=(), start=start) if size else []
        else:
            opened = read_whole_columns(uids, plaintexts, frame.rows)
            commitments = whole_commitments(opened, held.ciphers, counter, start) if size else []
    except InvalidTag:
        raise BrokenSeal("the seal of an attribute is broken") from None
    if size and list(said) != commitments:
        raise BadFrameProof("a frame is not what its signer published")
    return VerifiedRun(signer, [opened], frozenset(), _SEAL)
