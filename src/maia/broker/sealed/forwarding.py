"""In which form does a sealed frame leave for each neighbour, and when is it signed?

Inside the broker a sealed publication (`SealedTransit`) is the sealed frame as it travels,
and beside it whatever this broker could open: a frame of the opened columns, in
which the others are missing. Routing and local subscribers see the opened part
alone. A broker without any key holds the sealed frame and an empty part.

It leaves as it is; or cut to the blocks in which a subscriber behind the neighbour wants a
row, where this broker could open all of it; and with the plaintext of exactly
those attributes beside it that the neighbour may read anyway (K4; dissertation 7.4).
What it may read is decided from the certificates that it showed, sealed for the type's
members, and holds until one of them begins or ends (A51). Neighbours that get the
same get the same bytes.

Frames that this broker seals are signed at the end of a turn, all of that turn with
one signature: a signature costs more than sealing a single event. Until then a
frame's place in the order of effects is held by an effect without bytes, which never
leaves the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from maia.broker.publication.transit import Transit, author_of, check_kinds, written_as
from maia.broker.sessions.links import Link, Share
from maia.broker.state import BrokerState
from maia.credentials import principal_from_bytes
from maia.events import AttributeUid, Instant, Kind
from maia.routing.table.hops import book_key_of_sealed
from maia.sealing import BATCH_MAX, Draft, OpenedFrame, contents, cut_frame
from maia.sealing.frames.blocks import fine_block_rows
from maia.sealing.frames.opened_frame import open_further
from maia.sealing.groups.membership import VERSIONS_MAX, Claim, Grounds, standing
from maia.types import Sealing
from maia.wire.codec import encode_known
from maia.wire.columns import columns_to_frame
from maia.wire.effects import Count, Effect, LinkId, Logged, Record, Send
from maia.wire.messages import OpenContent, Sealed, SealedWithPlaintext

_NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})


class SealedTransit(msgspec.Struct, frozen=True):
    """One sealed frame on its way: `part` has the rows that are here and the columns that were opened."""

    opened: OpenedFrame
    part: Transit
    missing: frozenset[AttributeUid]
    """Attributes that the frame has, or may have, and that were not opened."""
    draft: Draft | None = None
    """What is still to be signed, if the frame was sealed here."""
    along: Mapping[str, bytes] = _NOTHING
    """Plaintext that came along and that was not read here: not checked, for others to check."""

    def __repr__(self) -> str:
        """Say which frame it is, and nothing of what is in it."""
        return f"SealedTransit({self.opened!r})"

    @property
    def type_id(self) -> bytes:
        """Return the type by which the frame is routed."""
        return self.opened.frame.type_id


def sealed_transit(
    opened: OpenedFrame, kinds: Mapping[AttributeUid, Kind], along: Mapping[str, bytes] = _NOTHING
) -> SealedTransit:
    """Read what was opened, every value checked; `kinds` are those of the uids that are known here."""
    frame = opened.frame
    columns = opened.columns
    part = columns_to_frame(columns, opened.rows)
    check_kinds(part, kinds)
    transit = Transit(
        frame.type_id,
        principal_from_bytes(frame.publisher),
        frame.stream,
        frame.sequence,
        frame.published_at,
        part,
        opened.row_numbers,
        written_as(columns),
        author_of(frame),
    )
    closed = [column.uid for column in frame.columns if column.uid not in opened.parts]
    missing = frozenset[AttributeUid]()
    if not opened.is_whole:
        # Sealed as a whole, a frame does not say which attributes it has: any that the type has.
        missing = frozenset(kinds) if closed == [""] else frozenset(map(AttributeUid, closed))
    return SealedTransit(opened, transit, missing, along=along)


class _SendOnceSigned(Send, frozen=True):
    """Send a frame, in one of its forms, when its draft is signed."""

    form: Sealed | SealedWithPlaintext
    draft: Draft


class _RecordOnceSigned(Record, frozen=True):
    """Record a frame when its draft is signed."""

    recorded_at: Instant
    draft: Draft
    inner: Transit | None


def record_once_signed(
    state: BrokerState, sealed: SealedTransit, now: Instant, inner: Transit | None = None
) -> list[Effect]:
    """Return the effect that holds a frame's place in the log; it was sealed here in this turn.

    `inner` is the publication that a blinded frame encloses.
    """
    assert sealed.draft is not None  # noqa: S101 - sealed here
    _to_be_signed(state, sealed.draft)
    assert state.recording is not None  # noqa: S101 - asked before
    part = inner or sealed.part
    stream = part.publisher.key, part.stream, b"" if inner is not None else state.principal.key
    state.recording.progress_of(part.type_id, now).note_numbers(stream, part.sequence)
    position = state.recording.number(part.type_id, b"", now)
    return [_RecordOnceSigned(position, b"", now, sealed.draft, inner), Count("maia_recorded_total")]


def send_once_signed(
    state: BrokerState, link: LinkId, form: Sealed | SealedWithPlaintext, draft: Draft
) -> Effect:
    """Return the effect that holds a frame's place; `form` is what goes to this link."""
    _to_be_signed(state, draft)
    return _SendOnceSigned(link, b"", form, draft)


def _to_be_signed(state: BrokerState, draft: Draft) -> None:
    unsigned = state.seals.unsigned
    if not unsigned or unsigned[-1] is not draft:
        unsigned.append(draft)


