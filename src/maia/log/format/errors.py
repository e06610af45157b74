"""What can go wrong with an event log, and whose turn is it?

Broken bytes are `Unavailable`: what was kept cannot be served until an operator
who has a copy acts. They are always named with their file and offset.
"""

from __future__ import annotations

from maia.errors import Unavailable


class LogDamaged(Unavailable):
    """Bytes of the log are not the ones that were written; nothing of the damaged part is served."""

    code = "LOG-DAMAGED"

    def __init__(self, file: str, offset: int, what: str) -> None:
        """Name the file inside the log's folder, the offset in it, and what is wrong there."""
        self.file, self.offset, self.what = file, offset, what
        super().__init__(f"`{file}` is damaged at offset {offset}: {what}")

    def as_record(self) -> dict[str, object]:
        """Return the error with its place as fields of their own."""
        return {**super().as_record(), "file": self.file, "offset": self.offset, "what": self.what}


class LogBroken(Unavailable):
    """The disk refused to keep something; what it holds is in doubt until it is mended or opened again."""

    code = "LOG-BROKEN"


class LogDiskFull(Unavailable):
    """There is no room for what was to be kept; none of it was acknowledged."""

    code = "LOG-DISK-FULL"
