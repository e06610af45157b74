"""Can a peer who may read a frame make another that its readers believe?

In the dissertation readers and publishers share a symmetric key (section
7.6), so every reader can forge. The attackers here hold every group key of the
type and all that ever travelled; what they lack is the key of a publisher's
broker. What they can do is to leave out blocks, as any peer on the way can
leave out frames.
"""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from maia.credentials import SignedKind
from maia.errors import BrokenCredential, MaiaError
from maia.events import Frame
from maia.sealing import (
    BadFrameProof,
    BadSealedFrame,
    SignatureChecks,
    VerifiedFrame,
    closed_frame,
    contents,
    cut_frame,
    open_frame,
    open_with_cache,
    verify_frame,
)
from maia.sealing.frames.blocks import array_header
from maia.sealing.frames.content import OpenColumn, OpenPart, content_of, plaintext_of
from maia.sealing.frames.opened_frame import open_further, verify_further
from maia.sealing.frames.proof import frame_root
from maia.sealing.frames.runs import open_whole
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.messages import Column, Sealed
from support.forging import reseal
from support.sealing import (
    ANOTHER_BROKER,
    BROKER,
    LEVELS,
    PLATE,
    Publishing,
    content,
    keys,
    plates,
    read,
    sealer,
)

ROWS = 1100


def _column(opened, uid: str) -> OpenColumn:
    return next(one for part in opened.parts.values() for one in part.columns if one.column.uid == uid)


def _with_content(frame: Sealed, part: OpenPart) -> Sealed:
    """Return the frame with one part's content replaced by a reader who holds its key."""
    columns = [
        replace(column, sealed=reseal(frame, column.uid, plaintext_of(part)))
        if column.uid == part.uid
        else column
        for column in frame.columns
    ]
    return replace(frame, columns=columns)


def test_a_reader_who_seals_other_values_is_refused():
    """A49: the seal opens, and the signer said something else."""
    frame = Publishing().seal(plates(1))
    forged = _with_content(frame, OpenPart(PLATE, [OpenColumn(Column(PLATE, 1, b"\x91\xa6FORGED"))]))
    assert open_frame(forged, keys()).columns[0].data == b"\x91\xa6FORGED"
    assert len(open_whole(frame, keys(), SignatureChecks()).columns[0]) == 3
    for member in (read, lambda one: open_whole(one, keys(), SignatureChecks())):
        with pytest.raises(BadFrameProof):
            member(forged)


@pytest.mark.parametrize("level", LEVELS)
def test_another_ciphertext_of_a_single_event_is_refused_without_a_key(level):
    """A49, A66: a broker that cannot read an event sees that a reader has sealed another one in its place."""
    frame = Publishing(level=level).seal(plates(1), block_rows=0)
    assert verify_frame(closed_frame(frame), None, SignatureChecks()).signer == BROKER.principal
    for at, column in enumerate(frame.columns):
        other = replace(column, sealed=reseal(frame, column.uid, bytes(64)))
        forged = replace(frame, columns=[*frame.columns[:at], other, *frame.columns[at + 1 :]])
        assert len(other.sealed) == 80
        with pytest.raises(BadFrameProof):
            verify_frame(closed_frame(forged), None, SignatureChecks())
        with pytest.raises(BrokenCredential):
            open_whole(forged, keys(), SignatureChecks())


def test_a_single_event_opens_with_the_keys_that_its_signer_named_and_no_others():
    """A49: a signer and a key manager together cannot show two readers two contents of one ciphertext.

    AES-GCM lets them make a ciphertext that opens under two keys. The signer names one of them.
    """
    publishing = Publishing()
    frame = publishing.seal(plates(1), block_rows=0)
    draft = publishing.by.draft([], publishing.about(1), keys=keys(), level=SealingLevel.ATTRIBUTE)
    for at, column in enumerate(frame.columns):
        named = replace(column, commitment=bytes(32))
        lied = replace(frame, columns=[*frame.columns[:at], named, *frame.columns[at + 1 :]])
        root = frame_root(closed_frame(lied).described, lied)
        (signed,) = publishing.by.sign([replace(draft, frame=lied, root=root)])
        closed = verify_frame(closed_frame(signed), None, SignatureChecks())
        assert closed.signer == BROKER.principal  # it has signed it, and its readers do not take it
        for forged in (signed, lied):
            with pytest.raises(BadFrameProof):
                read(forged)
            with pytest.raises(BadFrameProof):
                open_whole(forged, keys(), SignatureChecks())


