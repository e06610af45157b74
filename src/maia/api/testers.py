"""What do those say who must vouch for these certificates? Ask them where the certificates say.

    fetched = await ask_testers(wallet, now=now)    public; for brokers and for one's own tests
    answer = await answer_one_time(question, certificate, key)    for one request of one verifier

A client or a job asks on behalf of certificates in its own wallet: whoever
chose the wallet chose whom it connects to. **A broker must never ask for what
strangers show it**, since they would choose where it connects (`fetching` says
what it may do). A location is a hint. Statements
prove themselves, and only the tester itself is listened to, by its key; what
a location answers can therefore shorten a right, never extend one.

A client that connects shows what was fetched by itself (`client/api/wallet_watch.py`),
and a job goes on asking while it runs (`governed/right_watch.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from maia.back_off import doubled
from maia.credentials import Principal, SignedCertificate, SignedStatement, SigningKey, TestKind
from maia.credentials.statements import (
    OneTimeAnswer,
    check_statement,
    statement_from_bytes,
)
from maia.errors import BadInput, MaiaError, ProtocolViolation, Unavailable
from maia.events import Instant
from maia.net.observer import Records
from maia.net.process import beside
from maia.types import SignedDefinition, definition_from_bytes, validity_type_name
from maia.validity import Monitor, OneTimeQuestion, lacking, one_time_tests

if TYPE_CHECKING:
    from maia.api.tester_calls import ConnectionPool


# HTTP is imported when a tester is asked: most wallets name none.


_Answer: TypeAlias = tuple[list[SignedStatement], SignedDefinition | None]

TESTERS_MAX: Final = 16
"""Testers that are asked for one wallet; those named first."""
LOCATIONS_MAX: Final = 4
"""Locations of one tester that are tried, one after the other."""
STATEMENTS_MAX: Final = 64
"""Statements of one tester that are looked at; a domain has a few."""
AT_ONCE: Final = 4
"""Testers that are asked at the same time."""
FETCH_S: Final = 30.0
"""How long a fetch takes at most, whatever the testers do."""

BEGIN_S: Final = 5.0
"""How long a client that starts waits for testers."""

_FETCHED: Final = frozenset(TestKind) - {TestKind.ONE_TIME}


class TestersUnavailable(Unavailable):
    """None of those who must vouch for certificates could be asked."""

    __test__ = False  # pytest would otherwise take the name for a promise
    code = "UNAVAILABLE-TESTERS"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What testers said, and why the others did not."""

    statements: tuple[SignedStatement, ...] = field(default=(), repr=False)
    problems: Mapping[Principal, MaiaError] = field(default_factory=dict)
    streams: Mapping[Principal, SignedDefinition] = field(default_factory=dict, repr=False)
    """The types of the streams on which testers publish what comes next; nothing is verified yet."""


# ------------------------------------------------------------ statements for every verifier


def fresh_until(
    certificates: Iterable[SignedCertificate], statements: Iterable[SignedStatement], *, now: Instant
) -> Instant | None:
    """Return the last moment at which these statements vouch for what they vouch for now."""
    monitor = Monitor.of(statements, now)
    good = [one for one in certificates if monitor.check(one, now, once=one_time_tests(one)) is None]
    return monitor.steady_until(good, now)


async def with_fetched(
    certificates: Iterable[SignedCertificate],
    statements: Iterable[SignedStatement] = (),
    *,
    now: Instant,
    within_s: float = BEGIN_S,
) -> tuple[SignedStatement, ...]:
    """Return the statements at hand, and beside them those that had to be asked for; never raise.

    The verifier refuses a certificate without a statement, and says so better than a
    failed question could.
    """
    held = tuple(statements)
    wanting = [one for one in certificates if _places([one], now)]
    if not wanting:
        return held
    found = await ask_testers(lacking(Monitor.of(held, now), wanting, now), now=now, within_s=within_s)
    known = {one.id for one in held}
    return (*held, *(one for one in found.statements if one.id not in known))


