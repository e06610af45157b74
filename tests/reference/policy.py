"""What should be decided? Slow, obvious, and straight from the certificates.

Nothing is reduced, intersected, merged, left out or remembered. `paths_in` walks
every way through a heap of certificates. A list of certificates
counts if every single one of them says yes to every question; an attribute is
visible if some list that counts shows it in every one of its certificates. Bounds
are Miklós's definitions, asked of every notification in a small universe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maia.credentials.authority import ALL_ATTRIBUTES, Action, AnyResource, Authority, TypePattern
from maia.credentials.certificate import AuthorisationCertificate, NameCertificate, SignedCertificate
from maia.credentials.keys import LocalName, Principal
from maia.credentials.names import TypeName
from maia.events import AttributeUid, Event, Instant, Kinds, kind_of
from maia.policy import Bound, BoundRule, Facts
from maia.predicates.meaning import verdict
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    attributes_of,
)
from reference import miklos

Path = Sequence[SignedCertificate]


class World:
    """One request and all that speaks for or against it."""

    def __init__(
        self,
        *,
        requester,
        action,
        resource,
        kinds,
        wanted,
        paths,
        bounds,
        facts,
        now,
        universe,
        asserted=None,
    ):
        self.requester = requester
        self.action: Action = action
        self.resource: TypeName = resource
        self.kinds: Kinds = kinds
        self.wanted: Predicate = wanted
        self.paths: Sequence[Path] = paths
        self.bounds: Sequence[BoundRule] = bounds
        self.facts: Facts = facts
        self.asserted = asserted or {}
        self.now: Instant = now
        self.universe: miklos.Universe = universe

    # ------------------------------------------------------------ which lists of certificates count

    def counts(self, path: Path) -> bool:
        """Every certificate of the list agrees, and together they lead from the owner to the requester."""
        certificates = [signed.certificate for signed in path]
        grants = [one for one in certificates if isinstance(one, AuthorisationCertificate)]
        return (
            certificates[0].issuer == self.resource.owner
            and end_of(path) == self.requester
            and all(one.may_delegate for one in grants[:-1])
            and all(one.validity.contains(self.now) for one in certificates)
            and all(self.action in one.authority.actions for one in grants)
            and all(about(one.authority, self.resource) for one in grants)
            and all(self.holds(one.authority.condition, one.issuer) for one in grants)
            and self.common_attributes(path) != frozenset()
            and not is_hopeless(path)
        )

    def holds(self, condition: Predicate, issuer: Principal) -> bool:
        """A condition holds by what is known here and by what its own issuer has asserted, and no more."""
        return verdict(condition, {**self.asserted.get(issuer, {}), **self.facts}) is True

    def common_attributes(self, path: Path) -> frozenset[AttributeUid]:
        """The attributes of the type, and of the certificates, that every certificate shows."""
        named = {
            uid
            for part in authorities(path)
            if part.attributes is not ALL_ATTRIBUTES
            for uid in part.attributes
        }
        return frozenset(
            uid for uid in named | set(self.kinds) if all(shows(part, uid) for part in authorities(path))
        )

    def bounds_on(self, path: Path) -> list[BoundRule]:
        """The bounds that limit whoever relies on this list."""
        ids = {signed.id for signed in path}
        return [
            rule
            for rule in self.bounds
            if rule.action is self.action and (rule.holder == self.requester or rule.holder in ids)
        ]

    def within_bounds(self, path: Path) -> bool:
        """The filter or advertisement stands in the right relation to every bound."""
        asked = constraints(self.wanted)
        return all(
            RELATIONS[rule.bound](constraints(rule.filter), asked, self.universe)
            for rule in self.bounds_on(path)
        )

    def usable(self) -> list[Path]:
        """The lists that count and whose bounds are kept."""
        return [path for path in self.paths if self.counts(path) and self.within_bounds(path)]

    # ------------------------------------------------------------ subscribing

    def visible_through(self, path: Path) -> frozenset[AttributeUid]:
        """What one list shows: under a strict bound, only what the filter speaks of."""
        shown = self.common_attributes(path)
        strict = any(rule.bound in (Bound.STRICT_UPPER, Bound.STRICT_LOWER) for rule in self.bounds_on(path))
        return shown & attributes_of(self.wanted) if strict else shown

    def subscription_is_permitted(self) -> bool:
        """Some list is usable, and the filter speaks only of what is visible and declared."""
        seen = {uid for path in self.usable() for uid in self.visible_through(path)}
        return bool(self.usable()) and attributes_of(self.wanted) <= seen & set(self.kinds)

    def seen(self, event: Event) -> dict[AttributeUid, object] | None:
        """What the subscriber sees of one event."""
        open_paths = [path for path in self.usable() if satisfies(path, event)]
        if not open_paths:
            return None
        shown = {uid for path in open_paths for uid in self.visible_through(path)}
        part = {uid: value for uid, value in event.items() if value is not None and uid in shown}
        return part if verdict(self.wanted, part) is True else None

    # ------------------------------------------------------------ publishing

    def published(self, path: Path, event: Event) -> dict[AttributeUid, object] | None:
        """What one list makes of a publisher's event; None if it may not be sent."""
        writable = self.common_attributes(path)
        sent = {uid: value for uid, value in event.items() if value is not None and uid in writable}
        for part in authorities(path):
            sent.update(equalities(part.restriction))
        notification = tuple(sent.items())
        kept = all(
            NOTIFICATIONS[rule.bound](constraints(rule.filter), notification) for rule in self.bounds_on(path)
        )
        typed = all(uid not in self.kinds or kind_of(value) is self.kinds[uid] for uid, value in sent.items())
        return sent if kept and typed and satisfies(path, sent) and set(sent) <= writable else None


