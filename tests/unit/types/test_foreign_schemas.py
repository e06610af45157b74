"""Attributes from JSON Schema, Avro, CSV and JSON: the kinds chosen, and what is refused by name."""

from __future__ import annotations

import json

import pytest

from maia.events import ATTRIBUTES_MAX
from maia.testing.refusals import raises
from maia.types.foreign_schemas import TEXT_MAX, BadSchema, Form, schema_from_text

LAB_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["patient"],
    "$defs": {
        "Ward": {"enum": ["3", "4"]},
        "Kelvin": {"$ref": "#/$defs/Number"},
        "Number": {"type": "number"},
    },
    "properties": {
        "patient": {"type": "string", "pattern": "P-[0-9]+"},
        "ward": {"$ref": "#/$defs/Ward"},
        "value": {"type": ["integer", "null"], "maximum": 2**63 - 1},
        "share": {"anyOf": [{"$ref": "#/$defs/Kelvin"}, {"type": "null"}]},
        "urgent": {"type": "boolean"},
        "taken": {"type": "string", "format": "date-time"},
        "born": {"type": "string", "format": "date"},
        "scan": {"type": "string", "contentEncoding": "base64"},
    },
}
LAB_RECORD = {
    "type": "record",
    "name": "uk.nhs.LabResult",
    "fields": [
        {"name": "patient", "type": "string"},
        {"name": "ward", "type": {"type": "enum", "name": "uk.nhs.Ward", "symbols": ["A", "B"]}},
        {"name": "earlier_ward", "type": ["null", "uk.nhs.Ward"], "default": None},
        {"name": "value", "type": ["null", "long"]},
        {"name": "share", "type": "float"},
        {"name": "urgent", "type": "boolean"},
        {"name": "taken", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "born", "type": {"type": "int", "logicalType": "date"}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 32}},
        {"name": "scan", "type": "bytes"},
    ],
}
CSV = """patient,ward,value,share,urgent,taken,born,code,note
P-1,3,142,1,true,2026-11-15T08:30:00Z,1970-01-01,007,
P-2,4,-7,2.5,false,2026-11-15T09:30:00+01:00,1980-02-03,12,
P-3,,,1e3,,,,,
"""


def kinds(text: str, **options: object) -> dict[str, str]:
    return {one.name: one.kind.value for one in schema_from_text(text, **options).attributes}


def test_a_json_schema_says_the_kinds_and_what_a_type_does_not_check() -> None:
    assert kinds(json.dumps(LAB_SCHEMA)) == {
        "patient": "string", "ward": "string", "value": "int", "share": "float", "urgent": "bool",
        "taken": "timestamp", "born": "string", "scan": "bytes",
    }  # fmt: skip
    schema = schema_from_text(json.dumps(LAB_SCHEMA))
    assert (schema.form, schema.rows) == (Form.JSON_SCHEMA, None)
    assert schema.not_carried == ("enum", "maximum", "pattern", "required")


def test_a_json_schema_may_begin_with_a_reference_and_what_is_beside_it_is_named() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "string"}}}
    assert kinds(json.dumps({"$ref": "#/$defs/Lab", "$defs": {"Lab": inner}})) == {"x": "string"}
    for beside in ({"properties": {"y": {"type": "string"}}}, {"allOf": [{"properties": {}}]}):
        with raises("TYPE-SCHEMA-ATTRIBUTE", match="may have attributes that are not among"):
            schema_from_text(json.dumps({"$ref": "#/$defs/Lab", "$defs": {"Lab": inner}, **beside}))


