"""What is in an organisation's folder, and how does it change?

    hospital/organisation.toml     network, addresses, brokers to join
    hospital/hospital.key, .pub    the organisation's key: it owns its types, and its server runs with it
    hospital/types/*.type          event types, its own and those that it was granted
    hospital/certs/*.cert          what others granted to the organisation
    hospital/broker.key, broker-certs/, broker.toml, domain.toml    its servers (`server_settings.py`)
    hospital/issued/*.cert         what it granted to others; its server's register follows this folder
    hospital/revoked/*.cert        what it granted once and `maia revoke` has ended
    hospital/revoked/*.pub         keys of which `maia revoke` has ended all: they are given nothing any more
    hospital/revoked/*.maia/       profiles of members whose key was revoked, and who have a new one
    hospital/lab.maia/             the profile of a member

Commands and programs change an organisation through this class. A broker gets
the rights that the members behind it need, in the moment in which they do.
"""

from __future__ import annotations

import errno
import os
import random
import re
import socket
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack
from uuid import uuid4

import msgspec

from maia.clock import system_now
from maia.config.input_files import (
    BadFile,
    key_file_name,
    read_certificates,
    read_definition,
    read_definitions,
    read_owner,
    read_principal,
    read_text,
)
from maia.config.settings import (
    Address,
    Addresses,
    PeerAddresses,
    PlaceWord,
    Positive,
    PrincipalWord,
    Text,
    build,
    checked_address,
    from_file,
    generated_beside,
    settings_of,
)
from maia.config.type_folder import in_order_of_making, verified_lineage
from maia.credentials import (
    FIRST_VERSION,
    Action,
    AuthorisationCertificate,
    Authority,
    NetworkName,
    Owner,
    Principal,
    SignedCertificate,
    TypeName,
    TypePattern,
    certificate_to_text,
)
from maia.credentials.brokers import AS_BROKER
from maia.credentials.names import NamePattern
from maia.credentials.x509_names import VerifiedX509Subject
from maia.errors import BadInput, MaiaError, Refusal, Unavailable
from maia.events import SECOND, Attribute, BadAttribute, Instant, Kind, attribute_uid
from maia.keystore.key_files import (
    WrongPassphrase,
    create_key_file,
    load_signing_key,
    new_signing_key,
    process_key,
    public_half,
)
from maia.net.addresses import host_and_port, refuse_taken
from maia.organisation.compared_keys import KeyNotCompared, in_groups, is_same_key
from maia.organisation.draft import FolderDraft, write_file
from maia.organisation.grant_file import Grant, read_grant
from maia.organisation.joining import Joined, ended_by_leaving, examine_file, try_settings, would_leave
from maia.organisation.losses import Loss, Losses, is_invitation, is_membership, may_pass_on, passed_on
from maia.organisation.offer import Offer, chain_certificates
from maia.organisation.renewal import (
    Renewal,
    Renewed,
    ends_in,
    file_of,
    is_kept_here,
    new_end,
    put_beside,
    renew_in,
    renewable,
)
from maia.organisation.rights import (
    SERVER_DAYS,
    Right,
    Signing,
    Terms,
    check_held,
    end_of,
    let_broker,
    over_network,
    reaches_network,
    read_right,
    sealed_apart,
)
from maia.organisation.server_settings import separate_settings, write_settings
from maia.organisation.standing import ask_standing
from maia.organisation.versions import Holder, InUse, holders_of, in_use, newer_from, widened
from maia.private_files import exposure, make_private_folder
from maia.profile.address_book import INTRODUCED, KNOWN, introduction
from maia.profile.brokers_now import brokers_now
from maia.profile.files import ORGANISATION_FILE, PROFILE_FILE, PROFILE_SUFFIX
from maia.profile.profile import (
    Profile,
    ProfileSettings,
    checked_profile_name,
    read_profile,
    toml_text,
    types_named,
    write_profile,
)
from maia.types import (
    Change,
    Sealing,
    SealingLevel,
    SignedDefinition,
    TypeDefinition,
    VerifiedType,
    definition_to_bytes,
    definition_to_text,
    install_credentials,
    next_version,
    sign_definition,
)

if TYPE_CHECKING:
    from maia.api.client import DomainClient
    from maia.api.responses import RevokedAnswer
    from maia.credentials import SigningKey
    from maia.policy.endings import Ending

__all__ = ["Organisation", "find_organisation"]

_DAY: Final = 86_400 * SECOND
_JOIN_MAX: Final = 16
"""How many addresses a broker joins through; those of partners that have moved drop out last."""
_ROLL_S: Final = 10
"""How soon recorded events are in tables."""
_PASSPHRASE: Final = "MAIA_PASSPHRASE"  # noqa: S105 - the name of a variable, not a secret
_REVOKED: Final = "revoked"
_FIRST: Final = "broker"
"""What an organisation's first broker is called."""
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PORTS: Final = range(15_000, 32_000)
"""Below those that systems give to outgoing connections, which could take one before its server starts."""
_PORTS_TRIED: Final = 1_000


class _OrganisationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An organisation's settings as they are written."""

    name: Text
    network: Text
    coordinator: PrincipalWord
    broker: Address
    """Where others dial its broker."""
    listen: Address | None = None
    """Where its broker listens, if that is elsewhere."""
    keys: Address
    """Where its domain's server runs the keys of its sealed types."""
    server: Address
    """Where its domain's server answers."""
    join: Addresses = ()
    """Brokers of other organisations, through which its broker joins the network."""
    partners: PeerAddresses = ()
    """Through whom it joined, each KEY@HOST:PORT: their domains' servers say where their brokers are now."""
    hear: tuple[PrincipalWord, ...] = ()
    """Organisations whose revocations count here."""
    processes: Positive = 1
    """How many processes its broker is; to them it passes its rights on."""
    brokers: tuple[Text, ...] = ()
    """The brokers that were added to the first one, as NAME@HOST:PORT."""


_KNOWN: Final = settings_of(_OrganisationSettings)


def find_organisation(word: str | Path | None = None, *, at: Path | None = None) -> Organisation:
    """Return the organisation that is meant: a folder, the one around here, or the only one below."""
    if word is not None:
        return Organisation(word)
    here = Path.cwd() if at is None else at
    around = next((one for one in (here, *here.parents) if (one / ORGANISATION_FILE).is_file()), None)
    if around is not None:
        return Organisation(around)
    below = [one.parent for one in sorted(here.glob(f"*/{ORGANISATION_FILE}"))]
    if len(below) > 1:
        names = ", ".join(one.name for one in below[:20])
        raise BadInput(
            "INPUT-ORGANISATION", f"there are several organisations here ({names}): say which with `--org`"
        )
    if not below:
        raise BadInput(
            "INPUT-ORGANISATION",
            "there is no organisation here: `--org FOLDER` names one, `maia org new NAME` makes one",
        )
    return Organisation(below[0])


@dataclass(frozen=True, slots=True)
class AddedBroker:
    """A broker that an organisation has made beside its first one."""

    principal: Principal
    listen: str
    settings: Path


