"""A120: a broker behind a border claims answers that its reader's certificate cannot come to.

The request and the certificates are genuine. What is left of a rule's condition, and whether a condition of
the right holds, is what the broker says that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from maia.credentials import Action, Transformation
from maia.credentials.identity import IDENTITY_HEAD, identity_to_bytes, pack_identity
from maia.events import AttributeUid, Kind, Value, attribute_uid
from maia.expressions.syntax import Rule, Take
from maia.policy.facts import Facts, WorldFunction, during, minute_uid
from maia.policy.view_bytes import view_from_bytes, view_to_bytes
from maia.predicates import ALWAYS, NEVER, AllOf, AnyOf, Comparison, Not, Operator, Predicate
from maia.testing import Cast, Net, NetClient, Processes, wait_until
from maia.wire.codec import encode
from maia.wire.messages import Identify, Interest, Message
from support.coalition import LIFE_S, TRUST, show, statement
from support.processes import forked

PATIENT, WARD = attribute_uid("patient"), attribute_uid("ward")
ROWS = [{"patient": "Ann Lee", "ward": "A"}, {"patient": "Bo Kim", "ward": "B"}]
OF_WARD_A = Comparison(WARD, Operator.EQ, "A")
OF_WARD_B = Comparison(WARD, Operator.EQ, "B")
LOW = Comparison(AttributeUid("subscriber.clearance"), Operator.LT, 3)
HIGH = Comparison(AttributeUid("subscriber.clearance"), Operator.GE, 3)
AUDITED = Comparison(AttributeUid("world.site"), Operator.EQ, "audit")


def hidden(when: Predicate) -> Rule:
    """Return the rule that shows a ward in place of a patient's name."""
    return Rule(PATIENT, Take(WARD, Kind.STRING), when)


def seen_by_rules(*rules: Rule) -> Cast:
    cast = the_cast()
    step = Transformation(cast.owner.principal, rules)
    return cast.let("auditor", Action.SUBSCRIBE, transformations=(step,))


def the_cast() -> Cast:
    return (
        Cast.of("trust", "doctor", "auditor", of_type="Prescription", patient="string", ward="string")
        .domain("hospital", "hospital-edge")
        .domain("audit", "audit-edge")
        .let("doctor", Action.PUBLISH)
    )


def claiming(net: Net, *conditions: Predicate) -> Callable[[Message], Message]:
    """Return how an interest is changed, so that it claims these conditions in place of what was left."""

    def lie(one: Message) -> Message:
        if not isinstance(one, Interest) or one.key != net.type_id:
            return one
        return structs.replace(one, add=[structs.replace(each, view=claimed(each.view)) for each in one.add])

    def claimed(view: bytes) -> bytes:
        made = view_from_bytes(view)
        (window,) = made.windows
        (step,) = window.transformations
        rules = tuple(
            replace(rule, condition=condition) for rule, condition in zip(step.rules, conditions, strict=True)
        )
        window = replace(window, transformations=(replace(step, rules=rules),))
        return view_to_bytes(replace(made, windows=(window,)))

    return lie


def started(cast: Cast, *claims: Predicate, **settings: object) -> tuple[Net, NetClient]:
    net = Net(cast, **settings)
    net.broker("hospital-edge")
    net.broker("audit-edge", seeds=["hospital-edge"])
    net.settle()
    if claims:
        net.tamper = claiming(net, *claims)
    auditor = net.client("auditor", "audit-edge")
    assert auditor.was_accepted(auditor.subscribe())
    net.settle()
    return net, auditor


def publishing(net: Net) -> NetClient:
    doctor = net.client("doctor", "hospital-edge")
    assert doctor.was_accepted(doctor.advertise())
    net.settle()
    return doctor


def crossed(net: Net, doctor: NetClient | None = None) -> set[str]:
    """Publish an event of each ward; return the patients whose names crossed the border."""
    doctor = doctor or publishing(net)
    net.carried.clear()
    for row in ROWS:
        doctor.publish(1, row)
    net.settle()
    sent = b"".join(
        encode(message)
        for sender, _, message in net.carried
        if sender == "hospital-edge" and not isinstance(message, Interest)
    )
    return {row["patient"] for row in ROWS if row["patient"].encode() in sent}


CLAIMS = (
    NEVER,
    OF_WARD_B,
    LOW,
    AllOf((OF_WARD_A, LOW)),
    Not(OF_WARD_A),
    AnyOf((OF_WARD_B, LOW)),
    Not(ALWAYS),
)


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_a_condition_asks_of_events_is_asked_at_the_border_whatever_is_claimed(claim: Predicate) -> None:
    net, _ = started(seen_by_rules(hidden(AnyOf((OF_WARD_A, LOW)))), claim)
    assert crossed(net) == set()


