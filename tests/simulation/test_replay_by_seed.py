"""A failure comes back: one seed is one run of the whole network, in another process too."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from maia.testing.simulation import Trouble, Troublemaker
from support.city import City
from support.seeds import with_seeds

TESTS = Path(__file__).resolve().parents[1]


def troubled_run(seed: int) -> str:
    """Return the fingerprints of a minute of trouble among five brokers and eight clients.

    One is of what happens to them, the other of what they ask for, in the order in which they do.
    """
    city, asked = City(seed, brokers=5), sha256()

    def note(host, effects):
        asked.update(repr([(host.name, type(one), getattr(one, "link", None)) for one in effects]).encode())

    city.network.on_effects = note
    city.populate()
    maker = Troublemaker(city.network, city.brokers, Trouble(every_s=5))
    maker.begin()
    for _ in range(60):
        city.network.run_for(1)
        for camera in city.cameras:
            city.sees(camera, 2)
    return f"{city.network.trace.fingerprint} {asked.hexdigest()}"


@with_seeds(1)
def test_brokers_and_clients_do_the_same_again_where_hashes_differ(seed):
    """Nothing that a node sends, nor its order, may depend on that of a set of texts, bytes or objects."""
    code = f"import test_replay_by_seed as t; print(t.troubled_run({seed}))"
    path = os.pathsep.join([str(TESTS), str(Path(__file__).parent), *filter(None, sys.path)])
    prints = set()
    for hashes in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        prints.add(done.stdout.strip())
    assert len(prints) == 1


def test_another_seed_is_another_run():
    assert troubled_run(1) != troubled_run(2)
