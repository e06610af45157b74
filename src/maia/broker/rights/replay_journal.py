"""Which requests were received before, after a restart too?

A request is remembered before it is answered (A65). Writing the whole memory
each time would cost more than verifying the request, so it is written in
short volumes: one request rewrites the volume it falls into, and a volume is
dropped when time alone refuses everything in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.broker.settings import BrokerLimits
from maia.broker.turn import Turn
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.effects import Keep, LinkId
from maia.wire.replays import ReplayMemory, record_of, records_to_bytes
from maia.wire.requests import SignedRequest

KEPT_REQUESTS: Final = "requests/"
_VOLUME_MAX: Final = 64
_DIGITS: Final = 12


@dataclass(slots=True)
class _Volume:
    """Some requests, written together; `newest` is the latest time stamp among them."""

    name: str
    newest: Instant
    records: list[bytes] = field(default_factory=list)
    is_whole: bool = False
    """Whether it holds all that was read back at the start, which is not written again."""


class ReplayJournal:
    """A replay memory, and the volumes in which it is kept."""

    __slots__ = ("_limits", "_number", "_volumes", "memory")

    def __init__(self, limits: BrokerLimits) -> None:
        """Begin with an empty memory."""
        self._limits = limits
        self._number = 0
        self._volumes: deque[_Volume] = deque()
        self.memory = self._memory()

    def reload(self, kept: Mapping[str, bytes], turn: Turn, *, latest: Instant) -> None:
        """Read back what was kept; no time stamp in it is later than `latest`.

        If any of it is broken, nothing that was signed before now counts any more.
        """
        names = sorted(name for name in kept if name.startswith(KEPT_REQUESTS))
        if not names:
            return
        self._number = max(_number_of(name) for name in names)
        try:
            self.memory = ReplayMemory.from_parts(
                [kept[name] for name in names],
                entries_max=self._limits.requests_remembered,
                per_principal_max=self._limits.requests_remembered_per_principal,
            )
        except MaiaError as problem:
            self.memory = self._memory(horizon=turn.now)
            turn.note("kept-dropped", name=KEPT_REQUESTS, code=problem.code)
        # Written under a new name before the old ones go: a crash in between loses nothing.
        volume = self._new_volume(latest)
        volume.is_whole = True
        turn.add(Keep(volume.name, self.memory.to_bytes()))
        turn.add(*(Keep(name, None) for name in names))

    def write(self, link: LinkId, signed: SignedRequest, oldest: Instant, turn: Turn) -> None:
        """Keep a request that came on a link and was just remembered; drop what `oldest` has left behind."""
        request = signed.request
        volume = self._open_volume(request.at)
        volume.records.append(record_of(signed.signer, request.nonce, request.at))
        volume.newest = max(volume.newest, request.at)
        # What a dropped volume knew must stay refused, should the clock step back after a restart.
        self.memory.forget_before(oldest)
        dropped: list[Keep] = []
        while len(self._volumes) > 1 and self._volumes[0].newest < oldest:
            dropped.append(Keep(self._volumes.popleft().name, None))
        turn.keep(Keep(volume.name, records_to_bytes(volume.records, self.memory.forgotten), link), *dropped)

    def _open_volume(self, at: Instant) -> _Volume:
        last = self._volumes[-1] if self._volumes else None
        if last is None or last.is_whole or len(last.records) >= _VOLUME_MAX:
            if last is not None:
                last.records = []  # it is not written again, and the memory has them all
            return self._new_volume(at)
        return last

    def _new_volume(self, newest: Instant) -> _Volume:
        self._number += 1
        name = f"{KEPT_REQUESTS}{self._number:0{_DIGITS}d}"
        volume = _Volume(name, newest)
        self._volumes.append(volume)
        return volume

    def _memory(self, horizon: Instant | None = None) -> ReplayMemory:
        return ReplayMemory(
            entries_max=self._limits.requests_remembered,
            per_principal_max=self._limits.requests_remembered_per_principal,
            horizon=horizon,
        )


def _number_of(name: str) -> int:
    digits = name.removeprefix(KEPT_REQUESTS)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else 0
