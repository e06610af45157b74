"""Strangers, and an account with few rights, that do their worst to a gateway or a domain's server.

    python bench/hostile_doors.py '{"mqtt": "8883", "http": "127.0.0.1:8080"}'     as attackers.py does

At a gateway: silent connections, wrong tokens, wills that wait and lasting sessions (N3, N4), readers that
do not read (N5), bodies that never come (N10). At a domain's server: silent connections, bodies that never
come (N10), pages of past statements (N15), calls that a stranger has signed. Each has a pace and an address
of its own. `gateway_minute` and `domain_minute` measure what honest clients keep meanwhile.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path

import maia
from attackers import STEP_S, attack, play
from b16_revocation import Issuer, tested_right
from b36_mqtt_gateway import TOPIC, MqttClient, gateway_process, line_at, new_account
from hostile_measures import Found, computed_s, resident
from live_network import PATIENCE_S, World, broker_process, new_world
from live_peers import mqtt_packet, mqtt_text
from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient, authorization
from maia.clock import system_now
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    Principal,
    SigningKey,
    TypePattern,
    certificate_to_bytes,
    exact_name,
    issue,
)
from maia.errors import MaiaError
from maia.keystore.key_files import load_signing_key
from maia.net.tls import dialling_context
from maia.wire.api_requests import ApiCall
from maia.wire.messages import Published

HELD_MAX = 300
ROGUE = "rogue"
"""The account of a client that may read, and nothing else."""
BURST = 512
NEWCOMER_EVERY_S = 0.5
CALLS_A_SECOND = 8
"""Of an administrator: a domain's server answers 1,200 calls of one principal in the window of clock skew."""
_BODY = b" HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"


class Stranger:
    """What all deeds at one server share: an address to connect to, and connections that are held."""

    def __init__(self, address: tuple[str, int], key: SigningKey) -> None:
        self._address, self._key = address, key
        self._held: deque[socket.socket] = deque()
        self._numbers = count()
        self._anonymous = ssl.create_default_context()
        self._anonymous.check_hostname, self._anonymous.verify_mode = False, ssl.CERT_NONE

    def dialled(self, source: str, *, proves: bool = False) -> ssl.SSLSocket:
        """Connect; a client that `proves` its key has an account."""
        plain = socket.create_connection(self._address, timeout=STEP_S, source_address=(source, 0))
        context = dialling_context(self._key) if proves else self._anonymous
        return context.wrap_socket(plain)

    def hold(self, link: socket.socket, most: int = HELD_MAX) -> None:
        """Keep a connection, and let the oldest go."""
        self._held.append(link)
        while len(self._held) > most:
            self._held.popleft().close()

    def idle(self) -> None:
        """Hold a connection on which nothing is said."""
        self.hold(self.dialled(f"127.0.0.{3 + next(self._numbers) % 4}"))

    def body_that_never_comes(self, head: bytes) -> None:
        """Announce a body (N10)."""
        link = self.dialled("127.0.0.8")
        link.sendall(head + _BODY)
        self.hold(link)


# ---------------------------------------------------------------- at a gateway


class MqttRogue(Stranger):
    """A client with an account that may read."""

    def connect(self, client_id: str, *, will_delay_s: int = 0) -> ssl.SSLSocket:
        """Connect with MQTT 5.0, a lasting session, and perhaps a will that waits."""
        link = self.dialled("127.0.0.2", proves=True)
        flags, will = 0x02, b""
        if will_delay_s:
            flags |= 0x04
            will = b"\x05\x18" + will_delay_s.to_bytes(4, "big") + mqtt_text(TOPIC) + b"\x00\x02{}"
        expiry = b"\x05\x11" + (600).to_bytes(4, "big")
        said = b"\x00\x04MQTT\x05" + bytes([flags]) + b"\x00\x00" + expiry + mqtt_text(client_id) + will
        link.sendall(mqtt_packet(0x10, said))
        assert link.recv(4)[:1] == b"\x20"
        return link

    def will_that_waits(self) -> None:
        """Leave a will with a delay and a lasting session, and go (N3, N4)."""
        self.connect(f"will {next(self._numbers)}", will_delay_s=500).close()

    def silent_reader(self) -> None:
        """Subscribe to everything and read nothing (N5)."""
        link = self.connect(f"silent {next(self._numbers) % 16}")
        link.sendall(mqtt_packet(0x82, b"\x00\x01\x00" + mqtt_text(TOPIC) + b"\x00"))
        self.hold(link, 8)

    def wrong_token(self) -> None:
        """Have the gateway look for an account."""
        with closing(self.dialled("127.0.0.7")) as link:
            words = b"".join(map(mqtt_text, (f"x{next(self._numbers)}", "publisher", "maia-" + "A" * 43)))
            link.sendall(mqtt_packet(0x10, b"\x00\x04MQTT\x04\xc2\x00\x00" + words))
            link.recv(4)


