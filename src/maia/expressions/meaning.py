"""What does an expression come to for one event, and what do rules make of it?

This is the definition, plain and slow; every executor agrees with it bit by
bit. It is total: a missing operand, an overflow, a division by zero or a key
that is not at hand gives a missing value and never an error, so that no event can be
told from another by the way in which it fails.

Floats outside ±[1e-150, 1e150] take part in no arithmetic (0 does): inside,
no single step overflows or underflows, in any executor. Ints overflow
to missing. Division of ints rounds towards zero.
"""

from __future__ import annotations

import hmac
import operator
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, Protocol, assert_never

from maia.events import (
    INSTANT_MAX,
    INSTANT_MIN,
    INT_MAX,
    INT_MIN,
    SECOND,
    AttributeUid,
    Event,
    Instant,
    Kind,
    PresentValue,
    Value,
    kind_of,
)
from maia.expressions.syntax import (
    KEYED,
    UNITS,
    Arithmetic,
    ArithmeticSign,
    Call,
    Coalesce,
    Constant,
    Expression,
    Function,
    Rule,
    Scope,
    Take,
    assigned_kinds,
)
from maia.predicates.encoding import literal_to_bytes
from maia.predicates.meaning import verdict

SECRET_BYTES: Final = 32
FLOAT_LOW: Final = 1e-150
FLOAT_HIGH: Final = 1e150
_PSEUDONYM_DIGITS: Final = 32
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_TO_UPPER: Final = str.maketrans(_LOWER, _LOWER.upper())
_TO_LOWER: Final = str.maketrans(_LOWER.upper(), _LOWER)
_UNIT_BITS: Final = 53
CALCULATES: Final[dict[ArithmeticSign, Callable[[Any, Any], Any]]] = {
    ArithmeticSign.PLUS: operator.add,
    ArithmeticSign.MINUS: operator.sub,
    ArithmeticSign.TIMES: operator.mul,
    ArithmeticSign.OVER: operator.truediv,
}
"""What is done with two numbers that are in range, in Python and in whatever has Python's operators."""
# Any: two numbers, or two columns of them.
_NO_TABLES: Final[Mapping[str, Lookup]] = {}


class Lookup(Protocol):
    """A table of an issuer's: values by values, which may be renewed while it is used."""

    def find(self, key: PresentValue, kind: Kind) -> Value:
        """Return what the table has for a key, of this kind; None where it has nothing."""


class LookupTable:
    """A table in memory, with keys of one kind and values of one kind. Prints neither."""

    __slots__ = ("_key", "_rows", "_value")

    def __init__(self, key: Kind, value: Kind, rows: Mapping[PresentValue, PresentValue]) -> None:
        """Keep the rows."""
        self._key, self._value, self._rows = key, value, dict(rows)

    def find(self, key: PresentValue, kind: Kind) -> Value:
        """Return what the table has for a key; a key or a value of another kind is not there."""
        return self._rows.get(key) if kind is self._value and kind_of(key) is self._key else None


class KeyView:
    """The keys and tables for one transformation and one recipient; any may be missing. Prints none."""

    __slots__ = ("_by_scope", "_noise", "_tables")

    def __init__(
        self,
        by_scope: Mapping[Scope, bytes],
        tables: Mapping[str, Lookup] = _NO_TABLES,
        noise: Mapping[Scope, bytes] | None = None,
    ) -> None:
        """Keep a key for each scope, other keys of noise, and tables by name."""
        self._by_scope, self._tables = dict(by_scope), tables
        self._noise = self._by_scope if noise is None else dict(noise)

    def table(self, name: str) -> Lookup | None:
        """Return a table, if it is at hand."""
        return self._tables.get(name)

    def key(self, function: Function, scope: Scope) -> bytes | None:
        """Return the key of a function in a scope, if it is at hand."""
        return (self._noise if function is Function.PERTURB else self._by_scope).get(scope)


