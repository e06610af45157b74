"""Which keys of a type does this member hold, and for which moments are they good?

Brokers ask before they seal and before they open. The epoch says which key;
the moment of publication must fit the epoch, so that an old key seals nothing
new: an evicted member can date a publication back, but only
until the drift of the clocks is over (A50; dissertation 7.6.2). Then the key
is gone.

    ring.learn(1, since=noon)               an epoch begins
    ring.hold(group, 1, secret)             what its group shares from epoch 1 on
    ring.key(group, ring.sealing_epoch(now))

Every change moves `version`: what was worked out from a ring holds as long as that is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from maia.credentials import same_secret
from maia.errors import ProtocolViolation
from maia.events import INSTANT_MAX, SECOND, AttributeUid, Instant
from maia.policy.answers import Answers, part_of
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.secrets import Secret
from maia.wire.messages import KeyTermsRecord

EPOCHS_MAX: Final = 4096
"""Epochs that a ring remembers; the oldest go first, whatever the drift."""

_PURPOSE: Final = b"maia/1/content-key"


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """How long keys are used and kept, in seconds; the manager of a type tells its members."""

    refresh_s: int = 24 * 3600
    """How often keys are refreshed even if no member comes or goes."""
    overdue_s: int = 3600
    """By how much a refresh may be late before publishers stop sealing with the old key."""
    drift_s: int = 300
    """For how long an old key still opens, after the next epoch began."""
    back_dating_s: int = 60
    """By how much a publication's moment may lie outside the epoch it was sealed in."""

    @classmethod
    def from_record(cls, record: KeyTermsRecord) -> KeyTerms:
        """Return the terms that a manager tells."""
        return cls(record.refresh_s, record.overdue_s, record.drift_s, record.back_dating_s)

    def as_record(self) -> KeyTermsRecord:
        """Return how a manager tells them."""
        return KeyTermsRecord(self.refresh_s, self.overdue_s, self.drift_s, self.back_dating_s)


DEFAULT_TERMS: Final = KeyTerms()


@dataclass(slots=True)
class RingEpoch:
    since: Instant
    ends: Instant | None = None
    """When the next one begins; None while this is the newest."""
    secrets: dict[GroupId, Secret] = field(default_factory=dict, repr=False)
    keys: dict[GroupId, Secret] = field(default_factory=dict, repr=False)


