"""How does a server wait for its sockets, at the least cost for each read?

asyncio makes a handle of what a selector reports, puts it behind what is ready, and runs it in a context:
a twelfth of what a broker spends on an event that comes alone. This loop is asyncio's own, with two
differences. What was given to `add_reader`, without arguments, is called as soon as the kernel reports its
socket, once for each time that the kernel is asked, so that no socket keeps others or timers waiting
longer than with asyncio. An exception goes to the loop's handler, as one of a handle does. And a server
that has just read asks the kernel some more times before it sleeps, as long as that mostly finds something:
whoever sleeps wakes up late, and with caches that others have used (docs/decisions/single-events.md). In
debug mode no reader is called directly, and where there is no `epoll`, all is asyncio's.
"""

from __future__ import annotations

import asyncio
import math
import select
import selectors
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, cast

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

if TYPE_CHECKING or hasattr(selectors, "EpollSelector"):
    from selectors import EpollSelector
else:  # and then no loop is made of it
    from selectors import SelectSelector as EpollSelector

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_SOCKETS_AT_ONCE: Final = 256
"""How many sockets the kernel reports at a time; others are first the next time."""
ASKED_MAX: Final = 50
"""How often the kernel is asked before a sleep: each time takes about a microsecond."""
LUCK_MAX: Final = 8
TRIED_AGAIN: Final = 32
"""After so many reads it is tried again whether asking finds something."""


class DirectSelector(EpollSelector):
    """An `EpollSelector` that calls readers itself, and asks `asked_max` times before it sleeps."""

    def __init__(self, asked_max: int) -> None:
        """Begin without readers, and without luck."""
        super().__init__()
        self.readers: dict[int, Callable[[], object]] = {}
        self.failed: Callable[[Exception, int], None]
        # Its base class has no public name for it.
        self.poll: Callable[[float, int], list[tuple[int, int]]] = self._selector.poll  # type: ignore[attr-defined]
        self._asked_max = asked_max
        self._luck = self._reads = 0
        self._has_read = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Call the readers of sockets that can be read, and return what else there is."""
        # Rounded up, as in its base class: epoll counts in milliseconds.
        wait_s = -1 if timeout is None else math.ceil(timeout * 1e3) * 1e-3 if timeout > 0 else 0
        found = self._found_at_once() if self._has_read and wait_s else []
        self._has_read = False
        readers, others = self.readers, list[tuple[int, int]]()
        for number, event in found or self.poll(wait_s, _SOCKETS_AT_ONCE):
            reader = readers.get(number) if event == select.EPOLLIN else None
            if reader is None:
                others.append((number, event))
                continue
            self._has_read = True
            try:
                reader()
            except Exception as problem:  # noqa: BLE001 - the loop's handler decides, as for any handle
                self.failed(problem, number)
        ready: list[tuple[selectors.SelectorKey, int]] = []
        for number, event in others:
            # Only now: a reader may have closed another one's socket, which the loop must not hear of.
            key = self.get_map().get(number)
            if key is not None:
                read = event & ~select.EPOLLOUT and selectors.EVENT_READ
                write = event & ~select.EPOLLIN and selectors.EVENT_WRITE
                ready.append((key, (read | write) & key.events))
        return ready

    def _found_at_once(self) -> list[tuple[int, int]]:
        """Ask the kernel a few times without sleeping, unless that was in vain of late."""
        self._reads += 1
        if not self._luck and self._reads % TRIED_AGAIN:
            return []
        for _ in range(self._asked_max):
            if found := self.poll(0, _SOCKETS_AT_ONCE):
                self._luck = min(self._luck + 1, LUCK_MAX)
                return found
        self._luck = max(0, self._luck - 2)  # it pays where two of three times find something
        return []


class DirectLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, whose readers are called without a detour."""

    def __init__(self, *, asked_max: int = 0) -> None:
        """Begin without readers; a loop that may keep a core busy for a moment asks before it sleeps."""
        self._direct = DirectSelector(asked_max)
        self._direct.failed = self._reader_failed
        super().__init__(self._direct)

    def add_reader(self, fd: FileDescriptorLike, callback: Callable[[*_Ts], Any], *args: *_Ts) -> None:
        """Call back whenever there is something to read."""
        # Any: what a callback returns is its own matter.
        super().add_reader(fd, callback, *args)
        number = self._direct.get_key(fd).fd
        self._direct.readers.pop(number, None)
        if not args and not self.get_debug():
            self._direct.readers[number] = cast("Callable[[], object]", callback)

    def remove_reader(self, fd: FileDescriptorLike) -> bool:
        """Call back no more; say whether something was called before."""
        key = self._direct.get_map().get(fd)
        if key is not None:
            self._direct.readers.pop(key.fd, None)
        return super().remove_reader(fd)

    def _reader_failed(self, problem: Exception, number: int) -> None:
        self.call_exception_handler({"message": f"Exception in the reader of {number}", "exception": problem})


def new_event_loop(*, asked_max: int = 0) -> asyncio.AbstractEventLoop:
    """Return a loop that calls readers directly, where there can be one."""
    return DirectLoop(asked_max=asked_max) if hasattr(select, "epoll") else asyncio.new_event_loop()


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Do what `asyncio.run` does, on the loop of a server."""
    with asyncio.Runner(loop_factory=lambda: new_event_loop(asked_max=ASKED_MAX)) as runner:
        return runner.run(main)
