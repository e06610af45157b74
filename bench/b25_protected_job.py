"""How many events a second reach those who may read them, when the whole job has to be done?

One publisher, ten attributes, three readers with different rights, a filter
that half of the events pass, TLS on every connection, Python on both sides,
every client a process of its own. Ours goes through two brokers of a type
that is sealed by attribute, with its key server; `protected_job.py` says what
the application has to do itself with nats-server. An event counts once for
each reader that may have it and got it.

Both of our brokers may read all attributes, so one may send the other the
plaintext beside the ciphertext; one case does without.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness import Benchmark, Case, NotMeasured, Race, Ratio, Side, at_least
from live_network import FRAME_ROWS
from live_peers import MissingPeer, nats
from protected_job import PASSING, PUBLISHER, RIGHTS
from sealed_network import sealed_network

WORKER = Path(__file__).with_name("protected_job.py")
READY_S = 180
SETTLING_ROUNDS = 30
PEER = "nats-server and nats-py that encrypt, sign and filter"
OPEN_PEER = "nats-server and nats-py that only filter"
SHARED = "sealed by attribute"
OPENED = "sealed by attribute, every broker opens the ciphertext"


class Crew:
    """A publisher and three readers, each a process, that wait for orders."""

    def __init__(self, stack: ExitStack, specs: dict[str, dict[str, object]]) -> None:
        """Start everybody, readers first, and wait until all are ready."""
        self.workers = {role: stack.enter_context(_worker(spec)) for role, spec in specs.items()}

    def carry(self, count: int) -> None:
        """Publish so many events, and wait until each reader has those that it wanted."""
        self._order(dict.fromkeys(RIGHTS, int(count * PASSING)))
        self._order({PUBLISHER: count})
        self._answers(*self.workers)

    def settle(self) -> None:
        """Publish a frame at a time until readers get it: interests take a moment from broker to broker."""
        for _ in range(SETTLING_ROUNDS):
            self._order({PUBLISHER: FRAME_ROWS})
            self._answers(PUBLISHER)
            self._order(dict.fromkeys(RIGHTS, "drain"))
            if self._answers(*RIGHTS) == [FRAME_ROWS * PASSING] * len(RIGHTS):
                return
        raise AssertionError("the readers do not get what they may have")

    def _order(self, orders: Mapping[str, int | str]) -> None:
        for role, order in orders.items():
            pipe = self.workers[role].stdin
            assert pipe is not None
            pipe.write(f"{order}\n")
            pipe.flush()

    def _answers(self, *roles: str) -> list[int]:
        """Wait until these workers have done what they were told, and return how many events it was."""
        answers = []
        for role in roles:
            pipe = self.workers[role].stdout
            assert pipe is not None
            said, _, count = pipe.readline().partition(" ")
            assert said == "done", f"the {role} ended without a word"
            answers.append(int(count))
        return answers


@contextmanager
def _worker(spec: dict[str, object]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(WORKER), json.dumps(spec)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said == "ready\n", f"{spec['role']} did not start"
        yield process
    finally:
        process.terminate()
        process.wait(timeout=READY_S)
        process.stdin.close()
        process.stdout.close()


@contextmanager
def maia_crew(*, share_plaintext: bool) -> Iterator[Crew]:
    """Run a key server, two brokers and everybody."""
    with sealed_network(share_plaintext=share_plaintext) as network, ExitStack() as stack:
        places = {**dict.fromkeys(RIGHTS, network.readers), PUBLISHER: network.publishers}
        crew = Crew(
            stack,
            {
                role: {"side": "maia", "role": role, "address": address, "keys": network.keys}
                for role, address in places.items()
            },
        )
        crew.settle()
        yield crew


@contextmanager
def nats_crew(side: str) -> Iterator[Crew]:
    """Run nats-server and everybody, with all protection or none."""
    with nats(over_tls=True) as peer, ExitStack() as stack:
        address = f"127.0.0.1:{peer.port}"
        specs: dict[str, dict[str, object]] = {
            role: {"side": side, "role": role, "address": address} for role in (*RIGHTS, PUBLISHER)
        }
        crew = Crew(stack, specs)
        crew.settle()
        yield crew


def cases(quick: bool) -> Iterator[Case]:
    """Yield our network, sharing plaintext between brokers and not, against itself and the peer."""
    ours_total, peer_total = (2_048, 512) if quick else (65_536, 8_192)
    with maia_crew(share_plaintext=True) as crew:
        sharing = _side(crew, ours_total)
        with maia_crew(share_plaintext=False) as other:
            opening = _side(other, ours_total)
            yield Race(
                "plaintext beside the ciphertext, against brokers that all open it",
                ours=sharing,
                peer=opening,
                ratio=Ratio.PEER_OVER_OURS,
                target=at_least(1.0),
            )
            if not quick:
                yield from _against("nats", f"{OPENED}, against {PEER}", opening, peer_total, 5.0)
        yield from _against("nats", f"{SHARED}, against {PEER}", sharing, peer_total, 5.0)
        if not quick:
            yield from _against("open", f"{SHARED}, against {OPEN_PEER}", sharing, peer_total, 1.0)


def _against(side: str, case: str, ours: Side, total: int, target: float) -> Iterator[Case]:
    with ExitStack() as stack:
        try:
            if importlib.util.find_spec("nats") is None:
                raise MissingPeer("nats-py", "nothing: it is in the extra `bench`")
            peer = _side(stack.enter_context(nats_crew(side)), total)
        except MissingPeer as missing:
            yield NotMeasured(case, str(missing), at_least(target))
            return
        yield Race(case, ours=ours, peer=peer, ratio=Ratio.PEER_OVER_OURS, target=at_least(target))


def _side(crew: Crew, total: int) -> Side:
    delivered = int(total * PASSING) * len(RIGHTS)
    return Side(run=lambda: crew.carry(total), operations=delivered, calls=1)


BENCH = Benchmark(
    number=25,
    name="protected-job",
    about="authorised events delivered a second, the whole job done: ten attributes encrypted, publications "
    "signed, three readers with different rights, filtered",
    cases=cases,
    stood="nats-py over TLS without any of it: 54 k events a second",
    peer_lacks="nobody hands out, refreshes or takes back the peer's keys; whoever connects may publish; "
    "every reader gets every event",
)
