"""How do chains, conditions, filters and topics come together in one decision?"""

from __future__ import annotations

import pytest

from maia.credentials.authority import ALL_ATTRIBUTES, Action
from maia.credentials.certificate import Validity
from maia.credentials.names import TopicName
from maia.events import AttributeUid
from maia.policy import (
    NO_FACTS,
    Audience,
    Bound,
    BoundRule,
    Facts,
    PublicationRefused,
    Window,
    decide,
    gather_evidence,
    see,
    shape,
)
from maia.policy import grants as openings
from maia.policy.evidence import CHAINS_MAX
from maia.predicates.language.parser import parse_predicate
from maia.predicates.syntax import ALWAYS, Comparison, Exists, Operator
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.policy import (
    CCS,
    CCTV,
    MANAGER,
    MET,
    NOON,
    NUMBERPLATE,
    PITO,
    PLACE,
    PLATE,
    SMITH,
    TIME,
    ask,
    chain,
    denial,
    granted,
    later,
    permit,
    request,
    sighting,
    topic_pattern,
    type_pattern,
)

ON_DUTY = AttributeUid("on-duty")
UNTIL_ONE = Validity(None, later(3600))
UNTIL_TWO = Validity(None, later(7200))


def to_smith(**terms):
    return chain(granted(PITO, SMITH, terms.pop("actions", "subscribe"), **terms), subject=SMITH)


# ---------------------------------------------------------------- subscribers: chains add up


def test_two_chains_open_two_windows():
    car = to_smith(attributes="numberplate location", restriction='numberplate = "AE05 XYZ"')
    times = to_smith(attributes="timestamp")
    view = permit(ask(SMITH, "subscribe", chains=[car, times])).view
    assert see(view, sighting("AE05 XYZ", "Soho")) == sighting("AE05 XYZ", "Soho")
    assert see(view, sighting("KT52 ABC", "Soho")) == {TIME: NOON}


def test_a_window_inside_another_one_is_left_out():
    decision = permit(ask(SMITH, "subscribe", chains=[to_smith(attributes="timestamp"), to_smith()]))
    assert decision.view.windows == (Window(ALWAYS, ALL_ATTRIBUTES),)


def test_a_wider_window_that_ends_sooner_does_not_replace_a_lasting_one():
    short, lasting = to_smith(validity=UNTIL_ONE), to_smith(attributes="timestamp", validity=UNTIL_TWO)
    decision = permit(ask(SMITH, "subscribe", chains=[short, lasting]))
    assert len(decision.view.windows) == 2
    assert decision.until == UNTIL_ONE.not_after


def test_a_view_lasts_as_long_as_the_first_chain_to_end():
    one = to_smith(attributes="timestamp", validity=UNTIL_ONE)
    two = to_smith(attributes="location", validity=UNTIL_TWO)
    assert permit(ask(SMITH, "subscribe", chains=[one, two])).until == UNTIL_ONE.not_after
    later_on = permit(ask(SMITH, "subscribe", chains=[one, two], now=later(3601)))
    assert later_on.until == UNTIL_TWO.not_after
    assert see(later_on.view, sighting("x", "Soho")) == {PLACE: "Soho"}


def test_an_unbounded_chain_gives_an_unbounded_view():
    assert permit(ask(SMITH, "subscribe", chains=[to_smith()])).until is None


# ---------------------------------------------------------------- filters


def test_a_filter_on_a_hidden_attribute_and_on_a_missing_one_get_the_same_answer():
    """A52: whether `numberplate` is hidden or does not exist is not told."""
    times = to_smith(attributes="timestamp")
    answers = []
    for uid in (PLATE, AttributeUid("4711")):
        refused = denial(ask(SMITH, "subscribe", chains=[times], filter=Exists(uid)))
        assert refused.code == "POLICY-ATTRIBUTE-NOT-READABLE"
        answers.append(str(refused.as_refusal().as_record()).replace(uid, "that one"))
    assert answers[0] == answers[1]


def test_a_filter_on_an_attribute_that_the_type_lacks_is_refused_even_with_every_right():
    refused = denial(ask(SMITH, "subscribe", chains=[to_smith()], filter=Exists(AttributeUid("4711"))))
    assert refused.code == "POLICY-ATTRIBUTE-NOT-READABLE"


