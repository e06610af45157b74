"""Simulations print the seed of a failure, and the command that repeats it."""

from __future__ import annotations

from support.seeds import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]
