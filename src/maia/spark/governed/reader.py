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

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from maia.credentials import BrokenChain, Principal, SignedCertificate, Tester, Validity, VerifiedConstitution
from maia.credentials.identity import (
    Identity,
    IdentityTrust,
    SignedIdentity,
    VerifiedIdentity,
    verify_identity,
)
from maia.credentials.requirements import (
    NO_ATTRIBUTES,
    Attributes,
    attributes_of_identity,
    is_met,
    requirement_from_bytes,
    requirement_to_bytes,
)
from maia.credentials.validity.validity_state import Once
from maia.errors import BadInput, MaiaError, Refusal, Unavailable
from maia.events import INSTANT_MIN, Instant
from maia.policy import CHAINS_COUNTED, NO_FACTS, BoundRule, Facts
from maia.predicates import Predicate
from maia.wire.messages import Author, Carried, CarriedWithAuthor, Sealed, SealedWithAuthor

# Which recorded frames would have come to this reader, by the identity of its publisher and its own?
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
        """Say whether publisher and reader meet what they require of each other."""
        author = frame.author if isinstance(frame, CarriedWithAuthor | SealedWithAuthor) else None
        if self.requires and not is_met(
            requirement_from_bytes(self.requires), self._publisher(frame, author)
        ):
            return False
        if author is None or not author.requires:
            return True
        if self.for_all_alone:
            return False
        return is_met(requirement_from_bytes(author.requires), self.reader_at(frame.published_at))

    def reader_at(self, moment: int) -> Attributes:
        """Return what the reader's statement said at a moment; nothing if it had expired by then."""
        begun = bisect_right(self.periods, moment, key=_beginning)
        _, not_after, attributes = self.periods[begun - 1] if begun else _NONE
        return attributes if moment <= not_after else NO_ATTRIBUTES

    def _publisher(self, frame: Carried | Sealed, author: Author | None) -> Attributes:
        if author is None or not author.statement or self.trust is None:
            return NO_ATTRIBUTES
        known = _verified(self.trust, author.statement, frame.publisher)
        is_in_force = known is not None and known.is_in_force(Instant(frame.published_at))
        return attributes_of_identity(known) if is_in_force else NO_ATTRIBUTES


def _beginning(period: tuple[int, int, Attributes]) -> int:
    return period[0]


@lru_cache(maxsize=_STATEMENTS_REMEMBERED)
def _verified(trust: IdentityTrust, statement: bytes, publisher: bytes) -> Identity | None:
    """Return what a statement says if it is good at any moment; None if it is not."""
    try:
        return trust.verified_ever(statement, Principal(publisher)).statement
    except MaiaError:
        return None


def frame_requirements(
    reader: Principal, identity: ReaderIdentity | None, requires: Predicate
) -> FrameRequirements:
    """Return what decides about frames for a reader, whose statements are verified here."""
    if identity is None:
        return FrameRequirements(requirement_to_bytes(requires))
    said = [one.statement for one in identity.verified(reader)]
    periods = sorted(((int(one.not_before), int(one.not_after)), n, one) for n, one in enumerate(said))
    return FrameRequirements(
        requirement_to_bytes(requires),
        identity.trust,
        tuple((*period, attributes_of_identity(one)) for period, _, one in periods),
    )


# In which ways does a governed table say no, beside those of the policy kernel?


class RightsCut(UserWarning):
    """The reader holds more grants than are counted, so that the table may show less than was granted."""


class ReaderDistrusted(Refusal):
    """The reader was put out by the domain, whatever its certificates say of the past."""

    code = "PIPELINE-READER-DISTRUSTED"


class GrantEnded(Refusal):
    """The right behind a governed table was taken back; ask for the table again."""

    code = "PIPELINE-GRANT-ENDED"


class TooManyPeriods(BadInput):
    """Certificates begin and end more often in the period than one table allows."""

    code = "PIPELINE-PERIODS"


