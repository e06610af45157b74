"""Which way of routing does a broker use?"""

from __future__ import annotations

from typing import assert_never

from maia.broker.routing.mesh import MeshRouter
from maia.broker.routing.rendezvous import RendezvousRouter
from maia.broker.routing.router import Router
from maia.broker.settings import Routing
from maia.broker.state import BrokerState


def new_router(state: BrokerState) -> Router:
    """Return the router that a broker's settings name."""
    match state.settings.routing:
        case Routing.RENDEZVOUS:
            return RendezvousRouter(state)
        case Routing.MESH:
            return MeshRouter(state)
        case other:
            assert_never(other)
