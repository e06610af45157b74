"""How much of a gateway does one account hold, and may it have more?

Connections, sessions and the bytes that wait for readers are counted by account, so that one account that
does its worst takes nothing from the others (A89, A101, A116).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from maia.errors import Unavailable


class AccountQuota(Unavailable):
    """An account holds as much of the gateway as it may hold."""

    code = "UNAVAILABLE-QUOTA-ACCOUNT"


class SlowReader(Unavailable):
    """A reader of a gateway reads more slowly than events for it arrive, and too many bytes wait."""

    code = "UNAVAILABLE-QUOTA-UNREAD"


@dataclass(slots=True)
class Unread:
    """How many bytes of events wait for one reader, and with `beside` for all readers of its account."""

    most: int
    beside: Unread | None = None
    bytes: int = 0

    def add(self, size: int) -> None:
        """Take note of bytes that wait from now on, or with a minus wait no more."""
        self.bytes += size
        if self.beside is not None:
            self.beside.add(size)

    def problem(self) -> SlowReader | None:
        """Return what is wrong if too many wait."""
        if self.bytes > self.most:
            return SlowReader(f"{self.bytes} bytes wait for a client that does not read them")
        if self.beside is not None and self.beside.bytes > self.beside.most:
            return SlowReader(f"{self.beside.bytes} bytes wait for clients of this account")
        return None


@dataclass(slots=True)
class Shares:
    """What the accounts of one gateway hold, over MQTT and over HTTP."""

    unread_bytes: int
    unread_bytes_per_account: int
    _unread: dict[str, Unread] = field(default_factory=dict)

    def reader(self, account: str) -> Unread:
        """Return where the bytes are counted that wait for a new reader of an account."""
        beside = self._unread.get(account)
        if beside is None:
            beside = self._unread[account] = Unread(self.unread_bytes_per_account)
        return Unread(self.unread_bytes, beside)

    @property
    def unread(self) -> int:
        """Return how many bytes wait for readers."""
        return sum(one.bytes for one in self._unread.values())
