"""Whatever heap of certificates is shown: what is decided from it is the sum of all that is granted.

The reference walks every way through the heap, asks each for its conditions and
bounds, and adds up. Search, pruning and decision must come to the same.
"""

from __future__ import annotations

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from maia.credentials.authority import ALL_ATTRIBUTES, Action, AnyResource, Authority
from maia.credentials.certificate import UNBOUNDED, AuthorisationCertificate, NameCertificate, Validity
from maia.credentials.encoding.certificates import issue
from maia.credentials.keys import LocalName
from maia.events import Attribute, AttributeUid, Kind
from maia.policy import (
    Bound,
    BoundRule,
    Evidence,
    Facts,
    Permit,
    PublicationRefused,
    Request,
    decide,
    gather_evidence,
    see,
    shape,
)
from maia.predicates.syntax import (
    ALWAYS,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    attributes_of,
)
from maia.testing import grant
from reference import miklos
from reference.policy import World, paths_in
from support.policy import NOON, defined, key, later

pytestmark = pytest.mark.laws

OWNER, ANN, BOB, CLIENT = PEOPLE = tuple(key(number) for number in range(60, 64))
X, Y = UIDS = (AttributeUid("x1"), AttributeUid("y1"))
TYPE = defined(OWNER, "T", [Attribute(uid, uid, Kind.INT) for uid in UIDS])
UNIVERSE = list(miklos.notifications(dict.fromkeys(UIDS, range(4))))
EVENTS = [dict(notification) for notification in UNIVERSE]
FRIENDS = LocalName(OWNER.principal, ("friends",))
ON_DUTY, ON_CALL = (Comparison(AttributeUid(text), Operator.EQ, True) for text in ("on-duty", "on-call"))
ENDED, LASTING = Validity(None, later(-1)), Validity(None, later(1))

constraints = st.one_of(
    st.builds(Comparison, st.sampled_from(UIDS), st.sampled_from(list(Operator)), st.integers(1, 2)),
    st.builds(Membership, st.sampled_from(UIDS), st.frozensets(st.integers(1, 2), min_size=1)),
    st.builds(Exists, st.sampled_from(UIDS)),
)
conjunctions = st.lists(constraints, max_size=2).map(lambda parts: AllOf(tuple(parts)))
# Of another kind than declared: unknown of every event, so that it neither holds nor fails.
OTHER_KIND = Comparison(X, Operator.EQ, "one")
# Few different terms: what one certificate asks for is often what another one asks for too.
restrictions = st.sampled_from(
    (
        ALWAYS,
        ALWAYS,
        Comparison(X, Operator.EQ, 1),
        Comparison(X, Operator.LE, 2),
        AllOf((Comparison(X, Operator.EQ, 1), Comparison(Y, Operator.GE, 2))),
        Membership(Y, frozenset({1, 2})),
        OTHER_KIND,
        AnyOf((OTHER_KIND, Comparison(Y, Operator.EQ, 1))),
        Not(AllOf((OTHER_KIND, Comparison(Y, Operator.EQ, 1)))),
    )
)
conditions = st.sampled_from((*[ALWAYS] * 3, ON_DUTY, ON_CALL, AllOf((ON_DUTY, ON_CALL))))
attribute_sets = st.sampled_from((ALL_ATTRIBUTES, ALL_ATTRIBUTES, frozenset({X}), frozenset({Y})))
BOTH = frozenset({Action.SUBSCRIBE, Action.PUBLISH})
actions = st.sampled_from((*[BOTH] * 5, frozenset({Action.PUBLISH})))
authorities = st.builds(Authority, st.just(AnyResource()), actions, attribute_sets, restrictions, conditions)
validities = st.sampled_from((*[UNBOUNDED] * 6, LASTING, ENDED))
said = st.dictionaries(st.sampled_from((ON_DUTY.uid, ON_CALL.uid)), st.booleans())


