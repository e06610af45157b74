"""Sealed filters and the proofs that travel with them."""
