"""Who reads the table, and by which certificates?

The principal's certificates are verified on the driver, once for each period
in which the same ones are valid. What the domain has stopped to believe, a
principal or a certificate, counts for no period at all: the past is not a way
around a revocation (A44).

Whether a certificate is revoked or stale is asked
at the present moment (`Reader.tested`). Moments that are over are not judged
again. A reader that was not tested has no use of certificates that demand it.

A certificate that demands a one-time test counts if its tester has answered
about this very request, and for as long as the answer is let count: a table
is one authorisation, and a table that goes on asks again.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    Validity,
    VerificationCache,
    VerifiedConstitution,
    steady_period,
)
from maia.credentials.identity import (
    Identity,
    IdentityTrust,
    SignedIdentity,
    VerifiedIdentity,
    verify_identity,
)
from maia.credentials.requirements import (
    NO_ATTRIBUTES,
    NO_REQUIREMENT,
    Attributes,
    attributes_of_identity,
    checked_requirement,
    is_met,
    parse_requirement,
    requirement_from_bytes,
    requirement_to_bytes,
)
from maia.errors import BadInput, MaiaError, Refusal
from maia.events import INSTANT_MAX, INSTANT_MIN, AttributeUid, Instant
from maia.policy import (
    CHAINS_COUNTED,
    NO_FACTS,
    BoundRule,
    Denial,
    Facts,
    Permit,
    PolicyRefusal,
    Request,
    View,
    decide,
    gather_evidence,
    publisher_views,
)
from maia.policy.written import asked_of_writers, may_write
from maia.predicates import Predicate
from maia.types import VerifiedType
from maia.validity import NO_ANSWERS, AsOf, Once, Tester, VouchedFor
from maia.wire.messages import Author, Carried, Sealed

# Identities: which recorded frames would have come to this reader.
#
# Live, the reader's broker decides both: what the reader requires of publishers,
# on the statement that travels with the frame, and what the publisher requires
# of subscribers, on the statement that the reader has shown. A frame in
# the log carries statement and requirement as it travelled. Each executor decides
# once for a pair of statement and requirement, before it opens anything, and
# never row by row. What counts is the moment of publication. The reader's statement
# of that moment is the one that began last, as if it had been shown at once; one that
# has expired is none, whatever was shown before it.


_STATEMENTS_REMEMBERED: Final = 4096
_NONE: Final[tuple[int, int, Attributes]] = (0, INSTANT_MIN, NO_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class ReaderIdentity:
    """A reader's identity statements, past ones too, and whose statements are believed."""

    trust: IdentityTrust
    statements: tuple[SignedIdentity, ...] = field(default=(), repr=False)

    def verified(self, reader: Principal) -> tuple[VerifiedIdentity, ...]:
        """Verify every statement for the moment at which it began; raise what is wrong with one."""
        return tuple(
            verify_identity(
                one,
                subject=reader,
                community=self.trust.community,
                providers=self.trust.providers,
                now=one.statement.not_before,
            )
            for one in self.statements
        )


@dataclass(frozen=True, slots=True)
class FrameRequirements:
    """What decides whether a frame is for a reader. It is pickled into the job."""

    requires: bytes = b""
    """What the reader requires of publishers."""
    trust: IdentityTrust | None = None
    periods: tuple[tuple[int, int, Attributes], ...] = field(default=(), repr=False)
    """When each of the reader's statements was in force, and what it says, in the order of beginning."""
    for_all_alone: bool = False
    """Whether frames are left out that require anything of subscribers, as summaries leave them out."""

    def admits(self, frame: Carried | Sealed) -> bool:
        """Return whether publisher and reader meet what they require of each other."""
        author: Author | None = getattr(frame, "author", None)
        if self.requires and not is_met(requirement_from_bytes(self.requires), self.publisher_of(frame)):
            return False
        if author is None or not author.requires:
            return True
        if self.for_all_alone:
            return False
        return is_met(requirement_from_bytes(author.requires), self.reader_at(frame.published_at))

    def reader_at(self, moment: int) -> Attributes:
        """Return what the reader's statement said at a moment; nothing if it had expired by then."""
        begun = bisect_right(self.periods, moment, key=lambda period: period[0])
        _, not_after, attributes = self.periods[begun - 1] if begun else _NONE
        return attributes if moment <= not_after else NO_ATTRIBUTES

    def publisher_of(self, frame: Carried | Sealed) -> Attributes:
        """Return what the statement that came with a frame says of its publisher, if it is believed."""
        author: Author | None = getattr(frame, "author", None)
        if author is None or not author.statement or self.trust is None:
            return NO_ATTRIBUTES
        known = _verified(self.trust, author.statement, frame.publisher)
        is_in_force = known is not None and known.is_in_force(Instant(frame.published_at))
        return attributes_of_identity(known) if is_in_force else NO_ATTRIBUTES


