"""What is in a profile, and which profile does a name mean?

    lab.maia/profile.toml      network, coordinator, brokers, the domain's server
    lab.maia/lab.key           the key, for its owner alone
    lab.maia/certs/*.cert      what the participant can show
    lab.maia/types/*.type      the event types that it knows by name

A profile can also be one file, `lab.toml`, that names the others; paths in it
begin at its own folder. What a profile says is a default: every option of a
command, and every argument of a call, overrides it. Nothing in it is trusted
beyond that: certificates and definitions are verified where they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from maia.config.input_files import kind_of_file, read_text
from maia.config.settings import (
    Address,
    Addresses,
    BadConfig,
    Paths,
    PeerAddresses,
    PlaceWord,
    PrincipalWord,
    Text,
    build,
    from_file,
    settings_of,
)
from maia.errors import BadInput
from maia.private_files import create_private, exposure, make_private_folder
from maia.profile.files import ORGANISATION_FILE, PROFILE_FILE, PROFILE_SUFFIX, UnknownTypeName

if TYPE_CHECKING:
    from maia.credentials import NetworkName, Owner, SignedCertificate, VerifiedConstitution
    from maia.events import Instant
    from maia.types import SignedDefinition, VerifiedType

__all__ = [
    "PROFILE_FILE",
    "PROFILE_SUFFIX",
    "Profile",
    "UnknownTypeName",
    "checked_profile_name",
    "find_profile",
    "read_profile",
    "toml_text",
    "types_named",
    "write_profile",
]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_FOLDERS_MAX: Final = 1024

_Value = TypeVar("_Value")


class ProfileSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a profile as they were written: words and paths, nothing opened yet."""

    key: Path | None = None
    """The signing key of the participant."""
    credentials: Paths = ()
    """Certificates and constitutions: files, and folders of *.cert and *.quorum."""
    types: Paths = ()
    """Event types that can be named: files, and folders of *.type."""
    network: Text | None = None
    coordinator: PrincipalWord | None = None
    """Who owns the network: a key, a .pub file or quorum:…."""
    brokers: PeerAddresses = ()
    """Brokers to connect to, the first one that answers."""
    brokers_of: tuple[PrincipalWord, ...] = ()
    """The organisations whose brokers they have to be; without one, those of every organisation."""
    server: Address | None = None
    """The HTTP interface of the domain's server."""
    domain: PrincipalWord | None = None
    """The key that must answer there."""
    keys: Addresses = ()
    """Key servers of sealed types, beside the addresses in their definitions."""
    wallet: Path | None = None
    """A wallet of `maia login`."""
    identity: Path | None = None
    """The participant's identity statement."""
    providers: tuple[PrincipalWord, ...] = ()
    """The identity providers that it trusts."""
    log: PlaceWord | None = None
    """The event log that tables are read from: a folder, or an address such as `s3://bucket/log`."""


