"""What of the past may a reader have: keys of epochs that are over, and the publishers' certificates?

A key server asks for readers that were away, and for members that opened a
frame and want to know whose it is. An evicted principal gets
nothing, and nothing is given that depends on a revoked certificate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from maia.credentials import CertificateRevoked, Principal, SignedCertificate
from maia.events import Instant
from maia.sealing.groups.members import GroupMembers
from maia.sealing.groups.membership import Claim, Grounds, tested_now, writing_certificates
from maia.sealing.groups.outcomes import Distrusted, NoGroupOpen
from maia.sealing.groups.type_groups import TypeGroups
from maia.sealing.keys.history import PAGE_EPOCHS, HistoryNotKept, PastEpoch, PastWriters, past_keys

Past: TypeAlias = tuple[tuple[PastEpoch, ...], int | None]
"""Some epochs that are over, and where to go on."""


class GroupPast:
    """What is known of the past of one type's groups."""

    __slots__ = ("_distrusted", "_groups", "_members", "_writers")

    def __init__(
        self, groups: TypeGroups, members: GroupMembers, writers: PastWriters, distrusted: Distrusted
    ) -> None:
        self._groups, self._members = groups, members
        self._writers, self._distrusted = writers, distrusted

    def keys(
        self, claim: Claim, grounds: Grounds, *, since: Instant, until: Instant, after: int, now: Instant
    ) -> Past:
        """Return the keys of epochs that are over, for a reader that could have had them at their time.

        At most a page of the epochs between two moments, beginning with the
        first after number `after`; and the number to go on with, or None.
        """
        if not self._groups.keeps_history:
            raise HistoryNotKept("the keys of this type are not kept when their time is over")
        principal, distrusted = claim.principal, self._distrusted
        if principal in distrusted.evicted:
            raise NoGroupOpen("you were put out of the key groups of this type")
        spans = [
            span
            for span in self._groups.ledger.over(now)
            if span.number > after and span.since <= until and span.ends > since
        ]
        page = spans[:PAGE_EPOCHS]
        pool = tuple(one for one in claim.pool if one.id not in distrusted.revoked)
        good, tested = tested_now(replace(claim, pool=pool), grounds, now)
        trusted_since = distrusted.readmitted.get(principal)
        found = past_keys(page, good, tested, self._groups.secret_of, trusted_since=trusted_since)
        return tuple(found), page[-1].number if len(spans) > len(page) else None

    def writer(self, principal: Principal, grounds: Grounds, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates with which a member publishes, or has published; none if it does not."""
        member = self._members.get(principal)
        writes = member is not None and member.may_write
        shown = writing_certificates(member.claim, grounds, now) if member and writes else ()
        if principal in self._distrusted.evicted:
            return shown
        earlier = self._unrevoked(self._writers.of(principal), grounds, now)
        return tuple({one.id: one for one in (*shown, *earlier)}.values())

    def writers(self, grounds: Grounds, now: Instant) -> dict[Principal, tuple[SignedCertificate, ...]]:
        """Return who has published what is kept for reading the past, and what spoke for it."""
        distrusted = self._distrusted
        found = self._writers.believed(evicted=distrusted.evicted, revoked=distrusted.revoked)
        return {who: self._unrevoked(shown, grounds, now) for who, shown in found.items()}

    def _unrevoked(
        self, shown: tuple[SignedCertificate, ...], grounds: Grounds, now: Instant
    ) -> tuple[SignedCertificate, ...]:
        return tuple(
            one
            for one in shown
            if one.id not in self._distrusted.revoked
            and not isinstance(grounds.witness.problem_with(one, now), CertificateRevoked)
        )
