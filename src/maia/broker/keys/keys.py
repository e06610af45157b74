"""Which keys does this broker hold, how does it obtain others, and which frames wait for one?

`KeyRequests` runs the broker's key member, which speaks to key managers: it asks
for keys where the broker's own certificates open a group, and nowhere else, and no
more than once in a while for what a flood of frames could cause.

`SealingKeys` is what the publication path seals, opens and checks with. Keys come from the
rings that the key member fills, and go when the rings let go of them. What is derived
from a key lives no longer than the key. The sealer belongs to this start of
this process alone (A45).

`WaitingFrames` holds frames of an epoch that is not known here yet, and publishers' frames
for which there is no key to seal with, while the key is asked for. Frames of a
type wait in their order, so many frames and bytes of one type, each for so long;
none is ever taken out twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from maia.bounded_map import BoundedMap
from maia.broker.rights.known_types import KnownTypes
from maia.broker.settings import BrokerLimits, BrokerSettings
from maia.broker.turn import Turn
from maia.credentials import Principal, SignedCertificate, SigningKey, VerificationCache, VerifiedConstitution
from maia.events import INSTANT_MAX, SECOND, AttributeUid, Instant
from maia.policy.answers import Answers, asked_about, part_of, read_for
from maia.sealing import EpochKeys, Sealer, Secret, SignatureChecks
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.membership import VERSIONS_MAX, Claim, MemberGrounds, MembershipState, standing
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import MemberSettings
from maia.sessions.challenges import Challenged
from maia.validity import Monitor, VouchedFor
from maia.wire.effects import Effect, LinkId, WakeAt
from maia.wire.messages import Publish

_Frame = TypeVar("_Frame")


@dataclass(frozen=True, slots=True)
class WaitingLimits:
    """How much waits, of one type and of all together."""

    frames: int = 1024
    size_bytes: int = 16 << 20
    types: int = 1024
    wait_s: int = 10


@dataclass(slots=True)
class _Queue(Generic[_Frame]):
    """The frames of one type: when each gives up, which stream it is of, its size, and itself."""

    frames: deque[tuple[Instant, Hashable, int, _Frame]] = field(default_factory=deque)
    streams: dict[Hashable, int] = field(default_factory=dict)
    size: int = 0

    def put(self, until: Instant, stream: Hashable, size: int, frame: _Frame) -> None:
        self.frames.append((until, stream, size, frame))
        self.streams[stream] = self.streams.get(stream, 0) + 1
        self.size += size

    def pop(self) -> _Frame:
        _, stream, size, frame = self.frames.popleft()
        self.size -= size
        self.streams[stream] -= 1
        if not self.streams[stream]:
            del self.streams[stream]
        return frame


class WaitingFrames(Generic[_Frame]):
    """Frames by type, each in a queue of its own."""

    __slots__ = ("_limits", "_queues")

    def __init__(self, limits: WaitingLimits) -> None:
        """Begin with nothing waiting."""
        self._limits = limits
        self._queues: dict[bytes, _Queue[_Frame]] = {}

    def __len__(self) -> int:
        """Return how many frames wait."""
        return sum(len(queue.frames) for queue in self._queues.values())

    def types(self) -> tuple[bytes, ...]:
        """Return the types of which frames wait."""
        return tuple(self._queues)

    def holds(self, type_id: bytes, stream: Hashable) -> bool:
        """Return whether a frame of this stream waits: a later one must not overtake it."""
        queue = self._queues.get(type_id)
        return queue is not None and stream in queue.streams

    def until(self, now: Instant) -> Instant:
        """Return until when a frame waits that begins to wait now."""
        return Instant(now + self._limits.wait_s * SECOND)

    def put(
        self,
        type_id: bytes,
        stream: Hashable,
        frame: _Frame,
        *,
        size: int,
        until: Instant,
        is_doubtful: bool = False,
    ) -> bool:
        """Let a frame wait; say whether there was room. What is doubtful leaves half of it to the rest."""
        queue = self._queues.get(type_id)
        if queue is None:
            if len(self._queues) >= self._limits.types:
                return False
            queue = _Queue()
        share = 2 if is_doubtful else 1
        if len(queue.frames) >= self._limits.frames // share:
            return False
        if queue.size + size > self._limits.size_bytes // share:
            return False
        self._queues[type_id] = queue
        queue.put(until, stream, size, frame)
        return True

    def take(self, type_id: bytes) -> list[_Frame]:
        """Return all frames of a type in their order; none of them waits any more."""
        queue = self._queues.pop(type_id, None)
        return [] if queue is None else [frame for _, _, _, frame in queue.frames]

    def take_overdue(self, now: Instant) -> list[_Frame]:
        """Return the frames whose time is over, those of one type in their order."""
        overdue: list[_Frame] = []
        for type_id, queue in list(self._queues.items()):
            while queue.frames and queue.frames[0][0] <= now:
                overdue.append(queue.pop())
            if not queue.frames:
                del self._queues[type_id]
        return overdue

    def next_due(self) -> Instant | None:
        """Return when the first frame gives up."""
        return min((queue.frames[0][0] for queue in self._queues.values()), default=None)


class KeyRequests:
    """The key member of one broker, and the types that it holds keys of."""

    __slots__ = (
        "_asked_at",
        "_cache",
        "_found",
        "_key",
        "_settings",
        "_tester",
        "_types",
        "challenges",
        "has_managers",
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
        standing: Monitor,
    ) -> None:
        """Begin with no type needed; `standing` says which certificates still count."""
        self._key, self._settings, self._types, self._cache = key, settings, types, cache
        self._tester = standing
        member = MemberSettings(
            network=settings.network,
            credentials=settings.credentials,
            addresses=settings.key_managers,
            bounds=settings.bounds,
            constitutions=settings.constitutions,
        )
        self.member = KeyMember(key, member, random=random, kept=kept, cache=cache, standing=standing)
        self.refused: dict[bytes, str] = {}
        """Types whose manager has said no, and its code: nothing of them waits for a key."""
        self.challenges: list[Challenged] = []
        """What managers want to have vouched for, and was not asked for yet."""
        self.has_managers = False
        """Whether keys were ever asked for: if not, there is no key manager to speak to."""
        self.is_touched = False
        """Whether a certificate of this broker counts no more, or again, and the keys do not know yet."""
        self._found: dict[bytes, tuple[MembershipState, int]] = {}
        self._asked_at: dict[bytes, Instant] = {}

    def ring_of(self, type_id: bytes) -> KeyRing | None:
        """Return the keys of a type; None if this broker has none and expects none."""
        return None if type_id in self.refused else self.member.ring(type_id)

    def look_for(self, type_id: bytes, turn: Turn) -> bool:
        """Ask for the keys of a sealed type, if this broker's certificates open any of its groups.

        Says whether something was asked. The usual answer, that nothing has changed, costs a look into
        a dictionary.
        """
        now, sealing, versions = turn.now, self._types.sealing(type_id), self._types.versions(type_id)
        known = self._found.get(type_id)
        if sealing is None:
            self._found.pop(type_id, None)  # it was sealed, and is known no more
            return False
        if known is not None and known[0].since <= now <= known[0].until and known[1] == len(versions):
            return False
        settings = self._settings
        # What others have to vouch for is asked for when the manager wants it.
        hoped = VouchedFor.assumed(settings.credentials, now)
        claim = Claim(self._key.principal, versions[-VERSIONS_MAX:], settings.credentials, hoped)
        grounds = MemberGrounds(
            sealing.level, settings.bounds, settings.constitutions, self._cache, self._tester
        )
        found = standing(claim, grounds, now)
        self._found[type_id] = (found, len(versions))
        if not found.is_open:
            return False
        self.has_managers = True
        asked = self.member.need(claim.versions, now)
        if (
            not asked
            and known is not None
            and (found.groups - known[0].groups or found.needs - known[0].needs)
        ):
            asked = self.member.missing(type_id, now)  # another group has opened
        return _add(asked, turn)

    def opens_any(self, type_id: bytes) -> bool | None:
        """Whether this broker's certificates open a group of a type; None if that was not worked out."""
        found = self._found.get(type_id)
        return None if found is None else found[0].is_open

    def opens(self, type_id: bytes, uid: AttributeUid) -> bool:
        """Whether this broker's certificates open the group of an attribute, so that its key may come."""
        found = self._found.get(type_id)
        return found is not None and GroupId(type_id, uid) in found[0].groups

    def dial_again(self, type_id: bytes, turn: Turn) -> bool:
        """Look for a key server that was away without waiting any longer, unless it was a moment ago."""
        return _add(self.member.dial_again(type_id, turn.now), turn)

    def look_again(self, turn: Turn) -> bool:
        """Ask for keys to which this broker's certificates have begun to give a right; say whether so."""
        due = [type_id for type_id, (found, _) in self._found.items() if found.until < turn.now]
        asked = [self.look_for(type_id, turn) for type_id in due]  # each of them
        return any(asked)

    def evidence_changed(self) -> None:
        """Forget what was worked out: evidence has changed."""
        self._found.clear()

    def rights_changed(self, turn: Turn) -> None:
        """Destroy keys to which this broker's certificates give no right any more, and ask for others."""
        types, self.is_touched = list(self._found), False
        self._found.clear()
        turn.add(*without_alarms(self.member.rights_changed(turn.now)))
        for type_id in types:
            self.look_for(type_id, turn)

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Ask these constitutions from now on; what that changes is worked out in `rights_changed`."""
        self._settings = replace(self._settings, constitutions=constitutions)
        self.member.adopt(constitutions)
        self.is_touched = True

    def hold(self, certificates: tuple[SignedCertificate, ...], turn: Turn) -> None:
        """Ask with other certificates from now on; what they open is worked out in `rights_changed`."""
        self._settings = replace(self._settings, credentials=certificates)
        self.is_touched = True
        turn.add(*without_alarms(self.member.credentials_changed(certificates, turn.now)))

    def next_look(self) -> Instant | None:
        """Return when there is something to do: for the member, or because a certificate begins."""
        begins = [Instant(found.until + 1) for found, _ in self._found.values() if found.until < INSTANT_MAX]
        member = self.member.next_look()
        return min([*begins, *([] if member is None else [member])], default=None)

    def statement_heard(self, by: Principal, turn: Turn) -> None:
        """Show key managers a statement that this broker's own certificates demand."""
        turn.add(*without_alarms(self.member.statement_heard(by, turn.now)))

    def ask_for_epoch(self, type_id: bytes, turn: Turn) -> None:
        """Ask the manager what was missed: something is sealed in an epoch that is not known here."""
        now, asked = turn.now, self._asked_at.get(type_id)
        if asked is not None and asked <= now < asked + SECOND:
            return
        self._asked_at[type_id] = now
        turn.add(*without_alarms(self.member.missing(type_id, now)))

    def ask_for_writer(self, type_id: bytes, signer: Principal, turn: Turn) -> None:
        """Ask the manager with which certificates a signer signs."""
        turn.add(*without_alarms(self.member.ask_writer(type_id, signer, turn.now)))

    def awaits_past(self, type_id: bytes, epoch: int) -> bool:
        """Return whether the manager may still hand out keys of an epoch that is over."""
        if self.member.is_suspended(type_id):
            return True
        if type_id in self.refused or self.member.manager_of(type_id) is None:
            return False
        return self.ring_of(type_id) is not None and not self.member.past.is_answered(type_id, epoch)

    def ask_for_past(self, type_id: bytes, epoch: int, turn: Turn) -> None:
        """Ask the manager for the keys of an epoch that is over, unless it would refuse all keys now."""
        if not self.member.is_suspended(type_id):
            turn.add(*without_alarms(self.member.ask_past(type_id, epoch, turn.now)))


