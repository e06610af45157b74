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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.credentials import BadKey, principal_from_text
from maia.credentials.appointments import BadArgument, ParameterKind, checked_argument
from maia.events import SECOND, Vocabulary
from maia.events.zones import MINUTES_IN_A_DAY, zone_names
from maia.predicates.language.literals import read_literal
from maia.predicates.language.parser import parse_predicate
from maia.predicates.language.scanner import BadPredicateText, Scanner
from maia.predicates.syntax import BadPredicate, Predicate, attributes_of
from maia.roles.changes import rule_id
from maia.roles.declarations import RESERVED, Names, must_end, take_name
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
    Premise,
    RoleDeclaration,
    RolePremise,
    Rule,
    Term,
    TimePremise,
)
from maia.roles.statements import Complaint, Consequence, Fragment, Problems, Statement, did_you_mean, shown
from maia.roles.time_windows import DAY_NAMES, TimeWindow
from maia.roles.variables import Variables, sample_values, vocabulary_for

# What does one premise of a rule ask for?


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


_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}")
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_LONGEST_S: Final = 3660 * 86_400

Head: TypeAlias = tuple[RoleDeclaration, tuple[Term, ...]]
"""A role and what stands in its parentheses."""

_ALONE: Final = frozenset({"for", "may", "where", "provided", "checked"})


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
    asked: list[str] = field(default_factory=list)
    ends: Ends = field(default_factory=Ends)

    def __post_init__(self) -> None:
        """Begin without variables."""
        self.variables = Variables(self.label, self.problems)

    def attempt(self, fragment: Fragment, read: Callable[[TermReader], None]) -> bool:
        """Read one fragment to its end; report what is wrong with it, and return whether it was good."""
        reader = TermReader(self.names, self.variables, fragment, fragment.scanner())
        try:
            read(reader)
            must_end(reader.scanner)
        except (Complaint, BadPredicateText) as refusal:
            fragment.report(self.problems, self.label, refusal)
            return False
        return True

    def attempt_all(self, word: str, read: Callable[[TermReader], None]) -> bool:
        """Read every clause that begins with `word`; return whether all of them were good."""
        return min([self.attempt(fragment, read) for _, fragment in self.clauses(word)], default=True)

    def clauses(self, *words: str) -> list[tuple[str, Fragment]]:
        """Return the clauses that begin with one of these words, in order."""
        return [(word, fragment) for word, fragment in self.statement.clauses if word in words]

    def refuse_clauses_except(self, *words: str) -> None:
        """Report clauses that do not belong here, and those that are there twice."""
        seen: set[str] = set()
        for word, fragment in self.statement.clauses:
            if word not in words:
                said = f"a `{self.statement.word}` has no clause `{word}`"
                self.problems.add(fragment.problem(self.label, said))
            # `may` is counted by its own reader: `may delegate` is beside it.
            if word in seen & _ALONE - {"may"}:
                self.problems.add(fragment.problem(self.label, f"`{word}` is here twice"))
            seen.add(word)


def read_rule(reading: Reading, role: RoleDeclaration, terms: tuple[Term, ...]) -> Rule | None:
    """Read the clauses of a rule whose head has been read; None if something was wrong."""
    reading.refuse_clauses_except("while", "given", "if", "ask", "for", "until")
    fine = all([read_asked(reading), read_premises(reading), read_ends(reading, of_grant=False)])
    conditions = read_conditions(reading) if fine else ()
    if not fine or conditions is None:
        return None
    reading.variables.check()
    _check_that_it_ends(reading)
    kinds, asked = reading.variables.kinds, tuple(reading.asked)
    premises = tuple(reading.premises)
    identity = rule_id(
        (role.name, terms),
        premises,
        conditions,
        asked=asked,
        ends=reading.ends,
        kinds=kinds,
        declared=reading.names.declared,
    )
    return Rule(identity, role.name, terms, premises, conditions, asked, reading.ends, kinds, reading.place)


def read_head(
    reading: Reading, head: Fragment, *, binds: bool
) -> tuple[RoleDeclaration, tuple[Term, ...]] | None:
    """Read `role(terms)`; None if something was wrong."""
    found: list[tuple[RoleDeclaration, tuple[Term, ...]]] = []

    def read(reader: TermReader) -> None:
        name, at = take_name(reader.scanner, "a role")
        role = reader.names.declared.get(name)
        if not isinstance(role, RoleDeclaration):
            raise _no_role(reader.names, name, at)
        terms = reader.terms(role.parameters, of=name, binds=binds)
        if not binds and ANYTHING in terms:
            raise Complaint("`_` cannot be used here: a rule says what its members are about", at=at)
        found.append((role, terms))

    return found[0] if reading.attempt(head, read) and found else None


def _no_role(names: Names, name: str, at: int) -> Complaint:
    if name in names.declared:
        return Complaint(f"`{name}` is not a role of this domain", at=at)
    return names.unknown("role", name, names.roles, at=at)


