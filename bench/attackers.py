"""Strangers and connect-only peers that do their worst to one broker, at a stated pace, on loopback.

    python bench/attackers.py ADDRESS        says `ready`, attacks from a line on its input to the next

A stranger has a fresh key and no certificate; a connect-only peer has a right
to connect and nothing else, and says that it is a broker. Each deed below has
a thread of its own, a pace, and addresses of its own (127.0.0.2 and up), as
attackers have machines of their own. The process is nice to its neighbours on
this machine, whose processors it would not use up anywhere else. What it has
done is written as one JSON object at the end.
"""

from __future__ import annotations

import json
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from live_network import ATTRIBUTES, World, new_world
from maia.clock import system_now
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    NetworkPattern,
    Principal,
    SigningKey,
    certificate_to_bytes,
    exact_name,
    issue,
)
from maia.events import AttributeUid
from maia.net.tls import dialling_context
from maia.predicates import ALWAYS, AllOf, Comparison, Operator
from maia.routing.table.hops import book_key_of_sealed
from maia.wire.codec import decode, encode
from maia.wire.framing import MESSAGE_BYTES_MAX, Splitter, framed
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Carried,
    Greeting,
    Hello,
    Interest,
    Message,
    Offer,
    SealedPart,
    SealedProof,
    Show,
    TypeQuery,
    Wanted,
    Welcome,
)
from maia.wire.names import filter_to_bytes, network_to_bytes, type_to_bytes
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

CHAIN_LENGTH = 255
IDLE_LINKS_MAX = 700
"""More than a broker keeps waiting for their hello."""
STEP_S = 5.0
"""How long an attacker waits for any one answer."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that an attacker does again and again, so many times a second at most."""

    name: str
    per_second: float
    address: str
    do: Callable[[Attacker], None]


class Attacker:
    """What all deeds share: the broker's address, the network, material that is prepared once."""

    def __init__(self, world: World, target: str) -> None:
        """Prepare everything that is signed, so that the pace is kept by the sending alone."""
        host, _, port = target.rpartition(":")
        self.world, self.target = world, (host, int(port))
        self.network = network_to_bytes(world.network)
        self.idle: deque[ssl.SSLSocket] = deque()
        self.stranger = SigningKey.from_seed(os.urandom(32))
        self.forged_chain = _forged_chain(world, self.stranger)
        self.peers = [SigningKey.from_seed(os.urandom(32)) for _ in range(4)]
        self.numbers = count()

    # ---- strangers

    def hello_with_a_forged_chain(self) -> None:
        """Have a broker look for a chain among certificates of one's own, behind one that is forged."""
        with closing(self._dialled(self.stranger, "127.0.0.2")) as link:
            self._heard(link, Greeting)
            self._say(link, Hello(PROTOCOL_VERSION, self.network, self.forged_chain, os.urandom(16), None))
            self._heard(link, Welcome)

    def idle_link(self) -> None:
        """Hold a connection on which nothing is said."""
        self.idle.append(self._dialled(self.stranger, f"127.0.0.{3 + next(self.numbers) % 4}"))
        while len(self.idle) > IDLE_LINKS_MAX:
            self.idle.popleft().close()

    def statements_before_hello(self) -> None:
        """Have a broker hold statements for certificates that never come."""
        with closing(self._dialled(self.stranger, "127.0.0.7")) as link:
            for _ in range(8):
                self._say(link, Show(0, [], [os.urandom(1 << 17)] * 8))
            self._heard(link, Welcome)

    # ---- peers that may connect

    def interests_without_a_right(self) -> None:
        """Tell a broker of interests whose proofs lead nowhere."""
        key = self.peers[0]
        asked = EdgeRequest(
            Action.SUBSCRIBE, self.world.network, self.world.event_type.name, ALWAYS,
            os.urandom(16), system_now(), os.urandom(16),
        )  # fmt: skip
        proof, every = request_to_bytes(sign_request(asked, key)), filter_to_bytes(ALWAYS)
        type_id = self.world.event_type.type_id
        wanted = [Wanted(os.urandom(16), every, proof, self.forged_chain[:64]) for _ in range(4)]
        self._as_broker(key, "127.0.0.8", [Interest(type_id, wanted, [])])

    def offers_without_proof(self) -> None:
        """Offer types that do not exist, with certificates that prove nothing."""
        offers = [Offer(os.urandom(32), True, b"", self.forged_chain[:64]) for _ in range(8)]
        self._as_broker(self.peers[1], "127.0.0.9", offers)

    def sealed_interests_in_unknown_types(self) -> None:
        """Have a broker keep sealed filters of types that nobody defined."""
        self._as_broker(self.peers[2], "127.0.0.10", [_sealed_interest() for _ in range(8)])

    def frames_of_another(self) -> None:
        """Send frames in the publisher's name, with numbers that it will never reach, and ask for types."""
        publisher = self.world.key("publisher").principal
        type_id = self.world.event_type.type_id
        frames: list[Message] = [
            Carried(type_id, publisher.key, os.urandom(16), (1 << 62) + number, +system_now(), 1, [], [])
            for number in range(64)
        ]
        query = TypeQuery(1, type_to_bytes(self.world.event_type.name))
        self._as_broker(self.peers[3], "127.0.0.11", [*frames, *[query] * 16])

    # ---- how it is done

    def _as_broker(self, key: SigningKey, source: str, messages: Sequence[Message]) -> None:
        with closing(self._dialled(key, source)) as link:
            self._heard(link, Greeting)
            right = certificate_to_bytes(self.world.broker_right(key.principal))
            address = f"{source}:9"
            self._say(link, Hello(PROTOCOL_VERSION, self.network, [right], os.urandom(16), address))
            self._heard(link, Welcome)
            self._say(link, *messages)
            link.settimeout(0.5)
            link.recv(1 << 16)

    def _dialled(self, key: SigningKey, source: str) -> ssl.SSLSocket:
        plain = socket.create_connection(self.target, timeout=STEP_S, source_address=(source, 0))
        return dialling_context(key).wrap_socket(plain)

    def _say(self, link: ssl.SSLSocket, *messages: Message) -> None:
        link.sendall(b"".join(framed(encode(message)) for message in messages))

    def _heard(self, link: ssl.SSLSocket, kind: type[Message]) -> None:
        """Read until a message of this kind comes; whatever else comes, or nothing, ends the deed."""
        splitter = Splitter(MESSAGE_BYTES_MAX)
        while data := link.recv(1 << 16):
            for frame in splitter.feed(data):
                if isinstance(decode(frame), kind):
                    return
        raise ConnectionResetError("the broker hung up")