def without_alarms(effects: Iterable[Effect]) -> list[Effect]:
    """Return effects without wishes to be woken: the broker has one alarm clock for everything."""
    return [effect for effect in effects if not isinstance(effect, WakeAt)]


def _add(asked: Iterable[Effect], turn: Turn) -> bool:
    """Have done what the key member wants done, and say whether it is anything."""
    wanted = without_alarms(asked)
    turn.add(*wanted)
    return bool(wanted)


_EPOCHS_MAX: Final = 4096
"""Epochs, of all types, whose derived keys are remembered; the oldest go first."""


class _Present(NamedTuple):
    """The keys of the epoch that a type is sealed in, and until when: while its ring is as it was."""

    ring: KeyRing
    version: int
    keys: EpochKeys
    since: Instant
    until: Instant
    slack: int
    """By how much moments of publication may be wrong."""


class SealingKeys:
    """What one broker seals, opens and checks with."""

    __slots__ = (
        "_epochs",
        "_present",
        "carrying",
        "checks",
        "projecting",
        "publishing",
        "ring_of",
        "sealer",
    )

    def __init__(
        self,
        key: SigningKey,
        *,
        random: Callable[[int], bytes],
        process_id: Callable[[], int],
        limits: BrokerLimits,
        ring_of: Callable[[bytes], KeyRing | None],
    ) -> None:
        """Begin with a sealer that never sealed; `ring_of` finds the keys of a type."""
        waiting = WaitingLimits(
            frames=limits.frames_waiting_per_type,
            size_bytes=limits.bytes_waiting_per_type,
            types=limits.types,
            wait_s=limits.wait_for_keys_s,
        )
        self.ring_of: Callable[[bytes], KeyRing | None] = ring_of
        self.sealer = Sealer(key, random=random, process_id=process_id)
        self.checks = SignatureChecks()
        # Any: runs and stages, which are above all keys.
        self.carrying: WaitingFrames[Any] = WaitingFrames(waiting)
        """Frames from neighbours, of epochs or signers that are not known yet."""
        self.publishing: WaitingFrames[tuple[LinkId, Publish]] = WaitingFrames(waiting)
        """Frames of this broker's publishers, for which there is no key yet."""
        self.projecting: WaitingFrames[tuple[LinkId, int, Any, Any]] = WaitingFrames(waiting)
        """The same of frames that are published as a super-type: link, reference, and what follows."""
        self._epochs: BoundedMap[tuple[bytes, int], EpochKeys] = BoundedMap(
            _EPOCHS_MAX, evicted=self._dropped
        )
        self._present: dict[bytes, _Present] = {}
        """Of types with an epoch among these, and so no more of them."""

    def keys(self, type_id: bytes, epoch: int) -> EpochKeys | None:
        """Return what is held of a type in an epoch; None if the epoch is not known."""
        ring = self.ring_of(type_id)
        if ring is None or not ring.knows_epoch(epoch):
            self._forget(type_id, epoch)
            return None
        known = self._epochs.get((type_id, epoch))
        if known is not None:
            return known

        def lookup(uid: AttributeUid | None) -> Secret | None:
            # The ring of this moment, not of the first question: it may have been replaced since.
            ring = self.ring_of(type_id)
            return None if ring is None else ring.key(GroupId(type_id, uid), epoch)

        made = EpochKeys(type_id, epoch, lookup)
        self._epochs.put((type_id, epoch), made)
        return made

    def _forget(self, type_id: bytes, epoch: int) -> None:
        """Let go of an epoch, and of everything that was derived from its keys."""
        dropped = self._epochs.pop((type_id, epoch))
        if dropped is not None:
            self._dropped((type_id, epoch), dropped)

    def _dropped(self, of: tuple[bytes, int], keys: EpochKeys) -> None:
        self._present.pop(of[0], None)
        keys.forget()

    def forget_dropped(self) -> None:
        """Let go of what was derived from keys of epochs that no ring knows any more."""
        for type_id, epoch in list(self._epochs):
            ring = self.ring_of(type_id)
            if ring is None or not ring.knows_epoch(epoch):
                self._forget(type_id, epoch)

    def sealing_keys(self, type_id: bytes, published_at: int, now: Instant) -> EpochKeys | None:
        """Return the newest keys that readers accept for something published at this moment; None if none."""
        found = self._present_keys(type_id, published_at, now)
        if found is not None:
            return found
        ring = self.ring_of(type_id)
        epoch = None if ring is None else ring.sealing_epoch(now)
        while ring is not None and epoch is not None and ring.knows_epoch(epoch):
            if ring.opens(epoch, published_at, now):
                return self._noted(type_id, ring, epoch, now)
            epoch -= 1
        return None

    def _present_keys(self, type_id: bytes, published_at: int, now: Instant) -> EpochKeys | None:
        """Return the keys that the ring would name for this moment, if that was asked before."""
        known = self._present.get(type_id)
        if known is None:
            return None
        ring, version, keys, since, until, slack = known
        if self.ring_of(type_id) is not ring or ring.version != version or not since <= now <= until:
            return None
        return keys if since - slack <= published_at <= now + slack else None

    def _noted(self, type_id: bytes, ring: KeyRing, epoch: int, now: Instant) -> EpochKeys | None:
        """Return the keys of an epoch; if it is sealed in at present, take note until when."""
        keys, period, until = self.keys(type_id, epoch), ring.period(epoch), ring.sealing_until(epoch)
        if keys is not None and period is not None and until is not None and period[0] <= now <= until:
            slack = ring.terms.back_dating_s * SECOND
            self._present[type_id] = _Present(ring, ring.version, keys, period[0], until, slack)
        return keys

    def has_key(self, type_id: bytes, uid: AttributeUid | None, epoch: int) -> bool:
        """Return whether the key of an attribute (None: of the type's own group) is held in an epoch."""
        ring = self.ring_of(type_id)
        return ring is not None and ring.key(GroupId(type_id, uid), epoch) is not None

    def has_begun(self, type_id: bytes, now: Instant) -> bool:
        """Return whether there is an epoch to seal in at all."""
        ring = self.ring_of(type_id)
        return ring is not None and ring.sealing_epoch(now) is not None

    def holds(self, type_id: bytes, uid: AttributeUid | None, now: Instant) -> bool:
        """Return whether an attribute (None: the type's own group) can be read in the present epoch."""
        ring = self.ring_of(type_id)
        epoch = None if ring is None else ring.sealing_epoch(now)
        return epoch is not None and self.has_key(type_id, uid, epoch)

    def next_due(self) -> Instant | None:
        """Return when the first waiting frame gives up."""
        moments = (self.carrying.next_due(), self.publishing.next_due(), self.projecting.next_due())
        return min((moment for moment in moments if moment is not None), default=None)


