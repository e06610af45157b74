"""Which certificates are revoked, stale or fresh, as far as this verifier knows?

A broker, a domain server or a job has one `ValidityState`. It receives statements on
validity, in whatever order and however often an adversary delivers them, and
says of each certificate whether it is refused at a moment
(dissertation 6.2, 6.3). The promises:

- A certificate is refused from the moment on at which the issuer's, or the
  tester's, revocation arrives. Only what hands a root over for
  good holds whatever its issuer states later.
- A certificate that demands a statement with a period is refused at every
  moment at which no such statement holds: who is cut off stops accepting when
  the last statement says, and not a microsecond later.
- Replaying, reordering or withholding statements never makes a certificate
  valid for longer than delivering all of them in time, and a list that is
  received early gives nothing back before its period begins.
- Statements survive a restart (`exported`, `reloaded`).

A certificate without tests, of an issuer without statements, costs one
lookup in a dictionary. A verifier accepts only issuers that
it has a reason to accept. The room in it is bounded, and none of them can take
it all: up to an equal share each is always accepted, whatever the others state.

How do received statements survive a restart?

    (heard SERIES (spent MICROSECONDS) (statements SIGNED ...) (newest ID ...)
      (hold SINCE UNTIL ID ...)*)

One record holds one series. The verifier writes each before it
acts on the statement, and reads all of them before it decides anything. The
statements inside are as they were signed, and are checked again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from maia.canonical import Limits, SExpression, read_canonical, write_canonical
from maia.credentials.certificate import OnlineTest, SignedCertificate, TestKind
from maia.credentials.chains.reduction import BrokenChain, shown_id
from maia.credentials.chains.root_handover import is_for_good
from maia.credentials.keys import Principal
from maia.credentials.validity.series import (
    HOLDS_MAX,
    SAID_MAX,
    SOURCES_MAX,
    Hold,
    Numbered,
    Series,
    SeriesKind,
    check_issuer,
    check_room,
    facts_at,
    kind_of_series,
    numbered,
    revoked_in,
    valid_in,
    whose_facts_changed,
)
from maia.credentials.validity.statements import (
    STATEMENT_BYTES_MAX,
    AnswerNotAsked,
    BadStatement,
    BrokenStatement,
    CertificateNotRevalidated,
    CertificateRevoked,
    CertificateStale,
    CertificateTestedOnce,
    OneTimeAnswer,
    SignedStatement,
    StatementOld,
    check_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.errors import BadInput
from maia.events import AttributeUid, Instant, PresentValue

_STATEMENTS_MAX: Final = HOLDS_MAX * SOURCES_MAX + SAID_MAX
_LIMITS: Final = Limits(
    size_max=_STATEMENTS_MAX * STATEMENT_BYTES_MAX, depth_max=4, atom_max=STATEMENT_BYTES_MAX
)
_KINDS: Final = {kind.value.encode(): kind for kind in SeriesKind}
_NUMBER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")


def series_to_bytes(kind: SeriesKind, series: Series) -> bytes:
    """Return the record of a series."""
    return write_canonical(
        (
            b"heard",
            kind.value.encode(),
            (b"spent", b"%d" % series.spent),
            (b"statements", *map(statement_to_bytes, series.statements())),
            (b"newest", *(signed.id for signed in series.said)),
            *(_hold_to_expression(hold) for hold in series.holds),
        )
    )


def series_from_bytes(record: bytes) -> tuple[SeriesKind, Series]:
    """Read a record; every statement in it is read and checked as strictly as when it arrived."""
    try:
        expression = read_canonical(record, _LIMITS)
    except BadInput as problem:
        raise BadStatement(f"a record of statements cannot be read: {problem.message}") from problem
    match expression:
        case (
            b"heard",
            bytes(word),
            (b"spent", number),
            (b"statements", *data),
            (b"newest", *ids),
            *holds,
        ) if word in _KINDS and ids:
            known = {signed.id: signed for signed in map(_statement, data)}
            series = Series(_named(ids, known), tuple(_hold(hold, known) for hold in holds), _number(number))
            return _KINDS[word], _checked(series, _KINDS[word])
    raise BadStatement("a record of statements is not written as it must be")


def _hold_to_expression(hold: Hold) -> SExpression:
    return (b"hold", b"%d" % hold.since, b"%d" % hold.until, *(signed.id for signed in hold.sources))


def _statement(expression: SExpression) -> SignedStatement:
    if not isinstance(expression, bytes):
        raise BadStatement("a record holds statements as they were signed")
    signed = statement_from_bytes(expression)
    check_statement(signed)
    return signed


def _named(ids: Sequence[SExpression], known: dict[bytes, SignedStatement]) -> tuple[SignedStatement, ...]:
    found = [known.get(identifier) for identifier in ids if isinstance(identifier, bytes)]
    if len(found) != len(ids) or None in found:
        raise BadStatement("a record names a statement that it does not hold")
    return tuple(signed for signed in found if signed is not None)


def _hold(expression: SExpression, known: dict[bytes, SignedStatement]) -> Hold:
    match expression:
        case (b"hold", since, until, *ids) if ids:
            return Hold(Instant(_number(since)), Instant(_number(until)), _named(ids, known))
    raise BadStatement("a record of statements is not written as it must be")


def _number(expression: SExpression) -> int:
    if not isinstance(expression, bytes) or not _NUMBER.fullmatch(expression):
        raise BadStatement("a record has a number that is none")
    return int(expression)


def _checked(series: Series, kind: SeriesKind) -> Series:
    """Refuse a record that mixes issuers, kinds or numbers, or that holds more than was ever said."""
    held = series.statements()
    if any(isinstance(signed.statement, OneTimeAnswer) for signed in held):
        raise BadStatement("a record holds a one-time answer")
    if {kind_of_series(numbered(signed)) for signed in held} != {kind}:
        raise BadStatement("a record mixes kinds of statements")
    said = [numbered(signed).sequence for signed in series.said]
    in_order = said == sorted(said) and len(said) <= SAID_MAX
    is_newest = in_order and said[-1] == numbered(held[-1]).sequence
    if len({signed.statement.by for signed in held}) != 1 or not is_newest:
        raise BadStatement("a record mixes issuers, or its newest statement is not the newest")
    in_order = all(one.until < other.since for one, other in pairwise(series.holds))
    if not in_order or not all(map(_was_said, series.holds)):
        raise BadStatement("a record holds a period that no statement in it has")
    return series


def _was_said(hold: Hold) -> bool:
    """Say whether each source of a period holds all the while."""
    periods = [numbered(signed).period for signed in hold.sources]
    said = [
        one for one in periods if one is not None and one.contains(hold.since) and one.contains(hold.until)
    ]
    return hold.since <= hold.until and len(said) == len(periods)


_FIELD: Final = "validity.online"
_EMPTY: Final = Series()
_NOTHING: Final[frozenset[bytes]] = frozenset()

Once = tuple[bytes, Principal]
"""A certificate's id, and the tester that has just confirmed it, for the request at hand."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a statement changed for this verifier.

    `revoked` are the certificates that `by` revokes from now on and did
    not before; `restored` are the others way round; `about` are those of whom
    other facts are said. `problem` is what the issuer did wrong, for the
    operator to read: the change counts nevertheless.
    """

    by: Principal
    is_news: bool
    revoked: frozenset[bytes] = _NOTHING
    restored: frozenset[bytes] = _NOTHING
    about: frozenset[Principal] = frozenset()
    problem: BrokenStatement | None = None


class Tester(Protocol):
    """A source of the reasons against a certificate."""

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return the reason against a certificate at `at`, or None."""


