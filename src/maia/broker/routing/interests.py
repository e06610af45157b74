"""What is sent to other brokers, and what follows from what they send?

Groups of local subscribers and local advertisements enter the routing table;
its changes leave as messages. What neighbours send enters
the table behind their own name only, verified as often as this broker is
configured to (C9).

What does a recording broker want for its own log, and may it?

It wants everything of the types that it records, under its own right to
subscribe, and proves that to other brokers as any client's broker does. A
type for which it has no right is recorded as far as its frames pass by.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from hashlib import sha256

from maia.broker.access.authorisation import Authorisation
from maia.broker.durable.recording import OWN_LINK, Recording
from maia.broker.publication.expected_sources import let_arrive
from maia.broker.publication.projection import offer_of
from maia.broker.refusals import PlainOfSealed
from maia.broker.routing.aggregation import announce, prove_again, withdraw
from maia.broker.routing.outbox import NO_PROOF, Proof, entry_of, new_proof, route_messages, size_of_wanted
from maia.broker.routing.proofs import (
    is_to_be_verified,
    prove_offer,
    proved_filter,
    remember_refusal,
    spend_on,
)
from maia.broker.routing.routes import Neighbour
from maia.broker.sealed.entries import ReceivedInterest, ReceivedOffer
from maia.broker.sealed.interests import doubts, recheck_sealed_offer
from maia.broker.sealed.rekeying import offer_sealed, place_sealed, take_back_sealed, unoffer_sealed
from maia.broker.sessions.links import Advertisement, Link, Subscription
from maia.broker.state import BrokerState, seconds_after
from maia.broker.subscriptions.local_subscribers import CLASS_KEY_BYTES, SubscriberGroup, class_key
from maia.broker.timers import Statements
from maia.broker.turn import Turn
from maia.credentials import Action, Budget
from maia.errors import MaiaError
from maia.events import INSTANT_MAX, Instant
from maia.policy import PolicyRefusal, Request
from maia.predicates import ALWAYS
from maia.routing.table.hops import LOCAL, RouteEntry, book_key_of_sealed, type_of_book_key
from maia.routing.table.interests import digest_of_filter, mark_of_interest, mark_of_offer
from maia.wire.messages import Interest, Offer, Renew, Resync, Wanted
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request, without_filter

_OFFER = b"offer"
_DOUBT_S = 2.0
"""How long a neighbour has to prove an entry otherwise whose certificate counts no more."""


# ------------------------------------------------------------ this broker's clients


def class_joined(state: BrokerState, type_id: bytes, view_class: SubscriberGroup, turn: Turn) -> None:
    """Send others what a new group of subscribers here wants."""
    state.routes.mark_changed(turn.now)
    # One that was there a moment ago goes first: what it wanted was wanted on another's behalf.
    if (type_id, view_class.key) in state.routes.ended:
        withdraw_ended(state, turn)
    if state.types.sealing(type_id) is not None:
        place_sealed(state, type_id, view_class, turn)
    else:
        announce(state, type_id, view_class, turn)


def class_gone(state: BrokerState, type_id: bytes, key: bytes, turn: Turn) -> None:
    """Send others that a group of subscribers is gone."""
    classes_gone(state, type_id, (key,), turn)


def classes_gone(state: BrokerState, type_id: bytes, keys: Collection[bytes], turn: Turn) -> None:
    """Send others that groups of subscribers are gone: what takes their place, and what goes, at once."""
    state.routes.mark_changed(turn.now)
    state.retained.incomplete(type_id)
    withdraw(state, type_id, keys, turn)
    for key in keys if state.sealed.placed else ():
        take_back_sealed(state, type_id, key, turn)


def withdraw_ended(state: BrokerState, turn: Turn) -> None:
    """Send others what is not wanted any more, all of it together, and what is wanted on another's behalf."""
    ended, state.routes.ended = state.routes.ended, {}
    gone: dict[bytes, list[bytes]] = {}
    for (type_id, key), is_gone in ended.items():
        if is_gone:
            gone.setdefault(type_id, []).append(key)
    for type_id, keys in gone.items():
        classes_gone(state, type_id, keys, turn)
    for (type_id, key), is_gone in ended.items():
        audience = state.audiences.get(type_id)
        if not is_gone and audience is not None and key in audience.classes:
            send_proof_again(state, type_id, key, turn)


