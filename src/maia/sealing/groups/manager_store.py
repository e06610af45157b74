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
from maia.events import INSTANT_MAX, AttributeUid
from maia.sealing.groups.key_group import GroupId, Issued
from maia.sealing.groups.membership import Claim
from maia.sealing.keys.epochs import SignedEpoch, epoch_from_bytes, epoch_to_bytes, verify_epoch
from maia.sealing.keys.parcels import (
    CERTIFICATES_MAX,
    WRITERS_MAX,
    MemberRecord,
    Uid,
    reader_of,
    write_record,
)
from maia.sealing.keys.secrets import AtRest

_Found = TypeVar("_Found")


class KeptMember(MemberRecord, frozen=True):
    """A member as it was kept: what it holds, and what it showed."""

    held: Annotated[list[Uid], Meta(max_length=1025)]
    written_pool: Annotated[list[bytes], Meta(max_length=256)]
    versions: Annotated[list[bytes], Meta(max_length=64)]

    @property
    def pool(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates that it showed."""
        return tuple(map(certificate_from_bytes, self.written_pool))


@dataclass(frozen=True, slots=True)
class KeptGroups:
    """What was kept of one type. `dropped` names what could not be believed."""

    epochs: tuple[SignedEpoch, ...]
    secrets: Mapping[GroupId, list[Issued]] = field(repr=False)
    members: Mapping[Principal, KeptMember] = field(repr=False)
    dropped: tuple[str, ...]


_read_member: Final = reader_of(KeptMember)
_read_secret: Final = reader_of(Issued)
_read_writer: Final = reader_of(list[bytes])


class ManagerStore:
    """The changes that wait to be made safe, and the way back from what was."""

    def __init__(self, type_id: bytes, at_rest: AtRest) -> None:
        self._type_id, self._at_rest = type_id, at_rest
        self._history: dict[GroupId, list[Issued]] = {}
        """What is over, by group, in the order of epochs."""
        self.writers: dict[Principal, dict[bytes, SignedCertificate]] = {}
        """The publishers of what may still be read, and their certificates by id."""
        self.changes: dict[str, bytes | None] = {}

    def take_changes(self) -> dict[str, bytes | None]:
        """Return what has to be made safe, and begin anew."""
        taken, self.changes = self.changes, {}
        return taken

    # -------------------------------------------------------- keeping

    def keep_epoch(self, number: int, signed: SignedEpoch | None) -> None:
        """Keep an epoch; None forgets it."""
        self.changes[self._name("epoch", number)] = None if signed is None else epoch_to_bytes(signed)

    def keep_secret(self, group: GroupId, issued: Issued, *, what: str = "secret") -> None:
        """Keep a secret that is in use, or that still opens what is on its way."""
        name = self._name(what, "*" if group.uid is None else group.uid, issued.epoch)
        record = write_record(msgspec.structs.astuple(issued)[:-1])
        self.changes[name] = self._at_rest.seal(name, record)

    def keep_over(self, group: GroupId, issued: Issued, *, keeps_history: bool) -> None:
        """Forget a secret whose time is over, or move it to where the past is kept."""
        self.changes[self._name("secret", "*" if group.uid is None else group.uid, issued.epoch)] = None
        if keeps_history:
            self.keep_secret(group, issued, what="history")
            self._remember(group, issued)

    def keep_member(self, principal: Principal, claim: Claim | None, held: Iterable[GroupId]) -> None:
        """Keep what a member holds and showed; None forgets it."""
        data = None
        if claim is not None:
            versions = [version.id for version in claim.versions]
            pool = list(map(certificate_to_bytes, claim.pool))
            data = write_record(KeptMember([group.uid for group in held], pool, versions))
        self.changes[self._name("member", principal.key.hex())] = data

    def keep_writer(self, principal: Principal, shown: Iterable[SignedCertificate]) -> None:
        """Keep a publisher's certificates, for later readers."""
        if self._note(principal, shown):
            data = write_record(list(map(certificate_to_bytes, self.writers[principal].values())))
            self.changes[self._name("writer", principal.key.hex())] = data

    def _note(self, principal: Principal, shown: Iterable[SignedCertificate]) -> bool:
        """Remember what a member publishes with; say whether any of it is new."""
        known = self.writers.get(principal, {})
        found = known | {signed.id: signed for signed in shown}
        if found.keys() == known.keys() or (not known and len(self.writers) >= WRITERS_MAX):
            return False
        kept = sorted(found.values(), key=_ends)[-CERTIFICATES_MAX:]
        self.writers[principal] = {signed.id: signed for signed in kept}
        return self.writers[principal].keys() != known.keys()

    def history(self, group: GroupId, epoch: int) -> Issued | None:
        """Return what a group shared in an epoch whose time is over, if that is kept."""
        of_group = self._history.get(group, [])
        place = bisect_right(of_group, epoch, key=lambda one: one.epoch)
        return of_group[place - 1] if place and of_group[place - 1].is_of(epoch) else None

    def _remember(self, group: GroupId, issued: Issued) -> None:
        of_group = self._history.setdefault(group, [])
        place = bisect_right(of_group, issued.epoch, key=lambda one: one.epoch)
        if not place or of_group[place - 1].epoch != issued.epoch:
            of_group.insert(place, issued)

    def _name(self, *parts: str | int) -> str:
        return "/".join(map(str, (self._type_id.hex(), *parts)))

    # -------------------------------------------------------- the way back

    def read(self, kept: Mapping[str, bytes], manager: Principal) -> KeptGroups:
        """Read what was kept of this type; what cannot be believed is left out and named."""
        dropped: list[str] = []

        def each(what: str, read: Callable[[str, list[str], bytes], _Found]) -> Iterator[_Found]:
            start = self._name(what, "")
            for name in sorted(kept):
                if name.startswith(start):
                    try:
                        yield read(name, name.removeprefix(start).split("/"), kept[name])
                    except (MaiaError, msgspec.MsgspecError, ValueError):
                        dropped.append(name)

        def epoch(_name: str, _parts: list[str], data: bytes) -> SignedEpoch:
            verify_epoch(signed := epoch_from_bytes(data), manager)
            return signed

        def secret(name: str, parts: list[str], data: bytes) -> tuple[GroupId, Issued]:
            uid, number = parts
            issued = _read_secret(self._at_rest.open(name, data))
            issued.epoch = int(number)
            return GroupId(self._type_id, None if uid == "*" else AttributeUid(uid)), issued

        def member(_name: str, parts: list[str], data: bytes) -> tuple[Principal, KeptMember]:
            (key,) = parts
            found = _read_member(data)
            _ = found.pool  # all of it can be read
            return principal_from_bytes(bytes.fromhex(key)), found

        def writer(_name: str, parts: list[str], data: bytes) -> None:
            (key,) = parts
            self._note(
                principal_from_bytes(bytes.fromhex(key)), map(certificate_from_bytes, _read_writer(data))
            )

        epochs = sorted(each("epoch", epoch), key=lambda one: one.statement.number)
        secrets: dict[GroupId, list[Issued]] = {}
        for group, issued in each("secret", secret):
            secrets.setdefault(group, []).append(issued)
        for group, issued in each("history", secret):
            self._remember(group, issued)
        list(each("writer", writer))
        members = dict(each("member", member))
        ordered = {group: _in_order(some, epochs) for group, some in secrets.items()}
        return KeptGroups(tuple(epochs), ordered, members, tuple(dropped))


def _ends(signed: SignedCertificate) -> int:
    ends = signed.certificate.validity.not_after
    return INSTANT_MAX if ends is None else int(ends)


def _in_order(issued: list[Issued], epochs: list[SignedEpoch]) -> list[Issued]:
    """Put secrets in the order of their epochs; each was replaced where the next one begins."""
    ordered = sorted(issued, key=lambda one: one.epoch)
    since = {signed.statement.number: signed.statement.since for signed in epochs}
    for one, following in pairwise(ordered):
        one.replaced_in, one.replaced_at = following.epoch, since.get(following.epoch, following.since)
    return ordered