def test_a_filter_of_the_wrong_kind_is_a_clear_error_to_its_author():
    refused = denial(ask(SMITH, "subscribe", chains=[to_smith()], filter=parse_predicate(f"#{PLATE} = 5")))
    assert refused.code == "POLICY-FILTER-MISTYPED"
    assert refused.explanation.requester[0].attribute == PLATE
    assert "string" in refused.as_refusal().message


# ---------------------------------------------------------------- conditions


def test_a_condition_grants_only_while_it_is_known_to_hold():
    on_duty = to_smith(condition="on-duty = true")
    permit(ask(SMITH, "subscribe", chains=[on_duty], facts=Facts({ON_DUTY: True})))
    for facts in (Facts(), Facts({ON_DUTY: False}), Facts({ON_DUTY: 1})):
        refused = denial(ask(SMITH, "subscribe", chains=[on_duty], facts=facts))
        assert refused.code == "POLICY-CONDITION-NOT-MET"
        assert "on-duty" not in str(refused.as_refusal().as_record())
        assert refused.explanation.owner[0].field == "authority.condition"


def test_every_condition_along_a_chain_must_hold():
    first = granted(PITO, MET, "subscribe", condition="on-duty = true", may_delegate=True)
    second = granted(MET, SMITH, "subscribe", condition='ward = "7"')
    chains = [chain(first, second, subject=SMITH)]
    both = Facts({ON_DUTY: True, AttributeUid("ward"): "7"})
    permit(ask(SMITH, "subscribe", chains=chains, facts=both))
    refused = denial(ask(SMITH, "subscribe", chains=chains, facts=Facts({ON_DUTY: True})))
    assert refused.explanation.owner[0].certificate == second.id


# ---------------------------------------------------------------- publishers: one chain speaks

VICTORIA = {"attributes": "location numberplate timestamp", "restriction": 'location = "Victoria"'}


def camera(**terms):
    return chain(granted(PITO, CCTV, "publish", **terms), subject=CCTV)


def test_rights_to_publish_do_not_add_up():
    soho = camera(attributes="location numberplate", restriction='location = "Soho"')
    view = permit(ask(CCTV, "publish", chains=[camera(**VICTORIA), soho])).view
    assert len(view.windows) == 1
    assert view.forced == {PLACE: "Victoria"}


def test_the_order_of_incomparable_chains_is_the_publishers_own():
    soho = camera(attributes="location numberplate", restriction='location = "Soho"')
    assert permit(ask(CCTV, "publish", chains=[soho, camera(**VICTORIA)])).view.forced == {PLACE: "Soho"}


def test_a_chain_that_another_one_goes_beyond_does_not_speak():
    assert permit(ask(CCTV, "publish", chains=[camera(**VICTORIA), camera()])).view.forced == {}


def test_a_restriction_survives_a_link_that_hides_its_attribute():
    """Nothing satisfies both, so the publisher is refused at once rather than at every event."""
    first = granted(PITO, CCS, "publish", may_delegate=True, **VICTORIA)
    second = granted(CCS, CCTV, "publish", attributes="numberplate")
    refused = denial(ask(CCTV, "publish", chains=[chain(first, second, subject=CCTV)]))
    assert refused.code == "POLICY-GRANT-UNMEETABLE"
    assert refused.explanation.owner[0].attribute == PLACE
    assert str(PLACE) not in str(refused.as_refusal().as_record())


def test_a_chain_that_cannot_be_met_leaves_the_floor_to_one_that_can():
    never = camera(attributes="numberplate", restriction='location = "Victoria"')
    assert permit(ask(CCTV, "publish", chains=[never, camera(**VICTORIA)])).view.forced == {PLACE: "Victoria"}


def test_two_links_that_force_different_values_cannot_be_met():
    first = granted(PITO, CCS, "publish", restriction='location = "Soho"', may_delegate=True)
    second = granted(CCS, CCTV, "publish", restriction='location = "Victoria"')
    refused = denial(ask(CCTV, "publish", chains=[chain(first, second, subject=CCTV)]))
    assert refused.code == "POLICY-GRANT-UNMEETABLE"


def test_an_advertisement_speaks_only_of_what_its_author_may_write():
    plates = camera(attributes="numberplate")
    permit(ask(CCTV, "publish", chains=[plates], filter='prefix(numberplate, "AE")'))
    refused = denial(ask(CCTV, "publish", chains=[plates], filter="exists(location)"))
    assert refused.code == "POLICY-ATTRIBUTE-NOT-WRITABLE"


# ---------------------------------------------------------------- the owner's nearest miss


