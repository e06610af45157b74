"""Maia: publish/subscribe for organisations that share event streams without trusting each other fully."""

__version__ = "0.1.0"
__all__ = ["__version__"]
