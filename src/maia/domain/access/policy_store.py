"""Which policy is in force, and does it survive a restart exactly as it was?

A policy is kept as the text that was loaded, with the texts of the role sets
that it imports and the ids of the event types that it names. After a
restart the same texts are read again. Loading the same policy again makes no
new version. A policy that cannot be read any more grants nothing: to go back to
an older one could grant what was revoked since.

When another policy comes into force, memberships end whose rule is gone or that
depend on an issuer that is accepted no longer, and rights whose grant is gone;
with them all that depends on them. Rules are compared by what they say: one
that only moved ends nothing, and removing one of several keeps what the others
gave (A41).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeAlias

from sqlalchemy import select

from maia.credentials import (
    Principal,
    TypeName,
    VerificationCache,
    VerifiedConstitution,
    principal_from_bytes,
)
from maia.credentials.appointments import (
    AppointmentKind,
    ParameterKind,
    appointment_from_bytes,
    argument_kind,
)
from maia.domain.access.cascade import end_memberships, revoke_rights
from maia.domain.access.memberships import membership_from_bytes
from maia.domain.access.results import EntryKind, LoadedPolicy, Revoked
from maia.domain.access.settings import AccessLimits, AccessSettings, check_room
from maia.domain.access.unit_of_work import UnitOfWork, next_number
from maia.domain.storage.records import from_cell, to_cell
from maia.domain.storage.store import AT_ONCE, Tables
from maia.domain.storage.tables import (
    AppointmentRow,
    MembershipRow,
    PolicyRow,
    RightRow,
    SupportRow,
    TypeRow,
    active_memberships,
    valid_rights,
)
from maia.errors import BadInput, MaiaError
from maia.events import Instant
from maia.profile import UnknownTypeName
from maia.profile.type_names import NamedTypes
from maia.roles import Grant, Policy, SupportKind, ended_memberships, parse_policy
from maia.roles.policy import CertificatePremise
from maia.types import (
    SignedDefinition,
    VerifiedType,
    VerifiedTypeCache,
    definition_to_bytes,
    verify_definition,
)

# ------------------------------------------------------------ the event types that it speaks of

# Policies speak of types by their readable names, and the register is asked
# about them. A version is verified before it is kept, and again when it is
# read: what is in the store is bytes, and no proof.


_NUMBERS: Final = "types"


class TypeRegistry:
    """Versions of types by name, verified."""

    def __init__(
        self,
        certificates: VerificationCache,
        limits: AccessLimits,
        constitutions: tuple[VerifiedConstitution, ...] = (),
    ) -> None:
        self._limits, self._constitutions = limits, constitutions
        self._cache = VerifiedTypeCache(limits.types, certificates)

    def register(self, work: UnitOfWork, signed: SignedDefinition) -> VerifiedType:
        """Verify and keep a version."""
        verified = self._verified(work.tables, signed, work.now)
        if work.tables.get(TypeRow, signed.id) is None:
            count = work.tables.count(TypeRow) + 1
            check_room(count, self._limits.types, "this domain keeps at most {} versions of types")
            name, number = verified.name, next_number(work.tables, _NUMBERS)
            row = TypeRow(
                signed.id,
                number,
                str(name.owner),
                name.name,
                name.version,
                definition_to_bytes(signed),
                work.now,
            )
            work.tables.put(row)
        return verified

    def holding(self, tables: Tables, now: Instant) -> dict[TypeName, VerifiedType]:
        """Return the versions that hold now, in the order of their registration."""
        found: dict[TypeName, VerifiedType] = {}
        for row in (row for rows in tables.every(TypeRow, order=TypeRow.c.number) for row in rows):
            try:
                verified = self._verified(tables, self._cache.read(row.definition), now)
            except MaiaError:
                continue
            found[verified.name] = verified
        return found

    def of_ids(self, tables: Tables, ids: Mapping[str, bytes], at: Instant) -> dict[str, VerifiedType]:
        """Return versions by what a policy calls them, as they held at a moment."""
        found: dict[str, VerifiedType] = {}
        for name, identifier in ids.items():
            row = tables.get(TypeRow, identifier)
            if row is None:
                raise BadInput(
                    "INPUT-TYPE-NOT-REGISTERED",
                    f"the version of type `{name}` that the policy was read with is gone",
                )
            found[name] = self._verified(tables, self._cache.read(row.definition), at)
        return found

    def named(self, tables: Tables, name: TypeName, at: Instant) -> VerifiedType:
        """Return one version; refuse one that is not registered or does not hold."""
        rows = tables.find(
            TypeRow,
            TypeRow.c.owner == str(name.owner),
            TypeRow.c.name == name.name,
            TypeRow.c.version == name.version,
            limit=1,
        )
        if not rows:
            raise BadInput(
                "INPUT-TYPE-NOT-REGISTERED",
                f"type `{name.name}` of `{name.owner}`, version `{name.version}`, is unknown",
            )
        return self._verified(tables, self._cache.read(rows[0].definition), at)

    def _verified(self, tables: Tables, signed: SignedDefinition, at: Instant) -> VerifiedType:
        """Verify a version, after those that it was made from."""
        lineage, verified, name = [signed], None, signed.definition.name
        columns = TypeRow.c
        same = (columns.owner == str(name.owner), columns.name == name.name)
        while lineage[-1].definition.previous is not None and len(lineage) <= self._limits.types:
            rows = tables.find(TypeRow, *same, columns.version == lineage[-1].definition.previous, limit=1)
            if not rows:
                break
            lineage.append(self._cache.read(rows[0].definition))
        for one in reversed(lineage):
            verified = verify_definition(
                one, at=at, previous=verified, constitutions=self._constitutions, cache=self._cache
            )
        assert verified is not None  # noqa: S101 - a lineage has at least the version itself
        return verified


_VERSIONS_MAX: Final = 1_000
_NEWEST: Final = select(PolicyRow.sql).order_by(PolicyRow.c.version.desc()).limit(1)
_CERTIFICATE: Final = SupportKind.CERTIFICATE.value.encode() + b" "

_ReadWith: TypeAlias = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, bytes], ...], Instant]
"""The texts that a policy imports, the ids of the types that it names, and when it was read."""
_Signed: TypeAlias = tuple[AppointmentKind, str, tuple[ParameterKind, ...], Principal]
"""What a certificate is, is called and has for parameters, and who signed it."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A policy that was read, or None where it cannot be."""

    digest: bytes
    policy: Policy | None


