"""Which certificates of this server end soon?

A server whose right to connect ends is refused by all of its peers at once, and a
broker without the rights of its clients carries nothing for them. So each server
writes a warning for every certificate of its own that ends within some days, at the
start and then once a day, and offers the same as metrics. One that ended long ago was not
renewed on purpose.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from maia.credentials import SignedCertificate
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.net.telemetry import Telemetry
from maia.policy.endings import AGAIN_DAYS, DAY, ending, last_ends

_LOOK_S: Final = 60.0


class ExpiryWatch:
    """Warns about the certificates of one server while it runs."""

    def __init__(
        self,
        certificates: Callable[[], Awaitable[Sequence[SignedCertificate]]],
        telemetry: Telemetry,
        clock: Callable[[], Instant],
        *,
        days: int,
        issued: Callable[[], Awaitable[Sequence[SignedCertificate]]] | None = None,
    ) -> None:
        """Watch what `certificates` returns; warn `days` before the end. Count what is `issued`."""
        self._certificates, self._telemetry, self._clock, self._days = certificates, telemetry, clock, days
        self._issued = issued
        self._noted: dict[bytes, Instant] = {}

    async def run(self) -> None:
        """Look again and again."""
        while True:
            try:
                self.look(await self._certificates())
                if self._issued is not None:
                    self.count(await self._issued())
            except MaiaError as problem:
                self._telemetry.note("failed", {"code": problem.code, "why": problem.message})
            await asyncio.sleep(_LOOK_S)

    def look(self, certificates: Sequence[SignedCertificate]) -> None:
        """Set the metrics, and write a line about each certificate that had none within a day."""
        now, days = self._clock(), self._days * DAY
        ends = [one for one in last_ends(certificates) if one.at >= now - days]
        soon = [one for one in ends if one.is_soon(now, self._days)]
        long = [one for one in ends if one.life > days]
        self._telemetry.measure("maia_certificates_expiring", len(soon))
        first = min((one.at for one in (*soon, *long)), default=None)
        left = math.inf if first is None else (first - now) / SECOND
        self._telemetry.measure("maia_certificate_expiry_seconds", left)
        self._noted = {one: at for one, at in self._noted.items() if now - at < DAY}
        for one in soon:
            if one.signed.id not in self._noted:
                self._noted[one.signed.id] = now
                self._telemetry.note("expiring", one.fields())

    def count(self, issued: Sequence[SignedCertificate]) -> None:
        """Set the metrics of what others were given."""
        now = self._clock()
        soon = ending(issued, now, days=self._days)
        self._telemetry.measure("maia_rights_expiring", len(soon))
        next_ = [one for one in soon if one.at - now <= AGAIN_DAYS * DAY]
        self._telemetry.measure("maia_rights_expiring_next", len(next_))
