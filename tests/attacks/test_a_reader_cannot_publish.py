"""Can a peer who may read a frame make another that its readers believe?

In the dissertation readers and publishers share a symmetric key (section
7.6), so every reader can forge. The attackers here hold every group key of the
type and all that ever travelled; what they lack is the key of a publisher's
broker. What they can do is to leave out frames.
"""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from maia.credentials import SignedKind
from maia.errors import BrokenCredential, MaiaError
from maia.events import Frame
from maia.sealing import SignatureChecks, VerifiedRun, open_run, plaintexts_by_uid, read_run, verify
from maia.sealing.frames.content import plaintexts_of
from maia.sealing.frames.proof import roots_of
from maia.testing.refusals import raises
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
OTHER = Column(PLATE, 1, b"\x92\xa1x\xa1y")


def _with_plaintext(frame: Sealed, uid: str, plaintext: bytes) -> Sealed:
    """Return the frame with what is in one column replaced by a reader who holds its key."""
    columns = [
        replace(column, sealed=reseal(frame, uid, plaintext)) if column.uid == uid else column
        for column in frame.columns
    ]
    return replace(frame, columns=columns)


def _plaintexts(frame: Sealed, reader=None) -> dict[str, bytes]:
    """Return what a reader finds in a frame, as it may send it along."""
    return plaintexts_by_uid(read(frame, reader).columns[0], frame.level)


def _verified(frame: Sealed) -> VerifiedRun:
    return verify(read_run([frame]), SignatureChecks())


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_reader_who_seals_other_values_is_refused(is_shared):
    """A49: the seal opens, and the signer said something else."""
    frame = Publishing().seal(plates(1), is_shared=is_shared)
    (other,) = plaintexts_of([[Column(PLATE, 1, b"\x91\xa6FORGED")]], SealingLevel.ATTRIBUTE)
    forged = _with_plaintext(frame, PLATE, other)
    assert content(read(frame)) == plates(1)
    with raises("SEALING-PROOF"):
        read(forged)
    if is_shared:  # no signature covers the ciphertext, and the commitment refuses it
        assert _verified(forged).signer == BROKER.principal


@pytest.mark.parametrize("level", LEVELS)
def test_another_ciphertext_of_a_single_event_is_refused_without_a_key(level):
    """A49, A66: a broker that cannot read an event sees that a reader has sealed another one in its place."""
    frame = Publishing(level=level).seal(plates(1))
    assert _verified(frame).signer == BROKER.principal
    for column in frame.columns:
        forged = _with_plaintext(frame, column.uid, bytes(64))
        with raises("SEALING-PROOF"):
            _verified(forged)


def test_a_single_event_opens_with_the_keys_that_its_signer_named_and_no_others():
    """A49: a signer and a key manager together cannot show two readers two contents of one ciphertext.

    AES-GCM lets them make a ciphertext that opens under two keys. The signer names one of them.
    """
    publishing = Publishing()
    draft = publishing.draft(plates(1))
    frame = draft.frame
    for at, column in enumerate(frame.columns):
        named = replace(column, commitment=bytes(32))
        lied = replace(frame, columns=[*frame.columns[:at], named, *frame.columns[at + 1 :]])
        run, columns = read_run([lied]), lied.columns
        said, sealed = [one.commitment for one in columns], [one.sealed for one in columns]
        (root,) = roots_of(run.uids, run.described, [said], [sealed])
        (signed,) = publishing.by.sign([replace(draft, frame=lied, root=root)])
        verified = _verified(signed)
        assert verified.signer == BROKER.principal  # it has signed it, and its readers do not take it
        with raises("SEALING-PROOF"):
            open_run(verified, keys())


def test_a_frame_of_several_events_cannot_be_passed_off_as_one():
    """A49: only of a single event the ciphertexts are signed, and whether they are is signed."""
    with raises("PROTOCOL-SEALED-FRAME"):
        read_run([replace(Publishing().seal(plates(2)), is_committed=False)])
    for is_shared in (True, False):
        event = Publishing().seal(plates(1), is_shared=is_shared)
        with pytest.raises(BrokenCredential):
            _verified(replace(event, is_committed=not is_shared))


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
        with raises("SEALING-PROOF"):
            _verified(replace(frame, columns=columns))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [2, ROWS])
def test_rows_cannot_be_pasted_from_one_frame_into_another(level, rows):
    """A49: columns of two honest frames, both signed, in one."""
    publishing = Publishing(level=level)
    one, other = publishing.seal(plates(rows)), publishing.seal(plates(rows, 7000))
    for uid, plaintext in _plaintexts(other).items():
        with raises("SEALING-PROOF"):
            read(_with_plaintext(one, uid, plaintext))


