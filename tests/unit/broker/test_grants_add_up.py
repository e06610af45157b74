"""Grants of several certificates add up at a broker, whatever any one of them hangs on.

And where a limit keeps some of them from being counted, their holder is told.
"""

from __future__ import annotations

from itertools import count

import pytest

from maia.broker import BrokerLimits
from maia.credentials import (
    Action,
    AttributeSet,
    FactList,
    Revalidation,
    SignedCertificate,
    TestKind,
    sign_statement,
    statement_to_bytes,
)
from maia.credentials.statements import period_from
from maia.events import SECOND
from maia.policy import CHAINS_MAX, Bound, BoundRule
from maia.predicates import Comparison, Membership, Operator, Predicate, parse_predicate
from maia.testing import NetClient
from maia.testing.refusals import raises
from maia.wire.messages import Changed, Show
from support.numberplate import LOCATION, NUMBERPLATE, TIMESTAMP, Net, sighting

LEFT_OUT = "POLICY-GRANTS-LEFT-OUT"
ON_DUTY = parse_predicate("on-duty = true")
SUSPECT = Comparison(NUMBERPLATE, Operator.EQ, "AE05 XYZ")


def grant(
    net: Net,
    issuer: str,
    subject: str,
    **terms: Predicate | AttributeSet,
) -> SignedCertificate:
    """Let somebody of the story grant somebody else to see the type."""
    return net.cast.grant(issuer, subject, net.cast.definition, Action.SUBSCRIBE, may_delegate=True, **terms)


def detective(net: Net, *shown: SignedCertificate, at: str = "CCS broker", **named: object) -> NetClient:
    """Connect Detective Smith, who holds no certificate about the type but those given."""
    others = [one for one in net.cast.certificates if Action.CONNECT in one.certificate.authority.actions]
    smith = net.client("Detective Smith", at=at, credentials=tuple(others), **named)
    smith.credentials = (*others, *shown)  # with her requests, and not with her hello
    return smith


def cases(net: Net, number: int) -> tuple[SignedCertificate, ...]:
    """Return what the police get from the owner, and a certificate of theirs for each case of hers."""
    return (
        grant(net, "PITO", "Met"),
        *(
            grant(
                net, "Met", "Detective Smith", restriction=Comparison(NUMBERPLATE, Operator.EQ, plate(case))
            )
            for case in range(number)
        ),
    )


def plate(case: int) -> str:
    return f"AE05 {case:03}"


# ------------------------------------------------------------ conditions and bounds


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1)])
def test_an_unmet_condition_of_one_issuer_takes_nothing_from_what_another_grants(order) -> None:
    """Both ways ask whether she is on duty; the Met says so of her, and PITO does not."""
    net = Net()
    net.broker()
    held = [
        grant(net, "PITO", "CCS", condition=ON_DUTY),
        grant(net, "CCS", "Detective Smith"),
        grant(net, "PITO", "Met"),
        grant(net, "Met", "Detective Smith", condition=ON_DUTY),
    ]
    smith, camera = detective(net, *(held[place] for place in order)), net.client("camera at Victoria")
    assert smith.code_of(smith.subscribe()) == "POLICY-CONDITION-NOT-MET"
    met = net.cast.keys["Met"]
    said = {(smith.principal, "on-duty"): True}
    duty = FactList(met.principal, 1, period_from(net.now, microseconds=600 * SECOND), said)
    smith.say(Show(99, [], [statement_to_bytes(sign_statement(duty, met))]))
    ref, published = smith.subscribe(), camera.advertise()
    assert smith.code_of(ref) is None
    camera.publish(published, sighting("seen"))
    assert [event[NUMBERPLATE] for event in smith.events(ref)] == ["seen"]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_bound_on_one_certificate_takes_nothing_from_what_another_grants(backwards: bool) -> None:
    """The wider certificate serves for filters on her suspect alone, the narrower one for any filter."""
    net = Net()
    wide = grant(net, "PITO", "Detective Smith")
    some = Membership(NUMBERPLATE, frozenset({"AE05 XYZ", "B4 NDIT"}))
    narrow = grant(net, "PITO", "Detective Smith", restriction=some)
    net.broker(bounds=(BoundRule(wide.id, Action.SUBSCRIBE, Bound.UPPER, SUSPECT),))
    smith = detective(net, *((narrow, wide) if backwards else (wide, narrow)))
    camera = net.client("camera at Victoria")
    ref, published = smith.subscribe(), camera.advertise()
    assert smith.code_of(ref) is None
    for one in ("AE05 XYZ", "B4 NDIT", "LC04 ABC"):
        camera.publish(published, sighting(one))
    assert [event[NUMBERPLATE] for event in smith.events(ref)] == ["AE05 XYZ", "B4 NDIT"]


