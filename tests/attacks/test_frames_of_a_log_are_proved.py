"""A peer that writes to a log, or seals into it with a reader's key, makes no row appear or change."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from msgspec.structs import replace

from maia.credentials import Action
from maia.events import INSTANT_MAX, INSTANT_MIN
from maia.log.format.segments import row_of, table_of
from maia.spark.governed.log_folder import FramesWanted, columns_to_read
from maia.spark.governed.opener import FrameOpener, ReadingPeriod
from maia.spark.governed.plan import Keys
from maia.spark.governed.reader import accepted_signers
from maia.spark.keys.content_keys import RingKeys
from maia.types import SealingLevel
from maia.wire.codec import encode
from support.governed import (
    BROKER,
    CAMERA,
    PLACE,
    PLATE,
    READER,
    Recorded,
    at,
    between,
    grant,
    reader,
    sightings,
)

EVENT, ATTRIBUTE = SealingLevel.EVENT, SealingLevel.ATTRIBUTE


class InHand:
    """A pass of the same process: it asks its source."""

    def __init__(self, source, wanted):
        self.source, self.wanted, self.refused = source, wanted, {}

    def keys_of(self, epochs):
        found = {epoch: self.source.held(epoch, self.wanted) for epoch in epochs}
        return {epoch: one for epoch, one in found.items() if one is not None}

    def report(self, refused):
        self.refused = dict(refused)


def opener(log, *, signers=None, since=INSTANT_MIN, until=INSTANT_MAX, least_level=None, uids=None):
    kinds = {uid: kind for uid, kind in log.event_type.kinds.items() if uids is None or uid in uids}
    keys = log.keys(None)
    assert isinstance(keys, Keys)
    accepted = accepted_signers(signers or keys.signers, [log.event_type], grounds=reader())
    return FrameOpener(
        FramesWanted(str(log.folder), log.event_type.type_id, since, until),
        (ReadingPeriod(since, until, kinds, frozenset(), accepted),),
        least_level={None: 0, EVENT: 1, ATTRIBUTE: 2}[log.level] if least_level is None else least_level,
        keys=InHand(keys.source, frozenset({None, *kinds})),
    )


def batch_of(frames, uids):
    rows = [row_of(encode(one), position=n + 1, recorded_at=one.published_at) for n, one in enumerate(frames)]
    table = table_of(rows)
    names = columns_to_read(uids)
    arrays = [
        table.column(name).combine_chunks()
        if name in table.column_names
        else pa.nulls(table.num_rows, pa.binary())
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def plates(opened, frames):
    found = opened.rows_of([batch_of(frames, opened.kinds)])
    return [plate for one in found for plate in one.rows.column(PLATE).to_pylist()]


@pytest.fixture(params=[EVENT, ATTRIBUTE], ids=["event", "attribute"])
def log(request, tmp_path):
    return Recorded(tmp_path, request.param)


def test_frames_that_were_altered_are_left_out(log):
    """A46, A49: a bit, a moment, a publisher, a row number or an epoch that was changed ends the frame."""
    good, other = log.publish(sightings(4)), log.publish(sightings(4, 10))
    column = good.columns[0]
    flipped = bytes([column.sealed[0] ^ 1]) + column.sealed[1:]
    altered = [
        replace(good, published_at=good.published_at + 1),
        replace(good, publisher=BROKER.principal.key),
        replace(good, sequence=9),
        replace(good, epoch=2),
        replace(good, signature=bytes(64)),
        replace(good, kept=[0, 1, 2, 4]),
        replace(good, type_id=bytes(32)),
        replace(good, columns=[replace(column, sealed=flipped), *good.columns[1:]]),
        replace(good, columns=[replace(column, sealed=other.columns[0].sealed), *good.columns[1:]]),
        replace(good, columns=[replace(column, commitment=bytes(32)), *good.columns[1:]]),
    ]
    for frame in altered:
        assert plates(opener(log), [frame]) == []
    assert plates(opener(log), [*altered, good]) == plates(opener(log), [good]) != []


def test_a_reader_that_seals_with_its_key_makes_no_row(log):
    """A49: the key is right and the signature is right, and the signer may not publish."""
    forged = log.publish(sightings(1), sealer=log.sealing_as(READER))
    opened = opener(log)
    assert plates(opened, [forged]) == []
    assert opened.keys.refused == {"PIPELINE-SIGNER": 1}
    known = {READER.principal: (grant(READER),), BROKER.principal: ()}
    assert plates(opener(log, signers=known), [forged, log.publish(sightings(1))]) == []


def test_a_signer_counts_for_the_moments_and_attributes_of_its_right(log):
    """A49, A50: a right that has ended, or that was for one attribute, covers nothing else."""
    early, late = log.publish(sightings(1)), log.publish(sightings(1, 1), published_at=at(2))
    ended = {BROKER.principal: (grant(BROKER, action=Action.PUBLISH, validity=between(-1, 1)),)}
    assert plates(opener(log, signers=ended), [early, late]) == ["AE00000"]
    narrow = {BROKER.principal: (grant(BROKER, [PLATE], action=Action.PUBLISH),)}
    assert plates(opener(log, signers=narrow), [early]) == []


TERMS = {
    "a restriction": {"restriction": 'location == "Victoria"'},
    "a restriction that is no equality": {"restriction": 'not (location == "Madingley")'},
    "what is set on publication": {"rule": 'location := "Victoria"'},
}


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS.keys())
def test_a_signer_counts_for_the_rows_of_its_right(log, terms):
    """A119: a table asks of each row what live readers ask: restriction, bounds, what is set and forced."""
    right, wrong = sightings(2)
    frames = [log.publish([right]), log.publish([wrong]), log.publish([right | {PLATE: "AE00002"}])]
    signed = (grant(BROKER, action=Action.PUBLISH, **terms),)
    opened = opener(log, signers={BROKER.principal: signed})
    assert plates(opened, frames) == ["AE00000", "AE00002"]
    assert opened.keys.refused == {"PIPELINE-SIGNER": 1}


def test_rights_of_a_signer_add_up_row_by_row(log):
    frames = [log.publish([row]) for row in sightings(3)]
    signed = tuple(
        grant(BROKER, action=Action.PUBLISH, restriction=f'location == "{place}"')
        for place in ("Victoria", "Madingley")
    )
    assert plates(opener(log, signers={BROKER.principal: signed}), frames) == ["AE00000", "AE00001"]


def test_what_a_table_may_not_read_is_no_reason_to_leave_a_row_out(tmp_path):
    log = Recorded(tmp_path, ATTRIBUTE)
    frame = log.publish(sightings(1))
    signed = (grant(BROKER, action=Action.PUBLISH, restriction='location == "Victoria"'),)
    opened = opener(log, signers={BROKER.principal: signed}, uids=[PLATE])
    assert plates(opened, [frame]) == ["AE00000"]


def test_an_old_key_seals_nothing_new(log):
    """A50: what was published long after its epoch is left out, properly sealed and signed or not."""
    late = log.publish(sightings(1), published_at=at(30), epoch=1)
    early = log.publish(sightings(1, 1), published_at=at(1), epoch=2)
    assert plates(opener(log), [late, early]) == []


def test_what_is_sealed_less_than_its_type_is_left_out(tmp_path):
    """A29: plaintext, or whole events, in the log of a type that is sealed by attribute."""
    log = Recorded(tmp_path, ATTRIBUTE)
    weak = [log.publish(sightings(1), level=None), log.publish(sightings(1, 1), level=EVENT)]
    assert plates(opener(log), weak) == []
    assert len(plates(opener(log, least_level=0), weak)) == 2


def test_the_log_s_own_column_of_moments_decides_nothing(log):
    """A71: a frame with a forged moment in its row is judged by the moment that was signed."""
    frame = log.publish(sightings(1), published_at=at(5))
    # The batch has no column of moments at all: the slice is compared with what the frame says.
    assert plates(opener(log, since=at(0), until=at(4)), [frame]) == []
    assert plates(opener(log, since=at(0), until=at(5)), [frame]) == ["AE00000"]


def test_rows_that_are_no_frames_are_left_out(log):
    """A71: headers of any bytes, of other forms, and parts that are missing, make no row and no error."""
    good = log.publish(sightings(2))
    batch = batch_of([good], log.event_type.kinds)
    names, header = batch.schema.names, batch.column(0)[0].as_py()
    odd = [
        b"",
        b"\x00",
        b"\xc0",
        b"\x90",
        b"\x94\x01\x05\x01\x90",
        b"\x92\x00\xc4\x01x",
        header[:-1],
        header * 2,
        b"\x91" * 5000,
    ]
    for each in odd:
        arrays = [pa.array([each], pa.binary()), *batch.columns[1:]]
        assert list(opener(log).rows_of([pa.RecordBatch.from_arrays(arrays, names=names)])) == []
    without = [batch.columns[0], *(pa.nulls(1, pa.binary()) for _ in names[1:])]
    assert list(opener(log).rows_of([pa.RecordBatch.from_arrays(without, names=names)])) == []


def test_columns_that_were_not_read_leave_the_proof_whole(tmp_path):
    """A reader of one attribute reads one column, and the frame is proved all the same."""
    log = Recorded(tmp_path, ATTRIBUTE)
    frame = log.publish(sightings(600))
    one = opener(log, uids=[PLATE])
    assert len(plates(one, [frame])) == 600
    cut = replace(frame, columns=frame.columns[:1])
    assert plates(one, [cut]) == []
    assert frame.publisher == CAMERA.principal.key
    assert PLACE in {column.uid for column in frame.columns}


def test_nothing_that_is_pickled_into_a_job_holds_a_key(log):
    """K: the opener's bytes hold no key; the same opener with keys in hand cannot be pickled."""
    held = opener(log)
    source = held.keys.source
    assert isinstance(source, RingKeys)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(held)
