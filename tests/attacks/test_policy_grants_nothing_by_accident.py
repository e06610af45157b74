"""Nothing is granted by overlap, by likeness of names, by widening, or by not knowing."""

from __future__ import annotations

import dataclasses

import pytest

from maia.credentials.authority import ALL_ACTIONS, Action, AnyResource, Authority
from maia.credentials.certificate import UNBOUNDED, Validity
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.names import FIRST_VERSION, NetworkName, TopicName, TypeName, parse_name_pattern
from maia.errors import BadInput, BrokenCredential
from maia.events import AttributeUid
from maia.policy import (
    NO_FACTS,
    Bound,
    BoundRule,
    Evidence,
    Facts,
    Permit,
    PublicationRefused,
    decide,
    gather_evidence,
    see,
    shape,
)
from maia.predicates.language.parser import parse_predicate
from maia.predicates.syntax import Comparison, Exists, Not, Operator
from support.policy import (
    BILLING,
    CCS,
    MALLORY,
    MET,
    NOON,
    NUMBERPLATE,
    PITO,
    PLACE,
    PLATE,
    POLICE_NETWORK,
    SMITH,
    TIME,
    ask,
    chain,
    defined,
    denial,
    granted,
    group,
    key,
    later,
    named,
    network_pattern,
    permit,
    request,
    sighting,
    type_pattern,
)

NASTY = [
    "*",
    "?",
    "#",
    "+",
    ">",
    "..",
    "/",
    "[a]",
    "\\",
    "\n",
    "a*",
    "*a",
    ".*",
    "a\x00",
    "${x}",
    "%s",
    "a|b",
    "^",
    "(a)",
]


# ---------------------------------------------------------------- patterns and names


@pytest.mark.parametrize("name", ["Test*", "*", "T?st", "Test>", "Test#", "Test+", ">", "#"])
def test_no_principal_asks_for_a_pattern(name):
    """A1: a request names one resource, so no wildcard can overlap what is granted without lying inside."""
    for build in (
        lambda: TypeName(PITO.principal, name, FIRST_VERSION),
        lambda: NetworkName(PITO.principal, name),
        lambda: TopicName(PITO.principal, f"/{name}"),
    ):
        with pytest.raises(BadInput):
            build()


def test_overlapping_patterns_along_a_chain_grant_only_what_both_match():
    """A1: `a*` passed on as `*b` is neither of them."""
    first = granted(PITO, MET, "extend", type_pattern(name="a*"), may_delegate=True)
    second = granted(MET, SMITH, "extend", type_pattern(name="*b"))
    chains = [chain(first, second, subject=SMITH)]
    for name in ("ab", "a.x.b", "aab"):
        permit(ask(SMITH, "extend", TypeName(PITO.principal, name, FIRST_VERSION), chains=chains))
    for name in ("a", "b", "ax", "xb", "ba"):
        refused = denial(ask(SMITH, "extend", TypeName(PITO.principal, name, FIRST_VERSION), chains=chains))
        assert refused.code == "POLICY-RESOURCE-NOT-GRANTED"


@pytest.mark.parametrize(
    "wanted",
    ['prefix(location, "So")', 'location != "Soho"', "exists(location)", 'location in ("Soho", "Bow")'],
)
def test_a_filter_that_overlaps_a_bound_without_lying_inside_is_refused(wanted):
    """A1: the bound is Soho; anything that also reaches elsewhere is too wide."""
    rule = BoundRule(
        SMITH.principal,
        Action.SUBSCRIBE,
        Bound.UPPER,
        parse_predicate('location = "Soho"', NUMBERPLATE.vocabulary),
    )
    chains = [chain(granted(PITO, SMITH, "subscribe"), subject=SMITH)]
    refused = denial(ask(SMITH, "subscribe", chains=chains, bounds=[rule], filter=wanted))
    assert refused.code == "POLICY-SUBSCRIPTION-TOO-WIDE"


def test_a_right_through_a_group_does_not_lift_a_bound_on_its_member():
    """A2: the group's wide grant leaves the member's own bound in force."""
    to_group = granted(PITO, group(PITO, "Readers"), "subscribe")
    through_group = chain(to_group, named(PITO, "Readers", SMITH), subject=SMITH)
    plain = chain(granted(PITO, SMITH, "subscribe", attributes="location"), subject=SMITH)
    rule = BoundRule(
        SMITH.principal,
        Action.SUBSCRIBE,
        Bound.UPPER,
        parse_predicate('location = "Soho"', NUMBERPLATE.vocabulary),
    )
    for chains in ([through_group], [through_group, plain], [plain, through_group]):
        denial(ask(SMITH, "subscribe", chains=chains, bounds=[rule]))
        permit(ask(SMITH, "subscribe", chains=chains, bounds=[rule], filter='location = "Soho"'))


