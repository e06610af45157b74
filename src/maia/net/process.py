"""What does a process of ours do beside its work?

It stops at SIGTERM or Ctrl-C, and dies with the process that started it; it ends what it started itself; it
takes its data folder for itself alone; it looks for garbage when that costs least; and it keeps some
memory free.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from maia.errors import MaiaError, Unavailable
from maia.events import SECOND, Instant
from maia.net.addresses import bind
from maia.net.observer import Records

RESTARTS: Final = "MAIA_RESTARTS"
"""Set by `maia up`, which starts a server again that ends because its settings have changed."""
STOP_WITH_INPUT: Final = "MAIA_STOP_WITH_INPUT"
"""Set by `maia up`, which holds the other end of its servers' standard input: it closes however that ends."""
FREE_WITHIN_S: Final = 5.0
"""How long a start waits for a data folder whose owner may be ending."""

_READ_MAX: Final = 4096
_FREE_LOOK_S: Final = 0.05
_CLOCK_LOOK_S: Final = 1.0

_numbers: Final = [os.getpid()]


_Result = TypeVar("_Result")


def process_id() -> int:
    """Return this process's number, as `os.getpid` does, without a call of the kernel each time."""
    return _numbers[0]


def _note_number() -> None:
    _numbers[0] = os.getpid()


os.register_at_fork(after_in_child=_note_number)


def die_with_parent() -> None:
    """End this process at once when its standard input does: whoever held the other end is gone.

    It was killed, or would have told us to stop. Nobody reads what we say, and the next start needs our
    folder. A thread waits for that, so that neither a long turn nor a slow end of ours is in its way.
    """

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, _READ_MAX):
                pass
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


async def until_told_to_stop(
    needs_restart: asyncio.Event | None = None, *, ready: Callable[[], None] | None = None
) -> None:
    """Wait for SIGTERM or SIGINT; a second one finds its usual meaning again.

    Or until `needs_restart` is set, if `maia up` starts this process again. `ready` is called when a signal
    would be heard: whoever reads that a server is ready may stop it in the same moment.
    """
    stopped = asyncio.Event() if needs_restart is None or RESTARTS not in os.environ else needs_restart
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)

    try:
        if ready is not None:
            ready()
        await stopped.wait()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class ClockSetBack(Unavailable):
    """What this process wanted to do next waits for a moment that is far away again."""

    code = "UNAVAILABLE-CLOCK-SET-BACK"


async def until_set_back(clock: Callable[[], Instant], *, by_s: float) -> None:
    """Raise when the clock stands further back than it stood once, by more than so many seconds.

    Leases, renewals and questions have their moments by the clock, and none of them would come in time. A
    process that starts again begins all of them anew.
    """
    steady = asyncio.get_running_loop().time
    furthest = ahead = clock() / SECOND - steady()
    while furthest - ahead <= by_s:
        await asyncio.sleep(_CLOCK_LOOK_S)
        ahead = clock() / SECOND - steady()
        furthest = max(furthest, ahead)
    raise ClockSetBack(f"the clock was set back by {furthest - ahead:.0f} seconds: this process starts anew")


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run something while the body runs; it ends with the body."""
    # Any: what a coroutine takes and returns is its own matter.
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def waited_for(asked: Coroutine[Any, Any, _Result]) -> _Result:
    # Any: what a coroutine takes and yields between is asyncio's business.
    """Wait for an answer, also where the caller's thread has an event loop that runs, as notebooks do."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, asked).result()


