"""Fixed bytes: the rekeys and paths of a short history, which next year's members must still read.

The random bytes of `counted_bytes(b"vector")` lead to these very bytes again.
"""

from __future__ import annotations

import json
from pathlib import Path

from maia.sealing.tree.key_tree import KeyTree, TreeMember
from support.key_trees import counted_bytes

HISTORY = json.loads((Path(__file__).parent / "key_trees.json").read_text())
GROUP = HISTORY["group"].encode()


def test_members_follow_this_years_messages():
    members = {}
    for change in HISTORY["changes"]:
        for name in change["leaves"]:
            del members[name]
        for member in members.values():
            member.apply(bytes.fromhex(change["broadcast"]))
        for name, path in change["welcomes"].items():
            members[name] = TreeMember.from_bytes(bytes.fromhex(path), group=GROUP)
            assert members[name].to_bytes().hex() == path
        for member in members.values():
            assert (member.version, member.secret.reveal().hex()) == (change["version"], change["secret"])


def test_a_manager_with_the_same_luck_writes_the_same_bytes():
    tree = KeyTree(group=GROUP, random=counted_bytes(b"vector"))
    for change in HISTORY["changes"]:
        rekeyed = tree.rekey(
            joins=[name.encode() for name in change["joins"]],
            leaves=[name.encode() for name in change["leaves"]],
        )
        assert rekeyed.broadcast.hex() == change["broadcast"]
        assert {name.decode(): path.to_bytes().hex() for name, path in rekeyed.welcomes.items()} == change[
            "welcomes"
        ]