class TransformationKeys:
    """The secrets of the issuers whose keyed transformations are applied here, by the issuer's public key.

    An issuer's secret is used for that issuer's rules alone, so that no
    other issuer can ask for a pseudonym under it. Where it is missing, what
    depends on it is missing: each place that has the secret gives the same value, and no place another.
    """

    __slots__ = ("_secrets", "_tables")

    def __init__(
        self, secrets: Mapping[bytes, bytes], tables: Mapping[bytes, Mapping[str, Lookup]] | None = None
    ) -> None:
        """Keep the secrets, and the tables that issuers' rules look values up in."""
        if any(len(secret) != SECRET_BYTES for secret in secrets.values()):
            raise ValueError("a secret has another length")
        self._secrets = dict(secrets)
        self._tables = {issuer: dict(named) for issuer, named in (tables or {}).items()}

    def __bool__(self) -> bool:
        """Return whether there is any secret or table."""
        return bool(self._secrets or self._tables)

    @property
    def issuers(self) -> frozenset[bytes]:
        """Return the public keys of the issuers whose secrets or tables are here."""
        return frozenset(self._secrets) | frozenset(self._tables)

    def only(self, issuers: Iterable[bytes]) -> TransformationKeys:
        """Return the secrets and tables of some issuers alone, as far as they are here."""
        chosen = frozenset(issuers)
        return TransformationKeys(
            {one: secret for one, secret in self._secrets.items() if one in chosen},
            {one: tables for one, tables in self._tables.items() if one in chosen},
        )

    def with_tables(self, tables: Mapping[bytes, Mapping[str, Lookup]]) -> TransformationKeys:
        """Return the same secrets beside some tables."""
        return TransformationKeys(self._secrets, tables)

    def of(self, issuer: bytes, recipient: bytes, holder: bytes = b"") -> KeyView:
        """Return the keys and tables for an issuer's rules and one recipient.

        Noise goes by the `holder` of the certificate with the rules, and not by the key that asks: a holder
        that delegates to many keys of its own would average it away (A92).
        """
        secret, tables = self._secrets.get(issuer), self._tables.get(issuer, _NO_TABLES)
        if secret is None:
            return KeyView({}, tables) if tables else NO_KEY_VIEW
        domain, by_recipient = (
            _mac(secret, b"maia/1/transformation/domain"),
            b"maia/1/transformation/recipient\x00",
        )
        return KeyView(
            {Scope.DOMAIN: domain, Scope.RECIPIENT: _mac(secret, by_recipient + recipient)},
            tables,
            {Scope.DOMAIN: domain, Scope.RECIPIENT: _mac(secret, by_recipient + (holder or recipient))},
        )


NO_KEYS: Final = TransformationKeys({})
NO_KEY_VIEW: Final = KeyView({})


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, sha256)


# Rules.


def after_rules(
    rules: tuple[Rule, ...], event: Event, keys: KeyView = NO_KEY_VIEW, *, converts: bool = False
) -> dict[AttributeUid, PresentValue]:
    """Return the event after some rules, in order; a later one decides over an earlier one.

    All of them read `event` as it is given. If they convert, nothing but what they assign is left.
    An attribute with assignments has their kind: a value of another kind is missing.
    """
    after: dict[AttributeUid, Value] = {} if converts else dict(event)
    for rule in rules:
        answer = verdict(rule.condition, event)
        if answer is True:
            after[rule.uid] = None if rule.value is None else value_of(rule.value, event, keys)
        elif answer is None:
            after[rule.uid] = None
    kinds = assigned_kinds(rules)
    return {
        uid: value
        for uid, value in after.items()
        if value is not None and kinds.get(uid) in (None, kind_of(value))
    }


def value_of(expression: Expression, event: Event, keys: KeyView = NO_KEY_VIEW) -> Value:
    """Return what an expression comes to, or None where it has no value."""
    match expression:
        case Constant(value):
            return value
        case Take(uid, kind):
            found = event.get(uid)
            return found if found is not None and kind_of(found) is kind else None
        case Coalesce(parts):
            values = (value_of(part, event, keys) for part in parts)
            return next((value for value in values if value is not None), None)
        case Arithmetic(sign, left, right):
            one, other = value_of(left, event, keys), value_of(right, event, keys)
            return None if one is None or other is None else calculated(sign, one, other)
        case Call(function, inner, operands):
            given = value_of(inner, event, keys)
            if given is None:
                return None
            if function in KEYED:
                return keyed_result(expression, given, keys)
            return result_of(function, given, operands)
        case _:
            assert_never(expression)


def calculated(sign: ArithmeticSign, one: PresentValue, other: PresentValue) -> Value:
    """Return what two numbers of one kind come to."""
    if isinstance(one, float) and isinstance(other, float):
        return _float_calculated(sign, one, other)
    assert isinstance(one, int) and isinstance(other, int)  # noqa: S101, PT018 - the syntax allows nothing else
    if sign is not ArithmeticSign.OVER:
        return _in_range(CALCULATES[sign](one, other))
    if other == 0:
        return None
    found = abs(one) // abs(other)
    return _in_range(found if (one < 0) is (other < 0) else -found)


def in_float_range(number: float) -> bool:
    """Return whether a float takes part in arithmetic."""
    return number == 0.0 or FLOAT_LOW <= abs(number) <= FLOAT_HIGH


