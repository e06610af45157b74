"""How does a program connect, with an event loop or without one?

    with maia.connect("lab.maia") as lab:
        lab.publish("LabResult", patient="P-17", ward="3", value=142, taken=datetime.now(UTC))

    async with maia.connect("lab.maia") as lab:
        async for event in lab.subscribe("LabResult", "value > 100"):
            ...

    lab = maia.connect("lab.maia").open()      in a notebook; `lab.close()` when you are done

`connect` takes a profile, or an address with everything that a profile would
say. `with` connects in a thread of its own, and `async with` in the running loop.
Newer versions of the types in a profile are fetched from its domain's server and verified,
while the client connects; a server that does not answer keeps no program waiting.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from maia.client.api.blocking_client import BlockingClient, blocking, opened
from maia.client.api.client import Client
from maia.client.api.client import connect as connect_to
from maia.clock import system_now
from maia.credentials import (
    NetworkName,
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    VerifiedConstitution,
)
from maia.errors import MaiaError
from maia.profile import Profile, find_profile

if TYPE_CHECKING:
    from maia.api.revalidation import Revalidate
    from maia.client.api.connected_client import OnEnding
    from maia.client.api.publisher import OnWarning
    from maia.client.api.wallet_watch import IdentitySource
    from maia.events import Instant
    from maia.net.links import LinkLimits
    from maia.net.observer import Records
    from maia.net.statement_links import StatementLinks
    from maia.types import SignedDefinition

__all__ = ["Connection", "connect", "connect_to_profile"]

_PASSPHRASE: Final = "MAIA_PASSPHRASE"  # noqa: S105 - the name of a variable, not a secret
_NEWER_S: Final = 2.0


class Connection:
    """A connection that begins with `with`, `async with` or `open`. Made by `maia.connect`."""

    # Any: each option is what `connect` says; nothing else makes a connection.
    def __init__(self, where: str | Path | Sequence[str] | Profile, options: dict[str, Any]) -> None:
        """Take note of what is meant; nothing is read or dialled yet."""
        self._where, self._options = where, options
        self._blocking: AbstractContextManager[BlockingClient] | None = None
        self._in_loop: AbstractAsyncContextManager[Client] | None = None

    def __repr__(self) -> str:
        """Return where it leads; what was given besides may hold a key."""
        where = self._where.name if isinstance(self._where, Profile) else self._where
        return f"<Connection to {where}: use it by `with`, `async with` or `.open()`>"

    def open(self) -> BlockingClient:
        """Connect without `with`, as notebooks do; `close` the client that this returns when you are done."""
        return opened(self._connecting)

    def __enter__(self) -> BlockingClient:
        """Connect, in a thread of its own."""
        self._blocking = blocking(self._connecting)
        return self._blocking.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Disconnect."""
        assert self._blocking is not None  # noqa: S101 - entered before
        return self._blocking.__exit__(kind, value, trace)

    async def __aenter__(self) -> Client:
        """Connect, in the running event loop."""
        self._in_loop = self._connecting()
        return await self._in_loop.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Disconnect."""
        assert self._in_loop is not None  # noqa: S101 - entered before
        return await self._in_loop.__aexit__(kind, value, trace)

    def _connecting(self) -> AbstractAsyncContextManager[Client]:
        # A program that asks for nothing else is told on standard error why it waits.
        where, options = (
            self._where,
            {"on_waiting": log_warning, "on_warning": log_warning, "on_ending": log_warning} | self._options,
        )
        if isinstance(where, Profile):
            return connect_to_profile(where, **options)
        if "key" in options and not isinstance(where, Path):
            return connect_to(where, **options)
        if isinstance(where, str | Path):
            return connect_to_profile(find_profile(str(where)), **options)
        raise TypeError("addresses go with `key`, `network` and `credentials`; a profile says all of them")


def log_warning(problem: MaiaError | None) -> None:
    """Let the log of the program know why nothing can be published or arrive, or that it can again."""
    if problem is None:
        logging.getLogger("maia").info("events can be published and arrive again")
    else:
        logging.getLogger("maia").warning(
            "%s [%s]", problem.message, problem.code, extra={"maia": problem.as_record()}
        )


def connect(  # noqa: PLR0913 - all but the first are named at the call
    where: str | Path | Sequence[str] | Profile,
    *,
    key: SigningKey | None = None,
    network: NetworkName | None = None,
    credentials: Iterable[SignedCertificate] | None = None,
    statements: Iterable[SignedStatement] | None = None,
    types: Iterable[SignedDefinition] | None = None,
    address: str | Sequence[str] | None = None,
    brokers: Iterable[Principal] | None = None,
    brokers_of: Iterable[Principal] | None = None,
    constitutions: tuple[VerifiedConstitution, ...] | None = None,
    identity: IdentitySource | None = None,
    by_statement: StatementLinks | None = None,
    revalidate: Revalidate | None = None,
    on_waiting: Callable[[MaiaError], None] | None = None,
    on_warning: OnWarning | None = None,
    on_ending: OnEnding | None = None,
    timeout_s: float | None = None,
    dial_again_s: float | None = None,
    limits: LinkLimits | None = None,
    records: Records | None = None,
    clock: Callable[[], Instant] | None = None,
    follows: bool | None = None,
) -> Connection:
    """Connect to a network: `with` or `async with` what this returns, or `open` it.

    `where` is a profile, such as "lab.maia". What is given besides overrides what the profile says.
    Without a profile, it is the address of a broker, or several, and `key`, `network` and
    `credentials` have to be given. Why a program waits is logged as a warning of the logger `maia`, or
    handed to `on_waiting` (no broker yet) and `on_warning` (what was asked for cannot be served). So is
    what ends soon, two weeks and two days before; or it is handed to `on_ending`.
    The other options are those of `maia.client.api.client.connect`.
    """
    given = {
        "key": key, "network": network, "credentials": credentials, "statements": statements,
        "types": types, "address": address, "brokers": brokers, "brokers_of": brokers_of,
        "constitutions": constitutions, "identity": identity, "by_statement": by_statement,
        "revalidate": revalidate, "on_waiting": on_waiting, "on_warning": on_warning, "on_ending": on_ending,
        "timeout_s": timeout_s, "dial_again_s": dial_again_s, "limits": limits, "records": records,
        "clock": clock, "follows": follows,
    }  # fmt: skip
    return Connection(where, {name: one for name, one in given.items() if one is not None})


@asynccontextmanager
async def connect_to_profile(profile: Profile, **options: Any) -> AsyncIterator[Client]:
    # Any: as above, for commands and connectors.
    """Connect as the participant of a profile, for as long as the body runs."""
    from maia.client.api.pushed_certificates import follow_issuers, issuers_of, showing
    from maia.client.api.wallet_watch import following
    from maia.config.input_files import read_principal
    from maia.keystore.wallet_folder import WalletFolder
    from maia.net.process import beside
    from maia.profile.brokers_now import brokers_now

    settings = profile.settings
    key = options.pop("key", None) or signing_key(profile)
    wallet = None if settings.wallet is None else WalletFolder(settings.wallet)
    kept = None if wallet is None else wallet.read()
    mine = {
        "network": options.pop("network", None) or profile.network(),
        "credentials": (*profile.certificates(), *(() if kept is None else kept.certificates)),
        "constitutions": profile.constitutions(),
        "types": await _types(profile, key),
        "folders": (profile.path,),
        **({} if kept is None else {"statements": kept.statements}),
        "brokers_of": [read_principal(one) for one in settings.brokers_of] or None,
        **_identity(profile, key),
    } | options
    addresses = mine.pop("address", None) or tuple(one.rpartition("@")[2] for one in profile.brokers())
    folder = settings.wallet or next((one for one in settings.credentials if one.is_dir()), None)
    domain = None if settings.domain is None else read_principal(settings.domain)
    issuers = issuers_of(mine["credentials"], key.principal, domain)
    if domain is not None and settings.server is not None:
        mine.setdefault("ask_brokers", partial(brokers_now, settings.server, domain, key))
    async with connect_to(addresses, key=key, **mine) as client, AsyncExitStack() as stack:
        if wallet is not None and kept is not None:
            await stack.enter_async_context(following(client, wallet, shown=kept))
        pushed = follow_issuers(client, key, issuers, showing(client, folder))
        await stack.enter_async_context(beside(pushed))
        yield client


def signing_key(profile: Profile) -> SigningKey:
    """Open the key of a profile; a passphrase comes from the environment."""
    from maia.keystore.key_files import WrongPassphrase, load_signing_key

    try:
        return load_signing_key(profile.key())
    except WrongPassphrase:
        given = os.environ.get(_PASSPHRASE)
        if given is None:
            raise
        return load_signing_key(profile.key(), given)


async def _types(profile: Profile, key: SigningKey) -> tuple[SignedDefinition, ...]:
    """Return the types of a profile, and newer versions of them that its domain's server has."""
    from maia.profile.newer_types import newer_definitions

    held = profile.definitions()
    with suppress(MaiaError, TimeoutError):
        async with asyncio.timeout(_NEWER_S):
            return await asyncio.to_thread(newer_definitions, profile, held, key, system_now())
    return held


def _identity(profile: Profile, key: SigningKey) -> dict[str, Any]:  # Any: as above
    """Return the identity statement of a profile, and the brokers that are dialled by statement links."""
    from maia.config.identity_file import IdentityFile
    from maia.config.input_files import read_principal

    settings = profile.settings
    if settings.identity is None:
        return {}
    file = IdentityFile(settings.identity, key, [read_principal(one) for one in settings.providers])
    peers = {
        address: read_principal(word)
        for word, at, address in (one.rpartition("@") for one in settings.brokers)
        if at
    }
    if not peers:
        return {"identity": file}
    from maia.net.statement_links import StatementLinks

    return {"identity": file, "by_statement": StatementLinks(file, system_now, peers)}
