"""B11, A122: what was acknowledged while a broker stood still reaches every organisation.

Real processes of organisations that dial each other: a publisher is told that its events are accepted and
leaves, while the broker of another organisation is stopped for longer than its neighbours wait for it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import maia
from maia.keystore.key_files import public_half
from maia.routing.overlay.table import distance, node_id_of_key, node_id_of_type
from maia.testing import DEADLINE_S, Program, wait_until
from maia.types import type_id
from support.processes import running_maia

OWNER, OTHERS = "hospital", ("institute", "auditor")
PROTECTION: dict[str, dict[str, Any]] = {
    "plain": {"signed": False},
    "signed": {},
    "sealed": {"sealed": True},
}
SETTINGS = "lease_s = 3\n[log]\nroll_s = 1\n"
"""A broker that is silent for some three seconds loses its links."""


class Network:
    """A hospital whose pen publishes reports, and the organisations that read them."""

    def __init__(self, folder: Path, others: tuple[str, ...], protection: str) -> None:
        self.folder, self.others = folder, others
        self.ours = {name: maia.Organisation.create(folder / name) for name in (OWNER, *others)}
        owner = self.ours[OWNER]
        self.type = self._type_that_meets_at(others[0])
        owner.define(self.type, number="int", text="string", **PROTECTION[protection])
        owner.add_member("pen", may=f"publish:{self.type}")
        for name in others:
            one = self.ours[name]
            one.join(owner.invite(one.principal).save(folder / f"{name}.invite"), name=OWNER)
            grant = owner.grant(one.principal, may=f"subscribe:{self.type}", delegable=True)
            one.join(grant.save(folder / f"{name}.grant"), name=OWNER)
            one.add_member("clerk", may=f"subscribe:{self.type}@hospital")
        self.brokers: dict[str, Program] = {}

    def _type_that_meets_at(self, rendezvous: str) -> str:
        """Return a name whose offers meet at the broker of an organisation: it has nobody to ask."""
        brokers = {
            name: node_id_of_key(public_half(one.folder / "broker.key").key)
            for name, one in self.ours.items()
        }

        def away(name: str, kind: str) -> int:
            point = node_id_of_type(type_id(self.ours[OWNER].principal, kind))
            return distance(brokers[name], point)

        kinds = (f"Report{number}" for number in count())
        return next(kind for kind in kinds if min(brokers, key=lambda one: away(one, kind)) == rendezvous)

    def start(self, stack: ExitStack) -> None:
        for name, one in self.ours.items():
            (one.folder / "broker.toml").write_text(SETTINGS)
            for what, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
                output = one.folder / f"{what}-output"
                output.mkdir()
                config = one.folder / f"{what}.toml"
                process = stack.enter_context(running_maia(*words, "--config", config, cwd=output))
                if what == "broker":
                    self.brokers[name] = process
        for one in self.ours.values():
            for what in ("broker", "domain"):
                out = one.folder / f"{what}-output" / "out.log"
                wait_until(lambda out=out: "listening" in out.read_text(), str(out))

    def connect(self, organisation: str, name: str) -> maia.BlockingClient:
        return maia.connect(self.ours[organisation].folder / f"{name}.maia", timeout_s=DEADLINE_S)

    def said(self, organisation: str) -> str:
        return (self.ours[organisation].folder / "broker-output" / "err.log").read_text()

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Stop a broker until the end, once the others have given its links up."""
        neighbours = [one for one in self.brokers if one != name]
        before = {one: self.said(one).count("UNAVAILABLE-PEER-SILENT") for one in neighbours}
        self.brokers[name].send_signal(signal.SIGSTOP)
        try:
            code = "UNAVAILABLE-PEER-SILENT"
            wait_until(lambda: all(self.said(one).count(code) > before[one] for one in neighbours), code)
            yield
        finally:
            self.brokers[name].send_signal(signal.SIGCONT)


@contextmanager
def network(folder: Path, others: tuple[str, ...], protection: str) -> Iterator[Network]:
    made = Network(folder, others, protection)
    with ExitStack() as stack:
        made.start(stack)
        yield made


def events(first: int, count: int, *, of_bytes: int = 200) -> list[dict[str, Any]]:
    return [{"number": number, "text": "x" * of_bytes} for number in range(first, first + count)]


