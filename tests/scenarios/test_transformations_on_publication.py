"""A policy transforms what a publisher writes before it leaves its broker, for all readers alike."""

from __future__ import annotations

import pytest

import maia
from maia.expressions.meaning import pseudonym_of
from maia.expressions.syntax import Function, Scope
from maia.testing import in_a_loop, soon
from support.air_quality import (
    CAMERA,
    CITY,
    MAST,
    OPERATOR,
    PASSING,
    READING,
    SECRETS,
    SENSOR,
    SIGHTING,
    connected,
    edge_and_centre,
)


def pseudonym(value: str) -> str:
    key = SECRETS.of(CITY.principal.key, b"").key(Function.PSEUDONYM, Scope.DOMAIN)
    assert key is not None
    return pseudonym_of(key, value)


@in_a_loop
async def test_what_a_sensor_writes_is_coarse_when_it_leaves_its_broker():
    async with (
        edge_and_centre() as (edge, centre),
        connected(SENSOR, edge.address) as sensor,
        connected(OPERATOR, edge.address) as near,
        connected(OPERATOR, centre.address) as far,
    ):
        here, there = await near.subscribe(READING), await far.subscribe(READING)
        # Asked of what is published: nobody can ask for the exact place, at any broker.
        exact = await far.subscribe(READING, 'place == "CB3 0FD"')
        coarse = await far.subscribe(READING, 'place == "CB3" and level == 12.5')
        written = await sensor.advertise(READING, signs=True)
        await written.publish_many(
            [
                {"sensor": "s1", "place": "CB3 0FD", "level": 12.4},
                {"sensor": "s2", "place": "CB1 2AB", "level": 140.0},
                {"sensor": "s3", "place": "CB3 0FD", "level": None},
            ]
        )
        # The right is on the outcome: `level >= 0` is unknown for the last one.
        with pytest.raises(maia.MaiaError) as refused:
            await written.flush()
        assert refused.value.code == "REFUSED-ROWS"
        published = [
            {"sensor": pseudonym("s1"), "place": "CB3", "level": 12.5},
            {"sensor": pseudonym("s2"), "place": "CB1 2AB", "level": 140.0},
        ]
        for subscription in (here, there):
            for wanted in published:
                event = await soon(anext(subscription))
                assert event == wanted
                # The sensor's own signature is about other values than these, and never goes along.
                assert not event.publisher.is_signed
        assert await soon(anext(coarse)) == published[0]
        assert await exact.some(1, timeout_s=0.05) == []


@in_a_loop
async def test_a_camera_writes_one_type_and_publishes_another():
    async with (
        edge_and_centre() as (edge, centre),
        connected(CAMERA, edge.address) as camera,
        connected(OPERATOR, centre.address) as operator,
    ):
        passings = await operator.subscribe(PASSING)
        written = await camera.advertise(PASSING, written_as=SIGHTING)
        await written.publish(plate="AE05 XYZ", place="CB3 0FD", speed=30)
        await written.flush()
        assert await soon(anext(passings)) == {"vehicle": pseudonym("AE05 XYZ"), "area": "CB3"}
        # The policy's restriction is about what is written, and a parked car is not published.
        await written.publish(plate="AE05 XYZ", place="CB3 0FD", speed=0)
        with pytest.raises(maia.MaiaError) as refused:
            await written.flush()
        assert refused.value.code == "REFUSED-ROWS"
        # Neither the type that is written nor that which is published can be published as it is.
        with pytest.raises(maia.MaiaError) as refused:
            await camera.advertise(SIGHTING)
        assert refused.value.code == "POLICY-NO-CHAIN"
        with pytest.raises(maia.MaiaError) as refused:
            await camera.advertise(PASSING)
        assert refused.value.code == "TYPE-UNKNOWN"
        assert "your right is to write `city.Sighting`" in str(refused.value)
        assert await passings.some(1, timeout_s=0.05) == []


@pytest.mark.parametrize("signs", [False, True])
@in_a_loop
async def test_what_is_written_is_transformed_however_it_is_sent_and_never_signed(signs: bool):
    """One event alone, several in one read, a batch; and one that the transformation leaves as it is."""
    async with (
        edge_and_centre() as (edge, centre),
        connected(MAST, edge.address) as mast,
        connected(OPERATOR, edge.address) as near,
        connected(OPERATOR, centre.address) as far,
    ):
        readers = [await near.subscribe(READING), await far.subscribe(READING)]
        written = await mast.advertise(READING, signs=signs)
        exact = ["CB3 0FD", "CB3", "CB1 2AB"]

        async def arrives(places: list[str]) -> None:
            for subscription in readers:
                for place in places:
                    event = await soon(anext(subscription))
                    assert event == {"sensor": "m1", "place": place[:3], "level": 1.0}
                    assert not event.publisher.is_signed, "which events were changed is not to be seen"

        for place in exact:
            await written.publish(sensor="m1", place=place, level=1.0)
            await written.flush()
        await arrives(exact)
        for place in exact * 10:  # frames of one event each, of which the broker reads several at once
            await written.publish_many([{"sensor": "m1", "place": place, "level": 1.0}])
        await written.flush()
        await arrives(exact * 10)
        await written.publish_many({"sensor": "m1", "place": place, "level": 1.0} for place in exact)
        await written.flush()
        await arrives(exact)
