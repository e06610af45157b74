"""Whose profiles does a console hold, and what of this machine does it read for them?

    listen = "127.0.0.1:7700"
    profiles = ["lab.maia", "auditor.maia"]
    brokers = ["broker-data"]          # data folders of brokers on this machine
    issued = ["issued"]                # certificates that no register has
    ledgers = ["broker-ledger"]

For an organisation or a profile, all of it is known without a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import msgspec

from maia.client.api.connection import signing_key
from maia.config.settings import Address, BadConfig, Paths, build, from_file, settings_of
from maia.credentials import Principal, SigningKey
from maia.errors import BadInput
from maia.net.addresses import host_and_port
from maia.organisation import Organisation
from maia.profile import Profile, read_profile
from maia.profile.address_book import own_places
from maia.profile.files import ORGANISATION_FILE

_LISTEN: Final = "127.0.0.1:7700"


class _ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings as they are written."""

    profiles: Paths
    """Whose holders can sign in: folders of profiles."""
    listen: Address = _LISTEN
    public: Address | None = None
    """How browsers call the console, where that is not how it listens."""
    brokers: Paths = ()
    """Data folders of brokers on this machine, in which they say where they answer."""
    issued: Paths = ()
    """Certificates beside those of the register, for those who may read the register."""
    ledgers: Paths = ()
    """Ledgers of brokers on this machine, for those who may read the audit."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None


_KNOWN: Final = settings_of(_ConsoleSettings)


@dataclass(frozen=True, slots=True)
class HeldProfile:
    """A profile that the console holds, with its key."""

    profile: Profile
    key: SigningKey = field(repr=False)
    brokers: tuple[Path, ...] = ()
    issued: tuple[Path, ...] = ()
    ledgers: tuple[Path, ...] = ()
    places: tuple[Path, ...] = ()
    """Profiles and organisations whose names for keys are shown."""

    @property
    def door(self) -> Path:
        """Return the file in which the console says where it answers, beside the key."""
        return self.profile.key().with_suffix(".console")


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """Where a console listens, and for whom."""

    listen: str
    held: Mapping[Principal, HeldProfile]
    tls: tuple[Path, Path] | None = None
    public: str | None = None
    log_format: str = "auto"
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Refuse to serve in clear what other machines could reach."""
        host, _ = host_and_port(self.listen)
        if self.tls is None and not _is_loopback(host):
            raise BadInput(
                "INPUT-CONSOLE",
                f"`{self.listen}` can be reached from other machines: give `tls_certificate` and `tls_key`, "
                "or listen on 127.0.0.1",
            )
        if not self.held:
            raise BadInput("INPUT-CONSOLE", "a console is for the holders of profiles, and there is none")


def config_of_file(path: Path, *, listen: str | None = None) -> ConsoleConfig:
    """Read a console's TOML file."""
    found = build(_ConsoleSettings, _KNOWN, from_file(path, _KNOWN))
    if (found.tls_certificate is None) != (found.tls_key is None):
        raise BadConfig(f"`{path}`: `tls_certificate` and `tls_key` go together")
    tls = (
        None
        if found.tls_certificate is None or found.tls_key is None
        else (found.tls_certificate, found.tls_key)
    )
    profiles = [read_profile(one) for one in found.profiles]
    held = [
        HeldProfile(one, signing_key(one), found.brokers, found.issued, found.ledgers) for one in profiles
    ]
    return ConsoleConfig(listen or found.listen, _by_key(held), tls, found.public)


def config_of_profile(profile: Profile, *, listen: str | None = None) -> ConsoleConfig:
    """Return a console for the holder of one profile; beside its organisation, with what lies there."""
    folder = profile.path.resolve().parent
    if (folder / ORGANISATION_FILE).is_file():
        around = Organisation(folder)
        return ConsoleConfig(listen or _LISTEN, _by_key([_held_in(around, profile)]))
    return ConsoleConfig(listen or _LISTEN, _by_key([held_by(profile)]))


def config_of_organisation(ours: Organisation, *, listen: str | None = None) -> ConsoleConfig:
    """Return a console for an organisation's own key and for its members."""
    held = [_held_in(ours, one) for one in (ours.profile, *ours.members())]
    return ConsoleConfig(listen or _LISTEN, _by_key(held))


def held_by(profile: Profile) -> HeldProfile:
    """Open the key of a profile."""
    return HeldProfile(profile, signing_key(profile))


def _held_in(ours: Organisation, profile: Profile) -> HeldProfile:
    folder = ours.folder
    ledger = folder / "ledger"
    return HeldProfile(
        profile,
        signing_key(profile),
        (folder / "broker-data",),
        (folder / "issued", folder / "broker-certs", *(one.path / "certs" for one in ours.members())),
        (ledger,) if ledger.is_dir() else (),
    )


def _by_key(held: list[HeldProfile]) -> dict[Principal, HeldProfile]:
    """Return profiles by their keys, each with the places of names that all of them have."""
    paths = [one.profile.path.resolve() for one in held]
    around = [one if (one / ORGANISATION_FILE).is_file() else one.parent for one in paths]
    found = (own_places(path, here) for path, here in zip(paths, around, strict=True))
    places = tuple(dict.fromkeys(one for some in found for one in some))
    return {one.key.principal: replace(one, places=places) for one in held}


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
