"""Figure 7.10 of the dissertation: how many hops does attribute encryption save? Counted with real brokers.

One publisher and 1 to 50 subscriber groups at different brokers. With attribute
encryption one event serves all groups; without it the publisher needs one event,
of a type of its own, for each group. The printed averages say that each of
those travelled to all groups. The paper has 2,000 brokers: benchmark 8 counts
those on arrays (`hop_counting.py`). Here are 500 real ones in the simulator,
frame by frame, beside arrays of the same ids: with the tables that these
brokers have made, and with tables whose nodes are drawn among those that fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

import numpy as np

from b08_hops import PAPER
from b08_hops import WITHIN as NEAR_PRINT
from hop_counting import OurNetwork, count_at, filled, hops, routes
from maia.client.entries import Advertised, Subscribed
from maia.credentials import Action
from maia.routing.overlay.table import NODE_BITS, node_id_of_type
from paper_figures import Found, PaperFigure, prose, short, table, verdict
from performance_page import Kept
from plots import save, subplots
from real_brokers import RealBrokers

BROKERS: Final = 500
PAPER_BROKERS: Final = 2_000
GROUPS: Final = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50)
WITHIN: Final = 0.05
_CUT: Final = NODE_BITS - 64
_NO_CHANCE: Final = np.random.default_rng(0)
"""Tables are given, and nothing is drawn."""


@cache
def brokers(number: int) -> RealBrokers:
    """Return so many brokers that have found each other; they are made once in a run."""
    return RealBrokers(number)


def measure(quick: bool) -> Found:
    """Count hops with real brokers, on arrays of the same ids, and on arrays of the paper's size."""
    number, groups, networks = (12, (1, 2, 3), 2) if quick else (BROKERS, GROUPS, 12)
    real = brokers(number)
    ids, clients, types, counted = count_real(real, groups)
    order = np.argsort(ids)
    place_of = np.argsort(order)
    places, tables = place_of[clients], real.kept()
    own = OurNetwork(ids[order], _NO_CHANCE, filled([np.sort(place_of[tables[one]]) for one in order]))
    drawn = [OurNetwork(ids[order], np.random.default_rng(seed)) for seed in range(networks)]
    on_arrays = [count_at(network, places, types) for network in drawn]
    return {
        "brokers": number,
        "groups": list(groups),
        "real": counted,
        "arrays": _averages(on_arrays, groups),
        "own_tables": _averages([count_at(own, places, types)], groups),
        "route": {
            "own": _route(own, places, types),
            "drawn": round(float(np.mean([_route(one, places, types) for one in drawn])), 3),
        },
        "settled_s": round(real.settled_s, 1),
        "messages_to_settle": real.messages_to_settle,
        "known": round(real.links, 1),
    }


def read(kept: Kept) -> Found:
    """Return what benchmark 8 has counted of the paper's size, which it keeps as parts of what is printed."""
    cases = ("hops, one event", "hops, emulated", "ratio /")
    parts = {number: [kept.ratio(8, f"{number} groups: {case}") for case in cases] for number in PAPER}
    return {
        "paper_size": {
            number: [parts[number][0] * one, parts[number][1] * emulated, parts[number][2] * emulated / one]
            for number, (one, emulated) in PAPER.items()
        }
    }


def count_real(
    real: RealBrokers, groups: Iterable[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, list[float]]]:
    """Count frames between real brokers; return ids and places too, so that arrays can count the same."""
    steps = sorted(groups)
    types = [real.new_type() for _ in range(steps[-1] + 1)]
    at = real.chance.sample(range(len(real.names)), steps[-1] + 1)
    publisher = real.client(real.names[at[0]], types, Action.PUBLISH)
    offers: list[Advertised] = [publisher.advertise(known) for known in types]
    real.settle(offers)
    one, emulated, joined = [], [], 0
    for groups_now in steps:
        entries: list[Subscribed] = []
        while joined < groups_now:
            joined += 1
            group = real.client(real.names[at[joined]], types, Action.SUBSCRIBE)
            entries += [group.subscribe(known) for known in types]
        real.settle(entries)
        real.tally.clear()
        for entry in offers:
            real.publish(publisher, entry)
        real.network.run_for(5)
        frames = [real.tally.frames[known.event_type.type_id] for known in types]
        one.append(sum(frames) / len(frames))
        emulated.append(sum(frames[1 : groups_now + 1]))
    points = [node_id_of_type(known.event_type.type_id) >> _CUT for known in types]
    ids = np.array([one_id >> _CUT for one_id in real.node_ids()], dtype=np.uint64)
    counted = {"one": [round(value, 2) for value in one], "emulated": [float(value) for value in emulated]}
    return ids, np.array(at), np.array(points, dtype=np.uint64), counted


def _route(network: OurNetwork, places: np.ndarray, types: np.ndarray) -> float:
    """Return how long the way of one client to one rendezvous node is, on average."""
    ways = routes(network, np.tile(places, len(types)), np.repeat(types, len(places)))
    return round(float(hops(ways).mean()), 3)


