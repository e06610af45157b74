"""How does a driver learn that the right behind a running table has ended, and what does it do then?

    with job_desk() as desk, right_watch(desk, statements, asking=Asking(key, wallet)) as watch:
        table = governed(spark, log, Access(reader, versions, Keys(source, desk, signers), watch))
        watch.follow(more)          from a wallet that a login renews, or a client's subscription

Before every answer the desk looks whether the last statement has ended, to
the microsecond of the driver's clock. The grants of a table whose right is gone end at the desk, so that its
next batch fails; tables of other readers at the same desk go on. With
`asking`, the driver asks testers by itself (`governed/right_watch.py`).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from maia.api.testers import answer_one_time, ask_testers
from maia.client.api.client import Client
from maia.clock import system_now
from maia.config.input_files import BadFile
from maia.credentials import (
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    statement_from_bytes,
)
from maia.credentials.statements import NONCE_BYTES
from maia.errors import MaiaError
from maia.events import INSTANT_MIN, Instant
from maia.net.process import waited_for
from maia.policy import Request, gather_evidence, request_digest
from maia.spark.governed.reader import Reader
from maia.spark.keys.key_server import DeskPass, JobDesk
from maia.types import validity_type_name
from maia.validity import (
    ASSUMED_GOOD,
    NO_ANSWERS,
    Monitor,
    Once,
    OneTimeQuestion,
    OpenQuestions,
    VouchedFor,
    one_time_tests,
    questions_for,
)


@dataclass(frozen=True, slots=True)
class HeldRight:
    """What one table was decided from, and how to decide it again."""

    reader: Reader = field(repr=False)
    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    """All certificates of the decision, the writers' included."""
    decided: object = field(repr=False)
    decide: Callable[[Reader], object] = field(repr=False)
    """Says what a reader may see; equal to `decided` if nothing has changed, and raises if it is nothing."""
    grant: DeskPass | None = field(repr=False)
    request: Request | None = field(default=None, repr=False)
    """What was asked for: one-time questions are about it."""

    def holds(self, monitor: Monitor, now: Instant) -> bool:
        """Return whether the table would be decided the same way now."""
        try:
            return self.decide(self.reader.tested(monitor, now)) == self.decided
        except MaiaError:
            return False


EVERY_S: Final = 5.0
ONCE_S: Final = 30.0
QUESTIONS_MAX: Final = 8
"""One-time questions that are asked about one table."""


@dataclass(frozen=True, slots=True)
class TesterAnswers:
    """What came of the one-time questions about one table."""

    vouched: VouchedFor | None
    problems: Mapping[Principal, MaiaError] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Return whether a tester has said no, rather than nothing."""
        from maia.api.client import REFUSALS

        return any(isinstance(one, REFUSALS) for one in self.problems.values())


@dataclass(frozen=True, slots=True)
class Asking:
    """On whose behalf, and how often."""

    key: SigningKey = field(repr=False)
    """Signs one-time questions; statements are public."""
    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    """Those whose locations are believed enough to dial them: the operator's own."""
    every_s: float = EVERY_S
    once_s: float = ONCE_S

    def statements(self, now: Instant) -> tuple[SignedStatement, ...]:
        """Return what the testers say now; those that do not answer say nothing."""
        return waited_for(ask_testers(self.certificates, now=now)).statements

    def once(self, reader: Reader, request: Request, clock: Callable[[], Instant]) -> TesterAnswers:
        """Ask about every certificate of this request that demands a one-time test."""
        now = clock()
        demanded = self._demanded(reader, request, now)
        if not demanded:
            return TesterAnswers(None)
        return waited_for(self._asked(demanded, request_digest(request), clock))

    def _demanded(
        self, reader: Reader, request: Request, now: Instant
    ) -> list[tuple[SignedCertificate, Principal]]:
        mine = {one.id: one for one in self.certificates if one_time_tests(one)}
        if not any(one.id in mine for one in reader.pool):
            return []
        evidence = gather_evidence(
            request, reader.pool, at=now, constitutions=reader.constitutions, standing=ASSUMED_GOOD
        )
        wanted = questions_for(evidence.chains, QUESTIONS_MAX)
        return [(mine[certificate], by) for certificate, by in wanted if certificate in mine]

    async def _asked(
        self,
        demanded: list[tuple[SignedCertificate, Principal]],
        request: bytes,
        clock: Callable[[], Instant],
    ) -> TesterAnswers:
        questions, began = OpenQuestions(), clock()
        once: set[Once] = set()
        problems: dict[Principal, MaiaError] = {}

        async def ask(certificate: SignedCertificate, question: OneTimeQuestion) -> None:
            try:
                answer = await answer_one_time(question, certificate, self.key)
                once.add(questions.redeem(answer, clock()).spend(request))
            except MaiaError as problem:
                problems[question.by] = problem

        async with asyncio.TaskGroup() as tasks:
            for certificate, by in demanded:
                nonce = os.urandom(NONCE_BYTES)
                question = questions.ask(certificate.id, by, request=request, nonce=nonce, now=began)
                tasks.create_task(ask(certificate, question))
        # The answer is as old as the question: what happened after it was asked may not be in it.
        return TesterAnswers(VouchedFor.for_a_lease(frozenset(once), began, self.once_s), problems)


