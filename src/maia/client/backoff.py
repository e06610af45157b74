"""How long does a client wait: before it dials again, and before it takes silence for absence?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from maia.back_off import doubled, jittered
from maia.client.settings import ClientSettings

__all__ = ["LOOKS_IN_A_LEASE", "Redialling", "SignsOfLife"]

LOOKS_IN_A_LEASE: Final = 3
"""How often a client looks after its broker while a lease lasts."""


class Redialling:
    """Which address comes next, and after how long."""

    __slots__ = ("_failures", "_random", "_settings", "_turn")

    def __init__(self, settings: ClientSettings, random: Callable[[int], bytes]) -> None:
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
        whole = doubled(settings.dial_again_s, self._failures, most=settings.dial_again_most_s)
        return jittered(whole, self._random)


class SignsOfLife:
    """Whether the broker was heard of late.

    Looks are counted, not moments compared: a process that was stopped for
    a while looks at the clock before it reads what has arrived meanwhile.
    """

    __slots__ = ("_silent_looks", "_was_heard")

    def __init__(self) -> None:
        """Begin as if nothing had been heard since the last look."""
        self._was_heard = False
        self._silent_looks = 0

    def heard(self) -> None:
        """Take note that the broker said something."""
        self._was_heard, self._silent_looks = True, 0

    @property
    def is_silent(self) -> bool:
        """Say whether nothing was heard for a whole lease."""
        return self._silent_looks >= LOOKS_IN_A_LEASE

    def look(self) -> bool:
        """Count a look; say whether the broker is to be asked for a sign."""
        was_heard, self._was_heard = self._was_heard, False
        self._silent_looks = 0 if was_heard else self._silent_looks + 1
        # Renewals and their answers are further apart than two looks.
        return self._silent_looks > 1
