"""The key server: it runs the key groups of every type whose owner has named it.

    server.handle(Received(link, data), now) -> [Keep(...), Send(...), WakeAt(...), ...]

It has no clock, no socket and no disk, like a broker. Members dial it, prove
their right to be part of the network, and ask to join. What an epoch or an
eviction changed is kept before anybody hears of it. Errors of one peer end in
an answer to that peer, or in the end of its link, and never leave `handle`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, assert_never

from maia.credentials import Principal, SignedStatement, SigningKey, VerificationCache
from maia.domain.keys.links import Held, KeyServerValidity, Links, MemberLink
from maia.domain.keys.managed_types import Changes, ManagedTypes
from maia.domain.keys.requests import KeyRequestHandler, refusal_told
from maia.domain.keys.settings import DomainSettings
from maia.errors import MaiaError, ProtocolViolation, Unavailable
from maia.events import Instant
from maia.sealing.groups.manager import GroupManager
from maia.sealing.groups.membership import Claim
from maia.sealing.keys.secrets import AtRest, Secret
from maia.sessions.challenges import ChallengeDesk
from maia.sessions.session import Established
from maia.validity import Changed
from maia.wire.codec import encode
from maia.wire.effects import (
    Close,
    Count,
    DialFailed,
    Effect,
    Input,
    Keep,
    Kept,
    LinkClosed,
    LinkOpened,
    LogRead,
    Note,
    Received,
    Recorded,
    Send,
    Tick,
    WakeAt,
)
from maia.wire.messages import (
    Accepted,
    Bye,
    ExpectMember,
    HistoryKeys,
    JoinGroups,
    KeysHeld,
    LeaveGroups,
    Message,
    Show,
    Vouched,
    WhoWrites,
)

_NOTHING_KEPT: Final[Mapping[str, bytes]] = {}


class KeyServer:
    """One key server of one network, as a value that is handed time, chance and messages."""

    def __init__(
        self,
        key: SigningKey,
        settings: DomainSettings,
        *,
        at_rest: Secret,
        random: Callable[[int], bytes],
        kept: Mapping[str, bytes] = _NOTHING_KEPT,
    ) -> None:
        """Make a server that holds `key`; secrets are kept sealed under a key that grows from `at_rest`."""
        self._principal, self._settings = key.principal, settings
        self._kept = dict(kept)
        self._changes: Changes = {}
        self._counters: Counter[str] = Counter()
        self._is_draining = False
        sealed, certificates = AtRest(at_rest, random), VerificationCache()
        self._validity = KeyServerValidity(
            settings, certificates, kept, changes=self._changes, recheck=self._statement_changed
        )
        self._links = Links(settings, certificates, self._validity, instance=random(16))
        self._types = ManagedTypes(
            key,
            settings,
            at_rest=sealed,
            random=random,
            certificates=certificates,
            tester=self._validity.monitor,
            links=self._links,
            changes=self._changes,
        )
        desk: ChallengeDesk[Held] = ChallengeDesk(settings.limits, lease_s=settings.lease_s, random=random)
        self._requests = KeyRequestHandler(
            key.principal, settings, self._types, self._links, self._validity, desk, random
        )

    # -------------------------------------------------------- life

    def start(self, now: Instant) -> list[Effect]:
        """Verify what was kept and go on from there."""
        kept, self._kept = self._kept, {}
        dropped = self._types.reload(kept, now)
        notes: list[Effect] = [Note("kept-dropped", {"name": name, "code": "unreadable"}) for name in dropped]
        fields = {"principal": str(self._principal), "address": self._settings.address}
        return self._finished([Note("started", fields), *notes, *self._look(now)], now)

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on; rights that have ended by `now` end first, and their keys with them."""
        effects = self._look(now)
        match happened:
            case LinkOpened():
                effects += self._links.connected(happened, now)
            case Received(link=number, data=data):
                link = self._links.get(number)
                answered = [] if link is None else self._received(link, data, now)
                intake = self._validity.intake
                effects += [*intake.shown_effects, *answered]
                intake.shown_effects = []
            case LinkClosed(link=number):
                effects += self._requests.closed(number)
            case DialFailed() | Tick() | Recorded() | LogRead() | Kept():
                pass  # it dials nobody, records nothing and ends with its store; what was due is done
            case _:
                assert_never(happened)
        return self._finished(effects, now)

    def drain(self, now: Instant) -> list[Effect]:
        """Say goodbye on every link; members go on with the keys they have."""
        self._is_draining = True
        problem = Unavailable("UNAVAILABLE-SHUTDOWN", "this key server is being stopped")
        effects = [one for link in self._links.all() for one in self._requests.close(link, problem)]
        return self._finished(effects, now)

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: links, types, epochs, numbers; no key and no certificate."""
        links = self._links.all()
        return {
            "principal": str(self._principal),
            "network": self._settings.network.name,
            "address": self._settings.address,
            "at": str(now),
            "draining": self._is_draining,
            "links": [link.record(now) for link in links if link.is_ready],
            "links_waiting": sum(not link.is_ready for link in links),
            "members": sum(link.is_ready for link in links),
            **self._types.status(),
            "vouchers": self._validity.status(now),
            "one_time": {"waiting": len(self._requests.desk)},
            "counters": dict(self._counters),
        }

    def groups_of(self, type_id: bytes) -> GroupManager | None:
        return self._types.get(type_id)

    # -------------------------------------------------------- what the domain decides

    def expect(self, claim: Claim, now: Instant) -> list[Effect]:
        """Begin the keys of a right that the domain has given; raise if nothing is open to its holder."""
        manager = self._types.of(claim.versions)
        return self._finished(self._requests.expect(manager, claim, now), now)

    def hold(self, settings: DomainSettings, now: Instant) -> list[Effect]:
        """Show these certificates from now on, and keep the old keys of these types."""
        self._settings = settings
        self._links.hold(settings)
        return self._finished(self._types.keep_history(settings, now), now)

    def evict(self, principal: Principal, now: Instant) -> list[Effect]:
        """Put a principal out of every group at once, and keep it out."""
        return self._finished(self._types.evict(principal, now), now)

    def readmit(self, principal: Principal, now: Instant) -> list[Effect]:
        """Let a principal in again that was put out, as soon as it asks; its right counts from now on."""
        self._types.readmit(principal, now)
        return self._finished([], now)

    def revoke(self, certificates: Iterable[bytes], now: Instant) -> list[Effect]:
        """Believe these certificates, named by their ids, no more."""
        return self._finished(self._types.revoke(frozenset(certificates), now), now)

    def hear(self, signed: SignedStatement, now: Instant) -> list[Effect]:
        """Hear a statement that the domain made, or heard; whoever it takes the ground from is put out."""
        return self._finished(self._validity.hear([signed], now), now)

    def _statement_changed(self, changed: Changed, now: Instant) -> list[Effect]:
        """Recheck exactly those members and links that a statement, or its end, concerns."""
        effects = self._types.everywhere(lambda manager: manager.recheck(changed, now))
        for link, problem in self._links.fallen(changed, now):
            effects += self._requests.close(link, problem)
        return effects

    # -------------------------------------------------------- what members say

    def _received(self, link: MemberLink, data: bytes, now: Instant) -> list[Effect]:
        try:
            effects, message = self._links.receive(link, data, now)
            return [*effects, *self._said(link, message, now)]
        except MaiaError as problem:
            refused = Count("maia_links_refused_total", labels={"code": problem.code})
            return [refused, *self._requests.close(link, problem)]

    def _said(self, link: MemberLink, message: Message | Established | None, now: Instant) -> list[Effect]:
        match message:
            case None:
                return []
            case Established():
                return self._links.ready(link, now)
            case Bye(code=code):
                goodbye: list[Effect] = [Note("bye", {**link.named(), "code": code}), Close(link.id, code)]
                return [*goodbye, *self._requests.closed(link.id)]
            case Show(id=number, certificates=[]):
                link.hold(message.statements, self._links.session_limits)
                self._validity.hear_known(link, now)
                return [Send(link.id, encode(Accepted(number, None)))]
            case KeysHeld(type_id=type_id):
                return [Send(link.id, encode(self._requests.held(link, type_id)))]
            case LeaveGroups(type_id=type_id):
                return self._requests.left(link, type_id)
            case JoinGroups() | WhoWrites() | HistoryKeys() | ExpectMember():
                return self._asked(link, message, now)
            case Vouched():
                return self._requests.hear_vouched(link, message, now)
        raise ProtocolViolation(
            "PROTOCOL-OUT-OF-TURN", f"`{type(message).__name__}` is nothing that a key server is sent"
        )

    def _asked(
        self, link: MemberLink, message: JoinGroups | WhoWrites | HistoryKeys | ExpectMember, now: Instant
    ) -> list[Effect]:
        try:
            self._links.quota.spend(link.peer, now)
            return self._requests.answer(link, message, now)
        except ProtocolViolation:
            raise
        except MaiaError as problem:
            return refusal_told(link, message.id, problem)

    # -------------------------------------------------------- time

    def _look(self, now: Instant) -> list[Effect]:
        effects = [*self._validity.advance(now), *self._requests.look(now), *self._types.look(now)]
        ended, asked = self._links.look(now)
        for link, problem in ended:
            effects += self._requests.close(link, problem)
        return [*effects, *asked]

    def _finished(self, effects: list[Effect], now: Instant) -> list[Effect]:
        """Put what must be kept first, and ask for the next moment."""
        kept: list[Effect] = [Keep(name, data) for name, data in self._changes.items()]
        self._changes.clear()
        for effect in effects:
            if isinstance(effect, Count):
                self._counters[effect.name] += effect.amount
        looks = (self._types.next_look(), self._links.next_look(), self._requests.next_look())
        moments = (*looks, self._validity.monitor.next_change())
        wake = min((one for one in moments if one is not None), default=None)
        woken: list[Effect] = [] if wake is None else [WakeAt(Instant(max(wake, now)))]
        return [*kept, *effects, *woken]
