"""Are we in the key groups of a type, and which keys does that give us?

A member asks the type's manager for all of its keys at once, takes what comes
back, follows from epoch to epoch, and asks again for what it missed. A member that
is put out, or has no right any more, loses its keys in the same moment.

Which key groups do our own certificates open, and when may that be otherwise?

A member asks this of itself, so that keys to which it has no right any more
are destroyed whether the manager can be reached or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from maia.credentials import (
    Principal,
    SignedCertificate,
    SigningKey,
    VerificationCache,
    VerifiedConstitution,
    certificate_to_bytes,
)
from maia.events import INSTANT_MAX, AttributeUid, Instant, just_after, seconds_after
from maia.policy.answers import Answers
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.manager_links import ManagerLink, ManagerLinks
from maia.sealing.groups.membership import AnsweredRestrictions, Claim, Grounds, MembershipState, standing
from maia.sealing.groups.outcomes import NoGroupOpen
from maia.sealing.groups.welcome import parcel_info, unpack
from maia.sealing.keys.delivery import EncryptionKey
from maia.sealing.keys.epochs import epoch_to_bytes
from maia.sealing.keys.type_keys import KeysMissed
from maia.sealing.member.settings import KeysChanged, KeysRefused, MemberSettings, Notice
from maia.sealing.member.types import NeededType
from maia.types import definition_to_bytes
from maia.validity import Tester, VouchedFor
from maia.wire.effects import Count, Effect, Note
from maia.wire.messages import Challenge, Failed, GroupKeys, GroupsEnded, JoinGroups, KeysHeld, Rekey


class OwnRights:
    """What one member shows to managers, and what that is worth."""

    __slots__ = ("_cache", "_principal", "_settings", "_tester", "pool")

    def __init__(
        self,
        principal: Principal,
        settings: MemberSettings,
        *,
        cache: VerificationCache,
        tester: Tester | None,
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
        # The manager asks for one-time answers, and has said until when they hold.
        vouched = VouchedFor.assumed(self.pool, now, known.vouched_until)
        claim = Claim(self._principal, known.versions, self.pool, vouched)
        grounds = Grounds(
            known.sealing.level,
            settings.bounds,
            settings.constitutions,
            self._cache,
            self._tester,
            answers=_as_told(known.keys.ring.answers),
        )
        return standing(claim, grounds, now)

    def next_chance(self, known: NeededType, now: Instant) -> Instant:
        """Return when our certificates next open something else than now, or a while later."""
        until = self.standing(known, now).until
        return min(just_after(until), seconds_after(now, self._settings.again_max_s))


def _as_told(answers: Answers) -> AnsweredRestrictions:
    """Return the restrictions that are answered, as far as the manager has told them."""
    uids = {said: uid for uid, said in answers.items()}
    return AnsweredRestrictions(answers, uids.get)


class Joining:
    """How one member joins groups, stays there and leaves; what changed is put on `notices`."""

    __slots__ = ("_key", "_managers", "_notices", "_numbers", "_rights", "_settings")

    def __init__(
        self,
        key: SigningKey,
        settings: MemberSettings,
        managers: ManagerLinks,
        rights: OwnRights,
        *,
        numbers: Iterator[int],
        notices: list[Notice],
    ) -> None:
        """Speak for the holder of `key`; `numbers` are those of its questions."""
        self._key, self._settings, self._managers, self._rights = key, settings, managers, rights
        self._numbers, self._notices = numbers, notices

    # -------------------------------------------------------- asking

    def ask(self, known: NeededType, now: Instant, *, at_once: bool = False) -> list[Effect]:
        """Ask for all keys of a type, unless an answer is awaited already."""
        manager = self._managers.of(known.sealing.manager)
        if not manager.is_ready:
            is_idle = manager.is_idle and manager.due is None
            return self._managers.dial(manager, now) if is_idle else []
        if known.asked is not None and not at_once:
            return []
        known.asked = next(self._numbers)
        known.due = seconds_after(now, self._settings.answer_s)
        return self._managers.say(manager, self._question(known.asked, known, manager.signed_key(self._key)))

    def _question(self, number: int, known: NeededType, shown: EncryptionKey) -> JoinGroups:
        head = known.keys.head
        return JoinGroups(
            number,
            [definition_to_bytes(version.signed) for version in known.versions],
            [certificate_to_bytes(signed) for signed in self._rights.pool],
            shown.key,
            shown.signature,
            None if head is None else epoch_to_bytes(head),
        )

    # -------------------------------------------------------- what a manager says of a type

    def hear(
        self,
        manager: ManagerLink,
        known: NeededType,
        message: GroupKeys | Rekey | KeysHeld | GroupsEnded,
        now: Instant,
    ) -> list[Effect]:
        """Take on what a manager says of a type; if something was missed, ask again."""
        try:
            match message:
                case GroupKeys():
                    return self._take(manager, known, message, now)
                case Rekey():
                    return self._changed(known, now) if known.keys.follow(message) else []
                case KeysHeld():
                    manager.awaits_check = False
                    known.keys.compare(message)
                    return []
                case GroupsEnded():
                    return self._ended(known, message, now)
        except KeysMissed as problem:
            fields = {"type": known.type_id.hex(), "code": problem.code, "why": problem.message}
            missed = Count("maia_keys_missed_total")
            return [Note("keys-missed", fields), missed, *self.ask(known, now, at_once=True)]

    def _take(
        self, manager: ManagerLink, known: NeededType, message: GroupKeys, now: Instant
    ) -> list[Effect]:
        info = parcel_info(known.type_id, manager=manager.principal, member=self._key.principal)
        parcel = unpack(manager.secured.open(message.sealed, info), known.type_id)
        was_asked = known.asked is not None and message.id == known.asked
        before = known.keys.ring.newest, known.keys.groups
        known.keys.take(message, parcel, was_asked=was_asked)
        if was_asked:
            known.joined_as = known.asked
            known.asked, known.due, known.failures = None, None, 0
        until = message.until
        known.rights_until = Instant(INSTANT_MAX) if until is None else Instant(until)
        known.vouched_until = known.rights_until
        manager.failures = 0
        is_same = not was_asked and before == (known.keys.ring.newest, known.keys.groups)
        return [] if is_same else self._changed(known, now)  # the same keys for longer are no news

    def _changed(self, known: NeededType, now: Instant) -> list[Effect]:
        known.keys.forget_before(now)
        self._notices.append(KeysChanged(known.type_id))
        fields = {
            "type": known.type_id.hex(),
            "epoch": known.keys.ring.newest,
            "groups": len(known.keys.groups),
        }
        return [*known.keep_head(), Note("keys", fields), Count("maia_keys_followed_total")]

    def _ended(self, known: NeededType, message: GroupsEnded, now: Instant) -> list[Effect]:
        groups = [GroupId(known.type_id, None if uid is None else AttributeUid(uid)) for uid in message.uids]
        self._shut_out(known, groups)
        if not known.keys.groups:
            known.due = self._rights.next_chance(known, now)
            self._notices.append(KeysRefused(known.type_id, message.code, message.message))
        fields = {"type": known.type_id.hex(), "groups": len(groups), "code": message.code}
        return [Note("keys-ended", fields)]

    def challenged(self, known: NeededType, message: Challenge, now: Instant) -> None:
        """Give a manager that waits for one-time answers the time that it waits, and its own."""
        if known.asked == message.ref:
            known.due = seconds_after(now, int(message.seconds) + self._settings.answer_s)

    def refused(self, known: NeededType, message: Failed, now: Instant) -> list[Effect]:
        """Take note that a manager lets us into no group, and when to ask again."""
        known.asked = None
        self._managers.of(known.sealing.manager).failures = 0
        known.failures += 1
        known.due = min(self._managers.again(known.failures, now), self._rights.next_chance(known, now))
        if message.code == NoGroupOpen.code and known.keys.groups:
            # It was put out, and the message that said so was lost.
            self._shut_out(known, known.keys.groups)
        self._notices.append(KeysRefused(known.type_id, message.code, message.message))
        fields = {"type": known.type_id.hex(), "code": message.code, "message": message.message}
        return [Note("keys-refused", fields), Count("maia_keys_refused_total", labels={"code": message.code})]

    # -------------------------------------------------------- what our own certificates say

    def look_at_rights(self, known: NeededType, now: Instant) -> list[Effect]:
        """Destroy the keys to which our own certificates give no right any more."""
        found = self._rights.standing(known, now)
        known.rights_until = found.until
        lost = known.keys.groups - found.groups
        if not lost:
            return []
        self._shut_out(known, lost)
        if not known.keys.groups:
            known.due = known.due if known.asked is not None else self._rights.next_chance(known, now)
            ended = "the right to the keys of this type has ended"
            self._notices.append(KeysRefused(known.type_id, "REFUSED-RIGHT-ENDED", ended))
        return [Note("keys-expired", {"type": known.type_id.hex(), "groups": len(lost)})]

    def _shut_out(self, known: NeededType, groups: Iterable[GroupId]) -> None:
        known.keys.shut_out(groups)
        self._notices.append(KeysChanged(known.type_id))
