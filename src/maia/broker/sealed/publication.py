"""The sealed part of the publication path: seal what leaves, open what arrives as far as keys go.

A publisher's frame is sealed and signed once there is a neighbour to send it to.
A frame from a neighbour counts for nothing before its source is one that was
asked for the type and its signature holds, for which no key is needed (A90).
Then it is opened as far as this broker's keys go, its signer's right is judged
if a subscriber here is to have it (A49), and it is matched on what was opened
and passed on sealed as it came. A frame whose key or signer is not known yet
waits, within limits. A broker without keys passes frames on by their type and
reads none: there a frame uses up numbers of its own signer alone (A85).
A blinded frame is the same with an envelope, which is opened before anything
in it counts, and cover ends where it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from maia.broker.access.impairment import key_lack
from maia.broker.durable.catch_up import record_arrived
from maia.broker.publication.delivery import deliver
from maia.broker.publication.expected_sources import is_known_type, refuse_unasked
from maia.broker.publication.retained import remember_passing
from maia.broker.publication.transit import Transit, without_proof
from maia.broker.refusals import (
    FrameTooLarge,
    KeysAwaited,
    PublishedTooLongAgo,
    RequirementOnBlinded,
    SealedTooWeakly,
    SealTooNew,
    SignerNotEntitled,
)
from maia.broker.routing.routes import has_unseen_rows, unseen_part
from maia.broker.sealed.answers import spoken_of, with_answers
from maia.broker.sealed.blinded import reveal
from maia.broker.sealed.forwarding import SealedTransit, forward_sealed, record_once_signed, sealed_transit
from maia.broker.sealed.keys import Arrived
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.credentials import Principal
from maia.errors import BrokenCredential, MaiaError
from maia.events import AttributeUid, Instant
from maia.routing.overlay.table import node_id_of_key
from maia.routing.table.hops import book_key_of_sealed
from maia.sealing import (
    EpochKeys,
    KeyMissing,
    OpenedFrame,
    Publication,
    closed_frame,
    open_with_cache,
    verify_frame,
)
from maia.sealing.frames.content import LEVEL_NUMBERS
from maia.sealing.frames.opened_frame import drafted_frame, open_further, verify_further
from maia.types import Sealing, SealingLevel
from maia.wire.effects import Count, Effect
from maia.wire.messages import Column, OpenContent, Publish, Sealed, SealedWithPlaintext

SEALED_BYTES_MAX: Final = 12 << 20
"""A sealed frame is longer than what is in it, and has to fit into a message all the same."""
_data_of: Final = attrgetter("data")
_EPOCHS_AHEAD_MAX: Final = 16
"""How far ahead of the newest epoch known here a frame may be: keys are on their way, not years away."""


# ------------------------------------------------------------ this broker's publishers


def hold_until_sealed(state: BrokerState, link: Link, message: Publish, type_id: bytes, now: Instant) -> bool:
    """Let a publisher's frame wait for a key to seal it with, if it has to; say whether it does."""
    waiting, stream = state.seals.publishing, (link.id, message.ref)
    if state.seals.has_begun(type_id, now) and not waiting.holds(type_id, stream):
        return _hold_until_slot(state, link, message, type_id)
    lack = key_lack(state, type_id, now)
    if lack is not None:
        raise lack  # no key is on its way
    size = 256 + sum(len(column.data) for column in message.columns)
    if not waiting.put(type_id, stream, (link.id, message), size=size, until=waiting.until(now)):
        raise KeysAwaited("the keys of this sealed type are not here yet, and too many frames wait for them")
    state.routes.is_changed = True
    return True


def _hold_until_slot(state: BrokerState, link: Link, message: Publish, type_id: bytes) -> bool:
    """Let a frame of a covered type wait, unless it is its turn; say whether it does."""
    sealing = state.types.sealing(type_id)
    if sealing is None or sealing.cover is None or state.cover.taking == type_id:
        return False
    state.cover.wait(type_id, link.id, message)
    state.routes.is_changed = True
    return True


