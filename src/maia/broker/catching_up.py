"""What happens when recorded frames are safe? (durable deliveries to come)"""

from __future__ import annotations

from maia.broker.state import BrokerState
from maia.events import Instant
from maia.wire.effects import Effect, LogRead

__all__ = ["hear_log_read", "hear_recorded"]


def hear_recorded(state: BrokerState, upto: int, now: Instant) -> list[Effect]:
    """Answer whoever waited for frames to be safe."""
    del now
    return [] if state.recording is None else state.recording.made_safe(upto)


def hear_log_read(state: BrokerState, found: LogRead, now: Instant) -> list[Effect]:
    """Go on with what was read."""
    del state, found, now
    return []