@lru_cache(maxsize=_STATEMENTS_REMEMBERED)
def _verified(trust: IdentityTrust, statement: bytes, publisher: bytes) -> Identity | None:
    """Return what a statement says if it is good at any moment; None if it is not."""
    try:
        return trust.verified_ever(statement, Principal(publisher)).statement
    except MaiaError:
        return None


def frame_requirements(reader: Reader, requires: Predicate | str) -> FrameRequirements:
    """Return what decides about frames for a reader, whose statements are verified here."""
    written = b""
    if requires != NO_REQUIREMENT:
        asked = parse_requirement(requires) if isinstance(requires, str) else checked_requirement(requires)
        written = requirement_to_bytes(asked)
    if reader.identity is None:
        return FrameRequirements(written)
    said = [one.statement for one in reader.identity.verified(reader.principal)]
    periods = sorted(((int(one.not_before), int(one.not_after)), n, one) for n, one in enumerate(said))
    return FrameRequirements(
        written,
        reader.identity.trust,
        tuple((*period, attributes_of_identity(one)) for period, _, one in periods),
    )


# ------------------------------------------------------------ warnings


class RightsCut(UserWarning):
    """The reader holds more grants than are counted, so that the table may show less than was granted."""


class RowsWithheld(UserWarning):
    """The log has events within the reader's right that the table cannot show; the sentence says which."""


@dataclass(frozen=True, slots=True)
class FactPeriod:
    """What was true at every moment of a period; at all other moments nothing is known."""

    period: Validity
    facts: Facts


