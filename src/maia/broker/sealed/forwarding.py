"""In which form does a sealed frame leave for each neighbour?

As it is; or cut to the blocks in which somebody behind the neighbour wants a
row, where this broker could open all of it; and with the plaintext of exactly
those attributes beside it that the neighbour may read anyway (K4). Neighbours
that get the same get the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from maia.broker.publication.transit import Transit
from maia.broker.sealed.batch_signing import send_once_signed
from maia.broker.sealed.plaintext_cache import share_of
from maia.broker.sealed.transit import SealedTransit
from maia.broker.state import BrokerState
from maia.events import AttributeUid, Instant
from maia.routing.table.hops import LOCAL, TypeId, book_key_of_sealed
from maia.sealing import OpenedFrame, contents, cut_frame
from maia.sealing.frames.blocks import fine_block_rows
from maia.sealing.frames.opened_frame import open_further
from maia.wire.codec import encode_known
from maia.wire.effects import Effect, LinkId, Send
from maia.wire.messages import OpenContent, Sealed, SealedWithPlaintext

__all__ = ["forward_sealed"]

_Form: TypeAlias = tuple[tuple[int, ...], frozenset[str]]
"""The blocks that are left, none for all of them; and the uids whose plaintext goes along."""

_WITH_PLAINTEXT_MAX: Final = 4 << 20
"""Bytes of ciphertext up to which plaintext goes along: a longer frame might not fit into one message."""


def forward_sealed(
    state: BrokerState,
    part: Transit,
    missing: frozenset[AttributeUid],
    sealed: Callable[[int], SealedTransit],
    *,
    source: LinkId | None,
    now: Instant,
) -> list[Effect]:
    """Send a frame to each neighbour behind which a row of it may be wanted.

    `sealed` is asked for the sealed form if there is such a neighbour: a frame
    that goes nowhere is not sealed. It is told how many rows a block should
    have, 0 for a frame that nobody would cut or that is divided already.
    """
    routes = state.routes
    came_from = LOCAL if source is None else routes.node_of.get(source, LOCAL)
    key = book_key_of_sealed(part.type_id)
    wanted = routes.book.targets_of_frame(key, came_from, part.frame, missing)
    targets = [(link, rows) for node, rows in wanted.items() if (link := routes.link_to(node)) is not None]
    if not targets:
        return []
    # A blinded frame is never cut: its envelope is one value for all rows.
    is_cut = source is None and not state.blinded.is_id(part.type_id)
    block_rows = _block_rows(state, key, part.frame.rows) if is_cut else 0
    transit = sealed(block_rows)
    if any(len(rows) < part.frame.rows for _, rows in targets):
        transit = _ready_to_cut(state, transit)
    return _sent(state, transit, targets, now)


def _sent(
    state: BrokerState, transit: SealedTransit, targets: Sequence[tuple[LinkId, list[int]]], now: Instant
) -> list[Effect]:
    """Send a frame, encoded once for all who get the same; one of this broker's own is not signed yet."""
    written: dict[_Form, Sealed | SealedWithPlaintext] = {}
    encoded: dict[_Form, bytes] = {}
    effects: list[Effect] = []
    for link, rows in targets:
        form = _form_for(state, transit, link, rows, now)
        if form not in written:
            written[form] = _written(state, transit, form, rows)
        if transit.draft is not None:
            effects.append(send_once_signed(state, link, written[form], transit.draft))
            continue
        if form not in encoded:
            encoded[form] = encode_known(written[form])
        effects.append(Send(link, encoded[form]))
    return effects


def _ready_to_cut(state: BrokerState, transit: SealedTransit) -> SealedTransit:
    """Open the rest of a frame that may be cut: what is left of it is sealed again."""
    opened, frame = transit.opened, transit.opened.frame
    keys = state.seals.keys(frame.type_id, frame.epoch)
    if opened.is_whole or not opened.parts or not opened.blocks or keys is None:
        return transit
    return replace(transit, opened=open_further(opened, keys))


def _block_rows(state: BrokerState, key: TypeId, rows: int) -> int:
    """Return how small the pieces should be to which a frame can be cut, here or further on."""
    if rows == 1:
        return 0
    return fine_block_rows(rows) if state.routes.book.asks_for_less(key) else 0


def _form_for(
    state: BrokerState, transit: SealedTransit, link: LinkId, rows: list[int], now: Instant
) -> _Form:
    """Return the blocks to cut a frame to (none: it stays whole), and the uids whose plaintext goes along."""
    left = _blocks_to_cut_to(transit.opened, rows)
    return (left, frozenset()) if left else ((), _shared(state, transit, link, now))


def _blocks_to_cut_to(opened: OpenedFrame, rows: list[int]) -> tuple[int, ...]:
    here = opened.blocks
    if not opened.is_whole or len(rows) == opened.rows or len(here) <= 1:
        return ()
    left = opened.divided.blocks_with(rows, blocks=opened.frame.blocks)
    return tuple(left) if len(left) < len(here) else ()


def _shared(state: BrokerState, transit: SealedTransit, link: LinkId, now: Instant) -> frozenset[str]:
    if not state.settings.share_plaintext:
        return frozenset()
    frame, at_hand = transit.opened.frame, transit.opened.parts.keys() | transit.along.keys()
    sealing = state.types.sealing(frame.type_id)
    if sealing is None or not at_hand:
        return frozenset()
    if sum(len(column.sealed) for column in frame.columns) > _WITH_PLAINTEXT_MAX:
        return frozenset()
    return share_of(state, state.links[link], frame.type_id, sealing, now) & at_hand


def _written(
    state: BrokerState, transit: SealedTransit, form: _Form, rows: list[int]
) -> Sealed | SealedWithPlaintext:
    opened, frame, (left, shared) = transit.opened, transit.opened.frame, form
    if left:
        keys = state.seals.keys(frame.type_id, frame.epoch)
        return frame if keys is None else cut_frame(opened, rows, sealer=state.seals.sealer, keys=keys)
    if not shared:
        return frame
    # What nobody here read goes on as it came: whoever reads it checks it.
    along = {uid: content for uid, content in transit.along.items() if uid in shared}
    along.update(contents(opened, shared))
    return SealedWithPlaintext(frame, [OpenContent(uid, content) for uid, content in along.items()])