def send_sealed(state: BrokerState, transit: Transit, sealing: Sealing, now: Instant) -> list[Effect]:
    """Give a publisher's frame to local subscribers as it is, and to other brokers sealed and signed."""
    keys = _keys_to_seal_with(state, transit, sealing, now)
    if sealing.blinded:
        return _send_blinded(state, transit, keys, sealing, now)
    unseen = unseen_part(state.routes, transit)
    if unseen is None:
        return [Count("maia_duplicates_total")]
    here = deliver(state, unseen, now, signer=state.principal.key)
    made: list[SealedTransit] = []

    def sealed(block_rows: int) -> SealedTransit:
        if not made:
            whole = with_answers(state, unseen, keys)
            made.append(_sealed(state, whole, keys, sealing.level, block_rows))
        return made[0]

    there = forward_sealed(state, unseen, frozenset(), sealed, source=None, now=now)
    if state.recording is None or not state.recording.records(unseen.type_id):
        return [*here, *there]
    return [*record_once_signed(state, sealed(0), now), *here, *there]


def _send_blinded(
    state: BrokerState, transit: Transit, keys: EpochKeys, sealing: Sealing, now: Instant
) -> list[Effect]:
    """Give a publisher's frame to local subscribers, and to others in an envelope of this broker."""
    if transit.requires:
        raise RequirementOnBlinded("a frame of a blinded type has no place for a requirement")
    unseen = unseen_part(state.routes, transit)
    if unseen is None:
        return [Count("maia_duplicates_total")]
    # Before it is delivered here: what does not fit goes nowhere. Behind the duplicates: a number that
    # is left out would show.
    outer = state.blinded.enclose(unseen, keys.type_id, by=state.principal, cover=sealing.cover, now=now)
    here = deliver(state, unseen, now, signer=state.principal.key)
    state.cover.is_filled = True
    return [*here, *_send_outer(state, outer, keys, sealing, now, inner=unseen)]


def send_cover(state: BrokerState, type_id: bytes, sealing: Sealing, now: Instant) -> list[Effect]:
    """Send a frame without an event: the same as one with an event to whoever cannot open it."""
    name = state.blinded.publishing_id(type_id, now)
    keys = None if name is None else state.seals.sealing_keys(name, now, now)
    if keys is None:
        return []
    outer = state.blinded.enclose(None, keys.type_id, by=state.principal, cover=sealing.cover, now=now)
    return _send_outer(state, outer, keys, sealing, now)


def _send_outer(
    state: BrokerState,
    outer: Transit,
    keys: EpochKeys,
    sealing: Sealing,
    now: Instant,
    *,
    inner: Transit | None = None,
) -> list[Effect]:
    unseen_part(state.routes, outer)  # so that it is known if it comes back
    part, missing = _matched(state, outer, frozenset(), sealing)
    log = state.recording
    if inner is None or log is None or not log.records(inner.type_id):
        sealed = partial(_sealed, state, outer, keys, sealing.level)
        return forward_sealed(state, part, missing, sealed, source=None, now=now)
    made = _sealed(state, outer, keys, sealing.level, 0)
    there = forward_sealed(state, part, missing, lambda _: made, source=None, now=now)
    return [*record_once_signed(state, made, now, inner), *there]


def _matched(
    state: BrokerState, outer: Transit, missing: frozenset[AttributeUid], sealing: Sealing
) -> tuple[Transit, frozenset[AttributeUid]]:
    """Return what a blinded frame is matched on: under cover on nothing, as cover matches no filter."""
    if sealing.cover is None:
        return outer, missing
    kinds = state.types.kinds(state.blinded.type_of(outer.type_id))
    return replace(outer, frame=outer.frame.only(())), missing.union(kinds)