@st.composite
def certificates(draw):
    """A grant between two people, or to the owner's friends, or a principal who is called one of them."""
    kind = draw(st.sampled_from(("grant", "grant", "grant", "to friends", "friend")))
    if kind == "friend":
        friend = draw(st.sampled_from((ANN, CLIENT, CLIENT)))
        named = NameCertificate(OWNER.principal, "friends", friend.principal, draw(validities))
        return issue(named, OWNER)
    issuer = draw(st.sampled_from((OWNER, OWNER, ANN, BOB)))
    others = [one.principal for one in (ANN, BOB, CLIENT, CLIENT) if one is not issuer]
    subject = FRIENDS if kind == "to friends" else draw(st.sampled_from(others))
    terms = draw(authorities), draw(validities)
    may_delegate = draw(st.sampled_from((True, True, True, False)))
    return issue(AuthorisationCertificate(issuer.principal, subject, may_delegate, *terms), issuer)


class Drawn(tuple):
    """A world with its request, heap and facts; prints what a person needs to see why it fails."""

    __slots__ = ()

    def __repr__(self) -> str:
        world, _, pool, _ = self
        shown = [(one.id.hex()[:6], one.certificate) for one in pool]
        return f"{world.wanted=} {world.bounds=} {dict(world.facts)=} {world.asserted=} {shown=}"


def world_of(action, pool, bounds=(), wanted=ALWAYS, known=None, asserted=None):
    """Return a world for the reference, and the request, heap and facts for the kernel that say the same."""
    known, asserted = known or {}, asserted or {}
    world = World(
        requester=CLIENT.principal,
        action=action,
        resource=TYPE.name,
        kinds=TYPE.kinds,
        wanted=wanted,
        paths=paths_in(pool, OWNER.principal, CLIENT.principal),
        bounds=bounds,
        facts=Facts(known),
        now=NOON,
        universe=UNIVERSE,
        asserted=asserted,
    )
    request = Request(CLIENT.principal, action, TYPE.name, TYPE, wanted)
    return Drawn((world, request, tuple(pool), Facts(known, asserted=asserted)))


@st.composite
def worlds(draw, action):
    pool = draw(st.lists(certificates(), min_size=1, max_size=6, unique_by=lambda one: one.id))
    rule = st.builds(
        BoundRule,
        st.sampled_from([*(one.id for one in pool), CLIENT.principal]),
        st.just(action),
        st.sampled_from(list(Bound)),
        conjunctions,
    )
    bounds = draw(st.one_of(st.just([]), st.lists(rule, max_size=2)))
    wanted = draw(st.one_of(st.just(ALWAYS), conjunctions))
    asserted = draw(st.dictionaries(st.sampled_from([one.principal for one in PEOPLE[:3]]), said))
    return world_of(action, pool, bounds, wanted, draw(said), asserted)


def decided(drawn):
    world, request, pool, facts = drawn
    evidence = gather_evidence(request, pool, at=world.now, bounds=world.bounds)
    assert evidence.left_out == 0
    return decide(request, evidence, facts, world.now)


def granted(issuer, subject, *, attributes=ALL_ATTRIBUTES, restriction=ALWAYS, condition=ALWAYS):
    given_to = subject if isinstance(subject, LocalName) else subject.principal
    return grant(
        issuer,
        given_to,
        AnyResource(),
        *BOTH,
        attributes=attributes,
        restriction=restriction,
        condition=condition,
        may_delegate=True,
    )


def a_condition_of_one_issuer():
    """Ann's issuer wants to hear from the owner that she is on duty; Bob's grant hangs on Bob's own word."""
    pool = [
        granted(OWNER, ANN, condition=ON_DUTY),
        granted(ANN, CLIENT),
        granted(OWNER, BOB),
        granted(BOB, CLIENT, condition=ON_DUTY),
    ]
    return world_of(Action.SUBSCRIBE, pool, asserted={BOB.principal: {ON_DUTY.uid: True}})


