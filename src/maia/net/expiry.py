"""Which certificates of this server end soon?

A server whose right to connect ends is refused by all of its peers at once, and a
broker without the rights of its clients carries nothing for them. So each server
writes a warning for every certificate of its own that ends within some days, at the
start and then once a day, and offers the same as metrics. A certificate counts until a
newer one grants the same; one that ended long ago was not renewed on purpose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from maia.credentials import AuthorisationCertificate, SignedCertificate
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.net.telemetry import Telemetry

__all__ = ["ExpiryWatch", "ending"]

_DAY: Final = 86_400 * SECOND
_LOOK_S: Final = 60.0


def ending(
    certificates: Sequence[SignedCertificate], now: Instant, *, days: int
) -> list[tuple[Instant, SignedCertificate]]:
    """Return what ends within `days`, or ended as long ago, and is not renewed; the first to end first."""
    latest: dict[object, tuple[Instant | None, SignedCertificate]] = {}
    for signed in certificates:
        one = signed.certificate
        granted = (one.authority, one.may_delegate) if isinstance(one, AuthorisationCertificate) else one.name
        key, end = (one.issuer, one.subject, granted), one.validity.not_after
        known = latest.get(key)
        if known is None or (known[0] is not None and (end is None or end > known[0])):
            latest[key] = (end, signed)
    soon = [(end, one) for end, one in latest.values() if end is not None and abs(end - now) <= days * _DAY]
    return sorted(soon, key=lambda pair: (pair[0], pair[1].id))


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
        now = self._clock()
        soon = ending(certificates, now, days=self._days)
        self._telemetry.measure("maia_certificates_expiring", len(soon))
        ends = [end for one in certificates if (end := one.certificate.validity.not_after) is not None]
        first = soon[0][0] if soon else min((end for end in ends if end > now), default=None)
        if first is not None:
            self._telemetry.measure("maia_certificate_expiry_seconds", (first - now) / SECOND)
        self._noted = {one: at for one, at in self._noted.items() if now - at < _DAY}
        for end, signed in soon:
            if signed.id not in self._noted:
                self._noted[signed.id] = now
                self._telemetry.note("expiring", _fields(signed, end))


def _fields(signed: SignedCertificate, end: Instant) -> dict[str, object]:
    one = signed.certificate
    fields: dict[str, object] = {"certificate": signed.id.hex()[:24], "until": end, "issuer": one.issuer}
    if isinstance(one, AuthorisationCertificate):
        return {**fields, "actions": sorted(action.value for action in one.authority.actions)}
    return {**fields, "name": one.name}
