"""What does a policy make of events before it shows them, and to whom does it show which?

    transform Prescribe for auditor as ControlledDrugAuth
        where drug_class in ("A", "B")
        set drug := drug
        set reference := pseudonym(patient)

    transform Reading on publication for sensor
        set place := first(place, 3)

    summarise Reading for public as AreaReading every 5 minutes at least 5
        per area := first(place, 3)
        set mean_level := mean(level, 0.1)

    restrict Prescribe to doctor(d) when treats(d, patient)

A transformation belongs to every grant by which a role subscribes to the type, or
publishes it, and can be written in the grant itself. A restriction asks for a fact: a
variable that is called like an attribute, here `patient`, ties the fact to the
event. Both become clauses of the grants they are about before these are read, so that
whatever is checked of a grant is checked of them, at their own lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from maia.credentials import ALL_ATTRIBUTES, Action, AttributeSet
from maia.credentials.authority import EVENT_ACTIONS
from maia.events import Vocabulary
from maia.expressions.language import parse_rule
from maia.expressions.summary_text import parse_every, parse_key, parse_measure, parse_summary
from maia.expressions.syntax import RULES_MAX, BadExpression, Rule, checked_rules, reads_of
from maia.predicates.language.scanner import BadPredicateText
from maia.predicates.syntax import BadPredicate
from maia.roles.declarations import TYPE_NAME, Names
from maia.roles.policy import Transform
from maia.roles.rule_reader import Reading, TermReader
from maia.roles.statements import Complaint, Fragment, Problems, Statement, did_you_mean
from maia.roles.variables import sample_values
from maia.types import VerifiedType

AMENDING: Final = ("transform", "summarise", "restrict")
_ROLE: Final = r"[A-Za-z_][A-Za-z0-9_-]{0,62}"
_TRANSFORM: Final = re.compile(
    rf"transform\s+(?P<type>{TYPE_NAME.pattern})(?P<publication>\s+on\s+publication)?"
    rf"\s+for\s+(?P<role>{_ROLE})"
    rf"(?:\s+(?P<as>as)\s+(?P<result>{TYPE_NAME.pattern}))?\s*"
)
_SUMMARISE: Final = re.compile(
    rf"summarise\s+(?P<type>{TYPE_NAME.pattern})\s+for\s+(?P<role>{_ROLE})"
    rf"\s+as\s+(?P<result>{TYPE_NAME.pattern})\s+every\s+(?P<every>.*)",
    re.DOTALL,
)
_RESTRICT: Final = re.compile(
    rf"restrict\s+(?P<type>{TYPE_NAME.pattern})\s+to\s+(?P<role>{_ROLE})\s*(?P<terms>\([^()]*\))?"
    r"\s+when\s+(?P<premise>.*)",
    re.DOTALL,
)
_GRANT: Final = re.compile(rf"grant\s+(?P<role>{_ROLE})\s*(?P<terms>\([^()]*\))?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ARGUMENTS: Final = re.compile(r"\((?P<listed>[^()]*)\)")
_STATEMENTS: Final = {
    "transform": (_TRANSFORM, "transform Prescribe for auditor as ControlledDrugAuth"),
    "summarise": (_SUMMARISE, "summarise Reading for public as AreaReading every 5 minutes at least 5"),
    "restrict": (_RESTRICT, "restrict Prescribe to doctor(d) when treats(d, patient)"),
}


def take_type(reader: TermReader) -> VerifiedType:
    """Read the name of an event type."""
    at = reader.scanner.mark()
    name = reader.scanner.take_match(TYPE_NAME)
    if name is None:
        raise reader.scanner.expected("a type, or `topic`, `network` or `type` and a pattern in quotes")
    return reader.names.must_be_type(name, at=at)


# What does a grant make of events?


def read_transform(
    reading: Reading, event_type: VerifiedType | None, actions: frozenset[Action], attributes: AttributeSet
) -> tuple[Transform | None, bool]:
    """Read what a grant makes of events; return what it says, if anything, and whether it was good."""
    results, assignments = reading.clauses("as"), reading.clauses("set")
    periods, per = reading.clauses("every"), reading.clauses("per")
    if not results and not assignments and not periods and not per:
        return None, True
    first = (results or assignments or periods or per)[0][1]
    said = None
    if event_type is None or len(actions) != 1 or not actions <= EVENT_ACTIONS:
        said = "a transformation belongs to a grant to `subscribe` to a type, or to one to `publish` it"
    elif not assignments:
        said = "an event of another type has what is `set`, and nothing is"
    elif len(assignments) > RULES_MAX:
        said = f"a transformation has at most {RULES_MAX} assignments"
    elif (periods or per) and (not periods or not results or Action.PUBLISH in actions):
        said = "what is summarised is shown to subscribers `every` period, and `as` another type"
    if said is not None or event_type is None:
        reading.problems.add(first.problem(reading.label, said or ""))
        return None, False
    result, fine = _result(reading)
    if not fine:
        return None, False
    assigns = event_type.vocabulary if result is None else result.vocabulary
    if periods and result is not None:
        return _summary(reading, event_type, result)
    rules = [_rule(reading, fragment, event_type.vocabulary, assigns) for _, fragment in assignments]
    good = [rule for rule in rules if rule is not None]
    if len(good) < len(rules) or not _fits(reading, good, first, attributes if result is None else None):
        return None, False
    read, assigned = reads_of(good), {rule.uid for rule in good}
    return Transform(
        tuple(fragment.text.strip() for _, fragment in assignments),
        {name: one for name, one in event_type.vocabulary.items() if one.uid in read},
        {name: one for name, one in assigns.items() if one.uid in assigned},
        None if result is None else result.name,
        event_type.name if result is not None and Action.PUBLISH in actions else None,
    ), True


def _summary(
    reading: Reading, event_type: VerifiedType, result: VerifiedType
) -> tuple[Transform | None, bool]:
    """Read `every`, `per` and `set` of a grant that summarises, each at its own line."""
    reads, assigns = event_type.vocabulary, result.vocabulary
    samples, found = sample_values(reading.variables.kinds), list[object]()
    readers: tuple[tuple[str, Callable[[str], object]], ...] = (
        ("every", parse_every),
        ("per", lambda text: parse_key(text, reads, assigns, samples)),
        ("set", lambda text: parse_measure(text, reads, assigns, samples)),
    )
    clauses = [(read, fragment) for word, read in readers for _, fragment in reading.clauses(word)]
    for read, fragment in clauses:
        try:
            found.append(read(fragment.text))
        except BadPredicateText as refusal:
            reading.problems.add(fragment.problem_of(reading.label, refusal))
        except (BadPredicate, BadExpression) as refusal:
            reading.problems.add(fragment.problem(reading.label, refusal.message))
    if len(found) < len(clauses):
        return None, False
    every, per, assigned = (
        tuple(fragment.text.strip() for _, fragment in reading.clauses(word))
        for word in ("every", "per", "set")
    )
    try:
        summary = parse_summary(every[0], per, assigned, reads, assigns, samples)
    except BadExpression as refusal:
        reading.problems.add(clauses[0][1].problem(reading.label, refusal.message))
        return None, False
    for name in sorted(samples.names - {"holder", "now"}):
        reading.variables.use(name, None, binds=False, fragment=clauses[0][1], at=0)
    return Transform(
        assigned,
        {name: one for name, one in reads.items() if one.uid in summary.reads},
        {name: one for name, one in assigns.items() if one.uid in summary.kinds},
        result.name,
        every=every[0],
        per=per,
    ), True


def _result(reading: Reading) -> tuple[VerifiedType | None, bool]:
    found: list[VerifiedType] = []

    def read(reader: TermReader) -> None:
        found.append(take_type(reader))

    fine = True
    for number, (_, fragment) in enumerate(reading.clauses("as")):
        if number:
            reading.problems.add(fragment.problem(reading.label, "`as` is here twice"))
            fine = False
        fine &= reading.attempt(fragment, read)
    return (found[0] if found else None), fine


def _rule(reading: Reading, fragment: Fragment, reads: Vocabulary, assigns: Vocabulary) -> Rule | None:
    samples = sample_values(reading.variables.kinds)
    try:
        rule = parse_rule(fragment.text, reads, assigns, samples)
    except BadPredicateText as refusal:
        reading.problems.add(fragment.problem_of(reading.label, refusal))
        return None
    except (BadPredicate, BadExpression) as refusal:
        reading.problems.add(fragment.problem(reading.label, refusal.message))
        return None
    for name in sorted(samples.names - {"holder", "now"}):
        reading.variables.use(name, None, binds=False, fragment=fragment, at=0)
    return rule


def _fits(reading: Reading, rules: list[Rule], first: Fragment, shown: AttributeSet | None) -> bool:
    try:
        checked_rules(tuple(rules))
    except BadExpression as refusal:
        reading.problems.add(first.problem(reading.label, refusal.message))
        return False
    hidden = [
        fragment
        for rule, (_, fragment) in zip(rules, reading.clauses("set"), strict=True)
        if shown is not None and shown is not ALL_ATTRIBUTES and rule.uid not in shown
    ]
    for fragment in hidden:
        said = "the grant does not show the attribute that is set here"
        hint = "name it among the attributes of the grant"
        reading.problems.add(fragment.problem(reading.label, said, hint=hint))
    return not hidden


# Which grants do `transform` and `restrict` speak of?


@dataclass(frozen=True, slots=True)
class _Amendment:
    """Clauses for the grants by which a role subscribes to a type, or publishes it."""

    statement: Statement
    type_name: str
    role: str
    terms: str | None
    clauses: tuple[tuple[str, Fragment], ...]
    action: Action = Action.SUBSCRIBE


def amended(statements: Iterable[Statement], names: Names, problems: Problems) -> tuple[Statement, ...]:
    """Return the statements with `transform` and `restrict` written into the grants they are about."""
    statements = tuple(statements)
    amendments = [
        found
        for one in statements
        if one.word in AMENDING and (found := _amendment(one, names, problems)) is not None
    ]
    used: set[int] = set()
    result: list[Statement] = []
    for statement in statements:
        grant = Statement(statement.head.behind("also"), ()) if statement.word == "also" else statement
        head = _GRANT.match(grant.head.text) if grant.word == "grant" else None
        clauses = statement.clauses
        for number, amendment in enumerate(amendments):
            if head is not None and _is_about(amendment, head, statement, names):
                used.add(number)
                _check_terms(amendment, head, statement, problems)
                clauses = _joined(clauses, amendment.clauses)
        result.append(Statement(statement.head, clauses))
    for number, amendment in enumerate(amendments):
        if number not in used:
            does = amendment.action.value
            said = f"no grant lets `{amendment.role}` {does} `{amendment.type_name}`"
            hint = f"write `grant {amendment.role}` with `may {does} {amendment.type_name}(…)`"
            label = f"{amendment.statement.word} {amendment.type_name}"
            problems.add(amendment.statement.head.problem(label, said, hint=hint))
    return tuple(result)


def _check_terms(amendment: _Amendment, head: re.Match[str], grant: Statement, problems: Problems) -> None:
    """Complain of a restriction that calls the arguments of a role otherwise than its grant does."""
    own, theirs = _NAME.findall(amendment.terms or ""), _NAME.findall(head.group("terms") or "")
    if amendment.terms is not None and own != theirs:
        line = grant.head.line
        said = f"the grant in line {line} calls the arguments of `{amendment.role}` otherwise"
        hint = f"write `{amendment.role}{head.group('terms') or ''}` in both"
        label = f"{amendment.statement.word} {amendment.type_name}"
        problems.add(amendment.statement.head.problem(label, said, hint=hint))


def _is_about(amendment: _Amendment, head: re.Match[str], grant: Statement, names: Names) -> bool:
    if head.group("role") != amendment.role:
        return False
    wanted = names.type_called(amendment.type_name)
    for word, fragment in grant.clauses:
        if word == "may" and amendment.action.value in _NAME.findall(fragment.text.partition("(")[0]):
            spoken = TYPE_NAME.findall(fragment.text.partition("(")[0])
            found = names.type_called(spoken[-1]) if spoken else None
            return found is not None and wanted is not None and found.name == wanted.name
    return False


def _amendment(statement: Statement, names: Names, problems: Problems) -> _Amendment | None:
    head, word = statement.head, statement.word
    pattern, shape = _STATEMENTS[word]
    found = pattern.fullmatch(head.text)
    if found is None:
        problems.add(head.problem(word, f"a `{word}` is written as `{shape}`"))
        return None
    label = f"{word} {found.group('type')}"
    try:
        event_type = names.must_be_type(found.group("type"), at=found.start("type"))
    except Complaint as refusal:
        head.report(problems, label, refusal)
        return None
    if found.group("role") not in names.roles:
        hint = did_you_mean(found.group("role"), names.roles)
        said = f"there is no role `{found.group('role')}`"
        problems.add(head.problem(label, said, at=found.start("role"), hint=hint))
        return None
    if word != "restrict":
        clauses = _transform_clauses(statement, found, label, problems)
        is_published = word == "transform" and found.group("publication") is not None
        action = Action.PUBLISH if is_published else Action.SUBSCRIBE
        return _Amendment(statement, found.group("type"), found.group("role"), None, clauses, action)
    for other, fragment in statement.clauses:
        problems.add(fragment.problem(label, f"a `restrict` has no clause `{other}`"))
    clauses = _restrict_clauses(head, found, event_type)
    return _Amendment(statement, found.group("type"), found.group("role"), found.group("terms"), clauses)


def _transform_clauses(
    statement: Statement, found: re.Match[str], label: str, problems: Problems
) -> tuple[tuple[str, Fragment], ...]:
    clauses = []
    if found.group("result") is not None:
        clauses.append(("as", _part(statement.head, found, "result")))
    allowed = {"set", "where"}
    if statement.word == "summarise":
        clauses.append(("every", _part(statement.head, found, "every")))
        allowed.add("per")
    for word, fragment in statement.clauses:
        if word in allowed:
            clauses.append((word, fragment))
        else:
            problems.add(fragment.problem(label, f"a `{statement.word}` has no clause `{word}`"))
    return tuple(clauses)


def _restrict_clauses(
    head: Fragment, found: re.Match[str], event_type: VerifiedType
) -> tuple[tuple[str, Fragment], ...]:
    """Return the fact as a watched premise, and the variables that are attributes as a restriction."""
    premise = _part(head, found, "premise")
    own = set(_NAME.findall(found.group("terms") or ""))
    listed = _ARGUMENTS.search(premise.text)
    spoken = dict.fromkeys(_NAME.findall(listed.group("listed") if listed else ""))
    tied = [name for name in spoken if name in event_type.vocabulary and name not in own]
    where = " and ".join(f"{name} == ${name}" for name in tied)
    clauses = [("while", premise)]
    if where:
        clauses.append(("where", Fragment(where, premise.line, premise.column)))
    return tuple(clauses)


def _part(fragment: Fragment, found: re.Match[str], group: str) -> Fragment:
    line, column = fragment.place(found.start(group))
    return Fragment(found.group(group), line, column)


def _joined(
    own: tuple[tuple[str, Fragment], ...], added: tuple[tuple[str, Fragment], ...]
) -> tuple[tuple[str, Fragment], ...]:
    """Return the clauses of a grant with those added to it; two restrictions hold both."""
    clauses = list(own)
    for word, fragment in added:
        at = next((place for place, (one, _) in enumerate(clauses) if one == word == "where"), None)
        if at is None:
            clauses.append((word, fragment))
        else:
            # The added one comes first, so that a complaint about it points at its own line.
            before = clauses[at][1]
            both = f"({fragment.text.strip()}) and ({before.text.strip()})"
            clauses[at] = ("where", Fragment(both, fragment.line, max(1, fragment.column - 1)))
    return tuple(clauses)
