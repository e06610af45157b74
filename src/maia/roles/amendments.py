"""Which grants do `transform`, `summarise` and `restrict` speak of?

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
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from maia.credentials import Action
from maia.predicates.language.scanner import NAME
from maia.roles.declarations import TYPE_NAME, Names
from maia.roles.policy import RoleDeclaration
from maia.roles.statements import Complaint, Fragment, Problems, Statement, did_you_mean
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
_ARGUMENTS: Final = re.compile(r"\((?P<listed>[^()]*)\)")
_STATEMENTS: Final = {
    "transform": (_TRANSFORM, "transform Prescribe for auditor as ControlledDrugAuth"),
    "summarise": (_SUMMARISE, "summarise Reading for public as AreaReading every 5 minutes at least 5"),
    "restrict": (_RESTRICT, "restrict Prescribe to doctor(d) when treats(d, patient)"),
}


@dataclass(frozen=True, slots=True)
class _Amendment:
    """Clauses for the grants by which a role subscribes to a type, or publishes it."""

    statement: Statement
    type_name: str
    role: str
    terms: str | None
    clauses: tuple[Fragment, ...]
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
    own, theirs = NAME.findall(amendment.terms or ""), NAME.findall(head.group("terms") or "")
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
    for fragment in grant.clauses:
        if fragment.word == "may" and amendment.action.value in NAME.findall(fragment.text.partition("(")[0]):
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
    roles = names.every(RoleDeclaration)
    if found.group("role") not in roles:
        hint = did_you_mean(found.group("role"), roles)
        said = f"there is no role `{found.group('role')}`"
        problems.add(head.problem(label, said, at=found.start("role"), hint=hint))
        return None
    about = (statement, found.group("type"), found.group("role"))
    if word != "restrict":
        is_published = word == "transform" and found.group("publication") is not None
        action = Action.PUBLISH if is_published else Action.SUBSCRIBE
        return _Amendment(*about, None, _transform_clauses(statement, found, label, problems), action)
    for clause in statement.clauses:
        problems.add(clause.problem(label, f"a `restrict` has no clause `{clause.word}`"))
    return _Amendment(*about, found.group("terms"), _restrict_clauses(head, found, event_type))


def _transform_clauses(
    statement: Statement, found: re.Match[str], label: str, problems: Problems
) -> tuple[Fragment, ...]:
    groups = {"as": "result", **({"every": "every"} if statement.word == "summarise" else {})}
    clauses = [
        statement.head.part(found, group, word)
        for word, group in groups.items()
        if found.group(group) is not None
    ]
    for clause in statement.clauses:
        if clause.word in ("set", "where") or (clause.word == "per" and "every" in groups):
            clauses.append(clause)
        else:
            problems.add(clause.problem(label, f"a `{statement.word}` has no clause `{clause.word}`"))
    return tuple(clauses)


def _restrict_clauses(head: Fragment, found: re.Match[str], event_type: VerifiedType) -> tuple[Fragment, ...]:
    """Return the fact as a watched premise, and the variables that are attributes as a restriction."""
    premise = head.part(found, "premise", "while")
    own = set(NAME.findall(found.group("terms") or ""))
    listed = _ARGUMENTS.search(premise.text)
    spoken = dict.fromkeys(NAME.findall(listed.group("listed") if listed else ""))
    tied = [name for name in spoken if name in event_type.vocabulary and name not in own]
    where = " and ".join(f"{name} == ${name}" for name in tied)
    return (premise, Fragment(where, premise.line, premise.column, "where")) if where else (premise,)


def _joined(own: tuple[Fragment, ...], added: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
    """Return the clauses of a grant with those added to it; two restrictions hold both."""
    clauses = list(own)
    for one in added:
        at = next((place for place, known in enumerate(clauses) if known.word == one.word == "where"), None)
        if at is None:
            clauses.append(one)
        else:
            # The added one comes first, so that a complaint about it points at its own line.
            both = f"({one.text.strip()}) and ({clauses[at].text.strip()})"
            clauses[at] = Fragment(both, one.line, max(1, one.column - 1), "where")
    return tuple(clauses)
