"""Names at their edges, and periods that include both ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import UNBOUNDED, BadName, NetworkName, TopicName, TypeName, Validity, steady_period
from maia.credentials.names import NAME_MAX
from maia.events import Instant
from support.certificates import KEYS, VERSION

OWNER = KEYS[0].principal
BOUNDS = st.one_of(st.none(), st.integers(0, 6).map(Instant))
VALIDITIES = st.builds(Validity, BOUNDS, BOUNDS)
EVERY_MOMENT = [Instant(moment) for moment in range(-1, 9)]


@pytest.mark.parametrize(
    "name", ["a", "_", "uk.gov.pito.Numberplate", "UK Police Network", "a-b.c_d", "x" * NAME_MAX]
)
def test_ordinary_names_are_accepted(name):
    assert TypeName(OWNER, name, "0").name == name
    assert NetworkName(OWNER, name).name == name


@pytest.mark.parametrize("path", ["/", "/traffic", "/traffic/london", "/a b/c-d", "/" + "x" * (NAME_MAX - 1)])
def test_ordinary_paths_are_accepted(path):
    assert TopicName(OWNER, path).path == path


@pytest.mark.parametrize("path", ["", "a", "//", "/a/", "/a//b", "/a.b", "/..", "/ a", "/" + "x" * NAME_MAX])
def test_other_paths_are_refused(path):
    with pytest.raises(BadName):
        TopicName(OWNER, path)


@pytest.mark.parametrize("version", ["0", VERSION])
def test_versions_are_zero_or_a_uuid(version):
    assert TypeName(OWNER, "a", version).version == version
    with pytest.raises(BadName):
        TypeName(OWNER, "a", "")


@given(VALIDITIES)
def test_an_empty_period_contains_no_moment(validity):
    if validity.is_empty:
        assert not any(validity.contains(moment) for moment in EVERY_MOMENT)
    else:
        assert any(validity.contains(moment) for moment in EVERY_MOMENT)
    assert validity.intersection(UNBOUNDED) == validity


@given(st.lists(VALIDITIES, max_size=4), st.sampled_from(EVERY_MOMENT))
def test_nothing_begins_or_ends_in_a_steady_period_and_it_is_the_longest(validities, at):
    steady = steady_period(validities, at)
    at_the_time = [validity.contains(at) for validity in validities]
    same = [[one.contains(moment) for one in validities] == at_the_time for moment in EVERY_MOMENT]
    inside = [steady.contains(moment) for moment in EVERY_MOMENT]
    assert steady.contains(at)
    assert all(is_same for is_same, is_inside in zip(same, inside, strict=True) if is_inside)
    bounds = {bound for one in validities for bound in (one.not_before, one.not_after)} - {None}
    for edge in (steady.not_before, Instant(steady.not_after + 1) if steady.not_after < 99 else None):
        assert edge is None or edge < -1 or edge in bounds or Instant(edge - 1) in bounds