@pytest.mark.parametrize(
    ("terms", "code", "field"),
    [
        ({"actions": "publish"}, "POLICY-ACTION-NOT-GRANTED", "authority.actions"),
        ({"resources": type_pattern(name="Other")}, "POLICY-RESOURCE-NOT-GRANTED", "authority.resources"),
        ({"condition": "on-duty = true"}, "POLICY-CONDITION-NOT-MET", "authority.condition"),
    ],
)
def test_a_denial_names_the_certificate_and_the_field(terms, code, field):
    certificate = granted(PITO, SMITH, terms.pop("actions", "subscribe"), **terms)
    refused = denial(ask(SMITH, "subscribe", chains=[chain(certificate, subject=SMITH)]))
    (reason,) = refused.explanation.owner
    assert (refused.code, reason.certificate, reason.field) == (code, certificate.id, field)


def test_the_nearest_miss_comes_first_and_the_others_follow():
    far = to_smith(resources=type_pattern(name="Other"))
    near = to_smith(condition="on-duty = true")
    refused = denial(ask(SMITH, "subscribe", chains=[far, near]))
    assert refused.code == "POLICY-CONDITION-NOT-MET"
    assert [reason.rule for reason in refused.explanation.owner] == ["condition", "resource"]


def test_a_permit_names_the_certificates_behind_it():
    first = granted(PITO, MET, "subscribe", may_delegate=True)
    second = granted(
        MET, SMITH, "subscribe", attributes="numberplate", restriction='numberplate = "AE05 XYZ"'
    )
    decision = permit(ask(SMITH, "subscribe", chains=[chain(first, second, subject=SMITH)]))
    rules = {reason.rule: reason for reason in decision.explanation.reasons(Audience.OWNER)}
    assert rules["restriction"].certificate == second.id
    assert rules["restriction"].attribute == PLATE
    assert 'numberplate == "AE05 XYZ"' in rules["restriction"].sentence
    told = decision.explanation.lines(Audience.REQUESTER)
    assert any("`numberplate`" in line for line in told)
    assert not any("restrict" in line or "AE05" in line for line in told)
    assert "AE05" not in repr(decision)


def test_the_owner_reads_what_is_hidden_and_the_requester_what_is_shown():
    decision = permit(ask(SMITH, "subscribe", chains=[to_smith(attributes="timestamp")]))
    assert (
        "the requester may read `timestamp` and not `numberplate`, `location`"
        in decision.explanation.lines(Audience.OWNER)
    )
    assert "you may read `timestamp`" in decision.explanation.lines(Audience.REQUESTER)
    assert not any("location" in line for line in decision.explanation.lines(Audience.REQUESTER))


# ---------------------------------------------------------------- types that lapse, topics


def test_a_view_never_outlives_the_type_behind_it():

    rights = granted(PITO, MANAGER, "manage", validity=UNTIL_ONE)
    name = type(NUMBERPLATE.name)(
        PITO.principal, NUMBERPLATE.name.name, "00000000-0000-0000-0000-000000000001"
    )
    definition = TypeDefinition(name, "0", NUMBERPLATE.attributes, (rights,))
    managed = verify_definition(sign_definition(definition, MANAGER), at=NOON, previous=NUMBERPLATE)
    assert permit(ask(SMITH, "subscribe", managed, chains=[to_smith()])).until == UNTIL_ONE.not_after
    refused = denial(ask(SMITH, "subscribe", managed, chains=[to_smith()], now=later(3601)))
    assert refused.code == "POLICY-TYPE-NOT-VALID"


LONDON = TopicName(PITO.principal, "/traffic/london")


def on_topic(action, path, **terms):
    return chain(granted(PITO, SMITH, action, topic_pattern(path), **terms), subject=SMITH)


def test_a_subscriber_needs_the_topic_alone():
    permit(ask(SMITH, "subscribe", LONDON, chains=[on_topic("subscribe", "/traffic/london")]))
    refused = denial(ask(SMITH, "subscribe", LONDON, chains=[on_topic("subscribe", "/traffic")]))
    assert refused.code == "POLICY-RESOURCE-NOT-GRANTED"


def test_a_publisher_needs_every_super_topic():
    """Dissertation 5.5."""
    paths = ("/", "/traffic", "/traffic/london")
    chains = [on_topic("publish", path) for path in paths]
    permit(ask(SMITH, "publish", LONDON, chains=chains))
    permit(ask(SMITH, "publish", LONDON, chains=[on_topic("publish", "/*")]))
    for missing in range(3):
        rest = [one for number, one in enumerate(chains) if number != missing]
        assert denial(ask(SMITH, "publish", LONDON, chains=rest)).code == "POLICY-RESOURCE-NOT-GRANTED"


