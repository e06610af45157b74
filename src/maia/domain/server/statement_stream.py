"""How do a domain's statements reach the network, and how does it receive those of other issuers?

The domain is an ordinary client of a broker: it publishes on its own validity
stream and subscribes to the streams of the issuers that its rights depend on. A
statement is carried when the broker has taken it on, which it does after it
has acted on it. While no broker can be reached, nothing is lost: lists hold
everything that is revoked, so the next one says it again, and verifiers that
receive nothing accept nothing once the last one ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from maia.api.testers import Fetched, fetching
from maia.back_off import Pauses, doubled
from maia.client import RowsRefused
from maia.client.api.by_frame import link_of
from maia.client.api.client import Client, connect
from maia.client.api.publisher import Publisher
from maia.client.api.subscription import ReceivedEvent
from maia.credentials import (
    NetworkName,
    Principal,
    SignedCertificate,
    SigningKey,
)
from maia.credentials.statements import SignedStatement, statement_from_bytes, statement_to_bytes
from maia.domain.access.results import Revoked
from maia.domain.access.service import AccessControl
from maia.domain.server.access_config import PreparedAccess
from maia.domain.server.service import DomainService
from maia.errors import MaiaError
from maia.net.observer import Records
from maia.sealing.pushed_certificates import PUSHED_MAX, event_of
from maia.types import (
    SignedDefinition,
    definition_to_bytes,
    install_credentials,
    validity_definition,
    validity_type_name,
)
from maia.types.verified import certificates_definition

Listener = Callable[[Client], Coroutine[None, None, None]]

_AGAIN_S: Final = 1.0
_AGAIN_MOST_S: Final = 30.0
_CONNECT_S: Final = 10.0
_CHECK_S: Final = 0.5
_ISSUERS_S: Final = 2.0
_FOLLOWED_MAX: Final = 256
_NOTED_AT: Final = 5


@dataclass(frozen=True, slots=True)
class DomainIdentity:
    """The key, network and certificates of the domain."""

    key: SigningKey = field(repr=False)
    network: NetworkName
    credentials: tuple[SignedCertificate, ...] = field(repr=False)


class StatementStream:
    """The domain's own connection to its broker. It is a carrier for `DomainService`."""

    def __init__(
        self,
        service: DomainService,
        identity: DomainIdentity,
        prepared: PreparedAccess,
        records: Records,
        *,
        listeners: tuple[Listener, ...] = (),
    ) -> None:
        """Publish as the domain; nothing is dialled yet. Listeners run on every connection beside it."""
        self._service, self._key, self._records = service, identity.key, records
        self._identity, self._prepared, self._listeners = identity, prepared, listeners
        self._carry_s = float(prepared.config.broker_carry_s)
        self._publisher: Publisher | None = None
        self._changed = asyncio.Condition()
        self._away_since = asyncio.get_running_loop().time()
        self._is_broken, self._is_renewed = asyncio.Event(), asyncio.Event()
        self._streams: dict[Principal, SignedDefinition] = {}  # of issuers, as these hand them out
        self._to_push: list[tuple[Principal, tuple[SignedCertificate, ...]]] = []
        self.carried = 0
        """How many statements a broker has taken on so far."""

    # ------------------------------------------------------------ carrying

    async def carry(self, statement: SignedStatement) -> bool:
        """Publish a statement and wait until the broker has acted on it; say whether it has."""
        try:
            async with asyncio.timeout(self._patience_s()):
                async with self._changed:
                    await self._changed.wait_for(lambda: self._publisher is not None)
                    publisher = self._publisher
                assert publisher is not None  # noqa: S101 - it was waited for
                await publisher.publish_many(_events(await self._with_current(statement)))
                await publisher.flush(timeout_s=self._carry_s)
        except TimeoutError:
            self._records.note("failed", {"why": "no broker takes a statement on"})
            self._is_broken.set()
            return False
        except MaiaError as problem:
            self._records.note("failed", {"code": problem.code, "why": problem.message})
            self._is_broken.set()
            return False
        self.carried += 1
        return True

    async def _with_current(self, statement: SignedStatement) -> list[SignedStatement]:
        """Return a statement behind the lists that hold beside it.

        They travel as one frame, which is what brokers send to a new subscriber as the state of the
        stream: a revocation alone would say nothing about what still counts.
        """
        now, held = self._service.clock(), tuple[SignedStatement, ...]()
        with suppress(MaiaError):  # the store is not there now; the statement itself is
            held = await self._service.ask(lambda access: access.current_statements(now))
        return [*(one for one in held if one.id != statement.id), statement]

    def _patience_s(self) -> float:
        """Return how long to wait: a broker that has been away for long keeps no further caller waiting."""
        if self._publisher is not None:
            return self._carry_s
        away_s = asyncio.get_running_loop().time() - self._away_since
        return max(0.0, self._carry_s - away_s)

    # ------------------------------------------------------------ running

    def renew(self, credentials: tuple[SignedCertificate, ...], hear: tuple[Principal, ...]) -> None:
        """Listen to these issuers too; connect at once with these certificates, if they are others."""
        before = self._identity.credentials
        self._identity = replace(self._identity, credentials=credentials)
        self._prepared = replace(self._prepared, hear=hear)
        if {one.id for one in credentials} != {one.id for one in before}:
            self._is_renewed.set()
            self._is_broken.set()

    async def run(self) -> None:
        """Be connected for as long as this runs, whatever happens to the broker."""
        async with fetching(
            None, missed=self._missed, hear=self._take_fetched, records=self._records,
            clock=self._service.clock,
        ):  # fmt: skip
            await self._stay_connected()

    async def _stay_connected(self) -> None:
        pauses = Pauses(_AGAIN_S, most_s=_AGAIN_MOST_S, clock=asyncio.get_running_loop().time)
        while True:
            self._is_renewed.clear()
            pauses.begin()
            try:
                await self._connect()
                pauses.forget()
            except* Exception as group:  # noqa: BLE001 - the outermost loop of the connection
                problem = _first(group)
                said = (
                    {"code": problem.code, "why": problem.message} if isinstance(problem, MaiaError) else {}
                )
                self._records.note("failed", said or {"why": type(problem).__name__})
            finally:
                await self._set(None)
            with suppress(TimeoutError):
                async with asyncio.timeout(pauses.ended_s()):
                    await self._is_renewed.wait()
                    pauses.forget()

    async def _connect(self) -> None:
        network, credentials = self._identity.network, self._identity.credentials
        now, known = self._service.clock(), self._prepared.constitutions
        self._is_broken.clear()
        async with connect(
            self._prepared.config.broker_addresses,
            key=self._key,
            network=network,
            credentials=credentials,
            constitutions=known,
            clock=self._service.clock,
            timeout_s=_CONNECT_S,
        ) as client:
            chain = install_credentials(self._key.principal, network, credentials, now, known)
            definition = validity_definition(self._key, chain)
            await self._service.ask(lambda access: _set_stream(access, definition))
            publisher = await client.advertise(definition, timeout_s=_CONNECT_S)
            pushing = await client.advertise(certificates_definition(self._key, chain), timeout_s=_CONNECT_S)
            revoked = await self._receive_own_stream(client)
            await self._publish_current(publisher)
            await self._set(publisher)
            async with asyncio.TaskGroup() as tasks:
                hearing = [
                    tasks.create_task(self._follow_issuers(client)),
                    tasks.create_task(self._announce_revoked(revoked)),
                ]
                hearing += [tasks.create_task(listen(client)) for listen in self._listeners]
                hearing.append(tasks.create_task(self._publish_to_new_links(client, publisher)))
                hearing.append(tasks.create_task(self._push_certificates(pushing)))
                await self._is_broken.wait()
                for one in hearing:
                    one.cancel()

    async def _receive_own_stream(self, client: Client) -> list[Revoked]:
        """Receive what this domain stated last before it states anything; return what is revoked here by it.

        A store that was restored from an old copy does not know: its newest list would make valid again
        what it has revoked since.
        """
        own, revoked = self._key.principal, list[Revoked]()
        with suppress(MaiaError):  # not available now; the stream is followed for as long as there is a link
            said = await client.subscribe(validity_type_name(own), state=True, timeout_s=_CONNECT_S)
            await said.state_known(timeout_s=_CONNECT_S)
            while events := await said.some(_FOLLOWED_MAX, timeout_s=0):
                for signed in (self._read(event, own) for event in events):
                    if signed is not None:
                        revoked.append(await self._receive_own(signed))
            await said.unsubscribe()
        return [one for one in revoked if one.ids]

    async def _receive_own(self, signed: SignedStatement) -> Revoked:
        """Go on from a statement of this domain itself; what it revokes is announced later."""
        own, now = self._key.principal, self._service.clock()
        try:
            return await self._service.ask(
                lambda access: access.receive_statement(signed, actor=own, now=now)
            )
        except MaiaError as problem:  # made up by a broker on the way, say: the next one may be our own
            self._records.note("refused", {"issuer": str(own), "code": problem.code})
            return Revoked()

    async def _announce_revoked(self, revoked: list[Revoked]) -> None:
        """Announce what is revoked because of an earlier statement of this domain."""
        if revoked:
            self._records.note("restored", {"certificates": sum(len(one.ids) for one in revoked)})
            await self._service.announce(revoked)

    async def _publish_current(self, publisher: Publisher) -> None:
        """Publish first what a new verifier needs: the broker may have been away, or be another."""
        now = self._service.clock()
        current = await self._service.ask(lambda access: access.current_statements(now))
        await publisher.publish_many(_events(current))
        with suppress(RowsRefused):  # what the broker has already it need not take again
            await publisher.flush(timeout_s=self._carry_s)

    async def _publish_to_new_links(self, client: Client, publisher: Publisher) -> None:
        """Publish everything again when the client has come back to a broker, or come to another."""
        seen = link_of(client)
        while True:
            await asyncio.sleep(_CHECK_S)
            link = link_of(client)
            if link is not None and link != seen and client.broker is not None:
                seen = link
                with suppress(MaiaError):  # gone again; the next link is noticed too
                    await self._publish_current(publisher)

    async def _push_certificates(self, publisher: Publisher) -> None:
        """Publish each new certificate to its subject, as soon as it is in the register."""
        own = self._key.principal
        while True:
            while self._to_push:
                subject, chain = self._to_push[0]
                event = event_of(chain[-PUSHED_MAX:], issuer=own, subject=subject, random=os.urandom)
                await publisher.publish(event)
                await publisher.flush(timeout_s=self._carry_s)
                self._to_push.pop(0)
                self._records.note("pushed", {"certificate": chain[-1].id.hex(), "subject": str(subject)})
            await self._service.has_certificates.wait()
            self._service.has_certificates.clear()
            with suppress(MaiaError):  # the store is not there now
                self._to_push += await self._service.ask(
                    lambda access: access.take_to_push(self._service.clock())
                )

    async def _set(self, publisher: Publisher | None) -> None:
        async with self._changed:
            if publisher is None and self._publisher is not None:
                self._away_since = asyncio.get_running_loop().time()
            self._publisher = publisher
            self._changed.notify_all()

    # ------------------------------------------------------------ receiving

    async def _follow_issuers(self, client: Client) -> None:
        """Listen to every issuer that something here depends on, and to new ones as soon as they matter.

        To our own stream too: a store that was restored from an old copy learns there how far it had come.
        """
        followed: set[Principal] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                wanted = {*self._prepared.hear, self._key.principal}
                with suppress(MaiaError):  # the store is not there now; those that are known go on
                    wanted |= await self._service.ask(
                        lambda access: access.issuers_followed(self._service.clock())
                    )
                for issuer in sorted(wanted - followed)[: _FOLLOWED_MAX - len(followed)]:
                    followed.add(issuer)
                    tasks.create_task(self._follow(client, issuer))
                await asyncio.sleep(_ISSUERS_S)

    async def _follow(self, client: Client, issuer: Principal) -> None:
        """Listen to an issuer's stream; begin again whenever it ends or cannot be had yet."""
        failures = 0
        while True:
            try:
                stream = self._streams.get(issuer, validity_type_name(issuer))
                subscription = await client.subscribe(stream, state=True, timeout_s=_CONNECT_S)
                failures = 0
                async for event in subscription:
                    if (signed := self._read(event, issuer)) is not None:
                        await self._take(signed, issuer)
                return  # the client was closed
            except MaiaError as problem:
                failures += 1
                # Not every issuer has a stream, and one line says so; while servers start, it is normal.
                if failures == _NOTED_AT:
                    self._records.note("unheard", {"issuer": str(issuer), "code": problem.code})
            await asyncio.sleep(doubled(_AGAIN_S, failures, most=_AGAIN_MOST_S))

    async def _missed(self) -> tuple[SignedCertificate, ...]:
        with suppress(MaiaError):  # the store is not there now
            return await self._service.ask(lambda access: access.not_vouched_for(self._service.clock()))
        return ()

    async def _take_fetched(self, found: Fetched) -> None:
        """Take in what issuers answered where their certificates say, and the types of their streams."""
        self._streams |= found.streams
        for signed in found.statements:
            await self._take(signed, signed.statement.by)

    async def _take(self, signed: SignedStatement, issuer: Principal) -> None:
        received = await self._service.receive(signed)
        if isinstance(received, MaiaError):
            self._records.note("refused", {"issuer": str(issuer), "code": received.code})
        elif received.ids:
            self._records.note("revoked", {"issuer": str(issuer), "certificates": len(received.ids)})

    def _read(self, event: ReceivedEvent, issuer: Principal) -> SignedStatement | None:
        """Return the statement in an event of an issuer's stream; None: it is none, or another issuer's."""
        data = event.get("statement")
        try:
            signed = statement_from_bytes(data) if isinstance(data, bytes) else None
        except MaiaError as problem:
            self._records.note("refused", {"issuer": str(issuer), "code": problem.code})
            return None
        return signed if signed is not None and signed.statement.by == issuer else None


def _set_stream(access: AccessControl, definition: SignedDefinition) -> None:
    access.stream = definition_to_bytes(definition)


def _events(statements: Iterable[SignedStatement]) -> list[dict[str, object]]:
    return [{"statement": statement_to_bytes(signed)} for signed in statements]


def _first(group: BaseExceptionGroup[Exception]) -> BaseException:
    one = group.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
