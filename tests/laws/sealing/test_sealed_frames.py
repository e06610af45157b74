"""What holds of every frame that is sealed, opened, cut or tampered with."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from maia.errors import MaiaError
from maia.events import Frame
from maia.sealing import SignatureChecks, cut_frame, open_frame
from maia.sealing.frames.blocks import (
    BLOCKS_MAX,
    commitment_of,
    division,
    fine_block_rows,
    is_division,
    known_tree,
    path_to,
    row_lengths,
    top_of,
)
from maia.sealing.frames.content import (
    BadContent,
    OpenColumn,
    OpenPart,
    event_plaintext,
    events_plaintexts,
    plaintext_of,
    read_events,
    read_plaintext,
    read_whole_columns,
    whole_plaintexts,
)
from maia.sealing.frames.proof import BadFrameProof, event_root, event_roots
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.columns import EventsColumn, by_event, encode_column, kind_from_number
from maia.wire.messages import Column, Sealed
from support.sealing import ANOTHER_BROKER, LEVELS, Publishing, content, frames, keys, plates, read, sealer

pytestmark = pytest.mark.laws

levels = st.sampled_from(LEVELS)


@st.composite
def divided_frames(draw: st.DrawFn) -> tuple[Frame, int]:
    """Return frames, and how many rows each block has; none in one that is never cut."""
    frame = draw(frames())
    least = -(-frame.rows // BLOCKS_MAX)
    sizes = st.sampled_from([0, least, frame.rows, fine_block_rows(frame.rows)])
    sizes |= st.integers(least, frame.rows)
    return frame, draw(sizes)


@given(divided_frames(), levels)
@example((plates(1), 1), SealingLevel.ATTRIBUTE)
@example((plates(2500), 40), SealingLevel.EVENT)
@example((Frame(600, {}), 300), SealingLevel.EVENT)
@example((Frame(600, {}), 10), SealingLevel.ATTRIBUTE)
def test_what_was_sealed_is_what_a_reader_opens_and_proves(divided, level):
    frame, size = divided
    sealed = decode(encode(Publishing(level=level).seal(frame, block_rows=size)))
    assert isinstance(sealed, Sealed)
    proved = read(sealed)
    assert content(proved.opened) == frame
    assert proved.opened.row_numbers == []


@given(divided_frames(), levels, st.data())
def test_a_cut_keeps_exactly_the_blocks_that_hold_a_wanted_row(divided, level, data):
    frame, size = divided
    wanted = data.draw(st.lists(st.integers(0, frame.rows - 1), min_size=1, max_size=3))
    opened = open_frame(Publishing(level=level).seal(frame, block_rows=size), keys())
    cut = cut_frame(opened, wanted, sealer=sealer(ANOTHER_BROKER, b"cutter"), keys=keys())
    left = read(decode(encode(cut))).opened
    expected = sorted(
        row
        for first in range(0, frame.rows, size or frame.rows)
        if set(range(first, first + (size or frame.rows))) & set(wanted)
        for row in range(first, min(first + (size or frame.rows), frame.rows))
    )
    assert (left.row_numbers or list(range(frame.rows))) == expected
    assert content(left) == frame.take(expected)


@given(st.integers(2, 600), levels, st.data())
def test_cutting_twice_is_cutting_once(rows, level, data):
    frame, size = plates(rows), data.draw(st.integers(-(-rows // BLOCKS_MAX), rows))
    opened = open_frame(Publishing(level=level).seal(frame, block_rows=size), keys())
    wanted = data.draw(st.lists(st.integers(0, rows - 1), min_size=2, max_size=6, unique=True))
    cutter = sealer(ANOTHER_BROKER, b"cutter")
    once = read(cut_frame(opened, wanted, sealer=cutter, keys=keys())).opened
    numbers = once.row_numbers or list(range(rows))
    again = cut_frame(once, [numbers.index(wanted[0])], sealer=cutter, keys=keys())
    directly = cut_frame(opened, wanted[:1], sealer=cutter, keys=keys())
    assert read(again).opened.row_numbers == read(directly).opened.row_numbers
    assert content(read(again).opened) == content(read(directly).opened)


@given(levels, st.sampled_from([1, 3, 600]), st.data())
def test_a_frame_with_any_byte_changed_is_refused(level, rows, data):
    frame = plates(rows)
    sealed = Publishing(level=level).seal(
        frame, block_rows=data.draw(st.sampled_from([0, 10, 300] if rows == 600 else [0, 1]))
    )
    if data.draw(st.booleans()):
        sealed = cut_frame(open_frame(sealed, keys()), [0], sealer=sealer(seed=b"cutter"), keys=keys())
    honest = encode(sealed)
    at = data.draw(st.integers(1, len(honest) - 1))
    forged = honest[:at] + bytes([honest[at] ^ data.draw(st.integers(1, 255))]) + honest[at + 1 :]
    with pytest.raises(MaiaError):
        _received(forged)


def _received(data: bytes) -> None:
    message = decode(data)
    if not isinstance(message, Sealed):
        raise MaiaError("another message")
    read(message, keys(message.epoch, type_id=message.type_id))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.data())
def test_every_frame_that_was_signed_with_others_is_provable_alone(sizes, data):
    publishing = Publishing()
    drafts = [
        publishing.by.draft([], publishing.about(rows), keys=publishing.keys, level=SealingLevel.ATTRIBUTE)
        for rows in sizes
    ]
    signed = publishing.by.sign(drafts)
    assert len({frame.signature for frame in signed}) == 1
    for frame in signed:
        assert read(frame).signer == publishing.by.principal
    moved = data.draw(st.sampled_from(signed))
    assume(len(signed) > 1)
    place = data.draw(st.integers(0, 255).filter(lambda other: other != moved.place))
    with pytest.raises(MaiaError):
        read(msgspec.structs.replace(moved, place=place))


@given(divided_frames())
def test_the_blocks_of_a_column_are_where_its_rows_are(divided):
    frame, size = divided[0], divided[1] or divided[0].rows
    of = division(frame.rows, size)
    for column in frame.columns.values():
        data = encode_column(column.kind, column.values)
        lengths = row_lengths(data, column.kind, column.values, of)
        written = [
            encode_column(column.kind, column.values[first : first + size])
            for first in range(0, frame.rows, size)
        ]
        headers = [1 if count < 16 else 3 for count in of.counts]
        assert lengths == tuple(len(one) - header for one, header in zip(written, headers, strict=True))
        assert data.endswith(b"".join(one[header:] for one, header in zip(written, headers, strict=True)))


@given(frames(), st.data())
def test_a_reader_of_some_attributes_opens_those_and_proves_the_frame(frame, data):
    held = data.draw(st.sets(st.sampled_from(sorted(frame.columns)))) if frame.columns else set()
    reader = keys(only=held)
    proved = read(Publishing().seal(frame), reader)
    assert content(proved.opened) == frame.only(held)
    assert {kind_from_number(one.kind) for one in proved.opened.columns} == {
        frame.columns[uid].kind for uid in held
    }


@given(st.integers(1, BLOCKS_MAX), st.data())
def test_any_blocks_and_their_path_lead_to_what_was_said_of_all(count, data):
    leaves = {number: bytes([number]) * 32 for number in range(count)}
    some = st.lists(st.integers(0, count - 1), min_size=1, unique=True).map(sorted)
    left = data.draw(some)
    fewer = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True).map(sorted))
    whole = known_tree(leaves, count=count)
    assert top_of(whole) == commitment_of(list(leaves.values()))
    path = path_to(whole, left, count=count)
    part = known_tree({number: leaves[number] for number in left}, count=count, path=path)
    assert top_of(part) == top_of(whole)
    # A member that has only some of it can still leave out more, and writes the same path as the first.
    assert path_to(part, fewer, count=count) == path_to(whole, fewer, count=count)


@given(st.integers(1, 65_536))
def test_a_frame_that_may_be_cut_has_blocks_as_small_as_their_number_allows(rows):
    size = fine_block_rows(rows)
    assert is_division(rows, size)
    assert size == 1 or size <= 16 or -(-rows // size) > BLOCKS_MAX // 2


def _read(plaintext: bytes, rows: int) -> OpenPart | str:
    try:
        return read_plaintext("a", plaintext, blocks=0, rows=rows)
    except BadContent as problem:
        return problem.message


def _read_whole(plaintext: bytes, rows: int, *, behind: bytes = b"") -> OpenPart | str:
    plaintexts = [behind, plaintext] if behind else [plaintext]
    try:
        *_, column = read_whole_columns("aa", plaintexts, rows)
        return OpenPart("a", [OpenColumn(column)])
    except BadContent as problem:
        return problem.message


@given(
    st.integers(1, 300), st.integers(0, 7), st.binary(max_size=80), st.integers(0, 90), st.binary(max_size=3)
)
@example(1, 1, b"\x91\xa1x", 0, b"")
@example(1, 1, b"\x91\xa1x", 60, b"\x01")
@example(256, 2, b"\xdc\x01", 0, b"")
@example(300, 3, b"", 4, b"\x00\x00\x00\x00")
def test_a_column_of_one_block_is_read_alike_by_a_member_that_reads_it(rows, kind, data, at, other):
    # Also what a member who holds the key sealed in place of a column: both refuse it, for the same reason.
    written = plaintext_of(OpenPart("a", [OpenColumn(Column("a", kind, data))]))
    for plaintext in (written, written[:at] + other + written[at + len(other) :], written[:at]):
        alone = _read(plaintext, rows)
        assert _read_whole(plaintext, rows) == alone
        # Behind one that begins and ends alike, less is asked.
        if isinstance(_read(written, rows), OpenPart):
            assert _read_whole(plaintext, rows, behind=written) == alone


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from((0, 1, 60, 1200)), st.binary(max_size=3))))
def test_columns_of_one_block_are_written_as_any_other(given):
    columns = [Column("a", kind, data * size) for kind, size, data in given]
    written = [plaintext_of(OpenPart("a", [OpenColumn(one)])) for one in columns]
    assert list(whole_plaintexts([(one.kind, one.data) for one in columns])) == written


@given(st.lists(st.tuples(st.sampled_from((0, 1, 2, 60, 1200)), st.binary(max_size=3)), min_size=1))
def test_columns_of_single_events_are_written_as_any_other(given):
    data = {uid: [one * size + one[:at] for size, one in given] for at, uid in enumerate("ab")}
    columns = [EventsColumn(uid, 1 + at, data[uid]) for at, uid in enumerate("ab")]
    by_attribute = events_plaintexts(columns, SealingLevel.ATTRIBUTE)
    for uid, kind, of_each in columns:
        written = [plaintext_of(OpenPart(uid, [OpenColumn(Column(uid, kind, one))])) for one in of_each]
        assert list(by_attribute[uid]) == written
    whole = [event_plaintext(event) for event in by_event(columns)]
    assert list(events_plaintexts(columns, SealingLevel.EVENT)[""]) == whole


def _read_together(plaintexts: list[bytes]) -> list[Column] | None:
    try:
        uid, kind, data = read_events("a", plaintexts)
    except BadContent:
        return None
    return [Column(uid, kind, one) for one in data]


def _read_one_by_one(plaintexts: list[bytes]) -> list[Column] | None:
    parts = [_read(one, 1) for one in plaintexts]
    columns = [part.columns[0].column for part in parts if isinstance(part, OpenPart)]
    is_good = len(columns) == len(parts) and len({one.kind for one in columns}) == 1
    return columns if is_good else None


@given(
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from((1, 1, 1, 1, 2, 60))), min_size=1, max_size=6),
    st.none() | st.tuples(st.integers(0, 5), st.integers(0, 70), st.binary(min_size=1, max_size=2)),
)
@example([(1, 1), (1, 1)], (1, 5, b"\x92"))
@example([(1, 1), (1, 1)], (1, 4, b"\x02"))
@example([(1, 1), (1, 1)], (1, 40, b"\x01"))
@example([(1, 1), (1, 2)], (1, 40, b"\x01"))
@example([(1, 1), (1, 1)], (1, 3, b"\x05"))
def test_columns_of_single_events_are_read_together_as_one_by_one(given, damage):
    columns = [Column("a", kind, b"\x91\xa3" + b"xyz" * size) for kind, size in given]
    written = [plaintext_of(OpenPart("a", [OpenColumn(one)])) for one in columns]
    if damage is not None:
        which, at, other = damage
        hit = written[which % len(written)]
        written[which % len(written)] = hit[:at] + other + hit[at + len(other) :]
    assert _read_together(written) == _read_one_by_one(written)
    shorter = [*written[:-1], written[-1][:-1]]
    assert _read_together(shorter) is None


@given(st.lists(st.lists(st.sampled_from((16, 16, 16, 17, 80)), min_size=2, max_size=2), min_size=1))
def test_the_hashes_of_single_events_are_those_of_each(sizes):
    sealed = [[bytes([at]) * size for at, size in enumerate(event)] for event in sizes]
    described = [bytes([number]) for number in range(len(sizes))]
    of_each = [event_root(b"head", one, own) for one, own in zip(described, sealed, strict=True)]
    assert event_roots(b"head", described, list(zip(*sealed, strict=True))) == of_each


def _signed_together(sizes: list[int]) -> list[tuple[Sealed, bytes]]:
    publishing, found = Publishing(), []
    for size in sizes:
        drafts = [
            publishing.by.draft([], publishing.about(1), keys=keys(), level=SealingLevel.ATTRIBUTE)
            for _ in range(size)
        ]
        found += zip(publishing.by.sign(drafts), [draft.root for draft in drafts], strict=True)
    return found


def _is_proved(check: Callable[[SignatureChecks], object]) -> bool:
    try:
        check(SignatureChecks())
    except BadFrameProof:
        return False
    return True


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3).map(_signed_together),
    st.sampled_from(["nothing", "place", "path", "root", "signature", "longer", "shorter"]),
    st.integers(0, 26),
    st.randoms(use_true_random=False),
)
def test_frames_are_proved_together_if_each_is_alone(signed, altered, number, random):
    at = number % len(signed)
    frame, root = signed[at]
    path, signature = list(frame.path), frame.signature
    if altered == "path" and path:
        path[number % len(path)] = bytes(32)
    change = {
        "place": {"place": frame.place ^ (1 << number % 4)},
        "path": {"path": path},
        "signature": {"signature": signature[:-1] + bytes((signature[-1] ^ 1,))},
        "longer": {"path": [*path, bytes(32)]},
        "shorter": {"path": path[:-1]},
    }.get(altered, {})
    signed[at] = replace(frame, **change), bytes(32) if altered == "root" else root
    left = sorted(random.sample(range(len(signed)), random.randint(1, len(signed))))
    run, roots = [signed[one][0] for one in left], [signed[one][1] for one in left]
    together = _is_proved(lambda checks: checks.check_run(run, roots))
    assert together == all(
        _is_proved(lambda checks, one=one, root=root: checks.check(one, root))
        for one, root in zip(run, roots, strict=True)
    )
