"""D11: a broker rolls its log into an object store, which may be away; jobs find it there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import nan
from pathlib import Path
from urllib.request import urlopen

import pytest

from maia.clock import system_now
from maia.credentials import Action
from maia.credentials.names import type_id
from maia.log.disk.place_log import PlaceLog
from maia.log.disk.reader import LogView
from maia.net.status_endpoint import NoStatus, read_door
from maia.places import Place
from maia.spark.governed.log_folder import LogFolder
from maia.testing import Processes, Server, wait_until
from support.killed_broker import Camera
from support.line import Line
from support.numberplate import add_carrier, tell_numberplate_story
from support.object_store import ObjectStore, forgotten_stores

WHO = "CCS broker"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    cast = add_carrier(tell_numberplate_story(b"object store", now=system_now()), b"object store")
    # Not forked: the library that writes to stores has threads of its own.
    with Processes(tmp_path, cast) as found:
        yield found


@pytest.fixture
def line(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    made = Line(object_store.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{made.port}")
    yield made
    made.close()


def recording(place: Place) -> str:
    return f'status = "127.0.0.1:0"\n[log]\nfolder = "log"\nroll_s = 1\nplace = "{place}"'


def metrics(server: Server) -> Mapping[str, float]:
    """What the broker says of its log; nothing yet while its status cannot be asked for."""
    try:
        return asked_metrics(server)
    except (NoStatus, OSError):
        return defaultdict(lambda: nan)


def asked_metrics(server: Server) -> dict[str, float]:
    with urlopen(f"http://{read_door(server.folder / 'data').address}/metrics", timeout=60) as page:
        lines = (one for one in page.read().decode().splitlines() if one.startswith("maia_log_"))
        return {name: float(value) for name, value in (one.rsplit(" ", 1) for one in lines)}


def positions(place: Place) -> list[int]:
    """The frames that a log in a place holds."""
    view = LogView(place.address)
    assert view.verify().is_whole
    found = view.state.segments.values()
    return sorted(position for one in found for position in range(one.first, one.last + 1))


def test_a_log_arrives_in_its_place_once_whatever_ends_meanwhile(
    processes: Processes,
    bucket: Place,
    line: Line,
    object_store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, cast = bucket / "north", processes.cast
    shown = [*cast.wallets[WHO], cast.right(WHO, Action.SUBSCRIBE)]
    with forgotten_stores():
        broker = processes.broker(WHO, credentials=shown, more=recording(place))
    camera = Camera(processes, broker)
    camera.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.environment["AWS_ENDPOINT_URL"])
    with forgotten_stores():
        wait_until(lambda: PlaceLog(place).state.rolled_upto > 0, within_s=60)

        line.cut()  # the store is away: publishers notice nothing, operators do
        wait_until(lambda: metrics(broker)["maia_log_place_failed"] == 1, within_s=60)
        camera.wait_for_more()
        wait_until(lambda: metrics(broker)["maia_log_place_behind"] > 0, within_s=60)
        before = PlaceLog(place).state.rolled_upto
        line.mend()
        wait_until(lambda: metrics(broker)["maia_log_place_failed"] == 0, within_s=60)
        wait_until(lambda: PlaceLog(place).state.rolled_upto > before, within_s=60)

        processes.crash(broker)  # in the middle of anything
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{line.port}")
        processes.restart(broker)
        monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.environment["AWS_ENDPOINT_URL"])
        camera.wait_for_more()
        camera.stops.set()
        camera.join(60)
        assert camera.problem is None
        wait_until(lambda: metrics(broker)["maia_log_place_behind"] == 0, within_s=60)
        recorded = int(asked_metrics(broker)["maia_log_position"])
        assert positions(place) == list(range(1, recorded + 1))
        one = cast.definition.definition.name
        assert LogFolder(str(place)).of_type(type_id(one.owner, one.name)).newest == recorded

        words = [sys.executable, "-m", "maia", "log", "verify", str(place), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, json.loads(done.stdout)["records"]) == (0, recorded), done.stderr

        # Another broker cannot write there.
        with pytest.raises(AssertionError, match="LOG-PLACE-TAKEN"):
            processes.broker("Met broker", more=recording(place))
        assert "AKIA" not in broker.errors + broker.output
