"""What does the manager of a type's groups keep across restarts, and under which names?

    TYPE/epoch/NUMBER        the signed epoch: public
    TYPE/secret/UID/NUMBER   the secret that was new in it: sealed at rest
    TYPE/history/UID/NUMBER  the same after its time, where history is kept: sealed at rest
    TYPE/member/KEY          who holds newest secrets, and the certificates it showed
    TYPE/writer/KEY          the certificates of a publisher, where history is kept

Changes are collected here and made safe before any message about them, so a
crash never takes an epoch back (A82). Key trees are not kept:
members that come back are taken into a new one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from maia.credentials import (
    Principal,
    SignedCertificate,
    certificate_from_bytes,
    certificate_to_bytes,
    principal_from_bytes,
)
from maia.errors import MaiaError
from maia.events import AttributeUid, Instant
from maia.sealing.groups.key_group import GroupId, Issued
from maia.sealing.groups.membership import Claim
from maia.sealing.groups.welcome import Handed
from maia.sealing.keys.epochs import SignedEpoch, epoch_from_bytes, epoch_to_bytes, verify_epoch
from maia.sealing.keys.history import CERTIFICATES_MAX, PastWriters
from maia.sealing.keys.secrets import AtRest, Secret

_Found = TypeVar("_Found")
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class KeptMember:
    """A member as it was kept: what it holds, and what it showed."""

    principal: Principal
    held: tuple[GroupId, ...]
    pool: tuple[SignedCertificate, ...] = field(repr=False)
    versions: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeptGroups:
    """What was kept of one type. `dropped` names what could not be believed."""

    epochs: tuple[SignedEpoch, ...]
    secrets: Mapping[GroupId, list[Issued]] = field(repr=False)
    members: tuple[KeptMember, ...]
    dropped: tuple[str, ...]


class _Member(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    held: Annotated[list[str | None], Meta(max_length=1025)]
    pool: Annotated[list[bytes], Meta(max_length=256)]
    versions: Annotated[list[bytes], Meta(max_length=64)]


class _Secret(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    since: int
    replaced_in: int | None
    replaced_at: int | None
    secret: bytes

    def __repr__(self) -> str:
        return "_Secret(…)"


_WRITER: Final = msgspec.msgpack.Decoder(Annotated[list[bytes], Meta(max_length=CERTIFICATES_MAX)])
_MEMBER: Final = msgspec.msgpack.Decoder(_Member)
_SECRET: Final = msgspec.msgpack.Decoder(_Secret)


class ManagerStore:
    """The changes that wait to be made safe, and the way back from what was."""

    def __init__(self, type_id: bytes, at_rest: AtRest) -> None:
        self._type_id, self._at_rest = type_id, at_rest
        self._prefix = type_id.hex()
        self._history: dict[GroupId, list[Handed]] = {}
        """What is over, by group, in the order of epochs."""
        self.writers = PastWriters()
        self.changes: dict[str, bytes | None] = {}

    def take_changes(self) -> dict[str, bytes | None]:
        """Return what has to be made safe, and begin anew."""
        taken, self.changes = self.changes, {}
        return taken

    # -------------------------------------------------------- keeping

    def keep_epoch(self, signed: SignedEpoch) -> None:
        self.changes[self._name("epoch", str(signed.statement.number))] = epoch_to_bytes(signed)

    def keep_epoch_gone(self, number: int) -> None:
        self.changes[self._name("epoch", str(number))] = None

    def keep_secret(self, group: GroupId, issued: Issued) -> None:
        """Keep a secret that is in use, or that still opens what is on its way."""
        name = self._secret_name("secret", group, issued.epoch)
        self.changes[name] = self._sealed(name, issued)

    def keep_over(self, group: GroupId, issued: Issued, *, keeps_history: bool) -> None:
        """Forget a secret whose time is over, or move it to where the past is kept."""
        self.changes[self._secret_name("secret", group, issued.epoch)] = None
        if keeps_history:
            name = self._secret_name("history", group, issued.epoch)
            self.changes[name] = self._sealed(name, issued)
            self._remember(group, issued)

    def keep_member(self, principal: Principal, claim: Claim | None, held: Iterable[GroupId]) -> None:
        """Keep what a member holds and showed; None forgets it."""
        name = self._name("member", principal.key.hex())
        if claim is None:
            self.changes[name] = None
            return
        pool = [certificate_to_bytes(signed) for signed in claim.pool]
        versions = [version.id for version in claim.versions]
        self.changes[name] = _ENCODER.encode(_Member([group.uid for group in held], pool, versions))

    def keep_writer(self, principal: Principal, shown: Iterable[SignedCertificate]) -> None:
        """Keep a publisher's certificates, for later readers."""
        if self.writers.note(principal, shown):
            data = [certificate_to_bytes(signed) for signed in self.writers.of(principal)]
            self.changes[self._name("writer", principal.key.hex())] = _ENCODER.encode(data)

    def history(self, group: GroupId, epoch: int) -> Handed | None:
        """Return what a group shared in an epoch whose time is over, if that is kept."""
        of_group = self._history.get(group, [])
        place = bisect_right(of_group, epoch, key=lambda one: one.epoch)
        if not place:
            return None
        one = of_group[place - 1]
        is_of_its_time = one.until is None or epoch < one.until
        return one if is_of_its_time else None

    def _remember(self, group: GroupId, issued: Issued) -> None:
        kept = Handed(group, issued.epoch, issued.replaced_in, issued.secret)
        of_group = self._history.setdefault(group, [])
        place = bisect_right(of_group, kept.epoch, key=lambda one: one.epoch)
        if not place or of_group[place - 1].epoch != kept.epoch:
            of_group.insert(place, kept)

    def _sealed(self, name: str, issued: Issued) -> bytes:
        replaced_at = None if issued.replaced_at is None else int(issued.replaced_at)
        record = _Secret(int(issued.since), issued.replaced_in, replaced_at, issued.secret.reveal())
        return self._at_rest.seal(name, _ENCODER.encode(record))

    def _name(self, *parts: str) -> str:
        return "/".join((self._prefix, *parts))

    def _secret_name(self, what: str, group: GroupId, epoch: int) -> str:
        return self._name(what, "*" if group.uid is None else group.uid, str(epoch))

    # -------------------------------------------------------- the way back

    def read(self, kept: Mapping[str, bytes], manager: Principal) -> KeptGroups:
        """Read what was kept of this type; what cannot be believed is left out and named."""
        reading = _Reading(kept, self._prefix)
        epochs = list(reading.each("epoch", partial(_read_epoch, manager)))
        epochs.sort(key=lambda one: one.statement.number)
        secrets: dict[GroupId, list[Issued]] = {}
        for group, issued in reading.each("secret", self._read_secret):
            secrets.setdefault(group, []).append(issued)
        for group, issued in reading.each("history", self._read_secret):
            self._remember(group, issued)
        for principal, shown in reading.each("writer", self._read_writer):
            self.writers.note(principal, shown)
        return KeptGroups(
            tuple(epochs),
            {group: _in_order(some, epochs) for group, some in secrets.items()},
            tuple(reading.each("member", self._read_member)),
            tuple(reading.dropped),
        )

    def _read_secret(self, name: str, parts: list[str], data: bytes) -> tuple[GroupId, Issued]:
        uid, epoch = parts
        found = _SECRET.decode(self._at_rest.open(name, data))
        replaced = None if found.replaced_at is None else Instant(found.replaced_at)
        group = GroupId(self._type_id, None if uid == "*" else AttributeUid(uid))
        secret = Secret.from_bytes(found.secret)
        return group, Issued(int(epoch), Instant(found.since), secret, found.replaced_in, replaced)

    def _read_writer(
        self, _name: str, parts: list[str], data: bytes
    ) -> tuple[Principal, tuple[SignedCertificate, ...]]:
        (key,) = parts
        shown = tuple(certificate_from_bytes(one) for one in _WRITER.decode(data))
        return principal_from_bytes(bytes.fromhex(key)), shown

    def _read_member(self, _name: str, parts: list[str], data: bytes) -> KeptMember:
        found = _MEMBER.decode(data)
        (key,) = parts
        held = (None if uid is None else AttributeUid(uid) for uid in found.held)
        return KeptMember(
            principal_from_bytes(bytes.fromhex(key)),
            tuple(GroupId(self._type_id, uid) for uid in held),
            tuple(certificate_from_bytes(one) for one in found.pool),
            tuple(found.versions),
        )