class PolicyStore:
    """Reads policies, and remembers the one in force."""

    def __init__(self, domain: Principal, registry: TypeRegistry, settings: AccessSettings) -> None:
        self._domain, self._registry, self._settings = domain, registry, settings
        self._read: _Read | None = None

    def in_force(self, tables: Tables) -> Policy | None:
        """Return the policy in force; None if there is none, or none that can be read."""
        row = newest(tables)
        if row is None:
            return None
        # By digest, not by version: a version that was taken back may be given to another text.
        if self._read is None or self._read.digest != row.digest:
            self._read = _Read(row.digest, self._read_again(tables, row))
        return self._read.policy

    def unchanged(
        self, work: UnitOfWork, text: str, parents: Mapping[str, str], types: Mapping[str, VerifiedType]
    ) -> PolicyRow | None:
        """Return the policy in force, if it is this text, read with these others and the types of now."""
        row = newest(work.tables)
        if row is None or row.text != text or self.in_force(work.tables) is None:
            return None
        known, ids, _ = _read_with(row)
        # A parent may import those before it, so their order matters.
        if list(known.items()) != list(parents.items()):
            return None
        try:
            return row if all(types[word].id == one for word, one in ids.items()) else None
        except UnknownTypeName:
            return None

    def put_in_force(
        self, work: UnitOfWork, text: str, parents: Mapping[str, str], types: Mapping[str, VerifiedType]
    ) -> tuple[Policy, PolicyRow]:
        """Read and keep a policy; refuse it with all its errors, and keep the one before."""
        size = len(text.encode()) + sum(len(one.encode()) for one in parents.values())
        check_room(
            size, self._settings.limits.policy_bytes, "a policy has at most {} bytes, with all it imports"
        )
        policy = read_policy(text, parents, types, self._domain)
        before = newest(work.tables)
        version = 1 if before is None else before.version + 1
        ids = tuple((name, one.id) for name, one in types.items())
        read_with = to_cell(_ReadWith, (tuple(parents.items()), ids, work.now))
        digest = sha256(b"maia/1/policy\x00" + text.encode() + b"\x00" + read_with).digest()
        row = PolicyRow(version, text, read_with, digest, work.actor.key, work.now)
        work.tables.put(row)
        return policy, row

    def types(self, work: UnitOfWork, owners: Mapping[str, str]) -> Mapping[str, VerifiedType]:
        """Return the newest versions, by the words of a policy; `owners` are keys by its author's names."""
        known = self._registry.holding(work.tables, work.now).values()
        return NamedTypes(known, own=self._domain, folders=self._settings.name_folders, owners=owners)

    def _read_again(self, tables: Tables, row: PolicyRow) -> Policy | None:
        try:
            parents, ids, at = _read_with(row)
            digest = sha256(b"maia/1/policy\x00" + row.text.encode() + b"\x00" + row.read_with).digest()
            if digest != row.digest:
                return None
            types = self._registry.of_ids(tables, ids, at)
            return read_policy(row.text, parents, types, self._domain)
        except MaiaError:
            # Deny all (A42): the operator sees that no policy is in force, and loads one.
            return None