DEEDS = (
    Deed("hello with a forged chain", 10, "127.0.0.2", Attacker.hello_with_a_forged_chain),
    Deed("idle link", 51, "127.0.0.3-6", Attacker.idle_link),
    Deed("statements before the hello", 1, "127.0.0.7", Attacker.statements_before_hello),
    Deed("interests without a right", 2, "127.0.0.8", Attacker.interests_without_a_right),
    Deed("offers without proof", 2, "127.0.0.9", Attacker.offers_without_proof),
    Deed("sealed interests in unknown types", 2, "127.0.0.10", Attacker.sealed_interests_in_unknown_types),
    Deed("frames of another publisher", 2, "127.0.0.11", Attacker.frames_of_another),
)


COMPUTING_MS = "milliseconds of computing"
"""What all deeds together have cost the attackers themselves, on the cores that the honest side needs too."""


def _forged_chain(world: World, me: SigningKey) -> list[bytes]:
    """Return a certificate in the owner's name that the owner did not sign, and many that stand behind it.

    They lead from each of sixteen keys to all others, each under terms of its own, so that no way
    between two of them grants what another does.
    """
    keys = [SigningKey.from_seed(os.urandom(32)) for _ in range(16)]
    granted = Authority(
        NetworkPattern(world.owner.principal, exact_name(world.network.name)), frozenset({Action.CONNECT})
    )

    def signed(issuer: SigningKey, subject: Principal, number: int) -> bytes:
        terms = [Comparison(AttributeUid(f"a{number}-{part}"), Operator.EQ, "x") for part in range(12)]
        authority = replace(granted, condition=AllOf(tuple(terms)))
        said = AuthorisationCertificate(issuer.principal, subject, True, authority, world.validity)
        return certificate_to_bytes(issue(said, issuer))

    ends = [(one, me.principal) for one in keys]
    pairs = [*ends, *((one, other.principal) for one in keys for other in keys if one is not other)]
    mine = [signed(*pair, number) for number, pair in enumerate(pairs)]
    passed_on = AuthorisationCertificate(me.principal, keys[0].principal, True, granted, world.validity)
    honest = certificate_to_bytes(issue(passed_on, me))
    return [honest.replace(me.principal.key, world.owner.principal.key, 1), *mine][:CHAIN_LENGTH]


def _sealed_interest() -> Interest:
    uid, seal = ATTRIBUTES[0].uid, os.urandom(16)
    proof = SealedProof(1, seal, [uid], os.urandom(1 << 18), os.urandom(16))
    part = SealedPart([uid], os.urandom(16), os.urandom(32_000))
    return Interest(book_key_of_sealed(os.urandom(32)), [Wanted(os.urandom(16), [part], proof, [])], [])


def play(deeds: Iterable[tuple[str, float, Callable[[], None]]]) -> int:
    """Do each of these so many times a second, between the first line of input and the second."""
    os.nice(10)
    done: Counter[str] = Counter()
    go, stop = threading.Event(), threading.Event()

    def repeat(name: str, per_second: float, do: Callable[[], None]) -> None:
        go.wait()
        started, times = time.monotonic(), 0
        while not stop.is_set():
            with suppress(OSError, AssertionError):
                do()
            done[name] += 1
            times += 1
            stop.wait(max(0.0, started + times / per_second - time.monotonic()))

    threads = [threading.Thread(target=repeat, args=deed, daemon=True) for deed in deeds]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    go.set()
    # Bounded in time whatever becomes of the process that asked for it.
    select.select([sys.stdin], [], [], 120.0)
    stop.set()
    for thread in threads:
        thread.join(timeout=2 * STEP_S)
    done[COMPUTING_MS] = int(1000 * (time.process_time() - began))
    print(json.dumps(done), flush=True)
    return 0


def main() -> int:
    """Attack a broker."""
    attacker = Attacker(new_world(), sys.argv[1])
    return play((deed.name, deed.per_second, partial(deed.do, attacker)) for deed in DEEDS)


# ---------------------------------------------------------------- for whoever measures


@contextmanager
def attack(target: str, program: str = __file__) -> Iterator[Counter[str]]:
    """Attack a server for as long as the block lasts; what was done is counted when it has ended."""
    done: Counter[str] = Counter()
    command = [sys.executable, str(Path(program).resolve()), target]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", "the attackers did not start"
        process.stdin.write("go\n")
        process.stdin.flush()
        yield done
        with suppress(BrokenPipeError):
            process.stdin.write("stop\n")
            process.stdin.flush()
        done.update(json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.terminate()
        process.wait(timeout=30)


if __name__ == "__main__":
    sys.exit(main())