def send_proof_again(state: BrokerState, type_id: bytes, key: bytes, turn: Turn) -> None:
    """Send others on whose behalf the same is wanted now: they may have accepted it for another's sake."""
    state.routes.mark_changed(turn.now)
    prove_again(state, type_id, key, turn)
    for name in state.blinded.ids(type_id):
        placed = state.sealed.placed.get((name, key))
        if placed is not None:
            again = state.routes.book.send_one_again(LOCAL, book_key_of_sealed(name), placed.entry_id)
            route_messages(state, again, turn)


def advertised(state: BrokerState, entry: Advertisement, turn: Turn) -> None:
    """Send others that a type is published here, and its super-types."""
    state.routes.mark_changed(turn.now)
    for type_id in entry.type_ids:
        state.log_requests.note_published(type_id)
        if state.types.sealing(type_id) is not None:
            offer_sealed(state, type_id, entry, turn)
        else:
            advertisement, baggage = (entry.link, entry.ref), offer_of(state, type_id, entry)
            updates = state.routes.book.local_advertise(type_id, advertisement, baggage)
            route_messages(state, updates, turn)


def unadvertised(state: BrokerState, entry: Advertisement, turn: Turn) -> None:
    """Tell neighbours that a publisher here has ended, for its type and the super-types."""
    for type_id in entry.type_ids:
        unadvertised_as(state, type_id, entry, turn)


def unadvertised_as(state: BrokerState, type_id: bytes, entry: Advertisement, turn: Turn) -> None:
    """Tell neighbours that an advertisement has ended for one of its types."""
    state.routes.mark_changed(turn.now)
    route_messages(state, state.routes.book.local_unadvertise(type_id, (entry.link, entry.ref)), turn)
    unoffer_sealed(state, type_id, entry, turn)


# ------------------------------------------------------------ what neighbours say


def receive_interest(state: BrokerState, link: Link, message: Interest, turn: Turn) -> None:
    """Take note of what is wanted behind a neighbour."""
    neighbour = state.routes.neighbour_on(link.id)
    state.routes.mark_changed(turn.now)
    newest: dict[bytes, RouteEntry | None] = {}
    replaced: list[bytes] = []
    budget = state.authoriser.budget_of_message()
    for wanted in message.add:
        spend_on(budget, size_of_wanted(wanted))
        known = state.routes.book.entry(neighbour.node, message.type_id, wanted.id)
        before = None if known is None else known.baggage
        if isinstance(before, Proof) and before.credentials != tuple(wanted.credentials):
            replaced.append(wanted.id)  # on behalf of another client than before: others have to know
        newest[wanted.id] = _checked(state, link, neighbour, message.type_id, wanted, turn, budget)
    for entry_id in message.remove:
        neighbour.forget_change(message.type_id, entry_id)
    add = [entry for entry in newest.values() if entry is not None]
    # Sent again without proof, an entry does not keep the proof that it had before.
    refused = [entry_id for entry_id, entry in newest.items() if entry is None]
    remove = [*message.remove, *refused]
    book = state.routes.book
    updates = book.receive_interest(neighbour.node, message.type_id, add, remove, turn.now)
    for entry_id in replaced:
        updates += book.send_one_again(neighbour.node, message.type_id, entry_id)
    route_messages(state, updates, turn)


def receive_offer(state: BrokerState, link: Link, message: Offer, turn: Turn) -> None:
    """Take note of whether a neighbour's side publishes a type."""
    now, neighbour = turn.now, state.routes.neighbour_on(link.id)
    state.routes.mark_changed(now)
    neighbour.forget_change(message.type_id, _OFFER)
    proof = new_proof(message.proof, message.credentials)
    if message.stands:
        try:
            _check_plain(state, message.type_id)
            if is_to_be_verified(state):
                proof = _resting_on(state, link, proof, prove_offer(state, message.type_id, proof, now))
        except MaiaError as problem:
            _offer_refused(state, link, neighbour, message.type_id, proof, problem, turn)
            return
    elif state.routes.book.offers(neighbour.node, message.type_id):
        let_arrive(neighbour, message.type_id, now)
    # Under the name of its proof: an offer with another proof than before is passed on again.
    updates = state.routes.book.receive_offer(
        neighbour.node,
        message.type_id,
        stands=message.stands,
        baggage=proof,
        now=now,
        advertisement=(proof.request, proof.credentials),
        size=proof.size,
    )
    route_messages(state, updates, turn)


