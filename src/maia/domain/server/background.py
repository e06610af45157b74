"""What does a domain's server do beside answering calls?

It signs and publishes lists before the last one ends, reads facts again,
keeps the credential folders of its brokers fresh, and reads its policy again
at SIGHUP.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from maia.api.responses import WalletAnswer
from maia.config.input_files import read_certificates, read_text
from maia.config.start_checks import opened
from maia.credentials import Principal, SignedCertificate, SigningKey, certificate_to_bytes
from maia.credentials.statements import statement_to_bytes
from maia.domain.access.service import AccessControl
from maia.domain.facts.poller import FactAges, FactFeed, FactFeeder, PostgresChanges
from maia.domain.server.access_config import FactConfig, PreparedAccess
from maia.domain.server.config import PreparedDomain
from maia.domain.server.service import DomainService
from maia.errors import BadInput, MaiaError
from maia.events import SECOND, Instant
from maia.keystore.wallet_folder import WalletFolder
from maia.net.following import following
from maia.net.observer import Records
from maia.organisation.rights import Signing, let_broker

# ------------------------------------------------------------ the policy's file

# At the start, at SIGHUP and on request the file is read again. A file that is
# missing, empty, half written, unreadable or wrong changes nothing: the last
# good policy stays in force, and without one nothing is granted (A42).


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy and the role sets that it imports, as files."""

    path: Path
    parents: Mapping[str, Path] = field(default_factory=dict)

    def read(self) -> tuple[str, dict[str, str]]:
        """Return the texts; refuse what cannot be a whole policy."""
        text = read_text(self.path)
        if not text.strip():
            raise BadInput("INPUT-POLICY-EMPTY", f"`{self.path}` is empty; the policy before stays in force")
        return text, {name: read_text(path) for name, path in self.parents.items()}

    async def begin(self, service: DomainService, records: Records) -> bool:
        """Put the policy in force at a start, unless it was in force once and was replaced since.

        Otherwise a crash would bring back what an administrator has taken away (A82).
        """
        with suppress(MaiaError):  # what is wrong with the file is logged below
            text, parents = self.read()
            if await service.ask(lambda access: access.was_replaced(text, parents)):
                why = "another policy has replaced it since; `maia domain policy reload` goes back to it"
                records.note("policy", {"policy": str(self.path), "why": why})
                return False
        return await self.try_to(service, records)

    async def try_to(self, service: DomainService, records: Records) -> bool:
        """Read the files again and put the policy in force; if it is wrong, log why and change nothing."""
        now, by = service.clock(), service.principal
        try:
            text, parents = self.read()
            found = await service.ask(
                lambda access: access.load_policy(text, actor=by, now=now, parents=parents)
            )
            await service.announce([found.revoked])
        except MaiaError as problem:
            wrong = {"policy": str(self.path), "code": problem.code, "why": problem.message}
            records.note("refused", wrong)
            return False
        fields = {"version": found.version, "digest": found.digest.hex(), "unchanged": found.is_unchanged}
        records.note("policy", fields)
        return True


def policy_file(prepared: PreparedAccess) -> PolicyFile | None:
    """Return the policy's file, if the configuration names one."""
    file = prepared.config.policy_file
    return None if file is None else PolicyFile(file, prepared.config.policy_parents)


def check_policy_file(prepared: PreparedDomain) -> None:
    """Raise, at the line that names it, if the policy's file or one that it imports cannot be read.

    For an operator who asks. A server starts nevertheless, and its last good
    policy stays in force; what the text says is checked against its types there.
    """
    file = None if prepared.access is None else policy_file(prepared.access)
    if file is not None:
        opened(prepared.config, "policy.file", file.read)


PUSH_S: Final = 10.0
RENEW_S: Final = 300
"""How often it is asked at least what the policy grants a broker, beside what must be renewed sooner."""
_BEAT_MOST_S: Final = 5.0
_BEAT_LEAST_S: Final = 0.05
_AGAIN_S: Final = 1.0
_PAGES_MAX: Final = 100


async def publish_statements(service: DomainService, records: Records) -> None:
    """Publish what is due, list after list."""
    while True:
        try:
            due = await service.beat()
            wait_s = (due - service.clock()) / SECOND
        except MaiaError as problem:
            records.note("failed", {"code": problem.code, "why": problem.message})
            wait_s = _AGAIN_S
        await asyncio.sleep(_BEAT_LEAST_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(wait_s, _BEAT_MOST_S) - _BEAT_LEAST_S):
                await service.has_news.wait()


async def stop_when_fenced(service: DomainService) -> None:
    """Raise when another process has written to the store: this one must sign nothing more."""
    await service.is_over.wait()
    assert service.fenced is not None  # noqa: S101 - set together
    raise service.fenced


async def reload_at_signals(policy: PolicyFile | None, service: DomainService, records: Records) -> None:
    """Read the policy again at every SIGHUP; without a file, the signal changes nothing."""
    hung_up, loop = asyncio.Event(), asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return  # signals go to the main thread alone
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    try:
        while True:
            await hung_up.wait()
            hung_up.clear()
            if policy is not None:
                await policy.try_to(service, records)
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


