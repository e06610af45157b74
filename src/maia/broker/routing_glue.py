"""What is said to other brokers, and what follows from what they say?

Local classes of subscribers and local advertisements enter the routing book;
whatever the book wants told leaves as messages. What neighbours say enters
the book behind their own name only, verified as often as this broker is
configured to (C9).
"""

from __future__ import annotations

from collections.abc import Iterable

from maia.broker.audience import ViewClass
from maia.broker.edge import refusal_effects
from maia.broker.proofs import is_to_be_verified, prove_offer, proved_filter
from maia.broker.routes import Neighbour
from maia.broker.sessions import Advertisement, Link, Subscription
from maia.broker.state import BrokerState
from maia.broker.tells import NO_PROOF, Proof, entry_of, messages_of
from maia.broker.transit import Transit
from maia.credentials import certificate_to_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.predicates import ALWAYS, Predicate
from maia.routing.digests import digest_of_filter, mark_of_interest, mark_of_offer
from maia.routing.hops import LOCAL, Entry, Tell, TellRenew
from maia.wire.codec import encode, encode_known
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.filters import FilterTooLong, filter_to_bytes
from maia.wire.messages import Interest, Offer, Renew, Resync, Wanted

__all__ = [
    "advertised",
    "class_gone",
    "class_joined",
    "forward",
    "hear_interest",
    "hear_offer",
    "hear_renew",
    "hear_resync",
    "proof_of",
    "told",
    "unadvertised",
]

_ID_BYTES = 16
_OFFER = b"offer"


# ------------------------------------------------------------ this broker's clients


def class_joined(state: BrokerState, type_id: bytes, view_class: ViewClass, now: Instant) -> list[Effect]:
    """Tell others that somebody here wants something new."""
    state.routes.stir(now)
    entry_id, wanted = view_class.key[:_ID_BYTES], _tellable(view_class.routed)
    return told(state, state.routes.book.local_subscribe(type_id, entry_id, wanted, view_class))


def _tellable(wanted: Predicate) -> Predicate:
    """Return a filter that fits into a message: one that is too long asks others for everything."""
    try:
        filter_to_bytes(wanted)
    except FilterTooLong:
        return ALWAYS
    return wanted


def class_gone(state: BrokerState, type_id: bytes, key: bytes, now: Instant) -> list[Effect]:
    """Tell others that nobody here wants this any more."""
    state.routes.stir(now)
    return told(state, state.routes.book.local_unsubscribe(type_id, key[:_ID_BYTES]))


def advertised(state: BrokerState, entry: Advertisement, now: Instant) -> list[Effect]:
    """Tell others that somebody here publishes a type."""
    state.routes.stir(now)
    type_id = entry.right.event_type.type_id
    return told(state, state.routes.book.local_advertise(type_id, (entry.link, entry.ref), entry))


def unadvertised(state: BrokerState, entry: Advertisement, now: Instant) -> list[Effect]:
    """Tell others that somebody here does not publish a type any more."""
    state.routes.stir(now)
    type_id = entry.right.event_type.type_id
    return told(state, state.routes.book.local_unadvertise(type_id, (entry.link, entry.ref)))


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
    add: list[Entry] = []
    for wanted in message.add:
        entry, noted = _checked(state, link, neighbour, message.type_id, wanted, now)
        effects += noted
        add += [] if entry is None else [entry]
    for entry_id in message.remove:
        _forget_change(neighbour, message.type_id, entry_id)
    tells = state.routes.book.heard_interest(neighbour.node, message.type_id, add, message.remove, now)
    return [*effects, *told(state, tells)]


def hear_offer(state: BrokerState, link: Link, message: Offer, now: Instant) -> list[Effect]:
    """Take note of whether a neighbour's side publishes a type."""
    neighbour = _neighbour(state, link)
    state.routes.stir(now)
    _forget_change(neighbour, message.type_id, _OFFER)
    proof = Proof(message.proof, tuple(message.credentials))
    if message.stands and is_to_be_verified(state):
        try:
            prove_offer(state, message.type_id, proof, now)
        except MaiaError as problem:
            _remember_change(neighbour, message.type_id, _OFFER, mark_of_offer(message.type_id), None)
            return refusal_effects(problem, link.peer, link=link.id, asked="Offer")
    tells = state.routes.book.heard_offer(
        neighbour.node, message.type_id, stands=message.stands, baggage=proof, now=now
    )
    return told(state, tells)


