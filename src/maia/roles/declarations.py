"""What does a statement declare, and what do the names in this policy mean?

    key courts = ed25519:…
    type Numberplate = "uk.gov.pito.Numberplate"
    type Lorry = port.Lorry@customs
    fact case_assignment(who: principal, case: string)
    appointment court_order(case: string, plate: string) by courts
    role np_tracker(plate: string)
    role herts_officer(number: int) of hertfordshire named officer

The last is a role of another domain: a holder of that domain's role
membership certificate meets a premise that asks for it.

Roles, appointments and facts share one set of names, so that a premise needs
no mark to say which of them it asks for. Imported names are there before the
first line is read, and nothing in the text can give one another meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from maia.credentials import BadKey, BadName, Principal, principal_from_text
from maia.credentials.appointments import PARAMETERS_MAX, ParameterKind
from maia.credentials.names import checked_label
from maia.errors import BadInput
from maia.predicates.language.literals import read_text
from maia.predicates.language.scanner import NAME, Scanner
from maia.roles.policy import (
    HERE,
    AppointmentDeclaration,
    Declaration,
    FactDeclaration,
    Grant,
    KeyReference,
    Parameter,
    Place,
    Policy,
    RoleDeclaration,
    Rule,
)
from maia.roles.statements import MISREAD, Complaint, Consequence, Problems, Statement, did_you_mean, shown
from maia.types import VerifiedType

NAME_MAX: Final = 63
D = TypeVar("D", FactDeclaration, AppointmentDeclaration, RoleDeclaration)

_OF_FILTERS: Final = ("and", "or", "not", "in", "true", "false", "null", "exists", "all", "any")
_TESTS: Final = ("prefix", "suffix", "contains", "token")
RESERVED: Final = frozenset(("_", "holder", "here", "now", "the", *_OF_FILTERS, *_TESTS))
"""Words that mean something in any place of a name."""


@dataclass(slots=True)
class Names:
    """What has been declared so far, here and by parents."""

    types: Mapping[str, VerifiedType]
    keys: dict[str, Principal] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    declared: dict[str, Declaration] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    """By name: the parent that declared it."""
    broken: dict[str, str] = field(default_factory=dict)
    """Names with a reported problem, and what they were to be."""
    is_incomplete: bool = False
    """Whether names are missing that a parent would have declared."""
    rules: list[Rule] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)

    def every(self, what: type[D]) -> dict[str, D]:
        """Return what is declared as one of roles, facts and appointments, by name."""
        return {name: one for name, one in self.declared.items() if isinstance(one, what)}

    def type_called(self, name: str) -> VerifiedType | None:
        """Return the type that the policy means by `name`, if it means one."""
        with suppress(KeyError, BadInput):
            return self._type_meant(self.aliases.get(name, name))
        return None

    def must_be_type(self, name: str, *, at: int, is_alias_known: bool = True) -> VerifiedType:
        """Return the type that the policy means by `name`; complain where that is none, or several."""
        try:
            return self._type_meant(self.aliases.get(name, name) if is_alias_known else name)
        except KeyError:
            raise self.unknown("type", name, [*self.aliases, *self.types], at=at) from None
        except BadInput as problem:
            raise self.unknown("type", name, self.aliases, at=at, said=problem.message) from problem

    def _type_meant(self, word: str) -> VerifiedType:
        """Find a type by its name or NAME@OWNER; the owner may be a key that the policy declares."""
        name, _, owner = word.partition("@")
        return self.types[f"{name}@{self.keys[owner]}" if owner in self.keys else word]

    def unknown(
        self, what: str, name: str, known: Iterable[str], *, at: int, said: str | None = None
    ) -> Complaint:
        """Return the problem of an unknown name: each cause is reported once."""
        said = said or f"there is no {what} `{shown(name)}`"
        if self.is_incomplete or name in self.broken or did_you_mean(name, self.broken):
            return Consequence(said, at=at)
        hint = did_you_mean(name, known)
        if not hint:
            # It is declared nowhere, and that is to be mended once; a slip of the pen has to be, everywhere.
            self.broken[name] = what
        return Complaint(said, at=at, hint=hint)

    def refuse_taken(self, name: str, *, at: int) -> None:
        """Complain if `name` already means something."""
        if name in self.imported:
            raise Complaint(f"`{name}` is already declared by the imported `{self.imported[name]}`", at=at)
        if name in self.declared:
            raise Complaint(f"`{name}` is already declared in line {self.declared[name].place.line}", at=at)
        if name in self.keys:
            raise Complaint(f"`{name}` is already the name of a key", at=at)

    def declare(self, declared: Declaration, at: int) -> None:
        """Give a name its meaning, if it has none."""
        self.refuse_taken(declared.name, at=at)
        self.declared[declared.name] = declared


def take_name(scanner: Scanner, what: str) -> tuple[str, int]:
    """Take a name that an author may choose; return it and its place."""
    at = scanner.mark()
    name = scanner.take_match(NAME)
    if name is None:
        raise scanner.expected(what)
    if len(name) > NAME_MAX:
        raise Complaint(f"`{shown(name)}…` is longer than {NAME_MAX} characters", at=at)
    if name.lower() in RESERVED:
        raise Complaint(f"`{name}` has a meaning of its own and cannot be {what}", at=at)
    return name, at


def import_policy(names: Names, parent: str, parents: Mapping[str, Policy]) -> None:
    """Add everything that a parent policy declares and rules to `names`."""
    if parent not in parents:
        raise Complaint(f"there is no parent policy `{parent}`", at=0, hint=did_you_mean(parent, parents))
    policy = parents[parent]
    for name, key in policy.keys.items():
        if names.keys.setdefault(name, key) != key:
            raise Complaint(f"`{parent}` gives the key name `{name}` to another key than before", at=0)
    declared: dict[str, Declaration] = {**policy.facts, **policy.appointments, **policy.roles}
    for name, declaration in declared.items():
        if names.declared.setdefault(name, declaration) != declaration:
            raise Complaint(f"`{parent}` declares `{name}` in another way than an earlier import", at=0)
        names.imported.setdefault(name, parent)
    # Two parents that share a grandparent bring the same rules; each counts once.
    rules, grants = {rule.id for rule in names.rules}, {grant.id for grant in names.grants}
    names.rules += [rule for some in policy.rules.values() for rule in some if rule.id not in rules]
    names.grants += [one for some in policy.grants.values() for one in some if one.id not in grants]


_KEY_TEXT: Final = re.compile(r"ed25519:[0-9A-Za-z]*")
_MEANT: Final = re.compile(r"\w+\s+([\w-]{1,63})")
_SWALLOWED: Final = re.compile(r"\n[ \t]+(key|type|fact|appointment|role)[ \t]+([A-Za-z0-9_-]{1,63})")
END: Final = "the end of the line"
TYPE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:@[^\s(),\"@]+)?")
"""The name of a type, or NAME@OWNER."""


def read_declaration(statement: Statement, names: Names, origin: str, problems: Problems) -> None:
    """Add what one statement declares to `names`, or report what is wrong with it."""
    scanner, word = statement.head.scanner(), statement.word
    scanner.take_word(word)
    label = _label(statement)
    place = Place(origin, statement.head.line)
    try:
        DECLARING[word](scanner, names, place)
        scanner.must_end(END)
    except MISREAD as refusal:
        meant = _MEANT.match(statement.head.text)
        names.broken[label if meant is None else meant.group(1)] = word
        # A declaration that was indented by mistake has become a part of the one above it.
        names.broken.update((name, swallowed) for swallowed, name in _SWALLOWED.findall(statement.head.text))
        statement.head.report(problems, label, refusal)
    for clause in statement.clauses[:1]:
        problems.add(clause.problem(label, f"a `{word}` has no clause `{clause.word}`"))


def take_key(scanner: Scanner, names: Names) -> KeyReference:
    """Take the name of a key, a key written out, or `here`."""
    if scanner.take_word("here"):
        return HERE
    if (key := take_key_text(scanner)) is not None:
        return key
    name, at = take_name(scanner, "a key")
    if name not in names.keys:
        raise names.unknown("key", name, names.keys, at=at)
    return names.keys[name]


def take_key_text(scanner: Scanner) -> Principal | None:
    """Take a key that is written out, if one comes next."""
    at = scanner.mark()
    text = scanner.take_match(_KEY_TEXT)
    try:
        return None if text is None else principal_from_text(text)
    except BadKey as problem:
        raise Complaint(problem.message, at=at) from problem


def _label(statement: Statement) -> str:
    words = re.match(r"[A-Za-z]+[ \t]+[A-Za-z0-9_-]{1,63}", statement.head.text)
    return " ".join(words.group().split()) if words else statement.word


def _key(scanner: Scanner, names: Names, _place: Place) -> None:
    name, at = take_name(scanner, "a name for the key")
    names.refuse_taken(name, at=at)
    scanner.must_take("=")
    key = take_key_text(scanner)
    if key is None:
        raise scanner.expected("a key: `ed25519:` and 64 hexadecimal digits")
    names.keys[name] = key


def _type(scanner: Scanner, names: Names, _place: Place) -> None:
    name, at = take_name(scanner, "a name for the type")
    if name in names.aliases:
        raise Complaint(f"`{name}` already names the type `{names.aliases[name]}`", at=at)
    scanner.must_take("=")
    type_at = scanner.mark()
    meant = read_text(scanner) if scanner.sees('"') else scanner.take_match(TYPE_NAME)
    if meant is None:
        raise scanner.expected("the name of a type")
    names.must_be_type(meant, at=type_at, is_alias_known=False)
    names.aliases[name] = meant


def _fact(scanner: Scanner, names: Names, place: Place) -> None:
    name, at = take_name(scanner, "a name for the fact")
    names.declare(FactDeclaration(name, _parameters(scanner), place), at)


def _appointment(scanner: Scanner, names: Names, place: Place) -> None:
    name, at = take_name(scanner, "a name for the appointment")
    parameters = _parameters(scanner)
    if not scanner.take_word("by"):
        raise scanner.expected("`by` and who may issue it")
    issuers, called = _issuers(scanner, names), _called(scanner, name)
    names.declare(AppointmentDeclaration(name, parameters, issuers, called, False, place), at)


def _role(scanner: Scanner, names: Names, place: Place) -> None:
    name, at = take_name(scanner, "a name for the role")
    parameters = _parameters(scanner)
    if scanner.take_word("of"):
        issuers, called = _issuers(scanner, names), _called(scanner, name)
        names.declare(AppointmentDeclaration(name, parameters, issuers, called, True, place), at)
    else:
        names.declare(RoleDeclaration(name, parameters, bool(scanner.take_word("closed")), place), at)


def _issuers(scanner: Scanner, names: Names) -> frozenset[KeyReference]:
    issuers = {take_key(scanner, names)}
    while scanner.take(",") or scanner.take_word("or"):
        issuers.add(take_key(scanner, names))
    return frozenset(issuers)


def _called(scanner: Scanner, name: str) -> str:
    at = scanner.mark()
    if scanner.take_word("named"):
        at = scanner.mark()
        name = read_text(scanner) if scanner.sees('"') else take_name(scanner, "a name")[0]
    try:
        return checked_label(name)
    except BadName as problem:
        raise Complaint(problem.message, at=at) from problem


def _parameters(scanner: Scanner) -> tuple[Parameter, ...]:
    """Read `(name: kind, …)`; a declaration without parentheses has no parameters."""
    if not scanner.take("(") or scanner.take(")"):
        return ()
    parameters: list[Parameter] = []

    def read() -> None:
        at = scanner.mark()
        parameters.append(_parameter(scanner, {parameter.name for parameter in parameters}))
        if len(parameters) > PARAMETERS_MAX:
            raise Complaint(f"there are at most {PARAMETERS_MAX} parameters", at=at)

    scanner.take_list(read)
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
