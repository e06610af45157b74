"""Which attributes does a type have that is described elsewhere: in JSON Schema, in Avro, or by a sample?

Authors of types ask, so that nobody copies forty columns by hand. A schema says
the kinds; of a sample (CSV with a header, or objects of JSON) they are guessed:
a type defined from a sample accepts every row of it. What no kind of Maia can
hold is an error that names it, unless the author leaves it out or chooses its
kind: nothing is dropped silently. Sentences name lines, and quote no values.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from maia.errors import BadInput
from maia.events import (
    ATTRIBUTES_MAX,
    INT_MAX,
    INT_MIN,
    Attribute,
    BadAttribute,
    BadValue,
    Instant,
    Kind,
    NotAnInstant,
    attribute_uid,
    checked_value,
)

TEXT_MAX: Final = 1 << 20
"""How many characters of a schema or a sample are read at most."""
DEPTH_MAX: Final = 16
"""How many references and alternatives lie between an attribute and its kind at most."""
POINTER_MAX: Final = 1024
"""How long a reference inside a JSON Schema is at most."""
_SHOWN_MAX: Final = 32

_INT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_INT_DIGITS: Final = len(str(INT_MIN))
_DELIMITERS: Final = ",;\t|"
_JSON_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".avsc")


class BadSchema(BadInput):
    """A file is neither a schema nor a sample that a type can be defined from."""

    code = "TYPE-SCHEMA"


class Form(Enum):
    """How the attributes are described."""

    JSON_SCHEMA = "a JSON Schema"
    AVRO = "an Avro schema"
    CSV = "a sample of CSV"
    JSON = "a sample of JSON"


@dataclass(frozen=True, slots=True)
class ForeignAttribute:
    """One attribute, its kind, and why it has this one where that is not plain."""

    name: str
    kind: Kind
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ForeignSchema:
    """The attributes that a schema or a sample describes, in its order."""

    form: Form
    rows: int | None
    """How many rows a sample has; None for a schema."""
    attributes: tuple[ForeignAttribute, ...]
    skipped: tuple[str, ...]
    not_carried: tuple[str, ...]
    """What the schema also demands, and a type does not check."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """What is known of one attribute; without a kind, the reason says why there is none."""

    kind: Kind | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Described:
    form: Form
    findings: Mapping[str, _Finding]
    rows: int | None = None
    not_carried: Collection[str] = ()


def schema_from_text(
    text: str, *, file_name: str = "", skip: Collection[str] = (), given: Collection[str] = ()
) -> ForeignSchema:
    """Read a schema or a sample; its form shows in the text, and `.csv` is always CSV.

    Attributes in `skip` are left out. Those in `given` are left to the author, who chose their kinds.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > TEXT_MAX:
        raise BadSchema(
            "TYPE-SCHEMA-SIZE", f"the text is longer than the {TEXT_MAX} characters that are read"
        )
    suffix = file_name[file_name.rfind(".") :].lower() if "." in file_name else ""
    if not text.strip():
        raise BadSchema("the file is empty")
    if suffix == ".csv" or (suffix not in _JSON_SUFFIXES and not text.lstrip().startswith(("{", "["))):
        described = _from_csv(text)
    else:
        described = _from_json_text(text, is_avro=suffix == ".avsc")
    findings = described.findings
    if len(findings) > ATTRIBUTES_MAX:
        raise BadSchema(
            "TYPE-SCHEMA-SIZE", f"{len(findings)} attributes are more than the {ATTRIBUTES_MAX} of a type"
        )
    for path in skip:
        if path not in findings:
            near = difflib.get_close_matches(path[:64], findings, n=1)
            hint = f"; did you mean `{_shown(near[0])}`?" if near else ""
            raise BadSchema("TYPE-SCHEMA-SKIP", f"there is no `{_shown(path)}` to leave out{hint}")
    wanted = {name: one for name, one in findings.items() if name not in skip and name not in given}
    return ForeignSchema(
        described.form,
        described.rows,
        _representable(wanted),
        tuple(name for name in findings if name in skip),
        tuple(sorted(described.not_carried)),
    )


