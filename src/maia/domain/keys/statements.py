"""What does a key server do about a statement that it hears?

The domain hands on what it states and what it hears; peers bring what their
own certificates demand. Whoever a statement takes the ground from is put out
at once, and nobody else is looked at. What peers bring is acted upon even if
their own request is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from maia.credentials import Budget, Heard, SignedCertificate, SignedStatement
from maia.domain.keys.departures import Parting
from maia.domain.keys.links import Links, MemberLink
from maia.domain.keys.managed_types import Changes, ManagedTypes
from maia.domain.keys.validity import Vouching
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Request
from maia.sealing.groups.validity import held_statements
from maia.wire.effects import Count, Effect
from maia.wire.messages import Show

__all__ = ["Hearing"]


@dataclass(frozen=True, slots=True)
class Hearing:
    """Hears statements, and looks again at exactly those whom they concern."""

    vouching: Vouching
    types: ManagedTypes
    links: Links
    parting: Parting
    changes: Changes
    _told: list[Effect] = field(default_factory=list)

    def hear(self, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Hear statements; one that cannot be believed is counted, and changes nothing."""
        effects: list[Effect] = []
        for signed in statements:
            heard = self.vouching.hear(signed, now)
            if isinstance(heard, MaiaError):
                effects.append(Count("maia_statements_refused_total", labels={"code": heard.code}))
            elif heard.is_news:
                self.changes.update(self.vouching.kept(heard.by))
                effects.append(Count("maia_statements_received_total"))
                effects += self._looked_again(heard, now)
        return effects

    def _looked_again(self, heard: Heard, now: Instant) -> list[Effect]:
        changed = heard.revoked | heard.restored
        effects = self.types.everywhere(lambda manager: manager.hear(heard.by, changed, now))
        for link, problem in self.links.fallen(changed, now) if changed else ():
            effects += self.parting.close(link, problem)
        return effects

    # -------------------------------------------------------- what peers show

    def hold(self, link: MemberLink, message: Show) -> None:
        """Hold what a peer shows, until it is known whether a right could rest on it."""
        link.statements = held_statements(link.statements, message)

    def hear_known(self, link: MemberLink, now: Instant) -> None:
        """Hear what a peer has shown, of those of whom something was heard before."""
        self._told.extend(self.hear(link.take_statements(self.vouching.known()), now))

    def hear_held(
        self,
        link: MemberLink,
        asked: Iterable[Request],
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        budget: Budget | None = None,
    ) -> None:
        """Hear what a peer has shown, of those on whose word one of these requests could rest."""
        if link.statements:
            concerned = self.vouching.concerned(asked, pool, now, budget)
            self._told.extend(self.hear(link.take_statements(concerned), now))

    def take_told(self) -> list[Effect]:
        """Return what everybody is told because of what peers have shown since this was last asked."""
        told = list(self._told)
        self._told.clear()
        return told
