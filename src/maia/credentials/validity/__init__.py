"""Validity: periods, online tests, revocation lists and revalidations, and what a verifier knows of them."""
