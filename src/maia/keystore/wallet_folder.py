"""Where do a principal's certificates lie between a login and their use?

In a folder that only its owner can use: `*.cert` for brokers, `*.appointment`
for domains, `*.statement` for verifiers, `*.type` for readers, and `wallet.json`, which says from
which domain they came and when to ask again. Brokers' and clients' settings
may name the folder as it is. Each file appears whole or not at all; what a
login no longer gives is removed, and what its owner put there stays.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from maia.api.responses import WalletAnswer
from maia.config.input_files import BadFile
from maia.credentials import (
    Principal,
    SignedCertificate,
    certificate_from_bytes,
    certificate_from_text,
    certificate_to_text,
    principal_from_text,
)
from maia.credentials.appointments import (
    AppointmentKind,
    SignedAppointment,
    appointment_from_bytes,
    appointment_from_text,
    appointment_to_text,
)
from maia.credentials.statements import SignedStatement, statement_from_bytes, statement_to_bytes
from maia.errors import BadInput, BrokenCredential, MaiaError, Unavailable
from maia.events import Instant
from maia.private_files import make_private_folder, replace_file
from maia.types import definition_from_bytes, definition_to_text

NOTE: Final = "wallet.json"
FILES_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 4 << 20
_OURS: Final = re.compile(r"[0-9a-f]{64}\.(cert|appointment|statement|type)")
_PUSHED: Final = "pushed-"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_Read = TypeVar("_Read")


class _WalletNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `wallet.json` says."""

    version: int
    principal: str
    domain: str
    address: str
    fetched_at: str
    renew_before: str | None
    files: list[str]


@dataclass(frozen=True, slots=True)
class KeptWallet:
    """What lies in a wallet, as it was read; nothing is verified."""

    certificates: tuple[SignedCertificate, ...] = ()
    appointments: tuple[SignedAppointment, ...] = ()
    statements: tuple[SignedStatement, ...] = field(default=(), repr=False)
    principal: Principal | None = None
    domain: Principal | None = None
    address: str | None = None
    renew_before: Instant | None = None
    fetched_at: Instant | None = None


