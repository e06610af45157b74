"""What is sent to other brokers of what clients here want and publish?

Groups of local subscribers and local advertisements enter the routing table;
its changes leave as messages.

A recording broker wants everything of the types that it records, under its own right to
subscribe, and proves that to other brokers as any client's broker does. A
type for which it has no right is recorded as far as its frames pass by.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256

from maia.broker.audiences.local_subscribers import CLASS_KEY_BYTES, Audiences, SubscriberGroup, class_key
from maia.broker.interests.aggregation import Announcer
from maia.broker.interests.outbox import Outbox
from maia.broker.interests.rekeying import Rekeying
from maia.broker.interests.routes import Routes
from maia.broker.interests.sealed import SealedInterests
from maia.broker.keys.blinded import BlindedIds
from maia.broker.links.links import OWN_LINK, Advertisement, Subscription
from maia.broker.log.recording import Recording
from maia.broker.log.retained import RetainedFrames
from maia.broker.own import Own
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.turn import Turn
from maia.credentials import Action
from maia.events import INSTANT_MAX, Instant
from maia.policy import PolicyRefusal, Request
from maia.predicates import ALWAYS
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request, without_filter

_OFFER = b"offer"
_DOUBT_S = 2.0
"""How long a neighbour has to prove an entry otherwise whose certificate counts no more."""


@dataclass(slots=True, eq=False, repr=False)
class Interests:
    """What clients here, and the log, want and publish, as others are sent it."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    blinded: BlindedIds
    audiences: Audiences
    sealed: SealedInterests
    recording: Recording | None
    retained: RetainedFrames
    outbox: Outbox
    announcer: Announcer
    rekeying: Rekeying

    # ------------------------------------------------------------ this broker's clients

    def class_joined(self, type_id: bytes, view_class: SubscriberGroup, turn: Turn) -> None:
        """Send others what a new group of subscribers here wants."""
        self.routes.mark_changed(turn.now)
        # One that was there a moment ago goes first: what it wanted was wanted on another's behalf.
        if (type_id, view_class.key) in self.routes.ended:
            self.withdraw_ended(turn)
        if self.types.sealing(type_id) is not None:
            self.rekeying.place_sealed(type_id, view_class, turn)
        else:
            if self.audiences.of(type_id).is_first_behind(view_class):
                self.retained.incomplete(type_id)
            self.announcer.announce(type_id, view_class, turn)

    def class_gone(self, type_id: bytes, key: bytes, turn: Turn) -> None:
        """Send others that a group of subscribers is gone."""
        self.classes_gone(type_id, (key,), turn)

    def classes_gone(self, type_id: bytes, keys: Collection[bytes], turn: Turn) -> None:
        """Send others that groups of subscribers are gone: what takes their place, and what goes, at once."""
        self.routes.mark_changed(turn.now)
        self.retained.incomplete(type_id)
        self.announcer.withdraw(type_id, keys, turn)
        for key in keys if self.sealed.placed else ():
            self.rekeying.take_back_sealed(type_id, key, turn)

    def withdraw_ended(self, turn: Turn) -> None:
        """Send others what is no longer wanted, all together, and what is wanted on another's behalf."""
        ended, self.routes.ended = self.routes.ended, {}
        gone: dict[bytes, list[bytes]] = {}
        for (type_id, key), is_gone in ended.items():
            if is_gone:
                gone.setdefault(type_id, []).append(key)
        for type_id, keys in gone.items():
            self.classes_gone(type_id, keys, turn)
        for (type_id, key), is_gone in ended.items():
            audience = self.audiences.get(type_id)
            if not is_gone and audience is not None and key in audience.classes:
                self.send_proof_again(type_id, key, turn)

    def send_proof_again(self, type_id: bytes, key: bytes, turn: Turn) -> None:
        """Send others on whose behalf the same is wanted now: they may have accepted another's proof."""
        self.routes.mark_changed(turn.now)
        self.announcer.prove_again(type_id, key, turn)
        for name in self.blinded.ids(type_id):
            placed = self.sealed.placed.get((name, key))
            if placed is not None:
                again = self.routes.book.send_one_again(LOCAL, book_key_of_sealed(name), placed.entry_id)
                self.outbox.route_messages(again, turn)

    def advertised(self, entry: Advertisement, turn: Turn) -> None:
        """Send others that a type is published here, and its super-types."""
        self.routes.mark_changed(turn.now)
        for type_id in entry.type_ids:
            self.routes.published.put(type_id, None)
            self.rekeying.offer(type_id, entry, turn)

    def unadvertised(self, entry: Advertisement, turn: Turn) -> None:
        """Tell neighbours that a publisher here has ended, for its type and the super-types."""
        for type_id in entry.type_ids:
            self.unadvertised_as(type_id, entry, turn)

    def unadvertised_as(self, type_id: bytes, entry: Advertisement, turn: Turn) -> None:
        """Tell neighbours that an advertisement has ended for one of its types."""
        self.routes.mark_changed(turn.now)
        self.rekeying.offer(type_id, entry, turn, stands=False)

    def recheck_own_interests(self, turn: Turn, *, is_touched: bool = False) -> None:
        """Ask again about each type: a right may have begun, ended or changed."""
        if self.recording is None:
            return
        for type_id in self.types.type_ids():
            self.want_to_record(type_id, turn, is_touched=is_touched)

    def redecide_own_interests(self, certificates: Collection[bytes], turn: Turn) -> None:
        """Decide again what this broker wants by one of these certificates, or would if it counted."""
        own = {signed.id for signed in self.own.settings.credentials}
        if not own.isdisjoint(certificates):
            self.recheck_own_interests(turn, is_touched=True)

    def want_to_record(self, type_id: bytes, turn: Turn, *, is_touched: bool = False) -> None:
        """Want all that this broker may see of a type, from now on, if it records the type."""
        log = self.recording
        versions = self.types.versions(type_id)
        if log is None or not versions or not log.records(type_id):
            return
        own = log.link.subscriptions.values()
        before = next((one for one in own if one.right.event_type.type_id == type_id), None)
        if (
            before is not None
            and not is_touched
            and not self.own.settings.is_to_be_signed_again(before.signed_at, turn.now)
            and self.authoriser.holds(before.right, turn.now)
        ):
            return
        version = versions[-1]
        request = Request(self.own.principal, Action.SUBSCRIBE, version.name, version, ALWAYS)
        try:
            right = self.authoriser.decide(request, self.own.settings.credentials, turn.now)
        except PolicyRefusal as problem:
            if before is not None:
                self._taken_back(log, before, turn)
                turn.note("recording-only-what-passes", type=type_id.hex(), code=problem.code)
            return
        self._placed(log, right, before, turn)

    def _placed(self, log: Recording, right: Authorisation, before: Subscription | None, turn: Turn) -> None:
        version = right.event_type
        ref = before.ref if before is not None else max(log.link.subscriptions, default=0) + 1
        key = kept_class(class_key(right.view, version))
        asked = EdgeRequest(
            Action.SUBSCRIBE,
            self.own.settings.network,
            version.name,
            ALWAYS,
            self.own.random(16),
            turn.now,
            self.own.random(16),
        )
        proof = request_to_bytes(sign_request(asked, self.own.key))
        entry = Subscription(
            ref,
            OWN_LINK,
            right.basis,
            right.filter,
            key,
            Instant(INSTANT_MAX),
            *without_filter(proof, ALWAYS),
        )
        log.link.subscriptions[ref] = entry
        if before is None:
            log.look_for(version.type_id)
        audience = self.audiences.of(version.type_id)
        if before is not None and before.view_class == key:
            if audience.represents(key, (OWN_LINK, ref)):
                self.send_proof_again(version.type_id, key, turn)
            return
        if audience.join(key, right.view, version, (OWN_LINK, ref), is_kept=True):
            self.class_joined(version.type_id, audience.classes[key], turn)
        if before is not None and audience.leave(before.view_class, (OWN_LINK, ref)):
            self.class_gone(version.type_id, before.view_class, turn)
        turn.note("recording", type=version.type_id.hex(), name=version.name.name)

    def _taken_back(self, log: Recording, entry: Subscription, turn: Turn) -> None:
        del log.link.subscriptions[entry.ref]
        type_id = entry.right.event_type.type_id
        audience = self.audiences[type_id]
        is_gone = audience.leave(entry.view_class, (OWN_LINK, entry.ref))
        if not audience.classes:
            del self.audiences[type_id]
        if is_gone:
            self.class_gone(type_id, entry.view_class, turn)


# ------------------------------------------------------------ this broker's own log


def kept_class(view_class: bytes) -> bytes:
    """Return the key of a class whose members are served from the log, beside the one served at once."""
    return sha256(b"maia/1/kept-class\x00" + view_class).digest()[:CLASS_KEY_BYTES]
