"""What does this broker demand of the routers beside it?

    [identity]
    demand = "tpm-integrity >= 2"

A demand is a requirement over the identity statement of another broker, in the
language of filters (Gismo 5: neighbours may require an assurance level, and clusters of
levels form by themselves). A broker that does not meet it is no neighbour: nothing
that it sends is looked at, and nothing is sent to it. It shows its statement in
the handshake, or has opened the link with it. A neighbour
whose statement expires, or whose new one says less, loses its link and all routes
over it, and comes back as soon as it shows one that meets the demand again.
"""

from __future__ import annotations

from maia.broker.sessions.links import Link, Role
from maia.broker.state import BrokerState
from maia.credentials.requirements import attributes_of_identity, is_met
from maia.errors import Refusal
from maia.predicates import ALWAYS, format_predicate


class DemandNotMet(Refusal):
    """A broker's identity statement is not what this broker demands of its neighbours."""

    code = "REFUSED-DEMAND"


def check_demand(state: BrokerState, link: Link) -> None:
    """Raise unless the peer of a link is a client, or a broker that may be a neighbour."""
    demand = state.settings.demand
    if demand == ALWAYS or link.role is not Role.BROKER:
        return
    stated = None if link.identity is None else link.identity.statement
    if not is_met(demand, attributes_of_identity(stated)):
        shown = "shows no identity statement" if stated is None else "has a statement that says less"
        raise DemandNotMet(
            f"this broker demands `{format_predicate(demand)}` of its neighbours, and the peer {shown}"
        )
