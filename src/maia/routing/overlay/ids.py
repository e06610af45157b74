"""Where on the ring is a broker, and how far is it from there to a type?

Brokers and types share one ring of 2^128 points. A broker's point follows from
its public key, so no broker chooses its place without making a new key and
having it certified; a type's point follows from its type id. The overlay, the
rendezvous of a type and its replicas all measure with the functions here.
Distance runs along the ring, in whichever direction is shorter, and no two
brokers are ever equally close: the smaller id wins a tie.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final, NewType

__all__ = [
    "DIGITS",
    "DIGIT_BITS",
    "NODE_BITS",
    "RING",
    "NodeId",
    "closeness",
    "digit",
    "distance",
    "is_closer",
    "node_id_from_bytes",
    "node_id_of_key",
    "node_id_of_type",
    "node_id_text",
    "node_id_to_bytes",
]

NodeId = NewType("NodeId", int)
"""A point of the ring, from 0 up to 2^128 exclusive."""

NODE_BITS: Final = 128
DIGIT_BITS: Final = 4
DIGITS: Final = NODE_BITS // DIGIT_BITS
RING: Final = 1 << NODE_BITS
_BYTES: Final = NODE_BITS // 8
_HALF: Final = RING >> 1
_KEYS_REMEMBERED: Final = 1 << 14
"""Brokers name each other again and again, and always the same few."""


@lru_cache(maxsize=_KEYS_REMEMBERED)
def node_id_of_key(key: bytes) -> NodeId:
    """Return the place of the broker with this public key."""
    return node_id_from_bytes(sha256(b"maia/1/node-id\x00" + key).digest()[:_BYTES])


def node_id_of_type(type_id: bytes) -> NodeId:
    """Return the point whose closest broker is the rendezvous node of a type."""
    return node_id_from_bytes(type_id[:_BYTES])


def node_id_from_bytes(data: bytes) -> NodeId:
    """Return the point that 16 bytes write, the most significant first."""
    if len(data) != _BYTES:
        raise ValueError(f"a point of the ring has {_BYTES} bytes")
    return NodeId(int.from_bytes(data, "big"))


def node_id_to_bytes(node: NodeId) -> bytes:
    """Return the 16 bytes that write this point."""
    return node.to_bytes(_BYTES, "big")


def node_id_text(node: NodeId) -> str:
    """Return the 32 digits of this point, for people and logs."""
    return f"{node:0{DIGITS}x}"


def distance(one: NodeId, other: NodeId) -> int:
    """Return how many steps along the ring lie between two points, the short way round."""
    around = (one - other) % RING
    return around if around <= _HALF else RING - around


def closeness(node: NodeId, target: NodeId) -> tuple[int, NodeId]:
    """Return what to sort nodes by, closest to `target` first; equal only for the same node."""
    return distance(node, target), node


def is_closer(node: NodeId, *, than: NodeId, target: NodeId) -> bool:
    """Say whether `node` is strictly closer to `target` than the node `than`."""
    return closeness(node, target) < closeness(than, target)


def digit(node: NodeId, position: int) -> int:
    """Return one hexadecimal digit; position 0 is the most significant."""
    return (node >> (NODE_BITS - DIGIT_BITS * (position + 1))) & 0xF
