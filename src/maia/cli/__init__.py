"""The `maia` command."""

from maia.cli.main import main

__all__ = ["main"]
