"""Who signed a sealed frame, and may it publish what is in it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maia.broker.interests.routes import Routes
from maia.broker.keys.answers import spoken_of
from maia.broker.keys.keys import SealingKeys
from maia.broker.links.links import Link
from maia.broker.own import Own
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.credentials import Principal
from maia.errors import Refusal
from maia.events import AttributeUid, Instant
from maia.routing.overlay.table import node_id_of_key
from maia.wire.effects import LinkId

if TYPE_CHECKING:
    pass

from maia.broker.keys.publisher_rights import PublisherRights


@dataclass(slots=True, eq=False, repr=False)
class Signers:
    """Whether those who sign sealed frames may publish what is in them."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    seals: SealingKeys
    writers: PublisherRights
    links: dict[LinkId, Link]

    def may_publish(
        self, type_id: bytes, signer: Principal, uids: frozenset[AttributeUid], now: Instant
    ) -> bool:
        """Say whether a signer is known to be entitled to these attributes; refuse one that is not."""
        if not self.writers.knows(type_id, signer):
            self.learn_what_is_at_hand(type_id, signer)
        uids = spoken_of(self.seals, type_id, uids)
        answer = self.writers.judge(signer, self.types.versions(type_id), uids, now)
        if answer is False:
            raise Refusal(
                "SEALING-SIGNER-NOT-ENTITLED",
                "a frame was signed by a principal that may not publish what is in it",
            )
        return answer is not None

    def learn_what_is_at_hand(self, type_id: bytes, signer: Principal) -> None:
        """Take a signer's certificates from what it showed itself, if it is this broker or a neighbour."""
        if signer == self.own.principal:
            self.writers.learn(type_id, signer, self.own.settings.credentials)
            return
        neighbour = self.routes.neighbours.get(node_id_of_key(signer.key))
        link = None if neighbour is None else self.links[neighbour.link]
        if link is not None and link.peer == signer and type_id in link.rights:
            self.writers.learn(type_id, signer, self.authoriser.pool(link.shown, link.rights[type_id]))