def test_the_restrictions_of_every_level_apply_to_a_publication():
    chains = [
        on_topic("publish", "/", restriction=f'#{PLACE} = "Soho"'),
        on_topic("publish", "/traffic*", attributes=[PLATE, PLACE], restriction=f'prefix(#{PLATE}, "A")'),
    ]
    view = permit(ask(SMITH, "publish", LONDON, chains=chains)).view
    assert shape(view, sighting("AE05", "Victoria")) == {PLATE: "AE05", PLACE: "Soho"}
    with pytest.raises(PublicationRefused):
        shape(view, sighting("KT52", "Soho"))


def test_an_attribute_that_one_level_hides_is_not_published():
    chains = [on_topic("publish", "/", attributes=[PLATE]), on_topic("publish", "/traffic*")]
    view = permit(ask(SMITH, "publish", LONDON, chains=chains)).view
    assert shape(view, sighting("AE05", "Victoria")) == {PLATE: "AE05"}


def test_many_chains_and_many_bounds_ask_the_prover_once_for_each_bound(monkeypatch):
    """Limits count steps: what costs much is asked once per bound, however many chains there are."""
    asked = []
    real = openings.permits
    monkeypatch.setattr(openings, "permits", lambda rule, wanted: asked.append(rule) or real(rule, wanted))
    chains = [to_smith(restriction=f'location != "{number}"') for number in range(CHAINS_MAX)]
    bounds = [BoundRule(SMITH.principal, Action.SUBSCRIBE, Bound.UPPER, Exists(TIME))] * 3
    bounds[1] = BoundRule(SMITH.principal, Action.SUBSCRIBE, Bound.LOWER, Exists(TIME))
    view = permit(ask(SMITH, "subscribe", chains=chains, bounds=bounds, filter=Exists(TIME))).view
    assert len(view.windows[0].admits.parts) == CHAINS_MAX
    assert len(asked) == 2


@pytest.mark.parametrize("seconds", [3601, 7201])
def test_a_denial_blames_the_certificate_that_expired_first_however_late_it_is(seconds):
    first = granted(PITO, MET, "subscribe", may_delegate=True, validity=UNTIL_TWO)
    second = granted(MET, SMITH, "subscribe", validity=UNTIL_ONE)
    shown = chain(first, second, subject=SMITH)
    (reason,) = denial(ask(SMITH, "subscribe", chains=[shown], now=later(seconds))).explanation.requester
    assert reason.certificate == second.id
    assert reason.sentence == f"expired after {later(3600)}"


# ------------------------------------------------------------ of several chains, one that serves


def gathered(who, action, what, pool, **named):
    """Decide from a heap of certificates, as brokers and domains do."""
    wanted = request(who, action, what, **named)
    return decide(wanted, gather_evidence(wanted, pool, at=NOON), NO_FACTS, NOON)


def test_the_chain_that_can_write_what_is_advertised_speaks_for_a_publisher():
    """In whichever order they are found: a chain about other attributes takes nothing away."""
    for attributes, advertised in (("numberplate", PLATE), ("location", PLACE)):
        pool = [granted(PITO, CCTV, "publish", attributes=one) for one in ("numberplate", "location")]
        view = permit(gathered(CCTV, "publish", NUMBERPLATE, pool, filter=Exists(advertised))).view
        assert view.windows[0].attributes == {NUMBERPLATE.vocabulary[attributes].uid}


def test_chains_that_go_together_speak_on_the_levels_of_a_topic():
    """The root is granted for two places and the topic for one of them: that one is written."""
    x = AttributeUid("x")

    def at(path, place):
        forced = Comparison(x, Operator.EQ, place)
        return granted(PITO, CCTV, "publish", topic_pattern(path), restriction=forced)

    topic = TopicName(PITO.principal, "/cars")
    for place in (1, 2):
        pool = [at("/", 1), at("/", 2), at("/cars", place)]
        assert permit(gathered(CCTV, "publish", topic, pool)).view.forced == {x: place}
    refused = denial(gathered(CCTV, "publish", topic, [at("/", 1), at("/cars", 3)]))
    assert refused.code == "POLICY-GRANT-UNMEETABLE"
