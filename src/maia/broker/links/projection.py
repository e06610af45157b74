"""As which super-types is an advertisement published too, by whose consent, and what does a frame show there?

A publication of a sub-type is also one of each super-type: cut to the
super-type's attributes, in a stream of its own, under the super-type's id.
From here on it travels like any other frame of that type, so that readers of
the super-type need to know nothing of the sub-type, and can learn nothing of
it (A99). The signer of each definition on the way must hold the
right to extend the next one at this moment (docs/decisions/inheritance.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from maia.broker.links.links import Advertisement, Projection
from maia.broker.links.transit import Transit, without_proof
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.credentials import Action, VerifiedChain, certificate_to_bytes
from maia.events import Frame, Instant
from maia.policy import PolicyRefusal, Request
from maia.types import VerifiedType, definition_to_bytes

_LINEAGE_SHOWN: Final = 16
"""How many versions of a sub-type an offer of a super-type shows."""
_STREAM: Final = b"maia/1/projected-stream\x00"
_STREAM_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class ProjectedOffer:
    """That a publisher of a sub-type publishes a super-type too: what the routing book keeps of it."""

    entry: Advertisement = field(repr=False)
    definitions: tuple[bytes, ...] = field(repr=False)
    """The sub-type's definition after the versions it was made from: they prove to others that it is one."""


@dataclass(slots=True, eq=False, repr=False)
class Projections:
    """The super-types that advertisements are published as."""

    authoriser: Authoriser
    types: KnownTypes

    def offer_of(self, type_id: bytes, entry: Advertisement) -> Advertisement | ProjectedOffer:
        """Return what the routing book keeps of an advertisement under one of its types."""
        event_type = entry.right.event_type
        if type_id == event_type.type_id:
            return entry
        return ProjectedOffer(entry, self.lineage_of(event_type))

    def lineage_of(self, event_type: VerifiedType) -> tuple[bytes, ...]:
        """Return a definition after the versions it was made from, by which others know its super-types."""
        # Of a long line of versions the last one has to do; most signers need none of the others.
        lineage = self.types.named(event_type.name)[-_LINEAGE_SHOWN:] or (event_type,)
        return tuple(definition_to_bytes(one.signed) for one in lineage)

    def projections_of(self, event_type: VerifiedType, stream: bytes, now: Instant) -> tuple[Projection, ...]:
        """Return the super-types of a type up to the first that is extended without a right now."""
        found: list[Projection] = []
        consents: tuple[Authorisation, ...] = ()
        below = event_type
        for above in event_type.super_types:
            if below.extension:  # its signer is not the owner
                try:
                    consents = (*consents, self._consent(below, above, now))
                except PolicyRefusal:
                    break
            found.append(Projection(above, _stream_of(stream, above), consents))
            below = above
        return tuple(found)

    def consents_hold(self, entry: Advertisement, now: Instant) -> bool:
        """Return whether every consent was decided for this moment and from today's evidence."""
        # The furthest super-type depends on all of them.
        return all(self.authoriser.holds(right, now) for right in entry.projections[-1].consents)

    def _consent(self, below: VerifiedType, above: VerifiedType, now: Instant) -> Authorisation:
        request = Request(below.signer, Action.EXTEND, above.name)
        return self.authoriser.decide(request, self.authoriser.pool(_bytes_of(below.extension)), now)


def certificates_behind(event_type: VerifiedType) -> frozenset[bytes]:
    """Return the ids of the certificates that decide as which super-types a type is published."""
    levels = (event_type, *event_type.super_types)
    return frozenset(signed.id for one in levels for chain in one.extension for signed in chain.certificates)


def project(transit: Transit, projection: Projection) -> Transit:
    """Return a frame as a super-type shows it: its rows, with the attributes of the super-type alone."""
    kinds = projection.super_type.kinds
    columns = {uid: column for uid, column in transit.frame.columns.items() if uid in kinds}
    return Transit(
        projection.type_id,
        transit.publisher,
        projection.stream,
        transit.sequence,
        transit.published_at,
        Frame(transit.frame.rows, columns),
        transit.kept,
        [one for one in transit.written if one.uid in columns],
        without_proof(transit.author),  # the publisher has signed its own type
    )


def _bytes_of(chains: tuple[VerifiedChain, ...]) -> list[bytes]:
    used = {signed.id: signed for chain in chains for signed in chain.certificates}
    return [certificate_to_bytes(signed) for signed in used.values()]


def _stream_of(stream: bytes, above: VerifiedType) -> bytes:
    """Return a stream that is the same wherever the publisher goes, and shows nothing of the one it is of."""
    return sha256(_STREAM + above.type_id + stream).digest()[:_STREAM_BYTES]
