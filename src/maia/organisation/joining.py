"""What does it take to join a network, and what ends when one is left?

A file is read and verified, its issuer is asked whether it was revoked, and what would end is named, before
anything changes (`Organisation.join`). After a change, what servers and brokers ask is asked here first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from maia.clock import system_now
from maia.config.input_files import read_certificates
from maia.credentials import NetworkName, Principal, SignedCertificate
from maia.errors import BadInput, MaiaError, Refusal
from maia.keystore.key_files import public_half
from maia.organisation.grant_file import read_grant
from maia.organisation.offer import Offer, examine
from maia.organisation.rights import reaches_network
from maia.organisation.standing import ask_standing
from maia.types import InstallNotGranted, SignedDefinition, verify_definition


class Joiner(Protocol):
    """An organisation, as far as it is asked before it joins a network."""

    folder: Path

    @property
    def name(self) -> str: ...
    @property
    def principal(self) -> Principal: ...
    @property
    def network(self) -> NetworkName: ...
    def definitions(self) -> list[SignedDefinition]: ...
    def held(self) -> list[SignedCertificate]: ...
    def invited(self) -> Mapping[Principal, list[SignedCertificate]]: ...


class WouldLeave(Refusal):
    """To join the network of a grant, the organisation would have to leave the one that it is in."""

    code = "REFUSED-LEAVES-NETWORK"


@dataclass(frozen=True, slots=True)
class Joined:
    """What a grant or an invitation has changed here, or would change."""

    offer: Offer
    left: NetworkName | None
    """The network that was left for another one."""
    ends: tuple[str, ...]
    """What ended with that."""
    files: int
    """How many files of the organisation changed."""
    notes: tuple[str, ...]
    is_confirmed: bool
    """Whether its issuer could be asked if it was revoked."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What a file offers, and what is to be said about it."""

    offer: Offer
    notes: tuple[str, ...]
    is_confirmed: bool


def examine_file(ours: Joiner, path: str | Path) -> Examined:
    """Verify an invitation or a grant that was made for us; raise if it offers nothing here."""
    grant = read_grant(Path(path))
    if grant.subject != ours.principal:
        raise BadInput(
            "INPUT-GRANT-FOR-ANOTHER",
            f"`{path}` was granted to `{grant.subject}`, and `{ours.name}` is `{ours.principal}`: use it "
            f"there, or ask `{grant.domain}` for one of your own (`maia grant {ours.name}.pub`)",
        )
    now = system_now()
    servers = {grant.domain: grant.server}
    standing = ask_standing([*grant.certificates, *ours.held()], now=now, servers=servers)
    good, held = (
        [one for one in some if one.id not in standing.revoked] for some in (grant.certificates, ours.held())
    )
    counting = replace(grant, certificates=tuple(good))
    offer = examine(counting, ours.principal, held, ours.definitions(), now)
    is_cut = len(good) < len(grant.certificates)
    if is_cut and not offer.types:
        raise Refusal(
            "REFUSED-GRANT-REVOKED",
            f"`{path}` was revoked by `{grant.domain}`: ask it for a new one (`maia grant`, or `maia "
            "network invite` for a membership alone)",
        )
    if offer.network != ours.network and not offer.invites:
        raise BadInput(
            "INPUT-GRANT-FILE",
            f"`{path}` does not let `{ours.name}` connect to `{offer.network.name[:64]}` now: ask its "
            "coordinator for an invitation (`maia network invite`)",
        )
    if not (offer.types or offer.invites):
        raise BadInput(
            "INPUT-GRANT-FILE", f"`{path}` grants nothing here: {'; '.join(offer.unused) or 'it is empty'}"
        )
    notes = ("what was revoked of it is left out",) if is_cut else ()
    return Examined(offer, notes, grant.domain not in standing.silent)


def would_leave(ours: Joiner, path: str | Path, offer: Offer, ends: Collection[str]) -> WouldLeave:
    """Return the refusal to leave a network without being asked to, with both ways out."""
    network = ours.network
    if network.owner == ours.principal:
        instead = f"grants are for one network: what `{ours.name}` has granted it then grants again"
    else:
        instead = (
            f"to stay, have `{offer.grant.domain}` join first and then grant again: `{network.owner}` "
            "invites it (`maia network invite`)"
        )
    return WouldLeave(
        f"`{path}` is of network `{offer.network.name[:64]}` of `{offer.network.owner}`, and `{ours.name}` "
        f"is in `{network.name}` of `{network.owner}`: to join is to leave that, which ends "
        f"{', '.join(ends)}; `--leave` does so; {instead}"
    )


def ended_by_leaving(ours: Joiner) -> tuple[str, ...]:
    """Say what ends when the network is left; nothing if it is our own, and no others are in it."""
    others = sorted(
        {
            one.definition.name.name
            for one in ours.definitions()
            if one.definition.name.owner != ours.principal
        }
    )
    is_own, invited = ours.network.owner == ours.principal, len(ours.invited())
    return (
        *([f"what was granted there ({', '.join(others)})"] if others and not is_own else []),
        *([f"each membership by an invitation of `{ours.name}` ({invited})"] if invited else []),
        *([] if is_own else ["the connection to its brokers"]),
    )


def try_settings(ours: Joiner, about: Collection[str] = ()) -> tuple[str, ...]:
    """Ask what the servers ask when they start, and what brokers ask of our types; raise what fails."""
    now, network = system_now(), ours.network
    for file, place in (("broker.key", "broker-certs"), (f"{ours.name}.key", "server-certs")):
        pool = read_certificates([ours.folder / place])
        if not reaches_network(network, public_half(ours.folder / file), pool, now=now):
            raise BadInput(
                "INPUT-GRANT-FILE",
                f"`{file}` of `{ours.name}` could not connect to `{network.name[:64]}`: the right "
                "may not be passed on: ask the coordinator for an invitation (`maia network invite`)",
            )
    notes: list[str] = []
    owners: dict[str, set[str]] = {}
    for one in ours.definitions():
        owners.setdefault(one.definition.name.name, set()).add(str(one.definition.name.owner))
        try:
            verify_definition(one, at=now, network=network)
        except InstallNotGranted:
            notes.append(
                f"`{one.definition.name.name}` of `{one.definition.name.owner}` cannot be used in "
                f"`{network.name}`: it holds no right to be installed there; have its owner join "
                f"`{network.name}` and grant again, which brings it"
            )
        except MaiaError:
            continue  # a later version that is not compared here, or a quorum's
    several = sorted(name for name, found in owners.items() if len(found) > 1 and name in about)
    notes += [f"`{name}` is of {len(owners[name])} owners here: say `{name}@OWNER`" for name in several]
    return tuple(dict.fromkeys(notes))
