"""The four changes between two versions, and the rights that allow them."""

import pytest

from maia.credentials.authority import Action
from maia.events import Attribute, Kind
from maia.testing.refusals import raises
from maia.types import (
    Added,
    BadDefinition,
    Removed,
    Renamed,
    Retyped,
    UidReused,
    apply_changes,
    describe,
    diff,
    next_version,
)
from maia.types.changes import ways_to_allow
from support.types import PLATE, TIME, attribute, numberplate, version

COLOUR = attribute("colour", "7")
TIME_AS_TEXT = attribute("timestamp", "77", Kind.STRING)


def changes(*new: Attribute):
    return diff(numberplate(PLATE, TIME), numberplate(*new, number=1))


def test_the_same_name_and_kind_under_a_new_uid_is_another_attribute():
    """Figure 4.3: the re-introduced `license-plate` is not the old one."""
    again = attribute("numberplate", "3879")
    assert changes(again, TIME) == (Removed(PLATE), Added(again))


def test_a_retype_is_not_a_rename_and_not_a_change_of_nothing():
    with pytest.raises(UidReused):
        Retyped(TIME, attribute("timestamp", TIME.uid, Kind.INT))
    with raises("TYPE-CHANGE-DOES-NOT-APPLY"):
        Retyped(TIME, attribute("seen-at", "77", Kind.INT))
    with raises("TYPE-CHANGE-DOES-NOT-APPLY"):
        Retyped(TIME, attribute("timestamp", "77", Kind.TIMESTAMP))


def test_each_change_needs_its_own_right_on_its_own_attribute():
    assert ways_to_allow(Added(COLOUR)) == ({Action.MANAGE_ADD: "7"},)
    assert ways_to_allow(Removed(TIME)) == ({Action.MANAGE_REMOVE: "9058"},)
    assert ways_to_allow(Renamed(PLATE, "plate")) == ({Action.MANAGE_RENAME: "3265"},)


def test_a_retype_is_allowed_by_its_right_or_by_remove_and_add_together():
    assert ways_to_allow(Retyped(TIME, TIME_AS_TEXT)) == (
        {Action.MANAGE_RETYPE: "9058"},
        {Action.MANAGE_REMOVE: "9058", Action.MANAGE_ADD: "77"},
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (Added(COLOUR), "add `colour` (uid 7, string)"),
        (Removed(TIME), "remove `timestamp` (uid 9058, timestamp)"),
        (Renamed(PLATE, "plate"), "rename `numberplate` to `plate` (uid 3265)"),
        (
            Retyped(TIME, TIME_AS_TEXT),
            "retype `timestamp` from timestamp (uid 9058) to string (uid 77)",
        ),
    ],
)
def test_changes_read_like_sentences(change, sentence):
    assert describe(change) == sentence


@pytest.mark.parametrize(
    "impossible",
    [
        (Removed(COLOUR),),
        (Renamed(COLOUR, "color"),),
        (Removed(attribute("other", PLATE.uid)),),
        (Removed(PLATE), Renamed(PLATE, "plate")),
        (Removed(PLATE), Removed(PLATE)),
        (Added(attribute("again", PLATE.uid)),),
    ],
)
def test_changes_that_do_not_fit_are_refused(impossible):
    with raises("TYPE-CHANGE-DOES-NOT-APPLY"):
        apply_changes((PLATE, TIME), impossible)


def test_the_next_version_names_the_one_it_was_made_from_and_inherits_no_credentials():
    first = numberplate(PLATE, TIME)
    second = next_version(first, (Added(COLOUR),), version=version(8516))
    third = next_version(second, (Removed(TIME),), version=version(9000))
    assert (second.previous, third.previous) == ("0", str(version(8516)))
    assert third.attributes == (PLATE, COLOUR)
    assert third.credentials == ()


def test_the_last_attribute_cannot_be_removed():
    with pytest.raises(BadDefinition, match="at least one"):
        next_version(numberplate(PLATE), (Removed(PLATE),), version=version(1))
