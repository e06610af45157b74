"""How do received statements survive a restart?

    (heard SERIES (spent MICROSECONDS) (statements SIGNED ...) (newest ID ...)
      (hold SINCE UNTIL ID ...)*)

One record holds one series. The verifier writes each before it
acts on the statement, and reads all of them before it decides anything. The
statements inside are as they were signed, and are checked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from maia.canonical import Limits, SExpression, read_canonical, write_canonical
from maia.canonical.fields import number
from maia.credentials.statements import (
    STATEMENT_BYTES_MAX,
    BadStatement,
    OneTimeAnswer,
    SignedStatement,
    check_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.errors import BadInput
from maia.events import Instant
from maia.validity.series import (
    HOLDS_MAX,
    SAID_MAX,
    SOURCES_MAX,
    Hold,
    Series,
    SeriesKind,
    kind_of_series,
    numbered,
)

_STATEMENTS_MAX: Final = HOLDS_MAX * SOURCES_MAX + SAID_MAX
_LIMITS: Final = Limits(
    size_max=_STATEMENTS_MAX * STATEMENT_BYTES_MAX, depth_max=4, atom_max=STATEMENT_BYTES_MAX
)
_KINDS: Final = {kind.value.encode(): kind for kind in SeriesKind}
_NUMBER: Final = number(-(10**19), 10**19, (BadStatement, "a record has a number that is none"))


def series_to_bytes(kind: SeriesKind, series: Series) -> bytes:
    """Return the record of a series."""
    return write_canonical(
        (
            b"heard",
            kind.value.encode(),
            (b"spent", b"%d" % series.spent),
            (b"statements", *map(statement_to_bytes, series.statements())),
            (b"newest", *(signed.id for signed in series.said)),
            *(_hold_to_expression(hold) for hold in series.holds),
        )
    )


def series_from_bytes(record: bytes) -> tuple[SeriesKind, Series]:
    """Read a record; every statement in it is read and checked as strictly as when it arrived."""
    try:
        expression = read_canonical(record, _LIMITS)
    except BadInput as problem:
        raise BadStatement(f"a record of statements cannot be read: {problem.message}") from problem
    match expression:
        case (
            b"heard",
            bytes(word),
            (b"spent", spent),
            (b"statements", *data),
            (b"newest", *ids),
            *holds,
        ) if word in _KINDS and ids:
            known = {signed.id: signed for signed in map(_statement, data)}
            series = Series(
                _named(ids, known), tuple(_hold(hold, known) for hold in holds), _NUMBER.read(spent)
            )
            return _KINDS[word], _checked(series, _KINDS[word])
    raise BadStatement("a record of statements is not written as it must be")


def _hold_to_expression(hold: Hold) -> SExpression:
    return (b"hold", b"%d" % hold.since, b"%d" % hold.until, *(signed.id for signed in hold.sources))


def _statement(expression: SExpression) -> SignedStatement:
    if not isinstance(expression, bytes):
        raise BadStatement("a record holds statements as they were signed")
    signed = statement_from_bytes(expression)
    check_statement(signed)
    return signed


def _named(ids: Sequence[SExpression], known: dict[bytes, SignedStatement]) -> tuple[SignedStatement, ...]:
    found = [known.get(identifier) for identifier in ids if isinstance(identifier, bytes)]
    if len(found) != len(ids) or None in found:
        raise BadStatement("a record names a statement that it does not hold")
    return tuple(signed for signed in found if signed is not None)


def _hold(expression: SExpression, known: dict[bytes, SignedStatement]) -> Hold:
    match expression:
        case (b"hold", since, until, *ids) if ids:
            return Hold(Instant(_NUMBER.read(since)), Instant(_NUMBER.read(until)), _named(ids, known))
    raise BadStatement("a record of statements is not written as it must be")


def _checked(series: Series, kind: SeriesKind) -> Series:
    """Refuse a record that mixes issuers, kinds or numbers, or that holds more than was ever said."""
    held = series.statements()
    if any(isinstance(signed.statement, OneTimeAnswer) for signed in held):
        raise BadStatement("a record holds a one-time answer")
    if {kind_of_series(numbered(signed)) for signed in held} != {kind}:
        raise BadStatement("a record mixes kinds of statements")
    said = [numbered(signed).sequence for signed in series.said]
    in_order = said == sorted(said) and len(said) <= SAID_MAX
    is_newest = in_order and said[-1] == numbered(held[-1]).sequence
    if len({signed.statement.by for signed in held}) != 1 or not is_newest:
        raise BadStatement("a record mixes issuers, or its newest statement is not the newest")
    in_order = all(one.until < other.since for one, other in pairwise(series.holds))
    if not in_order or not all(map(_was_said, series.holds)):
        raise BadStatement("a record holds a period that no statement in it has")
    return series


def _was_said(hold: Hold) -> bool:
    """Return whether each source of a period holds all the while."""
    periods = [numbered(signed).period for signed in hold.sources]
    said = [
        one for one in periods if one is not None and one.contains(hold.since) and one.contains(hold.until)
    ]
    return hold.since <= hold.until and len(said) == len(periods)