@pytest.mark.parametrize(
    ("others", "protection"),
    [(OTHERS[:1], "plain"), (OTHERS[:1], "signed"), (OTHERS[:1], "sealed"), (OTHERS, "signed")],
)
def test_what_was_published_during_a_pause_arrives_after_the_publisher_has_left(
    tmp_path: Path, others: tuple[str, ...], protection: str
) -> None:
    with network(tmp_path, others, protection) as world, ExitStack() as stack:
        readers = {
            name: stack.enter_context(world.connect(name, "clerk")).subscribe(
                f"{world.type}@hospital", durable="archive", timeout_s=DEADLINE_S
            )
            for name in others
        }
        found: dict[str, list[int]] = {name: [] for name in others}

        def has_all(count: int) -> bool:
            for name, reader in readers.items():
                found[name] += [one["number"] for one in reader.some(timeout_s=0.2)]
                reader.acknowledge()
            return all(len(set(one)) >= count for one in found.values())

        with world.connect(OWNER, "pen") as pen:
            publisher = pen.advertise(world.type, timeout_s=DEADLINE_S)
            publisher.publish_many(events(0, 20))
            publisher.flush(timeout_s=DEADLINE_S)
            wait_until(lambda: has_all(20), "what was published before")
            with world.paused(others[0]):
                for first in range(20, 100, 4):
                    publisher.publish_many(events(first, 4))
                publisher.flush(timeout_s=DEADLINE_S)
                pen.close()
        wait_until(lambda: has_all(100), "what was published during the pause")
        assert {name: one for name, one in found.items() if one != list(range(100))} == {}


BURST, OF_BYTES = 2_400, 8_000
"""More bytes than a broker holds in memory while it asks others for what it missed."""


@pytest.mark.parametrize(("others", "protection"), [(OTHERS[:1], "sealed"), (OTHERS, "signed")])
def test_a_burst_reaches_all_organisations_though_one_was_paused_in_it_and_its_publisher_has_left(
    tmp_path: Path, others: tuple[str, ...], protection: str
) -> None:
    """Live, durable, and durable but away meanwhile: each has what was accepted, once, or is told."""
    with network(tmp_path, others, protection) as world, ExitStack() as stack:
        name = f"{world.type}@hospital"
        clerks = {one: stack.enter_context(world.connect(one, "clerk")) for one in others}
        live = {one: clerk.subscribe(name, timeout_s=DEADLINE_S) for one, clerk in clerks.items()}
        durable = {
            one: clerk.subscribe(name, durable="archive", timeout_s=DEADLINE_S)
            for one, clerk in clerks.items()
        }
        for one in others:
            with world.connect(one, "clerk") as away:
                away.subscribe(name, durable="later", timeout_s=DEADLINE_S)
        read = {(kind, one): [] for kind in ("live", "durable") for one in others}

        def has_all(count: int) -> bool:
            for one in others:
                for kind, reader in (("live", live[one]), ("durable", durable[one])):
                    read[kind, one] += [event["number"] for event in reader.some(timeout_s=0.2)]
                durable[one].acknowledge()
            return all(len(set(read["durable", one])) >= count for one in others)

        with world.connect(OWNER, "pen") as pen:
            publisher = pen.advertise(world.type, timeout_s=DEADLINE_S)
            publisher.publish_many(events(0, 20))
            publisher.flush(timeout_s=DEADLINE_S)
            wait_until(lambda: has_all(20), "what was published before")
            publisher.publish_many(events(20, BURST // 4, of_bytes=OF_BYTES))
            with world.paused(others[0]):
                publisher.publish_many(events(20 + BURST // 4, BURST // 2, of_bytes=OF_BYTES))
                publisher.flush(timeout_s=DEADLINE_S)
            publisher.publish_many(events(20 + 3 * BURST // 4, BURST // 4, of_bytes=OF_BYTES))
            publisher.flush(timeout_s=DEADLINE_S)
            pen.close()
        accepted = range(20 + BURST)
        wait_until(lambda: has_all(len(accepted)), "what was accepted")
        for one in others:
            later, found = clerks[one].subscribe(name, durable="later", timeout_s=DEADLINE_S), list[int]()
            while len(found) < len(accepted) and (some := list(later.some(timeout_s=DEADLINE_S))):
                found += [event["number"] for event in some]
                later.acknowledge()
            assert sorted(found) == sorted(read["durable", one]) == list(accepted), one
            assert len(set(read["live", one])) == len(read["live", one]), "live, nothing comes twice"