class Organisation:
    """An organisation by its folder."""

    def __init__(self, folder: str | Path) -> None:
        """Open the organisation in a folder."""
        self.folder = Path(folder)
        file = self.folder / ORGANISATION_FILE
        if not file.is_file():
            raise BadInput(
                "INPUT-ORGANISATION", f"`{self.folder}` is no organisation: it has no `{ORGANISATION_FILE}`"
            )
        exposed = exposure(self.folder)
        if exposed is not None:
            raise BadInput("INPUT-ORGANISATION", f"the organisation cannot be used: {exposed}")
        self._settings = build(_OrganisationSettings, _KNOWN, from_file(file, _KNOWN))
        checked_profile_name(self._settings.name)
        files = [self.folder / one for one in ("broker.toml", "domain.toml")]
        if any(one.exists() and not generated_beside(one).exists() for one in files):
            separate_settings(self.folder, self._server_settings(dict(self.type_files())))

    def __repr__(self) -> str:
        """Return its name, and where its folder is."""
        return f"<Organisation {self._settings.name}: {self.folder}>"

    @classmethod
    def create(cls, folder: str | Path, *, host: str = "127.0.0.1", processes: int = 1) -> Organisation:
        """Make an organisation with a key of its own, and a network that it owns, in a new folder.

        Its broker is so many processes, which share its work by type.
        """
        path = Path(folder)
        name = checked_profile_name(path.name)
        if path.exists():
            raise BadInput(
                "INPUT-ORGANISATION", f"`{path}` is already there; an organisation gets a new folder"
            )
        make_private_folder(path)
        for inner in ("types", "certs", "issued", "broker-certs", "server-certs"):
            make_private_folder(path / inner)
        for key_name in (name, "broker"):
            _new_key(path / f"{key_name}.key")
        broker, keys, server = _free_addresses(
            host, 3, beside=processes if processes > 1 else 0, taken=_remembered(path.parent)
        )
        settings = {
            "name": name, "network": name, "coordinator": f"{name}.pub",
            "broker": broker, "keys": keys, "server": server, "processes": processes,
        }  # fmt: skip
        _write(path / ORGANISATION_FILE, toml_text(settings))
        made = cls(path)
        made.make_process_keys()
        made.prepare_servers()
        return made

    # -------------------------------------------------------- what there is

    @property
    def name(self) -> str:
        """Return the organisation's own name for itself."""
        return self._settings.name

    @property
    def principal(self) -> Principal:
        """Return the organisation's key."""
        return public_half(self.folder / f"{self.name}.key")

    @property
    def network(self) -> NetworkName:
        """Return the network that its broker is a part of."""
        return NetworkName(read_owner(self._settings.coordinator), self._settings.network)

    @property
    def addresses(self) -> dict[str, str]:
        """Return where its broker, the keys of its types and its domain's server are."""
        return {one: getattr(self._settings, one) for one in ("broker", "keys", "server")}

    @property
    def profile(self) -> Profile:
        """Return what its own key needs, as a profile; the domain's key needs no certificate."""
        settings = ProfileSettings(
            key=self.folder / f"{self.name}.key",
            credentials=(self.folder / "certs",),
            types=(self.folder / "types",),
            network=self.network.name,
            coordinator=PrincipalWord(str(self.network.owner)),
            brokers=(self._settings.broker,),
            brokers_of=(PrincipalWord(str(self.principal)),),
            server=self._settings.server,
            domain=PrincipalWord(str(self.principal)),
            log=PlaceWord(self.folder / "log"),
        )
        return Profile(self.name, self.folder, settings)

    @property
    def joined_through(self) -> tuple[str, ...]:
        """Return the brokers of other organisations through which its broker joins the network."""
        return self._settings.join

    def members(self) -> list[Profile]:
        """Return the profiles of the members: none that was put aside, and none whose key was revoked."""
        ended = self.revoked_keys()
        return [
            one for one in self._profiles()
            if one.key().stem == one.name and public_half(one.key()) not in ended
        ]  # fmt: skip

    def _profiles(self) -> list[Profile]:
        return [
            read_profile(one.parent) for one in sorted(self.folder.glob(f"*{PROFILE_SUFFIX}/{PROFILE_FILE}"))
        ]

    def revoked_keys(self) -> frozenset[Principal]:
        """Return the keys that are given nothing any more."""
        return frozenset(read_principal(str(one)) for one in (self.folder / _REVOKED).glob("*.pub"))

    def use_again(self, key: Principal) -> None:
        """Let a key be given rights again that was revoked."""
        (self.folder / _REVOKED / key_file_name(key)).unlink(missing_ok=True)

    def definitions(self) -> list[SignedDefinition]:
        """Return the definitions of its types and of those that it was granted; nothing is verified yet."""
        return read_definitions([self.folder / "types"])

    def held(self) -> list[SignedCertificate]:
        """Return what others granted to the organisation, with the certificates that lead to it."""
        return read_certificates([self.folder / "certs"])

    def issued(self) -> list[SignedCertificate]:
        """Return what the organisation has granted, and what is not over; some of it may be revoked."""
        found, now = read_certificates([self.folder / "issued"]), system_now()
        return [one for one in found if one.certificate.validity.contains(now)]

    def issued_to(self, principal: Principal | str) -> list[SignedCertificate]:
        """Return what it has granted to one principal, by its key."""
        return [one for one in self.issued() if str(one.certificate.subject) == str(principal)]

    def rests_on(self, signed: SignedCertificate) -> list[SignedCertificate]:
        """Return what others granted us to the type of a right that we gave, which counts as far as that."""
        right = signed.certificate
        if not isinstance(right, AuthorisationCertificate) or is_membership(signed):
            return []
        given = [one for one in self.held() if one.certificate.subject == self.principal != right.subject]
        return [
            one for one in given
            if isinstance(one.certificate, AuthorisationCertificate)
            and one.certificate.authority.resources == right.authority.resources
            and right.authority.actions <= one.certificate.authority.actions
        ]  # fmt: skip

    def revoked_now(self) -> frozenset[bytes]:
        """Return the ids of our rights and grants that were revoked, as far as issuers can be asked."""
        servers = {self.principal: self._settings.server}
        return ask_standing([*self.held(), *self.issued()], now=system_now(), servers=servers).revoked

    def type_files(self) -> list[tuple[Path, SignedDefinition]]:
        """Return the files of its types, every version after those that it was made from."""
        found = [(one, read_definitions([one])[0]) for one in (self.folder / "types").glob("*.type")]
        files = {signed.id: file for file, signed in found}
        return [(files[one.id], one) for one in in_order_of_making([signed for _, signed in found])]

    def event_type(self, name: str) -> VerifiedType:
        """Return a type by its name, verified."""
        return self._lineage(name)[-1]

    # -------------------------------------------------------- types

    def define(
        self,
        name: str,
        *attributes: str,
        sealed: bool = False,
        level: str = "attribute",
        signed: bool = True,
        **kinds: str,
    ) -> SignedDefinition:
        """Define an event type: `define("LabResult", patient="string", value="int", sealed=True)`.

        Attributes may also be written as `"patient:string"`. The events of a sealed type travel as
        ciphertext, each attribute under keys of its own unless the `level` is `event`. Those of
        any other type travel signed, unless `signed` is off.
        """
        shape = tuple(
            [_attribute(*words.partition(":")[::2]) for words in attributes]
            + [_attribute(attribute, kind) for attribute, kind in kinds.items()]
        )
        if not shape:
            raise BadAttribute(f"`{name[:64]}` has no attributes: say `name:kind`, as in `patient:string`")
        return self.define_shape(name, shape, sealed=sealed, level=level, signed=signed and not sealed)

    def define_shape(
        self,
        name: str,
        shape: tuple[Attribute, ...],
        *,
        sealed: bool = False,
        level: str = "attribute",
        signed: bool = False,
    ) -> SignedDefinition:
        """Define an event type, or a tree of topics, whose attributes are known."""
        sealing = None
        if sealed:
            sealing = Sealing(SealingLevel(level), self.principal, (self._settings.keys,))
        type_name = TypeName(self.principal, name, FIRST_VERSION)
        key = self._key()
        written = TypeDefinition(type_name, None, shape, self.installing(), sealing, signed=signed)
        made = sign_definition(written, key)
        self.keep_definition(made, is_new=True)
        if signed:
            self._let_broker(type_name, Action.PUBLISH, self._signing())  # without it, it signs nothing
        return made

    def change(
        self,
        old: TypeDefinition,
        changes: Sequence[Change],
        *,
        signed: bool = False,
        for_members: bool = False,
    ) -> SignedDefinition:
        """Make the next version of a type of the organisation.

        Members here have it at once, and partners' servers take it in. With `for_members`, members whose
        rights list attributes get the new ones, too.
        """
        new = next_version(
            old, changes, version=uuid4(), credentials=self.installing(), sealing=old.sealing,
            extends=old.extends, signed=signed,
        )  # fmt: skip
        made = sign_definition(new, self._key())
        if for_members:
            self._widen_for_members(old, new)
        self.keep_definition(made)
        if new.signed:
            self._let_broker(new.name, Action.PUBLISH, self._signing())
        with suppress(Unavailable):  # a server that does not run reads it when it starts
            self._register(made)
        return made

    def _widen_for_members(self, old: TypeDefinition, new: TypeDefinition) -> None:
        """Issue members' rights that list attributes anew, with those that a version adds."""
        signing, members = self._signing(), {one.principal() for one in self.members()}
        given = {
            one.signed.id: widened(one.signed, new, one.hidden, signing.key)
            for one in holders_of(self.issued(), old, new)
            if one.hidden and str(one.subject) in members
        }
        put_beside(self.folder, given)

    def holders(self, new: TypeDefinition) -> list[Holder]:
        """Return whom we have given rights to a type, and what the step to a version means for each."""
        earlier = [
            one.definition for one in self.definitions()
            if (one.definition.name.owner, one.definition.name.name) == (new.name.owner, new.name.name)
            and one.definition.name.version == new.previous
        ]  # fmt: skip
        return holders_of(self.issued(), earlier[0] if earlier else None, new)

    def versions_in_use(self, name: TypeName) -> tuple[list[InUse], list[str]]:
        """Return who uses which version of a type at our brokers now, and which of these did not answer."""
        folders = ["broker-data", *(f"{one}-data" for one, _ in self._added())]
        return in_use([self.folder / one for one in folders], name)

    def follow_types(self) -> tuple[str, ...]:
        """Ask others' servers for newer versions of types to which we hold a right; return what is new."""
        from maia.api.further_registers import servers_of_issuers

        held, known = self.held(), self.definitions()
        if all(one.definition.name.owner == self.principal for one in known):
            return ()
        partners = (one.partition("@")[::2] for one in self._settings.partners)
        servers = {read_principal(domain): server for domain, server in partners}
        servers |= servers_of_issuers(held)
        servers.pop(self.principal, None)
        asked = [(server, domain) for domain, server in servers.items()]
        found = newer_from(asked, self.principal, self._key(), held, known, system_now())
        if not found:
            return ()
        self._keep_definitions(found)
        self.prepare_servers()
        for one in found:
            with suppress(MaiaError):  # a server that does not run reads it when it starts
                self._register(one)
        return tuple(dict.fromkeys(one.definition.name.name for one in found))

    def _register(self, signed: SignedDefinition) -> None:
        from maia.api import endpoints
        from maia.api.requests import TypeBody

        with self._server() as client:
            client.ask(endpoints.REGISTER_TYPE, TypeBody(definition_to_bytes(signed)))

    def keep_definition(self, signed: SignedDefinition, *, is_new: bool = False) -> Path:
        """Keep a definition among the types of the organisation."""
        file = self._keep_definitions([signed], is_new=is_new)
        self.prepare_servers()
        return file

    def installing(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates that let the organisation's types be installed on its network.

        They are embedded in the definitions that it signs; the coordinator needs none.
        """
        if self.network.owner == self.principal:
            return ()
        return install_credentials(self.principal, self.network, self.held(), system_now())

    def _keep_definitions(self, definitions: Iterable[SignedDefinition], *, is_new: bool = False) -> Path:
        """Keep definitions; one that was signed again takes the place of the same version."""
        places = {found.definition.name: one for one, found in dict(self.type_files()).items()}
        file = self.folder / "types"
        for signed in definitions:
            name = signed.definition.name
            label = name.name if _FILE_NAME.fullmatch(name.name) else signed.id.hex()[:16]
            own = "" if name.owner == self.principal else f"-{signed.id.hex()[:8]}"
            version = "" if name.version == FIRST_VERSION else f"-{signed.id.hex()[:12]}"
            file = places.setdefault(name, self.folder / "types" / f"{label}{own}{version}.type")
            if is_new and file.exists():
                raise BadFile(
                    f"`{file}` is already there: `{name.name}` has been defined; see `maia type change`"
                )
            _write(file, definition_to_text(signed))
        return file

    def _sign_again(self, files: dict[Path, SignedDefinition]) -> None:
        """Sign our own types again where they do not embed what lets them be installed on this network."""
        embedded = self.installing()
        again: dict[TypeName, SignedDefinition] = {}
        for one in in_order_of_making(files.values()) if embedded else ():
            old = one.definition
            is_ours = old.name.owner == self.principal == one.signer
            if not is_ours or {each.id for each in embedded} <= {each.id for each in old.credentials}:
                continue
            others = tuple(each for each in old.credentials if not is_membership(each))
            above = tuple(again.get(each.definition.name, each) for each in old.extends)
            new = replace(old, credentials=(*embedded, *others), extends=above)
            again[old.name] = sign_definition(new, self._key())
        for file, one in files.items():
            if one.definition.name in again:
                files[file] = again[one.definition.name]
                _write(file, definition_to_text(files[file]))

    def _update_members_types(self, definitions: Iterable[SignedDefinition]) -> None:
        """Put newer versions into the profiles of members, and what was signed again for what it was."""
        newer = {one.definition.name: one for one in definitions}
        for folder in self.folder.glob(f"*{PROFILE_SUFFIX}/types"):
            known: dict[tuple[Owner, str], set[TypeName]] = {}
            for file in folder.glob("*.type"):
                old = read_definition(file)
                name = old.definition.name
                known.setdefault((name.owner, name.name), set()).add(name)
                new = newer.get(name, old)
                if new.id != old.id:
                    _write(file.with_name(f"{new.id.hex()[:24]}.type"), definition_to_text(new))
                    file.unlink()
            for name, one in newer.items():
                if name not in known.get((name.owner, name.name), {name}):
                    _write(folder / f"{one.id.hex()[:24]}.type", definition_to_text(one))

    # -------------------------------------------------------- members, and what they may do

    def add_member(
        self,
        name: str,
        *,
        may: str | Iterable[str] = (),
        same_key: bool = False,
        **terms: Unpack[Terms],
    ) -> Profile:
        """Make a member with a key and a profile of its own, or give a member more rights.

        One whose key was revoked gets a new one, and its old profile is put aside; unless it is to have
        the `same_key`.
        """
        folder = self.folder / f"{checked_profile_name(name)}{PROFILE_SUFFIX}"
        rights = self.rights(may, **terms)  # before anything is made: a wrong one leaves no trace
        if (folder / f"{name}.key").exists():
            before = public_half(folder / f"{name}.key")
            if same_key:
                self.use_again(before)
                (folder / "certs" / f"{Action.CONNECT.value}.cert").unlink(missing_ok=True)
            elif before in self.revoked_keys():
                aside = f"{name}-{key_file_name(before)[:8]}{PROFILE_SUFFIX}"
                folder.replace(self.folder / _REVOKED / aside)
        for inner in ("certs", "types"):
            make_private_folder(folder / inner)
        if not (folder / f"{name}.key").exists():
            _new_key(folder / f"{name}.key")
        self._give(rights, public_half(folder / f"{name}.key"), folder / "certs")
        for version in self._types_of(rights):
            _write(folder / "types" / f"{version.id.hex()[:24]}.type", definition_to_text(version.signed))
        self._write_member(folder, name)
        self.prepare_servers()
        return read_profile(folder)

    def add_broker(self, name: str, *, listen: str | None = None) -> AddedBroker:
        """Make one more broker: a key, our word that it is a broker of ours, and its settings."""
        checked_profile_name(name)
        if (self.folder / f"{name}.key").exists():
            raise BadInput(
                "INPUT-ORGANISATION", f"`{self.name}` has a key `{name}.key` already: choose a name"
            )
        if listen is None:
            host = host_and_port(self._settings.broker)[0]
            (listen,) = _free_addresses(host, 1, taken=_remembered(self.folder.parent))
        host_and_port(listen)
        _new_key(self.folder / f"{name}.key")
        make_private_folder(self.folder / f"{name}-certs")
        added = (*self._settings.brokers, f"{name}@{listen}")
        self._save_settings(msgspec.structs.replace(self._settings, brokers=added))
        self._let_brokers_do(self._done_by_brokers())
        self._write_members()
        self.prepare_servers()
        return AddedBroker(public_half(self.folder / f"{name}.key"), listen, self.folder / f"{name}.toml")

    def remove_broker(self, name: str, *, reason: str = "") -> RevokedAnswer:
        """Make one of our brokers none any more, at our own server; its key is given nothing again.

        The first one goes on with another key, once it is started again.
        """
        return self.revoke(str(self.key_of_broker(name)), reason=reason)

    def key_of_broker(self, name: str) -> Principal:
        """Return the key of one of our brokers: of one that was added, or of the first one, `broker`."""
        if name not in (known := [_FIRST, *(one for one, _ in self._added())]):
            raise BadInput(
                "INPUT-ORGANISATION", f"`{self.name}` has no broker `{name[:64]}`; it has {', '.join(known)}"
            )
        return public_half(self.folder / f"{name}.key")

    def _put_broker_aside(self, key: Principal) -> None:
        """Go on without a broker whose key was revoked; the first one gets new keys."""
        folder = next((certs for certs, keys in self._brokers() if key in keys), None)
        if folder is None:
            return
        name = folder.name.removesuffix("-certs")
        done, aside = self._done_by_brokers(), self.folder / _REVOKED / f"{name}-{key_file_name(key)[:8]}"
        make_private_folder(aside)
        for file in map(self.folder.joinpath, (f"{name}.key", f"{name}.pub", f"{name}-certs")):
            file.replace(aside / file.name)
        if name == _FIRST:
            for number in range(1, self._settings.processes + 1) if self._settings.processes > 1 else ():
                process_key(self.folder / "broker-data", number).replace(aside / f"{name}-{number}.key")
                (self.folder / f"{name}-{number}.pub").replace(aside / f"{name}-{number}.pub")
            _new_key(self.folder / f"{name}.key")
            make_private_folder(self.folder / f"{name}-certs")
            self.make_process_keys()
        else:
            left = tuple(one for one in self._settings.brokers if one.partition("@")[0] != name)
            self._save_settings(msgspec.structs.replace(self._settings, brokers=left))
            for file in (self.folder / f"{name}.toml", self.folder / f"{name}.generated.toml"):
                file.replace(aside / file.name)
        self._let_brokers_do(done)
        self._write_members()
        self.prepare_servers()

    def _keys_with(self, key: Principal) -> list[Principal]:
        """Return the keys that end with this one: those of all processes of a broker."""
        return next((keys for _, keys in self._brokers() if key in keys), [key])

    def _done_by_brokers(self) -> list[Authority]:
        """Return what brokers let members do with types."""
        files = sorted(one for certs, _ in self._brokers() for one in certs.glob("*-*.cert"))
        found = (signed.certificate for signed in read_certificates(files))
        return [
            one.authority for one in found
            if isinstance(one, AuthorisationCertificate) and isinstance(one.authority.resources, TypePattern)
        ]  # fmt: skip

    def _let_brokers_do(self, done: Iterable[Authority]) -> None:
        for one in done:
            if isinstance(one.resources, TypePattern):
                for action in one.actions:
                    self._let_broker_over(one.resources, action, self._signing())

    def add_account(self, name: str, folder: Path, rights: Sequence[Right]) -> list[SignedCertificate]:
        """Give an account of a gateway, which has its key in a folder, rights as a member has them."""
        subject = read_principal(str(folder / "key.pub"))
        given = self._give(rights, subject, folder)
        self._keep_connecting(subject, folder)
        self._remember(subject, Path(f"{name}.pub"))
        self.prepare_servers()
        return given

    def grant(
        self,
        subject: Principal | str | Path,
        *,
        may: str | Iterable[str],
        delegable: bool = False,
        proved: VerifiedX509Subject | None = None,
        key: str | None = None,
        **terms: Unpack[Terms],
    ) -> Grant:
        """Grant another organisation, or a single participant, rights to types; `save` writes the file.

        To one that has proved an X.509 name they are granted by that name, until its chain ends. A file
        that holds a key which is not known here needs the `key` that its holder has told.
        """
        whom = self._compared(subject, key)
        rights = [sealed_apart(one, self.principal) for one in self.rights(may, **terms)]
        if not rights:
            raise BadInput(
                "INPUT-GRANT-FILE", "a grant is about something: say `publish:TYPE` or `subscribe:TYPE`"
            )
        signing = self._signing()
        named = whom if proved is None else proved.local
        given = [signing.right(right, named, may_delegate=delegable) for right in rights]
        if proved is not None:
            given.append(signing.name(proved, max(right.ends for right in rights)))
        for right in rights:
            check_held(
                right, whom, [*self.held(), *given], issuer=self.name, by=self.principal, now=signing.now
            )
        self._keep(self.folder / "issued", given)
        if not delegable:  # its own broker cannot have it: ours is the one that serves it
            for right in rights:
                self._let_broker(right.event_type.name, right.action, signing)
        if not isinstance(subject, Principal) and Path(subject).suffix == ".pub":
            self._remember(whom, Path(subject))
        wanted = [
            (right.action, one.name)
            for right in rights
            for one in (right.event_type, right.result)
            if one is not None
        ]
        proof = chain_certificates([*self.held(), *given], whom, wanted, signing.now)
        invitation = self._invitation(whom, signing) if self.network.owner == self.principal else ()
        return self._handed(whom, (*proof, *invitation), tuple(one.signed for one in self._types_of(rights)))

    def _handed(
        self,
        whom: Principal,
        certificates: tuple[SignedCertificate, ...],
        definitions: tuple[SignedDefinition, ...] = (),
    ) -> Grant:
        return Grant(
            issued_by=self.name,
            domain=self.principal,
            subject=whom,
            network=self.network.name,
            coordinator=self.network.owner,
            brokers=(self._settings.broker, *self._settings.join),
            keys=(self._settings.keys,),
            server=self._settings.server,
            certificates=certificates,
            definitions=definitions,
        )

    def can_connect(self, grant: Grant) -> bool:
        """Return whether a grant of ours, with what we have issued, lets its subject into the network."""
        certificates = [*grant.certificates, *self.held(), *self.issued_to(grant.subject)]
        return reaches_network(self.network, grant.subject, certificates, now=system_now())

    # -------------------------------------------------------- the network

    def invite(
        self,
        subject: Principal | str | Path,
        *,
        days: int = SERVER_DAYS,
        is_open: bool = False,
        key: str | None = None,
    ) -> Grant:
        """Let another organisation be part of the network, and install its own types; `save` writes the file.

        It sees nothing by that. Data is granted apart, and revoked apart. With `is_open`, its broker may
        serve types to which it has no right itself. Its `key` is what it has told, as for a grant.
        """
        whom = self._compared(subject, key)
        actions = (Action.CONNECT, Action.INSTALL, *((Action.SERVE,) if is_open else ()))
        given = self._invitation(whom, self._signing(), days=days, actions=actions)
        if not isinstance(subject, Principal) and Path(subject).suffix == ".pub":
            self._remember(whom, Path(subject))
        return self._handed(whom, given)

    def invited(self) -> dict[Principal, list[SignedCertificate]]:
        """Return what lets others be part of the network by an invitation of ours, those that hold now."""
        found: dict[Principal, list[SignedCertificate]] = {}
        for one in self.issued():
            whom = one.certificate.subject
            if isinstance(whom, Principal) and is_invitation(one, self.network):
                found.setdefault(whom, []).append(one)
        return found

    def _invitation(
        self,
        whom: Principal,
        signing: Signing,
        *,
        days: int = SERVER_DAYS,
        actions: Sequence[Action] = (Action.CONNECT, Action.INSTALL),
    ) -> tuple[SignedCertificate, ...]:
        """Return the certificates of an invitation: those that were given before, unless they end soon."""
        start, ends = Instant(signing.now + days * _DAY // 2), end_of(signing.now, days=days)
        before = [one for one in self.invited().get(whom, ()) if one.certificate.validity.contains(start)]
        known = (one.certificate for one in before)
        said = {
            act for one in known if isinstance(one, AuthorisationCertificate) for act in one.authority.actions
        }
        given = list(before)
        for action in actions:
            if action not in said:
                # What lets types be installed is inside them, and may demand no test.
                tests = () if action is Action.INSTALL else (signing.followed,)
                right = over_network(self.network, action)
                given.append(signing.issued(right, whom, ends, *tests, may_delegate=True))
        wanted = [(action, self.network) for action in {*actions, *said}]
        proof = chain_certificates([*self.held(), *given], whom, wanted, signing.now)
        if not reaches_network(self.network, whom, proof, now=signing.now):
            raise Refusal(
                "REFUSED-NOT-HELD",
                f"`{self.name}` may not invite others to `{self.network.name}`: its coordinator does",
            )
        self._keep(self.folder / "issued", given)
        return proof

    def join(
        self,
        path: str | Path,
        *,
        leave: bool = False,
        is_check: bool = False,
        name: str | None = None,
        same_key: bool = False,
    ) -> Joined:
        """Use an invitation or a grant of another organisation; return what that changes.

        One of another network is refused unless `leave` says that ours is left for it, and one that was
        signed with a key that was revoked here unless it is to be the `same_key`. With `is_check`,
        everything is tried and nothing is changed. `name` is what you call the other organisation.
        """
        found = examine_file(self, path)
        signers = {found.offer.grant.domain, *(one.certificate.issuer for one in found.offer.certificates)}
        for stolen in signers & self.revoked_keys():
            if not same_key:
                raise Refusal(
                    "REFUSED-KEY-REVOKED",
                    f"`{path}` is signed with the key `{stolen}`, which was revoked here: ask for one of "
                    "another key, or say `--same-key`",
                )
            if not is_check:
                self.use_again(stolen)
        moves = found.offer.network != self.network
        ends = ended_by_leaving(self) if moves else ()
        if ends and not leave:
            raise would_leave(self, path, found.offer, ends)
        left = self.network if moves else None
        with FolderDraft(self.folder) as draft:
            copy = Organisation(draft.path)
            notes = copy._take(found.offer, moves=moves, name=name)
            files = draft.changed()
            if not is_check:
                draft.accept()
        self._settings = Organisation(self.folder)._settings
        return Joined(found.offer, left, ends, len(files), (*found.notes, *notes), found.is_confirmed)

    def leave(self, *, is_check: bool = False) -> tuple[str, ...]:
        """Leave the network that was joined, for one of our own; return what ends by that."""
        if self.network.owner == self.principal:
            raise BadInput("INPUT-ORGANISATION", f"`{self.name}` has joined no network: it is in its own")
        ends = ended_by_leaving(self)
        if is_check:
            return ends
        with FolderDraft(self.folder) as draft:
            copy = Organisation(draft.path)
            copy._move(NetworkName(self.principal, self.name), (), (), ())
            try_settings(copy)
            draft.accept()
        self._settings = Organisation(self.folder)._settings
        return ends

    def _take(self, offer: Offer, *, moves: bool, name: str | None) -> tuple[str, ...]:
        """Write what an offer changes, and try it; return what is to be said about that."""
        grant = offer.grant
        self._keep_definitions(offer.definitions)
        self._keep(self.folder / "certs", offer.certificates)
        make_private_folder(self.folder / INTRODUCED)
        file, text = introduction(grant.domain, grant.issued_by)
        _write(self.folder / INTRODUCED / file, text)
        if name is not None:
            self._remember(grant.domain, Path(f"{checked_profile_name(name)}.pub"))
        hear = tuple(
            dict.fromkeys((*(() if moves else self._settings.hear), PrincipalWord(str(grant.domain))))
        )
        join = tuple(
            dict.fromkeys(
                (*(() if moves else self._settings.join), *(grant.brokers if offer.invites else ()))
            )
        )
        partners = () if moves else self._settings.partners
        if offer.invites and grant.server is not None:
            others = [one for one in partners if not one.startswith(f"{grant.domain}@")]
            partners = (*others, f"{grant.domain}@{grant.server}")
        own = (self._settings.broker,)
        self._move(offer.network, tuple(one for one in join if one not in own), partners, hear)
        return try_settings(self, about=offer.types)

    def _move(
        self,
        network: NetworkName,
        join: tuple[str, ...],
        partners: tuple[str, ...],
        hear: tuple[PrincipalWord, ...],
    ) -> None:
        """Be part of a network, through these brokers; what let us into another one is dropped."""
        left = self.network
        settings = msgspec.structs.replace(
            self._settings, network=network.name, coordinator=PrincipalWord(str(network.owner)),
            join=join, partners=partners, hear=hear,
        )  # fmt: skip
        self._save_settings(settings)
        if network != left:
            places = ("certs", "*-certs", f"*{PROFILE_SUFFIX}/certs")
            for file in (one for place in places for one in self.folder.glob(f"{place}/*.cert")):
                if is_membership(read_certificates([file])[0], left):
                    file.unlink()
        self._write_members()
        self.prepare_servers()

    def move_broker(self, listen: str, *, address: str | None = None) -> tuple[str, ...]:
        """Have the broker listen elsewhere, where others dial it, or at the `address` that they dial instead.

        Servers that run take that in. Its members are told here; whoever has a profile elsewhere, and
        partners, ask the domain's server. Return what stands in the way.
        """
        dialled = address or listen
        for one in (listen, dialled):
            host_and_port(one)
            checked_address(one)
        if listen not in {self._settings.listen, self._settings.broker}:
            refuse_taken(listen)
        settings = msgspec.structs.replace(
            self._settings, broker=dialled, listen=None if dialled == listen else listen
        )
        file = self.folder / "broker.toml"
        written = tomllib.loads(read_text(file)) if file.exists() else {}
        self._save_settings(settings)
        self._write_members()
        self.prepare_servers()
        return tuple(
            f"`{file}` says `{one}` too, which wins: take that line out"
            for one in ("listen", "address")
            if one in written
        )

    def follow_partners(self) -> tuple[str, ...]:
        """Ask where the brokers of partners are now, and join through those, too; return what is new."""
        key, found = self._key(), list[str]()
        for one in self._settings.partners:
            domain, _, server = one.partition("@")
            with suppress(MaiaError):  # one that does not answer now is asked again
                found += brokers_now(server, read_principal(domain), key)
        join = tuple(dict.fromkeys((*found, *self._settings.join)))[:_JOIN_MAX]
        new = tuple(one for one in join if one not in self._settings.join and one != self._settings.broker)
        if new:
            self._save_settings(msgspec.structs.replace(self._settings, join=join))
            self.prepare_servers()
        return new

    def losses(
        self, what: str | Path, *, is_stolen: bool = False, ask: Mapping[Principal, str] | None = None
    ) -> Losses:
        """Return who would lose what by `revoke`; nothing changes.

        With `ask`, which says where servers are that are not known by certificates, registers of those who
        may have passed it on are asked, too.
        """
        return self._losses(*self._revoked_with(what, is_stolen=is_stolen), ask=ask)

    def membership_losses(self, subject: Principal) -> Losses:
        """Return who would lose what by `revoke_membership`; nothing changes."""
        return self._losses(self._memberships(subject), ())

    def _losses(
        self,
        ended: Sequence[SignedCertificate],
        kept: tuple[SignedCertificate, ...],
        key: Principal | None = None,
        *,
        ask: Mapping[Principal, str] | None = None,
    ) -> Losses:
        from maia.api.further_registers import End, ask_further, servers_of_issuers

        try:
            entries, is_complete = {one.id: one for one in self._registered()}, True
        except Unavailable:
            entries, is_complete = {}, False

        def lost() -> tuple[Loss, ...]:
            return (*map(Loss, ended), *passed_on(ended, entries.values()))

        def asked(client: DomainClient) -> list[Principal]:
            entries.update({one.id: one for one in _registered_at(client)})
            return may_pass_on(lost())

        first = may_pass_on(lost())
        if ask is None:
            ends = [End(one, "not asked: only a dry run asks") for one in first]
        else:
            known = servers_of_issuers(entries.values()) | dict(ask)
            ends = ask_further(first, known, self._key(), self.held(), asked) if first else []
        return Losses(lost(), kept, key, is_complete, tuple(ends))

    def revoke(self, what: str | Path, *, reason: str = "", is_stolen: bool = False) -> RevokedAnswer:
        """Revoke what a member, an organisation, a grant or a certificate has of us, at our own server.

        All that a member has ends, and its key is given nothing any more; so does all that any other key
        has that is stolen. Else rights to events end, and membership of the network where a file holds
        nothing else.
        """
        ended, _, key = self._revoked_with(what, is_stolen=is_stolen)
        if key is None:
            return self._revoke(ended, reason)
        files = [self.folder / _REVOKED / key_file_name(one) for one in self._keys_with(key)]
        for file, one in zip(files, self._keys_with(key), strict=True):
            _write(file, f"{one}\n")  # first: from now on, our server gives it nothing
        try:
            found = self._revoke(ended, reason)
        except MaiaError:
            for file in files:
                file.unlink(missing_ok=True)
            raise
        self._put_broker_aside(key)
        return found

    def revoke_membership(self, subject: Principal, *, reason: str = "") -> RevokedAnswer:
        """End the membership of an organisation that was invited; its own types and members go with it."""
        return self._revoke(self._memberships(subject), reason)

    def _memberships(self, subject: Principal) -> list[SignedCertificate]:
        given = self.invited().get(subject)
        if not given:
            raise BadInput(
                "INPUT-GRANT-FILE", f"`{self.name}` has not invited `{subject}` to `{self.network.name}`"
            )
        return given

    def _revoke(self, ended: Sequence[SignedCertificate], reason: str) -> RevokedAnswer:
        from maia.api import endpoints
        from maia.api.requests import Revocation
        from maia.credentials import certificate_to_bytes

        body = Revocation([], reason, [certificate_to_bytes(one) for one in ended])
        with self._server() as client:
            found = client.ask(endpoints.REVOKE, body)
        self._keep(self.folder / _REVOKED, ended)
        for one in ended:
            (self.folder / "issued" / file_of(one)).unlink(missing_ok=True)
        return found

    # -------------------------------------------------------- what ends

    def ends(self) -> list[Ending]:
        """Return which rights end soon, of those that it issued or was granted, and were not renewed."""
        return ends_in(self.folder, system_now())

    def renew(
        self, *, days: int | None = None, whom: Collection[str] = (), is_check: bool = False
    ) -> Renewal:
        """Issue anew what it has issued and what ends soon, or within so many days; to some, if named.

        With `is_check`, say what would be renewed, and change nothing.
        """
        signing, keys = self._signing(), [self._key_meant(one) for one in whom]
        found = [
            one for one in ends_in(self.folder, signing.now, days=days)
            if not whom or one.signed.certificate.subject in keys
        ]  # fmt: skip
        due = [one for one in found if renewable(one, signing)]
        others = tuple(one for one in found if not renewable(one, signing))
        renewed = tuple(Renewed(one, new_end(one, signing.now)) for one in due)
        if is_check or not due:
            return Renewal(renewed, others)
        given = renew_in(self.folder, due, signing)
        self.prepare_servers()
        subjects = dict.fromkeys(one.certificate.subject for one in given)
        grants = tuple(
            self._handed_anew(one, [each for each in given if each.certificate.subject == one], signing.now)
            for one in subjects
            if isinstance(one, Principal) and not is_kept_here(self.folder, one)
        )
        return Renewal(renewed, others, grants)

    def _handed_anew(self, whom: Principal, given: Sequence[SignedCertificate], now: Instant) -> Grant:
        """Return what to hand to somebody whose certificates are kept elsewhere."""
        wanted: list[tuple[Action, TypeName | NetworkName]] = []
        types: list[VerifiedType] = []
        for one in given:
            if not isinstance(one.certificate, AuthorisationCertificate):
                continue
            authority = one.certificate.authority
            about = authority.resources
            if isinstance(about, TypePattern) and about.owner is not None and about.name.exact is not None:
                names = [TypeName(about.owner, about.name.exact, FIRST_VERSION)]
                names += [step.result for step in authority.transformations if step.result is not None]
                types += [version for name in names for version in self._versions(name)]
                wanted += [(action, name) for action in authority.actions for name in names]
            elif is_membership(one, self.network):
                wanted += [(action, self.network) for action in authority.actions]
        proof = chain_certificates([*self.held(), *given], whom, wanted, now)
        definitions = {one.id: one.signed for one in types}
        return self._handed(whom, proof, tuple(definitions.values()))

    # -------------------------------------------------------- servers

    def prepare_servers(self) -> None:
        """Write the settings of the servers; renew what lets them connect, and types be installed."""
        held, files = self.held(), dict(self.type_files())
        self._keep_of_each_broker("connect", *AS_BROKER)
        self._let_broker_do_as_we(held)
        for certs, _ in self._brokers():
            self._keep(certs, held)
        self._keep(self.folder / "server-certs", held)
        self._sign_again(files)
        self._update_members_types(files.values())
        write_settings(self.folder, self._server_settings(files))

    def _server_settings(self, files: Mapping[Path, SignedDefinition]) -> dict[str, dict[str, object]]:
        given, owner = self._settings, self.network.owner
        coordinator = f"{self.name}.pub" if owner == self.principal else str(owner)
        shared = {"network": given.network, "coordinator": coordinator}
        history = sorted(f"types/{one.name}" for one, found in files.items() if self._keeps_keys_of(found))
        return {
            "broker.toml": {
                "key": "broker.key", **shared, "credentials": ["broker-certs"],
                "listen": given.listen or given.broker, "address": given.broker,
                "join": given.join, "data": "broker-data", "types": "types", "processes": given.processes,
                "receive_certificates": True,
                "log": {"folder": "log", "roll_s": _ROLL_S},
                "statements": {"fetch_from": [given.server]},
            },
            **{f"{name}.toml": self._settings_of(name, listen, shared) for name, listen in self._added()},
            "domain.toml": {
                "key": f"{self.name}.key", **shared, "credentials": ["server-certs"], "listen": given.keys,
                "data": "domain-data", "history": history,
                "api": {"listen": given.server, "public": given.server},
                "broker": {
                    "addresses": [given.broker], "hear": list(given.hear), "own": "broker.pub",
                    "own_credentials": "broker-certs", "own_delegates": given.processes > 1,
                },
                "policy": {
                    "types": ["types"], "held": ["certs"], "issued": ["issued"], "revoked": [_REVOKED],
                },
            },
        }  # fmt: skip

    def _settings_of(self, name: str, listen: str, shared: Mapping[str, object]) -> dict[str, object]:
        """Return the settings of a broker that was added, which joins through the first one."""
        return {
            "key": f"{name}.key", **shared, "credentials": [f"{name}-certs"], "listen": listen,
            "join": [self._settings.broker], "data": f"{name}-data", "types": "types",
            "receive_certificates": True, "log": {"folder": f"{name}-log", "roll_s": _ROLL_S},
            "statements": {"fetch_from": [self._settings.server]},
        }  # fmt: skip

    # -------------------------------------------------------- inside

    def _key(self) -> SigningKey:
        file = self.folder / f"{self.name}.key"
        try:
            return load_signing_key(file)
        except WrongPassphrase:
            given = os.environ.get(_PASSPHRASE)
            if given is None:
                raise
            return load_signing_key(file, given)

    def _signing(self) -> Signing:
        statements_at = f"https://{self._settings.server}/v1/statements"
        return Signing(self._key(), statements_at, system_now(), self.revoked_keys())

    def _lineage(self, name: str) -> tuple[VerifiedType, ...]:
        return types_named(name, [self.folder / "types"], at=system_now())

    def _versions(self, name: TypeName) -> tuple[VerifiedType, ...]:
        """Return the versions of a type that is known exactly."""
        found = self.definitions()
        return verified_lineage(found, owner=name.owner, name=name.name, version=None, at=system_now())

    def rights(self, may: str | Iterable[str], **terms: Unpack[Terms]) -> list[Right]:
        """Return the rights that some words mean, to types that it knows; nothing is granted by that."""
        words = [may] if isinstance(may, str) else list(may)
        now, found = system_now(), list[Right]()
        for one in words:
            try:
                found.append(read_right(one, terms, issuer=self.principal, find=self.event_type, now=now))
            except MaiaError as problem:
                if len(words) > 1:  # terms are for all of them, and one of them does not fit
                    problem.args = (f"`{one[:64]}`: {problem.message}", *problem.args[1:])
                raise
        return found

    def _give(self, rights: Sequence[Right], subject: Principal, folder: Path) -> list[SignedCertificate]:
        """Put rights of one behind our broker into its folder, and let the broker do as much."""
        signing = self._signing()
        given = [signing.right(right, subject) for right in rights]
        for right in rights:
            check_held(
                right, subject, [*self.held(), *given], issuer=self.name, by=self.principal, now=signing.now
            )
        self._keep(folder, [*self.held(), *given])
        self._keep(self.folder / "issued", given)
        for right in rights:
            self._let_broker(right.event_type.name, right.action, signing)
        return given

    def _types_of(self, rights: Iterable[Right]) -> list[VerifiedType]:
        """Return every version of the types that rights are about."""
        types = [one for right in rights for one in (right.event_type, right.result) if one is not None]
        found = {version.id: version for one in types for version in self._versions(one.name)}
        return list(found.values())

    def _let_broker(self, name: TypeName, action: Action, signing: Signing) -> None:
        """Let the broker do what a member behind it may do."""
        self._let_broker_over(TypePattern(name.owner, NamePattern(name.name), None), action, signing)

    def _let_broker_over(self, types: TypePattern, action: Action, signing: Signing) -> None:
        for certs, keys in self._brokers():
            let_broker(certs, keys[0], action, types, signing, passes_on=len(keys) > 1)

    def _let_broker_do_as_we(self, held: Iterable[SignedCertificate]) -> None:
        """Let the broker do what the organisation may do and pass on: it is behind it as members are."""
        signing = self._signing()
        for signed in held:
            one = signed.certificate
            if not isinstance(one, AuthorisationCertificate) or one.subject != self.principal:
                continue
            about, actions = one.authority.resources, one.authority.actions
            if not one.may_delegate or not one.validity.contains(signing.now):
                continue
            if isinstance(about, TypePattern):
                for action in actions & {Action.PUBLISH, Action.SUBSCRIBE}:
                    self._let_broker_over(about, action, signing)
            elif Action.SERVE in actions and is_membership(signed, self.network):
                self._keep_of_each_broker("serve", Action.SERVE)

    @staticmethod
    def _keep(folder: Path, certificates: Iterable[SignedCertificate]) -> None:
        """Keep certificates under names that are made of their ids, and of nothing that is in them."""
        for one in certificates:
            file = folder / file_of(one)
            if not file.exists():
                _write(file, certificate_to_text(one))

    def make_process_keys(self) -> None:
        """Make the key of each process of the broker; every one of them is a broker by itself."""
        for number in range(1, self._settings.processes + 1) if self._settings.processes > 1 else ():
            public, key = (
                self.folder / f"broker-{number}.pub",
                process_key(self.folder / "broker-data", number),
            )
            if not key.exists():
                make_private_folder(key.parent.parent)
                make_private_folder(key.parent)
                create_key_file(key, new_signing_key())
            if not public.exists():
                _write(public, f"{public_half(key)}\n")

    def _added(self) -> list[tuple[str, str]]:
        """Return the name of each broker that was added, and where it listens."""
        return [(name, listen) for name, _, listen in (one.partition("@") for one in self._settings.brokers)]

    def _brokers(self) -> list[tuple[Path, list[Principal]]]:
        """Return the folder of each broker's certificates, its key, and those of its processes."""
        processes = [
            self.folder / f"broker-{number}.pub" for number in range(1, self._settings.processes + 1)
        ]
        known = [read_principal(str(one)) for one in processes if one.exists()]
        first = self.folder / "broker-certs", [public_half(self.folder / "broker.key"), *known]
        added = [name for name, _ in self._added()]
        more = [(self.folder / f"{one}-certs", [public_half(self.folder / f"{one}.key")]) for one in added]
        return [first, *more]

    def _keep_of_each_broker(self, name: str, *actions: Action) -> None:
        for certs, keys in self._brokers():
            for number, broker in enumerate(keys):
                self._keep_network_right(broker, certs / f"{name}{number or ''}.cert", *actions)

    def _keep_connecting(self, subject: Principal, folder: Path) -> None:
        """Keep a certificate by which a member connects, in its folder and with what we have issued."""
        file = folder / "connect.cert"
        self._keep_network_right(subject, file, Action.CONNECT)
        self._keep(self.folder / "issued", read_certificates([file]))

    def _keep_network_right(self, subject: Principal, file: Path, *actions: Action) -> None:
        """Keep a certificate by which a broker or a member connects in a file; renew it in good time."""
        wanted, signing = over_network(self.network, *actions), self._signing()
        tests = [signing.followed] if Action.BROKER in actions else []
        signing.keep_fresh(file, wanted, subject, *tests, may_delegate=False)

    def _write_member(self, folder: Path, name: str) -> None:
        """Write a member's profile, and let it connect to the organisation's network."""
        self._keep(folder / "certs", self.held())
        self._keep_connecting(public_half(folder / f"{name}.key"), folder / "certs")
        settings: Mapping[str, object] = {
            "key": f"{name}.key",
            "credentials": ["certs"],
            "types": ["types"],
            "network": self.network.name,
            "coordinator": str(self.network.owner),
            "brokers": [self._settings.broker, *(listen for _, listen in self._added())],
            "brokers_of": [str(self.principal)],
            "server": self._settings.server,
            "domain": str(self.principal),
            "wallet": "wallet",
            "log": "../log",
        }
        write_profile(folder, settings)

    def _compared(self, subject: Principal | str | Path, told: str | None) -> Principal:
        """Return whose key is meant; raise if it came in a file and nobody has compared it (A125)."""
        if isinstance(subject, Principal):
            return subject
        whom, file = read_principal(str(subject)), Path(subject)
        if told is not None and not is_same_key(whom, told):
            raise BadInput(
                "INPUT-KEY-DIFFERS", f"`{file}` holds the key {in_groups(whom)}, and not `{told[:96]}`"
            )
        secret = file.with_suffix(".key")
        is_known = told is not None or str(subject).startswith("ed25519:") or bool(self.issued_to(whom))
        if not (is_known or (secret.is_file() and public_half(secret) == whom)):
            raise KeyNotCompared(file, whom)
        return whom

    def _write_members(self) -> None:
        for member in self.members():
            self._write_member(member.path, member.name)

    def _remember(self, whom: Principal, given: Path) -> None:
        """Keep a public key under the name of its file, unless that name is taken or unusable."""
        file = self.folder / KNOWN / given.name
        if _FILE_NAME.fullmatch(given.name) and not file.exists():
            make_private_folder(file.parent)
            _write(file, f"{whom}\n")

    def _server(self) -> DomainClient:
        from maia.api.client import DomainClient

        return DomainClient(self._settings.server, domain=self.principal, key=self._key())

    def _registered(self) -> list[SignedCertificate]:
        """Return the certificates in the register of our server that were passed on and still count."""
        with self._server() as client:
            return _registered_at(client)

    def _revoked_with(
        self, what: str | Path, *, is_stolen: bool
    ) -> tuple[list[SignedCertificate], tuple[SignedCertificate, ...], Principal | None]:
        """Return what of ours is revoked with this, what its holder keeps, and the key that ends with it."""
        key = self._key_meant(what)
        if is_stolen and key is None:
            raise BadInput(
                "INPUT-GRANT-FILE", f"`{what}` is no key: say the name or the key of what was stolen"
            )
        found = self._in_file(Path(what)) if key is None else self._given_to(key)
        mine = [one for one in found if one.certificate.issuer == self.principal]
        if not mine and not is_stolen:
            raise BadInput(
                "INPUT-GRANT-FILE", f"`{self.name}` has issued nothing that is in `{what}`, or it is over"
            )
        if key is not None and (
            is_stolen or any(is_membership(one) and not is_invitation(one) for one in mine)
        ):
            return mine, (), key
        ended = [one for one in mine if not is_membership(one)]
        if ended:
            return ended, tuple(filter(is_membership, mine)), None
        if key is not None:
            raise BadInput(
                "INPUT-GRANT-FILE",
                f"`{what}` has no right to events from `{self.name}` any more; `maia network revoke` ends "
                "its membership",
            )
        return mine, (), None

    def _given_to(self, key: Principal) -> list[SignedCertificate]:
        """Return all that we gave a key: what we issued, what its profile holds, and its rights by role."""
        folders = [one.path / "certs" for one in self._profiles() if public_half(one.key()) == key]
        folders += [certs for certs, keys in self._brokers() if key in keys]
        found = [*self.issued_to(key), *read_certificates(folders)]
        with suppress(Unavailable):  # without our server, nothing is revoked
            found += self._registered()
        now, keys = system_now(), self._keys_with(key)
        ours = {
            one.id: one for one in found
            if one.certificate.issuer == self.principal and one.certificate.subject in keys
            and one.certificate.validity.contains(now)
            and not (self.folder / _REVOKED / file_of(one)).exists()
        }  # fmt: skip
        return list(ours.values())

    def _key_meant(self, what: str | Path) -> Principal | None:
        """Return whose key a member, an organisation, a profile or a key is; None for a file of rights."""
        path, word = Path(what), str(what)
        places = [
            self.folder / f"{word}{PROFILE_SUFFIX}" / f"{word}.pub",
            self.folder / KNOWN / f"{word}.pub",
            *(self.folder / f"{one}.pub" for one, _ in self._added() if one == word),
        ]
        named = [one for one in places if _FILE_NAME.fullmatch(word) and one.is_file()]
        if word.startswith("ed25519:") or path.suffix == ".pub":
            return read_principal(word)
        if named:
            return read_principal(str(named[0]))
        if path.is_dir() and (path / ORGANISATION_FILE).is_file():
            return Organisation(path).principal
        if path.is_dir():
            return public_half(read_profile(path).key())
        if not path.exists():
            known = [one.stem for one in (self.folder / KNOWN).glob("*.pub")]
            near = get_close_matches(path.name[:64], [*(one.name for one in self.members()), *known], n=1)
            hint = f"; did you mean `{near[0]}`?" if near else "; `maia org show` lists whom there is"
            raise BadFile(f"there is no grant, certificate, member or organisation `{what}`{hint}")
        return None

    @staticmethod
    def _in_file(path: Path) -> list[SignedCertificate]:
        """Return the certificates in a file."""
        return read_certificates([path]) if path.suffix == ".cert" else list(read_grant(path).certificates)

    def _keeps_keys_of(self, signed: SignedDefinition) -> bool:
        """Return whether old keys of a type are kept here; one version of it says so for all."""
        sealing, version = signed.definition.sealing, signed.definition.name.version
        return sealing is not None and sealing.manager == self.principal and version == FIRST_VERSION

    def _save_settings(self, settings: _OrganisationSettings) -> None:
        owner = PrincipalWord(str(read_owner(settings.coordinator)))  # what was read names a file from here
        settings = msgspec.structs.replace(settings, coordinator=owner)
        record = {one.name: getattr(settings, one.name) for one in msgspec.structs.fields(settings)}
        _write(self.folder / ORGANISATION_FILE, toml_text(record))
        self._settings = settings


def _registered_at(client: DomainClient) -> list[SignedCertificate]:
    from maia.api import endpoints
    from maia.api.requests import RegisterQuestion
    from maia.credentials import certificate_from_bytes

    found = client.every(endpoints.REGISTER, RegisterQuestion(standing_at="now"))
    return [certificate_from_bytes(one.certificate) for one in found]


def _attribute(name: str, kind: str) -> Attribute:
    word, _, uid = kind.partition(":")
    try:
        found = Kind(word)
    except ValueError:
        kinds = ", ".join(one.value for one in Kind)
        raise BadAttribute(f"`{name[:64]}:{kind[:32]}` is not `name:kind` with a kind of {kinds}") from None
    return Attribute(name, attribute_uid(uid or str(uuid4())), found)


def _new_key(file: Path) -> None:
    key = new_signing_key()
    create_key_file(file, key)
    _write(file.with_suffix(".pub"), f"{key.principal}\n")


def _write(path: Path, text: str) -> None:
    write_file(path, text.encode())


def _remembered(folder: Path) -> str:
    """Return what the organisations in a folder remember: their servers may not run at this moment."""
    return "".join(one.read_text(encoding="utf-8") for one in folder.glob(f"*/{ORGANISATION_FILE}"))


def _free_addresses(host: str, count: int, *, beside: int = 0, taken: str = "") -> list[str]:
    """Find ports that are free now; they are remembered, so that others can go on finding the servers.

    So many ports behind the first one are free, too. None of those that are `taken`, in some text, is chosen.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    chance = random.SystemRandom()
    found: list[str] = []
    problem: OSError | None = None
    for port in chance.sample(_PORTS, _PORTS_TRIED):
        if f":{port}" in taken:
            continue
        try:
            for also in range(1 if found else 1 + beside):
                # Whoever has chosen a port for later holds its number for UDP until its server listens.
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    with socket.socket(family, kind) as one:
                        one.bind((host, port + also))
        except OSError as refused:
            problem = refused
            if refused.errno != errno.EADDRINUSE:
                break
            continue
        found.append(f"{shown}:{port}")
        if len(found) == count:
            return found
    reason = problem.strerror if problem is not None else "no port is free"
    raise BadFile(f"cannot listen at `{host[:64]}`: {reason}") from problem
