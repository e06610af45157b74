"""How many hops do publications take through a network that nobody has to run?

Thousands of brokers are an array here: their ids, and the nodes that each of
them would keep once it has met everybody. Ids are cut to their upper 64 bits,
which no network of this size can tell apart. `tests/differential` compares
every next hop with the overlay's own answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]
Places = NDArray[np.int64]

LEAF_SIZE = 16
BITS = 64
DIGIT_BITS = 4
LEVELS = BITS // DIGIT_BITS
HOPS_MAX = 200
ONE = np.uint64(1)
FARTHEST = np.uint64(2**BITS - 1)
POWERS = np.array([1 << (DIGIT_BITS * level) for level in range(LEVELS)], dtype=np.uint64)


class Network(Protocol):
    """Brokers in ring order; a broker is its place in that order."""

    ids: Ids

    def next_hops(self, at: Places, targets: Ids) -> Places:
        """Return the next hop from each place to its target, or the place itself at the end."""


def random_ids(count: int, random: np.random.Generator) -> Ids:
    """Return the ids of so many brokers, in ring order."""
    return np.sort(random.integers(0, 2**BITS, size=count, dtype=np.uint64))


def distances(one: Ids, other: Ids) -> Ids:
    """Return the distances along the ring, the short way round."""
    around = one - other  # unsigned arithmetic wraps as the ring does
    return np.minimum(around, np.uint64(0) - around)


def leaves(count: int, leaf_size: int = LEAF_SIZE) -> Places:
    """Return the leaf set of every broker, nearest predecessors and successors."""
    steps = [step for step in range(-leaf_size // 2, leaf_size // 2 + 1) if step]
    return (np.arange(count)[:, None] + np.array(steps)) % count


# ---------------------------------------------------------------- tables


def _tables(ids: Ids, slots: Callable[[np.uint64, Ids], Ids], random: np.random.Generator) -> Places:
    """Return, for every node, itself, its leaves and a random node of each slot; itself fills the rows.

    The nodes of one slot stand side by side on the ring, so a slot is a run in ring order.
    """
    count = len(ids)
    twice, rows = np.concatenate([ids, ids]), []
    for own in range(count):
        names = slots(ids[own], twice[own + 1 : own + count])
        starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
        lengths = np.diff(np.append(starts, count - 1))
        rows.append((own + 1 + starts + (random.random(len(starts)) * lengths).astype(np.int64)) % count)
    near = leaves(count)
    return filled([np.unique(np.append(row, near[own])) for own, row in enumerate(rows)])


def filled(rows: Sequence[Places]) -> Places:
    """Return what every node keeps as rows of one length, each filled with the node itself."""
    width = max(len(row) for row in rows) + 1
    return np.array([np.pad(row, (0, width - len(row)), constant_values=own) for own, row in enumerate(rows)])


def kept_sizes(kept: Places) -> NDArray[np.int64]:
    """Return how many other nodes each node keeps."""
    return (kept != np.arange(len(kept))[:, None]).sum(axis=1)


def our_slots(own: np.uint64, others: Ids) -> Ids:
    """Name the prefix that each node stands for, as `maia.routing.overlay.table.slot_of` does."""
    level = np.searchsorted(POWERS, distances(others, own), side="right").astype(np.uint64) - ONE
    # The level stands above the prefix in one number: a prefix of level 0 has no room for it, and
    # needs none, because two nodes so close together are the same broker.
    return (others >> (np.uint64(DIGIT_BITS) * level)) ^ (level << np.uint64(BITS - DIGIT_BITS))


def pastry_slots(own: np.uint64, others: Ids) -> Ids:
    """Name row and digit of each node in Pastry's table: the first digit that differs decides."""
    level = np.searchsorted(POWERS, others ^ own, side="right").astype(np.uint64) - ONE
    return (others >> (np.uint64(DIGIT_BITS) * level)) ^ (level << np.uint64(BITS - DIGIT_BITS))


class OurNetwork:
    """Every broker keeps its leaves and one node for each prefix around it, as our overlay does.

    Which node stands for a prefix is drawn, unless tables of other brokers are given.
    """

    def __init__(self, ids: Ids, random: np.random.Generator, kept: Places | None = None) -> None:
        self.ids = ids
        self.kept = _tables(ids, our_slots, random) if kept is None else kept
        self._kept_ids = ids[self.kept]

    def next_hops(self, at: Places, targets: Ids) -> Places:
        """Return the kept node closest to each target, or the node itself if it is closer still."""
        away = distances(self._kept_ids[at], targets[:, None])
        return self.kept[at, away.argmin(axis=1)]


