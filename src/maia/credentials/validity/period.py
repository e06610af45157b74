"""When does a certificate hold?

Both bounds must be stated. A certificate that leaves one out is refused
(dissertation 6.2.1 reads an absent bound as unbounded, which is open by
default); an issuer that means "for ever" writes it. Beside its period a certificate
may demand tests, which `validity/validity_state.py` makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from maia.credentials.keys import Principal
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant

# Whom must a verifier ask whether a certificate still holds?


class TestKind(Enum):
    """What a verifier must hold before it believes a certificate."""

    __test__ = False  # pytest would otherwise take the name for a promise

    CRL = "crl"
    """Some list of what is revoked, however old, and the certificate not in the newest."""
    TIMED_CRL = "timed-crl"
    """A list that holds at this moment, and the certificate not in the newest."""
    REVALIDATION = "revalidation"
    """A statement that holds at this moment, with the certificate in it."""
    ONE_TIME = "one-time"
    """An answer to this verifier's own question, about this very request."""


@dataclass(frozen=True, slots=True)
class OnlineTest:
    """`by` must confirm the certificate in the way of `kind`; statements may be fetched at `locations`.

    A location is a hint. Statements prove themselves, wherever they come from.
    """

    kind: TestKind
    by: Principal
    locations: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, bytes, tuple[str, ...]]:
        """Return what tests are sorted by where their order could make two texts of one meaning."""
        return (self.kind.value, self.by.key, self.locations)


def united_tests(one: Iterable[OnlineTest], other: Iterable[OnlineTest]) -> tuple[OnlineTest, ...]:
    """Return the tests of both, in their one order, each once: who depends on both must pass both."""
    return tuple(sorted({*one, *other}, key=lambda test: test.order))


@dataclass(frozen=True, slots=True)
class Validity:
    """From `not_before` to `not_after`, both included; None is a bound stated as unbounded.

    Within the period every one of `tests` must be passed as well; a plain
    period has none. They are in their one order (`with_tests` sees to it).
    """

    not_before: Instant | None
    not_after: Instant | None
    tests: tuple[OnlineTest, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Say whether no moment lies inside."""
        return self.not_before is not None and self.not_after is not None and self.not_after < self.not_before

    def contains(self, now: Instant) -> bool:
        """Say whether `now` lies inside the period. Nothing is said about the tests."""
        after_start = self.not_before is None or self.not_before <= now
        return after_start and (self.not_after is None or now <= self.not_after)

    def intersection(self, other: Validity) -> Validity:
        """Return the moments that lie inside both, with the tests of both; it may be empty.

        One of the two themselves where it lies inside the other: every link of a chain is asked for it.
        """
        tests = self.tests
        if tests is not other.tests and tests != other.tests:
            tests = united_tests(tests, other.tests)
        start, end = self.not_before, self.not_after
        later, earlier = other.not_before, other.not_after
        starts_last = later is None or (start is not None and later <= start)
        ends_first = earlier is None or (end is not None and end <= earlier)
        if starts_last and ends_first and tests is self.tests:
            return self
        return new_validity(start if starts_last else later, end if ends_first else earlier, tests)

    def outlasts(self, other: Validity) -> bool:
        """Say whether every moment of `other` lies inside, and no test is asked that `other` is free of."""
        start, end = self.not_before, self.not_after
        later, earlier = other.not_before, other.not_after
        if start is not None and (later is None or later < start):
            return False
        if end is not None and (earlier is None or end < earlier):
            return False
        return self.tests is other.tests or set(self.tests) <= set(other.tests)

    def with_tests(self, *tests: OnlineTest) -> Validity:
        """Return the same period, with these tests demanded besides those that already are."""
        return Validity(self.not_before, self.not_after, united_tests(self.tests, tests))


# The slots themselves, whose types are Any: a frozen dataclass takes twice as long to fill them, and one
# validity is made for every link of a chain that is reduced.
_set_not_before, _set_not_after, _set_tests = (
    Validity.__dict__[name].__set__ for name in ("not_before", "not_after", "tests")
)


def new_validity(
    not_before: Instant | None, not_after: Instant | None, tests: tuple[OnlineTest, ...]
) -> Validity:
    """Return the same as `Validity(…)`, quickly."""
    made = object.__new__(Validity)
    _set_not_before(made, not_before)
    _set_not_after(made, not_after)
    _set_tests(made, tests)
    return made


UNBOUNDED = Validity(None, None)
"""For ever, in both directions; a certificate must say so in as many words."""


def steady_period(validities: Iterable[Validity], at: Instant) -> Validity:
    """Return the longest period around `at` in which none of these begins or ends.

    What was found out at one moment of it from the certificates alone holds at all the others.
    """
    since, until = INSTANT_MIN, INSTANT_MAX
    for validity in validities:
        starts, ends = validity.not_before, validity.not_after
        if starts is not None:
            since, until = (max(since, starts), until) if starts <= at else (since, min(until, starts - 1))
        if ends is not None:
            since, until = (since, min(until, ends)) if at <= ends else (max(since, ends + 1), until)
    return Validity(Instant(since), Instant(until))
