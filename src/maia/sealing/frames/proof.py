"""Who published this frame, and is this part of it what was published?

A reader holds the key that the content is sealed with, and could seal anything
with it; only the publisher's broker can sign (K9, and the gap in the
dissertation's section 7.6). One Ed25519 signature covers a frame, or several
frames at once, through hashes:

    signed  <- path <- frame root <- description, and for each column its uid
                                     and commitment <- tree <- one leaf a block

A single event is never cut, and is short: its root is the hash of its ciphertexts, and of the
names of the keys that open them. One hash is made in place of one for each attribute.

A leaf is salted with a key that the readers of its attribute alone have, so
that no other broker can guess values from it. A reader that cannot open a column
takes its commitment as it is, and the signature still holds. The tree over
the blocks is in `frames/blocks.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain, islice, repeat
from operator import add, attrgetter
from struct import Struct
from typing import Final

from maia.credentials import BadSignature, Principal, SignedKind, principal_from_bytes, verify_signature
from maia.errors import BrokenCredential
from maia.wire.messages import Sealed

HASH_BYTES: Final = 32
BATCH_MAX: Final = 1 << 8
"""Frames that one signature may cover: a path of eight hashes each."""
SIGNATURES_REMEMBERED: Final = 4096

_ROOT: Final = b"maia/1/frame-root\x00"
_EVENT_ROOT: Final = b"maia/1/event-root\x00"
_NODE: Final = b"maia/1/frames\x00"
_NOBODY: Final = bytes(HASH_BYTES)
_place_of: Final = attrgetter("place")
_path_of: Final = attrgetter("path")


class BadFrameProof(BrokenCredential):
    """A frame is not what its signer signed, or not signed by it."""

    code = "SEALING-PROOF"


def frame_root(described: bytes, frame: Sealed) -> bytes:
    """Return the hash of a whole frame from its description and what is signed of each column.

    That is its uid and commitment; of a single event, its ciphertext as well.
    """
    columns = frame.columns
    if not frame.block_rows:
        head = event_head(tuple([one.uid for one in columns]), [one.commitment for one in columns])
        return event_root(head, described, [one.sealed for one in columns])
    # All lengths are fixed but those of uids, which say theirs.
    names = _names(tuple([column.uid for column in columns]))
    said = map(add, names, [column.commitment for column in columns])
    return sha256(b"".join((_ROOT, described, *said))).digest()


def event_head(uids: tuple[str, ...], keys: Iterable[bytes]) -> bytes:
    """Return how the hash of a single event begins: how many columns it has, their uids, their keys."""
    return b"".join((_EVENT_ROOT, len(uids).to_bytes(2, "big"), *_names(uids), *keys))


def event_root(head: bytes, described: bytes, sealed: Sequence[bytes]) -> bytes:
    """Return the hash of a single event from its beginning, description and ciphertexts."""
    lengths = lengths_packer(len(sealed)).pack(*map(len, sealed))
    return sha256(b"".join((head, described, lengths, *sealed))).digest()


def event_roots(head: bytes, described: Sequence[bytes], sealed: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Return the same for events with the same columns, of each of which `sealed` has the ciphertexts."""
    if any(len(set(map(len, column))) > 1 for column in sealed):
        by_event = zip(*sealed, strict=True)
        return [event_root(head, one, own) for one, own in zip(described, by_event, strict=True)]
    lengths = lengths_packer(len(sealed)).pack(*[len(column[0]) for column in sealed])
    begun, roots = sha256(head).copy, []
    for rest in map(b"".join, zip(described, repeat(lengths), *sealed)):
        root = begun()
        root.update(rest)
        roots.append(root.digest())
    return roots


@lru_cache(maxsize=4096)
def lengths_packer(count: int) -> Struct:
    """Return what writes and reads so many lengths, four bytes for each."""
    return Struct(f">{count}I")


