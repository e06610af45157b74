"""`maia publish`: send events to a network, one from options or many from standard input."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import flag, opt
from maia.cli.inputs import moment
from maia.cli.output import Answer, note, row
from maia.cli.participate.json_events import LINE_MAX, BadEventLine, event_from_line, event_from_words
from maia.cli.participate.membership import (
    NamedTopic,
    Participant,
    TypeOptions,
    check_filter,
    history_of,
    verified,
)
from maia.cli.profile_option import explaining
from maia.errors import MaiaError

if TYPE_CHECKING:
    from maia.client.api.publisher import Publisher
    from maia.events import Value
    from maia.types import VerifiedType


_LINES_AHEAD: Final = 1024
_LAST_FLUSH_S: Final = 5.0
"""How long Ctrl-C waits for the broker's answers; a second one does not wait."""


def publish(
    context: typer.Context,
    participant: Participant,
    meant: TypeOptions,
    values: list[str] | None = opt(
        "One attribute; without any, read standard input.", "--set", metavar="NAME=VALUE"
    ),
    topic: list[str] | None = opt(
        "The topic, such as /news/uk, of each event that names none itself; on all of them if repeated."
    ),
    payload: str | None = opt("One event on a plain topic: this text, as text/plain."),
    count: int | None = opt("Stop after so many events; with --set, send it so often.", min=1),
    rate: float | None = opt("Events per second at most.", min=0.001),
    where: str = opt(
        "Advertise no more than this, in the filter language.", "--where", "--filter", default="true"
    ),
    subscribers: str = opt(
        "Only to subscribers whose identity statement meets this: 'clearance >= 3'.",
        "--to",
        default="true",
        metavar="REQUIREMENT",
    ),
    published_as: Path | None = opt(
        "The type that your right converts these events into, by its definition."
    ),
    sign: bool = flag("Sign what is published: subscribers verify that you wrote it."),
) -> Answer:
    """Publish events: JSON objects on standard input, one a line, or one event from --set.

    Examples:
        maia publish LabResult --as lab.maia --set patient=P-17 --set ward=3 --set taken=now
        maia publish -d numberplate.type -k camera.key --credentials certs --network 'UK Police Network'
          --coordinator pito.pub --broker 127.0.0.1:7400 --set 'numberplate=AE05 XYZ' --set timestamp=now
        … < sightings.jsonl (one JSON object a line)
        maia publish -d news.type -k desk.key --credentials certs --network 'City Network' --coordinator
          city.pub --broker 127.0.0.1:7400 --topic /news/uk/sport --payload 'rain stopped play'
        maia publish /news/security/incidents --topic /alarms/ids/building-203 --as desk.maia
          --payload 'door forced' --to 'sec_clearance = "NATO secret"'
        maia publish -d reports.type -k anna.key --credentials certs --network 'Coalition' --coordinator
          uk.pub --broker 127.0.0.1:7400 --set 'text=two ships' --to 'nationality == "uk" or clearance >=
          3'
    """
    import asyncio

    from maia.credentials.requirements import parse_requirement

    requires = parse_requirement(subscribers)
    member = participant.membership()
    history = meant.history(member.constitutions, wallet=member.wallet)
    event_type = verified(history, member.constitutions)
    topics, others = meant.topics(topic, event_type, member.constitutions, wallet=member.wallet)
    trees = [event_type, *(verified(one, member.constitutions) for one in others)]
    on = _OnTopics.of(topics, payload, trees)
    if payload is not None and not topics:
        raise BadEventLine("`--payload` is for an event on a topic: say `--topic`")
    is_one = values or payload is not None
    # A mistake is found before anything is dialled.
    result = None if published_as is None else history_of(published_as, None)
    check_filter(where, event_type if result is None else verified(result, member.constitutions))
    if values:
        event_from_words(values, event_type, now=moment(None))
    given = _repeated(values or [], count, event_type) if is_one else _from_input(count, event_type)
    events = _completed(given, on.fixed[:1])
    publishers: list[Publisher] = []
    handed_in = 0

    def accepted() -> int:
        return min((on.events_in(at, one.published_rows) for at, one in enumerate(publishers)), default=0)

    async def send() -> None:
        """Publish events up to the last, or to the first bad one; what came before it is published."""
        nonlocal handed_in
        async with member.connect() as client:
            for one in (history, *others):
                publishers.append(
                    await client.advertise(
                        one if result is None else result, where, requires=requires, signs=sign,
                        written_as=None if result is None else one, on_warning=_print_warning,
                        timeout_s=member.wait_s,
                    )
                )  # fmt: skip
            try:
                async for event in _paced(events, rate):
                    for at, part in on.parts(event):
                        await publishers[at].publish(part)
                    handed_in += 1
                for publisher in publishers:
                    await publisher.flush()
            except BadEventLine as problem:
                await _flushed(publishers)
                before = f"the {handed_in} before it were published"
                if accepted() != handed_in:
                    before = f"of the {handed_in} before it {accepted()} were published"
                raise BadEventLine(f"{problem.message}; {before}") from problem
            except MaiaError as problem:
                problem.add_note(f"{accepted()} of {_counted(handed_in)} went out")
                raise
            except asyncio.CancelledError:  # Ctrl-C
                await _flushed(publishers)
                raise

    try:
        with explaining(context, meant.named or event_type.name.name, "publish", where):
            asyncio.run(send())
    except KeyboardInterrupt:
        note(f"maia: {accepted()} of {_counted(handed_in)} had been published")
        raise
    return row("", f"published {_counted(accepted())}", published=accepted())


