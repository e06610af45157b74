"""What happens in the coalition, and who should have seen which contact?

Each round publishes the same six contacts, with requirements on both sides,
while the world has changed in between. Before anything is published, the
kernel says who has to see it: the View of each certificate (`policy.decide`,
`shape`, `see`), requirements on statements (`is_met`), and which routers meet
what the others demand. What really arrived over the sockets is compared with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from maia.clock import system_now
from maia.credentials import Action
from maia.credentials.identity import SignedIdentity
from maia.credentials.requirements import (
    NO_ATTRIBUTES,
    Attributes,
    attributes_of_identity,
    is_met,
    parse_requirement,
)
from maia.demo.coalition.world import (
    APPROVED_BOOT,
    CHANGED_BOOT,
    DEMAND,
    LOSES_ITS_LEVEL,
    NATIONS,
    PEOPLE,
    ROUTERS,
    Contact,
    Say,
    World,
)
from maia.demo.processes import arrival
from maia.errors import MaiaError, Unavailable
from maia.events import Instant, attribute_uid
from maia.net.statement_links import StatementLinks
from maia.net.status_endpoint import fetch_status, read_door
from maia.policy import see, shape
from maia.sealing.two_message import LinkIdentity
from maia.types import from_transit, to_transit

if TYPE_CHECKING:
    from maia.client.api.client import Client
    from maia.client.api.publisher import Publisher
    from maia.client.api.subscription import Subscription


PUBLISHERS: Final = tuple(who for who, one in PEOPLE.items() if one.action is Action.PUBLISH)
READERS: Final = tuple(who for who, one in PEOPLE.items() if one.action is Action.SUBSCRIBE)

CONTACTS: Final = (
    ("Anna", "true", "off Stad"),
    ("Anna", "clearance >= 2", "Sognefjord"),
    ("Anna", "clearance >= 3", "Hardangerfjord"),
    ("Anna", 'nationality == "no"', "Vestfjord"),
    ("Kent", "clearance >= 2", "Dogger Bank"),
    ("Kent", 'nationality == "uk" or clearance >= 3', "Dover Strait"),
)
"""By whom, what the publisher requires of subscribers, and where."""

_SETTLE_S: Final = 90.0
_ARRIVE_S: Final = 60.0
_PROBE_S: Final = 0.25
_TRIAL: Final = "trial"
_LAST_STATEMENT_S: Final = 2


class NotSettledInTime(Unavailable):
    """The coalition did not come to what its statements say within the time it was given."""

    code = "UNAVAILABLE-COALITION-NOT-SETTLED"


class Obstacle(Enum):
    """Why a reader must not see a contact."""

    SUBSCRIBER = "does not meet it"
    PUBLISHER = "wants other publishers"
    NO_STATEMENT = "statement expired"
    CUT_OFF = "router cut off"


@dataclass(frozen=True, slots=True)
class Written:
    """A contact as it was published, and who has to see it, as the kernel says."""

    by: str
    requires: str
    contact: Contact
    expected: Mapping[str, Contact]
    """What each reader that has to see it, sees of it."""
    obstacles: Mapping[str, Obstacle | None]


@dataclass(slots=True)
class Round:
    """What was published in one round, and what each reader received of it."""

    title: str
    written: list[Written] = field(default_factory=list)
    received: dict[str, list[Contact]] = field(default_factory=lambda: {who: [] for who in READERS})
    authors: dict[tuple[str, str], tuple[str | None, bool]] = field(default_factory=dict)
    """For each reader and contact: who published it, and whether it was signed, as the reader verified."""
    neighbours: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The neighbours of each router, as its own status names them."""

    def differences(self) -> Iterator[str]:
        """Say where what arrived is not what the kernel says."""
        for who in READERS:
            expected = [one.expected[who] for one in self.written if who in one.expected]
            missing = [one for one in expected if one not in self.received[who]]
            added = [one for one in self.received[who] if one not in expected]
            twice = len(self.received[who]) - len(expected) - len(added) + len(missing)
            for words, count in (("did not see", len(missing)), ("saw", len(added)), ("saw again", twice)):
                if count:
                    yield f"{self.title}: {who} {words} {count} contacts, against the kernel"
        by = {str(one.contact["vessel"]): one.by for one in self.written}
        for (who, vessel), shown in self.authors.items():
            # A reader knows of an author what a provider states that the reader trusts, and nothing else.
            author = PEOPLE[by[vessel]]
            is_known = author.nation in NATIONS[ROUTERS[PEOPLE[who].router].nation].trusts
            if shown != (author.identifier if is_known else None, True):
                yield f"{self.title}: {who} was shown {shown} as the author of {vessel}"


