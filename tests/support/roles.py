"""People, certificates and policies for tests about roles."""

from __future__ import annotations

from random import Random

from maia.credentials import SigningKey, Validity
from maia.credentials.appointments import (
    Appointment,
    AppointmentKind,
    Argument,
    VerifiedAppointment,
    issue_appointment,
    verify_appointment,
)
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.predicates.language.writer import format_literal
from maia.roles import Policy as CheckedPolicy
from maia.roles import parse_policy
from maia.types import TypeDefinition, VerifiedType, sign_definition, verify_definition
from reference.oasis import Grant, Policy, Premise, Rule
from support.types import NOON, PITO, TypeName, key, numberplate

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR

COURT, HIGH_COURT, DOMAIN, SMITH, JONES, OTHER_DOMAIN = (key(number) for number in range(20, 26))

NUMBERPLATE_TYPE: VerifiedType = verify_definition(sign_definition(numberplate(), PITO), at=NOON)
TYPES = {"Numberplate": NUMBERPLATE_TYPE}


def later(*, hours: float = 0, days: float = 0, seconds: float = 0) -> Instant:
    """Return a moment after noon of the first day."""
    return Instant(int(NOON + hours * HOUR + days * DAY + seconds * SECOND))


def appointment(
    issuer: SigningKey,
    holder: SigningKey,
    name: str,
    *parameters: Argument,
    begins: Instant | None = NOON,
    ends: Instant | None = None,
    kind: AppointmentKind = AppointmentKind.APPOINTMENT,
    serial: bytes = b"",
) -> VerifiedAppointment:
    """Issue and verify one certificate; it holds for ten days unless told otherwise."""
    validity = Validity(begins, later(days=10) if ends is None else ends)
    said = Appointment(issuer.principal, holder.principal, name, parameters, validity, kind, serial)
    return verify_appointment(issue_appointment(said, issuer))


def policy(body: str, *, domain: SigningKey = DOMAIN, **options: object) -> CheckedPolicy:
    """Read the body of a policy, between a first line and an `end`."""
    keys = f"key court = {COURT.principal}\nkey high_court = {HIGH_COURT.principal}\n"
    text = f'policy "Test"\n{keys}{body}\nend\n'
    options.setdefault("types", TYPES)
    return parse_policy(text, origin="test", domain=domain.principal, **options)  # type: ignore[arg-type]


# ---------------------------------------------------------------- random policies for the reference model

THING = verify_definition(
    sign_definition(
        TypeDefinition(
            TypeName(PITO.principal, "Thing", "0"),
            None,
            (Attribute("plate", AttributeUid("1"), Kind.STRING),),
        ),
        PITO,
    ),
    at=NOON,
)
PEOPLE = (SMITH.principal, JONES.principal)
FACTS = {"f0": ("principal",), "f1": ("principal", "string"), "f2": ("string", "int")}
APPOINTMENTS = {"a0": ("string",), "a1": ("int", "string")}
ROLES = {"r0": (), "r1": ("string",), "r2": ("string", "int"), "r3": ("principal",), "r4": ("string",)}
VARIABLES = {"string": ("$s", "$t"), "int": ("$n", "$m"), "principal": ("$p", "$q")}
VALUES = {"string": ("x", "y"), "int": (1, 2), "principal": PEOPLE}


def shown(value: tuple) -> str:
    """Write one (kind, value) as policies do."""
    return str(value[1]) if value[0] == "principal" else format_literal(value[1])