async def stop_process(process: asyncio.subprocess.Process, *, within_s: float) -> None:
    """Ask a process to end, and end it if it does not."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# Collecting garbage that refers to itself.
#
# Left to itself, Python walks over everything that is alive again and again as
# a broker fills: with 100,000 subscriptions each walk stops all traffic for a
# second or two, and finds nothing, because subscriptions are freed as soon as
# nothing refers to them. Only connections leave circles behind. So what has grown
# old is set aside and not walked over any more, and a whole walk waits until
# as many connections have ended as there are: at most half of the connections
# in memory are dead ones, and the price of a walk is shared by as many ends
# (docs/decisions/memory.md).


YOUNG: Final = 10_000
"""Objects that are made, less those that are freed, between two walks over the youngest: about 1 ms each."""
YOUNG_WALKS: Final = 10
NEVER: Final = 1_000_000
"""Python does not begin a whole walk by itself."""
ENDED_MIN: Final = 1000
_LOOK_S: Final = 1.0


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_KEPT_FREE: Final = {_M_TRIM_THRESHOLD: 4 << 20, _M_TOP_PAD: 256 << 10, _M_MMAP_THRESHOLD: 1 << 20}


def keep_free_memory() -> None:
    """Keep a few megabytes that are free, where the C library is glibc, for the next frame.

    It would give them back to the system behind each large frame and take them again, page by page.
    """
    with suppress(OSError, AttributeError, TypeError):  # another C library, or none that can be asked
        set_option = ctypes.CDLL(None).mallopt
        for option, size in _KEPT_FREE.items():
            set_option(option, size)


class GarbageWatch:
    """Sets aside what has grown old, and orders whole walks."""

    __slots__ = ("_ended_before",)

    def __init__(self) -> None:
        """Set everything aside that the start of the process has made."""
        self._ended_before = 0
        gc.set_threshold(YOUNG, YOUNG_WALKS, NEVER)
        # Modules are no garbage: a walk over them finds nothing, and takes longer than the rest of the start.
        gc.freeze()
        gc.collect()  # of nothing: Python counts anew from here

    def look(self, *, connections: int, ended: int) -> None:
        """Do what is due, given how many connections there are and how many have ended so far."""
        if ended - self._ended_before >= max(ENDED_MIN, connections):
            self._ended_before = ended
            self._walk()
        elif gc.get_count()[2]:  # enough has been made for the middle generation to be walked over
            gc.collect(1)
            gc.freeze()

    def _walk(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


async def _watch(counts: Callable[[], tuple[int, int]]) -> None:
    watch = GarbageWatch()
    while True:
        await asyncio.sleep(_LOOK_S)
        connections, ended = counts()
        watch.look(connections=connections, ended=ended)


@contextmanager
def watched(counts: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Watch over this process while the body runs; `counts` says how many connections are, and were."""
    keep_free_memory()
    before, watching = gc.get_threshold(), asyncio.create_task(_watch(counts))
    try:
        yield
    finally:
        watching.cancel()
        gc.set_threshold(*before)
        gc.unfreeze()


# The data folder's one owner, and the errors of tasks.


_LOCK: Final = "lock"


class DataFolderInUse(Unavailable):
    """Another process runs with this data folder."""

    code = "UNAVAILABLE-DATA-FOLDER"


@contextmanager
def own_folder(data: Path, records: Records | None = None) -> Iterator[None]:
    """Take the data folder for this process alone; a lock that the kernel lets go when the process dies.

    With `records`, some seconds are waited for one that is ending, and that is noted there.
    """
    descriptor = os.open(data / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not _locked(descriptor):
            if records is not None:
                records.note("data-folder-in-use", {"data": data, "waiting_s": FREE_WITHIN_S})
            if records is None or not _locked_in_time(descriptor):
                raise DataFolderInUse(
                    f"another process runs with the data folder `{data}`: it may be running already"
                )
        yield
    finally:
        os.close(descriptor)


def _locked_in_time(descriptor: int) -> bool:
    until = time.monotonic() + FREE_WITHIN_S
    while not (has_it := _locked(descriptor)) and time.monotonic() < until:
        time.sleep(_FREE_LOOK_S)
    return has_it


def _locked(descriptor: int) -> bool:
    import fcntl  # Windows has none, and a client needs none

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_free(data: Path | None, *addresses: str | None) -> bool:
    """Return whether no process runs with a data folder; then its addresses have to be free, too.

    A process that runs with the folder is taken to be this server, which has the addresses then.
    """
    if data is not None and (data / _LOCK).exists():
        try:
            with own_folder(data):
                pass
        except DataFolderInUse:
            return False
    for address in addresses:
        if address not in {None, "off"}:
            bind(str(address))[0].close()
    return True


def one_of(group: ExceptionGroup[Exception]) -> Exception:
    """Return one of ours out of a task group's errors: the operator mends one thing at a time."""
    for one in group.exceptions:
        problem = one_of(one) if isinstance(one, ExceptionGroup) else one
        if isinstance(problem, MaiaError | OSError):
            return problem
    return group