def test_a_frame_of_several_events_cannot_be_passed_off_as_one():
    """A49: only a single event has no blocks."""
    with pytest.raises(BadSealedFrame):
        closed_frame(replace(Publishing().seal(plates(2)), block_rows=0))
    event = Publishing().seal(plates(1), block_rows=0)
    with pytest.raises(BrokenCredential):
        read(replace(event, block_rows=1))


@pytest.mark.parametrize("level", LEVELS)
def test_a_reader_cannot_sign_in_the_name_of_a_publishers_broker(level):
    """A49: a whole frame made from nothing, sealed well, signed with the wrong key or with none."""
    forger = Publishing(by=sealer(ANOTHER_BROKER), level=level)
    frame = forger.seal(plates(2))
    assert read(frame).signer == ANOTHER_BROKER.principal  # its own name it may sign; it has no right then
    for signature in (frame.signature, bytes(64), BROKER.sign(SignedKind.REQUEST, b"\0" * 32)):
        claimed = replace(frame, signer=BROKER.principal.key, signature=signature)
        with pytest.raises(BrokenCredential):
            read(claimed)


def test_a_signature_of_an_earlier_frame_proves_no_later_one():
    """A49: nothing that was signed once covers other content, other numbers or another stream."""
    publishing = Publishing()
    first, second = publishing.seal(plates(2)), publishing.seal(plates(2))
    for field in ("signature", "columns", "sequence"):
        with pytest.raises(BrokenCredential):
            read(replace(second, **{field: getattr(first, field)}))


def test_a_signed_column_cannot_be_left_out_or_added():
    """A49: a reader sees all attributes that were published, or knows that they were."""
    frame = Publishing().seal(plates(2))
    added = replace(frame.columns[0], uid="note", sealed=reseal(frame, "note", bytes(64)))
    for columns in (frame.columns[1:], frame.columns[::-1], [*frame.columns, added], []):
        with pytest.raises(BadFrameProof):
            verify_frame(closed_frame(replace(frame, columns=columns)), None, SignatureChecks())


@pytest.mark.parametrize("level", LEVELS)
def test_rows_cannot_be_pasted_from_one_frame_into_another(level):
    """A49: blocks of two honest frames, both signed, in one."""
    publishing = Publishing(level=level)
    one, other = publishing.seal(plates(ROWS)), publishing.seal(plates(ROWS, 7000))
    theirs = open_frame(other, keys()).parts
    for uid, part in theirs.items():
        pasted = _with_content(one, OpenPart(uid, part.columns))
        with pytest.raises(BadFrameProof):
            read(pasted)
    whole, another = publishing.seal(plates(2), block_rows=0), publishing.seal(plates(2, 7000), block_rows=0)
    assert len(open_whole(whole, keys(), SignatureChecks()).columns[0]) == 3
    for uid, part in open_frame(another, keys()).parts.items():
        with pytest.raises(BadFrameProof):
            open_whole(_with_content(whole, OpenPart(uid, part.columns)), keys(), SignatureChecks())
    cut = cut_frame(open_frame(one, keys()), [0], sealer=sealer(seed=b"cutter"), keys=keys())
    their_cut = cut_frame(open_frame(other, keys()), [0], sealer=sealer(seed=b"cutter"), keys=keys())
    for uid, part in open_frame(their_cut, keys()).parts.items():
        with pytest.raises(BadFrameProof):
            read(_with_content(cut, OpenPart(uid, part.columns)))