async def ask_testers(
    certificates: Iterable[SignedCertificate],
    *,
    now: Instant,
    within_s: float = FETCH_S,
    allowed: frozenset[str] | None = None,
    also: Mapping[Principal, str] | None = None,
) -> Fetched:
    """Ask each tester once, at the first of its locations that answers; say what came of it.

    With `allowed`, only these addresses are dialled, whatever certificates say. Those in `also` are asked at
    a location of the caller's, where no certificate names one.
    """
    places = {by: [text] for by, text in (also or {}).items()} | _places(certificates, now, allowed)
    statements: list[SignedStatement] = []
    problems: dict[Principal, MaiaError] = {}
    streams: dict[Principal, SignedDefinition] = {}
    turn, ends = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop().time() + within_s

    async def ask(by: Principal, locations: list[str]) -> None:
        async with turn:
            try:
                found, stream = await _first_answer(by, locations, now, ends=ends)
                statements.extend(found)
                if stream is not None:
                    streams[by] = stream
            except MaiaError as problem:
                problems[by] = problem

    async with asyncio.TaskGroup() as tasks:
        for by, locations in places.items():
            tasks.create_task(ask(by, locations))
    return Fetched(tuple(statements), problems, streams)


def _places(
    certificates: Iterable[SignedCertificate], now: Instant, allowed: frozenset[str] | None = None
) -> dict[Principal, list[str]]:
    """Return where each tester may be, in the order in which certificates name them."""
    found: dict[Principal, dict[str, None]] = {}
    for signed in certificates:
        if signed.certificate.validity.contains(now):
            for test in signed.certificate.validity.tests:
                places = [one for one in test.locations if allowed is None or _is_among(one, allowed)]
                if test.kind in _FETCHED and places:
                    found.setdefault(test.by, {}).update(dict.fromkeys(places))
    return {by: list(places)[:LOCATIONS_MAX] for by, places in list(found.items())[:TESTERS_MAX]}


def _is_among(text: str, allowed: frozenset[str]) -> bool:
    from maia.api.tester_calls import BadLocation, location_from_text

    try:
        return location_from_text(text).address in allowed
    except BadLocation:
        return False


async def _first_answer(by: Principal, locations: list[str], now: Instant, *, ends: float) -> _Answer:
    problem: MaiaError | None = None
    for text in locations:
        left_s = ends - asyncio.get_running_loop().time()
        if left_s <= 0:
            break
        try:
            return await _statements_at(by, text, now, within_s=left_s)
        except MaiaError as found:
            problem = problem or found
    raise problem or TestersUnavailable(f"there was no time to ask `{by}`")


async def _statements_at(by: Principal, text: str, now: Instant, *, within_s: float) -> _Answer:
    from maia.api import endpoints
    from maia.api.tester_calls import TesterCalls, location_from_text

    calls = TesterCalls(by, location_from_text(text), call_s=within_s)
    page = await calls.ask(endpoints.STATEMENTS)
    if len(page.items) > STATEMENTS_MAX:
        raise ProtocolViolation(
            "PROTOCOL-DOMAIN-ANSWER",
            f"a tester has more than the {STATEMENTS_MAX} statements that are looked at",
        )
    stream = None if page.stream is None else definition_from_bytes(page.stream)
    if stream is not None and stream.definition.name != validity_type_name(by):
        stream = None
    found = (statement_from_bytes(one.statement) for one in page.items)
    return [signed for signed in found if _counts(signed, by, now)], stream


def _counts(signed: SignedStatement, by: Principal, now: Instant) -> bool:
    """Return whether a statement is its sender's own and not over; raise if it is not what it says."""
    said = signed.statement
    if isinstance(said, OneTimeAnswer) or said.by != by:
        return False  # another tester's statement is valid too, but was not asked for here
    check_statement(signed)
    return said.period is None or said.period.not_after is None or said.period.not_after >= now


# ------------------------------------------------------------ an answer for one request