def _resting_on(state: BrokerState, link: Link, proof: Proof, watched: frozenset[bytes]) -> Proof:
    state.statements.dependencies.note(link.id, watched)
    return replace(proof, watched=watched)


def _offer_refused(
    state: BrokerState,
    link: Link,
    neighbour: Neighbour,
    type_id: bytes,
    proof: Proof,
    problem: MaiaError,
    turn: Turn,
) -> None:
    """Remove a neighbour's offer, whatever it was accepted for before."""
    gone = state.routes.book.receive_offer(neighbour.node, type_id, stands=False, baggage=None, now=turn.now)
    neighbour.parting.pop(type_id, None)
    neighbour.forget_change(type_id, _OFFER)
    neighbour.remember_change(type_id, _OFFER, before=mark_of_offer(type_id), after=None)
    remember_refusal(state, neighbour, type_id, proof, Action.PUBLISH, turn.now)
    route_messages(state, gone, turn)
    turn.refused(problem, link.peer, link=link.id, asked="Offer")


def receive_renew(state: BrokerState, link: Link, message: Renew, turn: Turn) -> None:
    """Compare a neighbour's book with ours, leaving out what was narrowed or refused here."""
    neighbour = state.routes.neighbour_on(link.id)
    entries, digest = message.entries, message.digest
    if neighbour.changed:
        total = (int.from_bytes(digest, "big") - neighbour.difference.total) % (1 << 256)
        entries, digest = entries - neighbour.difference.count, total.to_bytes(32, "big")
    updates = state.routes.book.receive_renewal(neighbour.node, entries, digest, turn.now)
    route_messages(state, updates, turn)


def receive_resync(state: BrokerState, link: Link, _message: Resync, turn: Turn) -> None:
    """Send a neighbour everything again."""
    node = state.routes.neighbour_on(link.id).node
    route_messages(state, state.routes.book.receive_resync(node, turn.now), turn)


# ------------------------------------------------------------ proofs


def _checked(
    state: BrokerState,
    link: Link,
    neighbour: Neighbour,
    type_id: bytes,
    wanted: Wanted,
    turn: Turn,
    budget: Budget,
) -> RouteEntry | None:
    """Return an entry as far as it is proved; None, and a note in the log, for one that is not."""
    entry = entry_of(wanted)
    neighbour.forget_change(type_id, entry.id)
    if state.types.sealing(type_id) is None and not is_to_be_verified(state):
        return entry
    before = mark_of_interest(type_id, entry.id, digest_of_filter(entry.predicate))
    proof = entry.baggage if isinstance(entry.baggage, Proof) else NO_PROOF
    try:
        _check_plain(state, type_id)
        proved = proved_filter(state, type_id, proof, entry.predicate, turn.now, budget)
    except MaiaError as problem:
        neighbour.remember_change(type_id, entry.id, before=before, after=None)
        remember_refusal(state, neighbour, type_id, proof, Action.SUBSCRIBE, turn.now)
        turn.refused(problem, link.peer, link=link.id, asked="Interest")
        return None
    state.statements.dependencies.note(link.id, proved.watched)
    resting = replace(entry, predicate=proved.filter, baggage=replace(proof, watched=proved.watched))
    if proved.filter is not entry.predicate:
        after = mark_of_interest(type_id, entry.id, digest_of_filter(proved.filter))
        neighbour.remember_change(type_id, entry.id, before=before, after=after)
        turn.count("maia_interests_narrowed_total")
    return resting


# ------------------------------------------------------------ certificates that count no more