RELATIONS = {
    Bound.UPPER: miklos.covers_ss,
    Bound.STRICT_UPPER: miklos.strictly_covers_ss,
    Bound.LOWER: miklos.covers_aa,
    Bound.STRICT_LOWER: miklos.strictly_covers_aa,
}

NOTIFICATIONS = {
    Bound.UPPER: miklos.covers_sn,
    Bound.STRICT_UPPER: miklos.strictly_covers_sn,
    Bound.LOWER: miklos.covers_an,
    Bound.STRICT_LOWER: miklos.strictly_covers_an,
}


def authorities(path: Path) -> Iterator[Authority]:
    for signed in path:
        if isinstance(signed.certificate, AuthorisationCertificate):
            yield signed.certificate.authority


def paths_in(pool: Sequence[SignedCertificate], start: Principal, end: Principal) -> list[Path]:
    """Every list of certificates, none used twice, that leads from `start` to `end`."""
    found: list[Path] = []

    def walk(path: tuple[SignedCertificate, ...], here: Principal | LocalName) -> None:
        if here == end:
            found.append(path)
        for signed in pool:
            said = signed.certificate
            if isinstance(here, LocalName):
                admit = isinstance(said, NameCertificate) and LocalName(said.issuer, (said.name,)) == here
            else:
                admit = isinstance(said, AuthorisationCertificate) and said.issuer == here
            if admit and signed not in path:
                walk((*path, signed), said.subject)

    walk((), start)
    return found


def end_of(path: Path) -> Principal | LocalName | None:
    """Whom a list of certificates leads to; None where one of them does not follow from the one before."""
    here = path[0].certificate.issuer
    for signed in path:
        said = signed.certificate
        issuer = LocalName(said.issuer, (said.name,)) if isinstance(said, NameCertificate) else said.issuer
        if issuer != here:
            return None
        here = said.subject
    return here


def about(authority: Authority, resource: TypeName) -> bool:
    match authority.resources:
        case AnyResource(owner):
            return owner in (None, resource.owner)
        case TypePattern(owner, name, version):
            return (
                owner in (None, resource.owner)
                and name.matches(resource.name)
                and version in (None, resource.version)
            )
        case _:
            return False


def shows(authority: Authority, uid: AttributeUid) -> bool:
    return authority.attributes is ALL_ATTRIBUTES or uid in authority.attributes


def satisfies(path: Path, event: Event) -> bool:
    """Every restriction holds, asked of what the certificates before its own show (A104)."""
    left = dict(event)
    for part in authorities(path):
        if verdict(part.restriction, left) is not True:
            return False
        left = {uid: value for uid, value in left.items() if shows(part, uid)}
    return True


def is_hopeless(path: Path) -> bool:
    """A restriction holds of no event whatever, because its issuer does not see what it asks for."""
    parts = list(authorities(path))
    return any(
        not may_be(
            part.restriction, lambda uid, before=parts[:place]: all(shows(one, uid) for one in before)
        )[0]
        for place, part in enumerate(parts)
    )


def may_be(predicate: Predicate, is_seen) -> tuple[bool, bool]:
    """Whether a predicate may be true, and may be false, where what is not seen is missing."""
    match predicate:
        case Not(inner):
            return may_be(inner, is_seen)[::-1]
        case AllOf(parts):
            found = [may_be(part, is_seen) for part in parts]
            return all(true for true, _ in found), any(false for _, false in found)
        case AnyOf(parts):
            found = [may_be(part, is_seen) for part in parts]
            return any(true for true, _ in found), all(false for _, false in found)
        case atom if is_seen(atom.uid):
            return True, True
        case Exists():
            return False, True
        case _:
            return False, False


def constraints(conjunction: Predicate) -> tuple[Predicate, ...]:
    """A filter of Miklós's kind is written as `AllOf` of its constraints, and nothing deeper."""
    assert isinstance(conjunction, AllOf)
    return conjunction.parts


def equalities(restriction: Predicate) -> dict[AttributeUid, object]:
    match restriction:
        case Comparison(uid, Operator.EQ, literal):
            return {uid: literal}
        case Membership(uid, literals) if len(literals) == 1:
            return {uid: next(iter(literals))}
        case AnyOf((only,)):
            return equalities(only)
        case AllOf(parts):
            found: dict[AttributeUid, object] = {}
            for part in parts:
                found.update(equalities(part))
            return found
        case _:
            return {}
