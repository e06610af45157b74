"""What does a statement declare: a key, a type, a fact, an appointment or a role?

    key courts = ed25519:…
    type Numberplate = "uk.gov.pito.Numberplate"
    fact case_assignment(who: principal, case: string)
    appointment court_order(case: string, plate: string) by courts
    role np_tracker(plate: string)
    role herts_officer(number: int) of hertfordshire named officer

The last is a role of another domain: a holder of that domain's role
membership certificate meets a premise that asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from maia.credentials import BadKey, BadName, principal_from_text
from maia.credentials.appointments import PARAMETERS_MAX, ParameterKind
from maia.credentials.names import checked_label
from maia.events import Kind
from maia.predicates.language.literals import read_literal
from maia.predicates.language.scanner import BadPredicateText, Scanner
from maia.roles.names import Names, take_name
from maia.roles.policy import (
    HERE,
    AppointmentDeclaration,
    FactDeclaration,
    KeyReference,
    Parameter,
    Place,
    RoleDeclaration,
)
from maia.roles.problems import Complaint, Problems, did_you_mean, shown
from maia.roles.statements import Statement

_KEY_TEXT: Final = re.compile(r"ed25519:[0-9A-Za-z]*")
_MEANT: Final = re.compile(r"\w+\s+([\w-]{1,63})")
_SWALLOWED: Final = re.compile(r"\n[ \t]+(key|type|fact|appointment|role)[ \t]+([A-Za-z0-9_-]{1,63})")
_TYPE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def read_declaration(statement: Statement, names: Names, origin: str, problems: Problems) -> None:
    """Add what one statement declares to `names`, or report what is wrong with it."""
    scanner, word = statement.head.scanner(), statement.word
    scanner.take_word(word)
    label = _label(statement)
    place = Place(origin, statement.head.line)
    try:
        DECLARING[word](scanner, names, place)
        must_end(scanner)
    except (Complaint, BadPredicateText) as refusal:
        meant = _MEANT.match(statement.head.text)
        names.broken[label if meant is None else meant.group(1)] = word
        # A declaration that was indented by mistake has become a part of the one above it.
        names.broken.update((name, swallowed) for swallowed, name in _SWALLOWED.findall(statement.head.text))
        statement.head.report(problems, label, refusal)
    for clause, fragment in statement.clauses[:1]:
        problems.add(fragment.problem(label, f"a `{word}` has no clause `{clause}`"))


def must_end(scanner: Scanner) -> None:
    """Complain if anything is left."""
    if not scanner.at_end():
        raise scanner.expected("the end of the line")


def take_key(scanner: Scanner, names: Names) -> KeyReference:
    """Take the name of a key, a key written out, or `here`."""
    at = scanner.mark()
    if scanner.take_word("here"):
        return HERE
    text = scanner.take_match(_KEY_TEXT)
    if text is not None:
        try:
            return principal_from_text(text)
        except BadKey as problem:
            raise Complaint(problem.message, at=at) from problem
    name, at = take_name(scanner, "a key")
    if name not in names.keys:
        raise names.unknown("key", name, names.keys, at=at)
    return names.keys[name]


def _label(statement: Statement) -> str:
    words = re.match(r"[A-Za-z]+[ \t]+[A-Za-z0-9_-]{1,63}", statement.head.text)
    return " ".join(words.group().split()) if words else statement.word


def _key(scanner: Scanner, names: Names, _place: Place) -> None:
    name, at = take_name(scanner, "a name for the key")
    names.refuse_taken(name, at=at)
    scanner.must_take("=")
    key_at = scanner.mark()
    text = scanner.take_match(_KEY_TEXT)
    if text is None:
        raise scanner.expected("a key: `ed25519:` and 64 hexadecimal digits")
    try:
        names.keys[name] = principal_from_text(text)
    except BadKey as problem:
        raise Complaint(problem.message, at=key_at) from problem


def _type(scanner: Scanner, names: Names, _place: Place) -> None:
    name, at = take_name(scanner, "a name for the type")
    if name in names.aliases:
        raise Complaint(f"`{name}` already names the type `{names.aliases[name]}`", at=at)
    scanner.must_take("=")
    type_at = scanner.mark()
    if scanner.sees('"'):
        meant: str | None = str(read_literal(scanner, Kind.STRING))
    else:
        meant = scanner.take_match(_TYPE_NAME)
    if meant is None:
        raise scanner.expected("the name of a type")
    if meant not in names.types:
        hint = did_you_mean(meant, names.types)
        raise Complaint(f"there is no type `{shown(meant)}`", at=type_at, hint=hint)
    names.aliases[name] = meant


def _fact(scanner: Scanner, names: Names, place: Place) -> None:
    name, at = take_name(scanner, "a name for the fact")
    parameters = _parameters(scanner)
    names.refuse_taken(name, at=at)
    names.declared[name] = FactDeclaration(name, parameters, place)


def _appointment(scanner: Scanner, names: Names, place: Place) -> None:
    name, at = take_name(scanner, "a name for the appointment")
    parameters = _parameters(scanner)
    if not scanner.take_word("by"):
        raise scanner.expected("`by` and who may issue it")
    issuers = _issuers(scanner, names)
    called = _called(scanner, name)
    names.refuse_taken(name, at=at)
    names.declared[name] = AppointmentDeclaration(name, parameters, issuers, called, False, place)


def _role(scanner: Scanner, names: Names, place: Place) -> None:
    name, at = take_name(scanner, "a name for the role")
    parameters = _parameters(scanner)
    if scanner.take_word("of"):
        issuers = _issuers(scanner, names)
        called = _called(scanner, name)
        names.refuse_taken(name, at=at)
        names.declared[name] = AppointmentDeclaration(name, parameters, issuers, called, True, place)
        return
    is_closed = scanner.take_word("closed")
    names.refuse_taken(name, at=at)
    names.declared[name] = RoleDeclaration(name, parameters, is_closed, place)


def _issuers(scanner: Scanner, names: Names) -> frozenset[KeyReference]:
    issuers = {take_key(scanner, names)}
    while scanner.take(",") or scanner.take_word("or"):
        issuers.add(take_key(scanner, names))
    return frozenset(issuers)


def _called(scanner: Scanner, name: str) -> str:
    at = scanner.mark()
    if scanner.take_word("named"):
        at = scanner.mark()
        quoted = scanner.sees('"')
        name = str(read_literal(scanner, Kind.STRING)) if quoted else take_name(scanner, "a name")[0]
    try:
        return checked_label(name)
    except BadName as problem:
        raise Complaint(problem.message, at=at) from problem


def _parameters(scanner: Scanner) -> tuple[Parameter, ...]:
    """Read `(name: kind, …)`; a declaration without parentheses has no parameters."""
    if not scanner.take("(") or scanner.take(")"):
        return ()
    parameters = [_parameter(scanner, set())]
    while not scanner.take(")"):
        if not scanner.take(","):
            raise scanner.expected("`,` or `)`")
        at = scanner.mark()
        parameters.append(_parameter(scanner, {parameter.name for parameter in parameters}))
        if len(parameters) > PARAMETERS_MAX:
            raise Complaint(f"there are at most {PARAMETERS_MAX} parameters", at=at)
    return tuple(parameters)


def _parameter(scanner: Scanner, taken: set[str]) -> Parameter:
    name, at = take_name(scanner, "the name of a parameter")
    if name in taken:
        raise Complaint(f"two parameters are called `{name}`", at=at)
    scanner.must_take(":")
    kinds = {kind.value: kind for kind in ParameterKind}
    at = scanner.mark()
    word = scanner.take_name()
    if word not in kinds:
        hint = did_you_mean(word or "", kinds)
        raise Complaint(f"expected a kind: {', '.join(kinds)}", at=at, hint=hint)
    return Parameter(name, kinds[word])


DECLARING: Final[dict[str, Callable[[Scanner, Names, Place], None]]] = {
    "key": _key,
    "type": _type,
    "fact": _fact,
    "appointment": _appointment,
    "role": _role,
}
