"""How does a policy's text become a policy, or a list of what to mend?

    policy "Metropolitan Police"
    import national
    …declarations, rules and grants, in any order…
    end

The text is checked as a whole and accepted as a whole. The last line is
there so that a file that was cut off is noticed: half a policy is not a
smaller policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Final

from maia.credentials import Principal
from maia.predicates.language.literals import read_text
from maia.roles.amendments import AMENDING, amended
from maia.roles.changes import Said, identified
from maia.roles.declarations import DECLARING, END, Names, import_policy, read_declaration, take_name
from maia.roles.grant_reader import read_may, read_privilege
from maia.roles.policy import (
    AppointmentDeclaration,
    CertificatePremise,
    Ends,
    FactDeclaration,
    Grant,
    Place,
    Policy,
    RoleDeclaration,
    RolePremise,
    Rule,
    Term,
    TimePremise,
    clash,
)
from maia.roles.rule_reader import Reading, read_asked, read_conditions, read_ends, read_head, read_premises
from maia.roles.statements import (
    MISREAD,
    BadPolicy,
    PolicyProblem,
    Problems,
    Statement,
    TooManyProblems,
    did_you_mean,
    split_statements,
)
from maia.types import VerifiedType

_NO_PARENTS: Final[Mapping[str, Policy]] = MappingProxyType({})
_NO_TYPES: Final[Mapping[str, VerifiedType]] = MappingProxyType({})
_MEANT: Final = re.compile(r"[^\s(]+[ \t]+([A-Za-z0-9_-]{1,63})")
_WORDS: Final = ("policy", "import", *DECLARING, "rule", "grant", "also", *AMENDING, "end")


def parse_policy(
    text: str | bytes,
    *,
    origin: str,
    domain: Principal,
    parents: Mapping[str, Policy] = _NO_PARENTS,
    types: Mapping[str, VerifiedType] = _NO_TYPES,
) -> Policy:
    """Read and check a whole policy; raise `BadPolicy` with everything that is wrong with it.

    `origin` is what the text is called in messages, `domain` the key that the
    word `here` means, `parents` what can be imported and `types` the event
    types that grants may speak of, by the names that the policy uses.
    """
    problems = Problems(origin)
    try:
        policy = _PolicyParser(_decoded(text, origin), origin, domain, parents, types, problems).whole()
    except TooManyProblems:
        policy = None
    problems.refuse_if_any()
    if policy is None:
        raise BadPolicy(origin, [PolicyProblem(1, 1, "", "the policy cannot be read")])
    return policy


def _decoded(text: str | bytes, origin: str) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as problem:
        line = text.count(b"\n", 0, problem.start) + 1
        raise BadPolicy(
            origin, [PolicyProblem(line, 1, "", "the policy is not a text in UTF-8")]
        ) from problem


class _PolicyParser:
    """One reading of one text."""

    def __init__(
        self,
        text: str,
        origin: str,
        domain: Principal,
        parents: Mapping[str, Policy],
        types: Mapping[str, VerifiedType],
        problems: Problems,
    ) -> None:
        self._text, self._origin, self._domain = text, origin, domain
        self._parents, self._types, self._problems = parents, types, problems
        self._names = Names(types)

    def whole(self) -> Policy | None:
        """Read everything; None only if a problem was reported."""
        statements = split_statements(self._text, self._problems)
        if not statements:
            self._problems.add(PolicyProblem(1, 1, "", "the policy is empty", 'begin with `policy "…"`'))
            return None
        title = self._title(statements[0])
        self._check_end(statements)
        imports = self._imports(statements)
        for statement in statements:
            if statement.word in DECLARING:
                read_declaration(statement, self._names, self._origin, self._problems)
            elif statement.word not in _WORDS and (said := _MEANT.match(statement.head.text)):
                self._names.broken.setdefault(said.group(1), "role")  # or what it was to be
        for statement in amended(statements[1:], self._names, self._problems):
            self._other(statement)
        return self._policy(title, imports)

    def _title(self, statement: Statement) -> str:
        scanner = statement.head.scanner()
        try:
            scanner.must_take_word("policy")
            title = read_text(scanner)
            scanner.must_end(END)
        except MISREAD as refusal:
            statement.head.report(self._problems, "", refusal)
            return ""
        return title

    def _check_end(self, statements: tuple[Statement, ...]) -> None:
        last = statements[-1]
        if last.head.text != "end" or last.clauses:
            said = "the policy does not close with `end`: it may have been cut off"
            place = (last.head.line, 1)
            self._problems.add(PolicyProblem(*place, "", said, "write `end` on a line of its own"))
        for statement in statements[:-1]:
            if statement.word == "end":
                self._problems.add(statement.head.problem("", "nothing follows `end`"))

    def _imports(self, statements: tuple[Statement, ...]) -> tuple[str, ...]:
        imported: list[str] = []
        for statement in statements:
            if statement.word != "import":
                continue
            scanner, label = statement.head.scanner(), "import"
            scanner.take_word("import")
            try:
                name, _ = take_name(scanner, "the name of a parent policy")
                scanner.must_end(END)
                label = f"import {name}"
                imported.append(name)
                import_policy(self._names, name, self._parents)
            except MISREAD as refusal:
                self._names.is_incomplete = True
                statement.head.report(self._problems, label, refusal)
        return tuple(imported)

    def _other(self, statement: Statement) -> None:
        word = statement.word
        if word in ("rule", "grant"):
            self._rule_or_grant(statement, is_addition=False)
        elif word == "also":
            inner = Statement(statement.head.behind("also"), statement.clauses)
            if inner.word in ("rule", "grant"):
                self._rule_or_grant(inner, is_addition=True)
            else:
                self._problems.add(inner.head.problem("", "expected `rule` or `grant` behind `also`"))
        elif word == "policy":
            self._problems.add(statement.head.problem("", "a text holds one policy"))
        elif word not in _WORDS:
            said = f"a statement begins with one of {', '.join(_WORDS)}"
            is_comment = statement.head.text.startswith("#")
            hint = "a space behind `#` makes it a comment" if is_comment else did_you_mean(word, _WORDS)
            self._problems.add(statement.head.problem("", said, hint=hint))

    def _rule_or_grant(self, statement: Statement, *, is_addition: bool) -> None:
        is_rule = statement.word == "rule"
        head = statement.head.behind(statement.word)
        named = re.match(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", head.text)
        label = f"{statement.word} {named.group()}" if named else statement.word
        place = Place(self._origin, statement.head.line)
        reading = Reading(statement, self._names, self._problems, label, place)
        found = read_head(reading, head, binds=not is_rule)
        if found is None:
            return
        extends = self._extended(statement, label, found[0], is_addition=is_addition)
        said = _said(reading, *found, extends, is_rule=is_rule)
        if isinstance(said, Rule):
            self._add(self._names.rules, said, statement, label)
        elif said is not None:
            self._add(self._names.grants, said, statement, label)

    def _extended(
        self, statement: Statement, label: str, role: RoleDeclaration, *, is_addition: bool
    ) -> str | None:
        """Return the parent whose role this adds to; no role is widened by accident."""
        parent = self._names.imported.get(role.name)
        problem = None
        if parent is None and is_addition:
            problem = f"`{role.name}` is declared here: leave `also` away"
        elif parent is not None and role.is_closed:
            problem = f"`{parent}` has closed `{role.name}`: nothing can be added to it here"
        elif parent is not None and not is_addition:
            word = statement.word
            problem = f"`{role.name}` comes from `{parent}`: to add to it, write `also {word}`"
        if problem is not None:
            self._problems.add(statement.head.problem(label, problem))
        return parent

    def _add(self, known: list[Said], said: Said, statement: Statement, label: str) -> None:
        twin = next((one for one in known if one.id == said.id), None)
        if twin is not None:
            problem = f"this says the same as {twin.place}"
            self._problems.add(statement.head.problem(label, problem))
        known.append(said)

    def _policy(self, title: str, imports: tuple[str, ...]) -> Policy | None:
        names = self._names
        if (
            not names.every(RoleDeclaration)
            and not names.is_incomplete
            and "role" not in names.broken.values()
        ):
            self._problems.add(PolicyProblem(1, 1, "", "the policy has no role"))
        roles = names.every(RoleDeclaration)
        rules = {role: tuple(rule for rule in names.rules if rule.role == role) for role in roles}
        grants = {role: tuple(one for one in names.grants if one.role == role) for role in roles}
        order = self._order(rules)
        if order is None:
            return None
        self._check_tiers()
        return Policy(
            title=title,
            origin=self._origin,
            domain=self._domain,
            text=self._text,
            imports=imports,
            keys=MappingProxyType(names.keys),
            facts=MappingProxyType(names.every(FactDeclaration)),
            appointments=MappingProxyType(names.every(AppointmentDeclaration)),
            roles=MappingProxyType(roles),
            rules=MappingProxyType(rules),
            grants=MappingProxyType(grants),
            roles_in_order=order,
        )

    def _check_tiers(self) -> None:
        found = clash(self._names.grants, self._domain)
        if found is None:
            return
        before, after = found
        said = f"a domain holds sub-domains or brokers, never both, and {before.place} grants otherwise"
        hint = "only sub-domains may pass the right to connect on"
        line = after.place.line if after.place.origin == self._origin else 1
        self._problems.add(PolicyProblem(line, 1, f"grant {after.role}", said, hint))

    def _order(self, rules: dict[str, tuple[Rule, ...]]) -> tuple[str, ...] | None:
        """Return every role after those that its rules depend on; roles in a circle are refused.

        Without circles, to activate every role in this order takes one pass, a membership never supports
        itself, and no role can be kept alive by renewing it from itself.
        """
        depends_on = {
            role: sorted({one.name for rule in some for one in rule.premises if isinstance(one, RolePremise)})
            for role, some in sorted(rules.items())
        }
        try:
            return tuple(TopologicalSorter(depends_on).static_order())
        except CycleError as problem:
            circle = problem.args[1]  # the first again at the end
            line = max(rule.place.line for rule in self._names.rules if rule.role in circle)
            said = f"these roles depend on each other: `{' > '.join(circle)}`"
            self._problems.add(PolicyProblem(line, 1, f"rule {circle[0]}", said))
            return None


_OF_BOTH: Final = ("while", "given", "if", "for", "until")
_OF_GRANTS: Final = (*_OF_BOTH, "may", "where", "provided", "checked", "as", "set", "every", "per", "bound")


def _said(
    reading: Reading, role: RoleDeclaration, terms: tuple[Term, ...], extends: str | None, *, is_rule: bool
) -> Rule | Grant | None:
    """Read the clauses of a rule or grant whose head has been read; None if something was wrong."""
    reading.refuse_clauses_except(*((*_OF_BOTH, "ask", "where") if is_rule else _OF_GRANTS))
    asked = read_asked(reading) if is_rule else ()
    fine = read_premises(reading)
    ends = read_ends(reading, of_grant=not is_rule)
    may = None if is_rule else read_may(reading)
    if asked is None or ends is None or not fine:
        return None
    conditions = read_conditions(reading)
    if conditions is None or (may is None and not is_rule):
        return None
    privilege = None if may is None else read_privilege(reading, may)
    if privilege is None and not is_rule:
        return None
    reading.variables.check()
    if is_rule:
        _check_that_it_ends(reading, ends)
    make = partial(Rule, asked=asked) if privilege is None else partial(Grant, privilege=privilege)
    said = make(
        role=role.name,
        terms=terms,
        premises=tuple(reading.premises),
        conditions=conditions,
        ends=ends,
        kinds=reading.variables.kinds,
        place=reading.place,
        extends=extends,
    )
    return identified(said, reading.names.declared)


def _check_that_it_ends(reading: Reading, ends: Ends) -> None:
    bounded = ends.after_us is not None or ends.premises or ends.moments or ends.is_until_revoked
    held = (RolePremise, CertificatePremise, TimePremise)
    if not bounded and not any(isinstance(one, held) and one.is_watched for one in reading.premises):
        said = "this role would never end"
        hint = "make it depend on a certificate with `while`, or write `for 30 days` or `until revoked`"
        reading.problems.add(reading.statement.head.problem(reading.label, said, hint=hint))
