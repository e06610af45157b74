"""Can a topic, a wildcard or a path show its readers, or take from its publishers, more than their right?

Over real sockets: two brokers, and attackers who hold certificates by pattern
and hand-made clients that send what the client library would refuse.
"""

from __future__ import annotations

import pytest

from maia.client import RefusedByBroker, RowsRefused
from maia.credentials import BadName, TopicName, TypeName, parse_name_pattern
from maia.errors import BrokenCredential, MaiaError
from maia.testing import in_a_loop
from maia.testing.refusals import raises
from maia.types import BadDefinition, TypeDefinition, sign_definition
from maia.types.definition import plain_attributes, tree_name
from support.newsroom import (
    CITY,
    NEWS,
    PUBLISH,
    SUBSCRIBE,
    brokers,
    client,
    connecting,
    declared,
    declared_typed,
    granted,
    key,
    received,
)

PLACES = ["/news", "/news/uk", "/news/uk/sport", "/news/fr", "/news/fr/sport", "/news/ukraine"]
END = "/news/uk/sport/end"


async def _seen_by(*grants, asked: str, end: str = END, **named: object) -> list[str]:
    """Publish everywhere at one broker; return what a reader with these grants gets at the other."""
    async with (
        brokers("north", "south") as (north, south),
        client("reader", south, *grants) as reader,
        client("city", north) as city,
    ):
        subscription = await reader.subscribe(asked, **named)
        once = await received(subscription, city.publish, end)
        assert once == []
        for place in PLACES:
            await city.publish(place, payload=b"news")
        return [one for one in await received(subscription, city.publish, end) if one != end]


@in_a_loop
async def test_a_wildcard_that_overlaps_a_right_opens_the_overlap_alone():
    """A1, A99: the reader of `/news/uk` who asks for sport everywhere gets British sport."""
    grant = granted("reader", SUBSCRIBE, "/news/uk/#")
    assert await _seen_by(grant, asked="/news/+/sport") == ["/news/uk/sport"]


@in_a_loop
async def test_who_asks_for_the_root_gets_no_more_than_its_topics():
    """A99: neither the parent nor a sister whose name begins alike is shown."""
    grant = granted("reader", SUBSCRIBE, "/news/uk/#")
    assert await _seen_by(grant, asked="/news") == ["/news/uk", "/news/uk/sport"]


@in_a_loop
async def test_rights_of_a_chain_intersect_exactly():
    """A1: `+/sport` of the owner and `uk` of a domain are British sport, in whatever order."""
    for first, second in (("/news/+/sport/#", "/news/uk/#"), ("/news/uk/#", "/news/+/sport/#")):
        met = key("met")
        above = granted("met", SUBSCRIBE, first, may_delegate=True)
        below = granted("reader", SUBSCRIBE, second, issuer=met)
        assert await _seen_by(above, below, asked="/news/#") == ["/news/uk/sport"]


@in_a_loop
async def test_a_right_on_one_tree_is_no_right_on_another():
    """A22: whatever its pattern says, a certificate is about the tree, and the subject, that it names."""
    prices = declared_typed()
    async with brokers("north") as (north,):
        stray = granted("reader", SUBSCRIBE, "/prices/#", type_name="topic.news")
        async with client("reader", north, stray, types=[NEWS, prices]) as reader:
            with raises("POLICY-NO-CHAIN"):
                await reader.subscribe("/prices")
        meant_for_another = granted("other", SUBSCRIBE, "/prices/#")
        async with client("reader", north, meant_for_another, types=[prices]) as reader:
            with raises("POLICY-NO-CHAIN"):
                await reader.subscribe("/prices")


@in_a_loop
async def test_a_publisher_needs_the_right_on_every_super_topic():
    """A99: who may publish below `/news/uk` would reach the readers of `/news`, and publishes nothing."""
    async with brokers("north") as (north,):
        async with client("desk", north, granted("desk", PUBLISH, "/news/uk/#")) as desk:
            with pytest.raises(RefusedByBroker) as refused:
                await desk.publish("/news/uk", payload=b"news")
            assert refused.value.code == "POLICY-GRANT-UNMEETABLE"
            assert "every topic above" in refused.value.message
        rights = granted("desk", PUBLISH, "/news", "/news/uk/#")
        async with client("desk", north, rights) as desk:
            for path in ("/news", "/news/uk", "/news/uk/sport"):
                await desk.publish(path, payload=b"news")
            for path in ("/news/fr", "/news/ukraine", "/news/fr/sport"):
                with pytest.raises(RowsRefused):
                    await desk.publish(path, payload=b"forged")


