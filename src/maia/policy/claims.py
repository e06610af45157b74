"""Can the answers that another broker has put in the place of questions be the answers?

Rules ask the world: the hour, a fact about their holder, the place it is at. The holder's broker answers
that, and asks a border for what is left of each condition. The border does not take its word for the rest:
what a condition asks of events has to be there as the certificate has it, and all answers together have to be
possible. What the border knows itself, it answers itself (OASIS'08 7.2.2): what identity providers say of
the holder, where it believes any, for that comes with the request. A question without an answer may
always stand: then a rule shows nothing, which is the least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from maia.credentials.authority import Authority, Transformation
from maia.credentials.certificate import AuthorisationCertificate
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.keys import Principal
from maia.events import PUBLISHER_PREFIX, SUBSCRIBER_PREFIX, Instant, is_of_event
from maia.policy.facts import Facts, about_the_world, answered, steady_clock
from maia.predicates.covering.covers import provably_empty
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Not,
    Predicate,
    attributes_of,
    size_of,
)

_SIZE_MAX: Final = 256
"""What would have to be so is looked at up to this size; a claim that needs more is not believed."""


@dataclass(frozen=True, slots=True)
class World:
    """What is known here of the world behind a right, and the moments that count as now: this one first.

    Clocks of two brokers are apart by some seconds: an hour that has just begun or ended counts either way.
    """

    facts: Facts
    moments: tuple[Instant, ...]
    is_holder_known: bool = False
    """Whether what providers say of the holder is among the facts; what is not there, nobody says."""

    def may_grant(self, chain: VerifiedChain) -> bool:
        """Return whether no condition of a chain is known to be false."""
        parts = [signed.certificate for signed in chain.certificates]
        conditions = [
            (one.authority.condition, one.issuer)
            for one in parts
            if isinstance(one, AuthorisationCertificate) and one.authority.condition != ALWAYS
        ]
        return not conditions or any(
            not any(self.facts.refute(condition, of=by, now=now) for condition, by in conditions)
            for now in self.moments
        )

    def may_have_answered(self, claimed: Sequence[Transformation], granted: Sequence[Transformation]) -> bool:
        """Return whether what is left of the rules can be what this moment has left of those granted."""
        needed: dict[Principal, list[Predicate]] = {}
        for own, said in zip(claimed, granted, strict=True):
            if len(own.rules) != len(said.rules):
                return False
            for rule, as_said in zip(own.rules, said.rules, strict=True):
                needs = needs_of(as_said.condition, rule.condition)
                if needs != ALWAYS:
                    needed.setdefault(said.by, []).append(needs)
        every = [(AllOf(tuple(needs)), by) for by, needs in needed.items()]
        return not every or any(
            not any(
                self._is_unsaid(left := self.facts.resolved(needs, of=by, now=now)) or provably_empty(left)
                for needs, by in every
            )
            for now in self.moments
        )

    def _is_unsaid(self, left: Predicate) -> bool:
        """Return whether what is left asks what no provider has said of the holder, and one would have."""
        return self.is_holder_known and any(uid.startswith(SUBSCRIBER_PREFIX) for uid in attributes_of(left))

    def steady_until(self, granted: Iterable[Authority]) -> Instant | None:
        """Return up to when the time alone changes no answer here; None for ever."""
        asked = AllOf(tuple(map(about_the_world, granted)))
        now, *_ = self.moments
        periods = [(steady_clock(asked, moment).not_after, moment) for moment in self.moments]
        # What ends at one of the moments is the same time away from now.
        return min((Instant(now + end - moment) for end, moment in periods if end is not None), default=None)


def as_said(claimed: Transformation, granted: Transformation) -> Transformation:
    """Return a transformation with the certificate's conditions, where claimed ones may be left of them."""
    if len(claimed.rules) != len(granted.rules):
        return claimed
    rules = tuple(
        rule if needs_of(said.condition, rule.condition) == NEVER else replace(rule, condition=said.condition)
        for rule, said in zip(claimed.rules, granted.rules, strict=True)
    )
    return replace(claimed, rules=rules)


def needs_of(said: Predicate, claimed: Predicate) -> Predicate:
    """Return what has to be so of the world for this to be left of a condition; NEVER if it cannot."""
    return ALWAYS if claimed == said else _Needs().of(said, claimed)


class _Needs:
    """What has to be so, for each part of a condition and what could be left of it; found once."""

    __slots__ = ("of",)

    def __init__(self) -> None:
        self.of: Final[Callable[[Predicate, Predicate], Predicate]] = cache(self._of)

    def _of(self, said: Predicate, claimed: Predicate) -> Predicate:
        if not any(map(_is_of_the_world, attributes_of(said))):
            return ALWAYS if claimed in (said, answered(said, {})) else NEVER
        match said:
            case Not(inner):
                if claimed in (ALWAYS, NEVER):
                    return self.of(inner, NEVER if claimed == ALWAYS else ALWAYS)
                return self.of(inner, claimed.inner) if isinstance(claimed, Not) else NEVER
            case AllOf(parts) | AnyOf(parts):
                return self._of_parts(type(said), parts, claimed)
            case _ if claimed == said:
                return ALWAYS
            case _ if claimed == ALWAYS:
                return said
            case _:
                return Not(said) if claimed == NEVER else NEVER

    def _of_parts(
        self, kind: type[AllOf] | type[AnyOf], parts: tuple[Predicate, ...], claimed: Predicate
    ) -> Predicate:
        void, decisive = (ALWAYS, NEVER) if kind is AllOf else (NEVER, ALWAYS)
        if claimed == decisive:
            return _either(self.of(part, decisive) for part in parts)
        if claimed == void:
            return _both(self.of(part, void) for part in parts)
        found = self._aligned(parts, (claimed,), void)
        if isinstance(claimed, AllOf | AnyOf) and type(claimed) is kind and len(claimed.parts) > 1:
            found = _either((found, self._aligned(parts, claimed.parts, void)))
        return found

    def _aligned(
        self, parts: tuple[Predicate, ...], left: tuple[Predicate, ...], void: Predicate
    ) -> Predicate:
        """Return what has to be so for these to be left of the parts, in their order."""
        # After each part: what has to be so for the first so many of `left` to be left so far.
        reached: list[Predicate] = [ALWAYS, *(NEVER for _ in left)]
        for part in parts:
            gone = self.of(part, void)
            kept = (NEVER, *(_both((reached[at], self.of(part, one))) for at, one in enumerate(left)))
            reached = [
                _either((_both((before, gone)), now)) for before, now in zip(reached, kept, strict=True)
            ]
        return reached[-1]


def _is_of_the_world(uid: str) -> bool:
    return not is_of_event(uid) and not uid.startswith(PUBLISHER_PREFIX)


def _both(needs: Iterable[Predicate]) -> Predicate:
    found = dict.fromkeys(one for one in needs if one != ALWAYS)
    if NEVER in found or not found:
        return NEVER if found else ALWAYS
    return _bounded(next(iter(found)) if len(found) == 1 else AllOf(tuple(found)))


def _either(needs: Iterable[Predicate]) -> Predicate:
    found = dict.fromkeys(one for one in needs if one != NEVER)
    if ALWAYS in found or not found:
        return ALWAYS if found else NEVER
    return _bounded(next(iter(found)) if len(found) == 1 else AnyOf(tuple(found)))


def _bounded(needs: Predicate) -> Predicate:
    return needs if size_of(needs) <= _SIZE_MAX else NEVER
