"""What is said to other brokers, and what follows from what they say?

Local classes of subscribers and local advertisements enter the routing book;
whatever the book wants told leaves as messages. What neighbours say enters
the book behind their own name only, verified as often as this broker is
configured to (C9).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from maia.broker.access.authoriser import refusal_effects
from maia.broker.publication.expected_sources import let_arrive
from maia.broker.publication.transit import Transit
from maia.broker.refusals import PlainOfSealed
from maia.broker.routing.messages import NO_PROOF, Proof, entry_of, new_proof, size_of_wanted
from maia.broker.routing.outbox import route_messages
from maia.broker.routing.proofs import (
    is_to_be_verified,
    prove_offer,
    proved_filter,
    remember_refusal,
    spend_on,
)
from maia.broker.routing.routes import Neighbour
from maia.broker.sealed.interests import doubts
from maia.broker.sealed.offers import look_at_sealed_offer_again
from maia.broker.sealed.rekeyed import offer_sealed, place_sealed, take_back_sealed, unoffer_sealed
from maia.broker.sealed.state import HeardOffer, HeardSealed
from maia.broker.sessions.links import Advertisement, Link
from maia.broker.state import STATEMENTS, BrokerState, Due, seconds_after
from maia.broker.subscriptions.local_subscribers import SubscriberGroup
from maia.credentials import Action, Budget
from maia.errors import MaiaError
from maia.events import Instant
from maia.predicates import ALWAYS, Predicate
from maia.routing.table.digests import digest_of_filter, mark_of_interest, mark_of_offer
from maia.routing.table.hops import LOCAL, RouteEntry, book_key_of_sealed, type_of_book_key
from maia.wire.codec import encode, encode_known
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.filters import FilterTooLong, filter_to_bytes
from maia.wire.messages import Interest, Offer, Renew, Resync, Wanted

__all__ = [
    "advertised",
    "class_gone",
    "class_joined",
    "classes_gone",
    "forward",
    "hear_interest",
    "hear_offer",
    "hear_renew",
    "hear_resync",
    "look_at_doubtful",
    "look_at_told_again",
    "standing_changed",
    "unadvertised",
]

_OFFER = b"offer"
_DOUBT_S = 2.0
"""How long a neighbour is given to prove otherwise what it told by a certificate that counts no more."""


# ------------------------------------------------------------ this broker's clients


def class_joined(
    state: BrokerState, type_id: bytes, view_class: SubscriberGroup, now: Instant
) -> list[Effect]:
    """Tell others that somebody here wants something new."""
    state.routes.stir(now)
    if state.types.sealing(type_id) is not None:
        return place_sealed(state, type_id, view_class)
    wanted = _tellable(view_class.routed)
    return route_messages(
        state, state.routes.book.local_subscribe(type_id, view_class.key, wanted, view_class)
    )


def _tellable(wanted: Predicate) -> Predicate:
    """Return a filter that fits into a message: one that is too long asks others for everything."""
    try:
        filter_to_bytes(wanted)
    except FilterTooLong:
        return ALWAYS
    return wanted


def class_gone(state: BrokerState, type_id: bytes, key: bytes, now: Instant) -> list[Effect]:
    """Tell others that nobody here wants this any more."""
    return classes_gone(state, type_id, (key,), now)


def classes_gone(state: BrokerState, type_id: bytes, keys: Collection[bytes], now: Instant) -> list[Effect]:
    """Tell others that nobody here wants these any more: what takes their place, and what goes, at once."""
    state.routes.stir(now)
    state.last_said.incomplete(type_id)
    gone = state.routes.book.local_unsubscribe(type_id, *keys)
    effects = route_messages(state, gone)
    for key in keys:
        effects += take_back_sealed(state, type_id, key)
    return effects


def standing_changed(state: BrokerState, type_id: bytes, key: bytes, now: Instant) -> list[Effect]:
    """Tell others on whose behalf the same is wanted now: they may have believed it for another's sake."""
    state.routes.stir(now)
    book = state.routes.book
    tells = book.tell_one_again(LOCAL, type_id, key)
    for name in state.blinded.ids(type_id):
        placed = state.sealed.placed.get((name, key))
        if placed is not None:
            tells += book.tell_one_again(LOCAL, book_key_of_sealed(name), placed.entry_id)
    return route_messages(state, tells)


