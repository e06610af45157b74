"""For every small world: `decide` and the slow, obvious reference say the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    Action,
    AnyResource,
    Authority,
    TypePattern,
)
from maia.credentials.certificate import UNBOUNDED, AuthorisationCertificate, Validity
from maia.credentials.chains.chain import verify_chain
from maia.credentials.encoding.certificates import issue
from maia.credentials.names import parse_name_pattern
from maia.errors import BrokenCredential
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.policy import (
    Audience,
    Bound,
    BoundRule,
    Denial,
    Evidence,
    Facts,
    Permit,
    PublicationRefused,
    Request,
    decide,
    see,
    shape,
)
from maia.policy.decide import permitted_filters
from maia.predicates.syntax import ALWAYS, AllOf, AnyOf, Comparison, Exists, Membership, Not, Operator
from maia.testing import grant
from reference import miklos
from reference.policy import World
from support.policy import defined, key

OWNER, DOMAIN, CLIENT, STRANGER = (key(number) for number in range(50, 54))
X, Y, Z = UIDS = tuple(AttributeUid(text) for text in ("x1", "y1", "z1"))
NAMES = ("SecretXName", "SecretYName", "SecretZName")
# Literals of restrictions are seven digits long, so that finding one in a text is no accident.
LOW, HIGH = 7_000_001, 7_000_002
VALUES = range(LOW - 1, HIGH + 2)
TYPE = defined(OWNER, "T", [Attribute(name, uid, Kind.INT) for name, uid in zip(NAMES, UIDS, strict=True)])
UNIVERSE = list(miklos.notifications(dict.fromkeys(UIDS, VALUES)))
EVENTS = [dict(notification) for notification in UNIVERSE]
ON_DUTY = AttributeUid("on-duty")

SECONDS = 1_000_000
MOMENTS = tuple(Instant(second * SECONDS) for second in range(0, 40, 5))
MOMENTS_AND_JUST_AFTER = (*MOMENTS, *(Instant(moment + 1) for moment in MOMENTS))

literals = st.integers(LOW, HIGH)
constraints = st.one_of(
    st.builds(Comparison, st.sampled_from(UIDS), st.sampled_from(list(Operator)), literals),
    st.builds(Membership, st.sampled_from(UIDS), st.frozensets(literals, min_size=1, max_size=2)),
    st.builds(Exists, st.sampled_from(UIDS)),
)
conjunctions = st.lists(constraints, max_size=2).map(lambda parts: AllOf(tuple(parts)))
restrictions = st.one_of(
    st.just(ALWAYS),
    conjunctions,
    st.lists(constraints, min_size=1, max_size=2).map(lambda parts: AnyOf(tuple(parts))),
    constraints.map(Not),
)
attribute_sets = st.one_of(st.just(ALL_ATTRIBUTES), st.frozensets(st.sampled_from(UIDS), min_size=1))
ODD_FILTERS = st.sampled_from(
    (Comparison(X, Operator.EQ, "text"), Exists(AttributeUid("unknown")), Not(Exists(Z)))
)
on_duty = Comparison(ON_DUTY, Operator.EQ, True)
# Most certificates fit most requests: a world in which nothing is granted teaches little.
conditions = st.sampled_from((*[ALWAYS] * 8, on_duty, Not(on_duty)))
facts = st.sampled_from((Facts(), Facts({ON_DUTY: True}), Facts({ON_DUTY: False})))
validities = st.sampled_from(
    (
        *[UNBOUNDED] * 5,
        Validity(MOMENTS[2], MOMENTS[5]),
        Validity(None, MOMENTS[4]),
        Validity(MOMENTS[3], None),
    )
)
patterns = st.sampled_from(
    (
        TypePattern(OWNER.principal, parse_name_pattern("T"), None),
        TypePattern(OWNER.principal, parse_name_pattern("T"), None),
        TypePattern(OWNER.principal, parse_name_pattern("T*"), None),
        TypePattern(None, parse_name_pattern("T*"), "0"),
        AnyResource(),
        TypePattern(OWNER.principal, parse_name_pattern("*T"), None),
        TypePattern(OWNER.principal, parse_name_pattern("Other"), None),
    )
)
BOTH = frozenset({Action.SUBSCRIBE, Action.PUBLISH})
action_sets = st.sampled_from((*[BOTH] * 6, frozenset({Action.SUBSCRIBE}), frozenset({Action.PUBLISH})))
authorities = st.builds(Authority, patterns, action_sets, attribute_sets, restrictions, conditions)
STRAIGHT, THROUGH_DOMAIN = (OWNER, CLIENT), (OWNER, DOMAIN, CLIENT)
routes = st.sampled_from((*[STRAIGHT, THROUGH_DOMAIN] * 4, (OWNER, STRANGER), (DOMAIN, CLIENT)))


@st.composite
def paths(draw):
    """Some certificates along a route; passing on is nearly always allowed."""
    route = draw(routes)
    path = []
    for issuer, subject in pairwise(route):
        may_delegate = draw(st.sampled_from((*[True] * 7, False)))
        terms = draw(authorities), draw(validities)
        certificate = AuthorisationCertificate(issuer.principal, subject.principal, may_delegate, *terms)
        path.append(issue(certificate, issuer))
    return tuple(path)


class Drawn(tuple):
    """A world with its request and evidence; prints what a person needs to see why it fails."""

    __slots__ = ()

    def __repr__(self) -> str:
        world = self[0]
        paths = [[one.certificate for one in path] for path in world.paths]
        return f"{world.wanted=} {world.bounds=} {dict(world.facts)=} {world.now=} {paths=}"


@st.composite
def worlds(draw, action):
    """A world for the reference, and the request and evidence for `decide` that say the same."""
    some_paths = draw(st.lists(paths(), min_size=1, max_size=3))
    holders = [CLIENT.principal, *(signed.id for path in some_paths for signed in path)]
    rule = st.builds(
        BoundRule, st.sampled_from(holders), st.just(action), st.sampled_from(list(Bound)), conjunctions
    )
    bounds = draw(st.one_of(st.just([]), st.just([]), st.lists(rule, max_size=2)))
    world = World(
        requester=CLIENT.principal,
        action=action,
        resource=TYPE.name,
        kinds=TYPE.kinds,
        wanted=draw(st.one_of(st.just(ALWAYS), conjunctions)),
        paths=some_paths,
        bounds=bounds,
        facts=draw(facts),
        now=draw(st.sampled_from(MOMENTS)),
        universe=UNIVERSE,
    )
    chains = [proof for path in some_paths if (proof := proof_of(path)) is not None]
    request = Request(CLIENT.principal, action, TYPE.name, TYPE, world.wanted)
    return Drawn((world, request, Evidence(tuple(chains), tuple(bounds))))


def proof_of(path):
    """Verify a list at whichever moment it holds; None if it never does."""
    root, subject = path[0].certificate.issuer, path[-1].certificate.subject
    for moment in MOMENTS:
        try:
            return verify_chain(path, root=root, subject=subject, at=moment)
        except BrokenCredential:
            continue
    return None


def outcome(world, request, evidence):
    return decide(request, evidence, world.facts, world.now)


@pytest.mark.laws
@given(worlds(Action.SUBSCRIBE))
def test_a_subscription_is_permitted_and_shows_exactly_what_the_reference_says(drawn):
    world = drawn[0]
    decision = outcome(*drawn)
    assert isinstance(decision, Permit) == world.subscription_is_permitted()
    event(type(decision).__name__)
    if isinstance(decision, Permit):
        assert all(see(decision.view, one) == world.seen(one) for one in EVENTS)


@pytest.mark.laws
@given(worlds(Action.PUBLISH))
def test_a_publication_is_what_one_usable_list_of_certificates_makes_of_it(drawn):
    world = drawn[0]
    decision = outcome(*drawn)
    usable = world.usable()
    event(f"{type(decision).__name__} of {len(usable)}")
    if isinstance(decision, Permit):
        results = [shaped(decision.view, one) for one in EVENTS]
        assert any(results == [world.published(path, one) for one in EVENTS] for path in usable)
    elif decision.code == "POLICY-GRANT-UNMEETABLE":
        assert all(world.published(path, one) is None for path in usable for one in EVENTS)
    elif usable:
        # What is left is an advertisement that names something its author may not write.
        assert decision.code == "POLICY-ATTRIBUTE-NOT-WRITABLE"


def shaped(view, one):
    try:
        return shape(view, one)
    except PublicationRefused:
        return None


@pytest.mark.laws
@given(worlds(Action.SUBSCRIBE), paths(), st.data())
def test_taking_a_chain_away_or_adding_a_bound_never_shows_more(drawn, other, data):
    world, request, evidence = drawn
    assume(evidence.chains)
    fewer = tuple(data.draw(st.permutations(evidence.chains)))[1:]
    rule = BoundRule(
        CLIENT.principal, Action.SUBSCRIBE, data.draw(st.sampled_from(list(Bound))), data.draw(conjunctions)
    )
    wide = outcome(world, request, evidence)
    for narrower in (Evidence(fewer, evidence.bounds), Evidence(evidence.chains, (*evidence.bounds, rule))):
        narrow = outcome(world, request, narrower)
        if isinstance(narrow, Permit):
            assert isinstance(wide, Permit)
            assert_shows_no_more(wide.view, narrow.view)


@pytest.mark.laws
@given(paths(), restrictions, attribute_sets, st.sampled_from(MOMENTS), facts)
def test_one_more_link_never_shows_more(path, restriction, attributes, now, known):
    proof = proof_of(path)
    assume(proof is not None and proof.may_delegate and proof.subject == CLIENT.principal)
    link = grant(
        CLIENT, STRANGER, AnyResource(), *ALL_ACTIONS, attributes=attributes, restriction=restriction
    )
    longer = proof_of((*path, link))
    assume(longer is not None)
    wide = decide(
        Request(CLIENT.principal, Action.SUBSCRIBE, TYPE.name, TYPE), Evidence((proof,)), known, now
    )
    narrow = decide(
        Request(STRANGER.principal, Action.SUBSCRIBE, TYPE.name, TYPE), Evidence((longer,)), known, now
    )
    if isinstance(narrow, Permit):
        assert isinstance(wide, Permit)
        assert_shows_no_more(wide.view, narrow.view)


def assert_shows_no_more(wide, narrow):
    for one in EVENTS:
        seen = see(narrow, one)
        if seen is not None:
            assert seen.items() <= (see(wide, one) or {}).items()


@pytest.mark.laws
@given(worlds(Action.SUBSCRIBE) | worlds(Action.PUBLISH))
def test_the_requester_reads_no_literal_of_a_restriction_and_no_hidden_name(drawn):
    world = drawn[0]
    decision = outcome(*drawn)
    texts = [
        *decision.explanation.lines(Audience.REQUESTER),
        *map(str, decision.explanation.records(Audience.REQUESTER)),
        repr(decision),
    ]
    if isinstance(decision, Denial):
        texts += [str(decision.as_refusal()), str(decision.as_refusal().as_record())]
    readable = {uid for path in world.usable() for uid in world.common_attributes(path)}
    hidden = [name for name, uid in zip(NAMES, UIDS, strict=True) if uid not in readable]
    for text in texts:
        assert not any(str(literal) in text for literal in VALUES)
        assert not any(name in text for name in hidden)


@pytest.mark.laws
@given(worlds(Action.SUBSCRIBE) | worlds(Action.PUBLISH))
def test_a_denial_always_has_a_reason_for_both_audiences(drawn):
    decision = outcome(*drawn)
    assert decision.explanation.owner
    assert decision.explanation.requester


@pytest.mark.laws
@given(worlds(Action.SUBSCRIBE) | worlds(Action.PUBLISH), st.sampled_from(MOMENTS))
def test_a_decision_stands_throughout_its_stable_period(drawn, other):
    world, request, evidence = drawn
    decision = outcome(*drawn)
    assert decision.stable.contains(world.now)
    if decision.stable.contains(other):
        again = decide(request, evidence, world.facts, other)
        assert again == decision
        assert again.explanation == decision.explanation
    if isinstance(decision, Permit) and decision.until is not None:
        assert decision.stable.not_after is not None
        assert decision.stable.not_after <= decision.until


@pytest.mark.laws
@given(worlds(Action.SUBSCRIBE), conjunctions | ODD_FILTERS, st.sampled_from(MOMENTS), facts)
def test_what_a_permit_says_of_other_filters_is_what_is_decided_about_them(drawn, wanted, moment, known):
    _, request, evidence = drawn
    decision = outcome(*drawn)
    assume(isinstance(decision, Permit) and decision.stable.contains(moment))
    filters = permitted_filters(request, evidence, decision)
    again = decide(replace(request, filter=wanted), evidence, known, moment)
    event("no filters" if filters is None else str(wanted in filters))
    if filters is not None and wanted in filters:
        assert again == replace(decision, view=replace(decision.view, interest=wanted))
        assert again.explanation == decision.explanation
    elif filters is not None:  # nothing that is permitted takes the longer way
        assert isinstance(again, Denial)