def test_a_name_in_one_groups_book_is_no_name_in_another():
    """A2: Mallory calls herself one of `Met Brokers`; only the Met can say so."""
    to_group = granted(PITO, group(PITO, "Readers"), "subscribe")
    forged = named(MALLORY, "Readers", MALLORY)
    with pytest.raises(BrokenCredential):
        chain(to_group, forged, subject=MALLORY)
    wanted = request(MALLORY, "subscribe")
    assert denial(decide(wanted, gather_evidence(wanted, [to_group, forged], at=NOON), NO_FACTS, NOON))


@pytest.mark.parametrize("word", NASTY)
def test_a_name_with_signs_of_a_pattern_cannot_be_built_into_a_rule(word):
    """A3: a client's name that is put into a templated name or path is a plain name or is refused."""
    for build in (
        lambda: TypeName(PITO.principal, f"inbox.{word}", FIRST_VERSION),
        lambda: TopicName(PITO.principal, f"/inbox/{word}/new"),
        lambda: NetworkName(PITO.principal, f"net {word}"),
    ):
        with pytest.raises(BadInput):
            build()


@pytest.mark.parametrize("word", ["inbox.a*", "inbox.*a", "*", "*a*"])
def test_a_pattern_read_from_a_clients_name_never_reaches_past_the_resource(word):
    """A3: even where a template is read as a pattern, the chain above it stays the limit."""
    first = granted(PITO, MET, "extend", type_pattern(name="inbox.ann"), may_delegate=True)
    second = granted(MET, SMITH, "extend", type_pattern(None, word))
    try:
        chains = [chain(first, second, subject=SMITH)]
    except BrokenCredential:
        chains = []
    bob = TypeName(PITO.principal, "inbox.bob", FIRST_VERSION)
    denial(ask(SMITH, "extend", bob, chains=chains))


@pytest.mark.parametrize("text", ["a?", "[a]", "a|b", "a#", "(a)", "a+", "\\*", "a\n", "${a}"])
def test_a_pattern_knows_one_wildcard(text):
    """A3: every other sign that some pattern language gives a meaning is refused."""
    with pytest.raises(BadInput):
        parse_name_pattern(text)


# ---------------------------------------------------------------- widening


WIDE = {"actions": "publish subscribe", "attributes": "*"}
WAYS_TO_WIDEN = {
    "attributes": ({"attributes": "timestamp"}, {"attributes": "*"}),
    "value range": ({"restriction": 'location = "Soho"'}, {"restriction": 'location != ""'}),
    "time": ({"validity": Validity(NOON, later(10))}, {"validity": UNBOUNDED}),
    "resources": ({"resources": type_pattern(name="uk.gov.pito.Numberplate")}, {"resources": AnyResource()}),
}


@pytest.mark.parametrize("way", WAYS_TO_WIDEN)
def test_a_link_that_says_more_than_the_one_before_grants_no_more(way):
    """A21: the child's certificate is wider in one way; what it is worth is not."""
    parent_terms, child_terms = WAYS_TO_WIDEN[way]
    parent = granted(PITO, MET, "subscribe", may_delegate=True, **parent_terms)
    child = granted(MET, SMITH, "*", **child_terms)
    chains = [chain(parent, child, subject=SMITH)]
    from_parent = permit(ask(MET, "subscribe", chains=[chain(parent, subject=MET)]))
    from_child = permit(ask(SMITH, "subscribe", chains=chains))
    assert from_child.until == from_parent.until
    for event in (sighting("x", "Soho"), sighting("x", "Bow"), sighting("x", None), sighting(None, "Soho")):
        assert see(from_child.view, event) == see(from_parent.view, event)
    assert denial(ask(SMITH, "publish", chains=chains)).code == "POLICY-ACTION-NOT-GRANTED"


