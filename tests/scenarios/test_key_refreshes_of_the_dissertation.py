"""When is a key refreshed? The four situations of the dissertation's figure 7.6, and those around them."""

from __future__ import annotations

import pytest

from maia.types import SealingLevel
from support.key_groups import PLACE, PLATE, TIME, WRITE, KeyNet, at, grant, key_of

REFRESH_S = 1000  # the periodic refresh of `support.key_groups.TERMS`


@pytest.fixture
def net():
    """A group with one member, whose key was first made at noon."""
    found = KeyNet(SealingLevel.EVENT)
    found.member("camera", grant(key_of("camera"), actions=WRITE))
    assert found.epoch() == 1
    return found


def why(net):
    """Return the reasons of every refresh so far, in their order."""
    known = {"epoch", "type", "groups", "told"}
    return [set(note.fields) - known for note in net.notes if note.event == "epoch"]


def test_a_broker_that_was_authorised_at_the_last_refresh_joins_without_a_new_one(net):
    net.run_to(at(300))
    late = net.member("late", grant(key_of("late"), since=-100, until=5000))
    assert net.epoch() == 1
    assert net.holds(late)


def test_a_broker_whose_authority_began_after_the_last_refresh_makes_a_new_one_necessary(net):
    net.run_to(at(300))
    late = net.member("late", grant(key_of("late"), since=200, until=5000))
    assert net.epoch() == 2
    assert net.holds(late, epoch=2)
    assert not net.holds(late, epoch=1)
    assert why(net)[-1] == {"join"}


def test_a_broker_that_leaves_is_shut_out_when_its_authority_ends(net):
    leaver = net.member("leaver", grant(key_of("leaver"), until=500))
    net.run_to(at(100))
    net.leave(leaver)
    net.run_to(at(500))
    assert net.epoch() == 1
    net.run_to(at(500.001))
    assert net.epoch() == 2
    assert why(net)[-1] == {"expiry"}


def test_a_broker_whose_authority_outlasts_the_timer_is_shut_out_with_the_periodic_refresh(net):
    leaver = net.member("leaver", grant(key_of("leaver"), until=50_000))
    net.run_to(at(100))
    net.leave(leaver)
    net.run_to(at(REFRESH_S - 1))
    assert net.epoch() == 1
    net.run_to(at(REFRESH_S))
    assert net.epoch() == 2
    assert why(net)[-1] == {"timer"}
    net.run_to(at(REFRESH_S * 1.9))
    assert net.epoch() == 2  # its end is no client's concern any more


# ------------------------------------------------------------ around the figure


def test_a_right_that_ends_while_its_holder_is_a_member_ends_with_a_refresh_at_once(net):
    reader = net.member("reader", grant(key_of("reader"), until=40))
    net.run_to(at(40))
    assert net.holds(reader)
    net.run_to(at(40.001))
    assert net.epoch() == 2
    assert not net.holds(reader, epoch=1)  # it has destroyed what it held, too
    assert why(net)[-1] == {"expiry"}


def test_a_member_that_is_put_out_in_the_middle_of_its_validity_is_out_at_once(net):
    reader = net.member("reader", grant(key_of("reader")))
    net.serve(net.server.evict(reader.principal, net.now))
    assert net.epoch() == 2
    assert not net.holds(reader)
    assert why(net)[-1] == {"eviction"}


def test_a_gap_between_two_certificates_counts_as_having_had_no_right(net):
    """Valid at the last refresh and now is not enough: what was sealed in between is not for this reader."""
    net.run_to(at(300))
    patchy = net.member(
        "patchy", grant(key_of("patchy"), since=-50, until=100), grant(key_of("patchy"), since=200)
    )
    assert net.epoch() == 2
    assert not net.holds(patchy, epoch=1)


def test_certificates_that_overlap_count_as_one_right(net):
    net.run_to(at(300))
    net.member("renewed", grant(key_of("renewed"), since=-50, until=100), grant(key_of("renewed"), since=90))
    assert net.epoch() == 1


def test_a_member_that_comes_back_before_anything_changed_is_handed_the_same_key(net):
    reader = net.member("reader", grant(key_of("reader"), since=-1))
    net.leave(reader)
    net.run(10)
    net.restart_member(reader)
    assert net.epoch() == 1
    assert net.holds(reader)


def test_only_the_groups_that_a_client_lost_are_refreshed():
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    other = net.member("other", grant(key_of("other"), [TIME]))
    net.member("billing", grant(key_of("billing"), [PLATE], until=10))
    net.run_to(at(11))
    head = net.server.groups_of(net.type_id).head.statement
    assert {group.uid for group in head.refreshed} == {None, PLATE}
    place, time = net.group(PLACE), net.group(TIME)
    ring = net.ring(camera)
    assert ring.secret(place, 1) == ring.secret(place, 2)
    assert ring.key(place, 1) != ring.key(place, 2)
    assert net.ring(other).key(time, 2) == ring.key(time, 2)


def test_a_right_that_begins_later_opens_its_group_at_that_moment():
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    reader = net.member("reader", grant(key_of("reader"), [TIME]), grant(key_of("reader"), [PLATE], since=20))
    net.run_to(at(19.9))
    assert not net.holds(reader, PLATE)
    net.run_to(at(20))
    assert net.holds(reader, PLATE)
    assert net.ring(reader).key(net.group(PLATE), net.epoch()) == net.ring(camera).key(
        net.group(PLATE), net.epoch()
    )
    assert not net.holds(reader, PLATE, epoch=1)


def test_a_group_that_every_client_left_is_refreshed_when_a_client_comes_back():
    net = KeyNet(SealingLevel.EVENT)
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.leave(camera)
    net.run_to(at(REFRESH_S * 5))
    net.restart_member(camera)
    ring = net.ring(camera)
    assert ring.sealing_epoch(net.now) == net.epoch()
