"""What may a neighbour have of a frame that was recorded?

What is wanted behind it, as far as that is proved at this moment: what a right of today does
not open is not sent (A109).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from maia.broker.access.known_types import KnownTypes
from maia.broker.publication.retained import book_keys
from maia.broker.publication.transit import from_carried
from maia.broker.routing.outbox import Proof
from maia.broker.routing.proofs import Proved
from maia.broker.routing.routes import Routes
from maia.errors import MaiaError
from maia.events import Instant
from maia.predicates import ALWAYS, Predicate, verdict
from maia.wire.codec import encode_known
from maia.wire.effects import LinkId
from maia.wire.messages import Recorded, Sealed, Unblinded

_INTERESTS_MAX: Final = 256


class WantedBehind:
    """The interests behind neighbours, for those who ask for the past."""

    __slots__ = ("_prove", "_routes", "_types")

    def __init__(
        self,
        routes: Routes,
        types: KnownTypes,
        *,
        prove: Callable[[bytes, Proof, Predicate, Instant], Proved],
    ) -> None:
        """`prove` returns the part of an interest that its proof entitles to, or raises what is wrong."""
        self._routes, self._types, self._prove = routes, types, prove

    def interests(self, link: LinkId, type_id: bytes, now: Instant) -> list[Predicate] | None:
        """Return what is wanted of a type behind a link, as far as it is proved at this moment; None for nothing.

        Sealed frames are for whoever has their keys, so an interest in these is not limited.
        """
        book, link_to = self._routes.book, self._routes.link_to
        plain, sealed = book_keys(type_id)
        found: list[Predicate] = []
        hops = [hop for hop in book.hops(plain) if link_to(hop) == link]
        entries = [entry for hop in hops for entry in book.entries(hop, plain)]
        for entry in sorted(entries, key=lambda one: one.predicate != ALWAYS)[:_INTERESTS_MAX]:
            wanted = entry.predicate
            if isinstance(entry.baggage, Proof):
                try:
                    wanted = self._prove(type_id, entry.baggage, wanted, now).filter
                except MaiaError:
                    continue  # its right has ended, and the neighbour has not taken it back yet (A109)
            found.append(wanted)
            if wanted == ALWAYS:
                break
        if any(book.wanted(hop, sealed) for hop in book.hops(sealed) if link_to(hop) == link):
            found.append(ALWAYS)
        return found or None

    def admitted(self, frame: Recorded, interests: Sequence[Predicate]) -> tuple[bytes | None, bool]:
        """Return what interests admit of a frame, as it travels, None for nothing; and whether it is less."""
        if isinstance(frame, Sealed):
            return (None, True) if isinstance(frame, Unblinded) else (encode_known(frame), False)
        if self._types.sealing(frame.type_id) is not None:
            return None, True
        if ALWAYS in interests:
            return encode_known(frame), False
        transit = from_carried(frame, {})
        events = enumerate(transit.matched.events())
        rows = [row for row, event in events if any(verdict(one, event) is True for one in interests)]
        data = encode_known(transit.cut(rows).as_carried()) if rows else None
        return data, len(rows) < transit.frame.rows
