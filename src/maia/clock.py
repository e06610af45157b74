"""What time is it? The one place that asks the machine."""

from __future__ import annotations

import time

from maia.events import Instant

__all__ = ["system_now"]


def system_now() -> Instant:
    """Return the present moment by the machine's clock, in whole microseconds."""
    return Instant(time.time_ns() // 1000)
