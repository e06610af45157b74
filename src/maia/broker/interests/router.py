"""How do interests spread between brokers, and which neighbours get a frame?

Two answers implement this interface: the rendezvous (`rendezvous.py`), where
brokers find each other and interests of a type meet at one of them, and the
mesh (`mesh.py`), where neighbours are configured and interests are flooded. The
rest of the broker knows neither. Both keep what is wanted in the same routing
table (`Routes.book`), in which a hop is whoever said what it wants: a
neighbour in the one, the router at the far end in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from maia.events import AttributeUid, Instant
from maia.routing.table.hops import Hop, TypeId
from maia.wire.effects import LinkId

if TYPE_CHECKING:
    from maia.broker.links.links import Link
    from maia.broker.links.transit import Transit
    from maia.broker.turn import Turn
    from maia.wire.messages import Carried, Sealed, SealedWithPlaintext


# Any: the table pairs each class of message with a function of exactly that class.
Handler: TypeAlias = "Callable[[Link, Any, Turn], None]"


class Flooding(Protocol):
    """What else is to be done where interests are flooded and a frame names the routers that it is for."""

    question_wait_s: float
    """How long a client's interest takes to get ahead of its question for retained frames."""

    def sync_number(self) -> int | None:
        """Return under which number this broker's interests were sent; None while some were not."""

    def has_received(self, origin: bytes, number: int) -> bool:
        """Return whether what a broker sent under a number has arrived here."""

    def arriving(self, link: Link, message: Carried | Sealed | SealedWithPlaintext) -> None:
        """Take note that a frame arrives from a neighbour, before anything is decided about it."""

    def before_frame(self, link: LinkId, turn: Turn, view: bytes | None = None) -> None:
        """Send what a neighbour has to have just before a frame for which it is a target.

        Of a frame that is released at a border, `view` is the class.
        """

    def carries_again(self, publisher: bytes, stream: bytes, sequence: int, signer: bytes = b"") -> bool:
        """Return whether a frame that was here before is carried on for the sake of others."""


class Router(Protocol):
    """One way to route."""

    @property
    def flooding(self) -> Flooding | None:
        """Return what else is to be done in a mesh; None where filters alone decide where a frame goes.

        There, nothing is remembered of a frame for the next, and what was sent before a question on the
        same link has arrived before it.
        """

    @property
    def handlers(self) -> Mapping[type, Handler]:
        """Return what to do with each message that brokers send each other for the sake of routing."""

    # ------------------------------------------------------------ neighbours

    def start(self, turn: Turn) -> None:
        """Begin to dial other brokers."""

    def leave(self, turn: Turn) -> None:
        """Take leave of the neighbours before this broker stops."""

    def dial_failed(self, address: str, turn: Turn) -> None:
        """No broker that may connect answered at an address."""

    def neighbour_up(self, link: Link, turn: Turn) -> None:
        """A broker has proved its right to connect: it is a neighbour from now on."""

    def neighbour_known(self, link: Link, turn: Turn) -> None:
        """A broker that is a neighbour already has answered on a second link, which goes."""

    def neighbour_gone(self, link: Link, turn: Turn) -> None:
        """A link is gone; if it was the one to a neighbour, so is all that was said on it."""

    # ------------------------------------------------------------ time and certificates

    def maintain(self, turn: Turn) -> None:
        """Do what routing has to do by itself: renew, expire, dial brokers."""

    def next_due(self, now: Instant) -> Instant | None:
        """Return when `maintain` has something to do."""

    def forgive(self, until: Instant) -> None:
        """End no lease before `until`: this broker slept, and renewals wait to be read."""

    def recheck(self, certificates: Collection[bytes], turn: Turn) -> None:
        """Verify again what depends on certificates that count no more, or again."""

    def doubt(self, link: Link, certificates: Collection[bytes], turn: Turn) -> None:
        """Verify again, in a moment, what a neighbour wants and offers by these certificates."""

    # ------------------------------------------------------------ frames

    def targets(
        self,
        key: TypeId,
        transit: Transit,
        *,
        source: LinkId | None,
        missing: Collection[AttributeUid] = (),
        signer: bytes = b"",
    ) -> dict[LinkId, Sequence[int]]:
        """Return the rows of a frame that go to each neighbour, but to the one it came from.

        Each neighbour is in it once. `missing` are attributes that were not opened here, and
        `signer` is who signed a sealed frame. A plain frame as it was published goes to no neighbour behind
        a border, and one that was released goes to those that want it for its class.
        """

    def released(
        self, key: TypeId, transit: Transit, *, source: LinkId | None, signer: bytes = b""
    ) -> dict[bytes, dict[LinkId, Sequence[int]]]:
        """Return the rows of a published frame that are released to neighbours behind borders, by class."""

    def sync_targets(self, keys: Sequence[TypeId], *, is_offer: bool) -> Iterable[LinkId]:
        """Return the neighbours that interests in these types go to; of an offer, those that offers go to."""

    def expects(self, link: Link, key: TypeId, now: Instant, view: bytes | None = None) -> bool:
        """Return whether a frame of a type, or one released for a class, may come from a neighbour now."""

    def let_ask(self, keys: Iterable[TypeId], link: LinkId, step: int, turn: Turn) -> None:
        """Let a neighbour have what is wanted of a type while a question (+1) waits for its answer (-1)."""

    def towards_publishers(self, keys: Iterable[TypeId]) -> Iterable[LinkId]:
        """Return the neighbours to ask for the last publications of a type."""

    def answer_rows(
        self, link: LinkId, key: TypeId, transit: Transit, *, came_from: Hop
    ) -> Mapping[bytes | None, Sequence[int]]:
        """Return the rows of a retained frame that a neighbour that asks for them may have, by class.

        Behind a border it may have what each class sees; elsewhere it has the frame as it is, under None.
        """

    def wants(self, link: LinkId, key: TypeId) -> bool:
        """Return whether a neighbour that asks for retained frames of a type may have sealed ones."""

    # ------------------------------------------------------------ operators

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: neighbours and routes; no filter."""