def sealed_alone(state: BrokerState, transit: Transit, sealing: Sealing, now: Instant) -> Sealed:
    """Return a publisher's frame sealed and signed by itself, for a neighbour that asks for it."""
    keys = _keys_to_seal_with(state, transit, sealing, now)
    draft = _sealed(state, with_answers(state, transit, keys), keys, sealing.level, 0).draft
    assert draft is not None  # noqa: S101 - sealed here
    (frame,) = state.seals.sealer.sign([draft])
    return frame


def _keys_to_seal_with(state: BrokerState, transit: Transit, sealing: Sealing, now: Instant) -> EpochKeys:
    """Return keys for all of a frame; refuse one that could not be sealed, or that no reader would open."""
    keys = sealing_keys(state, transit, sealing, now)
    check_sealed_size(transit.columns())
    return keys


def sealing_keys(state: BrokerState, transit: Transit, sealing: Sealing, now: Instant) -> EpochKeys:
    """Return keys for all attributes of a frame at its moment, whatever size it has."""
    name = state.blinded.publishing_id(transit.type_id, now)
    if name is None:
        raise KeyMissing("this broker does not hold the key of the type's own group")
    keys = state.seals.sealing_keys(name, transit.published_at, now)
    if keys is None:
        raise PublishedTooLongAgo("the frame was published at a moment whose keys are not used any more")
    wanted = tuple(transit.frame.columns) if sealing.level is SealingLevel.ATTRIBUTE else ("",)
    found = keys.ciphers(wanted, state.seals.sealer.instance)
    if None in found:
        lacking = wanted[found.index(None)]
        if lacking and state.keys.opens(transit.type_id, AttributeUid(lacking)):
            # The key server has not made it yet, as of an attribute that is new: the publisher tries again.
            raise KeysAwaited(f"the key of attribute `{lacking}` is not here yet")
        raise KeyMissing(f"this broker does not hold the key of attribute `{lacking or '*'}`")
    return keys


def check_sealed_size(columns: Iterable[Column]) -> None:
    """Refuse a frame that is too long to be sealed."""
    if sum(map(len, map(_data_of, columns))) > SEALED_BYTES_MAX:
        raise FrameTooLarge(f"a frame of a sealed type has at most {SEALED_BYTES_MAX} bytes")


def _sealed(
    state: BrokerState, transit: Transit, keys: EpochKeys, level: SealingLevel, block_rows: int
) -> SealedTransit:
    if state.settings.share_plaintext:
        block_rows = block_rows or transit.frame.rows  # plaintext is compared with what was said of it
    about = Publication(
        transit.publisher,
        transit.stream,
        transit.sequence,
        transit.published_at,
        transit.frame.rows,
        transit.kept,
        block_rows,
        without_proof(transit.author),  # it would show hashes of what is sealed
    )
    sealer, values = state.seals.sealer, transit.frame.columns
    draft = sealer.draft(transit.columns(), about, keys=keys, level=level, values=values)
    return SealedTransit(drafted_frame(draft), transit, frozenset(), draft)


# ------------------------------------------------------------ other brokers


def carry_sealed(state: BrokerState, link: Link, message: Sealed, now: Instant) -> list[Effect]:
    """Take a sealed frame from another broker to all others that may have a part of it."""
    return _carried(state, link, message, [], now)


def carry_sealed_with_plaintext(
    state: BrokerState, link: Link, message: SealedWithPlaintext, now: Instant
) -> list[Effect]:
    """Take on a sealed frame whose sender spares this broker the opening."""
    return _carried(state, link, message.frame, message.contents, now)


