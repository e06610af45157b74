"""A broker sets aside what is old, walks over what is young, and frees dead connections in the end."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from maia.runtime.garbage import ENDED_MIN, YOUNG, YOUNG_WALKS, GarbageWatch, watched


class Circle:
    """Something that only a walk can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector_as_it_was():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_the_start_has_made_is_set_aside():
    kept = [Circle() for _ in range(100)]
    before = gc.get_freeze_count()
    GarbageWatch()
    assert gc.get_freeze_count() >= before + len(kept)


def test_what_has_grown_old_is_set_aside_when_there_is_enough_of_it():
    watch = GarbageWatch()
    frozen = gc.get_freeze_count()
    kept = [Circle() for _ in range(YOUNG * (YOUNG_WALKS + 4))]
    watch.look(connections=1, ended=0)
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_nothing_is_set_aside_while_little_is_made():
    watch = GarbageWatch()
    frozen = gc.get_freeze_count()
    watch.look(connections=1, ended=0)
    assert gc.get_freeze_count() <= frozen


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