class _Reading:
    """Goes through what was kept of one type, and remembers what could not be believed."""

    def __init__(self, kept: Mapping[str, bytes], prefix: str) -> None:
        self._kept, self._prefix = sorted(kept.items()), prefix
        self.dropped: list[str] = []

    def each(self, what: str, read: Callable[[str, list[str], bytes], _Found]) -> Iterator[_Found]:
        start = f"{self._prefix}/{what}/"
        for name, data in self._kept:
            if name.startswith(start):
                try:
                    yield read(name, name.removeprefix(start).split("/"), data)
                except (MaiaError, msgspec.MsgspecError, ValueError):
                    self.dropped.append(name)


def _read_epoch(manager: Principal, _name: str, _parts: list[str], data: bytes) -> SignedEpoch:
    signed = epoch_from_bytes(data)
    verify_epoch(signed, manager)
    return signed


def _in_order(issued: list[Issued], epochs: list[SignedEpoch]) -> list[Issued]:
    """Put secrets in the order of their epochs; each was replaced where the next one begins."""
    ordered = sorted(issued, key=lambda one: one.epoch)
    since = {signed.statement.number: signed.statement.since for signed in epochs}
    for one, following in pairwise(ordered):
        one.replaced_in, one.replaced_at = following.epoch, since.get(following.epoch, following.since)
    return ordered
