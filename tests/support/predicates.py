"""Random kinds, values, events, atoms and predicates that collide often enough to be interesting.

Literals and values come from the same small pools, so that a random event has
a fair chance of meeting a random filter. `predicates()` draws kinds freely:
the same uid may be asked as an int here and as a string there, which is what
an attacker would do. Pass `kinds=KINDS` for predicates that a type check accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from maia.events import (
    INSTANT_MAX,
    INSTANT_MIN,
    INT_MAX,
    INT_MIN,
    AttributeUid,
    Event,
    Instant,
    Kind,
    PresentValue,
)
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)

UIDS: tuple[AttributeUid, ...] = tuple(AttributeUid(text) for text in ("plate", "speed", "c-1"))

KINDS: Mapping[AttributeUid, Kind] = {
    AttributeUid("plate"): Kind.STRING,
    AttributeUid("speed"): Kind.INT,
    AttributeUid("c-1"): Kind.FLOAT,
    AttributeUid("seen"): Kind.TIMESTAMP,
    AttributeUid("stolen"): Kind.BOOL,
    AttributeUid("photo"): Kind.BYTES,
}

POOLS: Mapping[Kind, Sequence[PresentValue]] = {
    Kind.STRING: (
        "",
        "a",
        "b",
        "ab",
        "ba",
        "aab",
        "a b",
        "b a",
        "a ab b",
        " ",
        "aba",
        "é",
        "\U0010ffff",
        "\ue000",
        "/a",
        "/a/b",
        "/b/b/a",
        "/a//b",
    ),
    Kind.INT: (-1, 0, 1, 2, 3, 7, INT_MIN, INT_MAX, 2**53 + 1),
    Kind.FLOAT: (-1.0, 0.0, 5e-324, 0.5, 1.0, 2.0, 2.0**53, 1.7976931348623157e308, -1.7976931348623157e308),
    Kind.BOOL: (False, True),
    Kind.TIMESTAMP: tuple(
        Instant(us) for us in (-1, 0, 1, 2, 1_795_000_000_000_000, INSTANT_MIN, INSTANT_MAX)
    ),
    Kind.BYTES: (b"", b"\x00", b"a", b"ab", b"a\x00", b"\xff", b"\xff\xff"),
}

TEXTS: tuple[str, ...] = ("a", "b", "ab", "ba", "aa", "", " ", "a b", "é")
PATTERNS: tuple[str, ...] = ("/a", "/a/#", "/+", "/+/b", "/+/+/#", "/a/+/#", "/b/b/a")
TOKENS: tuple[str, ...] = ("a", "b", "ab", "aab", "é")

_TESTS = (TextTest.PREFIX, TextTest.SUFFIX, TextTest.CONTAINS)
_EVERY_VALUE: tuple[PresentValue, ...] = tuple(value for kind in Kind for value in POOLS[kind])


def values(kind: Kind) -> SearchStrategy[PresentValue]:
    """Draw a value of one kind from its small pool."""
    return st.sampled_from(POOLS[kind])


def any_values() -> SearchStrategy[PresentValue]:
    """Draw a value of any kind."""
    return st.sampled_from(_EVERY_VALUE)


@cache
def wild_values(kind: Kind) -> SearchStrategy[PresentValue]:
    """Draw from everything that a kind allows, corners included."""
    return {
        Kind.STRING: st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12),
        Kind.INT: st.integers(INT_MIN, INT_MAX),
        Kind.FLOAT: st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
        Kind.BOOL: st.booleans(),
        Kind.TIMESTAMP: st.integers(INSTANT_MIN, INSTANT_MAX).map(Instant),
        Kind.BYTES: st.binary(max_size=12),
    }[kind]


def events(kinds: Mapping[AttributeUid, Kind] | None = None) -> SearchStrategy[Event]:
    """Draw an event, attributes missing or not: with `kinds`, well typed; without, any kind under `UIDS`."""
    pools = {uid: POOLS[kind] for uid, kind in kinds.items()} if kinds else dict.fromkeys(UIDS, _EVERY_VALUE)
    drawn = st.tuples(*(st.sampled_from((None, *pool)) for pool in pools.values()))
    return drawn.map(
        lambda row: {uid: value for uid, value in zip(pools, row, strict=True) if value is not None}
    )


def atoms(kinds: Mapping[AttributeUid, Kind] | None = None, *, wild: bool = False) -> SearchStrategy[Atom]:
    """Draw one question about one attribute; `wild` draws literals from all that a kind allows."""
    pairs = tuple(kinds.items()) if kinds else tuple((uid, kind) for uid in UIDS for kind in Kind)
    return _wild_atoms(pairs) if wild else _pooled_atoms(pairs)


def atoms_about(uid: AttributeUid, kind: Kind, *, wild: bool = False) -> SearchStrategy[Atom]:
    """Draw one question about a given attribute, asked as a value of `kind`."""
    return atoms({uid: kind}, wild=wild)


@cache
def _pooled_atoms(pairs: tuple[tuple[AttributeUid, Kind], ...]) -> SearchStrategy[Atom]:
    # Every possible atom is listed once, so that drawing one is a single choice: laws run 100,000 times.
    pools = [
        [atom for pair in pairs for atom in _comparisons(*pair)],
        [atom for pair in pairs for atom in _memberships(*pair)],
        [Exists(uid) for uid in dict.fromkeys(uid for uid, _ in pairs)],
        [atom for uid, kind in pairs if kind is Kind.STRING for atom in _text_matches(uid)],
    ]
    choices = [st.sampled_from(pool) for pool in pools if pool]
    return st.one_of(*choices, *choices[3:], choices[0])


def _comparisons(uid: AttributeUid, kind: Kind) -> Iterator[Atom]:
    for operator in operators_of(kind):
        for literal in POOLS[kind]:
            yield Comparison(uid, operator, literal)


def operators_of(kind: Kind) -> tuple[Operator, ...]:
    """Return the comparisons that have a meaning for a kind."""
    return tuple(Operator) if kind.is_ordered else (Operator.EQ, Operator.NE)


def _memberships(uid: AttributeUid, kind: Kind) -> Iterator[Atom]:
    pool = POOLS[kind]
    for size in (1, 2, 3):
        for start in range(0, len(pool), 2):
            yield Membership(uid, frozenset(pool[start : start + size]))


def _text_matches(uid: AttributeUid) -> Iterator[Atom]:
    for test in _TESTS:
        for text in TEXTS:
            yield TextMatch(uid, test, text)
    for word in TOKENS:
        yield TextMatch(uid, TextTest.TOKEN, word)
    for pattern in PATTERNS:
        yield TextMatch(uid, TextTest.LEVELS, pattern)


@cache
def _wild_atoms(pairs: tuple[tuple[AttributeUid, Kind], ...]) -> SearchStrategy[Atom]:
    return st.one_of([_wild_atoms_about(uid, kind) for uid, kind in pairs])


@cache
def _wild_atoms_about(uid: AttributeUid, kind: Kind) -> SearchStrategy[Atom]:
    literals, about = wild_values(kind), st.just(uid)
    choices: list[SearchStrategy[Atom]] = [
        st.builds(Comparison, about, st.sampled_from(operators_of(kind)), literals),
        st.builds(Membership, about, st.frozensets(literals, min_size=1, max_size=3)),
        st.just(Exists(uid)),
    ]
    if kind is Kind.STRING:
        words = literals.map(lambda text: text.replace(" ", "-") or "word")
        choices.append(st.builds(TextMatch, about, st.sampled_from(_TESTS), literals))
        choices.append(st.builds(TextMatch, about, st.just(TextTest.TOKEN), words))
        choices.append(st.builds(TextMatch, about, st.just(TextTest.LEVELS), st.sampled_from(PATTERNS)))
    return st.one_of(choices)


def literals_of_logic(
    kinds: Mapping[AttributeUid, Kind] | None = None, *, wild: bool = False
) -> SearchStrategy[Predicate]:
    """Draw an atom or its negation."""
    return st.builds(
        lambda atom, negated: Not(atom) if negated else atom, atoms(kinds, wild=wild), st.booleans()
    )


def conjunctions(
    kinds: Mapping[AttributeUid, Kind] | None = None, *, max_size: int = 4
) -> SearchStrategy[Predicate]:
    """Draw a conjunction of possibly negated atoms: what covering promises to decide exactly."""
    return st.lists(literals_of_logic(kinds), max_size=max_size).map(lambda parts: AllOf(tuple(parts)))


def predicates(
    kinds: Mapping[AttributeUid, Kind] | None = None, *, max_leaves: int = 6, wild: bool = False
) -> SearchStrategy[Predicate]:
    """Draw any predicate: atoms under `and`, `or` and `not`, empty and single ones included."""
    return st.recursive(
        atoms(kinds, wild=wild),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, max_size=3).map(lambda parts: AllOf(tuple(parts))),
            st.lists(inner, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        ),
        max_leaves=max_leaves,
    )