class Witness(Tester, Protocol):
    """A tester that also says for how long its answers hold, and can show the statements behind them."""

    def stale_after(self, certificates: Iterable[SignedCertificate], at: Instant) -> Instant | None:
        """Return the last moment at which none of these is stale, if no more statements arrive."""

    def statements(self, by: Principal, at: Instant) -> tuple[SignedStatement, ...]:
        """Return what tells a newcomer all that is known of `by` at `at`."""


class ValidityState:
    """The statements received, and what follows from them."""

    __slots__ = ("_ids_kept", "_listers", "_series")

    def __init__(self) -> None:
        """Begin without statements: every certificate that demands a test is refused."""
        self._series: dict[tuple[Principal, SeriesKind], Series] = {}
        # By certificate: who lists it as revoked. The one thing that is asked for every certificate.
        self._listers: dict[bytes, tuple[Principal, ...]] = {}
        self._ids_kept = 0

    # ------------------------------------------------------------ hearing

    def hear(self, signed: SignedStatement, now: Instant) -> Heard:
        """Take in a statement and say what it changed; refuse one that is forged, old or no statement.

        What was known already is no news, and no error.
        """
        statement = signed.statement
        if isinstance(statement, OneTimeAnswer):
            raise AnswerNotAsked("a one-time answer is for the verifier that asked, and for no other")
        key = statement.by, kind_of_series(statement)
        before = self._series.get(key, _EMPTY)
        if before.knows(signed.id):
            return Heard(statement.by, is_news=False)
        check_statement(signed)
        after, problem = before.hearing(signed, now)
        check_issuer(self._series, statement.by)
        check_room(self._series, key, after, ids_kept=self._ids_kept)
        self._keep(key, after)
        if isinstance(problem, StatementOld):
            raise problem
        return self._what_changed(statement, before, after, problem)

    def _what_changed(
        self, statement: Numbered, before: Series, after: Series, problem: BrokenStatement | None
    ) -> Heard:
        by = statement.by
        match kind_of_series(statement):
            case SeriesKind.LISTS:
                old, new = revoked_in(before), revoked_in(after)
                return Heard(by, True, revoked=new - old, restored=old - new, problem=problem)
            case SeriesKind.REVALIDATIONS:
                old, new = valid_in(before.newest), valid_in(after.newest)
                return Heard(by, True, revoked=old - new, restored=new - old, problem=problem)
            case SeriesKind.FACTS:
                return Heard(by, True, about=whose_facts_changed(before, after), problem=problem)

    def _list(self, by: Principal, *, added: Iterable[bytes], removed: Iterable[bytes]) -> None:
        for identifier in added:
            self._listers[identifier] = (*self._listers.get(identifier, ()), by)
        for identifier in removed:
            left = tuple(one for one in self._listers[identifier] if one != by)
            if left:
                self._listers[identifier] = left
            else:
                del self._listers[identifier]

    def _keep(self, key: tuple[Principal, SeriesKind], series: Series) -> None:
        before = self._series.get(key, _EMPTY)
        self._ids_kept += series.weight() - before.weight()
        self._series[key] = series
        by, kind = key
        if kind is SeriesKind.LISTS and series.said is not before.said:
            old, new = revoked_in(before), revoked_in(series)
            self._list(by, added=new - old, removed=old - new)

    # ------------------------------------------------------------ asking

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return the reason against a certificate at `at`, or None.

        `at` is the present: a period that is over at `at` never counts again.
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
                if one in listers and signed.id in revoked_in(self._aged((one, SeriesKind.LISTS), at)):
                    return _revoked(signed, one)
        for test in tests:
            problem = self._failure(test, signed, at, once)
            if problem is not None:
                return problem
        return None

    def fresh_until(self, by: Principal, at: Instant, kind: TestKind = TestKind.TIMED_CRL) -> Instant | None:
        """Return the last moment of the statements of `by` that hold from `at` on without a gap.

        None if none holds at `at`.
        """
        series = SeriesKind.REVALIDATIONS if kind is TestKind.REVALIDATION else SeriesKind.LISTS
        return self._series.get((by, series), _EMPTY).fresh_until(at)

    def stale_after(self, certificates: Iterable[SignedCertificate], at: Instant) -> Instant | None:
        """Return the last moment at which none of these is stale, if no more statements arrive.

        None if time alone makes none of them stale. For certificates that have no problem at `at`.
        """
        timed = (TestKind.TIMED_CRL, TestKind.REVALIDATION)
        tests = {test for signed in certificates for test in signed.certificate.validity.tests}
        ends = [self.fresh_until(test.by, at, test.kind) or at for test in tests if test.kind in timed]
        return min(ends, default=None)

    def facts_about(self, whom: Principal, at: Instant) -> dict[Principal, dict[AttributeUid, PresentValue]]:
        """Return the facts about `whom` at `at` by issuer; which issuer counts is decided elsewhere."""
        found: dict[Principal, dict[AttributeUid, PresentValue]] = {}
        for by, kind in list(self._series):
            series = self._aged((by, kind), at) if kind is SeriesKind.FACTS else _EMPTY
            hold = series.holding(at)
            if hold is not None:
                found[by] = _facts_of(whom, series, hold)
        return {by: facts for by, facts in found.items() if facts}

    def facts_until(self, whom: Principal, at: Instant) -> Instant | None:
        """Return the last moment up to which all that is said of `whom` at `at` is said without a gap."""
        ends = (
            _said_until(whom, facts, self._series[by, SeriesKind.FACTS], at)
            for by, facts in self.facts_about(whom, at).items()
        )
        return min((end for end in ends if end is not None), default=None)

    def revoked_by(self, by: Principal) -> frozenset[bytes]:
        """Return what `by` revokes, by the list of the last moment that was asked for or a newer one."""
        return revoked_in(self._series.get((by, SeriesKind.LISTS), _EMPTY))

    def sequence_of(self, by: Principal, kind: SeriesKind = SeriesKind.LISTS) -> int:
        """Return the highest number received from `by`; 0 before the first."""
        return self._series.get((by, kind), _EMPTY).sequence

    def statements(self, by: Principal, at: Instant) -> tuple[SignedStatement, ...]:
        """Return what tells a newcomer all that is known of `by` at `at`, in the order of the numbers."""
        held = (self._series.get((by, kind)) for kind in SeriesKind)
        return tuple(one for series in held if series is not None for one in series.aged(at).statements())

    def starts_after(self, by: Principal, at: Instant) -> list[Instant]:
        """Return the moments after `at` at which periods begin that `by` has stated in advance."""
        held = (self._series.get((by, kind)) for kind in SeriesKind)
        return [start for series in held if series is not None for start in series.aged(at).starts_after(at)]

    @staticmethod
    def testers(certificates: Iterable[SignedCertificate]) -> frozenset[Principal]:
        """Return whose statements some of these certificates demand."""
        return frozenset(test.by for signed in certificates for test in signed.certificate.validity.tests)

    def _failure(
        self, test: OnlineTest, signed: SignedCertificate, at: Instant, once: Collection[Once]
    ) -> BrokenChain | None:
        match test.kind:
            case TestKind.CRL:
                heard = (test.by, SeriesKind.LISTS) in self._series
                return None if heard else _stale(signed, test)
            case TestKind.TIMED_CRL:
                return None if self._holding(test.by, SeriesKind.LISTS, at) else _stale(signed, test)
            case TestKind.REVALIDATION:
                return self._not_revalidated(test, signed, at)
            case TestKind.ONE_TIME:
                return None if (signed.id, test.by) in once else _not_asked(signed, test)

    def _not_revalidated(
        self, test: OnlineTest, signed: SignedCertificate, at: Instant
    ) -> BrokenChain | None:
        hold = self._holding(test.by, SeriesKind.REVALIDATIONS, at)
        if hold is None:
            return _stale(signed, test)
        # The newest word counts at once, also where it came before its period.
        newest = self._series[test.by, SeriesKind.REVALIDATIONS].newest
        if signed.id in valid_in(hold.sources) and signed.id in valid_in(newest):
            return None
        return CertificateNotRevalidated(
            f"`{test.by}` does not name certificate {shown_id(signed.id)} among those still valid",
            certificate=signed.id,
            field=_FIELD,
        )

    def _holding(self, by: Principal, kind: SeriesKind, at: Instant) -> Hold | None:
        return self._aged((by, kind), at).holding(at)

    def _aged(self, key: tuple[Principal, SeriesKind], at: Instant) -> Series:
        """Return a series as of `at`, and forget for good what was over by then."""
        series = self._series.get(key)
        if series is None:
            return _EMPTY
        aged = series.aged(at)
        if aged is not series:
            self._keep(key, aged)
        return aged

    # ------------------------------------------------------------ surviving a restart

    def exported(self, by: Principal | None = None) -> tuple[bytes, ...]:
        """Return the records, of `by` or of all issuers, one for each series."""
        return tuple(
            series_to_bytes(kind, series)
            for (who, kind), series in self._series.items()
            if by is None or who == by
        )

    @classmethod
    def reloaded(cls, records: Iterable[bytes]) -> ValidityState:
        """Return a Standing that goes on where the exported one stood; every signature is checked again.

        A record that cannot be read is an error: to leave it out would be to go back.
        """
        standing = cls()
        for record in records:
            kind, series = series_from_bytes(record)
            key = series.newest[0].statement.by, kind
            # There was room for all of it once, in the order in which it arrived.
            check_issuer(standing._series, key[0])
            standing._keep(key, series)
        return standing

    def __iter__(self) -> Iterator[Principal]:
        """Yield the issuers with statements."""
        return iter({by for by, _ in self._series})


