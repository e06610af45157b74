"""What do other brokers want and offer, and may they?

What neighbours send enters the routing table behind their own name only, as far
as keys and proofs go. In the open, the request and the certificates behind it are
verified as often as this broker is configured to (C9). What is sealed is opened as far
as this broker's keys go: within the type's group it must have been made by a
member, must open, and its proof must prove what it asks for, as far as this
broker can read it (A67). Outside the group no broker can tell, so it is carried
by its type alone: it matches every publication, and covers no other interest.

An interest or offer depends on the certificates in its proof wherever that was read:
when one of them counts no more it ends, unless its neighbour proves it by another
client (A35). A broker without the keys cannot know on whose behalf it passes
something on. It receives that an entry is doubted, and then sends another one if
there is one, so that no publisher falls silent for another's sake.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from maia.broker.interests.entries import (
    Proof,
    Received,
    SealedClaim,
    entry_of,
    new_proof,
    price_of_wanted,
    received_of,
)
from maia.broker.interests.expected_sources import ExpectedSources, offer_refused
from maia.broker.interests.outbox import Outbox
from maia.broker.interests.proofs import (
    Proofs,
    spend_on,
)
from maia.broker.interests.routes import Neighbour, Routes
from maia.broker.interests.sealed import SealedInterests
from maia.broker.keys.blinded import BlindedIds
from maia.broker.links.links import Link
from maia.broker.own import Own
from maia.broker.refusals import PlainOfSealed, SealTooNew
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.broker.timers import Statements, TimerWheel
from maia.broker.turn import Turn
from maia.credentials import Action, Budget
from maia.errors import MaiaError, Refusal
from maia.events import Instant, seconds_after
from maia.policy.answers import spelt_out
from maia.predicates import ALWAYS, Predicate
from maia.routing.table.hops import (
    LOCAL,
    RouteEntry,
    SealedEntry,
    TypeId,
    book_key_of_sealed,
    is_of_sealed,
    type_of_book_key,
)
from maia.routing.table.interests import digest_of_meaning, mark_of_interest, mark_of_offer
from maia.sealing.filters.proofs import check_made_by_a_member, open_proof
from maia.sealing.filters.sealed_filters import SealedFilter, open_filter
from maia.sealing.keys.key_ring import KeyRing
from maia.wire.effects import LinkId
from maia.wire.messages import Interest, Offer, Renew, Resync, SealedDoubted

EPOCHS_AHEAD_MAX: Final = 16
"""How far ahead of this broker's keys an interest may be sealed: its key may be on the way."""
DOUBTED_MAX: Final = 65_536
_OFFER: Final = b"offer"
_DOUBT_S: Final = 2.0
"""How long a neighbour has to prove an entry otherwise whose certificate counts no more."""