def test_a_strict_bound_on_one_certificate_hides_nothing_that_another_shows() -> None:
    """Through the wider certificate she sees what her filter speaks of; the narrower one shows the place."""
    net = Net()
    wide = grant(net, "PITO", "Detective Smith")
    narrow = grant(
        net,
        "PITO",
        "Detective Smith",
        attributes=frozenset({NUMBERPLATE, LOCATION}),
        restriction=SUSPECT,
    )
    net.broker(bounds=(BoundRule(wide.id, Action.SUBSCRIBE, Bound.STRICT_UPPER, SUSPECT),))
    smith, camera = detective(net, wide, narrow), net.client("camera at Victoria")
    ref, published = smith.subscribe(SUSPECT), camera.advertise()
    camera.publish(published, sighting("AE05 XYZ"))
    (seen,) = smith.events(ref)
    assert seen.get(LOCATION) == "Victoria"
    assert seen.get(TIMESTAMP) is None


# ------------------------------------------------------------ many narrow certificates


def seen_of_all_cases(smith: NetClient, camera: NetClient, number: int) -> list[int]:
    """Return the cases whose car the detective sees, after one of each has passed the camera."""
    ref, published = smith.subscribe(), camera.advertise()
    assert smith.was_accepted(ref), smith.code_of(ref)
    camera.publish(published, *(sighting(plate(case)) for case in range(number)), sighting("LC04 ABC"))
    seen = [event[NUMBERPLATE] for event in smith.events(ref)]
    assert len(seen) == len(set(seen))
    return [case for case in range(number) if plate(case) in seen]


@pytest.mark.parametrize("number", [40, 120])
def test_a_detective_with_many_cases_sees_the_car_of_each(number: int) -> None:
    net = Net()
    net.broker()
    smith, camera = detective(net, *cases(net, number)), net.client("camera at Victoria")
    assert seen_of_all_cases(smith, camera, number) == list(range(number))
    assert smith.all_heard(Changed) == []


def test_she_sees_them_all_through_brokers_that_verify_what_is_wanted() -> None:
    """Each broker on the way counts her certificates for itself, and passes on no less than she may see."""
    net = Net(verify_in_transit=1.0)
    net.broker("CCS broker")
    net.broker("second", seeds=["CCS broker"])
    net.broker("third", seeds=["second"])
    net.advance(5)
    camera = net.client("camera at Victoria", at="CCS broker")
    camera.advertise()
    smith = detective(net, *cases(net, 40), at="third")
    net.advance(2)
    assert seen_of_all_cases(smith, camera, 40) == list(range(40))
    assert not any(one.counts.get("maia_interests_narrowed_total") for one in net.brokers.values())


