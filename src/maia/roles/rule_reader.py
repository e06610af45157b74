"""What does one activation rule say?

    rule np_tracker(plate)
        while court_order(case, plate)
        while detective(holder)
        while case_assignment(holder, case)
        until court_order ends

`while` marks a membership condition: it must stay true, or the role ends.
`given` is asked once, on activation. `if` compares values, `ask` lets the
asker state one, `for` and `until` say when the membership ends at the latest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final, TypeAlias, TypeVar

from maia.credentials.appointments import BadArgument, ParameterKind, checked_argument
from maia.events import SECOND, PresentValue, Vocabulary
from maia.events.zones import MINUTES_IN_A_DAY, zone_names
from maia.expressions.syntax import BadExpression
from maia.predicates.language.literals import read_literal
from maia.predicates.language.parser import parse_predicate
from maia.predicates.language.scanner import NAME, Scanner
from maia.predicates.syntax import BadPredicate, Predicate, attributes_of
from maia.roles.declarations import END, RESERVED, Names, take_key, take_key_text, take_name
from maia.roles.policy import (
    ANYTHING,
    HOLDER,
    AppointmentDeclaration,
    CertificatePremise,
    Condition,
    Ends,
    FactDeclaration,
    FactPremise,
    Literal,
    Parameter,
    Place,
    PlacePremise,
    Premise,
    RoleDeclaration,
    RolePremise,
    Term,
    TimePremise,
)
from maia.roles.statements import (
    MISREAD,
    Complaint,
    Consequence,
    Fragment,
    Problems,
    Statement,
    did_you_mean,
    shown,
)
from maia.roles.time_windows import DAY_NAMES, TimeWindow
from maia.roles.variables import ALWAYS_THERE, Variables, sample_values, vocabulary_for

T = TypeVar("T")
TextReader: TypeAlias = Callable[[str, Mapping[str, PresentValue]], T]
"""Reads a text, with values for `$name`."""

AT_COMPUTER: Final = "at-computer"
"""The appointment by which a computer says that its holder is at it."""
_NETWORK: Final = re.compile(r"[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?")
_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]*")
_EVERY_DAY: Final = frozenset(range(1, 8))
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}")
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_LONGEST_S: Final = 3660 * 86_400
_ALONE: Final = frozenset({"for", "where", "provided", "checked"})
"""Clauses that are there once; `may` is counted by its own reader: `may delegate` is beside it."""


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

        def read() -> None:
            kind = parameters[len(terms)].kind if len(terms) < len(parameters) else None
            terms.append(self.term(kind, binds=binds))

        if self.scanner.take("(") and not self.scanner.take(")"):
            self.scanner.take_list(read)
        if len(terms) != len(parameters):
            wanted = ", ".join(f"{one.name}: {one.kind.value}" for one in parameters)
            said = f"`{of}({wanted})` has {len(parameters)} parameters, and {len(terms)} are given"
            raise Complaint(said, at=at)
        return tuple(terms)

    def term(self, kind: ParameterKind | None, *, binds: bool) -> Term:
        """Read one term; `kind` is None where there is one too many, which is reported later."""
        at = self.scanner.mark()
        word = self.scanner.take_match(NAME)
        if word == "_":
            return ANYTHING
        if word == "holder":
            _must_be_principal(kind, "`holder` is a principal", at)
            return HOLDER
        if word is not None and word not in ("true", "false") and not self.scanner.sees(":"):
            return self._named(word, kind, binds=binds, at=at)
        self.scanner.position = at
        return self._literal(kind, at)

    def _named(self, word: str, kind: ParameterKind | None, *, binds: bool, at: int) -> Term:
        if word in self.names.keys:
            _must_be_principal(kind, f"`{word}` is a key", at)
            return Literal(self.names.keys[word], ParameterKind.PRINCIPAL)
        if self.names.broken.get(word) == "key":
            raise Consequence(f"what is wrong with the key `{word}` is reported already", at=at)
        if word.lower() in RESERVED:
            raise Complaint(f"`{word}` cannot be the name of a variable", at=at)
        return self.variables.use(word, kind, binds=binds, fragment=self.fragment, at=at)

    def _literal(self, kind: ParameterKind | None, at: int) -> Term:
        if self.scanner.sees("ed25519:"):
            _must_be_principal(kind, "a key is given", at)
        if (key := take_key_text(self.scanner)) is not None:
            return Literal(key, ParameterKind.PRINCIPAL)
        if kind is ParameterKind.PRINCIPAL:
            raise self.scanner.expected("`holder`, a key or a variable")
        value = read_literal(self.scanner, None if kind is None else kind.value_kind)
        try:
            return ANYTHING if kind is None else Literal(checked_argument(value, kind), kind)
        except BadArgument as problem:
            raise Complaint(problem.message, at=at) from problem


def _must_be_principal(kind: ParameterKind | None, said: str, at: int) -> None:
    if kind is not None and kind is not ParameterKind.PRINCIPAL:
        raise Complaint(f"{said}, and a {kind.value} is asked for here", at=at)


def read_premise(reader: TermReader, is_watched: bool) -> Premise:
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
    held_by: Term = HOLDER
    if reader.scanner.take_word("held"):
        reader.scanner.must_take_word("by")
        held_by = reader.term(ParameterKind.PRINCIPAL, binds=True)
    if isinstance(declaration, AppointmentDeclaration):
        return CertificatePremise(name, terms, held_by, is_watched)
    return RolePremise(name, terms, held_by, is_watched)


def read_place(reader: TermReader) -> list[Premise]:
    """Read what follows `where` in a rule: `address in 10.2.0.0/16`, `computer == KEY`, joined by `and`."""
    found: list[Premise] = []
    while not found or reader.scanner.take_word("and"):
        if (networks := take_networks(reader.scanner)) is not None:
            found.append(PlacePremise(networks))
            continue
        if not reader.scanner.take_word("computer"):
            raise reader.scanner.expected("`address in` and a network, or `computer ==` and a key")
        reader.scanner.must_take("==")
        key = take_key(reader.scanner, reader.names)
        name = f"computer {key}"
        declared = AppointmentDeclaration(name, (), frozenset((key,)), AT_COMPUTER, False, Place("", 0))
        reader.names.declared.setdefault(name, declared)
        found.append(CertificatePremise(name, (), HOLDER, is_watched=True))
    return found


def take_networks(scanner: Scanner) -> tuple[str, ...] | None:
    """Take `address in NETWORK, …`, if that comes next."""
    if not scanner.take_word("address"):
        return None
    scanner.must_take_word("in")
    networks: list[str] = []
    while not networks or scanner.take(","):
        at = scanner.mark()
        text = scanner.take_match(_NETWORK) or ""
        try:
            networks.append(str(ip_network(text)))
        except ValueError:
            hint = ""
            with suppress(ValueError):
                hint = f"did you mean `{ip_network(text, strict=False)}`?"
            said = f"expected a network such as `10.2.0.0/16`, but found `{shown(text)}`"
            raise Complaint(said, at=at, hint=hint) from None
    return tuple(sorted(set(networks)))


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


@dataclass(slots=True)
class Reading:
    """One rule or grant while it is being read."""

    statement: Statement
    names: Names
    problems: Problems
    label: str
    place: Place
    variables: Variables = field(init=False)
    premises: list[Premise] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin without variables."""
        self.variables = Variables(self.label, self.problems)

    def attempt(self, fragment: Fragment, read: Callable[[TermReader], T]) -> T | None:
        """Read one fragment to its end and return what it says; report what is wrong with it."""
        reader = TermReader(self.names, self.variables, fragment, fragment.scanner())
        try:
            found = read(reader)
            reader.scanner.must_end(END)
        except MISREAD as refusal:
            fragment.report(self.problems, self.label, refusal)
            return None
        except (BadPredicate, BadExpression) as refusal:
            self.problems.add(fragment.problem(self.label, refusal.message))
            return None
        return found

    def attempt_all(self, word: str, read: Callable[[TermReader], T]) -> list[T] | None:
        """Read every clause that begins with `word`; None if one of them was not good."""
        return _all_good([self.attempt(fragment, read) for fragment in self.clauses(word)])

    def attempt_over(self, fragment: Fragment, read: TextReader[T]) -> T | None:
        """Read the text of a fragment in which `$name` means a variable, by a sample of its kind."""
        samples = sample_values(self.variables.kinds)

        def read_whole(reader: TermReader) -> T:
            found = read(fragment.text, samples)
            reader.scanner.position = len(fragment.text)
            return found

        found = self.attempt(fragment, read_whole)
        if found is not None:
            self.use(samples.names, fragment)
        return found

    def attempt_all_over(self, word: str, read: TextReader[T]) -> list[T] | None:
        """Read every clause that begins with `word` as a text with variables; None if one was not good."""
        return _all_good([self.attempt_over(fragment, read) for fragment in self.clauses(word)])

    def use(self, names: set[str], fragment: Fragment) -> None:
        """Note that a fragment speaks of variables."""
        for name in sorted(names - ALWAYS_THERE.keys()):
            self.variables.use(name, None, binds=False, fragment=fragment, at=0)

    def clauses(self, *words: str) -> list[Fragment]:
        """Return the clauses that begin with one of these words, in order."""
        return [fragment for fragment in self.statement.clauses if fragment.word in words]

    def refuse_clauses_except(self, *words: str) -> None:
        """Report clauses that do not belong here, and those that are there twice."""
        seen: set[str] = set()
        for fragment in self.statement.clauses:
            if fragment.word not in words:
                said = f"a `{self.statement.word}` has no clause `{fragment.word}`"
                self.problems.add(fragment.problem(self.label, said))
            if fragment.word in seen & _ALONE:
                self.problems.add(fragment.problem(self.label, f"`{fragment.word}` is here twice"))
            seen.add(fragment.word)


