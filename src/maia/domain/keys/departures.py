"""Who has gone from a key server, and what ends with that?

A member may be here by several links: its membership ends with the last one.
Its keys stay good for as long as its right (`maia.sealing.groups.manager`).
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.domain.keys.links import Held, Links, MemberLink
from maia.domain.keys.managed_types import ManagedTypes
from maia.errors import MaiaError
from maia.sessions.challenges import ChallengeDesk
from maia.sessions.session import goodbye
from maia.wire.effects import Effect, LinkId, Note

__all__ = ["Parting"]


@dataclass(frozen=True, slots=True)
class Parting:
    """Takes leave of members, one link or one type at a time."""

    links: Links
    types: ManagedTypes
    desk: ChallengeDesk[Held]

    def close(self, link: MemberLink, problem: MaiaError) -> list[Effect]:
        """End a link, and say why."""
        if self.links.pop(link.id) is None:
            return []
        return [
            *goodbye(link.id, problem),
            Note("closing", {**link.named(), "code": problem.code}),
            *self._left_all(link),
        ]

    def closed(self, link: LinkId) -> list[Effect]:
        """Take leave of a member whose link is gone."""
        gone = self.links.pop(link)
        return [] if gone is None else self._left_all(gone)

    def _left_all(self, link: MemberLink) -> list[Effect]:
        self.desk.forget_link(link.id)
        return [effect for type_id in list(link.joined) for effect in self.left(link, type_id)]

    def left(self, link: MemberLink, type_id: bytes) -> list[Effect]:
        """Let a member go, unless it is still here by another link."""
        manager = self.types.get(type_id)
        self.desk.drop(link.id, (type_id, False))
        link.brought.pop((type_id, False), None)
        if link.joined.pop(type_id, None) is None or manager is None:
            return []
        if any(type_id in other.joined for other in self.links.of(link.peer)):
            return []
        manager.leave(link.peer)
        return self.types.told(manager, [])
