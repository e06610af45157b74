"""What crosses from one domain's brokers to another's is what subscribers behind the border see (X7)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from msgspec import structs

from maia.broker.log.progress import identity_of
from maia.broker.settings import RecordingSettings, Routing
from maia.credentials import Action, Transformation
from maia.events import AttributeUid, Kind, attribute_uid
from maia.expressions.summaries import Aggregate, Measure, Summary
from maia.expressions.syntax import Rule, Take
from maia.policy import View
from maia.policy.view import Window
from maia.policy.view_bytes import EVERYTHING, view_to_bytes
from maia.predicates import ALWAYS, AnyOf, Comparison, Operator, Predicate
from maia.testing import Cast, Net
from maia.testing.cast import address_of, key_of
from maia.testing.net import NetClient
from maia.wire.codec import decode_recorded, encode
from maia.wire.messages import AskState, Carried, CarriedSigned, Interest, Message, Released, ShownRight

ROWS = [
    {"drug": "MORPHINE", "patient": "Ann Lee", "ward": "A"},
    {"drug": "ASPIRIN", "patient": "Bo Kim", "ward": "B"},
]
SECRETS = (b"Ann Lee", b"Bo Kim")


def is_(uid: str, value: str) -> Comparison:
    return Comparison(attribute_uid(uid), Operator.EQ, value)


def the_cast() -> Cast:
    return (
        Cast.of("trust", "doctor", "auditor", "matron", "inspector", of_type="Prescription",
                drug="string", patient="string", ward="string")
        .domain("hospital", "hospital-edge", "hospital-border")
        .domain("audit", "audit-border", "audit-edge")
        .let("doctor", Action.PUBLISH)
        .let("matron", Action.SUBSCRIBE)
        .let("auditor", Action.SUBSCRIBE, attributes=frozenset({"drug"}))
        .let("inspector", Action.SUBSCRIBE, restriction=is_("ward", "A"), attributes=frozenset({"drug", "ward"}))  # noqa: E501
    )  # fmt: skip


def the_net(cast: Cast | None = None, **settings: object) -> Net:
    net = Net(cast or the_cast(), **settings)
    net.broker("hospital-edge")
    net.broker("hospital-border", seeds=["hospital-edge"])
    net.broker("audit-border", seeds=["hospital-border"])
    net.broker("audit-edge", seeds=["audit-border"])
    return net.settle()


def crossed(net: Net) -> list[bytes]:
    """Return all bytes that brokers of the hospital sent to brokers of the auditors, but interests."""
    return [
        encode(message)
        for sender, receiver, message in net.carried
        if sender.startswith("hospital")
        and receiver.startswith("audit")
        and not isinstance(message, Interest)
    ]


def published(net: Net, *rows: dict[str, str]) -> NetClient:
    doctor = net.client("doctor", "hospital-edge")
    ref = doctor.advertise()
    net.settle()
    for row in rows or ROWS:
        doctor.publish(ref, row)
    net.settle()
    return doctor


def test_a_recipient_sees_the_same_as_in_its_publishers_domain() -> None:
    net = the_net()
    here = {who: net.client(who, "hospital-edge") for who in ("auditor", "inspector", "matron")}
    there = {who: net.client(who, "audit-edge") for who in ("auditor", "inspector", "matron")}
    for client in (*here.values(), *there.values()):
        assert client.was_accepted(client.subscribe())
    net.settle()
    published(net)
    for who, client in there.items():
        assert client.events() == here[who].events() != []
    assert there["auditor"].events() == [{"drug": "MORPHINE"}, {"drug": "ASPIRIN"}]
    assert there["inspector"].events() == [{"drug": "MORPHINE", "ward": "A"}]
    assert there["matron"].events() == ROWS


def test_a_subscriber_gets_each_event_once_while_another_one_there_comes_and_goes_that_sees_all() -> None:
    net = the_net()
    auditor, matron = (net.client(who, "audit-edge") for who in ("auditor", "matron"))
    auditor.subscribe()
    net.settle()
    doctor = published(net, {"drug": "A"})
    whole = matron.subscribe()
    for drug in "BC":
        net.settle()
        doctor.publish(1, {"drug": drug})
    matron.withdraw(whole)
    for drug in "DE":
        net.settle()
        doctor.publish(1, {"drug": drug})
    net.settle()
    assert [event["drug"] for event in auditor.events()] == list("ABCDE")


def test_nothing_crosses_that_no_recipient_sees() -> None:
    net = the_net()
    auditor = net.client("auditor", "audit-edge")
    auditor.subscribe()
    net.settle()
    published(net)
    assert auditor.events() == [{"drug": "MORPHINE"}, {"drug": "ASPIRIN"}]
    sent = b"".join(crossed(net))
    assert b"MORPHINE" in sent
    assert not any(secret in sent for secret in SECRETS)


def test_rows_that_no_recipient_sees_do_not_cross() -> None:
    net = the_net()
    inspector = net.client("inspector", "audit-edge")
    inspector.subscribe()
    net.settle()
    published(net)
    sent = b"".join(crossed(net))
    assert b"MORPHINE" in sent
    assert b"ASPIRIN" not in sent


def test_between_brokers_of_one_domain_events_travel_as_they_were_published() -> None:
    net = Net(the_cast())
    net.broker("hospital-edge")
    net.broker("hospital-border", seeds=["hospital-edge"])
    net.settle()
    auditor = net.client("auditor", "hospital-border")
    auditor.subscribe()
    net.settle()
    published(net)
    assert auditor.events() == [{"drug": "MORPHINE"}, {"drug": "ASPIRIN"}]
    carried = [type(one) for _, _, one in net.carried if isinstance(one, Carried)]
    assert carried == [Carried, Carried]


def test_what_a_subscriber_selects_is_selected_before_the_border() -> None:
    net = the_net()
    auditor = net.client("auditor", "audit-edge")
    auditor.subscribe(is_("drug", "ASPIRIN"))
    net.settle()
    published(net)
    assert auditor.events() == [{"drug": "ASPIRIN"}]
    assert b"MORPHINE" not in b"".join(crossed(net))


def test_a_network_may_open_its_borders() -> None:
    net = the_net(open_borders=True)
    auditor = net.client("auditor", "audit-edge")
    auditor.subscribe()
    net.settle()
    published(net)
    assert auditor.events() == [{"drug": "MORPHINE"}, {"drug": "ASPIRIN"}]
    assert b"Ann Lee" in b"".join(crossed(net))
    assert not any(isinstance(message, Released) for _, _, message in net.carried)


@pytest.mark.parametrize("who", ["auditor", "inspector"])
def test_a_subscriber_that_leaves_ends_what_is_released_for_it(who: str) -> None:
    net = the_net()
    client = net.client(who, "audit-edge")
    ref = client.subscribe()
    net.settle()
    published(net)
    client.withdraw(ref)
    net.settle()
    net.carried.clear()
    published(net)
    assert b"MORPHINE" not in b"".join(crossed(net))


def with_rules(cast: Cast, who: str, *rules: Rule, **terms: object) -> Cast:
    """Let a principal see what rules make of an event."""
    step = Transformation(cast.owner.principal, rules, **terms)
    return cast.let(who, Action.SUBSCRIBE, transformations=(step,))


def hidden_in_part(cast: Cast, when: Predicate = ALWAYS) -> Cast:
    """Let the clerk see a ward in place of the patient's name."""
    clerk = key_of("clerk", cast.seed)
    cast = replace(cast, keys={**cast.keys, "clerk": clerk})
    cast = replace(cast, certificates=(*cast.certificates, cast.connect_right(clerk)))
    ward = Take(attribute_uid("ward"), Kind.STRING)
    return with_rules(cast, "clerk", Rule(attribute_uid("patient"), ward, when))