# ------------------------------------------------------------ answers (`streams/answers.py` gives them)


def answers_of(seals: SealingKeys, type_id: bytes) -> Answers:
    """Return the answers of a type that this broker gives or reads."""
    ring = seals.ring_of(type_id)
    return {} if ring is None else ring.answers


def spoken_of(seals: SealingKeys, type_id: bytes, uids: frozenset[AttributeUid]) -> frozenset[AttributeUid]:
    """Return all that the signer of a frame with these columns says something of, by its answers too."""
    answers = answers_of(seals, type_id)
    return asked_about(uids, answers) if answers else uids


def parts_read(seals: SealingKeys, type_id: bytes) -> frozenset[AttributeUid]:
    """Return the parts that this broker reads of events which it cannot read as a whole."""
    ring = seals.ring_of(type_id)
    held = frozenset[AttributeUid | None]({None}) if ring is None else ring.readable
    parts = (uid for uid in held if uid is not None and part_of(uid) == uid)
    return frozenset() if None in held else frozenset(parts)


def readers_of(seals: SealingKeys, type_id: bytes, named: frozenset[AttributeUid]) -> frozenset[AttributeUid]:
    """Return whose readers may see what is said of `named`: where a key is missing, those of the answer.

    The readers of an answer are those who may read all that it is made of, and those whose right it is
    for and who know it.
    """
    ring = seals.ring_of(type_id)
    hidden = frozenset[AttributeUid]() if ring is None else named.difference(ring.readable)
    if ring is None or not hidden:
        return named
    asked = {uid: read_for(said) for uid, said in ring.answers.items() if uid in ring.readable}
    used = {uid: about for uid, about in asked.items() if not about.isdisjoint(hidden)}
    return (named - hidden).union(used) if hidden <= frozenset().union(*used.values()) else named
