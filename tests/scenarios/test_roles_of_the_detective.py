"""The story of the dissertation's section 6.1.1, with the policy that is written in `examples/`.

A court orders that Detective Smith may track one numberplate. The police let
in detectives with an order who work on its case. Everything the story depends on
is then taken away, one thing at a time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.credentials import (
    Action,
    Authority,
    TypePattern,
    Validity,
    exact_name,
)
from maia.credentials.appointments import Argument
from maia.policy import Request, decide, gather_evidence, see
from maia.policy.facts import NO_FACTS
from maia.predicates.language.parser import parse_predicate
from maia.roles import activate, certificate_support, ended_memberships, fact_support, parse_policy, rights
from maia.testing import grant
from support.known_world import KnownWorld
from support.roles import DOMAIN, JONES, SMITH, TYPES, appointment, later
from support.types import NOON, PITO, key

POLICY = Path(__file__).parents[2] / "examples" / "policies" / "metropolitan-police.policy"
COURTS = key(2)
PLATE = "AE05 XYZ"
NUMBERPLATE = TYPES["Numberplate"]
MET = parse_policy(
    POLICY.read_bytes(),
    origin=POLICY.name,
    domain=DOMAIN.principal,
    types={"uk.gov.pito.Numberplate": NUMBERPLATE},
)
ORDER = appointment(COURTS, SMITH, "court_order", "case 17", PLATE, ends=later(days=30))
FACTS: dict[str, list[tuple[Argument, ...]]] = {
    "detective": [(SMITH.principal,), (JONES.principal,)],
    "case_assignment": [(SMITH.principal, "case 17"), (JONES.principal, "case 18")],
}
WORLD = KnownWorld(FACTS, [ORDER])


def track(world=WORLD, who=SMITH, at=NOON):
    return activate(MET, world, who.principal, "np_tracker", None, at)


def test_the_detective_becomes_a_tracker_of_the_plate_in_the_order():
    (member,) = track()
    assert (member.role, member.arguments) == ("np_tracker", (PLATE,))
    assert member.until == later(days=30)


def test_she_cannot_track_another_plate():
    assert activate(MET, WORLD, SMITH.principal, "np_tracker", ["B4 NDIT"], NOON) == ()


@pytest.mark.parametrize(
    "world",
    [
        KnownWorld(FACTS),
        KnownWorld({**FACTS, "detective": [(JONES.principal,)]}, [ORDER]),
        KnownWorld({**FACTS, "case_assignment": [(SMITH.principal, "case 18")]}, [ORDER]),
        KnownWorld(FACTS, [appointment(SMITH, SMITH, "court_order", "case 17", PLATE)]),
        KnownWorld(FACTS, [appointment(COURTS, JONES, "court_order", "case 17", PLATE)]),
    ],
    ids=[
        "no order",
        "no detective",
        "on another case",
        "an order of her own making",
        "somebody else's order",
    ],
)
def test_she_needs_the_order_the_rank_and_the_case(world):
    assert track(world) == ()


def test_the_role_ends_in_a_capability_that_a_broker_understands():
    (right,) = rights(MET, track()[0], WORLD, NOON)
    assert right.authority == Authority(
        TypePattern(PITO.principal, exact_name("uk.gov.pito.Numberplate"), None),
        frozenset({Action.SUBSCRIBE}),
        frozenset(NUMBERPLATE.vocabulary[name].uid for name in ("location", "timestamp", "numberplate")),
        parse_predicate(f'numberplate == "{PLATE}"', NUMBERPLATE.vocabulary),
    )
    assert right.validity == Validity(NOON, later(days=30))
    assert not right.may_delegate


def test_with_the_capability_she_sees_her_plate_and_no_other():
    (right,) = rights(MET, track()[0], WORLD, NOON)
    pool = [
        grant(
            PITO,
            DOMAIN,
            right.authority.resources,
            Action.SUBSCRIBE,
            may_delegate=True,
            validity=Validity(NOON, None),
        ),
        grant(
            DOMAIN, right.principal, right.authority, may_delegate=right.may_delegate, validity=right.validity
        ),
    ]
    request = Request(SMITH.principal, Action.SUBSCRIBE, NUMBERPLATE.name, NUMBERPLATE)
    permit = decide(request, gather_evidence(request, pool, at=NOON), NO_FACTS, NOON)
    uid = NUMBERPLATE.vocabulary["numberplate"].uid
    assert see(permit.view, {uid: PLATE}) == {uid: PLATE}
    assert see(permit.view, {uid: "B4 NDIT"}) is None


@pytest.mark.parametrize(
    "lost",
    [
        certificate_support(ORDER),
        fact_support("detective", [SMITH.principal]),
        fact_support("case_assignment", [SMITH.principal, "case 17"]),
    ],
    ids=["the order is revoked on appeal", "she leaves the detectives", "she is taken off the case"],
)
def test_whatever_is_lost_of_it_ends_her_role(lost):
    assert [found.lost for found in ended_memberships(track(), lost={lost})] == [lost]


def test_what_happens_to_others_does_not():
    others = {
        fact_support("detective", [JONES.principal]),
        fact_support("case_assignment", [JONES.principal, "case 18"]),
        fact_support("case_assignment", [SMITH.principal, "case 18"]),
    }
    assert ended_memberships(track(), lost=others, policy=MET, now=later(days=30)) == ()


def test_the_role_ends_with_the_order():
    assert len(ended_memberships(track(), now=later(days=30, seconds=1))) == 1
    assert track(at=later(days=30, seconds=1)) == ()
