"""D7: the closure of a pool against the kernel, which is asked pair by pair.

For every principal and every moment at which a certificate begins or ends, with and without the facts that
conditions ask for, the grants of the closure together show of every event what the kernel's View shows of it.
"""

from __future__ import annotations

from itertools import product

from hypothesis import event as noted
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import (
    ALL_ATTRIBUTES,
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    SignedCertificate,
    Validity,
    issue,
)
from maia.events import Attribute, AttributeUid, Instant, Kind, PresentValue
from maia.policy import NO_FACTS, Facts, Permit, Request, decide, gather_evidence, see
from maia.predicates import admits, parse_predicate
from maia.predicates.syntax import ALWAYS, Comparison, Exists, Not, Operator
from maia.spark.closure.reach import Reach, ReachedGrant
from maia.types import TypeDefinition, sign_definition, verify_definition
from maia.validity import ASSUMED_GOOD
from support.chains import EVENING, KEYS, MORNING, NOON, OWNER, PEOPLE, TODAY, TYPE, pools, types_of, uids

A, B, C = (AttributeUid(name) for name in "abc")
DEFINITION = TypeDefinition(TYPE, None, tuple(Attribute(name, name, Kind.INT) for name in "abc"))
EVENT_TYPE = verify_definition(sign_definition(DEFINITION, KEYS[OWNER]), at=NOON)
ON_DUTY = AttributeUid("on-duty")
FACT_VOCABULARY = {"on-duty": Attribute("on-duty", ON_DUTY, Kind.BOOL)}
EVENTS = [{A: a, B: b, **rest} for a, b, rest in product((1, 2), (1, 2), ({C: 3}, {}))]
FIVE = PEOPLE[:5]

RESTRICTIONS = st.sampled_from(
    (ALWAYS, Comparison(A, Operator.EQ, 1), Comparison(B, Operator.GE, 2), Not(Exists(C)))
)
CONDITIONS = st.sampled_from((ALWAYS, ALWAYS, Comparison(ON_DUTY, Operator.EQ, True)))
PERIODS = st.sampled_from((UNBOUNDED, TODAY, Validity(NOON, None), Validity(None, NOON)))


@st.composite
def crowds(draw: st.DrawFn) -> list[SignedCertificate]:
    """Draw a pool with names and thresholds half of the time, and grants with terms that go on from it."""
    pool = draw(pools()) if draw(st.booleans()) else []
    holders = [OWNER, *FIVE[1:]]
    for _ in range(draw(st.integers(0, 8))):
        authority = Authority(
            types_of(OWNER),
            frozenset({Action.SUBSCRIBE}),
            draw(st.sampled_from((ALL_ATTRIBUTES, uids("a"), uids("a", "b"), uids("b", "c")))),
            draw(RESTRICTIONS),
            draw(CONDITIONS),
        )
        issuer = holders[draw(st.integers(0, 8)) % len(holders) if draw(st.booleans()) else 0]
        certificate = AuthorisationCertificate(
            issuer, draw(st.sampled_from(FIVE)), draw(st.booleans()), authority, draw(PERIODS)
        )
        pool.append(issue(certificate, KEYS[issuer]))
    return pool


def moments(pool: list[SignedCertificate]) -> set[Instant]:
    """Return the moments at which something begins, and those right after something ends."""
    begun = {one.certificate.validity.not_before for one in pool}
    ended = {one.certificate.validity.not_after for one in pool}
    return (
        {NOON, MORNING, EVENING}
        | {one for one in begun | ended if one}
        | {Instant(one + 1) for one in ended if one}
    )


def shown(
    grants: list[ReachedGrant], event: dict[AttributeUid, int], facts: Facts, at: Instant
) -> dict[AttributeUid, PresentValue]:
    """Return what grants show of an event together, by the words in which the closure states them."""
    seen: dict[AttributeUid, PresentValue] = {}
    for one in grants:
        condition = parse_predicate(one.sight.condition or "true", FACT_VOCABULARY)
        where = parse_predicate(one.sight.where or "true", EVENT_TYPE.vocabulary)
        if one.period.contains(at) and admits(where, event) and facts.satisfy(condition, of=None, now=at):
            seen |= {each.uid: event[each.uid] for each in one.sight.attributes if each.uid in event}
    return seen


@given(crowds())
def test_the_closure_shows_what_the_kernel_shows_pair_by_pair(pool):
    closure = Reach(EVENT_TYPE, pool, at=NOON)
    found: dict[object, list[ReachedGrant]] = {}
    for grant in closure.grants():
        found.setdefault(grant.principal, []).append(grant)
    assert closure.left_out == 0
    noted(f"principals that see something: {len(found)}")
    for principal, at, facts in product(FIVE, sorted(moments(pool)), (NO_FACTS, Facts({ON_DUTY: True}))):
        request = Request(principal, Action.SUBSCRIBE, TYPE, EVENT_TYPE)
        evidence = gather_evidence(request, pool, at=at, standing=ASSUMED_GOOD)
        decision = decide(request, evidence, facts, at)
        for event in EVENTS:
            seen = see(decision.view, event) if isinstance(decision, Permit) else None
            assert shown(found.get(principal, []), event, facts, at) == (seen or {}), (principal, at)
