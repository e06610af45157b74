"""Random views over random events, many at a time, with the answer that `see` gives.

Starting a query costs far more than one row of it, so a case is not one view
and one event but a batch of both: every view is asked about every event. A
batch comes from one seed, and is the same whenever that seed comes again.
Literals and values come from one small pool of awkward values, so that they
meet often.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Protocol

from maia.canonical import write_advanced
from maia.credentials import SigningKey, Transformation, TypeName
from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet
from maia.events import (
    INSTANT_MAX,
    INSTANT_MIN,
    INT_MAX,
    INT_MIN,
    Attribute,
    AttributeUid,
    Instant,
    Kind,
    PresentValue,
    Value,
)
from maia.expressions import (
    NO_KEYS,
    Arithmetic,
    ArithmeticSign,
    Call,
    Coalesce,
    Constant,
    Expression,
    Function,
    Rule,
    Take,
    TransformationKeys,
)
from maia.expressions.meaning import LookupTable
from maia.keystore.key_files import write_guarded_file
from maia.policy.view import View, Window, see
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)

PATH_PATTERNS: Final = ("/a", "/a/#", "/+/b", "/+/b/#", "/a/+", "/+")

# Fixed values that some system somewhere treats in a way of its own.
# fmt: off
POOL: Final[Mapping[Kind, tuple[PresentValue, ...]]] = {
    Kind.STRING: (
        "", " ", "  ", "a", "A", "b", "ab", "a b", "a  b", "a ", " a", "ab c", "b a b",
        "é", "e\u0301", "ß", "ss", "ı", "I", "i", "İ",
        "\uffff", "\U00010000", "\ud7ff", "\ue000", "\U0010ffff",
        "%", "_", "a%", "a_b", "\\", "\\%", "a\\", "'", "''", '"', "`", "``",
        "${a}", "${spark.app.name}", "{}", "%s", "$1", ":a", "?", "--", "'; DROP TABLE events; --",
        "\n", "a\nb", "\r\n", "\t", "a\t", "a\u00a0b", "\u200b", "a\u200bb", "\x01", "\x7f",
        "10", "10 ", "1e1", "true", "null", "NULL", "AE05 XYZ", "AE05 XYZ ", "ae05 xyz",
        "/a", "/A", "/a/b", "/a/b/", "/a//b", "/a\n/b", "/a/b\n", "/\U00010000/b", "/ab", "a/b",
    ),
    Kind.INT: (
        INT_MIN, INT_MIN + 1, -(2**53) - 1, -1, 0, 1, 2, 10,
        2**31 - 1, 2**31, 2**53, 2**53 + 1, INT_MAX - 1, INT_MAX,
    ),
    Kind.FLOAT: (
        -1.7976931348623157e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 2.2250738585072014e-308,
        0.1, 0.30000000000000004, 0.3, 1.0, 10.0, float(2**53), float(2**53 + 2), 1e300,
        1.7976931348623157e308,
    ),
    Kind.BOOL: (False, True),
    Kind.TIMESTAMP: (
        Instant(INSTANT_MIN), Instant(INSTANT_MIN + 1), Instant(-1), Instant(0), Instant(1),
        Instant.parse("1582-10-10T00:00:00Z"), Instant.parse("1900-01-01T00:00:00.000001Z"),
        Instant.parse("2026-03-29T01:30:00Z"), Instant.parse("2026-10-25T01:30:00Z"),
        Instant(INSTANT_MAX - 1), Instant(INSTANT_MAX),
    ),
    Kind.BYTES: (
        b"", b"\0", b"\0\0", b"a", b"a\0", b"ab", b"\x7f", b"\x80", b"\xff", b"\xff\xff",
        b"%", b"\\", b"'", b"\\x61",
    ),
}
# fmt: on

ROW: Final = AttributeUid("row")

STORED: Final[dict[AttributeUid, Kind]] = {
    ROW: Kind.INT,
    AttributeUid("plate"): Kind.STRING,
    AttributeUid("0-place"): Kind.STRING,
    AttributeUid("speed"): Kind.INT,
    AttributeUid("weight"): Kind.FLOAT,
    AttributeUid("wanted"): Kind.BOOL,
    AttributeUid("seen-at"): Kind.TIMESTAMP,
    AttributeUid("picture"): Kind.BYTES,
    AttributeUid("select"): Kind.STRING,
}
PUBLISHERS: Final = AttributeUid("publisher.clearance")
"""What conditions of rules ask about the publisher of an event; executors are handed it as a column."""

# Renamed, reordered, and one that is not stored.
DELIVERED: Final = (
    Attribute("row", ROW, Kind.INT),
    Attribute("Number-Plate", AttributeUid("plate"), Kind.STRING),
    Attribute("from", AttributeUid("select"), Kind.STRING),
    Attribute("weight", AttributeUid("weight"), Kind.FLOAT),
    Attribute("speed", AttributeUid("speed"), Kind.INT),
    Attribute("is_wanted", AttributeUid("wanted"), Kind.BOOL),
    Attribute("location", AttributeUid("0-place"), Kind.STRING),
    Attribute("timestamp", AttributeUid("seen-at"), Kind.TIMESTAMP),
    Attribute("picture", AttributeUid("picture"), Kind.BYTES),
    Attribute("colour", AttributeUid("added-later"), Kind.STRING),
)

ISSUER: Final = SigningKey.from_seed(b"i" * 32)
SECRET: Final = bytes(range(32))
LOOKUPS: Final = {
    (key, value): dict(zip(POOL[key][::2], POOL[value] * 20, strict=False)) for key in Kind for value in Kind
}
"""A table for every pair of kinds; every other key is in none."""
TABLES: Final = {f"{k.value} to {v.value}": LookupTable(k, v, rows) for (k, v), rows in LOOKUPS.items()}
KEYS: Final = TransformationKeys({ISSUER.principal.key: SECRET}, {ISSUER.principal.key: TABLES})

ASKED: Final = (*STORED, AttributeUid("added-later"))

Typed = tuple[str, Value]
"""A value beside its class: Python takes 1, 1.0 and True for equal."""

Answer = dict[int, dict[str, Typed]]
"""What one view shows: by row, the delivered attributes by name."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some views and some events; every view is asked about every event."""

    views: tuple[View, ...]
    events: tuple[dict[AttributeUid, PresentValue], ...]
    delivered: tuple[Attribute, ...] = DELIVERED
    stored: Mapping[AttributeUid, Kind] = field(default_factory=lambda: STORED)
    keys: TransformationKeys = NO_KEYS

    @property
    def cases(self) -> int:
        """Return how many questions the batch puts."""
        return len(self.views) * len(self.events)


