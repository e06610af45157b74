"""What did a broker record, and is it safe?

A recording broker appends frames and acknowledges them when `append` has
returned. Durable subscriptions and the pipeline read them again, by position.

    with EventLog.open(folder) as log:
        positions = log.append(messages, recorded_at=now)     # on disk when it returns
        for record in log.read(positions[0]):
            ...                                               # record.message == messages[0]

What was acknowledged is served exactly as it was given, or reported as
damaged; it is never silently missing, altered or doubled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from maia.events import Instant

__all__ = ["EventLog"]


class EventLog:
    """One folder of journals, segments and a manifest, owned by one process."""

    @classmethod
    def open(cls, folder: Path) -> EventLog:
        """Take `folder` for this process alone, and recover what is in it. Raises `LogInUse`, `LogDamaged`."""
        raise NotImplementedError

    @property
    def next_position(self) -> int:
        """Return the position that the next record will have; the first ever is 1."""
        raise NotImplementedError

    def append(self, messages: Sequence[bytes], *, recorded_at: Instant) -> range:
        """Keep the bytes of `Carried` and `Sealed` messages; return their positions when they are on disk."""
        raise NotImplementedError

    def read(self, from_position: int = 1, *, type_ids: Collection[bytes] | None = None) -> Iterator[object]:
        """Yield `LogRecord(position, recorded_at, message)` from a position on, in order, each once.

        `removed_upto(type_id)` says up to which position retention has removed records of a type.
        """
        raise NotImplementedError

    def removed_upto(self, type_id: bytes) -> int:
        """Return the highest position of this type that retention has removed; 0 for none."""
        raise NotImplementedError

    def roll(self, now: Instant) -> object:
        """Turn what is in the journals into Parquet segments. A crash anywhere loses and doubles nothing."""
        raise NotImplementedError

    def compact(self, now: Instant) -> object:
        """Join small segments of one type and day."""
        raise NotImplementedError

    def retain(self, policy: object, now: Instant) -> object:
        """Remove segments that are older, or more, than `policy` keeps."""
        raise NotImplementedError

    def verify(self) -> object:
        """Read everything, and report (file, offset, what) for whatever is not as it was written."""
        raise NotImplementedError

    def segments(self, type_id: bytes) -> list[Path]:
        """Return the Parquet files of a type, oldest first, for Spark and for plain pyarrow."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the folder."""
        raise NotImplementedError

    def __enter__(self) -> EventLog:
        """Return the log itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the log."""
        self.close()
