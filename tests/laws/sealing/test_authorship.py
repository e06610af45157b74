"""A publisher's signature holds for every part of its frame that brokers may leave, and for nothing else."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import SigningKey
from maia.events import AttributeUid, Column, Frame, Kind, frame_of
from maia.sealing.frames.authorship import AuthorProof, Publishing, proof_of_author, sign_as_author
from maia.testing.refusals import raises

KEY, OTHER = SigningKey.from_seed(b"a" * 32), SigningKey.from_seed(b"b" * 32)
ABOUT, SEED = Publishing(b"t" * 32, b"s" * 16, 1_700_000_000_000_000), b"z" * 32
PLATE, SPEED, PLACE = map(AttributeUid, ("1", "2", "3"))
KINDS = {PLATE: Kind.STRING, SPEED: Kind.INT, PLACE: Kind.STRING}
VECTOR = Path(__file__).parents[2] / "vectors" / "sealing" / "authorship.json"


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    texts = st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
    events = st.fixed_dictionaries(
        {PLATE: texts, SPEED: st.one_of(st.none(), st.integers(-5, 500)), PLACE: texts}
    )
    return frame_of(draw(st.lists(events, min_size=1, max_size=9)), KINDS)


def proof_of(frame: Frame) -> AuthorProof:
    signature = sign_as_author(frame, ABOUT, KEY, SEED)
    return proof_of_author(frame, ABOUT, KEY.principal, signature, SEED)


@given(frames(), st.data())
def test_whatever_part_is_left_is_verified_and_whatever_is_altered_is_not(frame: Frame, data: st.DataObject):
    """I6, A14: cut to rows, screened to columns, cut again, on its way through brokers."""
    proof, here = proof_of(frame), frame
    for _ in range(3):
        rows = sorted(data.draw(st.sets(st.integers(0, here.rows - 1), min_size=1)))
        only = data.draw(st.sets(st.sampled_from(sorted(here.columns)), min_size=1))
        part = proof.part(here.columns, rows, only=only)
        proof, here = AuthorProof.from_bytes(part.to_bytes()), here.take(rows).only(only)
        proof.check(KEY.principal, ABOUT, here)
    with raises("CREDENTIAL-AUTHORSHIP"):
        proof.check(OTHER.principal, ABOUT, here)
    with raises("CREDENTIAL-AUTHORSHIP"):
        proof.check(KEY.principal, Publishing(b"t" * 32, b"r" * 16, ABOUT.published_at), here)
    uid = data.draw(st.sampled_from(sorted(here.columns)))
    row = data.draw(st.integers(0, here.rows - 1))
    values = list(here.columns[uid].values)
    values[row] = 501 if uid == SPEED else "\N{SNOWMAN}" * 99
    altered = Frame(here.rows, {**here.columns, uid: Column(here.columns[uid].kind, tuple(values))})
    with raises("CREDENTIAL-AUTHORSHIP"):
        proof.check(KEY.principal, ABOUT, altered)


@given(frames(), st.data())
def test_a_proof_of_a_part_helps_to_guess_nothing_of_the_rest(frame: Frame, data: st.DataObject):
    """A55: without the seed of a column or the salt of a row, a guess cannot be compared with its hash."""
    hidden = data.draw(st.sampled_from(sorted(frame.columns)))
    rows = sorted(data.draw(st.sets(st.integers(0, frame.rows - 1), min_size=1, max_size=frame.rows)))
    whole = proof_of(frame)
    part = whole.part(frame.columns, rows, only=set(frame.columns) - {hidden})
    sent = part.to_bytes()
    seeds = {one.uid: one.seed for one in whole.columns}
    assert seeds[hidden] not in sent
    assert all(seeds[uid] in sent for uid in seeds if uid != hidden)
    salts = [whole.salts[at : at + 16] for at in range(0, len(whole.salts), 16)]
    assert [salt in sent for salt in salts] == [row in rows for row in range(frame.rows)]
    assert SEED not in sent


@given(st.binary(max_size=400))
def test_bytes_that_are_no_proof_are_refused_with_a_code(data: bytes):
    with raises("CREDENTIAL-AUTHORSHIP"):
        AuthorProof.from_bytes(data)


def test_a_proof_is_written_and_read_as_ever():
    """Fixed bytes, which next year's code must still verify."""
    vector = json.loads(VECTOR.read_text())
    frame = frame_of([{PLATE: "AE05 XYZ", SPEED: 31, PLACE: None}, {PLATE: "B1", SPEED: 50}], KINDS)
    assert sign_as_author(frame, ABOUT, KEY, SEED).hex() == vector["signature"]
    part = proof_of(frame).part(frame.columns, [1], only={PLATE})
    assert part.to_bytes().hex() == vector["part"]
    read = AuthorProof.from_bytes(bytes.fromhex(vector["part"]))
    read.check(KEY.principal, ABOUT, frame.take([1]).only({PLATE}))
    assert sha256(part.to_bytes()).hexdigest() == vector["sha256"]
