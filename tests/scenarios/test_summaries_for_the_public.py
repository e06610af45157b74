"""The public gets the mean of an area every while, over real brokers, and each delivery is on record."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import maia
from maia.broker.settings import LedgerSettings
from maia.ledger.files import LedgerFiles, disclosures_in, verify_ledger
from maia.testing import in_a_loop, soon
from support.air_quality import AREA, CENTRE, PUBLIC, READING, SENSOR, connected, edge_and_centre

# One alone in Ely, and again and again two sensors in Cambridge, one of them broken now and then.
ALONE = {"sensor": "s3", "place": "EL1 1AA", "level": 50.0}
READINGS = (
    {"sensor": "s1", "place": "CB3 0FD", "level": 10.0},
    {"sensor": "s2", "place": "CB1 2AB", "level": 20.0},
    {"sensor": "s2", "place": "CB1 2AB", "level": 31.0},
    {"sensor": "s1", "place": "CB3 0FD", "level": 900.0},
)


@in_a_loop
async def test_the_public_receives_means_of_areas_and_no_reading(tmp_path: Path):
    on_record = LedgerSettings(of_all_types=True)
    with LedgerFiles(tmp_path) as ledger:
        async with (
            edge_and_centre(ledger, ledger=on_record) as (edge, centre),
            connected(SENSOR, edge.address) as sensor,
            connected(PUBLIC, centre.address) as public,
        ):
            means = await public.subscribe(READING, shown_as=AREA)
            dear = await public.subscribe(READING, "mean_level > 100.0", shown_as=AREA)
            for wanted in ('sensor == "s1"', 'place == "CB3"'):
                with pytest.raises(maia.MaiaError):
                    await public.subscribe(READING, wanted, shown_as=AREA)
            with pytest.raises(maia.MaiaError) as refused:
                await public.subscribe(READING, shown_as=AREA, durable="nightly")
            assert refused.value.code == "REFUSED-SUMMARY-DURABLE"
            written = await sensor.advertise(READING)

            async def measure() -> None:
                await written.publish(ALONE)
                while True:  # until the public has seen enough
                    await written.publish_many(READINGS)
                    await written.flush()
                    await asyncio.sleep(0.2)

            measuring = asyncio.create_task(measure())
            try:
                seen = [await soon(anext(means)) for _ in range(2)]
            finally:
                measuring.cancel()
            for event in seen:
                # Rounded to halves by the sensors' policy, and to tenths by the public's.
                times = event["readings"] // 3
                assert times >= 1
                mean = float(610 * times) / float(3 * times) * 0.1
                assert event == {**event, "area": "CB", "readings": 3 * times, "mean_level": mean}
                assert event.publisher.principal == CENTRE.principal
            assert seen[0]["begins"] < seen[1]["begins"]
            assert await dear.some(1, timeout_s=0.05) == []
    assert verify_ledger(tmp_path).head.entries
    recorded = list(disclosures_in(tmp_path))
    assert len(recorded) >= 2
    for one in recorded:
        assert one.recipient == PUBLIC.principal.key
        assert one.publisher == CENTRE.principal.key
        assert one.summary is not None
        assert one.summary.events >= 3
        assert one.rows == 1