def _print_warning(problem: MaiaError | None) -> None:
    is_over = "events can be sent on again"
    note(f"maia: {is_over if problem is None else f'warning: {problem.message} [{problem.code}]'}")


async def _flushed(publishers: Iterable[Publisher]) -> None:
    """Wait for the broker's answers; the count says what is missing."""
    for publisher in publishers:
        with suppress(MaiaError):
            await publisher.flush(timeout_s=_LAST_FLUSH_S)


def _counted(events: int) -> str:
    return f"{events} event{'' if events == 1 else 's'}"


def _on_topic(topic: str, payload: str | None, event_type: VerifiedType) -> dict[str, Value]:
    """Return what `--topic` and `--payload` say of each event."""
    from maia.types.definition import CONTENT_TYPE, PAYLOAD, TOPIC, checked_topic, tree_root

    root = tree_root(event_type.name.name)
    if root is None:
        raise BadEventLine(f"`{event_type.name.name}` declares no topics: see `maia topic declare --help`")
    fixed: dict[str, Value] = {TOPIC.name: checked_topic(topic, root)}
    if payload is not None:
        if PAYLOAD not in event_type.attributes:
            raise BadEventLine(f"topics below `{root}` are typed and have no payload: use `--set`")
        fixed |= {PAYLOAD.name: payload.encode(), CONTENT_TYPE.name: "text/plain"}
    return fixed


async def _completed(
    events: AsyncIterator[dict[str, Value]], fixed: list[dict[str, Value]]
) -> AsyncIterator[dict[str, Value]]:
    async for event in events:
        yield fixed[0] | event if fixed else event


@dataclass(frozen=True, slots=True)
class _OnTopics:
    """The topics that each event is published on, unless it names one itself."""

    trees: list[VerifiedType]
    places: list[int]
    """In which of the trees each topic lies."""
    fixed: list[dict[str, Value]]
    """What each topic says of an event."""

    @classmethod
    def of(cls, topics: list[NamedTopic], payload: str | None, trees: list[VerifiedType]) -> _OnTopics:
        """Return the topics of some trees; the first tree refuses a topic of none."""
        from maia.client.api.topics import new_publication

        fixed = [_on_topic(one.path, payload, trees[one.tree]) for one in topics]
        new_publication(trees, len(topics) or 1)  # refused before anything is dialled
        return cls(trees, [one.tree for one in topics], fixed)

    def parts(self, event: dict[str, Value]) -> list[tuple[int, dict[str, Value]]]:
        """Return an event as it is published in each tree."""
        from maia.client.api.topics import new_publication

        if len(self.fixed) < 2 or event["topic"] != self.fixed[0]["topic"]:
            return [(0, event)]
        common = new_publication(self.trees, len(self.fixed))
        return [(at, {**event, **on, **common}) for at, on in zip(self.places, self.fixed, strict=True)]

    def events_in(self, place: int, rows: int) -> int:
        """Return to how many events the rows in one tree come."""
        return rows // max(1, self.places.count(place))


async def _repeated(
    words: list[str], count: int | None, event_type: VerifiedType
) -> AsyncIterator[dict[str, Value]]:
    for _ in range(count or 1):
        yield event_from_words(words, event_type, now=moment(None))


async def _from_input(count: int | None, event_type: VerifiedType) -> AsyncIterator[dict[str, Value]]:
    number = 0
    try:
        async for line in _lines(sys.stdin):
            if not line.strip():
                continue
            yield event_from_line(line, event_type, now=moment(None))
            number += 1
            if number == count:
                return
    except BadEventLine as problem:
        raise BadEventLine(f"event {number + 1}: {problem.message}") from problem


async def _paced(
    events: AsyncIterator[dict[str, Value]], rate: float | None
) -> AsyncIterator[dict[str, Value]]:
    """Yield events at their rate, counted from the first, so that a delay is made up for."""
    import asyncio

    loop = asyncio.get_running_loop()
    begun, number = loop.time(), 0
    async for event in events:
        if rate is not None:
            await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
        yield event
        number += 1


async def _lines(source: Iterable[str]) -> AsyncIterator[str]:
    """Read lines beside the event loop, no further ahead than a limit."""
    import asyncio

    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | None] = asyncio.Queue(_LINES_AHEAD)
    if isinstance(source, TextIOWrapper):
        # Bytes that are no text spoil their own line, and not those that were read together with it.
        source.reconfigure(errors="backslashreplace")

    def read() -> None:
        try:
            for line in source:
                asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()
            asyncio.run_coroutine_threadsafe(queue.put(None), loop).result()
        except (RuntimeError, ValueError, OSError):
            return  # the loop has ended, or the input has

    # A daemon, because a thread that waits for a keyboard cannot be stopped.
    threading.Thread(target=read, daemon=True).start()
    while (line := await queue.get()) is not None:
        if len(line) > LINE_MAX:
            raise BadEventLine(f"a line is longer than the {LINE_MAX} characters that are read")
        yield line
