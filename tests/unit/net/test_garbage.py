"""A broker sets aside what is old, walks over what is young, and frees dead connections in the end."""

from __future__ import annotations

import asyncio
import gc
import platform
import subprocess
import sys
import weakref

import pytest

from maia.net.process import ENDED_MIN, YOUNG, YOUNG_WALKS, GarbageWatch, watched


class Circle:
    """Something that only a walk can free."""

    def __init__(self) -> None:
        self.itself = self


def is_walked(thing: object) -> bool:
    """Does the collector still visit it? (Counting what is frozen would count what others free meanwhile.)"""
    return any(seen is thing for seen in gc.get_objects())


@pytest.fixture(autouse=True)
def collector_as_it_was():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_the_start_has_made_is_set_aside():
    kept = Circle()
    assert is_walked(kept)
    GarbageWatch()
    assert not is_walked(kept)


def test_what_has_grown_old_is_set_aside_when_there_is_enough_of_it():
    watch = GarbageWatch()
    kept = [Circle() for _ in range(YOUNG * (YOUNG_WALKS + 4))]
    assert is_walked(kept[0])
    watch.look(connections=1, ended=0)
    assert not is_walked(kept[0])


def test_nothing_is_set_aside_while_little_is_made():
    watch, young = GarbageWatch(), Circle()
    watch.look(connections=1, ended=0)
    assert is_walked(young)


def test_dead_circles_that_were_set_aside_are_freed_once_enough_connections_have_ended():
    circle = Circle()
    watch, seen = GarbageWatch(), weakref.ref(circle)
    del circle
    watch.look(connections=ENDED_MIN + 5, ended=ENDED_MIN + 4)
    assert seen() is not None
    watch.look(connections=ENDED_MIN + 5, ended=ENDED_MIN + 5)
    assert seen() is None


def test_the_collector_is_left_as_it_was():
    before = gc.get_threshold()

    async def body() -> tuple[int, int, int]:
        with watched(lambda: (0, 0)):
            await asyncio.sleep(0)
            return gc.get_threshold()

    assert asyncio.run(body())[0] == YOUNG
    assert gc.get_threshold() == before


_LARGE_FRAMES = """
import resource, sys
from maia.net.process import keep_free_memory
if sys.argv[1:]:
    keep_free_memory()
def frame():
    return [bytes(100_000) for _ in range(20)]
for _ in range(5):
    frame()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    frame()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="there is nothing to set in another C library")
def test_the_memory_of_large_frames_is_kept_for_the_next_one():
    usual, kept = (
        int(
            subprocess.run(
                [sys.executable, "-c", _LARGE_FRAMES, *given], check=True, capture_output=True, timeout=60
            ).stdout
        )
        for given in ([], ["kept"])
    )
    assert usual > 20 * 100
    assert kept < 20