@dataclass(frozen=True, slots=True)
class Refused:
    """Who tried what, and with which code it was refused; None if nothing stopped it."""

    title: str
    code: str | None


@dataclass(slots=True)
class Play:
    """The connected cast, and everything that was found so far."""

    world: World
    say: Say
    stack: AsyncExitStack
    group: asyncio.TaskGroup
    statements: dict[str, SignedIdentity] = field(default_factory=dict)
    """What each person shows at the moment."""
    clients: dict[str, Client] = field(default_factory=dict)
    publishers: dict[str, Publisher] = field(default_factory=dict)
    trials: dict[str, set[str]] = field(default_factory=lambda: {who: set() for who in READERS})
    rounds: list[Round] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Claims that do not hold, beside those about deliveries."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0

    # ------------------------------------------------------------ people

    async def connect(self, who: str) -> None:
        """Connect a person to its router by a statement link; publishers advertise, readers subscribe."""
        from maia.client.api.client import connect

        person, cast = PEOPLE[who], self.world.cast
        address = self.world.addresses[person.router]
        providers = self.world.trusted_by(ROUTERS[person.router].nation)

        def identity() -> LinkIdentity:
            return LinkIdentity(cast.keys[who], self.statements[who], providers)

        links = StatementLinks(identity, system_now, {address: cast.principal(person.router)})
        connecting = connect(
            address,
            key=cast.keys[who],
            network=cast.network,
            credentials=cast.certificates[who],
            by_statement=links,
            timeout_s=_SETTLE_S,
        )
        client = self.clients[who] = await self.stack.enter_async_context(connecting)
        if person.action is Action.PUBLISH:
            self.publishers[who] = await client.advertise(cast.definition, signs=True)
        else:
            found = await client.subscribe(cast.definition, requires=person.requires)
            self.tasks.append(self.group.create_task(self._collect(who, found)))

    async def _collect(self, who: str, subscription: Subscription) -> None:
        try:
            async for event in subscription:
                place = event["place"]
                if place == _TRIAL:
                    self.trials[who].add(str(event["vessel"]))
                elif self.rounds:
                    self.rounds[-1].received[who].append(dict(event))
                    shown = event.publisher.identifier, event.publisher.is_signed
                    self.rounds[-1].authors[who, str(event["vessel"])] = shown
                self.arrived.set()
        except MaiaError:
            self.arrived.set()  # whoever loses its link for good receives nothing more

    # ------------------------------------------------------------ what the kernel says

    def attributes(self, who: str, now: Instant) -> Attributes | None:
        """Return what a person's statement says; None if it is not in force."""
        statement = self.statements[who].statement
        return attributes_of_identity(statement) if statement.is_in_force(now) else None

    def linked(self) -> dict[str, frozenset[str]]:
        """Return the neighbours that each router has to have, by the statements of all."""
        now, demand = system_now(), parse_requirement(DEMAND)

        def accepts(one: str, other: str) -> bool:
            shown = self.world.statements[other].statement
            believed = ROUTERS[other].nation in NATIONS[ROUTERS[one].nation].trusts and shown.is_in_force(now)
            return believed and is_met(demand, attributes_of_identity(shown))

        return {
            one: frozenset(
                other for other in ROUTERS[one].neighbours if accepts(one, other) and accepts(other, one)
            )
            for one in ROUTERS
        }

    def reach(self, router: str) -> set[str]:
        """Return the routers that events of one router get to."""
        linked, found, ahead = self.linked(), {router}, [router]
        while ahead:
            for other in linked[ahead.pop()] - found:
                found.add(other)
                ahead.append(other)
        return found

    def obstacle(self, who: str, by: str, requires: str) -> Obstacle | None:
        """Say why a reader must not see what a publisher publishes with a requirement; None if it has to."""
        now, person = system_now(), PEOPLE[who]
        shown, author = self.attributes(who, now), self.attributes(by, now)
        if shown is None:
            return Obstacle.NO_STATEMENT
        if person.router not in self.reach(PEOPLE[by].router):
            return Obstacle.CUT_OFF
        if not is_met(parse_requirement(requires), shown):
            return Obstacle.SUBSCRIBER
        # The author counts where the reader's router knows the provider that states who the author is.
        is_known = PEOPLE[by].nation in NATIONS[ROUTERS[person.router].nation].trusts
        known = author if author is not None and is_known else NO_ATTRIBUTES
        return None if is_met(parse_requirement(person.requires), known) else Obstacle.PUBLISHER

    def seen_by(self, who: str, by: str, contact: Contact) -> Contact | None:
        """Return what a reader's certificates let it see of a contact."""
        cast, now = self.world.cast, system_now()
        sent = shape(cast.view_of(by, now=now), to_transit(contact, cast.event_type))
        seen = see(cast.view_of(who, now=now), sent)
        return None if seen is None else from_transit(seen, cast.event_type)

    # ------------------------------------------------------------ rounds

    async def publish_round(self, title: str) -> None:
        """Publish all contacts once, and wait until whatever is on its way has arrived."""
        await self.settle()
        this = Round(title, neighbours=await self.measured())
        self.rounds.append(this)
        for by, requires, place in CONTACTS:
            self.number += 1
            contact = {"vessel": f"contact {self.number}", "place": place, "source": f"sensor of {by}"}
            obstacles = {who: self.obstacle(who, by, requires) for who in READERS}
            expected = {
                who: seen
                for who, obstacle in obstacles.items()
                if obstacle is None and (seen := self.seen_by(who, by, contact)) is not None
            }
            this.written.append(Written(by, requires, contact, expected, obstacles))
            await self.publishers[by].publish_to(requires, contact)
        await self._closed()
        if this.neighbours != self.linked():
            self.broken.append(f"{title}: the neighbours of the routers are not what their statements say")
        self.broken += this.differences()

    async def settle(self) -> None:
        """Wait until routers have the neighbours that they should have, and trials reach all readers."""
        deadline = time.monotonic() + _SETTLE_S
        while await self.measured() != self.linked():
            if time.monotonic() > deadline:
                return  # what is wrong is reported by the comparison
            await asyncio.sleep(_PROBE_S)
        while missing := await self._closed(_PROBE_S * 4):
            if time.monotonic() > deadline:
                raise NotSettledInTime(f"{', '.join(missing)} within {_SETTLE_S:g} seconds")

    async def _closed(self, seconds: float = _ARRIVE_S) -> list[str]:
        """Send a trial after everything else; return what it has not reached in time."""
        awaited: list[tuple[str, str, str]] = []
        for by in PUBLISHERS:
            self.number += 1
            name = f"trial {self.number}"
            awaited += [(who, by, name) for who in READERS if self.obstacle(who, by, "true") is None]
            await self.publishers[by].publish({"vessel": name, "place": _TRIAL, "source": None})
            await self.publishers[by].flush()
        deadline = time.monotonic() + seconds
        while missing := [
            f"nothing of {by} reached {who}" for who, by, name in awaited if name not in self.trials[who]
        ]:
            if (left := deadline - time.monotonic()) <= 0:
                return missing
            await arrival(self.arrived, min(left, _PROBE_S))
        return []

    async def measured(self) -> dict[str, frozenset[str]]:
        """Return the neighbours of each router, as its own status names them."""
        names = {str(self.world.cast.principal(router)): router for router in ROUTERS}
        found = {}
        for router in ROUTERS:
            links = (await self.status(router)).get("links")
            peers = (one for one in links if one["role"] == "broker") if isinstance(links, list) else ()
            found[router] = frozenset(names[one["peer"]] for one in peers)
        return found

    async def status(self, router: str) -> Mapping[str, object]:
        """Ask a router for its status, as `maia status` does."""
        data = self.world.folder / router.replace(" ", "-").lower() / "data"
        return await asyncio.to_thread(lambda: fetch_status(read_door(data)))

    async def attempt(self, title: str, what: Callable[[], object]) -> None:
        """Try what has to be refused, and note the code."""
        try:
            await asyncio.to_thread(what)
        except MaiaError as problem:
            self.refused.append(Refused(title, problem.code))
        else:
            self.refused.append(Refused(title, None))
            self.broken.append(f"{title}: nothing stopped it")


