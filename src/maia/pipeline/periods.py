"""What might this principal do at each moment of a period?

A table holds events of many moments, and a right is asked at the moment of
publication. Certificates begin and end, so the answer is a list of slices:
inside each one the same certificates are valid and the kernel gives the same
answer. `decide` is asked once for each slice and nowhere else is a right made
up. Moments at which nothing is granted are in no slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from maia.credentials import VerificationCache, steady_period
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.pipeline.reader import Reader
from maia.pipeline.refusals import BadMoments, TooManyPeriods
from maia.policy import Denial, Permit, PolicyRefusal, Request, View, decide, gather_evidence

__all__ = ["PERIODS_MAX", "Slice", "slices_of"]

PERIODS_MAX: Final = 256
"""Slices that one table is made of; each is a scan of its own."""


@dataclass(frozen=True, slots=True)
class Slice:
    """From `since` to `until`, both included, the principal had this View."""

    since: Instant
    until: Instant
    # Kept out of repr: a View holds restrictions that its holder may not read.
    view: View = field(repr=False)


def slices_of(
    request: Request, reader: Reader, *, since: Instant | None = None, until: Instant | None = None
) -> tuple[Slice, ...]:
    """Return the Views of a period, oldest first; raise the newest refusal if there is none at all."""
    first = Instant(INSTANT_MIN) if since is None else since
    last = Instant(INSTANT_MAX) if until is None else until
    if last < first:
        raise BadMoments("the period that was asked for ends before it begins")
    found: list[Slice] = []
    refusal: PolicyRefusal | None = None
    for piece in _decided(request, reader, first, last):
        if isinstance(piece, PolicyRefusal):
            refusal = piece
        else:
            _add(found, piece)
    if not found and refusal is not None:
        raise refusal
    return tuple(found)


def _decided(
    request: Request, reader: Reader, first: Instant, last: Instant
) -> Iterator[Slice | PolicyRefusal]:
    """Walk from the first moment to the last, one steady period after the other."""
    pool, cache, moment = reader.pool, VerificationCache(), first
    bounds = [signed.certificate.validity for signed in pool] + [one.period for one in reader.facts]
    for _ in range(PERIODS_MAX):
        evidence = gather_evidence(
            request,
            pool,
            at=moment,
            bounds=reader.bounds,
            cache=cache,
            constitutions=reader.constitutions,
        )
        decision = decide(request, evidence, reader.facts_at(moment), moment)
        steady = steady_period(bounds, moment).intersection(decision.stable)
        end = last if steady.not_after is None else Instant(min(last, steady.not_after))
        match decision:
            case Permit(view=view):
                yield Slice(moment, end, replace(view, until=None))
            case Denial():
                yield decision.as_refusal()
        if end >= last:
            return
        moment = Instant(end + 1)
    raise TooManyPeriods(f"certificates begin and end more than {PERIODS_MAX} times in the period asked for")


def _add(found: list[Slice], piece: Slice) -> None:
    """Join a slice to the one before it where nothing has changed for the reader."""
    if found and found[-1].until + 1 == piece.since and found[-1].view == piece.view:
        found[-1] = replace(found[-1], until=piece.until)
    else:
        found.append(piece)
