"""What does the runner promise a node, and what does it do when something breaks?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from maia.clock import system_now
from maia.errors import Unavailable
from maia.events import SECOND, Instant
from maia.net.addresses import BadAddress, bind, host_and_port
from maia.net.connections import BackOff
from maia.net.links import SocketLink
from maia.net.node_runner import NodeRunner
from maia.net.stores import MemoryStore
from maia.testing import in_a_loop, soon, until
from maia.testing.refusals import raises
from maia.wire import (
    Close,
    Count,
    Dial,
    DialFailed,
    Effect,
    Input,
    Keep,
    LinkOpened,
    Note,
    Ping,
    Pong,
    Received,
    Send,
    Tick,
    WakeAt,
    Welcome,
    encode,
    framed,
)
from maia.wire.effects import Kept, ReadLater
from support.live import STORY, stranger

KEY = STORY.keys["CCS"]
NOON = Instant.parse("2026-11-15T12:00:00Z")


class Node:
    """A node that does what a test wants with each input."""

    def __init__(self, answer) -> None:
        self.inputs: list[Input] = []
        self._answer = answer

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        self.inputs.append(happened)
        return self._answer(happened, now)


class Records:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Mapping[str, object]]] = []
        self.counts: list[str] = []

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        self.notes.append((event, fields))

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        self.counts.append(name)


def echo(happened: Input, _now: Instant) -> list[Effect]:
    return [Send(happened.link, happened.data)] if isinstance(happened, Received) else []


@in_a_loop
async def test_an_error_in_the_node_closes_the_link_that_caused_it_and_no_other():
    def answer(happened: Input, now: Instant) -> list[Effect]:
        if isinstance(happened, Received) and happened.data == encode(Ping(666)):
            raise ZeroDivisionError("a mistake of ours")
        return echo(happened, now)

    records, (listening, address) = Records(), bind("127.0.0.1:0")
    runner = NodeRunner(Node(answer), KEY, records=records)
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as good, stranger(KEY, address) as bad:
            bad.say(Ping(666))
            assert await bad.hear_until_closed() == []
            good.say(Ping(1))
            assert await good.hear() == Ping(1)
    assert [event for event, _ in records.notes if event == "failed"] == ["failed"]


@in_a_loop
async def test_a_link_that_is_to_be_read_later_waits_and_no_other_does():
    """A87: whoever owes work is slowed down by TCP; what it has said is heard when its moment comes."""

    def answer(happened: Input, now: Instant) -> list[Effect]:
        if isinstance(happened, Received) and happened.data == encode(Ping(1)):
            return [
                Send(happened.link, encode(Pong(1))),
                ReadLater(happened.link, Instant(now + 3_600_000_000)),
            ]
        return echo(happened, now)

    node, (listening, address) = Node(answer), bind("127.0.0.1:0")
    runner = NodeRunner(node, KEY)
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as busy, stranger(KEY, address) as other:
            busy.say(Ping(1))
            assert await busy.hear() == Pong(1)
            busy.say(Ping(2))
            for number in range(20):
                other.say(Ping(100 + number))
                assert await other.hear() == Ping(100 + number)
            heard = {one.data: one.link for one in node.inputs if isinstance(one, Received)}
            assert encode(Ping(2)) not in heard
            runner.perform([ReadLater(heard[encode(Ping(1))], system_now())])
            assert await busy.hear() == Ping(2)


@in_a_loop
async def test_a_node_whose_state_must_not_tear_ends_with_its_first_error_and_says_where_it_was():
    def answer(happened: Input, _now: Instant) -> list[Effect]:
        raise KeyError("a text that only its author should read")

    records, (listening, address) = Records(), bind("127.0.0.1:0")
    runner = NodeRunner(Node(answer), KEY, records=records, stops_when_it_fails=True)

    async def run() -> None:
        async with runner.running():
            runner.listen(listening)
            async with stranger(KEY, address) as peer:
                await peer.hear_until_closed()
                await asyncio.sleep(60)

    with raises("UNAVAILABLE-NODE-FAILED", match=r"KeyError in test_node_runner\.py:\d+"):
        await run()
    assert "only its author" not in repr(records.notes)


@in_a_loop
async def test_what_one_read_brings_is_one_turn_of_a_node_that_takes_turns():
    node, (listening, address) = Unhurried(), bind("127.0.0.1:0")
    runner = NodeRunner(node, KEY)
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as peer:
            peer.say(Ping(1), Ping(2), Ping(3))
            assert [await peer.hear() for _ in range(3)] == [Ping(1), Ping(2), Ping(3)]
    assert max(node.taken) == 3


class Unhurried(Node):
    """A node that answers each input with one message at once, and with another in the next part."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__(echo)
        self.order: list[str] = []
        self.taken: list[int] = []
        self.fails = fails

    def turn(self, now: Instant) -> UnhurriedTurn:
        return UnhurriedTurn(self, now)