class KeyRing:
    """What one member holds of one type: epochs in their order, and the secrets of its groups in each."""

    __slots__ = ("_epochs", "answers", "terms", "type_id", "version")

    def __init__(self, type_id: bytes, terms: KeyTerms = DEFAULT_TERMS) -> None:
        """Begin with nothing."""
        self.type_id = type_id
        self.version = 0
        self.answers: Answers = {}
        """What the answers are about of which keys are held."""
        self.terms = terms
        """How long keys are used and kept."""
        self._epochs: dict[int, RingEpoch] = {}

    def __repr__(self) -> str:
        """Say which epochs there are, never what opens them."""
        return f"KeyRing(type={self.type_id.hex()[:12]}, epochs={sorted(self._epochs)})"

    # -------------------------------------------------------- asking

    def _numbered(self) -> Mapping[int, RingEpoch]:
        """Return the epochs by their numbers, as they are counted here."""
        return self._epochs

    @property
    def newest(self) -> int | None:
        """Return the number of the newest epoch, begun or not."""
        return max(self._numbered(), default=None)

    @property
    def epochs(self) -> tuple[int, ...]:
        """Return the numbers of the epochs that are remembered, the oldest first."""
        return tuple(sorted(self._numbered()))

    def sealing_epoch(self, now: Instant) -> int | None:
        """Return the newest epoch that has begun; None if there is none, or if its successor is overdue."""
        begun = [(number, one.since) for number, one in self._numbered().items() if one.since <= now]
        if not begun:
            return None
        newest, since = max(begun)
        # A member that hears nothing of its manager must not seal for readers who were put out long ago.
        return newest if since >= now - self._fit_us else None

    @property
    def _fit_us(self) -> int:
        """Return for how long a secret is sealed with, from its beginning on."""
        return (self.terms.refresh_s + self.terms.overdue_s) * SECOND

    def key(self, group: GroupId, epoch: int) -> Secret | None:
        """Return the content key of a group in an epoch, if it is held."""
        known = self._epochs.get(epoch)
        if known is None:
            return None
        found = known.keys.get(group)
        if found is None and (secret := known.secrets.get(group)) is not None:
            found = known.keys[group] = content_key(secret, group, epoch)
        return found

    def knows_epoch(self, epoch: int) -> bool:
        """Return whether the epoch was announced; a key that is missing in it will not come."""
        return epoch in self._numbered()

    def period(self, epoch: int) -> tuple[Instant, Instant | None] | None:
        """Return when an epoch began and when the next one does; None if it was not announced."""
        known = self._numbered().get(epoch)
        return None if known is None else (known.since, known.ends)

    def sealing_until(self, epoch: int) -> Instant | None:
        """Return until when a known epoch is sealed in, from its beginning on; None if that is not certain.

        All that while it opens what was published at any moment from its beginning to the present, and
        outside of that by as much as moments may be wrong.
        """
        known = self._epochs[epoch]
        last = known.since + self._fit_us
        return Instant(min(INSTANT_MAX, last if known.ends is None else min(last, known.ends - 1)))

    def opens(self, epoch: int, published_at: int, now: Instant) -> bool:
        """Return whether something published at this moment may have been sealed in this epoch."""
        known = self._numbered().get(epoch)
        slack = self.terms.back_dating_s * SECOND
        if known is None or not known.since - slack <= published_at <= now + slack:
            return False
        if known.ends is None:
            return True
        return published_at <= known.ends + slack and now <= known.ends + self.terms.drift_s * SECOND

    def groups(self, epoch: int) -> frozenset[GroupId]:
        """Return the groups whose key is held in an epoch."""
        known = self._numbered().get(epoch)
        return frozenset() if known is None else frozenset(known.secrets)

    @property
    def readable(self) -> frozenset[AttributeUid | None]:
        """Return the attributes, and answers, whose key is held in the newest epoch; None: the type's own."""
        held = {group.uid for group in self.groups(-1 if self.newest is None else self.newest)}
        return frozenset(held.union(uid for uid in self.answers if part_of(uid) in held))

    def next_forget(self) -> Instant | None:
        """Return the next moment at which a key is to be destroyed."""
        drift = self.terms.drift_s * SECOND
        ends = [one.ends + drift + 1 for one in self._epochs.values() if one.ends is not None]
        return Instant(min(INSTANT_MAX, *ends)) if ends else None

    # -------------------------------------------------------- learning

    def adopt(self, terms: KeyTerms) -> None:
        """Use and keep keys for as long as these terms say."""
        self.terms = terms
        self.version += 1

    def learn(self, number: int, *, since: Instant) -> None:
        """Take note of an epoch; it ends the one before it. What was known is confirmed or refused."""
        known = self._epochs.get(number)
        if known is not None:
            if known.since != since:
                raise ProtocolViolation(
                    "PROTOCOL-EPOCH-ORDER", f"epoch `{number}` began at another moment than was said before"
                )
            return
        if any((one.since - since) * (other - number) < 0 for other, one in self._epochs.items()):
            raise ProtocolViolation("PROTOCOL-EPOCH-ORDER", f"epoch `{number}` begins out of turn")
        self.version += 1
        self._epochs[number] = RingEpoch(since)
        numbers = sorted(self._epochs)
        for one, following in pairwise(numbers):
            self._epochs[one].ends = self._epochs[following].since
        for one in numbers[: max(0, len(numbers) - EPOCHS_MAX)]:
            self._forget(one)

    def hold(self, group: GroupId, epoch: int, secret: Secret) -> None:
        """Hold what a group shares in a known epoch."""
        if group.type_id != self.type_id:
            raise ProtocolViolation(
                "PROTOCOL-EPOCH-ORDER", "the key of another type does not belong on this ring"
            )
        known = self._epochs.get(epoch)
        if known is None:
            raise ProtocolViolation("PROTOCOL-EPOCH-ORDER", f"epoch `{epoch}` was not announced")
        held = known.secrets.get(group)
        if held is not None and not held.wiped and same_secret(held.reveal(), secret.reveal()):
            return  # it is handed over again, as after a restart of the manager
        self.version += 1
        known.secrets[group] = secret
        replaced = known.keys.pop(group, None)
        if replaced is not None:
            replaced.wipe()  # what was derived from it goes with it, and not only when the right ends

    def secret(self, group: GroupId, epoch: int) -> Secret | None:
        """Return what a group shares in an epoch, from which its content keys grow; for those who hand on."""
        known = self._epochs.get(epoch)
        return None if known is None else known.secrets.get(group)

    def copy(self) -> KeyRing:
        """Return a ring with the same keys, which stay when this one lets go of its own."""
        made = KeyRing(self.type_id, self.terms)
        made.answers = dict(self.answers)
        for number, epoch in sorted(self._epochs.items()):
            made.learn(number, since=epoch.since)
            for group, secret in epoch.secrets.items():
                made.hold(group, number, Secret.from_bytes(secret.reveal()))
        return made

    # -------------------------------------------------------- forgetting

    def forget_before(self, now: Instant) -> None:
        """Destroy the keys of every epoch whose drift is over."""
        drift = self.terms.drift_s * SECOND
        ends = [(number, epoch.ends) for number, epoch in self._epochs.items()]
        for number in [one for one, at in ends if at is not None and at + drift < now]:
            self._forget(number)

    def drop(self, group: GroupId) -> None:
        """Destroy every key of one group: the right to it has ended."""
        self.version += 1
        for epoch in self._epochs.values():
            for held in (epoch.keys.pop(group, None), epoch.secrets.pop(group, None)):
                if held is not None:
                    held.wipe()

    def wipe(self) -> None:
        """Destroy everything."""
        for number in list(self._epochs):
            self._forget(number)

    def _forget(self, number: int) -> None:
        self.version += 1
        gone = self._epochs.pop(number)
        # A group that was not refreshed shares its secret with later epochs.
        kept = {id(secret) for one in self._epochs.values() for secret in one.secrets.values()}
        for secret in (*gone.keys.values(), *gone.secrets.values()):
            if id(secret) not in kept:
                secret.wipe()


def content_key(secret: Secret, group: GroupId, epoch: int) -> Secret:
    """Return the key that seals what a group reads in one epoch; no other group or epoch has the same."""
    uid = b"type" if group.uid is None else b"attribute/" + group.uid.encode()
    return secret.derive(_PURPOSE, group.type_id, uid, b"%d" % epoch)
