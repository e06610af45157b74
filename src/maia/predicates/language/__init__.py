"""Predicates as people write them: scanner, parser, literals, writer."""
