"""How does what a rule grants become a certificate that a verifier believes?

The role engine says what is granted, to whom and until when. Here that becomes
a signed certificate with a test by this domain, together with the chain that
leads from the owner of the resource through this domain to it. What the domain
cannot itself pass on is withheld: such a certificate would be of no use, and
the register would claim what no broker grants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Final

from maia.canonical import write_canonical
from maia.credentials import (
    FIRST_VERSION,
    Action,
    AnyResource,
    AuthorisationCertificate,
    BadName,
    NetworkName,
    NetworkPattern,
    NoChain,
    Owner,
    Principal,
    ResourceName,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    TopicName,
    TopicPattern,
    TypeName,
    TypePattern,
    Validity,
    VerificationCache,
    authority_to_expression,
    certificate_from_bytes,
    certificate_to_bytes,
    find_chains,
    issue,
    verify_chain,
)
from maia.credentials.certificate import OnlineTest, TestKind
from maia.credentials.names import NamePattern
from maia.credentials.statements import CertificateStale
from maia.domain.access.memberships import RIGHT, keep_dependencies
from maia.domain.access.results import EntryKind, IssuedRight, Withheld
from maia.domain.access.settings import AccessSettings, check_room
from maia.domain.access.unit_of_work import UnitOfWork, end_of, next_number
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import RightRow, valid_rights
from maia.errors import BrokenCredential
from maia.events import SECOND, Instant
from maia.roles import GrantedRight, RoleMembership
from maia.validity import Tester

_REGISTER: Final = "register"

NAME: Final = "name"
"""What `about` is for a certificate that binds a name."""


class Issuer:
    """Issues what rules grant, in the name of one domain."""

    def __init__(self, key: SigningKey, settings: AccessSettings, cache: VerificationCache) -> None:
        self._key, self._settings, self._cache = key, settings, cache

    def issue_all(
        self, work: UnitOfWork, membership: RoleMembership, granted: Iterable[GrantedRight], tester: Tester
    ) -> tuple[list[IssuedRight], list[Withheld]]:
        """Issue what was granted to a member, or return what was issued before and lasts long enough."""
        on_record = held_certificates(work.tables, work.now)
        held = [one for one in on_record if tester.check(one, work.now) is None]
        # The rights of the member that are valid, by what was granted; the longest lived of each.
        where = (RightRow.c.membership == membership.id, *valid_rights(work.now))
        most = self._settings.limits.rights_each
        rows = work.tables.find(RightRow, *where, limit=most, order=RightRow.c.not_after)
        standing = {row.granted: row for row in rows}
        issued: list[IssuedRight] = []
        withheld: list[Withheld] = []
        for right in granted:
            try:
                issued.append(self._one(work, membership, right, held, standing))
            except BrokenCredential as problem:
                withheld.append(self._withheld(work, right, tester, problem))
        return issued, withheld

    def _withheld(
        self,
        work: UnitOfWork,
        right: GrantedRight,
        tester: Tester,
        problem: BrokenCredential,
    ) -> Withheld:
        """Say why a right is withheld: of a certificate that would grant it, what speaks against that."""
        said = right.authority
        actions = " ".join(sorted(one.value for one in said.actions))
        named = f"{actions} {about(said.resources).split(' ', 2)[-1] or said.resources}"
        owner = said.resources.owner
        why = f"no certificate leads from `{owner}` to this domain: ask for a grant that may be passed on"
        signed = issue(self.unsigned(right, work.now, 0), self._key)
        on_record = held_certificates(work.tables, work.now, also_revoked=True)
        with suppress(BrokenCredential):
            for one in self.chain_to(signed, on_record, work.now)[:-1]:
                found = tester.check(one, work.now)
                if found is not None:
                    cure = f"ask `{one.certificate.issuer}` for a new grant"
                    if isinstance(found, CertificateStale):
                        cure = f"see that the server of `{one.certificate.issuer}` can be reached from here"
                    problem, why = found, f"{found.message}; {cure}"
        return Withheld(right.grant, problem.code, named, why)

    def chain_to(
        self, signed: SignedCertificate, held: Sequence[SignedCertificate], now: Instant
    ) -> tuple[SignedCertificate, ...]:
        """Return the certificates that lead from the owner to `signed`, which comes last.

        Each action may need a chain of its own. Refuse where there is none for any of them.
        """
        certificate = signed.certificate
        assert isinstance(certificate, AuthorisationCertificate)  # noqa: S101 - only these are issued here
        owner = certificate.authority.resources.owner
        if owner is None or owner == self._key.principal:
            return (signed,)
        above: dict[bytes, SignedCertificate] = {}
        missed: BrokenCredential | None = None
        for action in sorted(certificate.authority.actions, key=lambda one: one.value):
            try:
                above |= {one.id: one for one in self._proved(signed, action, owner, held, now)}
            except BrokenCredential as problem:
                missed = problem
        if missed is not None and not above:
            raise missed
        return (*above.values(), signed)

    def unsigned(self, right: GrantedRight, now: Instant, number: int) -> AuthorisationCertificate:
        """Return the certificate for a right, before it is signed."""
        start = Instant(now - now % SECOND)
        end = Instant(start + self._settings.right_s * SECOND)
        kinds = {TestKind.TIMED_CRL, *right.tests}
        tests = [OnlineTest(kind, self._key.principal, self._settings.locations) for kind in kinds]
        validity = Validity(start, end).intersection(right.validity).with_tests(*tests)
        # The number keeps two certificates apart that say the same: the second must outlive
        # the revocation of the first.
        return AuthorisationCertificate(
            issuer=self._key.principal,
            subject=right.principal,
            may_delegate=right.may_delegate,
            authority=right.authority,
            validity=validity,
            comment=f"right {number}",
        )

    def _one(
        self,
        work: UnitOfWork,
        membership: RoleMembership,
        right: GrantedRight,
        held: Sequence[SignedCertificate],
        standing: dict[bytes, RightRow],
    ) -> IssuedRight:
        granted = _digest(right)
        known = standing.get(granted)
        half_s = self._settings.right_s * SECOND // 2
        new_end = end_of(self.unsigned(right, work.now, 0).validity.not_after)
        # No renewal while half of its time is left, or where a new one would not last longer.
        if known is not None and (known.not_after >= new_end or known.not_after - work.now > half_s):
            signed = certificate_from_bytes(known.certificate)
            return IssuedRight(signed, self.chain_to(signed, held, work.now), membership.id, right.grant)
        # The number is drawn first and lost if there is no chain: numbers need no row without gaps.
        number = next_number(work.tables, _REGISTER)
        signed = issue(self.unsigned(right, work.now, number), self._key)
        chain = self.chain_to(signed, held, work.now)
        check_room(len(standing) + 1, self._settings.limits.rights_each, "a member has at most {} rights")
        row = replace(
            row_of(signed, EntryKind.ISSUED, work, number),
            membership=membership.id,
            rule=right.grant,
            granted=granted,
            is_revalidated=int(TestKind.REVALIDATION in right.tests),
        )
        work.tables.put(row)
        keep_dependencies(work.tables, row.id, RIGHT, right.depends_on)
        standing[granted] = row
        work.given += 1
        return IssuedRight(signed, chain, membership.id, right.grant)

    def _proved(
        self,
        signed: SignedCertificate,
        action: Action,
        owner: Owner,
        held: Sequence[SignedCertificate],
        now: Instant,
    ) -> tuple[SignedCertificate, ...]:
        """Return the certificates above `signed`, with which the verifier has found it good.

        All of them: what one grants to this domain adds to what another does, for its members too.
        """
        certificate = signed.certificate
        assert isinstance(certificate, AuthorisationCertificate)  # noqa: S101 - only these are issued here
        assert isinstance(certificate.subject, Principal)  # noqa: S101 - rules grant to single keys
        missed: BrokenCredential | None = None
        every = frozenset(one.id for one in held)
        for resource in sample_resources(certificate.authority.resources, owner):
            above: dict[bytes, SignedCertificate] = {}
            try:
                chains = find_chains(
                    held,
                    root=owner,
                    subject=self._key.principal,
                    action=action,
                    resource=resource,
                    at=now,
                    cache=self._cache,
                    constitutions=self._settings.constitutions,
                    doubtful=every,
                )
            except BrokenCredential as problem:
                missed = problem
                continue
            for chain in [one for one in chains if one.may_delegate] or chains[:1]:
                whole = (*chain.certificates, signed)
                try:
                    verify_chain(
                        whole,
                        root=owner,
                        subject=certificate.subject,
                        at=now,
                        cache=self._cache,
                        constitutions=self._settings.constitutions,
                    )
                except BrokenCredential as problem:
                    missed = problem
                else:
                    above |= {one.id: one for one in chain.certificates}
            if above:
                return tuple(above.values())
        raise missed or NoChain("nothing leads from the owner to this domain")


def held_certificates(
    tables: Tables, now: Instant, *, also_revoked: bool = False
) -> tuple[SignedCertificate, ...]:
    """Return the certificates that lead to this domain and have not expired."""
    where = (RightRow.c.not_after >= now,) if also_revoked else valid_rights(now)
    is_held = RightRow.c.kind == EntryKind.HELD.value
    rows = tables.find(RightRow, is_held, *where, limit=1 << 14, order=RightRow.c.number)
    return tuple(certificate_from_bytes(row.certificate) for row in rows)


def row_of(
    signed: SignedCertificate, kind: EntryKind, work: UnitOfWork, number: int | None = None
) -> RightRow:
    certificate = signed.certificate
    subject = certificate.subject
    if kind is EntryKind.ISSUED:
        work.issued.append(signed.id)
    spoken = (
        about(certificate.authority.resources) if isinstance(certificate, AuthorisationCertificate) else NAME
    )
    return RightRow(
        id=signed.id,
        number=next_number(work.tables, _REGISTER) if number is None else number,
        kind=kind.value,
        issuer=certificate.issuer.key,
        subject=subject.key if isinstance(subject, Principal) else b"",
        about=spoken,
        not_after=end_of(certificate.validity.not_after),
        certificate=certificate_to_bytes(signed),
        registered_by=work.actor.key,
        registered_at=work.now,
    )


def about(resources: ResourcePattern | ResourceName) -> str:
    """Return the one thing that a pattern or a name is about, whatever the version; empty for many."""
    match resources:
        case TypeName(name=name) | TypePattern(name=NamePattern(exact=str(name))):
            kind = "type"
        case TopicName(path=name) | TopicPattern(path=NamePattern(exact=str(name))):
            kind = "topic"
        case NetworkName(name=name) | NetworkPattern(name=NamePattern(exact=str(name))):
            kind = "network"
        case _:
            return ""
    return "" if resources.owner is None else f"{kind} {resources.owner} {name}"


def sample_resources(resources: ResourcePattern, owner: Owner) -> Iterator[ResourceName]:
    """Yield some resources that a pattern covers, to search a chain with."""
    for name in _samples(resources):
        try:
            match resources:
                case TopicPattern():
                    yield TopicName(owner, name)
                case NetworkPattern():
                    yield NetworkName(owner, name)
                case TypePattern(version=version):
                    yield TypeName(owner, name, version or FIRST_VERSION)
                case AnyResource():
                    yield TypeName(owner, name, FIRST_VERSION)
        except BadName:
            continue


def _samples(resources: ResourcePattern) -> tuple[str, ...]:
    match resources:
        case TopicPattern(path=pattern) | TypePattern(name=pattern) | NetworkPattern(name=pattern):
            if pattern.exact is not None:
                return (pattern.exact,)
            inner = "".join(pattern.infixes)
            ends = pattern.prefix, pattern.suffix
            tried = (ends[0] + fill + inner + fill + ends[1] for fill in ("", "x", "/x", "x/"))
            return tuple(name for name in tried if pattern.matches(name))
        case AnyResource():
            return ("x",)


def _digest(right: GrantedRight) -> bytes:
    """Return a digest of what is granted and of what it depends on, but not of how long it lasts."""
    supports = tuple(
        (ground.support.kind.value.encode(), ground.support.id, b"1" if ground.is_watched else b"0")
        for ground in right.depends_on
    )
    tests = tuple(sorted(kind.value.encode() for kind in right.tests))
    expression = (
        right.grant.encode(),
        authority_to_expression(right.authority),
        b"1" if right.may_delegate else b"0",
        tests,
        supports,
    )
    return sha256(b"maia/1/granted\x00" + write_canonical(expression)).digest()
