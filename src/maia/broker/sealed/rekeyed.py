"""What has to be sealed or opened anew, now that the keys of a type have changed?

A class of subscribers of a sealed type is told to others sealed, and nothing
of it is told before there is a key. When an epoch begins, each is sealed
anew: the new one is in the book before the old one leaves it, so that there
is no moment without either. What others told is opened anew as well, as far
as the keys now go. A step does so many of these and asks to be called again.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from maia.broker.routing.outbox import right_behind, route_messages, speaks_of
from maia.broker.sealed.broker_rights import show_rights
from maia.broker.sealed.interests import doubts, ends_of_patience, refuse_entry, understood
from maia.broker.sealed.state import HeardSealed, LocalSealed, Placed, Task
from maia.broker.sessions.links import Advertisement
from maia.broker.state import BrokerState, just_after
from maia.broker.subscriptions.local_subscribers import SubscriberGroup
from maia.errors import MaiaError
from maia.events import Instant
from maia.routing.overlay.ids import NodeId
from maia.routing.table.hops import LOCAL, RouteEntry, SealedEntry, Tell, book_key_of_sealed
from maia.sealing.filters.sealed_filters import seal_filter
from maia.sealing.groups.group_id import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.types import SealingLevel
from maia.wire.effects import Count, Effect

__all__ = [
    "keys_changed",
    "look_at_sealed",
    "offer_sealed",
    "place_sealed",
    "take_back_sealed",
    "unoffer_sealed",
]

TASKS_PER_STEP: Final = 64


# ------------------------------------------------------------ this broker's clients


def place_sealed(state: BrokerState, type_id: bytes, view_class: SubscriberGroup) -> list[Effect]:
    """Put a class of subscribers into the book under every id that the type has at this moment."""
    ids = state.blinded.ids(type_id)
    return [effect for name in ids for effect in _placed_under(state, name, view_class)]


def _placed_under(state: BrokerState, name: bytes, view_class: SubscriberGroup) -> list[Effect]:
    """Put a class of subscribers into the book, sealed with the newest keys; wait if there are none."""
    ring, epoch = state.sealed.ring_of(name), state.sealed.in_use.get(name)
    if ring is None or epoch is None:
        return []
    before = state.sealed.placed.get((name, view_class.key))
    groups = ring.groups(epoch)
    if before is not None and (before.epoch, before.groups) == (epoch, groups):
        return []
    entry = _sealed_entry(state, name, view_class, ring, epoch)
    state.sealed.placed[name, view_class.key] = Placed(entry.id, epoch, groups)
    book, key = state.routes.book, book_key_of_sealed(name)
    tells = book.local_entry(key, entry)
    return route_messages(state, [*tells, *(book.local_unsubscribe(key, before.entry_id) if before else ())])


def take_back_sealed(state: BrokerState, type_id: bytes, class_key: bytes) -> list[Effect]:
    """Take a class of subscribers out of the book, if it is there."""
    ids = state.blinded.ids(type_id)
    return [effect for name in ids for effect in _taken_back_under(state, name, class_key)]


def _taken_back_under(state: BrokerState, name: bytes, class_key: bytes) -> list[Effect]:
    placed = state.sealed.placed.pop((name, class_key), None)
    if placed is None:
        return []
    key = book_key_of_sealed(name)
    return route_messages(state, state.routes.book.local_unsubscribe(key, placed.entry_id))


def offer_sealed(state: BrokerState, entry: Advertisement) -> list[Effect]:
    """Put an advertisement into the book, to be sealed with the newest keys; wait if there are none."""
    book, tells = state.routes.book, list[Tell]()
    for name in state.blinded.ids(entry.right.event_type.type_id):
        epoch = state.sealed.in_use.get(name)
        if epoch is None:
            continue
        offered = state.sealed.offered.setdefault((entry.link, entry.ref), {})
        before, offered[name] = offered.get(name), epoch
        key = book_key_of_sealed(name)
        tells += book.local_advertise(key, (entry.link, entry.ref, epoch), entry)
        if before is not None and before != epoch:
            tells += book.local_unadvertise(key, (entry.link, entry.ref, before))
    return route_messages(state, tells)


def unoffer_sealed(state: BrokerState, entry: Advertisement) -> list[Effect]:
    """Take an advertisement out of the book, if it is there."""
    book, tells = state.routes.book, list[Tell]()
    for name, epoch in state.sealed.offered.pop((entry.link, entry.ref), {}).items():
        tells += book.local_unadvertise(book_key_of_sealed(name), (entry.link, entry.ref, epoch))
    return route_messages(state, tells)


def _retired(state: BrokerState, name: bytes) -> list[Effect]:
    """Ask and offer no more under a blinded id whose epoch is over and forgotten."""
    effects: list[Effect] = []
    for class_key in [one for placed, one in state.sealed.placed if placed == name]:
        effects += _taken_back_under(state, name, class_key)
    for (link, ref), offered in state.sealed.offered.items():
        epoch = offered.pop(name, None)
        if epoch is not None:
            key = book_key_of_sealed(name)
            effects += route_messages(state, state.routes.book.local_unadvertise(key, (link, ref, epoch)))
    state.sealed.in_use.pop(name, None)
    state.sealed.changed_at.pop(name, None)
    return effects


def _sealed_entry(
    state: BrokerState, name: bytes, view_class: SubscriberGroup, ring: KeyRing, epoch: int
) -> SealedEntry:
    sealing = state.types.sealing(state.blinded.type_of(name))
    sealed = seal_filter(
        view_class.routed,
        type_id=name,
        epoch=epoch,
        by_attribute=sealing is None or sealing.level is SealingLevel.ATTRIBUTE,
        keys=ring,
        random=state.random,
    )
    right = right_behind(state, view_class)
    named = frozenset() if right is None else speaks_of(state, name, right)
    is_provable = all(ring.key(GroupId(name, uid), epoch) is not None for uid in named)
    # What others are bound to refuse must not stand for what they would accept.
    marks = frozenset() if is_provable else frozenset({sealed.digest})
    return SealedEntry(sealed.id, view_class.routed, LocalSealed(sealed, view_class), marks, sealed.digest)


# ------------------------------------------------------------ when keys change


def keys_changed(state: BrokerState, type_id: bytes, now: Instant) -> list[Effect]:
    """Hear that a ring learned, was given, lost or forgot something, or that a type is known to be sealed.

    What is wanted and offered here follows at once or in the next steps.
    """
    effects = [effect for name in state.blinded.refresh(type_id) for effect in _retired(state, name)]
    for name in state.blinded.ids(type_id):
        ring = state.sealed.ring_of(name)
        epoch = None if ring is None else _epoch_to_use(ring)
        if epoch is not None and state.sealed.in_use.get(name) != epoch:
            state.sealed.in_use[name] = epoch
            state.sealed.changed_at[name] = now
            state.routes.look_at_sealed(just_after(now))
            effects += show_rights(state, state.routes.node_of, [name])
        _find_work(state, name)
    return [*effects, *_moved_offers(state, type_id, now), *look_at_sealed(state, now)]


def look_at_sealed(state: BrokerState, now: Instant) -> list[Effect]:
    """Seal and open anew what is waiting for it, so many at a time."""
    routes, sealed = state.routes, state.sealed
    if routes.sealed_at is not None and routes.sealed_at <= now:
        routes.sealed_at = None
        _look_for_outdated(state, now)
    effects: list[Effect] = []
    for task in list(islice(sealed.to_do, TASKS_PER_STEP)):
        del sealed.to_do[task]
        effects += _done(state, task, now)
    if sealed.to_do:
        routes.look_at_sealed(just_after(now))
    return effects


def _look_for_outdated(state: BrokerState, now: Instant) -> None:
    """Look again at what others told when they should have sealed it anew, and ask for the next look."""
    looked_at, state.sealed.looked_at = state.sealed.looked_at, now
    for type_id in state.sealed.changed_at:
        ring = state.sealed.ring_of(type_id)
        for end in () if ring is None else ends_of_patience(state, ring, now):
            if end > now:
                state.routes.look_at_sealed(end)
            elif looked_at is None or end > looked_at:
                _find_work(state, type_id)


def _epoch_to_use(ring: KeyRing) -> int | None:
    """Return the newest epoch in which this broker is a member; interests need not wait for it to begin."""
    newest = ring.newest
    return newest if newest is not None and ring.key(GroupId(ring.type_id), newest) is not None else None


def _find_work(state: BrokerState, name: bytes) -> None:
    book, key = state.routes.book, book_key_of_sealed(name)
    audience = state.audiences.get(state.blinded.type_of(name))
    for class_key in audience.classes if audience is not None else ():
        state.sealed.to_do[name, LOCAL, class_key] = None
    ring = state.sealed.ring_of(name)
    for hop in book.hops(key):
        if hop != LOCAL:
            for entry in book.entries(hop, key):
                if _may_change(entry, ring):
                    state.sealed.to_do[name, hop, entry.id] = None


def _may_change(entry: RouteEntry, ring: KeyRing | None) -> bool:
    """Say whether other keys could say anything new of an entry: most are of this epoch and open already."""
    heard = entry.baggage
    if ring is None or not isinstance(entry, SealedEntry) or not isinstance(heard, HeardSealed):
        return True
    if entry.marks or heard.filter.epoch != ring.newest:
        return True
    spoken_of = {uid for part in heard.filter.parts for uid in part.uids}
    held = {group.uid for group in ring.groups(heard.filter.epoch)}
    return not spoken_of.union(heard.proof.uids) <= spoken_of or not spoken_of | {None} <= held


def _done(state: BrokerState, task: Task, now: Instant) -> list[Effect]:
    name, hop, what = task
    if hop != LOCAL:
        return _understood_anew(state, name, NodeId(hop) if isinstance(hop, int) else NodeId(-1), what, now)
    type_id = state.blinded.type_of(name)
    audience = state.audiences.get(type_id)
    view_class = None if audience is None else audience.classes.get(what)
    if view_class is None or state.types.sealing(type_id) is None:
        return []
    plain = route_messages(state, state.routes.book.local_unsubscribe(type_id, what[:16]))
    return [*_placed_under(state, name, view_class), *plain]


def _understood_anew(
    state: BrokerState, type_id: bytes, hop: NodeId, entry_id: bytes, now: Instant
) -> list[Effect]:
    book, key = state.routes.book, book_key_of_sealed(type_id)
    known, neighbour = book.entry(hop, key, entry_id), state.routes.neighbours.get(hop)
    if known is None or neighbour is None or not isinstance(known.baggage, HeardSealed):
        return []
    tells: list[Tell]
    try:
        tells = book.understood_anew(hop, key, [understood(state, entry_id, known.baggage, now)], ())
    except MaiaError as problem:
        refuse_entry(neighbour, key, entry_id, known.baggage)
        tells = book.understood_anew(hop, key, (), [entry_id])
        counted = Count("maia_refused_total", labels={"code": problem.code})
        return [counted, *route_messages(state, tells), *doubts(neighbour.link, type_id, [entry_id])]
    return route_messages(state, tells)


def _moved_offers(state: BrokerState, type_id: bytes, now: Instant) -> list[Effect]:
    if state.types.sealing(type_id) is None:
        return []
    effects: list[Effect] = []
    for link in state.links.values():
        for entry in link.advertisements.values():
            if entry.right.event_type.type_id == type_id:
                plain = state.routes.book.local_unadvertise(type_id, (entry.link, entry.ref))
                effects += [*offer_sealed(state, entry), *route_messages(state, plain)]
    return effects
