"""Who signed these frames, and what does this member see of them?

Brokers that route, edges that deliver and readers of logs ask, of one frame or of several alike that came
together. `read_run` refuses what contradicts itself, `verify` says who signed, and `open_run` opens what the
member's keys open and leaves the rest closed. A `VerifiedRun` is made by these two only: its signer signed
exactly the rows and columns that it shows. A run in which anything does not hold is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import lru_cache
from itertools import chain, pairwise
from operator import attrgetter, call
from types import MappingProxyType
from typing import Final, final

import msgspec
from cryptography.exceptions import InvalidTag

from maia.credentials import Principal, same_secret
from maia.credentials.proof import Proof
from maia.errors import BrokenCredential, ProtocolViolation
from maia.policy.answers import part_of
from maia.sealing.frames.ciphers import EpochKeys, HeldCiphers, description, nonce
from maia.sealing.frames.content import LEVEL_NUMBERS, commitments, is_uid, read_columns, read_event
from maia.sealing.frames.proof import SignatureChecks, roots_of
from maia.types import SealingLevel
from maia.wire.messages import Column, Sealed

_SEAL: Final = object()
_EVENT: Final = LEVEL_NUMBERS[SealingLevel.EVENT]
_NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})
_alike: Final = attrgetter("type_id", "epoch", "signer", "level", "rows", "is_committed", "mark.instance")


class SealedRun(msgspec.Struct, frozen=True):
    """Frames alike whose fields fit together; nothing is known yet about who made them."""

    frames: Sequence[Sealed]
    uids: tuple[str, ...]
    """What is sealed in each of them; of whole events, an empty one."""
    described: Sequence[bytes]
    said: Sequence[tuple[bytes, ...]]
    """What the signer says of the columns of each."""
    ciphertexts: Sequence[list[bytes]]


@final
@dataclass(frozen=True, slots=True)
class VerifiedRun(Proof):
    """The proof that `signer` signed these frames and what is opened of them.

    Whether the signer may publish them is asked elsewhere.
    """

    run: SealedRun
    signer: Principal
    columns: Sequence[Sequence[Column]]
    """What was opened of each frame, as it travels in the clear; no value was read yet."""
    closed: frozenset[str]
    """What was not opened, the same in all frames; nothing, where whole events were."""
    lies: frozenset[str]
    """Of which the plaintext that came along is not what was signed, or cannot be compared."""
    is_closed: bool
    """Whether it shows its reader nothing, not even that there were events.

    A member of the type's own group may have events of which it can read no attribute.
    """
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify and open_run make a VerifiedRun")

    @property
    def frame(self) -> Sealed:
        """Return the first frame."""
        return self.run.frames[0]

    def __repr__(self) -> str:
        """Say which frames these are, and nothing of what is in them."""
        return f"VerifiedRun(sequence={self.frame.sequence}, frames={len(self.run.frames)})"


# ------------------------------------------------------------ the shape of frames


def read_run(frames: Sequence[Sealed]) -> SealedRun:
    """Return frames that are alike; refuse those whose fields contradict each other, before any is used."""
    first = frames[0]
    uids, alike = tuple([column.uid for column in first.columns]), _alike(first)
    if first.rows > 1 and not first.is_committed:
        raise ProtocolViolation(
            "PROTOCOL-SEALED-FRAME", "what is in a frame of several events is committed to"
        )
    if not _has_columns(first.level, uids):
        raise ProtocolViolation(
            "PROTOCOL-SEALED-FRAME",
            "the columns of a sealed frame do not fit its level, or belong to no attribute",
        )
    for frame in frames:
        kept = frame.kept
        if kept and (len(kept) != frame.rows or any(b <= a for a, b in pairwise(kept))):
            raise ProtocolViolation(
                "PROTOCOL-SEALED-FRAME", "the rows that were kept are not numbered in their order"
            )
        if frame is not first and (
            _alike(frame) != alike or tuple([column.uid for column in frame.columns]) != uids
        ):
            raise ProtocolViolation("PROTOCOL-SEALED-FRAME", "a frame is of another run")
    said = [tuple([column.commitment for column in frame.columns]) for frame in frames]
    ciphertexts = [[column.sealed for column in frame.columns] for frame in frames]
    return SealedRun(frames, uids, list(map(description, frames)), said, ciphertexts)


@lru_cache(maxsize=4096)
def _has_columns(level: int, uids: tuple[str, ...]) -> bool:
    """Return whether these can be the columns of a frame at a level."""
    if level == _EVENT:  # the event itself first, and then what is made of it for those who may see less
        return (
            uids[:1] == ("",) and _has_columns(0, uids[1:]) and all(part_of(uid) == uid for uid in uids[1:])
        )
    return len(set(uids)) == len(uids) and all(map(is_uid, uids))


# ------------------------------------------------------------ verifying


def verify(run: SealedRun, checks: SignatureChecks) -> VerifiedRun:
    """Return the proof of who signed frames, of which nothing is opened; no key is needed for it."""
    frames = run.frames
    signed = [()] * len(frames) if frames[0].is_committed else run.ciphertexts
    signer = checks.check(frames, roots_of(run.uids, run.described, run.said, signed))
    return VerifiedRun(run, signer, [()] * len(frames), frozenset(run.uids), frozenset(), True, _SEAL)


# ------------------------------------------------------------ opening


def open_run(
    verified: VerifiedRun,
    keys: EpochKeys,
    *,
    only: Collection[str] | None = None,
    among: Collection[str] | None = None,
    along: Mapping[str, bytes] = _NOTHING,
) -> VerifiedRun:
    """Open what `keys` open, or of that only some attributes; refuse what is not as its signer said.

    Frames are closed to a reader for whom nothing opens `among` these attributes, of which fewer may be
    opened here. `along` is plaintext that came along with a frame. What is as the signer said is not
    opened again.
    """
    run, first = verified.run, verified.frame
    if keys.type_id != first.type_id or keys.epoch != first.epoch:
        raise BrokenCredential(
            "SEALING-BROKEN", "frames cannot be opened with the keys of another type or epoch"
        )
    held = keys.looked_up(run.uids, first.mark.instance)
    places: Sequence[int] = range(len(run.uids))
    is_whole = first.level == _EVENT and held.ciphers[0] is not None
    if is_whole:
        places = [0]  # nothing is said in the parts that is not in the event
    elif held.missing or only is not None:
        places = [at for at in places if held.ciphers[at] is not None and _is_among(run.uids[at], only)]
    uids, count, rows = [run.uids[at] for at in places], len(run.frames), first.rows
    believed = _believed(run, held, places, along) if along else {}
    plaintexts = _decrypted(run, held, [at for at in places if run.uids[at] not in believed])
    if believed:
        others = iter(plaintexts)
        plaintexts = [believed[uid] if uid in believed else next(others) for uid in uids]
    if first.level == _EVENT:
        parts = [uid for uid in uids for _ in run.frames]
        read = [read_event(one, rows, part) for part, one in zip(parts, plaintexts, strict=True)]
        columns: list[Sequence[Column]] = [list(chain(*read[at::count])) for at in range(count)]
    else:
        cells = read_columns([uid for uid in uids for _ in run.frames], plaintexts, rows)
        columns = [cells[at::count] for at in range(count)]
    closed = frozenset[str]() if is_whole else frozenset(run.uids).difference(uids)
    opens = bool(places) or _opens_any(run, held, among)
    lies = frozenset(along).difference(believed)
    is_closed = not opens and (first.level == _EVENT or not keys.holds_type)
    return VerifiedRun(run, verified.signer, columns, closed, lies, is_closed, _SEAL)


def _opens_any(run: SealedRun, held: HeldCiphers, among: Collection[str] | None) -> bool:
    """Return whether any of some attributes could be opened."""
    known = zip(run.uids, held.ciphers, strict=True)
    return among is not None and any(uid in among for uid, cipher in known if cipher is not None)


def _is_among(uid: str, only: Collection[str] | None) -> bool:
    return only is None or uid in only


def _believed(
    run: SealedRun, held: HeldCiphers, places: Sequence[int], along: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return what came along with a frame and is what its signer committed to."""
    frame, shown = run.frames[0], [at for at in places if run.uids[at] in along]
    if not frame.is_committed or len(run.frames) > 1:
        return {}
    contents = [along[run.uids[at]] for at in shown]
    made = _said(run, held, shown, contents)
    return {
        run.uids[at]: one
        for at, one, said in zip(shown, contents, made, strict=True)
        if same_secret(run.said[0][at], said)
    }


