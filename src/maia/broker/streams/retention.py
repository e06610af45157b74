"""When is what a publisher published last forgotten, and who is told?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maia.broker.interests.routes import Routes
from maia.broker.links.links import Advertisement, Link
from maia.broker.rights.authoriser import Authoriser
from maia.broker.turn import Turn
from maia.policy import PolicyRefusal
from maia.wire.codec import encode
from maia.wire.effects import LinkId
from maia.wire.messages import StateGone

if TYPE_CHECKING:
    pass


from maia.broker.interests.routes import book_keys
from maia.broker.log.retained import RetainedFrames


@dataclass(slots=True, eq=False, repr=False)
class Retention:
    """What is forgotten of the last frames of publishers, and who is told."""

    authoriser: Authoriser
    routes: Routes
    retained: RetainedFrames

    def move_retained(self, entry: Advertisement) -> None:
        """Keep what a publisher said last under the right that it has now: the one before serves no more."""
        for type_id, stream in _streams(entry):
            self.retained.rest_on(type_id, entry.right.principal.key, stream, entry.right)

    def publisher_lost_its_right(self, entry: Advertisement, turn: Turn) -> None:
        """Forget what a publisher said last, and have others forget it."""
        for type_id, stream in _streams(entry):
            self.forget_stream(type_id, entry.right.principal.key, stream, turn)

    def forget_stream(self, type_id: bytes, publisher: bytes, stream: bytes, turn: Turn) -> None:
        """Forget what was said last on one stream, and have others forget it."""
        self.retained.forget(type_id, publisher, stream)
        self._tell_gone(StateGone(type_id, publisher, stream), turn, besides=None)

    def forget_retained(self, certificates: Collection[bytes], turn: Turn) -> None:
        """Forget what was said by publishers who could say it by one of these certificates alone."""
        changed = frozenset(certificates)
        for type_id, publisher, stream, said in self.retained.under_rights():
            touched = [one for one in said.rights if one.depends_on(changed)]
            try:
                for right in touched:
                    self.authoriser.decide_again(right, turn.now)
            except PolicyRefusal:
                self.forget_stream(type_id, publisher, stream, turn)

    def receive_state_gone(self, link: Link, message: StateGone, turn: Turn) -> None:
        """Forget what a publisher said last, if that came the same way, and have others forget it."""
        node = self.routes.node_of[link.id]
        if self.retained.forget(message.type_id, message.publisher, message.stream, node):
            self._tell_gone(message, turn, besides=link.id)

    def _tell_gone(self, message: StateGone, turn: Turn, *, besides: LinkId | None) -> None:
        data, book = encode(message), self.routes.book
        keys = book_keys(message.type_id)
        hops = dict.fromkeys(hop for key in keys for hop in book.hops(key) if book.wanted(hop, key))
        for link in dict.fromkeys(self.routes.link_to(hop) for hop in hops):
            if link is not None and link != besides:
                turn.send_bytes(link, data)


def _streams(entry: Advertisement) -> list[tuple[bytes, bytes]]:
    """Return under which types and streams a publisher's frames are remembered."""
    above = [(one.type_id, one.stream) for one in entry.projections]
    return [(entry.right.event_type.type_id, entry.stream), *above]
