"""JSON that a schema admits, and JSON that it does not: for driving an interface by its own document.

Only the words that our documents use are known; an unknown one is an error
here, so that a document cannot grow past its test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

__all__ = ["admitted", "mutilated"]

Json = Any
"""Whatever JSON holds."""

KNOWN = {
    "$ref", "additionalProperties", "anyOf", "contentEncoding", "default", "description", "items", "maxItems",
    "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minimum", "pattern", "properties",
    "required", "title", "type",
}  # fmt: skip
_LETTERS = st.characters(codec="utf-8", exclude_categories=("Cs",))


def admitted(
    schema: Mapping[str, Json], schemas: Mapping[str, Json], likely: Mapping[str, list[str]]
) -> st.SearchStrategy[Json]:
    """Return values that a schema admits; `likely` words are tried for fields of these names."""
    return _of(schema, schemas, likely, "")


def _of(
    schema: Mapping[str, Json], schemas: Mapping[str, Json], likely: Mapping[str, list[str]], name: str
) -> st.SearchStrategy[Json]:
    assert schema.keys() <= KNOWN, schema
    if "$ref" in schema:
        return _of(schemas[schema["$ref"].rpartition("/")[2]], schemas, likely, name)
    if "anyOf" in schema:
        return st.one_of(*(_of(one, schemas, likely, name) for one in schema["anyOf"]))
    match schema["type"]:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum", -(2**70)), schema.get("maximum", 2**70))
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "string":
            return _text(schema, likely.get(name, []))
        case "array":
            items = _of(schema["items"], schemas, likely, name)
            return st.lists(
                items, min_size=schema.get("minItems", 0), max_size=min(3, schema.get("maxItems", 3))
            )
        case "object":
            return _object(schema, schemas, likely)
    raise AssertionError(schema)


def _text(schema: Mapping[str, Json], likely: list[str]) -> st.SearchStrategy[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 40)
    if "pattern" in schema:
        return st.one_of(st.from_regex(schema["pattern"], fullmatch=True), *map(st.just, likely))
    if schema.get("contentEncoding") == "base64":
        chance = st.text("ABCDabcd0123+/", min_size=least, max_size=max(least, min(most, 24)))
    else:
        chance = st.text(_LETTERS, min_size=least, max_size=max(least, min(most, 24)))
    fitting = [one for one in likely if least <= len(one) <= most]
    return st.one_of(*map(st.just, fitting), chance) if fitting else chance


def _object(
    schema: Mapping[str, Json], schemas: Mapping[str, Json], likely: Mapping[str, list[str]]
) -> st.SearchStrategy[Json]:
    fields = schema.get("properties", {})
    made = {name: _of(one, schemas, likely, name) for name, one in fields.items()}
    if isinstance(schema.get("additionalProperties"), Mapping):
        return st.dictionaries(
            st.text(_LETTERS, max_size=8),
            _of(schema["additionalProperties"], schemas, likely, ""),
            max_size=2,
        )
    wanted = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: one for name, one in made.items() if name in wanted},
        optional={name: one for name, one in made.items() if name not in wanted},
    )


@st.composite
def mutilated(draw: st.DrawFn, value: st.SearchStrategy[Json]) -> Json:
    """Draw something that was once admitted: a field less, a field more, or another kind of value."""
    body = draw(value)
    if not isinstance(body, dict) or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([None, [], "", 7, True, [body]]))
    body = dict(body)
    match draw(st.sampled_from(["less", "more", "other"])):
        case "less" if body:
            del body[draw(st.sampled_from(sorted(body)))]
        case "other" if body:
            field = draw(st.sampled_from(sorted(body)))
            body[field] = draw(st.sampled_from([None, {}, [[]], 1.5, -1, "\x00", [None], {"x": []}, 2**80]))
        case _:
            body[draw(st.sampled_from(["x", "", "__proto__", "holder "]))] = draw(
                st.sampled_from([None, 1, "x"])
            )
    return body
