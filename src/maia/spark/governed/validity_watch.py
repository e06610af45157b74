"""Which testers does a job ask, while it runs, whether its right still holds?

A job is a verifier. It asks the testers of the certificates that its operator
gave it, at the locations in them, again and again: a revocation is known after
`every_s` at the latest, and statements are renewed before they end. Where a
certificate demands a one-time test, the job asks its own question about the
table that it makes. One answer counts for `once_s`; a table that goes on for
longer is asked about again at half that time, and ends when the tester says no,
or when the last answer is over and none has followed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from maia.credentials import Principal, SignedCertificate, SignedStatement, SigningKey, TestKind
from maia.credentials.validity.one_time import OneTimeQuestion, OpenQuestions
from maia.credentials.validity.statements import NONCE_BYTES
from maia.credentials.validity.validity_state import ASSUMED_GOOD, Once
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.policy import Request, gather_evidence, request_digest
from maia.spark.governed.reader import AnsweredOnce, Reader
from maia.validity.fetch import answer_one_time, ask_testers

__all__ = ["Answers", "Asking"]

EVERY_S: Final = 5.0
ONCE_S: Final = 30.0
QUESTIONS_MAX: Final = 8
"""One-time questions that are asked about one table."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of the one-time questions about one table."""

    answered: AnsweredOnce | None
    problems: Mapping[Principal, MaiaError] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Say whether a tester has said no, rather than nothing."""
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
        return _waited_for(ask_testers(self.certificates, now=now)).statements

    def once(self, reader: Reader, request: Request, clock: Callable[[], Instant]) -> Answers:
        """Ask about every certificate of this request that demands a one-time test."""
        now = clock()
        demanded = self._demanded(reader, request, now)
        if not demanded:
            return Answers(None)
        return _waited_for(self._asked(demanded, request_digest(request), clock))

    def is_half_over(self, answered: AnsweredOnce, now: Instant) -> bool:
        """Say whether it is time to ask again, so that an answer comes before the last one is over."""
        return now >= answered.until - round(self.once_s * SECOND / 2)

    def _demanded(
        self, reader: Reader, request: Request, now: Instant
    ) -> list[tuple[SignedCertificate, Principal]]:
        mine = {one.id for one in self.certificates}
        pool = [one for one in reader.pool if one.id in mine]
        if not any(test.kind is TestKind.ONE_TIME for one in pool for test in one.certificate.validity.tests):
            return []
        evidence = gather_evidence(
            request, reader.pool, at=now, constitutions=reader.constitutions, standing=ASSUMED_GOOD
        )
        used = {one.id for chain in evidence.chains for one in chain.certificates}
        found = [
            (one, test.by)
            for one in pool
            for test in one.certificate.validity.tests
            if one.id in used and test.kind is TestKind.ONE_TIME
        ]
        return found[:QUESTIONS_MAX]

    async def _asked(
        self,
        demanded: list[tuple[SignedCertificate, Principal]],
        request: bytes,
        clock: Callable[[], Instant],
    ) -> Answers:
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
        until = Instant(began + round(self.once_s * SECOND))
        return Answers(AnsweredOnce(frozenset(once), until), problems)


def _waited_for(asked: Coroutine[Any, Any, _Result]) -> _Result:
    # Any: what a coroutine takes and yields between is asyncio's business.
    """Wait for an answer, also where the caller's thread has an event loop that runs, as notebooks do."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, asked).result()
