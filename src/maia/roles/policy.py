"""What does a domain's policy say, once it has been read and checked?

A policy declares keys, facts, appointments and roles; says by which rules
a principal becomes a member of a role; and says what a member is granted. It is
plain data that `parse_policy` has checked as a whole: every name is declared,
every parameter has one kind, every variable is bound, every role can end and
no role depends on itself. There are no negative rules, so a policy without a
rule grants nothing.

A domain holds sub-domains, or brokers and clients, and never both (dissertation
3.2.1, 5.1.4): brokers share all rights of their domain, so a domain whose
parts have different rights has no brokers of its own. What distinguishes the
two is who may pass the right to connect on: only a domain has use for that.
The owner of a network is no domain of it in this sense, and lets domains and brokers connect as it likes.

A policy that would make a domain both is refused when it is read, and so is a
certificate that was signed by hand when it is registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from maia.credentials import (
    Action,
    AnyResource,
    AttributeSet,
    AuthorisationCertificate,
    Certificate,
    NamePattern,
    NetworkPattern,
    Owner,
    Principal,
    QuorumId,
    TypeName,
)
from maia.credentials.appointments import Argument, ParameterKind
from maia.credentials.authority import Bound
from maia.credentials.certificate import TestKind
from maia.events import AttributeUid, Kind, Vocabulary
from maia.roles.time_windows import TimeWindow


class Special(Enum):
    """Terms and keys whose meaning depends on who asks and where."""

    ANYTHING = "_"
    HOLDER = "holder"
    HERE = "here"


ANYTHING = Special.ANYTHING
"""Any value."""
HOLDER = Special.HOLDER
"""The principal that asks to become a member."""
HERE = Special.HERE
"""The key of the domain that uses the policy, also where it was imported from another."""

KeyReference: TypeAlias = Principal | Special
"""A key, or `HERE`."""

OwnerReference: TypeAlias = KeyReference | QuorumId
"""Whose resource it is: a key, `HERE`, or a quorum that owns a type."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is written: whose text, and the line in it."""

    origin: str
    line: int

    def __str__(self) -> str:
        """Return the place as a message shows it."""
        return f"{self.origin}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A name that means one value throughout a rule."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A value written out. Its kind is compared too: 1 and true are two literals."""

    value: Argument
    kind: ParameterKind


Term: TypeAlias = Variable | Literal | Special
"""What can be between the parentheses of a premise or a head."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name for people, and a kind."""

    name: str
    kind: ParameterKind


@dataclass(frozen=True, slots=True)
class FactDeclaration:
    """A relation that the domain reads: a database, a roster, a register."""

    name: str
    parameters: tuple[Parameter, ...]
    place: Place = field(compare=False)

    @property
    def uid(self) -> AttributeUid:
        """Return the name by which conditions ask for it."""
        return AttributeUid(self.name.replace("_", "-").lower())

    @property
    def is_about_a_principal(self) -> bool:
        """Return whether it is said of its first argument, and not of the world."""
        return bool(self.parameters) and self.parameters[0].kind is ParameterKind.PRINCIPAL

    @property
    def stated_kind(self) -> Kind | None:
        """Return the kind in which the domain states it to brokers, or None if it cannot be stated.

        `on_duty(who: principal)` and `incident` hold or not; `clearance(who: principal, level: int)` and
        `alert(level: int)` have a value. What relates more than that is for rules.
        """
        values = self.parameters[1:] if self.is_about_a_principal else self.parameters
        if len(values) > 1:
            return None
        return values[0].kind.value_kind if values else Kind.BOOL


@dataclass(frozen=True, slots=True)
class AppointmentDeclaration:
    """A certificate that policies here understand, and whose signature under it counts.

    `is_role` distinguishes a role membership certificate of another domain from an
    appointment. `called` is the name inside the certificate.
    """

    name: str
    parameters: tuple[Parameter, ...]
    issuers: frozenset[KeyReference]
    called: str
    is_role: bool
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class RoleDeclaration:
    """A role of this domain. A closed one takes no further rules or grants where it is imported."""

    name: str
    parameters: tuple[Parameter, ...]
    is_closed: bool
    place: Place = field(compare=False)


