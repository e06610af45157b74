"""How far is a long job? A bar on standard error for people, nothing for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from maia.cli.output import wants_json

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
