"""How is an event written as a line of JSON, and read off one?

JSON has no timestamps and no bytes: a timestamp is text such as
`2026-11-15T08:30:00Z`, or `now`, and bytes are hexadecimal digits. Numbers
stay numbers, and what does not fit its attribute is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from maia.errors import BadInput
from maia.events import BadValue, Instant, Kind, Value, checked_value

if TYPE_CHECKING:
    from maia.types import TypeShape


LINE_MAX: Final = 1 << 20
"""The longest line that is read as one event."""


class BadEventLine(BadInput):
    """A line or an option does not hold an event of the type."""

    code = "INPUT-EVENT"


def event_from_line(line: str, event_type: TypeShape, *, now: Instant) -> dict[str, Value]:
    """Read one event from a JSON object with the attributes' names."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise BadEventLine(f"`{line.strip()[:60]}` is not a line of JSON") from problem
    if not isinstance(record, dict):
        raise BadEventLine(f'`{line.strip()[:60]}` is not a JSON object such as {{"name": value}}')
    return {name: _from_json(name, value, event_type, now) for name, value in record.items()}


def event_from_words(words: Iterable[str], event_type: TypeShape, *, now: Instant) -> dict[str, Value]:
    """Read one event from `name=value` options."""
    event: dict[str, Value] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise BadEventLine(f"`{word[:60]}` is not `name=value`")
        if name in event:
            raise BadEventLine(f"`{name[:64]}` is set twice")
        event[name] = _from_text(name, text, event_type, now)
    return event


def record_of(event: Mapping[str, Value]) -> dict[str, object]:
    """Return an event as JSON can hold it."""
    return {name: _to_json(value) for name, value in event.items()}


def _kind(name: str, event_type: TypeShape) -> Kind:
    known = {attribute.name: attribute.kind for attribute in event_type.attributes}
    if name not in known:
        raise BadEventLine(f"the type has no attribute `{name[:64]}`; it has {', '.join(known)}")
    return known[name]


def _from_json(name: str, value: object, event_type: TypeShape, now: Instant) -> Value:
    kind = _kind(name, event_type)
    if value is None:
        return None
    if isinstance(value, str) and kind in (Kind.TIMESTAMP, Kind.BYTES):
        return _from_text(name, value, event_type, now)
    try:
        if kind is Kind.FLOAT and type(value) is int:
            value = float(value)  # JSON does not tell 1 from 1.0
        return checked_value(value, kind)
    except (BadValue, OverflowError) as problem:
        raise BadEventLine(f"`{name}` is of kind {kind.value}, and `{_shown(value)}` is not") from problem


def _from_text(name: str, text: str, event_type: TypeShape, now: Instant) -> Value:
    kind = _kind(name, event_type)
    try:
        match kind:
            case Kind.STRING:
                return text
            case Kind.INT:
                return int(text)
            case Kind.FLOAT:
                return float(text)
            case Kind.BOOL:
                return {"true": True, "false": False}[text]
            case Kind.BYTES:
                return bytes.fromhex(text)
            case Kind.TIMESTAMP:
                return now if text == "now" else Instant.parse(text)
    except (ValueError, KeyError, BadInput) as problem:
        raise BadEventLine(f"`{name}` is of kind {kind.value}, and `{text[:60]}` is not") from problem


def _to_json(value: Value) -> object:
    if isinstance(value, Instant):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def _shown(value: object) -> str:
    return json.dumps(value)[:60]