def _float_calculated(sign: ArithmeticSign, one: float, other: float) -> float | None:
    if not in_float_range(one) or not in_float_range(other) or (sign is ArithmeticSign.OVER and other == 0.0):
        return None
    return float(CALCULATES[sign](one, other)) + 0.0


def _in_range(number: int) -> int | None:
    return number if INT_MIN <= number <= INT_MAX else None


# The functions without a key take a present value of a kind that the syntax has checked.
def result_of(function: Function, value: PresentValue, operands: tuple[PresentValue, ...]) -> Value:
    """Return what a function without a key makes of a present value."""
    match function:
        case Function.ROUND_TO | Function.BUCKET:
            return _stepped(function, value, operands[0])
        case Function.TRUNCATE:
            step = UNITS[str(operands[0])] * SECOND
            return Instant(int(value) - int(value) % step)
        case Function.FIRST:
            return str(value)[: int(operands[0])]
        case Function.UPPER:
            return str(value).translate(_TO_UPPER)
        case Function.LOWER:
            return str(value).translate(_TO_LOWER)
        case Function.MASK:
            hidden = max(0, len(str(value)) - int(operands[0]))
            return "*" * hidden + str(value)[hidden:]
        case Function.DAY_OF:
            return int(value) // (UNITS["day"] * SECOND)
        case Function.HOUR_OF:
            return int(value) // (UNITS["hour"] * SECOND) % 24
        case _:
            raise AssertionError(f"{function} needs a key")


def _stepped(function: Function, value: PresentValue, step: PresentValue) -> Value:
    if isinstance(value, float) and isinstance(step, float):
        if not in_float_range(value):
            return None
        steps = value / step
        # Ties go to the even multiple; `round` of a float is exact.
        whole = float(round(steps))
        if function is Function.BUCKET and whole > steps:
            whole -= 1.0
        per_one = steps_in_one(step)
        return (whole * step if per_one is None else whole / per_one) + 0.0
    number, step = int(value), int(step)
    if function is Function.ROUND_TO:
        # A value half-way between two multiples goes to the higher one.
        number += step // 2
        if number > INT_MAX:
            return None
    return _in_range(number - number % step)


def steps_in_one(step: float) -> float | None:
    """Return how many steps make 1.0, where they do exactly: 41 steps of 0.1 are 41 / 10, and so 4.1."""
    if not FLOAT_LOW <= step < 1.0:
        return None
    per_one = float(round(1.0 / step))
    return per_one if 1.0 / per_one == step else None


# Keyed functions.


def keyed_result(call: Call, value: PresentValue, keys: KeyView) -> Value:
    """Return a pseudonym, a perturbed value or what a table has; missing where key or table is."""
    if call.function is Function.LOOKUP:
        table = keys.table(str(call.operands[0]))
        return None if table is None else table.find(value, call.kind)
    key = keys.key(call.function, call.scope)
    if key is None:
        return None
    if call.function is Function.PSEUDONYM:
        return pseudonym_of(key, value)
    bound = call.operands[0]
    assert isinstance(bound, int | float)  # noqa: S101 - the syntax allows nothing else
    return perturbed(key, value, bound)


def pseudonym_of(key: bytes, value: PresentValue) -> str:
    """Return 32 hexadecimal digits in place of a value: the same for equal values under one key."""
    return _digest(key, b"pseudonym", value).hex()[:_PSEUDONYM_DIGITS]


def perturbed(key: bytes, value: PresentValue, bound: float) -> Value:
    """Return a value moved by at most `bound`, which is in seconds for a moment.

    The noise depends on the key, the bound and the value alone. The same
    value is always moved by the same amount: reading it again, in other
    events, through another broker or in Spark, averages nothing out.
    """
    digest = _digest(key, b"perturb\x00" + literal_to_bytes(bound), value)
    if isinstance(value, float):
        if not in_float_range(value):
            return None
        unit = (int.from_bytes(digest[:8], "big") >> (64 - _UNIT_BITS)) / (1 << _UNIT_BITS)
        return value + (unit * 2.0 - 1.0) * bound + 0.0
    width = int(bound) * (SECOND if isinstance(value, Instant) else 1)
    moved = int(value) + int.from_bytes(digest[:24], "big") % (2 * width + 1) - width
    if isinstance(value, Instant):
        return Instant(moved) if INSTANT_MIN <= moved <= INSTANT_MAX else None
    return _in_range(moved)


def _digest(key: bytes, purpose: bytes, value: PresentValue) -> bytes:
    kind: Kind = kind_of(value)
    return _mac(key, purpose + b"\x00" + kind.value.encode() + b"\x00" + literal_to_bytes(value))
