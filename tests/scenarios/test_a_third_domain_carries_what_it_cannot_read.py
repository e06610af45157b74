"""Three domains over real processes: the one in the middle carries everything and reads nothing.

CCS publishes, Met reads, PITO's key server hands out keys, and a broker of a
third domain, which has the right to connect and no other, is the rendezvous of
the type. Every byte that its process receives and stores is searched.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

import maia
from maia.clock import system_now
from maia.credentials import (
    Action,
    NetworkPattern,
    Principal,
    SignedCertificate,
    SigningKey,
    TypePattern,
    certificate_to_text,
    exact_name,
)
from maia.credentials.brokers import AS_BROKER
from maia.domain import DomainSettings
from maia.domain.server.process import run_key_server
from maia.events import Instant
from maia.keystore.key_files import create_key_file
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.routing.table.hops import type_of_book_key
from maia.testing import Cast
from maia.types import Cover, Sealing, SealingLevel, definition_to_text, sign_definition, type_id
from maia.wire.codec import decode
from maia.wire.messages import Carried, Interest, Publish, Sealed
from support.numberplate import SUSPECT, tell_numberplate_story
from support.nursery import module_command
from support.sealed_messages import is_sealed

SECRETS = ("LC04 ABC", "Waterloo Bridge", "Victoria")
NAMES = ("numberplate", "location", "timestamp", "uk.gov.pito.Numberplate")


@dataclass
class Domain:
    """A broker of one domain: its key, its certificates and its folder."""

    name: str
    key: SigningKey
    certificates: tuple[SignedCertificate, ...]
    home: Path


def key_of(name: str) -> SigningKey:
    return SigningKey.from_seed(sha256(b"third domain/" + name.encode()).digest())


def right(story: Cast, to: Principal, *actions: Action) -> SignedCertificate:
    """Let PITO, which owns the network and the type, grant something."""
    name = story.type_name
    pattern = (
        NetworkPattern(story.network.owner, exact_name(story.network.name))
        if Action.CONNECT in actions
        else TypePattern(name.owner, exact_name(name.name), None)
    )
    return story.grant("PITO", to, pattern, *actions)


def key_nearest_to_the_type(story: Cast, *others: SigningKey) -> SigningKey:
    """Return a key whose broker is the rendezvous of the type among these."""
    name = story.type_name
    point = node_id_of_type(type_id(name.owner, name.name))
    nearest = min(closeness(node_id_of_key(one.principal.key), point) for one in others)
    for number in count():
        key = key_of(f"rendezvous {number}")
        if closeness(node_id_of_key(key.principal.key), point) < nearest:
            return key
    raise AssertionError


def written(domain: Domain, story: Cast, *, join: list[str], types: bool) -> None:
    """Write the files that the operator of a broker has."""
    (domain.home / "certs").mkdir(parents=True)
    create_key_file(domain.home / "broker.key", domain.key)
    for number, signed in enumerate(domain.certificates):
        (domain.home / "certs" / f"{number}.cert").write_text(certificate_to_text(signed))
    lines = {
        "key": "broker.key",
        "network": story.network.name,
        "coordinator": str(story.network.owner),
        "credentials": "certs",
        "listen": "127.0.0.1:0",
        "join": join,
        "data": "data",
        "status": "off",
        "log_format": "json",
        "log_level": "debug",
    }
    if types:
        (domain.home / "types").mkdir()
        (domain.home / "types" / "np.type").write_text(definition_to_text(story.definition))
        lines["types"] = "types"
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
    (domain.home / "broker.toml").write_text(text)


@asynccontextmanager
async def process_of(domain: Domain) -> AsyncIterator[str]:
    """Run a broker in a process of its own that records what it receives; yield where it listens."""
    process = await asyncio.create_subprocess_exec(
        module_command("support.recording_broker"), domain.home, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(180):
            line = await process.stdout.readline()
        yield json.loads(line)["address"]
        process.terminate()  # it keeps what it has to keep, and that is searched too
        async with asyncio.timeout(180):
            await process.wait()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def everything_in(home: Path) -> dict[str, bytes]:
    """Return every file that a broker wrote, by its name."""
    own = {"broker.key", "broker.toml"}
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and path.name not in own and "certs" not in path.parts
    }


def messages_in(heard: bytes) -> list[object]:
    """Return the whole messages in a file that a client may be writing to."""
    found, at = [], 0
    while (begins := at + 4) < len(heard):
        at = begins + int.from_bytes(heard[begins - 4 : begins], "big")
        if at <= len(heard):
            found.append(decode(heard[begins:at]))
    return found


def carried(heard: list[object]) -> int:
    """Return how many rows a broker was given to carry."""
    return sum(message.rows for message in heard if isinstance(message, Sealed))


async def told_the_story(
    folder: Path, level: SealingLevel, *, cover: Cover | None = None
) -> tuple[list[dict[str, object]], Path, Path]:
    """Publish through CCS, read at Met; return what was read, and the folders of the third domain and Met.

    With cover the type is blinded, and whether the third domain is on the way is up to chance.
    """
    story = tell_numberplate_story(b"third domain", now=system_now())
    keys = key_of("keys")
    connects = right(story, keys.principal, Action.CONNECT)

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            run_key_server(
                keys,
                lambda address: DomainSettings(story.network, address, (connects,), require_install=False),
                listen="127.0.0.1:0",
            )
        )
        sealing = Sealing(level, keys.principal, (server.address,), cover is not None, cover)
        sealed = replace(story.definition.definition, sealing=sealing)
        story = replace(story, definition=sign_definition(sealed, story.keys["PITO"]))
        first, last = key_of("CCS broker"), key_of("Met broker")
        middle = key_nearest_to_the_type(story, first, last)
        domains = [
            Domain(name, key, (right(story, key.principal, *AS_BROKER), *rights), folder / name)
            for name, key, rights in (
                ("ccs", first, (right(story, first.principal, Action.PUBLISH, Action.SUBSCRIBE),)),
                ("third", middle, ()),
                ("met", last, (right(story, last.principal, Action.SUBSCRIBE),)),
            )
        ]
        addresses: list[str] = []
        for domain in domains:
            written(domain, story, join=addresses[:1], types=domain.name != "third")
            addresses.append(await stack.enter_async_context(process_of(domain)))
        camera = await stack.enter_async_context(client(story, "camera at Victoria", addresses[0]))
        smith = await stack.enter_async_context(client(story, "Detective Smith", addresses[2]))
        least = 3 if cover is None else 0
        read = await published_until_read(camera, smith, through=folder / "third" / "heard", least=least)
    return read, folder / "third", folder / "met"


def client(story: Cast, who: str, address: str):
    return maia.connect(
        address,
        key=story.keys[who],
        network=story.network,
        credentials=story.certificates,
        types=[story.definition],
        dial_again_s=0.05,
    )


async def published_until_read(camera, smith, *, through: Path, least: int) -> list[dict[str, object]]:
    """Publish sightings until the detective has seen three of the suspect, and the third domain carried some.

    At first the brokers may not have found each other, and frames take a shorter way.
    """
    name = "uk.gov.pito.Numberplate"
    read: list[dict[str, object]] = []
    async with asyncio.timeout(180):
        subscription = await smith.subscribe(name, 'location == "Victoria"')
        publisher = await camera.advertise(name)

        async def publish() -> None:
            while True:
                for plate in ("LC04 ABC", SUSPECT):
                    event = {"numberplate": plate, "timestamp": system_now(), "location": "Waterloo Bridge"}
                    await publisher.publish(**event)
                await publisher.flush()
                await asyncio.sleep(0.1)

        publishing = asyncio.create_task(publish())
        try:
            async for event in subscription:
                read.append(dict(event))
                if len(read) >= 3 and carried(messages_in(through.read_bytes())) >= least:
                    break
        finally:
            publishing.cancel()
            with suppress(asyncio.CancelledError):
                await publishing
    return read


@pytest.mark.parametrize("level", list(SealingLevel))
def test_every_byte_of_a_broker_without_rights_is_free_of_what_it_carried(tmp_path: Path, level) -> None:
    """Issue 4: no value, name or filter operand among what the process received and stored."""
    read, third, met = asyncio.run(told_the_story(tmp_path, level))
    assert {(event["numberplate"], event["location"]) for event in read} == {(SUSPECT, "Victoria")}
    assert all(isinstance(event["timestamp"], Instant) for event in read)

    heard = messages_in((third / "heard").read_bytes())
    kinds = {type(message) for message in heard}
    assert Sealed in kinds, "the third domain was not on the way"
    assert any(is_sealed(message, Interest) for message in heard), "nothing was asked for by way of it"
    assert not kinds & {Carried, Publish}
    assert carried(heard) >= 3
    for name, data in everything_in(third).items():
        for secret in (*SECRETS, SUSPECT, *NAMES):
            assert secret.encode() not in data, f"`{secret}` is in `{name}` of a broker without rights"
    # The search finds what is there: the reader's broker has the names and the operand.
    found = b"".join(everything_in(met).values())
    assert all(secret.encode() in found for secret in ("uk.gov.pito.Numberplate", "numberplate", "Victoria"))


def test_a_blinded_type_is_read_over_tls_and_named_nowhere_on_the_way(tmp_path: Path) -> None:
    """A100: real brokers, a real key server and cover; the third domain's files are searched."""
    read, third, _ = asyncio.run(told_the_story(tmp_path, SealingLevel.EVENT, cover=Cover(50, 1024)))
    assert {(event["numberplate"], event["location"]) for event in read} == {(SUSPECT, "Victoria")}
    name = tell_numberplate_story(b"third domain", now=system_now()).definition.definition.name
    own = type_id(name.owner, name.name)
    heard = messages_in((third / "heard").read_bytes())
    assert own not in {message.type_id for message in heard if isinstance(message, Sealed)}
    assert own not in {type_of_book_key(message.key) for message in heard if is_sealed(message, Interest)}
    for secret in (name.name.encode(), own, own.hex().encode()):
        for path, found in everything_in(third).items():
            assert secret not in found, f"{path} names the type"
