"""With which certificates did members of a type publish, since its past is kept?

A reader of a log decides itself whether the signer of a frame might publish
it, and needs the signer's certificates of that time: also of a broker that is
gone, and those that were renewed since. The manager has seen them all, and
remembers them where keys are kept for reading the past. They are evidence,
not an answer: the receiver verifies them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from maia.credentials import Principal, SignedCertificate
from maia.events import INSTANT_MAX

__all__ = ["CERTIFICATES_MAX", "WRITERS_MAX", "PastWriters"]

WRITERS_MAX: Final = 4096
CERTIFICATES_MAX: Final = 64
"""Certificates that are remembered of one member; those that ended first go first."""


class PastWriters:
    """The publishers of what may still be read, and their certificates."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Begin empty."""
        self._known: dict[Principal, dict[bytes, SignedCertificate]] = {}

    def note(self, principal: Principal, shown: Iterable[SignedCertificate]) -> bool:
        """Remember what a member publishes with; say whether any of it is new."""
        known = self._known.get(principal, {})
        found = known | {signed.id: signed for signed in shown}
        if found.keys() == known.keys() or (not known and len(self._known) >= WRITERS_MAX):
            return False
        kept = sorted(found.values(), key=_ends)[-CERTIFICATES_MAX:]
        self._known[principal] = {signed.id: signed for signed in kept}
        return self._known[principal].keys() != known.keys()

    def of(self, principal: Principal) -> tuple[SignedCertificate, ...]:
        """Return what is remembered of a member."""
        return tuple(self._known.get(principal, {}).values())

    def believed(
        self, *, evicted: Collection[Principal], revoked: Collection[bytes]
    ) -> dict[Principal, tuple[SignedCertificate, ...]]:
        """Return all publishers, without evicted principals and revoked certificates."""
        left = {
            principal: tuple(signed for key, signed in known.items() if key not in revoked)
            for principal, known in self._known.items()
            if principal not in evicted
        }
        return {principal: shown for principal, shown in left.items() if shown}


def _ends(signed: SignedCertificate) -> int:
    ends = signed.certificate.validity.not_after
    return INSTANT_MAX if ends is None else int(ends)
