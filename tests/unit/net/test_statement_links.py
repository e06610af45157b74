"""Statement links carry what TLS links carry: messages in order, both ways, whatever their size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from maia.config.identity_file import IdentityFile
from maia.config.input_files import BadFile
from maia.credentials.identity import identity_to_text
from maia.events import Instant
from maia.net.addresses import bind
from maia.net.node_runner import NodeRunner
from maia.sealing.two_message import RECORD_BYTES_MAX, Records
from maia.testing import in_a_loop, until
from maia.wire.effects import Close, Dial, DialFailed, Effect, Input, LinkClosed, LinkOpened, Received, Send
from support.two_message import ANNA, BROKER, EVE, NORWAY, live_links, live_statement


@dataclass
class Node:
    """Keeps what happened and what was counted, and does what a test wants with each input."""

    answer: Callable[[Input], list[Effect]] = lambda _: []
    inputs: list[Input] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)

    def handle(self, happened: Input, _now: Instant) -> list[Effect]:
        self.inputs.append(happened)
        return self.answer(happened)

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        pass

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        self.codes += [labels["code"]] if "code" in labels else []

    @property
    def received(self) -> list[bytes]:
        return [one.data for one in self.inputs if isinstance(one, Received)]

    @property
    def links(self) -> list[LinkOpened]:
        return [one for one in self.inputs if isinstance(one, LinkOpened)]


@asynccontextmanager
async def connected(accepting: Node, dialling: Node) -> AsyncIterator[tuple[NodeRunner, NodeRunner]]:
    """Open a statement link between two nodes."""
    listening, address = bind("127.0.0.1:0")
    of_broker, of_anna = live_links(BROKER), live_links(ANNA, {address: BROKER.principal})
    await asyncio.sleep(0.001)  # a request is signed after the responder has begun
    broker = NodeRunner(accepting, BROKER, records=accepting, by_statement=of_broker)
    anna = NodeRunner(dialling, ANNA, records=dialling, by_statement=of_anna)
    async with broker.running(), anna.running():
        broker.listen(listening, by_statement=True)
        anna.perform([Dial(address)])
        await until(lambda: accepting.links and dialling.links, "both know of the link")
        yield broker, anna


@in_a_loop
async def test_both_nodes_know_each_others_keys():
    accepting, dialling = Node(), Node()
    async with connected(accepting, dialling):
        assert (accepting.links[0].peer, accepting.links[0].dialled) == (ANNA.principal, None)
        assert dialling.links[0].peer == BROKER.principal
        assert accepting.links[0].remote == "127.0.0.1"


@in_a_loop
async def test_messages_of_any_size_arrive_in_order_in_both_directions():
    def echo(happened: Input) -> list[Effect]:
        return [Send(happened.link, happened.data)] if isinstance(happened, Received) else []

    sizes = (1, RECORD_BYTES_MAX - 4, RECORD_BYTES_MAX, RECORD_BYTES_MAX + 1, 200_000, 1)
    messages = [bytes([number]) * size for number, size in enumerate(sizes)] * 40
    accepting, dialling = Node(echo), Node()
    async with connected(accepting, dialling) as (_, anna):
        anna.perform([Send(dialling.links[0].link, one) for one in messages])
        await until(lambda: len(dialling.received) == len(messages), "everything came back")
        assert dialling.received == messages


@in_a_loop
async def test_a_close_arrives_behind_the_last_message_and_is_no_failure():
    accepting, dialling = Node(), Node()
    async with connected(accepting, dialling) as (broker, _):
        link = accepting.links[0].link
        broker.perform([Send(link, bytes(100_000)), Close(link, "done")])
        await until(lambda: isinstance(dialling.inputs[-1], LinkClosed), "the link closed")
        assert dialling.received == [bytes(100_000)]
    assert (accepting.codes, dialling.codes) == ([], [])


@in_a_loop
async def test_a_link_whose_records_are_used_up_ends_and_says_why(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(Records.__init__.__kwdefaults__, "records_max", 3)
    accepting, dialling = Node(), Node()
    async with connected(accepting, dialling) as (_, anna):
        link = dialling.links[0].link
        for number in range(4):
            anna.perform([Send(link, bytes([number + 1]))])
        await until(lambda: "UNAVAILABLE-LINK-RECORDS" in dialling.codes, "the link ended")
        await until(lambda: isinstance(accepting.inputs[-1], LinkClosed), "the peer noticed")
        assert accepting.received == [b"\1", b"\2", b"\3"]


@in_a_loop
async def test_a_request_that_is_not_answered_is_a_failed_dial_with_a_code():
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    node = Node()
    anna = NodeRunner(node, ANNA, records=node, by_statement=live_links(ANNA, {address: BROKER.principal}))
    async with anna.running():
        anna.perform([Dial(address)])
        await until(lambda: bool(node.inputs), "the dial failed")
    (failed,) = node.inputs
    assert isinstance(failed, DialFailed)
    assert failed.address == address
    assert node.codes == ["UNAVAILABLE-LINK-NOT-ANSWERED"]
    server.close()


def test_a_statement_file_is_read_again_when_it_changes(tmp_path: Path):
    path = tmp_path / "anna.identity"

    def put(text: str) -> None:
        new = tmp_path / "new"
        new.write_text(text)
        new.replace(path)

    put(identity_to_text(live_statement(ANNA)))
    file = IdentityFile(path, ANNA, [NORWAY.principal])
    first = file()
    assert file() is first
    renewed = live_statement(ANNA, until_s=7200)
    put(identity_to_text(renewed))
    assert file().own == renewed
    for wrong, why in ((identity_to_text(live_statement(EVE)), "about"), ("no statement", "statement")):
        put(wrong)
        for _ in range(2):
            with pytest.raises(BadFile, match=why):
                file()
    path.unlink()
    with pytest.raises(BadFile, match="cannot be read"):
        file()