def doubt_entries(state: BrokerState, link: Link, certificates: Collection[bytes], turn: Turn) -> None:
    """Doubt entries of a neighbour that depend on one of these certificates, and no others.

    Another client behind it may want the same. The neighbour receives the revocation
    too, and shows another proof within a moment if it has one.
    """
    neighbour = state.routes.neighbour_on(link.id)
    book, node = state.routes.book, neighbour.node
    # One offer is for all publishers behind a neighbour. It receives statements on what demands a test,
    # and then offers on behalf of another; on what demands none it may have received nothing.
    tested = state.statements.certificates.keys() & set(certificates)
    soon = seconds_after(turn.now, _DOUBT_S)
    neighbour.parting = {kind: min(until, soon) for kind, until in neighbour.parting.items()}
    for key in book.types():
        for entry in book.entries(node, key):
            baggage = entry.baggage
            if isinstance(baggage, Proof | ReceivedInterest) and not baggage.watched.isdisjoint(certificates):
                neighbour.doubtful[key, entry.id] = None
        offer = book.offer(node, key)
        if isinstance(offer, Proof | ReceivedOffer) and not offer.watched.isdisjoint(tested):
            neighbour.doubtful[key, _OFFER] = None
            if isinstance(offer, ReceivedOffer):  # it may not be able to know
                doubts(link.id, type_of_book_key(key), [offer.offer.id], turn)
    if neighbour.doubtful and neighbour.doubt_ends is None:
        neighbour.doubt_ends = soon
        state.timers.add(Statements(), soon)
    if not neighbour.refused_on.isdisjoint(certificates):
        neighbour.refused_on.clear()  # what was refused may count again
        neighbour.refused_bytes = 0
        turn.send(link.id, Resync())


def verify_doubted(state: BrokerState, turn: Turn) -> None:
    """Verify again what was doubted for long enough, by the proof that is registered now."""
    for neighbour in list(state.routes.neighbours.values()):
        if neighbour.doubt_ends is None or turn.now < neighbour.doubt_ends:
            continue
        doubtful, neighbour.doubtful, neighbour.doubt_ends = neighbour.doubtful, {}, None
        for key, entry_id in doubtful:
            if entry_id == _OFFER:
                _offer_looked_at_again(state, neighbour, key, turn)
                continue
            entry = state.routes.book.entry(neighbour.node, key, entry_id)
            if entry is not None and isinstance(entry.baggage, Proof):
                _looked_at_again(state, state.links[neighbour.link], neighbour, key, entry, turn)
            elif entry is not None:
                state.sealed.to_do[type_of_book_key(key), neighbour.node, entry_id] = None
                state.routes.schedule_rekeying(turn.now)


def _offer_looked_at_again(state: BrokerState, neighbour: Neighbour, type_id: bytes, turn: Turn) -> None:
    """Keep an offer only by a proof that holds: another publisher behind the neighbour may have one."""
    proof, link = state.routes.book.offer(neighbour.node, type_id), state.links[neighbour.link]
    if isinstance(proof, ReceivedOffer):
        recheck_sealed_offer(state, link, proof, turn)
    elif isinstance(proof, Proof):
        try:
            _resting_on(state, link, proof, prove_offer(state, type_id, proof, turn.now))
        except MaiaError as problem:
            _offer_refused(state, link, neighbour, type_id, proof, problem, turn)


def _looked_at_again(
    state: BrokerState, link: Link, neighbour: Neighbour, type_id: bytes, entry: RouteEntry, turn: Turn
) -> None:
    assert isinstance(entry.baggage, Proof)  # noqa: S101 - asked before
    proof = entry.baggage
    change = neighbour.changed.get((type_id, entry.id))
    # As it was sent, which may be more than what was accepted of it.
    believed = mark_of_interest(type_id, entry.id, digest_of_filter(entry.predicate))
    before = believed if change is None else change[0]
    neighbour.forget_change(type_id, entry.id)
    book = state.routes.book
    try:
        proved = proved_filter(state, type_id, proof, entry.predicate, turn.now)
    except MaiaError as problem:
        neighbour.remember_change(type_id, entry.id, before=before, after=None)
        remember_refusal(state, neighbour, type_id, proof, Action.SUBSCRIBE, turn.now)
        route_messages(state, book.understood_anew(neighbour.node, type_id, (), [entry.id]), turn)
        turn.refused(problem, link.peer, link=link.id, asked="Interest")
        return
    after = mark_of_interest(type_id, entry.id, digest_of_filter(proved.filter))
    if after != before:
        neighbour.remember_change(type_id, entry.id, before=before, after=after)
    state.statements.dependencies.note(link.id, proved.watched)
    narrowed = replace(entry, predicate=proved.filter, baggage=replace(proof, watched=proved.watched))
    route_messages(state, book.understood_anew(neighbour.node, type_id, [narrowed], ()), turn)


