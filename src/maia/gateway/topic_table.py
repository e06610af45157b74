"""Which Maia type, and which values, does an MQTT message mean, and the other way round?

The operator declares a table. A row maps MQTT topics to one event type:

    city/plates/{location}    one level holds an attribute, in percent encoding (`%2F` is a slash)
    news/#                    everything below is a path in a tree of topics

and says how the payload holds the other attributes: JSON, CBOR, or the payload as it is in one
attribute. An attribute that is null, or that its reader may not see, is absent from the payload;
without any, a JSON or CBOR payload is an empty map, and a plain one is empty. A topic that no row
declares does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import repeat
from typing import Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import msgspec

from maia.bounded_map import BoundedMap
from maia.client.entries import TOPICS_MAX, check_several
from maia.credentials import BadName
from maia.errors import BadInput
from maia.events import Attribute, BadValue, Instant, Kind, Value, checked_value
from maia.gateway.payloads import JsonPayloads, decode_map, encode_map
from maia.predicates import ALWAYS, AllOf, AnyOf, Comparison, Operator, Predicate
from maia.predicates.path_patterns import PathPattern, parse_path_pattern
from maia.types import VerifiedType
from maia.types.definition import CONTENT_TYPE, PAYLOAD, TOPIC, checked_topic, on_topics, tree_root

TOPIC_BYTES_MAX: Final = 1024
LEVELS_MAX: Final = 32
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SAFE: Final = "!$&'()*,-.:;<=>@_~ "
"""Beside letters and digits, what stands for itself in a level that holds an attribute."""


class BadTopic(BadInput):
    """A text is no MQTT topic name or filter, or is longer than the gateway reads."""

    code = "INPUT-MQTT-TOPIC"


class NotDeclared(BadInput):
    """No row of the gateway's table maps this MQTT topic to a type."""

    code = "INPUT-MQTT-NOT-DECLARED"


class BadPayload(BadInput):
    """A payload or a level of the topic does not hold values of the type."""

    code = "INPUT-MQTT-PAYLOAD"


_TOPICS_REMEMBERED: Final = 1024


Columns: TypeAlias = Mapping[str, Sequence[Value]]
"""Events by column: the values of each attribute by its name; an attribute that none has may be left out."""


class PayloadForm(Enum):
    """How a payload holds attributes."""

    JSON = "json"
    CBOR = "cbor"
    PLAIN = "plain"


# ------------------------------------------------------------ topics and filters of MQTT


def check_topic_name(topic: str) -> list[str]:
    """Return the levels of a topic name; refuse wildcards, control characters and too many levels."""
    if not topic or len(topic.encode()) > TOPIC_BYTES_MAX or "+" in topic or "#" in topic:
        raise BadTopic(f"`{_shown(topic)}` is no topic name")
    return _levels(topic)


def check_filter(text: str) -> tuple[str | None, list[str]]:
    """Return the share name (None for an ordinary one) and the levels of a topic filter."""
    group = None
    if len(text.encode()) > TOPIC_BYTES_MAX:  # its share name included: it is kept
        raise BadTopic("a topic filter is too long")
    if text.startswith("$share/"):
        group, slash, rest = text.removeprefix("$share/").partition("/")
        if not group or not slash or "+" in group or "#" in group:
            raise BadTopic(f"`{_shown(text)}` is no shared subscription such as `$share/group/topic`")
        text = rest
    if not text:
        raise BadTopic("a topic filter is empty")
    levels = _levels(text)
    for number, level in enumerate(levels, start=1):
        has_wildcard = "+" in level or "#" in level
        if (has_wildcard and len(level) > 1) or (level == "#" and number < len(levels)):
            raise BadTopic(
                f"`{_shown(text)}` has a wildcard that is not a whole level, or `#` before the end"
            )
    return group, levels


def matches(wanted: Sequence[str], topic: Sequence[str]) -> bool:
    """Return whether the levels of a filter admit those of a topic name (MQTT 5.0, section 4.7)."""
    if topic[0].startswith("$") and wanted[0] in ("+", "#"):
        return False
    for number, level in enumerate(wanted):
        if level == "#":
            return True
        if number >= len(topic) or level not in ("+", topic[number]):
            return False
    return len(wanted) == len(topic)


