"""Events, filters and restrictions speak the language of their type, or their author learns why not."""

import pytest

from maia.credentials.authority import Action, Authority
from maia.events import AttributeUid, Instant, Kind
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    TextMatch,
    TextTest,
)
from maia.testing.refusals import raises
from maia.types import KindMismatch, ValueMismatch, check_event, check_predicate, check_restriction
from support.types import MET, attribute, numberplate, type_pattern

SIGHTING = numberplate(
    attribute("numberplate", "1", Kind.STRING),
    attribute("speed", "2", Kind.INT),
    attribute("weight", "3", Kind.FLOAT),
    attribute("stolen", "4", Kind.BOOL),
    attribute("seen-at", "5", Kind.TIMESTAMP),
    attribute("photo", "6", Kind.BYTES),
)

ONE_OF_EACH = {
    "numberplate": "AE05 XYZ",
    "speed": 31,
    "weight": 1.5,
    "stolen": False,
    "seen-at": Instant(0),
    "photo": b"\x00",
}


def uid(text):
    return AttributeUid(text)


def test_an_event_of_the_right_kinds_is_returned_by_uid():
    event = check_event(ONE_OF_EACH, SIGHTING)
    assert event == dict(zip("123456", ONE_OF_EACH.values(), strict=True))
    assert [type(value) for value in event.values()] == [str, int, float, bool, Instant, bytes]


def test_null_and_missing_are_the_same():
    assert check_event({"speed": None}, SIGHTING) == check_event({}, SIGHTING) == {}


def test_an_unknown_name_is_refused_and_a_near_one_suggested():
    with raises("TYPE-UNKNOWN-ATTRIBUTE", match="`numberplat`: did you mean `numberplate`"):
        check_event({"numberplat": "AE05 XYZ"}, SIGHTING)


def test_a_wrong_capital_letter_is_suggested():
    with raises("TYPE-UNKNOWN-ATTRIBUTE", match="`Speed`: did you mean `speed`"):
        check_event({"Speed": 1}, SIGHTING)


def test_nothing_is_suggested_where_nothing_is_near():
    with raises("TYPE-UNKNOWN-ATTRIBUTE", match=r"`owner`$"):
        check_event({"owner": "x"}, SIGHTING)


@pytest.mark.parametrize(
    ("name", "value", "expected", "found"),
    [
        ("speed", True, "int", "bool"),
        ("speed", 1.0, "int", "float"),
        ("speed", "1", "int", "string"),
        ("speed", Instant(1), "int", "timestamp"),
        ("weight", 1, "float", "int"),
        ("stolen", 0, "bool", "int"),
        ("seen-at", 0, "timestamp", "int"),
        ("numberplate", b"AE05", "string", "bytes"),
        ("photo", "x", "bytes", "string"),
        ("speed", [1], "int", "list"),
    ],
)
def test_a_value_of_another_kind_is_never_coerced(name, value, expected, found):
    with pytest.raises(ValueMismatch, match=f"`{name}`: a {expected} was expected, and a {found} was given"):
        check_event({name: value}, SIGHTING)


def test_a_value_that_no_executor_could_carry_is_refused():
    with pytest.raises(ValueMismatch, match="NaN"):
        check_event({"weight": float("nan")}, SIGHTING)
    with pytest.raises(ValueMismatch, match="64 bits"):
        check_event({"speed": 2**63}, SIGHTING)


def test_a_filter_on_an_unknown_uid_is_refused_however_deep_it_hides():
    with raises("TYPE-UNKNOWN-ATTRIBUTE", match="uid `9`"):
        check_predicate(AllOf((Exists(uid("1")), Not(AnyOf((Not(Exists(uid("9"))),))))), SIGHTING)


@pytest.mark.parametrize(
    ("predicate", "sentence"),
    [
        (
            Comparison(uid("2"), Operator.EQ, 30.0),
            "`speed` is of kind int, and it is compared with a literal of kind float",
        ),
        (
            Comparison(uid("2"), Operator.EQ, True),
            "`speed` is of kind int, and it is compared with a literal of kind bool",
        ),
        (
            Comparison(uid("5"), Operator.LT, 7),
            "`seen-at` is of kind timestamp, and it is compared with a literal of kind int",
        ),
        (
            Membership(uid("1"), frozenset({1, 2})),
            "`numberplate` is of kind string, and it is compared with a literal of kind int",
        ),
        (
            TextMatch(uid("2"), TextTest.CONTAINS, "3"),
            "`speed` is of kind int, and `contains` asks for a string",
        ),
        (TextMatch(uid("6"), TextTest.TOKEN, "x"), "`photo` is of kind bytes, and `token` asks for a string"),
        (
            Comparison(uid("4"), Operator.LT, 1),
            "`stolen` is of kind bool, and `<` asks for a kind with an order",
        ),
    ],
)
def test_a_filter_that_the_type_cannot_answer_says_what_was_expected_and_found(predicate, sentence):
    with pytest.raises(KindMismatch) as refused:
        check_predicate(predicate, SIGHTING)
    assert sentence in refused.value.message
    assert refused.value.code == "TYPE-KIND-MISMATCH"


def subscribe(**terms):
    return Authority(type_pattern(MET.principal), frozenset({Action.SUBSCRIBE}), **terms)


def test_a_fitting_grant_is_returned():
    authority = subscribe(
        attributes=frozenset({uid("1"), uid("2")}), restriction=Comparison(uid("1"), Operator.EQ, "AE05 XYZ")
    )
    assert check_restriction(authority, SIGHTING) is authority
    assert check_restriction(subscribe(), SIGHTING) == subscribe()


def test_a_grant_of_an_unknown_attribute_is_refused():
    with raises("TYPE-UNKNOWN-ATTRIBUTE", match="uid `9`"):
        check_restriction(subscribe(attributes=frozenset({uid("1"), uid("9")})), SIGHTING)


def test_a_restriction_of_the_wrong_kind_is_refused():
    with pytest.raises(KindMismatch):
        check_restriction(subscribe(restriction=Comparison(uid("1"), Operator.EQ, 5)), SIGHTING)
