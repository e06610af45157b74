"""Do 500 real brokers route as arrays of their ids say, and how many seeds of 50 are tried in a night?

Figure 7.10 with real broker states in the simulator: frames between brokers
are counted, and compared with what `hop_counting.py` counts for the same ids,
tables, publisher, groups and types. One seed of the night is what benchmark 23 tries,
with 50 brokers: three minutes of trouble, repair, and a check of every
delivery. A few seeds are measured, in processor time, and the night is
extrapolated from them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import figure_7_10
from b23_simulator import CORES, NIGHT_S, one_seed
from harness import Benchmark, Case, Figure, at_least, at_most

SEEDS, SEED_BROKERS = 2, 50


def cases(quick: bool) -> Iterator[Case]:
    """Yield both curves of figure 7.10 against arrays, then the seeds of a night."""
    found = figure_7_10.measure(quick)
    per_broker = found["messages_to_settle"] / found["brokers"]
    settled = f"settled in {found['settled_s']:g} simulated s, {per_broker:,.0f} messages a broker"
    for way, what in (("one", "one event"), ("emulated", "an event for each group")):
        parts = [
            real / counted
            for groups, real, counted in zip(
                found["groups"], found["real"][way], found["own_tables"][way], strict=True
            )
            if groups >= 3
        ]
        target = at_least(1 - figure_7_10.WITHIN) if np.median(parts) < 1 else at_most(1 + figure_7_10.WITHIN)
        yield Figure(
            f"{found['brokers']} real brokers, {what} to 3 to {found['groups'][-1]} groups: hops / on arrays",
            values=parts,
            target=target,
            note=settled,
        )
    brokers = 5 if quick else SEED_BROKERS
    nights = [CORES * NIGHT_S / _took_s(seed, brokers) for seed in range(1 if quick else SEEDS)]
    yield Figure(
        f"seeds of {SEED_BROKERS} brokers in a night of 8 h on 2 cores, extrapolated from {SEEDS}",
        values=nights,
        target=at_least(1_000),
    )


def _took_s(seed: int, brokers: int) -> float:
    started = time.process_time()
    one_seed(seed, brokers)
    return time.process_time() - started


BENCH = Benchmark(
    number=43,
    name="brokers",
    about="500 real brokers in the simulator: hops against counting on arrays, and seeds of 50 in a night",
    cases=cases,
    stood="80 brokers",
    peer_lacks="arrays have ids and tables, and neither rights, leases nor messages",
)
