"""Who wants what, and by which hop? Routing sees identifiers and interests, never rights."""

from maia.routing.duplicates import DuplicateMemory
from maia.routing.matching.index import MatchIndex
from maia.routing.overlay.membership import OverlayMembership
from maia.routing.overlay.table import Overlay
from maia.routing.table.routing_table import RoutingTable

__all__ = ["DuplicateMemory", "MatchIndex", "OverlayMembership", "Overlay", "RoutingTable"]
