"""Which statements of one issuer does a verifier go by?

All statements of one kind by one issuer share one numbering, and form a
series. The rules are those that make the SPKI tests deterministic
(dissertation 6.2.3), and every verifier with the same statements comes
to the same answer:

- The highest number is the newest word, at once, whether its period has begun
  or not. Numbers never go back.
- What a list revokes stays revoked until the period of a newer one has begun:
  the list of the moment decides, and newer ones count as far as they revoke.
  So a verifier with more lists is never the more permissive one.
- A period counts if it overlaps no other. Where two overlap, the one that was
  received first stays and the other counts for nothing: an issuer that breaks the
  rule can shorten rights by it, and never extend them.
- A period that was once seen to be over never counts again, whatever the
  verifier's clock says later.
- Two different statements with one number: what both state holds, and no other
  period but the common part.
- A statement that comes late adds its period. Its content counts only where
  it is a list, and none that is newer has begun.

Facts are not of SPKI, and must be able to change at once: there a newer
period cuts an older one short, and what the newest list does not say holds no
more, whatever the verifier's clock says of its period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from typing import Final, TypeAlias

from maia.credentials.keys import Principal
from maia.credentials.statements import (
    About,
    BrokenStatement,
    FactList,
    Revalidation,
    RevocationList,
    SignedStatement,
    StatedFacts,
    StatementOld,
)
from maia.errors import Unavailable
from maia.events import INSTANT_MIN, Instant, PresentValue

HOLDS_MAX: Final = 64
"""How many periods of one issuer are kept at a time: the present one, and those to come."""

SOURCES_MAX: Final = 8
"""How many contradictions with one number are kept."""

SAID_MAX: Final = HOLDS_MAX + SOURCES_MAX
"""How many lists are kept for what they revoke: the one of the moment, and those to come."""

EARLY_MAX: Final = 24 * 3600 * 1_000_000
"""How many microseconds before it begins a period is kept."""

Numbered: TypeAlias = RevocationList | Revalidation | FactList
"""A statement with a number and, mostly, a period."""


class SeriesKind(Enum):
    """What a series of statements is about."""

    LISTS = "lists"
    REVALIDATIONS = "revalidations"
    FACTS = "facts"


_KINDS: Final[dict[type[Numbered], SeriesKind]] = {
    RevocationList: SeriesKind.LISTS,
    Revalidation: SeriesKind.REVALIDATIONS,
    FactList: SeriesKind.FACTS,
}


def kind_of_series(statement: Numbered) -> SeriesKind:
    """Return the numbering that a statement belongs to."""
    return _KINDS[type(statement)]


def numbered(signed: SignedStatement) -> Numbered:
    """Return what a statement of a series says."""
    statement = signed.statement
    assert isinstance(statement, RevocationList | Revalidation | FactList)  # noqa: S101 - nothing else gets in
    return statement


@dataclass(frozen=True, slots=True)
class Hold:
    """From `since` to `until`, both included, what all of `sources` say holds."""

    since: Instant
    until: Instant
    sources: tuple[SignedStatement, ...]

    @property
    def sequence(self) -> int:
        """Return the number that the sources share."""
        return numbered(self.sources[0]).sequence


@dataclass(frozen=True, slots=True)
class Series:
    """What is held of one series.

    `said` are the statements whose content counts, in the order of their
    numbers: of lists the one of the moment and all newer ones, of other
    statements the newest. `holds` are in the order of time and never overlap.
    No period that begins at or before `spent` counts any more.
    """

    said: tuple[SignedStatement, ...] = ()
    holds: tuple[Hold, ...] = ()
    spent: int = INSTANT_MIN - 1

    @property
    def sequence(self) -> int:
        """Return the highest number received; 0 before the first."""
        return numbered(self.said[-1]).sequence if self.said else 0

    @property
    def newest(self) -> tuple[SignedStatement, ...]:
        """Return the statement with the highest number, or several that contradict each other."""
        return tuple(signed for signed in self.said if numbered(signed).sequence == self.sequence)

    def knows(self, identifier: bytes) -> bool:
        """Return whether the statement of this id is held."""
        return identifier in self._held()

    def statements(self) -> tuple[SignedStatement, ...]:
        """Return every statement held, in the order of their numbers, each once."""
        held = self._held().values()
        return tuple(sorted(held, key=lambda signed: (numbered(signed).sequence, signed.id)))

    def weight(self) -> int:
        """Return how many certificates and facts the series names."""
        return sum(map(_size, self._held().values()))

    def starts_after(self, now: Instant) -> list[Instant]:
        """Return the moments after `now` at which a period begins that was stated in advance."""
        periods = [numbered(signed).period for signed in self._held().values()]
        starts = [period.not_before for period in periods if period is not None]
        return [start for start in starts if start is not None and start > now]

    def changes_after(self, now: Instant) -> int | None:
        """Return the first moment after `now` at which a period begins, or is over; None for never."""
        begin = [*self.starts_after(now), *(hold.since for hold in self.holds if hold.since > now)]
        return min([*begin, *(hold.until + 1 for hold in self.holds if hold.until >= now)], default=None)

    def revokes(self, certificate: bytes, at: Instant) -> bool:
        """Return whether the list of a moment, or a newer one, revokes a certificate."""
        return any(certificate in _revoked(source) for source in _that_count(self.said, at))

    def _held(self) -> dict[bytes, SignedStatement]:
        held = {source.id: source for hold in self.holds for source in hold.sources}
        for signed in self.said:
            held[signed.id] = signed
        return held

    def holding(self, at: Instant) -> Hold | None:
        """Return the period that `at` lies in."""
        return next((hold for hold in self.holds if hold.since <= at <= hold.until), None)

    def fresh_until(self, at: Instant) -> Instant | None:
        """Return the last moment up to which there is no gap from `at` on; None if there is one at `at`."""
        last: Instant | None = None
        for hold in self.holds:
            if hold.since <= at <= hold.until or (last is not None and hold.since == last + 1):
                last = hold.until
        return last

    def aged(self, now: Instant) -> Series:
        """Return the series without what is over, which never comes back: periods, and replaced lists."""
        said = _that_count(self.said, now)
        if said is not self.said:
            return replace(self, said=said).aged(now)
        if not self.holds or self.holds[0].until >= now:
            return self
        left = tuple(hold for hold in self.holds if hold.until >= now)
        over = max(hold.until for hold in self.holds if hold.until < now)
        return replace(self, holds=left, spent=max(self.spent, over))

    def hearing(self, signed: SignedStatement, now: Instant) -> tuple[Series, BrokenStatement | None]:
        """Return the series with one more statement, and what is improper about it.

        `StatementOld` means that it was not taken in.
        """
        series = self.aged(now)
        sequence = numbered(signed).sequence
        if sequence > series.sequence:
            return _newer(series, signed, now)
        if sequence == series.sequence:
            return _contradicting(series, signed)
        return _older(series, signed, now)


def _newer(series: Series, signed: SignedStatement, now: Instant) -> tuple[Series, BrokenStatement | None]:
    newer = replace(series, said=_that_count((*series.said, signed), now))
    hold = _hold_of(signed)
    if hold is None:
        return newer, None
    if isinstance(signed.statement, FactList):
        newer = _cut(newer, hold)
        # What was said before may be over already; then the new list counts for the time that is left of it.
        if hold.since <= newer.spent < hold.until:
            hold = replace(hold, since=Instant(newer.spent + 1))
    if _overlaps(newer, hold):
        return newer, BrokenStatement(
            "STATEMENT-OVERLAP",
            f"the period of statement {hold.sequence} of `{signed.statement.by}` overlaps an earlier one",
        )
    if hold.since - now > EARLY_MAX:
        return newer, BrokenStatement(
            "STATEMENT-TOO-EARLY",
            f"the period of statement {hold.sequence} of `{signed.statement.by}` begins at {hold.since}, "
            f"and it is {now}",
        )
    return _with_hold(newer, hold, now), None


def _contradicting(series: Series, signed: SignedStatement) -> tuple[Series, BrokenStatement]:
    problem = BrokenStatement(
        "STATEMENT-CONFLICT",
        f"`{signed.statement.by}` has signed two different statements with number {series.sequence}",
    )
    if len(series.newest) >= SOURCES_MAX or len(series.said) >= SAID_MAX:
        raise problem
    theirs = _hold_of(signed)
    disputed = [hold for hold in series.holds if hold.sequence == series.sequence]
    agreed = [common for hold in disputed if (common := _common(hold, theirs)) is not None]
    holds = [hold for hold in series.holds if hold not in disputed]
    # Neither of the two can be shown again later, as an older one, for more than the common part.
    ends = [hold.until for hold in (*disputed, theirs) if hold is not None]
    spent = max(series.spent, *ends) if ends else series.spent
    ordered = tuple(sorted((*holds, *agreed), key=lambda hold: hold.since))
    return Series((*series.said, signed), ordered, spent), problem


def _number(signed: SignedStatement) -> int:
    return numbered(signed).sequence


def _that_count(said: tuple[SignedStatement, ...], now: Instant) -> tuple[SignedStatement, ...]:
    """Return the statements whose content counts at `now`, or later; the same tuple if all of them do."""
    first = _number(said[-1]) if said else 0
    if said and isinstance(said[0].statement, RevocationList):
        first = max((_number(one) for one in said if _has_begun(one, now)), default=0)
    left = said if not said or _number(said[0]) >= first else tuple(s for s in said if _number(s) >= first)
    # More than these come from an issuer that publishes days ahead; the list of the moment stays.
    return left if len(left) <= SAID_MAX else (left[0], *left[1 - SAID_MAX :])


def _has_begun(signed: SignedStatement, now: Instant) -> bool:
    period = numbered(signed).period
    return period is None or period.not_after is None or period.not_before is None or period.not_before <= now


def _older(series: Series, signed: SignedStatement, now: Instant) -> tuple[Series, BrokenStatement | None]:
    hold = _hold_of(signed)
    old: StatementOld | None = StatementOld(
        f"statement {numbered(signed).sequence} of `{signed.statement.by}` is older than "
        f"number {series.sequence}, which is known"
    )
    said = _that_count(tuple(sorted((*series.said, signed), key=_number)), now)
    if signed in said:
        # Whether or not its period counts too, it is news.
        series, old = replace(series, said=said), None
    if hold is None or hold.since - now > EARLY_MAX or _overlaps(series, hold):
        return series, old
    # That its period is over is worth knowing, should the clock be set back.
    if hold.until < now or len(series.holds) >= HOLDS_MAX:
        return (_with_hold(series, hold, now) if hold.until < now else series), old
    return _with_hold(series, hold, now), None


def _hold_of(signed: SignedStatement) -> Hold | None:
    period = numbered(signed).period
    if period is None or period.not_before is None or period.not_after is None:
        return None
    return Hold(period.not_before, period.not_after, (signed,))


def _with_hold(series: Series, hold: Hold, now: Instant) -> Series:
    if hold.until < now:
        return replace(series, spent=max(series.spent, hold.until))
    if len(series.holds) >= HOLDS_MAX:
        return series
    return replace(series, holds=tuple(sorted((*series.holds, hold), key=lambda one: one.since)))


def _overlaps(series: Series, hold: Hold) -> bool:
    if hold.since <= series.spent:
        return True
    return any(one.since <= hold.until and hold.since <= one.until for one in series.holds)


def _cut(series: Series, newer: Hold) -> Series:
    """Let whatever is held end before `newer` begins: of lists that have begun, the newest decides."""
    kept = tuple(
        replace(hold, until=min(hold.until, Instant(newer.since - 1)))
        for hold in series.holds
        if hold.since < newer.since
    )
    return replace(series, holds=kept)


def _common(hold: Hold, other: Hold | None) -> Hold | None:
    """Return what both hold, with the sources of both."""
    if other is None:
        return None
    since, until = max(hold.since, other.since), min(hold.until, other.until)
    return Hold(since, until, (*hold.sources, *other.sources)) if since <= until else None


# All statements of one issuer, taken together.


_NONE: frozenset[bytes] = frozenset()


def revoked_in(series: Series) -> frozenset[bytes]:
    """Return what the list of the moment revokes, or a newer one."""
    lists = [_revoked(source) for source in series.said]
    return reduce(frozenset.union, lists) if lists else _NONE


def valid_in(sources: Sequence[SignedStatement]) -> frozenset[bytes]:
    """Return what all of these revalidations confirm."""
    lists = [source.statement.valid for source in sources if isinstance(source.statement, Revalidation)]
    return reduce(frozenset.intersection, lists) if lists else _NONE


def agreed_facts(sources: Sequence[SignedStatement]) -> StatedFacts:
    """Return the facts that all of these statements state, of the same kind and value."""
    first, *others = (facts_in(source) for source in sources)
    if not others:
        return first
    # Python takes 1, 1.0 and True for equal, and here they are three different facts.
    return {
        key: value
        for key, value in first.items()
        if all(key in other and _same(value, other[key]) for other in others)
    }


def facts_in(source: SignedStatement) -> StatedFacts:
    """Return what one statement says."""
    return source.statement.facts if isinstance(source.statement, FactList) else {}


def facts_at(series: Series, hold: Hold) -> StatedFacts:
    """Return what holds during a period: what is said of it, and is not taken back by the newest word."""
    sources = {source.id: source for source in (*hold.sources, *series.newest)}
    return agreed_facts(tuple(sources.values()))


def whose_facts_changed(before: Series, after: Series) -> frozenset[Principal | None]:
    """Return of whom something else is said after a statement than before it, now or later."""
    changed = _all_said(before.statements()) ^ _all_said(after.statements())
    # What an older list still says counts only as far as the newest one says it too.
    changed |= _all_said(before.newest) ^ _all_said(after.newest)
    return frozenset(whom for whom, _, _, _ in changed)


def whose_facts_differ(
    before: Series, held: Hold | None, after: Series, holds: Hold | None
) -> frozenset[Principal | None]:
    """Return of whom other facts hold in one period than in another."""
    old = {} if held is None else facts_at(before, held)
    new = {} if holds is None else facts_at(after, holds)
    changed = {_said(*one) for one in old.items()} ^ {_said(*one) for one in new.items()}
    return frozenset(whom for whom, _, _, _ in changed)


def _revoked(source: SignedStatement) -> frozenset[bytes]:
    return source.statement.revoked if isinstance(source.statement, RevocationList) else _NONE


def _size(source: SignedStatement) -> int:
    match source.statement:
        case RevocationList(revoked=ids) | Revalidation(valid=ids):
            return len(ids)
        case FactList(facts=facts):
            return len(facts)
    return 0


_Said: TypeAlias = tuple[Principal | None, str, type, PresentValue]


def _all_said(sources: Iterable[SignedStatement]) -> set[_Said]:
    return {_said(key, value) for source in sources for key, value in facts_in(source).items()}


def _said(key: About, value: PresentValue) -> _Said:
    return (*key, type(value), value)


def _same(one: PresentValue, other: PresentValue) -> bool:
    return type(one) is type(other) and one == other


# How much room an issuer has.


ISSUERS_MAX: Final = 4096
"""How many issuers are remembered; each has one series of every kind, and no more than that."""

IDS_KEPT_MAX: Final = 1_000_000
"""How many certificates and facts all that is held may name, where an issuer wants more than its share."""

IDS_OF_ONE_MAX: Final = 250_000
"""How many of them one series may name, as long as there is room."""

SHARES_MIN: Final = 16
"""The room is shared by all remembered issuers, and by no fewer: each of 16 can have three full lists."""

_Key = tuple[Principal, SeriesKind]


def check_issuer(held: Mapping[_Key, Series], by: Principal) -> None:
    """Raise if `by` is new, and there is no room for one more issuer."""
    if len(held) < ISSUERS_MAX or any((by, kind) in held for kind in SeriesKind):
        return
    if len({one for one, _ in held}) >= ISSUERS_MAX:
        raise Unavailable(
            "UNAVAILABLE-STANDING-FULL",
            f"statements of {ISSUERS_MAX} issuers are held, and there is no room for more",
        )


def check_room(held: Mapping[_Key, Series], key: _Key, after: Series, *, ids_kept: int) -> None:
    """Raise if there is no room for a series to become `after`; `ids_kept` are named by all that is held."""
    before = held.get(key)
    weight = after.weight()
    grown = weight - (0 if before is None else before.weight())
    share = IDS_KEPT_MAX // max(SHARES_MIN, len(held) + (before is None))
    # Within its share an issuer is accepted even where others have filled the room.
    if grown <= 0 or weight <= share:
        return
    if weight > IDS_OF_ONE_MAX:
        raise Unavailable(
            "UNAVAILABLE-STANDING-FULL",
            f"the statements of one issuer name more than {IDS_OF_ONE_MAX} certificates",
        )
    if ids_kept + grown > IDS_KEPT_MAX:
        raise Unavailable(
            "UNAVAILABLE-STANDING-FULL",
            f"statements on {IDS_KEPT_MAX} certificates are held, and there is no room",
        )