def _representable(findings: Mapping[str, _Finding]) -> tuple[ForeignAttribute, ...]:
    """Return the attributes, or raise one error that names everything that cannot be one."""
    problems: list[str] = []
    attributes: list[ForeignAttribute] = []
    folded: dict[str, str] = {}
    for name, finding in findings.items():
        if finding.kind is None:
            problems.append(f"`{_shown(name)}` {finding.reason}")
        elif not _is_name(name):
            problems.append(f"`{_shown(name)}` is not an attribute name{_name_hint(name)}")
        elif name.lower() in folded:
            problems.append(f"`{name}` differs from `{folded[name.lower()]}` in case only")
        else:
            folded[name.lower()] = name
            attributes.append(ForeignAttribute(name, finding.kind, finding.reason))
    if problems:
        more = len(problems) - _SHOWN_MAX
        rest = f"; and {more} more" if more > 0 else ""
        problem = BadSchema("TYPE-SCHEMA-ATTRIBUTE", "; ".join(problems[:_SHOWN_MAX]) + rest)
        problem.add_note("`--skip PATH` leaves an attribute out, and `NAME:KIND` chooses its kind")
        raise problem
    return tuple(attributes)


def _is_name(name: str) -> bool:
    try:
        Attribute(name, attribute_uid("0"), Kind.STRING)
    except BadAttribute:
        return False
    return True


def _name_hint(name: str) -> str:
    near = re.sub(r"[^A-Za-z0-9_-]+", "_", name.strip())[:60].strip("_-")
    for candidate in (near, f"{near}_", f"_{near}"):
        if near and _is_name(candidate):
            return f", and `{candidate}` is one"
    return ": use letters, digits, `_` and `-`"


def _repeated(names: Iterable[str]) -> str | None:
    """Return the first name that comes a second time."""
    before: set[str] = set()
    for name in names:
        if name in before:
            return name
        before.add(name)
    return None


def _shown(text: str) -> str:
    return text[:64].encode("unicode_escape").decode()


# ------------------------------------------------------------------ samples: kinds are guessed from values

_WIDE: Final = "int beyond 64 bits"
_NUMBERS: Final = {Kind.INT.value, Kind.FLOAT.value, _WIDE}
_TEXTS: Final = {Kind.STRING.value, Kind.TIMESTAMP.value}


def _guess(seen: Mapping[str, str], *, from_text: bool) -> _Finding:
    """Choose the kind for values of these sorts, each with the place of its first value.

    In CSV every value is also a text. In JSON a number is none, and an attribute with both has no kind.
    """
    sorts = set(seen)
    places = ", ".join(f"{sort} in {place}" for sort, place in seen.items())
    if not sorts:
        return _Finding(Kind.STRING, "the sample has no value of it")
    if sorts <= _NUMBERS:
        if sorts == {Kind.INT.value}:
            return _Finding(Kind.INT)
        if _WIDE in sorts:
            return _Finding(Kind.FLOAT, f"{places}; as a float it loses digits")
        return _Finding(Kind.FLOAT, places if len(sorts) > 1 else "")
    if len(sorts) == 1 and (sort := next(iter(sorts))) in _KINDS:
        return _Finding(_KINDS[sort])
    if sorts <= _TEXTS or (from_text and sorts <= {*_KINDS, _WIDE}):
        return _Finding(Kind.STRING, places)
    odd = sorts - {*_KINDS, _WIDE}
    if odd:
        sort = sorted(odd)[0]
        return _Finding(None, f"is {sort} in {seen[sort]}{_SORT_HINTS.get(sort, '')}")
    return _Finding(None, f"has values of several kinds: {places}")


_KINDS: Final = {kind.value: kind for kind in (Kind.STRING, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TIMESTAMP)}
_OBJECT: Final = "an object"
_ARRAY: Final = "an array"
_SORT_HINTS: Final = {
    _OBJECT: " (give what is inside attributes of their own)",
    _ARRAY: " (publish an event for each element)",
}


