"""Which of these certificates were revoked? Their issuers' lists are asked, where they can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from maia.credentials import Principal, SignedCertificate
from maia.credentials.statements import CertificateRevoked
from maia.events import Instant
from maia.net.process import waited_for
from maia.validity import Monitor

_ASK_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Standing:
    """What the lists say now, and whose could not be had."""

    revoked: frozenset[bytes]
    """The ids of certificates."""
    silent: frozenset[Principal]


def ask_standing(
    certificates: Iterable[SignedCertificate],
    *,
    now: Instant,
    servers: Mapping[Principal, str | None] | None = None,
) -> Standing:
    """Ask where certificates say, and at these servers of issuers; what is not answered is not revoked."""
    from maia.api.testers import ask_testers

    pool = list(certificates)
    also = {by: f"https://{one}/v1/statements" for by, one in (servers or {}).items() if one is not None}
    fetched = waited_for(ask_testers(pool, now=now, within_s=_ASK_S, also=also))
    monitor = Monitor.of(fetched.statements, now)
    revoked = (one.id for one in pool if isinstance(monitor.check(one, now), CertificateRevoked))
    return Standing(frozenset(revoked), frozenset(fetched.problems))
