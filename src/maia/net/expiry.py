"""Which certificates of this server end soon?

A server whose right to connect ends is refused by all of its peers at once, and a
broker without the rights of its clients carries nothing for them. So each server
writes a warning for every certificate of its own that ends within some days, at the
start and then once a day, and offers the same as metrics. A certificate counts until a
newer one grants the same; one that ended long ago was not renewed on purpose. One that
holds for days only is renewed by a domain all the time: it counts in its last quarter.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from maia.credentials import AuthorisationCertificate, SignedCertificate
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.net.telemetry import Telemetry

_DAY: Final = 86_400 * SECOND
_LOOK_S: Final = 60.0


def last_ends(certificates: Sequence[SignedCertificate]) -> list[tuple[Instant, SignedCertificate]]:
    """Return when each right ends, with the last certificate that grants it; the first to end first."""
    last: dict[object, tuple[Instant | None, SignedCertificate]] = {}
    for signed in certificates:
        one = signed.certificate
        granted = (one.authority, one.may_delegate) if isinstance(one, AuthorisationCertificate) else one.name
        key, end = (one.issuer, one.subject, granted), one.validity.not_after
        known = last.get(key)
        if known is None or (known[0] is not None and (end is None or end > known[0])):
            last[key] = (end, signed)
    found = [(end, signed) for end, signed in last.values() if end is not None]
    return sorted(found, key=lambda pair: (pair[0], pair[1].id))


class ExpiryWatch:
    """Warns about the certificates of one server while it runs."""

    def __init__(
        self,
        certificates: Callable[[], Awaitable[Sequence[SignedCertificate]]],
        telemetry: Telemetry,
        clock: Callable[[], Instant],
        *,
        days: int,
    ) -> None:
        """Watch what `certificates` returns; warn `days` before the end."""
        self._certificates, self._telemetry, self._clock, self._days = certificates, telemetry, clock, days
        self._noted: dict[bytes, Instant] = {}

    async def run(self) -> None:
        """Look again and again."""
        while True:
            try:
                self.look(await self._certificates())
            except MaiaError as problem:
                self._telemetry.note("failed", {"code": problem.code, "why": problem.message})
            await asyncio.sleep(_LOOK_S)

    def look(self, certificates: Sequence[SignedCertificate]) -> None:
        """Set the metrics, and write a line about each certificate that had none within a day."""
        now, days = self._clock(), self._days * _DAY
        ends = [pair for pair in last_ends(certificates) if pair[0] >= now - days]
        soon = [(end, one) for end, one in ends if end - now <= min(days, _life(one, end) // 4)]
        long = [(end, one) for end, one in ends if _life(one, end) > days]
        self._telemetry.measure("maia_certificates_expiring", len(soon))
        first = min((end for end, _ in (*soon, *long)), default=None)
        left = math.inf if first is None else (first - now) / SECOND
        self._telemetry.measure("maia_certificate_expiry_seconds", left)
        self._noted = {one: at for one, at in self._noted.items() if now - at < _DAY}
        for end, signed in soon:
            if signed.id not in self._noted:
                self._noted[signed.id] = now
                self._telemetry.note("expiring", _fields(signed, end))


def _life(signed: SignedCertificate, end: Instant) -> float:
    """Return for how long a certificate holds in all."""
    begin = signed.certificate.validity.not_before
    return math.inf if begin is None else end - begin


def _fields(signed: SignedCertificate, end: Instant) -> dict[str, object]:
    one = signed.certificate
    fields: dict[str, object] = {"certificate": signed.id.hex()[:24], "until": end, "issuer": one.issuer}
    if isinstance(one, AuthorisationCertificate):
        return {**fields, "actions": sorted(action.value for action in one.authority.actions)}
    return {**fields, "name": one.name}
