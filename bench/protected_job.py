"""One client of the protected job, as a process of its own: it publishes, or reads what its right allows.

The job: a publisher of ten attributes; three readers with different rights,
each of which wants the events in one half of the lanes. With Maia,
certificates say what a reader sees, and brokers seal, sign, filter and
screen. With NATS, the application does it as its author would today: a key
for each attribute, one ciphertext for each value, an Ed25519 signature for
each event, and a reader that opens the attribute it filters on, verifies what
passes, and then opens the others it has keys for. Both give the reader a
dictionary for every event. `open` is NATS with none of that: the publisher
packs, and the reader unpacks and filters.

    python bench/protected_job.py '{"side": "nats", "role": "billing", …}'

It says `ready`, then takes numbers of events from its input and says `done`
when that many were published, or have arrived. Told to `drain`, a reader takes
what arrives until nothing does, and says how much that was.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import maia
from live_network import ATTRIBUTES, FRAME_ROWS, PATIENCE_S, World, events
from maia.credentials import Action, SigningKey
from maia.events import Instant
from maia.net.tls import dialling_context
from maia.types import definition_from_bytes
from sealed_network import sealed_world

PUBLISHER = "publisher"
SUBJECT = "sightings"
ALL = tuple(attribute.name for attribute in ATTRIBUTES)
RIGHTS = {
    "billing": ("numberplate", "timestamp", "lane"),
    "statistics": ("timestamp", "location", "region", "direction", "speed", "lane"),
    "police": ALL,
}
FILTER, WANTED_LANES = "lane < 2", 2
PASSING = 0.5
"""Lanes are numbered 0 to 3 in turn, so half of the events pass."""

QUIET_S = 0.5

Job = Callable[[int | None], Awaitable[int]]
"""Publish or read so many events; with None, read until it is quiet. Returns how many it was."""


def sightings() -> list[dict[str, Any]]:
    """Return a frame of events by name; it is published again and again."""
    return [{one.name: event[one.uid] for one in ATTRIBUTES} for event in events(FRAME_ROWS)]


def check(event: dict[str, Any], seen: tuple[str, ...]) -> None:
    """Fail unless a reader sees what it may, whole, and nothing else."""
    shown = {name: value for name, value in event.items() if value is not None}
    assert set(shown) == set(seen), f"a reader of {seen} was shown {sorted(shown)}"
    assert shown["lane"] < WANTED_LANES


# ---------------------------------------------------------------- with Maia


@asynccontextmanager
async def maia_client(spec: dict[str, Any]) -> AsyncIterator[Job]:
    """Connect to a broker, advertise or subscribe, and return the job."""
    world = sealed_world(spec["keys"])
    role, key = spec["role"], world.key(spec["role"])
    action = Action.PUBLISH if role == PUBLISHER else Action.SUBSCRIBE
    seen = frozenset(one.uid for one in ATTRIBUTES if one.name in RIGHTS.get(role, ALL))
    rights = [world.connect_right(key.principal), world.type_right(key.principal, action, seen)]
    async with maia.connect(spec["address"], key=key, network=world.network, credentials=rights) as client:
        yield await (
            _maia_publisher(client, world) if role == PUBLISHER else _maia_reader(client, world, role)
        )


async def _maia_publisher(client: maia.Client, world: World) -> Job:
    publisher, frame = await client.advertise(definition_from_bytes(world.definition)), sightings()

    async def publish(wanted: int | None) -> int:
        for _ in range((wanted or 0) // FRAME_ROWS):
            await publisher.publish_many(frame)
        await publisher.flush()
        return wanted or 0

    return publish


async def _maia_reader(client: maia.Client, world: World, role: str) -> Job:
    subscription = await client.subscribe(definition_from_bytes(world.definition), FILTER)

    async def read(wanted: int | None) -> int:
        found = 0
        while wanted is None or found < wanted:
            if wanted is None:
                some = await subscription.some(FRAME_ROWS, timeout_s=QUIET_S)
            else:
                some = await subscription.some(wanted - found)
            if not some:
                break
            check(some[0], RIGHTS[role])
            check(some[-1], RIGHTS[role])
            found += len(some)
        return found

    return read


# ---------------------------------------------------------------- with NATS


def attribute_cipher(name: str) -> AESGCM:
    """Return the cipher of one attribute; the benchmark hands its keys out for nothing."""
    return AESGCM(sha256(b"bench attribute " + name.encode()).digest())


def signing_key() -> Ed25519PrivateKey:
    """Return the publisher's key."""
    return Ed25519PrivateKey.from_private_bytes(sha256(b"bench nats publisher").digest())


