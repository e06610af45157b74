"""Fixed bytes: the rekeys, paths and kept trees of a short history, which next year's code must still read.

The random bytes of `counted_bytes(b"vector")` lead to these very bytes again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reference.tree_store import member_from_bytes, new_tree, tree_from_bytes, tree_to_bytes
from support.key_trees import counted_bytes

HISTORIES = json.loads((Path(__file__).parent / "key_trees.json").read_text())
BY_SCHEME = pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history["scheme"])


@BY_SCHEME
def test_members_follow_this_years_messages(history):
    group, members = history["group"].encode(), {}
    for change in history["changes"]:
        for name in change["leaves"]:
            del members[name]
        for member in members.values():
            member.apply(bytes.fromhex(change["broadcast"]))
        for name, path in change["welcomes"].items():
            members[name] = member_from_bytes(bytes.fromhex(path), group=group)
            assert members[name].to_bytes().hex() == path
        for member in members.values():
            assert (member.version, member.secret.reveal().hex()) == (change["version"], change["secret"])


@BY_SCHEME
def test_a_manager_reads_what_was_kept_this_year(history):
    for change in history["changes"]:
        state = bytes.fromhex(change["state"])
        tree = tree_from_bytes(state, group=history["group"].encode(), random=counted_bytes())
        assert tree_to_bytes(tree) == state
        assert (tree.version, tree.secret.reveal().hex()) == (change["version"], change["secret"])


@BY_SCHEME
def test_a_manager_with_the_same_luck_writes_the_same_bytes(history):
    tree = new_tree(group=history["group"].encode(), random=counted_bytes(b"vector"))
    for change in history["changes"]:
        rekeyed = tree.rekey(
            joins=[name.encode() for name in change["joins"]],
            leaves=[name.encode() for name in change["leaves"]],
        )
        assert rekeyed.broadcast.hex() == change["broadcast"]
        assert {name.decode(): path.to_bytes().hex() for name, path in rekeyed.welcomes.items()} == change[
            "welcomes"
        ]
        assert tree_to_bytes(tree).hex() == change["state"]
