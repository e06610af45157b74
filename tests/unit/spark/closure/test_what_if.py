"""D7: what a principal would have seen of recorded events, against the kernel applied to each event twice."""

from __future__ import annotations

import pytest

from maia.credentials import Action
from maia.policy import Request, see
from maia.spark.closure.what_if import Pools, affected, compare, readable_by, supposed
from maia.spark.governed.reader import slices_of
from maia.testing.refusals import raises
from support.governed import (
    NOON,
    OWNER,
    PLACE,
    PLATE,
    READER,
    SEEN,
    SPEED,
    Recorded,
    at,
    between,
    governed,
    grant,
    key_of,
    reader,
    sightings,
)

ANNA, BEN = key_of("anna"), key_of("ben")
REVOKED = grant(READER, [PLATE, SPEED], "speed < 60")
STAYS = grant(READER, [SPEED, PLACE], validity=between(None, 2))
ISSUED = supposed(grant(ANNA, [PLACE], 'location == "Victoria"').certificate)
POOLS = Pools(
    (REVOKED, STAYS, grant(BEN, [SEEN])), (STAYS, ISSUED, grant(BEN, [SEEN])), frozenset({ISSUED.id})
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Events of two moments; the second lies after one of the reader's certificates."""
    log = Recorded(tmp_path_factory.mktemp("log"))
    moments = [(NOON, sightings(300)), (at(4), sightings(200, 300))]
    for published_at, events in moments:
        log.publish(events, published_at=published_at)
    log.write()
    return log, moments


def seen_by(principal, pool, event_type):
    """Return what a principal sees of an event that was published at a moment."""
    request = Request(principal, Action.SUBSCRIBE, event_type.name, event_type)
    slices = slices_of(request, reader(*pool, who=READER))

    def seen(published_at, event):
        one = next((part for part in slices if part.since <= published_at <= part.until), None)
        return {} if one is None else see(one.view, event) or {}

    return seen


def test_counts_are_those_of_the_kernel_for_each_event(spark, recorded):
    log, moments = recorded
    changed, more = affected(log.event_type, POOLS, at=NOON)
    # Ben's rights are the same; Anna's certificate is one that the owner has not signed.
    assert ({one.principal for one in changed}, more) == ({READER.principal, ANNA.principal}, 0)
    asker = reader(who=OWNER)
    table = governed(spark, log=str(log.folder), event_type=log.event_type, reader=asker, with_meta=True)
    own = Request(OWNER.principal, Action.SUBSCRIBE, log.event_type.name, log.event_type)
    readable = readable_by(slices_of(own, asker), log.event_type)
    found = {
        one.affected.principal: one for one in compare(table, log.event_type, changed, readable=readable)
    }
    less, more, before, after = {}, {}, 0, 0
    with_both = seen_by(READER.principal, (REVOKED, STAYS), log.event_type)
    with_one = seen_by(READER.principal, (STAYS,), log.event_type)
    for published_at, events in moments:
        for event in events:
            was, is_now = with_both(published_at, event), with_one(published_at, event)
            before, after = before + bool(was), after + bool(is_now)
            for uid in was.keys() - is_now.keys():
                less[uid] = less.get(uid, 0) + 1
            for uid in is_now.keys() - was.keys():
                more[uid] = more.get(uid, 0) + 1
    names = {one.uid: one.name for one in log.event_type.attributes}
    mine = found[READER.principal]
    assert (mine.rows_before, mine.rows_after) == (before, after) != (0, 0)
    assert (mine.less, mine.more) == ({names[uid]: count for uid, count in less.items()}, {}) != ({}, {})
    assert len(mine.examples) == 3
    assert all("numberplate" in one["before"] or one["after"] is None for one in mine.examples)
    victoria = sum(event[PLACE] == "Victoria" for _, events in moments for event in events)
    anna = found[ANNA.principal]
    assert (anna.rows_before, anna.rows_after, anna.more) == (0, victoria, {"location": victoria})


def test_what_the_asker_may_not_read_is_neither_compared_nor_shown(spark, recorded):
    log, _ = recorded
    changed, _ = affected(log.event_type, POOLS, at=NOON)
    certificate = grant(BEN, [SPEED, PLACE])
    asker = reader(certificate, who=BEN)
    table = governed(spark, log=str(log.folder), event_type=log.event_type, reader=asker, with_meta=True)
    request = Request(BEN.principal, Action.SUBSCRIBE, log.event_type.name, log.event_type)
    readable = readable_by(slices_of(request, asker), log.event_type)
    assert readable == {SPEED, PLACE}
    for one in compare(table, log.event_type, changed, readable=readable):
        assert "numberplate" not in {*one.less, *one.more}
        assert "numberplate" not in repr(one.examples)
    with raises("PIPELINE-WHAT-IF-BLIND"):
        list(compare(table, log.event_type, changed, readable=frozenset({PLATE})))
