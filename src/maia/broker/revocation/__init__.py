"""Validity statements: which are needed here, how they arrive, and what ends because of them."""
