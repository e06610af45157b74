"""What can the principal that is signed in find out, with its own key and by no other right?

Everything that a page shows comes through here: signed calls to the domain's server, which
decides by its kernel each time; certificates and types of the principal's own profile; and
files on this machine (the status of brokers, certificates that were issued, ledgers), which are
opened only while the domain says that this principal may read about them (A70).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from maia.api import endpoints
from maia.api.client import DomainClient
from maia.api.endpoints import Asked, Endpoint
from maia.api.requests import ActsQuestion, PageQuestion, RegisterQuestion, TypesQuestion
from maia.api.responses import EntryAnswer
from maia.api.testers import BEGIN_S, ask_testers
from maia.bounded_map import BoundedMap
from maia.clock import system_now
from maia.config.input_files import read_certificates, read_principal
from maia.config.type_folder import in_order_of_making, verified_lineage
from maia.credentials import Principal, SignedCertificate, VerificationCache, certificate_from_bytes
from maia.credentials.statements import CertificateRevoked, Revalidation, RevocationList
from maia.errors import MaiaError, Refusal, Unavailable
from maia.events import SECOND, Instant
from maia.private_files import own_folder
from maia.profile.address_book import AddressBook, load_book
from maia.types import SignedDefinition, VerifiedType, definition_from_bytes
from maia.validity import Monitor, one_time_tests, speakers

if TYPE_CHECKING:
    from maia.console.config import HeldProfile


READ_REGISTER: Final = "subscribe /admin/register"
READ_NETWORK: Final = "subscribe /admin/network"
READ_AUDIT: Final = "subscribe /admin/audit"
REVOKE: Final = "publish /admin/rights"
_TOPICS: Final = ",".join(one.split()[1] for one in (READ_REGISTER, READ_NETWORK, READ_AUDIT, REVOKE))
ENTRIES_MAX: Final = 20_000
_PAGE: Final = 500
_WHOLE_PAGES: Final = RegisterQuestion(limit=_PAGE)
_FRESH: Final = 2 * SECOND
"""How long a page may use what was read for the page before; a change of ours ends it."""
_LISTS_FRESH: Final = 5 * SECOND
"""How long the same validity statements and names are used."""
_TIMEOUT_S: Final = 10.0
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class RegisterEntry:
    """A certificate, and what the register says about it."""

    signed: SignedCertificate
    revoked_at: Instant | None = None
    reason: str = ""
    rule: str = ""
    problem: str = ""
    """What validity statements say against it: `revoked`, or `unconfirmed` where none that it needs holds."""
    as_of: Instant | None = None
    """Since when the newest statement holds that this was read from."""


@dataclass(slots=True)
class SignedIn:
    """One principal, by the profile that the console holds for it."""

    held: HeldProfile
    verified: VerificationCache = field(
        default_factory=lambda: VerificationCache(certificates_max=ENTRIES_MAX)
    )
    """Signatures that were checked for the pages before."""
    _client: DomainClient | None = None
    _shown: list[SignedCertificate] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _entries: tuple[Instant, bool, list[RegisterEntry]] | None = None
    _types: tuple[Instant, bool, dict[bytes, VerifiedType]] | None = None
    _book: tuple[Instant, AddressBook] | None = None
    _heard: tuple[Instant, Monitor] | None = None

    @property
    def principal(self) -> Principal:
        """Return who is signed in."""
        return self.held.key.principal

    async def ask(self, endpoint: Endpoint[Asked, _Answer], asked: Asked | None = None) -> _Answer:
        """Make a call to the domain's server, signed by the principal."""
        return await self._alone(lambda client: client.ask(endpoint, asked))

    async def register(self) -> list[EntryAnswer]:
        """Return the register of the domain."""
        return await self._alone(lambda client: list(client.every(endpoints.REGISTER, _WHOLE_PAGES)))

    async def acts(self) -> frozenset[str]:
        """Return what the domain lets the principal do and read at this moment; without a domain, nothing."""
        if self.held.profile.settings.server is None:
            return frozenset()
        answer = await self.ask(endpoints.ACTS, ActsQuestion(_TOPICS))
        return frozenset(answer.acts)

    async def entries(self, acts: frozenset[str]) -> list[RegisterEntry]:
        """Return the register, if the principal may read it; else what the principal holds itself."""
        is_reader, now = READ_REGISTER in acts, system_now()
        if self._entries is None or self._entries[0] < now - _FRESH or self._entries[1] != is_reader:
            self._entries = (now, is_reader, await self._read_entries(is_reader))
        return self._entries[2]

    async def _read_entries(self, is_reader: bool) -> list[RegisterEntry]:
        found: dict[bytes, RegisterEntry] = {}
        if self.held.profile.settings.server is not None:

            def read(client: DomainClient) -> None:
                own = client.every(endpoints.RIGHTS, PageQuestion(limit=_PAGE), principal=self.principal)
                for one in client.every(endpoints.REGISTER, _WHOLE_PAGES) if is_reader else own:
                    signed = certificate_from_bytes(one.certificate)
                    revoked = None if one.revoked_at is None else Instant.parse(one.revoked_at)
                    found[signed.id] = RegisterEntry(signed, revoked, one.reason, one.rule)
                    if len(found) > ENTRIES_MAX:
                        raise Unavailable(
                            "CONSOLE-TOO-MANY", f"the register has more than {ENTRIES_MAX} certificates"
                        )

            await self._alone(read)
        places = (*self.held.profile.settings.credentials, *(self.held.issued if is_reader else ()))
        files = await asyncio.to_thread(_FILES.read, places)
        for signed in files:
            found.setdefault(signed.id, RegisterEntry(signed))
        heard, now = await self._validity(files), system_now()
        return [judged(one, heard, now) for one in found.values()]

    async def _validity(self, certificates: Sequence[SignedCertificate]) -> Monitor:
        """Return what the testers state that the certificates in files name; strangers choose no address."""
        now = system_now()
        if self._heard is None or self._heard[0] < now - _LISTS_FRESH:
            monitor = Monitor() if self._heard is None else self._heard[1]
            for signed in (await ask_testers(certificates, now=now, within_s=BEGIN_S)).statements:
                monitor.receive(signed, now)
            self._heard = (now, monitor)
        self._heard[1].advance(now)
        return self._heard[1]

    async def book(self) -> AddressBook:
        """Return by which names the holder of the profile, and its organisation, know keys."""
        now = system_now()
        if self._book is None or self._book[0] < now - _LISTS_FRESH:
            read = partial(load_book, self.held.places, own=own_folder(), at=now)
            self._book = (now, await asyncio.to_thread(read))
        return self._book[1]

    async def types(self, acts: frozenset[str]) -> dict[bytes, VerifiedType]:
        """Return the newest versions of the types that the principal knows, by their ids.

        Those are the types of its profile, and for readers of the register those of the domain.
        """
        is_reader, now = READ_REGISTER in acts, system_now()
        if self._types is not None and self._types[0] >= now - _FRESH and self._types[1] == is_reader:
            return self._types[2]
        definitions = list(await asyncio.to_thread(self.held.profile.definitions))
        if is_reader:
            page = await self.ask(endpoints.TYPES, TypesQuestion(limit=_PAGE))
            known = {one.id for one in definitions}
            read = [definition_from_bytes(one.definition) for one in page.items]
            definitions += [one for one in read if one.id not in known]
        found = await asyncio.to_thread(_verified, definitions, now)
        self._types = (now, is_reader, found)
        return found

    def forget(self) -> None:
        """Read everything anew for the next page: something has changed."""
        self._entries = self._types = self._heard = self._book = None

    async def _alone(self, work: Callable[[DomainClient], _Answer]) -> _Answer:
        """Use the connection to the domain's server, one call at a time."""
        settings = self.held.profile.settings
        if settings.server is None or settings.domain is None:
            raise Refusal(
                "CONSOLE-NOT-ALLOWED", "your profile names no domain's server, so there is nobody to ask"
            )
        domain, server = read_principal(settings.domain), settings.server

        def job() -> _Answer:
            shown = _FILES.read(settings.credentials)
            if self._client is None or shown != self._shown:
                self.close()
                self._shown = shown
                self._client = DomainClient(
                    server, domain=domain, key=self.held.key, credentials=shown, timeout_s=_TIMEOUT_S
                )
            return work(self._client)

        async with self._turn:
            try:
                return await asyncio.to_thread(job)
            except Unavailable:
                self.close()
                raise

    def close(self) -> None:
        """Close the connection to the domain's server."""
        if self._client is not None:
            self._client.close()
            self._client = None