SURE = AnyOf((ALWAYS, Comparison(AttributeUid("publisher.clearance"), Operator.GE, 3)))
"""A question about publishers whose answer makes no difference."""


@pytest.mark.parametrize("when", [ALWAYS, SURE])
def test_transformed_values_cross_in_place_of_published_ones(when: Predicate) -> None:
    net = the_net(hidden_in_part(the_cast(), when))
    there, here = net.client("clerk", "audit-edge"), net.client("clerk", "hospital-edge")
    for clerk in (there, here):
        assert clerk.was_accepted(clerk.subscribe())
    net.settle()
    published(net)
    assert there.events() == here.events() == [{**row, "patient": row["ward"]} for row in ROWS]
    assert not any(secret in b"".join(crossed(net)) for secret in SECRETS)


def test_a_subscriber_selects_from_transformed_values() -> None:
    net = the_net(hidden_in_part(the_cast()))
    clerk = net.client("clerk", "audit-edge")
    clerk.subscribe(is_("patient", "B"))
    net.settle()
    published(net)
    assert clerk.events() == [{**ROWS[1], "patient": "B"}]


def test_a_new_subscriber_gets_the_present_state_as_it_may_see_it() -> None:
    net = the_net()
    published(net)
    net.carried.clear()
    inspector = net.client("inspector", "audit-edge")
    ref = inspector.subscribe()
    net.settle()
    inspector.say(AskState(9, ref))
    net.settle()
    assert inspector.events() == [{"drug": "MORPHINE", "ward": "A"}]
    sent = b"".join(crossed(net))
    assert not any(secret in sent for secret in (*SECRETS, b"ASPIRIN"))