Declaration: TypeAlias = FactDeclaration | AppointmentDeclaration | RoleDeclaration


@dataclass(frozen=True, slots=True)
class RolePremise:
    """A principal, usually the holder, is an active member of a role of this domain."""

    name: str
    terms: tuple[Term, ...]
    held_by: Term
    is_watched: bool


@dataclass(frozen=True, slots=True)
class CertificatePremise:
    """A principal, usually the holder, has shown an appointment or another domain's role membership."""

    name: str
    terms: tuple[Term, ...]
    held_by: Term
    is_watched: bool


@dataclass(frozen=True, slots=True)
class FactPremise:
    """A fact is on record."""

    name: str
    terms: tuple[Term, ...]
    is_watched: bool


@dataclass(frozen=True, slots=True)
class TimePremise:
    """It is a certain time of the day or week, in a stated zone."""

    window: TimeWindow
    is_watched: bool


@dataclass(frozen=True, slots=True)
class PlacePremise:
    """The holder asks from one of these networks; what is granted by the rule is used from there alone."""

    networks: tuple[str, ...]
    is_watched: bool = True


Premise: TypeAlias = RolePremise | CertificatePremise | FactPremise | TimePremise | PlacePremise


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate over the variables of a rule: `if level >= 3 and doctor != $patient`."""

    text: str
    vocabulary: Vocabulary = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ends:
    """When a membership or a right ends, beside the ends of all that it depends on.

    `premises` are positions in the rule: `until court_order ends`. `moments`
    are variables of kind timestamp: `until shift_ends`. `-1` among the
    premises of a grant is the membership itself.
    """

    after_us: int | None = None
    premises: tuple[int, ...] = ()
    moments: tuple[str, ...] = ()
    is_until_revoked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRule:
    """What rules and grants have in common: a role, and what has to hold.

    `id` is a digest of what it says and not of where it is written, so a
    membership survives when its rule moves, and ends when its rule changes.
    """

    id: str = ""
    role: str
    terms: tuple[Term, ...]
    premises: tuple[Premise, ...]
    conditions: tuple[Condition, ...]
    ends: Ends
    kinds: Mapping[str, ParameterKind] = field(hash=False)
    place: Place = field(compare=False)
    extends: str | None = None
    """The parent policy whose role this adds to, if it was written with `also`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(WrittenRule):
    """One way to become a member of a role: all premises and conditions hold."""

    asked: tuple[str, ...]
    """What the asker states."""


class ResourceKind(Enum):
    """What a privilege is about."""

    TYPE = "type"
    TOPIC = "topic"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Resource:
    """Types, topics or networks of one owner, by name or pattern."""

    kind: ResourceKind
    owner: OwnerReference
    pattern: NamePattern


@dataclass(frozen=True, slots=True)
class Privilege:
    """What one grant allows, with the variables of the grant still in it.

    `restriction` speaks of attributes by name and `condition` of facts at the
    broker; in both `$name` means the value of a variable.
    """

    actions: frozenset[Action]
    resource: Resource
    attributes: AttributeSet
    restriction: str | None
    condition: str | None
    during: TimeWindow | None
    """A time of the day and week that the broker watches, beside `condition`."""
    vocabulary: Vocabulary | None = field(repr=False)
    may_delegate: bool
    tests: tuple[TestKind, ...]
    transform: Transform | None = None
    bounds: tuple[tuple[Bound, str], ...] = ()
    """What members may ask for, or announce: filters over the attributes of `vocabulary`."""


@dataclass(frozen=True, slots=True)
class Transform:
    """What a grant makes of events before it shows them, with the variables of the grant still in it."""

    assignments: tuple[str, ...]
    reads: Vocabulary = field(repr=False)
    """The attributes that assignments read."""
    assigns: Vocabulary = field(repr=False)
    result: TypeName | None
    written: TypeName | None = None
    """The type that a publisher writes, where the grant converts it into `result` on publication."""
    every: str | None = None
    """Over which period events are summarised, if they are, and in which groups: `5 minutes at least 5`."""
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(WrittenRule):
    """An authorisation rule: a member of `role`, under some premises, gets one privilege."""

    privilege: Privilege


