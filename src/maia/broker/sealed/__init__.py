"""Sealed types: keys, frames, interests and offers of which this broker reads what its keys open."""
