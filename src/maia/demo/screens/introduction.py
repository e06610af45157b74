"""What does a newcomer read before the demonstration begins, and after it has ended?

Before: who the people of the story are, and what each of them may see; no
library is loaded for that, so it is on the screen at once. After: what to
try next, with the very command that was typed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["BEFORE", "after", "typed_command"]

BEFORE: Final = """\
Cameras in London publish sightings of cars: numberplate, time, place. PITO owns
this type of event, CCS runs the cameras, the Met is the police. By certificates
  the billing office     sees plates, never a place
  the statistics office  sees places, never a plate
  Detective Smith        sees one car, while a court order is in force
Between their brokers is that of the Highways, which may read nothing.

"""


def after(command: str) -> list[str]:
    """Return the lines that say what to try next; `command` is how this user calls Maia."""
    steps = (
        (f"{command} demo --keep", "the network stays, until Ctrl-C"),
        (f"{command} explain --help", "who may do what, and by which certificate"),
        ("docs/network.md", "build such a network, command by command"),
        ("docs/limitations.md", "what Maia does not protect against"),
    )
    width = max(len(what) for what, _ in steps)
    return ["Next:", *(f"  {what:<{width}}  {why}" for what, why in steps)]


def typed_command(arguments: Sequence[str] = sys.argv) -> str:
    """Return how Maia was called, as it can be typed again."""
    called = Path(arguments[0])
    if called.name != "maia":
        return "python -m maia.cli"
    found = shutil.which("maia")
    return "maia" if found is not None and Path(found).absolute() == called.absolute() else str(called)
