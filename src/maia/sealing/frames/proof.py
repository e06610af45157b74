"""Who published this frame, and is this part of it what was published?

A reader holds the key that the content is sealed with, and could seal anything
with it; only the publisher's broker can sign (K9, and the gap in the
dissertation's section 7.6). One Ed25519 signature covers a frame, or several
frames at once, through hashes:

    signed  <- path <- frame root <- description, and for each column its uid and commitment

A commitment is the hash of a column's content, salted with a key that only the readers of its attribute
have, so that no other broker can guess values from it. A reader that cannot open a column takes its
commitment as it is, and the signature still holds. A single event is short: its root is of its ciphertexts
themselves, and of the names of the keys that open them. One hash is made in place of one for each attribute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import add
from struct import Struct
from typing import Final

from maia.credentials import BadSignature, Principal, SignedKind, principal_from_bytes, verify_signature
from maia.errors import BrokenCredential
from maia.wire.messages import FrameSignature, Sealed

HASH_BYTES: Final = 32
BATCH_MAX: Final = 1 << 8
"""Frames that one signature may cover: a path of eight hashes each."""
SIGNATURES_REMEMBERED: Final = 4096

_ROOT: Final = b"maia/2/frame-root\x00"
_NODE: Final = b"maia/1/frames\x00"
_NOBODY: Final = bytes(HASH_BYTES)
_NOT_BEGUN: Final = sha256()


def roots_of(
    uids: tuple[str, ...],
    described: Sequence[bytes],
    said: Sequence[Sequence[bytes]],
    sealed: Sequence[Sequence[bytes]],
) -> list[bytes]:
    """Return the hashes of frames with these columns.

    Of each there are its description, what is said of its columns and, if these are signed, its ciphertexts.
    """
    roots: list[bytes] = []
    known: Sequence[bytes] = ()
    lengths: list[int] = []
    begun, packed = _NOT_BEGUN, b""
    for one, own_said, own in zip(described, said, sealed, strict=True):
        if not own:
            roots.append(sha256(_beginning(uids, own_said) + one).digest())
            continue
        if own_said != known:  # single events of one process say the same, the names of its keys
            known, begun = own_said, _begun(uids, tuple(own_said))
        sizes = list(map(len, own))
        if sizes != lengths:
            lengths, packed = sizes, _lengths(len(sizes)).pack(*sizes)
        root = begun.copy()
        root.update(b"".join((one, packed, *own)))
        roots.append(root.digest())
    return roots


def _beginning(uids: tuple[str, ...], said: Sequence[bytes]) -> bytes:
    """Return what is hashed first of a frame: its columns, and what is said of each."""
    return b"".join((_ROOT, len(uids).to_bytes(2, "big"), *map(add, _names(uids), said)))


@lru_cache(maxsize=1024)
def _begun(uids: tuple[str, ...], said: tuple[bytes, ...]) -> hashlib._Hash:
    return sha256(_beginning(uids, said))


@lru_cache(maxsize=4096)
def _lengths(count: int) -> Struct:
    return Struct(f">{count}I")


@lru_cache(maxsize=4096)
def _names(uids: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the uids of a frame's columns, each with its length; frames of a type have the same."""
    names = [uid.encode() for uid in uids]
    return tuple([len(name).to_bytes(2, "big") + name for name in names])


# ------------------------------------------------------------ several frames under one signature


def batch_of(roots: Sequence[bytes]) -> tuple[bytes, list[list[bytes]]]:
    """Return the hash to sign for some frames, and each one's path to it."""
    level = list(roots)
    levels: list[list[tuple[bytes, bytes]]] = []
    while len(level) > 1:
        if len(level) % 2:
            # A neighbour that is no hash of anything: were it the frame itself, the frame had two places.
            level.append(_NOBODY)
        pairs = list(zip(level[::2], level[1::2], strict=True))
        levels.append(pairs)
        level = [_node(left, right) for left, right in pairs]
    paths: list[list[bytes]] = [[]]
    for pairs in reversed(levels):
        paths = [
            [beside, *path]
            for (left, right), path in zip(pairs, paths)  # noqa: B905 - where there is a neighbour more
            for beside in (right, left)
        ]
    return level[0], paths[: len(roots)]


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(_NODE + left + right).digest()


class SignatureChecks:
    """Signatures that were found good, so that frames signed together cost one check."""

    __slots__ = ("_earlier", "_good", "_refused")

    def __init__(self) -> None:
        """Begin with none."""
        self._good: set[tuple[object, ...]] = set()
        self._earlier: set[tuple[object, ...]] = set()
        """What was found before `_good` was begun: when that is full, the earlier ones go all at once."""
        self._refused: tuple[bytes, bytes, bytes, str] = (b"", b"", b"", "")
        """The last that was none, and why: a broker that takes its frame on in another way asks again."""

    def check(self, frames: Sequence[Sealed | FrameSignature], roots: Sequence[bytes]) -> Principal:
        """Return the signer of frames of one signer with these roots; refuse any signature but its own."""
        signer, at = principal_from_bytes(frames[0].signer), 0
        signatures = [one.signature for one in frames]
        while at < len(frames):
            signature, end = signatures[at], at + 1
            while end < len(frames) and signatures[end] == signature:
                end += 1
            top, paths = batch_of(roots[at:end])
            same, at = frames[at:end], end
            if paths == [one.path for one in same] and [one.place for one in same] == list(range(len(same))):
                # Nearly always: all that were signed together, or one by itself.
                self._check_top(signer, signature, top)
                continue
            for frame, root in zip(same, roots[end - len(same) : end], strict=True):
                self._check_path(signer, frame, root)
        return signer

    def _check_path(self, signer: Principal, frame: Sealed | FrameSignature, node: bytes) -> None:
        """Follow the path of a frame, up to a node from which the same way led to a good signature before."""
        place, path, passed = frame.place, frame.path, list[tuple[object, ...]]()
        for level, other in enumerate(path):
            if level:  # a frame itself is not asked about again
                known = (signer.key, frame.signature, node, place, *path[level:])
                if self._is_good(known):
                    break
                passed.append(known)
            node = _node(other, node) if place & 1 else _node(node, other)
            place >>= 1
        else:
            if place:
                raise BrokenCredential(
                    "SEALING-PROOF", "a frame's place does not fit the path to what was signed"
                )
            self._check_top(signer, frame.signature, node)
        self._remember(passed)

    def _check_top(self, signer: Principal, signature: bytes, top: bytes) -> None:
        known = (signer.key, signature, top, 0)
        if not self._is_good(known):
            self._verify(signer, top, signature)
            self._remember([known])

    def _is_good(self, known: tuple[object, ...]) -> bool:
        return known in self._good or known in self._earlier

    def _remember(self, good: Iterable[tuple[object, ...]]) -> None:
        """Take note of what leads to a good signature."""
        self._good.update(good)
        if len(self._good) >= SIGNATURES_REMEMBERED // 2:
            self._good, self._earlier = set(), self._good

    def _verify(self, signer: Principal, signed: bytes, signature: bytes) -> None:
        *refused, reason = self._refused
        if [signer.key, signed, signature] == refused:
            raise BrokenCredential("SEALING-PROOF", reason)
        try:
            verify_signature(signer, SignedKind.FRAME, signed, signature)
        except BadSignature as problem:
            self._refused = (signer.key, signed, signature, problem.message)
            raise BrokenCredential("SEALING-PROOF", problem.message) from problem
