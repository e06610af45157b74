"""What does a sealed frame go through that comes by itself, on the shortest way?

The path (`publication/path.py`, `sealed/publication.py`) says what becomes of any frame. Most of its calls
find nothing to do for a frame that no broker would cut and whose keys are all here: nothing waits, nothing is
divided, nothing goes along. Here are the others, at the publisher's broker and at a subscriber's. What leaves
is what leaves on the path, byte by byte and in the same order. Whatever is out of the ordinary is left to the
path, before anything has changed: None says so.
"""

from __future__ import annotations

from maia.broker.publication.delivery import deliver
from maia.broker.publication.expected_sources import is_known_type
from maia.broker.publication.publisher_view import SealedStream
from maia.broker.publication.retained import RetainedFrame
from maia.broker.publication.transit import Transit, check_kinds, written_as
from maia.broker.sealed.answers import answers_of
from maia.broker.sealed.forwarding import send_once_signed
from maia.broker.sealed.publication import SEALED_BYTES_MAX, check_sealed_size
from maia.broker.sessions.links import Advertisement, Link
from maia.broker.state import BrokerState
from maia.credentials import principal_from_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.sealing import Publication
from maia.sealing.frames.content import LEVEL_NUMBERS
from maia.sealing.frames.runs import open_whole
from maia.types import Sealing
from maia.wire.codec import encode_known
from maia.wire.columns import columns_to_frame
from maia.wire.effects import Count, Effect, Send
from maia.wire.messages import Carried, Publish, Published, Sealed


def _is_usual(state: BrokerState, type_id: bytes, sealing: Sealing) -> bool:
    """Say whether frames of a type leave under its id, at once, and alone."""
    is_special = sealing.blinded or sealing.cover is not None or state.settings.share_plaintext
    is_kept = state.recording is not None or type_id in state.statements.streams
    has_more = is_special or is_kept or bool(answers_of(state, type_id))
    return not has_more and state.router.asks_filters_alone


def _prepared(state: BrokerState, entry: Advertisement) -> SealedStream | None:
    """Work out what stays the same; None for what is never taken on here."""
    right, shaper = entry.right, entry.shaper
    event_type = right.event_type
    sealing = state.types.sealing(event_type.type_id)
    if sealing is None or not _is_usual(state, event_type.type_id, sealing):
        return None
    if entry.projections or entry.requires or entry.written is not None or right.terms.is_rated:
        return None
    if shaper.transform is not None or shaper.root is not None:
        return None
    key = book_key_of_sealed(event_type.type_id)
    signer = state.principal.key
    entry.sealed = SealedStream(right, sealing, event_type.type_id, key, event_type.kinds, signer)
    return entry.sealed