class Dice:
    """Draws policies and what happens to them, all from one seed.

    Plain dice, and not Hypothesis's: its small cases are policies by which
    nobody ever becomes a member of anything.
    """

    def __init__(self, seed: int) -> None:
        """Begin at the seed."""
        self.random = Random(seed)  # noqa: S311 - a test that can be repeated

    def one_of(self, some):
        """Draw one of several."""
        return self.random.choice(list(some))

    def perhaps(self, chance: float) -> bool:
        """Draw yes or no."""
        return self.random.random() < chance

    def value(self, kind: str) -> tuple:
        """Draw one (kind, value)."""
        return kind, self.one_of(VALUES[kind])

    def row(self, kinds: tuple[str, ...]) -> tuple:
        """Draw a row of these kinds; now and then with a value that only looks like one of its kind."""
        impostors = {"int": ("bool", True), "string": ("int", 1)}
        return tuple(
            impostors[kind] if kind in impostors and self.perhaps(0.05) else self.value(kind)
            for kind in kinds
        )

    def fact(self) -> tuple:
        """Draw a fact."""
        name = self.one_of(FACTS)
        return "fact", name, self.row(FACTS[name])

    def policy(self) -> Policy:
        """Draw a policy that the reader accepts: five roles with some rules and grants each."""
        both = frozenset({COURT.principal, HIGH_COURT.principal})
        rules = [self.rule(role) for role in ROLES for _ in range(self.one_of((1, 2, 2)))]
        grants = [self.grant(role) for role in ROLES for _ in range(self.one_of((0, 1, 2)))]
        issuers = {name: self.one_of((both, both, frozenset({COURT.principal}))) for name in APPOINTMENTS}
        some = tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(grants))
        return Policy(FACTS, APPOINTMENTS, issuers, ROLES, *some)

    def rule(self, role: str) -> Rule:
        """Draw a rule for a role, resting on roles before it, on facts and on appointments."""
        lower = tuple(name for name in ROLES if name < role)
        some = [self.premise(lower) for _ in range(self.one_of((1, 1, 2, 2, 3)))]
        bound = {name for premise in some for name in _variables(_all_terms(premise))}
        asked = [self.one_of(("$t", "$m"))] if self.perhaps(0.2) else []
        terms = [self._head_term(kind, bound | set(asked)) for kind in ROLES[role]]
        asked = sorted({name for name in asked if name in terms})
        numbers = [name for name in VARIABLES["int"] if name in bound | set(asked)]
        at_least = (numbers[0][1:], self.one_of((1, 2))) if numbers and self.perhaps(0.3) else None
        unequal = ("s", "t") if {"$s", "$t"} <= bound | set(asked) and self.perhaps(0.5) else None
        used = [*_variables(terms), *asked, *([f"${at_least[0]}"] if at_least else [])]
        kept = _lonely_removed(some, used + (["$s", "$t"] if unequal else []))
        bounded_by = sorted({one.name for one in kept if one.sort != "fact" and self.perhaps(0.3)})
        names = tuple(name[1:] for name in asked)
        lasts = self.one_of((None, None, 5, 30))
        return Rule(role, tuple(terms), kept, lasts, at_least, unequal, names, tuple(bounded_by))

    def premise(self, roles: tuple[str, ...]) -> Premise:
        """Draw a premise."""
        sort = self.one_of(("fact", "appointment", *(("role",) * 3 if roles else ())))
        name = self.one_of({"fact": FACTS, "appointment": APPOINTMENTS, "role": roles}[sort])
        kinds = {**FACTS, **APPOINTMENTS, **ROLES}[name]
        held_by = self.one_of(("holder", "holder", "holder", "$p", "_")) if sort != "fact" else "holder"
        terms = tuple(self._term(kind) for kind in kinds)
        return Premise(sort, name, terms, self.perhaps(0.7), held_by)

    def grant(self, role: str) -> Grant:
        """Draw a grant to a role."""
        terms = [self.one_of(VARIABLES[kind]) for kind in ROLES[role]]
        names = [self.one_of(FACTS) for _ in range(self.one_of((0, 0, 1, 2)))]
        some = [
            Premise("fact", name, tuple(map(self._term, FACTS[name])), self.perhaps(0.6)) for name in names
        ]
        bound = {*terms, *(name for one in some for name in _variables(one.terms))}
        texts = [name for name in VARIABLES["string"] if name in bound]
        restricted = self.one_of(texts) if texts and self.perhaps(0.8) else None
        used = [*terms, *([restricted] if restricted else [])]
        count = used + [name for one in some for name in _variables(one.terms)]
        kept = tuple("_" if count.count(term) == 1 else term for term in terms)
        lasts, delegable = self.one_of((None, 7)), self.perhaps(0.5)
        return Grant(role, kept, _lonely_removed(some, used), restricted, lasts, delegable)

    def _term(self, kind: str) -> object:
        if self.perhaps(0.7):
            return self.one_of(VARIABLES[kind])
        special = ("_", "holder", "holder") if kind == "principal" else ("_",)
        return self.one_of((*special, self.value(kind)))

    def _head_term(self, kind: str, bound: set[str]) -> object:
        choices = [name for name in VARIABLES[kind] if name in bound]
        if choices and self.perhaps(0.85):
            return self.one_of(choices)
        return "holder" if kind == "principal" and self.perhaps(0.7) else self.value(kind)


def _variables(terms) -> list[str]:
    return [term for term in terms if isinstance(term, str) and term.startswith("$")]


def _all_terms(premise: Premise) -> tuple:
    return (premise.held_by, *premise.terms)


def _lonely_removed(some: list[Premise], used: list[str]) -> tuple[Premise, ...]:
    """Replace variables that stand in one place only: the reader refuses them."""
    count = used + [name for premise in some for name in _variables(_all_terms(premise))]

    def kept(term):
        return "_" if isinstance(term, str) and term.startswith("$") and count.count(term) == 1 else term

    return tuple(
        Premise(one.sort, one.name, tuple(map(kept, one.terms)), one.watched, kept(one.held_by))
        for one in some
    )
