"""What follows when keys come, change, are refused or do not come?

Interests are sealed and opened anew, frames that waited are taken on again in
their order, and publishers that waited in vain are refused. Whatever happens
on a link to a key manager is the key member's; the broker only listens for
what it means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from maia.broker.interests.impairment import Impairments
from maia.broker.interests.rekeying import Rekeying
from maia.broker.interests.routes import Routes
from maia.broker.keys.blinded import BlindedIds
from maia.broker.keys.keys import KeyRequests, SealingKeys, without_alarms
from maia.broker.keys.publisher_rights import PublisherRights
from maia.broker.links.links import Link
from maia.broker.rights.known_types import KnownTypes
from maia.broker.sessions.close import Closing
from maia.broker.sessions.dispatch import Dispatch
from maia.broker.sessions.entries import Entries
from maia.broker.streams.streams import Streams
from maia.broker.turn import Turn
from maia.errors import MaiaError
from maia.events import Instant, seconds_after
from maia.sealing.member.settings import KeysChanged, KeysRefused, WriterReceived
from maia.sessions.challenges import Challenged
from maia.wire.effects import Input, LinkId, Tick
from maia.wire.messages import Publish

_LOOK_AGAIN_S: Final = 0.25
"""How often it is asked whether an epoch that was announced has begun, while frames wait for it."""


@dataclass(slots=True, eq=False, repr=False)
class KeyEvents:
    """What follows from keys that come, change or do not come."""

    types: KnownTypes
    routes: Routes
    keys: KeyRequests
    blinded: BlindedIds
    seals: SealingKeys
    writers: PublisherRights
    streams: Streams
    dispatch: Dispatch
    links: dict[LinkId, Link]
    impairments: Impairments
    rekeying: Rekeying
    entries: Entries
    closing: Closing

    def handle_key_input(self, happened: Input, turn: Turn) -> None:
        """Let the key member take an input on, and do what follows from it."""
        member = self.keys.member
        reach = member.reach()
        turn.add(*without_alarms(member.handle(happened, turn.now)))
        self.routes.is_changed = True
        if member.reach() != reach:
            self.impairments.changed.update(self.types.sealed())
        self._notice(turn)
        self._refuse_waiting(turn)

    def own_rights_changed(self, turn: Turn) -> None:
        """Let go of keys to which this broker has no right any more, and do what follows from that."""
        self.keys.rights_changed(turn)
        self.routes.is_changed = True
        self.impairments.changed.update(self.types.sealed())
        self._notice(turn)

    def look_for_keys(self, types: Iterable[bytes], turn: Turn) -> None:
        """Look for the keys of types that are known from before; of sealed ones nothing is said in clear."""
        for type_id in types:
            if self.types.sealing(type_id) is not None:
                self.keys.look_for(type_id, turn)
                self.rekeying.keys_changed(type_id, turn)
        self.routes.is_changed = True

    def maintain_keys(self, turn: Turn) -> None:
        """Do what is due by itself: the key member's business, and frames that waited long enough."""
        now, is_asked = turn.now, self.keys.look_again(turn)
        self.impairments.changed |= self.impairments.late(now) | (
            self.types.sealed().keys() if is_asked else set()
        )
        member = self.keys.member.next_look()
        if member is not None and member <= now:
            self.handle_key_input(Tick(), turn)
            self.seals.forget_dropped()
            for type_id in self.blinded.outdated():
                self.rekeying.keys_changed(type_id, turn)
        for type_id in self.seals.publishing.types():
            self._publish_again(type_id, turn)
        for type_id in self.seals.projecting.types():
            self.streams.publish_waiting(type_id, turn)
        for run in self.seals.carrying.take_overdue(now):
            self.streams.resume(run, turn, is_overdue=True)  # others may have the keys
        for link, message in self.seals.publishing.take_overdue(now):
            self._refuse_frame(link, message, turn)
        if lost := len(self.seals.projecting.take_overdue(now)):
            turn.count("maia_projections_lost_total", lost)

    def next_key_moment(self, now: Instant) -> Instant | None:
        """Return when there is something to do about keys."""
        waiting = len(self.seals.publishing) or len(self.seals.projecting)
        again = seconds_after(now, _LOOK_AGAIN_S) if waiting else None
        late = self.impairments.next_due(now)
        moments = (self.keys.next_look(), self.seals.next_due(), again, late)
        return min((moment for moment in moments if moment is not None), default=None)

    def apply_new_keys(self, type_id: bytes, turn: Turn) -> None:
        """Do what other keys of a type make possible or necessary."""
        self.seals.forget_dropped()
        self.rekeying.keys_changed(type_id, turn)
        self.rekeying.open_rights_again(type_id, turn)
        self._try_again(type_id, turn)

    # ------------------------------------------------------------ what the key member has noticed

    def _notice(self, turn: Turn) -> None:
        for notice in self.keys.member.take_notices():
            match notice:
                case KeysChanged(type_id=type_id):
                    self.keys.refused.pop(type_id, None)
                    self.impairments.changed.add(type_id)
                    self.apply_new_keys(type_id, turn)
                case KeysRefused(type_id=type_id, code=code):
                    self.keys.refused[type_id] = code
                    self.impairments.changed.add(type_id)
                    turn.note("keys-not-granted", type=type_id.hex(), code=code)
                    self._refuse_waiting(turn)
                    self._try_again(type_id, turn)
                case Challenged():
                    self.keys.challenges.append(notice)
                case WriterReceived(type_id=type_id, principal=principal, certificates=certificates):
                    self.writers.learn(type_id, principal, certificates)
                    self._try_again(type_id, turn)

    def _try_again(self, type_id: bytes, turn: Turn) -> None:
        """Take on again what waited, in its order; what still lacks something waits on, no longer."""
        for run in self.seals.carrying.take(type_id):
            self.streams.resume(run, turn)
        self._publish_again(type_id, turn)
        self.streams.publish_waiting(type_id, turn)

    def _publish_again(self, type_id: bytes, turn: Turn) -> None:
        if self.seals.has_begun(type_id, turn.now):
            for link, message in self.seals.publishing.take(type_id):
                self.answer_waiting(link, message, turn)

    def answer_waiting(self, number: LinkId, message: Publish, turn: Turn) -> None:
        """Take on a publisher's frame that waited."""
        link = self.links.get(number)
        if link is None or not link.is_ready:
            return  # its publisher is gone, and sends it again elsewhere
        said = turn.mark()
        try:
            self.dispatch.answer(link, message, turn)
        except MaiaError as problem:
            turn.drop(said)
            self.closing.close_link(link, problem, turn)

    # ------------------------------------------------------------ keys that do not come

    def _refuse_waiting(self, turn: Turn) -> None:
        """Tell publishers at once whose frames wait for keys that are not on their way any more."""
        for type_id in self.seals.publishing.types():
            lack = self.impairments.key_lack(type_id, turn.now)
            for link, message in [] if lack is None else self.seals.publishing.take(type_id):
                self._refuse_frame(link, message, turn, lack)

    def _refuse_frame(
        self, number: LinkId, message: Publish, turn: Turn, problem: MaiaError | None = None
    ) -> None:
        """Tell a publisher that its frame was not taken on: nothing of a sealed type leaves in the clear."""
        link = self.links.get(number)
        entry = None if link is None else link.advertisements.get(message.ref)
        if link is None or entry is None:
            return
        overdue = self.impairments.keys_overdue(entry.right.event_type.type_id)
        self.entries.end_advertisement(link, entry, turn, problem or overdue)
