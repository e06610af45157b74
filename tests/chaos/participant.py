"""One program that publishes or reads, as an application would, and writes down all that it was told.

    python -m chaos.participant publish PROFILE TYPE NAME JOURNAL [--pace 20] [--count 300000] [--rows 256]
    python -m chaos.participant read PROFILE JOURNAL [--durable TYPE]... [--live TYPE]...

A journal has one JSON object in a line; moments are of the machine's clock that nobody sets. A refusal ends
a program, and whoever runs it starts it again: here it connects anew after a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import maia
from maia.client import RowsRefused
from maia.client.api.subscription import ReceivedEvent, Subscription

AGAIN_S = 1.0
FLUSH_S = 120.0
TEXT = "x" * 230
"""With its signature and numbers, an event has some 300 bytes."""


class Journal:
    """What one participant writes down."""

    def __init__(self, path: Path) -> None:
        """Go on behind what is there."""
        self.path, self.file = path, path.open("a", buffering=1)

    file: TextIO

    def note(self, **told: object) -> None:
        """Write one line."""
        self.file.write(json.dumps({"t": round(time.monotonic(), 4), **told}) + "\n")

    def next_number(self) -> int:
        """Return the first number that an earlier run did not use."""
        lines = self.path.read_text().splitlines()
        return max((json.loads(one)["sent"][1] + 1 for one in lines if '"sent"' in one), default=0)


# -------------------------------------------------------- publish


class Publishing:
    """One publisher, whose events are numbered through all its runs."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Go on with the numbers of an earlier run."""
        self.options, self.journal = options, Journal(Path(options.journal))
        self.next = self.journal.next_number()
        self.unanswered = self.framed = self.next
        self.stops = asyncio.Event()

    async def run(self) -> None:
        """Publish until everything is, or until told to stop; come back after each end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stops.set)
        while not self.stops.is_set() and not self._is_done:
            try:
                async with maia.connect(Path(self.options.profile)) as client:
                    await self._publish(client)
            except maia.MaiaError as problem:
                self.journal.note(ended=problem.code, why=problem.message)
                self.unanswered = self.next  # nobody will ever know
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.stops.wait(), AGAIN_S)
        self.journal.note(left=self.next)

    @property
    def _is_done(self) -> bool:
        return self.options.count is not None and self.next >= self.options.count

    # Any: what `async with` on a connection returns.
    async def _publish(self, client: Any) -> None:
        publisher = await client.advertise(self.options.type, on_answer=self._answered)
        self.unanswered = self.next
        self._note_frames(publisher)
        while not self.stops.is_set() and not self._is_done:
            rows = self.options.rows or self.next % 4 + 1
            if self.options.count is not None:
                rows = min(rows, self.options.count - self.next)
            first, self.next = self.next, self.next + rows
            self.journal.note(sent=[first, self.next - 1])
            events = [{"by": self.options.name, "n": n, "text": TEXT} for n in range(first, self.next)]
            await publisher.publish_many(events)
            if self.options.pace:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.stops.wait(), rows / self.options.pace)
        with suppress(RowsRefused):
            await publisher.flush(timeout_s=FLUSH_S)

    # Any: what `advertise` of such a connection returns.
    def _note_frames(self, publisher: Any) -> None:
        """Write down which events each publication has: notices of gaps name publications of a stream."""
        outbox, stream, self.framed = publisher._outbox, publisher._entry.stream.hex()[:8], self.next
        has_sent = outbox.sent

        def sent(frame: Any, sequence: int) -> None:
            first, self.framed = self.framed, self.framed + frame.rows
            self.journal.note(frame=[stream, sequence, first, self.framed - 1])
            has_sent(frame, sequence)

        outbox.sent = sent

    def _answered(self, answered: int, refused: int, problem: maia.MaiaError | None) -> None:
        if answered:
            first, self.unanswered = self.unanswered, self.unanswered + answered
            what = "refused" if refused else "acked"
            self.journal.note(**{what: [first, first + answered - 1]})
        if problem is not None:
            self.journal.note(ended=problem.code, why=problem.message)


# -------------------------------------------------------- read


class Reading:
    """One member's program, with some durable and some live subscriptions."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Subscribe to nothing yet."""
        self.options, self.journal = options, Journal(Path(options.journal))

    async def run(self) -> None:
        """Read until the process is ended."""
        async with asyncio.TaskGroup() as group:
            for name in self.options.durable:
                group.create_task(self._keep_reading(name, is_durable=True))
            for name in self.options.live:
                group.create_task(self._keep_reading(name, is_durable=False))

    async def _keep_reading(self, type_name: str, *, is_durable: bool) -> None:
        name = f"{type_name} {'durable' if is_durable else 'live'}"
        while True:
            try:
                async with maia.connect(Path(self.options.profile)) as client:
                    durable = f"archive-{type_name}" if is_durable else None
                    subscription = await client.subscribe(type_name, durable=durable)
                    subscription.acknowledges_itself = False
                    self.journal.note(name=name, began=True)
                    await self._read(name, subscription)
            except maia.MaiaError as problem:
                self.journal.note(name=name, ended=problem.code, why=problem.message)
            await asyncio.sleep(AGAIN_S)

    async def _read(self, name: str, subscription: Subscription) -> None:
        seen, warned = list[object](), None
        while True:
            events = await subscription.some(4096, timeout_s=0.5)
            for frame in _frames(events):
                self.journal.note(name=name, **frame)
            if events:
                subscription.acknowledge()
            for gap in subscription.missed:
                if not any(gap is one for one in seen):
                    seen.append(gap)
                    self.journal.note(name=name, gap=gap.problem.code, why=gap.problem.message)
            if subscription.warning is not warned:
                warned = subscription.warning
                self.journal.note(name=name, warning=None if warned is None else warned.code)


def _frames(events: Sequence[ReceivedEvent]) -> Iterator[dict[str, object]]:
    """Yield what is written down: runs of numbers from one position."""
    start = 0
    for end in range(1, len(events) + 1):
        one = events[end - 1]
        if end < len(events) and _follows(one, events[end]):
            continue
        position, is_late = one.delivered.position, getattr(one.delivered, "is_late", False)
        yield {
            "got": [one["by"], events[start]["n"], one["n"]],
            "of": one.delivered.stream.hex()[:8],
            **({} if position is None else {"at": position.hex()[-16:]}),
            **({"late": True} if is_late else {}),
        }
        start = end


def _follows(one: ReceivedEvent, other: ReceivedEvent) -> bool:
    is_next = (one["by"], int(str(one["n"])) + 1) == (other["by"], other["n"])
    return is_next and one.delivered is other.delivered


def main(words: Sequence[str] | None = None) -> None:
    """Run one participant."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    acts = parser.add_subparsers(dest="act", required=True)
    publish = acts.add_parser("publish")
    for name in ("profile", "type", "name", "journal"):
        publish.add_argument(name)
    publish.add_argument("--pace", type=float, default=0)
    publish.add_argument("--count", type=int)
    publish.add_argument("--rows", type=int)
    read = acts.add_parser("read")
    read.add_argument("profile")
    read.add_argument("journal")
    read.add_argument("--durable", action="append", default=[])
    read.add_argument("--live", action="append", default=[])
    options = parser.parse_args(words)
    asyncio.run((Publishing if options.act == "publish" else Reading)(options).run())


if __name__ == "__main__":
    main()
