"""Does the right behind a table still hold while its job runs?

A table is decided once, and a stream may run for weeks. The driver
keeps a `Watch`: it holds the validity statements received so far,
tests the reader with them, and knows what the table depends on. When a later
statement, or the end of the last one, would lead to another decision, the
grants of exactly this table end, and its next batch fails (A44).

An answer to a one-time question counts for one authorisation, and a stated
time: a table that goes on is asked about again before it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from maia.credentials import SignedCertificate, SignedStatement, ValidityState
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Request
from maia.spark.governed.reader import AnsweredOnce, Reader
from maia.spark.keys.content_keys import KeyPass

__all__ = ["HeldRight", "RightsOnWatch", "Watch"]


@dataclass(frozen=True, slots=True)
class HeldRight:
    """What one table was decided from, and how to decide it again."""

    reader: Reader = field(repr=False)
    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    """All certificates of the decision, the writers' included."""
    decided: object = field(repr=False)
    decide: Callable[[Reader], object] = field(repr=False)
    """Says what a reader may see; equal to `decided` if nothing has changed, and raises if it is nothing."""
    passes: tuple[KeyPass, ...] = field(repr=False)
    request: Request | None = field(default=None, repr=False)
    """What was asked for: one-time questions are about it."""

    def holds(self, standing: ValidityState, now: Instant) -> bool:
        """Say whether the table would be decided the same way now."""
        try:
            return self.decide(self.reader.tested(standing, now)) == self.decided
        except MaiaError:
            return False


class Watch(Protocol):
    """Ends the grants of tables whose right has ended."""

    def tested(self, reader: Reader, request: Request) -> Reader:
        """Return a reader whose certificates were tested at this moment, for this request."""

    def begin(self, right: HeldRight) -> None:
        """Look after a table from now on."""


class RightsOnWatch:
    """The tables of one driver, as a value that is handed statements and time."""

    def __init__(self, standing: ValidityState) -> None:
        """Begin with no table, and with the statements received so far."""
        self.standing = standing
        self._rights: list[HeldRight] = []
        self._look_at: Instant | None = None

    def begin(self, right: HeldRight, now: Instant) -> None:
        """Look after a table."""
        self._rights.append(right)
        self._plan(now)

    def follow(
        self, statements: Iterable[SignedStatement], now: Instant
    ) -> tuple[list[HeldRight], list[MaiaError]]:
        """Hear statements; return the tables that must end, and what could not be believed."""
        odd: list[MaiaError] = []
        is_news = False
        for signed in statements:
            try:
                is_news |= self.standing.hear(signed, now).is_news
            except MaiaError as problem:
                odd.append(problem)
        return (self._looked(now) if is_news else self.look(now)), odd

    def look(self, now: Instant) -> list[HeldRight]:
        """Return the tables that must end because no valid statement covers them any more."""
        return self._looked(now) if self._look_at is not None and self._look_at < now else []

    @property
    def asked_once(self) -> tuple[HeldRight, ...]:
        """Return the tables that depend on one-time answers."""
        return tuple(one for one in self._rights if one.reader.answered is not None)

    def answer(self, right: HeldRight, answered: AnsweredOnce | None, now: Instant) -> list[HeldRight]:
        """Take newer answers for a table, or that there are none; return the tables that must end."""
        newer = replace(right, reader=replace(right.reader, answered=answered))
        self._rights = [newer if one is right else one for one in self._rights]
        return self._looked(now)

    @property
    def next_look(self) -> Instant | None:
        """Return the time after which `look` finds something, if no statement arrives before."""
        return self._look_at

    def _looked(self, now: Instant) -> list[HeldRight]:
        ended = [one for one in self._rights if not one.holds(self.standing, now)]
        self._rights = [one for one in self._rights if all(one is not other for other in ended)]
        self._plan(now)
        return ended

    def _plan(self, now: Instant) -> None:
        ends = [self._stale_after(one, now) for one in self._rights]
        self._look_at = min((one for one in ends if one is not None), default=None)

    def _stale_after(self, right: HeldRight, now: Instant) -> Instant | None:
        once = right.reader.once_at(now)
        good = [one for one in right.certificates if self.standing.problem_with(one, now, once=once) is None]
        ends = [self.standing.stale_after(good, now)]
        ends += [right.reader.answered.until] if right.reader.answered is not None and once else []
        return min((one for one in ends if one is not None), default=None)
