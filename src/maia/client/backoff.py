"""How long does a client wait before it dials again?"""

from __future__ import annotations

from collections.abc import Callable

from maia.client.settings import ClientSettings

__all__ = ["Redialling"]


class Redialling:
    """Which address comes next, and after how long."""

    __slots__ = ("_failures", "_random", "_settings", "_turn")

    def __init__(self, settings: ClientSettings, random: Callable[[int], bytes]) -> None:
        """Begin with the first address."""
        self._settings, self._random = settings, random
        self._turn = self._failures = 0

    @property
    def address(self) -> str:
        """Return the address whose turn it is."""
        addresses = self._settings.addresses
        return addresses[self._turn % len(addresses)]

    def succeeded(self) -> None:
        """Wait for a short time after the next failure."""
        self._failures = 0

    def failed_s(self) -> float:
        """Go on to the next address; return how many seconds to wait before it is dialled.

        Twice as long each time, and not in step with other clients.
        """
        self._turn += 1
        self._failures += 1
        settings = self._settings
        whole = min(settings.dial_again_most_s, settings.dial_again_s * 2.0 ** min(self._failures - 1, 30))
        return whole * (0.5 + int.from_bytes(self._random(2), "big") / (1 << 17))
