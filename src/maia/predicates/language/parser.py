"""How do people write a predicate, and how do we write it back to them?

    plate == "AE05 XYZ" and speed >= 30 and not (class in ("secret", "top")) or exists(owner)

With a vocabulary, names are those of an event type and each literal is read
as the kind of its attribute. Without one, names are uids and literals say
their own kind: `5`, `5.0`, `"x"`, `true`, `@2026-11-15T08:30:00Z`, `x"beef"`.
`#uid` names an attribute by uid in either case. `and` binds tighter than
`or`; parentheses keep their grouping. Where parameters are handed in with the
text, `$plate` is one of them wherever a literal can be.

Gismo's words (section 3.1) mean the same as ours: `nameexists x` is `exists(x)`,
`x hastoken "t"` is `token(x, "t")`, `x substring "t"` is `contains(x, "t")`, and
`x ismember ("a", "b")` is `x in ("a", "b")`. About a statement of identity, a literal may be
on the left and an attribute on the right; there `_` and `-` are the same sign of a name.

A text that cannot be read is answered with the column, what was expected
there, and the nearest name. What `format_predicate` writes reads back as the
same predicate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from maia.events import (
    Attribute,
    AttributeUid,
    BadAttribute,
    Kind,
    PresentValue,
    Vocabulary,
    attribute_uid,
    condition_uid,
    named_uid,
)
from maia.predicates.attribute_pairs import MIRRORED, compared, tested
from maia.predicates.language.literals import NO_PARAMETERS, read_literal
from maia.predicates.language.scanner import BadPredicateText, Scanner, nearest
from maia.predicates.language.writer import KEYWORDS, format_predicate
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

_DOTTED: Final = re.compile(r"(?:world|subscriber|publisher)\.[A-Za-z0-9_-]+")
_NAME_NEXT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?![A-Za-z0-9_\"-])")
_LITERAL_NEXT: Final = re.compile(r"[@\"]|x\"|[+-]?[0-9]|(?:true|false)(?![A-Za-z0-9_-])")

_OPERATORS: Final = {"=": Operator.EQ} | {operator.value: operator for operator in Operator}
_TESTS: Final = {test.value: test for test in TextTest}
_INFIX: Final = {"hastoken": TextTest.TOKEN, "substring": TextTest.CONTAINS}
_NAMED: Final = _TESTS | _INFIX
_NO_REGEX: Final = "there are no regular expressions here: use prefix, suffix, contains or token"
_FOREIGN: Final = dict.fromkeys(("=~", "~", "matches", "regexp", "rlike"), _NO_REGEX) | {
    "like": "there are no patterns here: use prefix, suffix, contains or token",
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
    return read_predicate(Scanner(text), vocabulary, parameters)


def parse_about_statement(text: str) -> Predicate:
    """Read a predicate about the attributes of an identity statement, which may compare two of them."""
    return read_predicate(Scanner(text), None, about_statement=True)


def read_predicate(
    scanner: Scanner,
    vocabulary: Vocabulary | None,
    parameters: Mapping[str, PresentValue] = NO_PARAMETERS,
    *,
    sees_the_world: bool = False,
    about_statement: bool = False,
) -> Predicate:
    """Read what is left of a text as a predicate; `world.incident` and the like only where that is said."""
    text = scanner.text
    if len(text) > TEXT_BYTES_MAX or len(text.encode(errors="replace")) > TEXT_BYTES_MAX:
        raise PredicateTooLarge(f"the text is longer than {TEXT_BYTES_MAX} bytes")
    parser = _PredicateParser(
        scanner,
        vocabulary,
        parameters,
        about_statement=about_statement,
        sees_the_world=sees_the_world,
    )
    return checked_size(parser.whole())


def known_attribute(
    scanner: Scanner, name: str, at: int, known: Mapping[str, Attribute], problem: type[BadPredicateText]
) -> Attribute:
    """Return an attribute by its name, or complain and name the nearest."""
    if name not in known:
        said = f"there is no attribute `{name[:64]}`{nearest(name, known)}"
        raise scanner.refused(said, at=at, problem=problem)
    return known[name]


class _PredicateParser:
    """One reading of one text. Each method reads one construct and leaves the scanner behind it."""

    def __init__(
        self,
        scanner: Scanner,
        vocabulary: Vocabulary | None,
        parameters: Mapping[str, PresentValue],
        *,
        about_statement: bool,
        sees_the_world: bool,
    ) -> None:
        self._scanner, self._vocabulary, self._parameters = scanner, vocabulary, parameters
        self._about_statement, self._sees_the_world = about_statement, sees_the_world
        self._depth = 0

    def whole(self) -> Predicate:
        predicate = self._either()
        if not self._scanner.at_end():
            self._refuse_foreign()
            raise self._scanner.expected("`and`, `or` or the end")
        return predicate

    def _either(self) -> Predicate:
        return self._joined("or", AnyOf, lambda: self._joined("and", AllOf, self._maybe_negated))

    def _joined(self, word: str, built: type[AllOf | AnyOf], read: Callable[[], Predicate]) -> Predicate:
        parts = [read()]
        while self._scanner.take_word(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else built(tuple(parts))

    def _maybe_negated(self) -> Predicate:
        # A loop, because `not not not …` must not nest our own calls.
        negations = 0
        while self._scanner.take_word("not"):
            negations += 1
            self._refuse_deep(negations)
        predicate = self._one()
        for _ in range(negations):
            predicate = Not(predicate)
        return predicate

    def _one(self) -> Predicate:
        if self._scanner.take("("):
            return self._nested(self._grouped)
        if self._about_statement and (mirrored := self._from_literal()) is not None:
            return mirrored
        if word := self._scanner.take_word("true", "false"):
            return ALWAYS if word == "true" else NEVER
        if (function := self._scanner.take_function()) is not None:
            return self._call(function)
        begins = self._scanner.mark()
        if self._scanner.take_word("nameexists") and self._sees_name():
            return Exists(self._attribute()[0])
        self._scanner.position = begins
        return self._about_attribute()

    def _nested(self, read: Callable[[], Predicate]) -> Predicate:
        self._depth += 1
        self._refuse_deep(self._depth)
        predicate = read()
        self._depth -= 1
        return predicate

    def _refuse_deep(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise PredicateTooLarge(f"the predicate nests deeper than {DEPTH_MAX} levels")

    def _grouped(self) -> Predicate:
        predicate = self._either()
        if not self._scanner.take(")"):
            self._refuse_foreign()
            raise self._scanner.expected("`)`, `and` or `or`")
        return predicate

    def _call(self, function: str) -> Predicate:
        scanner, begins = self._scanner, self._scanner.position - len(function) - 1
        if function in ("exists", "nameexists"):
            uid, _ = self._attribute()
            scanner.must_take(")")
            return Exists(uid)
        if function in _NAMED:
            return self._text_test(_NAMED[function])
        if function == "ismember":
            uid, kind = self._attribute()
            scanner.must_take(",")
            return self._listed(uid, kind)
        if function in ("all", "any"):
            built = AllOf if function == "all" else AnyOf
            return self._nested(
                lambda: built(() if scanner.take(")") else tuple(scanner.take_list(self._either)))
            )
        known = ", ".join(("exists", *_TESTS, "all", "any"))
        said = f"there is no `{function[:32]}`: use one of {known}"
        raise scanner.refused(_FOREIGN.get(function.lower(), said), at=begins)

    def _text_test(self, test: TextTest) -> Predicate:
        begins = self._scanner.mark()
        uid, kind = self._attribute()
        self._scanner.must_take(",")
        if kind not in (None, Kind.STRING):
            raise self._scanner.refused(f"`{test.value}` asks about strings only", at=begins)
        predicate = self._tested(uid, test)
        self._scanner.must_take(")")
        return predicate

    def _tested(self, uid: AttributeUid, test: TextTest) -> Predicate:
        """Read what a text is tested with."""
        begins = self._scanner.mark()
        if self._about_statement and self._sees_name() and test in _INFIX.values():
            return tested(uid, test, self._attribute()[0])
        if test is TextTest.TOKEN and self._parameters and self._scanner.sees("$"):
            raise self._scanner.refused("a token is written out: what is handed in could hold a space")
        text = str(self._literal(Kind.STRING))
        return self._made(lambda: TextMatch(uid, test, text), begins)

    def _sees_name(self) -> bool:
        """Return whether an attribute is next, and no literal."""
        found = _NAME_NEXT.match(self._scanner.text, self._scanner.mark())
        return found is not None and found.group() not in KEYWORDS

    def _from_literal(self) -> Predicate | None:
        """Read a comparison that begins with its literal: `3 <= clearance`, `"uk" ismember nations`."""
        begins = self._scanner.mark()
        if _LITERAL_NEXT.match(self._scanner.text, begins) is None:
            return None
        is_text, literal = self._scanner.sees('"'), self._literal(None)
        if is_text and self._scanner.take_word("ismember"):
            uid, _ = self._attribute()
            return self._made(lambda: TextMatch(uid, TextTest.TOKEN, str(literal)), begins)
        sign = self._scanner.take_sign(_OPERATORS)
        if sign is not None and self._sees_name():
            uid, _ = self._attribute()
            return self._made(lambda: Comparison(uid, MIRRORED[_OPERATORS[sign]], literal), begins)
        if is_text:
            raise self._scanner.expected("a comparison with an attribute")
        self._scanner.position = begins  # a uid may begin with a digit, and `true` is a predicate, too
        return None

    def _about_attribute(self) -> Predicate:
        uid, kind = self._attribute()
        if self._scanner.take_word("in"):
            return self._membership(uid, kind)
        begins = self._scanner.mark()
        if self._scanner.take_word("not"):
            self._scanner.must_take_word("in")
            return Not(self._membership(uid, kind))
        if word := self._scanner.take_word(*_INFIX):
            if kind not in (None, Kind.STRING):
                raise self._scanner.refused(f"`{word}` asks about strings only", at=begins)
            return self._tested(uid, _INFIX[word])
        if self._scanner.take_word("ismember"):
            return self._member(uid, kind)
        self._refuse_foreign()
        sign = self._scanner.take_sign(_OPERATORS)
        if sign is None:
            raise self._scanner.expected("`==`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `not in`")
        if self._about_statement and self._sees_name():
            return compared(uid, _OPERATORS[sign], self._attribute()[0])
        literal = self._literal(kind)
        return self._made(lambda: Comparison(uid, _OPERATORS[sign], literal), begins)

    def _made(self, make: Callable[[], Predicate], begins: int) -> Predicate:
        try:
            return make()
        except BadPredicate as problem:
            raise self._scanner.refused(problem.message, at=begins) from problem

    def _literal(self, kind: Kind | None) -> PresentValue:
        return read_literal(self._scanner, kind, self._parameters)

    def _refuse_foreign(self) -> None:
        """Help those who come from another language; asked only where nothing of ours comes next."""
        seen = self._scanner.seen()
        if seen.lower() in KEYWORDS and seen not in KEYWORDS:
            raise self._scanner.refused(f"write `{seen.lower()}` in lower case")
        if hint := _FOREIGN.get(seen.lower()):
            raise self._scanner.refused(hint)

    def _member(self, uid: AttributeUid, kind: Kind | None) -> Predicate:
        """Read of what an attribute is a member: of a list, or of the words of another attribute."""
        if self._about_statement and self._sees_name():
            return tested(self._attribute()[0], TextTest.TOKEN, uid)
        return self._membership(uid, kind)

    def _membership(self, uid: AttributeUid, kind: Kind | None) -> Predicate:
        self._scanner.must_take("(")
        return self._listed(uid, kind)

    def _listed(self, uid: AttributeUid, kind: Kind | None) -> Predicate:
        begins = self._scanner.mark()
        literals = self._scanner.take_list(lambda: self._literal(kind))
        if len({type(literal) for literal in literals}) > 1:
            raise self._scanner.refused("the literals of `in` are all of one kind", at=begins)
        return Membership(uid, frozenset(literals))

    def _attribute(self) -> tuple[AttributeUid, Kind | None]:
        """Read a name or `#uid`, and say of which kind it is, if a vocabulary knows."""
        begins = self._scanner.mark()
        if self._sees_the_world and (dotted := self._scanner.take_match(_DOTTED)) is not None:
            try:
                return condition_uid(dotted), None
            except BadAttribute as problem:
                raise self._scanner.refused(problem.message, at=begins, problem=UnknownName) from problem
        by_uid = self._scanner.take("#")
        name = self._scanner.take_name()
        if name is None or (not by_uid and name.lower() in KEYWORDS):
            self._scanner.position = begins
            self._refuse_foreign()
            raise self._scanner.expected("an attribute, `not`, `(` or a test such as `exists(…)`")
        if self._vocabulary is not None:
            known: Mapping[str, Attribute] = self._vocabulary
            known = {one.uid: one for one in known.values()} if by_uid else known
            found = known_attribute(self._scanner, name, begins, known, UnknownName)
            return found.uid, found.kind
        try:
            return (named_uid if self._about_statement else attribute_uid)(name), None
        except BadAttribute as problem:
            raise self._scanner.refused(problem.message, at=begins, problem=UnknownName) from problem