def _sort_of_text(text: str) -> str:
    """Return the sort of a text that may be a moment."""
    try:
        checked_value(text, Kind.STRING)
    except BadValue:
        return "a text that no string can hold"
    try:
        Instant.parse(text)
    except NotAnInstant:
        return Kind.STRING.value
    return Kind.TIMESTAMP.value


def _sort_of_cell(cell: str) -> str:
    if cell in ("true", "false"):
        return Kind.BOOL.value
    if _FLOAT.fullmatch(cell) and math.isfinite(float(cell)):
        if not _INT.fullmatch(cell):
            return Kind.FLOAT.value
        fits = len(cell) <= _INT_DIGITS and INT_MIN <= int(cell) <= INT_MAX
        return Kind.INT.value if fits else _WIDE
    return _sort_of_text(cell)


def _sort_of_json(value: object) -> str:
    match value:
        case bool():
            return Kind.BOOL.value
        case int():
            if INT_MIN <= value <= INT_MAX:
                return Kind.INT.value
            try:
                float(value)
            except OverflowError:
                return "a number that no float can hold"
            return _WIDE
        case float():
            return Kind.FLOAT.value if math.isfinite(value) else "a number that no float can hold"
        case str():
            return _sort_of_text(value)
        case dict():
            return _OBJECT
        case _:
            return _ARRAY


def _from_csv(text: str) -> _Described:
    """Read a header and rows; the delimiter is the one that cuts the header into most names."""
    try:
        headers = {
            sign: next(csv.reader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=sign), [])
            for sign in _DELIMITERS
        }
        delimiter = max(_DELIMITERS, key=lambda sign: len(headers[sign]))
        header = [name or f"column {place}" for place, name in enumerate(headers[delimiter], start=1)]
        unnamed = {one for one, name in zip(header, headers[delimiter], strict=True) if not name}
        if len(header) > ATTRIBUTES_MAX:
            raise BadSchema(
                "TYPE-SCHEMA-SIZE", f"{len(header)} columns are more than the {ATTRIBUTES_MAX} of a type"
            )
        if (twice := _repeated(header)) is not None:
            raise BadSchema(f"the header has `{_shown(twice)}` twice")
        seen: dict[str, dict[str, str]] = {name: {} for name in header}
        rows = 0
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        for row in lines:
            if not row:
                continue
            if len(row) != len(header):
                raise BadSchema(
                    f"line {lines.line_num} has {len(row)} values, and the header {len(header)} names"
                )
            rows += 1
            if rows > 1:
                for name, cell in zip(header, row, strict=True):
                    if cell:
                        seen[name].setdefault(_sort_of_cell(cell), f"line {lines.line_num}")
    except csv.Error as problem:
        raise BadSchema(f"this is no CSV: {problem}") from problem
    if rows < 2:
        raise BadSchema("there is a header and no row, and kinds are guessed from values")
    findings = {name: _guess(found, from_text=True) for name, found in seen.items()}
    findings |= {name: _Finding(None, "has no name in the header") for name in unnamed}
    return _Described(Form.CSV, findings, rows - 1)


def _from_json_text(text: str, *, is_avro: bool) -> _Described:
    """Read a schema, an object, an array of objects, or an object on each line."""
    try:
        document = _parsed(text)
    except BadSchema:
        lines = [(place, line) for place, line in enumerate(text.split("\n"), start=1) if line.strip()]
        if is_avro or len(lines) < 2 or not _is_object(lines[0][1]):
            raise
        return _from_objects([(f"line {place}", _parsed(line, place)) for place, line in lines])
    if isinstance(document, dict):
        if document.get("type") == "record" and isinstance(document.get("fields"), list):
            return _from_avro(document)
        if not is_avro and _is_json_schema(document):
            return _from_json_schema(document)
    if is_avro:
        raise BadSchema("an Avro schema of events is one record with fields")
    if isinstance(document, list):
        if document and all(isinstance(one, dict) and one.get("type") == "record" for one in document):
            raise BadSchema("these are several records of Avro: a type is defined from one of them")
        return _from_objects([(f"object {place}", one) for place, one in enumerate(document, start=1)])
    return _from_objects([("object 1", document)])