class WalletFolder:
    """A folder for one principal's certificates."""

    def __init__(self, folder: Path) -> None:
        """Use a folder; it is made when something is kept."""
        self.folder = folder

    def read(self) -> KeptWallet:
        """Return what lies there; a folder that is not there is empty."""
        if not self.folder.exists():
            return KeptWallet()
        self._check()
        note = self._note()
        return KeptWallet(
            tuple(self._each("cert", lambda data: certificate_from_text(data.decode("utf-8")))),
            tuple(self._each("appointment", lambda data: appointment_from_text(data.decode("utf-8")))),
            tuple(self._each("statement", statement_from_bytes)),
            None if note is None else principal_from_text(note.principal),
            None if note is None else principal_from_text(note.domain),
            None if note is None else note.address,
            None if note is None or note.renew_before is None else Instant.parse(note.renew_before),
            None if note is None else Instant.parse(note.fetched_at),
        )

    def keep(self, wallet: WalletAnswer, *, domain: Principal, address: str, now: Instant) -> int:
        """Put what a login gave in the place of what the one before gave; return how many files there are."""
        files: dict[str, bytes] = {}
        for data in {*wallet.chains, *(right.certificate for right in wallet.rights)}:
            signed = certificate_from_bytes(data)
            files[f"{signed.id.hex()}.cert"] = certificate_to_text(signed).encode()
        for membership in wallet.memberships:
            shown = appointment_from_bytes(membership.certificate.certificate)
            files[f"{shown.id.hex()}.appointment"] = appointment_to_text(shown).encode()
        for data in wallet.statements:
            statement = statement_from_bytes(data)
            files[f"{statement.id.hex()}.statement"] = statement_to_bytes(statement)
        for data in wallet.types:
            definition = definition_from_bytes(data)
            files[f"{definition.id.hex()}.type"] = definition_to_text(definition).encode()
        note = _WalletNote(
            1, wallet.principal, str(domain), address, str(now), wallet.renew_before, sorted(files)
        )
        self._replace(files, note, domain)
        return len(files)

    def add(self, appointments: Iterable[SignedAppointment]) -> int:
        """Keep appointments that were given by hand, for the logins to come; return how many were new."""
        with self._changing():
            named = {f"given-{one.id.hex()}.appointment": one for one in appointments}
            new = {name: one for name, one in named.items() if not (self.folder / name).exists()}
            for name, one in new.items():
                replace_file(self.folder / name, appointment_to_text(one).encode())
        return len(new)

    def empty(self, *, domain: Principal) -> int:
        """Remove what the last login at a domain gave: the domain has ended the session."""
        with self._changing():
            note = self._note()
            if note is None or note.domain != str(domain):
                return 0
            removed = self._remove(note.files)
            replace_file(
                self.folder / NOTE,
                msgspec.json.encode(msgspec.structs.replace(note, files=[], renew_before=None)),
            )
        return removed

    # ------------------------------------------------------------ inside

    def _replace(self, files: Mapping[str, bytes], note: _WalletNote, domain: Principal) -> None:
        with self._changing():
            before = self._note()
            if before is not None and before.principal != note.principal:
                raise BadInput("INPUT-WALLET", f"`{self.folder}` is the wallet of `{before.principal[:80]}`")
            if before is not None and before.domain != str(domain):
                raise BadInput(
                    "INPUT-WALLET",
                    f"`{self.folder}` holds what `{before.domain[:80]}` gave; take another folder",
                )
            for name, data in files.items():
                replace_file(self.folder / name, data)
            replace_file(self.folder / NOTE, msgspec.json.encode(note))
            self._remove(set(before.files if before is not None else ()) - files.keys())

    def _remove(self, names: Iterable[str]) -> int:
        gone = 0
        for name in names:
            if _OURS.fullmatch(name):
                with suppress(FileNotFoundError):
                    (self.folder / name).unlink()
                    gone += 1
        return gone

    def _each(self, ending: str, read: Callable[[bytes], _Read]) -> Iterator[_Read]:
        files = sorted(self.folder.glob(f"*.{ending}"))
        if len(files) > FILES_MAX:
            raise BadInput(
                "INPUT-WALLET", f"`{self.folder}` has more than the {FILES_MAX} files that are read"
            )
        for file in files:
            try:
                yield read(_contents(file))
            except FileNotFoundError:
                continue  # a login has just replaced it
            except UnicodeDecodeError:
                raise BadInput("INPUT-WALLET", f"`{file}` is not a text file") from None
            except MaiaError as problem:
                raise BadInput("INPUT-WALLET", f"`{file}`: {problem.message} [{problem.code}]") from problem
            except OSError as problem:
                raise Unavailable(
                    "UNAVAILABLE-WALLET", f"`{file}` cannot be read: {problem.strerror}"
                ) from problem

    def _note(self) -> _WalletNote | None:
        try:
            return msgspec.json.decode(_contents(self.folder / NOTE), type=_WalletNote)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise Unavailable(
                "UNAVAILABLE-WALLET", f"`{self.folder / NOTE}` cannot be read: {problem.strerror}"
            ) from problem
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise BadInput("INPUT-WALLET", f"`{self.folder / NOTE}` was not written by a login") from None

    def _check(self) -> None:
        try:
            found = self.folder.stat()
        except OSError as problem:
            raise Unavailable(
                "UNAVAILABLE-WALLET", f"`{self.folder}` cannot be used: {problem.strerror}"
            ) from problem
        if not stat.S_ISDIR(found.st_mode):
            raise BadFile(f"`{self.folder}` is not a folder")
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
            raise BrokenCredential(
                "CREDENTIAL-WALLET-EXPOSED",
                f"`{self.folder}` can be used by others; make it 0700 and your own",
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the folder alone: two logins at once would remove each other's files."""
        try:
            make_private_folder(self.folder)
            self._check()
            lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
                os.fsync(lock)
            finally:
                os.close(lock)
        except OSError as problem:
            raise Unavailable(
                "UNAVAILABLE-WALLET", f"`{self.folder}` cannot be written: {problem.strerror}"
            ) from problem


def keep_pushed(folder: Path, certificates: Iterable[SignedCertificate], now: Instant) -> int:
    """Keep certificates that an issuer has pushed in a folder of certificates; return how many were new.

    Those that were pushed before and have expired go.
    """
    try:
        make_private_folder(folder)
        new = 0
        for one in certificates:
            name = f"{one.id.hex()}.cert"
            if not (folder / name).exists() and not (folder / f"{_PUSHED}{name}").exists():
                replace_file(folder / f"{_PUSHED}{name}", certificate_to_text(one).encode())
                new += 1
        for file in folder.glob(f"{_PUSHED}*.cert"):
            with suppress(MaiaError, FileNotFoundError, UnicodeDecodeError):
                end = certificate_from_text(_contents(file).decode()).certificate.validity.not_after
                if end is not None and end < now:
                    file.unlink()
    except OSError as problem:
        raise Unavailable(
            "UNAVAILABLE-WALLET", f"`{folder}` cannot be written: {problem.strerror}"
        ) from problem
    return new


def to_show(kept: KeptWallet, *, domain: Principal) -> tuple[SignedAppointment, ...]:
    """Return what is shown at a login; memberships that the domain gave itself it knows already."""
    return tuple(
        one
        for one in kept.appointments
        if one.certificate.kind is AppointmentKind.APPOINTMENT or one.certificate.issuer != domain
    )


def _contents(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise BadInput("INPUT-WALLET", f"`{path}` is larger than the {FILE_BYTES_MAX} bytes that are read")
    return data