def test_a_durable_subscriber_abroad_gets_what_was_recorded_for_it() -> None:
    net = Net(the_cast())
    net.broker("hospital-edge")
    net.broker("audit-edge", seeds=["hospital-edge"], recording=RecordingSettings())
    net.settle()
    inspector = net.client("inspector", "audit-edge")
    assert inspector.was_accepted(inspector.durable())
    net.settle()
    doctor = net.client("doctor", "hospital-edge")
    ref = doctor.advertise()
    net.settle()
    for row in (ROWS[0], ROWS[1], {**ROWS[0], "drug": "ETHER"}):
        doctor.publish(ref, row)
    net.settle()
    first, _ = inspector.positions()
    inspector.hang_up()
    net.settle()
    again = net.client("inspector", "audit-edge")
    again.durable(seen=first)
    net.settle()
    assert again.logged_events() == [{"drug": "ETHER", "ward": "A"}]
    recorded = b"".join(one.data for one in net.log("audit-edge").safe)
    assert not any(secret in recorded for secret in (*SECRETS, b"ASPIRIN"))


def test_what_a_broker_abroad_missed_is_fetched_as_its_people_may_see_it() -> None:
    net = Net(the_cast())
    net.broker("hospital-edge", recording=RecordingSettings())
    net.broker("audit-edge", seeds=["hospital-edge"], recording=RecordingSettings())
    net.settle()
    inspector = net.client("inspector", "audit-edge")
    inspector.durable()
    net.settle()
    doctor = net.client("doctor", "hospital-edge")
    ref = doctor.advertise()
    net.settle()
    doctor.publish(ref, ROWS[0])
    net.settle()
    kept = inspector.positions()[-1]
    net.crash("audit-edge")
    doctor.publish(ref, ROWS[1], {**ROWS[0], "drug": "ETHER"})
    net.restart("audit-edge")
    net.advance(30)
    again = net.client("inspector", "audit-edge")
    again.durable(seen=kept)
    net.advance(70)
    assert again.logged_events() == [{"drug": "ETHER", "ward": "A"}]
    assert not any(
        secret in one.data for one in net.log("audit-edge").safe for secret in (*SECRETS, b"ASPIRIN")
    )


@pytest.mark.parametrize("routing", list(Routing))
@pytest.mark.parametrize(
    ("who", "seen"), [("inspector", [{"drug": "MORPHINE", "ward": "A"}]), ("matron", ROWS)]
)
def test_what_was_published_while_a_broker_abroad_was_down_waits_for_its_durable_subscriber(
    routing: Routing, who: str, seen: list[dict[str, str]]
) -> None:
    """In a mesh its neighbour still knows what it wanted, and answers before the subscriber is back."""
    net, home = Net(the_cast(), routing=routing, recording=RecordingSettings()), "hospital-edge"
    net.broker(home)
    joins = {"neighbours": (address_of(home),)} if routing is Routing.MESH else {"seeds": [home]}
    net.broker("audit-edge", **joins)
    net.advance(5)
    net.client(who, "audit-edge").durable()
    net.advance(5)
    net.crash("audit-edge")
    doctor = published(net)
    net.restart("audit-edge")
    net.live(80, lambda: doctor.advertise(ref=1))
    again = net.client(who, "audit-edge")
    again.durable()
    net.advance(70)
    assert again.logged_events() == seen


