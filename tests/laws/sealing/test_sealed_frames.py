"""What holds of every frame that is sealed, opened or tampered with, alone or in a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from maia.errors import BrokenCredential, MaiaError
from maia.events import Frame
from maia.sealing import SignatureChecks, open_run, plaintexts_by_uid, read_run, verify
from maia.sealing.frames.content import LEVEL_NUMBERS, plaintexts_of, read_columns, read_event
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.columns import frame_to_columns, kind_from_number
from maia.wire.messages import Column, Sealed
from support.forging import reseal
from support.sealing import LEVELS, Publishing, content, frames, keys, plates, read, sealer

pytestmark = pytest.mark.laws

levels = st.sampled_from(LEVELS)


@given(frames(), levels, st.booleans())
@example(plates(1), SealingLevel.ATTRIBUTE, True)
@example(plates(2500), SealingLevel.EVENT, False)
@example(Frame(600, {}), SealingLevel.EVENT, False)
@example(Frame(600, {}), SealingLevel.ATTRIBUTE, True)
def test_what_was_sealed_is_what_a_reader_opens_and_proves(frame, level, is_shared):
    sealed = decode(encode(Publishing(level=level).seal(frame, is_shared=is_shared)))
    assert isinstance(sealed, Sealed)
    proved = read(sealed)
    assert content(proved) == frame
    assert not proved.closed


# ------------------------------------------------------------ a run is its frames


def _rows_of(frame: Frame) -> list[Frame]:
    return [frame.take([row]) for row in range(min(frame.rows, 9))]


@given(frames().map(_rows_of) | frames().map(lambda frame: [frame, frame]), levels, st.booleans())
def test_a_run_is_sealed_byte_for_byte_as_its_frames_one_at_a_time(run, level, is_shared):
    one_by_one = Publishing(level=level)
    alone = [one_by_one.draft(frame, is_shared=is_shared) for frame in run]
    together = Publishing(level=level)
    drafts = together.by.seal(
        [frame_to_columns(frame) for frame in run],
        [together.about(frame.rows, is_shared=is_shared) for frame in run],
        keys=keys(),
        level=level,
    )
    assert [(encode(one.frame), one.root) for one in drafts] == [
        (encode(one.frame), one.root) for one in alone
    ]
    signed, checks = together.by.sign(drafts), SignatureChecks()
    opened = open_run(verify(read_run(signed), checks), keys())
    assert [list(columns) for columns in opened.columns] == [list(read(frame).columns[0]) for frame in signed]


@given(
    frames().map(_rows_of),
    levels,
    st.booleans(),
    st.sampled_from(["nothing", "ciphertext", "resealed", "commitment", "signature", "sequence", "instance"]),
    st.integers(0, 8),
    st.sets(st.sampled_from("abcdefgh")),
)
def test_a_run_is_taken_if_each_of_its_frames_is(run, level, is_shared, altered, number, held):
    publishing = Publishing(level=level)
    signed = publishing.by.sign([publishing.draft(frame, is_shared=is_shared) for frame in run])
    at = number % len(signed)
    frame, columns = signed[at], list(signed[at].columns)
    if altered in {"ciphertext", "resealed", "commitment"}:
        assume(columns)
        first = columns[0]
        columns[0] = {
            "ciphertext": replace(first, sealed=first.sealed[:-1] + bytes((first.sealed[-1] ^ 1,))),
            "resealed": replace(first, sealed=reseal(frame, first.uid, bytes(len(first.sealed) - 16))),
            "commitment": replace(first, commitment=bytes(32)),
        }[altered]
    signed[at] = {
        "signature": replace(frame, signature=bytes(64)),
        "sequence": replace(frame, sequence=frame.sequence + 1),
        "instance": replace(frame, mark=replace(frame.mark, instance=bytes(16))),
    }.get(altered, replace(frame, columns=columns))
    reader = keys(only={None, *held})
    together = _taken(lambda: _opened(signed, reader))
    alone = [_taken(lambda one=one: _opened([one], reader)) for one in signed]
    assert together == (None if None in alone else [columns for one in alone for columns in one])


def _opened(run: Sequence[Sealed], reader) -> list[list[Column]]:
    opened = open_run(verify(read_run(run), SignatureChecks()), reader)
    return [list(columns) for columns in opened.columns]


def _taken(attempt: Callable[[], object]):
    try:
        return attempt()
    except MaiaError:
        return None


# ------------------------------------------------------------ what is refused


@given(levels, st.sampled_from([1, 3, 600]), st.booleans(), st.data())
def test_a_frame_with_any_byte_changed_is_refused(level, rows, is_shared, data):
    honest = encode(Publishing(level=level).seal(plates(rows), is_shared=is_shared))
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
    signed = publishing.by.sign([publishing.draft(Frame(rows, {})) for rows in sizes])
    assert len({frame.signature for frame in signed}) == 1
    for frame in signed:
        assert read(frame).signer == publishing.by.principal
    moved = data.draw(st.sampled_from(signed))
    assume(len(signed) > 1)
    place = data.draw(st.integers(0, 255).filter(lambda other: other != moved.place))
    with pytest.raises(MaiaError):
        read(msgspec.structs.replace(moved, place=place))


@given(frames(), st.data())
def test_a_reader_of_some_attributes_opens_those_and_proves_the_frame(frame, data):
    held = data.draw(st.sets(st.sampled_from(sorted(frame.columns)))) if frame.columns else set()
    proved = read(Publishing().seal(frame), keys(only=held))
    assert content(proved) == frame.only(held)
    assert proved.closed == set(frame.columns) - held
    assert {kind_from_number(one.kind) for one in proved.columns[0]} == {
        frame.columns[uid].kind for uid in held
    }


@given(frames(), levels)
def test_what_a_neighbour_may_be_sent_is_what_is_inside_the_ciphertext(frame, level):
    draft = Publishing(level=level).draft(frame, is_shared=True)
    along = plaintexts_by_uid(draft.columns, LEVEL_NUMBERS[level])
    broken = [replace(one, sealed=bytes(64)) for one in draft.frame.columns]
    (signed,) = sealer().sign([replace(draft, frame=replace(draft.frame, columns=broken))])
    assume(frame.columns)
    opened = open_run(verify(read_run([signed]), SignatureChecks()), keys(), along=along)
    assert content(opened) == frame
    assert not opened.lies


# ------------------------------------------------------------ content


def _read(plaintexts: list[bytes], rows: int) -> list[Column] | None:
    try:
        return read_columns(["a"] * len(plaintexts), plaintexts, rows)
    except BrokenCredential as problem:
        if problem.code != "SEALING-CONTENT":
            raise
        return None


@given(
    st.integers(1, 300), st.integers(1, 6), st.binary(max_size=80), st.integers(0, 90), st.binary(max_size=3)
)
@example(1, 1, b"\x91\xa1x", 0, b"")
@example(1, 1, b"\x91\xa1x", 60, b"\x01")
@example(1, 1, b"\x91\xa1x", 4, b"\x02")
@example(1, 1, b"\x91\xa1x", 3, b"\x05")
@example(256, 2, b"\xdc\x01", 0, b"")
@example(300, 3, b"", 4, b"\x00\x00\x00\x00")
def test_a_column_is_read_alike_behind_another_and_alone(rows, kind, data, at, other):
    # Also what a member who holds the key sealed in place of a column: it is refused in both places.
    (written,) = plaintexts_of([[Column("a", kind, data)]], SealingLevel.ATTRIBUTE)
    for plaintext in (written, written[:at] + other + written[at + len(other) :], written[:at]):
        before, alone = _read([written], rows), _read([plaintext], rows)
        both = None if before is None or alone is None else [*before, *alone]
        assert _read([written, plaintext], rows) == both
        # There is one plaintext of a column.
        if alone is not None:
            assert plaintexts_of([alone], SealingLevel.ATTRIBUTE) == [plaintext]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.binary(max_size=40)), max_size=4), st.integers(0, 90), st.data()
)
def test_whole_events_are_read_in_their_one_form(given, at, data):
    columns = [Column(uid, kind, b"\x91" + one) for uid, (kind, one) in zip("abcd", given, strict=False)]
    (written,) = plaintexts_of([columns], SealingLevel.EVENT)
    assert read_event(written, 1) == columns
    other = written[:at] + data.draw(st.binary(max_size=2)) + written[at + 2 :]
    try:
        found = read_event(other, 1)
    except BrokenCredential as problem:
        if problem.code != "SEALING-CONTENT":
            raise
        return
    assert plaintexts_of([found], SealingLevel.EVENT) == [other]


# ------------------------------------------------------------ one signature for several


def _signed_together(sizes: list[int]) -> list[tuple[Sealed, bytes]]:
    publishing, found = Publishing(), []
    for size in sizes:
        drafts = [publishing.draft(Frame(1, {})) for _ in range(size)]
        found += zip(publishing.by.sign(drafts), [draft.root for draft in drafts], strict=True)
    return found


def _is_proved(check: Callable[[SignatureChecks], object]) -> bool:
    try:
        check(SignatureChecks())
    except BrokenCredential as problem:
        if problem.code != "SEALING-PROOF":
            raise
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
    together = _is_proved(lambda checks: checks.check(run, roots))
    assert together == all(
        _is_proved(lambda checks, one=one, root=root: checks.check([one], [root]))
        for one, root in zip(run, roots, strict=True)
    )