def test_a_link_cannot_widen_the_version():
    """A21: a right to version 0 passed on as a right to any version is a right to version 0."""
    other = TypeName(PITO.principal, NUMBERPLATE.name.name, "00000000-0000-0000-0000-00000000000a")
    only_first = dataclasses.replace(type_pattern(), version="0")
    parent = granted(PITO, MET, "extend", only_first, may_delegate=True)
    chains = [chain(parent, granted(MET, SMITH, "extend", type_pattern()), subject=SMITH)]
    permit(ask(SMITH, "extend", NUMBERPLATE.name, chains=chains))
    denial(ask(SMITH, "extend", other, chains=chains))


def test_hiding_a_restricted_attribute_does_not_lift_its_restriction():
    """A21: a domain that may see one car cannot make a right to see all times of all cars out of it."""
    parent = granted(PITO, MET, "subscribe", restriction='numberplate = "AE05 XYZ"', may_delegate=True)
    child = granted(MET, SMITH, "subscribe", attributes="timestamp")
    view = permit(ask(SMITH, "subscribe", chains=[chain(parent, child, subject=SMITH)])).view
    assert see(view, sighting("KT52 ABC", "Soho")) is None
    assert see(view, sighting("AE05 XYZ", "Soho")) == {TIME: NOON}


# ---------------------------------------------------------------- another principal's credentials


def test_a_chain_for_one_domain_is_worth_nothing_to_another():
    """A22: a mismatch is a denial, and names no principal to the requester."""
    met = chain(granted(PITO, MET, "subscribe", may_delegate=True), subject=MET)
    refused = denial(ask(CCS, "subscribe", chains=[met]))
    assert refused.code == "POLICY-NO-CHAIN"
    assert refused.explanation.owner[0].field == "subject"


def test_a_chain_for_one_type_is_worth_nothing_for_another():
    """A22."""
    other = defined(PITO, "uk.gov.pito.Arrests", NUMBERPLATE.attributes)
    smith = chain(granted(PITO, SMITH, "subscribe"), subject=SMITH)
    assert denial(ask(SMITH, "subscribe", other, chains=[smith])).code == "POLICY-RESOURCE-NOT-GRANTED"


def test_a_chain_for_a_network_is_worth_nothing_for_a_type_and_the_other_way_round():
    """A22."""
    on_network = chain(granted(PITO, SMITH, "*", network_pattern()), subject=SMITH)
    on_type = chain(granted(PITO, SMITH, "*"), subject=SMITH)
    assert denial(ask(SMITH, "subscribe", chains=[on_network])).code == "POLICY-RESOURCE-NOT-GRANTED"
    refused = denial(ask(SMITH, "connect", POLICE_NETWORK, chains=[on_type]))
    assert refused.code == "POLICY-RESOURCE-NOT-GRANTED"


def test_a_type_of_the_same_name_under_another_key_is_another_type():
    """A22: Mallory grants herself everything on her own `uk.gov.pito.Numberplate`."""
    hers = chain(granted(MALLORY, SMITH, "*", AnyResource()), subject=SMITH, root=MALLORY)
    assert denial(ask(SMITH, "subscribe", chains=[hers])).code == "POLICY-NO-CHAIN"


def test_a_proof_cannot_be_made_by_hand():
    """A26: evidence takes proofs, and only the verifier makes one."""
    everything = Authority(AnyResource(), ALL_ACTIONS)
    with pytest.raises(TypeError):
        VerifiedChain(PITO.principal, MALLORY.principal, everything, UNBOUNDED, True, (), object())
    honest = chain(granted(PITO, SMITH, "subscribe"), subject=SMITH)
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(honest, subject=MALLORY.principal)


def test_a_certificate_in_the_owners_name_signed_by_another_key_proves_nothing():
    """A26: the key that counts is the one in the resource's name, not one that came with the request."""
    honest = granted(PITO, SMITH, "subscribe")
    hers = granted(MALLORY, MALLORY, "subscribe")
    forged = dataclasses.replace(
        honest,
        certificate=dataclasses.replace(honest.certificate, subject=MALLORY.principal),
        signature=hers.signature,
    )
    with pytest.raises(BrokenCredential):
        chain(forged, subject=MALLORY)
    wanted = request(MALLORY, "subscribe")
    for pool in ([forged], [hers], [forged, hers, honest]):
        assert denial(decide(wanted, gather_evidence(wanted, pool, at=NOON), NO_FACTS, NOON))


# ---------------------------------------------------------------- probing and not knowing