def test_a_member_that_is_away_finds_what_its_organisations_broker_was_sent() -> None:
    """Its own interest ends with its lease; the broker's right, of which its own is a part, does not."""
    net = Net(the_cast())
    net.entitle("audit-edge", Action.SUBSCRIBE, attributes=frozenset({"drug", "ward"}))
    net.broker("hospital-edge", recording=RecordingSettings())
    net.broker("audit-edge", seeds=["hospital-edge"], recording=RecordingSettings())
    net.settle()
    inspector, auditor = (net.client(name, "audit-edge") for name in ("inspector", "auditor"))
    assert inspector.was_accepted(inspector.durable())
    assert auditor.was_accepted(auditor.subscribe())
    doctor = published(net)
    assert auditor.events() == [{"drug": "MORPHINE"}, {"drug": "ASPIRIN"}], "each once"
    kept = inspector.positions()[-1]
    inspector.hang_up()
    net.crash("audit-edge")
    doctor.publish(1, {**ROWS[0], "drug": "ETHER"})
    net.restart("audit-edge")
    net.live(1800, lambda: doctor.advertise(ref=1))
    doctor.publish(1, {**ROWS[0], "drug": "OPIUM"}, {**ROWS[1], "drug": "OPIUM"})
    again = net.client("inspector", "audit-edge")
    again.durable(seen=kept)
    net.advance(70)
    assert again.logged_events() == [{"drug": "ETHER", "ward": "A"}, {"drug": "OPIUM", "ward": "A"}]
    assert not any(secret in one.data for one in net.log("audit-edge").safe for secret in SECRETS)


@pytest.mark.parametrize("invited_by", ["", "hospital"])
@pytest.mark.parametrize("signed", [False, True])
def test_a_third_domain_passes_on_what_it_was_given_for_others(signed: bool, invited_by: str) -> None:
    """A domain that another one has invited into the network is a domain of its own."""
    cast = signed_cast() if signed else the_cast()
    net = Net(cast.domain("city", "city-broker", invited_by=invited_by), routing=Routing.MESH)
    net.broker("hospital-edge")
    net.broker("city-broker", neighbours=(address_of("hospital-edge"),))
    net.broker("audit-edge", neighbours=(address_of("city-broker"),))
    net.advance(5)
    clients = {who: net.client(who, "audit-edge") for who in ("auditor", "inspector")}
    for client in clients.values():
        client.subscribe()
    net.advance(5)
    published(net)
    assert clients["auditor"].events() == [{"drug": "MORPHINE"}, {"drug": "ASPIRIN"}]
    assert clients["inspector"].events() == [{"drug": "MORPHINE", "ward": "A"}]
    to_city = b"".join(
        encode(one) for _, to, one in net.carried if to == "city-broker" and isinstance(one, Carried)
    )
    assert b"MORPHINE" in to_city
    assert not any(secret in to_city for secret in SECRETS)


def test_a_broker_in_between_records_what_it_is_sent_itself_and_nothing_that_passes_for_others() -> None:
    net = Net(the_cast().domain("city", "city-broker"), routing=Routing.MESH)
    net.entitle("city-broker", Action.SUBSCRIBE, attributes=frozenset({"drug"}))
    net.broker("hospital-edge")
    net.broker("city-broker", neighbours=(address_of("hospital-edge"),), recording=RecordingSettings())
    net.broker("audit-edge", neighbours=(address_of("city-broker"),))
    net.advance(5)
    matron = net.client("matron", "audit-edge")
    matron.subscribe()
    net.advance(5)
    published(net)
    assert matron.events() == ROWS
    recorded = [one.data for one in net.log("city-broker").safe]
    assert [b"MORPHINE" in one for one in recorded] == [True, False], "each publication once"
    assert not any(secret in one for one in recorded for secret in SECRETS)


@pytest.mark.parametrize("attributes", [None, frozenset({"drug"})])
@pytest.mark.parametrize("signed", [False, True])
def test_what_a_domain_has_released_does_not_come_back_into_its_log(
    signed: bool, attributes: frozenset[str] | None
) -> None:
    """All three organisations may see the same, so each asks the others for what it may have missed."""
    cast = (signed_cast() if signed else the_cast()).domain("city", "city-broker")
    net = Net(cast, recording=RecordingSettings())
    names = ("hospital-edge", "city-broker", "audit-edge")
    for name in names:
        net.entitle(
            name, Action.SUBSCRIBE, Action.PUBLISH, **({"attributes": attributes} if attributes else {})
        )
    for name in names:
        net.broker(name, seeds=names[: names.index(name)])
    net.advance(5)
    doctor = published(net)
    net.live(100, lambda: doctor.advertise(ref=1))
    assert [recorded_numbers(net, name) for name in names] == [[0, 1]] * 3