@dataclass(frozen=True, slots=True)
class Policy:
    """All that one domain has decided about roles, those of its parents included.

    `roles_in_order` lists every role after the roles that its rules depend on.
    """

    title: str
    origin: str
    domain: Principal
    text: str = field(repr=False)
    imports: tuple[str, ...]
    keys: Mapping[str, Principal] = field(hash=False)
    facts: Mapping[str, FactDeclaration] = field(hash=False)
    appointments: Mapping[str, AppointmentDeclaration] = field(hash=False)
    roles: Mapping[str, RoleDeclaration] = field(hash=False)
    rules: Mapping[str, tuple[Rule, ...]] = field(hash=False)
    """By role, in the order of the text; a parent's first."""
    grants: Mapping[str, tuple[Grant, ...]] = field(hash=False)
    roles_in_order: tuple[str, ...]
    _rules_by_id: Mapping[str, Rule] = field(init=False, repr=False, compare=False)
    _grants_by_id: Mapping[str, Grant] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Find rules and grants by id once: a reload asks for every membership."""
        rules = {rule.id: rule for rules in self.rules.values() for rule in rules}
        grants = {grant.id: grant for grants in self.grants.values() for grant in grants}
        object.__setattr__(self, "_rules_by_id", rules)
        object.__setattr__(self, "_grants_by_id", grants)

    def principal(self, reference: KeyReference) -> Principal:
        """Return the key that is meant, now that it is known where `here` is."""
        return reference if isinstance(reference, Principal) else self.domain

    def owner(self, reference: OwnerReference) -> Owner:
        """Return whose resource is meant."""
        return reference if isinstance(reference, QuorumId) else self.principal(reference)

    def issuers(self, appointment: str) -> frozenset[Principal]:
        """Return whose signature counts under this certificate."""
        return frozenset(map(self.principal, self.appointments[appointment].issuers))

    def rule(self, rule_id: str) -> Rule | None:
        """Return the rule with this id, if the policy still has it."""
        return self._rules_by_id.get(rule_id)

    def grant(self, grant_id: str) -> Grant | None:
        """Return the grant with this id, if the policy still has it."""
        return self._grants_by_id.get(grant_id)


class Tier(Enum):
    """What a domain holds."""

    MEMBERS = "brokers and clients"
    SUB_DOMAINS = "sub-domains"


def tier_of_grant(grant: Grant, domain: Principal) -> Tier | None:
    """Return what a grant in the policy of `domain` makes of its members; None if none may connect."""
    privilege = grant.privilege
    resource = privilege.resource
    if resource.kind is not ResourceKind.NETWORK or resource.owner in (HERE, domain):
        return None
    return _tier(privilege.actions, may_delegate=privilege.may_delegate)


def tier_of_certificate(certificate: Certificate) -> Tier | None:
    """Return what a certificate of a domain makes of its subject; None if that may not connect."""
    if not isinstance(certificate, AuthorisationCertificate):
        return None
    resources = certificate.authority.resources
    if not isinstance(resources, NetworkPattern | AnyResource) or resources.owner == certificate.issuer:
        return None
    return _tier(certificate.authority.actions, may_delegate=certificate.may_delegate)


def clash(grants: Iterable[Grant], domain: Principal) -> tuple[Grant, Grant] | None:
    """Return two grants that no domain can make together, the earlier one first; None if there are none."""
    first: dict[Tier, Grant] = {}
    for grant in grants:
        tier = tier_of_grant(grant, domain)
        if tier is not None:
            first.setdefault(tier, grant)
        if len(first) == len(Tier):
            one, other = first.values()
            return one, other
    return None


def _tier(actions: frozenset[Action], *, may_delegate: bool) -> Tier | None:
    if Action.CONNECT not in actions:
        return None
    return Tier.SUB_DOMAINS if may_delegate else Tier.MEMBERS
