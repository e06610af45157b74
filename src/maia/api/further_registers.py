"""Where does what one register knows end, and can whoever knows more be asked?

A register has what its own domain issued, and what was registered there. Whoever
may pass a right on has a register of its own, which is asked where its server is
known, and answers whom it lets read it. A list therefore names those behind whom
it may go on, and why they were not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from maia.api.client import DomainClient
from maia.credentials import Principal, SignedCertificate, SigningKey
from maia.errors import MaiaError
from maia.net.addresses import BadAddress, host_and_port

ASKED_MAX: Final = 16
"""Registers that are asked for one list."""
_ANSWER_S: Final = 3.0
_UNKNOWN: Final = "not asked: where its server is, `--ask NAME@HOST:PORT` says"
_STATEMENTS: Final = "/v1/statements"


@dataclass(frozen=True, slots=True)
class End:
    """A principal that may have passed a right on, behind whom a list may go on."""

    at: Principal
    why: str | None = None
    """Why its own register was not read; None: it was, and what it knows is in the list."""


def servers_of_issuers(certificates: Iterable[SignedCertificate]) -> dict[Principal, str]:
    """Return where the servers of issuers are, by what their certificates say; a hint, as any location."""
    found = dict[Principal, str]()
    for one in (signed.certificate for signed in certificates):
        own = [test for test in one.validity.tests if test.by == one.issuer]
        for parts in (urlsplit(place) for test in own for place in test.locations):
            if (parts.scheme, parts.path) == ("https", _STATEMENTS):
                found[one.issuer] = parts.netloc
    return found


def ask_further(
    first: Iterable[Principal],
    servers: Mapping[Principal, str],
    key: SigningKey,
    shown: Iterable[SignedCertificate],
    ask: Callable[[DomainClient], Iterable[Principal]],
) -> list[End]:
    """Ask each of these, and whoever `ask` names of them, once; return where the list ends."""
    waiting, ends, certificates = list(first), dict[Principal, End](), list(shown)
    while waiting:
        domain = waiting.pop(0)
        if domain in ends:
            continue
        if domain not in servers:
            ends[domain] = End(domain, _UNKNOWN)
        elif sum(one.why is None for one in ends.values()) == ASKED_MAX:
            ends[domain] = End(domain, f"not asked: {ASKED_MAX} others were")
        else:
            ends[domain] = End(domain)
            own = [one for one in certificates if one.certificate.issuer == domain]
            try:
                host_and_port(servers[domain])
                with DomainClient(
                    servers[domain], domain=domain, key=key, credentials=own, timeout_s=_ANSWER_S
                ) as client:
                    waiting += ask(client)
            except MaiaError as problem:
                ends[domain] = End(
                    domain, f"it was asked, and does not tell us: {problem.message} [{problem.code}]"
                )
    return list(ends.values())


def servers_told(words: Iterable[str], read: Callable[[str], Principal]) -> dict[Principal, str]:
    """Read where servers are from words `NAME@HOST:PORT`."""
    found = dict[Principal, str]()
    for word in words:
        name, at, server = word.rpartition("@")
        if not (at and name):
            raise BadAddress(f"`{word[:80]}` is not `NAME@HOST:PORT`")
        host_and_port(server)
        found[read(name)] = server
    return found