def read_policy(
    text: str, parents: Mapping[str, str], types: Mapping[str, VerifiedType], domain: Principal
) -> Policy:
    """Read a policy with the role sets that it imports, each of which may import the ones before it."""
    read: dict[str, Policy] = {}
    for origin, parent in parents.items():
        read[origin] = parse_policy(parent, origin=origin, domain=domain, parents=dict(read), types=types)
    return parse_policy(text, origin="policy", domain=domain, parents=read, types=types)


def newest(tables: Tables) -> PolicyRow | None:
    return tables.first(PolicyRow, _NEWEST)


def was_replaced(tables: Tables, text: str, parents: Mapping[str, str]) -> bool:
    """Return whether a policy was in force once and another is now: an administrator decides to go back."""
    last = newest(tables)
    if last is None or _is_of(last, text, parents):
        return False
    before = tables.find(
        PolicyRow, PolicyRow.c.text == text, limit=_VERSIONS_MAX, order=PolicyRow.c.version, descending=True
    )
    return any(_is_of(row, text, parents) for row in before)


def _is_of(row: PolicyRow, text: str, parents: Mapping[str, str]) -> bool:
    return row.text == text and _read_with(row)[0] == dict(parents)


def loaded_of(row: PolicyRow, revoked: Revoked | None = None) -> LoadedPolicy:
    return LoadedPolicy(
        row.version,
        row.digest,
        row.text,
        principal_from_bytes(row.loaded_by),
        Instant(row.loaded_at),
        revoked or Revoked(),
    )


def _read_with(row: PolicyRow) -> tuple[dict[str, str], dict[str, bytes], Instant]:
    parents, ids, at = from_cell(_ReadWith, row.read_with, "a policy in the store")
    return dict(parents), dict(ids), at


def revoke_ungranted(work: UnitOfWork, policy: Policy, *, before: Policy | None) -> None:
    """End memberships and revoke rights that a new policy does not grant; `before` it was in force."""
    active = active_memberships(work.now)
    for members in work.tables.every(MembershipRow, *active, order=MembershipRow.c.number):
        found = ended_memberships((membership_from_bytes(row.membership) for row in members), policy=policy)
        end_memberships(work, [one.membership.id for one in found], "the policy changed")
    issued = (RightRow.c.kind == EntryKind.ISSUED.value, *valid_rights(work.now))
    after = ""
    while rules := work.tables.distinct(RightRow.c.rule, *issued, limit=AT_ONCE, after=after):
        after = rules[-1]
        for rule in (one for one in rules if policy.grant(one) is None):
            for rows in work.tables.every(
                RightRow, *issued, RightRow.c.rule == rule, order=RightRow.c.number
            ):
                revoke_rights(work, [row.id for row in rows], "the policy changed")
    for grants in policy.grants.values():
        for grant in grants:
            _revoke_by_issuer(work, policy, before, grant)


def _revoke_by_issuer(work: UnitOfWork, policy: Policy, before: Policy | None, grant: Grant) -> None:
    """Revoke rights that depend on a certificate whose issuer the grant no longer accepts for it."""
    names = [one.name for one in grant.premises if isinstance(one, CertificatePremise) and one.is_watched]
    if not names:
        return
    # Two appointments may be called the same inside certificates. What met either of them may have been
    # for the one that the issuer has lost: the right ends, and a member that still has it logs in again.
    lost = {one for name in names for one in _accepted(before, name) - _accepted(policy, name)}
    good = {one for name in names for one in _accepted(policy, name)} - lost
    by_grant = (RightRow.c.rule == grant.id, *valid_rights(work.now))
    for rows in work.tables.every(RightRow, *by_grant, order=RightRow.c.number):
        gone = [row.id for row in rows if not _certificates_behind(work, row.id) <= good]
        revoke_rights(work, gone, "the policy changed")


def _accepted(policy: Policy | None, name: str) -> frozenset[_Signed]:
    """Return which certificates a policy takes for what it calls by this name."""
    declared = None if policy is None else policy.appointments.get(name)
    if policy is None or declared is None:
        return frozenset()
    kind = AppointmentKind.ROLE_MEMBERSHIP if declared.is_role else AppointmentKind.APPOINTMENT
    kinds = tuple(parameter.kind for parameter in declared.parameters)
    return frozenset((kind, declared.called, kinds, issuer) for issuer in policy.issuers(name))


def _certificates_behind(work: UnitOfWork, right: bytes) -> set[_Signed]:
    """Return what the certificates behind a right are, each with who signed it."""
    supports = work.tables.find(
        SupportRow, SupportRow.c.dependent == right, SupportRow.c.is_watched == 1, limit=AT_ONCE
    )
    keys = (row.support for row in supports if row.support.startswith(_CERTIFICATE))
    ids = tuple(key.removeprefix(_CERTIFICATE) for key in keys)
    found = work.tables.find_in(AppointmentRow, AppointmentRow.c.id, ids)
    return {
        (one.kind, one.name, tuple(map(argument_kind, one.parameters)), one.issuer)
        for one in (appointment_from_bytes(row.certificate).certificate for row in found)
    }