async def answer_one_time(
    question: OneTimeQuestion,
    certificate: SignedCertificate,
    key: SigningKey,
    lines: ConnectionPool | None = None,
) -> SignedStatement:
    """Ask the tester that a verifier's question names, as the holder of `key`; return its answer.

    What the tester refuses is raised with the tester's own code, and is final.
    Only where a location does not answer is the next one tried. With `lines`,
    the connection stays open for the next question.
    """
    from maia.api.client import REFUSALS

    problem: MaiaError | None = None
    for text in _locations_for(question, certificate):
        try:
            return await _answer_at(text, question, key, lines)
        except REFUSALS:
            raise
        except MaiaError as found:
            problem = problem or found
    raise problem or Unavailable(
        "UNAVAILABLE-NO-LOCATION", f"the certificate does not say where `{question.by}` can be asked"
    )


def _locations_for(question: OneTimeQuestion, certificate: SignedCertificate) -> tuple[str, ...]:
    if certificate.id != question.certificate:
        raise BadInput("INPUT-ONE-TIME-QUESTION", "the question is about another certificate")
    tests = [one for one in certificate.certificate.validity.tests if one.kind is TestKind.ONE_TIME]
    named = [one.locations for one in tests if one.by == question.by]
    if not named:
        raise BadInput(
            "INPUT-ONE-TIME-QUESTION", f"the certificate does not demand that `{question.by}` is asked"
        )
    return tuple(dict.fromkeys(text for locations in named for text in locations))[:LOCATIONS_MAX]


async def _answer_at(
    text: str, question: OneTimeQuestion, key: SigningKey, lines: ConnectionPool | None
) -> SignedStatement:
    from maia.api import endpoints
    from maia.api import requests as bodies
    from maia.api.tester_calls import TesterCalls, location_from_text

    calls = TesterCalls(question.by, location_from_text(text), lines=lines)
    body = bodies.OneTimeQuestion(question.certificate, question.request, question.nonce)
    told = await calls.ask(endpoints.REVALIDATE, body, key)
    signed = statement_from_bytes(told.statement)
    if signed.statement != OneTimeAnswer(question.by, question.certificate, question.request, question.nonce):
        raise ProtocolViolation(
            "PROTOCOL-DOMAIN-ANSWER", "the tester answers another question than it was asked"
        )
    check_statement(signed)
    return signed


# ------------------------------------------------------------ at a broker: only where its operator allows

# The holder of a certificate chooses the locations in it, so an address must also be in the broker's own
# configuration (`[statements] fetch_from`), which is empty by default. The broker asks only for what
# it misses, and seldom.


LOOK_S: Final = 1.0
_FIRST_S: Final = 0.1
"""How soon a server that has just started looks; then half as often each time, until every `LOOK_S`."""
_AGAIN_S: Final = 0.25
_AGAIN_MOST_S: Final = 60.0
_NOTED_AT: Final = 6


@asynccontextmanager
async def fetching(
    allowed: frozenset[str] | None,
    *,
    missed: Callable[[], Awaitable[tuple[SignedCertificate, ...]]],
    hear: Callable[[Fetched], Awaitable[None]],
    records: Records,
    clock: Callable[[], Instant],
    look_s: float = LOOK_S,
) -> AsyncIterator[None]:
    """Fetch what is missed from `allowed` addresses while the body runs; with none, do nothing.

    None allows all addresses that certificates name: for those of one's own wallet.
    """
    if allowed is not None and not allowed:
        yield
        return

    async def fetch() -> None:
        asked, again_at, lacking_before, wait_s = 0, 0.0, frozenset[bytes](), min(_FIRST_S, look_s)
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, look_s)
            lacking = await missed()
            ids, now = frozenset(one.id for one in lacking), asyncio.get_running_loop().time()
            if not ids <= lacking_before:
                asked, again_at = 0, 0.0  # a new certificate, or one that was vouched for until now
            lacking_before = ids
            if not lacking or now < again_at:
                continue
            found = await ask_testers(lacking, now=clock(), allowed=allowed)
            await hear(found)
            # A tester that does not answer, or with nothing that helps, is asked less and less often.
            asked += 1
            again_at = asyncio.get_running_loop().time() + doubled(_AGAIN_S, asked, most=_AGAIN_MOST_S)
            for by, problem in found.problems.items():
                # While servers start, some are not reached for a moment.
                if asked == (_NOTED_AT if isinstance(problem, Unavailable) else 1):
                    records.note("unheard", {"issuer": str(by), "code": problem.code})

    async with beside(fetch()):
        yield
