"""What was a principal permitted, on which certificates, and from which search was that decided?

`Authorisation` is what every subscription, advertisement and link holds, and what is
decided again when evidence changes. All of it but the filter is its `Basis`: a client's
authorisations for one type share it, and there may be thousands. The chains are
searched for once (`ChainSearch`) and decide many requests: those of one client differ in
little more than their filters.

A certificate may hold only up to a rate: `rate-minute <= 600` (dissertation
6.4). `Rates` counts the events that the broker takes on, of each principal and type,
and the kernel is asked about each frame as if its events were among them. A frame that
would be too much is refused, and not counted. Counting is by whole steps of time and
never forgets an event too early.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from maia.bounded_map import BoundedMap
from maia.credentials import Action, Principal, ResourceName, SignedCertificate, Validity
from maia.credentials.encoding.certificates import pack
from maia.events import AttributeUid, Instant, PresentValue
from maia.policy import Evidence, Permit, PolicyRefusal, Reason, Request, View
from maia.policy.decide import PermittedFilters, permitted_filters
from maia.predicates import ALWAYS, Predicate
from maia.types import VerifiedType
from maia.validity import NO_ANSWERS, Once, VouchedFor

_SECOND_FACT: Final = AttributeUid("rate-second")
_MINUTE_FACT: Final = AttributeUid("rate-minute")
RATE_FACTS: Final = frozenset({_SECOND_FACT, _MINUTE_FACT})
"""Events in the last second and the last minute, with those of the frame that is asked about."""

_METERS_MAX: Final = 8192
_STEP_US: Final = 50_000
_STEPS_IN_A_SECOND: Final = 20
_STEPS_IN_A_MINUTE: Final = 60 * _STEPS_IN_A_SECOND


class _Meter:
    """Events of the last minute, by steps of time."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: deque[tuple[int, int]] = deque()

    def add(self, step: int, events: int) -> None:
        if self._steps and self._steps[-1][0] >= step:
            # A clock that was put back counts on in the step where it stood: nothing is forgotten for it.
            last, before = self._steps.pop()
            self._steps.append((last, before + events))
        else:
            self._steps.append((step, events))

    def since(self, step: int, steps: int) -> int:
        """Return the events of so many whole steps and of the one that has begun."""
        while self._steps and self._steps[0][0] < step - _STEPS_IN_A_MINUTE:
            self._steps.popleft()
        return sum(events for at, events in self._steps if at >= step - steps)


