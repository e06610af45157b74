"""Whose signature on a sealed frame counts, for which attributes, and when?

A reader holds the key that content is sealed with, and could seal anything
with it (A49): only frames signed by a principal that might publish them at that
moment become rows. The driver decides, from the signers' certificates, by the
kernel; executors get the answers and look each frame up in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from maia.credentials import Action, Principal, SignedCertificate
from maia.events import AttributeUid, Instant
from maia.policy import PolicyRefusal, Request
from maia.policy.view import shows
from maia.spark.governed.periods import slices_of
from maia.spark.governed.reader import Reader
from maia.types import VerifiedType

__all__ = ["MayWrite", "Signers", "accepted_signers"]


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