@pytest.mark.parametrize("level", LEVELS)
def test_rows_cannot_change_places_be_left_out_or_stand_twice(level):
    """A49: a frame has the rows that were signed, in their order."""
    publishing = Publishing(level=level)
    frame = publishing.seal(plates(4))
    for order in ([1, 0, 2, 3], [0, 0, 2, 3], [3, 2, 1, 0]):
        elsewhere = publishing.seal(plates(4).take(order))
        for uid, plaintext in _plaintexts(elsewhere).items():
            with raises("SEALING-PROOF"):
                read(_with_plaintext(frame, uid, plaintext))
    with pytest.raises(MaiaError):
        read(replace(frame, rows=3))


def test_a_verified_signature_proves_nothing_else_that_is_opened():
    """A49: neither with keys that another key server made, nor what else is sealed in its place."""
    frame = Publishing().seal(plates(2))
    (other,) = plaintexts_of([[OTHER]], SealingLevel.ATTRIBUTE)
    verified = verify(read_run([_with_plaintext(frame, PLATE, other)]), SignatureChecks())
    assert verified.signer == BROKER.principal
    assert verified.columns == [()]  # a verifier that could not look at the content does not confirm it
    with raises("SEALING-PROOF"):
        open_run(verified, keys())
    assert content(open_run(verified, keys(), only=["seen"])) == plates(2).only(["seen"])


def test_only_the_verifier_makes_the_proof():
    """A49: no constructor, copy or sub-class around the check."""
    proof = read(Publishing().seal(plates(1)))
    with pytest.raises(TypeError):
        VerifiedRun(proof.run, proof.signer, proof.columns, frozenset(), frozenset(), object())
    with pytest.raises(TypeError):
        type("Believed", (VerifiedRun,), {})
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(proof, signer=ANOTHER_BROKER.principal)


def test_a_remembered_signature_covers_nothing_else():
    """A49: the memory of good signatures is asked for signer, hash and signature together."""
    checks, publishing = SignatureChecks(), Publishing()
    one, other = publishing.seal(plates(1)), publishing.seal(plates(1))
    verify(read_run([one]), checks)
    with raises("SEALING-PROOF"):
        verify(read_run([replace(other, signature=one.signature)]), checks)


# ------------------------------------------------------------ the plaintext that travels along


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [1, ROWS])
def test_plaintext_that_came_along_is_used_if_it_is_what_was_published(level, rows):
    """A51: the honest case: nothing is opened, and everything is proved."""
    frame = plates(rows)
    sealed = Publishing(level=level).seal(frame, is_shared=True)
    broken = replace(sealed, columns=[replace(one, sealed=bytes(64)) for one in sealed.columns])
    found = open_run(_verified(broken), keys(), along=_plaintexts(sealed))
    assert not found.lies
    assert content(found) == frame


def test_plaintext_that_differs_from_the_ciphertext_is_dropped_and_named():
    """A51: a neighbour with all keys sends another plate beside the true ciphertext."""
    frame = plates(2)
    sealed = Publishing().seal(frame)
    honest = _plaintexts(sealed)
    (lie,) = plaintexts_of([[OTHER]], SealingLevel.ATTRIBUTE)
    for wrong in (lie, honest["place"], honest["plate"] + b"\0", b"", b"\x01", honest["plate"][:-1]):
        found = open_run(_verified(sealed), keys(), along=honest | {"plate": wrong})
        assert found.lies == {"plate"}
        assert content(found) == frame


def test_plaintext_of_an_attribute_that_is_not_there_is_a_lie():
    """A51: nothing can be smuggled in beside a frame."""
    sealed = Publishing().seal(plates(1), is_shared=True)
    found = open_run(_verified(sealed), keys(), along={"note": b"\x01\x91\xa1x"})
    assert found.lies == {"note"}
    assert content(found) == plates(1)


@pytest.mark.parametrize("is_shared", [True, False])
def test_plaintext_is_not_believed_if_it_cannot_be_compared(is_shared):
    """A51: a broker without the key does not use it, and no broker does so of an event not committed to."""
    sealed = Publishing().seal(plates(1), is_shared=is_shared)
    reader = keys(only=["place"]) if is_shared else keys()
    found = open_run(_verified(sealed), reader, along={"plate": _plaintexts(sealed)["plate"]})
    assert found.lies == {"plate"}
    assert content(found) == (plates(1).only(["place"]) if is_shared else plates(1))


def test_only_what_is_asked_for_goes_along():
    """A51: an attribute that was not opened is not in what is sent."""
    some = _plaintexts(Publishing().seal(plates(2)), keys(only=["place", "seen"]))
    assert set(some) == {"place", "seen"}
    assert b"AE00" not in b"".join(some.values())


def test_events_that_say_nothing_are_provable_too():
    """A49: a frame without a column has a signature like every other."""
    for level in (SealingLevel.EVENT, SealingLevel.ATTRIBUTE):
        frame = Publishing(level=level).seal(Frame(3, {}))
        assert read(frame).columns == [[]]
        with pytest.raises(MaiaError):
            read(replace(frame, rows=4))
    assert b"plate" in encode(Publishing().seal(plates(1)))  # attribute uids travel in the clear, see A55
