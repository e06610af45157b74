"""How are frames of one stream sealed that leave together, and what do those show that arrive together?

A broker asks that reads many single events at once. They have the same columns and keys, so that these
are looked up once. Each frame is sealed as `Sealer.draft` does it, and proved and opened as `verify_frame`,
`open_further` and `verify_further` do it (`opened_frame.py`); those are the meaning of this file. A run
in which any frame is refused is refused as a whole: one by one, they say which it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import InitVar, dataclass
from itertools import repeat
from operator import add, attrgetter, itemgetter
from typing import Final, final

from cryptography.exceptions import InvalidTag

from maia.credentials import Principal
from maia.credentials.proof import Proof
from maia.events import AttributeUid
from maia.sealing.frames.blocks import array_header
from maia.sealing.frames.ciphers import Cipher, EpochKeys, RunDescription, description, frame_binding, nonce
from maia.sealing.frames.content import (
    LEVEL_NUMBERS,
    event_plaintext,
    leaves_of,
    read_plaintext,
    read_whole_columns,
    whole_commitments,
    whole_plaintexts,
)
from maia.sealing.frames.opened_frame import (
    BadSealedFrame,
    BrokenSeal,
    check_shape,
    has_columns,
    not_what_was_signed,
)
from maia.sealing.frames.proof import BadFrameProof, SignatureChecks, event_head, event_root, frame_root
from maia.sealing.frames.sealer import (
    NOT_SIGNED,
    BadBatch,
    Draft,
    KeyMissing,
    Publication,
    Sealer,
    counter_bytes,
    key_missing,
)
from maia.types import SealingLevel
from maia.wire.messages import Column, Sealed, SealedColumn

_SEAL: Final = object()
_uid_and_kind: Final = attrgetter("uid", "kind")
_data_of: Final = attrgetter("data")
_sealed_of: Final = attrgetter("sealed")
_label_of: Final = attrgetter("sequence", "published_at")
_parts_of: Final = attrgetter("uid", "sealed", "commitment", "path")
_said_of: Final = attrgetter("uid", "commitment", "path")
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
    """Return single events sealed, each with its number and moment, all with the columns of the first.

    The rest is said of all of them in `about`, with nothing attached.
    """
    if not labels:
        return []
    # One step for all frames and then the next: code that has just run runs twice as fast.
    layout = list(map(_uid_and_kind, columns[0]))
    if any(list(map(_uid_and_kind, one)) != layout for one in columns):
        raise BadBatch("frames of a run have other columns than the first")
    contents: dict[str, Iterable[bytes]] = {}
    if level is SealingLevel.EVENT:
        contents[""] = map(event_plaintext, columns)
    else:
        for (uid, kind), same in zip(layout, zip(*columns, strict=True), strict=True):
            contents[uid] = whole_plaintexts(zip(repeat(kind), map(_data_of, same)))
    marks, uids = sealer.next_marks(len(labels)), tuple(contents)
    held = keys.held(uids, marks[0].instance)
    if held is None:
        raise key_missing(keys, uids, marks[0])
    whose = keys.type_id, about.publisher.key, sealer.principal.key, about.stream
    run = RunDescription(LEVEL_NUMBERS[level], *whose, epoch=keys.epoch)
    described, bindings = run.of(labels, marks)
    numbers = list(map(nonce, marks))
    by_column = [
        list(map(cipher.encrypt, numbers, content, map(add, bindings, repeat(name))))
        for content, cipher, name in zip(contents.values(), held.ciphers, held.names, strict=True)
    ]
    sealed = list(zip(*by_column, strict=True)) if uids else [()] * len(labels)
    head, key_names = held.head, held.key_names
    level_to_blocks = LEVEL_NUMBERS[level], keys.epoch, 1, 0
    roots = [event_root(head, said, one) for said, one in zip(described, sealed, strict=True)]
    by_frame = [list(map(SealedColumn, uids, own, key_names, repeat(b""))) for own in sealed]
    frames = [
        Sealed(*whose, *label, *level_to_blocks, [], mark, mark, [], own, NOT_SIGNED, 0, [])
        for label, mark, own in zip(labels, marks, by_frame, strict=True)
    ]
    return list(map(Draft, frames, described, roots, columns))


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
    first = frames[0]
    check_shape(first)
    run, said = _run_of(first), [(column.uid, column.commitment, b"") for column in first.columns]
    if first.kept or first.block_rows:
        raise BadSealedFrame("a run is of single events")
    if keys is not None and (keys.type_id != first.type_id or keys.epoch != first.epoch):
        raise BrokenSeal("frames cannot be opened with the keys of another type or epoch")
    marks, columns = [frame.origin for frame in frames], [frame.columns for frame in frames]
    for frame, mark, own in zip(frames, marks, columns, strict=True):
        if _run_of(frame) != run or mark.instance != marks[0].instance or mark != frame.sealed_by:
            raise BadSealedFrame("a frame is of another run, or in parts")
        if list(map(_said_of, own)) != said:
            raise BadSealedFrame("frames of a run have other columns than the first")
    whose = first.type_id, first.publisher, first.signer, first.stream
    run_description = RunDescription(first.level, *whose, epoch=first.epoch)
    described, bindings = run_description.of(map(_label_of, frames), marks)
    uids = tuple([uid for uid, _, _ in said])
    head = event_head(uids, [key for _, key, _ in said])
    sealed = [list(map(_sealed_of, own)) for own in columns]
    roots = [event_root(head, one, own) for one, own in zip(described, sealed, strict=True)]
    signer = checks.check_run(frames, roots)
    nothing: Sequence[Sequence[Column]] = [()] * len(frames)
    if keys is None:
        return VerifiedRun(signer, nothing, frozenset(uids), _SEAL)
    held = [(at, one) for at, one in enumerate(keys.ciphers(uids, marks[0].instance)) if one is not None]
    if only:
        held = [(at, one) for at, one in held if not uids[at] or uids[at] in only]
    if not held:
        raise KeyMissing(f"no attribute of a frame can be opened in epoch `{keys.epoch}`")
    is_carried, numbers = only is not None and not only, list(map(nonce, marks))
    if is_carried and uids != ("",):
        _check_shortest(uids, sealed, list(zip(numbers, bindings, strict=True)), held)
        return VerifiedRun(signer, nothing, frozenset(uids), _SEAL)
    opened: list[list[Column]] = []
    by_column = list(zip(*sealed, strict=True))
    for at, cipher in held:
        if only is None and cipher.name != said[at][1]:
            raise not_what_was_signed(first.columns[at])
        plaintexts = _opened(uids[at], by_column[at], numbers, bindings, cipher)
        if not uids[at]:
            parts = [read_plaintext("", one, blocks=0, rows=1).columns for one in plaintexts]
            events = [[one.column for one in part] for part in parts]
            return VerifiedRun(signer, nothing if is_carried else events, frozenset(uids[:is_carried]), _SEAL)
        opened.append(read_whole_columns(repeat(uids[at]), plaintexts, 1))
    closed = frozenset(uids).difference([uids[at] for at, _ in held])
    return VerifiedRun(signer, list(zip(*opened, strict=True)), closed, _SEAL)


def _check_shortest(
    uids: Sequence[str],
    sealed: Sequence[Sequence[bytes]],
    bound: Sequence[tuple[bytes, bytes]],
    held: Sequence[tuple[int, Cipher]],
) -> None:
    for own, (number, binding) in zip(sealed, bound, strict=True):
        _, (at, cipher) = min([(len(own[at]), (at, one)) for at, one in held], key=itemgetter(0))
        read_whole_columns([uids[at]], _opened(uids[at], [own[at]], [number], [binding], cipher), 1)


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
    held = keys.held(uids, mark.instance)
    if held is None:
        raise key_missing(keys, uids, mark)
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
