"""A98: a router claims a level that it lost, or never had; routers that demand the level do without it.

Brokers 0 and 1 demand a level of 2. Broker 2 demands nothing. Everything runs in the simulation, over the
same bytes as in production; the provider is a key.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from maia.credentials import SigningKey
from maia.credentials.identity import (
    Identity,
    IdentityTrust,
    SignedIdentity,
    issue_identity,
    pack_identity,
)
from maia.credentials.requirements import parse_requirement
from maia.events import SECOND, Instant, attribute_uid
from maia.wire.codec import encode
from maia.wire.effects import Send
from maia.wire.messages import Identify
from support.city import City

PROVIDER, STRANGER = SigningKey.from_seed(b"p" * 32), SigningKey.from_seed(b"s" * 32)
LEVEL = attribute_uid("tpm-integrity")


class Levelled(City):
    """A city whose routers show statements."""

    def __init__(
        self, levels: Mapping[int, int], *, demanding: frozenset[int], brokers: int = 3, **more: object
    ) -> None:
        self.levels, self.demanding = levels, demanding
        trust = IdentityTrust("city", frozenset({PROVIDER.principal}))
        super().__init__(7, brokers=brokers, identity=trust, **more)

    def add_broker(self, number: int, **settings: object) -> None:
        demand = {"demand": parse_requirement("tpm-integrity >= 2")} if number in self.demanding else {}
        super().add_broker(number, **settings, **demand)
        if number in self.levels:
            self.show(number, self.statement(number, self.levels[number]))

    def statement(
        self, number: int, level: int, *, by: SigningKey = PROVIDER, seconds: int = 900
    ) -> SignedIdentity:
        now = Instant(self.network.now - self.network.now % SECOND)
        subject, ends = self.key(f"broker {number}").principal, Instant(now + seconds * SECOND)
        attributes = {LEVEL: level} if level else {}
        said = Identity(
            by.principal, "city", subject, f"router {number}", attributes, now, ends, by.principal
        )
        return issue_identity(said, by)

    def show(self, number: int, statement: SignedIdentity) -> None:
        name = f"broker {number}"
        self.network.act(name, lambda now: self.network.node(name).identify(statement, now))

    def links(self, number: int) -> dict[int, int]:
        """Return the links of a broker to its neighbours, by its own account."""
        found = self.network.node(f"broker {number}").status(self.network.now)["links"]
        peers = {str(self.key(one).principal): number for number, one in enumerate(self.brokers)}
        assert isinstance(found, list)
        return {one["link"]: peers[one["peer"]] for one in found if one["role"] == "broker"}

    def neighbours(self, number: int) -> set[int]:
        return set(self.links(number).values())

    def settled(self, *pairs: tuple[int, int]) -> bool:
        found = {(one, other) for one in range(len(self.brokers)) for other in self.neighbours(one)}
        return found == {*pairs, *((other, one) for one, other in pairs)}


class LevelledCity(Levelled):
    """Routers that find each other by a rendezvous."""


BOTH = frozenset({0, 1})


def test_clusters_of_a_level_form_by_themselves_and_a_router_comes_back_with_its_level() -> None:
    city = LevelledCity({0: 2, 1: 3, 2: 1}, demanding=BOTH)
    city.network.run_until(lambda: city.settled((0, 1)), at_most=60)
    city.network.run_for(120)
    assert city.settled((0, 1)), "a router of a lower level stays outside"
    assert city.network.node("broker 0").status(city.network.now)["counters"]["maia_links_refused_total"]
    city.show(2, city.statement(2, 2))
    city.network.run_until(lambda: city.settled((0, 1), (0, 2), (1, 2)), at_most=180)
    city.show(1, city.statement(1, 0))  # it has booted something else
    city.network.run_until(lambda: city.settled((0, 2), (1, 2)), at_most=10)
    city.network.run_for(60)
    assert city.settled((0, 2), (1, 2)), "without its level it stays only with who demands none"
    city.show(1, city.statement(1, 2))
    city.network.run_until(lambda: city.settled((0, 1), (0, 2), (1, 2)), at_most=180)


def test_a_level_ends_with_its_statement_unless_it_is_renewed() -> None:
    """A98: claims a level that it lost."""
    city = LevelledCity({0: 2, 1: 2, 2: 2}, demanding=frozenset({0}))
    city.network.run_until(lambda: city.settled((0, 1), (0, 2), (1, 2)), at_most=60)
    before = city.links(0)
    city.show(1, city.statement(1, 2, seconds=30))
    city.network.run_for(20)
    city.show(1, city.statement(1, 2, seconds=60))
    city.network.run_for(20)
    assert city.links(0) == before, "renewed in time, within the same link"
    city.network.run_for(60)
    assert city.settled((0, 2), (1, 2)), "only who demands nothing keeps a router without a level"


@pytest.mark.parametrize("lie", ["of another router", "of another provider", "expired", "none"])
def test_a_statement_that_does_not_count_makes_no_neighbour(lie: str) -> None:
    """A98: claims a level that it never had. A96: a statement is borrowed, expired or of another issuer."""
    city = LevelledCity({0: 2, 1: 2}, demanding=BOTH)
    shown = {
        "of another router": lambda: city.statement(1, 2),
        "of another provider": lambda: city.statement(2, 2, by=STRANGER),
        "expired": lambda: expired,
    }
    expired = city.statement(2, 2, seconds=1)
    city.network.run_for(5)
    if lie != "none":
        city.show(2, shown[lie]())
    city.network.run_for(120)
    assert city.settled((0, 1))


def test_a_bad_statement_takes_nothing_from_a_neighbour_that_has_a_good_one() -> None:
    city = LevelledCity({0: 2, 1: 2, 2: 2}, demanding=BOTH)
    city.network.run_until(lambda: city.settled((0, 1), (0, 2), (1, 2)), at_most=60)
    garbage = encode(Identify(5, pack_identity(city.statement(1, 9))))
    links = city.network.node("broker 2").status(city.network.now)["links"]
    assert isinstance(links, list)
    for one in links:
        city.network.act("broker 2", lambda _now, link=one["link"]: [Send(link, garbage)])
    city.network.run_for(10)
    assert city.settled((0, 1), (0, 2), (1, 2))


@pytest.mark.parametrize("lease_s", [12, 60], ids=["away for a lease", "away for less"])
def test_a_mesh_goes_around_a_router_that_has_lost_its_level_and_takes_it_back(lease_s: int) -> None:
    """A98: nothing crosses a router that claims a level no more, and the mesh heals."""
    ladder = {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    levels = dict.fromkeys(range(6), 2)
    city = Levelled(levels, demanding=frozenset(range(6)), brokers=6, edges=ladder, lease_s=lease_s)
    cameras = [city.camera("camera at Victoria", "Victoria", via=(3,)), city.camera("camera at Soho", "Soho")]
    offices = [city.office(f"office {number}", via=(number,)) for number in range(6)]
    city.settle()
    city.network.run_until(lambda: city.settled(*ladder), at_most=60)

    def missing() -> set[int]:
        """Publish for longer than a renewal takes; return the routers whose office did not see all of it."""
        city.network.run_for(lease_s / 2)
        moments = []
        for _ in range(6):
            moments += [moment for camera in cameras for moment in city.sees(camera, 1)]
            city.network.run_for(lease_s / 6)
        seen = [set(city.expected(office, moments)) - set(office.seen) for office in offices]
        return {number for number, one in enumerate(seen) if one}

    assert missing() == set()
    city.show(4, city.statement(4, 1))
    city.network.run_until(lambda: city.settled(*(one for one in ladder if 4 not in one)), at_most=10)
    city.network.run_for(15)
    assert missing() == {4} if lease_s == 12 else city.neighbours(4) == set()
    city.show(4, city.statement(4, 2))
    city.network.run_until(lambda: city.settled(*ladder), at_most=120)
    assert missing() == set()