LOOK_S: Final = 1.0
AGAIN_S: Final = 2.0
FILES_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 4 << 20


class RightWatch:
    """The tables of one driver that are looked after. Made by `right_watch`, which also ends its thread."""

    def __init__(
        self,
        desk: JobDesk,
        monitor: Monitor,
        clock: Callable[[], Instant],
        asking: Asking | None = None,
    ) -> None:
        """Look after nothing yet; `monitor` has the statements received so far."""
        self._desk, self.monitor, self._clock, self._asking = desk, monitor, clock, asking
        self._rights: list[HeldRight] = []
        self._looked_at = Instant(INSTANT_MIN)
        self._lock = threading.Lock()
        self.ended = 0
        """How many tables have ended so far because their right was gone."""
        self.unanswered: Mapping[Principal, MaiaError] = {}
        """Why testers did not answer the one-time questions of the last table."""

    def tested(self, reader: Reader, request: Request) -> Reader:
        """Return a reader whose certificates are tested at this moment, for this request."""
        if self._asking is not None:
            found = self._asking.once(reader, request, self._clock)
            self.unanswered, reader = found.problems, replace(reader, vouched=found.vouched)
        with self._lock:  # statements that arrive meanwhile do not affect a table that is being decided
            return reader.tested(self.monitor.copy(), self._clock())

    def begin(self, right: HeldRight) -> None:
        """Look after a table from now on."""
        with self._lock:
            self._rights.append(right)

    def follow(self, statements: Iterable[SignedStatement]) -> list[MaiaError]:
        """Hear statements, and end what they take the ground from; return what could not be believed."""
        with self._lock:
            now = self._clock()
            received = [self.monitor.receive(signed, now) for signed in statements]
            self._end(now, has_changed=any(received))
        return [one.refused for one in received if one.refused is not None]

    def look(self) -> None:
        """End the tables that no valid statement covers any more."""
        with self._lock:
            self._end(self._clock())

    def ask(self) -> None:
        """Hear what testers say where the driver asks them, and ask again about tables that go on."""
        if self._asking is None:
            return
        self.follow(self._asking.statements(self._clock()))
        with self._lock:
            goes_on = [one for one in self._rights if one.reader.vouched is not None]
        for right in goes_on:
            self._ask_again(self._asking, right)

    def _ask_again(self, asking: Asking, right: HeldRight) -> None:
        vouched, request = right.reader.vouched, right.request
        if vouched is None or request is None or self._clock() < vouched.ask_at:
            return
        found = asking.once(right.reader, request, self._clock)
        # A tester that answers only now changes nothing for a table that was decided without it.
        newer = found.vouched or replace(vouched, once=NO_ANSWERS)
        kept = newer.once & vouched.once
        if kept < vouched.once and not found.is_refused:
            return  # the answer before counts until it is over, and the next look asks again
        answered = replace(right, reader=replace(right.reader, vouched=replace(newer, once=kept)))
        with self._lock:
            self._rights = [answered if one is right else one for one in self._rights]
            self._end(self._clock(), has_changed=True)

    def _end(self, now: Instant, *, has_changed: bool = False) -> None:
        """End the tables that would not be decided the same way any more, if anything has changed."""
        vouched = (one.reader.vouched for one in self._rights)
        is_over = any(one is not None and self._looked_at <= one.until < now for one in vouched)
        if not (has_changed or self.monitor.advance(now) or is_over):
            return
        self._looked_at, rights, self._rights = now, self._rights, []
        for one in rights:
            if one.holds(self.monitor, now):
                self._rights.append(one)
                continue
            self.ended += 1
            if one.grant is not None:
                self._desk.end(one.grant)


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
    watch, over = RightWatch(desk, Monitor(), clock, asking), threading.Event()
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
