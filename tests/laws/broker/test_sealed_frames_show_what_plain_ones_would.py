"""Whatever keys a broker holds, its clients see of a sealed frame what they see of a plain one, or less.

The model knows nothing of keys, frames or routing. It takes the event, the
filter, and the attributes whose keys the reader's broker holds.
"""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maia.events import Instant
from maia.predicates import ALWAYS, AllOf, AnyOf, Comparison, Exists, Not, Operator, admits, attributes_of
from maia.types import SealingLevel
from support.numberplate import (
    LOCATION,
    NOW,
    NUMBERPLATE,
    TIMESTAMP,
    BlindedNet,
    camera_and_reader,
    the_three,
)
from support.random_cases import usually

UIDS = (NUMBERPLATE, TIMESTAMP, LOCATION)
PLATES, PLACE = ("A", "B", "C"), "Victoria"

_atoms = st.one_of(
    st.builds(
        Comparison,
        st.just(NUMBERPLATE),
        st.sampled_from([Operator.EQ, Operator.LT, Operator.NE]),
        st.sampled_from(PLATES),
    ),
    st.builds(Comparison, st.just(LOCATION), st.just(Operator.EQ), st.sampled_from([PLACE, "Soho"])),
    st.sampled_from([Exists(NUMBERPLATE), Not(Exists(NUMBERPLATE)), Not(Exists(LOCATION)), ALWAYS]),
)
filters = _atoms | st.builds(
    lambda kind, parts: kind(tuple(parts)),
    st.sampled_from([AllOf, AnyOf]),
    st.lists(_atoms, min_size=2, max_size=2),
)
# The camera's place is forced upon every event, and it may leave out the rest.
events = st.fixed_dictionaries(
    {TIMESTAMP: st.integers(0, 10**6).map(lambda later: Instant(NOW + later))},
    optional={NUMBERPLATE: st.sampled_from(PLATES)},
)


BLINDED = "blinded"


@cache
def network(level: SealingLevel | str, held: frozenset):
    """Return a network whose last broker holds these keys; one serves every example."""
    if level == BLINDED:
        return camera_and_reader(BlindedNet())
    net, *_ = the_three(level, met=(None, *(uid for uid in UIDS if uid in held)))
    return camera_and_reader(net)


def model(event, wanted, held, level):
    """Return what a reader sees of an event, or None."""
    whole = {**event, LOCATION: PLACE}
    if level in (SealingLevel.EVENT, BLINDED):
        return whole if admits(wanted, whole) else None
    if not attributes_of(wanted) <= held or not held:
        return None
    return {uid: value for uid, value in whole.items() if uid in held} if admits(wanted, whole) else None


@pytest.mark.laws
@given(
    st.sampled_from([*SealingLevel, BLINDED]),
    st.frozensets(st.sampled_from(UIDS), min_size=1),
    filters,
    st.lists(events, min_size=1, max_size=4),
)
@settings(max_examples=usually(20, laws=60))  # every one is a publication through three brokers
def test_a_reader_sees_what_its_filter_admits_and_its_broker_can_read(level, held, wanted, published):
    camera, reader = network(level, held)
    camera.advertise(ref=1)
    reader.subscribe(ref=1)
    ref = reader.subscribe(wanted, ref=2)
    reader.heard.clear()
    camera.publish(1, *published)
    seen = reader.events(ref)
    reader.withdraw(ref)
    expected = [model(event, wanted, held, level) for event in published]
    # Nothing comes of a frame whose readable part is empty.
    assert seen == [event for event in expected if event is not None]