class UnhurriedTurn:
    def __init__(self, node: Unhurried, now: Instant) -> None:
        self.node, self.now = node, now
        self.effects: list[Effect] | None = []
        self.rest: list[Received] = []

    def take(self, inputs: Sequence[Input]) -> None:
        self.node.taken.append(len(inputs))
        for happened in inputs:
            if isinstance(happened, Received):
                self.rest.append(happened)
                self.node.order.append("input")
            self.effects += self.node.handle(happened, self.now)

    def leave(self) -> list[Effect] | None:
        if self.effects is not None:
            effects, self.effects = self.effects, None
            return effects
        if not self.rest:
            return None
        self.node.order.append("rest")
        left = self.rest.pop(0)
        if self.node.fails:
            raise ZeroDivisionError("a mistake of ours")
        return [Send(left.link, encode(Pong(1)))]


@in_a_loop
async def test_what_a_node_has_said_is_on_its_way_before_it_does_the_rest(monkeypatch):
    node, (listening, address) = Unhurried(), bind("127.0.0.1:0")
    flush = SocketLink.flush

    def flushed(link: SocketLink) -> None:
        node.order += ["sent"] if link.waiting else []
        flush(link)

    monkeypatch.setattr(SocketLink, "flush", flushed)
    runner = NodeRunner(node, KEY)
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as peer:
            peer.say(Ping(1))
            assert [await peer.hear() for _ in range(2)] == [Ping(1), Pong(1)]
    assert node.order == ["input", "sent", "rest", "sent"]


@in_a_loop
async def test_a_rest_that_fails_is_recorded_and_the_node_goes_on():
    node, records, (listening, address) = Unhurried(fails=True), Records(), bind("127.0.0.1:0")
    runner = NodeRunner(node, KEY, records=records)
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as peer:
            peer.say(Ping(1))
            assert await peer.hear() == Ping(1)
            peer.say(Ping(2))
            assert await peer.hear() == Ping(2)
    failed = [fields["input"] for event, fields in records.notes if event == "failed"]
    assert failed == ["Rest", "Rest"]


@in_a_loop
async def test_nothing_leaves_before_what_must_be_kept_is_kept():
    """A65, A82: an answer that was heard is never taken back by a crash."""
    order: list[str] = []

    class Slow(MemoryStore):
        def keep(self, changes: Mapping[str, bytes | None]) -> None:
            order.append("kept")
            super().keep(changes)

    def answer(happened: Input, _now: Instant) -> list[Effect]:
        if not isinstance(happened, Received):
            return []
        return [Send(happened.link, happened.data), Count("sent"), Keep("name", b"data")]

    class Ordered(Records):
        def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
            order.append(name)

    store, (listening, address) = Slow(), bind("127.0.0.1:0")
    runner = NodeRunner(Node(answer), KEY, store=store, records=Ordered())
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as peer:
            peer.say(Ping(1))
            assert await peer.hear() == Ping(1)
    assert order == ["kept", "sent"]
    assert store.load() == {"name": b"data"}


@in_a_loop
async def test_a_node_whose_store_is_gone_says_nothing_more_and_stops():
    class Broken(MemoryStore):
        def keep(self, changes: Mapping[str, bytes | None]) -> None:
            raise Unavailable("UNAVAILABLE-STORE", "the disk is full")

    def answer(happened: Input, _now: Instant) -> list[Effect]:
        is_message = isinstance(happened, Received)
        return [Keep("name", b"data"), Send(happened.link, happened.data)] if is_message else []

    listening, address = bind("127.0.0.1:0")
    runner = NodeRunner(Node(answer), KEY, store=Broken())
    heard: list[object] = []

    async def ask() -> None:
        async with stranger(KEY, address) as peer:
            peer.say(Ping(1))
            heard.extend(await peer.hear_until_closed())

    async def run_for_ever() -> None:
        async with runner.running():
            runner.listen(listening)
            await asyncio.Event().wait()

    asking = asyncio.create_task(ask())
    with raises("UNAVAILABLE-STORE"):
        await run_for_ever()
    await soon(asking)
    assert heard == []


