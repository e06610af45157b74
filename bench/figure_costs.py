"""The costs of MAIA'06, section 3.3: how many signatures are checked if every broker on the way checks?

The paper bounds what verification in transit adds by (c + 1)(p + 1) log n for a
subscription with a chain of c certificates towards p publishers among n
brokers, by (c + 1) log n for an advertisement, and by (c + 1)(s + 1) log n for
a publication to s subscribers. Here brokers are real, and every check of a
signature at a broker other than the client's own is counted: of chains that no
broker has seen, and of the next request of the same client.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import partial
from itertools import product

from figure_7_10 import BROKERS, brokers
from maia.client import KnownVersion
from maia.client.entries import Advertised
from maia.credentials import Action
from maia.events import AttributeUid
from maia.predicates import Comparison, Operator
from maia.testing.simulation import SimulatedClient
from paper_figures import Found, PaperFigure, prose, table, verdict
from plots import save, subplots
from real_brokers import RealBrokers

PLACEMENTS = 4
_AXES = {"chain": "chain", "publishers": "publishers", "network": "brokers"}
_VALUE = AttributeUid("value")


def measure(quick: bool) -> Found:
    """Count for several chains, publishers and sizes; each point is an average over placements."""
    sizes = (12,) if quick else (20, 100, BROKERS)
    chains, publishers, placements = ((1, 3), (1, 2), 1) if quick else ((1, 3, 5), (1, 2, 4), PLACEMENTS)
    points = [
        {
            "brokers": size,
            "chain": chain,
            "publishers": number,
            **_averages(brokers(size), chain, number, placements),
        }
        for size in sizes
        for chain, number in product(chains, publishers)
    ]
    return {"points": points}


def _averages(real: RealBrokers, chain: int, publishers: int, placements: int) -> dict[str, float]:
    runs = [_count(real, chain, publishers) for _ in range(placements)]
    return {what: round(statistics.mean(run[what] for run in runs), 2) for what in runs[0]}


def _count(real: RealBrokers, chain: int, publishers: int) -> dict[str, int]:
    known = real.new_type()
    homes = real.chance.sample(real.names, publishers + 1)
    clients = [real.client(home, [known], Action.PUBLISH, chain) for home in homes[1:]]
    subscriber = real.client(homes[0], [known], Action.SUBSCRIBE, chain)
    real.network.run_for(5)

    def checked(home: str, act: Callable[[], object]) -> list[int]:
        """Return how many signatures each broker checks for it that is not the client's own."""
        with real.counting_checks() as checks:
            act()
            return [count for name, count in checks.items() if name not in ("", home)]

    def subscribe(operator: Operator) -> None:
        real.settle([subscriber.subscribe(known, Comparison(_VALUE, operator, 0))])

    def publish() -> None:
        real.publish(clients[0], offers[0])
        real.network.run_for(3)

    offers: list[Advertised] = []
    offered = []
    for home, client in zip(homes[1:], clients, strict=True):
        act = partial(_advertise, real, client, known, offers)
        offered.append(sum(checked(home, act)))
    first, again = (checked(homes[0], partial(subscribe, one)) for one in (Operator.GE, Operator.LE))
    return {
        "advertisement": offered[0],
        "subscription": sum(first),
        "checked_at": len(first),
        "again": sum(again),
        "publication": sum(checked(homes[1], publish)),
    }


def _advertise(
    real: RealBrokers, client: SimulatedClient, known: KnownVersion, offers: list[Advertised]
) -> None:
    offers.append(client.advertise(known))
    real.settle(offers)


def bound(point: Found) -> float:
    """Return the paper's bound for a subscription; the overlay's logarithm is to the base of 16."""
    return (point["chain"] + 1) * (point["publishers"] + 1) * math.log(point["brokers"], 16)


def bound_of_advertisement(point: Found) -> float:
    """Return the paper's bound for an advertisement, which goes to the rendezvous alone."""
    return bound({**point, "publishers": 0})


