"""May this peer connect to our network, by what it has shown?

Clients ask it of brokers, key servers of members, members and readers of
history of key servers. A broker asks its authoriser, which knows more.
What a node has taken in on validity itself comes first: a peer that shows an
older list does not bring a revoked certificate back.

Every request costs a signature check, and churn of subscriptions spreads to
other brokers (Miklós 2; A77). The quota belongs to the principal, so that
neither a second link nor a new connection renews it.

Brokers, key servers and the runtime also ask before a peer has proved anything
who has to go when more peers wait than there are places. The oldest goes, and it goes
from the network that holds most places: a flood
from one address costs its own places, and a flood from everywhere costs those
who have had most time (A74, A88).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, TypeVar

from maia.bounded_map import BoundedMap
from maia.credentials import (
    Action,
    Budget,
    Principal,
    SignedCertificate,
    SignedStatement,
    TypeName,
    VerificationCache,
    VerifiedConstitution,
)
from maia.errors import Refusal, Unavailable
from maia.events import Instant
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence
from maia.validity import Monitor, Tester


@dataclass(frozen=True, slots=True)
class ConnectRight:
    """The right of a peer to connect: the certificates it depends on, and its last moment if it has one."""

    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    until: Instant | None


def right_to_connect(
    request: Request,
    pool: tuple[SignedCertificate, ...],
    now: Instant,
    *,
    tester: Tester,
    cache: VerificationCache,
    constitutions: tuple[VerifiedConstitution, ...],
    budget: Budget | None = None,
) -> ConnectRight:
    """Return the right that certificates give a peer, or raise the kernel's refusal."""
    evidence = gather_evidence(
        request, pool, at=now, cache=cache, constitutions=constitutions, standing=tester, budget=budget
    )
    decision = decide(request, evidence, NO_FACTS, now)
    if not isinstance(decision, Permit):
        raise decision.as_refusal()
    used = tuple(signed for chain in evidence.chains for signed in chain.certificates)
    return ConnectRight(used, decision.stable.not_after)


def with_shown(own: Monitor | None, shown: Iterable[SignedStatement], now: Instant) -> Monitor:
    """Return what a node has taken in on validity itself, and for this one time what its peer has shown."""
    tester = Monitor() if own is None else own.copy()
    for signed in shown:
        tester.receive(signed, now)
    return tester


def no_right(broker: Principal, action: Action, name: TypeName, *, has_some: bool = False) -> Refusal:
    """Say what a broker lacks that would serve a client of a type, and which command grants it (C16)."""
    lacks = "to all attributes that its client's right is about" if has_some else "itself"
    return Refusal(
        "BROKER-HAS-NO-RIGHT",
        f"broker `{broker}` has no right to {action.value} `{name.name}` {lacks}, so nothing of it is handed "
        f"over: grant it one (`maia cert issue --subject {broker} --owner {name.owner} --type {name.name} "
        f"--action {action.value}`), or use a broker that holds it",
    )


_MINUTE: Final = 60_000_000
_PRINCIPALS_MAX: Final = 65_536


class TooManyRequests(Unavailable):
    """The principal makes more requests in a minute than its quota."""

    code = "UNAVAILABLE-REQUEST-QUOTA"


class RequestQuota:
    """A bucket for each principal, refilled evenly over a minute; what is counted is for its user to say."""

    __slots__ = ("_buckets", "per_minute")

    def __init__(self, per_minute: int) -> None:
        """Allow `per_minute` requests of one principal in a minute, in a burst if need be."""
        self.per_minute = per_minute
        # Microseconds of the minute that are left, and when that was worked out.
        self._buckets: BoundedMap[Principal, tuple[int, int]] = BoundedMap(_PRINCIPALS_MAX)

    def spend(self, principal: Principal, now: Instant, *, requests: int = 1) -> None:
        """Take so many requests off the principal's quota, or refuse."""
        left = self._left(principal, now)
        price = min(_MINUTE, requests * max(1, _MINUTE // self.per_minute))
        allowed = left >= price
        self._buckets.put(principal, (left - price if allowed else left, now))
        if not allowed:
            raise TooManyRequests(f"more than {self.per_minute} requests in a minute: slow down")

    def owe(self, principal: Principal, now: Instant, requests: int) -> None:
        """Take off what turned out to be the price of something done; a principal owes a minute at most."""
        left = self._left(principal, now) - requests * _MINUTE // self.per_minute
        self._buckets.put(principal, (max(-_MINUTE, left), now))

    def paid_at(self, principal: Principal, now: Instant) -> Instant | None:
        """Return when a principal owes nothing any more; None if it owes nothing now."""
        left = self._left(principal, now)
        return None if left >= 0 else Instant(now - left)

    def _left(self, principal: Principal, now: Instant) -> int:
        left, since = self._buckets.get(principal) or (_MINUTE, now)
        return min(_MINUTE, left + max(0, now - since))


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

    def take_turn(self) -> _One | None:
        """Let one peer leave and return it: the first of each network in turn; None if none waits."""
        network = next(iter(self._by_network), None)
        if network is None:
            return None
        line = self._by_network.pop(network)
        self._by_network[network] = line
        one = next(iter(line))
        self.leave(one)
        return one

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
