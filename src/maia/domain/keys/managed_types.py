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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, assert_never

from maia.credentials import Principal, SigningKey, VerificationCache, principal_from_bytes
from maia.domain.keys.links import Links, MemberLink
from maia.domain.keys.settings import DomainSettings
from maia.errors import BadInput, Refusal, Unavailable
from maia.events import Instant
from maia.sealing.groups.manager import Delivery, Distrusted, GroupManager, Outcome, ShutOut
from maia.sealing.groups.manager_store import ManagerStore
from maia.sealing.groups.membership import MemberGrounds
from maia.sealing.groups.type_groups import NewEpoch
from maia.sealing.keys.delivery import seal_to
from maia.sealing.keys.epochs import epoch_to_bytes
from maia.sealing.keys.parcels import pack, parcel_info
from maia.sealing.keys.secrets import AtRest
from maia.types import (
    KnownVersions,
    Sealing,
    SealingLevel,
    TypeHistory,
    VerifiedType,
    definition_to_bytes,
    reload_kept,
)
from maia.validity import Tester
from maia.wire.codec import Unsendable, encode
from maia.wire.effects import Count, Effect, Note, Send
from maia.wire.key_messages import STATEMENT_AWAITED
from maia.wire.messages import GroupKeys, GroupsEnded, KeysHeld, Rekey, RekeyPart

# ------------------------------------------------------------ versions of types

# A member hands over the versions it speaks with its request to join, oldest
# first. Nothing is remembered before the member was let in; what is remembered
# survives a restart as bytes that are verified again.


KEPT_DEFINITION = "definition/"
"""How the names under which definitions are kept begin."""