def advertised(state: BrokerState, entry: Advertisement, now: Instant) -> list[Effect]:
    """Tell others that somebody here publishes a type."""
    state.routes.stir(now)
    type_id = entry.right.event_type.type_id
    if state.types.sealing(type_id) is not None:
        return offer_sealed(state, entry)
    return route_messages(state, state.routes.book.local_advertise(type_id, (entry.link, entry.ref), entry))


def unadvertised(state: BrokerState, entry: Advertisement, now: Instant) -> list[Effect]:
    """Tell others that somebody here does not publish a type any more."""
    state.routes.stir(now)
    type_id = entry.right.event_type.type_id
    plain = route_messages(state, state.routes.book.local_unadvertise(type_id, (entry.link, entry.ref)))
    return [*plain, *unoffer_sealed(state, entry)]


# ------------------------------------------------------------ publications


def forward(state: BrokerState, transit: Transit, *, source: LinkId | None) -> list[Effect]:
    """Send each neighbour the rows that are wanted behind it."""
    routes = state.routes
    came_from = LOCAL if source is None else routes.node_of.get(source, LOCAL)
    targets = routes.book.targets_of_frame(transit.type_id, came_from, transit.frame)
    ready: dict[tuple[int, ...], bytes] = {}
    effects: list[Effect] = []
    for node, rows in targets.items():
        link, same = routes.link_to(node), tuple(rows)
        if link is not None:
            if same not in ready:
                ready[same] = encode_known(transit.cut(rows).as_carried())
            effects.append(Send(link, ready[same]))
    return effects


# ------------------------------------------------------------ what neighbours say


def hear_interest(state: BrokerState, link: Link, message: Interest, now: Instant) -> list[Effect]:
    """Take note of what is wanted behind a neighbour."""
    neighbour = _neighbour(state, link)
    state.routes.stir(now)
    effects: list[Effect] = []
    told_last: dict[bytes, RouteEntry | None] = {}
    replaced: list[bytes] = []
    budget = state.authoriser.budget_of_message()
    for wanted in message.add:
        spend_on(budget, size_of_wanted(wanted))
        if _is_proved_otherwise(state, neighbour, message.type_id, wanted):
            replaced.append(wanted.id)
        told_last[wanted.id], noted = _checked(state, link, neighbour, message.type_id, wanted, now, budget)
        effects += noted
    for entry_id in message.remove:
        neighbour.forget_change(message.type_id, entry_id)
    add = [entry for entry in told_last.values() if entry is not None]
    # Told again without proof, an entry does not stand on the proof that it had before.
    refused = [entry_id for entry_id, entry in told_last.items() if entry is None]
    remove = [*message.remove, *refused]
    book = state.routes.book
    tells = book.heard_interest(neighbour.node, message.type_id, add, remove, now)
    for entry_id in replaced:
        tells += book.tell_one_again(neighbour.node, message.type_id, entry_id)
    return [*effects, *route_messages(state, tells)]


def _is_proved_otherwise(state: BrokerState, neighbour: Neighbour, type_id: bytes, wanted: Wanted) -> bool:
    """Say whether an entry is told again on behalf of somebody else than before: others have to know."""
    known = state.routes.book.entry(neighbour.node, type_id, wanted.id)
    baggage = None if known is None else known.baggage
    return isinstance(baggage, Proof) and baggage.credentials != tuple(wanted.credentials)


def hear_offer(state: BrokerState, link: Link, message: Offer, now: Instant) -> list[Effect]:
    """Take note of whether a neighbour's side publishes a type."""
    neighbour = _neighbour(state, link)
    state.routes.stir(now)
    neighbour.forget_change(message.type_id, _OFFER)
    proof = new_proof(message.proof, message.credentials)
    if message.stands:
        try:
            _check_plain(state, message.type_id)
            if is_to_be_verified(state):
                proof = _resting_on(state, link, proof, prove_offer(state, message.type_id, proof, now))
        except MaiaError as problem:
            return _offer_refused(state, link, neighbour, message.type_id, proof, problem, now)
    elif state.routes.book.offers(neighbour.node, message.type_id):
        let_arrive(neighbour, message.type_id, now)
    # Under the name of its proof: an offer that stands for another reason than before is passed on again.
    tells = state.routes.book.heard_offer(
        neighbour.node,
        message.type_id,
        stands=message.stands,
        baggage=proof,
        now=now,
        advertisement=(proof.request, proof.credentials),
        size=proof.size,
    )
    return route_messages(state, tells)