@in_a_loop
async def test_two_certificates_do_not_add_up_to_a_super_topic_right():
    """A99: one chain speaks for a publisher, of topics as of types."""
    grants = granted("desk", PUBLISH, "/news"), granted("desk", PUBLISH, "/news/uk/#")
    async with brokers("north") as (north,), client("desk", north, *grants) as desk:
        await desk.publish("/news", payload=b"news")
        with pytest.raises(RowsRefused):
            await desk.publish("/news/uk", payload=b"forged")


BAD_PATHS = ["/news//uk", "/news/", "/news/+", "/news/#", "/news/..", "/news/é", "/news/u\0k", "/news/uk ",
             "/News", "/newsuk", "/other", "news", "", "/news" + "/a" * 16, "/news/\nuk"]  # fmt: skip


@in_a_loop
async def test_a_path_that_could_be_mistaken_is_refused_at_the_edge():
    """A3, A5: a hand-made client sends paths that the library refuses; the owner's own are refused, too."""
    async with brokers("north") as (north,), client("city", north) as city:
        publisher = await city.advertise("/news")
        for path in BAD_PATHS:
            with pytest.raises(MaiaError):
                await publisher.publish(topic=path)
        publisher._outbox._tree = None  # the library looks away
        for path in (one for one in BAD_PATHS if "\0" not in one):
            await publisher.publish(topic=path)
        await publisher.publish(payload=b"on no topic")
        with pytest.raises(RowsRefused):
            await publisher.flush()
        assert publisher.published_rows == 0


@in_a_loop
async def test_the_topics_of_another_owner_are_other_topics():
    """A5, A22: a stranger's `/news` reaches nobody who subscribed to the city's."""
    stranger = key("stranger")
    forged = declared(owner=stranger, credentials=(connecting("stranger"),))
    async with (
        brokers("north", "south") as (north, south),
        client("reader", south, granted("reader", SUBSCRIBE, "/news/#")) as reader,
        client("stranger", north, types=[forged]) as other,
        client("city", north) as city,
    ):
        subscription = await reader.subscribe("/news")
        await received(subscription, city.publish, END)
        await other.publish(TopicName(stranger.principal, "/news/uk"), payload=b"forged")
        assert set(await received(subscription, city.publish, "/news/fr")) <= {END}


@in_a_loop
async def test_a_declaration_that_its_owner_did_not_sign_declares_nothing():
    """A22, A29: the owner's key is in the name of its topics."""
    name = tree_name(CITY.principal, "/news")
    forged = sign_definition(TypeDefinition(name, None, plain_attributes()), key("stranger"))
    with pytest.raises(BrokenCredential):
        async with brokers("north") as (north,), client("stranger", north, types=[forged]):
            pass


@in_a_loop
async def test_a_grant_of_all_topics_reaches_no_reserved_name():
    """A4: `/admin/…` is no tree, whatever pattern is granted, and no definition makes it one."""
    with pytest.raises(BadName):
        declared("/admin")
    with pytest.raises(BadName):
        TypeDefinition(TypeName(CITY.principal, "topic.admin", "0"), None, plain_attributes())
    with pytest.raises(BadDefinition):
        TypeDefinition(NEWS.definition.name, None, plain_attributes()[1:])
    assert not parse_name_pattern("topic.*").matches("maia.validity")
    wide = granted("reader", SUBSCRIBE, "/+/#", type_name="topic.*")
    async with brokers("north") as (north,), client("reader", north, wide) as reader:
        with pytest.raises(BadName):
            await reader.subscribe("/admin/policy")
        await reader.subscribe("/news")


@in_a_loop
async def test_a_reader_without_the_attribute_topic_learns_no_path():
    """A99: where the path is hidden, no filter can ask for it, and no event shows it."""
    headline = NEWS.definition.attributes[-1].uid
    grant = granted("reader", SUBSCRIBE, "/news/uk/#", attributes=frozenset({headline}))
    async with (
        brokers("north") as (north,),
        client("reader", north, grant) as reader,
        client("city", north) as city,
    ):
        with pytest.raises(RefusedByBroker):
            await reader.subscribe("/news/uk")
        subscription = await reader.subscribe(NEWS)
        await city.publish("/news/fr", headline="no")
        await city.publish("/news/uk", headline="yes")
        (event,) = await subscription.some(1, timeout_s=60)
        assert (event["headline"], event["topic"]) == ("yes", None)
