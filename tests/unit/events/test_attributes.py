"""Claims about names and uids of attributes."""

from __future__ import annotations

import pytest

from maia.events import ATTRIBUTES_MAX, Attribute, BadAttribute, Kind, attribute_uid, vocabulary_of


@pytest.mark.parametrize("text", ["a", "0", "a-b", "5e-3", "x" * 63, "and"])
def test_uids_are_digits_lower_case_letters_and_inner_hyphens(text):
    assert attribute_uid(text) == text


@pytest.mark.parametrize(
    "text", ["", "-", "-a", "a-", "A", "a_b", "a b", "é", "x" * 64, "a\n", "`a`", "a;b", "a.b", "١"]
)
def test_any_other_uid_is_refused(text):
    with pytest.raises(BadAttribute):
        attribute_uid(text)


@pytest.mark.parametrize("name", ["plate", "_x", "seen-at", "Speed2", "x" * 63])
def test_names_may_have_hyphens_and_capitals(name):
    assert Attribute(name, attribute_uid("u"), Kind.INT).name == name


@pytest.mark.parametrize(
    "name",
    ["", "-x", "2x", "a b", "and", "TRUE", "Exists", "null", "é", "x" * 64, "a\n", "a`b", "${a}", "a.b"],
)
def test_names_that_a_filter_or_a_column_could_misread_are_refused(name):
    with pytest.raises(BadAttribute):
        Attribute(name, attribute_uid("u"), Kind.INT)


def _attribute(name: str, uid: str) -> Attribute:
    return Attribute(name, attribute_uid(uid), Kind.INT)


def test_two_attributes_may_not_differ_in_case_only():
    with pytest.raises(BadAttribute):
        vocabulary_of([_attribute("Plate", "a"), _attribute("plate", "b")])


def test_two_attributes_may_not_share_a_uid():
    with pytest.raises(BadAttribute):
        vocabulary_of([_attribute("one", "a"), _attribute("two", "a")])


def test_a_vocabulary_has_a_largest_size():
    many = [_attribute(f"n{index}", f"u{index}") for index in range(ATTRIBUTES_MAX + 1)]
    assert len(vocabulary_of(many[:-1])) == ATTRIBUTES_MAX
    with pytest.raises(BadAttribute):
        vocabulary_of(many)
