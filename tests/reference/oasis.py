"""The rules of OASIS, plain and slow: what every step must grant, and what must fall.

A policy here is data that `as_text` writes down for the real reader. The model
never looks at what the reader made of it. Activation tries every combination
of everything there is; what falls is found by asking of every membership, over
and over, whether all of what it is watched for is still there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

SECOND = 1_000_000


@dataclass(frozen=True)
class Premise:
    """`sort` is fact, appointment or role; terms are `$name`, `_`, `holder` or (kind, value)."""

    sort: str
    name: str
    terms: tuple
    watched: bool
    held_by: object = "holder"


@dataclass(frozen=True)
class Rule:
    """One way into a role. `lasts` is in seconds, None for until revoked."""

    role: str
    terms: tuple
    premises: tuple[Premise, ...]
    lasts: int | None
    at_least: tuple[str, int] | None = None
    unequal: tuple[str, str] | None = None
    asked: tuple[str, ...] = ()
    bounded_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grant:
    """A member of `role` may subscribe, with one attribute restricted to one of the variables."""

    role: str
    terms: tuple
    premises: tuple[Premise, ...]
    restricted_to: str | None
    lasts: int | None
    delegable: bool = False


@dataclass(frozen=True)
class Policy:
    """What is declared is fixed; rules, grants and issuers vary."""

    facts: dict[str, tuple[str, ...]]
    appointments: dict[str, tuple[str, ...]]
    issuers: dict[str, frozenset]
    roles: dict[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
    grants: tuple[Grant, ...]


@dataclass(frozen=True)
class Certificate:
    """An appointment as the model knows it. `number` tells two of the same text apart."""

    number: int
    name: str
    issuer: object
    holder: object
    values: tuple
    begins: int
    ends: int | None


@dataclass(frozen=True)
class Member:
    """An active membership: what it rests on is a tuple of (item, watched)."""

    principal: object
    role: str
    values: tuple
    rule: Rule
    depends_on: tuple
    since: int
    until: int | None


@dataclass
class Model:
    """What is so, and who is in which role."""

    policy: Policy
    now: int
    facts: set = field(default_factory=set)
    certificates: set = field(default_factory=set)
    members: set = field(default_factory=set)

    def activate(self, principal, role, wanted) -> set:
        """Return every membership that some rule gives."""
        return {
            member
            for rule in self.policy.rules
            if rule.role == role
            for member in self._by_rule(rule, principal, wanted)
        }

    def settle(self) -> set:
        """Take away, over and over, whatever no longer stands; return what fell."""
        before = set(self.members)
        while True:
            standing = {member for member in self.members if self._stands(member)}
            if standing == self.members:
                return before - standing
            self.members = standing

    def rights(self, member: Member) -> set:
        """Return what a membership is granted: (grant, restricted value, end)."""
        found: dict = {}
        for grant in self.policy.grants:
            if grant.role != member.role:
                continue
            start = agree(grant.terms, member.values, {}, member.principal)
            for values, items in self.ways(grant.premises, start, member.principal):
                watched = [ends_of(item) for item, is_watched in items if is_watched]
                until = first(member.until, after(self.now, grant.lasts), *watched)
                key = grant, values[grant.restricted_to] if grant.restricted_to else None
                found.setdefault(key, []).append(until)
        return {(*key, None if None in ends else max(ends)) for key, ends in found.items()}

    def _by_rule(self, rule, principal, wanted):
        given = [(term, value) for term, value in zip(rule.terms, wanted, strict=True) if value is not None]
        start = agree([term for term, _ in given], [value for _, value in given], {}, principal)
        if start is None or any(f"${name}" not in {term for term, _ in given} for name in rule.asked):
            return
        for values, items in self.ways(rule.premises, start, principal):
            if not conditions_hold(rule, values):
                continue
            arguments = tuple(value_of(term, values, principal) for term in rule.terms)
            ends = [
                ends_of(item)
                for premise, (item, is_watched) in zip(rule.premises, items, strict=True)
                if is_watched or premise.name in rule.bounded_by
            ]
            until = first(after(self.now, rule.lasts), *ends)
            if until is None or until >= self.now:
                yield Member(principal, rule.role, arguments, rule, items, self.now, until)

    def ways(self, premises, start, principal):
        if start is None:
            return
        for items in product(*(self._candidates(premise) for premise in premises)):
            values = start
            for premise, item in zip(premises, items, strict=True):
                if values is not None:
                    values = agree(*terms_and_values(premise, item), values, principal)
            if values is not None:
                watched = tuple(premise.watched for premise in premises)
                yield values, tuple(zip(items, watched, strict=True))

    def _candidates(self, premise):
        if premise.sort == "fact":
            kinds = self.policy.facts[premise.name]
            return [
                fact
                for fact in self.facts
                if fact[1] == premise.name and tuple(kind for kind, _ in fact[2]) == kinds
            ]
        if premise.sort == "role":
            return [one for one in self.members if one.role == premise.name]
        kinds = self.policy.appointments[premise.name]
        return [
            one
            for one in self.certificates
            if one.name == premise.name
            and one.issuer in self.policy.issuers[premise.name]
            and tuple(kind for kind, _ in one.values) == kinds
            and one.begins <= self.now
            and (one.ends is None or self.now <= one.ends)
        ]

    def _stands(self, member) -> bool:
        if member.rule not in self.policy.rules or (member.until is not None and self.now > member.until):
            return False
        return all(self.is_there(item) for item, watched in member.depends_on if watched)

    def is_there(self, item) -> bool:
        if isinstance(item, Member):
            return item in self.members
        if isinstance(item, Certificate):
            return item in self.certificates and item.issuer in self.policy.issuers[item.name]
        return item in self.facts


def conditions_hold(rule, values) -> bool:
    """Return whether the comparisons of a rule hold."""
    if rule.at_least is not None and values["$" + rule.at_least[0]][1] < rule.at_least[1]:
        return False
    return rule.unequal is None or values["$" + rule.unequal[0]] != values["$" + rule.unequal[1]]


def terms_and_values(premise, item):
    """Return what is compared with what, the holder first."""
    if isinstance(item, Member):
        return (premise.held_by, *premise.terms), (("principal", item.principal), *item.values)
    if isinstance(item, Certificate):
        return (premise.held_by, *premise.terms), (("principal", item.holder), *item.values)
    return premise.terms, item[2]


def agree(terms, values, known, principal):
    """Return `known` and what the terms take from the values; None if something disagrees."""
    if len(terms) != len(values):
        return None
    found = dict(known)
    for term, value in zip(terms, values, strict=True):
        if term == "_":
            continue
        is_variable = isinstance(term, str) and term.startswith("$")
        if is_variable and found.setdefault(term, value) != value:
            return None
        if not is_variable and value_of(term, found, principal) != value:
            return None
    return found


def value_of(term, values, principal):
    """Return the (kind, value) of a term."""
    if term == "holder":
        return ("principal", principal)
    return values[term] if isinstance(term, str) else term


def ends_of(item):
    """Return when an item ends by itself."""
    if isinstance(item, Member):
        return item.until
    return item.ends if isinstance(item, Certificate) else None


def after(now, seconds):
    """Return the whole second that many seconds from now."""
    return None if seconds is None else (now + seconds * SECOND) // SECOND * SECOND


def first(*moments):
    """Return the earliest of some moments; None is never."""
    return min((moment for moment in moments if moment is not None), default=None)


def without(policy: Policy, *, rule: int | None = None, issuer: object = None) -> Policy:
    """Return a policy without one of its rules, or without one of its issuers."""
    rules = policy.rules if rule is None else policy.rules[:rule] + policy.rules[rule + 1 :]
    issuers = {name: some - {issuer} or some for name, some in policy.issuers.items()}
    return replace(policy, rules=rules, issuers=issuers)


def as_text(policy: Policy, *, shown, attribute: str, comment: str = "", backwards: bool = False) -> str:
    """Write a policy down; `shown` writes one (kind, value)."""

    def term(one) -> str:
        if not isinstance(one, str):
            return shown(one)
        return one.removeprefix("$")

    def atom(name, terms) -> str:
        return f"{name}({', '.join(term(one) for one in terms)})"

    def premise(one: Premise) -> str:
        held = "" if one.held_by == "holder" or one.sort == "fact" else f" held by {term(one.held_by)}"
        return f"    {'while' if one.watched else 'given'} {atom(one.name, one.terms)}{held}\n"

    def parameters(kinds) -> str:
        return "(" + ", ".join(f"p{number}: {kind}" for number, kind in enumerate(kinds)) + ")"

    def rule(one: Rule) -> str:
        said = f"rule {atom(one.role, one.terms)}\n" + "".join(map(premise, one.premises))
        if one.asked:
            said += f"    ask {', '.join(one.asked)}\n"
        if one.at_least:
            said += f"    if {one.at_least[0]} >= {one.at_least[1]}\n"
        if one.unequal:
            said += f"    if {one.unequal[0]} != ${one.unequal[1]}\n"
        said += "".join(f"    until the {name} ends\n" for name in one.bounded_by)
        return said + ("    until revoked\n" if one.lasts is None else f"    for {one.lasts} seconds\n")

    def grant(one: Grant) -> str:
        said = f"grant {atom(one.role, one.terms)}\n" + "".join(map(premise, one.premises))
        said += f"    may subscribe Thing({attribute})\n"
        if one.restricted_to:
            said += f"    where {attribute} == {one.restricted_to}\n"
        if one.delegable:
            said += "    may delegate\n"
        return said + ("" if one.lasts is None else f"    for {one.lasts} seconds\n")

    parts = [f"fact {name}{parameters(kinds)}\n" for name, kinds in policy.facts.items()]
    parts += [
        f"appointment {name}{parameters(kinds)} by {', '.join(sorted(map(str, policy.issuers[name])))}\n"
        for name, kinds in policy.appointments.items()
    ]
    parts += [f"role {name}{parameters(kinds)}\n" for name, kinds in policy.roles.items()]
    parts += [*map(rule, policy.rules), *map(grant, policy.grants)]
    ordered = reversed(parts) if backwards else parts
    return f'# {comment}\npolicy "Random"\n' + f"# {comment}\n\n".join(ordered) + "end\n"
