"""How do people write a predicate, and how do we write it back to them?

    plate == "AE05 XYZ" and speed >= 30 and not (class in ("secret", "top")) or exists(owner)

With a vocabulary, names are those of an event type and each literal is read
as the kind of its attribute. Without one, names are uids and literals say
their own kind: `5`, `5.0`, `"x"`, `true`, `@2026-11-15T08:30:00Z`, `x"beef"`.
`#uid` names an attribute by uid in either case. `and` binds tighter than
`or`; parentheses keep their grouping. Where parameters are handed in with the
text, `$plate` is one of them wherever a literal can be.

A text that cannot be read is answered with the column, what was expected
there, and the nearest name. What `format_predicate` writes reads back as the
same predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Final

from maia.events import Attribute, AttributeUid, BadAttribute, Kind, PresentValue, Vocabulary, attribute_uid
from maia.predicates.language.literals import NO_PARAMETERS, read_literal
from maia.predicates.language.scanner import BadPredicateText, Scanner
from maia.predicates.language.writer import format_predicate
from maia.predicates.syntax import (
    ALWAYS,
    DEPTH_MAX,
    NEVER,
    AllOf,
    AnyOf,
    BadPredicate,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    PredicateTooLarge,
    TextMatch,
    TextTest,
    checked_size,
)

__all__ = ["TEXT_BYTES_MAX", "UnknownName", "format_predicate", "parse_predicate"]

TEXT_BYTES_MAX: Final = 1 << 16

_OPERATORS: Final = {"=": Operator.EQ} | {operator.value: operator for operator in Operator}
_TESTS: Final = {test.value: test for test in TextTest}
_KEYWORDS: Final = frozenset({"and", "or", "in", "not", "true", "false"})
_FOREIGN: Final = {
    "=~": "there are no regular expressions here: use prefix, suffix, contains or token",
    "~": "there are no regular expressions here: use prefix, suffix, contains or token",
    "like": "there are no patterns here: use prefix, suffix, contains or token",
    "matches": "there are no regular expressions here: use prefix, suffix, contains or token",
    "regexp": "there are no regular expressions here: use prefix, suffix, contains or token",
    "rlike": "there are no regular expressions here: use prefix, suffix, contains or token",
    "is": "write exists(name) or not exists(name)",
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "<>": "write `!=`",
    "between": "write two comparisons joined by `and`",
}


class UnknownName(BadPredicateText):
    """A text names an attribute that its vocabulary does not have."""

    code = "INPUT-PREDICATE-NAME"


def parse_predicate(
    text: str, vocabulary: Vocabulary | None = None, parameters: Mapping[str, PresentValue] = NO_PARAMETERS
) -> Predicate:
    """Read a predicate; refuse with `BadPredicateText`, or `PredicateTooLarge`."""
    if len(text) > TEXT_BYTES_MAX or len(text.encode(errors="replace")) > TEXT_BYTES_MAX:
        raise PredicateTooLarge(f"the text is longer than {TEXT_BYTES_MAX} bytes")
    return checked_size(_Parser(Scanner(text), vocabulary, parameters).whole())


class _Parser:
    """One reading of one text. Each method reads one construct and leaves the scanner behind it."""

    def __init__(
        self, scanner: Scanner, vocabulary: Vocabulary | None, parameters: Mapping[str, PresentValue]
    ) -> None:
        self._scanner = scanner
        self._parameters = parameters
        self._vocabulary = vocabulary
        self._depth = 0

    def whole(self) -> Predicate:
        predicate = self._either()
        if not self._scanner.at_end():
            self._refuse_foreign()
            raise self._scanner.expected("`and`, `or` or the end")
        return predicate

    def _either(self) -> Predicate:
        parts = [self._both()]
        while self._scanner.take_word("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _both(self) -> Predicate:
        parts = [self._maybe_negated()]
        while self._scanner.take_word("and"):
            parts.append(self._maybe_negated())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _maybe_negated(self) -> Predicate:
        # A loop, because `not not not …` must not nest our own calls.
        negations = 0
        while self._scanner.take_word("not"):
            negations += 1
            if negations > DEPTH_MAX:
                raise PredicateTooLarge(f"the predicate nests deeper than {DEPTH_MAX} levels")
        predicate = self._one()
        for _ in range(negations):
            predicate = Not(predicate)
        return predicate

    def _one(self) -> Predicate:
        if self._scanner.take("("):
            return self._nested(self._grouped)
        if self._scanner.take_word("true"):
            return ALWAYS
        if self._scanner.take_word("false"):
            return NEVER
        function = self._scanner.take_function()
        return self._about_attribute() if function is None else self._call(function)

    def _nested(self, read: Callable[[], Predicate]) -> Predicate:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise PredicateTooLarge(f"the predicate nests deeper than {DEPTH_MAX} levels")
        predicate = read()
        self._depth -= 1
        return predicate

    def _grouped(self) -> Predicate:
        predicate = self._either()
        if not self._scanner.take(")"):
            self._refuse_foreign()
            raise self._scanner.expected("`)`, `and` or `or`")
        return predicate

    def _call(self, function: str) -> Predicate:
        if function == "exists":
            return Exists(self._argument_attribute(and_then=")")[0])
        if function in _TESTS:
            return self._text_test(_TESTS[function])
        if function in ("all", "any"):
            return self._nested(lambda: self._list_of_predicates(AllOf if function == "all" else AnyOf))
        if hint := _FOREIGN.get(function.lower()):
            raise self._scanner.refused(hint, back=len(function) + 1)
        known = ", ".join(("exists", *_TESTS, "all", "any"))
        raise self._scanner.refused(
            f"there is no `{function[:32]}`: use one of {known}", back=len(function) + 1
        )

    def _argument_attribute(self, *, and_then: str) -> tuple[AttributeUid, Kind | None]:
        found = self._attribute()
        self._scanner.must_take(and_then)
        return found

    def _text_test(self, test: TextTest) -> Predicate:
        begins = self._scanner.mark()
        uid, kind = self._argument_attribute(and_then=",")
        if kind not in (None, Kind.STRING):
            raise self._scanner.refused(f"`{test.value}` asks about strings only", at=begins)
        begins = self._scanner.mark()
        if test is TextTest.TOKEN and self._parameters and self._scanner.sees("$"):
            raise self._scanner.refused("a token is written out: what is handed in could hold a space")
        text = read_literal(self._scanner, Kind.STRING, self._parameters)
        try:
            predicate = TextMatch(uid, test, str(text))
        except BadPredicate as problem:
            raise self._scanner.refused(problem.message, at=begins) from problem
        self._scanner.must_take(")")
        return predicate

    def _list_of_predicates(self, built: type[AllOf | AnyOf]) -> Predicate:
        parts: list[Predicate] = []
        if self._scanner.take(")"):
            return built(())
        while True:
            parts.append(self._either())
            if self._scanner.take(")"):
                return built(tuple(parts))
            if not self._scanner.take(","):
                raise self._scanner.expected("`,` or `)`")

    def _about_attribute(self) -> Predicate:
        uid, kind = self._attribute()
        if self._scanner.take_word("in"):
            return self._membership(uid, kind)
        begins = self._scanner.mark()
        if self._scanner.take_word("not"):
            self._scanner.must_take_word("in")
            return Not(self._membership(uid, kind))
        operator = self._operator()
        literal = read_literal(self._scanner, kind, self._parameters)
        try:
            return Comparison(uid, operator, literal)
        except BadPredicate as problem:
            raise self._scanner.refused(problem.message, at=begins) from problem

    def _operator(self) -> Operator:
        self._refuse_foreign()
        sign = self._scanner.take_sign(_OPERATORS)
        if sign is None:
            raise self._scanner.expected("`==`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `not in`")
        return _OPERATORS[sign]

    def _refuse_foreign(self) -> None:
        """Help those who come from another language; asked only where nothing of ours comes next."""
        seen = self._scanner.seen()
        if seen.lower() in _KEYWORDS and seen not in _KEYWORDS:
            raise self._scanner.refused(f"write `{seen.lower()}` in lower case")
        if hint := _FOREIGN.get(seen.lower()):
            raise self._scanner.refused(hint)

    def _membership(self, uid: AttributeUid, kind: Kind | None) -> Predicate:
        self._scanner.must_take("(")
        begins = self._scanner.mark()
        literals: dict[tuple[type, PresentValue], None] = {}
        while True:
            literal = read_literal(self._scanner, kind, self._parameters)
            literals[type(literal), literal] = None
            if self._scanner.take(")"):
                break
            if not self._scanner.take(","):
                raise self._scanner.expected("`,` or `)`")
        if len({found for found, _ in literals}) > 1:
            raise self._scanner.refused("the literals of `in` are all of one kind", at=begins)
        return Membership(uid, frozenset(literal for _, literal in literals))

    def _attribute(self) -> tuple[AttributeUid, Kind | None]:
        """Read a name or `#uid`, and say of which kind it is, if a vocabulary knows."""
        begins = self._scanner.mark()
        by_uid = self._scanner.take("#")
        name = self._scanner.take_name()
        if name is None or (not by_uid and name.lower() in _KEYWORDS):
            self._scanner.go_back(begins)
            self._refuse_foreign()
            raise self._scanner.expected("an attribute, `not`, `(` or a test such as `exists(…)`")
        if self._vocabulary is None:
            return self._uid(name, begins), None
        attribute = self._known(self._vocabulary, name, by_uid=by_uid, begins=begins)
        return attribute.uid, attribute.kind

    def _uid(self, text: str, begins: int) -> AttributeUid:
        try:
            return attribute_uid(text)
        except BadAttribute as problem:
            raise self._scanner.refused(problem.message, at=begins, problem=UnknownName) from problem

    def _known(self, vocabulary: Vocabulary, name: str, *, by_uid: bool, begins: int) -> Attribute:
        by_name: Mapping[str, Attribute] = vocabulary
        if by_uid:
            by_name = {attribute.uid: attribute for attribute in vocabulary.values()}
        if name in by_name:
            return by_name[name]
        near = get_close_matches(name[:64], by_name, n=1)
        suggestion = f" (the nearest is `{near[0]}`)" if near else ""
        raise self._scanner.refused(
            f"there is no attribute `{name[:64]}`{suggestion}", at=begins, problem=UnknownName
        )
