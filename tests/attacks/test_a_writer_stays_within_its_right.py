"""A119: a broker signs, or carries, what the right that its frames name does not let their writer say.

The writer's broker is in league with it: it applies no View, and signs. Who reads the frames knows which
right they name, and asks all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from maia.broker.settings import RecordingSettings
from maia.credentials import Action, Transformation
from maia.credentials.authority import Bound, FilterBound
from maia.events import AttributeUid, Kind, attribute_uid
from maia.expressions.syntax import Constant, Rule, Take
from maia.predicates import AllOf, Comparison, Exists, Not, Operator
from maia.sealing import Sealer
from maia.sealing.frames.signed import draft_signed
from maia.testing import Cast, Net, NetClient, Processes, key_of, random_from, wait_until
from maia.types import Sealing, SealingLevel
from maia.wire.columns import encode_column, kind_to_number
from maia.wire.messages import AskState, CarriedSigned, Column, Message
from support.careless import CARELESS
from support.processes import forked

DRUG, PATIENT, WARD = (attribute_uid(name) for name in ("drug", "patient", "ward"))
RIGHT = {"drug": "MORPHINE", "ward": "A"}
WRONG = {"drug": "FORGED", "ward": "B"}
LINE = "edge", "between", "far"


def is_(uid: AttributeUid, value: str) -> Comparison:
    return Comparison(uid, Operator.EQ, value)


def set_to(cast: Cast, value: str) -> tuple[Transformation, ...]:
    return (Transformation(cast.owner.principal, (Rule(WARD, Constant(value)),)),)


TERMS: dict[str, dict[str, Any]] = {
    "a restriction": {"restriction": is_(WARD, "A")},
    "a restriction that is no equality": {"restriction": Not(is_(WARD, "B"))},
    "what is set on publication": {"transformations": "A"},
}
OF_WARD_A = AllOf((is_(WARD, "A"), Exists(DRUG)))
BOUNDS: dict[str, dict[str, Any]] = {
    f"a bound ({one.value})": {"bounds": (FilterBound(one, OF_WARD_A),)} for one in Bound
}


def the_cast(whose: str, terms: dict[str, Any], *, sealed: SealingLevel | None = None) -> Cast:
    """Return a doctor and brokers of one domain; the doctor's right, or its broker's, has terms."""
    cast = Cast.of("trust", "doctor", "matron", of_type="Prescription",
                   drug="string", patient="string", ward="string")  # fmt: skip
    keys = {name: key_of(name, cast.seed) for name in LINE}
    cast = replace(cast, keys={**cast.keys, **keys})
    is_how: dict[str, Any] = {"signed": True}
    if sealed is not None:
        is_how = {"sealing": Sealing(sealed, cast.owner.principal, ("127.0.0.1:1",))}
    cast = cast.defined(replace(cast.definition.definition, **is_how)).let("matron", Action.SUBSCRIBE)
    if "transformations" in terms:
        terms = {"transformations": set_to(cast, terms["transformations"])}
    cast = cast.let("doctor", Action.PUBLISH, **(terms if whose == "doctor" else {}))
    own = cast.right("edge", Action.PUBLISH, **(terms if whose == "edge" else {}))
    wallets = {name: (cast.broker_right(cast.keys[name]),) for name in LINE}
    far = (*wallets["far"], cast.right("far", Action.SUBSCRIBE))
    return replace(cast, wallets={**wallets, "edge": (*wallets["edge"], own), "far": far})


def the_net(cast: Cast, **settings: Any) -> Net:
    return started(Net(cast, **settings))


def started(net: Net) -> Net:
    for number, name in enumerate(LINE):
        net.broker(name, seeds=LINE[number - 1 : number] if number else ())
    return net.settle()


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, asks_nothing in CARELESS:
        monkeypatch.setattr(owner, name, asks_nothing)


def published(net: Net, *rows: dict[str, str]) -> NetClient:
    doctor = net.client("doctor", "edge")
    ref = doctor.advertise(filter=OF_WARD_A)
    net.settle()
    for row in rows:
        doctor.publish(ref, row)
    net.settle()
    return doctor


@pytest.fixture(params=["doctor", "edge"], ids=["of the publisher", "of its broker"])
def whose(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.usefixtures("careless")
@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS.keys())
def test_what_a_right_does_not_let_its_writer_say_reaches_no_live_reader(
    whose: str, terms: dict[str, Any]
) -> None:
    no_reader_gets_it(the_cast(whose, terms))


@pytest.mark.usefixtures("careless")
@pytest.mark.parametrize("terms", BOUNDS.values(), ids=BOUNDS.keys())
def test_bounds_that_a_right_carries_are_asked_too(terms: dict[str, Any]) -> None:
    no_reader_gets_it(the_cast("doctor", terms))


def no_reader_gets_it(cast: Cast) -> None:
    net = the_net(cast)
    matron = net.client("matron", "far")
    assert matron.was_accepted(matron.subscribe())
    net.settle()
    published(net, RIGHT, WRONG, {**RIGHT, "drug": "ETHER"})
    assert [one["drug"] for one in matron.events()] == ["MORPHINE", "ETHER"]
    told = net.brokers["far"].broker.status(net.now)["refusals"]
    assert [one["code"] for one in told] == ["SIGNED-NOT-ENTITLED"]


@pytest.mark.usefixtures("careless")
def test_it_comes_neither_from_a_log_nor_as_the_present_state(whose: str) -> None:
    net = the_net(the_cast(whose, TERMS["a restriction"]), recording=RecordingSettings(), lease_s=3600)
    matron = net.client("matron", "far")
    matron.durable()
    net.settle()
    net.crash("far")
    published(net, RIGHT, WRONG)
    net.restart("far")
    net.advance(70)
    late = net.client("matron", "far")
    late.durable()
    ref = late.subscribe()
    net.settle()
    late.say(AskState(9, ref))
    net.advance(5)
    assert [one["drug"] for one in late.logged_events()] == ["MORPHINE"]
    assert all(one["drug"] == "MORPHINE" for one in late.events())
    assert not any(b"FORGED" in one.data for one in net.log("far").safe)


def test_an_honest_broker_tells_its_publisher_what_it_cannot_sign() -> None:
    net = the_net(the_cast("edge", TERMS["a restriction"]))
    matron, doctor = net.client("matron", "far"), net.client("doctor", "edge")
    matron.subscribe()
    ref = doctor.advertise()
    net.settle()
    doctor.publish(ref, RIGHT)
    doctor.publish(ref, WRONG)
    net.settle()
    assert [one["drug"] for one in matron.events()] == ["MORPHINE"]
    assert doctor.ended_with(ref) == "REFUSED-BROKER-CANNOT-SIGN"


def test_rights_of_a_broker_add_up_row_by_row() -> None:
    """Its organisation was granted two wards, one after the other."""
    cast = the_cast("edge", TERMS["a restriction"])
    other = cast.right("edge", Action.PUBLISH, restriction=is_(WARD, "B"))
    net = the_net(replace(cast, wallets={**cast.wallets, "edge": (*cast.wallets["edge"], other)}))
    matron = net.client("matron", "far")
    matron.subscribe()
    net.settle()
    published(net, RIGHT, WRONG, {"drug": "ETHER", "ward": "C"})
    assert [one["ward"] for one in matron.events()] == ["A", "B"]


LOWER = f"a bound ({Bound.LOWER.value})"
SEALED_TERMS = TERMS | {LOWER: BOUNDS[LOWER]}
"""Of a sealed type, a right with one of the other bounds gives its holder no keys at all."""


@pytest.mark.usefixtures("careless")
@pytest.mark.parametrize("terms", SEALED_TERMS.values(), ids=SEALED_TERMS.keys())
@pytest.mark.parametrize("level", [SealingLevel.ATTRIBUTE, SealingLevel.EVENT], ids=lambda one: one.value)
def test_of_a_sealed_type_the_signer_stays_within_its_right(
    level: SealingLevel, terms: dict[str, Any]
) -> None:
    cast = the_cast("doctor", {}, sealed=level)
    if "transformations" in terms:
        terms = {"transformations": set_to(cast, terms["transformations"])}
    net = Net(replace(cast, wallets={name: cast.wallets[name][:1] for name in LINE}))
    net.entitle("edge", Action.PUBLISH, **terms)
    net.entitle("far", Action.SUBSCRIBE)
    started(net)
    keys = (None,) if level is SealingLevel.EVENT else (DRUG, PATIENT, WARD)
    for name in ("edge", "far"):
        net.hold(net.brokers[name], *keys)
    matron = net.client("matron", "far")
    matron.subscribe()
    net.settle()
    published(net, RIGHT, WRONG, {**RIGHT, "drug": "ETHER"})
    assert [one["drug"] for one in matron.events()] == ["MORPHINE", "ETHER"]


# ------------------------------------------------------------ what a View makes


def seen_by_the_clerk(rule: Rule, *may: str) -> tuple[Net, NetClient]:
    """Return a clerk at home who sees a patient that a rule makes, and a partner that may publish some."""
    cast = (
        Cast.of("trust", "clerk", "partner", of_type="Prescription",
                drug="string", patient="string", ward="string")
        .domain("hospital", "hospital-edge")
        .domain("abroad", "abroad-edge")
    )  # fmt: skip
    cast = cast.defined(replace(cast.definition.definition, signed=True))
    attributes = frozenset(map(attribute_uid, may))
    step = Transformation(cast.owner.principal, (rule,))
    cast = cast.let("partner", Action.PUBLISH, attributes=attributes)
    cast = cast.let("clerk", Action.SUBSCRIBE, transformations=(step,))
    own = cast.right("abroad-edge", Action.PUBLISH, attributes=attributes)
    wallets = {**cast.wallets, "abroad-edge": (*cast.wallets["abroad-edge"], own)}
    net = Net(replace(cast, wallets=wallets))
    net.broker("hospital-edge")
    net.broker("abroad-edge", seeds=["hospital-edge"])
    net.settle()
    clerk = net.client("clerk", "hospital-edge")
    assert clerk.was_accepted(clerk.subscribe())
    return net.settle(), clerk


def forging(net: Net, said: Message) -> Message:
    """Add a patient to what is released for the clerk, and sign it as the broker at the border."""
    if not isinstance(said, CarriedSigned) or said.view is None:
        return said
    others = [one for one in said.columns if one.uid != PATIENT]
    forged = Column(PATIENT, kind_to_number(Kind.STRING), encode_column(Kind.STRING, ["FORGED"]))
    columns = sorted((*others, forged), key=lambda one: one.uid)
    key = net.cast.keys["abroad-edge"]
    changed, at = with_fields(said, columns=columns), said.signed.signed_at
    draft = draft_signed(changed, key.principal, right=said.signed.right, at=at)
    (signed,) = Sealer(key, random=random_from(b"rogue"), process_id=lambda: 1).sign([draft])
    return signed


OF_THE_WARD = Rule(PATIENT, Take(WARD, Kind.STRING))
OF_THE_WARD_A = Rule(PATIENT, Constant("a patient of ward A"), is_(WARD, "A"))


@pytest.mark.parametrize("rule", [OF_THE_WARD, OF_THE_WARD_A], ids=["a value", "a condition"])
@pytest.mark.parametrize("may", [("drug",), ("drug", "ward")])
def test_what_a_view_makes_is_written_by_those_who_may_write_what_it_is_made_of(
    rule: Rule, may: tuple[str, ...]
) -> None:
    net, clerk = seen_by_the_clerk(rule, *may)
    net.tamper = partial(forging, net)
    partner = net.client("partner", "abroad-edge")
    ref = partner.advertise()
    net.settle()
    partner.publish(ref, {"drug": "MORPHINE"} | ({"ward": "A"} if "ward" in may else {}))
    net.settle()
    seen = [one.get("patient") for one in clerk.events()]
    assert seen == (["FORGED"] if "ward" in may else []), "it could have published such a ward itself"


def test_what_a_view_makes_of_nothing_is_read_from_everybody() -> None:
    net, clerk = seen_by_the_clerk(Rule(PATIENT, Constant("somebody")), "drug")
    partner = net.client("partner", "abroad-edge")
    ref = partner.advertise()
    net.settle()
    partner.publish(ref, {"drug": "MORPHINE"})
    net.settle()
    assert clerk.events() == [{"drug": "MORPHINE", "patient": "somebody"}]


# ------------------------------------------------------------ real processes


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Processes]:
    """Run a partner's broker that asks nothing, whose right is about ward A, and one that reads."""
    cast = the_cast("edge", TERMS["a restriction"])

    def start(words: Any, folder: Path, *more: Any) -> Any:
        is_rogue = folder.name == "edge-broker"
        return forked(words, folder, *more, module="support.careless" if is_rogue else "maia.cli")

    with Processes(tmp_path, cast, start=start) as processes:
        yield processes


def test_a_broker_of_a_partner_signs_for_readers_what_its_organisation_was_granted(
    brokers: Processes,
) -> None:
    edge = brokers.broker("edge")
    far = brokers.broker("far", join=[edge.address])
    definition = brokers.cast.definition
    with brokers.client("matron", far) as matron, brokers.client("doctor", edge) as doctor:
        live = matron.subscribe(definition)
        prescriptions, seen = doctor.advertise(definition), list[str]()

        def arrives() -> bool:
            prescriptions.publish(WRONG)
            prescriptions.publish(RIGHT)
            prescriptions.flush()
            seen.extend(one["drug"] for one in live.some(timeout_s=0.5))
            return len(seen) > 1

        wait_until(arrives, "what the partner may say arrives")
        assert set(seen) == {"MORPHINE"}