@lru_cache(maxsize=4096)
def _names(uids: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the uids of a frame's columns, each with its length; frames of a type have the same."""
    names = [uid.encode() for uid in uids]
    return tuple([len(name).to_bytes(2, "big") + name for name in names])


# ------------------------------------------------------------ several frames under one signature


def batch_of(roots: Sequence[bytes]) -> tuple[bytes, list[list[bytes]]]:
    """Return the hash to sign for some frames, and each one's path to it."""
    level, beside, width = list(roots), list[Iterable[bytes]](), 1
    while len(level) > 1:
        if len(level) % 2:
            # A neighbour that is no hash of anything: were it the frame itself, the frame had two places.
            level.append(_NOBODY)
        pairs = list(zip(level[::2], level[1::2], strict=True))
        swapped = chain.from_iterable([(right, left) for left, right in pairs])
        beside.append(chain.from_iterable(map(repeat, swapped, repeat(width))))
        level, width = [_node(left, right) for left, right in pairs], 2 * width
    paths: Iterable[list[bytes]] = map(list, zip(*beside)) if beside else [[]]  # noqa: B905 - where there is a neighbour more
    return level[0], list(islice(paths, len(roots)))


def _top_of(frames: Sequence[Sealed], roots: Sequence[bytes]) -> bytes | None:
    """Return the one hash to which the paths of frames lead, in the order of their places; None if none.

    Two neighbours in the tree lead to the same from there on if each is what the other one's path says,
    and the rest of their paths is equal: then one of them is followed.
    """
    if frames[0].place == 0 and list(map(_place_of, frames)) == list(range(len(frames))):
        top, paths = batch_of(roots)  # nearly always: all that were signed together
        if paths == list(map(_path_of, frames)):
            return top
    level, depth = [(one.place, root, one.path) for one, root in zip(frames, roots, strict=True)], 0
    while depth < len(level[0][2]):
        above: list[tuple[int, bytes, list[bytes]]] = []
        left: tuple[int, bytes, list[bytes]] = (-1, b"", [])
        for one in level:
            place, node, path = one
            if len(path) <= depth:
                return None
            if place == left[0] + 1 and place & 1:
                if (node, path[depth]) != (left[2][depth], left[1]) or path[depth + 1 :] != left[2][
                    depth + 1 :
                ]:
                    return None
                continue
            other = path[depth]
            above.append((place >> 1, _node(other, node) if place & 1 else _node(node, other), path))
            left = one
        level, depth = above, depth + 1
    return level[0][1] if len(level) == 1 and level[0][0] == 0 and len(level[0][2]) == depth else None


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

    def check(self, frame: Sealed, root: bytes) -> Principal:
        """Return the signer of a frame with this root; refuse any signature but its own."""
        signer = principal_from_bytes(frame.signer)
        place, path, by = frame.place, frame.path, (frame.signer, frame.signature)
        if not path and not place and not self._is_good((*by, root, 0)):  # signed by itself, and new
            self._verify(signer, root, frame.signature)
            self._remember([(*by, root, 0)])
            return signer
        passed: list[tuple[object, ...]] = []
        node = root
        for level, other in enumerate(path):
            # From such a node the same way led to a good signature before: the rest is known.
            # A frame itself is not asked about again.
            if level:
                known = (*by, node, place, *path[level:])
                if self._is_good(known):
                    break
                passed.append(known)
            node = _node(other, node) if place & 1 else _node(node, other)
            place >>= 1
        else:
            if place:
                raise BadFrameProof("a frame's place does not fit the path to what was signed")
            passed.append((*by, node, 0))
            if not self._is_good(passed[-1]):
                self._verify(signer, node, frame.signature)
        self._remember(passed)
        return signer

    def check_run(self, frames: Sequence[Sealed], roots: Sequence[bytes]) -> Principal:
        """Return the signer of frames of one signer, as `check` does; those signed together are one tree."""
        by, signer = frames[0].signer, principal_from_bytes(frames[0].signer)
        at = 0
        while at < len(frames):
            signature, end = frames[at].signature, at + 1
            while end < len(frames) and frames[end].signature == signature:
                end += 1
            if end == at + 1:  # signed by itself
                self.check(frames[at], roots[at])
                at = end
                continue
            top = _top_of(frames[at:end], roots[at:end])
            if top is None or any(frame.signer != by for frame in frames[at:end]):
                for frame, root in zip(frames[at:end], roots[at:end], strict=True):
                    self.check(frame, root)
            elif not self._is_good((by, signature, top, 0)):
                self._verify(signer, top, signature)
                self._remember([(by, signature, top, 0)])
            at = end
        return signer

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
            raise BadFrameProof(reason)
        try:
            verify_signature(signer, SignedKind.FRAME, signed, signature)
        except BadSignature as problem:
            self._refused = (signer.key, signed, signature, problem.message)
            raise BadFrameProof(problem.message) from problem
