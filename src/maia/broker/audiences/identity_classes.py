"""Which links meet what a publisher requires of subscribers?

Links whose identity statements say the same form a class, and a requirement is
decided once for a class, however many links it has. A link without a
statement that is in force has no attributes, and meets no requirement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials.identity import Identity, attributes_to_bytes
from maia.credentials.requirements import (
    NO_ATTRIBUTES,
    Attributes,
    attributes_of_identity,
    is_met,
    requirement_from_bytes,
)
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.wire.effects import LinkId

_VERDICTS_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class IdentityClass:
    """What statements of one class say; `key` tells it from others."""

    key: bytes
    attributes: Attributes = field(repr=False, compare=False)


_NO_CLASS: Final = IdentityClass(b"", NO_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class Partition:
    """Members of one group by class of identity, as it was worked out for a while."""

    parts: Mapping[IdentityClass, Mapping[LinkId, list[int]]] = field(repr=False)
    version: int
    since: Instant
    until: Instant


@dataclass(frozen=True, slots=True)
class _Shown:
    found: IdentityClass
    not_before: Instant
    not_after: Instant


class LinkIdentities:
    """The classes of identities that links have shown, and what was decided about them."""

    __slots__ = ("_classes", "_links", "_verdicts", "_version")

    def __init__(self) -> None:
        """Begin with no link."""
        self._links: dict[LinkId, _Shown] = {}
        self._classes: dict[bytes, IdentityClass] = {}
        self._verdicts: BoundedMap[tuple[bytes, bytes], bool] = BoundedMap(_VERDICTS_REMEMBERED)
        self._version = 0

    def hold(self, link: LinkId, identity: Identity | None) -> None:
        """Take note of the statement of a link's peer, in place of the one before; None if it has none."""
        if identity is None:
            self._forget(link)
            return
        key = attributes_to_bytes(identity.attributes)
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = IdentityClass(key, attributes_of_identity(identity))
        self._links[link] = _Shown(found, identity.not_before, identity.not_after)
        self._changed()

    def _forget(self, link: LinkId) -> None:
        if self._links.pop(link, None) is not None:
            self._changed()

    def _changed(self) -> None:
        """Forget classes that no link is of any more, before they are more than the links (A89)."""
        self._version += 1
        if len(self._classes) > 2 * len(self._links):
            self._classes = {one.found.key: one.found for one in self._links.values()}

    def attributes(self, link: LinkId, now: Instant) -> Attributes:
        """Return what the statement of a link says at this moment."""
        return self._class_of(link, now).attributes

    def admits(self, requires: bytes, link: LinkId, now: Instant) -> bool:
        """Return whether a subscriber on this link meets what a publisher requires."""
        return not requires or self._meets(requires, self._class_of(link, now))

    def partition(
        self, members: Mapping[LinkId, list[int]], before: Partition | None, now: Instant
    ) -> Partition:
        """Return members by class of identity; `before` is returned again while it holds."""
        if before is not None and before.version == self._version and before.since <= now <= before.until:
            return before
        parts: dict[IdentityClass, dict[LinkId, list[int]]] = {}
        since, until = INSTANT_MIN, INSTANT_MAX
        for link, refs in members.items():
            parts.setdefault(self._class_of(link, now), {})[link] = refs
            shown = self._links.get(link)
            for moment in () if shown is None else (shown.not_before, shown.not_after + 1):
                # The classes are the same until the next statement begins or ends.
                since = max(since, moment) if moment <= now else since
                until = min(until, moment - 1) if moment > now else until
        return Partition(parts, self._version, Instant(since), Instant(until))

    def admitted(self, requires: bytes, among: Partition) -> list[Mapping[LinkId, list[int]]]:
        """Return the members of those classes that meet what a publisher requires."""
        return [members for found, members in among.parts.items() if self._meets(requires, found)]

    def _class_of(self, link: LinkId, now: Instant) -> IdentityClass:
        shown = self._links.get(link)
        if shown is None or not shown.not_before <= now <= shown.not_after:
            return _NO_CLASS
        return shown.found

    def _meets(self, requires: bytes, found: IdentityClass) -> bool:
        verdict = self._verdicts.get((requires, found.key))
        if verdict is None:
            verdict = is_met(requirement_from_bytes(requires), found.attributes)
            self._verdicts.put((requires, found.key), verdict)
        return verdict
