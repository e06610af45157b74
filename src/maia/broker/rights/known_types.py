"""Which type versions does this broker know, and are they still to be believed?

A client may hand over a definition with its request, oldest version first, or
name a version that is known here. Nothing is remembered before the request
that brought it was permitted (E1). What is remembered survives a restart as
bytes that are verified again (C10); a second definition under a known name is
refused for as long as the first one is remembered (A29). Where there are too
many, types go that no entry here is of, the least recently accepted first
and all versions of a type together: a version is verified by those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final

from maia.broker.settings import BrokerSettings
from maia.broker.turn import Turn
from maia.credentials import Budget, TypeName, VerificationCache, VerifiedConstitution
from maia.errors import BadInput, Unavailable
from maia.events import AttributeUid, Instant, Kind
from maia.types import (
    KnownVersions,
    Sealing,
    VerifiedType,
    definition_to_bytes,
    history_with,
    is_weaker,
    reload_kept,
    strongest,
)
from maia.types.definition import BadDefinition, tree_root
from maia.wire.effects import Keep

KEPT_TYPE = "type/"
"""How the names under which definitions are kept begin."""
_FREED: Final = 16
"""Where there are too many types, this part of them goes at once."""


class KnownTypes(KnownVersions):
    """Verified definitions by full name, and what each type's versions have agreed on."""

    __slots__ = (
        "_limit",
        "_meter",
        "_on_record",
        "_sealings",
        "_signed",
        "_topics",
        "_versions",
        "_work",
        "generation",
    )

    def __init__(
        self, settings: BrokerSettings, certificates: VerificationCache, meter: Budget | None = None
    ) -> None:
        """Begin with no type; certificates inside definitions share the broker's cache, and its `meter`."""
        network = settings.network if settings.require_install else None
        super().__init__(settings.limits.types, certificates, network, settings.constitutions)
        self._limit, self._work, self._meter = settings.limits.types, settings.limits.work_per_request, meter
        self._versions: dict[bytes, dict[TypeName, VerifiedType]] = {}
        self._sealings: dict[bytes, Sealing] = {}
        self._signed: set[bytes] = set()
        self._on_record: set[bytes] = set()
        self._topics: dict[bytes, bool] = {}
        self.generation = 0
        """Grows when a version comes or goes."""

    def kinds(self, type_id: bytes) -> Mapping[AttributeUid, Kind]:
        """Return the kind of every uid that any known version of a type ever used."""
        history = self._histories.get(type_id)
        return {} if history is None else history.kinds

    def sealing(self, type_id: bytes) -> Sealing | None:
        """Return how a type is sealed: at the strongest level of any version known here (A29)."""
        return self._sealings.get(type_id)

    def is_signed(self, type_id: bytes) -> bool:
        """Return whether frames of a type travel signed in the clear, as some version known here asks for."""
        return type_id in self._signed

    def requires_ledger(self, type_id: bytes) -> bool:
        """Return whether any known version of a type demands that every delivery of it is on record."""
        return type_id in self._on_record

    def sealed(self) -> Mapping[bytes, Sealing]:
        return self._sealings

    def type_ids(self) -> tuple[bytes, ...]:
        return tuple(self._versions)

    def knows(self, type_id: bytes) -> bool:
        return type_id in self._versions

    def holds_topics(self, type_id: bytes) -> bool:
        known = self._topics.get(type_id)
        if known is None:
            first = next(iter(self._versions.get(type_id, ())), None)
            if first is None:
                return False
            known = self._topics[type_id] = tree_root(first.name) is not None
        return known

    def versions(self, type_id: bytes) -> tuple[VerifiedType, ...]:
        """Return every version of a type that is known, the ones met first in front."""
        return tuple(self._versions.get(type_id, {}).values())

    def named(self, name: TypeName) -> tuple[VerifiedType, ...]:
        """Return a known version and those it was made from, oldest first; none if it is not known."""
        found: list[VerifiedType] = []
        version = self._by_name.get(name)
        while version is not None and len(found) < self._limit:
            found.append(version)
            before = version.definition.previous
            version = None if before is None else self._by_name.get(TypeName(name.owner, name.name, before))
        return tuple(reversed(found))

    def resolve(
        self, name: TypeName, handed_over: Sequence[bytes], now: Instant
    ) -> tuple[VerifiedType, tuple[VerifiedType, ...]]:
        """Return the named version, and every version that was handed over, all verified at `now`."""
        given = self._verified(handed_over, now, self._own_budget)
        found = next((version for version in reversed(given) if version.name == name), None)
        if found is None:
            known = self._by_name.get(name)
            if known is None:
                raise BadInput(
                    "TYPE-UNKNOWN",
                    f"version `{name.version}` of `{name.name}` is not known here: hand it over",
                )
            found = self._verify(known.signed, (), now, self._own_budget())
        if found.super_type is not None:
            self._check_protection(found)
            # What is published as a super-type has to be known as one: its kinds, and how it is sealed.
            given = (*reversed(found.super_types), *given)
        return found, given

    def verify(self, shown: Sequence[bytes], now: Instant, budget: Budget) -> VerifiedType | None:
        """Verify what another broker showed as evidence, and return the last version; nothing is remembered.

        Of a type that contradicts what is known here nothing is believed.
        """

        def spent(data: bytes) -> Budget:
            budget.spend_check()
            budget.spend_reading(len(data))
            return budget

        verified = self._verified(shown, now, spent)
        self.check([one for version in verified for one in (*reversed(version.super_types), version)])
        return verified[-1] if verified else None

    def _check_protection(self, version: VerifiedType) -> None:
        """Refuse a sub-type that seals less than some version of a super-type that is known here (A29)."""
        own = strongest((self._sealings.get(version.type_id), version.sealing))
        is_signed = version.definition.signed or version.type_id in self._signed
        for above in version.super_types:
            is_stripped = own is None and not is_signed and above.type_id in self._signed
            if is_stripped or is_weaker(own, than=self._sealings.get(above.type_id)):
                raise BadDefinition(
                    "TYPE-SUB-TYPE-SEALS-LESS",
                    f"`{version.name.name}` protects its events less than `{above.name.name}`, of which a "
                    "later version is signed or sealed: make a version of it that is so as well",
                )

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Ask these constitutions from now on who speaks for a quorum that owns a type."""
        self._constitutions = constitutions

    def check(self, versions: Iterable[VerifiedType]) -> None:
        """Refuse versions that contradict what is known; nothing is remembered yet."""
        self.agreed(versions)

    def accept(
        self,
        accepted: VerifiedType,
        handed_over: Iterable[VerifiedType],
        in_use: Callable[[], Set[bytes]],
        turn: Turn,
    ) -> bool:
        """Remember the versions behind a request that was permitted, and say whether that changed anything.

        `in_use` are types that have to stay.
        """
        versions = tuple(handed_over)
        new = sum(version.name not in self._by_name for version in versions)
        kept: list[Keep] = []
        if len(self._by_name) + new > self._limit:
            staying = in_use() | {accepted.type_id, *(version.type_id for version in versions)}
            for version in self._by_name.values():
                if version.type_id in staying:
                    staying |= {above.type_id for above in version.super_types}
            kept += self._make_room(new, staying)
        kept += self._remember(versions)
        for type_id in (accepted.type_id, *(version.type_id for version in versions)):
            if type_id in self._versions:
                self._versions[type_id] = self._versions.pop(type_id)
        turn.keep(*kept)
        return bool(kept)

    def _make_room(self, new: int, staying: Set[bytes]) -> list[Keep]:
        """Forget types until there is room, and some more, so that this is not done for each new one."""
        most = self._limit - new - self._limit // _FREED
        gone: list[Keep] = []
        for type_id in [one for one in self._versions if one not in staying]:
            if len(self._by_name) <= most:
                break
            self.generation += 1
            for name, version in self._versions.pop(type_id).items():
                del self._by_name[name]
                gone.append(Keep(f"{KEPT_TYPE}{version.id.hex()}", None))
            del self._histories[type_id]
            self._sealings.pop(type_id, None)
            self._signed.discard(type_id)
            self._on_record.discard(type_id)
            self._topics.pop(type_id, None)
        return gone

    def _remember(self, versions: Iterable[VerifiedType]) -> list[Keep]:
        """Remember versions, and return what keeps those that are new; refuse more than there is room for."""
        kept: list[Keep] = []
        for version in versions:
            known = self._by_name.get(version.name)
            is_new = known is None
            if is_new and len(self._by_name) >= self._limit:
                raise Unavailable(
                    "UNAVAILABLE-TYPES-FULL",
                    f"this broker remembers no more than {self._limit} type versions, and all are in use",
                )
            history = self._histories[version.type_id] = history_with(version, self._histories)
            is_kept = version.replaces(known)
            self.generation += is_new or is_kept
            if known is None or version.id == known.id or is_kept:
                self._by_name[version.name] = version
                self._versions.setdefault(version.type_id, {})[version.name] = version
            if is_new and history.sealing is not None:
                self._sealings[version.type_id] = history.sealing
            if is_new:
                (self._signed.add if history.signed else self._signed.discard)(version.type_id)
            if version.definition.ledger:
                self._on_record.add(version.type_id)
            if is_kept:  # also a version that was signed again, with certificates that hold for longer
                kept += [] if known is None else [Keep(f"{KEPT_TYPE}{known.id.hex()}", None)]
                kept.append(Keep(f"{KEPT_TYPE}{version.id.hex()}", definition_to_bytes(version.signed)))
        return kept

    def reload(self, kept: Mapping[str, bytes], turn: Turn) -> None:
        """Verify again what was kept before a restart; drop whatever does not hold, with a note."""

        def again(data: bytes) -> None:
            self._remember(self._verified([data], turn.now, self._own_budget))

        for name, problem in reload_kept(kept, KEPT_TYPE, again).items():
            turn.note("kept-dropped", name=name, code=problem.code)
            turn.add(Keep(name, None))

    def _own_budget(self, _data: bytes = b"") -> Budget:
        return Budget.of(self._work, self._meter)