class BadMoments(BadInput):
    """The period asked for ends before it begins."""

    code = "PIPELINE-MOMENTS"


class NoSuchColumn(BadInput):
    """A column was asked for that the reader's version of the type does not have."""

    code = "PIPELINE-COLUMN"


class NameTaken(BadInput):
    """An attribute has the name of one of the columns about the event itself."""

    code = "PIPELINE-NAME-TAKEN"


class UnknownTerms(BadInput):
    """A right depends on an attribute that no version at hand declares."""

    code = "PIPELINE-UNKNOWN-TERMS"


class ShownAsAnother(BadInput):
    """A right converts events into another type than the one that the table was asked to show."""

    code = "INPUT-SHOWN-AS"


class SummaryOfFrames(BadInput):
    """A right that shows summaries was to show a stream, or the frames that events came in."""

    code = "INPUT-SUMMARY-OF-FRAMES"


class NoKeys(Unavailable):
    """The type is sealed, and nothing was handed over that opens it."""

    code = "PIPELINE-NO-KEYS"


class SignerNotEntitled(Refusal):
    """A frame was signed by a principal without the right to publish it at that time."""

    code = "PIPELINE-SIGNER"


class FramesForgotten(Unavailable):
    """The log has removed frames that a stream has not read."""

    code = "PIPELINE-FRAMES-FORGOTTEN"


class NotThisStream(BadInput):
    """A checkpoint belongs to another stream, another type or another log."""

    code = "PIPELINE-CHECKPOINT"


class ReadingNotOnRecord(Refusal):
    """The owner of a type demands that what is read of it is on record, and no ledger was named."""

    code = "PIPELINE-LEDGER-REQUIRED"


@dataclass(frozen=True, slots=True)
class FactPeriod:
    """What was true at every moment of a period; at all other moments nothing is known."""

    period: Validity
    facts: Facts


@dataclass(frozen=True, slots=True)
class AnsweredOnce:
    """The certificates confirmed for one request, and until when that counts."""

    once: frozenset[Once] = field(repr=False)
    until: Instant


class TestedAt:
    """What was known of certificates at one moment: the answer for every moment of a table."""

    __slots__ = ("_at", "_found", "_once", "_standing")

    def __init__(self, standing: Tester, at: Instant, once: Collection[Once] = ()) -> None:
        """Ask `standing` about the moment `at`, once for each certificate."""
        self._standing, self._at, self._once = standing, at, once
        self._found: dict[bytes, BrokenChain | None] = {}

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return what spoke against a certificate when it was tested; `at` is a moment that is over."""
        if signed.id not in self._found:
            self._found[signed.id] = self._standing.problem_with(signed, self._at, once=self._once)
        return self._found[signed.id]


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

    answered: AnsweredOnce | None = field(default=None, repr=False, compare=False)
    """Answers to one-time questions about the request that this reader makes."""

    identity: ReaderIdentity | None = field(default=None, repr=False)
    """The reader's identity statements, for what publishers require, and whose statements count."""

    def tested(self, standing: Tester, now: Instant) -> Reader:
        """Return the same reader, whose certificates, and those of writers, are tested at `now`."""
        return replace(self, tester=TestedAt(standing, now, self.once_at(now)))

    def once_at(self, now: Instant) -> frozenset[Once]:
        """Return the answers to one-time questions that count at a moment."""
        return self.answered.once if self.answered is not None and now <= self.answered.until else frozenset()

    @property
    def pool(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates that still count; refuse a reader that was put out."""
        if self.principal in self.evicted:
            raise ReaderDistrusted("you were put out of this domain, and read nothing of its past either")
        return tuple(signed for signed in self.credentials if signed.id not in self.revoked)

    def facts_at(self, moment: Instant) -> Facts:
        """Return what is known of a moment."""
        known = [one.facts for one in self.facts if one.period.contains(moment)]
        return Facts({uid: value for facts in known for uid, value in facts.items()}) if known else NO_FACTS
