"""How much simulated time passes in a second of ours, and how many seeds in a night?

Twenty brokers in one process, each linked to all others, with the usual lease
of a minute: first alone, then with two cameras and six offices that renew,
publish and receive. Everything that runs in production runs here, signatures
included; only sockets, disks and waiting are left out. One seed of the night
is what a test tries: nine brokers, eight clients, three minutes of trouble,
repair, and a check of every delivery.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import Benchmark, Case, Figure, at_least
from maia.testing.simulation import Trouble, Troublemaker

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.city import City

NIGHT_S = 8 * 3600
CORES = 2
LEASE_S = 60
WARM_UP_S = 300


def ratio(run: Callable[[], float]) -> float:
    """Return simulated seconds for each second on the wall."""
    started = time.perf_counter()
    simulated = run()
    return simulated / (time.perf_counter() - started)


def idle(city: City, seconds: float) -> float:
    """Let time pass."""
    city.network.run_for(seconds)
    return seconds


def busy(city: City, seconds: float) -> float:
    """Let each camera publish five events every ten seconds."""
    for _ in range(int(seconds / 10)):
        for camera in city.cameras:
            city.sees(camera, 5)
        city.network.run_for(10)
    return seconds


def one_seed(seed: int, brokers: int = 9) -> float:
    """Live through trouble, repair and a probe; return how long that took on the wall."""
    started = time.perf_counter()
    city = City(seed, brokers=brokers)
    city.populate()
    city.settle()
    maker = Troublemaker(city.network, city.brokers, Trouble())
    maker.begin()
    busy(city, 180)
    maker.end()
    city.network.run_for(120)
    city.settle()
    city.probe()
    return time.perf_counter() - started


def cases(quick: bool) -> Iterator[Case]:
    """Yield both ratios for twenty brokers, and the seeds of a night."""
    brokers, seconds, rounds = (4, 60, 1) if quick else (20, 600, 5)
    alone = City(1, brokers=brokers, lease_s=LEASE_S)
    alone.network.run_for(WARM_UP_S)
    values = [ratio(lambda: idle(alone, seconds)) for _ in range(rounds)]
    yield Figure("simulated s / wall s, 20 brokers alone", values=values, target=at_least(1000))
    city = City(1, brokers=brokers, lease_s=LEASE_S)
    city.populate()
    city.network.run_for(WARM_UP_S)
    values = [ratio(lambda: busy(city, seconds)) for _ in range(rounds)]
    assert all(office.seen for office in city.offices)
    yield Figure("simulated s / wall s, 20 brokers, 8 clients", values=values, target=at_least(1000))
    nights = [CORES * NIGHT_S / one_seed(seed) for seed in range(1 if quick else 5)]
    yield Figure("seeds in a night of 8 h on 2 cores, 9 brokers", values=nights, target=at_least(100_000))


BENCH = Benchmark(
    number=23,
    name="simulator",
    about="simulated seconds for each second on the wall, and seeds in a night",
    cases=cases,
    stood="days per minute (VOPR, in Zig, with a state machine made for it)",
    peer_lacks="the peer is the wall clock",
)
