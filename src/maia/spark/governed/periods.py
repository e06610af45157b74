"""What might this principal do at each moment of a period?

A table holds events of many moments, and a right is asked at the moment of
publication. Certificates begin and end, and may hold during certain hours
only, so the answer is a list of slices: in all spans of one, the kernel gives
the same answer. `decide` is asked once for each span and nowhere else is a
right made up. Moments at which nothing is granted are in no span.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from maia.credentials import Action, Principal, SignedCertificate, VerificationCache, steady_period
from maia.events import INSTANT_MAX, INSTANT_MIN, AttributeUid, Instant
from maia.policy import (
    Denial,
    GrantRevoked,
    GrantsLeftOut,
    GrantStale,
    GrantTestedOnce,
    Permit,
    PolicyRefusal,
    Request,
    View,
    decide,
    gather_evidence,
)
from maia.policy.view import shows
from maia.spark.governed.reader import BadMoments, Reader, RightsCut, TooManyPeriods
from maia.types import VerifiedType

PERIODS_MAX: Final = 256
"""Slices that one table is made of; each is a scan of its own."""
STEPS_MAX: Final = 8192
"""How often the kernel is asked for one table: for some years of working hours."""

_NOT_VOUCHED_FOR: Final = (GrantStale, GrantRevoked, GrantTestedOnce)


@dataclass(frozen=True, slots=True)
class Slice:
    """In all `spans` between `since` and `until`, ends included, the principal had this View."""

    since: Instant
    until: Instant
    # Kept out of repr: a View holds restrictions that its holder may not read.
    view: View = field(repr=False)
    spans: tuple[tuple[Instant, Instant], ...] = ()
    """One after the other; none means the whole time."""


def slices_of(
    request: Request,
    reader: Reader,
    *,
    since: Instant | None = None,
    until: Instant | None = None,
    cache: VerificationCache | None = None,
) -> tuple[Slice, ...]:
    """Return the Views of a period, oldest first; raise a refusal if there is none at all.

    It is the newest one, unless another says that a right is stale. `cache` remembers signatures.
    """
    first = Instant(INSTANT_MIN) if since is None else since
    last = Instant(INSTANT_MAX) if until is None else until
    if last < first:
        raise BadMoments("the period that was asked for ends before it begins")
    found: list[_Growing] = []
    refusal: PolicyRefusal | None = None
    for piece in _decided(request, reader, first, last, VerificationCache() if cache is None else cache):
        if isinstance(piece, PolicyRefusal):
            refusal = refusal if isinstance(refusal, _NOT_VOUCHED_FOR) else piece
        else:
            _add(found, piece)
    if not found and refusal is not None:
        raise refusal
    return tuple(one.slice for one in found)


def _decided(
    request: Request, reader: Reader, first: Instant, last: Instant, cache: VerificationCache
) -> Iterator[Slice | PolicyRefusal]:
    """Walk from the first moment to the last, one steady period after the other."""
    pool, moment = reader.pool, first
    bounds = [signed.certificate.validity for signed in pool] + [one.period for one in reader.facts]
    for _ in range(STEPS_MAX):
        evidence = gather_evidence(
            request,
            pool,
            at=moment,
            bounds=reader.bounds,
            cache=cache,
            constitutions=reader.constitutions,
            standing=reader.tester,
            chains_max=reader.chains_max,
        )
        decision = decide(request, evidence, reader.facts_at(moment), moment)
        steady = steady_period(bounds, moment).intersection(decision.stable)
        end = last if steady.not_after is None else Instant(min(last, steady.not_after))
        match decision:
            case Permit(view=view, limit=limit):
                if limit is not None:
                    warnings.warn(f"{limit.line()} [{GrantsLeftOut.code}]", RightsCut, stacklevel=2)
                yield Slice(moment, end, replace(view, until=None))
            case Denial():
                yield decision.as_refusal()
        if end >= last:
            return
        moment = Instant(end + 1)
    raise TooManyPeriods(
        f"certificates begin and end, or count again, more than {STEPS_MAX} times in the period asked for: "
        "say since when and until when you want to read"
    )


@dataclass(slots=True)
class _Growing:
    """A View, and the spans that were found for it so far."""

    view: View
    spans: list[tuple[Instant, Instant]]

    @property
    def slice(self) -> Slice:
        since, until = self.spans[0][0], self.spans[-1][1]
        return Slice(since, until, self.view, tuple(self.spans) if len(self.spans) > 1 else ())


def _add(found: list[_Growing], piece: Slice) -> None:
    """Join a span to those in which the reader saw the same, and to the one that it follows."""
    same = next((one for one in found if one.view == piece.view), None)
    if same is None:
        if len(found) == PERIODS_MAX:
            raise TooManyPeriods(f"your rights change more than {PERIODS_MAX} times in the period asked for")
        found.append(_Growing(piece.view, [(piece.since, piece.until)]))
    elif same.spans[-1][1] + 1 == piece.since:
        same.spans[-1] = (same.spans[-1][0], piece.until)
    else:
        same.spans.append((piece.since, piece.until))


# Whose signature on a sealed frame counts, for which attributes, and when?
#
# A reader holds the key that content is sealed with, and could seal anything
# with it (A49): only frames signed by a principal that might publish them at that
# moment become rows. The driver decides, from the signers' certificates, by the
# kernel; executors get the answers and look each frame up in them.


@dataclass(frozen=True, slots=True)
class MayWrite:
    """From `since` to `until`, both included, a signer might publish these attributes."""

    since: int
    until: int
    uids: frozenset[AttributeUid]


@dataclass(frozen=True, slots=True)
class Signers:
    """The signers that count, by their key. `known` are the attributes in use.

    Attributes that no version at hand has are never shown, and so never checked.
    """

    by_key: Mapping[bytes, tuple[MayWrite, ...]]
    known: frozenset[AttributeUid]

    def may_write(self, signer: bytes, uids: Iterable[str], published_at: int) -> bool:
        """Say whether a signer might publish all of these at this moment."""
        asked = self.known & frozenset(uids)
        written: set[AttributeUid] = set()
        is_entitled = False
        for right in self.by_key.get(signer, ()):
            if right.since <= published_at <= right.until:
                is_entitled = True
                written |= right.uids
        return is_entitled and asked <= written


def accepted_signers(
    shown: Mapping[Principal, Sequence[SignedCertificate]],
    versions: Sequence[VerifiedType],
    *,
    grounds: Reader,
    since: Instant | None = None,
    until: Instant | None = None,
) -> Signers:
    """Decide when each signer might publish what; `grounds` tells what counts no more."""
    rights: dict[bytes, tuple[MayWrite, ...]] = {}
    for principal, certificates in shown.items():
        if principal in grounds.evicted:
            continue
        who = Reader(
            principal,
            tuple(certificates),
            bounds=grounds.bounds,
            constitutions=grounds.constitutions,
            facts=grounds.facts,
            revoked=grounds.revoked,
            tester=grounds.tester,
        )
        found = [one for version in versions for one in _rights(who, version, since, until)]
        rights[principal.key] = tuple(found)
    return Signers(rights, frozenset(uid for version in versions for uid in version.kinds))


def _rights(
    who: Reader, version: VerifiedType, since: Instant | None, until: Instant | None
) -> Iterable[MayWrite]:
    request = Request(who.principal, Action.PUBLISH, version.name, version)
    try:
        slices = slices_of(request, who, since=since, until=until)
    except PolicyRefusal:
        return
    for one in slices:
        uids = {uid for uid in version.kinds if any(shows(window, uid) for window in one.view.windows)}
        for first, last in one.spans or ((one.since, one.until),):
            yield MayWrite(int(first), int(last), frozenset(uids))