def publish_whole(  # noqa: PLR0912 - one call in the place of many
    state: BrokerState, link: Link, message: Publish, size: int, now: Instant
) -> list[Effect] | None:
    """Take a publisher's frame on, of one event or many, as `publish` does; None if that has to."""
    entry = link.advertisements.get(message.ref)
    if entry is None or link.statement:
        return None
    plan, shaper, last, sequence, rows = (
        entry.sealed,
        entry.shaper,
        entry.last_sequence,
        message.sequence,
        message.rows,
    )
    if plan is None or plan.right is not entry.right:
        plan = _prepared(state, entry)
    if plan is None or (last is not None and sequence <= last):
        return None
    right, sealing, type_id, key, kinds, signer = plan
    if state.types.sealing(type_id) is not sealing or type_id in state.statements.streams:
        entry.sealed = None  # another version is known since
        return None
    seals, moment = state.seals, message.published_at
    if not state.authoriser.holds(right, now) or seals.publishing.holds(type_id, (link.id, message.ref)):
        return None
    if answers_of(state, type_id):
        return None
    if rows > 1 and (rows > state.settings.limits.rows_per_frame or state.routes.book.asks_for_less(key)):
        return None  # how small the pieces should be to which it can be cut is for the path to say
    given, publisher, stream = message.columns, link.peer, entry.stream
    keys = seals.sealing_keys(type_id, moment, now)
    if keys is None or size > SEALED_BYTES_MAX:
        return None
    try:
        frame, is_open = columns_to_frame(given, rows, kinds), shaper.is_open
        if not is_open:
            shaped = shaper.shape(frame)
            if shaped.refused:
                return None
            frame = shaped.frame
            given = [one for one in given if one.uid not in shaper.forced]
        transit = Transit(type_id, publisher, stream, sequence, moment, frame, written=written_as(given))
        columns = given if is_open else transit.columns()
        if shaper.forced:
            check_sealed_size(columns)
        targets = state.router.targets(key, transit, source=None, signer=signer)
        about = Publication(publisher, stream, sequence, moment, rows)
        if not state.routes.seen.is_next(publisher.key, stream, sequence):
            return None
        draft = seals.sealer.draft(columns, about, keys=keys, level=sealing.level) if targets else None
    except MaiaError:
        return None  # the path says what is wrong with it
    # From here on nothing is left to the path any more.
    state.routes.seen.take_next(publisher.key, stream, sequence)
    entry.last_sequence = sequence
    effects = deliver(state, transit, now, signer=signer)
    if draft is not None:
        effects += [send_once_signed(state, to, draft.frame, draft) for to in targets]
    carried = Carried(type_id, publisher.key, stream, sequence, moment, rows, [], columns)
    state.retained.remember(RetainedFrame(carried, now, LOCAL, right))
    answer = Send(link.id, encode_known(Published(message.ref, sequence, 0)))
    return [*effects, answer, Count("maia_rows_published_total", rows)]


def carry_whole(
    state: BrokerState, link: Link, message: Sealed, data: bytes, now: Instant
) -> list[Effect] | None:
    """Take a frame of another broker on for subscribers here, as `carry_sealed` does; None if that has to."""
    type_id, seals, routes = message.type_id, state.seals, state.routes
    publisher, stream, sequence, signer = message.publisher, message.stream, message.sequence, message.signer
    sealing, node = state.types.sealing(type_id), routes.node_of.get(link.id)
    if sealing is None or node is None or type_id not in state.audiences:
        return None
    if message.level < LEVEL_NUMBERS[sealing.level] or not _is_usual(state, type_id, sealing):
        return None
    if seals.carrying.holds(type_id, (publisher, stream, signer)) or state.types.holds_topics(type_id):
        return None
    key, moment = book_key_of_sealed(type_id), message.published_at
    if not is_known_type(state, type_id) or not state.router.expects(link, key, now):
        return None
    keys = seals.opening_keys(type_id, message.epoch, moment, now)
    if keys is None:
        return None
    numbers = (sequence,)
    if not (
        routes.seen.is_next(publisher, stream, sequence)
        and routes.seen.are_new(publisher, stream, numbers, signer)
    ):
        return None
    try:
        opened = open_whole(message, keys, seals.checks)
        (columns,) = opened.columns
        frame = columns_to_frame(columns, message.rows)
        check_kinds(frame, state.types.kinds(type_id))
        uids = frozenset(frame.columns)
        if not state.writers.judge(opened.signer, state.types.versions(type_id), uids, now):
            return None  # it may not, or that is not known yet
        by = principal_from_bytes(publisher)
    except MaiaError:
        return None
    # From here on nothing is left to the path any more.
    routes.seen.take_next(publisher, stream, sequence)
    transit = Transit(type_id, by, stream, sequence, moment, frame, written=written_as(columns))
    state.retained.remember(RetainedFrame(message, now, node))
    effects = deliver(state, transit, now, signer=signer)
    targets = state.router.targets(key, transit, source=link.id, signer=signer)
    return [*effects, *[Send(to, data) for to in targets]]