class Executor(Protocol):
    """One way of running a View."""

    def answers(self, batch: Batch) -> list[Answer]:
        """Return what each view of the batch shows of its events."""


def write_secrets(path: Path) -> None:
    """Write the secret of the cases to a file."""
    issuer = (b"issuer", (b"ed25519", ISSUER.principal.key))
    text = write_advanced(
        (b"maia-transformation-keys", (b"version", b"1"), (b"key", issuer, (b"secret", SECRET)))
    )
    write_guarded_file(path, text + "\n")


def write_lookups(path: Path) -> None:
    """Write the tables of the cases to files beside one that names them."""
    lines: list[str] = []
    for number, ((key, value), rows) in enumerate(LOOKUPS.items()):
        cells = [[_cell(one), _cell(other)] for one, other in rows.items()]
        (path.parent / f"{number}.json").write_text(json.dumps(cells))
        lines += ["[[lookups]]", f'name = "{key.value} to {value.value}"', f'issuer = "{ISSUER.principal}"']
        lines += [
            f'key = "{key.value}"',
            f'value = "{value.value}"',
            'source = "file"',
            f'path = "{number}.json"',
        ]
        lines += ['columns = ["key", "value"]']
    path.write_text("\n".join(lines) + "\n")


def _cell(value: PresentValue) -> object:
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, Instant) else value


def expected_answers(batch: Batch) -> list[Answer]:
    """Return the answers by the definition."""
    return [_expected_answer(view, batch) for view in batch.views]


def _expected_answer(view: View, batch: Batch) -> Answer:
    shown = {row: see(view, event, batch.keys) for row, event in enumerate(batch.events)}
    return {row: translated(seen, batch.delivered) for row, seen in shown.items() if seen is not None}


def translated(
    seen: Mapping[AttributeUid, PresentValue], delivered: tuple[Attribute, ...]
) -> dict[str, Typed]:
    """Return a seen event by the names of a version; what was not seen is null."""
    return {attribute.name: typed(seen.get(attribute.uid)) for attribute in delivered}


def typed(value: Value) -> Typed:
    """Put a value beside its class."""
    return type(value).__name__, value


def assert_agrees(executor: Executor, batch: Batch) -> None:
    """Compare an executor with the definition, and name the first view and event that differ."""
    found, expected = executor.answers(batch), expected_answers(batch)
    assert len(found) == len(expected)
    for view, got, wanted in zip(batch.views, found, expected, strict=True):
        for row, event in enumerate(batch.events):
            assert got.get(row) == wanted.get(row), f"\nview: {view}\nevent: {event}"
        assert got.keys() <= set(range(len(batch.events)))


