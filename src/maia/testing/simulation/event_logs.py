"""What would a crash leave of an event log?

A simulated disk takes a while to make frames safe, and makes all that were
written meanwhile safe together, as the other runtime does. A crash takes
whatever is not safe yet; the rest stays, with the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from maia.broker.durable.recording import LogAtStart
from maia.errors import BadInput
from maia.log.format.records import type_id_of
from maia.testing.simulation.hosts import Host
from maia.wire.effects import Input, Logged, LogRead, ReadLog, Record, Recorded

__all__ = ["MisplacedRecord", "SimulatedLogs", "log_at_start"]

_DISK_S: Final = 0.02
"""How long a disk takes at most to make something safe, or to read it."""


class MisplacedRecord(BadInput):
    """A node was to record a frame at another position than the next."""

    code = "SIMULATION-RECORD"


class SimulatedLogs:
    """The event logs of all hosts of one simulated network."""

    def __init__(
        self,
        *,
        after: Callable[[float, Callable[[], None]], None],
        happen: Callable[[Host, Input], None],
        now: Callable[[], int],
    ) -> None:
        """Tell hosts through `happen` what became of their logs; `now` is true time."""
        self._after, self._happen, self._now = after, happen, now

    def record(self, host: Host, effect: Record) -> None:
        """Write a frame, which is safe after a while."""
        before = [*host.log[-1:], *host.unsafe[-1:]]
        if before and effect.position != before[-1].position + 1:
            raise MisplacedRecord(f"frame {effect.position} was to be behind {before[-1].position}")
        # By the host's clock: it says itself when it recorded something.
        host.unsafe.append(Logged(effect.position, host.clock(self._now()), effect.data))
        if not host.is_synchronising:
            self._synchronise(host)

    def _synchronise(self, host: Host) -> None:
        host.is_synchronising = True
        self._after(_disk_s(host), partial(self._synchronised, host, len(host.unsafe), host.life))

    def _synchronised(self, host: Host, batch: int, life: int) -> None:
        if host.life != life or host.node is None:
            return
        host.log += host.unsafe[:batch]
        del host.unsafe[:batch]
        host.is_synchronising = False
        if host.unsafe:
            self._synchronise(host)
        self._happen(host, Recorded(host.log[-1].position))

    def read(self, host: Host, effect: ReadLog) -> None:
        """Read frames, which takes a while too."""
        self._after(_disk_s(host), partial(self._read, host, effect, host.life))

    def _read(self, host: Host, asked: ReadLog, life: int) -> None:
        if host.life == life:
            self._happen(host, _found(host, asked))


def log_at_start(host: Host, since: int) -> LogAtStart:
    """Return what a broker reads of its log when it starts."""
    recent = tuple(one for one in host.log if one.position >= since)
    return LogAtStart(host.log[-1].position + 1 if host.log else 1, recent)


def _disk_s(host: Host) -> float:
    return 0.0005 + host.chance.random() * _DISK_S


def _found(host: Host, asked: ReadLog) -> LogRead:
    removed = host.removed_upto.get(asked.type_id, 0)
    frames: list[Logged] = []
    size = 0
    for one in host.log:
        if not asked.first <= one.position <= asked.upto or type_id_of(one.data) != asked.type_id:
            continue
        if frames and (len(frames) >= asked.frames_max or size >= asked.bytes_max):
            return LogRead(asked.read, tuple(frames), frames[-1].position, removed)
        frames.append(one)
        size += len(one.data)
    return LogRead(asked.read, tuple(frames), asked.upto, removed)
