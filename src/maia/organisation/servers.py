"""How do the broker and the domain's server of an organisation run together?

Both are the processes of `maia broker` and `maia domain serve`, with the
settings in the organisation's folder. Their logs come together, each line with
the name of its server. A server takes in by itself what changes in the folder. If
that needs a restart, as another network does, it ends and is started again; one
that fails is started again after a pause. However `maia up` ends, its servers end too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, Literal

from maia.back_off import Pauses
from maia.errors import MaiaError, Unavailable
from maia.net.process import RESTARTS, STOP_WITH_INPUT, stop_process, until_told_to_stop
from maia.organisation.organisation import Organisation

_AGAIN_S: Final = 1.0
_AGAIN_MOST_S: Final = 30.0
_PARTNERS_S: Final = 10.0
"""How often partners are asked where their brokers are."""
_TYPES_EVERY: Final = 3
"""After so many of these looks, they are asked for newer versions of types, too."""
_STOP_S: Final = 20.0
_LINE_MAX: Final = 1 << 20


async def run_servers(
    ours: Organisation, *, ready: Callable[[], None], named: Callable[[str], str] | None
) -> None:
    """Run both servers until SIGTERM or Ctrl-C; call `ready` once, when both are.

    `named` makes a line of a log one for people; without it, lines are JSON.
    """
    broker = _ServerProcess("broker", ("broker", "--config"), ours.folder / "broker.toml", named)
    domain = _ServerProcess("domain", ("domain", "serve", "--config"), ours.folder / "domain.toml", named)
    stop = asyncio.create_task(until_told_to_stop())
    running = [asyncio.create_task(broker.run())]
    try:
        await _first(stop, *running, ready=broker.ready)
        if not stop.done():
            running.append(asyncio.create_task(domain.run()))
            await _first(stop, *running, ready=domain.ready)
        if not stop.done():
            ready()
            running.append(asyncio.create_task(_follow_partners(ours.folder, broker._say)))
            await _first(stop, *running)
    finally:
        for task in (*running, stop):
            task.cancel()
        await asyncio.gather(*running, stop, return_exceptions=True)


async def _follow_partners(folder: Path, say: Callable[[str], None]) -> None:
    """Follow partners as long as the servers run: where their brokers are, newer versions of types."""
    for look in count():
        with suppress(MaiaError):  # a folder that is being changed, a disk that is full: the next look
            for one in await asyncio.to_thread(lambda: Organisation(folder).follow_partners()):
                say(f"a partner's broker has moved to {one}")
        with suppress(MaiaError):
            is_due = look % _TYPES_EVERY == 0
            found = await asyncio.to_thread(lambda: Organisation(folder).follow_types()) if is_due else ()
            for one in found:
                say(f"a new version of {one} was taken in; programs use it when they start again")
        await asyncio.sleep(_PARTNERS_S)


async def _first(*waits: asyncio.Task[None], ready: asyncio.Event | None = None) -> None:
    """Wait for the first of several, or until a server is ready; raise if it was one that did not start."""
    is_ready = None if ready is None else asyncio.create_task(ready.wait())
    try:
        tasks: set[asyncio.Task[None] | asyncio.Task[Literal[True]]] = set(waits)
        await asyncio.wait(tasks | ({is_ready} if is_ready else set()), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if is_ready is not None:
            is_ready.cancel()
    for one in waits:
        if one.done():
            one.result()


@dataclass(slots=True)
class _ServerProcess:
    """One server process, started again when it ends."""

    name: str
    words: tuple[str, ...]
    config: Path
    named: Callable[[str], str] | None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        pauses = Pauses(_AGAIN_S, most_s=_AGAIN_MOST_S, clock=asyncio.get_running_loop().time)
        while True:
            was_ready = self.ready.is_set()
            pauses.begin()
            status = await self._once()
            if status == 0 and self.ready.is_set():
                self._say("settings changed: starting again")
                pauses.forget()
                continue
            if not was_ready and not self.ready.is_set():
                raise Unavailable(
                    "UNAVAILABLE-SERVER",
                    f"the {self.name} ended with status {status} before it was ready: its last line says why",
                )
            wait_s = pauses.ended_s()
            self._say(f"ended with status {status}; starting again in {wait_s:g} s")
            await asyncio.sleep(wait_s)

    async def _once(self) -> int:
        """Run the process until it ends; return its status, which is 0 if it wants to start again."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "maia.cli", *self.words, str(self.config),
            "--log-format", "json" if self.named is None else "text",
            stdin=asyncio.subprocess.PIPE,  # ends with this process, and they with it
            env=os.environ | {STOP_WITH_INPUT: "yes", RESTARTS: "yes"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_MAX,
        )  # fmt: skip
        assert process.stdout is not None  # noqa: S101 - a pipe
        assert process.stderr is not None  # noqa: S101 - a pipe
        copying = [
            asyncio.create_task(self._copy(process.stdout, is_answer=True)),
            asyncio.create_task(self._copy(process.stderr, is_answer=False)),
        ]
        try:
            return await process.wait()
        finally:
            await stop_process(process, within_s=_STOP_S)
            await asyncio.gather(*copying, return_exceptions=True)

    async def _copy(self, source: asyncio.StreamReader, *, is_answer: bool) -> None:
        """Copy lines to our standard error; the first answer says that the server is ready."""
        while True:
            try:
                line = await source.readline()
            except ValueError:  # longer than the limit: what was read of it is gone
                continue
            if not line:
                return
            text = line.decode(errors="backslashreplace").rstrip("\n")
            if is_answer:
                self.ready.set()
            self._say(text)

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n" if self.named is None else f"{self.name:<6} | {self.named(text)}\n")
        sys.stderr.flush()
