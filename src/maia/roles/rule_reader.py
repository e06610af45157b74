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

from maia.credentials.arguments import ParameterKind
from maia.events import SECOND, Vocabulary
from maia.predicates.language.parser import parse_predicate
from maia.predicates.language.scanner import BadPredicateText
from maia.predicates.syntax import BadPredicate, Predicate, attributes_of
from maia.roles.declarations import must_end
from maia.roles.identity import rule_id
from maia.roles.names import Names, take_name
from maia.roles.policy import (
    ANYTHING,
    CertificatePremise,
    Condition,
    Ends,
    FactPremise,
    Place,
    Premise,
    RoleDeclaration,
    RolePremise,
    Rule,
    Term,
    TimePremise,
)
from maia.roles.premises import TermReader, read_premise
from maia.roles.problems import Complaint, Consequence, Problems, did_you_mean
from maia.roles.statements import Fragment, Statement
from maia.roles.variables import Variables, sample_values, vocabulary_for

__all__ = ["Head", "Reading", "read_head", "read_rule", "template"]

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
