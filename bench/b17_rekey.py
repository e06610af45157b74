"""What does it cost to put one member out of a key group, or to take one in?

Ours is the tree that key groups use, LKH with one-way steps. Its peers are
the papers' tree (OFT), which two people can break together, and a manager
without a tree, which sends the new secret to every member. Bytes are those of
the one broadcast, or of all that is sent; time is the manager's, per change.
Members on both sides end with the same secret, or the benchmark fails.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean

from cryptography.hazmat.primitives.ciphers.aead import AESCCM

from harness import Benchmark, Case, Figure, Race, Ratio, Side, at_least, at_most

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from reference.tree_store import Scheme, Tree, member_from_bytes, new_tree

GROUP = bytes(range(32)) + b"/numberplate"
SIZES = (16, 256, 4_096, 65_536)
BUDGET_US = 100
STRIDE = 40_503  # odd, so that it visits every member of a group whose size is a power of two
CHANGES = 64
WRAPPED = 32 + 16


class Unicasts:
    """A manager without a tree: whoever stays is sent the new secret under a key of its own."""

    def __init__(self, members: list[bytes]) -> None:
        self.keys = {member: os.urandom(32) for member in members}

    def leave(self, member: bytes) -> list[bytes]:
        del self.keys[member]
        return self._sent(member)

    def join(self, member: bytes) -> list[bytes]:
        self.keys[member] = os.urandom(32)
        return self._sent(member)

    def _sent(self, about: bytes) -> list[bytes]:
        secret, nonce = os.urandom(32), os.urandom(12)
        bound_to = GROUP + about
        # CCM because each key wraps one secret, and its keys take the least to set up; the trees use it too.
        return [AESCCM(key).encrypt(nonce, secret, bound_to) for key in self.keys.values()]


def people(count: int) -> list[bytes]:
    """Return members named like principals, by 32 bytes."""
    return [number.to_bytes(32, "big") for number in range(count)]


def founded(scheme: Scheme, members: list[bytes]) -> Tree:
    """Return a full tree in which somebody follows one leave and one join."""
    tree = new_tree(group=GROUP, random=os.urandom, scheme=scheme)
    tree.rekey(joins=members)
    witness = member_from_bytes(tree.path(members[0]).to_bytes(), group=GROUP)
    for rekeyed in (tree.leave(members[-1]), tree.join(members[-1])):
        assert witness.apply(rekeyed.broadcast) == rekeyed.secret
    return tree


def sizes_of(tree: Tree, members: list[bytes]) -> tuple[float, float]:
    """Return the mean bytes of a leave and of a join, over members all over the tree."""
    leaves, joins = [], []
    for turn in range(CHANGES):
        member = members[turn * STRIDE % len(members)]
        leaves.append(len(tree.leave(member).broadcast))
        joins.append(len(tree.join(member).broadcast))
    return mean(leaves), mean(joins)


def changing(manager: Tree | Unicasts, members: list[bytes]) -> Callable[[], None]:
    """Return one leave and one join, of another member every time."""
    turn = 0

    def change() -> None:
        nonlocal turn
        turn += STRIDE
        member = members[turn % len(members)]
        manager.leave(member)
        manager.join(member)

    return change


def microseconds(change: Callable[[], None], rounds: int) -> list[float]:
    """Return what one leave or join takes, round by round."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter_ns()
        for _ in range(CHANGES):
            change()
        taken.append((time.perf_counter_ns() - started) / 1e3 / (2 * CHANGES))
    return taken


def cases(quick: bool) -> Iterator[Case]:
    """Yield bytes and time against both peers for each size, and the time of the largest by itself."""
    for size in SIZES[:2] if quick else SIZES:
        members = people(size)
        ours, oft = founded(Scheme.LKH, members), founded(Scheme.OFT, members)
        yield from sized(size, sizes_of(ours, members), sizes_of(oft, members))
        tree = Side(run=changing(ours, members), operations=2)
        yield Race(
            f"time of a change, n = {size}, against OFT",
            ours=tree,
            peer=Side(run=changing(oft, members), operations=2),
            ratio=Ratio.OURS_OVER_PEER,
            target=at_most(1.0),
        )
        yield Race(
            f"time of a change, n = {size}, against n unicasts",
            ours=tree,
            peer=Side(run=changing(Unicasts(members), members), operations=2),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(size / 64),
        )
    taken = microseconds(changing(ours, members), rounds=3 if quick else 15)
    yield Figure(
        f"time of a change, n = {size}, against a budget of {BUDGET_US} µs",
        values=[one / BUDGET_US for one in taken],
        ours_us=taken,
        peer_us=[BUDGET_US],
        target=at_most(1.0),
    )


def sized(size: int, ours: tuple[float, float], oft: tuple[float, float]) -> Iterator[Case]:
    """Yield the bytes of a leave and a join beside those of the peers."""
    for change, own, theirs, heard_by in zip(("leave", "join"), ours, oft, (size - 1, size), strict=True):
        note = f"ours {own:.0f} bytes, OFT {theirs:.0f}, unicasts {heard_by * WRAPPED}"
        yield Figure(
            f"bytes of a {change}, n = {size}, against OFT", [own / theirs], target=at_most(2.0), note=note
        )
        yield Figure(
            f"bytes of a {change}, n = {size}, against n unicasts",
            [own / (heard_by * WRAPPED)],
            target=at_most(1.0),
            note=note,
        )


BENCH = Benchmark(
    number=17,
    name="rekey",
    about="bytes and manager's time to put a member out of a key group or take one in",
    cases=cases,
    stood="secrets sent for a tree of height h: OFT h, plain LKH 2h, OFT made safe by Ku and Chen h² + h",
    peer_lacks="OFT leaks to one who left and one who joined later; n unicasts grow with the group, "
    "and are counted without any head or address",
)
