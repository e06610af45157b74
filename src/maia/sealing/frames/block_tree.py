"""Is a block one of those of which a signer gave one hash for all?

The blocks of a column are the leaves of a tree, each of whose nodes is the
hash of up to four below it; its top is the column's commitment. A broker that cuts
blocks off leaves the few hashes with which the top can still be found. Only
hashes are seen here: salts and contents are the business of `frames/content.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from maia.sealing.frames.proof import HASH_BYTES, BadFrameProof

__all__ = ["Known", "commitment_of", "known_tree", "path_to", "top_of"]

Known = Sequence[Mapping[int, bytes]]
"""The hashes of a tree that are known, by level from the leaves on, and by their place in it."""

_FAN: Final = 4
_NODE: Final = b"maia/1/blocks\x00"


def commitment_of(leaves: Sequence[bytes]) -> bytes:
    """Return what a signer says of a column: its leaf, or the top of the tree over its leaves."""
    level = leaves
    while len(level) > 1:
        level = [
            sha256(_NODE + b"".join(level[at : at + _FAN])).digest() for at in range(0, len(level), _FAN)
        ]
    return level[0]


def known_tree(leaves: Mapping[int, bytes], *, count: int, path: bytes = b"") -> Known:
    """Return what follows from some of `count` leaves and a path; refuse a path that is not just enough."""
    levels, level, at = [dict(leaves)], dict(leaves), 0
    while count > 1:
        above: dict[int, bytes] = {}
        for parent in sorted({place // _FAN for place in level}):
            children = range(parent * _FAN, min((parent + 1) * _FAN, count))
            for child in children:
                if child not in level:
                    level[child] = path[at : at + HASH_BYTES]
                    at += HASH_BYTES
            above[parent] = sha256(_NODE + b"".join([level[child] for child in children])).digest()
        levels[-1], level, count = level, above, -(-count // _FAN)
        levels.append(above)
    if at != len(path):
        raise BadFrameProof("what leads from the blocks of a frame to its signature is too long or too short")
    return levels


def top_of(tree: Known) -> bytes:
    """Return the commitment that a tree leads to."""
    return tree[-1][0]


def path_to(tree: Known, blocks: Sequence[int], *, count: int) -> bytes:
    """Return the hashes with which the top is found from these blocks alone, which the tree knows."""
    path: list[bytes] = []
    here = set(blocks)
    for level in tree[:-1]:
        parents = sorted({place // _FAN for place in here})
        for parent in parents:
            children = range(parent * _FAN, min((parent + 1) * _FAN, count))
            path += [level[child] for child in children if child not in here]
        here, count = set(parents), -(-count // _FAN)
    return b"".join(path)
