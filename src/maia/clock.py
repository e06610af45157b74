"""What time is it? The one place that asks the machine."""

from __future__ import annotations

import time

from maia.events import Instant

__all__ = ["system_now"]


def system_now() -> Instant:
    """Return the present moment by the machine's clock, in whole microseconds."""
    # Nanoseconds in 64 bits end in 2262, so the range of an Instant need not be checked.
    return int.__new__(Instant, time.time_ns() // 1000)
