"""Which certificates in an organisation's folder end soon, and how are its own issued anew?

What it has issued lies in `issued/`, and with whoever uses it: in the folders of its
brokers, of its members and of a gateway's accounts. A renewed one grants the same for as
long as the old one did, from now on, and lies in the same places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from maia.config.input_files import read_certificates
from maia.credentials import (
    AuthorisationCertificate,
    Principal,
    SignedCertificate,
    Subject,
    Validity,
    certificate_to_text,
    issue,
)
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.organisation.draft import write_file
from maia.organisation.grant_file import Grant
from maia.organisation.rights import MEMBER_DAYS, Signing
from maia.policy.endings import DAY, Ending, ending, last_ends

_ELSEWHERE: Final = ("revoked", "log")
"""Folders that hold no certificate in use."""
_ISSUED: Final = "issued"


@dataclass(frozen=True, slots=True)
class Renewed:
    """A certificate that is issued anew, or would be."""

    ending: Ending
    until: Instant

    @property
    def subject(self) -> Subject:
        """Return whose it is."""
        return self.ending.signed.certificate.subject


@dataclass(frozen=True, slots=True)
class Renewal:
    """What is renewed, what others have to renew, and what is to be handed over."""

    renewed: tuple[Renewed, ...]
    others: tuple[Ending, ...]
    """What others issued to us, or rests on a proof of its holder's."""
    grants: tuple[Grant, ...] = field(repr=False, default=())
    """For those who have their certificates elsewhere."""


def ends_in(folder: Path, now: Instant, *, days: int | None = None) -> list[Ending]:
    """Return which certificates in use end soon: those that are warned of, or all within so many days."""
    found = (signed for signed, _ in _kept_in(folder).values())
    if days is None:
        return ending(found, now)
    return [one for one in last_ends(found) if now <= one.at <= now + days * DAY]


def renewable(one: Ending, signing: Signing) -> bool:
    """Return whether the organisation can issue it anew by itself."""
    said = one.signed.certificate
    return (
        isinstance(said, AuthorisationCertificate)
        and isinstance(said.subject, Principal)
        and said.issuer == signing.key.principal
        and said.subject not in signing.revoked_keys
    )


def new_end(one: Ending, now: Instant) -> Instant:
    """Return until when it holds if it is renewed now: for as long as before."""
    life = MEMBER_DAYS * DAY if math.isinf(one.life) else int(one.life)
    return Instant(now - now % SECOND + life)


def renew_in(folder: Path, due: Iterable[Ending], signing: Signing) -> list[SignedCertificate]:
    """Issue certificates anew, wherever the old ones lie."""
    given: dict[bytes, SignedCertificate] = {}
    for one in due:
        said = one.signed.certificate
        period = Validity(Instant(signing.now - signing.now % SECOND), new_end(one, signing.now))
        given[one.signed.id] = issue(
            replace(said, validity=period.with_tests(*said.validity.tests)), signing.key
        )
    put_beside(folder, given)
    return list(given.values())


def put_beside(folder: Path, new: Mapping[bytes, SignedCertificate]) -> None:
    """Put certificates wherever those lie that they are issued for anew, which are named by their ids."""
    kept = _kept_in(folder)
    for before, one in new.items():
        for file in kept[before][1]:
            is_by_id = file.name == file_of(kept[before][0])
            place = file.with_name(file_of(one)) if is_by_id else file
            write_file(place, certificate_to_text(one).encode())


def file_of(signed: SignedCertificate) -> str:
    """Return the name of the file in which a certificate is kept, made of its id and nothing in it."""
    return f"{signed.id.hex()[:24]}.cert"


def is_kept_here(folder: Path, subject: Principal) -> bool:
    """Return whether somebody has a certificate in a folder of its own here, as brokers and members do."""
    return any(
        file.parent.name != _ISSUED
        for signed, files in _kept_in(folder).values()
        if signed.certificate.subject == subject
        for file in files
    )


def _kept_in(folder: Path) -> dict[bytes, tuple[SignedCertificate, list[Path]]]:
    """Return the certificates in use by their ids, each with its files."""
    found: dict[bytes, tuple[SignedCertificate, list[Path]]] = {}
    for file in _files_in(folder):
        with suppress(MaiaError):  # not ours: what is wrong with it is said where it is used
            for signed in read_certificates([file]):
                found.setdefault(signed.id, (signed, []))[1].append(file)
    return found


def _files_in(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.iterdir()):
        if one.is_dir() and one.name not in _ELSEWHERE:
            yield from sorted(one.rglob("*.cert"))