def signed(state: BrokerState, effects: list[Effect]) -> list[Effect]:
    """Sign what was sealed in this turn, and put the bytes where they belong."""
    drafts, state.seals.unsigned = state.seals.unsigned, []
    frames: dict[int, Sealed] = {}
    ready: dict[int, bytes] = {}
    if len(drafts) == 1:
        frames[id(drafts[0])] = state.seals.sealer.sign_alone(drafts[0])
    else:
        for at in range(0, len(drafts), BATCH_MAX):
            together = drafts[at : at + BATCH_MAX]
            frames.update(zip(map(id, together), state.seals.sealer.sign(together), strict=True))
    for at, effect in enumerate(effects):
        if type(effect) is _SendOnceSigned:
            form, draft = effect.form, effect.draft
            data = ready.get(id(form), b"")  # neighbours that get the same form get the same bytes
            if not data:
                frame = frames[id(draft)]
                whole = frame if form is draft.frame else _with_signature(form, frame)
                data = ready[id(form)] = encode_known(whole)
            effects[at] = Send(effect.link, data)
        elif type(effect) is _RecordOnceSigned:
            frame, inner = frames[id(effect.draft)], effect.inner
            data = encode_known(frame if inner is None else state.blinded.unblind(frame, inner))
            assert state.recording is not None  # noqa: S101 - it gave the frame its position
            state.recording.replace(Logged(effect.position, effect.recorded_at, data))
            effects[at] = Record(effect.position, data)
    return effects


def _with_signature(form: Sealed | SealedWithPlaintext, proved: Sealed) -> Sealed | SealedWithPlaintext:
    if isinstance(form, SealedWithPlaintext):
        return SealedWithPlaintext(proved, form.contents)  # plaintext goes beside whole frames alone
    return replace(form, signature=proved.signature, place=proved.place, path=proved.path)


def share_of(
    state: BrokerState, link: Link, type_id: bytes, sealing: Sealing, now: Instant
) -> frozenset[str]:
    """Return the uids (empty: whole events) that the broker at the other end of a link may read."""
    versions = state.types.versions(type_id)
    known = link.shares.get(type_id)
    if known is None or not known.holds(now, state.authoriser.epoch, len(versions)):
        claim = Claim(
            link.peer,
            versions[-VERSIONS_MAX:],
            state.authoriser.pool(link.shown, link.rights.get(type_id, ())),
        )
        settings = state.settings
        statements = state.statements
        grounds = Grounds(
            sealing.level, settings.bounds, settings.constitutions, state.certificates, statements.standing
        )
        found = standing(claim, grounds, now)
        resting = frozenset(signed.id for signed in claim.pool)
        statements.met(claim.pool, resting)
        statements.dependencies.note(link.id, resting)
        uids = frozenset(group.uid or "" for group in found.groups)
        known = Share(uids, found.since, found.until, state.authoriser.epoch, len(versions))
        link.shares[type_id] = known
    return known.uids


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
    that goes nowhere is not sealed. It gets how many rows a block should
    have, 0 for a frame that no broker would cut or that is divided already.
    """
    key = book_key_of_sealed(part.type_id)
    signer = state.principal.key if source is None else sealed(0).opened.frame.signer
    targets = state.router.targets(key, part, source=source, missing=missing, signer=signer)
    if not targets:
        return []
    # How small the pieces should be to which a frame can be cut, here or further on. A blinded frame is
    # never cut: its envelope is one value for all rows.
    is_whole = source is not None or state.blinded.is_id(part.type_id) or part.frame.rows <= 1
    is_cut = not is_whole and state.routes.book.asks_for_less(key)
    transit = sealed(fine_block_rows(part.frame.rows) if is_cut else 0)
    opened, frame = transit.opened, transit.opened.frame
    if any(len(rows) < part.frame.rows for rows in targets.values()):
        # What is left of a frame that is cut is sealed again, so the rest of it is opened.
        keys = state.seals.keys(frame.type_id, frame.epoch)
        if not opened.is_whole and opened.parts and opened.blocks and keys is not None:
            transit = replace(transit, opened=open_further(opened, keys))
    # Encoded once for all that get the same; a frame of this broker's own is not signed yet.
    written: dict[_Form, Sealed | SealedWithPlaintext] = {}
    encoded: dict[_Form, bytes] = {}
    effects: list[Effect] = []
    for link, rows in targets.items():
        left = _blocks_to_cut_to(transit.opened, rows)
        form = (left, frozenset[str]()) if left else ((), _shared(state, transit, link, now))
        if form not in written:
            written[form] = _written(state, transit, form, rows)
        effects += state.router.before_frame(link)
        if transit.draft is not None:
            effects.append(send_once_signed(state, link, written[form], transit.draft))
            continue
        if form not in encoded:
            encoded[form] = encode_known(written[form])
        effects.append(Send(link, encoded[form]))
    return effects


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
    if sealing is None or not at_hand or not frame.block_rows:
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
    # What was not read here goes on as it came: its reader checks it.
    along = {uid: content for uid, content in transit.along.items() if uid in shared}
    along.update(contents(opened, shared))
    return SealedWithPlaintext(frame, [OpenContent(uid, content) for uid, content in along.items()])
