"""Who has to go when more peers wait to be let in than there are places?

Brokers, key servers and the runtime ask, before a peer has proved anything.
The oldest goes, and it goes from the network that holds most places: a flood
from one address costs its own places, and a flood from everywhere costs those
who have had most time (A74, A88).
"""

from __future__ import annotations

from collections.abc import Hashable
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, TypeVar

_One = TypeVar("_One", bound=Hashable)
_HOST_BITS: Final = 64


class Places(Generic[_One]):
    """Those who wait, in the order in which they came, by the network that they came from."""

    __slots__ = ("_by_network", "_most", "_network_of")

    def __init__(self, most: int) -> None:
        """Begin with `most` places, one at least, all free."""
        self._most = max(1, most)
        self._by_network: dict[str, dict[_One, None]] = {}
        self._network_of: dict[_One, str] = {}

    def __len__(self) -> int:
        return len(self._network_of)

    @property
    def is_overfull(self) -> bool:
        """Say whether a peer has to go."""
        return len(self._network_of) > self._most

    def take(self, one: _One, address: str | None) -> None:
        """Give a peer a place, if need be one too many."""
        network = _network_of(address)
        self._network_of[one] = network
        self._by_network.setdefault(network, {})[one] = None

    def next_to_go(self) -> _One | None:
        """Return the peer that has to go if one has to; None if none waits."""
        # Of networks with as many places, the one that has waited longest.
        crowded = max(self._by_network.values(), key=len, default=None)
        return None if crowded is None else next(iter(crowded))

    def leave(self, one: _One) -> None:
        """Free the place of a peer that was let in, or has gone, if it had one."""
        network = self._network_of.pop(one, None)
        if network is not None:
            del self._by_network[network][one]
            if not self._by_network[network]:
                del self._by_network[network]


def _network_of(address: str | None) -> str:
    """Return what one owner has many addresses in: the address itself, or for IPv6 its first 64 bits."""
    try:
        parsed = ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or int(parsed) >> _HOST_BITS)
