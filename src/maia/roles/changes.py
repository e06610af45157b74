"""What does a new policy say that the old one did not, and what does it no longer say?

An operator asks before loading it, the audit record keeps the answer. Rules
are compared by what they say, not by where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeVar, assert_never

from maia.canonical import SExpression, write_canonical
from maia.credentials import ALL_ATTRIBUTES, Principal, QuorumId
from maia.credentials.appointments import argument_to_expression
from maia.events import Vocabulary
from maia.roles.policy import (
    AppointmentDeclaration,
    CertificatePremise,
    Declaration,
    Ends,
    FactPremise,
    Grant,
    Literal,
    OwnerReference,
    PlacePremise,
    Policy,
    Premise,
    Privilege,
    RolePremise,
    Rule,
    Special,
    Term,
    TimePremise,
    Transform,
    Variable,
    WrittenRule,
)
from maia.roles.time_windows import TimeWindow

Said = TypeVar("Said", bound=WrittenRule)


@dataclass(frozen=True, slots=True)
class PolicyChanges:
    """The rules and grants that one policy has and the other has not."""

    rules_gone: tuple[Rule, ...]
    rules_new: tuple[Rule, ...]
    grants_gone: tuple[Grant, ...]
    grants_new: tuple[Grant, ...]
    issuers_gone: tuple[str, ...]
    """Appointments that lose an issuer, or are no longer declared."""

    @property
    def takes_away(self) -> bool:
        """Return whether a member may lose a role or right."""
        return bool(self.rules_gone or self.grants_gone or self.issuers_gone)


def changes(old: Policy, new: Policy) -> PolicyChanges:
    """Compare two policies."""
    return PolicyChanges(
        _only_in(old.rules, new.rules),
        _only_in(new.rules, old.rules),
        _only_in(old.grants, new.grants),
        _only_in(new.grants, old.grants),
        tuple(name for name in old.appointments if not _issuers(old, name) <= _issuers(new, name)),
    )


def _only_in(here: Mapping[str, tuple[Said, ...]], there: Mapping[str, tuple[Said, ...]]) -> tuple[Said, ...]:
    known = {one.id for some in there.values() for one in some}
    return tuple(one for some in here.values() for one in some if one.id not in known)


def _issuers(policy: Policy, appointment: str) -> frozenset[object]:
    return frozenset(policy.issuers(appointment)) if appointment in policy.appointments else frozenset()


# The identity of a rule: what it says.


def identified(said: Said, declared: Mapping[str, Declaration]) -> Said:
    """Return a rule or grant with a digest of what it says."""
    own: SExpression
    if isinstance(said, Rule):
        domain, own = b"rule", tuple(map(str.encode, said.asked))
    else:
        assert isinstance(said, Grant)  # noqa: S101 - there is no third
        domain, own = b"grant", _privilege(said.privilege)
    body = (
        (said.role.encode(), *map(_term, said.terms)),
        tuple(_premise(premise, declared) for premise in said.premises),
        tuple(condition.text.encode() for condition in said.conditions),
        _ends(said.ends),
        tuple((name.encode(), kind.value.encode()) for name, kind in sorted(said.kinds.items())),
        own,
    )
    digest = sha256(b"maia/1/role-" + domain + b"\x00" + write_canonical(body))
    return replace(said, id=digest.hexdigest())


def _premise(premise: Premise, declared: Mapping[str, Declaration]) -> SExpression:
    watched = b"while" if premise.is_watched else b"given"
    match premise:
        case TimePremise(window):
            return (watched, b"time", _window(window))
        case PlacePremise(networks):
            return (watched, b"place", *map(str.encode, networks))
        case FactPremise(name, terms):
            return (watched, b"fact", name.encode(), *map(_term, terms))
        case RolePremise(name, terms, held_by):
            return (watched, b"role", name.encode(), _term(held_by), *map(_term, terms))
        case CertificatePremise(name, terms, held_by):
            declaration = declared[name]
            assert isinstance(declaration, AppointmentDeclaration)  # noqa: S101 - the reader has checked it
            kind = b"role-certificate" if declaration.is_role else b"appointment"
            said = (name.encode(), declaration.called.encode())
            return (watched, kind, *said, _term(held_by), *map(_term, terms))
        case _:
            assert_never(premise)


def _term(term: Term) -> SExpression:
    match term:
        case Variable(name):
            return (b"variable", name.encode())
        case Literal(value):
            return (b"value", argument_to_expression(value))
        case Special():
            return (b"special", term.value.encode())
        case _:
            assert_never(term)


def _window(window: TimeWindow) -> SExpression:
    hours = (b"%d" % window.begins, b"%d" % window.ends)
    return (*hours, tuple(b"%d" % day for day in sorted(window.days)), window.zone.encode())


def _ends(ends: Ends) -> SExpression:
    return (
        b"" if ends.after_us is None else b"%d" % ends.after_us,
        tuple(b"%d" % premise for premise in ends.premises),
        tuple(map(str.encode, ends.moments)),
        b"revoked" if ends.is_until_revoked else b"",
    )


def _privilege(privilege: Privilege) -> SExpression:
    attributes = privilege.attributes
    listed = (b"*",) if attributes is ALL_ATTRIBUTES else tuple(uid.encode() for uid in sorted(attributes))
    vocabulary = privilege.vocabulary or {}
    return (
        tuple(sorted(action.value.encode() for action in privilege.actions)),
        (privilege.resource.kind.value.encode(), _key(privilege.resource.owner)),
        str(privilege.resource.pattern).encode(),
        (b"attributes", *listed),
        _text(privilege.restriction),
        _text(privilege.condition),
        () if privilege.during is None else _window(privilege.during),
        # The names in a restriction mean uids, and a new version of the type may move them.
        _vocabulary(vocabulary),
        b"delegable" if privilege.may_delegate else b"",
        tuple(test.value.encode() for test in privilege.tests),
        *(() if privilege.transform is None else (_transform(privilege.transform),)),
        *((b"bound", kind.value.encode(), text.encode()) for kind, text in privilege.bounds),
    )


def _transform(transform: Transform) -> SExpression:
    result = transform.result
    return (
        tuple(map(str.encode, transform.assignments)),
        () if result is None else (_key(result.owner), result.name.encode(), result.version.encode()),
        *(_vocabulary(vocabulary) for vocabulary in (transform.reads, transform.assigns)),
        *(() if transform.written is None else (transform.written.version.encode(),)),
        *(() if transform.every is None else (transform.every.encode(), *map(str.encode, transform.per))),
    )


def _vocabulary(vocabulary: Vocabulary) -> SExpression:
    return tuple(
        (name.encode(), one.uid.encode(), one.kind.value.encode()) for name, one in sorted(vocabulary.items())
    )


def _text(text: str | None) -> SExpression:
    return () if text is None else (text.encode(),)


def _key(reference: OwnerReference) -> SExpression:
    if isinstance(reference, QuorumId):
        return (b"quorum", reference.digest)
    return (b"key", reference.key) if isinstance(reference, Principal) else (b"here",)
