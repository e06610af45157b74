"""What was accepted once is not contradicted later."""

from maia.credentials.keys import SigningKey
from maia.testing.refusals import raises
from maia.types import TypeHistory, sign_definition, verify_definition
from maia.types import verified as history_module
from support.types import NOON, PITO, TIME, numberplate, version


def verified(*attributes, number=0, previous=0, signer: SigningKey = PITO, owner=PITO.principal):
    definition = numberplate(*attributes, number=number, previous=previous, owner=owner)
    return verify_definition(sign_definition(definition, signer), at=NOON)


FIRST = verified()
EMPTY = TypeHistory(FIRST.type_id)
V1, V2, V3 = (str(version(number)) for number in (1, 2, 3))


def remembered(*types):
    history = EMPTY
    for one in types:
        history = history.remember(one)
    return history


def test_versions_form_a_tree():
    history = remembered(FIRST, verified(number=1), verified(number=2, previous=1), verified(number=3))
    assert history.descends(later=V2, earlier="0")
    assert history.descends(later=V2, earlier=V1)
    assert not history.descends(later=V1, earlier=V2)
    assert not history.descends(later=V3, earlier=V1)
    assert not history.descends(later=V1, earlier=V1)


def test_remembering_twice_changes_nothing():
    history = remembered(FIRST)
    assert history.remember(FIRST) is history


def test_versions_do_not_run_in_a_circle():
    with raises("TYPE-VERSIONS-IN-A-CIRCLE"):
        remembered(verified(number=1, previous=2), verified(number=2, previous=1))


def test_an_upgrade_follows_the_version_in_use():
    second, third = verified(number=1), verified(number=2, previous=1)
    assert EMPTY.upgrade(current=FIRST, offered=second) is second
    assert remembered(second).upgrade(current=FIRST, offered=third) is third
    assert EMPTY.upgrade(current=second, offered=second) is second


def test_a_history_is_bounded(monkeypatch):
    monkeypatch.setattr(history_module, "VERSIONS_MAX", 2)
    history = remembered(FIRST, verified(number=1))
    with raises("TYPE-HISTORY-FULL"):
        history.remember(verified(number=2))
    assert history.remember(FIRST) is history


def test_an_unchanged_history_is_not_touched_by_a_refusal():
    history = remembered(FIRST)
    with raises("TYPE-FORK"):
        history.remember(verified(TIME))
    assert dict(history.digests) == {"0": FIRST.content}
