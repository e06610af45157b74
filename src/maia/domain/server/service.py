"""How do many callers share one access control service, and where does what it revokes go?

Acts come one after the other, on a thread of their own, so that a slow
database never holds up the key groups. What an act revokes goes to the key
groups and to the network before the caller has its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from maia.clock import system_now
from maia.credentials import Principal, SigningKey
from maia.credentials.statements import IDS_MAX, SignedStatement
from maia.domain.access.results import Revoked
from maia.domain.access.service import AccessControl
from maia.domain.storage.fenced_store import StoreFenced
from maia.errors import MaiaError
from maia.events import Instant

NOTIFIED_MAX: Final = 2 * IDS_MAX
"""How many ids are remembered, so that the key groups get each once: what a list names, and as many."""

_Result = TypeVar("_Result")


class Carrier(Protocol):
    """Publishes statements to the network."""

    async def carry(self, statement: SignedStatement) -> bool:
        """Publish a statement; say whether a broker has taken it on."""
        ...


class NoCarrier:
    """For a domain without a broker: statements are fetched, never carried."""

    async def carry(self, statement: SignedStatement) -> bool:
        """Carry nothing."""
        return False


class DomainService:
    """The access control service of a process, for all callers in it."""

    def __init__(
        self,
        access: AccessControl,
        key: SigningKey,
        *,
        clock: Callable[[], Instant] = system_now,
        on_revoked: Callable[[Iterable[bytes]], None] = lambda _ids: None,
        on_statement: Callable[[SignedStatement], None] = lambda _signed: None,
    ) -> None:
        """Share `access`; `on_revoked` gets the ids of what was revoked, before the network does.

        `on_statement` gets the statements of this domain, and those of the issuers that it follows.
        """
        self._access = access
        self._on_revoked, self._on_statement = on_revoked, on_statement
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="maia-access")
        self._order = asyncio.Lock()
        self._notified: frozenset[bytes] = frozenset()
        self._is_carried: bool | None = None
        self.principal: Principal = key.principal
        self.clock = clock
        self.carrier: Carrier = NoCarrier()
        self.fenced: StoreFenced | None = None
        self.has_news = asyncio.Event()
        """Set when there is something to state sooner than was due."""
        self.has_certificates = asyncio.Event()
        """Set when there are certificates to push to their subjects."""
        self.has_rights = asyncio.Event()
        """Set when there are rights of which key servers are to be told."""
        self.has_policy = asyncio.Event()
        """Set when another policy has come into force."""
        self.is_over = asyncio.Event()
        """Set when the service must not go on, because another process has taken its store over."""

    async def ask(self, work: Callable[[AccessControl], _Result]) -> _Result:
        """Do something with the service, alone; what it returns is safe on disk."""
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._worker, work, self._access)
        except StoreFenced as problem:
            # Another process works on the same tables: what this one says from now on could contradict it.
            self.fenced = problem
            self.is_over.set()
            raise
        if self._access.has_news:
            self.has_news.set()
        if self._access.to_push:
            self.has_certificates.set()
        if self._access.to_tell:
            self.has_rights.set()
        if self._access.has_new_policy:
            self._access.has_new_policy = False
            self.has_policy.set()
        return answer

    async def announce(self, revoked: Iterable[Revoked]) -> bool:
        """Send what was revoked to the key groups and the network; return whether a broker has it.

        Where nothing is new: whether a broker has what was revoked before.
        """
        carried = list[bool]()
        for one in revoked:
            self._notify_key_groups(one.ids)
            carried += [await self._state(said) for said in (one.statement, one.facts) if said is not None]
            if one.statement is None and (one.ids or one.is_silent):
                carried.append(False)
        if carried:
            return all(carried)
        # Whether the last statement has reached the network; before the first, whether there is one.
        return isinstance(self.carrier, NoCarrier) if self._is_carried is None else self._is_carried

    async def _state(self, statement: SignedStatement) -> bool:
        """Send a statement to the key groups and the network; return whether a broker has it."""
        self._on_statement(statement)
        # Statements leave in the order of their numbers, or verifiers would accept the later one alone.
        async with self._order:
            # Each list repeats the one before: one that arrives makes up for those that did not.
            self._is_carried = await self.carrier.carry(statement)
            return self._is_carried

    def _notify_key_groups(self, ids: Iterable[bytes]) -> None:
        named = frozenset(ids)
        new = named - self._notified
        if new:
            # What is forgotten is sent again with the next list that names it, and changes nothing then.
            is_room = len(self._notified) + len(new) <= NOTIFIED_MAX
            self._notified = self._notified | new if is_room else named
            self._on_revoked(new)

    async def take_away(self, work: Callable[[AccessControl], Revoked]) -> tuple[Revoked, bool]:
        """Do an act that revokes something, and announce it; also return whether a broker has it."""
        revoked = await self.ask(work)
        return revoked, await self.announce([revoked])

    async def receive(self, signed: SignedStatement) -> Revoked | MaiaError:
        """Accept a statement of another issuer; what ends here by it is announced."""
        now = self.clock()
        try:
            revoked, _ = await self.take_away(
                lambda access: access.receive_statement(signed, actor=self.principal, now=now)
            )
        except MaiaError as problem:
            return problem
        self._on_statement(signed)
        return revoked

    async def beat(self) -> Instant:
        """Publish what is due, and return when to be called again."""
        self.has_news.clear()
        now = self.clock()
        for statement in await self.ask(lambda access: access.due(now)):
            self._notify_key_groups(getattr(statement.statement, "revoked", ()))
            await self._state(statement)
        return await self.ask(lambda access: access.next_due(self.clock()))

    def close(self) -> None:
        """End the thread; acts that have begun come to their end."""
        self._worker.shutdown(wait=True)