def _all_good(tried: list[T | None]) -> list[T] | None:
    found = [one for one in tried if one is not None]
    return found if len(found) == len(tried) else None


def read_head(
    reading: Reading, head: Fragment, *, binds: bool
) -> tuple[RoleDeclaration, tuple[Term, ...]] | None:
    """Read `role(terms)`; None if something was wrong."""

    def read(reader: TermReader) -> tuple[RoleDeclaration, tuple[Term, ...]]:
        name, at = take_name(reader.scanner, "a role")
        role = reader.names.declared.get(name)
        if role is None:
            raise reader.names.unknown("role", name, reader.names.every(RoleDeclaration), at=at)
        if not isinstance(role, RoleDeclaration):
            raise Complaint(f"`{name}` is not a role of this domain", at=at)
        terms = reader.terms(role.parameters, of=name, binds=binds)
        if not binds and ANYTHING in terms:
            raise Complaint("`_` cannot be used here: a rule says what its members are about", at=at)
        return role, terms

    return reading.attempt(head, read)


def read_premises(reading: Reading) -> bool:
    """Read `while` and `given`."""
    fine = True
    for fragment in reading.clauses("while", "given"):

        def read(reader: TermReader, is_watched: bool = fragment.word == "while") -> bool:
            reading.premises.append(read_premise(reader, is_watched))
            return True

        fine &= reading.attempt(fragment, read) is not None
    if reading.statement.word == "rule":
        for fragment in reading.clauses("where"):
            places = reading.attempt(fragment, read_place)
            fine &= places is not None
            reading.premises += places or []
    return fine


