"""May the signer of this frame publish what is in it?

A reader holds the key that content is sealed with, and could seal anything
with it (A49). An edge therefore delivers a frame only if its signer, which is
the publisher's broker, has the right to publish every attribute in it. The
key manager hands over the signer's certificates; the decision is made here,
by the same kernel as every other, and made again when it may have changed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.bounded_map import BoundedMap
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.credentials import Action, Principal, SignedCertificate
from maia.events import SECOND, AttributeUid, Frame, Instant
from maia.policy import PolicyRefusal, Request, View
from maia.policy.written import Written, may_write, written_under
from maia.types import VerifiedType

_WRITERS_MAX: Final = 4096
_REFUSED_FOR_US: Final = SECOND
"""How long a refusal is remembered: a flood of forgeries must not cost a decision each."""


Read: TypeAlias = tuple[Frame, frozenset[AttributeUid]]
"""What was opened of a frame, and what else may be in it."""


@dataclass(slots=True)
class _Writer:
    """What is known of one signer of one type."""

    pool: tuple[SignedCertificate, ...] | None = field(default=None, repr=False)
    """Its certificates; None while they are not known."""
    rights: list[Authorisation] = field(default_factory=list, repr=False)
    writes: frozenset[AttributeUid] = frozenset()
    written: Written = field(default_factory=lambda: written_under(()), repr=False)
    """What it may write, row by row."""
    named: frozenset[AttributeUid] = frozenset()
    """The attributes of all versions: others are delivered to no subscriber."""
    versions: int = 0
    """How many of these were known when this was decided."""
    wrote: frozenset[AttributeUid] | None = None
    """The attributes of which it was last found entitled."""
    refused_until: int = 0
    earlier: _Writer | None = field(default=None, repr=False)
    """What was found of an earlier moment."""

    def wrote_all(self, read: Read | None) -> bool:
        """Return whether it may have written what was read of a frame."""
        if read is None:
            return True
        frame, hidden = read
        part = frame if frame.columns.keys() <= self.named else frame.only(self.named)
        return self.written.holds(part, hidden=hidden)


class PublisherRights:
    """The signers of sealed frames, by type and principal."""

    __slots__ = ("_edge", "_known")

    def __init__(self, edge: Authoriser) -> None:
        """Begin with no signer known."""
        self._edge = edge
        self._known: BoundedMap[tuple[bytes, bytes], _Writer] = BoundedMap(_WRITERS_MAX)

    def knows(self, type_id: bytes, principal: Principal) -> bool:
        """Return whether a signer's certificates are known."""
        known = self._known.get((type_id, principal.key))
        return known is not None and known.pool is not None

    def learn(self, type_id: bytes, principal: Principal, pool: tuple[SignedCertificate, ...]) -> None:
        """Take note of a signer's certificates, as its key manager sent them or as it showed them itself."""
        writer = self._writer(type_id, principal)
        if writer.pool is None or {one.id for one in writer.pool} != {one.id for one in pool}:
            writer.pool, writer.rights, writer.refused_until, writer.earlier = pool, [], 0, None

    def forget(self, certificates: Collection[bytes]) -> None:
        """Decide anew who may write with one of these certificates, when it is next asked."""
        for writer in self._known.values():
            if writer.pool is not None and any(one.id in certificates for one in writer.pool):
                writer.rights, writer.wrote, writer.refused_until = [], None, 0

    def judge(
        self,
        principal: Principal,
        versions: tuple[VerifiedType, ...],
        uids: frozenset[AttributeUid],
        now: Instant,
        read: Read | None = None,
    ) -> bool | None:
        """Return whether a signer may publish these attributes at this moment; None if it is not known.

        So with what is `read` of a frame. Attributes that no version known here has are delivered to no
        subscriber, and so they are not checked.
        """
        if not versions:
            return False
        writer = self._writer(versions[0].type_id, principal)
        if writer.pool is None:
            return None
        if now < writer.refused_until:
            return False
        holds = self._edge.holds
        is_of_these = bool(writer.rights) and writer.versions == len(versions)
        if not is_of_these or False in [holds(right, now) for right in writer.rights]:
            self._decide(writer, principal, versions, now)
        elif writer.wrote == uids:  # most frames have the columns of the one before
            return writer.wrote_all(read)
        if writer.rights and uids & writer.named <= writer.writes:
            writer.wrote = uids
            return writer.wrote_all(read)
        if not writer.rights:
            writer.refused_until = now + _REFUSED_FOR_US
        return False

    def might_write(
        self,
        principal: Principal,
        versions: tuple[VerifiedType, ...],
        uids: frozenset[AttributeUid],
        at: Instant,
        read: Read,
    ) -> bool | None:
        """Whether a signer could publish these attributes at an earlier moment; None if it is not known.

        What `judge` remembers is about the present, and stays as it is.
        """
        known = None if not versions else self._known.get((versions[0].type_id, principal.key))
        if known is None or known.pool is None:
            return None if versions else False
        then = known.earlier
        is_of_these = then is not None and bool(then.rights) and then.versions == len(versions)
        if then is None or not is_of_these or not all(one.stable.contains(at) for one in then.rights):
            then = known.earlier = _Writer(known.pool)
            self._decide(then, principal, versions, at, is_past=True)
        return bool(then.rights) and uids & then.named <= then.writes and then.wrote_all(read)

    def _decide(
        self,
        writer: _Writer,
        principal: Principal,
        versions: tuple[VerifiedType, ...],
        at: Instant,
        *,
        is_past: bool = False,
    ) -> None:
        """Ask the kernel for every version; what one of them lets the signer write, it may write."""
        decide = self._edge.decide_then if is_past else self._edge.decide
        writer.rights, writer.wrote, views = [], None, list[View]()
        writer.versions = len(versions)
        for version in versions:
            request = Request(principal, Action.PUBLISH, version.name, version)
            try:
                right = decide(request, writer.pool or (), at)
            except PolicyRefusal:
                continue
            writer.rights.append(right)
            views += self._edge.publisher_views(request, writer.pool or (), at, is_past=is_past)
        writer.named = frozenset(uid for version in versions for uid in version.kinds)
        writer.writes = frozenset(uid for uid in writer.named if any(may_write(one, uid) for one in views))
        writer.written = written_under(views)

    def _writer(self, type_id: bytes, principal: Principal) -> _Writer:
        known = self._known.use((type_id, principal.key))
        if known is None:
            known = _Writer()
            self._known.put((type_id, principal.key), known)
        return known
