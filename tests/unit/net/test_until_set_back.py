"""A clock that goes is followed, one that is set ahead too; one that is set back ends the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from maia.events import SECOND, Instant
from maia.net import process
from maia.net.process import until_set_back
from maia.testing.refusals import raises


async def shown(offsets_s: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait with a clock that is off by each of these in turn, and then stands where it is."""
    monkeypatch.setattr(process, "_CLOCK_LOOK_S", 0.0)
    steady, left, all_seen = asyncio.get_running_loop().time, list(offsets_s), asyncio.Event()

    def clock() -> Instant:
        offset = left.pop(0) if left else offsets_s[-1]
        if not left:
            all_seen.set()
        return Instant(int((1_800_000_000 + offset + steady()) * SECOND))

    async with asyncio.TaskGroup() as waiting:
        until = waiting.create_task(until_set_back(clock, by_s=30.0))
        await all_seen.wait()
        await asyncio.sleep(0.01)
        until.cancel()


@pytest.mark.parametrize("offsets_s", [(0, 0), (0, 3600), (0, -20), (0, 29, 0), (-3600, 0)])
def test_what_is_not_far_back_is_no_reason(offsets_s, monkeypatch):
    asyncio.run(shown(offsets_s, monkeypatch))


@pytest.mark.parametrize("offsets_s", [(0, -31), (0, 3600, 0), (0, -20, -40), (0, 20, -20)])
def test_far_back_is_further_than_clocks_may_differ_since_it_was_furthest_ahead(offsets_s, monkeypatch):
    with pytest.raises(ExceptionGroup) as found:
        asyncio.run(shown(offsets_s, monkeypatch))
    with raises("UNAVAILABLE-CLOCK-SET-BACK"):
        raise found.value.exceptions[0]