def test_an_avro_record_says_the_kinds() -> None:
    assert kinds(json.dumps(LAB_RECORD), file_name="lab.avsc") == {
        "patient": "string", "ward": "string", "earlier_ward": "string", "value": "int", "share": "float",
        "urgent": "bool", "taken": "timestamp", "seen": "timestamp", "born": "int", "digest": "bytes",
        "scan": "bytes",
    }  # fmt: skip
    assert schema_from_text(json.dumps(LAB_RECORD)).not_carried == ("default", "size", "symbols")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_kinds_are_guessed_from_rows_of_csv_and_an_empty_value_says_nothing(delimiter: str) -> None:
    schema = schema_from_text("\ufeff" + CSV.replace(",", delimiter))
    assert (schema.form, schema.rows) == (Form.CSV, 3)
    assert {one.name: (one.kind.value, one.reason) for one in schema.attributes} == {
        "patient": ("string", ""),
        "ward": ("int", ""),
        "value": ("int", ""),
        "share": ("float", "int in line 2, float in line 3"),
        "urgent": ("bool", ""),
        "taken": ("timestamp", ""),
        "born": ("string", ""),  # no zone, no moment
        "code": ("string", "string in line 2, int in line 3"),  # 007 is no number: its zeros would be lost
        "note": ("string", "the sample has no value of it"),
    }


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('{"a": 1, "b": "true", "at": "2026-11-15T08:30:00Z"}', 1),
        ('[{"a": 1, "at": "2026-11-15T08:30:00Z"}, {"b": "3", "a": null}]', 2),
        ('{"a": 1, "b": "x"}\n\n{"a": 2, "at": "2026-11-15T08:30:00Z"}\n', 2),
    ],
    ids=["an object", "an array", "lines"],
)
def test_json_has_kinds_of_its_own_but_for_moments(text: str, rows: int) -> None:
    assert kinds(text) == {"a": "int", "b": "string", "at": "timestamp"}
    assert schema_from_text(text).rows == rows


def test_values_that_disagree_are_explained() -> None:
    lines = '{"a": 1, "at": "2026-11-15T08:30:00Z"}\n{"a": 18446744073709551616, "at": "noon"}'
    assert [(one.kind.value, one.reason) for one in schema_from_text(lines).attributes] == [
        ("float", "int in line 1, int beyond 64 bits in line 2; as a float it loses digits"),
        ("string", "timestamp in line 1, string in line 2"),
    ]


def schema_of(one: object, **more: object) -> str:
    return json.dumps({"type": "object", "properties": {"x": one}, **more})


def record_of(one: object) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": one}]})


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        (schema_of({"type": "object", "properties": {"street": {}}}), "x", "`x` is an object with street"),
        (schema_of({"type": "array"}), "x", "`x` is an array (publish an event for each element)"),
        (schema_of({"type": ["string", "integer"]}), "x", "`x` is a union of integer and string"),
        (schema_of({"oneOf": [{"type": "string"}, {"type": "number"}]}), "x", "`x` is a union of 2 schemas"),
        (schema_of({"enum": ["a", 1]}), "x", "`x` has values of several kinds"),
        (schema_of({"type": "integer", "maximum": 2**64}), "x", "`x` may be an integer beyond 64 bits"),
        (schema_of({"$ref": "#/properties/x"}), "x", "`x` has a `$ref` that leads to no schema"),
        (schema_of({"$ref": "https://example.org/x"}), "x", "`x` has a `$ref` that leads to no schema"),
        (schema_of({"anyOf": [{"$ref": "#/properties/x"}]}), "x", "`x` has too many alternatives"),
        (schema_of(True), "x", "`x` names no type"),
        (
            schema_of({"type": "string"}, allOf=[{"properties": {}}]),
            "#/allOf",
            "`#/allOf` may have attributes",
        ),
        (
            schema_of({"type": "string"}, required=["y"]),
            "y",
            "`y` is required, and not among the `properties`",
        ),
        (record_of({"type": "record", "name": "Inner", "fields": []}), "x", "`x` is a record"),
        (record_of({"type": "map", "values": "int"}), "x", "`x` is a map"),
        (record_of({"type": "array", "items": "int"}), "x", "`x` is an array"),
        (record_of(["int", "string"]), "x", "`x` is a union of 2 types other than null"),
        (record_of("Elsewhere"), "x", "`x` has the unknown type `Elsewhere`"),
        (record_of({"type": "bytes", "logicalType": "decimal"}), "x", "`x` is a decimal"),
        (record_of({"type": "long", "logicalType": "local-timestamp-micros"}), "x", "time without a zone"),
        ('{"x": {"a": 1}}', "x", "`x` is an object in object 1"),
        ('{"x": 1}\n{"x": [1]}', "x", "`x` is an array in line 2"),
        ('{"x": 1}\n{"x": "a"}', "x", "`x` has values of several kinds: int in line 1, string in line 2"),
        ('{"x": 1e999}', "x", "`x` is a number that no float can hold"),
        ('{"x": "\\u0000"}', "x", "`x` is a text that no string can hold"),
        (
            "Patient name\nP-1\n",
            "Patient name",
            "`Patient name` is not an attribute name, and `Patient_name`",
        ),
        ("in,b\n1,2\n", "in", "`in` is not an attribute name, and `in_` is one"),
        (",b\n1,2\n", "column 1", "`column 1` has no name in the header"),
        ("b,B\n1,2\n", "B", "`B` differs from `b` in case only"),
    ],
)
def test_what_no_kind_can_hold_is_named_and_can_be_left_out(text: str, path: str, sentence: str) -> None:
    with raises("TYPE-SCHEMA-ATTRIBUTE") as caught:
        schema_from_text(text)
    assert sentence in caught.value.message
    assert "--skip" in caught.value.__notes__[0]
    assert path in schema_from_text(text, skip=[path]).skipped