@pytest.mark.parametrize("order", [[1, 0, 2, 3], [0, 0, 2, 3], [0, 1, 3, 3], [3, 2, 1, 0]])
@pytest.mark.parametrize("level", LEVELS)
def test_blocks_cannot_change_places_or_stand_twice(level, order):
    """A49: every block is signed in its place."""
    frame = Publishing(level=level).seal(plates(1024))
    opened = open_frame(frame, keys())
    for part in opened.parts.values():
        moved = [_reordered(one, order, rows=1024) for one in part.columns]
        with pytest.raises(BadFrameProof):
            read(_with_content(frame, OpenPart(part.uid, moved)))


def _reordered(one: OpenColumn, order: list[int], *, rows: int) -> OpenColumn:
    header = array_header(rows)
    starts = [len(header) + sum(one.lengths[:block]) for block in range(len(one.lengths))]
    pieces = [one.column.data[starts[b] : starts[b] + one.lengths[b]] for b in order]
    column = Column(one.column.uid, one.column.kind, header + b"".join(pieces))
    return OpenColumn(column, tuple(len(piece) for piece in pieces))


@pytest.mark.parametrize("blocks", [[1, 0], [0, 0], [4], [0, 1, 2, 3], [2, 1]])
def test_a_cut_names_some_blocks_in_their_order(blocks):
    """A49: no order, repetition or number but those of a real cut is read at all."""
    opened = open_frame(Publishing().seal(plates(1024)), keys())
    cut = cut_frame(opened, [0, 300], sealer=sealer(seed=b"cutter"), keys=keys())
    with pytest.raises(BadSealedFrame):
        open_frame(replace(cut, blocks=blocks), keys())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [5, 20, 30, 60])
def test_a_holder_of_all_keys_cannot_say_that_blocks_had_another_size(level, size):
    """A49: how a frame was divided is signed, so rows cannot be numbered anew by a cutter or on the way."""
    frame = Publishing(level=level).seal(plates(60), block_rows=10)
    for honest in (frame, cut_frame(open_frame(frame, keys()), [59], sealer=sealer(seed=b"x"), keys=keys())):
        lie = replace(honest, block_rows=size)
        with pytest.raises(MaiaError):
            read(lie)
        # Sealed again by a peer who holds every key: the seals hold, and what was signed does not.
        with pytest.raises(BadFrameProof):
            verify_frame(
                closed_frame(
                    replace(
                        lie,
                        blocks=[],
                        sealed_by=lie.origin,
                        columns=[replace(column, path=b"") for column in lie.columns],
                    )
                ),
                None,
                SignatureChecks(),
            )


@pytest.mark.parametrize(("rows", "size"), [(60, 61), (65, 1), (600, 9)])
def test_a_frame_of_too_many_blocks_or_too_large_ones_is_not_checked(rows, size):
    """A49: nothing is computed from a division that no honest signer makes."""
    with pytest.raises(BadSealedFrame):
        closed_frame(replace(Publishing().seal(plates(rows)), block_rows=size))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "change",
    [
        lambda path: path[:-32],
        lambda path: path + bytes(32),
        lambda path: path[:-1],
        lambda path: path[32:] + path[:32],
        lambda _path: b"",
    ],
)
def test_what_leads_from_a_block_to_the_signature_has_one_form(level, change):
    """A49: hashes beside a block are those of the signer's tree, each in its place, and no others."""
    opened = open_frame(Publishing(level=level).seal(plates(60), block_rows=1), keys())
    cut = cut_frame(opened, [17], sealer=sealer(seed=b"cutter"), keys=keys())
    assert read(cut).opened.row_numbers == [17]
    columns = [replace(column, path=change(column.path)) for column in cut.columns]
    with pytest.raises(BadFrameProof):
        read(replace(cut, columns=columns))