def _resting_on(state: BrokerState, link: Link, proof: Proof, watched: frozenset[bytes]) -> Proof:
    state.statements.reliance.note(link.id, watched)
    return replace(proof, watched=watched)


def _offer_refused(
    state: BrokerState,
    link: Link,
    neighbour: Neighbour,
    type_id: bytes,
    proof: Proof,
    problem: MaiaError,
    now: Instant,
) -> list[Effect]:
    """Let no offer of a neighbour stand, whatever it was believed for before."""
    gone = state.routes.book.heard_offer(neighbour.node, type_id, stands=False, baggage=None, now=now)
    neighbour.parting.pop(type_id, None)
    neighbour.forget_change(type_id, _OFFER)
    neighbour.remember_change(type_id, _OFFER, before=mark_of_offer(type_id), after=None)
    remember_refusal(state, neighbour, type_id, proof, Action.PUBLISH, now)
    return [*route_messages(state, gone), *refusal_effects(problem, link.peer, link=link.id, asked="Offer")]


def hear_renew(state: BrokerState, link: Link, message: Renew, now: Instant) -> list[Effect]:
    """Compare a neighbour's book with ours, leaving out what was narrowed or refused here."""
    neighbour = _neighbour(state, link)
    entries, digest = message.entries, message.digest
    if neighbour.changed:
        total = (int.from_bytes(digest, "big") - neighbour.difference.total) % (1 << 256)
        entries, digest = entries - neighbour.difference.count, total.to_bytes(32, "big")
    tells = state.routes.book.heard_renew(neighbour.node, entries, digest, now)
    return route_messages(state, tells) if tells else []


def hear_resync(state: BrokerState, link: Link, _message: Resync, now: Instant) -> list[Effect]:
    """Tell a neighbour everything again."""
    return route_messages(state, state.routes.book.heard_resync(_neighbour(state, link).node, now))


# ------------------------------------------------------------ proofs


def _checked(
    state: BrokerState,
    link: Link,
    neighbour: Neighbour,
    type_id: bytes,
    wanted: Wanted,
    now: Instant,
    budget: Budget,
) -> tuple[RouteEntry | None, list[Effect]]:
    """Return an entry as far as it is proved; None, and a note, for one that is not."""
    entry = entry_of(wanted)
    neighbour.forget_change(type_id, entry.id)
    if state.types.sealing(type_id) is None and not is_to_be_verified(state):
        return entry, []
    before = mark_of_interest(type_id, entry.id, digest_of_filter(entry.predicate))
    proof = entry.baggage if isinstance(entry.baggage, Proof) else NO_PROOF
    try:
        _check_plain(state, type_id)
        proved = proved_filter(state, type_id, proof, entry.predicate, now, budget)
    except MaiaError as problem:
        neighbour.remember_change(type_id, entry.id, before=before, after=None)
        remember_refusal(state, neighbour, type_id, proof, Action.SUBSCRIBE, now)
        return None, refusal_effects(problem, link.peer, link=link.id, asked="Interest")
    state.statements.reliance.note(link.id, proved.watched)
    resting = replace(entry, predicate=proved.filter, baggage=replace(proof, watched=proved.watched))
    if proved.filter is entry.predicate:
        return resting, []
    after = mark_of_interest(type_id, entry.id, digest_of_filter(proved.filter))
    neighbour.remember_change(type_id, entry.id, before=before, after=after)
    return resting, [Count("maia_interests_narrowed_total")]


# ------------------------------------------------------------ certificates that count no more


def look_at_told_again(
    state: BrokerState, link: Link, certificates: Collection[bytes], now: Instant
) -> list[Effect]:
    """Doubt what a neighbour told that rests on one of these certificates, and nothing else.

    Somebody else behind it may want the same. The neighbour hears of the
    certificate too, and shows another proof within a moment if it has one.
    """
    neighbour = _neighbour(state, link)
    book, node = state.routes.book, neighbour.node
    # One offer stands for all publishers behind a neighbour. It must hear of what demands a test, and then
    # offers on behalf of another; of what demands none it may not have heard.
    tested = state.statements.certificates.keys() & set(certificates)
    soon = seconds_after(now, _DOUBT_S)
    neighbour.parting = {kind: min(until, soon) for kind, until in neighbour.parting.items()}
    effects: list[Effect] = []
    for key in book.types():
        for entry in book.entries(node, key):
            baggage = entry.baggage
            if isinstance(baggage, Proof | HeardSealed) and not baggage.watched.isdisjoint(certificates):
                neighbour.doubtful[key, entry.id] = None
        offer = book.offer(node, key)
        if isinstance(offer, Proof | HeardOffer) and not offer.watched.isdisjoint(tested):
            neighbour.doubtful[key, _OFFER] = None
            if isinstance(offer, HeardOffer):  # it may not be able to know
                effects += doubts(link.id, type_of_book_key(key), [offer.offer.id])
    if neighbour.doubtful and neighbour.doubt_ends is None:
        ends = neighbour.doubt_ends = seconds_after(now, _DOUBT_S)
        state.deadlines.ask(ends, Due(STATEMENTS, None, ends))
    if neighbour.refused_on.isdisjoint(certificates):
        return effects
    neighbour.refused_on.clear()  # what was refused may count again
    neighbour.refused_bytes = 0
    return [*effects, Send(link.id, encode(Resync()))]


