"""Which type versions has this key server verified, and who runs their groups?

A member hands over the versions it speaks with its request to join, oldest
first. Nothing is remembered before the member was let in; what is remembered
survives a restart as bytes that are verified again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from maia.credentials import TypeName, VerificationCache
from maia.domain.keys.refusals import BadJoin, KeyServerFull
from maia.domain.keys.settings import DomainSettings
from maia.errors import MaiaError
from maia.events import Instant
from maia.types import (
    SignedDefinition,
    TypeHistory,
    VerifiedType,
    VerifiedTypeCache,
    definition_from_bytes,
    definition_to_bytes,
    verify_definition,
)

__all__ = ["KEPT_DEFINITION", "Definitions"]

KEPT_DEFINITION = "definition/"
"""How the names under which definitions are kept begin."""


class Definitions:
    """Verified versions by name, and what the versions of each type have agreed on."""

    def __init__(self, settings: DomainSettings, certificates: VerificationCache) -> None:
        """Begin with none."""
        self._settings = settings
        self._cache = VerifiedTypeCache(settings.limits.versions, certificates)
        self._by_name: dict[TypeName, VerifiedType] = {}
        self._histories: dict[bytes, TypeHistory] = {}

    def __len__(self) -> int:
        """Return how many versions are known."""
        return len(self._by_name)

    def by_id(self, type_id: bytes) -> dict[bytes, VerifiedType]:
        """Return the known versions of a type by the digest of their definition."""
        return {one.id: one for one in self._by_name.values() if one.type_id == type_id}

    def verified(self, given: Sequence[bytes], now: Instant) -> tuple[VerifiedType, ...]:
        """Verify what was handed over; all of it must be versions of one type that agree with each other."""
        found: list[VerifiedType] = []
        for data in given:
            found.append(self._verify(definition_from_bytes(data), found, now))
        if len({one.type_id for one in found}) != 1:
            raise BadJoin("a request to join hands over versions of exactly one type")
        self._remembered(found)
        new = {one.name for one in found} - set(self._by_name)
        if len(self._by_name) + len(new) > self._settings.limits.versions:
            raise KeyServerFull("this server remembers as many type versions as it may")
        return tuple(found)

    def history(self, versions: Sequence[VerifiedType]) -> TypeHistory:
        """Return what is known of a type together with these versions."""
        return self._remembered(versions)[versions[-1].type_id]

    def remember(self, versions: Iterable[VerifiedType]) -> dict[str, bytes | None]:
        """Remember versions whose member was let in; return what is to be kept."""
        versions = list(versions)
        new = [one for one in versions if one.name not in self._by_name]
        if len(self._by_name) + len(new) > self._settings.limits.versions:
            raise KeyServerFull(
                f"this server remembers no more than {self._settings.limits.versions} versions"
            )
        self._histories = self._remembered(versions)
        self._by_name |= {one.name: one for one in versions}
        return {f"{KEPT_DEFINITION}{one.id.hex()}": definition_to_bytes(one.signed) for one in new}

    def reload(self, kept: Mapping[str, bytes], now: Instant) -> list[str]:
        """Verify again what was kept; return the names of what does not hold any more."""
        waiting = {name: data for name, data in kept.items() if name.startswith(KEPT_DEFINITION)}
        is_moving = True
        while waiting and is_moving:  # a version may have to wait for the one that it was made from
            is_moving = False
            for name, data in list(waiting.items()):
                try:
                    self.remember([self._verify(definition_from_bytes(data), [], now)])
                except MaiaError:
                    continue
                is_moving = True
                del waiting[name]
        return list(waiting)

    def _verify(self, signed: SignedDefinition, given: Sequence[VerifiedType], now: Instant) -> VerifiedType:
        name, before = signed.definition.name, signed.definition.previous
        previous: VerifiedType | None = None
        if before is not None:
            wanted = TypeName(name.owner, name.name, before)
            previous = next((one for one in given if one.name == wanted), None) or self._by_name.get(wanted)
        settings = self._settings
        return verify_definition(
            signed,
            at=now,
            previous=previous,
            network=settings.network if settings.require_install else None,
            constitutions=settings.constitutions,
            cache=self._cache,
        )

    def _remembered(self, versions: Iterable[VerifiedType]) -> dict[bytes, TypeHistory]:
        histories = dict(self._histories)
        for version in versions:
            history = histories.get(version.type_id) or TypeHistory(version.type_id)
            histories[version.type_id] = history.remember(version)
        return histories