def test_an_organisation_records_once_what_comes_through_a_third_party_and_then_directly() -> None:
    net = Net(the_cast().domain("city", "city-broker"), routing=Routing.MESH, recording=RecordingSettings())
    for name in ("hospital-edge", "hospital-border"):
        net.entitle(name, Action.SUBSCRIBE)
    net.broker("hospital-edge")
    net.broker("city-broker", neighbours=(address_of("hospital-edge"),))
    border = net.broker("hospital-border", neighbours=(address_of("city-broker"),))
    net.advance(5)
    doctor = published(net)
    assert recorded_numbers(net, "hospital-border") == [0, 1]
    border.settings = replace(border.settings, neighbours=(address_of("hospital-edge"),))
    net.restart("hospital-border")
    net.live(100, lambda: doctor.advertise(ref=1))
    doctor.publish(1, ROWS[0])
    net.advance(5)
    assert recorded_numbers(net, "hospital-border") == [0, 1, 2]


def test_what_was_released_for_a_third_party_is_not_sent_again_and_again() -> None:
    net = Net(the_cast().domain("city", "city-broker"), routing=Routing.MESH, recording=RecordingSettings())
    net.entitle("city-broker", Action.SUBSCRIBE)
    net.entitle("audit-edge", Action.SUBSCRIBE, attributes=frozenset({"drug"}))
    hospital = net.broker("hospital-edge")
    net.broker("city-broker", neighbours=(address_of("hospital-edge"),))
    net.broker("audit-edge", neighbours=(address_of("city-broker"),))
    net.advance(5)
    doctor = published(net)
    net.live(100, lambda: doctor.advertise(ref=1))
    served = hospital.counts.get("maia_catch_up_served_total", 0)
    net.live(200, lambda: doctor.advertise(ref=1))
    assert hospital.counts.get("maia_catch_up_served_total", 0) == served


def recorded_numbers(net: Net, name: str) -> list[int]:
    return [identity_of(decode_recorded(one.data))[1] for one in net.log(name).safe]


@pytest.mark.parametrize(
    "view", [EVERYTHING, view_to_bytes(View((Window(ALWAYS, frozenset({"drug", "patient"})),)))]
)
def test_a_broker_that_claims_more_than_its_people_may_see_gets_nothing(view: bytes) -> None:
    """A103: the request and the certificates are genuine, and what is asked of the border is not."""
    net = the_net()
    auditor = net.client("auditor", "audit-edge")

    def lie(one: Message) -> Message:
        if not isinstance(one, Interest) or one.key != net.type_id:
            return one
        return structs.replace(one, add=[structs.replace(wanted, view=view) for wanted in one.add])

    net.tamper = lie
    auditor.subscribe()
    net.settle()
    published(net)
    assert not any(secret in b"".join(crossed(net)) for secret in (*SECRETS, b"MORPHINE"))
    noted = [note["code"] for name in net.brokers for note in net.brokers[name].noted("refused")]
    assert "REFUSED-VIEW-NOT-PROVED" in noted


def signed_cast() -> Cast:
    """Return the same with a type whose frames are signed, by brokers that may publish it."""
    cast = the_cast()
    cast = cast.defined(replace(cast.definition.definition, signed=True))
    brokers = ("hospital-edge", "hospital-border")
    wallets = {who: (*cast.wallets[who], cast.right(who, Action.PUBLISH)) for who in brokers}
    return replace(cast, wallets={**cast.wallets, **wallets})


def in_a_mesh(cast: Cast, *between: str) -> tuple[Net, NetClient]:
    """Return brokers in a row in a mesh, and the auditor at the end of it, with what was published."""
    net, line = Net(cast, routing=Routing.MESH), ("hospital-edge", *between, "audit-edge")
    net.broker(line[0])
    for before, name in pairwise(line):
        net.broker(name, neighbours=(address_of(before),))
    net.advance(5)
    auditor = net.client("auditor", "audit-edge")
    auditor.subscribe()
    net.advance(5)
    published(net)
    return net, auditor


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("between", [("hospital-border",), ("city-broker", "town-broker")])
def test_in_a_mesh_releases_pass_brokers_of_their_own_domain_and_of_several_third_ones(
    between: tuple[str, ...], signed: bool
) -> None:
    cast = signed_cast() if signed else the_cast()
    _, auditor = in_a_mesh(cast.domain("city", "city-broker").domain("town", "town-broker"), *between)
    assert auditor.events() == [{"drug": "MORPHINE"}, {"drug": "ASPIRIN"}]