def read_premises(reading: Reading) -> bool:
    """Read `while` and `given`."""
    fine = True
    for word, fragment in reading.clauses("while", "given"):

        def read(reader: TermReader, is_watched: bool = word == "while") -> None:
            reading.premises.append(read_premise(reader, is_watched=is_watched))

        fine &= reading.attempt(fragment, read)
    return fine


def read_asked(reading: Reading) -> bool:
    """Read `ask`: names of the head that the asker states."""

    def read(reader: TermReader) -> None:
        while True:
            name, at = take_name(reader.scanner, "a variable of the head")
            if name not in reading.variables.kinds:
                hint = did_you_mean(name, reading.variables.kinds)
                raise Complaint(f"`{name}` is not in the head", at=at, hint=hint)
            reading.variables.use(name, None, binds=True, fragment=reader.fragment, at=at)
            reading.asked.append(name)
            if not reader.scanner.take(","):
                return

    return reading.attempt_all("ask", read)


def read_ends(reading: Reading, *, of_grant: bool) -> bool:
    """Read `for` and `until`."""
    after: list[int] = []
    premises: list[int] = []
    moments: list[str] = []
    revoked: list[bool] = []

    def read_for(reader: TermReader) -> None:
        after.append(_duration(reader))

    def read_until(reader: TermReader) -> None:
        reader.scanner.take_word("the")
        if reader.scanner.take_word("revoked"):
            revoked.append(True)
            return
        name, at = take_name(reader.scanner, "`revoked`, a premise and `ends`, or a variable")
        if reader.scanner.take_word("ends"):
            premises.extend(_ending_premises(reading, name, at, of_grant=of_grant))
        else:
            use = reading.variables.use
            use(name, ParameterKind.TIMESTAMP, binds=False, fragment=reader.fragment, at=at)
            moments.append(name)

    fine = reading.attempt_all("for", read_for) & reading.attempt_all("until", read_until)
    shortest = min(after, default=None)
    reading.ends = Ends(shortest, tuple(sorted(set(premises))), tuple(sorted(set(moments))), bool(revoked))
    return fine


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
    found = [
        number
        for number, premise in enumerate(reading.premises)
        if not isinstance(premise, TimePremise) and premise.name == name
    ]
    if not found and len(reading.premises) < len(reading.clauses("while", "given")):
        raise Consequence(f"no premise that could be read is called `{name}`", at=at)
    if not found:
        known = [one.name for one in reading.premises if not isinstance(one, TimePremise)]
        raise Complaint(f"no premise here is called `{name}`", at=at, hint=did_you_mean(name, known))
    if isinstance(reading.premises[found[0]], FactPremise):
        raise Complaint(f"the fact `{name}` has no end of its own: `while` watches it", at=at)
    return found


def read_conditions(reading: Reading) -> tuple[Condition, ...] | None:
    """Read `if`, now that the kinds of all variables are known; None if something was wrong."""
    conditions: list[Condition] = []
    fine = True
    for _, fragment in reading.clauses("if"):
        vocabulary = vocabulary_for(reading.variables.kinds)
        if not vocabulary:
            reading.variables.check()  # which reports what is wrong with the names
            return None
        found = template(reading, fragment, vocabulary)
        if found is None:
            fine = False
            continue
        uids = attributes_of(found)
        for name in sorted(name for name, attribute in vocabulary.items() if attribute.uid in uids):
            if name not in ("holder", "now"):
                reading.variables.use(name, None, binds=False, fragment=fragment, at=0)
        conditions.append(Condition(fragment.text.strip(), vocabulary))
    return tuple(conditions) if fine else None


def template(reading: Reading, fragment: Fragment, vocabulary: Vocabulary | None) -> Predicate | None:
    """Check a predicate in which `$name` means a variable; None if something was wrong."""
    samples = sample_values(reading.variables.kinds)
    try:
        predicate = parse_predicate(fragment.text, vocabulary, samples)
    except BadPredicateText as refusal:
        if ("if", fragment) in reading.statement.clauses:
            refusal.sentence = refusal.sentence.replace("no attribute", "no variable", 1)
        reading.problems.add(fragment.problem_of(reading.label, refusal))
        return None
    except BadPredicate as refusal:
        reading.problems.add(fragment.problem(reading.label, refusal.message))
        return None
    for name in sorted(samples.names - {"holder", "now"}):
        reading.variables.use(name, None, binds=False, fragment=fragment, at=0)
    return predicate


def _check_that_it_ends(reading: Reading) -> None:
    ends = reading.ends
    bounded = ends.after_us is not None or ends.premises or ends.moments or ends.is_until_revoked
    held = (RolePremise, CertificatePremise, TimePremise)
    if not bounded and not any(isinstance(one, held) and one.is_watched for one in reading.premises):
        said = "this role would never end"
        hint = "make it depend on a certificate with `while`, or write `for 30 days` or `until revoked`"
        reading.problems.add(reading.statement.head.problem(reading.label, said, hint=hint))