def _check_plain(state: BrokerState, type_id: bytes) -> None:
    """Refuse what is said in the open of a type that is known to be sealed (A29)."""
    if state.types.sealing(type_id) is not None:
        raise PlainOfSealed("the owner of this type wants it sealed")


def kept_class(view_class: bytes) -> bytes:
    """Return the key of a class whose members are served from the log, beside the one served at once."""
    return sha256(b"maia/1/kept-class\x00" + view_class).digest()[:CLASS_KEY_BYTES]


def recheck_own_interests(state: BrokerState, turn: Turn) -> None:
    """Ask again about each type: a right may have begun, ended or changed."""
    if state.recording is None:
        return
    for type_id in state.types.type_ids():
        want_to_record(state, type_id, turn)


def redecide_own_interests(state: BrokerState, certificates: Collection[bytes], turn: Turn) -> None:
    """Decide again what this broker wants by one of these certificates, or would if it counted."""
    own = {signed.id for signed in state.settings.credentials}
    if state.recording is None or own.isdisjoint(certificates):
        return
    for type_id in state.types.type_ids():
        want_to_record(state, type_id, turn, is_touched=True)


def want_to_record(state: BrokerState, type_id: bytes, turn: Turn, *, is_touched: bool = False) -> None:
    """Want all that this broker may see of a type, from now on, if it records the type."""
    log = state.recording
    versions = state.types.versions(type_id)
    if log is None or not versions or not log.records(type_id):
        return
    own = log.link.subscriptions.values()
    before = next((one for one in own if one.right.event_type.type_id == type_id), None)
    if before is not None and not is_touched and state.authoriser.holds(before.right, turn.now):
        return
    version = versions[-1]
    request = Request(state.principal, Action.SUBSCRIBE, version.name, version, ALWAYS)
    try:
        right = state.authoriser.decide(request, state.settings.credentials, turn.now)
    except PolicyRefusal as problem:
        if before is not None:
            _taken_back(state, log, before, turn)
            turn.note("recording-only-what-passes", type=type_id.hex(), code=problem.code)
        return
    _placed(state, log, right, before, turn)


def _placed(
    state: BrokerState, log: Recording, right: Authorisation, before: Subscription | None, turn: Turn
) -> None:
    version = right.event_type
    ref = before.ref if before is not None else len(log.link.subscriptions) + 1
    key = kept_class(class_key(right.view, version))
    asked = EdgeRequest(
        Action.SUBSCRIBE,
        state.settings.network,
        version.name,
        ALWAYS,
        state.random(16),
        turn.now,
        state.random(16),
    )
    proof = request_to_bytes(sign_request(asked, state.key))
    entry = Subscription(
        ref, OWN_LINK, right.basis, right.filter, key, Instant(INSTANT_MAX), *without_filter(proof, ALWAYS)
    )
    log.link.subscriptions[ref] = entry
    if before is None:
        log.look_for(version.type_id)
    if before is not None and before.view_class == key:
        return
    audience = state.audience(version.type_id)
    if audience.join(key, right.view, version, (OWN_LINK, ref), is_kept=True):
        class_joined(state, version.type_id, audience.classes[key], turn)
    if before is not None and audience.leave(before.view_class, (OWN_LINK, ref)):
        class_gone(state, version.type_id, before.view_class, turn)
    turn.note("recording", type=version.type_id.hex(), name=version.name.name)


def _taken_back(state: BrokerState, log: Recording, entry: Subscription, turn: Turn) -> None:
    del log.link.subscriptions[entry.ref]
    type_id = entry.right.event_type.type_id
    audience = state.audiences[type_id]
    is_gone = audience.leave(entry.view_class, (OWN_LINK, entry.ref))
    if not audience.classes:
        del state.audiences[type_id]
    if is_gone:
        class_gone(state, type_id, entry.view_class, turn)
