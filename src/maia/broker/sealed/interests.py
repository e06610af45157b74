"""What does another broker want of a sealed type, and may it?

A sealed interest is opened as far as this broker's keys go. Within the
type's group it must have been made by a member, must open, and its proof must
prove what it asks for, as far as this broker can read it (A67). Outside the
group nobody can tell, so it is carried by its type alone: it matches every
publication, and stands for no other interest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from maia.broker.access.authoriser import refusal_effects
from maia.broker.refusals import SealOutdated, SealTooNew
from maia.broker.routing.messages import new_proof
from maia.broker.routing.outbox import route_messages
from maia.broker.routing.proofs import Proved, is_to_be_verified, proved_filter, spend_on
from maia.broker.routing.routes import Neighbour
from maia.broker.sealed.messages import wanted_from_wire
from maia.broker.sealed.state import HeardSealed
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState, seconds_after
from maia.credentials import Budget
from maia.errors import MaiaError, ProtocolViolation
from maia.events import Instant
from maia.predicates import ALWAYS, Predicate
from maia.routing.table.digests import mark_of_interest
from maia.routing.table.hops import LOCAL, Hop, SealedEntry, book_key_of_sealed, type_of_book_key
from maia.sealing.filters.proofs import OpenedProof, check_made_by_a_member, open_proof
from maia.sealing.filters.sealed_filters import open_filter
from maia.sealing.groups.group_id import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.wire.codec import encode
from maia.wire.effects import Effect, LinkId, Send
from maia.wire.messages import SealedDoubted, SealedInterest, SealedWanted

__all__ = [
    "check_epoch",
    "doubts",
    "ends_of_patience",
    "hear_doubted_interests",
    "hear_sealed_interest",
    "refuse_entry",
    "understood",
    "understood_in_replica",
]

EPOCHS_AHEAD_MAX: Final = 16
"""How far ahead of this broker's keys an interest may be sealed: its key may be on the way."""

DOUBTED_MAX: Final = 65_536

_OPENING_BYTES: Final = 256
"""To look at a sealed interest costs about as much as to read so many bytes; its content is paid for when it
is read."""


# ------------------------------------------------------------ what neighbours say


def hear_sealed_interest(
    state: BrokerState, link: Link, message: SealedInterest, now: Instant
) -> list[Effect]:
    """Take note of what is wanted, sealed, behind a neighbour."""
    neighbour, key = _neighbour(state, link), book_key_of_sealed(message.type_id)
    state.routes.stir(now)
    effects: list[Effect] = []
    add: list[SealedEntry] = []
    refused: list[bytes] = []
    replaced: list[bytes] = []
    budget = state.authoriser.budget_of_message()
    for wanted in message.add:
        spend_on(budget, _OPENING_BYTES)
        heard = wanted_from_wire(message.type_id, wanted)
        neighbour.forget_change(key, wanted.id)
        try:
            entry = understood(state, wanted.id, heard, now, budget)
            add.append(entry)
            if _rests_otherwise(state, link, neighbour, key, entry):
                replaced.append(wanted.id)
        except MaiaError as problem:
            refused.append(wanted.id)
            refuse_entry(neighbour, key, wanted.id, heard)
            effects += refusal_effects(problem, link.peer, link=link.id, asked="SealedInterest")
    effects += doubts(link.id, message.type_id, refused)
    for entry_id in message.remove:
        neighbour.forget_change(key, entry_id)
    gone = [*message.remove, *refused]
    tells = state.routes.book.heard_interest(neighbour.node, key, add, gone, now)
    for entry_id in replaced:
        tells += state.routes.book.tell_one_again(neighbour.node, key, entry_id)
    return [*effects, *route_messages(state, tells)]


def _rests_otherwise(
    state: BrokerState, link: Link, neighbour: Neighbour, key: bytes, entry: SealedEntry
) -> bool:
    """Note what an interest rests on; say whether that is something else than when it was told before."""
    assert isinstance(entry.baggage, HeardSealed)  # noqa: S101 - made by `understood`
    watched = entry.baggage.watched
    state.statements.reliance.note(link.id, watched)
    known = state.routes.book.entry(neighbour.node, key, entry.id)
    before = None if known is None else known.baggage
    return isinstance(before, HeardSealed) and before.watched != watched


def hear_doubted_interests(
    state: BrokerState, _link: Link, message: SealedDoubted, _now: Instant
) -> list[Effect]:
    """Let interests stand for no others that somebody refused who could read more of them; say so further."""
    key = book_key_of_sealed(message.type_id)
    effects: list[Effect] = []
    for told_as in message.ids:
        found = state.routes.book.source_of(key, told_as)
        if found is not None and isinstance(found[1], SealedEntry):
            effects += _doubted(state, key, found[0], found[1])
    return effects


