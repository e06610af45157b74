"""What does one premise of a rule ask for?

    court_order(case, plate)                            a certificate or a role of the holder
    court_order(case, plate) held by colleague          of another principal
    case_assignment(holder, case)                       a fact
    between 09:00 and 17:00 on monday to friday in Europe/London
    on saturday, sunday in Europe/London

`holder` is the principal that asks, `_` is anything, a name is a variable, and values
are written as in filters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from maia.credentials import BadKey, principal_from_text
from maia.credentials.arguments import BadArgument, ParameterKind, checked_argument
from maia.events.zones import MINUTES_IN_A_DAY, zone_names
from maia.predicates.language.literals import read_literal
from maia.predicates.language.scanner import Scanner
from maia.roles.names import RESERVED, Names, take_name
from maia.roles.policy import (
    ANYTHING,
    HOLDER,
    AppointmentDeclaration,
    CertificatePremise,
    FactDeclaration,
    FactPremise,
    Literal,
    Parameter,
    Premise,
    RolePremise,
    Term,
    TimePremise,
)
from maia.roles.problems import Complaint, Consequence, did_you_mean, shown
from maia.roles.statements import Fragment
from maia.roles.time_windows import DAY_NAMES, TimeWindow
from maia.roles.variables import Variables

__all__ = ["TermReader", "read_premise", "take_window"]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_KEY_TEXT: Final = re.compile(r"ed25519:[0-9A-Za-z]*")
_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]*")
_EVERY_DAY: Final = frozenset(range(1, 8))


@dataclass(frozen=True, slots=True)
class TermReader:
    """Reads what is between parentheses, in one fragment of one rule."""

    names: Names
    variables: Variables
    fragment: Fragment
    scanner: Scanner

    def terms(self, parameters: tuple[Parameter, ...], *, of: str, binds: bool) -> tuple[Term, ...]:
        """Read as many terms as there are parameters, each of its kind."""
        at = self.scanner.mark()
        terms: list[Term] = []
        if self.scanner.take("(") and not self.scanner.take(")"):
            while True:
                kind = parameters[len(terms)].kind if len(terms) < len(parameters) else None
                terms.append(self.term(kind, binds=binds))
                if self.scanner.take(")"):
                    break
                if not self.scanner.take(","):
                    raise self.scanner.expected("`,` or `)`")
        if len(terms) != len(parameters):
            wanted = ", ".join(f"{one.name}: {one.kind.value}" for one in parameters)
            said = f"`{of}({wanted})` has {len(parameters)} parameters, and {len(terms)} are given"
            raise Complaint(said, at=at)
        return tuple(terms)

    def term(self, kind: ParameterKind | None, *, binds: bool) -> Term:
        """Read one term; `kind` is None where there is one too many, which is reported later."""
        at = self.scanner.mark()
        word = self.scanner.take_match(_VARIABLE)
        if word == "_":
            return ANYTHING
        if word == "holder":
            if kind not in (None, ParameterKind.PRINCIPAL):
                raise Complaint(f"`holder` is a principal, and a {_named(kind)} is asked for here", at=at)
            return HOLDER
        if word is not None and word not in ("true", "false") and not self.scanner.sees(":"):
            return self._named(word, kind, binds=binds, at=at)
        self.scanner.go_back(at)
        return self._literal(kind, at)

    def _named(self, word: str, kind: ParameterKind | None, *, binds: bool, at: int) -> Term:
        if word in self.names.keys:
            if kind not in (None, ParameterKind.PRINCIPAL):
                raise Complaint(f"`{word}` is a key, and a {_named(kind)} is asked for here", at=at)
            return Literal(self.names.keys[word], ParameterKind.PRINCIPAL)
        if self.names.broken.get(word) == "key":
            raise Consequence(f"what is wrong with the key `{word}` is reported already", at=at)
        if word.lower() in RESERVED:
            raise Complaint(f"`{word}` cannot be the name of a variable", at=at)
        return self.variables.use(word, kind, binds=binds, fragment=self.fragment, at=at)

    def _literal(self, kind: ParameterKind | None, at: int) -> Term:
        text = self.scanner.take_match(_KEY_TEXT)
        try:
            if text is not None:
                if kind not in (None, ParameterKind.PRINCIPAL):
                    raise Complaint(f"a key is given, and a {_named(kind)} is asked for here", at=at)
                return Literal(principal_from_text(text), ParameterKind.PRINCIPAL)
            if kind is ParameterKind.PRINCIPAL:
                raise self.scanner.expected("`holder`, a key or a variable")
            value = read_literal(self.scanner, None if kind is None else kind.value_kind)
            if kind is None:
                return ANYTHING
            checked = checked_argument(value, kind)
        except (BadKey, BadArgument) as problem:
            raise Complaint(problem.message, at=at) from problem
        return Literal(checked, kind)


def read_premise(reader: TermReader, *, is_watched: bool) -> Premise:
    """Read what follows `while` or `given`."""
    window = take_window(reader.scanner)
    if window is not None:
        return TimePremise(window, is_watched)
    name, at = take_name(reader.scanner, "a role, an appointment, a fact, `between` or `on`")
    declaration = reader.names.declared.get(name)
    if declaration is None:
        raise reader.names.unknown("role, appointment or fact", name, reader.names.declared, at=at)
    terms = reader.terms(declaration.parameters, of=name, binds=True)
    if isinstance(declaration, FactDeclaration):
        return FactPremise(name, terms, is_watched)
    held_by = _held_by(reader)
    if isinstance(declaration, AppointmentDeclaration):
        return CertificatePremise(name, terms, held_by, is_watched)
    return RolePremise(name, terms, held_by, is_watched)


def _held_by(reader: TermReader) -> Term:
    if not reader.scanner.take_word("held"):
        return HOLDER
    reader.scanner.must_take_word("by")
    return reader.term(ParameterKind.PRINCIPAL, binds=True)


def take_window(scanner: Scanner) -> TimeWindow | None:
    """Take a time of the day and week, if one comes next."""
    at = scanner.mark()
    begins, ends, days = 0, MINUTES_IN_A_DAY, _EVERY_DAY
    has_hours = scanner.take_word("between")
    if has_hours:
        begins = _clock(scanner)
        scanner.must_take_word("and")
        ends = _clock(scanner)
    has_days = scanner.take_word("on")
    if not has_hours and not has_days:
        return None
    if has_days:
        days = _days(scanner)
    if not scanner.take_word("in"):
        raise scanner.expected("`in` and a time zone such as `Europe/London`")
    zone = _zone(scanner)
    if begins % MINUTES_IN_A_DAY == ends % MINUTES_IN_A_DAY and (begins == ends or days == _EVERY_DAY):
        raise Complaint("this is no part of the day or week", at=at)
    return TimeWindow(begins, ends, days, zone)


def _clock(scanner: Scanner) -> int:
    at = scanner.mark()
    found = scanner.take_match(_CLOCK)
    if found is None:
        raise scanner.expected("a time of the day such as `09:00`")
    hours, minutes = map(int, found.split(":"))
    if minutes > 59 or hours * 60 + minutes > MINUTES_IN_A_DAY:
        raise Complaint(f"`{found}` is no time of the day", at=at)
    return hours * 60 + minutes


def _days(scanner: Scanner) -> frozenset[int]:
    days: set[int] = set()
    while True:
        first = last = _day(scanner)
        if scanner.take_word("to"):
            last = _day(scanner)
        days |= {(first - 1 + step) % 7 + 1 for step in range((last - first) % 7 + 1)}
        if not scanner.take(","):
            return frozenset(days)


def _day(scanner: Scanner) -> int:
    at = scanner.mark()
    word = scanner.take_name() or ""
    if word.lower() not in DAY_NAMES:
        hint = did_you_mean(word, DAY_NAMES)
        raise Complaint(f"expected a day of the week, but found `{shown(word)}`", at=at, hint=hint)
    return DAY_NAMES.index(word.lower()) + 1


def _zone(scanner: Scanner) -> str:
    at = scanner.mark()
    name = scanner.take_match(_ZONE) or ""
    if name not in zone_names():
        hint = did_you_mean(name, zone_names())
        raise Complaint(f"there is no time zone `{shown(name)}`", at=at, hint=hint)
    return name


def _named(kind: ParameterKind | None) -> str:
    return "value" if kind is None else kind.value