def random_batch(
    seed: int, *, views: int = 20, events: int = 60, keyed: float = 0.5, has_publishers: bool = False
) -> Batch:
    """Return the batch of a seed; half of its views transform what they show, a part of them with keys.

    Every fifth is a chain of many links: what a broker shows, every executor shows. With `has_publishers`,
    events have what rules ask about publishers as a column.
    """
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    drawn = (
        random_chain(random, keyed=random.random() < keyed)
        if number % 5 == 4
        else random_view(random, transforms=random.random() < 0.5, keyed=random.random() < keyed)
        for number in range(views)
    )
    found = tuple(drawn), tuple(random_event(random, row) for row in range(events))
    if not has_publishers:
        return Batch(*found, keys=KEYS)
    for event in found[1]:
        if (said := random.choice((None, 1, 2, 3))) is not None:
            event[PUBLISHERS] = said
    return Batch(*found, stored=STORED | {PUBLISHERS: Kind.INT}, keys=KEYS)


def random_chain(random: Random, *, keyed: bool = True) -> View:
    """Return a view whose steps are those of three to five links with two or three rules each."""
    links = random.choice((3, 4, 5))
    steps = tuple(random_transformation(random, keyed=keyed, rules=(2, 3)) for _ in range(links))
    interest = random_predicate(random, depth=2) if random.random() < 0.3 else ALWAYS
    return View((Window(ALWAYS, ALL_ATTRIBUTES, steps),), interest, recipient=b"r" * 32)


def random_event(random: Random, row: int) -> dict[AttributeUid, PresentValue]:
    """Return an event whose attributes are each missing now and then."""
    event: dict[AttributeUid, PresentValue] = {ROW: row}
    for uid, kind in STORED.items():
        if uid != ROW and random.random() < 0.8:
            event[uid] = random_value(random, kind)
    return event


def random_value(random: Random, kind: Kind) -> PresentValue:
    """Return an awkward value of a kind; now and then two of them in one string."""
    value = random.choice(POOL[kind])
    if isinstance(value, str) and random.random() < 0.2:
        return value + str(random.choice(POOL[kind]))
    return value + 0.0 if isinstance(value, float) else value


def random_view(random: Random, *, transforms: bool = False, keyed: bool = True) -> View:
    """Return a view of none to four windows, with or without an interest, and with transformations or not."""
    windows = tuple(
        random_window(random, transforms=transforms, keyed=keyed)
        for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 4)))
    )
    interest = random_predicate(random, depth=2) if random.random() < 0.6 else ALWAYS
    return View(windows, interest, recipient=b"r" * 32)


def random_window(random: Random, *, transforms: bool = False, keyed: bool = True) -> Window:
    """Return a window that always shows the row's number, by which answers are compared."""
    admits, shown = random_predicate(random, depth=3), random_attributes(random)
    steps = random.choice((0, 1, 1, 2)) if transforms else 0
    return Window(admits, shown, tuple(random_transformation(random, keyed=keyed) for _ in range(steps)))


def random_attributes(random: Random) -> AttributeSet:
    """Return a set of attributes with the row's number among them."""
    if random.random() < 0.2:
        return ALL_ATTRIBUTES
    return frozenset({ROW, *(uid for uid in ASKED if random.random() < 0.5)})


def random_transformation(
    random: Random, *, keyed: bool = True, rules: Sequence[int] = (1, 2, 3)
) -> Transformation:
    """Return a transformation that leaves the row's number alone."""
    made = [random_rule(random, keyed=keyed) for _ in range(random.choice(rules))]
    result = None
    if random.random() < 0.3:
        result = TypeName(ISSUER.principal, "Converted", "0")
        made.append(Rule(ROW, Take(ROW, Kind.INT)))
    restriction = random_predicate(random, depth=1) if random.random() < 0.3 else ALWAYS
    shown = random_attributes(random)
    return Transformation(ISSUER.principal, tuple(made), shown, restriction, result)


def random_rule(random: Random, *, keyed: bool = True) -> Rule:
    """Return an assignment of a value of the attribute's own kind."""
    uid = random.choice([uid for uid in ASKED if uid != ROW])
    value = None
    if random.random() < 0.9:
        value = random_expression(random, STORED.get(uid, Kind.STRING), depth=3, keyed=keyed)
    condition = random_predicate(random, depth=1) if random.random() < 0.5 else ALWAYS
    if random.random() < 0.2:  # what was not known when the right was decided is unknown, save of publishers
        about = AttributeUid(random.choice(("world.incident", "subscriber.clearance", PUBLISHERS)))
        unknown = Comparison(about, random.choice((Operator.EQ, Operator.NE)), random.choice((True, 2)))
        condition = random.choice((AnyOf, AllOf))((condition, random.choice((unknown, Not(unknown)))))
    return Rule(uid, value, condition)


