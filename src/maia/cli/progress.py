"""How far is a long job, and is it still being done? A bar or a line on standard error, none for programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from maia.cli.output import note, wants_json

if TYPE_CHECKING:
    from rich.progress import Progress


def bar() -> Progress:
    """Return a bar, which is shown on a terminal while it is open."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(
        *columns, console=console, transient=True, disable=wants_json() or not console.is_terminal
    )


@contextmanager
def counted(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how much of an amount is done; call the yielded function with each part."""
    with bar() as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


_PATIENCE_S: Final = 5.0


@contextmanager
def patience(doing: str, *, every_s: float = _PATIENCE_S) -> Iterator[None]:
    """Say every few seconds what is still being done while the body runs, so that silence is no riddle."""
    is_done = threading.Event()

    def say() -> None:
        passed = every_s
        while not is_done.wait(every_s):
            note(f"maia: {doing}, for {passed:g} seconds now")
            passed += every_s

    saying = threading.Thread(target=say, daemon=True)
    if not wants_json():
        saying.start()
    try:
        yield
    finally:
        is_done.set()
        if saying.is_alive():
            saying.join()