def read_asked(reading: Reading) -> tuple[str, ...] | None:
    """Read `ask`: names of the head that the asker states; None if something was wrong."""

    def read(reader: TermReader) -> list[str]:
        asked: list[str] = []
        while not asked or reader.scanner.take(","):
            name, at = take_name(reader.scanner, "a variable of the head")
            if name not in reading.variables.kinds:
                hint = did_you_mean(name, reading.variables.kinds)
                raise Complaint(f"`{name}` is not in the head", at=at, hint=hint)
            reading.variables.use(name, None, binds=True, fragment=reader.fragment, at=at)
            asked.append(name)
        return asked

    found = reading.attempt_all("ask", read)
    return None if found is None else tuple(name for asked in found for name in asked)


def read_ends(reading: Reading, *, of_grant: bool) -> Ends | None:
    """Read `for` and `until`; None if something was wrong."""

    def read_until(reader: TermReader) -> Ends:
        reader.scanner.take_word("the")
        if reader.scanner.take_word("revoked"):
            return Ends(is_until_revoked=True)
        name, at = take_name(reader.scanner, "`revoked`, a premise and `ends`, or a variable")
        if reader.scanner.take_word("ends"):
            return Ends(premises=tuple(_ending_premises(reading, name, at, of_grant=of_grant)))
        reading.variables.use(name, ParameterKind.TIMESTAMP, binds=False, fragment=reader.fragment, at=at)
        return Ends(moments=(name,))

    after, until = reading.attempt_all("for", _duration), reading.attempt_all("until", read_until)
    if after is None or until is None:
        return None
    return Ends(
        min(after, default=None),
        tuple(sorted({premise for one in until for premise in one.premises})),
        tuple(sorted({moment for one in until for moment in one.moments})),
        any(one.is_until_revoked for one in until),
    )


