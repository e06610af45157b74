"""How much of a gateway does one account hold, and may it have more?

Connections, sessions and the bytes that wait for readers are counted by account, so that one account that
does its worst takes nothing from the others (A89, A101, A116).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from maia.errors import Unavailable
from maia.events import Instant


class Over(Enum):
    """What a connection speaks; there are so many places for each."""

    MQTT = auto()
    HTTP = auto()


class AccountQuota(Unavailable):
    """An account holds as much of the gateway as it may hold."""

    code = "UNAVAILABLE-QUOTA-ACCOUNT"


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

    def problem(self, *, share: int = 1) -> Unavailable | None:
        """Return what is wrong if too many wait; of what one reader may have, this part counts."""
        if self.bytes > self.most // share:
            return Unavailable(
                "UNAVAILABLE-QUOTA-UNREAD", f"{self.bytes} bytes wait for a client that does not read them"
            )
        if self.beside is not None and self.beside.bytes > self.beside.most:
            return Unavailable(
                "UNAVAILABLE-QUOTA-UNREAD", f"{self.beside.bytes} bytes wait for clients of this account"
            )
        return None


@dataclass(slots=True, kw_only=True)
class AccountShares:
    """What the accounts of one gateway hold, over MQTT and over HTTP."""

    places: Mapping[Over, int]
    connections_per_account: int
    sessions: int
    sessions_per_account: int
    unread_bytes: int
    unread_bytes_per_account: int
    _connections: Counter[tuple[str, Over]] = field(default_factory=Counter)
    _sessions: dict[str, dict[str, Instant | None]] = field(default_factory=dict)
    """By account and client identifier; when one ends whose client is away, unless it never does."""
    _unread: dict[str, Unread] = field(default_factory=dict)

    # -------------------------------------------------------- connections

    def connect(self, account: str, over: Over, *, takes_over: bool = False) -> None:
        """Count a connection or a call; one that takes over may come before the other has gone.

        An account leaves half of the places to others however few there are, a quarter while it takes over.
        """
        held, places = self._connections[account, over], self.places[over]
        share = max(1, places * 3 // 4 if takes_over else places // 2)
        together = sum(self._connections[account, each] for each in Over)
        if held >= share or together >= self.connections_per_account * (2 if takes_over else 1):
            raise AccountQuota(f"the account has {together} connections, as many as it may have")
        self._connections[account, over] += 1

    def disconnect(self, account: str, over: Over) -> None:
        """Take note that a connection, or a call, has ended."""
        self._connections[account, over] -= 1
        if not self._connections[account, over]:
            del self._connections[account, over]

    # -------------------------------------------------------- sessions

    def begin(self, account: str, client_id: str, now: Instant) -> str | None:
        """Count a session; return the client identifier of one that has ended, and makes room for it."""
        held = self._sessions.setdefault(account, {})
        if client_id in held:
            held[client_id] = None
            return None
        makes_room = None
        if len(held) >= self.sessions_per_account:
            makes_room = next((one for one, end in held.items() if end is not None and end <= now), None)
            if makes_room is None:
                raise AccountQuota(f"the account has {len(held)} sessions, as many as it may have")
            del held[makes_room]
        if sum(map(len, self._sessions.values())) >= self.sessions:
            raise Unavailable("UNAVAILABLE-GATEWAY-SESSIONS", "the gateway has no room for a session")
        held[client_id] = None
        return makes_room

    def keep(self, account: str, client_id: str, ends_at: Instant | None) -> None:
        """Take note until when a session is kept; None while its client is there, or for ever."""
        self._sessions.setdefault(account, {})[client_id] = ends_at

    def end(self, account: str, client_id: str) -> None:
        """Take note that nothing of a session is left."""
        held = self._sessions.get(account, {})
        held.pop(client_id, None)
        if not held:
            self._sessions.pop(account, None)

    # -------------------------------------------------------- bytes that wait

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