@dataclass(slots=True, eq=False, repr=False)
class ReceivedInterests:
    """What other brokers want and offer, in the routing table."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    blinded: BlindedIds
    statements: ValidityTracker
    links: dict[LinkId, Link]
    sealed: SealedInterests
    timers: TimerWheel
    proofs: Proofs
    outbox: Outbox
    sources: ExpectedSources

    # ------------------------------------------------------------ as far as keys and proofs go

    def understood(
        self,
        key: TypeId,
        entry: RouteEntry,
        now: Instant,
        budget: Budget | None = None,
        *,
        is_released: bool = False,
    ) -> RouteEntry:
        """Return what another broker wants as far as it opens and is proved here, or raise what is wrong.

        What is `is_released` at a border is always verified.
        """
        received = _received(entry)
        is_released = is_released and isinstance(received, Proof)  # what is sealed crosses as it is
        ring, proof = self._opened(key, received, now)
        if isinstance(entry, SealedEntry) and isinstance(received, SealedClaim):
            known: Predicate = ALWAYS
            marks = frozenset({entry.digest})
            if ring is not None and isinstance(received.sealed, SealedFilter):
                opened = open_filter(received.sealed, ring)
                own = marks if entry.digest in self.sealed.doubted else frozenset()
                known, marks = spelt_out(opened.opened, ring.answers), opened.unopened | own
            entry = replace(entry, predicate=known, marks=marks)
        if proof is None:
            return entry
        if isinstance(received, SealedClaim):
            received = replace(received, signed_at=proof.signed_at)
            entry = replace(entry, baggage=received)
        self._check_age(proof, now)
        if not (is_released or received.watched or self.proofs.is_to_be_verified()):
            return entry
        proved = self.proofs.proved_filter(
            self._type_behind(key), proof, entry.predicate, now, budget, is_released=is_released
        )
        received = replace(received, watched=proved.watched)
        if isinstance(received, Proof):
            received = replace(received, until=proved.until)
            if proved.until is not None:
                self.routes.look_for_stale(proved.until)
        return replace(entry, predicate=proved.filter, baggage=received)

    def _understood_offer(self, key: TypeId, received: Received, now: Instant) -> Received:
        """Return an offer with what it depends on, as far as it opens here, or raise what is wrong."""
        _, proof = self._opened(key, received, now)
        if proof is None:
            return received
        if isinstance(received, SealedClaim):
            received = replace(received, signed_at=proof.signed_at)
        self._check_age(proof, now)
        if not (received.watched or self.proofs.is_to_be_verified()):
            return received
        return replace(received, watched=self.proofs.prove_offer(self._type_behind(key), proof, now))

    def _check_age(self, proof: Proof, now: Instant) -> None:
        """Refuse a proof that is too old, and look again when it will be."""
        signed_at = proof.signed_at
        if signed_at is not None:
            self.proofs.check_age(signed_at, now)
            self.routes.look_for_stale(self.proofs.stale_at(signed_at))

    def _opened(self, key: TypeId, received: Received, now: Instant) -> tuple[KeyRing | None, Proof | None]:
        """Return the keys with which something sealed opens, and the proof; None for what is unknown here."""
        if isinstance(received, Proof):
            # Nothing is said in the open of a type that is known to be sealed (A29).
            if self.types.sealing(self._type_behind(key)) is not None:
                raise PlainOfSealed("the owner of this type wants it sealed")
            return None, received
        sealed, ring = received.sealed, self.sealed.ring_of(type_of_book_key(key))
        self.blinded.check_id(sealed.type_id)
        if ring is None:
            return None, None
        is_checked = check_made_by_a_member(sealed, received.proof, ring)
        self._check_epoch(ring, sealed.epoch, now)
        proof = open_proof(sealed, received.proof, ring) if is_checked else None
        shown = None if proof is None else new_proof(proof.request, proof.certificates)
        return (ring if is_checked else None), shown

    def _check_epoch(self, ring: KeyRing, epoch: int, now: Instant) -> None:
        """Refuse an epoch that is over, or far ahead; one whose key may be on its way is given time."""
        newest = ring.newest
        if newest is None or not ring.groups(newest):
            return  # not a member at this time
        if epoch > newest + EPOCHS_AHEAD_MAX:
            raise SealTooNew("a sealed interest or offer is of an epoch that is far ahead")
        if epoch >= newest:
            return
        late, latest = self.ends_of_patience(ring, now)
        # Whoever was put out of the group holds the old keys, and is not to want anything by them for ever.
        if now >= (latest if ring.knows_epoch(epoch) else late):
            raise Refusal("REFUSED-SEAL-OUTDATED", "a sealed interest or offer is of an epoch that is over")

    def ends_of_patience(self, ring: KeyRing, now: Instant) -> tuple[Instant, Instant]:
        """Return until when earlier epochs count: those that cannot be opened here, and those that can."""
        since, lease_s = self.sealed.changed_at.get(ring.type_id, now), self.own.settings.lease_s
        return seconds_after(since, lease_s), seconds_after(since, max(lease_s, ring.terms.drift_s))

    def _type_behind(self, key: TypeId) -> bytes:
        return self.blinded.type_of(type_of_book_key(key))

    # ------------------------------------------------------------ what neighbours say

    def receive_interest(self, link: Link, message: Interest, turn: Turn) -> None:
        """Take note of what is wanted behind a neighbour."""
        neighbour, key, now, book = self.routes.neighbour_on(link.id), message.key, turn.now, self.routes.book
        self.routes.mark_changed(now)
        newest: dict[bytes, RouteEntry | None] = {}
        replaced: list[bytes] = []
        budget = self.authoriser.budget_of_message()
        for wanted in message.add:
            spend_on(budget, price_of_wanted(wanted))
            entry, before = entry_of(key, wanted), book.entry(neighbour.node, key, wanted.id)
            neighbour.forget_change(key, entry.id)
            try:
                newest[entry.id] = known = self.understood(
                    key, entry, now, budget, is_released=link.id in self.routes.borders
                )
            except MaiaError as problem:
                # Sent again without proof, an entry does not keep the proof that it had before.
                newest[entry.id] = None
                self._refuse(neighbour, key, entry, problem, turn)
                continue
            self.statements.dependencies.note(link.id, _received(known).watched)
            if before is not None and _received(before).basis != _received(known).basis:
                replaced.append(entry.id)
            if known.predicate is not entry.predicate and (after := _mark(key, known)) != _mark(key, entry):
                neighbour.remember_change(key, entry.id, before=_mark(key, entry), after=after)
                turn.count("maia_interests_narrowed_total")
        for entry_id in message.remove:
            neighbour.forget_change(key, entry_id)
        refused = [entry_id for entry_id, entry in newest.items() if entry is None]
        _send_doubts(link.id, key, refused, turn)
        add = [entry for entry in newest.values() if entry is not None]
        updates = book.receive_interest(neighbour.node, key, add, [*message.remove, *refused], now)
        for entry_id in replaced:
            updates += book.send_one_again(neighbour.node, key, entry_id)
        self.outbox.route_messages(updates, turn)

    def receive_offer(self, link: Link, message: Offer, turn: Turn) -> None:
        """Take note of whether a neighbour's side publishes a type."""
        neighbour, key, now, book = self.routes.neighbour_on(link.id), message.key, turn.now, self.routes.book
        self.routes.mark_changed(now)
        neighbour.forget_change(key, _OFFER)
        if not message.stands:
            if book.offers(neighbour.node, key):
                self.sources.let_arrive(neighbour, key, now)
            gone = book.receive_offer(neighbour.node, key, stands=False, baggage=None, now=now)
            self.outbox.route_messages(gone, turn)
            return
        received = received_of(key, message.proof, message.credentials)
        try:
            received = self._understood_offer(key, received, now)
        except MaiaError as problem:
            self._refuse_offer(neighbour, key, received, problem, turn)
            return
        self.statements.dependencies.note(link.id, received.watched)
        self.routes.sources.put((key, neighbour.node), None)
        updates = book.receive_offer(
            neighbour.node,
            key,
            stands=True,
            baggage=received,
            now=now,
            advertisement=received.name,
            size=received.size,
        )
        self.outbox.route_messages(updates, turn)

    def _refuse(
        self,
        neighbour: Neighbour,
        key: TypeId,
        said: RouteEntry | Received,
        problem: MaiaError,
        turn: Turn,
        sent: int | None = None,
    ) -> None:
        """Leave an interest or the offer out of what is compared with a neighbour: it is there, not here.

        The neighbour is asked to send it again when a certificate that was refused now counts. `sent` is the
        mark of what it sent, if that was not the entry as it is.
        """
        if isinstance(said, RouteEntry):
            asked, action, entry_id, received = "Interest", Action.SUBSCRIBE, said.id, _received(said)
            sent = _mark(key, said) if sent is None else sent
        else:
            asked, action, entry_id, received, sent = (
                "Offer",
                Action.PUBLISH,
                _OFFER,
                said,
                mark_of_offer(key),
            )
        neighbour.forget_change(key, entry_id)
        neighbour.remember_change(key, entry_id, before=sent, after=None)
        with suppress(MaiaError):  # what is wrong with it may be that it does not open
            _, proof = self._opened(key, received, turn.now)
            if proof is not None:
                self.proofs.remember_refusal(neighbour, self._type_behind(key), proof, action, turn.now)
        turn.refused(problem, self.links[neighbour.link].peer, link=neighbour.link, asked=asked)

    def _refuse_offer(
        self, neighbour: Neighbour, key: TypeId, received: Received, problem: MaiaError, turn: Turn
    ) -> None:
        """Remove a neighbour's offer, whatever it was accepted for before."""
        gone = self.routes.book.receive_offer(neighbour.node, key, stands=False, baggage=None, now=turn.now)
        offer_refused(neighbour, key)
        self._refuse(neighbour, key, received, problem, turn)
        self.outbox.route_messages(gone, turn)
        if isinstance(received, SealedClaim):
            _send_doubts(neighbour.link, key, [received.sealed.id], turn)

    def receive_renew(self, link: Link, message: Renew, turn: Turn) -> None:
        """Compare a neighbour's book with ours, leaving out what was narrowed or refused here."""
        neighbour = self.routes.neighbour_on(link.id)
        entries, digest = message.entries, message.digest
        if neighbour.changed:
            total = (int.from_bytes(digest, "big") - neighbour.difference.total) % (1 << 256)
            entries, digest = entries - neighbour.difference.count, total.to_bytes(32, "big")
        updates = self.routes.book.receive_renewal(neighbour.node, entries, digest, turn.now)
        self.outbox.route_messages(updates, turn)

    def receive_resync(self, link: Link, _message: Resync, turn: Turn) -> None:
        """Send a neighbour everything again."""
        node = self.routes.neighbour_on(link.id).node
        self.routes.is_changed = True  # what it asks for too soon is sent a little later
        self.outbox.route_messages(self.routes.book.receive_resync(node, turn.now), turn)

    # ------------------------------------------------------------ certificates and keys that count no more

    def doubt_entries(self, link: Link, certificates: Collection[bytes], turn: Turn) -> None:
        """Doubt entries of a neighbour that depend on one of these certificates, and no others.

        Another client behind it may want the same. The neighbour receives the revocation
        too, and shows another proof within a moment if it has one.
        """
        neighbour = self.routes.neighbour_on(link.id)
        book, node = self.routes.book, neighbour.node
        # One offer is for all publishers behind a neighbour. It receives statements on what demands a test,
        # and then offers on behalf of another; on what demands none it may have received nothing.
        tested = self.statements.certificates.keys() & set(certificates)
        soon = seconds_after(turn.now, _DOUBT_S)
        neighbour.parting = {kind: min(until, soon) for kind, until in neighbour.parting.items()}
        for key in book.types():
            for entry in book.entries(node, key):
                if isinstance(entry.baggage, Received) and not entry.baggage.watched.isdisjoint(certificates):
                    neighbour.doubtful[key, entry.id] = None
            offer = book.offer(node, key)
            if isinstance(offer, Received) and not offer.watched.isdisjoint(tested):
                neighbour.doubtful[key, _OFFER] = None
                if isinstance(offer, SealedClaim):  # it may not be able to know
                    _send_doubts(link.id, key, [offer.sealed.id], turn)
        if neighbour.doubtful and neighbour.doubt_ends is None:
            neighbour.doubt_ends = soon
            self.timers.add(Statements(), soon)
        if not neighbour.refused_on.isdisjoint(certificates):
            neighbour.refused_on.clear()  # what was refused may count again
            neighbour.refused_bytes = 0
            turn.send(link.id, Resync())

    def verify_doubted(self, turn: Turn) -> None:
        """Verify again what was doubted for long enough, by the proof that is registered now."""
        for neighbour in list(self.routes.neighbours.values()):
            if neighbour.doubt_ends is None or turn.now < neighbour.doubt_ends:
                continue
            doubtful, neighbour.doubtful, neighbour.doubt_ends = neighbour.doubtful, {}, None
            for key, entry_id in doubtful:
                self.look_again(neighbour, key, entry_id, turn)

    def refuse_stale(self, turn: Turn) -> None:
        """Refuse what neighbours want and offer by requests that no client has signed again in time (C15).

        What a border has proved for some hours is looked at again after them.
        """
        routes, book, now = self.routes, self.routes.book, turn.now
        if routes.stale_at is None or now <= routes.stale_at:
            return
        routes.stale_at = None
        self.proofs.forget_stale(now)
        for neighbour in list(routes.neighbours.values()):
            for key in book.types():
                proofs = {entry.id: entry.baggage for entry in book.entries(neighbour.node, key)}
                proofs[_OFFER] = book.offer(neighbour.node, key)
                for entry_id, received in proofs.items():
                    if not isinstance(received, Received) or received.signed_at is None:
                        continue
                    stale_at = self.proofs.stale_at(received.signed_at)
                    if isinstance(received, Proof) and received.until is not None:
                        stale_at = min(stale_at, received.until)
                    if now > stale_at:
                        self.look_again(neighbour, key, entry_id, turn)
                    else:
                        routes.look_for_stale(stale_at)

    def look_again(self, neighbour: Neighbour, key: TypeId, entry_id: bytes, turn: Turn) -> None:
        """Keep what a neighbour wants or offers as far as keys and proof go now."""
        book, node = self.routes.book, neighbour.node
        if entry_id == _OFFER:
            offer = book.offer(node, key)
            if isinstance(offer, Received):
                try:
                    self._understood_offer(key, offer, turn.now)
                except MaiaError as problem:
                    self._refuse_offer(neighbour, key, offer, problem, turn)
            return
        entry = book.entry(node, key, entry_id)
        if entry is None or not isinstance(entry.baggage, Received):
            return
        change = neighbour.changed.get((key, entry_id))
        # As it was sent, which may be more than what was accepted of it.
        sent = _mark(key, entry) if change is None else change[0]
        try:
            is_released = neighbour.link in self.routes.borders
            known = self.understood(key, entry, turn.now, is_released=is_released)
        except MaiaError as problem:
            self._refuse(neighbour, key, entry, problem, turn, sent)
            self.outbox.route_messages(book.understood_anew(node, key, (), [entry_id]), turn)
            _send_doubts(neighbour.link, key, [entry_id], turn)
            return
        neighbour.forget_change(key, entry_id)
        if (after := _mark(key, known)) != sent:
            neighbour.remember_change(key, entry_id, before=sent, after=after)
        self.statements.dependencies.note(neighbour.link, _received(known).watched)
        self.outbox.route_messages(book.understood_anew(node, key, [known], ()), turn)

    def receive_doubted(self, _link: Link, message: SealedDoubted, turn: Turn) -> None:
        """Let what a broker refused which could read more of it cover nothing else; pass that on.

        A broker that doubts without reason is sent more, and nothing is taken away.
        """
        book, key, doubted = self.routes.book, book_key_of_sealed(message.type_id), self.sealed.doubted
        for sent_as in message.ids:
            hop, entry = book.source_of(key, sent_as) or (LOCAL, None)
            if isinstance(entry, SealedEntry) and entry.digest not in doubted:
                doubted[entry.digest] = None
                if len(doubted) > DOUBTED_MAX:
                    del doubted[next(iter(doubted))]
                alone = replace(entry, marks=entry.marks | {entry.digest})
                is_own = hop == LOCAL
                updates = (
                    book.local_entry(key, alone) if is_own else book.understood_anew(hop, key, [alone], ())
                )
                self.outbox.route_messages(updates, turn)
                if (link := self.routes.link_to(hop)) is not None:
                    _send_doubts(link, key, [entry.id], turn)
            source, updates = book.set_offer_aside(key, sent_as)
            self.outbox.route_messages(updates, turn)
            if source is not None and (link := self.routes.link_to(source)) is not None:
                _send_doubts(link, key, [sent_as], turn)


def _received(entry: RouteEntry) -> Received:
    assert isinstance(entry.baggage, Received)  # noqa: S101 - made by `entry_of`
    return entry.baggage


def _mark(key: TypeId, entry: RouteEntry) -> int:
    """Return what an entry adds to the digest that both ends of its link compare."""
    digest = entry.digest if isinstance(entry, SealedEntry) else digest_of_meaning(entry)
    return mark_of_interest(key, entry.id, digest)


# ------------------------------------------------------------ what a broker with more keys refuses


def _send_doubts(link: LinkId, key: TypeId, refused: list[bytes], turn: Turn) -> None:
    """Send a neighbour which of its sealed entries are refused here, and must not cover what would not be."""
    if refused and is_of_sealed(key):
        turn.send(link, SealedDoubted(type_of_book_key(key), refused))