def look_at_doubtful(state: BrokerState, now: Instant) -> list[Effect]:
    """Verify again what was doubted for long enough, by the proof that stands there now."""
    effects: list[Effect] = []
    for neighbour in list(state.routes.neighbours.values()):
        if neighbour.doubt_ends is None or now < neighbour.doubt_ends:
            continue
        doubtful, neighbour.doubtful, neighbour.doubt_ends = neighbour.doubtful, {}, None
        for key, entry_id in doubtful:
            if entry_id == _OFFER:
                effects += _offer_looked_at_again(state, neighbour, key, now)
                continue
            entry = state.routes.book.entry(neighbour.node, key, entry_id)
            if entry is not None and isinstance(entry.baggage, Proof):
                link = state.links[neighbour.link]
                effects += _looked_at_again(state, link, neighbour, key, entry, now)
            elif entry is not None:
                state.sealed.to_do[type_of_book_key(key), neighbour.node, entry_id] = None
                state.routes.look_at_sealed(now)
    return effects


def _offer_looked_at_again(
    state: BrokerState, neighbour: Neighbour, type_id: bytes, now: Instant
) -> list[Effect]:
    """Let an offer stand only by a proof that holds: somebody else behind the neighbour may publish too."""
    proof, link = state.routes.book.offer(neighbour.node, type_id), state.links[neighbour.link]
    if isinstance(proof, HeardOffer):
        return look_at_sealed_offer_again(state, link, proof, now)
    if not isinstance(proof, Proof):
        return []
    try:
        _resting_on(state, link, proof, prove_offer(state, type_id, proof, now))
    except MaiaError as problem:
        return _offer_refused(state, link, neighbour, type_id, proof, problem, now)
    return []


def _looked_at_again(
    state: BrokerState, link: Link, neighbour: Neighbour, type_id: bytes, entry: RouteEntry, now: Instant
) -> list[Effect]:
    assert isinstance(entry.baggage, Proof)  # noqa: S101 - asked before
    proof = entry.baggage
    change = neighbour.changed.get((type_id, entry.id))
    # As it was told, which may be more than what was believed of it.
    believed = mark_of_interest(type_id, entry.id, digest_of_filter(entry.predicate))
    before = believed if change is None else change[0]
    neighbour.forget_change(type_id, entry.id)
    book = state.routes.book
    try:
        proved = proved_filter(state, type_id, proof, entry.predicate, now)
    except MaiaError as problem:
        neighbour.remember_change(type_id, entry.id, before=before, after=None)
        remember_refusal(state, neighbour, type_id, proof, Action.SUBSCRIBE, now)
        gone = route_messages(state, book.understood_anew(neighbour.node, type_id, (), [entry.id]))
        return [*gone, *refusal_effects(problem, link.peer, link=link.id, asked="Interest")]
    after = mark_of_interest(type_id, entry.id, digest_of_filter(proved.filter))
    if after != before:
        neighbour.remember_change(type_id, entry.id, before=before, after=after)
    state.statements.reliance.note(link.id, proved.watched)
    narrowed = replace(entry, predicate=proved.filter, baggage=replace(proof, watched=proved.watched))
    return route_messages(state, book.understood_anew(neighbour.node, type_id, [narrowed], ()))


def _check_plain(state: BrokerState, type_id: bytes) -> None:
    """Refuse what is said in the open of a type that is known to be sealed (A29)."""
    if state.types.sealing(type_id) is not None:
        raise PlainOfSealed("the owner of this type wants it sealed")


def _neighbour(state: BrokerState, link: Link) -> Neighbour:
    return state.routes.neighbours[state.routes.node_of[link.id]]
