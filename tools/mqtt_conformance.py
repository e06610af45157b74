"""Runs the MQTT 5.0 tests of the Eclipse Paho project, which others wrote for brokers, against our gateway.

    pip download --no-deps --no-binary :all: paho-mqtt==2.2.0
    .venv/bin/python tools/mqtt_conformance.py paho_mqtt-2.2.0.tar.gz

They are in the source package of the Paho version that `requirements.lock` names, and its hash is checked.
Nothing of them is kept here. Each test has a broker and a gateway of its own. docs/mqtt.md has the results.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import types
import unittest
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode

ROOT = Path(__file__).resolve().parent.parent
TREES = {"TopicA": "topic.a", "Topic": "topic.b", "paho.mqtt.client.mqttv5": "topic.c"}
"""Which MQTT topics the tests use, and the trees of topics that they are here."""
RETAINED = ("test_retained_message", "test_subscribe_options")
"""Tests for which topics are declared as retained: then every message on them is."""
TEST_S = 60


def main() -> int:
    """Run every test in a process of its own, and print what came out."""
    if len(sys.argv) == 3:
        return run_one(Path(sys.argv[1]), sys.argv[2])
    package = Path(sys.argv[1])
    if hashlib.sha256(package.read_bytes()).hexdigest() not in (ROOT / "requirements.lock").read_text():
        print(f"{package} is not the package that requirements.lock names", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name, tarfile.open(package) as packed:
        packed.extractall(name, filter="data")
        (unpacked,) = Path(name).iterdir()
        sys.path.insert(0, str(unpacked))
        suite = importlib.import_module("tests.test_mqttv5").Test
        names = unittest.defaultTestLoader.getTestCaseNames(suite)
        passed = 0
        for test in names:
            command = [sys.executable, __file__, str(unpacked), test]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TEST_S, check=False)
            passed += done.returncode == 0
            why = [one for one in done.stderr.splitlines() if "Error: " in one]
            print(f"{test}: {'passed' if done.returncode == 0 else ' '.join(why) or done.stderr[-200:]}")
        print(f"{passed} of {len(names)} passed")
    return 0


def run_one(unpacked: Path, test: str) -> int:
    """Run one test of the unpacked package beside a broker and a gateway."""
    sys.path[:0] = [str(ROOT / "tests"), str(unpacked)]
    sys.modules["mqtt"] = types.ModuleType("mqtt")  # the broker that the tests would start themselves
    sys.modules["mqtt.brokers"] = types.ModuleType("mqtt.brokers")
    suite = importlib.import_module("tests.test_mqttv5")
    address: list[str] = []
    is_ready = threading.Event()
    threading.Thread(target=lambda: asyncio.run(_serve(test, address, is_ready)), daemon=True).start()
    is_ready.wait(TEST_S)
    port, token = address
    again = paho.Client.reconnect

    def reconnect(client: paho.Client) -> MQTTErrorCode:
        client.username_pw_set("suite", token)
        return again(client)

    paho.Client.reconnect = reconnect  # type: ignore[method-assign,assignment]
    suite.Test._start_broker = classmethod(lambda cls, port: setattr(cls, "_test_broker_port", here))
    suite.Test.tearDownClass = classmethod(lambda _cls: None)
    here = int(port)
    outcome = unittest.TextTestRunner(buffer=True).run(unittest.TestSuite([suite.Test(test)]))
    sys.stderr.flush()
    os._exit(not outcome.wasSuccessful())  # clients of a failed test have threads that do not end


async def _serve(test: str, address: list[str], is_ready: threading.Event) -> None:
    from maia.credentials import Action, TypeName
    from maia.predicates import ALWAYS
    from maia.types import TypeDefinition
    from maia.types.definition import plain_attributes
    from support.mqtt_city import OWNER, mqtt_city  # type: ignore[import-not-found]  # lies beside the tests

    retained = str(test in RETAINED).lower()
    topics = "".join(
        f'\n[[topics]]\nmqtt = "{mqtt}/#"\ntype = "{name}.type"\npayload = "plain"\n'
        f"durable = true\nretained = {retained}\n"
        for mqtt, name in TREES.items()
    )
    definitions = {
        name: TypeDefinition(TypeName(OWNER.principal, name, "0"), None, plain_attributes())
        for name in TREES.values()
    }
    with tempfile.TemporaryDirectory() as folder:
        async with mqtt_city(Path(folder), definitions, topics) as city:
            rights = {
                f"{action.name} {name}": (action, name, None, ALWAYS)
                for name in TREES.values()
                for action in (Action.PUBLISH, Action.SUBSCRIBE)
            }
            city.account("suite", **rights)
            address += [city.address.rpartition(":")[2], city.tokens["suite"]]
            is_ready.set()
            await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