def _duration(reader: TermReader) -> int:
    at = reader.scanner.mark()
    number = reader.scanner.take_match(_NUMBER)
    if number is None:
        raise reader.scanner.expected("a duration such as `8 hours`")
    unit_at = reader.scanner.mark()
    word = reader.scanner.take_name() or ""
    seconds = _UNITS.get(word.removesuffix("s"))
    if seconds is None:
        hint = did_you_mean(word, [unit + "s" for unit in _UNITS])
        raise Complaint("expected seconds, minutes, hours, days or weeks", at=unit_at, hint=hint)
    if int(number) * seconds > _LONGEST_S:
        raise Complaint("this is longer than ten years", at=at, hint="write `until revoked`")
    return int(number) * seconds * SECOND


def _ending_premises(reading: Reading, name: str, at: int, *, of_grant: bool) -> list[int]:
    if of_grant and name == reading.label.rpartition(" ")[2]:
        return []  # a right never outlasts its membership, whether the text says so or not
    unnamed = (TimePremise, PlacePremise)
    named = [(n, one) for n, one in enumerate(reading.premises) if not isinstance(one, unnamed)]
    found = [(number, premise) for number, premise in named if premise.name == name]
    if not found and len(reading.premises) < len(reading.clauses("while", "given")):
        raise Consequence(f"no premise that could be read is called `{name}`", at=at)
    if not found:
        hint = did_you_mean(name, [premise.name for _, premise in named])
        raise Complaint(f"no premise here is called `{name}`", at=at, hint=hint)
    if isinstance(found[0][1], FactPremise):
        raise Complaint(f"the fact `{name}` has no end of its own: `while` watches it", at=at)
    return [number for number, _ in found]


def read_conditions(reading: Reading) -> tuple[Condition, ...] | None:
    """Read `if`, now that the kinds of all variables are known; None if something was wrong."""
    conditions: list[Condition] = []
    clauses = reading.clauses("if")
    for fragment in clauses:
        vocabulary = vocabulary_for(reading.variables.kinds)
        if not vocabulary:
            reading.variables.check()  # which reports what is wrong with the names
            return None
        found = template(reading, fragment, vocabulary)
        if found is not None:
            uids = attributes_of(found)
            reading.use({name for name, one in vocabulary.items() if one.uid in uids}, fragment)
            conditions.append(Condition(fragment.text.strip(), vocabulary))
    return tuple(conditions) if len(conditions) == len(clauses) else None


def template(reading: Reading, fragment: Fragment, vocabulary: Vocabulary | None) -> Predicate | None:
    """Check a predicate in which `$name` means a variable; None if something was wrong."""
    return reading.attempt_over(fragment, lambda text, samples: parse_predicate(text, vocabulary, samples))