def test_everything_that_has_no_kind_is_named_at_once_and_a_kind_chosen_by_hand_settles_it() -> None:
    text = '[{"a": 1, "b": {}, "c": []}, {"a": "x"}]'
    with raises("TYPE-SCHEMA-ATTRIBUTE") as caught:
        schema_from_text(text)
    assert all(f"`{name}` " in caught.value.message for name in "abc")
    schema = schema_from_text(text, skip=["b", "c"], given=["a"])
    assert (schema.attributes, schema.skipped) == ((), ("b", "c"))


@pytest.mark.parametrize(
    ("text", "file_name", "error", "sentence"),
    [
        ("", "", BadSchema, "the file is empty"),
        ("a,b\n", "", BadSchema, "a header and no row"),
        ("a,b\n1,2\n1\n", "", BadSchema, "line 3 has 1 values, and the header 2 names"),
        ("a,a\n1,2\n", "", BadSchema, "the header has `a` twice"),
        ('a\n"1"2\n', "", BadSchema, "this is no CSV"),
        ('{"a": 1', "", BadSchema, "this is no JSON"),
        ('{"a": 1}\n{"a": }\n', "", BadSchema, "at line 2, column 7"),
        ("a,b\n1,2\n", "x.json", BadSchema, "this is no JSON"),
        ('{"a": 1, "a": 2}', "", BadSchema, "an object has `a` twice"),
        ('{"a": NaN}', "", BadSchema, "`NaN` is no number of JSON"),
        ("[" * 100_000, "", BadSchema, "too many digits or levels"),
        ("[1]", "", BadSchema, "object 1 is not a JSON object"),
        ("{}", "", BadSchema, "the sample has no attributes"),
        ('{"$schema": "x", "type": "array"}', "", BadSchema, "describes no object with `properties`"),
        ('{"type": "enum"}', "x.avsc", BadSchema, "one record with fields"),
        ('{"type": "record", "fields": [1]}', "", BadSchema, "has a `name` and a `type`"),
        ("a" * (TEXT_MAX + 1), "", "TYPE-SCHEMA-SIZE", "longer than"),
        (json.dumps({f"a{n}": n for n in range(1025)}), "", "TYPE-SCHEMA-SIZE", "1025 attributes"),
        (",".join(f"a{n}" for n in range(ATTRIBUTES_MAX + 1)), "", "TYPE-SCHEMA-SIZE", "1025 columns"),
        (json.dumps({"properties": {f"a{n}": {} for n in range(1025)}}), "", "TYPE-SCHEMA-SIZE", "1025 prop"),
    ],
)  # fmt: skip
def test_what_is_no_schema_and_no_sample_is_refused_with_its_place(
    text: str, file_name: str, error: type[BadSchema], sentence: str
) -> None:
    with raises(error) as caught:
        schema_from_text(text, file_name=file_name)
    assert sentence in caught.value.message


def test_a_path_that_is_not_there_cannot_be_left_out() -> None:
    with raises("TYPE-SCHEMA-SKIP", match="no `wrad` to leave out; did you mean `ward`"):
        schema_from_text("ward,value\n3,1\n", skip=["wrad"])


def test_no_sentence_quotes_a_value_of_a_sample() -> None:
    """A sample may be of real patients, and errors end in logs."""
    with raises("TYPE-SCHEMA-ATTRIBUTE") as caught:
        schema_from_text('[{"x": "P-17"}, {"x": 1, "y": {"z": "P-17"}}]')
    assert "P-17" not in caught.value.message
    assert "P-17" not in repr(schema_from_text("x\nP-17\n5\n"))
