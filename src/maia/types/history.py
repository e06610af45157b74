"""Does this version agree with every version of the type seen before?

A definition certifies itself, but it cannot certify that no one signed
another definition under the same full name, or gave an old uid another kind
on another branch. Registries and brokers remember what they have accepted in
a `TypeHistory`, and refuse what contradicts it. Versions form a tree: two
managers may both build on one version (dissertation, section 4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from maia.credentials.names import Version
from maia.errors import BrokenCredential, Refusal, Unavailable
from maia.events import AttributeUid, Kind
from maia.types.changes import UidReused
from maia.types.definition import Sealing, SealingWeakened, is_weaker, strongest
from maia.types.verified import VerifiedType

VERSIONS_MAX: Final = 4096
"""How many versions of one type a history remembers."""


class AnotherType(BrokenCredential):
    """A version was offered that belongs to another type, perhaps of the same readable name."""

    code = "TYPE-ANOTHER-TYPE"


class TypeFork(BrokenCredential):
    """Two different definitions claim the same owner, name and version."""

    code = "TYPE-FORK"


class VersionsInACircle(BrokenCredential):
    """A version would become its own ancestor."""

    code = "TYPE-VERSIONS-IN-A-CIRCLE"


class TypeDowngrade(Refusal):
    """A version was offered as an upgrade and does not descend from the one in use."""

    code = "TYPE-DOWNGRADE"


class TypeHistoryFull(Unavailable):
    """A type has more versions than a history remembers."""

    code = "TYPE-HISTORY-FULL"


@dataclass(frozen=True, slots=True)
class TypeHistory:
    """The versions of one type that were accepted, by full name and digest.

    `remember` returns a new history. The kinds of all uids that any version
    ever used stay in it, those of removed attributes included.
    """

    type_id: bytes
    digests: Mapping[Version, bytes] = field(default_factory=lambda: MappingProxyType({}))
    parents: Mapping[Version, Version | None] = field(default_factory=lambda: MappingProxyType({}))
    kinds: Mapping[AttributeUid, Kind] = field(default_factory=lambda: MappingProxyType({}))
    sealings: Mapping[Version, Sealing | None] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sealing(self) -> Sealing | None:
        """Return how events of this type are sealed: at the strongest level of any version (A29).

        Among equal levels the latest word on the manager counts: of a version
        and one that was made from it, the later one.
        """
        by_depth = sorted(self.sealings, key=lambda version: (self._depth(version), version))
        return strongest(self.sealings[version] for version in by_depth)

    def remember(self, verified: VerifiedType) -> TypeHistory:
        """Return the history with this version in it, or say what it contradicts."""
        version = verified.name.version
        self._check_same_type(verified)
        known = self.digests.get(version)
        if known == verified.id:
            return self
        if known is not None:
            raise TypeFork(f"version `{version}` of `{verified.name.name}` is known with other content")
        self._check_kinds(verified)
        self._check_no_circle(verified)
        self._check_sealing(verified)
        if len(self.digests) >= VERSIONS_MAX:
            raise TypeHistoryFull(f"type `{verified.name.name}` has more than {VERSIONS_MAX} versions")
        return TypeHistory(
            self.type_id,
            MappingProxyType({**self.digests, version: verified.id}),
            MappingProxyType({**self.parents, version: verified.definition.previous}),
            MappingProxyType({**self.kinds, **verified.kinds}),
            MappingProxyType({**self.sealings, version: verified.sealing}),
        )

    def descends(self, *, later: Version, earlier: Version) -> bool:
        """Say whether `later` was made from `earlier`, directly or through versions known here."""
        return earlier in self._ancestors(later)

    def upgrade(self, *, current: VerifiedType, offered: VerifiedType) -> VerifiedType:
        """Return `offered` if it descends from `current`; an older or sibling version is refused.

        Versions coexist, so an old version stays usable by those who chose it.
        This guards a reader of "the newest version" that another principal names.
        """
        known = self.remember(current).remember(offered)
        if offered.id != current.id and not known.descends(
            later=offered.name.version, earlier=current.name.version
        ):
            raise TypeDowngrade(
                f"version `{offered.name.version}` of `{offered.name.name}` "
                f"was not made from version `{current.name.version}`, which is in use"
            )
        return offered

    def _ancestors(self, version: Version) -> Iterator[Version]:
        parent = self.parents.get(version)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def _depth(self, version: Version) -> int:
        return sum(1 for _ in self._ancestors(version))

    def _check_same_type(self, verified: VerifiedType) -> None:
        if verified.type_id != self.type_id:
            raise AnotherType(
                f"`{verified.name.name}` of owner `{verified.name.owner}` is not the type of this history"
            )

    def _check_kinds(self, verified: VerifiedType) -> None:
        for uid, kind in verified.kinds.items():
            before = self.kinds.get(uid, kind)
            if before is not kind:
                raise UidReused(uid, before=before, after=kind)

    def _check_no_circle(self, verified: VerifiedType) -> None:
        version, previous = verified.name.version, verified.definition.previous
        if previous is not None and version in self._ancestors(previous):
            raise VersionsInACircle(
                f"version `{version}` of `{verified.name.name}` would be its own ancestor"
            )

    def _check_sealing(self, verified: VerifiedType) -> None:
        """Refuse a version that seals less than one it descends from, whichever of the two came first."""
        version, previous = verified.name.version, verified.definition.previous
        known = {**self.sealings, version: verified.sealing}
        pairs = [(later, earlier) for later, earlier in self.parents.items() if earlier == version]
        for later, earlier in [*pairs, (version, previous)]:
            if earlier in known and is_weaker(known[later], than=known[earlier]):
                raise SealingWeakened(
                    f"version `{later}` of `{verified.name.name}` seals less than version `{earlier}`"
                )
