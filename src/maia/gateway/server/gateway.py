"""Who is this MQTT client, and which session does it go on with?

The gateway accepts connections, has each client prove its account before anything else is read, and
keeps sessions by account and client identifier: a client identifier of another account is another
session (A13, A101). It has no key and no certificate of its own in the network.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from maia.bounded_map import BoundedMap
from maia.clock import system_now
from maia.credentials import Principal, SigningKey
from maia.errors import MaiaError, Refusal, Unavailable
from maia.events import Instant
from maia.gateway.mqtt.effects import (
    Lost,
    Messages,
    OpenSubscription,
    SubscribedFilter,
    SubscriptionAnswered,
    SubscriptionEnded,
)
from maia.gateway.mqtt.packets import V5, ConnectPacket, ReasonCode
from maia.gateway.mqtt.session import MqttSession
from maia.gateway.server.account_folder import AccountFolder
from maia.gateway.server.config import PreparedGateway
from maia.gateway.server.driver import ClientLink, Driver
from maia.gateway.server.kept_sessions import KeptSession, KeptSessions, Which
from maia.gateway.server.shares import AccountQuota, Over, Unread
from maia.gateway.server.upstream import DurableProgress, Upstream
from maia.net.observer import Records
from maia.sessions.admission import Places

_ROOM_S: Final = 0.005
_HANG_UP_S: Final = 1.0
_FRAMES_REMEMBERED: Final = 1024
"""Of how many frames with retained messages it is known which client sent them."""


class BadClientId(Refusal):
    """A client identifier is missing, too long, or holds characters that are not visible."""

    code = "REFUSED-MQTT-CLIENT-ID"


# ------------------------------------------------------------ share groups


@dataclass(slots=True)
class _ShareGroup:
    """Sessions of one account that share a subscription: each message goes to one of them.

    A share name belongs to an account. Members therefore have one and the same right, and no
    message goes to a client through the right of another principal (A2, A101).
    """

    upstream: Upstream
    unread: Unread
    opened: asyncio.Task[tuple[MaiaError | None, ...]] | None = None
    members: list[tuple[Driver, int]] = field(default_factory=list)

    @property
    def room(self) -> int:
        """Return how many messages can be taken now: one at a time, so that all members get some."""
        return int(any(driver.room > 0 for driver, _ in self.members))

    async def until_room(self) -> None:
        """Wait until one of the members can take a message."""
        while not self.room:
            await asyncio.sleep(_ROOM_S)

    def take(self, messages: Messages) -> None:
        """Hand a message to the member whose turn it is, of those that have room."""
        for _ in range(len(self.members)):
            driver, number = member = self.members.pop(0)
            self.members.append(member)
            if driver.room > 0:
                driver.take(msgspec.structs.replace(messages, number=number))
                return

    def skipped(self, messages: int) -> None:
        """Take note of messages that no member gets, because none reads."""
        for driver, _ in self.members[:1]:
            driver.skipped(messages)

    def ended(self, number: int, problem: MaiaError) -> None:
        """Tell all members that the subscription has ended."""
        del number
        for driver, own in list(self.members):
            driver.feed(SubscriptionEnded(own, problem))


# ------------------------------------------------------------ the gateway


class Gateway:
    """All sessions of one gateway."""

    def __init__(self, prepared: PreparedGateway, records: Records) -> None:
        """Serve accounts of the data folder; nothing listens yet."""
        self.config, self._prepared, self._records = prepared.config, prepared, records
        self._accounts = AccountFolder(prepared.config.data)
        self._kept = KeptSessions(prepared.config.data / "sessions", self._not_kept)
        self.shares = prepared.shares
        self.published = self.delivered = self.skipped = 0
        self.ended = 0
        """How many connections have ended so far."""
        self._waiting: Places[ClientLink] = Places(prepared.config.connections_before_connect)
        self._connections: set[ClientLink] = set()
        self._sessions: dict[tuple[str, str], Driver] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._keys: dict[str, SigningKey] = {}
        self._retainers: dict[str, tuple[Upstream, asyncio.TimerHandle | None]] = {}
        self._groups: dict[tuple[str, str, str], _ShareGroup] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        for kept in self._kept.all():
            self.shares.keep(kept.account, kept.client_id, _instant(kept.ends_at))

    # -------------------------------------------------------- connections

    def admitted(self, connection: ClientLink, address: str | None) -> None:
        """Count a connection; while too many are there, one that waits to prove itself goes.

        It is the oldest from the busiest address, and the new one itself if none else waits.
        """
        self._connections.add(connection)
        self._waiting.take(connection, address)
        is_full = len(self._connections) > self.config.connections
        oldest = self._waiting.next_to_go() if is_full or self._waiting.is_overfull else None
        if oldest is not None:
            self.gone(oldest)
            oldest.drop()
        if oldest is connection:
            full = Unavailable("UNAVAILABLE-GATEWAY-FULL", "the gateway has no room for a connection")
            self.note("refused", full.as_record())

    def welcomed(self, connection: ClientLink) -> None:
        """Take note that a client has proved who it is."""
        self._waiting.leave(connection)

    def gone(self, connection: ClientLink) -> None:
        """Take note that a connection is closed."""
        self._waiting.leave(connection)
        if connection in self._connections:
            self._connections.discard(connection)
            self.ended += 1
            if connection.account is not None:
                self.shares.disconnect(connection.account, Over.MQTT)
                connection.account = None

    @property
    def connections(self) -> int:
        """Return how many connections there are."""
        return len(self._connections)

    def note(self, event: str, fields: dict[str, object]) -> None:
        """Write a log line."""
        self._records.note(event, fields)

    # -------------------------------------------------------- sessions

    async def session_for(
        self, connection: ClientLink, connect: ConnectPacket, proved: Principal | None
    ) -> tuple[Driver, str | None]:
        """Return the session that a client goes on with, connected to a broker as its own principal."""
        if proved is not None:
            account, key = self._accounts.by_key(proved)
        else:
            account, key = self._accounts.by_token(connect.user_name, connect.password)
        client_id, assigned = connect.client_id, None
        if not client_id:
            if connect.version != V5 and not connect.clean_start:
                raise BadClientId("a client without an identifier has to begin with a clean session")
            client_id = assigned = f"maia-{os.urandom(12).hex()}"
        if len(client_id.encode()) > self.config.limits.client_id_bytes or not client_id.isprintable():
            raise BadClientId("a client identifier is too long, or holds characters that are not visible")
        which = (account, client_id)
        before = self._sessions.get(which)
        takes_over = before is not None and before.session.is_connected
        self.shares.connect(account, Over.MQTT, takes_over=takes_over)
        connection.account = account
        lock = self._locks.setdefault(which, asyncio.Lock())
        try:
            async with lock:
                return await self._resume(which, key, clean=connect.clean_start), assigned
        finally:
            if not lock.locked() and which not in self._sessions:
                self._locks.pop(which, None)

    async def _resume(self, which: tuple[str, str], key: SigningKey, *, clean: bool) -> Driver:
        account, client_id = which
        makes_room = self.shares.begin(account, client_id, system_now())
        before = self._sessions.pop(which, None)
        if before is not None:
            before.feed(Lost(ReasonCode.SESSION_TAKEN_OVER))
            await before.settled()
        limits, table = self.config.limits, self._prepared.table
        session = MqttSession(client_id, table, limits)
        driver = Driver(self, account, session)
        left_over: list[SubscribedFilter] = []
        if before is not None and not before.is_over and not clean:
            driver = before
        elif before is not None and not before.is_over:
            left_over = list(before.session.subscriptions.values())
        elif before is None and (kept := self._kept.find(which)) is not None:
            session.restore(kept.subscriptions)
            is_over = kept.ends_at is not None and system_now() >= kept.ends_at
            if clean or is_over:
                left_over = list(session.subscriptions.values())
                session.subscriptions.clear()
                self._kept.put(which, None)
        try:
            upstream = driver.upstream = driver.upstream or await self._connected(driver, key)
        except MaiaError:
            if before is not None and not before.is_over:
                self._sessions[which] = before
            elif self._kept.find(which) is None:
                self.shares.end(*which)
            if makes_room is not None:
                self.shares.keep(account, makes_room, system_now())
            raise
        if left_over:
            await upstream.forget(client_id, left_over)
        if makes_room is not None:
            await self._forget(upstream, account, makes_room)
        if before is not None and before is not driver:
            await before.stop()
        driver.is_over = False
        self._sessions[which], self._keys[account] = driver, key
        self._hold_retainer(account)
        return driver

    async def _connected(self, driver: Driver, key: SigningKey) -> Upstream:
        upstream = self._upstream(driver.account, key, driver.refused, driver.progress)
        upstream.is_own = partial(self._is_of, driver)
        try:
            await upstream.opened()
        except MaiaError:
            await upstream.stop()
            raise
        return upstream

    async def _forget(self, upstream: Upstream, account: str, client_id: str) -> None:
        """Let a session go that has ended, with what it left at the broker."""
        if (kept := self._kept.find((account, client_id))) is not None:
            session = MqttSession(client_id, self._prepared.table, self.config.limits)
            session.restore(kept.subscriptions)
            await upstream.forget(client_id, session.subscriptions.values())
        await self._kept.put((account, client_id), None).wait()

    def _upstream(
        self,
        account: str,
        key: SigningKey,
        refused: Callable[[MaiaError], None],
        progress: dict[str, DurableProgress],
    ) -> Upstream:
        certificates = self._accounts.certificates(account)
        upstream = Upstream(self._prepared.upstream, key, certificates, refused, progress)
        upstream.start()
        return upstream

    def over(self, driver: Driver) -> None:
        """Take note that a session has ended."""
        which = (driver.account, driver.session.client_id)
        if self._sessions.get(which) is driver:
            del self._sessions[which]
            self._locks.pop(which, None)
        if driver.upstream is not None or not any(
            one.is_durable for one in driver.session.subscriptions.values()
        ):
            self._kept.put(which, None)  # else: forgotten at the broker when its client returns
            self.shares.end(*which)
        driver.let_go(forget=True)

    def keep(self, driver: Driver) -> asyncio.Event:
        """Keep a lasting session on disk, so that a gateway that was killed goes on with it.

        Of a session without durable subscriptions nothing would be left, and nothing is written: clients that
        come and go do not keep the others waiting for the disk (A116).
        """
        session = driver.session
        self.shares.keep(driver.account, session.client_id, session.ends_at)
        durable = {
            one.filter: (one.granted, one.identifier)
            for one in session.subscriptions.values()
            if one.is_durable
        }
        ends_at = None if session.ends_at is None else int(session.ends_at)
        kept = KeptSession(driver.account, session.client_id, ends_at, durable)
        return self._kept.put((driver.account, session.client_id), kept if durable else None)

    def _not_kept(self, which: Which, problem: OSError) -> None:
        self.note("failed", {"account": which[0], "problem": f"a session is not on disk: {problem.strerror}"})

    def upstreams(self) -> Iterator[tuple[str, Upstream]]:
        """Yield the Maia clients of each account."""
        for (account, _), driver in self._sessions.items():
            if driver.upstream is not None:
                yield account, driver.upstream
        for (account, _, _), group in self._groups.items():
            yield account, group.upstream
        for account, (upstream, _) in self._retainers.items():
            yield account, upstream

    # -------------------------------------------------------- retained messages

    def retainer(self, driver: Driver) -> Upstream | None:
        """Return the account's Maia client for wills and retained messages, which outlives connections.

        Brokers remember a publisher's last events for as long as it is connected and has its right. So one
        client of the account stays, and with the right of the account its retained messages go (A101). Wills
        that have waited go the same way: however many wait, they hold no link (N4).
        """
        account = driver.account
        if account not in self._retainers or self._retainers[account][0].has_failed:
            try:
                upstream = self._upstream(account, self._keys[account], lambda _: None, {})
            except MaiaError as problem:  # its folder is gone, or cannot be read
                self.note("refused", problem.as_record())
                return None
            upstream.sent = BoundedMap(_FRAMES_REMEMBERED)
            self._retainers[account] = (upstream, None)
        return self._retainers[account][0]

    def _is_of(self, driver: Driver, label: bytes) -> bool:
        held = self._retainers.get(driver.account)
        sent = None if held is None else held[0].sent
        return sent is not None and sent.get(label) == driver.answered

    def _hold_retainer(self, account: str) -> None:
        upstream, timer = self._retainers.get(account, (None, None))
        if timer is not None:
            timer.cancel()
        if upstream is not None:
            self._retainers[account] = (upstream, None)

    def away(self, account: str) -> None:
        """Forget an account's key when its last client has left, and its retained messages after a while."""
        if any(
            name == account and (one.session.is_connected or one.session.has_will)
            for (name, _), one in self._sessions.items()
        ):
            return
        self._keys.pop(account, None)
        upstream, timer = self._retainers.get(account, (None, None))
        if upstream is None:
            return
        if timer is not None:
            timer.cancel()

        def stop() -> None:
            self._retainers.pop(account, None)
            self._spawn(upstream)

        timer = asyncio.get_running_loop().call_later(self.config.retain_s, stop)
        self._retainers[account] = (upstream, timer)

    def _spawn(self, upstream: Upstream) -> None:
        task = asyncio.create_task(upstream.stop())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -------------------------------------------------------- share groups

    def join(self, driver: Driver, number: int, effect: OpenSubscription) -> None:
        """Make a session a member of the group that its account has under this name."""
        subscribed = effect.subscribed
        which = (driver.account, str(subscribed.group), "/".join(subscribed.levels))
        group = self._groups.get(which)
        if group is None:
            if sum(account == driver.account for account, _, _ in self._groups) >= self.config.limits.groups:
                problem = AccountQuota("the account has as many share groups as it may have")
                driver.feed(SubscriptionAnswered(number, (problem,) * len(subscribed.interests)))
                return
            upstream = self._upstream(driver.account, self._keys[driver.account], lambda _: None, {})
            group = self._groups[which] = _ShareGroup(upstream, self.shares.reader(driver.account))
            opening = upstream.open(0, subscribed, group, "", wants_state=False)
            group.opened = asyncio.create_task(opening)
        group.members.append((driver, number))
        opened = group.opened
        assert opened is not None  # noqa: S101 - set when the group was made

        async def answer() -> None:
            try:
                problems = await asyncio.shield(opened)
            except MaiaError as problem:
                problems = (problem,) * len(subscribed.interests)
            if all(one is not None for one in problems):
                self.leave(driver, number)
            await driver.subscribed(number, problems)

        driver.spawn(answer())

    def leave(self, driver: Driver, number: int | None) -> None:
        """End a membership in a share group, if there is one; None for all of them."""
        for which, group in list(self._groups.items()):
            group.members = [
                (one, own)
                for one, own in group.members
                if one is not driver or (number is not None and own != number)
            ]
            if not group.members:
                del self._groups[which]
                self._spawn(group.upstream)

    # -------------------------------------------------------- the end

    async def stop(self) -> None:
        """End every connection, publish the wills, and say goodbye to the broker."""
        while (waits := self._waiting.next_to_go()) is not None:
            self._waiting.leave(waits)
            waits.drop()
        drivers = list(self._sessions.values())
        for driver in drivers:
            driver.feed(Lost(ReasonCode.SERVER_SHUTTING_DOWN))
            driver.let_go()
        for driver in drivers:
            with suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await driver.settled()
            await driver.stop()
        for upstream, timer in self._retainers.values():
            if timer is not None:
                timer.cancel()
            self._spawn(upstream)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._kept.settled()
        with suppress(TimeoutError):
            async with asyncio.timeout(_HANG_UP_S):
                while self._connections:  # until clients have read why
                    await asyncio.sleep(_ROOM_S)
        for connection in list(self._connections):
            connection.drop()
        await asyncio.sleep(0)

    def status(self) -> dict[str, object]:
        """Return how much there is, without names."""
        return {
            "connections": self.connections,
            "waiting": len(self._waiting),
            "sessions": len(self._sessions),
            "groups": len(self._groups),
            "retainers": len(self._retainers),
            "mqtt_published": self.published,
            "mqtt_delivered": self.delivered,
            "mqtt_skipped": self.skipped,
            "unread_bytes": self.shares.unread,
        }


def _instant(moment: int | None) -> Instant | None:
    return None if moment is None else Instant(moment)
