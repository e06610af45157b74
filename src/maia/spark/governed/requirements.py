"""Which recorded frames would have come to this reader, by the identity of its publisher and its own?

Live, the reader's broker decides both: what the reader requires of publishers,
on the statement that travels with the frame, and what the publisher requires
of subscribers, on the statement that the reader has shown. A frame in
the log carries statement and requirement as it travelled. Each executor decides
once for a pair of statement and requirement, before it opens anything, and
never row by row. What counts is the moment of publication. The reader's statement
of that moment is the one that began last, as if it had been shown at once; one that
has expired is none, whatever was shown before it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from maia.credentials import Principal
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
from maia.errors import MaiaError
from maia.events import INSTANT_MIN, Instant
from maia.predicates import Predicate
from maia.wire.messages import Author, Carried, CarriedWithAuthor, Sealed, SealedWithAuthor

__all__ = ["FrameRequirements", "ReaderIdentity", "frame_requirements"]

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