def _doubted(state: BrokerState, key: bytes, hop: Hop, entry: SealedEntry) -> list[Effect]:
    if entry.digest in state.sealed.doubted:
        return []
    state.sealed.doubted[entry.digest] = None
    if len(state.sealed.doubted) > DOUBTED_MAX:
        del state.sealed.doubted[next(iter(state.sealed.doubted))]
    alone = replace(entry, marks=entry.marks | {entry.digest})
    book, link = state.routes.book, state.routes.link_to(hop)
    tells = book.local_entry(key, alone) if hop == LOCAL else book.understood_anew(hop, key, [alone], ())
    further = [] if link is None else doubts(link, type_of_book_key(key), [entry.id])
    return [*route_messages(state, tells), *further]


def doubts(link: LinkId, type_id: bytes, refused: list[bytes]) -> list[Effect]:
    """Tell a neighbour that what it told is refused here, and must not stand for what would not be."""
    return [Send(link, encode(SealedDoubted(type_id, refused)))] if refused else []


def understood_in_replica(
    state: BrokerState, type_id: bytes, wanted: SealedWanted, now: Instant
) -> SealedEntry:
    """Return what a replica says that somebody wants: what cannot be vouched for asks for everything."""
    heard = wanted_from_wire(type_id, wanted)
    try:
        return understood(state, wanted.id, heard, now)
    except ProtocolViolation:
        raise
    except MaiaError:
        return _by_type_alone(wanted.id, heard)


def refuse_entry(neighbour: Neighbour, key: bytes, entry_id: bytes, heard: HeardSealed) -> None:
    """Leave an entry out of what is compared with a neighbour: it stands there, and not here."""
    mark = mark_of_interest(key, entry_id, heard.filter.digest)
    neighbour.forget_change(key, entry_id)
    neighbour.remember_change(key, entry_id, before=mark, after=None)


# ------------------------------------------------------------ as far as the keys go


def understood(
    state: BrokerState, entry_id: bytes, heard: HeardSealed, now: Instant, budget: Budget | None = None
) -> SealedEntry:
    """Return an interest as far as it opens and proves here, or raise what is wrong with it."""
    sealed, ring = heard.filter, state.sealed.ring_of(heard.filter.type_id)
    state.blinded.check_id(sealed.type_id)
    if ring is None:
        return _by_type_alone(entry_id, heard)
    is_checked = check_made_by_a_member(sealed, heard.proof, ring)
    check_epoch(state, ring, sealed.epoch, now)
    if not is_checked:
        return _by_type_alone(entry_id, heard)
    opened, proof = open_filter(sealed, ring), open_proof(sealed, heard.proof, ring)
    known = opened.opened
    if proof is not None and is_to_be_verified(state):
        type_id = state.blinded.type_of(sealed.type_id)
        proved = _proved(state, type_id, proof, opened.opened, now, budget)
        known, heard = proved.filter, replace(heard, watched=proved.watched)
    digest = sealed.digest
    own = frozenset({digest}) if digest in state.sealed.doubted else frozenset()
    return SealedEntry(entry_id, known, heard, opened.unopened | own, digest, size=heard.size)


def _by_type_alone(entry_id: bytes, heard: HeardSealed) -> SealedEntry:
    digest = heard.filter.digest
    # Its mark is its own: whoever made it up must not make others fall silent (A67).
    return SealedEntry(entry_id, ALWAYS, heard, frozenset({digest}), digest, size=heard.size)


def _proved(
    state: BrokerState,
    type_id: bytes,
    proof: OpenedProof,
    wanted: Predicate,
    now: Instant,
    budget: Budget | None,
) -> Proved:
    shown = new_proof(proof.request, proof.certificates)
    return proved_filter(state, type_id, shown, wanted, now, budget)


def check_epoch(state: BrokerState, ring: KeyRing, epoch: int, now: Instant) -> None:
    """Refuse an epoch that is over, or far ahead; one whose key may be on its way is given time."""
    newest = ring.newest
    if newest is None or ring.key(GroupId(ring.type_id), newest) is None:
        return  # not a member at this time
    if epoch > newest + EPOCHS_AHEAD_MAX:
        raise SealTooNew("a sealed interest or offer is of an epoch that is far ahead")
    if epoch >= newest:
        return
    late, latest = ends_of_patience(state, ring, now)
    # Whoever was put out of the group holds the old keys, and is not to want anything by them for ever.
    if now >= (latest if ring.knows_epoch(epoch) else late):
        raise SealOutdated("a sealed interest or offer is of an epoch that is over")


def ends_of_patience(state: BrokerState, ring: KeyRing, now: Instant) -> tuple[Instant, Instant]:
    """Return until when earlier epochs count: those that cannot be opened here, and those that can."""
    since, lease_s = state.sealed.changed_at.get(ring.type_id, now), state.settings.lease_s
    return seconds_after(since, lease_s), seconds_after(since, max(lease_s, ring.terms.drift_s))


def _neighbour(state: BrokerState, link: Link) -> Neighbour:
    return state.routes.neighbours[state.routes.node_of[link.id]]
