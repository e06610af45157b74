"""Mesh routing: interests flooded as signed aggregates, for small or poor networks."""
