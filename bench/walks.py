"""How many files and functions does a reader pass who follows one event through Maia?

    python bench/walks.py            a line for each walk; `make walks` does the same
    python bench/walks.py --files    and the files of each, in the order in which they are first entered
    python bench/walks.py --json     one JSON object

Each walk is a real run of what `maia broker`, `maia domain` and a Spark job
run, in one process: everything is set up first, then one event, request or
revocation is followed through the functions of `src/maia` that are really
entered, at every broker on the way. Client and sockets are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from b16_revocation import own_tested_right
from bench_spark import bench_session
from broker_row import Row, world_of
from governed_log import record
from live_network import World
from maia.broker.settings import RecordingSettings
from maia.credentials import (
    Action,
    RevocationList,
    certificate_to_bytes,
    period_from,
    sign_statement,
    statement_to_bytes,
)
from maia.events import Instant, frame_of
from maia.predicates import ALWAYS
from maia.spark.governed.table import governed
from maia.spark.keys.key_server import job_desk
from maia.types import SealingLevel, definition_to_bytes, validity_definition, validity_type_name
from maia.types.verified import STATEMENT
from maia.wire.codec import decode, encode
from maia.wire.columns import frame_to_columns
from maia.wire.effects import LinkOpened, Tick
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Advertise,
    Ended,
    Greeting,
    Hello,
    Message,
    Publish,
    Subscribe,
)
from maia.wire.names import network_to_bytes
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

SOURCE = str(Path(__file__).resolve().parents[1] / "src" / "maia") + os.sep
HOUR = 3600 * 1_000_000


class Walk:
    """The files and functions that were entered while the block ran, in the order of their first call."""

    def __init__(self, name: str) -> None:
        """Record nothing yet."""
        self.name = name
        self.files: dict[str, None] = {}
        self.functions: dict[tuple[str, str], None] = {}

    def __enter__(self) -> Walk:
        sys.setprofile(self._entered)
        return self

    def __exit__(self, *_problem: object) -> None:
        sys.setprofile(None)

    def _entered(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        # A comprehension is a part of the function that it stands in, to a reader.
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            name = code.co_filename.removeprefix(SOURCE)
            self.files[name] = None
            self.functions[name, code.co_qualname] = None


class Town(Row):
    """Brokers in a row, with a client more that says what a walk needs said."""

    def client(self, number: int, name: str, *rights: bytes) -> Callable[[Message], list[Message]]:
        """Connect a client; return how it says something and hears what comes back."""
        key, link = self.world.key(name), self._new_link(number)
        if name == "owner":
            key = self.world.owner
        heard: list[Message] = []

        def hears(data: bytes) -> None:
            heard.append(decode(data))
            if isinstance(heard[-1], Greeting):
                network = network_to_bytes(self.world.network)
                connect = certificate_to_bytes(self.world.connect_right(key.principal))
                self._say(number, link, Hello(PROTOCOL_VERSION, network, [connect], os.urandom(16), None))

        def say(message: Message) -> list[Message]:
            heard.clear()
            self._say(number, link, message)
            self._settle()
            return list(heard)

        self._clients[number, link] = hears
        self._perform(number, self.brokers[number].handle(LinkOpened(link, key.principal, None), self.now))
        self._settle()
        self.heard = heard
        return say

    def wait(self, *, milliseconds: int) -> None:
        """Let time pass, and each broker do what is due by then."""
        self.now = Instant(self.now + milliseconds * 1000)
        for number, broker in enumerate(self.brokers):
            self._perform(number, broker.handle(Tick(), self.now))
        self._settle()


def walks(*, spark: bool) -> Iterator[Walk]:
    """Yield each walk when it has been walked."""
    yield _publish("publish", None)
    yield _publish_all_kinds()
    yield _subscribe("subscribe", covered=True)
    yield _subscribe("subscribe, at two brokers", covered=False)
    yield from _revoke_at_brokers()
    yield _revoke_at_the_domain()
    yield _publish("sealed publish", SealingLevel.ATTRIBUTE)
    if spark:
        yield from _governed_tables()


def _publish(name: str, level: SealingLevel | None) -> Walk:
    """Follow one frame from its publisher through two brokers to a subscriber."""
    world = world_of(3, level)
    row = Row(world)
    *first, last = [_frame(world, row, number) for number in range(3)]
    for frame in first:  # the first ones find caches empty, which is another walk
        row.at_last(row.at_first([frame]))
    with Walk(name) as walk:
        delivered = row.at_last(row.at_first([last]))
    assert delivered, "nothing was delivered"
    return walk


def _publish_all_kinds() -> Walk:
    """Follow all kinds of publication: what a reader passes who wants to know each of them."""
    walk = Walk("publish, all kinds")
    recorded = RecordingSettings(durable=False)
    for level in (None, SealingLevel.ATTRIBUTE, SealingLevel.EVENT):
        for recording in (None, recorded):
            world = world_of(3, level)
            row = Row(world, recording=recording)
            sent = 0
            for rows, together in ((1, 1), (2, 1), (1, 8)):
                for turn in range(3):  # the first ones find caches empty
                    read = [_frame(world, row, sent + number, rows) for number in range(together)]
                    sent += together
                    if turn < 2:
                        row.at_last(row.at_first(read))
                        continue
                    with walk:
                        delivered = row.at_last(row.at_first(read))
                    assert len(delivered) == together, "not all was delivered"
    return walk


def _frame(world: World, row: Row, number: int, rows: int = 1) -> bytes:
    kinds = world.event_type.kinds
    columns = frame_to_columns(frame_of([dict.fromkeys(kinds, "value")] * rows, kinds))
    return encode(Publish(1, number, +row.now, rows, columns))


def _subscribe(name: str, *, covered: bool) -> Walk:
    """Follow a subscription to the broker of its client, and to the publisher's unless another covers it."""
    world = world_of(3, None)
    town = Town(world, filter=ALWAYS if covered else world.filter('attribute0 == "b"'))
    right = town.world.type_right(town.world.key("reader").principal, Action.SUBSCRIBE)
    say = town.client(1, "reader")
    asked = _asked(town, Action.SUBSCRIBE, "reader", 'attribute0 == "a"', right=certificate_to_bytes(right))
    with Walk(name) as walk:
        heard = say(asked)
    assert type(heard[0]).__name__ == "Accepted", heard
    return walk