class PastryNetwork:
    """Every broker keeps what Pastry keeps, and chooses as Pastry chooses."""

    def __init__(self, ids: Ids, random: np.random.Generator) -> None:
        self.ids = ids
        self.kept = _tables(ids, pastry_slots, random)
        self._kept_ids = ids[self.kept]
        self._leaves = leaves(len(ids))

    def next_hops(self, at: Places, targets: Ids) -> Places:
        """Choose the closest leaf within the leaf set, else a longer prefix, else one as long and closer."""
        first = self.ids[self._leaves[at, 0]]
        within = targets - first <= self.ids[self._leaves[at, -1]] - first
        away = distances(self._kept_ids[at], targets[:, None])
        differs = np.searchsorted(POWERS, self._kept_ids[at] ^ targets[:, None], side="right")
        best = differs.min(axis=1)
        by_prefix = np.where(differs == best[:, None], away, FARTHEST).argmin(axis=1)
        return self.kept[at, np.where(within, away.argmin(axis=1), by_prefix)]


# ---------------------------------------------------------------- routes


def routes(network: Network, starts: Places, targets: Ids) -> Places:
    """Return one row for each route: the places it visits, the last one repeated."""
    rows, moving = [starts], np.arange(len(starts))
    for _ in range(HOPS_MAX):
        following = rows[-1].copy()
        following[moving] = network.next_hops(rows[-1][moving], targets[moving])
        moving = np.flatnonzero(following != rows[-1])
        if not len(moving):
            return np.stack(rows, axis=1)
        rows.append(following)
    raise AssertionError("a route does not end")


def hops(paths: Places) -> NDArray[np.int64]:
    """Return the length of each route."""
    return (paths[:, 1:] != paths[:, :-1]).sum(axis=1)


# ---------------------------------------------------------------- figure 7.10


@dataclass(frozen=True, slots=True)
class Counted:
    """Hops for 1, 2, … subscriber groups, in one network with one publisher."""

    one_event: NDArray[np.float64]
    """One event with attribute encryption, to all groups; the average over many types."""
    one_event_near: NDArray[np.float64]
    """The same, over the types whose rendezvous node is at most two hops from the publisher."""
    own_event_each: NDArray[np.float64]
    """One event for each group, of a type of its own, that reaches this group alone."""
    every_event_to_all: NDArray[np.float64]
    """One event for each group, each of a type of its own, and all of them reach all groups."""


def count_hops(network: Network, groups: int, random: np.random.Generator) -> Counted:
    """Attach a publisher and `groups` subscribers to different brokers, and count.

    A publication travels along the advertisement to the rendezvous node of its type, and back along
    each subscription: one hop for each link of the tree that these paths form.
    """
    clients = random.choice(len(network.ids), size=groups + 1, replace=False)
    types = random.integers(0, 2**BITS, size=groups + 1, dtype=np.uint64)
    by_type = _paths_by_type(network, clients, types)
    # trees[t, n]: links of the tree of type t with n groups, in the order of the groups.
    trees = np.array([_links_of_growing_tree(of_type) for of_type in by_type])
    near = trees[trees[:, 0] <= 2] if (trees[:, 0] <= 2).any() else np.full_like(trees, np.nan)
    alone = [_links_of_growing_tree(by_type[n][[0, n]])[1] for n in range(1, groups + 1)]
    to_all = [trees[1 : n + 1, n].sum() for n in range(1, groups + 1)]
    return Counted(trees.mean(axis=0)[1:], near.mean(axis=0)[1:], np.cumsum(alone), np.array(to_all))


def count_at(
    network: Network, clients: Places, types: Ids
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count for a publisher, which is the first of these places, and groups at the others, of these types.

    Return the hops of one event to the first 1, 2, … groups, on average over the types; and those of an
    event for each of these groups, each of the next type, all of which reach all of the groups.
    """
    trees = np.array([_links_of_growing_tree(one) for one in _paths_by_type(network, clients, types)])
    groups = range(1, len(clients))
    return trees.mean(axis=0)[1:], np.array([trees[1 : n + 1, n].sum() for n in groups])


def _paths_by_type(network: Network, clients: Places, types: Ids) -> NDArray[np.int64]:
    paths = routes(network, np.tile(clients, len(types)), np.repeat(types, len(clients)))
    return paths.reshape(len(types), len(clients), -1)


def _links_of_growing_tree(paths: Places) -> NDArray[np.float64]:
    """Return how many links the first, the first two, … of these paths to one root have in all.

    The next hop to a type is the same whoever asks, so every node but the root has one link upwards.
    """
    root, seen, links = int(paths[0, -1]), set[int](), []
    for path in paths.tolist():
        seen.update(path)
        links.append(len(seen - {root}))
    return np.array(links, dtype=np.float64)