def _averages(counted: list[tuple[np.ndarray, np.ndarray]], groups: Iterable[int]) -> dict[str, list[float]]:
    one, emulated = (np.mean([pair[side] for pair in counted], axis=0) for side in (0, 1))
    at = [number - 1 for number in sorted(groups)]
    return {"one": one[at].round(2).tolist(), "emulated": emulated[at].round(1).tolist()}


def draw(found: Found) -> None:
    """Draw both curves as the paper does, with its printed numbers."""
    sheet, axes = subplots(size=(7, 4.5))
    size, paper_size = f"{found['brokers']:,}", f"{PAPER_BROKERS:,}"
    for way, colour, label in (("emulated", "C3", "an event for each group"), ("one", "C0", "one event")):
        at_paper_size = [hops[way == "emulated"] for hops in found["paper_size"].values()]
        axes.plot(list(PAPER), at_paper_size, f"{colour}D", label=f"{label}, {paper_size} on arrays")
        axes.plot(found["groups"], found["arrays"][way], f"{colour}:", label=f"{label}, {size} on arrays")
        axes.plot(
            found["groups"],
            found["real"][way],
            f"{colour}o",
            markersize=4,
            label=f"{label}, {size} real brokers",
        )
    printed = [(groups, value) for groups, values in PAPER.items() for value in values]
    axes.plot(
        *zip(*printed, strict=True), "kx", markersize=8, label=f"printed in the paper, {paper_size} brokers"
    )
    for groups, value in printed:
        axes.annotate(f"{value:g}", (groups, value), (5, -10), textcoords="offset points", fontsize=8)
    axes.set(yscale="log", xlabel="subscriber groups", ylabel="hops")
    axes.legend(fontsize=7)
    axes.set_title("Figure 7.10: hops with attribute encryption, and without", fontsize=9)
    save(sheet, "figure-7-10")


def describe(found: Found) -> list[str]:
    """Return the two printed points, and how far real brokers are from arrays."""
    rows: list[list[object]] = []
    sizes, apart = ("arrays", "own_tables", "real"), [0.0]
    for groups, printed in PAPER.items():
        if groups not in found["groups"]:
            continue
        at = found["groups"].index(groups)
        for side, way, label in ((0, "one", "one event"), (1, "emulated", "an event for each group")):
            counted = [float(found[size][way][at]) for size in sizes]
            large = found["paper_size"][groups][side]
            rows.append([f"{groups} groups, {label}", printed[side], large, *counted])
        ratios = [found[size]["emulated"][at] / found[size]["one"][at] for size in sizes]
        large = found["paper_size"][groups][2]
        apart.append(abs(large / (printed[1] / printed[0]) - 1))
        rows.append([f"{groups} groups, times", printed[1] / printed[0], large, *ratios])
    size, paper_size = f"{found['brokers']:,}", f"{PAPER_BROKERS:,}"
    own, drawn = farthest_off(found, "own_tables"), farthest_off(found, "arrays")
    route = found["route"]
    head = ["hops", f"paper, {paper_size}", f"arrays, {paper_size}", f"arrays, {size}",
            f"arrays, {size}, tables of the brokers", f"real brokers, {size}"]  # fmt: skip
    return [
        *table(head, rows),
        *prose(
            verdict(
                max(apart) <= NEAR_PRINT, "The claim, that one event saves as many times the hops as printed,"
            ),
            f"at the paper's size the times are up to {100 * max(apart):.0f} % from what is printed, where",
            f"we allow {100 * NEAR_PRINT:.0f} %. Fewer brokers are fewer hops, so it is compared there.",
        ),
        "",
        *prose(
            f"{verdict(own <= WITHIN, 'That real brokers carry what arrays count')} {size} real brokers,",
            f"which found each other in {found['settled_s']:g} simulated seconds and",
            f"{found['messages_to_settle']:,} messages and know {found['known']:g} others each, are up to",
            f"{100 * own:.1f} % from arrays that have their tables, from three groups on. They are up to",
            f"{100 * drawn:.1f} % from arrays whose tables are drawn among the nodes that fit: that is a",
            "difference of tables, and not of routing. Brokers keep the first node of a kind that they meet,",
            f"and many meet the same. A way to a rendezvous node has {short(route['own'])} hops in theirs",
            f"and {short(route['drawn'])} in drawn ones; ways of several clients join earlier, and a frame",
            "takes each common link once. The paper's tables are those of the FreePastry simulator, of which",
            "it says no more.",
        ),
    ]


def farthest_off(found: Found, counted: str) -> float:
    """Return by which part real brokers and these arrays differ most, from three groups on."""
    pairs = [
        (real, other)
        for way in ("one", "emulated")
        for groups, real, other in zip(found["groups"], found["real"][way], found[counted][way], strict=True)
        if groups >= 3
    ]
    return max(abs(real / other - 1) for real, other in pairs)


FIGURES = (
    PaperFigure("figure-7-10", "Figure 7.10: hops saved by attribute encryption", "MAIA 7.7.3", measure, draw,
                describe, read, (8,)),
)  # fmt: skip