@pytest.mark.parametrize(("clearance", "shown"), [(2, ["A", "B"]), (3, ["A", "Bo Kim"])])
def test_what_a_border_cannot_know_is_answered_behind_it(clearance: int, shown: list[str]) -> None:
    net, auditor = started(seen_by_rules(hidden(AnyOf((OF_WARD_A, LOW)))), identity=TRUST)
    show(auditor, clearance=clearance)
    net.settle()
    assert crossed(net) == {"Bo Kim"}.intersection(shown)
    assert [one["patient"] for one in auditor.events()] == shown


# ------------------------------------------------------------ what providers say of the holder


def told(clearance: int | None, *, life_s: int = LIFE_S, **settings: object) -> tuple[Net, NetClient]:
    """Return a network in which the auditor's broker says that no rule is for a clearance like that."""
    net, auditor = started(seen_by_rules(hidden(LOW)), NEVER, identity=TRUST, **settings)
    if clearance is not None:
        cleared(auditor, clearance, life_s)
    return net, auditor


def cleared(auditor: NetClient, clearance: int, life_s: int = LIFE_S) -> None:
    """Let the auditor show how its provider has cleared it for a while."""
    said = statement(auditor.key, {"clearance": clearance}, since=auditor.net.now, life_s=life_s)
    auditor.say(Identify(900, pack_identity(said)))
    auditor.net.settle()


@pytest.mark.parametrize(("clearance", "names"), [(None, set()), (2, set()), (3, {"Ann Lee", "Bo Kim"})])
def test_what_providers_say_of_a_holder_the_border_reads_itself(
    clearance: int | None, names: set[str]
) -> None:
    net, _ = told(clearance)
    assert crossed(net) == names


@pytest.mark.parametrize("of", ["another holder", "a provider that is not believed", "nobody"])
def test_only_a_statement_about_the_holder_by_a_provider_that_is_believed_counts(of: str) -> None:
    net, auditor = told(3)
    lie = net.tamper
    said = {
        "another holder": statement(net.cast.keys["doctor"], {"clearance": 3}),
        "a provider that is not believed": statement(
            auditor.key, {"clearance": 3}, provider=net.cast.keys["doctor"]
        ),
    }
    instead = [identity_to_bytes(said[of])] if of in said else []

    def with_another(one: Message) -> Message:
        if not isinstance(one, Interest) or one.key != net.type_id:
            return one
        add = [
            structs.replace(each, credentials=[*_without_identity(each.credentials), *instead])
            for each in one.add
        ]
        return lie(structs.replace(one, add=add))

    net.tamper = with_another
    cleared(auditor, 4)
    assert crossed(net) == set()


def _without_identity(credentials: list[bytes]) -> list[bytes]:
    return [one for one in credentials if not one.startswith(IDENTITY_HEAD)]


def test_what_a_provider_said_ends_with_its_statement_and_goes_on_with_the_next_one() -> None:
    for is_renewed, names in ((False, set()), (True, {"Ann Lee", "Bo Kim"})):
        net, auditor = told(3, life_s=300, lease_s=3600)
        doctor = publishing(net)
        assert crossed(net, doctor) == {"Ann Lee", "Bo Kim"}
        net.advance(200)
        if is_renewed:
            cleared(auditor, 3, life_s=600)
        net.tamper = saying_no_more  # that the first one has ended
        net.advance(200)
        assert crossed(net, doctor) == names


def test_what_nobody_answers_shows_least() -> None:
    net, auditor = started(seen_by_rules(hidden(AnyOf((OF_WARD_A, LOW)))))
    assert crossed(net) == set()
    assert [one.get("patient") for one in auditor.events()] == ["A", None]


def test_answers_that_no_fact_can_give_together_are_not_taken() -> None:
    """Of two rules that leave no clearance out, one applies."""
    net, _ = started(seen_by_rules(hidden(LOW), hidden(HIGH)), NEVER, NEVER)
    assert crossed(net) == set()


# ------------------------------------------------------------ what the border knows


def by_table(cast: Cast, site: Value) -> dict[str, object]:
    """Return the settings of brokers that know at which site a subscriber works."""
    function = WorldFunction(
        cast.owner.principal, AttributeUid("site"), AttributeUid("subscriber"), lambda _: site, 5.0
    )
    return {"functions": (function,)}


