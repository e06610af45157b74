"""Of which types does this broker hold keys, and how does it come by those it lacks?

The broker's key member talks to key managers; this keeps it busy with the
right types. Keys are asked for where the broker's own certificates open a
group, and nowhere else. Questions that a flood of frames could cause are
asked no more than once in a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from maia.broker.access.known_types import KnownTypes
from maia.broker.settings import BrokerSettings
from maia.credentials import (
    Principal,
    SignedCertificate,
    SigningKey,
    VerificationCache,
    VerifiedConstitution,
    Witness,
)
from maia.credentials.validity.one_time_answers import WhenVouched
from maia.events import INSTANT_MAX, Instant
from maia.sealing.groups.membership import VERSIONS_MAX, Claim, Grounds, MembershipState, standing
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import MemberSettings
from maia.sessions.challenges import Challenged
from maia.wire.effects import Effect, WakeAt

__all__ = ["KeyRequests", "without_alarms"]

_SECOND: Final = 1_000_000


class KeyRequests:
    """The key member of one broker, and what it was asked to look after."""

    __slots__ = (
        "_asked_at",
        "_cache",
        "_found",
        "_key",
        "_settings",
        "_tester",
        "_types",
        "challenges",
        "is_touched",
        "member",
        "refused",
    )

    def __init__(
        self,
        key: SigningKey,
        settings: BrokerSettings,
        *,
        types: KnownTypes,
        random: Callable[[int], bytes],
        kept: Mapping[str, bytes],
        cache: VerificationCache,
        standing: Witness,
    ) -> None:
        """Begin with no type needed; `standing` says which certificates still count."""
        self._key, self._settings, self._types, self._cache = key, settings, types, cache
        self._tester = standing
        told = MemberSettings(
            network=settings.network,
            credentials=settings.credentials,
            addresses=settings.key_managers,
            bounds=settings.bounds,
            constitutions=settings.constitutions,
        )
        self.member = KeyMember(key, told, random=random, kept=kept, cache=cache, standing=standing)
        self.refused: dict[bytes, str] = {}
        """Types whose manager has said no, and its code: nothing of them waits for a key."""
        self.challenges: list[Challenged] = []
        """What managers want to have vouched for, and nobody has begun to ask for."""
        self.is_touched = False
        """Whether a certificate of this broker counts no more, or again, and the keys do not know yet."""
        self._found: dict[bytes, tuple[MembershipState, int]] = {}
        self._asked_at: dict[bytes, Instant] = {}

    def ring_of(self, type_id: bytes) -> KeyRing | None:
        """Return the keys of a type; None if this broker has none and expects none."""
        return None if type_id in self.refused else self.member.ring(type_id)

    def look_for(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Ask for the keys of a sealed type, if this broker's certificates open any of its groups.

        The usual answer, that nothing has changed, costs a look into a dictionary.
        """
        sealing, versions = self._types.sealing(type_id), self._types.versions(type_id)
        known = self._found.get(type_id)
        if sealing is None:
            self._found.pop(type_id, None)  # it was sealed, and is known no more
            return []
        if known is not None and known[0].since <= now <= known[0].until and known[1] == len(versions):
            return []
        claim = Claim(self._key.principal, versions[-VERSIONS_MAX:], self._settings.credentials)
        settings = self._settings
        # What others have to vouch for is asked for when the manager wants it.
        hoped = WhenVouched(self._tester)
        grounds = Grounds(sealing.level, settings.bounds, settings.constitutions, self._cache, hoped)
        found = standing(claim, grounds, now)
        self._found[type_id] = (found, len(versions))
        if not found.groups:
            return []
        asked = self.member.need(claim.versions, now)
        if not asked and known is not None and found.groups - known[0].groups:
            asked = self.member.missing(type_id, now)  # another group has opened
        return without_alarms(asked)

    def opens_any(self, type_id: bytes) -> bool | None:
        """Say whether this broker's certificates open a group of a type; None if that was not looked at."""
        found = self._found.get(type_id)
        return None if found is None else bool(found[0].groups)

    def dial_again(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Look for a key server that was away without waiting any longer, unless it was a moment ago."""
        return without_alarms(self.member.dial_again(type_id, now))

    def look_again(self, now: Instant) -> list[Effect]:
        """Ask for keys to which this broker's certificates have begun to give a right."""
        due = [type_id for type_id, (found, _) in self._found.items() if found.until < now]
        return [effect for type_id in due for effect in self.look_for(type_id, now)]

    def evidence_changed(self) -> None:
        """Forget what was worked out: what speaks for or against somebody has changed."""
        self._found.clear()

    def rights_changed(self, now: Instant) -> list[Effect]:
        """Destroy keys to which this broker's certificates give no right any more, and ask for others."""
        types, self.is_touched = list(self._found), False
        self._found.clear()
        lost = without_alarms(self.member.rights_changed(now))
        return [*lost, *(effect for type_id in types for effect in self.look_for(type_id, now))]

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Ask these constitutions from now on; what that changes is looked at when `rights_changed`."""
        self._settings = replace(self._settings, constitutions=constitutions)
        self.member.adopt(constitutions)
        self.is_touched = True

    def hold(self, certificates: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Ask with other certificates from now on; what they open is looked at when `rights_changed`."""
        self._settings = replace(self._settings, credentials=certificates)
        self.is_touched = True
        return without_alarms(self.member.credentials_changed(certificates, now))

    def next_look(self) -> Instant | None:
        """Return when there is something to do: for the member, or because a certificate begins."""
        begins = [Instant(found.until + 1) for found, _ in self._found.values() if found.until < INSTANT_MAX]
        member = self.member.next_look()
        return min([*begins, *([] if member is None else [member])], default=None)

    def statement_heard(self, by: Principal, now: Instant) -> list[Effect]:
        """Show key managers a statement that this broker's own certificates demand."""
        return without_alarms(self.member.statement_heard(by, now))

    def ask_for_epoch(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Ask the manager what was missed: something is sealed in an epoch that is not known here."""
        asked = self._asked_at.get(type_id)
        if asked is not None and asked <= now < asked + _SECOND:
            return []
        self._asked_at[type_id] = now
        return without_alarms(self.member.missing(type_id, now))

    def ask_for_writer(self, type_id: bytes, signer: Principal, now: Instant) -> list[Effect]:
        """Ask the manager with which certificates somebody signs."""
        return without_alarms(self.member.ask_writer(type_id, signer, now))

    def awaits_past(self, type_id: bytes, epoch: int) -> bool:
        """Say whether the manager may still hand out keys of an epoch that is over."""
        past = self.member.past
        return self.ring_of(type_id) is not None and not past.is_answered(type_id, epoch)

    def ask_for_past(self, type_id: bytes, epoch: int, now: Instant) -> list[Effect]:
        """Ask the manager for the keys of an epoch that is over."""
        return without_alarms(self.member.ask_past(type_id, epoch, now))


def without_alarms(effects: Iterable[Effect]) -> list[Effect]:
    """Return effects without wishes to be woken: the broker has one alarm clock for everything."""
    return [effect for effect in effects if not isinstance(effect, WakeAt)]