def judged(entry: RegisterEntry, monitor: Monitor, now: Instant) -> RegisterEntry:
    """Return a certificate with what is stated of it, and since when."""
    problem = monitor.check(entry.signed, now, once=one_time_tests(entry.signed))
    states = [one.statement for by in speakers(entry.signed) for one in monitor.statements(by, now)]
    begun = [
        one.period.not_before
        for one in states
        if isinstance(one, RevocationList | Revalidation)
        and one.period is not None
        and one.period.not_before is not None
        and one.period.not_before <= now
    ]
    word = "" if problem is None else "revoked" if isinstance(problem, CertificateRevoked) else "unconfirmed"
    return replace(entry, problem=word, as_of=max(begun, default=None))


class _CertificateFiles:
    """Certificates in files, each read again only when its file has changed; they hold no secret."""

    def __init__(self) -> None:
        self._read: BoundedMap[Path, tuple[int, int, SignedCertificate]] = BoundedMap(ENTRIES_MAX)

    def read(self, places: Sequence[Path]) -> list[SignedCertificate]:
        found = []
        for place in places:
            for file in sorted(place.glob("*.cert")) if place.is_dir() else [place]:
                if file.suffix != ".cert":
                    continue  # a constitution
                seen = file.stat()
                known = self._read.use(file)
                if known is None or known[:2] != (seen.st_mtime_ns, seen.st_size):
                    known = (seen.st_mtime_ns, seen.st_size, read_certificates([file])[0])
                    self._read.put(file, known)
                found.append(known[2])
        return found


_FILES: Final = _CertificateFiles()


def _verified(definitions: Sequence[SignedDefinition], now: Instant) -> dict[bytes, VerifiedType]:
    found: dict[bytes, VerifiedType] = {}
    ordered = in_order_of_making(definitions)
    for owner, name in dict.fromkeys(
        (one.definition.name.owner, one.definition.name.name) for one in ordered
    ):
        try:
            newest = verified_lineage(ordered, owner=owner, name=name, version=None, at=now)[-1]
        except MaiaError:
            continue  # one that does not verify is no type here
        found[newest.type_id] = newest
    return found
