"""Which certificates are revoked, stale or fresh, as far as this verifier knows?

A broker, a key server, a domain, a client's wallet and a job each have one `Monitor`:

    changed = monitor.receive(statement, now)     what is answered otherwise from now on, or why it is refused
    problem = monitor.check(certificate, now)     what speaks against it, or None; asking changes nothing
    changes = monitor.advance(now)                what time alone has changed; what is over is forgotten
    monitor.next_change()                         when to advance next

It receives statements on validity, in whatever order and however often an
adversary delivers them (dissertation 6.2, 6.3). The promises:

- A certificate is refused from the moment on at which the issuer's, or the
  tester's, revocation arrives. Only what hands a root over for
  good holds whatever its issuer states later.
- A certificate that demands a statement with a period is refused at every
  moment at which no such statement holds: who is cut off stops accepting when
  the last statement says, and not a microsecond later.
- Replaying, reordering or withholding statements never makes a certificate
  valid for longer than delivering all of them in time, and a list that is
  received early gives nothing back before its period begins.
- What was over at a moment that the monitor was advanced to never counts again,
  whatever the clock says later.
- Whenever `check` answers otherwise than before, `receive` or `advance` has said so.
- Statements survive a restart (`exported`, `reloaded`).

A certificate without tests, of an issuer without statements, costs one
lookup in a dictionary. A verifier accepts only issuers that
it has a reason to accept. The room in it is bounded, and none of them can take
it all: up to an equal share each is always accepted, whatever the others state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final, Protocol, TypeAlias

from maia.credentials.certificate import OnlineTest, SignedCertificate, TestKind
from maia.credentials.chains.reduction import BrokenChain, shown_id
from maia.credentials.chains.root_handover import is_for_good
from maia.credentials.keys import Principal
from maia.credentials.statements import (
    BrokenStatement,
    CertificateNotRevalidated,
    CertificateRevoked,
    CertificateStale,
    CertificateTestedOnce,
    OneTimeAnswer,
    SignedStatement,
    StatementOld,
    check_statement,
)
from maia.errors import MaiaError
from maia.events import INSTANT_MIN, AttributeUid, Instant, PresentValue
from maia.validity.records import series_from_bytes, series_to_bytes
from maia.validity.series import (
    Hold,
    Series,
    SeriesKind,
    check_issuer,
    check_room,
    facts_at,
    kind_of_series,
    revoked_in,
    valid_in,
    whose_facts_changed,
    whose_facts_differ,
)

_FIELD: Final = "validity.online"
_EMPTY: Final = Series()
_PASSED_OVER_MAX: Final = 64
_NO_IDS: Final[frozenset[bytes]] = frozenset()

Once: TypeAlias = tuple[bytes, Principal]
"""A certificate's id, and the tester that has just confirmed it, for the request at hand."""

_Key: TypeAlias = tuple[Principal, SeriesKind]


@dataclass(frozen=True, slots=True)
class Changed:
    """What is answered otherwise than before, because of a statement or of time.

    `revoked` are certificates that `by` revokes now and did not before, or does not confirm any
    more; `restored` are the others way round; `about` are those of whom other facts are said (None: of no
    principal); `tests` are the kinds of statements of which one is at hand now and was not, or the others
    way round.
    """

    by: Principal
    is_news: bool = False
    """Whether a statement was accepted that was not known before."""
    revoked: frozenset[bytes] = _NO_IDS
    restored: frozenset[bytes] = _NO_IDS
    about: frozenset[Principal | None] = frozenset()
    tests: frozenset[TestKind] = frozenset()
    problem: BrokenStatement | None = None
    """What the issuer did wrong, for the operator to read: the change counts nevertheless."""
    refused: MaiaError | None = None
    """Why the statement counts for nothing: forged, old, or no room for it."""

    @property
    def certificates(self) -> frozenset[bytes]:
        """Return the certificates that are named, by their ids."""
        return self.revoked | self.restored

    def __bool__(self) -> bool:
        """Return whether something is to be looked at again."""
        return bool(self.is_news or self.revoked or self.restored or self.about or self.tests)

    def concerns(self, signed: SignedCertificate) -> bool:
        """Return whether `check` may answer otherwise about a certificate."""
        if signed.id in self.revoked or signed.id in self.restored:
            return True
        demanded = signed.certificate.validity.tests
        return any(test.by == self.by and test.kind in self.tests for test in demanded)