def _levels(text: str) -> list[str]:
    levels = text.split("/")
    if len(levels) > LEVELS_MAX:
        raise BadTopic(f"a topic has more than {LEVELS_MAX} levels")
    if _CONTROL.search(text):
        raise BadTopic("a topic holds a control character")
    return levels


def _shown(text: str) -> str:
    return text[:64].encode("unicode_escape").decode()


# ------------------------------------------------------------ one row


@dataclass(frozen=True, slots=True)
class TopicInterest:
    """What one filter wants of one row: the filter of the Maia subscription. `row` is its number."""

    row: int
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One line of the table: topics, the type that they mean, and how payloads are read."""

    mqtt: str
    levels: tuple[str | Attribute, ...]
    """Fixed texts, and attributes that a level holds; of a tree, the part before `#`."""
    root: str | None
    """The root of the tree of topics, if the type is one."""
    event_type: VerifiedType = field(repr=False)
    form: PayloadForm = PayloadForm.JSON
    attribute: Attribute | None = None
    """Where a plain payload is kept."""
    carried: tuple[Attribute, ...] = ()
    """Attributes that a payload holds, and the topic does not."""
    is_durable: bool = False
    is_retained: bool = False
    by_name: Mapping[str, Attribute] = field(init=False, repr=False)
    """Attributes that a payload holds, by their names."""
    json: JsonPayloads | None = field(init=False, repr=False)
    """How JSON is written, and read if it has nothing odd in it."""
    only_topic: str | None = field(init=False, repr=False)
    """The topic of all messages, if no level holds an attribute."""

    def __post_init__(self) -> None:
        """Find names once."""
        fixed = [one for one in self.levels if isinstance(one, str)]
        is_fixed = self.root is None and len(fixed) == len(self.levels)
        object.__setattr__(self, "only_topic", "/".join(fixed) if is_fixed else None)
        object.__setattr__(self, "by_name", {one.name: one for one in self.carried})
        json = JsonPayloads(self.carried) if self.form is PayloadForm.JSON else None
        object.__setattr__(self, "json", json)

    # -------------------------------------------------------- a message becomes an event

    def with_payload(
        self, event: dict[str, Value], payload: bytes, content_type: str | None
    ) -> dict[str, Value]:
        """Add what the payload says to what the topic says."""
        if not payload:
            return event
        if self.form is PayloadForm.PLAIN:
            assert self.attribute is not None  # noqa: S101 - `row_of` has seen to it
            event[self.attribute.name] = _from_plain(payload, self.attribute)
            if content_type is not None and CONTENT_TYPE in self.carried:
                event[CONTENT_TYPE.name] = content_type
            return event
        for name, value in _fields(payload, self.form).items():
            attribute = self.by_name.get(name)
            if attribute is None:
                known = ", ".join(self.by_name)
                raise BadPayload(f"the payload names `{_shown(name)}`; it may hold {known}")
            event[name] = _from_field(value, attribute)
        return event

    def of_topic(self, topic: Sequence[str]) -> dict[str, Value] | None:
        """Return the attributes that a topic holds; None if it is not of this row."""
        if len(topic) < len(self.levels) or (self.root is None and len(topic) > len(self.levels)):
            return None
        event: dict[str, Value] = {}
        for level, text in zip(self.levels, topic, strict=False):
            if isinstance(level, str):
                if level != text:
                    return None
            elif text:
                event[level.name] = _from_text(_unquoted(text), level)
        if self.root is not None:
            path = "/".join((self.root, *topic[len(self.levels) :]))
            event[TOPIC.name] = checked_topic(path, self.root)
        return event

    def columns_of(
        self, held: Mapping[str, Value], payloads: Sequence[bytes], content_type: str | None
    ) -> Columns:
        """Return the events of payloads on one topic, by column; raise if one of them means none."""
        columns: Columns | None = None
        if self.json is not None and all(payloads):
            columns = self.json.read(payloads)
        if columns is None:
            events = [self.with_payload({}, one, content_type) for one in payloads]
            columns = {name: [event.get(name) for event in events] for name in set().union(*events)}
        if not held:
            return columns
        return {**columns, **{name: (value,) * len(payloads) for name, value in held.items()}}

    # -------------------------------------------------------- events become messages

    def messages_of(self, columns: Columns, rows: int) -> list[tuple[str, bytes, str | None]]:
        """Return topic, payload and content type of each event; what is null is absent."""
        topics = (self.only_topic,) * rows if self.only_topic is not None else self._topics_of(columns, rows)
        nulls = (None,) * rows
        if self.json is not None:
            payloads = self.json.write(columns, rows)
            return list(zip(topics, payloads, repeat("application/json"), strict=False))
        if self.form is PayloadForm.PLAIN:
            assert self.attribute is not None  # noqa: S101 - `row_of` has seen to it
            said = columns.get(CONTENT_TYPE.name, nulls) if CONTENT_TYPE in self.carried else nulls
            held = columns.get(self.attribute.name, nulls)
            return [
                (topic, _to_plain(value), one if isinstance(one, str) else None)
                for topic, value, one in zip(topics, held, said, strict=True)
            ]
        given = [columns.get(name, nulls) for name in self.by_name]
        messages: list[tuple[str, bytes, str | None]] = []
        for topic, values in zip(topics, zip(*given, strict=True) if given else [()] * rows, strict=True):
            found = {
                name: value for name, value in zip(self.by_name, values, strict=True) if value is not None
            }
            messages.append((topic, encode_map(found), "application/cbor"))
        return messages

    def message_of(self, event: Mapping[str, Value]) -> tuple[str, bytes, str | None]:
        """Return topic, payload and content type of one event."""
        return self.messages_of({name: (value,) for name, value in event.items()}, 1)[0]

    def clears(self, event: Mapping[str, Value]) -> bool:
        """Return whether an event holds nothing beside its topic, which has then no retained message."""
        return all(event.get(name) is None for name in self.by_name)

    def _topics_of(self, columns: Columns, rows: int) -> Sequence[str]:
        names = [one.name for one in self.levels if isinstance(one, Attribute)]
        names += [TOPIC.name] if self.root is not None else []
        nulls = (None,) * rows
        known: dict[tuple[Value, ...], str] = {}
        topics: list[str] = []
        for values in zip(*[columns.get(name, nulls) for name in names], strict=True):
            topic = known.get(values)
            if topic is None:
                held = iter(values)
                levels = [one if isinstance(one, str) else _quoted(next(held)) for one in self.levels]
                if self.root is not None:
                    path = values[-1]
                    levels += path.removeprefix(self.root).split("/")[1:] if isinstance(path, str) else [""]
                topic = known[values] = "/".join(levels)
            topics.append(topic)
        return topics

    # -------------------------------------------------------- a filter becomes a predicate

    def interest(self, number: int, wanted: Sequence[str]) -> TopicInterest | None:
        """Return what a filter wants of this row; None if it admits none of its topics."""
        if wanted[0] in ("+", "#") and isinstance(self.levels[0], str) and self.levels[0].startswith("$"):
            return None
        parts: list[Predicate] = []
        for at, level in enumerate(self.levels):
            if at >= len(wanted):
                return None
            text = wanted[at]
            if text == "#":
                return TopicInterest(number, _all_of(parts))
            if text in ("+", level):
                continue
            if isinstance(level, str):
                return None
            if not text:
                continue  # the level of an event whose attribute is absent; no predicate says that
            try:
                value = _from_text(_unquoted(text), level)
            except BadPayload:
                return None
            if value is not None:
                parts.append(Comparison(level.uid, Operator.EQ, value))
        rest = wanted[len(self.levels) :]
        if self.root is None:
            return TopicInterest(number, _all_of(parts)) if not rest or rest == ["#"] else None
        pattern = _pattern(self.root, rest)
        if pattern is None:
            return None
        return TopicInterest(
            number, _all_of([*parts, on_topics([pattern])]) if rest != ["#"] else _all_of(parts)
        )


def row_of(
    *,
    mqtt: str,
    event_type: VerifiedType,
    form: PayloadForm,
    attribute: str | None,
    is_durable: bool,
    is_retained: bool,
) -> TopicRow:
    """Check a declared row against its type."""
    root = tree_root(event_type.name.name)
    texts = _levels(mqtt)
    if root is not None:
        if texts[-1] != "#" or len(texts) < 2:
            raise BadInput(
                "INPUT-MQTT-TABLE", f"`{event_type.name.name}` is a tree of topics: write `name/#`"
            )
        texts = texts[:-1]
    vocabulary = event_type.vocabulary
    levels: list[str | Attribute] = []
    for text in texts:
        if text.startswith("{") and text.endswith("}"):
            if text[1:-1] not in vocabulary:
                raise BadInput(
                    "INPUT-MQTT-TABLE",
                    f"the type has no attribute `{_shown(text[1:-1])}`; it has {', '.join(vocabulary)}",
                )
            levels.append(vocabulary[text[1:-1]])
        elif not text or any(one in text for one in "+#{}"):
            raise BadInput(
                "INPUT-MQTT-TABLE", f"`{_shown(text)}` is neither a fixed level nor `{{attribute}}`"
            )
        else:
            levels.append(text)
    if isinstance(levels[0], str) and levels[0].startswith("$"):
        raise BadInput("INPUT-MQTT-TABLE", "topics that begin with `$` are reserved")
    in_topic = {one.name for one in levels if isinstance(one, Attribute)}
    in_topic |= {TOPIC.name} if root is not None else set()
    carried = tuple(one for one in event_type.attributes if one.name not in in_topic)
    holder: Attribute | None = None
    if form is PayloadForm.PLAIN:
        name = attribute or PAYLOAD.name
        holder = next((one for one in carried if one.name == name), None)
        if holder is None:
            raise BadInput(
                "INPUT-MQTT-TABLE",
                "a plain payload needs an `attribute` of the type; "
                f"`{_shown(name)}` is none, or in the topic",
            )
    elif attribute is not None:
        raise BadInput("INPUT-MQTT-TABLE", "`attribute` is for plain payloads")
    return TopicRow(mqtt, tuple(levels), root, event_type, form, holder, carried, is_durable, is_retained)


# ------------------------------------------------------------ the table


class TopicTable:
    """All rows that the operator declared."""

    def __init__(self, rows: Iterable[TopicRow]) -> None:
        """Take the rows in their order; the first that fits a topic counts."""
        self.rows = tuple(rows)
        self._topics: BoundedMap[str, tuple[int, dict[str, Value]]] = BoundedMap(_TOPICS_REMEMBERED)

    def columns_of(
        self, topic: str, payloads: Sequence[bytes], content_type: str | None
    ) -> tuple[int, Columns]:
        """Return the row of messages on one topic and their events; raise if one of them means none."""
        try:
            number, held = self._topics.get(topic) or self._row_of(topic)
            return number, self.rows[number].columns_of(held, payloads, content_type)
        except (BadName, BadValue) as problem:
            raise BadPayload(problem.message) from problem

    def on_topics(
        self, topics: Sequence[str], payload: bytes, content_type: str | None
    ) -> tuple[int, Columns, int]:
        """Return the row of a message, and its event on each of some topics; they are of one row."""
        if len(topics) == 1:
            return *self.columns_of(topics[0], [payload], content_type), 1
        each = dict.fromkeys(topics)
        if not 1 <= len(each) <= TOPICS_MAX:
            raise BadInput("INPUT-TOPICS", f"name 1 to {TOPICS_MAX} topics")
        found = [self.columns_of(one, [payload], content_type) for one in each]
        number = found[0][0]
        if any(row != number for row, _ in found):
            raise BadTopic("the topics of one publication are of one row of the table")
        if len(found) > 1:
            check_several(self.rows[number].event_type)
        names = {name: None for _, columns in found for name in columns}
        joined = {name: [columns.get(name, (None,))[0] for _, columns in found] for name in names}
        return number, joined, len(found)

    def _row_of(self, topic: str) -> tuple[int, dict[str, Value]]:
        levels = check_topic_name(topic)
        for number, row in enumerate(self.rows):
            held = row.of_topic(levels)
            if held is not None:
                self._topics.put(topic, (number, held))
                return number, held
        raise NotDeclared(f"no type is declared for messages on `{_shown(topic)}`")

    def interests(self, wanted: Sequence[str]) -> tuple[TopicInterest, ...]:
        """Return what a filter wants, row by row."""
        found = (row.interest(number, wanted) for number, row in enumerate(self.rows))
        return tuple(one for one in found if one is not None)

    def interests_of_any(self, filters: Sequence[Sequence[str]]) -> tuple[TopicInterest, ...]:
        """Return what several filters want together, row by row."""
        asked: dict[int, list[Predicate]] = {}
        for one in (one for wanted in filters for one in self.interests(wanted)):
            asked.setdefault(one.row, []).append(one.predicate)
        return tuple(
            TopicInterest(row, ALWAYS if ALWAYS in parts else AnyOf(tuple(parts)) if parts[1:] else parts[0])
            for row, parts in sorted(asked.items())
        )


# ------------------------------------------------------------ values


def _pattern(root: str, rest: Sequence[str]) -> PathPattern | None:
    try:
        return parse_path_pattern("/".join((root, *rest)))
    except (BadInput, BadName):
        return None


def _all_of(parts: Sequence[Predicate]) -> Predicate:
    return ALWAYS if not parts else parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _fields(payload: bytes, form: PayloadForm) -> Mapping[str, object]:
    if form is PayloadForm.CBOR:
        return decode_map(payload)
    try:
        found = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise BadPayload("the payload is not JSON") from problem
    if not isinstance(found, dict):
        raise BadPayload('the payload is not a JSON object such as {"name": value}')
    return found


def _from_field(value: object, attribute: Attribute) -> Value:
    kind = attribute.kind
    if value is None:
        return None
    if isinstance(value, str) and kind in (Kind.TIMESTAMP, Kind.BYTES):
        return _from_text(value, attribute)
    try:
        return checked_value(float(value) if kind is Kind.FLOAT and type(value) is int else value, kind)
    except (BadValue, OverflowError) as problem:
        raise BadPayload(f"`{attribute.name}` is a {kind.value}, and the payload holds none") from problem


def _from_text(text: str, attribute: Attribute) -> Value:
    try:
        match attribute.kind:
            case Kind.STRING:
                return checked_value(text, Kind.STRING)
            case Kind.INT:
                return checked_value(int(text), Kind.INT)
            case Kind.FLOAT:
                return checked_value(float(text), Kind.FLOAT)
            case Kind.BOOL:
                return {"true": True, "false": False}[text]
            case Kind.BYTES:
                return bytes.fromhex(text)
            case Kind.TIMESTAMP:
                return Instant.parse(text)
    except (ValueError, KeyError, BadInput) as problem:
        raise BadPayload(
            f"`{attribute.name}` is of kind {attribute.kind.value}, and `{_shown(text)}` is not"
        ) from problem


def _from_plain(payload: bytes, attribute: Attribute) -> Value:
    if attribute.kind is Kind.BYTES:
        return payload
    try:
        return _from_text(payload.decode("utf-8"), attribute)
    except UnicodeDecodeError as problem:
        raise BadPayload(
            f"`{attribute.name}` is a {attribute.kind.value}, and the payload is no text"
        ) from problem


def _to_plain(value: Value) -> bytes:
    return b"" if value is None else value if isinstance(value, bytes) else _as_text(value).encode()


def _as_text(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _quoted(value: Value) -> str:
    """Return an attribute as a level: nothing in it can begin another level or be a wildcard (A3)."""
    return "" if value is None else quote(_as_text(value), safe=_SAFE)


def _unquoted(level: str) -> str:
    try:
        return unquote_to_bytes(level).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise BadPayload("a level of the topic is not UTF-8 in percent encoding") from problem