def _from_objects(objects: Iterable[tuple[str, object]]) -> _Described:
    seen: dict[str, dict[str, str]] = {}
    rows = 0
    for place, one in objects:
        if not isinstance(one, dict):
            raise BadSchema(f"{place} is not a JSON object, and a sample has objects with attributes")
        rows += 1
        for name, value in one.items():
            found = seen.setdefault(name, {})
            if value is not None:
                found.setdefault(_sort_of_json(value), place)
    if not seen:
        raise BadSchema("the sample has no attributes")
    return _Described(Form.JSON, {name: _guess(found, from_text=False) for name, found in seen.items()}, rows)


def _parsed(text: str, line: int | None = None) -> object:
    """Parse strict JSON; a name that an object has twice would hide an attribute."""
    where = "" if line is None else f"line {line}: "

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if (twice := _repeated(name for name, _ in pairs)) is not None:
            raise BadSchema(f"{where}an object has `{_shown(twice)}` twice")
        return dict(pairs)

    def refuse(constant: str) -> object:
        raise BadSchema(f"{where}`{constant}` is no number of JSON")

    try:
        document: object = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except json.JSONDecodeError as problem:
        place = f"line {line or problem.lineno}, column {problem.colno}"
        raise BadSchema(f"this is no JSON: {problem.msg}, at {place}") from problem
    except (ValueError, RecursionError) as problem:
        raise BadSchema(f"{where}the JSON has too many digits or levels to be read") from problem
    return document


def _is_object(line: str) -> bool:
    try:
        return isinstance(_parsed(line), dict)
    except BadSchema:
        return False


# ------------------------------------------------------------------ JSON Schema

_JSON_KINDS: Final = {"string": Kind.STRING, "integer": Kind.INT, "number": Kind.FLOAT, "boolean": Kind.BOOL}
_BYTES_FORMATS: Final = {"byte", "binary"}  # of OpenAPI
_ELSEWHERE: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties")
"""What of an object may have attributes that are not in its `properties`."""
_CONSTRAINTS: Final = {
    "required", "enum", "const", "default", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
}  # fmt: skip
_UPPER: Final = ("maximum", "exclusiveMaximum")
_LOWER: Final = ("minimum", "exclusiveMinimum")


def _is_json_schema(document: Mapping[str, object]) -> bool:
    if "$schema" in document or ("$ref" in document and ("$defs" in document or "definitions" in document)):
        return True
    return isinstance(document.get("properties"), dict) and document.get("type", "object") == "object"


def _from_json_schema(root: Mapping[str, object]) -> _Described:
    schema = root if "properties" in root else _resolved(root, root)
    properties = None if schema is None else schema.get("properties")
    if schema is None or not isinstance(properties, dict) or schema.get("type", "object") != "object":
        raise BadSchema("the JSON Schema describes no object with `properties`")
    if len(properties) > ATTRIBUTES_MAX:
        raise BadSchema(
            "TYPE-SCHEMA-SIZE", f"{len(properties)} properties are more than the {ATTRIBUTES_MAX} of a type"
        )
    not_carried = _CONSTRAINTS & set(schema)
    findings: dict[str, _Finding] = {}
    for name, one in properties.items():
        findings[name] = _json_schema_kind(one, root, not_carried, DEPTH_MAX)
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in findings:
            findings[name] = _Finding(None, "is required, and not among the `properties`")
    hidden = [one for one in _ELSEWHERE if schema.get(one) or (one != "$ref" and root.get(one))]
    hidden += [
        one for one in ("additionalProperties", "unevaluatedProperties") if isinstance(schema.get(one), dict)
    ]
    for keyword in hidden:
        findings[f"#/{keyword}"] = _Finding(None, "may have attributes that are not among the `properties`")
    if not findings:
        raise BadSchema("the JSON Schema has no properties")
    return _Described(Form.JSON_SCHEMA, findings, None, not_carried)


