"""What are the files of a log called, and is this name one of them?

Names are made of numbers and digests, never of text from a peer, and a
name that is read back is read in its one form. So no type id, manifest or
listing leads out of the log's folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from maia.errors import BadInput
from maia.events import Instant

TYPE_ID_BYTES: Final = 32
DIGEST_BYTES: Final = 16
UNFINISHED: Final = ".unfinished"
"""What a name ends in until the file under it is whole."""

_JOURNAL: Final = re.compile(r"journal-([0-9]{20})\.log", re.ASCII)
_MANIFEST: Final = re.compile(r"manifest-([0-9]{20})\.log", re.ASCII)
_CUT: Final = re.compile(r"cut-[0-9]{20}-[0-9]{20}\.bytes", re.ASCII)
_SEGMENT: Final = re.compile(
    r"type=([0-9a-f]{64})/day=([0-9]{4}-[0-9]{2}-[0-9]{2})/"
    r"segment-([0-9]{20})-([0-9]{20})-([0-9a-f]{32})\.parquet",
    re.ASCII,
)


def journal_name(first: int) -> str:
    return f"journal-{first:020d}.log"


def journal_first(name: str) -> int | None:
    """Return the first position of the journal of this name, or None if it is no journal's."""
    found = _JOURNAL.fullmatch(name)
    return int(found[1]) if found else None


def manifest_name(number: int) -> str:
    """Return the name of a manifest: each one that is written anew has the next number."""
    return f"manifest-{number:020d}.log"


def manifest_number(name: str) -> int | None:
    """Return the number of the manifest of this name, or None if it is no manifest's."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def cut_name(first: int, offset: int) -> str:
    """Return where the end of a journal is put that was cut off at `offset`."""
    return f"cut-{first:020d}-{offset:020d}.bytes"


def is_cut(name: str) -> bool:
    """Return whether this is where the end of a journal was put."""
    return _CUT.fullmatch(name) is not None


def day_of(moment: int) -> str:
    """Return the day of a moment, in UTC."""
    return Instant(moment).to_datetime().strftime("%Y-%m-%d").rjust(10, "0")


@dataclass(frozen=True, slots=True)
class SegmentName:
    """Where a segment lies: its type, its day, its positions and the digest of its bytes."""

    type_id: bytes
    day: str
    first: int
    last: int
    digest: bytes

    def __post_init__(self) -> None:
        """Refuse what is no name of a segment."""
        if len(self.type_id) != TYPE_ID_BYTES or len(self.digest) != DIGEST_BYTES:
            raise BadInput("LOG-NAME", "the type id or the digest of a segment has another length")
        if not 1 <= self.first <= self.last < 1 << 63:
            raise BadInput("LOG-NAME", "the positions of a segment are none")
        if not _is_day(self.day):
            raise BadInput("LOG-NAME", f"`{ascii(self.day[:32])[1:-1]}` is not a day such as `2026-11-15`")

    @property
    def folder(self) -> str:
        """Return the folder inside the log's folder."""
        return f"type={self.type_id.hex()}/day={self.day}"

    @property
    def path(self) -> str:
        """Return the path inside the log's folder."""
        return f"{self.folder}/segment-{self.first:020d}-{self.last:020d}-{self.digest.hex()}.parquet"


def segment_name(path: str) -> SegmentName | None:
    """Return the name of the segment at this path inside the log's folder, or None if it is no segment's."""
    found = _SEGMENT.fullmatch(path)
    if found is None or not _is_day(found[2]):
        return None
    first, last = int(found[3]), int(found[4])
    if not 1 <= first <= last < 1 << 63:
        return None
    return SegmentName(bytes.fromhex(found[1]), found[2], first, last, bytes.fromhex(found[5]))


def already_joined(paths: Iterable[str]) -> list[str]:
    """Return the names of segments whose frames are in a larger one of these, too.

    For readers that list folders in place of reading the manifest. `paths` may
    begin with anything. Segments of one type and day that overlap do so
    because the larger one was made of the others.
    """
    by_folder: defaultdict[str, list[tuple[SegmentName, str]]] = defaultdict(list)
    for path in paths:
        name = segment_name("/".join(path.split("/")[-3:]))
        if name is not None:
            by_folder[name.folder].append((name, path.rpartition("/")[2]))
    gone: list[str] = []
    for found in by_folder.values():
        reached = 0
        for name, file in sorted(found, key=lambda one: (one[0].first, -one[0].last)):
            if name.last <= reached:
                gone.append(file)
            reached = max(reached, name.last)
    return gone


def _is_day(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