def test_a_border_that_cannot_sign_releases_nothing_and_tells_its_operator() -> None:
    cast, border = signed_cast(), "hospital-border"
    wallets = {**cast.wallets, border: the_cast().wallets[border]}
    net, auditor = in_a_mesh(replace(cast, wallets=wallets), border)
    assert auditor.events() == []
    (told,) = net.brokers[border].broker.status(net.now)["refusals"]
    assert {name: told[name] for name in ("code", "asked", "type", "times")} == {
        "code": "REFUSED-BROKER-CANNOT-SIGN", "asked": "Release",
        "type": net.type_id.hex(), "times": len(ROWS),
    }  # fmt: skip


def test_what_is_released_of_a_signed_type_is_signed_by_the_border() -> None:
    net = the_net(signed_cast())
    clients = {who: net.client(who, "audit-edge") for who in ("auditor", "inspector", "matron")}
    for client in clients.values():
        client.subscribe()
    net.settle()
    published(net)
    assert clients["auditor"].events() == [{"drug": "MORPHINE"}, {"drug": "ASPIRIN"}]
    assert clients["inspector"].events() == [{"drug": "MORPHINE", "ward": "A"}]
    assert clients["matron"].events() == ROWS
    sent = [one for _, to, one in net.carried if to.startswith("audit") and isinstance(one, Carried)]
    assert sent
    assert all(isinstance(one, CarriedSigned) and one.view is not None for one in sent)


def test_nothing_crosses_of_a_signed_type_that_no_recipient_sees() -> None:
    net = the_net(signed_cast())
    net.client("auditor", "audit-edge").subscribe()
    net.settle()
    published(net)
    sent = b"".join(crossed(net))
    assert b"MORPHINE" in sent
    assert not any(secret in sent for secret in SECRETS)


def test_a_summary_of_a_signed_type_is_signed_by_the_border_and_names_no_publisher() -> None:
    cast, doses = signed_cast(), attribute_uid("doses")
    summary = Summary(60, (), (Measure(doses, Aggregate.COUNT),))
    result = replace(cast.type_name, name="Doses")
    step = Transformation(cast.owner.principal, (), result=result, summary=summary)
    right = cast.right(key_of("public"), Action.SUBSCRIBE, transformations=(step,))
    net = the_net(cast, lease_s=1800)
    public = net.guest("public", right, at="audit-edge")
    assert public.was_accepted(public.subscribe())
    net.settle()
    doctor = published(net)
    net.advance(70)
    assert public.events() == [{doses: len(ROWS)}]
    sent = [one for _, to, one in net.carried if to.startswith("audit")]
    told = b"".join(encode(one) for one in sent if isinstance(one, ShownRight | Carried))
    assert doctor.principal.key not in told


@pytest.mark.parametrize("may", [{"drug", "ward"}, {"drug"}])
def test_a_right_to_publish_is_asked_about_what_was_published_and_not_about_what_a_view_makes(
    may: set[str],
) -> None:
    """A105: a border signs a patient that it made of the ward, and no ward that it may not publish."""
    cast, border = hidden_in_part(signed_cast()), "hospital-edge"
    right = cast.right(border, Action.PUBLISH, attributes=frozenset(may))
    wallets = {**cast.wallets, border: (*the_cast().wallets[border], right)}
    net = Net(replace(cast, wallets=wallets))
    net.broker(border)
    net.broker("audit-edge", seeds=[border])
    net.settle()
    clerk = net.client("clerk", "audit-edge")
    clerk.subscribe()
    net.settle()
    published(net, {"drug": "MORPHINE", "ward": "A"})
    seen = {"drug": "MORPHINE", "ward": "A", "patient": "A"}
    assert clerk.events() == ([seen] if "ward" in may else [])


def test_an_operator_sees_which_links_are_borders() -> None:
    net = the_net()
    status = net.brokers["hospital-border"].broker.status(net.now)
    assert status["open_borders"] is False
    abroad = {
        one["link"] for one in status["links"] if one["peer"] in principals(net, "audit-border", "audit-edge")
    }
    assert {one["link"] for one in status["links"] if one["border"] == "views"} == abroad != set()
    whose = {whom for one in status["links"] if one["link"] in abroad for whom in one["of"]}
    assert whose == principals(net, "audit"), "which organisation has made them brokers"


def principals(net: Net, *names: str) -> set[str]:
    return {str(net.cast.principal(name)) for name in names}
