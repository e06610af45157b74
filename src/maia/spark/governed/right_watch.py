"""How does a driver learn that the right behind a running table has ended, and what does it do then?

    with job_desk() as desk, right_watch(desk, statements, asking=Asking(key, wallet)) as watch:
        table = governed(spark, ..., keys=Keys(source, desk, signers), watch=watch)
        watch.follow(more)          from a wallet that a login renews, or a client's subscription

Before every answer the desk looks whether the last statement has ended, to
the microsecond of the driver's clock. The grants of a table whose right is gone end at the desk, so that its
next batch fails; tables of other readers at the same desk go on. With
`asking`, the driver asks testers by itself (`governed/validity_watch.py`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from maia.client.api.client import Client
from maia.clock import system_now
from maia.config.input_files import BadFile
from maia.credentials import Principal, SignedStatement, ValidityState, statement_from_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Request
from maia.spark.governed.reader import Reader
from maia.spark.governed.right_state import HeldRight, RightsOnWatch
from maia.spark.governed.validity_watch import Asking
from maia.spark.keys.key_server import JobDesk
from maia.types import validity_type_name

__all__ = ["RightWatch", "follow_streams", "read_statements", "right_watch"]

LOOK_S: Final = 1.0
AGAIN_S: Final = 2.0
FILES_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 4 << 20


class RightWatch:
    """The tables of one driver that are looked after. Made by `right_watch`, which also ends its thread."""

    def __init__(
        self,
        desk: JobDesk,
        standing: ValidityState,
        clock: Callable[[], Instant],
        asking: Asking | None = None,
    ) -> None:
        """Look after nothing yet."""
        self._desk, self._clock, self._asking = desk, clock, asking
        self._rights = RightsOnWatch(standing)
        self._lock = threading.Lock()
        self.ended = 0
        """How many tables have ended so far because their right was gone."""
        self.unanswered: Mapping[Principal, MaiaError] = {}
        """Why testers did not answer the one-time questions of the last table."""

    @property
    def standing(self) -> ValidityState:
        """Return the statements received."""
        return self._rights.standing

    def tested(self, reader: Reader, request: Request) -> Reader:
        """Return a reader whose certificates are tested at this moment, for this request."""
        if self._asking is not None:
            found = self._asking.once(reader, request, self._clock)
            self.unanswered, reader = found.problems, replace(reader, answered=found.answered)
        with self._lock:  # statements that arrive meanwhile do not affect a table that is being decided
            received = ValidityState.reloaded(self.standing.exported())
            return reader.tested(received, self._clock())

    def begin(self, right: HeldRight) -> None:
        """Look after a table from now on."""
        with self._lock:
            self._rights.begin(right, self._clock())

    def follow(self, statements: Iterable[SignedStatement]) -> list[MaiaError]:
        """Hear statements, and end what they take the ground from; return what could not be believed."""
        with self._lock:
            ended, odd = self._rights.follow(statements, self._clock())
            self._end(ended)
        return odd

    def look(self) -> None:
        """End the tables that no valid statement covers any more."""
        with self._lock:
            self._end(self._rights.look(self._clock()))

    def ask(self) -> None:
        """Hear what testers say where the driver asks them, and ask again about tables that go on."""
        if self._asking is None:
            return
        self.follow(self._asking.statements(self._clock()))
        with self._lock:
            goes_on = self._rights.asked_once
        for right in goes_on:
            self._ask_again(self._asking, right)

    def _ask_again(self, asking: Asking, right: HeldRight) -> None:
        answered, request = right.reader.answered, right.request
        if answered is None or request is None or not asking.is_half_over(answered, self._clock()):
            return
        found = asking.once(right.reader, request, self._clock)
        # A tester that answers only now changes nothing for a table that was decided without it.
        newer = replace(answered, once=frozenset()) if found.answered is None else found.answered
        kept = newer.once & answered.once
        if kept < answered.once and not found.is_refused:
            return  # the answer before counts until it is over, and the next look asks again
        with self._lock:
            self._end(self._rights.answer(right, replace(newer, once=kept), self._clock()))

    def _end(self, rights: Sequence[HeldRight]) -> None:
        self.ended += len(rights)
        for one in (one for right in rights for one in right.passes):
            self._desk.end(one)


@contextmanager
def right_watch(
    desk: JobDesk,
    statements: Iterable[SignedStatement] = (),
    *,
    folders: Sequence[Path] = (),
    asking: Asking | None = None,
    every_s: float = LOOK_S,
    clock: Callable[[], Instant] = system_now,
) -> Iterator[RightWatch]:
    """Watch while the body runs; statements that appear in `folders` are read too, as from a login.

    With `asking`, testers are asked before the body runs, and then again and again.
    """
    watch, over = RightWatch(desk, ValidityState(), clock, asking), threading.Event()
    watch.follow(statements)
    watch.ask()
    desk.look = watch.look
    work = [threading.Thread(target=_looking, args=(watch, tuple(folders), every_s, over), daemon=True)]
    if asking is not None:  # a tester that hangs must not keep this driver from its wallet
        work.append(threading.Thread(target=_asking, args=(watch, asking.every_s, over), daemon=True))
    for thread in work:
        thread.start()
    try:
        yield watch
    finally:
        over.set()
        for thread in work:
            thread.join()
        desk.look = lambda: None


async def follow_streams(
    client: Client, watch: RightWatch, issuers: Iterable[Principal], *, again_s: float = AGAIN_S
) -> None:
    """Hear what these issuers state, for as long as this runs; whatever breaks off is begun again."""
    async with asyncio.TaskGroup() as tasks:
        for issuer in frozenset(issuers):
            tasks.create_task(_follow_stream(client, watch, issuer, again_s))


async def _follow_stream(client: Client, watch: RightWatch, issuer: Principal, again_s: float) -> None:
    while True:
        # A broker that is away, or an issuer without a stream yet: without statements the table ends in time.
        with suppress(MaiaError):
            subscription = await client.subscribe(validity_type_name(issuer), state=True)
            async for event in subscription:
                data = event.get("statement")
                with suppress(MaiaError):
                    signed = statement_from_bytes(data if isinstance(data, bytes) else b"")
                    await asyncio.to_thread(watch.follow, [signed] if signed.statement.by == issuer else [])
            return  # the client was closed
        await asyncio.sleep(again_s)


def _looking(watch: RightWatch, folders: Sequence[Path], every_s: float, over: threading.Event) -> None:
    seen: set[Path] = set()
    while not over.wait(every_s):
        watch.follow(_new_statements(folders, seen))


def _asking(watch: RightWatch, every_s: float, over: threading.Event) -> None:
    while not over.wait(every_s):
        watch.ask()


def _new_statements(folders: Sequence[Path], seen: set[Path]) -> Iterator[SignedStatement]:
    """Yield what has appeared; a name means one statement for ever, and a file may be gone again."""
    there = {path for folder in folders for path in sorted(folder.glob("*.statement"))[:FILES_MAX]}
    seen &= there
    for path in sorted(there - seen):
        with suppress(MaiaError):  # the next look finds it whole, or gone
            yield _statement(path)
            seen.add(path)


def read_statements(paths: Iterable[Path]) -> list[SignedStatement]:
    """Read statements from files, and from every `*.statement` in folders, in the order of their numbers."""
    files: list[Path] = []
    for path in paths:
        files.extend(sorted(path.glob("*.statement")) if path.is_dir() else [path])
    if len(files) > FILES_MAX:
        raise BadFile(f"{len(files)} statements are more than the {FILES_MAX} that are read at once")
    found = [_statement(file) for file in files]
    return sorted(found, key=lambda one: getattr(one.statement, "sequence", 0))


def _statement(path: Path) -> SignedStatement:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be read: {problem.strerror}") from problem
    if len(data) > FILE_BYTES_MAX:
        raise BadFile(f"`{path}` is larger than the {FILE_BYTES_MAX} bytes that are read")
    try:
        return statement_from_bytes(data)
    except MaiaError as problem:
        raise BadFile(f"`{path}`: {problem.message} [{problem.code}]") from problem