def _carried(
    state: BrokerState, link: Link, frame: Sealed, contents: list[OpenContent], now: Instant
) -> list[Effect]:
    closed = closed_frame(frame)  # a frame that contradicts itself ends the link
    type_id = state.blinded.type_of(frame.type_id)
    sealing = state.types.sealing(type_id)
    is_named = sealing is not None and sealing.blinded and frame.type_id == type_id
    if sealing is not None and (is_named or frame.level < LEVEL_NUMBERS[sealing.level]):
        return _refused(SealedTooWeakly("a frame is sealed less than its type asks for"))
    if not is_known_type(state, frame.type_id):
        return [Count("maia_frames_unwanted_total")]
    if not state.router.expects(link, book_key_of_sealed(frame.type_id), now):
        return refuse_unasked(state, link, now, said="Sealed")
    if not has_unseen_rows(state.routes, frame, closed.row_numbers) and not _carries_again(state, frame):
        return [Count("maia_duplicates_total")]
    try:
        # Before it is remembered, cached, recorded or passed on, and before it waits; no key is needed.
        verified = verify_frame(closed, None, state.seals.checks)
    except BrokenCredential as problem:
        return _refused(problem)
    arrived = Arrived(verified, contents, link.id)
    if state.seals.carrying.holds(type_id, arrived.stream):
        return _waits(state, arrived, now)  # it must not overtake what its publisher sent before
    return take_on_again(state, arrived, now)


def take_on_again(state: BrokerState, arrived: Arrived, now: Instant) -> list[Effect]:
    """Open a frame, prove it if a subscriber here is to have it, and pass it on; or let it wait."""
    frame = arrived.frame
    ring = state.seals.ring_of(frame.type_id)
    if ring is None:
        return _passed_on_unread(state, arrived, now)
    keys = state.seals.keys(frame.type_id, frame.epoch)
    if keys is None:
        if ring.newest is not None and frame.epoch < ring.newest:
            return _passed_on_unread(state, arrived, now)  # before this broker's time: not for it to read
        if ring.newest is not None and frame.epoch > ring.newest + _EPOCHS_AHEAD_MAX:
            return _refused(SealTooNew("a frame is of an epoch too far ahead"))
        return _waits(state, arrived, now)
    if not ring.opens(frame.epoch, frame.published_at, now):
        return _refused(PublishedTooLongAgo("a frame was sealed in an epoch of another time"))
    try:
        return _read(state, arrived, keys, now)
    except MaiaError as problem:
        # Whoever passed it on may not be able to read it, so the frame ends here and the link does not.
        return _refused(problem)


def _read(state: BrokerState, arrived: Arrived, keys: EpochKeys, now: Instant) -> list[Effect]:
    opened, counted = _opened(state, arrived, keys)
    if not opened.parts:
        return _passed_on_unread(state, arrived, now)
    type_id = arrived.frame.type_id
    if state.blinded.is_id(type_id):
        return _read_blinded(state, arrived, opened, keys, now)
    if type_id not in state.audiences and not state.routes.book.asked_about(book_key_of_sealed(type_id)):
        opened = arrived.closed  # its seal holds, and no filter asks what is in it
    along = {one.uid: one.content for one in arrived.contents}
    sealed = sealed_transit(opened, state.types.kinds(arrived.frame.type_id), along)
    unjudged = arrived.frame.signer
    if arrived.frame.type_id in state.audiences:
        if not _is_entitled(state, arrived, sealed, keys, now):
            return [*counted, *_waits(state, arrived, now)]
        unjudged = b""
    unseen = unseen_part(state.routes, sealed.part, unjudged)
    if unseen is None:
        return [*counted, *_carried_again(state, arrived, sealed.part, sealed.missing, sealed, now)]
    remember_passing(state, arrived.frame, arrived.source, now)
    recorded = record_arrived(state, arrived.frame, now)
    here = deliver(state, unseen, now, missing=sealed.missing, signer=arrived.frame.signer)
    there = forward_sealed(
        state, sealed.part, sealed.missing, lambda _: sealed, source=arrived.source, now=now
    )
    return [*counted, *recorded, *here, *there]


