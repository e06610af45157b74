"""Points of the ring: where they come from and how far apart they are."""

from __future__ import annotations

from hashlib import sha256

import pytest

from maia.routing.overlay.table import (
    RING,
    NodeId,
    closeness,
    distance,
    is_closer,
    node_id_from_bytes,
    node_id_of_key,
    node_id_of_type,
    node_id_text,
    node_id_to_bytes,
)


def test_a_broker_stands_where_the_hash_of_its_key_says():
    key = bytes(range(32))
    expected = sha256(b"maia/1/node-id\x00" + key).digest()[:16]
    assert node_id_to_bytes(node_id_of_key(key)) == expected
    assert node_id_text(node_id_of_key(key)) == expected.hex()


def test_a_type_stands_where_the_first_half_of_its_id_says():
    assert node_id_of_type(b"\x01" * 16 + b"\x02" * 16) == int.from_bytes(b"\x01" * 16, "big")


@pytest.mark.parametrize("data", [b"", b"\x00" * 15, b"\x00" * 17])
def test_a_point_has_sixteen_bytes(data):
    with pytest.raises(ValueError, match="16 bytes"):
        node_id_from_bytes(data)


def test_distance_goes_the_short_way_round():
    assert distance(NodeId(1), NodeId(RING - 1)) == 2
    assert distance(NodeId(RING - 1), NodeId(1)) == 2
    assert distance(NodeId(0), NodeId(RING // 2)) == RING // 2
    assert distance(NodeId(0), NodeId(RING // 2 + 1)) == RING // 2 - 1
    assert distance(NodeId(7), NodeId(7)) == 0


def test_the_smaller_id_wins_a_tie():
    assert is_closer(NodeId(4), than=NodeId(6), target=NodeId(5))
    assert not is_closer(NodeId(6), than=NodeId(4), target=NodeId(5))
    assert not is_closer(NodeId(4), than=NodeId(4), target=NodeId(5))
    assert sorted([NodeId(6), NodeId(9), NodeId(4)], key=lambda node: closeness(node, NodeId(5))) == [4, 6, 9]