def _gateway_deeds(where: dict[str, str]) -> Iterator[tuple[str, float, Callable[[], None]]]:
    key = new_world().key(ROGUE)
    mqtt = ("127.0.0.1", int(where["mqtt"]))
    host, _, port = where["http"].rpartition(":")
    http = Stranger((host, int(port)), key)
    yield "idle MQTT connection", 25, Stranger(mqtt, key).idle
    yield "wrong token", 5, MqttRogue(mqtt, key).wrong_token
    yield "will that waits", 4, MqttRogue(mqtt, key).will_that_waits
    yield "silent MQTT reader", 1, MqttRogue(mqtt, key).silent_reader
    yield "body that never comes", 15, lambda: http.body_that_never_comes(b"GET /health")


# ---------------------------------------------------------------- at a domain's server


def _domain_deeds(where: dict[str, str]) -> Iterator[tuple[str, float, Callable[[], None]]]:
    host, _, port = where["domain"].rpartition(":")
    key = SigningKey.from_seed(os.urandom(32))
    idle, slow, asking = (Stranger((host, int(port)), key) for _ in range(3))

    def history() -> None:
        with closing(asking.dialled("127.0.0.9")) as link:
            link.sendall(
                b"GET /v1/statements/history?limit=500 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            while link.recv(1 << 16):
                pass

    domain = Principal(bytes.fromhex(where["principal"]))
    call = ApiCall.of("POST", "/v1/login", body=b"{}")

    def signed() -> None:
        said = authorization(call, domain, os.urandom(16), system_now(), key)
        head = f"POST /v1/login HTTP/1.1\r\nHost: x\r\nAuthorization: {said}\r\n"
        with closing(asking.dialled("127.0.0.10")) as link:
            link.sendall(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
            link.recv(1 << 16)

    yield "idle connection", 15, idle.idle
    yield "body that never comes", 15, lambda: slow.body_that_never_comes(b"GET /v1/domain")
    yield "page of past statements", 4, history
    yield "call that a stranger has signed", 5, signed


# ---------------------------------------------------------------- what honest clients keep


class Revoking:
    """Honest clients that lose their right one after the other; how long each loss takes."""

    def __init__(self, found: Found, lose: Callable[[], float]) -> None:
        """`lose` returns how many milliseconds it took, and raises if the client did not get in."""
        self._found, self._lose = found, lose
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)

    def __enter__(self) -> Revoking:
        self._thread.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._stop.set()
        self._thread.join()

    def _go(self) -> None:
        while not self._stop.wait(NEWCOMER_EVERY_S):
            self._found.newcomers += 1
            try:
                self._found.revoked_ms.append(self._lose())
            except (OSError, AssertionError, MaiaError):
                self._found.kept_out += 1


def _in_turns(
    found: Found, slices: tuple[int, float, float], act: Callable[[], int], lose: Callable[[], float],
    target: str, pid: int, *, is_saturated: bool,
) -> Found:  # fmt: skip
    """Play peace and attack in turns; `act` returns how much honest work it has done.

    Of a server that honest clients saturate, it also counts what it computes for each of their events.
    """

    def rate(seconds: float) -> tuple[float, float]:
        started, before, done = time.perf_counter(), computed_s(pid), 0
        while (passed := time.perf_counter() - started) < seconds:
            done += act()
            found.memory_most = max(found.memory_most, resident(pid))
        return done / passed, (computed_s(pid) - before) / done

    in_peace = Found()
    rate(1.0)  # once before anything counts
    for _ in range(slices[0]):
        with Revoking(in_peace, lose):
            calm, calm_s = rate(slices[2])
        with attack(target, __file__) as done, Revoking(found, lose):
            hostile, hostile_s = rate(slices[1])
        found.peace.append(calm)
        found.attacked.append(hostile)
        if is_saturated:
            found.computing.append(calm_s / hostile_s)
        found.deeds.update(done)
    return found


def gateway_minute(slices: tuple[int, float, float]) -> Found:
    """Return what a gateway's honest clients keep."""
    world = new_world()
    with ExitStack() as stack:
        broker = stack.enter_context(broker_process(world, limits={"requests_per_minute": 1_000_000}))
        more = 'http.listen = "127.0.0.1:0"'
        gateway = stack.enter_context(gateway_process(world, broker, more))
        issuer = stack.enter_context(closing(Issuer(world, broker)))
        issuer.vouch()
        new_account(
            gateway.folder, world, ROGUE, lambda subject: [world.type_right(subject, Action.SUBSCRIBE)]
        )
        line = stack.enter_context(line_at(world, gateway.port, 1))

        def lose() -> float:
            return _lose_at_gateway(world, issuer, gateway.port, gateway.folder)

        def act() -> int:
            line.carry(BURST)
            return BURST

        target = json.dumps({"mqtt": str(gateway.port), "http": gateway.http})
        return _in_turns(Found(), slices, act, lose, target, gateway.pid, is_saturated=True)


def _lose_at_gateway(world: World, issuer: Issuer, port: int, folder: Path) -> float:
    who = f"newcomer-{os.urandom(6).hex()}"
    right = []

    def rights(subject: Principal) -> list[object]:
        right.append(tested_right(world, who, subject))
        return right

    new_account(folder, world, who, rights)  # type: ignore[arg-type]
    with closing(MqttClient(port, world.key(who), who, 1)) as client:
        client.subscribe()
        statement = issuer.revocation(right)
        started = time.perf_counter()
        issuer.send(statement)
        client.socket.settimeout(PATIENCE_S)
        with suppress(ConnectionError, ssl.SSLError):
            while client.socket.recv(1 << 16):
                pass
        took = (time.perf_counter() - started) * 1000
        issuer.wait_for(Published)
        return took


@contextmanager
def _domain_process() -> Iterator[tuple[str, SigningKey, int]]:
    with tempfile.TemporaryDirectory(prefix="maia-bench-") as name:
        made = maia.Organisation.create(Path(name) / "hospital")
        command = [sys.executable, "-m", "maia.cli", "domain", "serve", "--config", "domain.toml", "--json"]
        process = subprocess.Popen(
            command, cwd=made.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the domain's server did not start"
            settings = tomllib.loads((made.folder / "domain.generated.toml").read_text(encoding="utf-8"))
            yield settings["api"]["listen"], load_signing_key(made.folder / "hospital.key"), process.pid
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)
            assert process.stdout is not None
            process.stdout.close()


def domain_minute(slices: tuple[int, float, float]) -> Found:
    """Return what the administrators of a domain keep."""
    world = new_world()
    with _domain_process() as (address, key, pid), ExitStack() as stack:
        reading, revoking = (
            stack.enter_context(DomainClient(address, domain=key.principal, key=key)) for _ in range(2)
        )

        def act() -> int:
            ends = time.perf_counter() + 1 / CALLS_A_SECOND
            reading.call("GET", "/v1/audit/head", answer=answers.AuditHeadAnswer)
            time.sleep(max(0.0, ends - time.perf_counter()))
            return 1

        def lose() -> float:
            pattern = TypePattern(key.principal, exact_name("LabResult"), None)
            authority = Authority(pattern, frozenset({Action.SUBSCRIBE}))
            subject = SigningKey.from_seed(os.urandom(32)).principal
            signed = issue(
                AuthorisationCertificate(key.principal, subject, False, authority, world.validity), key
            )
            asked = bodies.Revocation(certificates=[certificate_to_bytes(signed)])
            started = time.perf_counter()
            revoking.call("POST", "/v1/revocations", asked, answer=answers.RevokedAnswer)
            return (time.perf_counter() - started) * 1000

        target = json.dumps({"domain": address, "principal": key.principal.key.hex()})
        return _in_turns(Found(), slices, act, lose, target, pid, is_saturated=False)


def main() -> int:
    """Attack what the argument names."""
    where = json.loads(sys.argv[1])
    return play(list(_gateway_deeds(where) if "mqtt" in where else _domain_deeds(where)))


if __name__ == "__main__":
    sys.exit(main())
