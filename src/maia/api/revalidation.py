"""How does a client have its certificates vouched for while a broker waits?

    async def ask_the_domain(question, certificate): ...        returns the signed answer, or raises
    async with maia.connect(..., revalidate=ask_the_domain) as client: ...

Without a function of its own, an application's client asks the testers that
its certificates name, where the certificates say (`testers.py`). Each
challenge is answered in a task of its own, within the time that the broker
gives; what a tester refuses is final, and where one cannot be reached, it is
tried again for what has stood before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from maia.credentials import SignedCertificate, SignedStatement, SigningKey
from maia.errors import MaiaError, Unavailable
from maia.sessions.challenges import Challenged
from maia.validity import OneTimeQuestion

if TYPE_CHECKING:
    from maia.api.tester_calls import ConnectionPool


Revalidate: TypeAlias = Callable[[OneTimeQuestion, SignedCertificate], Awaitable[SignedStatement]]
"""Have a question about one of the client's certificates answered; raise if no tester confirms it."""

Answered: TypeAlias = Callable[[Challenged, Iterable[SignedStatement], MaiaError | None], None]

_AT_ONCE: Final = 8
"""Challenges that are answered at the same time."""
_FIRST_WAIT_S: Final = 0.25
_MOST_WAIT_S: Final = 4.0
_IN_TIME: Final = 0.9
"""The part of a broker's patience that is used: the answer has to get there as well."""


class AskingTesters:
    """Asks the testers that certificates name, and keeps the connections to them open for a while."""

    __slots__ = ("_key", "_lines")

    def __init__(self, key: SigningKey) -> None:
        """Ask as the holder of `key`; no connection is opened before the first question."""
        self._key = key
        self._lines: ConnectionPool | None = None

    async def __call__(self, question: OneTimeQuestion, certificate: SignedCertificate) -> SignedStatement:
        from maia.api.tester_calls import ConnectionPool
        from maia.api.testers import answer_one_time

        if self._lines is None:
            self._lines = ConnectionPool()
        return await answer_one_time(question, certificate, self._key, self._lines)

    async def aclose(self) -> None:
        if self._lines is not None:
            await self._lines.aclose()


class Revalidator:
    """The challenges of one client that are being answered."""

    def __init__(self, revalidate: Revalidate, answered: Answered) -> None:
        """Answer with `revalidate`, and hand what came of it to `answered`."""
        self._revalidate, self._answered = revalidate, answered
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, challenged: Challenged) -> None:
        """Begin to answer a challenge; an earlier one for the same reference needs no answer any more."""
        earlier = self._tasks.pop(challenged.ref, None)
        if earlier is not None:
            earlier.cancel()
        task = asyncio.create_task(self._answer(challenged))
        self._tasks[challenged.ref] = task
        task.add_done_callback(lambda done: self._done(challenged.ref, done))

    def _done(self, ref: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(ref) is task:
            del self._tasks[ref]

    async def stop(self) -> None:
        """Answer nothing any more; every task ends before this does."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(self._revalidate, AskingTesters):
            await self._revalidate.aclose()

    async def _answer(self, challenged: Challenged) -> None:
        answers: list[SignedStatement] = []
        problem: MaiaError | None = None
        try:
            async with asyncio.timeout(challenged.seconds * _IN_TIME), self._turns:
                for question, certificate in challenged.questions:
                    answers.append(await self._one(question, certificate, challenged.is_standing))
        except TimeoutError:
            problem = Unavailable(
                "UNAVAILABLE-REVALIDATION",
                "no tester confirmed a certificate in the time that the broker gave",
            )
        except MaiaError as found:
            problem = found
        except Exception as broken:  # noqa: BLE001 - a function of the application, which the client outlives
            problem = Unavailable(
                "UNAVAILABLE-REVALIDATION", f"asking for a one-time answer failed: {type(broken).__name__}"
            )
        self._answered(challenged, answers, problem)

    async def _one(
        self, question: OneTimeQuestion, certificate: SignedCertificate, is_standing: bool
    ) -> SignedStatement:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return await self._revalidate(question, certificate)
            except Unavailable:
                if not is_standing:
                    raise
            await asyncio.sleep(wait_s)
            wait_s = min(_MOST_WAIT_S, 2 * wait_s)
