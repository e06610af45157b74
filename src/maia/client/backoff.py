"""How long does a client wait before it dials again?"""

from __future__ import annotations

from collections.abc import Callable

from maia.back_off import doubled, jittered
from maia.client.settings import ClientSettings


class Redialling:
    """Which address comes next, and after how long."""

    __slots__ = ("_failures", "_process", "_random", "_settings", "_turn")

    def __init__(self, settings: ClientSettings, random: Callable[[int], bytes]) -> None:
        self._settings, self._random = settings, random
        self._turn = self._failures = 0
        self._process: str | None = None

    @property
    def address(self) -> str:
        """Return the address whose turn it is."""
        addresses = self._settings.addresses
        if self._process is not None:
            addresses = (self._process, *addresses)
        return addresses[self._turn % len(addresses)]

    def go_to(self, address: str) -> bool:
        """Dial this process of a broker next; say no if entries have led to another one before."""
        if self._process not in {None, address}:
            return False
        self._process, self._turn = address, -1
        return True

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
        whole = doubled(settings.dial_again_s, self._failures, most=settings.dial_again_most_s)
        return jittered(whole, self._random)
