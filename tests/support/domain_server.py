"""A domain's server for tests: the real HTTP interface over TLS, in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from maia.api.client import DomainClient
from maia.clock import system_now
from maia.credentials import (
    Action,
    NetworkName,
    Principal,
    SignedCertificate,
    SigningKey,
    TopicPattern,
    Validity,
    parse_name_pattern,
)
from maia.domain.access.service import AccessControl
from maia.domain.server.access import RunningAccess, access_running
from maia.domain.server.access_config import AccessConfig, PreparedAccess
from maia.domain.server.statement_stream import DomainIdentity
from maia.events import Instant
from maia.testing import grant

__all__ = [
    "ADMIN",
    "PATIENCE_S",
    "DomainAtWork",
    "RecordedNotes",
    "admin_certificate",
    "domain_at_work",
    "key_of",
]

PATIENCE_S = 180.0
"""How long a busy machine may take for an answer."""
ADMIN = frozenset({Action.PUBLISH, Action.SUBSCRIBE})
_DAY = 86_400 * 1_000_000
_Result = TypeVar("_Result")


def key_of(name: str) -> SigningKey:
    """Return the key that everybody in a test knows by this name."""
    return SigningKey.from_seed(name.encode().ljust(32, b".")[:32])


def admin_certificate(
    domain: SigningKey,
    subject: Principal,
    topic: str = "/admin/*",
    actions: frozenset[Action] = ADMIN,
    *,
    now: Instant | None = None,
) -> SignedCertificate:
    """Let somebody administer a domain."""
    at = system_now() if now is None else now
    start = Instant(at - at % 1_000_000 - 60_000_000)
    return grant(
        domain,
        subject,
        TopicPattern(domain.principal, parse_name_pattern(topic)),
        *actions,
        validity=Validity(start, Instant(start + _DAY)),
    )


@dataclass
class RecordedNotes:
    """What an operator would have read."""

    notes: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def note(self, event: str, fields: object) -> None:
        self.notes.append((event, dict(fields)))  # type: ignore[call-overload]

    def count(self, name: str, amount: int, labels: object) -> None:
        pass


@dataclass
class DomainAtWork:
    """A domain whose server answers."""

    key: SigningKey
    running: RunningAccess
    loop: asyncio.AbstractEventLoop
    records: RecordedNotes

    @property
    def address(self) -> str:
        return self.running.address

    def client(self, who: str, *certificates: SignedCertificate, **options: object) -> DomainClient:
        """Return a caller, who is known by name."""
        return DomainClient(
            self.address,
            domain=self.key.principal,
            key=key_of(who),
            credentials=certificates,
            **{"timeout_s": PATIENCE_S, **options},  # type: ignore[arg-type]
        )

    def admin(self, who: str = "admin", topic: str = "/admin/*") -> DomainClient:
        """Return a caller who may administer."""
        return self.client(who, admin_certificate(self.key, key_of(who).principal, topic))

    def ask(self, work: Callable[[AccessControl], _Result]) -> _Result:
        """Do something with the service itself."""
        return asyncio.run_coroutine_threadsafe(self.running.service.ask(work), self.loop).result(PATIENCE_S)

    def do(self, coroutine: object) -> object:
        """Run a coroutine where the server runs."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)  # type: ignore[arg-type]


@contextmanager
def domain_at_work(
    data: Path,
    *,
    name: str = "met",
    config: AccessConfig | None = None,
    clock: Callable[[], Instant] = system_now,
    prepared: PreparedAccess | None = None,
) -> Iterator[DomainAtWork]:
    """Run a domain's server while the body runs."""
    key, records = key_of(name), RecordedNotes()
    config = config or AccessConfig(api_listen="127.0.0.1:0")
    prepared = prepared or PreparedAccess(config)
    identity = DomainIdentity(key, NetworkName(key.principal, "Test"), ())
    ready, found = threading.Event(), []

    async def serve() -> None:
        stop = asyncio.Event()
        try:
            async with access_running(prepared, identity, data=data, records=records, clock=clock) as running:
                found.append((running, asyncio.get_running_loop(), stop))
                ready.set()
                await stop.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    assert found, "the server did not start"
    running, loop, stop = found[0]
    try:
        yield DomainAtWork(key, running, loop, records)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
