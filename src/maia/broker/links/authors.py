"""What travels with a frame about its publisher, and how much of that does this broker vouch for?

The publisher's broker attaches the statement that it has verified on the publisher's link; a publisher has
no field to put one into (A14). Brokers on the way pass it on as it is, because the next one may trust
another provider. Where it counts, for a requirement or for a subscriber of this broker, it is verified
here: the provider, the community, the time, and that it is about the frame's publisher. What does
not hold is left out of the delivery.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from maia.bounded_map import BoundedMap
from maia.broker.links.links import Advertisement, Link
from maia.broker.links.transit import Transit
from maia.broker.rights.publisher_view import Shaped
from maia.credentials import Principal
from maia.credentials.identity import IdentityTrust, VerifiedIdentity, unpack_identity
from maia.credentials.requirements import requirement_from_bytes
from maia.errors import MaiaError
from maia.events import Frame, Instant
from maia.sealing.frames.authorship import AuthorProof, Publishing, proof_of_author
from maia.wire.columns import frame_label
from maia.wire.messages import Author, Publish

_STATEMENTS_REMEMBERED: Final = 4096


class AttachedStatements:
    """Statements that came with frames: each is verified once, however many frames it comes with."""

    __slots__ = ("_checked", "_trust")

    def __init__(self, trust: IdentityTrust | None) -> None:
        """Verify by these providers, or nothing if there are none."""
        self._trust = trust
        self._checked: BoundedMap[bytes, tuple[VerifiedIdentity | None]] = BoundedMap(_STATEMENTS_REMEMBERED)

    def identity_of(
        self, publisher: Principal, author: Author | None, at: Instant
    ) -> VerifiedIdentity | None:
        """Return what a trusted provider says of a frame's publisher at this moment; None for nothing."""
        if author is None or not author.statement or self._trust is None:
            return None
        known = self._checked.use(author.statement)
        if known is None:
            known = (self._verified(author.statement, self._trust),)
            self._checked.put(author.statement, known)
        (identity,) = known
        if identity is None or identity.statement.subject != publisher:
            return None
        return identity if identity.statement.is_in_force(at) else None

    def _verified(self, data: bytes, trust: IdentityTrust) -> VerifiedIdentity | None:
        try:
            said = unpack_identity(data).statement
            # Verified for its own first moment, so that the answer holds for all of them.
            return trust.verified(data, said.subject, said.not_before)
        except MaiaError:
            return None


def attached(
    link: Link, message: Publish, entry: Advertisement, given: Frame, shaped: Shaped
) -> Author | None:
    """Return what this broker attaches to a frame of its own publisher: statement, signature, requirement.

    What the publisher requires of subscribers is what this frame says, or else the advertisement. The
    signature is verified over the frame as it was `given`, and goes along as far as it covers what is
    left of it: not where the publisher's right demands other columns or values. Where the right
    transforms what is written it never does, so that nothing tells events that were changed from others.
    """
    proof, requires, signed = b"", entry.requires, message.signed
    if message.requires is not None:
        requirement_from_bytes(message.requires)  # refused if it is none
        requires = message.requires
    if signed is not None:
        type_id = entry.right.event_type.type_id
        label = frame_label(link.peer.key, entry.stream, message.sequence)
        about = Publishing(type_id, label, message.published_at, requires)
        whole = proof_of_author(given, about, link.peer, signed.signature, signed.seed)
        if entry.shaper.transform is None and shaped.frame == (
            given.take(shaped.rows) if shaped.refused else given
        ):
            proof = whole.part(given.columns, shaped.rows).to_bytes()
    is_anything = link.statement or proof or requires
    return Author(link.statement, proof, requires) if is_anything else None


def check_signature(transit: Transit) -> None:
    """Raise if what came with a frame is not its publisher's signature over these events and requirements."""
    author = transit.author
    if author is None or not author.proof:
        return
    label = frame_label(transit.publisher.key, transit.published_in, transit.sequence)
    about = Publishing(transit.type_id, label, transit.published_at, author.requires)
    AuthorProof.from_bytes(author.proof).check(transit.publisher, about, transit.frame)


def vouched_for(statements: AttachedStatements, transit: Transit, at: Instant) -> Transit:
    """Return a frame for subscribers here: its statement goes along only if it was verified here."""
    author = transit.author
    if author is None or not author.statement:
        return transit
    if statements.identity_of(transit.publisher, author, at) is not None:
        return transit
    return replace(transit, author=Author(b"", author.proof, author.requires))
