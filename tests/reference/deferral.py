"""Who may know a group's secret when refreshes are skipped and deferred by validity (dissertation 7.6.2)?

The rule of the paper, spelled out over a real tree: whoever joins with a
right that is older than the secret is handed the secret and changes nothing;
whoever leaves costs a refresh no sooner than its right ends. So what a person
may know follows from its right alone: the secrets that began while it was valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reference.coalitions import WatchedGroup
from reference.tree_store import Scheme


@dataclass
class DeferringGroup:
    """A group whose manager refreshes as late as the members' rights allow."""

    rights: Mapping[bytes, range]
    """From when to when each person's certificate is valid, the last moment excluded."""
    watched: WatchedGroup
    began_at: list[int] = field(default_factory=list)
    """When each version began."""
    handed: dict[bytes, int] = field(default_factory=dict)
    linked: set[bytes] = field(default_factory=set)
    waiting: set[bytes] = field(default_factory=set)
    """Who was handed the secret and has no place in the tree yet."""

    @classmethod
    def new(cls, scheme: Scheme, rights: Mapping[bytes, range]) -> DeferringGroup:
        """Begin at moment 0 with nobody."""
        group = cls(rights, WatchedGroup.new(scheme))
        group._refresh(0)
        return group

    def tick(self, now: int) -> None:
        """Refresh if anybody who can know the secret has no right any more."""
        self.linked -= {person for person in self.linked if now not in self.rights[person]}
        informed = {*self.watched.tree.members, *self.waiting}
        if any(now not in self.rights[person] for person in informed):
            self._refresh(now)

    def join(self, person: bytes, now: int) -> None:
        """Take a person in that has the right to; without a refresh if it might have been in all along."""
        if now not in self.rights[person] or person in self.linked:
            return
        self.linked.add(person)
        if person in self.watched.tree or person in self.waiting:
            return  # it left a moment ago, and nothing has changed since
        if self.began_at[-1] in self.rights[person]:
            self.waiting.add(person)
            self._hand(person, self.watched.roots[-1])
        else:
            self._refresh(now)

    def leave(self, person: bytes) -> None:
        """Let a person go; the secret stays while its right does."""
        self.linked.discard(person)

    def may_know(self, person: bytes, version: int) -> bool:
        """Return whether a person's right covers the moment at which a version began."""
        return self.began_at[version - 1] in self.rights[person]

    def breaches(self) -> list[tuple[int, frozenset[bytes]]]:
        """Return the versions that people read together though none of them may."""
        found = []
        for version, root in enumerate(self.watched.roots, start=1):
            outside = frozenset(person for person in self.handed if not self.may_know(person, version))
            knowledge = 0
            for person in outside:
                knowledge |= self.handed[person]
            if self.watched.rules.closed(knowledge) & root:
                found.append((version, outside))
        return found

    def in_the_dark(self) -> set[bytes]:
        """Return people who are in the group and cannot work out its secret; there should be none."""
        root = self.watched.roots[-1]
        return {who for who in self.linked if not self.watched.rules.closed(self.handed[who]) & root}

    def _refresh(self, now: int) -> None:
        seated = self.watched.tree.members
        changed = self.watched.change(joins=sorted(self.linked - seated), leaves=sorted(seated - self.linked))
        self.began_at.append(now)
        self.waiting.clear()
        for person in changed.welcomes:
            self._hand(person, self.watched.open_stays[person][1])

    def _hand(self, person: bytes, secrets: int) -> None:
        self.handed[person] = self.handed.get(person, 0) | secrets