def _resolved(schema: object, root: Mapping[str, object]) -> Mapping[str, object] | None:
    """Follow references inside the document; None if one leads elsewhere, nowhere or in a circle."""
    for _ in range(DEPTH_MAX):
        if not isinstance(schema, dict):
            return None
        if "$ref" not in schema:
            return schema
        pointer = schema["$ref"]
        if not isinstance(pointer, str) or not pointer.startswith("#/") or len(pointer) > POINTER_MAX:
            return None
        schema = root
        for part in pointer.removeprefix("#/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(key) if isinstance(schema, dict) else None
    return None


def _json_schema_kind(
    given: object, root: Mapping[str, object], not_carried: set[str], depth: int
) -> _Finding:
    """Return the kind of a property; what it also demands is added to `not_carried`."""
    schema = _resolved(given, root)
    if schema is None:
        if isinstance(given, dict):
            return _Finding(None, "has a `$ref` that leads to no schema of this file")
        return _Finding(None, "names no type")
    if depth == 0:
        return _Finding(None, "has too many alternatives inside each other")
    declared = schema.get("type")
    types = {one for one in (declared if isinstance(declared, list) else [declared]) if isinstance(one, str)}
    types.discard("null")
    if "number" in types:
        types.discard("integer")  # a whole number is a number
    not_carried |= _CONSTRAINTS & set(schema)
    if len(types) > 1:
        return _Finding(None, f"is a union of {' and '.join(sorted(types))[:80]}")
    if types:
        return _kind_of_json_type(types.pop(), schema)
    for keyword in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(keyword)
        if isinstance(choices, list):
            some = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
            if len(some) == 1:
                return _json_schema_kind(some[0], root, not_carried, depth - 1)
            return _Finding(None, f"is a union of {len(some)} schemas (`{keyword}`)")
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(allowed, list) and any(one is not None for one in allowed):
        return _guess(
            {_sort_of_json(one): "its values" for one in allowed if one is not None}, from_text=False
        )
    for keyword, sort in (("properties", _OBJECT), ("items", _ARRAY)):
        if keyword in schema:
            return _Finding(None, f"is {sort}{_SORT_HINTS[sort]}")
    return _Finding(None, "names no type")


def _kind_of_json_type(word: str, schema: Mapping[str, object]) -> _Finding:
    if word in ("object", "array"):
        sort = _OBJECT if word == "object" else _ARRAY
        inside = schema.get("properties")
        names = f" with {', '.join(map(_shown, inside))[:80]}" if isinstance(inside, dict) and inside else ""
        return _Finding(None, f"is {sort}{names}{_SORT_HINTS[sort]}")
    kind = _JSON_KINDS.get(word)
    if kind is None:
        return _Finding(None, f"has the unknown type `{_shown(word)}`")
    if kind is Kind.INT:
        highest = [one for name in _UPPER if isinstance(one := schema.get(name), int | float)]
        lowest = [one for name in _LOWER if isinstance(one := schema.get(name), int | float)]
        if any(one > INT_MAX + 1 for one in highest) or any(one < INT_MIN - 1 for one in lowest):
            return _Finding(None, "may be an integer beyond 64 bits")
    if kind is not Kind.STRING:
        return _Finding(kind)
    text_format, encoding = schema.get("format"), schema.get("contentEncoding")
    if text_format == "date-time":
        return _Finding(Kind.TIMESTAMP, "format date-time")
    if encoding in ("base64", "base16") or text_format in _BYTES_FORMATS:
        return _Finding(Kind.BYTES, "binary; lines of `maia publish` have it as hexadecimal digits")
    return _Finding(kind, f"format {_shown(text_format)}" if isinstance(text_format, str) else "")


# ------------------------------------------------------------------ Avro

_AVRO_KINDS: Final = {
    "boolean": Kind.BOOL,
    "int": Kind.INT,
    "long": Kind.INT,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "bytes": Kind.BYTES,
    "string": Kind.STRING,
}
_MOMENTS: Final = {"timestamp-millis", "timestamp-micros"}
_LOST: Final = {
    "decimal": "is a decimal (a float would round it; publish it as a string)",
    "duration": "is a duration (publish a number of seconds)",
    "timestamp-nanos": "has nanoseconds, and a timestamp microseconds",
    "local-timestamp-millis": "is a time without a zone",
    "local-timestamp-micros": "is a time without a zone",
    "local-timestamp-nanos": "is a time without a zone",
}


def _from_avro(record: Mapping[str, object]) -> _Described:
    fields = record["fields"]
    findings: dict[str, _Finding] = {}
    not_carried: set[str] = set()
    named: dict[str, object] = {}
    for field in fields if isinstance(fields, list) else ():
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(field, dict) or not isinstance(name, str) or "type" not in field:
            raise BadSchema("a field of an Avro record has a `name` and a `type`")
        if name in findings:
            raise BadSchema(f"the Avro record has the field `{_shown(name)}` twice")
        if "default" in field:
            not_carried.add("default")
        found = _avro_kind(field["type"], named, not_carried, DEPTH_MAX)
        if found.kind is not None and "logicalType" in field:
            found = _Finding(found.kind, "its logicalType is beside `type`, and Avro reads it inside")
        findings[name] = found
    if not findings:
        raise BadSchema("the Avro record has no fields")
    return _Described(Form.AVRO, findings, None, not_carried)


def _avro_kind(schema: object, named: dict[str, object], not_carried: set[str], depth: int) -> _Finding:
    """Return the kind of a field; types that are named in it can be used by later fields."""
    if depth == 0:
        return _Finding(None, "has too many types inside each other")
    if isinstance(schema, list):
        some = [one for one in schema if one != "null"]
        if len(some) == 1:
            return _avro_kind(some[0], named, not_carried, depth - 1)
        return _Finding(None, f"is a union of {len(some)} types other than null")
    if isinstance(schema, str):
        if schema in _AVRO_KINDS:
            return _Finding(_AVRO_KINDS[schema])
        known = named.get(schema.rpartition(".")[2])
        if known is None or isinstance(known, str):
            return _Finding(None, f"has the unknown type `{_shown(schema)}`")
        return _avro_kind(known, named, not_carried, depth - 1)
    if isinstance(schema, dict):
        return _complex_avro_kind(schema, named, not_carried, depth)
    return _Finding(None, "names no type")


_COMPLEX: Final = {
    "enum": _Finding(Kind.STRING, "an enum"),
    "fixed": _Finding(Kind.BYTES, "fixed bytes"),
    "record": _Finding(None, f"is a record{_SORT_HINTS[_OBJECT]}"),
    "map": _Finding(None, f"is a map{_SORT_HINTS[_OBJECT]}"),
    "array": _Finding(None, f"is an array{_SORT_HINTS[_ARRAY]}"),
}


def _complex_avro_kind(
    schema: Mapping[str, object], named: dict[str, object], not_carried: set[str], depth: int
) -> _Finding:
    word, name, logical = schema.get("type"), schema.get("name"), schema.get("logicalType")
    if isinstance(name, str):
        named[name.rpartition(".")[2]] = schema
    if isinstance(logical, str) and logical in _LOST:
        return _Finding(None, _LOST[logical])
    if isinstance(logical, str) and logical in _MOMENTS and word == "long":
        return _Finding(Kind.TIMESTAMP, logical)
    if isinstance(word, str) and word in _COMPLEX:
        not_carried |= {"symbols", "size"} & set(schema)
        return _COMPLEX[word]
    found = _avro_kind(word, named, not_carried, depth - 1)
    if found.kind is not None and isinstance(logical, str):
        return _Finding(found.kind, f"{_shown(logical)}, as Avro writes it")
    return found