class Tester(Protocol):
    """A source of the reasons against a certificate."""

    def check(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return the reason against a certificate at `at`, or None."""


class Monitor:
    """The statements received, and what follows from them."""

    __slots__ = ("_due", "_ids_kept", "_listers", "_moments", "_seen", "_series")

    def __init__(self) -> None:
        """Begin without statements: every certificate that demands a test is refused."""
        self._series: dict[_Key, Series] = {}
        # By certificate: who lists it as revoked. The one thing that is asked for every certificate.
        self._listers: dict[bytes, tuple[Principal, ...]] = {}
        self._ids_kept = 0
        self._seen: dict[_Key, Instant] = {}  # the moment as of which changes of a series were last told
        self._due: dict[_Key, int] = {}  # when time changes a series next
        self._moments: list[tuple[int, bytes, str]] = []  # a heap of them; one that was moved is passed over

    @classmethod
    def of(cls, statements: Iterable[SignedStatement], now: Instant) -> Monitor:
        """Return what follows from these statements; those that are refused count for nothing."""
        monitor = cls()
        for signed in statements:
            monitor.receive(signed, now)
        return monitor

    # ------------------------------------------------------------ statements, and time

    def receive(self, signed: SignedStatement, now: Instant) -> Changed:
        """Take in a statement, and say what it changed; one that is forged, old or no statement is refused.

        What was known already is no news, and no error.
        """
        statement = signed.statement
        if isinstance(statement, OneTimeAnswer):
            mine = BrokenStatement(
                "STATEMENT-NOT-ASKED", "a one-time answer is for the verifier that asked, and for no other"
            )
            return Changed(statement.by, refused=mine)
        key = statement.by, kind_of_series(statement)
        before = self._series.get(key, _EMPTY)
        if before.knows(signed.id):
            return Changed(statement.by)
        try:
            check_statement(signed)
            after, problem = before.hearing(signed, now)
            check_issuer(self._series, statement.by)
            check_room(self._series, key, after, ids_kept=self._ids_kept)
        except MaiaError as refused:
            return Changed(statement.by, refused=refused)
        changed = self._moved(key, after, now)
        if isinstance(problem, StatementOld):
            return replace(changed, refused=problem)
        return replace(changed, is_news=True, problem=problem)

    def advance(self, now: Instant) -> list[Changed]:
        """Forget for good what is over by `now`, and return what that, or what has begun, changed."""
        changes: list[Changed] = []
        while self._moments and self._moments[0][0] <= now:
            moment, by, kind = heappop(self._moments)
            key = Principal(by), SeriesKind(kind)
            if self._due.get(key) == moment:
                changed = self._moved(key, self._series[key].aged(now), now)
                changes += [changed] if changed else []
        return changes

    def next_change(self) -> Instant | None:
        """Return when `advance` has something to do, if no statement arrives before."""
        return Instant(self._moments[0][0]) if self._moments else None

    def _moved(self, key: _Key, after: Series, now: Instant) -> Changed:
        """Keep a series as it is now, plan when to look at it again, and return what has changed."""
        before, seen = self._series.get(key, _EMPTY), self._seen.get(key, now)
        if after is not before:
            self._keep(key, after)
        self._seen[key] = now
        self._plan(key, after.changes_after(now))
        (by, kind), held, holds = key, before.holding(seen), after.holding(now)
        tests = {_TIMED[kind]} if kind in _TIMED and (held is None) != (holds is None) else set[TestKind]()
        match kind:
            case SeriesKind.LISTS:
                tests |= {TestKind.CRL} if not before.said else set()
                old, new = revoked_in(before), revoked_in(after)
                revoked, restored = new - old, old - new
            case SeriesKind.REVALIDATIONS:
                old, new = _confirmed(before, held), _confirmed(after, holds)
                revoked, restored = old - new, new - old
            case SeriesKind.FACTS:
                about = whose_facts_changed(before, after) | whose_facts_differ(before, held, after, holds)
                return Changed(by, about=about)
        return Changed(by, revoked=revoked, restored=restored, tests=frozenset(tests))

    def _plan(self, key: _Key, moment: int | None) -> None:
        if moment is None:
            self._due.pop(key, None)
        elif self._due.get(key) != moment:
            self._due[key] = moment
            heappush(self._moments, (moment, key[0].key, key[1].value))
        if len(self._moments) > 2 * len(self._due) + _PASSED_OVER_MAX:
            self._moments = sorted((due, by.key, kind.value) for (by, kind), due in self._due.items())

    def _keep(self, key: _Key, series: Series) -> None:
        before = self._series.get(key, _EMPTY)
        self._ids_kept += series.weight() - before.weight()
        self._series[key] = series
        by, kind = key
        if kind is SeriesKind.LISTS and series.said is not before.said:
            old, new = revoked_in(before), revoked_in(series)
            self._list(by, added=new - old, removed=old - new)

    def _list(self, by: Principal, *, added: Iterable[bytes], removed: Iterable[bytes]) -> None:
        for identifier in added:
            self._listers[identifier] = (*self._listers.get(identifier, ()), by)
        for identifier in removed:
            left = tuple(one for one in self._listers[identifier] if one != by)
            if left:
                self._listers[identifier] = left
            else:
                del self._listers[identifier]

    # ------------------------------------------------------------ asking, which changes nothing

    def check(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return the reason against a certificate at `at`, or None.

        `once` are the certificates that were confirmed for this request.
        """
        listers = self._listers.get(signed.id)
        certificate = signed.certificate
        tests = certificate.validity.tests
        if listers is None and not tests:
            return None
        if not tests and is_for_good(certificate):
            return None  # a hand-over for good cannot be revoked
        if listers is not None:
            for one in (certificate.issuer, *(test.by for test in tests)):
                # Its list may have ended since, and the next one may no longer name the certificate.
                if one in listers and self._series[one, SeriesKind.LISTS].revokes(signed.id, at):
                    return _revoked(signed, one)
        for test in tests:
            problem = self._failure(test, signed, at, once)
            if problem is not None:
                return problem
        return None

    def at_hand(self, by: Principal, at: Instant) -> frozenset[TestKind]:
        """Return for which tests a statement of `by` is at hand at `at`."""
        timed = {kind for series, kind in _TIMED.items() if self._holding(by, series, at) is not None}
        return frozenset({TestKind.CRL, *timed} if self.sequence_of(by) else timed)

    def fresh_until(self, by: Principal, at: Instant, kind: TestKind = TestKind.TIMED_CRL) -> Instant | None:
        """Return the last moment of the statements of `by` that hold from `at` on without a gap.

        None if none holds at `at`.
        """
        series = SeriesKind.REVALIDATIONS if kind is TestKind.REVALIDATION else SeriesKind.LISTS
        return self._series.get((by, series), _EMPTY).fresh_until(at)

    def steady_until(self, certificates: Iterable[SignedCertificate], at: Instant) -> Instant | None:
        """Return the last moment before time alone makes one of these stale, or good again; None for never.

        One-time answers are for the verifier that has them.
        """
        ends: list[Instant] = []
        for signed in certificates:
            if self.check(signed, at, once=one_time_tests(signed)) is not None:
                ends += [Instant(start - 1) for by in speakers(signed) for start in self._starts(by, at)]
                continue
            for test in signed.certificate.validity.tests:
                if test.kind in _TIMED.values():
                    ends.append(self.fresh_until(test.by, at, test.kind) or at)
        return min(ends, default=None)

    def facts_about(self, whom: Principal, at: Instant) -> dict[Principal, dict[AttributeUid, PresentValue]]:
        """Return the facts about `whom`, and about no principal, at `at` by issuer.

        Which issuer counts is decided elsewhere.
        """
        found: dict[Principal, dict[AttributeUid, PresentValue]] = {}
        for (by, kind), series in self._series.items():
            hold = series.holding(at) if kind is SeriesKind.FACTS else None
            if hold is not None and (facts := _facts_of(whom, series, hold)):
                found[by] = facts
        return found

    def facts_until(self, whom: Principal, at: Instant) -> Instant | None:
        """Return the last moment up to which all that is said of `whom` at `at` is said without a gap."""
        ends = (
            _said_until(whom, facts, self._series[by, SeriesKind.FACTS], at)
            for by, facts in self.facts_about(whom, at).items()
        )
        return min((end for end in ends if end is not None), default=None)

    def revoked_by(self, by: Principal) -> frozenset[bytes]:
        """Return what `by` revokes, by the list of the moment that this was advanced to, or a newer one."""
        return revoked_in(self._series.get((by, SeriesKind.LISTS), _EMPTY))

    def sequence_of(self, by: Principal, kind: SeriesKind = SeriesKind.LISTS) -> int:
        """Return the highest number received from `by`; 0 before the first."""
        return self._series.get((by, kind), _EMPTY).sequence

    def statements(self, by: Principal, at: Instant) -> tuple[SignedStatement, ...]:
        """Return what tells a newcomer all that is known of `by` at `at`, in the order of the numbers."""
        held = (self._series.get((by, kind)) for kind in SeriesKind)
        return tuple(one for series in held if series is not None for one in series.aged(at).statements())

    def __contains__(self, by: Principal) -> bool:
        """Return whether a statement of `by` was received."""
        return any((by, kind) in self._series for kind in SeriesKind)

    def __iter__(self) -> Iterator[Principal]:
        """Yield the issuers with statements."""
        return iter({by for by, _ in self._series})

    def _starts(self, by: Principal, at: Instant) -> list[Instant]:
        """Return the moments after `at` at which periods begin that `by` has stated in advance."""
        held = (self._series.get((by, kind)) for kind in SeriesKind)
        return [start for series in held if series is not None for start in series.aged(at).starts_after(at)]

    def _failure(
        self, test: OnlineTest, signed: SignedCertificate, at: Instant, once: Collection[Once]
    ) -> BrokenChain | None:
        match test.kind:
            case TestKind.FOLLOWED_CRL:
                return None  # what the newest list says of it, was asked before
            case TestKind.CRL:
                heard = (test.by, SeriesKind.LISTS) in self._series
                return None if heard else _stale(signed, test)
            case TestKind.TIMED_CRL:
                return None if self._holding(test.by, SeriesKind.LISTS, at) else _stale(signed, test)
            case TestKind.REVALIDATION:
                hold = self._holding(test.by, SeriesKind.REVALIDATIONS, at)
                if hold is None:
                    return _stale(signed, test)
                series = self._series[test.by, SeriesKind.REVALIDATIONS]
                return None if signed.id in _confirmed(series, hold) else _not_confirmed(signed, test)
            case TestKind.ONE_TIME:
                return None if (signed.id, test.by) in once else _not_asked(signed, test)

    def _holding(self, by: Principal, kind: SeriesKind, at: Instant) -> Hold | None:
        return self._series.get((by, kind), _EMPTY).holding(at)

    # ------------------------------------------------------------ copies, and surviving a restart

    def copy(self) -> Monitor:
        """Return a monitor that knows the same, and receives nothing from now on but by itself."""
        other = Monitor()
        other._series, other._listers = dict(self._series), dict(self._listers)
        other._seen, other._due, other._moments = dict(self._seen), dict(self._due), list(self._moments)
        other._ids_kept = self._ids_kept
        return other

    def exported(self, by: Principal | None = None) -> tuple[bytes, ...]:
        """Return the records, of `by` or of all issuers, one for each series."""
        return tuple(
            series_to_bytes(kind, series)
            for (who, kind), series in self._series.items()
            if by is None or who == by
        )

    @classmethod
    def reloaded(cls, records: Iterable[bytes]) -> Monitor:
        """Return a monitor that goes on where the exported one stood; every signature is checked again.

        A record that cannot be read is an error: to leave it out would be to go back. What changes is told
        from the first `advance` on.
        """
        monitor = cls()
        for kind, series in map(series_from_bytes, records):
            key = series.newest[0].statement.by, kind
            # There was room for all of it once, in the order in which it arrived.
            check_issuer(monitor._series, key[0])
            monitor._keep(key, series)
            monitor._plan(key, INSTANT_MIN)
        return monitor


_TIMED: Final = {
    SeriesKind.LISTS: TestKind.TIMED_CRL,
    SeriesKind.REVALIDATIONS: TestKind.REVALIDATION,
}
"""The tests that a statement passes while it holds."""


def _confirmed(series: Series, hold: Hold | None) -> frozenset[bytes]:
    """Return what is confirmed in a period; the newest word counts at once, also before its own period."""
    newest = valid_in(series.newest)
    return newest if hold is None else newest & valid_in(hold.sources)


def _facts_of(whom: Principal, series: Series, hold: Hold) -> dict[AttributeUid, PresentValue]:
    """Return the facts about a principal, and about none, during a period; its own decide over the others."""
    facts = facts_at(series, hold)
    common = {AttributeUid(name): said for (about, name), said in facts.items() if about is None}
    return common | {AttributeUid(name): said for (about, name), said in facts.items() if about == whom}


def _said_until(
    whom: Principal, facts: Mapping[AttributeUid, PresentValue], series: Series, at: Instant
) -> Instant | None:
    """Return the last moment up to which just these facts hold of a principal, period after period."""
    last: Instant | None = None
    for hold in series.holds:
        admit = last is not None and hold.since == last + 1 and _is_same(whom, facts, series, hold)
        if hold.since <= at <= hold.until or admit:
            last = hold.until
    return last


def _is_same(whom: Principal, facts: Mapping[AttributeUid, PresentValue], series: Series, hold: Hold) -> bool:
    said = _facts_of(whom, series, hold)
    # Python takes 1, 1.0 and True for equal, and here they are three different facts.
    return said == facts and all(type(said[name]) is type(value) for name, value in facts.items())


@dataclass(frozen=True, slots=True)
class AsOf:
    """What is known `now`, as the answer about every moment; only reasons of these `kinds` count.

    Whether a certificate is revoked or stale is a question about the present, also where a right of the
    past is asked about.
    """

    tester: Tester
    now: Instant
    once: Collection[Once] = ()
    kinds: tuple[type[BrokenChain], ...] = (BrokenChain,)

    def check(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return what speaks against a certificate now."""
        problem = self.tester.check(signed, self.now, once=(*self.once, *once))
        return problem if isinstance(problem, self.kinds) else None


class _AssumedGood:
    """For those who choose certificates and do not enforce anything: a client, a tool that explains."""

    __slots__ = ()

    def check(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Find nothing: the enforcing node checks again."""
        return None


ASSUMED_GOOD: Final[Tester] = _AssumedGood()
"""Says of every certificate that its tests would be passed. Never for a verifier."""


def _revoked(signed: SignedCertificate, by: Principal) -> CertificateRevoked:
    return CertificateRevoked(
        f"certificate {shown_id(signed.id)} was revoked by `{by}`", certificate=signed.id, field=_FIELD
    )


def _stale(signed: SignedCertificate, test: OnlineTest) -> CertificateStale:
    return CertificateStale(
        f"certificate {shown_id(signed.id)} demands a {test.kind.value} by `{test.by}`, "
        f"and none that holds at this moment is known",
        certificate=signed.id,
        field=_FIELD,
    )


def _not_confirmed(signed: SignedCertificate, test: OnlineTest) -> CertificateNotRevalidated:
    return CertificateNotRevalidated(
        f"`{test.by}` does not name certificate {shown_id(signed.id)} among those still valid",
        certificate=signed.id,
        field=_FIELD,
    )


def _not_asked(signed: SignedCertificate, test: OnlineTest) -> CertificateTestedOnce:
    return CertificateTestedOnce(
        f"certificate {shown_id(signed.id)} demands that `{test.by}` is asked for each request",
        certificate=signed.id,
        field=_FIELD,
    )


def lacking(
    tester: Tester, certificates: Iterable[SignedCertificate], at: Instant
) -> tuple[SignedCertificate, ...]:
    """Return the certificates that a newer statement may make good; one-time answers come with a request."""
    mended = (CertificateStale, CertificateNotRevalidated)
    return tuple(
        one for one in certificates if isinstance(tester.check(one, at, once=one_time_tests(one)), mended)
    )


def one_time_tests(signed: SignedCertificate) -> frozenset[Once]:
    """Return the testers that must confirm a certificate anew for each request."""
    tests = signed.certificate.validity.tests
    return frozenset([(signed.id, test.by) for test in tests if test.kind is TestKind.ONE_TIME])


def named_testers(certificates: Iterable[SignedCertificate]) -> frozenset[Principal]:
    """Return whose statements some of these certificates demand."""
    return frozenset(
        test.by
        for signed in certificates
        for test in signed.certificate.validity.tests
        if test.kind is not TestKind.FOLLOWED_CRL
    )


def speakers(signed: SignedCertificate) -> frozenset[Principal]:
    """Return who may say that a certificate does not count any more: its issuer and its testers."""
    tests = signed.certificate.validity.tests
    return frozenset({signed.certificate.issuer, *(test.by for test in tests)})
