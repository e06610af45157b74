"""Four organisations share a dozen types both ways through two carriers that may only connect; two join late.

Each owns a plain, a signed and a sealed type, which all others may see in part: each recipient other
attributes or rows. What a right comes to is said here a second time, in Python.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import maia
from maia.errors import Unavailable
from maia.testing import DEADLINE_S, wait_until
from support.processes import running_maia

EARLY, LATE = ("hospital", "auditor"), ("institute", "city")
OWNERS = (*EARLY, *LATE)
CARRIERS = {"north": (), "south": ("north",)}
"""Each with the carriers that it dials; the first two organisations dial the one, the others the other."""
BEHIND = {"hospital": "north", "auditor": "north", "institute": "south", "city": "south"}
KINDS: dict[str, dict[str, Any]] = {"Note": {"signed": False}, "Report": {}, "Case": {"sealed": True}}
TERMS: list[dict[str, Any]] = [{}, {"only": ["number", "area"]}, {"where": 'area == "north"'}]

Row = dict[str, Any]
Stream = tuple[str, str]
"""A recipient and a type: `("city", "Report@hospital")`."""


def rows(first: int) -> list[Row]:
    return [
        {"number": number, "area": ("north", "south")[number % 2], "who": f"person {number}"}
        for number in range(first, first + 4)
    ]


def shown(row: Row, terms: dict[str, Any]) -> Row | None:
    if "where" in terms and row["area"] != "north":
        return None
    return {name: value if name in terms.get("only", row) else None for name, value in row.items()}


class Federation:
    """The organisations, who may see what, and what was published while they were there."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.stack, self.rights = stack, dict[Stream, dict[str, Any]]()
        self.publishers: dict[str, Any] = {}
        self.clerks: dict[str, maia.BlockingClient] = {}
        self.subscriptions: dict[Stream, Any] = {}
        self.received: dict[Stream, list[Row]] = {}
        self.expected: dict[Stream, list[Row]] = {}
        self.ours = {name: maia.Organisation.create(folder / name) for name in (*OWNERS, *CARRIERS)}
        coordinator = self.ours["hospital"]
        for name, one in self.ours.items():
            if one is not coordinator:
                one.join(coordinator.invite(one.principal).save(folder / f"{name}.invite"), name="hospital")
        for name in OWNERS:
            for kind, protection in KINDS.items():
                self.ours[name].define(kind, number="int", area="string", who="string", **protection)
            self.ours[name].add_member("pen", may=[f"publish:{kind}@{name}" for kind in KINDS])
        for owner, reader in permutations(OWNERS, 2):
            for number, kind in enumerate(KINDS):
                terms = TERMS[(OWNERS.index(reader) + number) % len(TERMS)]
                may, to = f"subscribe:{kind}@{owner}", self.ours[reader]
                grant = self.ours[owner].grant(to.principal, may=may, delegable=True, **terms)
                to.join(grant.save(folder / f"{kind}-{owner}-{reader}.grant"), name=owner)
                self.rights[reader, f"{kind}@{owner}"] = terms
        for name in OWNERS:
            self.ours[name].add_member("clerk", may=[f"subscribe:{kind}" for kind in self.seen_by(name)])
        for name, one in self.ours.items():
            dialled = CARRIERS.get(name, (BEHIND.get(name, ""),))
            addresses = [self.ours[other].addresses["broker"] for other in dialled]
            text = f'routing = "mesh"\njoin = []\nneighbours = {addresses}\n[log]\nroll_s = 1\n'
            (one.folder / "broker.toml").write_text(text.replace("'", '"'))

    def seen_by(self, reader: str) -> list[str]:
        return [kind for one, kind in self.rights if one == reader]

    def profile(self, organisation: str, name: str) -> Path:
        return self.ours[organisation].folder / f"{name}.maia"

    def start(self, *names: str) -> None:
        """Run the servers of these organisations until the end, and wait until they are there."""
        for name in names:
            for what, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
                output = self.ours[name].folder / f"{what}-output"
                output.mkdir()
                config = self.ours[name].folder / f"{what}.toml"
                self.stack.enter_context(running_maia(*words, "--config", config, cwd=output))
        for name in names:
            for what in ("broker", "domain"):
                out = self.ours[name].folder / f"{what}-output" / "out.log"
                wait_until(lambda out=out: "listening" in out.read_text())

    def connect(self, *names: str) -> None:
        """Connect these organisations, and let all who are there read the types of all who are there."""
        for name in names:
            pen = self.stack.enter_context(maia.connect(self.profile(name, "pen"), timeout_s=DEADLINE_S))
            for kind in KINDS:
                self.publishers[f"{kind}@{name}"] = pen.advertise(f"{kind}@{name}", timeout_s=DEADLINE_S)
            clerk = maia.connect(self.profile(name, "clerk"), timeout_s=DEADLINE_S)
            self.clerks[name] = self.stack.enter_context(clerk)
        for name, kind in self.rights:
            if name in self.clerks and kind in self.publishers and (name, kind) not in self.subscriptions:
                subscription = self.clerks[name].subscribe(kind, timeout_s=DEADLINE_S)
                self.subscriptions[name, kind], self.received[name, kind] = subscription, []

    def publish(self, events: list[Row]) -> None:
        """Publish events of all types of those who are there."""
        for publisher in self.publishers.values():
            publisher.publish_many(events)
        for publisher in self.publishers.values():
            publisher.flush(timeout_s=DEADLINE_S)

    def settle(self) -> None:
        """Publish probes, whose numbers are negative, until each reader has got one of each type."""

        def is_settled() -> bool:
            self.publish(rows(-4))
            self.receive()
            return all(self.received[one] for one in self.subscriptions)

        wait_until(is_settled)

    def share(self, events: list[Row]) -> None:
        """Publish events, and wait until everyone has got what it may see."""
        for one in self.subscriptions:
            seen = (shown(row, self.rights[one]) for row in events)
            self.expected.setdefault(one, []).extend(row for row in seen if row is not None)
        self.publish(events)

        def has_come() -> bool:
            self.receive()
            return all(len(self.live(one)) >= len(self.expected[one]) for one in self.subscriptions)

        wait_until(has_come)

    def receive(self) -> None:
        for stream, subscription in self.subscriptions.items():
            self.received[stream] += map(dict, subscription.some(timeout_s=0.001))

    def live(self, stream: Stream) -> list[Row]:
        return [row for row in self.received[stream] if row["number"] >= 0]

    def tables(self) -> dict[Stream, list[Row]]:
        """Return what everyone finds in the log of its own broker, in the order of its numbers.

        While one of the logs is known to lack something, the read is refused.
        """
        found: dict[Stream, list[Row]] = {}
        for name in OWNERS:
            with maia.open_log(as_=self.profile(name, "clerk"), require_complete=True) as log:
                for kind in self.seen_by(name):
                    read = log.table(kind).to_arrow().to_pylist()
                    found[name, kind] = [row for row in sorted(read, key=by_number) if row["number"] >= 0]
        return found


def by_number(row: Row) -> int:
    number: int = row["number"]
    return number


def test_each_sees_what_it_may_once_from_when_it_was_there_live_and_in_its_tables(tmp_path: Path) -> None:
    with ExitStack() as stack:
        federation = Federation(tmp_path, stack)
        federation.start("hospital", "north", "auditor")
        federation.connect(*EARLY)
        federation.settle()
        federation.share(rows(0))
        federation.start("south", *LATE)
        federation.connect(*LATE)
        federation.settle()
        federation.share(rows(10))
        assert len(federation.expected) == len(KINDS) * len(OWNERS) * (len(OWNERS) - 1)
        assert {one: federation.live(one) for one in federation.expected} == federation.expected

        def are_whole() -> bool:
            try:
                return federation.tables() == federation.expected
            except Unavailable:
                return False

        wait_until(are_whole)