@dataclass(frozen=True, slots=True)
class Reader:
    """A principal, its certificates, and whatever else its rights depend on."""

    principal: Principal
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    facts: tuple[FactPeriod, ...] = field(default=(), repr=False)
    revoked: frozenset[bytes] = field(default=frozenset(), repr=False)
    """Ids of certificates that the domain believes no more."""
    evicted: frozenset[Principal] = field(default=frozenset(), repr=False)
    """Principals that the domain has put out."""
    tester: Tester | None = field(default=None, repr=False, compare=False)
    """What came of the tests that certificates demand; without it none of them is passed."""

    chains_max: int = CHAINS_COUNTED
    """Chains of certificates that add up; if there are more, `RightsCut` is warned of."""

    vouched: VouchedFor | None = field(default=None, repr=False, compare=False)
    """Answers to one-time questions about the request that this reader makes."""

    identity: ReaderIdentity | None = field(default=None, repr=False)
    """The reader's identity statements, for what publishers require, and whose statements count."""

    def tested(self, standing: Tester, now: Instant) -> Reader:
        """Return the same reader, whose certificates, and those of writers, are tested at `now`."""
        return replace(self, tester=AsOf(standing, now, self.once_at(now)))

    def once_at(self, now: Instant) -> frozenset[Once]:
        """Return the answers to one-time questions that count at a moment."""
        return NO_ANSWERS if self.vouched is None else self.vouched.counting(now)

    @property
    def pool(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates that still count; refuse a reader that was put out."""
        if self.principal in self.evicted:
            raise Refusal(
                "PIPELINE-READER-DISTRUSTED",
                "you were put out of this domain, and read nothing of its past either",
            )
        return tuple(signed for signed in self.credentials if signed.id not in self.revoked)

    def facts_at(self, moment: Instant) -> Facts:
        """Return what is known of a moment."""
        known = [one.facts for one in self.facts if one.period.contains(moment)]
        return Facts.joined(known) if known else NO_FACTS


# Periods: what a principal might do at each moment.
#
# A table holds events of many moments, and a right is asked at the moment of publication. Certificates
# begin and end, and may hold during certain hours only, so the answer is a list of slices: in all spans of
# one, the kernel gives the same answer. `decide` is asked once for each span and nowhere else is a right
# made up. Moments at which nothing is granted are in no span.


PERIODS_MAX: Final = 256
"""Slices that one table is made of; each is a scan of its own."""
STEPS_MAX: Final = 8192
"""How often the kernel is asked for one table: for some years of working hours."""

_NOT_VOUCHED_FOR: Final = frozenset({"POLICY-STALE", "POLICY-REVOKED", "POLICY-ONE-TIME"})


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

    A right to publish has one View for each grant, as these add up row by row. The refusal is the newest
    one, unless another says that a right is stale. `cache` remembers signatures.
    """
    first = Instant(INSTANT_MIN) if since is None else since
    last = Instant(INSTANT_MAX) if until is None else until
    if last < first:
        raise BadInput("PIPELINE-MOMENTS", "the period that was asked for ends before it begins")
    found: list[_Growing] = []
    refusal: PolicyRefusal | None = None
    for piece in _decided(request, reader, first, last, VerificationCache() if cache is None else cache):
        if isinstance(piece, PolicyRefusal):
            refusal = refusal if refusal is not None and refusal.code in _NOT_VOUCHED_FOR else piece
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
                    warnings.warn(f"{limit.line()} [{'POLICY-GRANTS-LEFT-OUT'}]", RightsCut, stacklevel=2)
                views: tuple[View, ...] = (view,)
                if request.action is Action.PUBLISH:
                    views = publisher_views(request, evidence, reader.facts_at(moment), moment)
                for one in views:
                    yield Slice(moment, end, replace(one, until=None))
            case Denial():
                yield decision.as_refusal()
        if end >= last:
            return
        moment = Instant(end + 1)
    raise BadInput(
        "PIPELINE-PERIODS",
        f"certificates begin and end, or count again, more than {STEPS_MAX} times in the period asked for: "
        "say since when and until when you want to read",
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
            raise BadInput(
                "PIPELINE-PERIODS",
                f"your rights change more than {PERIODS_MAX} times in the period asked for",
            )
        found.append(_Growing(piece.view, [(piece.since, piece.until)]))
    elif same.spans[-1][1] + 1 == piece.since:
        same.spans[-1] = (same.spans[-1][0], piece.until)
    else:
        same.spans.append((piece.since, piece.until))


# Signers: whose signature on a sealed frame counts, for which rows and attributes, and when.
#
# A reader holds the key that content is sealed with, and could seal anything
# with it (A49): only frames signed by a principal that might publish them at that
# moment become rows. The driver decides, from the signers' certificates, by the
# kernel; executors get the answers and look each frame up in them.


@dataclass(frozen=True, slots=True)
class MayWrite:
    """From `since` to `until`, both included, a signer might publish these attributes, under this View."""

    since: int
    until: int
    uids: frozenset[AttributeUid]
    view: View = field(repr=False)


@dataclass(frozen=True, slots=True)
class AcceptedSigners:
    """The signers that count, by their key. `known` are the attributes in use.

    Attributes that no version at hand has are never shown, and so never checked.
    """

    by_key: Mapping[bytes, tuple[MayWrite, ...]]
    known: frozenset[AttributeUid]
    about: Mapping[AttributeUid, frozenset[AttributeUid]] = field(default_factory=dict)
    """What an answer in a frame says something of."""

    @property
    def asked(self) -> frozenset[AttributeUid]:
        """Return the attributes by which it is known whether a signer might write a row."""
        found = [asked_of_writers(one.view for one in rights) for rights in self.by_key.values()]
        return frozenset[AttributeUid]().union(*(self.known if one is None else one for one in found))

    def may_write(self, signer: bytes, uids: Iterable[str], published_at: int) -> tuple[MayWrite, ...]:
        """Return the rights of a signer at a moment if it might publish all of these; else none."""
        named = frozenset(uids)
        asked = self.known & named.union(*(about for uid, about in self.about.items() if uid in named))
        rights = tuple(one for one in self.by_key.get(signer, ()) if one.since <= published_at <= one.until)
        return rights if asked <= frozenset[str]().union(*(one.uids for one in rights)) else ()


def accepted_signers(
    shown: Mapping[Principal, Sequence[SignedCertificate]],
    versions: Sequence[VerifiedType],
    *,
    grounds: Reader,
    since: Instant | None = None,
    until: Instant | None = None,
) -> AcceptedSigners:
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
    return AcceptedSigners(rights, frozenset(uid for version in versions for uid in version.kinds))


def _rights(
    who: Reader, version: VerifiedType, since: Instant | None, until: Instant | None
) -> Iterable[MayWrite]:
    request = Request(who.principal, Action.PUBLISH, version.name, version)
    try:
        slices = slices_of(request, who, since=since, until=until)
    except PolicyRefusal:
        return
    for one in slices:
        uids = frozenset(uid for uid in version.kinds if may_write(one.view, uid))
        for first, last in one.spans or ((one.since, one.until),):
            yield MayWrite(int(first), int(last), uids, one.view)