@in_a_loop
async def test_a_node_that_outlives_its_store_answers_nobody_who_relies_on_it_and_goes_on():
    """L6: the first, who asked for what has to be kept, is left; the second is served meanwhile."""

    class Failing(MemoryStore):
        problem = True

        def keep(self, changes: Mapping[str, bytes | None]) -> None:
            if self.problem:
                raise Unavailable("UNAVAILABLE-STORE", "the disk is full")
            super().keep(changes)

    told: list[str] = []

    def answer(happened: Input, _now: Instant) -> list[Effect]:
        if isinstance(happened, Kept):
            told.append(happened.problem)
        if not isinstance(happened, Received):
            return []
        relied_on = [Keep("asked for", b"first", happened.link)] if happened.data == encode(Ping(1)) else []
        return [*relied_on, Keep("hint", happened.data), Send(happened.link, happened.data)]

    store, (listening, address) = Failing(), bind("127.0.0.1:0")
    runner = NodeRunner(Node(answer), KEY, store=store, outlives_its_store=True)
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as first, stranger(KEY, address) as second:
            first.say(Ping(1))
            assert await first.hear_until_closed() == []
            second.say(Ping(2))
            assert await second.hear() == Ping(2)
            assert told == ["the disk is full"]
            assert store.load() == {}
            store.problem = False
            await until(lambda: told == ["the disk is full", ""], "the store goes on")
            assert store.load() == {"asked for": b"first", "hint": encode(Ping(2))}


@pytest.mark.parametrize("welcomes", [False, True], ids=["the peer says welcome", "the node says welcome"])
@in_a_loop
async def test_only_a_welcome_of_its_own_makes_an_accepting_node_believe_longer_messages(welcomes: bool):
    """A74: the peer cannot raise the limit that holds for itself."""

    def answer(happened: Input, _now: Instant) -> list[Effect]:
        is_message = isinstance(happened, Received)
        return [Send(happened.link, encode(Welcome(60)))] if is_message and welcomes else []

    long = encode(Welcome(60)) + bytes(1 << 20)
    node, records, (listening, address) = Node(answer), Records(), bind("127.0.0.1:0")
    runner = NodeRunner(node, KEY, records=records)
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as peer:
            peer.say(Welcome(60))
            peer.say_bytes(framed(long))
            if welcomes:
                await until(lambda: any(getattr(one, "data", b"") == long for one in node.inputs), "it")
            else:
                assert await peer.hear_until_closed() == []
                assert [type(one) for one in node.inputs[:2]] == [LinkOpened, Received]
    codes = [fields["code"] for event, fields in records.notes if event == "link-failed"]
    assert codes == ([] if welcomes else ["PROTOCOL-MESSAGE-TOO-LARGE"])


@in_a_loop
async def test_what_the_body_raises_arrives_as_it_is():
    runner = NodeRunner(Node(echo), KEY)
    with pytest.raises(KeyError):
        async with runner.running():
            raise KeyError("the application's own")


@in_a_loop
async def test_the_earliest_wish_to_be_woken_counts():
    woken: list[Instant] = []

    def answer(happened: Input, now: Instant) -> list[Effect]:
        if isinstance(happened, Tick):
            woken.append(now)
        return []

    runner = NodeRunner(Node(answer), KEY)
    async with runner.running():
        now = system_now()
        soon_, later = Instant(now + 20_000), Instant(now + 600_000_000)
        runner.perform([WakeAt(later), WakeAt(soon_), WakeAt(later)])
        await until(lambda: woken, "a tick")
    assert woken[0] >= soon_


@in_a_loop
async def test_a_node_that_fails_when_it_is_woken_is_woken_again():
    woken: list[Instant] = []

    def answer(happened: Input, now: Instant) -> list[Effect]:
        if isinstance(happened, Tick):
            woken.append(now)
            if len(woken) == 1:
                raise ZeroDivisionError("a mistake of ours, before it said when it wants to be woken next")
        return []

    runner = NodeRunner(Node(answer), KEY, records=Records())
    async with runner.running():
        runner.perform([WakeAt(Instant(system_now() + 1000))])
        await until(lambda: len(woken) == 2, "a second tick")


