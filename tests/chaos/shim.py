"""How is a process shown a broken disk or a wrong clock? By a library in front of the C library (`shim.c`).

It is compiled where there is a C compiler. Where there is none, `NoShim` says why these faults are left out.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
_FORMAT = struct.Struct("=qqq")


class NoShim(Exception):
    """These faults cannot be caused here."""


def compiled(folder: Path) -> Path:
    """Return the library, made in a folder; raise if this machine cannot make one."""
    if sys.platform != "linux":
        raise NoShim("LD_PRELOAD is a way of Linux")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NoShim("there is no C compiler (cc, gcc, clang)")
    library = folder / "shim.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise NoShim(f"{compiler} cannot compile it: {made.stderr[-300:]}")
    return library


@dataclass(frozen=True, slots=True)
class Control:
    """What one process sees of its disk, below a folder, and of its clock."""

    library: Path
    file: Path
    folder: Path

    def __post_init__(self) -> None:
        """Begin with everything as it is."""
        self.show()

    def show(self, *, clock_s: float = 0, error: int = 0, delay_ms: int = 0) -> None:
        """Show a clock that is off, an error at each write, or a disk that is slow."""
        data = _FORMAT.pack(int(clock_s * 1_000_000_000), error, delay_ms)
        with os.fdopen(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            file.write(data)

    @property
    def environment(self) -> dict[str, str]:
        """Return what the process is started with."""
        return {
            "LD_PRELOAD": str(self.library),
            "CHAOS_CONTROL": str(self.file),
            "CHAOS_FOLDER": str(self.folder.resolve()),
        }
