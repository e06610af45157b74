"""What a client asks for besides is answered from its last decision exactly as a decision would answer it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.settings import BrokerSettings
from maia.credentials import (
    ALL_ATTRIBUTES,
    FIRST_VERSION,
    MANAGE_ACTIONS,
    UNBOUNDED,
    Action,
    NetworkName,
    SignedCertificate,
    TypeName,
    TypePattern,
    Validity,
    VerificationCache,
    certificate_to_bytes,
    exact_name,
)
from maia.events import AttributeUid, Instant
from maia.policy import Bound, BoundRule, PolicyRefusal, Request
from maia.policy.facts import place_facts
from maia.predicates import ALWAYS, AllOf, Comparison, Exists, Membership, Operator, Predicate
from maia.predicates.syntax import NODES_MAX
from maia.testing import grant
from maia.types import TypeDefinition, VerifiedType, sign_definition, validity_definition, verify_definition
from support.policy import defined, key
from support.view_cases import (
    DELIVERED,
    ISSUER,
    ROW,
    random_attributes,
    random_predicate,
    random_transformation,
)

CLIENT, MANAGER = key(61), key(62)
MOMENTS = tuple(Instant(second * 1_000_000) for second in (0, 10, 20, 30))
NAME = "laws.Sighting"
RESOURCES = TypePattern(ISSUER.principal, exact_name(NAME), None)


def of_manager() -> VerifiedType:
    """Return a version that holds as long as the certificate of the manager who signed it."""
    name = TypeName(ISSUER.principal, NAME, FIRST_VERSION)
    definition = TypeDefinition(
        name,
        None,
        DELIVERED[:-4],
        (grant(ISSUER, MANAGER, RESOURCES, *MANAGE_ACTIONS, validity=Validity(None, MOMENTS[2])),),
    )
    return verify_definition(sign_definition(definition, MANAGER), at=MOMENTS[0])


# Of one name and version: the search for chains is the same, and what a filter may name is not.
TYPES = (defined(ISSUER, NAME, DELIVERED), of_manager())
SETTINGS = BrokerSettings(NetworkName(ISSUER.principal, "laws"), "127.0.0.1:7400", ())
REMOTE = AttributeUid("client-address")


def random_right(random: Random) -> SignedCertificate:
    """Return a certificate of the client, mostly one that holds on nothing else."""
    steps = (random_transformation(random),) if random.random() < 0.3 else ()
    condition = Comparison(REMOTE, Operator.EQ, "10.0.0.1") if random.random() < 0.15 else ALWAYS
    return grant(
        ISSUER,
        CLIENT,
        RESOURCES,
        Action.SUBSCRIBE,
        attributes=ALL_ATTRIBUTES if random.random() < 0.4 else random_attributes(random),
        restriction=random_predicate(random, depth=1) if random.random() < 0.7 else ALWAYS,
        condition=condition,
        transformations=steps,
        validity=random.choice(
            (UNBOUNDED, UNBOUNDED, Validity(None, MOMENTS[2]), Validity(MOMENTS[1], None))
        ),
    )


def random_filter(random: Random) -> Predicate:
    choice = random.random()
    if choice < 0.2:  # as large as a View has room for, more or less
        return Membership(ROW, frozenset(range(NODES_MAX - random.randint(1, 9))))
    return ALWAYS if choice < 0.3 else random_predicate(random, depth=1)


def answer(
    edge: Authoriser, request: Request, given: list[bytes], now: Instant, remote: str | None
) -> object:
    """Return all that a right says but when it was decided, or the refusal."""
    try:
        right = edge.decide(request, edge.pool(given), now, place_facts(remote))
    except PolicyRefusal as problem:
        return problem.as_record()
    used = [signed.id for signed in right.used]
    return replace(right.terms, epoch=0), right.stable, right.view, right.filter, used, right.watched


@pytest.mark.laws
@given(st.integers(0, 10**9))
def test_a_client_that_asks_again_is_answered_as_one_that_asks_for_the_first_time(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    shown = [certificate_to_bytes(random_right(random)) for _ in range(random.choice((1, 2, 3)))]
    bound = BoundRule(CLIENT.principal, Action.SUBSCRIBE, Bound.UPPER, random_predicate(random, depth=0))
    limits = replace(SETTINGS.limits, chains_per_request=random.choice((1, 256)))
    settings = replace(SETTINGS, bounds=(bound,) if random.random() < 0.3 else (), limits=limits)
    signatures = VerificationCache()

    def new() -> Authoriser:
        return Authoriser(settings, signatures, ValidityTracker({}, issuers_max=1))

    edge = new()
    event_type, remote, now = TYPES[0], None, MOMENTS[1]
    for _ in range(10):
        if random.random() < 0.4:
            event_type = random.choice(TYPES)
            remote = random.choice((None, "10.0.0.1"))
            now = random.choice(MOMENTS)
        if random.random() < 0.1:
            edge.evidence_changed()
        wanted = random_filter(random)
        request = Request(CLIENT.principal, Action.SUBSCRIBE, event_type.name, event_type, wanted)
        assert answer(edge, request, shown, now, remote) == answer(new(), request, shown, now, remote)


def test_only_what_the_filter_does_not_change_is_answered_without_a_decision() -> None:
    edge = Authoriser(SETTINGS, VerificationCache(), ValidityTracker({}, issuers_max=1))
    pool = edge.pool(
        [
            certificate_to_bytes(
                grant(ISSUER, CLIENT, RESOURCES, Action.SUBSCRIBE, attributes=frozenset({ROW}))
            )
        ]
    )

    def ask(wanted: Predicate) -> int:
        event_type = TYPES[0]
        request = Request(CLIENT.principal, Action.SUBSCRIBE, event_type.name, event_type, wanted)
        try:
            assert edge.decide(request, pool, MOMENTS[0]).filter == wanted
        except PolicyRefusal:
            return -edge.decisions
        return edge.decisions

    rows = [Comparison(ROW, Operator.EQ, number) for number in range(3)]
    assert [ask(ALWAYS), *map(ask, rows), ask(AllOf(tuple(rows)))] == [1] * 5
    assert ask(Comparison(AttributeUid("plate"), Operator.EQ, "AE05 XYZ")) == -2  # hidden
    assert ask(Comparison(ROW, Operator.EQ, "one")) == -3  # of another kind
    edge.evidence_changed()
    assert ask(rows[0]) == 4


def test_a_filter_that_is_refused_refuses_no_other() -> None:
    edge = Authoriser(SETTINGS, VerificationCache(), ValidityTracker({}, issuers_max=1))
    stream = verify_definition(validity_definition(MANAGER), at=MOMENTS[0])  # public: it needs no certificate
    request = Request(CLIENT.principal, Action.SUBSCRIBE, stream.name, stream)
    with pytest.raises(PolicyRefusal, match="not readable"):
        edge.decide(replace(request, filter=Exists(ROW)), (), MOMENTS[0])
    assert edge.decide(request, (), MOMENTS[0]).filter == ALWAYS


@pytest.mark.parametrize("case", ["bound", "condition", "type that ends"])
def test_what_more_depends_on_is_decided_each_time(case: str) -> None:
    first, second = (Comparison(ROW, Operator.EQ, number) for number in (1, 2))
    bound = BoundRule(CLIENT.principal, Action.SUBSCRIBE, Bound.UPPER, first)
    settings = replace(SETTINGS, bounds=(bound,)) if case == "bound" else SETTINGS
    edge = Authoriser(settings, VerificationCache(), ValidityTracker({}, issuers_max=1))
    condition = Comparison(REMOTE, Operator.EQ, "10.0.0.1") if case == "condition" else ALWAYS
    pool = edge.pool(
        [certificate_to_bytes(grant(ISSUER, CLIENT, RESOURCES, Action.SUBSCRIBE, condition=condition))]
    )
    event_type = of_manager() if case == "type that ends" else TYPES[0]
    request = Request(CLIENT.principal, Action.SUBSCRIBE, event_type.name, event_type, first)
    edge.decide(request, pool, MOMENTS[0], place_facts("10.0.0.1"))
    if case == "condition":
        edge.decide(replace(request, filter=second), pool, MOMENTS[0], place_facts("10.0.0.1"))
    else:
        with pytest.raises(PolicyRefusal):
            edge.decide(replace(request, filter=second), pool, MOMENTS[3], place_facts("10.0.0.1"))
    assert edge.decisions == 2