class Definitions(KnownVersions):
    """The versions whose key groups this server may run."""

    __slots__ = ("_most",)

    def __init__(self, settings: DomainSettings, certificates: VerificationCache) -> None:
        self._most = settings.limits.versions
        network = settings.network if settings.require_install else None
        super().__init__(self._most, certificates, network, settings.constitutions)

    def by_id(self, type_id: bytes) -> dict[bytes, VerifiedType]:
        """Return the known versions of a type by the digest of their definition."""
        return {one.id: one for one in self._by_name.values() if one.type_id == type_id}

    def verified(self, given: Sequence[bytes], now: Instant) -> tuple[VerifiedType, ...]:
        """Verify what was handed over; all of it must be versions of one type that agree with each other."""
        found = self._verified(given, now)
        if len({one.type_id for one in found}) != 1:
            raise BadInput("INPUT-JOIN-GROUPS", "a request to join hands over versions of exactly one type")
        self.agreed(found)
        self._check_room(found)
        return found

    def history(self, versions: Sequence[VerifiedType]) -> TypeHistory:
        """Return what is known of a type together with these versions."""
        return self.agreed(versions)[versions[-1].type_id]

    def remember(self, versions: Sequence[VerifiedType]) -> dict[str, bytes | None]:
        """Remember versions whose member was let in; return what is to be kept."""
        self._check_room(versions)
        self._histories = self.agreed(versions)
        new = [one for one in versions if one.replaces(self._by_name.get(one.name))]
        over = [self._by_name[one.name] for one in new if one.name in self._by_name]
        self._by_name |= {one.name: one for one in new}
        kept: dict[str, bytes | None] = {f"{KEPT_DEFINITION}{one.id.hex()}": None for one in over}
        return kept | {f"{KEPT_DEFINITION}{one.id.hex()}": definition_to_bytes(one.signed) for one in new}

    def reload(self, kept: Mapping[str, bytes], now: Instant) -> list[str]:
        """Verify again what was kept; return the names of what does not hold any more."""
        return list(
            reload_kept(kept, KEPT_DEFINITION, lambda data: self.remember(self._verified([data], now)))
        )

    def _check_room(self, versions: Iterable[VerifiedType]) -> None:
        if len(self._by_name.keys() | {one.name for one in versions}) > self._most:
            raise Unavailable(
                "UNAVAILABLE-KEY-SERVER-FULL",
                f"this server remembers no more than {self._most} type versions",
            )


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
        tester: Tester,
        links: Links,
        changes: Changes,
    ) -> None:
        """Begin with none; what has to be kept is added to `changes`."""
        self._key, self._settings, self._at_rest, self._random = key, settings, at_rest, random
        self._certificates, self._tester, self._links = certificates, tester, links
        self._changes = changes
        self.definitions = Definitions(settings, certificates)
        self._distrusted = Distrusted()
        self._groups: dict[bytes, GroupManager] = {}
        self._looks: dict[bytes, Instant | None] = {}
        """When the groups of each type are due for a check."""

    # -------------------------------------------------------- asking

    def get(self, type_id: bytes) -> GroupManager | None:
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
            raise Refusal(
                "REFUSED-NOT-MANAGED-HERE",
                "the owner of this type has not named this server as its key manager",
            )
        known = self._groups.get(type_id)
        if known is None:
            if len(self._groups) >= self._settings.limits.types:
                raise Unavailable(
                    "UNAVAILABLE-KEY-SERVER-FULL",
                    f"this server runs the groups of {self._settings.limits.types} types",
                )
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

    def _grounds(self, level: SealingLevel) -> MemberGrounds:
        settings = self._settings
        return MemberGrounds(
            level,
            settings.bounds,
            settings.constitutions,
            self._certificates,
            self._tester,
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

    def keep_history(self, settings: DomainSettings, now: Instant) -> list[Effect]:
        """Keep the old keys of these types from now on."""
        self._settings = settings
        effects: list[Effect] = []
        for type_id in settings.history & self._groups.keys():
            manager = self._groups[type_id]
            manager.keep_history(now)
            effects += self.told(manager, [])
        return effects

    def evict(self, principal: Principal, now: Instant) -> list[Effect]:
        """Put a principal out of every group at once, and keep it out."""
        self._distrusted.evicted.add(principal)
        key = principal.key.hex()
        self._changes |= {f"evicted/{key}": b"", f"readmitted/{key}": None}
        return self.everywhere(lambda manager: manager.evict(principal, now))

    def readmit(self, principal: Principal, now: Instant) -> None:
        """Let a principal in again that was put out, as soon as it asks; its right counts from now on."""
        if self._distrusted.readmit(principal, now):
            key = principal.key.hex()
            self._changes |= {f"evicted/{key}": None, f"readmitted/{key}": b"%d" % now}

    def revoke(self, certificates: frozenset[bytes], now: Instant) -> list[Effect]:
        """Believe these certificates, named by their ids, no more."""
        self._distrusted.revoked |= certificates
        self._changes |= {f"revoked/{one.hex()}": b"" for one in certificates}
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
        return self._tell(manager, outcomes, asked)

    def look(self, now: Instant) -> list[Effect]:
        """Check the groups that are due."""
        due = [type_id for type_id, at in self._looks.items() if at is not None and at <= now]
        managers = [self._groups[type_id] for type_id in due]
        return [one for manager in managers for one in self.told(manager, manager.tick(now))]

    def next_look(self) -> Instant | None:
        """Return the next moment at which groups are due."""
        return min((one for one in self._looks.values() if one is not None), default=None)

    # -------------------------------------------------------- what members are sent

    # A new epoch is one message, the same bytes for all members. What only one member may know is sealed to
    # each of its sessions. A member that is shut out learns it before the epoch that is not for it.

    def _tell(
        self, manager: GroupManager, outcomes: list[Outcome], asked: tuple[MemberLink, int] | None
    ) -> list[Effect]:
        """Return what is said; `asked` is the question that a delivery answers, and where it came from."""
        delivered = {one.member for one in outcomes if isinstance(one, Delivery)}
        effects: list[Effect] = []
        for outcome in outcomes:
            match outcome:
                case NewEpoch():
                    effects += self._tell_epoch(manager, outcome, skip=delivered)
                case Delivery():
                    effects += self._deliver(manager, outcome, asked)
                case ShutOut():
                    effects += self._tell_shut_out(manager, outcome)
                case _:
                    assert_never(outcome)
        return effects

    def _tell_epoch(self, manager: GroupManager, new: NewEpoch, *, skip: set[Principal]) -> list[Effect]:
        parts = [RekeyPart(group.uid, change) for group, change in new.parts]
        data = self._rekey(manager.type_id, new, parts)
        links = [link for link in self._links.joined(manager.type_id) if link.peer not in skip]
        number = new.epoch.statement.number
        fields = {"type": manager.type_id.hex(), "epoch": number, "groups": len(parts), "told": len(links)}
        why = {reason.value: count for reason, count in new.why.items()}
        return [
            Note("epoch", {**fields, **why}),
            Count("maia_key_epochs_total"),
            *(Count("maia_key_refreshes_total", count, {"why": word}) for word, count in why.items()),
            *(Send(link.id, data) for link in links),
        ]

    def _rekey(self, type_id: bytes, new: NewEpoch, parts: list[RekeyPart]) -> bytes:
        try:
            return encode(Rekey(type_id, epoch_to_bytes(new.epoch), parts))
        except Unsendable:
            # More changed at once than fits into a message: the members learn that they have to ask.
            return encode(KeysHeld(type_id, new.epoch.statement.number, new.epoch.digest))

    def _deliver(
        self, manager: GroupManager, delivery: Delivery, asked: tuple[MemberLink, int] | None
    ) -> list[Effect]:
        info = parcel_info(manager.type_id, manager=self._key.principal, member=delivery.member)
        packed = pack(delivery.parcel)
        told = manager.terms.as_record()
        epochs = [epoch_to_bytes(one) for one in delivery.epochs]
        until = None if delivery.until is None else int(delivery.until)
        effects: list[Effect] = []
        for link in self._links.of(delivery.member):
            key = link.joined.get(manager.type_id)
            if key is None:
                continue
            number = asked[1] if asked is not None and asked[0] is link else 0
            sealed = seal_to(key, packed, info, self._random)
            message = GroupKeys(number, manager.type_id, told, epochs, sealed, until)
            effects.append(Send(link.id, encode(message)))
        return effects

    def _tell_shut_out(self, manager: GroupManager, shut: ShutOut) -> list[Effect]:
        code, sentence = "REFUSED-RIGHT-ENDED", "your right to these has ended"
        if shut.is_evicted:
            code, sentence = "REFUSED-EVICTED", "you were put out of these groups"
        elif shut.is_late:
            code, sentence = (
                STATEMENT_AWAITED,
                "a validity statement is late: you get keys again when it comes",
            )
        uids = [group.uid for group in sorted(shut.groups, key=lambda one: one.order)]
        data = encode(GroupsEnded(manager.type_id, list(uids), code, sentence))
        effects: list[Effect] = [
            Note("shut-out", {"peer": str(shut.member), "groups": len(uids), "code": code}),
            Count("maia_key_shut_out_total", labels={"code": code}),
        ]
        for link in self._links.of(shut.member):
            if manager.type_id in link.joined:
                effects.append(Send(link.id, data))
                if shut.is_out:
                    del link.joined[manager.type_id]
        return effects

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