def random_expression(  # noqa: PLR0912 - a case for each kind
    random: Random, kind: Kind, *, depth: int, keyed: bool = True
) -> Expression:
    """Return an expression of a kind over awkward values."""
    choice = random.random()
    if depth == 0 or choice < 0.25:
        if choice < 0.08:
            return Constant(random_value(random, kind))
        uids = [uid for uid, stored in STORED.items() if stored is kind and uid != ROW]
        uid = random.choice(uids) if random.random() < 0.9 else AttributeUid("added-later")
        return Take(uid, kind)

    def inner(of: Kind) -> Expression:
        return random_expression(random, of, depth=depth - 1, keyed=keyed)

    if choice < 0.35:
        return Coalesce((inner(kind), inner(kind)))
    scope = random.choice(("recipient", "domain"))
    if keyed and choice < 0.4:
        key = random.choice(list(Kind))
        table = random.choice((key, key, key, Kind.STRING))
        return Call(Function.LOOKUP, inner(key), (f"{table.value} to {kind.value}", kind.value))
    if keyed and choice < 0.45:
        if kind is Kind.STRING:
            return Call(Function.PSEUDONYM, inner(random.choice(list(Kind))), (scope,))
        if kind in (Kind.INT, Kind.TIMESTAMP):
            return Call(Function.PERTURB, inner(kind), (random.choice((1, 1000, 10**15)), scope))
        if kind is Kind.FLOAT:
            return Call(Function.PERTURB, inner(kind), (random.choice((0.5, 1e-100, 1e100)), scope))
    match kind:
        case Kind.STRING:
            function = random.choice((Function.FIRST, Function.MASK, Function.UPPER, Function.LOWER))
            counted = function in (Function.FIRST, Function.MASK)
            return Call(function, inner(kind), (random.choice((0, 1, 2, 5)),) if counted else ())
        case Kind.INT if choice < 0.6:
            return Call(random.choice((Function.DAY_OF, Function.HOUR_OF)), inner(Kind.TIMESTAMP))
        case Kind.INT | Kind.FLOAT if choice < 0.8:
            steps = (1, 2, 7, 10**15) if kind is Kind.INT else (0.1, 1.0, 2.5, 1e-100, 1e100)
            function = random.choice((Function.ROUND_TO, Function.BUCKET))
            return Call(function, inner(kind), (random.choice(steps),))
        case Kind.INT | Kind.FLOAT:
            return Arithmetic(random.choice(list(ArithmeticSign)), inner(kind), inner(kind))
        case Kind.TIMESTAMP:
            return Call(Function.TRUNCATE, inner(kind), (random.choice(("minute", "hour", "day")),))
        case _:
            return inner(kind)


def random_predicate(random: Random, *, depth: int) -> Predicate:
    """Return a predicate that nests at most `depth` connectives above its atoms."""
    choice = random.random()
    if depth == 0 or choice < 0.3:
        return random_atom(random)
    if choice < 0.5:
        return Not(random_predicate(random, depth=depth - 1))
    if choice > 0.97:
        return random.choice((ALWAYS, NEVER))
    parts = tuple(random_predicate(random, depth=depth - 1) for _ in range(random.choice((1, 2, 2, 3))))
    return AllOf(parts) if choice < 0.72 else AnyOf(parts)


def random_atom(random: Random) -> Predicate:
    """Return a question about one attribute, mostly of the kind that it has."""
    uid = random.choice(ASKED)
    right = STORED.get(uid, Kind.STRING)
    kind = right if random.random() < 0.9 else random.choice(list(Kind))
    choice = random.random()
    if choice < 0.12:
        return Exists(uid)
    if choice < 0.3:
        return Membership(
            uid, frozenset(random_value(random, kind) for _ in range(random.choice((1, 2, 5, 14))))
        )
    if kind is Kind.STRING and choice < 0.65:
        return random_text_match(random, uid)
    operators = list(Operator) if kind.is_ordered else [Operator.EQ, Operator.NE]
    return Comparison(uid, random.choice(operators), random_value(random, kind))


def random_text_match(random: Random, uid: AttributeUid) -> TextMatch:
    """Return a question about a string, with an operand that often occurs."""
    test = random.choice(list(TextTest))
    text = str(random_value(random, Kind.STRING))
    if test is TextTest.LEVELS:
        text = random.choice(PATH_PATTERNS)
    if test is TextTest.TOKEN:
        text = text.replace(" ", "") or "a"
    return TextMatch(uid, test, text)
