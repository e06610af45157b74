"""Which key groups do our own certificates open, and when may that be otherwise?

A member asks this of itself, so that keys to which it has no right any more
are destroyed whether the manager can be reached or not.
"""

from __future__ import annotations

from dataclasses import replace

from maia.credentials import (
    Principal,
    SignedCertificate,
    VerificationCache,
    VerifiedConstitution,
    Witness,
)
from maia.credentials.validity.one_time import WhenVouched
from maia.events import Instant, just_after, seconds_after
from maia.sealing.groups.membership import Claim, Grounds, MembershipState, standing
from maia.sealing.member.settings import MemberSettings
from maia.sealing.member.types import NeededType


class OwnRights:
    """What one member shows to managers, and what that is worth."""

    __slots__ = ("_cache", "_principal", "_settings", "_tester", "pool")

    def __init__(
        self,
        principal: Principal,
        settings: MemberSettings,
        *,
        cache: VerificationCache,
        tester: Witness | None,
    ) -> None:
        """Begin with the certificates of the settings; `tester` says which of them still count."""
        self._principal, self._settings, self._cache, self._tester = principal, settings, cache, tester
        self.pool: tuple[SignedCertificate, ...] = settings.credentials

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Use these constitutions of quorums from now on."""
        self._settings = replace(self._settings, constitutions=constitutions)

    def standing(self, known: NeededType, now: Instant) -> MembershipState:
        """Return the groups of a type that are open to us, and until when that is so."""
        settings = self._settings
        claim = Claim(self._principal, known.versions, self.pool)
        grounds = Grounds(
            known.sealing.level, settings.bounds, settings.constitutions, self._cache, self._tester
        )
        if now <= known.vouched_until:
            # The manager checks online tests, and has said until when they hold.
            grounds = replace(grounds, standing=WhenVouched(grounds.witness))
        return standing(claim, grounds, now)

    def next_chance(self, known: NeededType, now: Instant) -> Instant:
        """Return when our certificates next open something else than now, or a while later."""
        until = self.standing(known, now).until
        return min(just_after(until), seconds_after(now, self._settings.again_max_s))
