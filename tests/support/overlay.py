"""A network of overlay nodes in one process: who is connected, who crashed, and what they say to each other.

Links are perfect and open at once, unless a node is down or stands on the
other side of a partition. Messages between all nodes are handled one by one,
in an order drawn from a seed. Time passes only when a test says so.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from hashlib import sha256

from maia.routing.overlay.membership import (
    Ask,
    Connect,
    Contact,
    Dropped,
    MembershipLimits,
    OverlayMembership,
    Spread,
    Step,
)
from maia.routing.overlay.table import LEAF_SIZE, NodeId, closeness

SECOND = 1_000_000
STEPS_MAX = 2_000_000


def contact(number: int) -> Contact:
    """Return a broker of a test: the same number is the same broker."""
    return Contact.of(sha256(b"broker %d" % number).digest(), f"10.0.0.1:{number}")


def id_of(number: int) -> NodeId:
    """Return the id of a broker of a test."""
    return contact(number).node


class Ring:
    """Some brokers of a test and the links between them."""

    def __init__(self, seed: int = 0, *, leaf_size: int = LEAF_SIZE, limits: MembershipLimits | None = None):
        self.now = 0
        self.nodes: dict[NodeId, OverlayMembership] = {}
        self.links: set[frozenset[NodeId]] = set()
        self.sent: list[Step] = []
        self._listening: dict[str, NodeId] = {}
        self._sides: dict[NodeId, int] = {}
        self._random = random.Random(seed)  # noqa: S311 - test cases, not secrets
        self._todo: list[tuple[NodeId, Step]] = []
        self._leaf_size = leaf_size
        self._limits = limits

    # ------------------------------------------------------------ what a test does

    def add(self, number: int, seeds: Iterable[int] = ()) -> OverlayMembership:
        """Start a broker that knows the addresses of some others."""
        own = contact(number)
        node = OverlayMembership(
            own,
            seeds=[contact(seed).address for seed in seeds],
            leaf_size=self._leaf_size,
            limits=self._limits,
        )
        self.nodes[own.node] = node
        self._listening[own.address] = own.node
        self._push(own.node, node.start(self.now))
        return node

    def crash(self, node: NodeId) -> None:
        """Stop a broker: everybody linked with it sees the link break."""
        gone = self.nodes.pop(node)
        del self._listening[gone.own.address]
        self._todo = [(who, step) for who, step in self._todo if who != node]
        for link in [link for link in self.links if node in link]:
            self._break(link)

    def leave(self, node: NodeId) -> None:
        """Let a broker say goodbye before it stops."""
        self._push(node, self.nodes[node].leave())
        self.settle()
        self.crash(node)

    def split(self, sides: dict[NodeId, int]) -> None:
        """Break every link between different sides, and let no new one open."""
        self._sides = sides
        for link in list(self.links):
            one, other = link
            if self._are_apart(one, other):
                self._break(link)

    def heal(self) -> None:
        """Let links open everywhere again."""
        self._sides = {}

    def settle(self) -> None:
        """Carry out all steps until nobody has one left."""
        for _ in range(STEPS_MAX):
            if not self._todo:
                return
            place = self._random.randrange(len(self._todo))
            self._todo[place], self._todo[-1] = self._todo[-1], self._todo[place]
            self._carry_out(*self._todo.pop())
        raise AssertionError("the nodes never come to rest")

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with a tick for everybody at each moment that somebody asked for."""
        end = self.now + int(seconds * SECOND)
        while True:
            self.settle()
            wanted = [at for node in self.nodes.values() if (at := node.wake_at(self.now)) is not None]
            following = min(wanted, default=end + 1)
            if following > end:
                self.now = end
                return
            self.now = max(self.now, following)
            for own, node in list(self.nodes.items()):
                if (at := node.wake_at(self.now - 1)) is not None and at <= self.now:
                    self._push(own, node.tick(self.now))

    # ------------------------------------------------------------ what a test looks at

    def true_leaves(self, node: NodeId) -> set[NodeId]:
        """Return what the leaf set of a node ought to be."""
        ring = sorted(self.nodes)
        place, reach = ring.index(node), min(self._leaf_size // 2, len(ring) - 1)
        return {ring[(place + step) % len(ring)] for step in range(-reach, reach + 1)} - {node}

    def wrong_leaf_sets(self) -> dict[NodeId, set[NodeId]]:
        """Return, for each node whose leaf set is not right, the difference."""
        found = {own: set(node.overlay.leaf_set) ^ self.true_leaves(own) for own, node in self.nodes.items()}
        return {own: difference for own, difference in found.items() if difference}

    def route(self, start: NodeId, target: NodeId) -> list[NodeId]:
        """Follow the next hops from a node towards a target."""
        path = [start]
        while (hop := self.nodes[path[-1]].overlay.next_hop(target)) is not None:
            assert closeness(hop, target) < closeness(path[-1], target)
            assert self._are_linked(path[-1], hop), "a node is kept as long as its link"
            path.append(hop)
        return path

    def closest(self, target: NodeId) -> NodeId:
        """Return the node where routes to this target ought to end."""
        return min(self.nodes, key=lambda node: closeness(node, target))

    # ------------------------------------------------------------ the wires

    def _push(self, own: NodeId, steps: Iterable[Step]) -> None:
        for step in steps:
            self.sent.append(step)
            self._todo.append((own, step))

    def _carry_out(self, own: NodeId, step: Step) -> None:
        match step:
            case Connect(address):
                self._open(own, address)
            case Ask(node, target, number):
                if self._are_linked(own, node):
                    answer = self.nodes[node].answer(target)
                    self._push(own, self.nodes[own].reply(node, number, answer, self.now))
            case Spread(to, about, alive):
                if self._are_linked(own, to):
                    self._push(to, self.nodes[to].heard(own, about, alive, self.now))
            case Dropped(_):
                pass

    def _open(self, own: NodeId, address: str) -> None:
        other = self._listening.get(address)
        node = self.nodes[own]
        if other is None or self._are_apart(own, other):
            self._push(own, node.dial_failed(address, self.now))
            return
        if own != other:
            self.links.add(frozenset((own, other)))
            self._push(other, self.nodes[other].confirmed(node.own, self.now))
        self._push(own, node.confirmed(self.nodes[other].own, self.now, dialled=address))

    def _break(self, link: frozenset[NodeId]) -> None:
        self.links.discard(link)
        one, other = sorted(link)
        for own, gone in ((one, other), (other, one)):
            if own in self.nodes:
                self._push(own, self.nodes[own].lost(gone, self.now))

    def _are_linked(self, one: NodeId, other: NodeId) -> bool:
        return frozenset((one, other)) in self.links

    def _are_apart(self, one: NodeId, other: NodeId) -> bool:
        return self._sides.get(one, 0) != self._sides.get(other, 0)
