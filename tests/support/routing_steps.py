"""What may happen in a small network of routing books, drawn and done step by step."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from maia.predicates import Predicate
from support.routing import TYPES, SimulatedNetwork

ENTRIES = 10

Step = tuple[str, int, int, int, Predicate, int]
"""What, where, of which type, under which number, with which filter, and how much arrives after it."""

N = TypeVar("N", bound=SimulatedNetwork)


def steps(what: Sequence[str], filters: st.SearchStrategy[Predicate]) -> st.SearchStrategy[list[Step]]:
    """Draw what happens: what, where, which type, under which number, which filter, and what arrives."""
    step = st.tuples(
        st.sampled_from(what),
        st.integers(0, 5),
        st.integers(0, 1),
        st.integers(0, ENTRIES - 1),
        filters,
        st.integers(0, 12),
    )
    return st.lists(step, min_size=3, max_size=30)


def perform(network: SimulatedNetwork, brokers: int, step: Step) -> None:
    """Let one thing happen; what cannot happen now lets parents be chosen anew."""
    what, where, which, number, predicate, _ = step
    up = sorted(network.books)
    broker, type_id = up[where % len(up)], TYPES[which]
    match what:
        case "subscribe":
            network.subscribe(broker, type_id, number, predicate)
        case "unsubscribe":
            network.unsubscribe(broker, type_id, number)
        case "advertise":
            network.advertise(broker, type_id, number % 2)
        case "unadvertise":
            network.unadvertise(broker, type_id, number % 2)
        case "crash" if len(up) > 1:
            network.crash(broker)
        case "start" if len(up) < brokers:
            network.start(next(one for one in range(brokers) if one not in up))
        case "reconnect" if len(up) > 1:
            other = next(one for one in up if one != broker)
            network.cut(broker, other)
            network.deliver(number)
            network.connect(broker, other)
        case "keys":
            network.change_keys(broker)
        case _:
            network.choose_parents()


def run(kind: type[N], brokers: int, happens: list[Step], random: Random) -> N:
    """Let everything happen in a network of some kind, and some tells arrive after each step."""
    network = kind(brokers, random)
    for step in happens:
        perform(network, brokers, step)
        network.deliver(step[-1])
    return network
