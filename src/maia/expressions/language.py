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
from maia.predicates.language.parser import known_attribute, read_predicate
from maia.predicates.language.scanner import NAME, BadPredicateText, Scanner, nearest
from maia.predicates.language.writer import format_literal, format_predicate
from maia.predicates.syntax import ALWAYS, Predicate

_TEXT_MAX: Final = 1 << 14
_NUMBER: Final = re.compile(r"[0-9]")
_OPERAND: Final = "an attribute, a constant or a function"
_LITERAL_WORDS: Final = ("true", "false", "none")
_OTHER_WORDS: Final = ("when", "coalesce")
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
    return read_expression(Scanner(text), vocabulary, wanted, parameters)


def read_expression(
    scanner: Scanner, vocabulary: Vocabulary, wanted: Kind | None, parameters: Mapping[str, PresentValue]
) -> Expression:
    """Read what is left of a text as an expression."""
    parser = _ExpressionParser(scanner, vocabulary, parameters)
    expression = parser.sum(wanted)
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
    return read_rule(Scanner(text), vocabulary, assigned, parameters)


def read_rule(
    scanner: Scanner,
    vocabulary: Vocabulary,
    assigned: Vocabulary | None = None,
    parameters: Mapping[str, PresentValue] = NO_PARAMETERS,
) -> Rule:
    """Read what is left of a text as an assignment."""
    parser = _ExpressionParser(scanner, vocabulary, parameters)
    target = parser.attribute(vocabulary if assigned is None else assigned)
    scanner.must_take(":=")
    value = None if scanner.take_word("none") else parser.sum(target.kind)
    condition: Predicate = ALWAYS
    if scanner.take_word("when"):
        condition = read_predicate(scanner, vocabulary, parameters, sees_the_world=True)
    parser.finish(value, target.kind)
    return Rule(target.uid, value, condition)


class _ExpressionParser:
    """One reading. `wanted` is the kind that a literal is read as; it decides nothing else."""

    def __init__(
        self, scanner: Scanner, vocabulary: Vocabulary, parameters: Mapping[str, PresentValue]
    ) -> None:
        if len(scanner.text) > _TEXT_MAX:
            raise BadExpression(f"the text is longer than {_TEXT_MAX} characters")
        self._scanner, self._vocabulary, self._parameters = scanner, vocabulary, parameters

    def finish(self, expression: Expression | None, wanted: Kind | None) -> None:
        """Complain of what is left over, and of a result of another kind."""
        self._scanner.must_end("`+`, `-`, `*`, `/`, `when` or the end")
        if expression is None:
            return
        expression_size(expression)
        if wanted is not None and expression.kind is not wanted:
            said = f"a {wanted.value} is assigned here, and the expression is a {expression.kind.value}"
            raise self._refused(said, 0)

    def sum(self, wanted: Kind | None, *, depth: int = 1) -> Expression:
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
                end, scanner.position = scanner.position, begins
                left = part(Kind.FLOAT)
                scanner.position = end
            left = self._made(partial(Arithmetic, sign, left, right), at)

    def _made(self, make: Callable[[], Expression], at: int) -> Expression:
        try:
            return make()
        except BadExpression as problem:
            raise self._refused(problem.message, at) from problem

    def _refused(self, said: str, at: int) -> BadPredicateText:
        return self._scanner.refused(said, at=at, problem=BadExpressionText)

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
        name = None if scanner.sees('x"') else scanner.take_match(NAME)
        scanner.position = at
        if name in _OTHER_WORDS:
            raise scanner.expected(_OPERAND)
        if name is not None and name not in _LITERAL_WORDS:
            found = self.attribute(self._vocabulary)
            return Take(found.uid, found.kind)
        if wanted in (Kind.STRING, Kind.BYTES, Kind.BOOL) and (scanner.sees("-") or self._sees_number()):
            wanted = None  # the kind is complained of where it does not fit
        return Constant(self._literal(wanted))

    def _literal(self, kind: Kind | None) -> PresentValue:
        return read_literal(self._scanner, kind, self._parameters)

    def _sees_number(self) -> bool:
        return _NUMBER.match(self._scanner.text, self._scanner.mark()) is not None

    def _call(self, name: str, wanted: Kind | None, depth: int, at: int) -> Expression:
        scanner = self._scanner
        function = _FUNCTIONS.get(name)
        if name == "coalesce":
            parts = [self.sum(wanted, depth=depth + 1)]
            while scanner.take(","):
                parts.append(self.sum(parts[0].kind, depth=depth + 1))
            make: Callable[[], Expression] = partial(Coalesce, tuple(parts))
        elif function is Function.LOOKUP:
            make = self._lookup(wanted, depth)
        elif function is None:
            known = (*_FUNCTIONS, "coalesce")
            hint = nearest(name, known) or f": use one of {', '.join(known)}"
            raise self._refused(f"there is no function `{name[:64]}`{hint}", at)
        else:
            inner = self.sum(None, depth=depth + 1)
            operands: list[PresentValue] = []
            while scanner.take(","):
                operands.append(self._operand(inner.kind))
            scope = _DEFAULT_SCOPES.get(function)
            if scope is not None and not (operands and isinstance(operands[-1], str)):
                operands.append(scope.value)
            make = partial(Call, function, inner, tuple(operands))
        scanner.must_take(")")
        return self._made(make, at)

    def _lookup(self, wanted: Kind | None, depth: int) -> Callable[[], Expression]:
        """Read a table's name, a key, and the kind of the value unless it follows from what is assigned."""
        scanner = self._scanner
        table = self._literal(Kind.STRING)
        scanner.must_take(",")
        key = self.sum(None, depth=depth + 1)
        kind = (wanted or Kind.STRING).value
        if scanner.take(","):
            found = scanner.take_word(*(one.value for one in Kind))
            if found is None:
                raise scanner.expected("a kind, such as `string`")
            kind = found
        return partial(Call, Function.LOOKUP, key, (table, kind))

    def _operand(self, kind: Kind) -> PresentValue:
        scope = self._scanner.take_word(*(one.value for one in Scope))
        if scope is not None:
            return scope
        return self._literal(Kind.FLOAT if kind is Kind.FLOAT and self._sees_number() else None)

    def attribute(self, vocabulary: Vocabulary) -> Attribute:
        """Read the name of an attribute."""
        at = self._scanner.mark()
        name = self._scanner.take_match(NAME)
        if name is None:
            raise self._scanner.expected(_OPERAND)
        return known_attribute(self._scanner, name, at, vocabulary, BadExpressionText)


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
