"""How do people write an expression or an assignment, and how do we write it back to them?

    reference := pseudonym(patient)
    place := first(place, 3) when not emergency == true
    dose := round_to(dose + 0.5, 5.0)
    ward := lookup("wards", ward)
    doctor := none

Names are those of an event type. Kinds are checked while reading: `dose + 1`
with a float dose is refused at its column, with a hint. A whole number beside
a float is read as that float. What `format_rule` writes reads back as the same rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Final, assert_never

from maia.events import Attribute, AttributeUid, Kind, PresentValue, Vocabulary
from maia.expressions.syntax import (
    EXPRESSION_DEPTH_MAX,
    Arithmetic,
    ArithmeticSign,
    BadExpression,
    Call,
    Coalesce,
    Constant,
    Expression,
    Function,
    Rule,
    Scope,
    Take,
    expression_size,
)
from maia.predicates.language.literals import NO_PARAMETERS, read_literal
from maia.predicates.language.parser import parse_predicate
from maia.predicates.language.scanner import BadPredicateText, Scanner
from maia.predicates.language.writer import format_literal, format_predicate
from maia.predicates.syntax import ALWAYS, Predicate

_TEXT_MAX: Final = 1 << 14
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NUMBER: Final = re.compile(r"[0-9]")
_WORDS: Final = frozenset({"true", "false", "none", "when", "coalesce"})
_FUNCTIONS: Final = {function.value: function for function in Function}
_SUMS: Final = (ArithmeticSign.PLUS, ArithmeticSign.MINUS)
_PRODUCTS: Final = (ArithmeticSign.TIMES, ArithmeticSign.OVER)
_DEFAULT_SCOPES: Final = {Function.PSEUDONYM: Scope.RECIPIENT, Function.PERTURB: Scope.DOMAIN}
"""Two recipients cannot link pseudonyms by comparing them; nor average noise, as both see the same."""


class BadExpressionText(BadPredicateText):
    """The text of an expression or an assignment cannot be read; `line` and `column` say where."""

    code = "INPUT-EXPRESSION-TEXT"


def parse_expression(
    text: str,
    vocabulary: Vocabulary,
    wanted: Kind | None = None,
    parameters: Mapping[str, PresentValue] = NO_PARAMETERS,
) -> Expression:
    """Read an expression over the attributes of a type, as one of the `wanted` kind if there is one."""
    parser = _Parser(_scanner(text), vocabulary, parameters)
    expression = parser.sum(wanted, depth=1)
    parser.finish(expression, wanted)
    return expression


def parse_rule(
    text: str,
    vocabulary: Vocabulary,
    assigned: Vocabulary | None = None,
    parameters: Mapping[str, PresentValue] = NO_PARAMETERS,
) -> Rule:
    """Read `name := expression`, with `when CONDITION` behind it or not.

    `vocabulary` is what the expression reads; `assigned` what may be assigned, where that is another type.
    """
    scanner = _scanner(text)
    parser = _Parser(scanner, vocabulary, parameters)
    target = parser.attribute(vocabulary if assigned is None else assigned)
    if not scanner.take(":="):
        raise scanner.expected("`:=`")
    value = None
    if not scanner.take_word("none"):
        value = parser.sum(target.kind, depth=1)
    condition: Predicate = ALWAYS
    if scanner.take_word("when"):
        # The condition is read in place, so that a complaint points at its own column.
        blank = "".join(c if c == "\n" else " " for c in text[: scanner.here()])
        condition = parse_predicate(blank + text[scanner.here() :], vocabulary, parameters)
        scanner.go_back(len(text))
    parser.finish(value, target.kind)
    return Rule(target.uid, value, condition)


def _scanner(text: str) -> Scanner:
    if len(text) > _TEXT_MAX:
        raise BadExpression(f"the text is longer than {_TEXT_MAX} characters")
    return Scanner(text)


class _Parser:
    """One reading. `wanted` is the kind that a literal is read as; it decides nothing else."""

    def __init__(
        self, scanner: Scanner, vocabulary: Vocabulary, parameters: Mapping[str, PresentValue]
    ) -> None:
        self._scanner, self._vocabulary, self._parameters = scanner, vocabulary, parameters

    def finish(self, expression: Expression | None, wanted: Kind | None) -> None:
        """Complain of what is left over, and of a result of another kind."""
        scanner = self._scanner
        if not scanner.at_end():
            raise scanner.expected("`+`, `-`, `*`, `/`, `when` or the end")
        if expression is None:
            return
        expression_size(expression)
        if wanted is not None and expression.kind is not wanted:
            said = f"a {wanted.value} is assigned here, and the expression is a {expression.kind.value}"
            raise scanner.refused(said, at=0, problem=BadExpressionText)

    def sum(self, wanted: Kind | None, *, depth: int) -> Expression:
        """Read products, added and subtracted from left to right."""
        return self._chain(_SUMS, wanted, depth)

    def _chain(self, signs: tuple[ArithmeticSign, ...], wanted: Kind | None, depth: int) -> Expression:
        scanner = self._scanner
        if depth > 2 * EXPRESSION_DEPTH_MAX:
            raise scanner.refused(f"this nests deeper than {EXPRESSION_DEPTH_MAX} levels")

        def part(kind: Kind | None) -> Expression:
            if signs is _SUMS:
                return self._chain(_PRODUCTS, kind, depth)
            return self._one(kind, depth)

        begins = scanner.mark()
        left = part(wanted)
        while True:
            at = scanner.mark()
            sign = next((one for one in signs if scanner.take(one.value)), None)
            if sign is None:
                return left
            right = part(left.kind)
            if isinstance(left, Constant) and left.kind is Kind.INT and right.kind is Kind.FLOAT:
                # `1 + dose`: a whole number beside a float is that float.
                end = scanner.here()
                scanner.go_back(begins)
                left = part(Kind.FLOAT)
                scanner.go_back(end)
            left = self._made(partial(Arithmetic, sign, left, right), at)

    def _made(self, make: Callable[[], Expression], at: int) -> Expression:
        try:
            return make()
        except BadExpression as problem:
            raise self._scanner.refused(problem.message, at=at, problem=BadExpressionText) from problem

    def _one(self, wanted: Kind | None, depth: int) -> Expression:
        scanner = self._scanner
        if scanner.take("("):
            inner = self.sum(wanted, depth=depth + 1)
            scanner.must_take(")")
            return inner
        at = scanner.mark()
        function = scanner.take_function()
        if function is not None:
            return self._call(function, wanted, depth, at)
        name = None if scanner.sees('x"') else scanner.take_match(_NAME)
        if name is not None and name not in _WORDS:
            scanner.go_back(at)
            found = self.attribute(self._vocabulary)
            return Take(found.uid, found.kind)
        scanner.go_back(at)
        if name in ("when", "coalesce"):
            raise scanner.expected("an attribute, a constant or a function")
        if wanted in (Kind.STRING, Kind.BYTES, Kind.BOOL) and (scanner.sees("-") or self._sees_number()):
            wanted = None  # the kind is complained of where it does not fit
        return Constant(read_literal(scanner, wanted, self._parameters))

    def _sees_number(self) -> bool:
        at = self._scanner.mark()
        found = self._scanner.take_match(_NUMBER) is not None
        self._scanner.go_back(at)
        return found

    def _call(self, name: str, wanted: Kind | None, depth: int, at: int) -> Expression:
        scanner = self._scanner
        if name == "coalesce":
            parts = [self.sum(wanted, depth=depth + 1)]
            while scanner.take(","):
                parts.append(self.sum(parts[0].kind, depth=depth + 1))
            scanner.must_take(")")
            return self._made(lambda: Coalesce(tuple(parts)), at)
        function = _FUNCTIONS.get(name)
        if function is Function.LOOKUP:
            return self._lookup(wanted, depth, at)
        if function is None:
            near = get_close_matches(name[:64], [*_FUNCTIONS, "coalesce"], n=1)
            known = f": use one of {', '.join(_FUNCTIONS)}, coalesce"
            hint = f" (the nearest is `{near[0]}`)" if near else known
            said = f"there is no function `{name[:64]}`{hint}"
            raise scanner.refused(said, at=at, problem=BadExpressionText)
        inner = self.sum(None, depth=depth + 1)
        operands: list[PresentValue] = []
        while scanner.take(","):
            operands.append(self._operand(inner.kind))
        scanner.must_take(")")
        scope = _DEFAULT_SCOPES.get(function)
        if scope is not None and not (operands and isinstance(operands[-1], str)):
            operands.append(scope.value)
        return self._made(lambda: Call(function, inner, tuple(operands)), at)

    def _lookup(self, wanted: Kind | None, depth: int, at: int) -> Expression:
        """Read a table's name, a key, and the kind of the value unless it follows from what is assigned."""
        scanner = self._scanner
        table = read_literal(scanner, Kind.STRING, self._parameters)
        scanner.must_take(",")
        key = self.sum(None, depth=depth + 1)
        kind = wanted or Kind.STRING
        if scanner.take(","):
            found = next((one for one in Kind if scanner.take_word(one.value)), None)
            if found is None:
                raise scanner.expected("a kind, such as `string`")
            kind = found
        scanner.must_take(")")
        return self._made(lambda: Call(Function.LOOKUP, key, (table, kind.value)), at)

    def _operand(self, kind: Kind) -> PresentValue:
        for scope in Scope:
            if self._scanner.take_word(scope.value):
                return scope.value
        is_number = self._sees_number() and kind is Kind.FLOAT
        return read_literal(self._scanner, Kind.FLOAT if is_number else None, self._parameters)

    def attribute(self, vocabulary: Vocabulary) -> Attribute:
        """Read the name of an attribute."""
        at = self._scanner.mark()
        name = self._scanner.take_match(_NAME)
        if name is None:
            raise self._scanner.expected("an attribute, a constant or a function")
        if name not in vocabulary:
            near = get_close_matches(name[:64], vocabulary, n=1)
            hint = f" (the nearest is `{near[0]}`)" if near else ""
            said = f"there is no attribute `{name[:64]}`{hint}"
            raise self._scanner.refused(said, at=at, problem=BadExpressionText)
        return vocabulary[name]