def test_a_cut_frame_cannot_be_given_back_rows_of_the_forgers_choice():
    """A49: the leaves of what was cut away are signed, too; only the signer's rows fit them."""
    opened = open_frame(Publishing().seal(plates(1024)), keys())
    cut = cut_frame(opened, [0], sealer=sealer(seed=b"cutter"), keys=keys())
    for at in range(4):
        start = 32 * at
        columns = [
            replace(one, commitment=one.commitment[:start] + bytes(32) + one.commitment[start + 32 :])
            for one in cut.columns
        ]
        with pytest.raises(BadFrameProof):
            read(replace(cut, columns=columns))


def test_an_honest_cut_by_a_reader_keeps_the_proof():
    """A49: the other side of the promise: whoever cuts needs no signing key, and every row stays proved."""
    frame = plates(ROWS)
    opened = open_frame(Publishing().seal(frame), keys())
    for row in range(0, ROWS, 67):
        cut = cut_frame(opened, [row], sealer=sealer(ANOTHER_BROKER, b"cutter"), keys=keys())
        proved = read(cut)
        assert proved.signer == BROKER.principal
        assert content(proved.opened) == frame.take(proved.opened.row_numbers)
        assert row in proved.opened.row_numbers


def test_a_liar_among_the_signers_is_found_before_a_cut_hides_it():
    """A49: a cutter passes nothing on in its own seal that the signer did not say."""
    frame = Publishing().seal(plates(1024))
    opened = open_frame(frame, keys())
    other = open_frame(Publishing(by=sealer(seed=b"z")).seal(plates(1024, 7000)), keys())
    lied = replace(frame, columns=[replace(frame.columns[0], commitment=bytes(32)), *frame.columns[1:]])
    for liar in (replace(opened, frame=lied), replace(opened, frame=other.frame)):
        with pytest.raises(BadFrameProof):
            cut_frame(liar, [0], sealer=sealer(seed=b"cutter"), keys=keys())


def test_what_was_opened_is_not_proved_without_the_keys():
    """A49: a verifier that could not look at the content does not confirm it."""
    frame = Publishing().seal(plates(2))
    with pytest.raises(BadFrameProof):
        verify_frame(open_frame(frame, keys()), None, SignatureChecks())


def test_a_verified_signature_proves_nothing_that_was_opened_of_another_frame():
    """A49: nor other content of the same frame."""
    publishing = Publishing()
    one, other = publishing.seal(plates(2)), publishing.seal(plates(2))
    verified = verify_frame(closed_frame(one), None, SignatureChecks())
    opened = open_further(verified.opened, keys())
    assert verify_further(verified, opened, keys()).signer == BROKER.principal
    forged = OpenPart(PLATE, [OpenColumn(Column(PLATE, 1, b"\x92\xa1x\xa1y"))])
    for wrong in (open_frame(other, keys()), replace(opened, parts={**opened.parts, PLATE: forged})):
        with pytest.raises(BadFrameProof):
            verify_further(verified, wrong, keys())


def test_only_the_verifier_makes_the_proof():
    """A49: no constructor, copy or sub-class around the check."""
    proof = read(Publishing().seal(plates(1)))
    with pytest.raises(TypeError):
        VerifiedFrame(proof.opened, proof.signer, object())
    with pytest.raises(TypeError):
        type("Believed", (VerifiedFrame,), {})
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(proof, signer=ANOTHER_BROKER.principal)


def test_a_remembered_signature_covers_nothing_else():
    """A49: the memory of good signatures is asked for signer, hash and signature together."""
    checks, reader = SignatureChecks(), keys()
    publishing = Publishing()
    one, other = publishing.seal(plates(1)), publishing.seal(plates(1))
    verify_frame(open_frame(one, reader), reader, checks)
    with pytest.raises(BadFrameProof):
        verify_frame(open_frame(replace(other, signature=one.signature), reader), reader, checks)


