"""A detective with many cases, over real sockets: each case has a certificate of its own, and they add up."""

from __future__ import annotations

import pytest

from maia.broker import BrokerLimits
from maia.credentials import Action, SignedCertificate
from maia.policy import Bound, BoundRule
from maia.predicates import ALWAYS, Comparison, Membership, Operator, Predicate
from maia.testing import in_a_loop, soon, until
from support.live import STORY, broker, client
from support.numberplate import NUMBERPLATE

CAMERA, SMITH = "camera at Victoria", "Detective Smith"
LEFT_OUT = "POLICY-GRANTS-LEFT-OUT"
CONNECT = tuple(one for one in STORY.certificates if Action.CONNECT in one.certificate.authority.actions)


def grant(issuer: str, subject: str, restriction: Predicate = ALWAYS) -> SignedCertificate:
    terms = {"restriction": restriction, "may_delegate": True}
    return STORY.grant(issuer, subject, STORY.definition, Action.SUBSCRIBE, **terms)


def car(number: int) -> str:
    return f"AE05 {number:03}"


def cases(number: int) -> list[SignedCertificate]:
    """Return what the owner grants the police, and what they grant her for each case."""
    cars = [Comparison(NUMBERPLATE, Operator.EQ, car(one)) for one in range(number)]
    return [grant("PITO", "Met"), *(grant("Met", SMITH, one) for one in cars)]


@in_a_loop
async def test_she_sees_the_cars_of_forty_cases_and_no_other():
    async with (
        broker() as running,
        client(CAMERA, running.address) as camera,
        client(SMITH, running.address, credentials=(*CONNECT, *cases(40))) as smith,
    ):
        tracked = await smith.subscribe(STORY.definition)
        passing = await camera.advertise(STORY.definition)
        await passing.publish_many([{"numberplate": car(one)} for one in range(41)])
        await passing.publish(numberplate=car(0))  # once more, behind the last
        seen = [(await soon(anext(tracked)))["numberplate"] for _ in range(41)]
        assert seen == [*(car(one) for one in range(40)), car(0)]
        assert tracked.changed is None


@pytest.mark.parametrize("held", [60, 300])
@in_a_loop
async def test_she_is_told_when_not_all_of_them_are_counted(held):
    """By the broker that counts fewer than she shows, or by her own client that has no room to show more."""
    limits = BrokerLimits(chains_per_request=50 if held == 60 else 256)
    async with (
        broker(limits=limits) as running,
        client(SMITH, running.address, credentials=(*CONNECT, *cases(held))) as smith,
    ):
        tracked = await smith.subscribe(STORY.definition)
        await until(lambda: tracked.changed is not None, "she is told")
        assert tracked.changed.code == LEFT_OUT
        assert f"of at least {held} grants were counted" in tracked.changed.message


@in_a_loop
async def test_a_bound_on_her_wider_certificate_leaves_her_the_narrower_one():
    """Her client does not know of bounds, so it shows both."""
    wide = grant("PITO", SMITH)
    narrow = grant("PITO", SMITH, Membership(NUMBERPLATE, frozenset({car(1), car(2)})))
    bound = BoundRule(wide.id, Action.SUBSCRIBE, Bound.UPPER, Comparison(NUMBERPLATE, Operator.EQ, car(1)))
    async with (
        broker(bounds=(bound,)) as running,
        client(CAMERA, running.address) as camera,
        client(SMITH, running.address, credentials=(*CONNECT, wide, narrow)) as smith,
    ):
        tracked = await smith.subscribe(STORY.definition)
        passing = await camera.advertise(STORY.definition)
        await passing.publish_many([{"numberplate": car(one)} for one in range(4)])
        seen = [(await soon(anext(tracked)))["numberplate"] for _ in range(2)]
        assert seen == [car(1), car(2)]
