"""A subscriber learns who published, with which attributes, across brokers and out of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from maia.broker.server.log_recording import LogRecorder
from maia.broker.server.server import RunningBroker, run_broker
from maia.broker.settings import RecordingSettings
from maia.clock import system_now
from maia.credentials import SigningKey
from maia.credentials.identity import SignedIdentity
from maia.log.disk.event_log import EventLog
from maia.net.observer import QuietRecords
from maia.net.statement_links import StatementLinks
from maia.net.stores import FolderStore
from maia.sealing.two_message import LinkIdentity
from maia.testing import in_a_loop, soon, until
from support.live import BROKER, STORY, client, settings
from support.two_message import COMMUNITY, NORWAY, link_identity, live_statement

CAMERA, BILLING, SMITH = "camera at Victoria", "billing office", "Detective Smith"
HERE, THERE = STORY.keys[BROKER], SigningKey.from_seed(b"\x78" * 32)
TRUST = link_identity(HERE, own=live_statement(HERE)).trust


@dataclass
class Renewed:
    """A node's statement, which its provider renews while the node runs."""

    key: SigningKey
    own: SignedIdentity

    def __call__(self) -> LinkIdentity:
        return link_identity(self.key, own=self.own)

    def renew(self, **about: float) -> None:
        self.own = live_statement(self.key, **about)


def renewed(key: SigningKey, **about: float) -> Renewed:
    return Renewed(key, live_statement(key, **about))


@asynccontextmanager
async def two_brokers(folder: Path) -> AsyncIterator[tuple[RunningBroker, RunningBroker]]:
    """Run a broker, and one that joined it by a statement link, and records."""
    async with AsyncExitStack() as stack:
        log = stack.enter_context(EventLog.open(folder / "log"))
        recorder = LogRecorder(log, clock=system_now, records=QuietRecords())
        of_first = StatementLinks(renewed(HERE), system_now)
        before = system_now()
        first = await stack.enter_async_context(
            run_broker(
                HERE, settings(identity=TRUST), by_statement=of_first, listen_by_statement="127.0.0.1:0"
            )
        )
        await until(lambda: system_now() > before, "requests are signed after the broker's start")
        seed = f"{HERE.principal}@{first.statement_address}"
        joined = settings(
            credentials=(STORY.broker_right(THERE),),
            seeds=(seed,),
            identity=TRUST,
            recording=RecordingSettings(),
        )
        second = await stack.enter_async_context(
            run_broker(
                THERE,
                joined,
                store=FolderStore(folder / "kept"),
                recorder=recorder,
                by_statement=StatementLinks(renewed(THERE), system_now),
            )
        )
        await until(lambda: second.status()["peers"], "the brokers are connected by a statement link")
        yield first, second


@in_a_loop
async def test_a_subscriber_sees_the_publishers_attributes_and_verifies_author_and_content(tmp_path: Path):
    """I6: the statement is attached by the publisher's broker, and crosses brokers, logs and Views."""
    async with two_brokers(tmp_path) as (here, there), AsyncExitStack() as stack:
        identity = renewed(STORY.keys[CAMERA])
        camera = await stack.enter_async_context(client(CAMERA, here.address, identity=identity))
        smith = await stack.enter_async_context(
            client(SMITH, there.address, identity=renewed(STORY.keys[SMITH]))
        )
        billing = await stack.enter_async_context(client(BILLING, there.address))
        suspects = await smith.subscribe(STORY.definition)
        bills = await billing.subscribe(STORY.definition, durable="bills")
        cars = await camera.advertise(STORY.definition, signs=True)
        await cars.publish_many(
            [
                {"numberplate": plate, "timestamp": None, "location": "Victoria"}
                for plate in ("B1", "AE05 XYZ")
            ]
        )
        await cars.flush()

        # The detective sees one of two rows, and trusts the provider itself: nothing rests on a router.
        by = (await soon(anext(suspects))).publisher
        assert (by.principal, by.identifier) == (STORY.principal(CAMERA), "somebody@norway")
        assert by.attributes == {"nationality": "no", "clearance": 2}
        assert by.identity is not None
        assert (by.identity.issuer, by.identity.community) == (NORWAY.principal, COMMUNITY)
        assert (by.is_signed, by.is_identity_verified, by.is_verified) == (True, True, True)

        # The billing office reads the log, sees no places, and takes its broker's word for the statement.
        bill = await soon(anext(bills))
        assert (bill["numberplate"], bill["location"]) == ("B1", None)
        assert (bill.publisher.identifier, bill.publisher.is_signed) == ("somebody@norway", True)
        assert (bill.publisher.is_identity_verified, bill.publisher.is_verified) == (False, False)


@in_a_loop
async def test_a_renewed_statement_acts_from_the_next_frame_on_and_both_ways(tmp_path: Path):
    """I4: more attributes, other attributes, none at all, on a TLS link that lives on."""
    async with two_brokers(tmp_path) as (here, there), AsyncExitStack() as stack:
        identity = renewed(STORY.keys[CAMERA])
        camera = await stack.enter_async_context(client(CAMERA, here.address, identity=identity))
        billing = await stack.enter_async_context(client(BILLING, there.address))
        bills = await billing.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)

        async def clearance_of_next() -> object:
            await cars.publish(numberplate="AE05 XYZ")
            return (await soon(anext(bills))).publisher.attributes.get("clearance")

        assert await clearance_of_next() == 2
        for level in (5, 1):
            await camera.identify(live_statement(STORY.keys[CAMERA], clearance=level))
            assert await clearance_of_next() == level
        # A source that changes is followed by itself.
        identity.renew(clearance=4)
        while await clearance_of_next() != 4:
            pass
        assert here.status()["clients"] == 1