def test_a_filter_on_a_hidden_attribute_is_refused_however_it_is_asked():
    """A52: no form of a question about a hidden attribute gets past `decide`."""
    chains = [chain(granted(PITO, BILLING, "subscribe", attributes="numberplate timestamp"), subject=BILLING)]
    questions = [
        'location = "Soho"',
        'not (location = "Soho")',
        'location = "Soho" or numberplate = "x"',
        'numberplate = "x" and prefix(location, "S")',
        "exists(location)",
        "not exists(location)",
        'location in ("Soho")',
    ]
    for words in questions:
        refused = denial(ask(BILLING, "subscribe", chains=chains, filter=words))
        assert refused.code == "POLICY-ATTRIBUTE-NOT-READABLE"


def test_a_binary_search_through_subscriptions_learns_nothing():
    """A52: every step of the search is refused with one and the same answer."""
    chains = [chain(granted(PITO, BILLING, "subscribe", attributes="numberplate"), subject=BILLING)]
    answers = {
        str(
            denial(
                ask(BILLING, "subscribe", chains=chains, filter=Comparison(TIME, Operator.LT, later(step)))
            ).as_refusal()
        )
        for step in range(0, 64, 4)
    }
    assert len(answers) == 1


def test_a_window_that_does_not_show_an_attribute_does_not_answer_questions_about_it():
    """A52: the attribute is readable for one car; of other cars a filter on it learns nothing."""
    one_car = chain(granted(PITO, SMITH, "subscribe", restriction='numberplate = "AE05 XYZ"'), subject=SMITH)
    times = chain(granted(PITO, SMITH, "subscribe", attributes="timestamp"), subject=SMITH)
    for wanted in (Comparison(PLACE, Operator.EQ, "Soho"), Not(Comparison(PLACE, Operator.EQ, "Soho"))):
        view = permit(ask(SMITH, "subscribe", chains=[one_car, times], filter=wanted)).view
        assert {see(view, sighting("KT52 ABC", place)) is None for place in ("Soho", "Bow")} == {True}
    absent = permit(ask(SMITH, "subscribe", chains=[one_car, times], filter=Not(Exists(PLACE)))).view
    assert see(absent, sighting("KT52 ABC", "Soho")) == see(absent, sighting("KT52 ABC", None))


@pytest.mark.parametrize(
    "restriction", ['not (location = "Soho")', 'location != "Soho"', 'not (location in ("Soho"))']
)
def test_a_negated_restriction_does_not_show_events_without_the_attribute(restriction):
    """A59: missing, null and hidden are unknown, and only true passes."""
    chains = [chain(granted(PITO, SMITH, "subscribe", restriction=restriction), subject=SMITH)]
    view = permit(ask(SMITH, "subscribe", chains=chains)).view
    assert see(view, sighting("x", "Bow")) is not None
    assert see(view, sighting("x", None)) is None
    assert see(view, {PLATE: "x", PLACE: None}) is None
    publisher = [chain(granted(PITO, SMITH, "publish", restriction=restriction), subject=SMITH)]
    with pytest.raises(PublicationRefused):
        shape(permit(ask(SMITH, "publish", chains=publisher)).view, sighting("x", None))


@pytest.mark.parametrize("condition", ["suspended != true", "not (suspended = true)", "suspended in (false)"])
def test_a_condition_on_a_fact_that_is_not_known_grants_nothing(condition):
    """A59: "not suspended" must be known, not merely not contradicted."""
    chains = [chain(granted(PITO, SMITH, "subscribe", condition=condition), subject=SMITH)]
    suspended = AttributeUid("suspended")
    outcomes = {
        known: isinstance(ask(SMITH, "subscribe", chains=chains, facts=Facts({suspended: known})), Permit)
        for known in (None, True, False, "false")
    }
    assert outcomes == {None: False, True: False, False: True, "false": False}


def test_evidence_that_grants_nothing_grants_nothing_together():
    """A41: many chains that each miss do not add up to one that fits."""
    pieces = [
        chain(granted(PITO, SMITH, "publish"), subject=SMITH),
        chain(granted(PITO, SMITH, "subscribe", type_pattern(name="Other")), subject=SMITH),
        chain(granted(PITO, MET, "subscribe"), subject=MET),
        chain(granted(key(60), SMITH, "subscribe", AnyResource()), subject=SMITH, root=key(60)),
    ]
    assert (
        isinstance(decide(request(SMITH, "subscribe"), Evidence(tuple(pieces)), NO_FACTS, NOON), Permit)
        is False
    )
