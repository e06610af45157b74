"""From which neighbours may a frame of a type come?

The publication path asks, for plain and for sealed frames, before a frame
counts anywhere (A90). A plain frame names its publisher and proves nothing,
so it counts by the way on which it came; a sealed one proves its signer, and
a signer may be any key. Expected are:

- the next broker towards the type's rendezvous, which brings what is
  published elsewhere, and the two that would follow it: they may have found
  out first that it is gone, and then send what its replicas ask for;
- a neighbour whose offer of the type is registered.

Other neighbours are never asked for the type, so no honest one sends any of
it unasked (A66, A67). One that was asked may not have received yet that it is
asked no more, and is expected for a while longer: for a lease if it was the
next broker towards the rendezvous, or has not renewed its offer, and for two
seconds if it has taken its offer back. The summaries that were asked of it are
expected until the periods are closed in which it offered. An offer that is
refused, or falls with a certificate, leaves no such time. What happens to one
neighbour opens the way to no other (A85).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from maia.broker.interests.outbox import Outbox, seen_behind
from maia.broker.interests.routes import REPLICAS, Neighbour, Routes, book_keys
from maia.broker.links.links import Link
from maia.broker.own import Own
from maia.broker.rights.known_types import KnownTypes
from maia.broker.turn import Turn
from maia.errors import Refusal
from maia.events import SECOND, Instant, seconds_after
from maia.expressions.summaries import period_of
from maia.policy.view import summary_of
from maia.policy.view_bytes import EVERYTHING, view_from_bytes
from maia.routing.overlay.table import node_id_of_type
from maia.routing.table.hops import Hop

_OFFER: Final = b"offer"
PARTING_S: Final = 2.0
"""How long frames may be on the way from a neighbour that has taken its offer back."""
PARTING_MAX: Final = 4096
"""Of how many types and classes of one neighbour that is remembered; the oldest go first."""


@dataclass(slots=True, eq=False, repr=False)
class ExpectedSources:
    """From whom frames may come."""

    own: Own
    types: KnownTypes
    routes: Routes
    outbox: Outbox

    def is_expected_source(self, link: Link, type_id: bytes, now: Instant, view: bytes | None = None) -> bool:
        """Whether a frame may come from a neighbour at this moment; `type_id` is as the book names it.

        Of a frame that was released at a border, `view` is the class.
        """
        routes = self.routes
        node = routes.node_of[link.id]
        if routes.book.may_come_from(node, type_id):
            return True
        parting = routes.neighbours[node].parting
        if any(now < parting.get((type_id, one), now) for one in (EVERYTHING, view or EVERYTHING)):
            return True
        # It leads to the rendezvous, or would if one or two others were gone.
        nearest, own = (
            routes.overlay.closest(node_id_of_type(type_id), 1 + REPLICAS),
            routes.membership.own.node,
        )
        return node in (nearest[: nearest.index(own)] if own in nearest else nearest)

    def is_known_type(self, type_id: bytes) -> bool:
        """Whether a definition, interest or offer of a type is known here: no frame comes before it."""
        book = self.routes.book
        return self.types.knows(type_id) or any(map(book.knows, book_keys(type_id)))

    def refuse_unasked(self, link: Link, turn: Turn, said: str = "Carried") -> None:
        """Let a frame go nowhere; once in a lease, log that, and tell the neighbour what it was asked for.

        An honest one that is mistaken finds out by that.
        """
        turn.count("maia_frames_refused_total", code="REFUSED-FRAME-UNASKED")
        neighbour, now = self.routes.neighbour_on(link.id), turn.now
        noted = neighbour.unasked_noted_at
        if noted is not None and noted <= now < seconds_after(noted, self.own.settings.lease_s):
            return
        neighbour.unasked_noted_at = now
        problem = Refusal(
            "REFUSED-FRAME-UNASKED", "a frame came from a broker that was not asked for its type"
        )
        turn.refused(problem, link.peer, link=link.id, asked=said)
        self.outbox.route_messages([self.routes.book.renewal(neighbour.node, now)], turn)

    def let_arrive(self, neighbour: Neighbour, type_id: bytes, now: Instant) -> None:
        """Expect frames that are on the way from a neighbour that takes its offer back, and its summaries.

        What is doubted is not believed for longer by being taken back.
        """
        ends = {EVERYTHING: now} | {
            entry.view: summary.closes_at(period_of(summary, now + summary.late_s * SECOND))
            for entry in self.routes.book.sent_to(neighbour.node, type_id)[0]
            if (summary := summary_of(view_from_bytes(seen_behind(entry.baggage)))) is not None
        }
        doubted_until = neighbour.doubt_ends
        is_doubted = doubted_until is not None and (type_id, _OFFER) in neighbour.doubtful
        for view, last in ends.items():
            until = seconds_after(last, PARTING_S)
            offer_ended(neighbour, type_id, doubted_until if is_doubted and doubted_until else until, view)

    def not_asked_any_more(self, former: Iterable[tuple[Hop, bytes]], now: Instant) -> None:
        """Take note of neighbours that were asked for a type and may not have received that they are not now.

        Their offer was not renewed, because they slept perhaps; or the way to the rendezvous has changed.
        """
        until = seconds_after(now, self.own.settings.lease_s)
        for hop, type_id in former:
            neighbour = self.routes.neighbours.get(hop) if isinstance(hop, int) else None  # type: ignore[call-overload]  # NodeId is an int
            if neighbour is not None:
                offer_ended(neighbour, type_id, until)


# ------------------------------------------------------------ while things change


def offer_ended(neighbour: Neighbour, type_id: bytes, until: Instant, view: bytes = EVERYTHING) -> None:
    """Let frames that are on the way arrive from a neighbour whose offer is not registered any more."""
    parting = neighbour.parting
    parting.pop((type_id, view), None)
    if len(parting) >= PARTING_MAX:
        del parting[next(iter(parting))]
    parting[type_id, view] = until


def offer_refused(neighbour: Neighbour, type_id: bytes) -> None:
    """Expect nothing more of a type from a neighbour whose offer was refused."""
    for one in [one for one in neighbour.parting if one[0] == type_id]:
        del neighbour.parting[one]