def _read_blinded(
    state: BrokerState, arrived: Arrived, opened: OpenedFrame, keys: EpochKeys, now: Instant
) -> list[Effect]:
    """Take the publication out of a blinded frame for subscribers here, and pass the frame on as it came.

    Cover is passed on, and neither delivered, remembered as what was said last, recorded nor counted.
    """
    frame, type_id = arrived.frame, state.blinded.type_of(arrived.frame.type_id)
    ring, sealing = state.seals.ring_of(frame.type_id), state.types.sealing(type_id)
    assert ring is not None and sealing is not None  # noqa: S101, PT018 - it was opened
    sealed = sealed_transit(opened, state.types.kinds(type_id))
    inner = reveal(sealed.part, type_id)
    if inner is not None and not ring.opens(frame.epoch, inner.published_at, now):
        return _refused(PublishedTooLongAgo("a frame was sealed in an epoch of another time"))
    if type_id in state.audiences and not _is_entitled(state, arrived, sealed, keys, now):
        return _waits(state, arrived, now)
    part, missing = _matched(state, sealed.part, sealed.missing, sealing)
    if unseen_part(state.routes, sealed.part, frame.signer) is None:
        return _carried_again(state, arrived, part, missing, sealed, now)
    here: list[Effect] = []
    if inner is not None and type_id in state.audiences:
        # Its publisher may have sent it through another broker before, in another envelope.
        unseen = unseen_part(state.routes, inner)
        if unseen is None:
            here = [Count("maia_duplicates_total")]
        else:
            log = state.recording
            recorded = [] if log is None else log.record(state.blinded.unblind(frame, inner), now)
            here = [*recorded, *deliver(state, unseen, now, signer=frame.signer)]
    return [*here, *forward_sealed(state, part, missing, lambda _: sealed, source=arrived.source, now=now)]


def _opened(state: BrokerState, arrived: Arrived, keys: EpochKeys) -> tuple[OpenedFrame, list[Effect]]:
    """Open a frame as far as it is read here, and by what came along where it is delivered (A51)."""
    frame = arrived.frame
    if state.blinded.type_of(frame.type_id) not in state.audiences:
        return open_further(arrived.closed, keys, only=_read_on_the_way(state, frame, keys)), []
    if not arrived.contents:
        return open_further(arrived.closed, keys), []
    cached = {one.uid: one.content for one in arrived.contents}
    opened, lies = open_with_cache(arrived.closed, cached, keys)
    return opened, [Count("maia_plaintext_dropped_total", len(lies))] if lies else []


def _read_on_the_way(state: BrokerState, frame: Sealed, keys: EpochKeys) -> frozenset[AttributeUid]:
    """Return what a broker reads of a frame that it does not deliver: what neighbours ask about.

    It opens at least one column, with its key and not by what came along: the signature does not
    cover ciphertexts, and a broken one must not use up the number of the frame it was taken from (A66).
    """
    asked = state.routes.book.asked_about(book_key_of_sealed(frame.type_id))
    uids = tuple([column.uid for column in frame.columns])
    ciphers = keys.ciphers(uids, frame.sealed_by.instance)
    held = [column for column, cipher in zip(frame.columns, ciphers, strict=True) if cipher is not None]
    wanted = asked.intersection([column.uid for column in held])
    if not wanted and held:
        return frozenset({AttributeUid(min(held, key=lambda column: len(column.sealed)).uid)})
    return wanted


def _is_entitled(
    state: BrokerState, arrived: Arrived, sealed: SealedTransit, keys: EpochKeys, now: Instant
) -> bool:
    """Say whether the signer is known to be entitled to all of a frame; refuse one that is not."""
    signer = verify_further(arrived.verified, sealed.opened, keys).signer
    type_id = state.blinded.type_of(sealed.type_id)
    return may_publish(state, type_id, signer, sealed.missing.union(sealed.part.frame.columns), now)


def may_publish(
    state: BrokerState, type_id: bytes, signer: Principal, uids: frozenset[AttributeUid], now: Instant
) -> bool:
    """Say whether a signer is known to be entitled to these attributes; refuse one that is not."""
    if not state.writers.knows(type_id, signer):
        learn_what_is_at_hand(state, type_id, signer)
    uids = spoken_of(state, type_id, uids)
    answer = state.writers.judge(signer, state.types.versions(type_id), uids, now)
    if answer is False:
        raise SignerNotEntitled("a frame was signed by a principal that may not publish what is in it")
    return answer is not None