_KNOWN: Final = settings_of(ProfileSettings)


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """One participant: where its key, certificates, types and network are."""

    name: str
    path: Path
    settings: ProfileSettings

    def __repr__(self) -> str:
        """Return its name, and where its folder is."""
        return f"<Profile {self.name}: {self.path}>"

    def key(self) -> Path:
        """Return the file of the signing key."""
        return _needed(self, "key", self.settings.key)

    def principal(self) -> str:
        """Return whose key it is, without opening it."""
        from maia.keystore.key_files import public_half

        return str(public_half(self.key()))

    def brokers(self) -> tuple[str, ...]:
        """Return the brokers that the participant connects to."""
        if not self.settings.brokers:
            raise BadInput(
                "INPUT-PROFILE-INCOMPLETE", f"the profile `{self.path}` names no `brokers` to connect to"
            )
        return self.settings.brokers

    def log(self) -> str:
        """Return the event log that tables are read from."""
        return _needed(self, "log", self.settings.log)

    def network(self) -> NetworkName:
        """Return the network, by its owner and its name."""
        from maia.config.input_files import read_owner
        from maia.credentials import NetworkName

        owner = _needed(self, "coordinator", self.settings.coordinator)
        return NetworkName(read_owner(owner), _needed(self, "network", self.settings.network))

    def certificates(self) -> tuple[SignedCertificate, ...]:
        """Read what the participant can show; nothing is verified yet."""
        from maia.config.input_files import read_certificates

        return tuple(read_certificates(self.settings.credentials))

    def constitutions(self) -> tuple[VerifiedConstitution, ...]:
        """Return the constitutions of quorums beside the certificates, verified."""
        from maia.config.constitutions import read_constitutions

        return read_constitutions(self.settings.credentials)

    def lineage(self, name: str, *, at: Instant) -> tuple[VerifiedType, ...]:
        """Return the newest version of a type that is named, after those it was made from, all verified."""
        return types_named(name, self.type_places(), constitutions=self.constitutions(), at=at)

    def type_words(self) -> dict[str, tuple[Owner, str]]:
        """Return the types that it knows, by words that `lineage` takes."""
        from maia.profile.type_names import words_for

        names = (one.definition.name for one in self.definitions())
        return words_for(
            ((one.owner, one.name) for one in names), folders=[place.parent for place in self.type_places()]
        )

    def type_places(self) -> tuple[Path, ...]:
        """Return where its types are: those of a login lie in its wallet."""
        return (*self.settings.types, *wallet_places(self.settings.wallet))

    def definitions(self) -> tuple[SignedDefinition, ...]:
        """Read every definition that the participant has; nothing is verified yet."""
        from maia.config.input_files import read_definitions
        from maia.config.type_folder import in_order_of_making

        return in_order_of_making(read_definitions(self.type_places()))


def _needed(profile: Profile, name: str, value: _Value | None) -> _Value:
    if value is None:
        raise BadInput("INPUT-PROFILE-INCOMPLETE", f"the profile `{profile.path}` has no `{name}`")
    return value


def wallet_places(wallet: Path | None) -> tuple[Path, ...]:
    """Return the wallet, if there was a login: types are found in it by name."""
    return () if wallet is None or not wallet.is_dir() else (wallet,)


def types_named(
    word: str, places: Iterable[Path], *, constitutions: Sequence[VerifiedConstitution] = (), at: Instant
) -> tuple[VerifiedType, ...]:
    """Return the versions of the type that a word means, verified: its name, NAME@OWNER, or its file."""
    from maia.config.input_files import read_definition, read_definitions
    from maia.config.type_folder import verified_lineage
    from maia.profile.type_names import type_meant

    places = list(places)
    found, version = read_definitions(places), None
    if word.endswith(".type") and Path(word).is_file():
        given = read_definition(Path(word))
        found, name = [*found, given], given.definition.name
        owner, full, version = name.owner, name.name, name.version
    else:
        folders = [place.parent for place in places]
        owned = ((one.definition.name.owner, one.definition.name.name) for one in found)
        owner, full = type_meant(word, owned, folders=folders)
    return verified_lineage(
        found, owner=owner, name=full, version=version, at=at, constitutions=constitutions
    )


# ------------------------------------------------------------ reading and writing


def read_profile(path: Path) -> Profile:
    """Read a profile: a folder with a `profile.toml` in it, or a file that is one."""
    file = path / PROFILE_FILE if path.is_dir() else path
    if not file.exists():
        raise BadInput(
            "INPUT-PROFILE",
            f"`{path}` is no profile: it has no `{PROFILE_FILE}`"
            if path.is_dir()
            else f"there is no profile `{path}`",
        )
    other = kind_of_file(read_text(file))
    if other is not None:
        raise BadInput("INPUT-PROFILE", f"`{path}` is {other}; a profile was expected")
    if path.is_dir():
        exposed = exposure(path)
        if exposed is not None:
            raise BadInput("INPUT-PROFILE", f"the profile cannot be used: {exposed}")
    settings = build(ProfileSettings, _KNOWN, from_file(file, _KNOWN))
    if (settings.network is None) != (settings.coordinator is None):
        raise BadConfig(f"`{file}`: `network` and `coordinator` go together: its name and its owner")
    return Profile((path if path.is_dir() else file).stem, path, settings)