def bound_of_publication(point: Found) -> float:
    """Return the paper's bound for a publication, here to one subscriber."""
    return bound({**point, "publishers": 1})


def _grows(points: list[Found], axis: str) -> bool:
    """Return whether the checks of a subscription, averaged over all else, grow along this axis."""
    values = sorted({point[axis] for point in points})
    means = [statistics.mean(one["subscription"] for one in points if one[axis] == value) for value in values]
    return means == sorted(means)


def draw(found: Found) -> None:
    """Draw what was counted over the paper's bound."""
    sheet, axes = subplots(size=(7, 4.5))
    points = found["points"]
    for number, size in enumerate(dict.fromkeys(point["brokers"] for point in points)):
        of_size = [point for point in points if point["brokers"] == size]
        bounds = [bound(point) for point in of_size]
        axes.plot(bounds, [one["subscription"] for one in of_size], f"C{number}o", markersize=4,
                  label=f"first subscription, {size} brokers")  # fmt: skip
        axes.plot(
            bounds, [one["again"] for one in of_size], f"C{number}+", label=f"the next one, {size} brokers"
        )
    most = max(map(bound, points))
    axes.plot([0, most], [0, most], "k--", linewidth=0.8, label="the paper's bound")
    axes.set_xlabel("(c + 1)(p + 1) log n")
    axes.set_ylabel("signatures checked on the way")
    axes.legend(fontsize=7)
    axes.set_title("MAIA'06 3.3: checks in transit for one subscription", fontsize=9)
    save(sheet, "costs-3-3")


def describe(found: Found) -> list[str]:
    """Return a row for each case."""
    rows = [
        [
            f"n = {point['brokers']}, c = {point['chain']}, p = {point['publishers']}",
            bound(point),
            float(point["subscription"]),
            float(point["checked_at"]),
            float(point["again"]),
            bound_of_advertisement(point),
            float(point["advertisement"]),
            bound_of_publication(point),
            float(point["publication"]),
        ]
        for point in found["points"]
    ]
    within = [point["subscription"] / bound(point) for point in found["points"]]
    over = sum(one > 1 for one in within)
    offered = [point["advertisement"] / bound_of_advertisement(point) for point in found["points"]]
    over_offered = sum(one > 1 for one in offered)
    flat = [name for name, axis in _AXES.items() if not _grows(found["points"], axis)]
    again = sum(one["again"] for one in found["points"]) / sum(one["checked_at"] for one in found["points"])
    published = sum(point["publication"] for point in found["points"])
    head = ["brokers, certificates, publishers", "bound", "first subscription", "at so many brokers",
            "the next one", "bound", "advertisement", "bound", "publication, to one"]  # fmt: skip
    return [
        *table(head, rows),
        *prose(
            f"Counted are {min(within):.2f} to {max(within):.2f} of the bound for a subscription whose",
            "chain no broker has seen: c + 1 at each broker on its way.",
            f"{verdict(max(within) <= 1, 'The bound, with a logarithm to the base of 16,')} {over} of",
            f"{len(within)} cases are above it; it is one of averages, over {PLACEMENTS} placements here.",
            f"For an advertisement, (c + 1) log n, it counts {min(offered):.2f} to {max(offered):.2f} of it:",
            f"{verdict(max(offered) <= 1, 'that bound')} {over_offered} of {len(offered)} are above it.",
            "The paper names no base: to the base of 2 all of them are below it.",
            f"{verdict(not flat, 'The form')} checks grow with the chain, with the publishers and with the",
            f"network{'' if not flat else ', except with the ' + ' and the '.join(flat)}. The next request",
            f"of the same client costs these brokers {again:.2f} signatures each: chains are remembered,",
            f"which the paper leaves out. Checks of a publication of a plain type on its way: {published:g},",
            "because its broker has decided; frames of signed and sealed types are checked where they are",
            "read.",
        ),
    ]


FIGURES = (
    PaperFigure("costs-3-3", "Checks in transit", "MAIA'06 3.3", measure, draw, describe),
)  # fmt: skip