def _asked(town: Town, action: Action, name: str, filter_: str, *, right: bytes) -> Subscribe:
    world = town.world
    request = EdgeRequest(
        action,
        world.network,
        world.event_type.name,
        world.filter(filter_),
        os.urandom(16),
        town.now,
        os.urandom(16),
    )
    signed = request_to_bytes(sign_request(request, world.key(name)))
    return Subscribe(7, signed, [right], [world.definition])


def _revoke_at_brokers() -> Iterator[Walk]:
    """Follow a revocation list from its issuer at one broker to a subscriber at the other.

    The second walk is what comes a moment later: what the subscriber wanted is withdrawn.
    """
    town = Town(world_of(3, None))
    world = town.world
    issuer = town.client(0, "owner")
    asked = EdgeRequest(
        Action.PUBLISH, world.network, validity_type_name(world.owner.principal), ALWAYS,
        os.urandom(16), town.now, os.urandom(16),
    )  # fmt: skip
    definition = definition_to_bytes(validity_definition(world.owner))
    issuer(Advertise(1, request_to_bytes(sign_request(asked, world.owner)), [], [definition]))
    right = own_tested_right(world, "reader")
    said = [_list(town, 1, frozenset()), _list(town, 2, frozenset({right.id}))]
    issuer(said[0])
    reader = town.client(1, "reader")
    ended = town.heard
    for _ in range(2):  # the first time, the broker finds out whose statements it needs
        answers = reader(
            _asked(town, Action.SUBSCRIBE, "reader", 'attribute0 == "a"', right=certificate_to_bytes(right))
        )
    assert type(answers[-1]).__name__ == "Accepted", answers
    ended.clear()
    with Walk("revoke, at two brokers") as walk:
        issuer(said[1])
    assert any(isinstance(one, Ended) for one in ended), ended
    yield walk
    with Walk("withdraw, after that") as walk:
        town.wait(milliseconds=100)
    yield walk


def _list(town: Town, number: int, revoked: frozenset[bytes]) -> Publish:
    owner = town.world.owner
    period = period_from(town.now, microseconds=HOUR) if number == 1 else None
    signed = sign_statement(RevocationList(owner.principal, number, period, revoked), owner)
    columns = frame_to_columns(
        frame_of([{STATEMENT.uid: statement_to_bytes(signed)}], {STATEMENT.uid: STATEMENT.kind})
    )
    return Publish(1, number, +town.now, 1, columns)


def _revoke_at_the_domain() -> Walk:
    """Follow a revocation from the domain's service, asked by its administrator, to the signed list."""
    from support.access_control import SMITH, court, order

    courts = court()
    warrants = [order(courts, SMITH, f"case {number}", "AE05 XYZ") for number in range(2)]
    courts.beat()
    courts.revoke_appointment(warrants[0].id, "the first")
    with Walk("revoke, at the domain") as walk:
        revoked = courts.revoke_appointment(warrants[1].id, "overturned")
    assert revoked
    return walk


def _governed_tables() -> Iterator[Walk]:
    """Follow the making of governed tables on the driver, up to their plans: a plain type, a sealed one."""
    with (
        tempfile.TemporaryDirectory() as folder,
        job_desk() as desk,
        bench_session("walks", quick=True) as spark,
    ):
        for name, level in (("governed table", None), ("governed table, sealed", SealingLevel.ATTRIBUTE)):
            log = record(Path(folder) / name, rows=20, frame_rows=10, level=level)
            known = log.known(None if level is None else desk)
            governed(spark, **known)
            with Walk(name) as walk:
                table = governed(spark, **known)
            assert table.columns
            yield walk


AIMS = {
    "publish": 30,
    "publish, all kinds": 25,
    "subscribe": 70,
    "subscribe, at two brokers": 70,
    "revoke, at two brokers": 50,
    "withdraw, after that": 20,
    "revoke, at the domain": 27,
    "sealed publish": 35,
    "governed table": 15,
    "governed table, sealed": 15,
}
"""Files that a walk may pass for a reader to follow it with one page beside the editor."""


def main() -> int:
    """Walk, and print what was passed."""
    parser = argparse.ArgumentParser(description="Count files and functions of each walk through Maia.")
    parser.add_argument("--files", action="store_true", help="name the files of each walk")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--no-spark", action="store_true", help="leave out the walk that starts Java")
    asked = parser.parse_args()
    walked = list(walks(spark=not asked.no_spark))
    if asked.json:
        rows = {
            walk.name: {"files": list(walk.files), "functions": len(walk.functions), "aim": AIMS[walk.name]}
            for walk in walked
        }
        print(json.dumps(rows))
        return 0
    for walk in walked:
        print(
            f"{walk.name:<26}{len(walk.files):>4} files {len(walk.functions):>5} functions",
            f"  aim {AIMS[walk.name]} files",
        )
        if asked.files:
            print("\n".join(f"    {name}" for name in walk.files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