class Rates:
    """What was taken on lately, for a bounded number of publishers; the one silent for longest goes first."""

    __slots__ = ("_meters",)

    def __init__(self) -> None:
        self._meters: BoundedMap[tuple[Principal, bytes], _Meter] = BoundedMap(_METERS_MAX)

    def facts(
        self, principal: Principal, type_id: bytes, now: Instant, *, more: int
    ) -> dict[AttributeUid, PresentValue]:
        """Return the rates as they would be with so many events more."""
        meter, step = self._meters.get((principal, type_id)), now // _STEP_US
        if meter is None:
            return {_SECOND_FACT: more, _MINUTE_FACT: more}
        return {
            _SECOND_FACT: meter.since(step, _STEPS_IN_A_SECOND) + more,
            _MINUTE_FACT: meter.since(step, _STEPS_IN_A_MINUTE) + more,
        }

    def count(self, principal: Principal, type_id: bytes, now: Instant, events: int) -> None:
        """Take note of events that were taken on."""
        key = (principal, type_id)
        meter = self._meters.use(key)
        if meter is None:
            meter = _Meter()
            self._meters.put(key, meter)
        meter.add(now // _STEP_US, events)


Circumstances: TypeAlias = Mapping[AttributeUid, PresentValue]
"""What is known of a requester's link: where it was dialled from, and what its identity statement says."""
NOTHING_KNOWN: Final[Circumstances] = {}

TermsKey = tuple[Principal, Action, ResourceName, int]
"""By what terms are found again: the type by its identity."""
SearchKey = tuple[Principal, Action, ResourceName, int, frozenset[Once]]
"""What a search for chains depends on: the pool by its identity, and the one-time answers to a request."""

_PERIODS_SHARED: Final = 256
_MEMORY_OF_A_BYTE: Final = 8
"""A certificate that was read takes up to so many times the memory of its bytes."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What authorisations of one principal for one type have in common, whichever right each depends on."""

    principal: Principal
    action: Action
    resource: ResourceName
    asked_type: VerifiedType | None = field(repr=False)
    epoch: int
    around: Circumstances = field(default_factory=lambda: NOTHING_KNOWN, repr=False)
    """What its broker knows of its holder's link, for conditions that ask for it."""
    is_rated: bool = False
    """Whether a condition asks how much its holder publishes, so that each frame is asked about."""
    vouched: VouchedFor | None = field(default=None, repr=False)
    """The one-time answers that it depends on, if it does."""
    limit: Reason | None = None
    """That not all of its holder's grants were counted, if that is so."""
    is_selected: bool = False
    """Whether filters select from the View, as those of subscribers do."""


class Basis(msgspec.Struct, frozen=True, gc=False):
    """What an authorisation depends on, and what it shows: all of it but the filter."""

    terms: Terms
    pool: tuple[SignedCertificate, ...]
    """All certificates that were shown, to decide again from."""
    used: tuple[SignedCertificate, ...]
    """The certificates of the chains that were found, to show to other brokers."""
    missed: tuple[bytes, ...]
    """The ids of certificates that do not count now, and would change it if they did."""
    stable: Validity
    """The period in which the decision stays the same, unless evidence changes."""
    view: View
    """What its holder sees, whatever it selects of that."""

    def __repr__(self) -> str:
        """Show what was asked: a View holds restrictions that its holder may not read."""
        return f"Basis(terms={self.terms!r}, stable={self.stable!r})"

    def depends_on(self, certificates: Set[bytes]) -> bool:
        """Return whether it is decided again with one of these certificates."""
        for signed in self.used:
            if signed.id in certificates:
                return True
        return not certificates.isdisjoint(self.missed)


class Authorisation(msgspec.Struct, frozen=True, gc=False):
    """What the kernel permitted, to be decided again when `stable` ends or evidence changes."""

    basis: Basis
    filter: Predicate

    def __repr__(self) -> str:
        """Show what it depends on, and neither filter nor View."""
        return f"Authorisation(basis={self.basis!r})"

    @property
    def view(self) -> View:
        """Return what the holder sees of what it asks for."""
        basis = self.basis
        return replace(basis.view, interest=self.filter) if basis.terms.is_selected else basis.view

    @property
    def terms(self) -> Terms:
        """Return what it has in common with others of its holder."""
        return self.basis.terms

    @property
    def principal(self) -> Principal:
        return self.terms.principal

    @property
    def pool(self) -> tuple[SignedCertificate, ...]:
        """Return all certificates that were shown, to decide again from."""
        return self.basis.pool

    @property
    def used(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates of the chains that were found."""
        return self.basis.used

    @property
    def stable(self) -> Validity:
        """Return the period in which the decision stays the same, unless evidence changes."""
        return self.basis.stable

    @property
    def watched(self) -> tuple[bytes, ...]:
        """Return the ids of the certificates that it is decided again with: see `DependencyIndex`."""
        return (*[signed.id for signed in self.basis.used], *self.basis.missed)

    def depends_on(self, certificates: Set[bytes]) -> bool:
        """Return whether it is decided again with one of these certificates."""
        return self.basis.depends_on(certificates)

    @property
    def vouched(self) -> VouchedFor | None:
        """Return the one-time answers that it depends on, if it does."""
        return self.terms.vouched

    @property
    def event_type(self) -> VerifiedType:
        """Return the version that the holder speaks; only publishers and subscribers have one."""
        asked_type = self.terms.asked_type
        assert asked_type is not None  # noqa: S101 - a request for events names its type
        return asked_type

    @property
    def request(self) -> Request:
        """Return what was asked of the kernel, made anew: to keep it would double the authorisation."""
        asked = self.terms
        return Request(asked.principal, asked.action, asked.resource, asked.asked_type, self.filter)

    @property
    def evidence(self) -> tuple[tuple[SignedCertificate, ...], frozenset[Once]]:
        """Return what it is decided again from: one with one-time answers, from the certificates it uses."""
        vouched = self.vouched
        return (self.pool, NO_ANSWERS) if vouched is None else (self.used, vouched.once)


@dataclass(slots=True)
class ChainSearch:
    """The evidence of one search, its pool, and the period in which no certificate begins or ends."""

    pool: tuple[SignedCertificate, ...]
    evidence: Evidence
    steady: Validity
    used: tuple[SignedCertificate, ...]
    watched: tuple[bytes, ...]
    """The certificates that it changes with: those that were used, and those that do not count now."""
    asks: frozenset[AttributeUid]
    """The facts that conditions of the certificates ask for."""
    met_at: Instant
    is_doubted: bool
    """Whether there are certificates in the pool that do not count now."""
    once: frozenset[Once]
    """The one-time answers that would make certificates count that do not count now."""
    basis: Basis | None = None
    filters: PermittedFilters | None = None
    """The filters that are permitted on this basis without another decision."""
    refusal: PolicyRefusal | None = None
    """Why everything is refused, if there is no chain."""

    def authorise(
        self,
        request: Request,
        decision: Permit,
        epoch: int,
        around: Circumstances,
        vouched: VouchedFor | None,
        known: BoundedMap[TermsKey, Terms],
    ) -> Authorisation:
        """Return what was decided as an authorisation, made of parts of the ones before."""
        is_selected = decision.view.interest == request.filter
        view = replace(decision.view, interest=ALWAYS) if is_selected else decision.view
        asked = (request.principal, request.action, request.resource, id(request.event_type))
        terms = known.use(asked)
        is_rated = not RATE_FACTS.isdisjoint(self.asks)
        if (
            terms is None
            or terms.asked_type is not request.event_type
            or (terms.epoch, terms.around, terms.is_rated, terms.is_selected)
            != (epoch, around, is_rated, is_selected)
            or terms.vouched is not vouched
            or terms.limit != decision.limit
        ):
            about = request.principal, request.action, request.resource, request.event_type
            terms = Terms(*about, epoch, around, is_rated, vouched, decision.limit, is_selected)
            if request.event_type is not None:  # of rights to connect, each principal has one
                known.put(asked, terms)
        basis = self.basis
        if (
            basis is None
            or basis.terms.asked_type is not request.event_type
            or (basis.terms, basis.stable, basis.view) != (terms, decision.stable, view)
        ):
            missed = self.watched[len(self.used) :]
            basis = Basis(terms, self.pool, self.used, missed, _kept_once(decision.stable), view)
            self.basis = basis
            self.filters = permitted_filters(request, self.evidence, decision)
        return _authorisation(basis, request.filter)

    def further(
        self, request: Request, now: Instant, epoch: int, around: Circumstances
    ) -> Authorisation | None:
        """Return the right to what a client asks for besides, if the last decision answers that as well."""
        basis, filters = self.basis, self.filters
        if basis is None or filters is None or not basis.stable.contains(now):
            return None
        terms = basis.terms
        is_alike = terms.asked_type is request.event_type and terms.epoch == epoch and terms.around == around
        if not is_alike or terms.vouched is not None or request.filter not in filters:
            return None
        return _authorisation(basis, request.filter)


def _authorisation(basis: Basis, asked: Predicate) -> Authorisation:
    for window in basis.view.windows:
        if window.admits == asked:  # a filter that repeats what the right is about is kept once
            return Authorisation(basis, window.admits)
    return Authorisation(basis, asked)


@lru_cache(maxsize=_PERIODS_SHARED)
def _kept_once(period: Validity) -> Validity:
    """Return the same object for equal periods: certificates that were issued together end together."""
    return period


def memory_of(pool: tuple[SignedCertificate, ...]) -> int:
    """Return about how many bytes of memory a pool takes."""
    return _MEMORY_OF_A_BYTE * sum(len(signed.body) for signed in pool)


class ChainCache:
    """The latest searches, within a number of entries and of bytes: the pools are most of what they take.

    Searches in one pool share it, and it is counted once.
    """

    __slots__ = ("_bytes_max", "_entries", "_entries_max", "_sharing", "_watching", "bytes")

    def __init__(self, *, entries_max: int, bytes_max: int) -> None:
        """Begin with nothing; of too much, what was asked for least lately goes first."""
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self._entries: OrderedDict[SearchKey, ChainSearch] = OrderedDict()
        self._sharing: dict[int, int] = {}
        """How many entries were found in a pool, which lives while one of them does."""
        self._watching: dict[bytes, set[SearchKey]] = {}
        """The entries that depend on a certificate."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, asked: SearchKey) -> ChainSearch | None:
        return self._entries.get(asked)

    def use(self, asked: SearchKey) -> None:
        """Take note that an entry was of use."""
        self._entries.move_to_end(asked)

    def add(self, asked: SearchKey, found: ChainSearch) -> None:
        """Remember what was found, in place of what was found before."""
        self.drop(asked)
        self._entries[asked] = found
        for certificate in found.watched:
            self._watching.setdefault(certificate, set()).add(asked)
        sharing = self._sharing[id(found.pool)] = self._sharing.get(id(found.pool), 0) + 1
        self.bytes += memory_of(found.pool) if sharing == 1 else 0
        while len(self._entries) > self._entries_max or self.bytes > self._bytes_max:
            # What was decided from it may last: the certificates are kept, but hardly asked from here on.
            for signed in self.drop(next(iter(self._entries))):
                pack(signed)

    def drop(self, asked: SearchKey) -> tuple[SignedCertificate, ...]:
        """Forget an entry, if it is there; return its pool."""
        found = self._entries.pop(asked, None)
        if found is None:
            return ()
        for certificate in found.watched:
            watching = self._watching[certificate]
            watching.discard(asked)
            if not watching:
                del self._watching[certificate]
        left = self._sharing.pop(id(found.pool)) - 1
        if left:
            self._sharing[id(found.pool)] = left
        else:
            self.bytes -= memory_of(found.pool)
        return found.pool

    def forget(self, certificates: Collection[bytes]) -> None:
        """Forget what was found with one of these certificates, or without it."""
        for certificate in certificates:
            for asked in tuple(self._watching.get(certificate, ())):
                self.drop(asked)

    def clear(self) -> None:
        self._entries.clear()
        self._watching.clear()
        self._sharing.clear()
        self.bytes = 0


def certificates_of(evidence: Evidence) -> tuple[SignedCertificate, ...]:
    used = {signed.id: signed for chain in evidence.chains for signed in chain.certificates}
    return tuple(used.values())