# ------------------------------------------------------------ acts


async def _people_connect(play: Play) -> None:
    world = play.world
    for who in PEOPLE:
        play.statements[who] = await asyncio.to_thread(world.provider_of(who).statement, who)
    home, norway, britain = play.statements["Vries"], world.providers["Norway"], world.providers["Britain"]
    guest = play.statements["Vries"] = await asyncio.to_thread(norway.guest, "Vries", home)
    play.say("Vries of the Netherlands is a guest in Oslo: Norway states again what his home states of him")
    await play.attempt("Vries asks Britain for a guest statement on his guest statement of Norway",
                       partial(britain.guest, "Vries", guest))  # fmt: skip
    await play.attempt("Smit of the Netherlands asks Britain, which has no Dutch guests",
                       partial(britain.guest, "Smit", play.statements["Smit"]))  # fmt: skip
    async with asyncio.TaskGroup() as group:
        for who in PEOPLE:
            group.create_task(play.connect(who))
    play.say("seven people are connected, each by a link of two messages")
    await play.publish_round("at the start")


async def _clearance_is_raised(play: Play) -> None:
    britain, person = play.world.providers["Britain"], PEOPLE["Brown"]
    raised = {**person.attributes, attribute_uid("clearance"): 3}
    await asyncio.to_thread(britain.register, "Brown", person.identifier, raised)
    play.statements["Brown"] = await asyncio.to_thread(britain.statement, "Brown")
    await play.clients["Brown"].identify(play.statements["Brown"])
    play.say("Brown's clearance is raised from 2 to 3; his link stays, and shows the new statement")
    await play.publish_round("Brown's clearance is raised")


