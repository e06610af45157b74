"""Where else is this publication wanted, and who else must know of this interest?"""

from __future__ import annotations

from maia.broker.transit import Transit
from maia.events import Instant
from maia.wire.effects import Effect, LinkId

__all__ = ["Routes"]


class Routes:
    """Nothing yet: a broker alone."""

    __slots__ = ()

    def is_new(self, transit: Transit) -> bool:
        """Say whether a frame has not been here before."""
        del transit
        return True

    def forward(self, transit: Transit, *, source: LinkId | None) -> list[Effect]:
        """Return what leaves for other brokers."""
        del transit, source
        return []

    def interest_changed(self, state: object, type_id: bytes, now: Instant) -> list[Effect]:
        """Tell others what the local subscribers of a type want now."""
        del state, type_id, now
        return []

    def offer_changed(self, state: object, type_id: bytes, now: Instant) -> list[Effect]:
        """Tell others whether somebody here publishes a type now."""
        del state, type_id, now
        return []

    def start(self, state: object, now: Instant) -> list[Effect]:
        """Look for the other brokers."""
        del state, now
        return []

    def leave(self, state: object, now: Instant) -> list[Effect]:
        """Tell the other brokers that this one goes."""
        del state, now
        return []

    def look(self, state: object, now: Instant) -> list[Effect]:
        """Renew what was told to others, and try again what failed."""
        del state, now
        return []

    def dial_failed(self, state: object, address: str, now: Instant) -> list[Effect]:
        """Take note that nobody answered at an address."""
        del state, address, now
        return []

    def link_gone(self, link: LinkId) -> list[Effect]:
        """Forget what came through a link."""
        del link
        return []