@pytest.mark.parametrize(("site", "names"), [("audit", set()), ("ward", {"Ann Lee", "Bo Kim"})])
def test_a_fact_that_the_border_knows_it_answers_itself(site: str, names: set[str]) -> None:
    cast = seen_by_rules(hidden(AUDITED))
    net, _ = started(cast, NEVER, **by_table(cast, site))
    assert crossed(net) == names


def test_a_fact_that_the_border_does_not_know_is_answered_behind_it() -> None:
    cast = seen_by_rules(hidden(AUDITED))
    net, _ = started(cast, NEVER, **by_table(cast, None))
    assert crossed(net) == {"Ann Lee", "Bo Kim"}


def minute_of(net: Net) -> int:
    moment = datetime.fromtimestamp(net.now / 1e6, UTC)
    return moment.hour * 60 + moment.minute


def before(minute: int) -> Predicate:
    return Comparison(AttributeUid(f"world.{minute_uid('UTC')}"), Operator.LT, minute)


def test_the_hour_is_the_borders_own() -> None:
    now = minute_of(Net(the_cast()))
    for limit, names in ((now + 10, set()), (now - 10, {"Ann Lee", "Bo Kim"})):
        net, _ = started(seen_by_rules(hidden(before(limit))), NEVER)
        assert crossed(net) == names, "a name is hidden before that minute"


def test_what_was_answered_for_an_hour_ends_with_it() -> None:
    """The broker behind the border says nothing when its hour ends."""
    now = minute_of(Net(the_cast()))
    for limit, names in ((30, {"Ann Lee", "Bo Kim"}), (10, set())):
        rule = hidden(Not(before(now + limit)))
        net, _ = started(seen_by_rules(rule), lease_s=3600)
        doctor = publishing(net)
        net.tamper = saying_no_more
        net.advance(11 * 60)
        assert crossed(net, doctor) == names


def saying_no_more(one: Message) -> Message:
    return structs.replace(one, add=[], remove=[]) if isinstance(one, Interest) else one


def test_a_right_for_some_hours_opens_no_border_outside_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker of the reader asks for no condition."""
    monkeypatch.setattr(Facts, "satisfy", lambda *_, **__: True)
    now = minute_of(Net(the_cast()))
    every_day = frozenset(range(1, 8))
    for start, names in ((now - 20, {"Ann Lee", "Bo Kim"}), (now + 20, set())):
        hours = during("UTC", days=every_day, start=start, end=start + 30)
        net, _ = started(the_cast().let("auditor", Action.SUBSCRIBE, condition=hours))
        assert crossed(net) == names


# ------------------------------------------------------------ real processes


def test_a_partners_broker_that_denies_every_condition_gets_no_patient(tmp_path: Path) -> None:
    """Its clerk, whose right asks for nothing, shows when the events have come."""
    step = Transformation(the_cast().owner.principal, (hidden(AnyOf((OF_WARD_A, LOW))),))
    cast = (
        Cast.of(
            "trust", "doctor", "auditor", "clerk", of_type="Prescription", patient="string", ward="string"
        )
        .domain("hospital", "hospital-edge")
        .domain("audit", "audit-edge")
        .let("doctor", Action.PUBLISH)
        .let("auditor", Action.SUBSCRIBE, transformations=(step,))
        .let("clerk", Action.SUBSCRIBE, attributes=frozenset({WARD}))
    )

    def start(words: Any, folder: Path, *more: Any) -> Any:
        is_rogue = folder.name == "audit-edge-broker"
        return forked(words, folder, *more, module="support.denying" if is_rogue else "maia.cli")

    with Processes(tmp_path, cast, start=start) as processes:
        hospital = processes.broker("hospital-edge")
        audit = processes.broker("audit-edge", join=[hospital.address])
        with (
            processes.client("auditor", audit) as auditor,
            processes.client("clerk", audit) as clerk,
            processes.client("doctor", hospital) as doctor,
        ):
            names, wards = auditor.subscribe(cast.definition), clerk.subscribe(cast.definition)
            prescriptions, came = doctor.advertise(cast.definition), list[str]()

            def arrives() -> bool:
                for row in ROWS:
                    prescriptions.publish(row)
                prescriptions.flush()
                came.extend(one["ward"] for one in wards.some(timeout_s=0.5))
                return len(came) > len(ROWS)

            wait_until(arrives, "what the clerk may see arrives")
            assert not names.some(timeout_s=0.1)
