"""What do the names in this policy mean?

Roles, appointments and facts share one set of names, so that a premise needs
no mark to say which of them it asks for. Imported names are there before the
first line is read, and nothing in the text can give one another meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import Principal
from maia.predicates.language.scanner import Scanner
from maia.roles.policy import (
    AppointmentDeclaration,
    Declaration,
    FactDeclaration,
    Grant,
    Policy,
    RoleDeclaration,
    Rule,
)
from maia.roles.problems import Complaint, Consequence, did_you_mean, shown
from maia.types import VerifiedType

NAME_MAX: Final = 63
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

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

    @property
    def facts(self) -> dict[str, FactDeclaration]:
        """Return the facts by name."""
        return {name: one for name, one in self.declared.items() if isinstance(one, FactDeclaration)}

    @property
    def appointments(self) -> dict[str, AppointmentDeclaration]:
        """Return the certificates by name."""
        return {name: one for name, one in self.declared.items() if isinstance(one, AppointmentDeclaration)}

    @property
    def roles(self) -> dict[str, RoleDeclaration]:
        """Return this domain's roles by name."""
        return {name: one for name, one in self.declared.items() if isinstance(one, RoleDeclaration)}

    def type_called(self, name: str) -> VerifiedType | None:
        """Return the type that the policy means by `name`."""
        return self.types.get(self.aliases.get(name, name))

    def unknown(self, what: str, name: str, known: Iterable[str], *, at: int) -> Complaint:
        """Return the problem of an unknown name: each cause is reported once."""
        said = f"there is no {what} `{shown(name)}`"
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


def take_name(scanner: Scanner, what: str) -> tuple[str, int]:
    """Take a name that an author may choose; return it and its place."""
    at = scanner.mark()
    name = scanner.take_match(_NAME)
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