async def _statement_expires(play: Play) -> None:
    norway = play.world.providers["Norway"]
    play.statements["Bo"] = await asyncio.to_thread(norway.statement, "Bo", _LAST_STATEMENT_S)
    await play.clients["Bo"].identify(play.statements["Bo"])
    await asyncio.to_thread(norway.remove, "Bo", "his posting has ended")
    play.say(f"Bo leaves the service: his last statement holds for {_LAST_STATEMENT_S} seconds")
    await play.attempt("Bo asks for one more statement", partial(norway.statement, "Bo"))
    bo, deadline = str(play.world.cast.principal("Bo")), time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline:
        links = (await play.status(PEOPLE["Bo"].router)).get("links")
        if isinstance(links, list) and all(one["peer"] != bo for one in links):
            break
        await asyncio.sleep(_PROBE_S)
    else:
        play.broken.append("Bo's link outlived his statement")
    play.say("Bo's statement has expired, and Bergen has ended his link")
    await play.publish_round("Bo's statement has expired")


async def _boot_changes(play: Play) -> None:
    code = await asyncio.to_thread(play.world.boot, LOSES_ITS_LEVEL, *CHANGED_BOOT)
    play.refused.append(Refused(f"{LOSES_ITS_LEVEL} quotes a boot with changed firmware", code))
    if code is None:
        play.broken.append("a changed boot was approved")
    play.say(f"{LOSES_ITS_LEVEL} has booted changed firmware: its quote is genuine, and not approved")
    await play.publish_round(f"{LOSES_ITS_LEVEL} has lost its level")


async def _boot_is_approved_again(play: Play) -> None:
    code = await asyncio.to_thread(play.world.boot, LOSES_ITS_LEVEL, *APPROVED_BOOT)
    if code is not None:
        play.broken.append(f"the approved boot was refused with {code}")
    play.say(f"{LOSES_ITS_LEVEL} has booted what is approved, and proves it")
    await play.publish_round(f"{LOSES_ITS_LEVEL} is back")


_ACTS: Final[Sequence[Callable[[Play], Awaitable[None]]]] = (
    _people_connect,
    _clearance_is_raised,
    _statement_expires,
    _boot_changes,
    _boot_is_approved_again,
)


async def play(world: World, say: Say, show: Callable[[Round], None]) -> Play:
    """Play all acts on a world that is at work; `show` is called with each round that has ended."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        found = Play(world, say, stack, group)
        try:
            for act in _ACTS:
                await act(found)
                show(found.rounds[-1])
        finally:
            for task in found.tasks:
                task.cancel()
    return found