def a_bound_on_one_certificate(bound, wanted=ALWAYS):
    """The wider of two certificates has a bound, and the narrower one has not."""
    narrow = granted(OWNER, CLIENT, restriction=Comparison(X, Operator.GE, 1))
    wide = granted(OWNER, CLIENT)
    rule = BoundRule(wide.id, Action.SUBSCRIBE, bound, AllOf((Comparison(X, Operator.EQ, 1),)))
    return world_of(Action.SUBSCRIBE, [narrow, wide], [rule], wanted)


def a_bound_on_one_name():
    """A principal is called a friend twice, by two certificates, and a bound lies on one of them."""
    names = [
        issue(NameCertificate(OWNER.principal, "friends", CLIENT.principal, period), OWNER)
        for period in (UNBOUNDED, LASTING)
    ]
    rule = BoundRule(names[0].id, Action.SUBSCRIBE, Bound.UPPER, AllOf((Comparison(X, Operator.EQ, 1),)))
    return world_of(Action.SUBSCRIBE, [granted(OWNER, FRIENDS), *names], [rule])


@given(worlds(Action.SUBSCRIBE))
@example(a_condition_of_one_issuer())
@example(a_bound_on_one_certificate(Bound.UPPER))
@example(a_bound_on_one_certificate(Bound.STRICT_UPPER, AllOf((Comparison(X, Operator.EQ, 1),))))
@example(a_bound_on_one_name())
def test_a_subscriber_sees_the_sum_of_all_that_was_granted(drawn):
    world, decision = drawn[0], decided(drawn)
    event(f"{type(decision).__name__} of {min(len(world.usable()), 4)}")
    assert isinstance(decision, Permit) == world.subscription_is_permitted()
    if isinstance(decision, Permit):
        assert all(see(decision.view, one) == world.seen(one) for one in EVENTS)


def a_term_of_another_kind():
    """One of two things that a restriction lets a publisher write is of a kind that it cannot write."""
    either = AnyOf((OTHER_KIND, Comparison(Y, Operator.EQ, 1)))
    return world_of(Action.PUBLISH, [granted(OWNER, CLIENT, restriction=either)])


@given(worlds(Action.PUBLISH))
@example(a_term_of_another_kind())
def test_a_publisher_writes_what_one_of_its_grants_lets_it_write(drawn):
    world, decision = drawn[0], decided(drawn)
    usable = world.usable()
    event(f"{type(decision).__name__} of {min(len(usable), 4)}")
    if isinstance(decision, Permit):
        results = [_shaped(decision.view, one) for one in EVENTS]
        assert any(results == [world.published(path, one) for one in EVENTS] for path in usable)
    elif decision.code == "POLICY-GRANT-UNMEETABLE":
        assert all(world.published(path, one) is None for path in usable for one in EVENTS)
    else:
        # Each usable grant is about other attributes than the advertisement, or can be met by no event.
        spoken = attributes_of(world.wanted)
        for path in usable:
            is_met = any(world.published(path, one) is not None for one in EVENTS)
            assert not is_met or not spoken <= world.common_attributes(path)


@given(worlds(Action.SUBSCRIBE), st.data())
def test_whatever_of_the_certificates_is_revoked_later_the_others_were_found_beside_it(drawn, data):
    """Who does not know what is revoked, or bounded, shows or watches all that might serve."""
    world, request, pool, facts = drawn
    ids = [one.id for one in pool]
    evidence = gather_evidence(request, pool, at=world.now, bounds=world.bounds, doubtful=ids)
    gone = set(data.draw(st.lists(st.sampled_from(ids), max_size=3)))
    left = tuple(chain for chain in evidence.chains if gone.isdisjoint(one.id for one in chain.certificates))
    decision = decide(request, Evidence(left, evidence.bounds), facts, world.now)
    world.paths = [path for path in world.paths if gone.isdisjoint(one.id for one in path)]
    assert isinstance(decision, Permit) == world.subscription_is_permitted()
    if isinstance(decision, Permit):
        assert all(see(decision.view, one) == world.seen(one) for one in EVENTS)


def _shaped(view, one):
    try:
        return shape(view, one)
    except PublicationRefused:
        return None
