"""Groups under key trees whose messages get lost, come twice, too late or out of order."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count

from hypothesis import strategies as st

from maia.sealing.tree.key_tree import Rekeyed, TreeMember
from maia.sealing.tree.rekey import PathNeeded
from reference.tree_store import Scheme, Tree, member_from_bytes, new_tree

GROUP = b"a group"
PEOPLE = tuple(b"member %d" % number for number in range(9))
SCHEMES = st.sampled_from(Scheme)
CHANGES = st.lists(st.frozensets(st.sampled_from(PEOPLE), max_size=4), max_size=25)
"""Changes: whoever is named joins, or leaves if it is in."""


def counted_bytes(seed: bytes = b""):
    """Return random bytes that come again in the next run."""
    numbers = count()
    return lambda size: blake2b(seed + next(numbers).to_bytes(8, "big"), digest_size=size).digest()


def tree_of(*members: bytes, scheme: Scheme = Scheme.LKH) -> Tree:
    """Return a tree with these members."""
    tree = new_tree(group=GROUP, random=counted_bytes(), scheme=scheme)
    if members:
        tree.rekey(joins=members)
    return tree


def member_of(tree: Tree, member: bytes) -> TreeMember:
    """Return a member as it stands after its path of this moment was handed to it."""
    return member_from_bytes(tree.path(member).to_bytes(), group=GROUP)


@dataclass
class Group:
    """A manager and everybody who ever was a member, each with what it heard."""

    tree: Tree
    inside: dict[bytes, TreeMember] = field(default_factory=dict)
    outside: dict[bytes, TreeMember] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)
    asked: int = 0
    """How often somebody had to ask for its path."""

    def toggle(self, people) -> Rekeyed:
        """Let people join or leave in one change. Nothing is delivered but the joiners' paths."""
        leaves, joins = [p for p in people if p in self.tree], [p for p in people if p not in self.tree]
        rekeyed = self.tree.rekey(joins=sorted(joins), leaves=sorted(leaves))
        self.sent.append(rekeyed.broadcast)
        for member in leaves:
            self.outside[member] = self.inside.pop(member)
        for member, path in rekeyed.welcomes.items():
            self.outside.pop(member, None)
            self.inside[member] = member_from_bytes(path.to_bytes(), group=GROUP)
        return rekeyed

    def deliver(self, broadcast: bytes, member: bytes) -> None:
        """Let one member hear one message, and ask for its path if it must."""
        try:
            self.inside[member].apply(broadcast)
        except PathNeeded:
            self.recover(member)

    def recover(self, member: bytes) -> None:
        """Hand one member its path of this moment."""
        self.asked += 1
        self.inside[member] = member_of(self.tree, member)

    def announce(self) -> None:
        """Tell everybody where the group stands, as a manager does on every link from time to time."""
        for member, held in list(self.inside.items()):
            if (held.version, held.confirmation) != (self.tree.version, self.tree.confirmation):
                self.recover(member)
