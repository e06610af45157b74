"""Which event types does this domain know?

Policies speak of types by their readable names, and the register is asked
about them. A version is verified before it is kept, and again when it is
read: what is in the store is bytes, and no proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from maia.credentials import TypeName, VerificationCache, VerifiedConstitution
from maia.domain.access.refusals import ServiceFull, UnknownType
from maia.domain.access.settings import AccessLimits
from maia.domain.access.unit_of_work import UnitOfWork, next_number
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import TYPES, TypeRow
from maia.errors import MaiaError
from maia.events import Instant
from maia.types import (
    SignedDefinition,
    VerifiedType,
    VerifiedTypeCache,
    definition_from_bytes,
    definition_to_bytes,
    verify_definition,
)

_NUMBERS: Final = "types"


class TypeRegistry:
    """Versions of types by name, verified."""

    def __init__(
        self,
        certificates: VerificationCache,
        limits: AccessLimits,
        constitutions: tuple[VerifiedConstitution, ...] = (),
    ) -> None:
        """Begin with nothing verified."""
        self._limits, self._constitutions = limits, constitutions
        self._cache = VerifiedTypeCache(limits.types, certificates)

    def register(self, work: UnitOfWork, signed: SignedDefinition) -> VerifiedType:
        """Verify and keep a version."""
        verified = self._verified(work.tables, signed, work.now)
        if work.tables.get(TYPES, signed.id) is None:
            if work.tables.count(TYPES) >= self._limits.types:
                raise ServiceFull(f"this domain keeps at most {self._limits.types} versions of types")
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
            work.tables.put(TYPES, [row])
        return verified

    def holding(self, tables: Tables, now: Instant) -> dict[TypeName, VerifiedType]:
        """Return the versions that hold now, in the order of their registration."""
        found: dict[TypeName, VerifiedType] = {}
        for row in (row for rows in tables.every(TYPES, order=TYPES.c.number) for row in rows):
            try:
                verified = self._verified(tables, definition_from_bytes(row.definition), now)
            except MaiaError:
                continue
            found[verified.name] = verified
        return found

    def newest(self, tables: Tables, now: Instant) -> dict[str, VerifiedType]:
        """Return the version of each readable name that was registered last.

        The last word of a name is enough where no two types share it.
        """
        full = {name.name: verified for name, verified in self.holding(tables, now).items()}
        by_last_word: dict[str, list[VerifiedType]] = {}
        for name, verified in full.items():
            by_last_word.setdefault(name.rpartition(".")[2], []).append(verified)
        return {word: found[0] for word, found in by_last_word.items() if len(found) == 1} | full

    def of_ids(self, tables: Tables, ids: Mapping[str, bytes], at: Instant) -> dict[str, VerifiedType]:
        """Return versions by what a policy calls them, as they held at a moment."""
        found: dict[str, VerifiedType] = {}
        for name, identifier in ids.items():
            row = tables.get(TYPES, identifier)
            if row is None:
                raise UnknownType(f"the version of type `{name}` that the policy was read with is gone")
            found[name] = self._verified(tables, definition_from_bytes(row.definition), at)
        return found

    def named(self, tables: Tables, name: TypeName, at: Instant) -> VerifiedType:
        """Return one version; refuse one that is not registered or does not hold."""
        rows = tables.find(
            TYPES,
            TYPES.c.owner == str(name.owner),
            TYPES.c.name == name.name,
            TYPES.c.version == name.version,
            limit=1,
        )
        if not rows:
            raise UnknownType(f"type `{name.name}` of `{name.owner}`, version `{name.version}`, is unknown")
        return self._verified(tables, definition_from_bytes(rows[0].definition), at)

    def _verified(self, tables: Tables, signed: SignedDefinition, at: Instant) -> VerifiedType:
        """Verify a version, after those that it was made from."""
        lineage, verified, name = [signed], None, signed.definition.name
        columns = TYPES.c
        same = (columns.owner == str(name.owner), columns.name == name.name)
        while lineage[-1].definition.previous is not None and len(lineage) <= self._limits.types:
            rows = tables.find(TYPES, *same, columns.version == lineage[-1].definition.previous, limit=1)
            if not rows:
                break
            lineage.append(definition_from_bytes(rows[0].definition))
        for one in reversed(lineage):
            verified = verify_definition(
                one, at=at, previous=verified, constitutions=self._constitutions, cache=self._cache
            )
        assert verified is not None  # noqa: S101 - a lineage has at least the version itself
        return verified
