"""Who wants what, and by which hop? Routing sees identifiers and interests, never rights."""

from maia.routing.duplicates import DuplicateMemory
from maia.routing.matching import MatchIndex
from maia.routing.overlay import Overlay
from maia.routing.overlay_join import Membership
from maia.routing.rendezvous import RoutingBook

__all__ = ["DuplicateMemory", "MatchIndex", "Membership", "Overlay", "RoutingBook"]
