"""What does every server check before it opens a port?

Brokers and key servers ask. What a configuration names is opened here, and
what is wrong with it is reported at the line that named it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from maia.config.settings import BadConfig, ServerConfig
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    NetworkName,
    SignedCertificate,
    SigningKey,
    VerifiedConstitution,
)
from maia.credentials.brokers import as_broker, made_by
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import NO_FACTS, Audience, Denial, Request, decide, gather_evidence
from maia.private_files import exposure, make_private_folder
from maia.validity import ASSUMED_GOOD

_Read = TypeVar("_Read")


class _Configured(Protocol):
    """The settings of a process, which know where each of them was written."""

    def wrong(self, name: str, problem: str) -> BadConfig:
        """Return the error about a setting that turned out wrong when it was used."""
        ...


def opened(config: _Configured, name: str, read: Callable[[], _Read]) -> _Read:
    """Return what a setting names, or say at its line why it cannot be read."""
    try:
        return read()
    except MaiaError as problem:
        raise config.wrong(name, f"does not work: {problem.message} [{problem.code}]") from problem


def right_to_connect(
    config: ServerConfig,
    key: SigningKey,
    network: NetworkName,
    credentials: tuple[SignedCertificate, ...],
    now: Instant,
    constitutions: tuple[VerifiedConstitution, ...] = (),
) -> Instant | None:
    """Ask the kernel what every peer will ask: may this key be part of the network?"""
    request = Request(key.principal, Action.CONNECT, network)
    # No statement has arrived before the start; whether tests are passed shows when some do.
    evidence = gather_evidence(
        request, credentials, at=now, constitutions=constitutions, standing=ASSUMED_GOOD
    )
    decision = decide(request, evidence, NO_FACTS, now)
    if isinstance(decision, Denial):
        why = "; ".join(decision.explanation.lines(Audience.REQUESTER))
        raise config.wrong(
            "credentials",
            f"do not let `{key.principal}` connect to `{network.name}`: {why} [{decision.code}]",
        )
    return decision.until


def right_as_broker(
    config: ServerConfig,
    key: SigningKey,
    network: NetworkName,
    credentials: tuple[SignedCertificate, ...],
    now: Instant,
    constitutions: tuple[VerifiedConstitution, ...] = (),
) -> Instant | None:
    """Ask the kernel what every other broker will ask: has an organisation made this key its broker (C18)?"""
    if made_by(key.principal, chains := as_broker(credentials, key.principal)):
        return right_to_connect(config, key, network, chains, now, constitutions)
    right_to_connect(config, key, network, credentials, now, constitutions)  # it may not be here at all
    is_root = key.principal == network.owner or any(
        isinstance(one.certificate, AuthorisationCertificate) and one.certificate.issuer == key.principal
        for one in credentials
    )
    why = "an organisation's own key makes brokers, and is none" if is_root else "no organisation has done so"
    raise config.wrong(
        "credentials",
        f"do not make `{key.principal}` a broker of `{network.name}`: {why}; `maia up` and "
        "`maia broker add NAME` make a key and its certificate [REFUSED-NOT-A-BROKER]",
    )


def check_folder(config: _Configured, name: str, folder: Path) -> None:
    """Make a folder if need be; it must be this user's own, because secrets or events are kept there."""
    try:
        make_private_folder(folder)
        exposed = exposure(folder)
    except OSError as problem:
        raise config.wrong(name, f"cannot be used: {problem.strerror}: `{folder}`") from problem
    if exposed is not None:
        raise config.wrong(name, f"cannot be used: {exposed}")
