"""Who wants what, and by which hop? Routing sees identifiers and interests, never rights."""