# ------------------------------------------------------------ facts


def pollers(
    configs: Iterable[FactConfig], service: DomainService, ages: FactAges, records: Records
) -> list[FactFeeder]:
    feeds = [
        FactFeed(
            one.name,
            source,
            one.every_s,
            one.stale_s,
            changes=None if one.listen is None else PostgresChanges(one.url or "", one.listen),
        )
        for one in configs
        if (source := one.opened(one.kinds)) is not None
    ]
    return [FactFeeder(feed, service, ages, clock=service.clock, records=records) for feed in feeds]


# ------------------------------------------------------------ certificates that were signed elsewhere


async def follow_issued(folders: Sequence[Path], service: DomainService, records: Records) -> None:
    """Register what the domain's key signs beside this process, as `maia grant` does, as files appear."""
    seen = set[Path]()

    async def take() -> None:
        for file in sorted({one for folder in folders for one in folder.glob("*.cert")} - seen):
            seen.add(file)
            now, by = service.clock(), service.principal
            try:
                found = await asyncio.to_thread(read_certificates, [file])
                own = [one for one in found if one.certificate.issuer == by and not _is_over(one, now)]
                await service.ask(lambda access: access.hold(own, actor=by, now=now))  # noqa: B023 - awaited
            except MaiaError as problem:
                records.note("refused", {"file": str(file), "code": problem.code, "why": problem.message})

    if folders:
        await following(lambda: folders, take, records)


def _is_over(signed: SignedCertificate, now: Instant) -> bool:
    end = signed.certificate.validity.not_after
    return end is not None and end < now


# ------------------------------------------------------------ certificates of brokers


async def let_own_broker(
    broker: Principal,
    folder: Path,
    service: DomainService,
    key: SigningKey,
    records: Records,
    *,
    passes_on: bool,
) -> None:
    """Let the domain's broker do what its policy lets members do with types, as `maia member add` does.

    Without the right to a sealed type a broker gets no keys, and its members nothing to read.
    """
    while True:
        service.has_policy.clear()
        try:
            signing = Signing(key, "", service.clock())
            for action, types in await service.ask(lambda access: access.types_of_members()):
                await asyncio.to_thread(
                    let_broker, folder, broker, action, types, signing, passes_on=passes_on
                )
        except MaiaError as problem:
            records.note("failed", {"broker": str(folder), "code": problem.code, "why": problem.message})
        with suppress(TimeoutError):
            async with asyncio.timeout(RENEW_S):
                await service.has_policy.wait()


async def push_credentials(
    pushes: Iterable[tuple[Principal, Path]], service: DomainService, address: str, records: Records
) -> None:
    """Keep the certificates of brokers in their folders, renewed before they end."""
    written: dict[Path, tuple[bytes, ...]] = {}
    renew_at: dict[Principal, Instant] = {}
    while True:
        for subject, folder in pushes:
            try:
                now = service.clock()
                if now >= renew_at.get(subject, now):
                    renew_at[subject] = await _renewed(subject, service, now)
                wallet = await service.ask(_wallet_for(subject, now))
                if written.get(folder) != (content := (*wallet.chains, *wallet.statements)):
                    kept = WalletFolder(folder)
                    await asyncio.to_thread(
                        kept.keep, wallet, domain=service.principal, address=address, now=now
                    )
                    written[folder] = content
            except MaiaError as problem:
                records.note("failed", {"push": str(folder), "code": problem.code, "why": problem.message})
        await asyncio.sleep(PUSH_S)


async def _renewed(subject: Principal, service: DomainService, now: Instant) -> Instant:
    """Issue to a broker all that the policy grants it, as at a login; return when to do so again."""
    later = Instant(now + RENEW_S * SECOND)

    def work(access: AccessControl) -> Instant:
        if access.policy() is None:
            return later
        renew_before = access.login(subject, (), actor=service.principal, now=now).renew_before
        return later if renew_before is None else min(later, max(renew_before, Instant(now + SECOND)))

    return await service.ask(work)


def _wallet_for(subject: Principal, now: Instant) -> Callable[[AccessControl], WalletAnswer]:
    """Return a reading of a principal's valid certificates, with those that lead from the owners to here."""

    def read(access: AccessControl) -> WalletAnswer:
        valid = list[SignedCertificate]()
        after: str | None = None
        for _ in range(_PAGES_MAX):
            page = access.rights_of(subject, after=after)
            valid += [
                one.certificate
                for one in page.rows
                if one.revoked_at is None and one.certificate.certificate.validity.contains(now)
            ]
            after = page.after
            if after is None:
                break
        chains = {one.id: one for one in (*access.held(now), *valid)} if valid else {}
        return WalletAnswer(
            str(subject),
            [],
            [],
            [certificate_to_bytes(one) for one in chains.values()],
            [statement_to_bytes(one) for one in access.current_statements(now)] if valid else [],
            None,
        )

    return read
