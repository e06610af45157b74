"""C15 over real sockets: what clients sign again goes on, and what a broker has kept of them does not."""

from __future__ import annotations

import asyncio

from maia.clock import system_now
from maia.credentials import Action
from maia.events import seconds_after
from maia.predicates import ALWAYS
from maia.testing import in_a_loop, serving, shown, soon, until
from maia.wire import EdgeRequest, Greeting, Welcome, request_to_bytes, sign_request
from maia.wire.messages import Interest, Wanted
from maia.wire.names import filter_to_bytes
from support.live import STORY, client, hello, stranger
from support.numberplate import add_brokers

LEASE_S = 3
AGE_S = 4 * LEASE_S
"""Which is the least."""
CAST = add_brokers(STORY, b"fresh requests")


def a_request_of(who: str, seconds_ago: float) -> bytes:
    """Return what a client signed some time ago, as a broker has kept it that was shown it."""
    at = seconds_after(system_now(), -seconds_ago)
    asked = EdgeRequest(Action.SUBSCRIBE, CAST.network, CAST.type_name, ALWAYS, b"s" * 16, at, b"n" * 16)
    return request_to_bytes(sign_request(asked, CAST.keys[who]))


@in_a_loop
async def test_clients_sign_again_and_a_broker_repeats_nothing():
    how = {"lease_s": LEASE_S, "proof_age_s": AGE_S, "skew_s": 1}
    (_, first), (_, second), (key, third) = (
        CAST.identity(one) for one in ("CCS broker", "Met broker", "a rogue broker")
    )
    async with (
        serving(CAST, "CCS broker", credentials=first, **how) as ccs,
        serving(CAST, "Met broker", credentials=second, seeds=(ccs.address,), **how) as met,
        client("camera at Victoria", ccs.address, story=CAST) as camera,
        client("Detective Smith", met.address, story=CAST) as smith,
    ):
        suspects = await smith.subscribe(CAST.definition)
        cars = await camera.advertise(CAST.definition)
        await asyncio.sleep(AGE_S + 2)  # by now, what was signed first counts no more
        await cars.publish(numberplate="AE05 XYZ", timestamp=system_now(), location="Victoria")
        assert (await soon(anext(suspects)))["numberplate"] == "AE05 XYZ"
        assert ccs.status()["refusals"] == met.status()["refusals"] == []

        async with stranger(key, ccs.address) as rogue:
            assert isinstance(await rogue.hear(), Greeting)
            rogue.say(hello(story=CAST, address="127.0.0.1:1", credentials=shown(third)))
            assert isinstance(await rogue.hear(), Welcome)
            for number, ago in enumerate((AGE_S + 2, 0)):  # the second one is the control
                wanted = Wanted(
                    bytes([number]) * 16,
                    filter_to_bytes(ALWAYS),
                    a_request_of("Detective Smith", ago),
                    shown(CAST.certificates),
                )
                rogue.say(Interest(CAST.type_id, [wanted], []))
            await until(lambda: ccs.status()["refusals"], "a refusal")
            codes = [one["code"] for one in ccs.status()["refusals"]]
            assert "REQUEST-TOO-LATE" in codes