def format_rule(
    rule: Rule,
    names: Mapping[AttributeUid, str] | None = None,
    assigned: Mapping[AttributeUid, str] | None = None,
) -> str:
    """Write an assignment; `names` are those of what it reads, `assigned` those of what it assigns."""
    assigned = names if assigned is None else assigned
    target = rule.uid if assigned is None else assigned.get(rule.uid, f"#{rule.uid}")
    value = "none" if rule.value is None else format_expression(rule.value, names)
    when = "" if rule.condition == ALWAYS else f" when {format_predicate(rule.condition, names)}"
    return f"{target} := {value}{when}"


def format_expression(expression: Expression, names: Mapping[AttributeUid, str] | None = None) -> str:
    """Write an expression: with `names`, as people call the attributes; without, by uid."""
    match expression:
        case Constant(value):
            return format_literal(value)
        case Take(uid, _):
            return uid if names is None else names.get(uid, f"#{uid}")
        case Arithmetic(sign, left, right):
            return f"({format_expression(left, names)} {sign.value} {format_expression(right, names)})"
        case Coalesce(parts):
            return f"coalesce({', '.join(format_expression(part, names) for part in parts)})"
        case Call(Function.LOOKUP, inner, (table, kind)):
            return f"lookup({format_literal(table)}, {format_expression(inner, names)}, {kind!s})"
        case Call(function, inner, operands):
            written = [format_expression(inner, names)]
            for operand in operands:
                is_scope = function in _DEFAULT_SCOPES and isinstance(operand, str)
                written.append(str(operand) if is_scope else format_literal(operand))
            return f"{function.value}({', '.join(written)})"
        case _:
            assert_never(expression)
