"""Of which types does this key server run the key groups, and what has come of a change in them?

A server runs the groups of a type if the type's owner has named it. What an
epoch or an eviction changed is collected here, together with what members are
sent about it, so that the server can have the one kept before the other leaves.
Evictions and revocations survive a restart, and a crash at any moment: the
record is safe before a member gets a new key (A82).

    evicted/KEY      a principal that was evicted
    readmitted/KEY   a principal that was admitted again, and since when
    revoked/ID       a certificate that is revoked
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from maia.credentials import Principal, SigningKey, VerificationCache, Witness, principal_from_bytes
from maia.domain.keys.definitions import Definitions
from maia.domain.keys.links import MemberLink
from maia.domain.keys.notifications import Teller
from maia.domain.keys.refusals import KeyServerFull, NotManagedHere
from maia.domain.keys.settings import DomainSettings
from maia.events import Instant
from maia.sealing.groups.manager import GroupManager
from maia.sealing.groups.manager_store import ManagerStore
from maia.sealing.groups.membership import Grounds
from maia.sealing.groups.outcomes import Distrusted, Outcome
from maia.sealing.keys.secrets import AtRest
from maia.types import Sealing, SealingLevel, VerifiedType
from maia.wire.effects import Effect

__all__ = [
    "Changes",
    "ManagedTypes",
    "kept_eviction",
    "kept_readmission",
    "kept_revocations",
    "read_distrusted",
]

_RECORD: Final = re.compile(r"(evicted|readmitted|revoked)/([0-9a-f]{64})")
_MOMENT: Final = re.compile(rb"-?[0-9]{1,19}")

Changes = dict[str, bytes | None]
"""What waits to be kept, by name; None for what is kept no more."""

_TYPE: Final = re.compile(r"[0-9a-f]{64}(?=/)")


class ManagedTypes:
    """The key groups of every type that is managed here."""

    def __init__(  # noqa: PLR0913 - every one is named at the call
        self,
        key: SigningKey,
        settings: DomainSettings,
        *,
        at_rest: AtRest,
        random: Callable[[int], bytes],
        certificates: VerificationCache,
        witness: Witness,
        teller: Teller,
        changes: Changes,
    ) -> None:
        """Begin with none; what has to be kept is added to `changes`."""
        self._key, self._settings, self._at_rest, self._random = key, settings, at_rest, random
        self._certificates, self._witness, self._teller = certificates, witness, teller
        self._changes = changes
        self.definitions = Definitions(settings, certificates)
        self._distrusted = Distrusted()
        self._groups: dict[bytes, GroupManager] = {}
        self._looks: dict[bytes, Instant | None] = {}
        """When the groups of each type are due for a check."""

    # -------------------------------------------------------- asking

    def get(self, type_id: bytes) -> GroupManager | None:
        """Return the groups of a type, if they are run here."""
        return self._groups.get(type_id)

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: no key and no certificate."""
        return {
            "types": len(self._groups),
            "versions": len(self.definitions),
            "groups": {type_id.hex(): manager.status() for type_id, manager in self._groups.items()},
            "evicted": len(self._distrusted.evicted),
            "revoked": len(self._distrusted.revoked),
        }

    # -------------------------------------------------------- which types

    def of(self, versions: tuple[VerifiedType, ...]) -> GroupManager:
        """Return the groups of a type, new ones if need be, if its owner wants them to be run here."""
        type_id = versions[-1].type_id
        sealing = self._managed(versions)
        if sealing is None:
            raise NotManagedHere("the owner of this type has not named this server as its key manager")
        known = self._groups.get(type_id)
        if known is None:
            if len(self._groups) >= self._settings.limits.types:
                raise KeyServerFull(f"this server runs the groups of {self._settings.limits.types} types")
            return self._new(type_id, sealing)
        known.grounds = self._grounds(sealing.level)
        known.refresh_together(sealing.blinded)
        return known

    def joined(self, manager: GroupManager, versions: tuple[VerifiedType, ...]) -> None:
        """Run the groups of a type from now on: a member was admitted."""
        self._changes |= self.definitions.remember(versions)
        self._groups[manager.type_id] = manager

    def _managed(self, versions: Iterable[VerifiedType]) -> Sealing | None:
        sealing = self.definitions.history(list(versions)).sealing
        return sealing if sealing is not None and sealing.manager == self._key.principal else None

    def _grounds(self, level: SealingLevel) -> Grounds:
        settings = self._settings
        return Grounds(
            level,
            settings.bounds,
            settings.constitutions,
            self._certificates,
            self._witness,
            settings.limits.chains_per_request,
        )

    def _new(self, type_id: bytes, sealing: Sealing) -> GroupManager:
        made = GroupManager(
            type_id,
            self._key,
            self._grounds(sealing.level),
            random=self._random,
            store=ManagerStore(type_id, self._at_rest),
            terms=self._settings.terms,
            keeps_history=type_id in self._settings.history,
            distrusted=self._distrusted,
        )
        made.refresh_together(sealing.blinded)
        return made

    # -------------------------------------------------------- what the domain decides

    def evict(self, principal: Principal, now: Instant) -> list[Effect]:
        """Put a principal out of every group at once, and keep it out."""
        self._distrusted.evicted.add(principal)
        self._changes |= kept_eviction(principal)
        return self.everywhere(lambda manager: manager.evict(principal, now))

    def readmit(self, principal: Principal, now: Instant) -> None:
        """Let a principal in again that was put out, as soon as it asks; its right counts from now on."""
        if self._distrusted.readmit(principal, now):
            self._changes |= kept_readmission(principal, now)

    def revoke(self, certificates: frozenset[bytes], now: Instant) -> list[Effect]:
        """Believe these certificates, named by their ids, no more."""
        self._distrusted.revoked |= certificates
        self._changes |= kept_revocations(certificates)
        return self.everywhere(lambda manager: manager.revoke(certificates, now))

    # -------------------------------------------------------- what comes of it

    def everywhere(self, change: Callable[[GroupManager], list[Outcome]]) -> list[Effect]:
        """Change the groups of every type, and notify their members."""
        return [one for manager in self._groups.values() for one in self.told(manager, change(manager))]

    def told(
        self, manager: GroupManager, outcomes: list[Outcome], *, asked: tuple[MemberLink, int] | None = None
    ) -> list[Effect]:
        """Notify members of the outcome of a change, once that is safe."""
        self._changes |= manager.store.take_changes()
        self._looks[manager.type_id] = manager.next_look()
        return self._teller.tell(manager, outcomes, asked)

    def look(self, now: Instant) -> list[Effect]:
        """Check the groups that are due."""
        due = [type_id for type_id, at in self._looks.items() if at is not None and at <= now]
        managers = [self._groups[type_id] for type_id in due]
        return [one for manager in managers for one in self.told(manager, manager.tick(now))]

    def next_look(self) -> Instant | None:
        """Return the next moment at which groups are due."""
        return min((one for one in self._looks.values() if one is not None), default=None)

    # -------------------------------------------------------- after a restart

    def reload(self, kept: Mapping[str, bytes], now: Instant) -> list[str]:
        """Verify what was kept and go on from there; return the names of what could not be believed."""
        dropped = self.definitions.reload(kept, now)
        self._distrusted = read_distrusted(kept)
        types = {found[0] for name in kept if (found := _TYPE.match(name)) is not None}
        for type_id in sorted(bytes.fromhex(one) for one in types):
            dropped += self._restore(type_id, kept, now)
        return dropped

    def _restore(self, type_id: bytes, kept: Mapping[str, bytes], now: Instant) -> list[str]:
        versions = self.definitions.by_id(type_id)
        # If its definitions hold no more, what is kept waits for the type to come back.
        sealing = self._managed(versions.values()) if versions else None
        if sealing is None:
            return []
        manager = self._new(type_id, sealing)
        found = manager.store.read(kept, self._key.principal)
        manager.restore(found, versions, now)
        self._groups[type_id] = manager
        self._looks[type_id] = manager.next_look()
        return list(found.dropped)


def kept_eviction(principal: Principal) -> dict[str, bytes | None]:
    """Return the records of an eviction."""
    key = principal.key.hex()
    return {f"evicted/{key}": b"", f"readmitted/{key}": None}


def kept_readmission(principal: Principal, now: Instant) -> dict[str, bytes | None]:
    """Return the records of a readmission."""
    key = principal.key.hex()
    return {f"evicted/{key}": None, f"readmitted/{key}": b"%d" % now}


def kept_revocations(ids: Iterable[bytes]) -> dict[str, bytes | None]:
    """Return the records of revoked certificates."""
    return {f"revoked/{one.hex()}": b"" for one in ids}


def read_distrusted(kept: Mapping[str, bytes]) -> Distrusted:
    """Return the evictions and revocations from before a restart."""
    found = Distrusted()
    for name, data in kept.items():
        record = _RECORD.fullmatch(name)
        if record is None:
            continue
        what, key = record[1], bytes.fromhex(record[2])
        match what:
            case "evicted":
                found.evicted.add(principal_from_bytes(key))
            case "revoked":
                found.revoked.add(key)
            case _ if _MOMENT.fullmatch(data):
                found.readmitted[principal_from_bytes(key)] = Instant(int(data))
    return found
