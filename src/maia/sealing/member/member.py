"""How does a broker get the keys it needs, keep up with them, and lose them in time?

A broker embeds one `KeyMember` and hands it every input of a link that it
`owns`, each `DialFailed` of an address that it `dials`, and each `Tick`:

    member.need(versions, now)      -> effects: dial the type's manager, join its groups
    member.handle(happened, now)    -> effects: follow rekeys, ask again for what was lost
    member.ring(type_id)            -> the keys as they are now
    member.take_notices()           -> what has changed since this was last asked

While a manager cannot be reached the member goes on with what it holds. It
keeps no key on disk, only the newest signed epoch of each type, so that after
a restart it cannot be led back to an older one (A82). A right that ends
takes its keys with it, whether the manager can be reached or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Final

from maia.credentials import (
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    VerificationCache,
    VerifiedConstitution,
    Witness,
)
from maia.events import Instant
from maia.sealing.groups.group_id import GroupId
from maia.sealing.groups.manager_links import ManagerLink, ManagerLinks
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.member.join import Joining
from maia.sealing.member.notices import Notice
from maia.sealing.member.one_time import MemberVouching
from maia.sealing.member.past_keys import MemberPast
from maia.sealing.member.protocol import ManagerTalk
from maia.sealing.member.publishers import MemberWriters
from maia.sealing.member.rights import OwnRights
from maia.sealing.member.settings import MemberSettings
from maia.sealing.member.types import NeededType, NeededTypes
from maia.types import VerifiedType, strongest
from maia.wire.codec import encode
from maia.wire.effects import (
    Close,
    DialFailed,
    Effect,
    Input,
    LinkClosed,
    LinkId,
    LinkOpened,
    Note,
    Received,
    Send,
    Tick,
    WakeAt,
)
from maia.wire.messages import Bye, LeaveGroups, WhoWrites

__all__ = ["KeyMember"]

_LEAVING: Final = "UNAVAILABLE-SHUTDOWN"


class KeyMember:
    """One member of key groups, as a value that is handed time, chance and messages."""

    def __init__(
        self,
        key: SigningKey,
        settings: MemberSettings,
        *,
        random: Callable[[int], bytes],
        kept: Mapping[str, bytes] | None = None,
        cache: VerificationCache | None = None,
        standing: Witness | None = None,
    ) -> None:
        """Make a member that holds `key`; `kept` is what `Keep` stored before.

        `standing` says which of its certificates still count, and shows managers why.
        """
        self._settings = settings
        cache = VerificationCache() if cache is None else cache
        self._managers = ManagerLinks(settings, random=random, cache=cache, standing=standing)
        self._types = NeededTypes(kept or {})
        self._rights = OwnRights(key.principal, settings, cache=cache, tester=standing)
        self._writers = MemberWriters(settings.writers_max)
        self._past = MemberPast()
        self._notices: list[Notice] = []
        self._numbers = count(1)
        self._joining = Joining(
            key, settings, self._managers, self._rights, numbers=self._numbers, notices=self._notices
        )
        self._talk = ManagerTalk(
            key,
            self._managers,
            self._types,
            self._joining,
            self._rights,
            self._writers,
            self._past,
            MemberVouching(key.principal, self._numbers),
            self._notices,
            check_s=settings.check_s,
        )

    # -------------------------------------------------------- what the broker asks

    def ring(self, type_id: bytes) -> KeyRing | None:
        """Return the keys of a type that is needed."""
        known = self._types.get(type_id)
        return None if known is None else known.keys.ring

    def groups(self, type_id: bytes) -> frozenset[GroupId]:
        """Return the groups of a type that this member has been let into."""
        known = self._types.get(type_id)
        return frozenset() if known is None else known.keys.groups

    def writer(self, type_id: bytes, principal: Principal) -> tuple[SignedCertificate, ...] | None:
        """Return a publisher's certificates; None if they have not arrived yet."""
        return self._writers.get(type_id, principal)

    @property
    def past(self) -> MemberPast:
        """Return what was handed out of epochs that are over."""
        return self._past

    def take_notices(self) -> list[Notice]:
        """Return what happened since this was last asked."""
        notices = list(self._notices)
        self._notices.clear()
        return notices

    def owns(self, link: LinkId) -> bool:
        """Say whether what happens on a link is for this member."""
        return self._managers.on(link) is not None

    def manager_of(self, type_id: bytes) -> ManagerLink | None:
        """Return the manager of a type that is needed, and how far the talk with it has come."""
        known = self._types.get(type_id)
        return None if known is None else self._managers.of(known.sealing.manager)

    def reach(self) -> list[tuple[Principal, bool, int]]:
        """Return which managers can be asked, and how often each was looked for in vain."""
        return [(one.principal, one.is_ready, one.failures) for one in self._managers.all()]

    def dials(self, address: str) -> bool:
        """Say whether this member waits for a link to an address."""
        return bool(self._managers.waiting_at(address))

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: epochs and groups, no keys."""
        return {
            "managers": {str(one.principal): one.stage.value for one in self._managers.all()},
            "types": {one.type_id.hex(): one.status() for one in self._types.all()},
        }

    # -------------------------------------------------------- what the broker needs

    def need(self, versions: Sequence[VerifiedType], now: Instant) -> list[Effect]:
        """Get, and keep up with, the keys of a type; versions oldest first, those known before included."""
        sealing = strongest(one.sealing for one in versions)
        if sealing is None:
            return []
        type_id = versions[-1].type_id
        known = self._types.get(type_id)
        if known is not None and known.versions == tuple(versions):
            return []
        if known is None or known.sealing.manager != sealing.manager:
            if known is None and len(self._types) >= self._settings.types_max:
                return [Note("keys-full", {"types": len(self._types)})]
            known = self._types.begin(type_id, sealing, tuple(versions))
        known.sealing, known.versions = sealing, tuple(versions)
        manager = self._managers.of(sealing.manager)
        manager.addresses = tuple(dict.fromkeys((*sealing.addresses, *self._settings.addresses)))
        return self._finished(self._joining.ask(known, now), now)

    def drop(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Need the keys of a type no more; they are destroyed."""
        known = self._types.drop(type_id)
        if known is None:
            return []
        self._past.forget(type_id)
        manager = self._managers.of(known.sealing.manager)
        return self._finished(self._managers.say(manager, LeaveGroups(type_id)), now)

    def leave(self) -> list[Effect]:
        """Say goodbye to every manager, as before the process ends; all keys are destroyed."""
        effects: list[Effect] = []
        for link in self._managers.open_links():
            effects += [
                Send(link, encode(Bye(_LEAVING, "this member is being stopped"))),
                Close(link, _LEAVING),
            ]
        self._types.wipe()
        self._past.wipe()
        self._managers.clear()
        return effects

    def dial_again(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Look for a manager at once that would be looked for later; nothing if that was just done."""
        known = self._types.get(type_id)
        manager = None if known is None else self._managers.of(known.sealing.manager)
        dialled = [] if manager is None else self._managers.dial_again(manager, now)
        return self._finished(dialled, now) if dialled else []

    def missing(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Ask again: something was sealed in an epoch that is not known here."""
        known = self._types.get(type_id)
        return [] if known is None else self._finished(self._joining.ask(known, now), now)

    def ask_past(self, type_id: bytes, epoch: int, now: Instant) -> list[Effect]:
        """Ask for the keys of an epoch that is over, and of those after it; `past` has them later."""
        known = self._types.get(type_id)
        if known is None or self._past.is_asking(type_id):
            return []
        manager = self._managers.of(known.sealing.manager)
        if not manager.is_ready:
            return []
        shown = self._joining.shown_to(manager)
        question = self._past.ask(next(self._numbers), epoch, known.versions, self._rights.pool, shown)
        return self._finished(self._managers.say(manager, question), now)

    def ask_writer(self, type_id: bytes, principal: Principal, now: Instant) -> list[Effect]:
        """Request a publisher's certificates from the manager; `WriterTold` follows."""
        known = self._types.get(type_id)
        if known is None or self._writers.is_asking(type_id, principal):
            return []
        manager = self._managers.of(known.sealing.manager)
        if not manager.is_ready:
            return []
        self._writers.ask(type_id, principal)
        question = WhoWrites(next(self._numbers), type_id, principal.key)
        return self._finished(self._managers.say(manager, question), now)

    # -------------------------------------------------------- statements

    def credentials_changed(self, credentials: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Show other certificates from now on, as before old ones expire."""
        self._rights.pool = credentials
        asked = [one for known in self._types.all() for one in self._joining.ask(known, now)]
        return self._finished(asked, now)

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Use these constitutions of quorums from now on."""
        self._managers.adopt(constitutions)
        self._rights.adopt(constitutions)

    def rights_changed(self, now: Instant) -> list[Effect]:
        """Look again at what our certificates open: one of them may count no more, or again."""
        looked = [one for known in self._types.all() for one in self._joining.look_at_rights(known, now)]
        return self._finished(looked, now)

    def statement_heard(self, by: Principal, now: Instant) -> list[Effect]:
        """Show managers the statements of `by`, and leave managers that it revokes."""
        return self._talk.statement_heard(by, now)

    def vouch(self, number: int, answers: Iterable[SignedStatement]) -> list[Effect]:
        """Bring the answers to a challenge (a notice `Challenged`): as many as there are, or none."""
        return self._talk.vouch(number, answers)

    # -------------------------------------------------------- what happens, and time

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on; what was due by `now` is done first."""
        effects = self._due(now)
        match happened:
            case LinkOpened():
                effects += self._talk.opened(happened, now)
            case Received(link=link, data=data):
                effects += self._talk.received(link, data, now)
            case LinkClosed(link=link):
                self._talk.closed(link, now)
            case DialFailed(address=address):
                self._talk.not_found(address, now)
            case Tick():
                pass  # what was due has been done
        return self._finished(effects, now)

    def next_look(self) -> Instant | None:
        """Return the next moment at which there is something to do."""
        moments: list[Instant | None] = []
        for manager in self._managers.all():
            moments += [manager.due, manager.check_at]
        for known in self._types.all():
            moments += known.next_looks()
        return min((one for one in moments if one is not None), default=None)

    def _finished(self, effects: list[Effect], now: Instant) -> list[Effect]:
        wake = self.next_look()
        return effects if wake is None else [*effects, WakeAt(Instant(max(wake, now)))]

    def _due(self, now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        for manager in self._managers.all():
            effects += self._talk.due(manager, now)
        for known in self._types.all():
            effects += self._due_of_type(known, now)
        return effects

    def _due_of_type(self, known: NeededType, now: Instant) -> list[Effect]:
        known.keys.forget_before(now)
        effects: list[Effect] = []
        if known.rights_until < now:
            effects += self._joining.look_at_rights(known, now)
        if known.due is not None and known.due <= now:
            known.due = None
            manager = self._managers.of(known.sealing.manager)
            if known.asked is not None and manager.is_ready:
                return [*effects, *self._talk.leave_silent(manager, now)]
            effects += self._joining.ask(known, now)
        return effects
