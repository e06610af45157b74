"""Over which routers do frames come here, and what do they tell the next ones?

Where `identity.paths` is set, a broker tells a neighbour over which routers a
stream comes before it sends the first frame of it, and again before what was
said ends. What a neighbour says is verified here and kept with its link. A
subscription that requires something of the path gets a frame if the path that
it has come over meets it; of an unknown path nothing is met.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from maia.broker.links.links import Link, Role
from maia.broker.links.transit import Transit
from maia.broker.own import Own
from maia.broker.rights.authoriser import Authoriser
from maia.broker.turn import Turn
from maia.credentials.chains.reduction import STEPS_PER_CHECK
from maia.credentials.identity import Identity
from maia.credentials.paths import (
    HOP_S,
    Stream,
    VerifiedPath,
    add_hop,
    hop_from_wire,
    path_attributes,
    stated_of,
    verify_path,
)
from maia.credentials.requirements import NO_ATTRIBUTES, Attributes
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.wire.effects import LinkId
from maia.wire.messages import Path, PathHop


@dataclass(slots=True, eq=False, repr=False)
class Paths:
    """The paths of streams that come here, and what neighbours were told of them."""

    own: Own
    authoriser: Authoriser
    links: dict[LinkId, Link]
    _stated: tuple[bytes, Identity | None] = field(default=(b"", None))

    def announce(self, to: Iterable[LinkId], source: LinkId | None, whole: Transit, turn: Turn) -> None:
        """Tell neighbours over which routers the next frame comes, where they do not know it."""
        if not self.own.settings.paths:
            return
        stream = Stream(whole.publisher.key, whole.published_in)
        known = None if source is None else self._known(self.links[source], stream, turn.now)
        if source is not None and known is None:
            return  # of an unknown path nothing is said
        hops = () if known is None else known.hops
        told = (hops[-1].signature if hops else b"", self.own.identity)
        for target in to:
            link = self.links[target]
            before = link.paths_told.get(stream)
            if before is not None and before[0] == told and before[1] > turn.now:
                continue
            link.paths_told.put(stream, (told, Instant(turn.now + HOP_S * SECOND // 2)))
            path = add_hop(hops, stream, self.own.key, link.peer, self.own.identity, now=turn.now)
            said = [PathHop(one.router.key, int(one.until), one.signature, one.statement) for one in path]
            turn.send(target, Path(stream.publisher, stream.label, said))

    def receive(self, link: Link, message: Path, turn: Turn) -> None:
        """Verify over which routers a neighbour's frames come; what does not hold counts as unknown."""
        stream = Stream(message.publisher, message.stream)
        self.authoriser.meter.used += 2 * STEPS_PER_CHECK * len(message.hops)
        try:
            hops = [
                hop_from_wire(one.router, one.until, one.signature, one.statement) for one in message.hops
            ]
            trust = self.own.settings.identity
            path = verify_path(
                hops, stream, sender=link.peer, to=self.own.principal, trust=trust, now=turn.now
            )
        except MaiaError as problem:
            link.paths.pop(stream)
            turn.note(
                "path-refused", link=link.id, peer=str(link.peer), code=problem.code, why=problem.message
            )
            return
        link.paths.put(stream, path)

    def attributes(self, link: Link, whole: Transit, now: Instant) -> Attributes:
        """Return what is known of the path over which a frame came to this broker, if anything is."""
        if link.role is not Role.BROKER:
            return path_attributes([self._of_itself(now)])
        known = self._known(link, Stream(whole.publisher.key, whole.published_in), now)
        return NO_ATTRIBUTES if known is None else path_attributes([*known.stated, self._of_itself(now)])

    def _known(self, link: Link, stream: Stream, now: Instant) -> VerifiedPath | None:
        found = link.paths.use(stream)
        return found if found is not None and now < found.until else None

    def _of_itself(self, now: Instant) -> Identity | None:
        """Return what a trusted provider says of this broker."""
        own, trust = self.own.identity, self.own.settings.identity
        if self._stated[0] != own:
            stated = None if trust is None else stated_of(self.own.principal, own, trust, now)
            self._stated = own, stated
        found = self._stated[1]
        return found if found is not None and found.is_in_force(now) else None