@asynccontextmanager
async def nats_client(spec: dict[str, Any]) -> AsyncIterator[Job]:
    """Connect to nats-server over TLS, and return the job."""
    import nats

    context = dialling_context(SigningKey.from_seed(bytes(32)))
    client = await nats.connect(f"tls://{spec['address']}", tls=context, tls_hostname="localhost")
    try:
        role, is_open = spec["role"], spec["side"] == "open"
        if role == PUBLISHER:
            yield _nats_publisher(client, _packing() if is_open else _sealing())
        else:
            yield await _nats_reader(client, _unpacking(role) if is_open else _opening(role), role)
    finally:
        await client.close()


Event = dict[str, Any]


def _packing() -> Callable[[Event], bytes]:
    return msgspec.msgpack.encode


def _sealing() -> Callable[[Event], bytes]:
    """Return what makes one message of an event: ten ciphertexts and a signature."""
    ciphers = [(name, name.encode(), attribute_cipher(name)) for name in ALL]
    sign, encode, numbers = signing_key().sign, msgspec.msgpack.encode, count(1)

    def sealed(event: Event) -> bytes:
        nonce = next(numbers).to_bytes(12, "big")
        values = [
            cipher.encrypt(nonce, encode(event[name]), bound + nonce) for name, bound, cipher in ciphers
        ]
        body = encode([nonce, *values])
        return sign(body) + body

    return sealed


def _unpacking(role: str) -> Callable[[bytes], Event | None]:
    seen = RIGHTS[role]

    def unpacked(data: bytes) -> Event | None:
        event = msgspec.msgpack.decode(data)
        return {name: event[name] for name in seen} if event["lane"] < WANTED_LANES else None

    return unpacked


def _opening(role: str) -> Callable[[bytes], Event | None]:
    """Return what makes an event of one message, or nothing if the reader does not want it."""
    ciphers = {name: (place, name.encode(), attribute_cipher(name)) for place, name in enumerate(ALL, 1)}
    wanted = [(name, *ciphers[name]) for name in RIGHTS[role] if name != "lane"]
    lane_place, lane_bound, lane_cipher = ciphers["lane"]
    verify, decode = signing_key().public_key().verify, msgspec.msgpack.decode

    def opened(data: bytes) -> Event | None:
        body = data[64:]
        message = decode(body)
        nonce = message[0]
        lane = decode(lane_cipher.decrypt(nonce, message[lane_place], lane_bound + nonce))
        if lane >= WANTED_LANES:
            return None
        verify(data[:64], body)  # only what is wanted: half of the signatures need no look
        event = {"lane": lane}
        for name, place, bound, cipher in wanted:
            event[name] = decode(cipher.decrypt(nonce, message[place], bound + nonce))
        return event

    return opened


# Any: the client of nats-py, which is not installed everywhere.
def _nats_publisher(client: Any, packed: Callable[[Event], bytes]) -> Job:
    frame = [{name: +v if isinstance(v, Instant) else v for name, v in one.items()} for one in sightings()]

    async def publish(wanted: int | None) -> int:
        for turn in range(wanted or 0):
            await client.publish(SUBJECT, packed(frame[turn % FRAME_ROWS]))
        await client.flush(timeout=PATIENCE_S)
        return wanted or 0

    return publish


async def _nats_reader(client: Any, opened: Callable[[bytes], Event | None], role: str) -> Job:
    subscription = await client.subscribe(SUBJECT, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()

    async def read(wanted: int | None) -> int:
        found = 0
        while wanted is None or found < wanted:
            try:
                message = await subscription.next_msg(timeout=QUIET_S if wanted is None else PATIENCE_S)
            except TimeoutError:
                break
            event = opened(message.data)
            if event is not None:
                found += 1
                if found % FRAME_ROWS == 0:
                    check(event, RIGHTS[role])
        return found

    return read


# ---------------------------------------------------------------- one process


async def main(spec: dict[str, Any]) -> None:
    """Do the job as often as the input says, until it ends."""
    client = maia_client if spec["side"] == "maia" else nats_client
    async with client(spec) as job:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            found = await job(None if line == "drain\n" else int(line))
            print("done", found, flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