def learn_what_is_at_hand(state: BrokerState, type_id: bytes, signer: Principal) -> None:
    """Take a signer's certificates from what it showed itself, if it is this broker or a neighbour."""
    if signer == state.principal:
        state.writers.learn(type_id, signer, state.settings.credentials)
        return
    neighbour = state.routes.neighbours.get(node_id_of_key(signer.key))
    link = None if neighbour is None else state.links[neighbour.link]
    if link is not None and link.peer == signer and type_id in link.rights:
        state.writers.learn(type_id, signer, state.authoriser.pool(link.shown, link.rights[type_id]))


def _passed_on_unread(state: BrokerState, arrived: Arrived, now: Instant) -> list[Effect]:
    """Pass a frame on by its type alone; no subscriber here gets any of it."""
    try:
        sealed = sealed_transit(arrived.closed, {})
    except MaiaError as problem:
        return _refused(problem)
    missing = sealed.missing.union(state.types.kinds(state.blinded.type_of(arrived.frame.type_id)))
    if unseen_part(state.routes, sealed.part, arrived.frame.signer) is None:
        return _carried_again(state, arrived, sealed.part, missing, sealed, now)
    if not state.blinded.is_id(arrived.frame.type_id):
        remember_passing(state, arrived.frame, arrived.source, now)
    sent = forward_sealed(state, sealed.part, missing, lambda _: sealed, source=arrived.source, now=now)
    recorded = record_arrived(state, arrived.frame, now)
    return [Count("maia_frames_unread_total"), *recorded, *sent]


def _carries_again(state: BrokerState, frame: Sealed) -> bool:
    return state.router.carries_again(frame.publisher, frame.stream, frame.sequence, frame.signer)


def _carried_again(
    state: BrokerState,
    arrived: Arrived,
    part: Transit,
    missing: frozenset[AttributeUid],
    sealed: SealedTransit,
    now: Instant,
) -> list[Effect]:
    """Carry a frame that was here before to those for whom it was not, if routing asks for that."""
    counted = Count("maia_duplicates_total")
    if not _carries_again(state, arrived.frame):
        return [counted]
    return [counted, *forward_sealed(state, part, missing, lambda _: sealed, source=arrived.source, now=now)]


def _refused(problem: MaiaError) -> list[Effect]:
    return [Count("maia_frames_refused_total", labels={"code": problem.code})]


# ------------------------------------------------------------ waiting


def _waits(state: BrokerState, arrived: Arrived, now: Instant) -> list[Effect]:
    """Let a frame wait for its key or its signer; without room or time for that it is passed on unread."""
    frame, waiting = arrived.frame, state.seals.carrying
    type_id = state.blinded.type_of(frame.type_id)
    until = arrived.until = arrived.until or waiting.until(now)
    # Any key can be an unknown signer: such frames do not take all the room (A85).
    is_doubtful = not state.writers.knows(type_id, arrived.verified.signer)
    has_room = until > now and waiting.put(
        type_id, arrived.stream, arrived, size=arrived.size, until=until, is_doubtful=is_doubtful
    )
    if not has_room:
        return _passed_on_unread(state, arrived, now)
    state.routes.is_changed = True
    # The key manager is asked, not more often than it can answer.
    if state.seals.keys(frame.type_id, frame.epoch) is None:
        asked = state.keys.ask_for_epoch(type_id, now)
    else:
        asked = state.keys.ask_for_writer(type_id, Principal(frame.signer), now)
    return [Count("maia_frames_waiting_total"), *asked]


def pass_on_overdue(state: BrokerState, now: Instant) -> list[Effect]:
    """Pass on unread what has waited in vain: others may have the keys."""
    overdue = state.seals.carrying.take_overdue(now)
    return [effect for arrived in overdue for effect in _passed_on_unread(state, arrived, now)]
