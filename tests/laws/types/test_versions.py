"""What holds between any two versions of a type."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.errors import MaiaError
from maia.events import Kind, frame_of, kind_of
from maia.predicates.syntax import Exists, TextMatch, atoms
from maia.testing.refusals import raises
from maia.types import (
    Added,
    Removed,
    Retyped,
    apply_changes,
    check_predicate,
    diff,
    frame_from_transit,
    from_transit,
    next_version,
    to_transit,
    translate,
)
from support.predicates import predicates, values
from support.types import attribute, attribute_tuples, numberplate, version, versions

pytestmark = pytest.mark.laws

SWAP = (
    numberplate(attribute("a", "1"), attribute("b", "2")),
    numberplate(attribute("b", "1"), attribute("a", "2"), number=1),
)


def values_of(definition):
    """Draw what a publisher of this version may send."""
    optional = {one.name: st.none() | values(one.kind) for one in definition.attributes}
    return st.fixed_dictionaries({}, optional=optional)


def kind_asked(atom):
    """Return the kind that an atom asks for; None if any kind will do."""
    match atom:
        case Exists():
            return None
        case TextMatch():
            return Kind.STRING
        case _:
            return atom.kind


def exact(mapping):
    """Return values with their kinds, for Python takes 1, 1.0 and True for equal."""
    return {name: (None if value is None else kind_of(value), value) for name, value in mapping.items()}


@given(versions())
@example(SWAP)
def test_applying_the_difference_gives_the_new_version(pair):
    old, new = pair
    assert set(apply_changes(old.attributes, diff(old, new))) == set(new.attributes)


@given(versions())
@example(SWAP)
def test_going_back_undoes_every_change(pair):
    old, new = pair
    there, back = diff(old, new), diff(new, old)
    assert set(apply_changes(apply_changes(old.attributes, there), back)) == set(old.attributes)
    assert len(there) == len(back)


@given(attribute_tuples(), st.randoms(use_true_random=False))
def test_a_version_does_not_differ_from_itself_in_any_order(attributes, random):
    shuffled = list(attributes)
    random.shuffle(shuffled)
    assert diff(numberplate(*attributes), numberplate(*shuffled, number=1)) == ()


@given(versions())
def test_the_next_version_differs_by_the_changes_it_was_made_with(pair):
    old, new = pair
    made = next_version(old, diff(old, new), version=version(5))
    assert Counter(diff(old, made)) == Counter(diff(old, new))
    assert (made.previous, made.name.version) == ("0", str(version(5)))


@given(versions())
def test_a_retype_is_a_remove_and_an_add(pair):
    old, new = pair
    split = []
    for change in diff(old, new):
        split += [Removed(change.before), Added(change.after)] if isinstance(change, Retyped) else [change]
    assert set(apply_changes(old.attributes, split)) == set(new.attributes)


@given(st.data(), attribute_tuples())
def test_there_and_back_in_one_version_changes_nothing(data, attributes):
    definition = numberplate(*attributes)
    sent = data.draw(values_of(definition))
    complete = {one.name: sent.get(one.name) for one in attributes}
    assert exact(translate(sent, sender=definition, receiver=definition)) == exact(complete)


@given(st.data(), versions())
def test_what_both_versions_know_survives_the_way_there_and_back(data, pair):
    old, new = pair
    sent = data.draw(values_of(old))
    returned = translate(translate(sent, sender=old, receiver=new), sender=new, receiver=old)
    shared = {one.name: sent.get(one.name) if one.uid in new.kinds else None for one in old.attributes}
    assert exact(returned) == exact(shared)


@given(st.data(), versions())
def test_transit_speaks_in_uids_of_the_senders_version_alone(data, pair):
    old, new = pair
    transit = to_transit(data.draw(values_of(old)), old)
    assert transit.keys() <= old.kinds.keys()
    assert set(from_transit(transit, new)) == {one.name for one in new.attributes}
    assert None not in transit.values()


@given(st.data(), versions())
def test_a_frame_is_translated_like_its_events_one_by_one(data, pair):
    old, new = pair
    rows = data.draw(st.lists(values_of(old), max_size=4))
    transit = [to_transit(row, old) for row in rows]
    frame = frame_of(transit, old.kinds)
    columns = frame_from_transit(frame, new)
    by_row = [{name: column.values[row] for name, column in columns.items()} for row in range(len(rows))]
    assert [exact(row) for row in by_row] == [exact(from_transit(event, new)) for event in transit]


@given(
    attribute_tuples().flatmap(lambda drawn: st.tuples(st.just(drawn), predicates(numberplate(*drawn).kinds)))
)
def test_a_filter_written_for_the_type_is_accepted(drawn):
    attributes, predicate = drawn
    assert check_predicate(predicate, numberplate(*attributes)) is predicate


@given(predicates())
def test_only_a_filter_of_the_wrong_kinds_or_names_is_refused(predicate):
    definition = numberplate(attribute("plate", "plate"), attribute("speed", "speed", Kind.INT))
    fits = all(
        atom.uid in definition.kinds and kind_asked(atom) in (None, definition.kinds[atom.uid])
        for atom in atoms(predicate)
    )
    if fits:
        assert check_predicate(predicate, definition) is predicate
    else:
        with raises("TYPE-UNKNOWN-ATTRIBUTE", "TYPE-KIND-MISMATCH"):
            check_predicate(predicate, definition)


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=3))
def test_any_text_as_name_and_uid_gives_a_definition_or_one_of_our_errors(pairs):
    try:
        definition = numberplate(*(attribute(name, uid) for name, uid in pairs), number=1)
    except MaiaError:
        return
    assert len(definition.attributes) == (len(pairs) or 3)