# ------------------------------------------------------------ the plaintext that travels along


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [1, ROWS])
def test_plaintext_that_came_along_is_used_if_it_is_what_was_published(level, rows):
    """A51: the honest case: nothing is opened, and everything is proved."""
    frame = plates(rows)
    sealed = Publishing(level=level).seal(frame)
    uids = {column.uid for column in sealed.columns}
    cached = contents(open_frame(sealed, keys()), uids)
    broken = replace(sealed, columns=[replace(one, sealed=bytes(64)) for one in sealed.columns])
    opened, lies = open_with_cache(closed_frame(broken), cached, keys())
    assert not lies
    assert content(verify_frame(opened, keys(), SignatureChecks()).opened) == frame


def test_plaintext_that_differs_from_the_ciphertext_is_dropped_and_named():
    """A51: a neighbour with all keys sends another plate beside the true ciphertext."""
    frame = plates(2)
    sealed = Publishing().seal(frame)
    honest = contents(open_frame(sealed, keys()), {"plate", "place", "seen"})
    lie = content_of(OpenPart(PLATE, [OpenColumn(Column(PLATE, 1, b"\x92\xa1x\xa1y"))]))
    for wrong in (lie, honest["place"], honest["plate"] + b"\0", b"", b"\x01", honest["plate"][:-1]):
        opened, lies = open_with_cache(closed_frame(sealed), honest | {"plate": wrong}, keys())
        assert lies == {"plate"}
        assert content(opened) == frame
        assert read(sealed).opened.columns == opened.columns


def test_plaintext_of_an_attribute_that_is_not_there_is_a_lie():
    """A51: nothing can be smuggled in beside a frame."""
    sealed = Publishing().seal(plates(1))
    opened, lies = open_with_cache(closed_frame(sealed), {"note": b"\x01\x91\xa1x"}, keys())
    assert lies == {"note"}
    assert content(opened) == plates(1)


def test_plaintext_is_not_believed_by_a_peer_without_the_key():
    """A51: who cannot check it does not use it, and its right to it is doubtful anyway."""
    sealed = Publishing().seal(plates(1))
    cached = contents(open_frame(sealed, keys()), {"plate"})
    opened, lies = open_with_cache(closed_frame(sealed), cached, keys(only=["place"]))
    assert lies == {"plate"}
    assert [one.uid for one in opened.columns] == ["place"]


def test_plaintext_of_a_cut_frame_is_checked_against_the_blocks_that_are_left():
    """A51: after a cut the cache is bound as before."""
    opened = open_frame(Publishing().seal(plates(1024)), keys())
    cut = cut_frame(opened, [0], sealer=sealer(seed=b"cutter"), keys=keys())
    honest = contents(open_frame(cut, keys()), {"plate"})
    assert open_with_cache(closed_frame(cut), honest, keys())[1] == frozenset()
    other = cut_frame(opened, [1023], sealer=sealer(seed=b"cutter"), keys=keys())
    elsewhere = contents(open_frame(other, keys()), {"plate"})
    assert open_with_cache(closed_frame(cut), elsewhere, keys())[1] == {"plate"}


def test_only_what_is_asked_for_goes_along():
    """A51: an attribute that the neighbour has no right to is not in what is sent."""
    opened = open_frame(Publishing().seal(plates(2)), keys())
    assert set(contents(opened, {"place"})) == {"place"}
    assert b"AE00" not in b"".join(contents(opened, {"place", "seen"}).values())


def test_events_that_say_nothing_are_provable_too():
    """A49: a frame without a column has a signature like every other."""
    for level in (SealingLevel.EVENT, SealingLevel.ATTRIBUTE):
        frame = Publishing(level=level).seal(Frame(3, {}))
        assert read(frame).opened.rows == 3
        with pytest.raises(MaiaError):
            read(replace(frame, rows=4))
    assert b"plate" in encode(Publishing().seal(plates(1)))  # attribute uids travel in the clear, see A55
