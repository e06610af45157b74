"""A rekey and a path have one form, and everything else is refused before it is believed."""

from __future__ import annotations

import struct

import pytest

from maia.sealing.tree.key_tree import TreeMember
from maia.sealing.tree.node_secrets import ROOT, ancestor
from maia.sealing.tree.rekey import ENTRIES_MAX, read_path, read_rekey
from maia.testing.refusals import raises

HEAD = "!BB8sQ16s16s12sII"


def rekey(*, scheme=1, form=1, version=3, gone=(), entries=(), counts=None) -> bytes:
    """Write a rekey by hand; an entry is a node and the node whose members open it."""
    gone_count, count = counts or (len(gone), len(entries))
    head = struct.pack(
        HEAD, form, scheme, bytes(8), version, bytes(16), bytes(16), bytes(12), gone_count, count
    )
    return (
        head
        + b"".join(node.to_bytes(4, "big") for node in gone)
        + b"".join(struct.pack("!II48s", node, under, bytes(48)) for node, under in entries)
    )


PARENT, GRANDPARENT = ancestor(0, 1), ancestor(0, 2)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (b"", "within its head"),
        (rekey()[:-1], "within its head"),
        (rekey() + b"\0", "another length"),
        (rekey(entries=[(PARENT, 0)])[:-1], "another length"),
        (rekey(form=2), "does not read"),
        (rekey(scheme=0), "does not read"),
        (rekey(scheme=2), "does not read"),
        (rekey(version=0), "does not read"),
        (rekey(version=2**63), "does not read"),
        (rekey(counts=(0, ENTRIES_MAX + 1)), "beyond the limit"),
        (rekey(counts=(2**32 - 1, 0)), "beyond the limit"),
        (rekey(counts=(0, ENTRIES_MAX)), "another length"),
        (rekey(gone=[PARENT, PARENT]), "twice or out of order"),
        (rekey(gone=[GRANDPARENT, PARENT]), "twice or out of order"),
        (rekey(gone=[0]), "vanished which no tree has"),
        (rekey(gone=[ROOT]), "vanished which no tree has"),
        (rekey(gone=[17 << 24]), "vanished which no tree has"),
        (rekey(entries=[(PARENT, 0), (PARENT, 0)]), "twice or out of order"),
        (rekey(entries=[(PARENT, 1), (PARENT, 0)]), "twice or out of order"),
        (rekey(entries=[(GRANDPARENT, 0), (PARENT, 0)]), "twice or out of order"),
        (rekey(entries=[(PARENT, 2)]), "are not above"),
        (rekey(entries=[(0, PARENT)]), "are not above"),
        (rekey(entries=[(ROOT, ROOT)]), "are not above"),
        (rekey(entries=[(17 << 24, 0)]), "are not above"),
        (rekey(entries=[(0, 0)]), "does not know"),
        (rekey(entries=[(PARENT, PARENT)]), "does not know"),
    ],
)
def test_any_other_form_is_refused(message, sentence):
    with raises("PROTOCOL-REKEY", match=sentence):
        read_rekey(message)


def path(nodes, *, slot=0, form=1, scheme=1, version=1, count=None) -> bytes:
    count = len(nodes) if count is None else count
    head = struct.pack("!BB8sQ16sIB", form, scheme, bytes(8), version, bytes(16), slot, count)
    return head + b"".join(struct.pack("!I32s", node, bytes(32)) for node in nodes)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "within its head"),
        (path([0])[:-1], "another length"),
        (path([0]) + b"\0", "another length"),
        (path([0], count=2), "another length"),
        (path([0], form=0), "does not read"),
        (path([0], scheme=2), "does not read"),
        (path([0], version=2**63), "does not read"),
        (path([1 << 16], slot=1 << 16), "does not read"),
        (path([]), "begin at its member's leaf"),
        (path([1, PARENT]), "begin at its member's leaf"),
        (path([0, PARENT, PARENT]), "twice or out of order"),
        (path([0, GRANDPARENT, PARENT]), "twice or out of order"),
        (path([0, 1]), "is not above its member"),
        (path([0, ancestor(2, 1)]), "is not above its member"),
        (path([0, 17 << 24]), "is not above its member"),
    ],
)
def test_any_other_path_is_refused(data, sentence):
    with raises("PROTOCOL-TREE-PATH", match=sentence):
        read_path(data)


def test_a_path_of_no_root_is_refused():
    with raises("PROTOCOL-TREE-PATH", match="does not reach the root"):
        TreeMember.from_bytes(path([0, PARENT]), group=b"")
