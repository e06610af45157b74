"""How do the key servers of sealed types learn of the rights that this domain gives, in good time?

The keys of a right begin when the key server of the type knows of it. Its holder may ask for them weeks
later, when it opens a table for the first time, so the domain makes its rights known as soon as they are in
its register: to the key server in its own process, and to those of other owners over the network. A right
that is not counted yet, or a server that does not answer, is tried again until the right is over.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from maia.back_off import doubled
from maia.credentials import Principal, SignedCertificate
from maia.domain.access.service import AccessControl
from maia.domain.server.service import DomainService
from maia.domain.server.statement_stream import DomainIdentity
from maia.errors import MaiaError
from maia.net.node_runner import NodeRunner
from maia.net.observer import Records
from maia.sealing.member.expected import ANNOUNCED_MAX, Announcing, ExpectedMember
from maia.sealing.member.settings import MemberSettings
from maia.validity import Monitor

_AGAIN_S: Final = 1.0
_AGAIN_MOST_S: Final = 300.0
_ANSWERED_S: Final = 20.0
_WAITING_MAX: Final = 4096
"""Holders of rights who wait to be made known; the oldest are known when they ask."""


@dataclass(slots=True)
class RightsTold:
    """Makes the rights that a domain gives known to the key servers of their types."""

    service: DomainService
    identity: DomainIdentity
    records: Records
    tell_own: Callable[[ExpectedMember], None]
    """Tells the key server in this process; raises why a right does not count."""
    _waiting: dict[tuple[Principal, bytes], ExpectedMember] = field(default_factory=dict, repr=False)
    _is_complete: bool = False
    """Whether only what is new has to be looked at."""

    def renew(self, credentials: tuple[SignedCertificate, ...]) -> None:
        """Look at all rights again, with what has come; connect with these certificates from now on."""
        self.identity = replace(self.identity, credentials=credentials)
        self._is_complete = False
        self.service.has_rights.set()

    async def run(self) -> None:
        """Tell of what is new, and again of what did not count, for as long as this runs."""
        failures = 0
        while True:
            self.service.has_rights.clear()
            with suppress(MaiaError):  # the store is not there now
                new, self._is_complete = await self.service.ask(self._new), True
                failures = 0 if new else failures
                self._waiting |= {_id(one): one for one in new}
            await self._tell()
            failures += 1
            with suppress(TimeoutError):
                wait_s = doubled(_AGAIN_S, failures, most=_AGAIN_MOST_S) if self._waiting else None
                async with asyncio.timeout(wait_s):
                    await self.service.has_rights.wait()

    def _new(self, access: AccessControl) -> list[ExpectedMember]:
        return access.take_to_tell(self.service.clock(), every=not self._is_complete)

    async def _tell(self) -> None:
        """Tell every key server what waits for it, and forget what is known there."""
        now, waiting = self.service.clock(), self._waiting
        beyond = islice(waiting, max(0, len(waiting) - _WAITING_MAX))
        for key in {*beyond, *(key for key, one in waiting.items() if one.is_over(now))}:
            del waiting[key]
        by_manager: dict[Principal, list[ExpectedMember]] = {}
        for one in waiting.values():
            by_manager.setdefault(one.sealing.manager, []).append(one)
        for manager, rights in by_manager.items():
            is_own = manager == self.identity.key.principal
            known = self._told_here(rights) if is_own else await self._told_over_network(rights)
            for one in known:
                waiting.pop(_id(one), None)
            fields = {"manager": str(manager), "rights": len(known), "waiting": len(rights) - len(known)}
            self.records.note("rights-told", fields)

    def _told_here(self, rights: Iterable[ExpectedMember]) -> list[ExpectedMember]:
        known: list[ExpectedMember] = []
        for one in rights:
            with suppress(MaiaError):  # it does not count yet
                self.tell_own(one)
                known.append(one)
        return known

    async def _told_over_network(self, rights: Sequence[ExpectedMember]) -> list[ExpectedMember]:
        """Tell another owner's key server; return what it counts."""
        known: list[ExpectedMember] = []
        with suppress(MaiaError, OSError):  # it is not there now
            standing = await self.service.ask(lambda access: access.shown_statements(self.service.clock()))
            for start in range(0, len(rights), ANNOUNCED_MAX):
                known += await self._conversation(rights[start : start + ANNOUNCED_MAX], standing)
        return known

    async def _conversation(
        self, rights: Sequence[ExpectedMember], standing: Monitor
    ) -> list[ExpectedMember]:
        identity, is_over = self.identity, asyncio.Event()
        settings = MemberSettings(identity.network, identity.credentials)
        announcing = Announcing(settings, rights, random=os.urandom, standing=standing)

        def look() -> None:
            if announcing.is_over:
                is_over.set()

        runner = NodeRunner(announcing, identity.key, clock=self.service.clock, after_inputs=look)
        async with runner.running():
            runner.perform(announcing.start(self.service.clock()))
            look()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ANSWERED_S):
                    await is_over.wait()
            runner.perform(announcing.leave())
        return announcing.accepted


def _id(right: ExpectedMember) -> tuple[Principal, bytes]:
    return right.principal, right.versions[-1].type_id
