"""How much more does a broker of two processes carry than one of one, over two types?

Each type has a publisher and a subscriber, and its process by its id. What a
process can carry is bound by its processor time, so the first case compares
events for each second of the busiest process, which any machine can measure.
The second one compares events a second on the clock: both processes, and
clients that keep them busy, need cores of their own for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Benchmark, Case, Figure, NotMeasured, Race, Ratio, Side, at_least
from live_network import (
    ATTRIBUTES,
    BrokerProcess,
    Line,
    MaiaConnection,
    World,
    broker_process,
    maia_line,
    new_world,
)
from maia.clock import system_now
from maia.credentials import FIRST_VERSION, Action, TypeName
from maia.predicates import ALWAYS
from maia.types import TypeDefinition, definition_to_bytes, sign_definition, verify_definition
from maia.wire.messages import Accepted, ServedElsewhere

TARGET = 1.8
CORES = 4
CASE = "two types, 1 to 1 in frames of 256: --processes 2 over 1"


def cases(quick: bool) -> Iterator[Case]:
    """Yield two processes against one, by the time of the busiest process and by the clock."""
    total = 4_096 if quick else 102_400
    worlds = _worlds()
    with _lines(worlds, processes=1) as (one, alone), _lines(worlds, processes=2) as (two, together):
        single, several = _busiest_s(one, alone, total), _busiest_s(two, together, total)
        note = (
            f"{2 * total / single:,.0f} and {2 * total / several:,.0f} events a second of the busiest process"
        )
        yield Figure(f"{CASE}, by processor time", [single / several], at_least(TARGET), note=note)
        cores = os.cpu_count() or 1
        if cores < CORES:
            why = f"{cores} cores for two processes and their clients; it takes {CORES}"
            yield NotMeasured(f"{CASE}, by the clock", why, at_least(TARGET))
            return
        yield Race(
            f"{CASE}, by the clock",
            ours=_side(together, total),
            peer=_side(alone, total),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(TARGET),
        )


def _worlds() -> list[World]:
    """Return one network with a type for each of two processes."""
    world, found = new_world(), dict[int, World]()
    for number in range(64):
        name = TypeName(world.owner.principal, f"uk.gov.pito.Sighting{number}", FIRST_VERSION)
        signed = sign_definition(TypeDefinition(name, None, ATTRIBUTES), world.owner)
        event_type = verify_definition(signed, at=system_now())
        process = int.from_bytes(event_type.type_id[:8], "big") % 2
        found.setdefault(
            process, replace(world, event_type=event_type, definition=definition_to_bytes(signed))
        )
    return [found[0], found[1]]


@contextmanager
def _lines(worlds: list[World], *, processes: int) -> Iterator[tuple[BrokerProcess, list[Line]]]:
    with ExitStack() as stack:
        data = stack.enter_context(TemporaryDirectory(prefix="maia-bench-"))
        settings = {"data": data, "processes": processes}
        broker = stack.enter_context(broker_process(worlds[0], f"broker {processes}", **settings))
        serving = [broker if processes == 1 else _serving(world, broker) for world in worlds]
        yield broker, [stack.enter_context(maia_line(*one)) for one in zip(worlds, serving, strict=True)]


def _serving(world: World, broker: BrokerProcess) -> BrokerProcess:
    """Ask behind the shared address, until a process that does not serve a type says which does."""
    key = world.key("publisher")
    rights = [world.connect_right(key.principal), world.type_right(key.principal, Action.PUBLISH)]
    for _ in range(256):
        with closing(MaiaConnection(world, broker, key, rights)) as connection:
            connection.say(connection.request(Action.PUBLISH, ALWAYS))
            answer = connection.wait_for(Accepted | ServedElsewhere)  # type: ignore[arg-type]  # either kind
        if isinstance(answer, ServedElsewhere):
            return replace(broker, address=answer.address)
    raise AssertionError("one process accepts all connections")


def _busiest_s(broker: BrokerProcess, lines: list[Line], total: int) -> float:
    """Return the processor time that the busiest process of a broker takes to carry so many of each type."""
    for line in lines:
        line.carry(total // 4)
    before = _processor_s(broker.pid)
    for line in lines:
        line.carry(total)
    after = _processor_s(broker.pid)
    return max(after[one] - before.get(one, 0.0) for one in after)


def _processor_s(parent: int) -> dict[int, float]:
    """Return the processor time of a process and of those that it started."""
    found: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            if parent in (int(folder.name), int(fields[1])):
                found[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def _side(lines: list[Line], total: int) -> Side:
    def carry() -> None:
        with ThreadPoolExecutor(len(lines)) as pool:
            list(pool.map(lambda line: line.carry(total), lines))

    return Side(run=carry, operations=len(lines) * total, calls=1)


BENCH = Benchmark(
    number=40,
    name="processes",
    about="events of two types through `maia broker --processes 2`, over those through one process",
    cases=cases,
    stood="one process",
    peer_lacks="the peer is our own broker of one process",
)
