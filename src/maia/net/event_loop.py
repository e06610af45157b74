"""How does a server wait for its sockets, at the least cost for each read?

asyncio makes a handle of what a selector reports, puts it behind what is ready, and runs it in a context:
a twelfth of what a broker spends on an event that comes alone. This loop is asyncio's own, with one
difference: what was given to `add_reader`, without arguments, is called as soon as the kernel reports its
socket, once for each time that it asks the kernel, so that no socket keeps others or timers waiting
longer than with asyncio. An exception goes to the loop's handler, as one of a handle does. In debug mode,
and where there is no `epoll`, all is asyncio's.
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

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_SOCKETS_AT_ONCE: Final = 256
"""How many sockets the kernel reports at a time; others are first the next time."""


class _DirectSelector(selectors.EpollSelector):
    """An `EpollSelector` that calls readers itself."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: dict[int, Callable[[], object]] = {}
        self.failed: Callable[[Exception, int], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Call the readers of sockets that can be read, and return what else there is."""
        # Rounded up, as in its base class: epoll counts in milliseconds.
        wait_s = -1 if timeout is None else math.ceil(timeout * 1e3) * 1e-3 if timeout > 0 else 0
        ready: list[tuple[selectors.SelectorKey, int]] = []
        readers, keys = self.readers, self.get_map()
        poll = self._selector.poll  # type: ignore[attr-defined] # its base class has no public name for it
        for number, event in poll(wait_s, _SOCKETS_AT_ONCE):
            reader = readers.get(number) if event == select.EPOLLIN else None
            if reader is not None:
                try:
                    reader()
                except Exception as problem:  # noqa: BLE001 - the loop's handler decides, as for any handle
                    self.failed(problem, number)
            elif (key := keys.get(number)) is not None:  # it may be gone since
                read = event & ~select.EPOLLOUT and selectors.EVENT_READ
                write = event & ~select.EPOLLIN and selectors.EVENT_WRITE
                ready.append((key, (read | write) & key.events))
        return ready


class DirectLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, whose readers are called without a detour."""

    def __init__(self) -> None:
        """Begin without readers."""
        self._direct = _DirectSelector()
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


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that calls readers directly, where there can be one."""
    return DirectLoop() if hasattr(select, "epoll") else asyncio.new_event_loop()


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Do what `asyncio.run` does, on such a loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
