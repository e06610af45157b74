"""Which certificates would fall with another policy of a domain, and which would its members get?

The register says which grant each certificate was issued by. A certificate whose grant the new policy does
not have falls, as it does when the policy is loaded; so do those of a role that keeps none of its rules. With
the policy in force, it is known which role a member has, and what new grants of it would give: certificates
that the domain would have to issue, and that are supposed here. The arguments of a role are read out of the
restriction that a member's certificate has. What depends on anything else is named in a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.canonical import SExpression
from maia.credentials import Principal, SignedCertificate, certificate_from_bytes
from maia.credentials.appointments import Given, ParameterKind, Word
from maia.credentials.authority import Authority
from maia.credentials.certificate import AuthorisationCertificate
from maia.credentials.keys import SigningKey
from maia.events import Instant
from maia.predicates.encoding import predicate_to_expression
from maia.roles import Grant, Policy, changes, possible_rights
from maia.spark.closure.sources import RegisterLine
from maia.spark.closure.what_if import Pools, supposed

_PLAIN: Final = (ParameterKind.STRING, ParameterKind.INT)
_NUMBERS: Final = (7_100_003, 7_200_017)
"""Arguments that stand for unknown ones; what comes out the same with both does not depend on them."""


@dataclass(frozen=True, slots=True)
class PolicyQuestion:
    """The pools before and after a policy is loaded, and what could not be worked out."""

    pools: Pools
    fallen: int
    issued: int
    notes: tuple[str, ...] = field(default=())


def under_policy(
    new: Policy,
    entries: Iterable[RegisterLine],
    *,
    in_force: Policy | None,
    besides: Sequence[SignedCertificate] = (),
    now: Instant,
) -> PolicyQuestion:
    """Return the certificates of a register, and others `besides`, as they are and as they would be."""
    standing = [(one, certificate_from_bytes(one.certificate)) for one in entries if one.revoked_at is None]
    lost = _lost_roles(in_force, new)
    before, after = list(besides), list(besides)
    members: dict[tuple[str, Principal, str | None], tuple[RegisterLine, SignedCertificate]] = {}
    for entry, signed in standing:
        before.append(signed)
        old = None if in_force is None else in_force.grant(entry.rule)
        role = None if old is None else old.role
        by_policy = entry.rule and signed.certificate.issuer == new.domain
        if not by_policy or (new.grant(entry.rule) is not None and role not in lost):
            after.append(signed)
        if role is not None and role not in lost and isinstance(signed.certificate.subject, Principal):
            members.setdefault((role, signed.certificate.subject, entry.membership), (entry, signed))
    given, notes = (
        ([], ["the policy in force was not given: what members would get is not compared"])
        if in_force is None
        else _given(in_force, new, members, now)
    )
    notes += _doubts(in_force, new, lost)
    pools = Pools(tuple(before), (*after, *given), frozenset(one.id for one in given))
    return PolicyQuestion(pools, len(before) - len(after), len(given), tuple(dict.fromkeys(notes)))


def _lost_roles(old: Policy | None, new: Policy) -> frozenset[str]:
    """Return the roles of which no rule is left: every membership of them ends."""
    if old is None:
        return frozenset()
    return frozenset(
        role for role, rules in old.rules.items() if rules and all(new.rule(one.id) is None for one in rules)
    )


def _doubts(old: Policy | None, new: Policy, lost: frozenset[str]) -> list[str]:
    if old is None:
        return []
    found = changes(old, new)
    doubtful = dict.fromkeys(rule.role for rule in found.rules_gone if rule.role not in lost)
    notes = [
        f"a rule of role `{role}` goes: members by it lose the role, which is not compared"
        for role in doubtful
    ]
    notes += [f"`{name}` loses an issuer: what depends on it is not compared" for name in found.issuers_gone]
    return notes


def _given(
    old: Policy,
    new: Policy,
    members: Mapping[tuple[str, Principal, str | None], tuple[RegisterLine, SignedCertificate]],
    now: Instant,
) -> tuple[list[SignedCertificate], list[str]]:
    """Return what the members of roles would get by grants that are new."""
    fresh = {grant.id for grant in changes(old, new).grants_new}
    given: list[SignedCertificate] = []
    notes: list[str] = []
    for (role, holder, _), (entry, signed) in members.items():
        grants = [one for one in new.grants.get(role, ()) if one.id in fresh]
        certificate = signed.certificate
        if not grants or not isinstance(certificate, AuthorisationCertificate):
            continue
        known = _arguments(old, old.grant(entry.rule), certificate, now)
        for grant in grants:
            authority = _authority(new, grant, known, holder, now)
            if authority is None:
                notes.append(f"what a new grant gives role `{role}` depends on more than is on record")
                continue
            given.append(
                supposed(
                    AuthorisationCertificate(
                        new.domain, holder, grant.privilege.may_delegate, authority, certificate.validity
                    )
                )
            )
    return given, notes


def _authority(
    policy: Policy, grant: Grant, known: Sequence[Given | None], holder: Principal, now: Instant
) -> Authority | None:
    """Return what a grant gives a member, if that does not depend on arguments that are unknown."""
    parameters = policy.roles[grant.role].parameters
    if len(known) != len(parameters):
        known = (None,) * len(parameters)
    found: set[Authority | None] = set()
    for number in range(len(_NUMBERS)):
        words = [
            _stand_in(parameter.kind, number, place) if one is None else one
            for place, (one, parameter) in enumerate(zip(known, parameters, strict=True))
        ]
        rights = possible_rights(policy, grant.role, words, holder, now)
        found.add(next((one.authority for one in rights if one.grant.id == grant.id), None))
    return found.pop() if len(found) == 1 else None


def _arguments(
    policy: Policy, grant: Grant | None, certificate: AuthorisationCertificate, now: Instant
) -> list[Given | None]:
    """Read the arguments of a role out of a certificate that a grant of it gave: None for those not in it."""
    if grant is None or not isinstance(certificate.subject, Principal):
        return []
    parameters = policy.roles[grant.role].parameters
    words = [_stand_in(one.kind, 0, place) for place, one in enumerate(parameters)]
    rights = possible_rights(policy, grant.role, words, certificate.subject, now)
    shape = next((one.authority for one in rights if one.grant.id == grant.id), None)
    if shape is None:
        return [None] * len(parameters)
    found: dict[bytes, bytes] = {}
    wanted, actual = (predicate_to_expression(one.restriction) for one in (shape, certificate.authority))
    if not _match(wanted, actual, {_text(one) for one in words}, found):
        return [None] * len(parameters)
    return [
        Word(found[_text(word)].decode()) if _text(word) in found and one.kind in _PLAIN else None
        for word, one in zip(words, parameters, strict=True)
    ]


def _match(shape: SExpression, actual: SExpression, words: set[bytes], found: dict[bytes, bytes]) -> bool:
    """Lay one expression over another; note what is in the place of each stand-in."""
    if not isinstance(shape, tuple) or not isinstance(actual, tuple):
        if isinstance(shape, bytes) and isinstance(actual, bytes) and shape in words:
            return found.setdefault(shape, actual) == actual
        return shape == actual
    return len(shape) == len(actual) and all(
        _match(one, other, words, found) for one, other in zip(shape, actual, strict=True)
    )


def _stand_in(kind: ParameterKind, number: int, place: int) -> Given:
    value = _NUMBERS[number] + place
    match kind:
        case ParameterKind.STRING:
            return f"\N{WHITE SQUARE}{value}"
        case ParameterKind.INT:
            return value
        case ParameterKind.FLOAT:
            return float(value)
        case ParameterKind.BOOL:
            return bool(number)
        case ParameterKind.TIMESTAMP:
            return Instant(value)
        case ParameterKind.PRINCIPAL:
            return SigningKey.from_seed(value.to_bytes(32, "big")).principal


def _text(word: Given) -> bytes:
    return word.encode() if isinstance(word, str) else str(word).encode()
