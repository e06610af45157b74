"""Which neighbours are to be dialled, and when?

A router of a mesh knows the addresses of its neighbours from its configuration
and looks for no others. A neighbour that does not answer is dialled again and
again, less often as time passes. Routers that dial this one are neighbours,
too, and need not be configured here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from maia.back_off import doubled
from maia.events import SECOND
from maia.routing.table.hops import Hop

_FIRST_S: Final = 1
_MOST_S: Final = 15


@dataclass(slots=True)
class _Address:
    hop: Hop | None = None
    """The neighbour that was found there last."""
    is_dialling: bool = False
    failures: int = 0
    due: int = 0


class ConfiguredNeighbours:
    """The addresses of neighbours, and how it stands with each of them."""

    def __init__(self, addresses: Iterable[str], *, own: str) -> None:
        self._addresses = {address: _Address() for address in addresses if address != own}
        self._up: set[Hop] = set()

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the addresses at which no neighbour is linked."""
        return tuple(address for address, one in self._addresses.items() if one.hop not in self._up)

    def dials(self, now: int) -> list[str]:
        """Return the addresses to dial at this moment, which are under way from now on."""
        due = [
            address
            for address in self.missing
            if self._is_free(address) and self._addresses[address].due <= now
        ]
        for address in due:
            self._addresses[address].is_dialling = True
        return due

    def linked(self, hop: Hop, *, dialled: str | None) -> None:
        """A neighbour has proved its right to connect; `dialled` is the address at which it was found."""
        self._up.add(hop)
        one = self._addresses.get(dialled) if dialled is not None else None
        if one is not None:
            one.hop, one.is_dialling, one.failures, one.due = hop, False, 0, 0

    def lost(self, hop: Hop, now: int) -> None:
        """The link to a neighbour is gone."""
        self._up.discard(hop)
        for one in self._addresses.values():
            if one.hop == hop:
                one.due = now + _FIRST_S * SECOND

    def failed(self, address: str, now: int) -> None:
        """No router that may connect answered."""
        one = self._addresses.get(address)
        if one is not None:
            one.is_dialling = False
            one.failures += 1
            one.due = now + doubled(_FIRST_S, one.failures, most=_MOST_S) * SECOND

    def next_due(self) -> int | None:
        """Return when there is something to dial."""
        return min((self._addresses[one].due for one in self.missing if self._is_free(one)), default=None)

    def _is_free(self, address: str) -> bool:
        return not self._addresses[address].is_dialling