def checked_profile_name(name: str) -> str:
    """Return a name of a profile, a member or an organisation, which is also the name of a file."""
    if not _NAME.fullmatch(name):
        shown = name[:64].encode("unicode_escape").decode()
        raise BadInput(
            "INPUT-PROFILE-NAME", f"`{shown}` is no name: letters, digits, `-` and `_`, at most 63 of them"
        )
    return name


def write_profile(folder: Path, settings: Mapping[str, object]) -> None:
    """Write the file of a profile into its folder, which is made for its owner alone."""
    for name in settings:
        assert name in _KNOWN, name  # noqa: S101 - a mistake of a caller, not of a user
    make_private_folder(folder)
    with create_private(folder / PROFILE_FILE) as file:
        file.write(toml_text(settings).encode())


def toml_text(settings: Mapping[str, object]) -> str:
    """Return settings as TOML: text, numbers, truth values, lists of text, and tables of them."""
    lines: list[str] = []
    tables: list[str] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            tables += [f"\n[{name}]", toml_text(value).rstrip("\n")]
        elif value is not None:
            lines.append(f"{name} = {_toml_value(value)}")
    return "\n".join([*lines, *tables]) + "\n"


def _toml_value(value: object) -> str:
    import json

    match value:
        case bool() | int() | str():
            # A JSON text is a TOML text, but for one character that JSON may leave as it is.
            return json.dumps(value).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(_toml_value(one) for one in value)}]"
        case _:
            return json.dumps(str(value)).replace("\x7f", "\\u007f")


# ------------------------------------------------------------ by name


def find_profile(word: str, *, at: Path | None = None) -> Profile:
    """Return the profile that is meant: a path, or a name here, in this organisation or in one below."""
    given = Path(word).expanduser()
    if given.exists():
        return read_profile(given)
    here = Path.cwd() if at is None else at
    names = [given.name, f"{given.name}{PROFILE_SUFFIX}"]
    if given.parent != Path():
        beside = given.with_name(f"{given.name}{PROFILE_SUFFIX}")
        if beside.exists():
            return read_profile(beside)
        raise _no_profile(word, [given.parent])
    places = _places(here)
    found = [place / name for place in places for name in names if (place / name / PROFILE_FILE).is_file()]
    if len({one.resolve() for one in found}) > 1:
        several = ", ".join(f"`{one}`" for one in found)
        raise BadInput("INPUT-PROFILE", f"`{word[:64]}` means several profiles: {several}; give its path")
    if not found:
        raise _no_profile(word, places)
    return read_profile(found[0])


def _places(here: Path) -> list[Path]:
    """Return where profiles are looked for by name: here, in the organisation around, in those below."""
    around = next((one for one in (here, *here.parents) if (one / ORGANISATION_FILE).is_file()), None)
    below = [] if around is not None else [one.parent for one in sorted(here.glob(f"*/{ORGANISATION_FILE}"))]
    return list(dict.fromkeys([here, *([] if around is None else [around]), *below[:_FOLDERS_MAX]]))


def _no_profile(word: str, places: Sequence[Path]) -> BadInput:
    from difflib import get_close_matches

    known = sorted(
        {one.parent.stem for place in places for one in place.glob(f"*{PROFILE_SUFFIX}/{PROFILE_FILE}")}
    )
    shown = word[:64].encode("unicode_escape").decode()
    near = get_close_matches(Path(word).stem[:64], known, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean `{near[0]}`?"
    elif known:
        hint = f"there are {', '.join(known[:20])}"
    else:
        hint = "a path names one that is elsewhere, `maia member add` makes one"
    return BadInput("INPUT-PROFILE", f"there is no profile `{shown}`; {hint}")