def _facts_of(whom: Principal, series: Series, hold: Hold) -> dict[AttributeUid, PresentValue]:
    """Return the facts about a principal during a period."""
    facts = facts_at(series, hold)
    return {AttributeUid(name): said for (about, name), said in facts.items() if about == whom}


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


class _AssumedGood:
    """For those who choose certificates and do not enforce anything: a client, a tool that explains."""

    __slots__ = ()

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Find nothing: the enforcing node checks again."""
        return None

    def stale_after(self, certificates: Iterable[SignedCertificate], at: Instant) -> Instant | None:
        """Expect nothing to become stale."""
        return None

    def statements(self, by: Principal, at: Instant) -> tuple[SignedStatement, ...]:
        """Have nothing to show."""
        return ()


ASSUMED_GOOD: Final[Witness] = _AssumedGood()
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


def _not_asked(signed: SignedCertificate, test: OnlineTest) -> CertificateTestedOnce:
    return CertificateTestedOnce(
        f"certificate {shown_id(signed.id)} demands that `{test.by}` is asked for each request",
        certificate=signed.id,
        field=_FIELD,
    )


def one_time_tests(signed: SignedCertificate) -> frozenset[Once]:
    """Return the testers that must confirm a certificate anew for each request."""
    tests = signed.certificate.validity.tests
    return frozenset([(signed.id, test.by) for test in tests if test.kind is TestKind.ONE_TIME])
