"""A sealed type on a live network: its key server, the publisher's broker and the readers' broker.

All are processes, started as an operator would: `maia domain serve` and two
`maia broker`. Both brokers hold rights of their own to the type, for a key
server hands keys to nobody else. Clients connect with certificates of theirs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from live_network import World, new_world
from maia.clock import system_now
from maia.credentials import Action, SigningKey, certificate_to_text
from maia.keystore.key_files import create_key_file
from maia.types import Sealing, SealingLevel, definition_to_bytes, sign_definition, verify_definition

STOP_S = 180


@dataclass(frozen=True, slots=True)
class SealedNetwork:
    """Where everybody of a running network is found."""

    keys: str
    publishers: str
    readers: str


def sealed_world(keys: str) -> World:
    """Return the world of the other benchmarks, whose type is sealed by attribute under this key server."""
    world = new_world()
    sealing = Sealing(SealingLevel.ATTRIBUTE, world.key("key server").principal, (keys,))
    plain = world.event_type.definition
    signed = sign_definition(replace(plain, sealing=sealing), world.owner)
    event_type = verify_definition(signed, at=system_now())
    return replace(world, event_type=event_type, definition=definition_to_bytes(signed))


@contextmanager
def sealed_network(*, share_plaintext: bool = False) -> Iterator[SealedNetwork]:
    """Run a key server and two brokers, each with its files in a folder of its own, then stop them."""
    plain = new_world()
    with ExitStack() as stack:
        keys = stack.enter_context(_process(plain, "key server", ["domain", "serve"], {}))
        world = sealed_world(keys)
        settings: dict[str, object] = {"lease_s": 3600, "share_plaintext": share_plaintext}
        first = stack.enter_context(_process(world, "publishers' broker", ["broker"], settings))
        second = stack.enter_context(
            _process(world, "readers' broker", ["broker"], {**settings, "join": [first]})
        )
        yield SealedNetwork(keys, first, second)


@contextmanager
def _process(world: World, name: str, words: list[str], settings: dict[str, object]) -> Iterator[str]:
    """Run one process and return where it listens."""
    with tempfile.TemporaryDirectory(prefix="maia-bench-") as folder:
        config = _config(world, Path(folder), world.key(name), settings, has_data=words[0] == "domain")
        command = [sys.executable, "-m", "maia.cli", *words, "--config", str(config), "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"the {name} did not start"
            yield str(json.loads(line)["listening"])
        finally:
            process.terminate()
            process.wait(timeout=STOP_S)
            assert process.stdout is not None
            process.stdout.close()


def _config(
    world: World, folder: Path, key: SigningKey, settings: dict[str, object], *, has_data: bool
) -> Path:
    create_key_file(folder / "own.key", key)
    rights = [(world.connect_right if has_data else world.broker_right)(key.principal)]
    if not has_data:
        rights += [world.type_right(key.principal, action) for action in (Action.PUBLISH, Action.SUBSCRIBE)]
    for number, right in enumerate(rights):
        (folder / f"{number}.cert").write_text(certificate_to_text(right), encoding="utf-8")
    said = {
        "key": "own.key",
        "network": world.network.name,
        "coordinator": str(world.owner.principal),
        "credentials": [f"{number}.cert" for number in range(len(rights))],
        "listen": "127.0.0.1:0",
        "status": "off",
        "log_level": "error",
        **({"data": "data"} if has_data else {}),
        **settings,
    }
    if has_data:
        (folder / "data").mkdir(mode=0o700)
    config = folder / "config.toml"
    config.write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items()), encoding="utf-8"
    )
    return config