def hear_renew(state: BrokerState, link: Link, message: Renew, now: Instant) -> list[Effect]:
    """Compare a neighbour's book with ours, leaving out what was narrowed or refused here."""
    neighbour = _neighbour(state, link)
    entries = message.entries - neighbour.difference.count
    digest = (int.from_bytes(message.digest, "big") - neighbour.difference.total) % (1 << 256)
    tells = state.routes.book.heard_renew(neighbour.node, entries, digest.to_bytes(32, "big"), now)
    return told(state, tells)


def hear_resync(state: BrokerState, link: Link, _message: Resync, now: Instant) -> list[Effect]:
    """Tell a neighbour everything again."""
    return told(state, state.routes.book.heard_resync(_neighbour(state, link).node, now))


# ------------------------------------------------------------ proofs


def _checked(
    state: BrokerState, link: Link, neighbour: Neighbour, type_id: bytes, wanted: Wanted, now: Instant
) -> tuple[Entry | None, list[Effect]]:
    """Return an entry as far as it is proved; None, and a note, for one that is not."""
    entry = entry_of(wanted)
    _forget_change(neighbour, type_id, entry.id)
    if not is_to_be_verified(state):
        return entry, []
    before = mark_of_interest(type_id, entry.id, digest_of_filter(entry.predicate))
    proof = entry.baggage if isinstance(entry.baggage, Proof) else NO_PROOF
    try:
        proved = proved_filter(state, type_id, proof, entry.predicate, now)
    except MaiaError as problem:
        _remember_change(neighbour, type_id, entry.id, before, None)
        return None, refusal_effects(problem, link.peer, link=link.id, asked="Interest")
    if proved is entry.predicate:
        return entry, []
    after = mark_of_interest(type_id, entry.id, digest_of_filter(proved))
    _remember_change(neighbour, type_id, entry.id, before, after)
    return Entry(entry.id, proved, proof), [Count("maia_interests_narrowed_total")]


def _remember_change(
    neighbour: Neighbour, type_id: bytes, entry_id: bytes, before: int, after: int | None
) -> None:
    neighbour.changed[type_id, entry_id] = (before, after)
    neighbour.difference.add(before)
    if after is not None:
        neighbour.difference.subtract(after)


def _forget_change(neighbour: Neighbour, type_id: bytes, entry_id: bytes) -> None:
    change = neighbour.changed.pop((type_id, entry_id), None)
    if change is not None:
        before, after = change
        neighbour.difference.subtract(before)
        if after is not None:
            neighbour.difference.add(after)


def proof_of(state: BrokerState, baggage: object) -> Proof:
    """Return the proof behind an entry: of a local one, the latest request of somebody who stands for it."""
    match baggage:
        case Proof():
            return baggage
        case Advertisement():
            return _proof_of_entry(baggage)
        case ViewClass(members=members) if members:
            link, refs = next(iter(members.items()))
            return _proof_of_entry(state.links[link].subscriptions[refs[0]])
        case _:
            return NO_PROOF


def _proof_of_entry(entry: Subscription | Advertisement) -> Proof:
    return Proof(entry.proof, tuple(certificate_to_bytes(signed) for signed in entry.right.used))


# ------------------------------------------------------------ the way out


def told(state: BrokerState, tells: Iterable[Tell]) -> list[Effect]:
    """Return the messages that say what the book wants said."""
    effects: list[Effect] = []
    renewals: dict[tuple[int, bytes], bytes] = {}
    for tell in tells:
        state.routes.is_stirred = True
        link = state.routes.link_to(tell.hop)
        if link is None:
            continue
        if isinstance(tell, TellRenew):
            # Most neighbours were told the same, so most renewals are the same bytes.
            same = (tell.entries, tell.digest)
            if same not in renewals:
                renewals[same] = encode(Renew(*same))
            effects.append(Send(link, renewals[same]))
            continue
        for message in messages_of(tell, lambda baggage: proof_of(state, baggage)):
            effects.append(Send(link, encode(message)))
    return effects


def _neighbour(state: BrokerState, link: Link) -> Neighbour:
    return state.routes.neighbours[state.routes.node_of[link.id]]