def test_a_limit_that_cuts_her_rights_is_told_counted_and_noted() -> None:
    net = Net(limits=BrokerLimits(chains_per_request=25))
    running = net.broker()
    smith, camera = detective(net, *cases(net, 40)), net.client("camera at Victoria")
    assert len(seen_of_all_cases(smith, camera, 40)) == 25
    (told,) = smith.all_heard(Changed)
    assert (told.ref, told.code) == (1, LEFT_OUT)
    assert told.message == "only 25 of at least 40 grants were counted, because of a limit here"
    assert running.counts["maia_grants_left_out_total"] == 1
    assert [one["code"] for one in running.noted("grants-left-out")] == [LEFT_OUT]
    smith.subscribe(ref=1)  # a renewal says nothing new
    assert len(smith.all_heard(Changed)) == 1


@pytest.mark.parametrize(("limit", "is_told"), [(39, True), (40, False)])
def test_the_limit_itself_cuts_nothing(limit: int, is_told: bool) -> None:
    net = Net(limits=BrokerLimits(chains_per_request=limit))
    net.broker()
    smith, camera = detective(net, *cases(net, 40)), net.client("camera at Victoria")
    assert len(seen_of_all_cases(smith, camera, 40)) == limit
    assert bool(smith.all_heard(Changed)) == is_told


def test_a_refusal_says_that_not_everything_was_counted() -> None:
    """The one certificate that shows the place is behind the limit: she is not told that it is hidden."""
    net = Net(limits=BrokerLimits(chains_per_request=16))
    net.broker()
    short = frozenset({NUMBERPLATE})
    held = [
        grant(
            net,
            "PITO",
            "Detective Smith",
            attributes=short,
            restriction=Comparison(NUMBERPLATE, Operator.EQ, plate(case)),
        )
        for case in range(20)
    ]
    longer = grant(net, "Met", "Detective Smith", attributes=frozenset({LOCATION}))
    smith = detective(net, grant(net, "PITO", "Met"), longer, *held)
    ref = smith.subscribe(Comparison(LOCATION, Operator.EQ, "Victoria"))
    assert smith.code_of(ref) == "POLICY-ATTRIBUTE-NOT-READABLE"
    failed = smith.heard[-1]
    assert "only 16 of at least 21 grants were counted" in failed.message


@pytest.mark.parametrize("number", [0, CHAINS_MAX + 1])
def test_a_broker_does_not_start_with_a_limit_that_it_cannot_keep(number: int) -> None:
    with raises("INPUT-BROKER-SETTINGS"):
        Net(limits=BrokerLimits(chains_per_request=number)).broker()


def test_the_last_of_a_hundred_certificates_counts_when_it_is_vouched_for() -> None:
    """A broker waits for the word on each of them, and not on the first few alone."""
    net = Net()
    net.broker()
    story, met = net.cast, net.cast.keys["Met"]

    def demanding(case: int, by: str) -> SignedCertificate:
        return story.grant(
            "CCS",
            story.principal("Detective Smith"),
            story.definition,
            Action.SUBSCRIBE,
            by=story.principal(by),
            test=TestKind.REVALIDATION,
            restriction=Comparison(NUMBERPLATE, Operator.EQ, plate(case)),
        )

    held = [demanding(case, by="CCS") for case in range(100)]
    behind = max(signed.id for signed in held)
    case, last = next(
        (case, one) for case in count(100) if (one := demanding(case, by="Met")).id > behind
    )  # a search looks at certificates in the order of their ids
    smith = detective(
        net,
        grant(net, "PITO", "CCS"),
        grant(net, "PITO", "Detective Smith", restriction=SUSPECT),
        *held,
        last,
    )
    camera = net.client("camera at Victoria")
    ref, published = smith.subscribe(), camera.advertise()
    camera.publish(published, sighting(plate(case)))
    assert smith.events(ref) == []
    period = period_from(net.now, microseconds=600 * SECOND)
    word = sign_statement(Revalidation(met.principal, 1, period, frozenset({last.id})), met)
    smith.say(Show(99, [], [statement_to_bytes(word)]))
    camera.publish(published, sighting(plate(case)))
    assert [event[NUMBERPLATE] for event in smith.events(ref)] == [plate(case)]