def _said(
    run: SealedRun, held: HeldCiphers, places: Sequence[int], plaintexts: Sequence[bytes]
) -> list[bytes]:
    """Return what a signer says that has sealed these columns, one after the other, frame after frame."""
    ciphers = [cipher for at in places if (cipher := held.ciphers[at]) is not None for _ in run.frames]
    if not run.frames[0].is_committed:
        return [cipher.name for cipher in ciphers]
    counters = [frame.mark.counter for frame in run.frames] * len(places)
    names = [held.names[at] for at in places for _ in run.frames]
    return commitments([cipher.salt for cipher in ciphers], counters, names, plaintexts)


def _decrypted(run: SealedRun, held: HeldCiphers, places: Sequence[int]) -> list[bytes]:
    """Open columns, one after the other, and each of them frame after frame."""
    frames = run.frames
    decrypt = [one.decrypt for at in places if (one := held.ciphers[at]) is not None for _ in frames]
    numbers = [nonce(frame.mark) for frame in frames] * len(places)
    bound = [one + held.names[at] for at in places for one in run.described]
    ciphertexts = [own[at] for at in places for own in run.ciphertexts]
    found: list[bytes] = []
    try:
        found.extend(map(call, decrypt, numbers, ciphertexts, bound))
    except InvalidTag:
        uid = run.uids[places[len(found) // len(frames)]]
        raise BrokenCredential("SEALING-BROKEN", f"the seal of attribute `{uid or '*'}` is broken") from None
    if _said(run, held, places, found) != [own[at] for at in places for own in run.said]:
        raise BrokenCredential("SEALING-PROOF", "an attribute is not what the frame's signer published")
    return found
