"""Key groups, MAIA 7.6.1: what a change of members costs its key server, the network and each member.

The paper's protocol is the one-way function tree of Sherman and McGrew; ours is a
logical key hierarchy over the same binary tree (docs/decisions/key-groups.md). The paper
says that processing, communication and state grow with log n, "verified in our simulations",
and prints no numbers: these are ours, counted.
"""

from __future__ import annotations

import math
import statistics
from hashlib import blake2b
from itertools import count
from random import Random

from maia.sealing.tree.key_tree import KeyTree
from maia.sealing.tree.rekey import read_rekey
from paper_figures import Found, PaperFigure, prose, short, table, verdict
from plots import save, subplots

CHANGES = 32
NEAR = 0.1
"""How far a point may be from the line that goes up with log n."""
_KINDS = {
    "wrapped": "keys that the key server wraps",
    "bytes": "bytes of the broadcast",
    "held": "keys that a member holds",
}


def measure(quick: bool) -> Found:
    """Count what it takes that one member leaves and another comes, in groups of several sizes."""
    sizes = [1 << level for level in (range(4, 8, 2) if quick else range(4, 17, 2))]
    return {"points": [{"members": size, **_costs(size)} for size in sizes]}


def _costs(size: int) -> dict[str, float]:
    numbers = count()
    tree = KeyTree(
        group=b"a group",
        random=lambda length: blake2b(next(numbers).to_bytes(8, "big"), digest_size=length).digest(),
    )
    tree.rekey(joins=[b"%d" % number for number in range(size)])
    found: dict[str, list[float]] = {"wrapped": [], "bytes": [], "held": []}
    for number in Random("key trees").sample(range(size), min(CHANGES, size)):
        left = tree.rekey(leaves=[b"%d" % number])
        found["wrapped"].append(len(read_rekey(left.broadcast).entries))
        found["bytes"].append(len(left.broadcast))
        tree.rekey(joins=[b"%d" % number])
        found["held"].append(len(tree.path(b"%d" % number).secrets))
    return {what: statistics.mean(values) for what, values in found.items()}


def _line(found: Found, what: str) -> tuple[float, float]:
    """Return the line in log n through the points: what each doubling adds, and where it begins."""
    points = found["points"]
    fit = statistics.linear_regression(
        [math.log2(one["members"]) for one in points], [one[what] for one in points]
    )
    return fit.slope, fit.intercept


def farthest_off(found: Found) -> float:
    """Return how far the point that is farthest from its line is, as a share of the line."""
    off = []
    for what in _KINDS:
        slope, start = _line(found, what)
        lines = ((start + slope * math.log2(one["members"]), one[what]) for one in found["points"])
        off += [abs(counted / line - 1) for line, counted in lines]
    return max(off)


def draw(found: Found) -> None:
    """Draw each count against the members, whose axis is logarithmic: a line is log n."""
    figure, axes = subplots(1, len(_KINDS), size=(9, 3))
    members = [one["members"] for one in found["points"]]
    for axis, (what, title) in zip(axes, _KINDS.items(), strict=True):
        slope, start = _line(found, what)
        axis.semilogx(members, [one[what] for one in found["points"]], "o", markersize=4, label="counted")
        axis.semilogx(
            members,
            [start + slope * math.log2(n) for n in members],
            "k--",
            linewidth=0.8,
            label="a + b log n",
        )
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("members")
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    save(figure, "key-trees")


def describe(found: Found) -> list[str]:
    """Return the counts, what each doubling adds, and whether they lie on lines."""
    rows = [[f"{one['members']:,}", *(float(one[what]) for what in _KINDS)] for one in found["points"]]
    *most, last = (short(_line(found, what)[0]) for what in _KINDS)
    off = farthest_off(found)
    return [
        *table(
            [
                "members",
                *(f"{title}, a member leaves" if what != "held" else title for what, title in _KINDS.items()),
            ],
            rows,
        ),
        *prose(
            "The paper has verified in simulations that its one-way function tree needs processing, traffic",
            "and state that grow with log n, and prints no numbers. Ours is a logical key hierarchy over the",
            f"same binary tree. {verdict(off <= NEAR)} each doubling of the group adds {', '.join(most)} and",
            f"{last} to these columns, and no point is farther than {100 * off:.1f} % from a line in log n.",
            f"All of it is counted; averages over {CHANGES} members.",
        ),
    ]


FIGURES = (
    PaperFigure("key-trees", "Key groups: what a change costs", "MAIA 7.6.1", measure, draw, describe),
)
