"""Which way leads to each router of a mesh, and what do its clients want?

A value without I/O. The broker hands in what its clients want and what
neighbours announce, and performs the steps that come back. Promises:

- an aggregate counts only if its origin signed it, dated it within the clock
  skew, and numbered it higher than the last one; a neighbour can withhold it
  and cannot change it (S10);
- the way to an origin is the neighbour that announced the newest aggregate
  first; if that neighbour is lost, all others that announced it too, until the
  origin renews it; the origin itself while it is a neighbour;
- what is not renewed ends with a lease, and no replay makes it longer: never
  after `dated + lease + skew`;
- a router announces an aggregate to exactly those neighbours through which its
  own way does not lead, so what was announced is a way of its own;
- origins, parts, bytes and the pace of each origin are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from maia.errors import BrokenCredential, MaiaError, Refusal, Unavailable
from maia.events import Instant
from maia.routing.dials import Dials
from maia.routing.mesh.aggregates import (
    Announce,
    Ask,
    Content,
    Gone,
    Head,
    Learned,
    MeshLimits,
    Refused,
    Renewed,
    Routed,
    Step,
    Withdraw,
    digest_of_part,
    digest_of_parts,
)
from maia.routing.overlay.table import node_id_of_key
from maia.routing.table.hops import Hop
from maia.routing.table.neighbours import is_within

_WHOLE: Final = b""
"""In place of the digest of parts that are at hand: none are."""


@dataclass(slots=True)
class _Query:
    """A neighbour that is asked for parts, until when it has time, and what it has answered up to now."""

    hop: Hop
    until: int
    add: list[bytes] = field(default_factory=list)
    remove: list[bytes] = field(default_factory=list)
    bytes: int = 0


@dataclass(slots=True)
class Origin:
    """One router of the mesh, as this one knows it."""

    key: bytes
    head: Head | None = None
    """The newest aggregate; it stays a while when its lease is over, so that no replay brings it back."""
    parts: dict[bytes, bytes] | None = None
    """What is in it, by digest; None if it is not at hand."""
    until: int = 0
    """When its lease is over."""
    accepted_at: int | None = None
    arrivals: list[Hop] = field(default_factory=list)
    """Neighbours that announced the newest aggregate, in the order of arrival."""
    is_detour: bool = False
    """The first of them was lost: until the next aggregate, all that are left are the way."""
    heard: dict[Hop, int] = field(default_factory=dict)
    """The number that each neighbour announced last."""
    pending: dict[Hop, Head] = field(default_factory=dict)
    """Newer aggregates that were announced and not accepted yet, in the order of arrival."""
    asked: _Query | None = None
    before: tuple[bytes, tuple[bytes, ...], tuple[bytes, ...]] | None = None
    """The digest of the parts before the last change, and what was added and removed."""
    announced: dict[Hop, bool] = field(default_factory=dict)
    """Neighbours to which the newest aggregate was announced, and whether that was not withdrawn since.

    Each is announced and withdrawn at most once: without an origin, neighbours that take each other for
    the way would go on for ever.
    """
    routed: tuple[Hop, ...] = ()

    @property
    def number(self) -> int:
        """Return the number of the newest aggregate."""
        return -1 if self.head is None else self.head.number

    @property
    def digest(self) -> bytes:
        """Return the digest of the parts that are at hand."""
        return _WHOLE if self.head is None or self.parts is None else self.head.digest

    def take(self, parts: dict[bytes, bytes]) -> tuple[dict[bytes, bytes], tuple[bytes, ...]]:
        """Have these parts from now on; return those that are new, and the digests of those that went."""
        had = self.parts or {}
        added = {name: part for name, part in parts.items() if name not in had}
        removed = tuple(name for name in had if name not in parts)
        if parts is not self.parts:
            self.before = (self.digest, tuple(added.values()), removed)
        self.parts = parts
        return added, removed


class MeshTable:
    """The aggregates of all routers of a mesh, and the ways to them."""

    def __init__(
        self,
        own: bytes,
        *,
        sign: Callable[[Head], bytes],
        verify: Callable[[Head], None],
        admit: Callable[[bytes, Mapping[bytes, bytes], int], None] = lambda origin, parts, now: None,
        limits: MeshLimits = MeshLimits(),  # noqa: B008 - frozen, so one value serves all
    ) -> None:
        """Begin alone. `verify` and `admit` raise if a signature is wrong, or an origin may not connect."""
        self._own = Origin(own, parts={})
        self._sign, self._verify, self._admit = sign, verify, admit
        self._limits = limits
        self._origins: dict[bytes, Origin] = {}
        self._up: dict[Hop, None] = {}
        self._served: dict[tuple[Hop, bytes], tuple[bytes, bytes, int]] = {}
        """What each neighbour asked for last, and when it was answered."""

    # ------------------------------------------------------------ questions

    @property
    def origins(self) -> Mapping[bytes, Origin]:
        """Return the other routers that are known; not to be changed by the caller."""
        return self._origins

    @property
    def own(self) -> Origin:
        """Return this router's own aggregate."""
        return self._own

    def next_hops(self, origin: bytes, *, besides: Hop = None) -> tuple[Hop, ...]:
        """Return the neighbours to which a frame for an origin goes; never the one that it came from.

        While two routers take each other for the way, another neighbour that announced the origin is asked.
        """
        known = self._origins.get(origin)
        if known is None:
            return ()
        hops = tuple(hop for hop in known.routed if hop != besides)
        others = (hop for hop in known.arrivals if hop != besides and hop in self._up)
        return hops or tuple(islice(others, 1))

    @property
    def renew_every_us(self) -> int:
        """Return how often this router renews its aggregate."""
        return self._limits.renew_every_us

    def next_due(self) -> Instant | None:
        """Return when `tick` has something to do."""
        moments: list[int] = []
        if self._own.head is not None:
            moments.append(self._own.head.dated + self._limits.renew_every_us)
        for known in self._origins.values():
            if known.parts is not None:
                moments.append(known.until + 1)
            elif not known.pending:
                moments.append(self._forgotten_at(known) + 1)
            if known.asked is not None:
                moments.append(known.asked.until)
            elif known.pending and known.accepted_at is not None:
                moments.append(known.accepted_at + self._limits.pace_us)
        return Instant(min(moments)) if moments else None

    # ------------------------------------------------------------ this router

    def publish(self, parts: Mapping[bytes, bytes], now: int) -> list[Step]:
        """Announce what this router's clients want, if that has changed or is to be renewed."""
        own, digest = self._own, digest_of_parts(parts)
        is_same = own.head is not None and own.head.digest == digest
        if own.head is not None and is_same and now < own.head.dated + self._limits.renew_every_us:
            return []
        if not is_same:
            own.take(dict(parts))
        return self._publish_again(digest, now)

    def _publish_again(self, digest: bytes, now: int) -> list[Step]:
        own = self._own
        # Dated numbers grow over restarts, too, without a disk.
        head = Head(own.key, max(own.number + 1, int(now), 1), int(now), len(own.parts or {}), digest)
        own.head = replace(head, signature=self._sign(head))
        return [Announce(hop, own.head) for hop in self._up]

    def tick(self, now: int) -> list[Step]:
        """Time has passed: give up what was not renewed or not answered."""
        steps: list[Step] = []
        for known in list(self._origins.values()):
            if known.asked is not None and known.asked.until <= now:
                known.pending.pop(known.asked.hop, None)
                known.asked = None
            steps += self._advance(known, now)
            if known.parts is not None and known.until < now:
                known.parts, known.before = None, None
                known.arrivals.clear()
                steps += [Gone(known.key), *self._settle(known)]
            if known.parts is None and not known.pending and self._forgotten_at(known) < now:
                del self._origins[known.key]
        return steps

    def forgive(self, until: int) -> None:
        """End no lease before `until`: this router slept, and renewals wait to be read."""
        for known in self._origins.values():
            known.until = max(known.until, min(until, self._forgotten_at(known)))

    # ------------------------------------------------------------ neighbours

    def hop_up(self, hop: Hop) -> list[Step]:
        """A link to a neighbour is up: announce what is known."""
        self._up[hop] = None
        steps: list[Step] = [] if self._own.head is None else [Announce(hop, self._own.head)]
        return [*steps, *(step for known in self._origins.values() for step in self._settle(known))]

    def hop_gone(self, hop: Hop, now: int) -> list[Step]:
        """The link to a neighbour is gone, and the ways through it."""
        self._up.pop(hop, None)
        self._served = {asked: answer for asked, answer in self._served.items() if asked[0] != hop}
        steps: list[Step] = []
        for known in self._origins.values():
            known.announced.pop(hop, None)
            known.heard.pop(hop, None)
            if known.asked is not None and known.asked.hop == hop:
                known.asked = None
            steps += self._lost(known, hop)
            steps += self._advance(known, now)
        return steps

    def receive_head(self, hop: Hop, head: Head, now: int) -> list[Step]:
        """A neighbour announces an aggregate."""
        if head.origin == self._own.key:
            return self._receive_own(hop, head, now)
        known = self._origins.get(head.origin, Origin(head.origin))
        try:
            self._check_date(head, now)
            if head.number <= known.heard.get(hop, -1):
                raise Refusal(
                    "AGGREGATE-REPEATED", "a neighbour announced the same aggregate again, or an earlier one"
                )
            if head.number > known.number:
                if head not in known.pending.values():
                    self._check(hop, known, head)
            elif head.number == known.number and head != known.head:
                raise BrokenCredential(
                    "CREDENTIAL-AGGREGATE", "two aggregates of one origin have the same number"
                )
        except MaiaError as problem:
            return [Refused(hop, head.origin, problem)]
        known.heard[hop] = head.number
        if head.number < known.number:
            return []  # a longer way, on which it is late
        if head.number == known.number:
            known.arrivals.append(hop)
            return self._settle(known)
        self._origins[head.origin] = known
        known.pending.pop(hop, None)
        known.pending[hop] = head
        return self._advance(known, now)

    def _check(self, hop: Hop, known: Origin, head: Head) -> None:
        if head.parts > self._limits.parts_max:
            raise Refusal(
                "AGGREGATE-TOO-LARGE",
                f"an aggregate has {head.parts} parts, and may have {self._limits.parts_max}",
            )
        self._verify(head)
        if known.key in self._origins:
            return
        # Any key can sign: what one neighbour announces of keys that proved nothing leaves room for others.
        unproved = sum(one.head is None and hop in one.pending for one in self._origins.values())
        most = self._limits.origins_max
        if len(self._origins) >= most or unproved >= max(1, most // 2):
            raise Unavailable(
                "UNAVAILABLE-MESH-FULL", f"this router keeps routes to {most} others and no more"
            )

    def _check_date(self, head: Head, now: int) -> None:
        if head.dated > now + self._limits.skew_us:
            raise Refusal(
                "AGGREGATE-FROM-FUTURE", "an aggregate is dated further ahead than clocks may differ"
            )
        if self._outdated_at(head) < now:
            raise Refusal("AGGREGATE-OUTDATED", "an aggregate is dated longer ago than it may last")

    def _receive_own(self, hop: Hop, head: Head, now: int) -> list[Step]:
        """Number the own aggregates higher than one of an earlier life that is still on its way."""
        own = self._own
        if own.head is None or head.number <= own.number:
            return []
        try:
            self._verify(head)
        except MaiaError as problem:
            return [Refused(hop, head.origin, problem)]
        digest, own.head = own.head.digest, head
        return self._publish_again(digest, now)

    def receive_withdrawal(self, hop: Hop, origin: bytes) -> list[Step]:
        """A neighbour has no way to an origin any more, or one that leads through this router."""
        known = self._origins.get(origin)
        return [] if known is None else self._lost(known, hop)

    def _lost(self, known: Origin, hop: Hop) -> list[Step]:
        if known.asked is None or known.asked.hop != hop:  # else its answer may be on the way
            known.pending.pop(hop, None)
        if hop in known.arrivals:
            known.arrivals.remove(hop)
        known.is_detour = known.is_detour or hop in known.routed
        return self._settle(known)

    # ------------------------------------------------------------ parts

    def receive_query(self, hop: Hop, origin: bytes, have: bytes, now: int) -> list[Step]:
        """A neighbour wants the parts of an aggregate that was announced to it."""
        known = self._own if origin == self._own.key else self._origins.get(origin)
        if known is None or known.head is None or known.parts is None:
            return []
        asked = (have, known.digest)
        last = self._served.get((hop, origin))
        if last is not None and last[:2] == asked and now < last[2] + self._limits.answer_us // 2:
            return []  # the answer is on its way
        self._served[hop, origin] = (*asked, now)
        if known.before is not None and known.before[0] == have != _WHOLE:
            return list(self._contents(hop, origin, *known.before))
        return list(self._contents(hop, origin, _WHOLE, tuple(known.parts.values()), ()))

    def _contents(
        self, hop: Hop, origin: bytes, base: bytes, add: tuple[bytes, ...], remove: tuple[bytes, ...]
    ) -> Iterator[Content]:
        some: list[bytes] = []
        size = 0
        for part in add:
            if some and size + len(part) > self._limits.message_bytes:
                yield Content(hop, origin, base, tuple(some), (), more=True)
                some, size = [], 0
            some.append(part)
            size += len(part)
        most = self._limits.message_bytes // 32
        for at in range(most, len(remove), most):
            yield Content(hop, origin, base, (), remove[at : at + most], more=True)
        yield Content(hop, origin, base, tuple(some), remove[:most], more=False)

    def receive_content(self, hop: Hop, content: Content, now: int) -> list[Step]:
        """A neighbour sends parts; what it was not asked for is ignored."""
        known = self._origins.get(content.origin)
        asked = None if known is None else known.asked
        if known is None or asked is None or asked.hop != hop or hop not in known.pending:
            return []
        asked.add += content.add
        asked.remove += content.remove
        asked.bytes += sum(map(len, content.add)) + 32 * len(content.remove)
        queries = (one.asked for one in self._origins.values() if one.asked is not None)
        if sum(one.bytes for one in queries if one.hop == hop) > self._limits.bytes_max:
            many = Refusal(
                "AGGREGATE-TOO-LARGE", f"an aggregate has more than {self._limits.bytes_max} bytes"
            )
            return self._give_up(known, hop, many, now)
        if content.more:
            asked.until = now + self._limits.answer_us
            return []
        head, base = known.pending[hop], (known.parts or {}) if content.base else {}
        gone = set(asked.remove)
        parts = {name: part for name, part in base.items() if name not in gone}
        parts.update((digest_of_part(part), part) for part in asked.add)
        try:
            if len(parts) != head.parts or digest_of_parts(parts) != head.digest:
                raise BrokenCredential(
                    "CREDENTIAL-AGGREGATE-ALTERED",
                    "the parts of an aggregate are not those that its origin signed",
                )
            if sum(map(len, parts.values())) > self._limits.bytes_max:
                raise Refusal(
                    "AGGREGATE-TOO-LARGE", f"an aggregate has more than {self._limits.bytes_max} bytes"
                )
            self._admit(known.key, parts, now)
        except MaiaError as problem:
            return self._give_up(known, hop, problem, now)
        known.asked = None
        return [*self._accept(known, head, parts, now), *self._advance(known, now)]

    def _give_up(self, known: Origin, hop: Hop, problem: MaiaError, now: int) -> list[Step]:
        known.asked = None
        known.pending.pop(hop, None)
        known.heard.pop(hop, None)  # what it announced is not there: it is no way
        return [Refused(hop, known.key, problem), *self._advance(known, now)]

    # ------------------------------------------------------------ one origin

    def _advance(self, known: Origin, now: int) -> list[Step]:
        """Accept the newest aggregate that was announced, or ask for its parts."""
        if not known.pending or known.asked is not None:
            return []
        if is_within(known.accepted_at, now, self._limits.pace_us):
            return []
        newest = max(head.number for head in known.pending.values())
        hop, head = next((hop, head) for hop, head in known.pending.items() if head.number == newest)
        if self._outdated_at(head) < now:
            known.pending.clear()  # it waited for too long
            return []
        if known.parts is not None and head.digest == known.digest:
            try:
                self._admit(known.key, known.parts, now)
            except MaiaError as problem:
                known.pending.clear()
                return [Refused(hop, known.key, problem)]
            return self._accept(known, head, known.parts, now)
        known.asked = _Query(hop, now + self._limits.answer_us)
        return [Ask(hop, known.key, known.digest)]

    def _accept(self, known: Origin, head: Head, parts: dict[bytes, bytes], now: int) -> list[Step]:
        is_known = known.parts is not None
        added, removed = known.take(parts)
        known.head, known.accepted_at = head, now
        known.until = min(now + self._limits.lease_us, self._forgotten_at(known))
        known.arrivals = [hop for hop, one in known.pending.items() if one.number == head.number]
        known.pending = {hop: one for hop, one in known.pending.items() if one.number > head.number}
        known.is_detour = False
        known.announced.clear()
        if is_known and not added and not removed:
            return [Renewed(known.key), *self._settle(known)]
        return [Learned(known.key, added, removed), *self._settle(known)]

    def _settle(self, known: Origin) -> list[Step]:
        """Find the way, and announce the aggregate to exactly those neighbours that are not on it."""
        hops, steps = self._way(known), list[Step]()
        head = known.head
        for hop in self._up:
            if head is None or not hops or hop in hops:
                if known.announced.get(hop):
                    known.announced[hop] = False
                    steps.append(Withdraw(hop, known.key, known.number))
            elif hop not in known.announced:
                known.announced[hop] = True
                steps.append(Announce(hop, head))
        if hops != known.routed:
            known.routed = hops
            steps.insert(0, Routed(known.key, hops))
        return steps

    def _way(self, known: Origin) -> tuple[Hop, ...]:
        if known.parts is None:
            return ()
        itself = node_id_of_key(known.key)
        if itself in self._up:
            return (itself,)
        hops = tuple(hop for hop in known.arrivals if hop in self._up)
        return hops if known.is_detour else hops[:1]

    def _forgotten_at(self, known: Origin) -> int:
        """Return from when on an aggregate is outdated, so that its number need not be remembered."""
        return 0 if known.head is None else self._outdated_at(known.head)

    def _outdated_at(self, head: Head) -> int:
        return head.dated + self._limits.lease_us + self._limits.skew_us


class ConfiguredNeighbours:
    """The addresses of neighbours, and which neighbour was found at each of them.

    A router of a mesh knows the addresses of its neighbours from its configuration and looks for no others.
    One that does not answer is dialled again and again, less often as time passes. Routers that dial this one
    are neighbours, too, and need not be configured here.
    """

    def __init__(self, addresses: Iterable[str], *, own: str) -> None:
        self._found: dict[str, Hop | None] = {address: None for address in addresses if address != own}
        self._dials = Dials(first_s=1, most_s=15, timeout_s=0, remembered=len(self._found))
        self._up: set[Hop] = set()

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the addresses at which no neighbour is linked."""
        return tuple(address for address, hop in self._found.items() if hop not in self._up)

    def dials(self, now: int) -> list[str]:
        """Return the addresses to dial now, which are under way from then on."""
        due = [address for address in self.missing if self._dials.may_begin(address, now)]
        for address in due:
            self._dials.begin(address, now)
        return due

    def linked(self, hop: Hop, *, dialled: str | None) -> None:
        """A neighbour has proved its right to connect; `dialled` is the address at which it was found."""
        self._up.add(hop)
        if dialled is not None and dialled in self._found:
            self._found[dialled] = hop
            self._dials.succeeded(dialled)

    def lost(self, hop: Hop, now: int) -> None:
        """The link to a neighbour is gone."""
        self._up.discard(hop)
        for address, found in self._found.items():
            if found == hop:
                self._dials.rest(address, now)

    def failed(self, address: str, now: int) -> None:
        """No router that may connect answered."""
        if address in self._found:
            self._dials.failed(address, now)

    def next_due(self) -> int | None:
        """Return when there is something to dial."""
        waiting = [address for address in self.missing if address not in self._dials.under_way]
        return min(map(self._dials.rests_until, waiting), default=None)
