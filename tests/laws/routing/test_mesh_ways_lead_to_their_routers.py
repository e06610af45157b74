"""A mesh of routers against flooding everything: who can be reached is reached, on one way without a loop.

The routers are the tables of `maia.routing.mesh`, with links that delay messages and break. The
reference floods: whatever part of the graph is connected gets everything.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from hashlib import sha256
from random import Random

import pytest

from maia.errors import BrokenCredential
from maia.routing.mesh.aggregates import (
    Announce,
    Ask,
    Content,
    Head,
    MeshLimits,
    Refused,
    Withdraw,
    digest_of_part,
    digest_of_parts,
)
from maia.routing.mesh.table import MeshTable
from maia.routing.overlay.table import node_id_of_key
from support.random_cases import usually

SECOND = 1_000_000
LIMITS = MeshLimits(lease_us=12 * SECOND, skew_us=3 * SECOND)


def reached_by_flooding(edges: set[frozenset[int]], start: int, up: set[int]) -> set[int]:
    """Send to everybody who is linked, and let them do the same."""
    reached, waiting = {start}, [start]
    while waiting:
        at = waiting.pop()
        for edge in edges:
            if at in edge:
                (other,) = edge - {at}
                if other in up and other not in reached:
                    reached.add(other)
                    waiting.append(other)
    return reached


class Mesh:
    """Some tables, and ordered links between them on which messages wait for chance."""

    def __init__(self, seed: int, routers: int) -> None:
        self.chance = Random(seed)  # noqa: S311 - repeatable is what we want here
        self.now = 1_000 * SECOND
        self.keys = [bytes([number]) * 32 for number in range(routers)]
        self.number_of = {node_id_of_key(key): number for number, key in enumerate(self.keys)}
        self.skew = [self.chance.randrange(-SECOND, SECOND) for _ in self.keys]
        self.edges: set[frozenset[int]] = set()
        self.queues: dict[tuple[int, int], deque[object]] = {}
        self.up = set(range(routers))
        self.refused: list[str] = []
        self.sent = 0
        self.tables = [self.table(number) for number in range(routers)]

    def table(self, number: int) -> MeshTable:
        def sign(head: Head) -> bytes:
            return sha256(repr(replace(head, signature=b"")).encode()).digest()

        def verify(head: Head) -> None:
            if head.signature != sign(head):
                raise BrokenCredential("CREDENTIAL-AGGREGATE", "not signed")

        return MeshTable(self.keys[number], sign=sign, verify=verify, limits=LIMITS)

    def clock(self, number: int) -> int:
        return self.now + self.skew[number]

    def do(self, number: int, steps: list[object]) -> None:
        for step in steps:
            if isinstance(step, Refused):
                self.refused.append(step.problem.code)
            elif isinstance(step, Announce | Withdraw | Ask | Content):
                other = self.number_of[step.hop]
                self.sent += 1
                self.queues[number, other].append(step)

    def link(self, one: int, other: int) -> None:
        self.edges.add(frozenset((one, other)))
        for here, there in ((one, other), (other, one)):
            self.queues[here, there] = deque()
        for here, there in ((one, other), (other, one)):
            self.do(here, self.tables[here].hop_up(node_id_of_key(self.keys[there])))

    def cut(self, one: int, other: int) -> None:
        self.edges.discard(frozenset((one, other)))
        for here, there in ((one, other), (other, one)):
            self.queues.pop((here, there), None)
        for here, there in ((one, other), (other, one)):
            self.do(here, self.tables[here].hop_gone(node_id_of_key(self.keys[there]), self.clock(here)))

    def crash(self, number: int) -> None:
        for edge in [edge for edge in self.edges if number in edge]:
            self.cut(*edge)
        self.up.discard(number)
        self.tables[number] = self.table(number)

    def deliver_one(self) -> bool:
        waiting = sorted(pair for pair, queue in self.queues.items() if queue)
        if not waiting:
            return False
        here, there = self.chance.choice(waiting)
        step, table, now = self.queues[here, there].popleft(), self.tables[there], self.clock(there)
        hop = node_id_of_key(self.keys[here])
        match step:
            case Announce(_, head):
                self.do(there, table.receive_head(hop, head, now))
            case Withdraw(_, origin, _):
                self.do(there, table.receive_withdrawal(hop, origin))
            case Ask(_, origin, have):
                self.do(there, table.receive_query(hop, origin, have, now))
            case Content():
                self.do(there, table.receive_content(hop, step, now))
        return True

    def run(self, seconds: float) -> None:
        """Let time pass; at each tenth of a second some of what waits arrives."""
        for _ in range(round(seconds * 10)):
            self.now += SECOND // 10
            for number in sorted(self.up):
                parts = {digest_of_part(part): part for part in (b"want of %d" % number, b"connect")}
                self.do(number, self.tables[number].tick(self.clock(number)))
                self.do(number, self.tables[number].publish(parts, self.clock(number)))
            steps = 0
            while steps < 5_000 and self.deliver_one():
                steps += 1
            assert steps < 5_000, "the routers keep each other busy"

    def walk(self, start: int, target: int) -> list[int]:
        """Follow the ways from one router to another."""
        path, came_from = [start], None
        while path[-1] != target:
            hops = self.tables[path[-1]].next_hops(self.keys[target], besides=came_from)
            if not hops or len(path) > len(self.keys):
                return []
            came_from = node_id_of_key(self.keys[path[-1]])
            path.append(self.number_of[hops[0]])
        return path


def cause_trouble(mesh: Mesh) -> None:
    """Break or make a link, or let a router crash or come back."""
    chance = mesh.chance
    match chance.choice(["cut", "link", "crash", "return"]):
        case "cut" if mesh.edges:
            mesh.cut(*chance.choice(sorted(map(sorted, mesh.edges))))
        case "link" if len(mesh.up) > 2:
            one, other = chance.sample(sorted(mesh.up), 2)
            if frozenset((one, other)) not in mesh.edges:
                mesh.link(one, other)
        case "crash" if len(mesh.up) > 4:
            mesh.crash(chance.choice(sorted(mesh.up)))
        case "return":
            for number in sorted(set(range(len(mesh.keys))) - mesh.up):
                mesh.up.add(number)
                for other in chance.sample(sorted(mesh.up - {number}), 2):
                    mesh.link(number, other)


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(usually(3, laws=8)))
def test_whoever_flooding_reaches_is_reached_on_one_way_and_nobody_else(seed: int) -> None:
    """B5: links break, routers crash and come back; within a lease, every way leads where it should."""
    mesh = Mesh(seed, routers := 10)
    chance = mesh.chance
    for number in range(1, routers):
        mesh.link(number, chance.randrange(number))
    for _ in range(8):
        one, other = chance.sample(range(routers), 2)
        if frozenset((one, other)) not in mesh.edges:
            mesh.link(one, other)
    mesh.run(3)
    for _ in range(6):
        cause_trouble(mesh)
        mesh.run(chance.random())
    mesh.run((LIMITS.lease_us + LIMITS.skew_us) / SECOND + 3)
    assert not mesh.refused
    for start in sorted(mesh.up):
        reached = reached_by_flooding(mesh.edges, start, mesh.up)
        for target in range(routers):
            if target != start:
                path = mesh.walk(start, target)
                assert bool(path) == (target in reached), f"{start} to {target}: {path}"
                assert len(set(path)) == len(path)


def test_without_a_router_its_neighbours_do_not_go_on_about_it() -> None:
    """A router that is gone costs each link two messages for each aggregate, and none once it is settled."""
    mesh = Mesh(1, 6)
    for one in range(6):
        for other in range(one):
            mesh.link(one, other)
    mesh.run(2)
    mesh.crash(0)
    mesh.run(0.3)
    before = mesh.sent
    while mesh.deliver_one():
        pass
    assert mesh.sent - before <= 2 * 5 * 4


def test_a_neighbour_that_invents_routers_takes_half_of_the_room_and_no_more() -> None:
    """A89: keys that proved nothing are forgotten, and leave room for those that others announce."""
    mesh = Mesh(1, 3)
    few = replace(LIMITS, origins_max=8, bytes_max=4_000)
    made = mesh.table(0)
    table = MeshTable(b"\xff" * 32, sign=made._sign, verify=made._verify, limits=few)
    liar, honest = (node_id_of_key(key) for key in mesh.keys[1:])
    for hop in (liar, honest):
        table.hop_up(hop)

    def head(number: int) -> Head:
        plain = Head(bytes([number]) * 32, 1, mesh.now, 1, digest_of_parts({digest_of_part(b"part")}))
        return replace(plain, signature=made._sign(plain))

    answers = [table.receive_head(liar, head(number), mesh.now) for number in range(100, 120)]
    assert sum(isinstance(steps[0], Ask) for steps in answers) == len(table.origins) == 4
    assert isinstance(table.receive_head(honest, head(200), mesh.now)[0], Ask)
    large = Content(liar, head(100).origin, b"", (bytes(3_000),), (), more=True)
    assert not table.receive_content(liar, large, mesh.now)
    second = replace(large, origin=head(101).origin)
    (refused,) = (one for one in table.receive_content(liar, second, mesh.now) if isinstance(one, Refused))
    assert refused.problem.code == "AGGREGATE-TOO-LARGE"
    table.tick(mesh.now + few.answer_us)
    assert not table.origins