@in_a_loop
async def test_messages_that_were_queued_are_sent_before_a_link_closes():
    def answer(happened: Input, _now: Instant) -> list[Effect]:
        if not isinstance(happened, Received):
            return []
        return [*[Send(happened.link, encode(Pong(n))) for n in range(1000)], Close(happened.link, "DONE")]

    listening, address = bind("127.0.0.1:0")
    runner = NodeRunner(Node(answer), KEY)
    async with runner.running():
        runner.listen(listening)
        async with stranger(KEY, address) as peer:
            peer.say(Ping(1))
            assert await peer.hear_until_closed() == [Pong(n) for n in range(1000)]


@in_a_loop
async def test_two_nodes_find_each_other_and_know_each_others_keys():
    listening, address = bind("127.0.0.1:0")
    accepting, dialling = Node(lambda *_: []), Node(lambda *_: [])
    other = STORY.keys["Met"]
    one, two = NodeRunner(accepting, KEY), NodeRunner(dialling, other)
    async with one.running(), two.running():
        one.listen(listening)
        two.perform([Dial(address), Dial(address)])  # one at a time for each address
        await until(lambda: accepting.inputs and dialling.inputs, "both to be told")
        assert accepting.inputs == [LinkOpened(accepting.inputs[0].link, other.principal, None, "127.0.0.1")]
        assert dialling.inputs == [LinkOpened(dialling.inputs[0].link, KEY.principal, address)]


@in_a_loop
async def test_an_address_where_nobody_answers_is_reported():
    listening, address = bind("127.0.0.1:0")
    listening.close()
    node, records = Node(lambda *_: []), Records()
    runner = NodeRunner(node, KEY, records=records)
    async with runner.running():
        runner.perform([Dial(address), Dial("nonsense"), Note("hello", {})])
        await until(lambda: len(node.inputs) == 2, "both failures")
    assert set(node.inputs) == {
        DialFailed(address, "the connection was refused, so nothing listens there"),
        DialFailed("nonsense", "`nonsense` is not an address such as `127.0.0.1:7400`"),
    }
    assert ("hello", {}) in records.notes
    # Whatever is started with this node may not listen yet; an address that is none is wrong at once.
    failed = [fields["address"] for event, fields in records.notes if event == "dial-failed"]
    assert failed == ["nonsense"]


@in_a_loop
async def test_an_address_where_nobody_answers_for_some_seconds_is_noted_with_the_reason():
    listening, address = bind("127.0.0.1:0")
    listening.close()
    node, records, now = Node(lambda *_: []), Records(), [NOON]
    runner = NodeRunner(node, KEY, records=records, clock=lambda: now[0])
    async with runner.running():
        for second in (0, 1, 6):
            now[0] = Instant(NOON + second * SECOND)
            before = len(node.inputs)
            runner.perform([Dial(address)])
            await until(lambda count=before: len(node.inputs) > count, "a failure")
    noted = [(event, fields["address"]) for event, fields in records.notes if event.startswith("dial-")]
    assert noted == [("dial-again", address), ("dial-again", address), ("dial-failed", address)]
    (reason,) = (fields["why"] for event, fields in records.notes if event == "dial-failed")
    assert reason == "the connection was refused, so nothing listens there"


def test_waiting_grows_with_failures_and_differs_between_nodes():
    most, least = (
        BackOff(first_s=1.0, most_s=30.0, random=lambda n, byte=byte: byte * n) for byte in (b"\xff", b"\0")
    )
    for back_off in (most, least):
        assert back_off.wait_s("a") == 0.0
    waits = []
    for _ in range(10):
        for back_off in (most, least):
            back_off.failed("a")
        waits.append((least.wait_s("a"), most.wait_s("a")))
    assert [low for low, _ in waits[:4]] == [0.5, 1.0, 2.0, 4.0]
    assert all(low < high <= 30.0 for low, high in waits)
    assert most.wait_s("b") == 0.0
    most.succeeded("a")
    assert most.wait_s("a") == 0.0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:7400", ("127.0.0.1", 7400)),
        ("[::1]:0", ("::1", 0)),
        ("broker.met:65535", ("broker.met", 65535)),
    ],
)
def test_addresses_have_a_host_and_a_port(text, parts):
    assert host_and_port(text) == parts


@pytest.mark.parametrize(
    "text",
    ["", "7400", ":7400", "host:", "host:65536", "host:-1", "host:٣", "::1:7400", "hôst:1", "h" * 300 + ":1"],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(BadAddress):
        host_and_port(text)


def test_an_address_that_is_taken_is_reported_as_such():
    listening, address = bind("127.0.0.1:0")
    with listening, raises("UNAVAILABLE-ADDRESS"):
        bind(address)
