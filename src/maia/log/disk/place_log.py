"""What is in a log that lies in a place, and how is it changed by one of several processes at a time?

Brokers add segments (`shipping.py`), and a command or a Spark job joins and removes them. Each writes new
objects, then one manifest of the next number that names all that holds from then on. A place creates a name
once, so of two that have read the same manifest one is refused, and looks again. Readers take
the manifest with the highest number: they see a change as a whole, or not yet. Objects that are no
longer named stay for a while, for readers that hold an older manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final

from maia.errors import Unavailable
from maia.events import SECOND, Instant
from maia.log.disk.event_log import LogLimits
from maia.log.disk.files import PlaceDisk
from maia.log.disk.rollover import changed, joined_segment
from maia.log.format.errors import LogDamaged
from maia.log.format.manifest import Change, Manifest, Segment, read_manifest, snapshot_bytes
from maia.log.format.names import manifest_name, manifest_number, segment_name
from maia.log.format.records import MARKER_BYTES
from maia.log.format.retention import Retention, forgetting, removal, to_forget, to_join
from maia.log.format.segments import digest_of
from maia.places import AlreadyThere, Place

_LOOKS_MAX: Final = 5


class LogRaced(Unavailable):
    """Another process changed a log in a place at the same time; what was to be done can be done again."""

    code = "LOG-PLACE-RACED"


class PlaceLog:
    """A log in a place, as it was when its manifest was read."""

    def __init__(self, place: Place, *, limits: LogLimits | None = None) -> None:
        """Read the newest manifest; `number` is 0 where no log was begun."""
        self.place, self.limits = place, limits or LogLimits()
        if "lock" in place.names():
            other = "`maia log roll --compact` joins its segments"
            raise Unavailable("LOG-IN-USE", f"`{place}` is a broker's own folder: {other}")
        self.number, self.state = self._found()

    def _found(self) -> tuple[int, Manifest]:
        disk = PlaceDisk(self.place)
        for _ in range(_LOOKS_MAX):
            number = max(self._numbers(), default=0)
            if not number:
                return 0, Manifest()
            try:
                with closing(disk.read(manifest_name(number))) as file:
                    return number, read_manifest(file, manifest_name(number))[0]
            except FileNotFoundError:
                continue  # a newer one is there, and this one was removed
        raise LogDamaged(manifest_name(number), 0, "the file is missing")

    def _numbers(self) -> list[int]:
        return [number for name in self.place.names() if (number := manifest_number(name)) is not None]

    # -------------------------------------------------------- changing

    def put(self, path: str, data: bytes) -> None:
        """Create the object of a segment; if it is there, it has to be the same."""
        try:
            self.place.create(path, data)
        except AlreadyThere:
            if digest_of(self.place.read(path)) != digest_of(data):
                raise LogDamaged(path, 0, "it does not match the digest in its name") from None

    def commit(self, change: Change) -> None:
        """Have a change hold for every reader; raises `LogRaced` if another process was first.

        All objects that it adds are there, or it raises `LogDamaged`.
        """
        state = self.state.copied()
        state.apply(change)
        number, name = self.number + 1, manifest_name(self.number + 1)
        data = snapshot_bytes(state, number=number, marker=os.urandom(MARKER_BYTES), at=change.at)
        try:
            self.place.create(name, data)
        except AlreadyThere:
            # Where the answer to a request was lost and it was sent again, it is our own.
            if self.place.read(name) != data:
                raise _raced(self.place) from None
        # A number can be free again because it is old: then what holds does not know of this change.
        newest, holds = self._found()
        if newest != number and not _includes(holds, change):
            self.place.remove(name)
            raise _raced(self.place)
        self.number, self.state = number, state
        if missing := self.missing(change.added):
            raise LogDamaged(missing[0].path, 0, "the file is missing")

    def missing(self, segments: Iterable[Segment]) -> list[Segment]:
        """Return those segments whose objects are not there, or have another size."""
        wanted = list(segments)
        sizes = self.place.sizes([one.path for one in wanted])
        return [one for one, size in zip(wanted, sizes, strict=True) if size != one.size]

    # -------------------------------------------------------- upkeep

    def to_join(self) -> list[list[Segment]]:
        """Return the groups of small segments that each become one."""
        return to_join(self.state, bytes_max=self.limits.segment_bytes)

    def join(self, group: Sequence[Segment]) -> Segment:
        """Write one segment with the frames of several, which are verified; the log does not name it yet."""
        segment, data = joined_segment(PlaceDisk(self.place), group)
        self.put(segment.path, data)
        return segment

    def replace(
        self, joined: Sequence[tuple[Sequence[Segment], Segment]], *, began: Instant, now: Instant
    ) -> None:
        """Have joined segments hold in place of those that they were made of, all at once."""
        if now - began > self.limits.grace_s * SECOND // 2:
            # What is not named for long is removed as a left-over.
            raise LogRaced("joining segments took too long; join fewer at once")
        gone = [one for group, _ in joined for one in group]
        removed = removal(gone, now=+now, grace_s=self.limits.grace_s)
        self.commit(changed(self.state, now, added=[one for _, one in joined], removed=removed))

    def compact(self, now: Instant) -> list[Segment]:
        """Join small segments of one type and day in one change; return those that were made."""
        made = [(group, self.join(group)) for group in self.to_join()]
        if made:
            self.replace(made, began=now, now=now)
        return [one for _, one in made]

    def retain(self, policy: Retention, now: Instant) -> list[Segment]:
        """Remove the segments that are older, or more, than `policy` keeps; return them."""
        gone = to_forget(self.state, policy, +now)
        if gone:
            self.commit(forgetting(self.state, gone, now=+now, grace_s=self.limits.grace_s))
        return gone

    def clean(self, now: Instant) -> list[str]:
        """Remove the objects that no reader needs any more; return their paths."""
        oldest = now - int(self.limits.grace_s * SECOND)
        gone = [one.segment.path for one in self.state.due(+now)]
        for found in self.place.listed(is_deep=True):
            known = found.path in self.state.segments or found.path in self.state.waiting
            if segment_name(found.path) is not None and not known and found.made_at < oldest:
                gone.append(found.path)  # of a change that was never made
        made = {number: one.made_at for one in self.place.listed() if (number := manifest_number(one.path))}
        gone += [manifest_name(one) for one in made if one < self.number and made.get(one + 1, 0) < oldest]
        for path in gone:
            self.place.remove(path)
        self.state.deleted(gone)
        return gone


def _includes(state: Manifest, change: Change) -> bool:
    known = {**state.segments, **state.waiting}
    return state.rolled_upto >= change.rolled_upto and all(one.path in known for one in change.added)


def _raced(place: Place) -> LogRaced:
    return LogRaced(f"another process changed the log in `{place}` at the same time; try again")
