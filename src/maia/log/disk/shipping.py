"""Which segments of a broker's log are safe in its place, and is that place still as the broker left it?

The broker's upkeep asks, after each roll. Segments are created in the place, then named by
one manifest; until that has happened the local ones are the only copy and are not removed. Beside the
journals lies a note: which log this is, what it has put in the place, and what it is about to put. So a
crash anywhere is found again, and a place that holds something else - another broker's log, an older
manifest - is refused and left as it is.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from maia.errors import Refusal, Unavailable
from maia.events import Instant
from maia.log.disk.event_log import EventLog
from maia.log.disk.place_log import LogRaced, PlaceLog
from maia.log.format.errors import LogDamaged
from maia.log.format.manifest import Change, Manifest, Segment, in_order
from maia.log.format.records import NO_CHECK
from maia.log.format.segments import digest_of
from maia.places import AlreadyThere, Place
from maia.private_files import replace_file, sync_folder

OWNER: Final = "owner"
"""The object that says whose log a place holds."""
_TRIES: Final = 3


class _Note(msgspec.Struct, frozen=True):
    """What a log has put into a place, and what it is about to put: positions, and the checks of records."""

    log: str
    place: str
    upto: int = 0
    check: bytes = NO_CHECK
    next_upto: int = 0
    next_check: bytes = NO_CHECK


class PlaceCopy:
    """The copy of one broker's log in a place. For one thread."""

    def __init__(self, place: Place, folder: Path) -> None:
        """Read the note in the log's own folder; the place is not asked yet."""
        name = blake2b(place.address.encode(), digest_size=8).hexdigest()
        self._place, self._path = place, folder / f"place-{name}.json"
        found = self._read()
        self._note = found or _Note(token_hex(16), place.address)
        if found is None:
            self._write(self._note)

    @property
    def upto(self) -> int:
        """Return up to which position everything is safe in the place."""
        return self._note.upto

    def check(self) -> PlaceLog:
        """Return the log in the place, if it is this broker's and as it was left.

        Raises `LOG-PLACE-TAKEN`, `LOG-PLACE-CHANGED`, and `PLACE-UNREACHABLE` if there is no answer.
        """
        found = PlaceLog(self._place)
        self._check_owner(found)
        state, note = found.state, self._note
        if (state.rolled_upto, state.check) == (note.next_upto, note.next_check):
            self._write(msgspec.structs.replace(note, upto=note.next_upto, check=note.next_check))
        elif (state.rolled_upto, state.check) != (note.upto, note.check):
            raise Unavailable(
                "LOG-PLACE-CHANGED",
                f"the log in `{self._place}` ends at position {state.rolled_upto}, and this broker left it "
                f"at {note.upto}: its newest manifest was lost, replaced, or is not shown",
            )
        return found

    def _check_owner(self, found: PlaceLog) -> None:
        mine = self._note.log.encode()
        try:
            owner = self._place.read(OWNER)
        except FileNotFoundError:
            if found.number:
                raise Unavailable(
                    "LOG-PLACE-CHANGED", f"`{self._place}` holds a log, and its object `{OWNER}` is gone"
                ) from None
            with suppress(AlreadyThere):
                self._place.create(OWNER, mine)
            owner = self._place.read(OWNER)
        if owner != mine:
            raise Refusal(
                "LOG-PLACE-TAKEN", f"`{self._place}` holds the log of another broker, or of another folder"
            )

    def ship(self, log: EventLog, now: Instant) -> list[Segment]:
        """Put what the log has rolled into the place; return the segments that are new there."""
        for _ in range(_TRIES):
            try:
                return self._shipped(log, log.rolled(), now)
            except LogRaced:
                continue  # it was joined or cleaned there meanwhile
        return []

    def _shipped(self, log: EventLog, rolled: Manifest, now: Instant) -> list[Segment]:
        there = self.check()
        upto = self._note.upto
        new = in_order(one for one in rolled.segments.values() if one.first > upto)
        is_same = rolled.missing == there.state.missing
        if rolled.rolled_upto == upto and is_same:
            return []
        self._write(
            msgspec.structs.replace(self._note, next_upto=rolled.rolled_upto, next_check=rolled.check)
        )
        for segment in new:
            self._put(there, log, segment)
        # What was forgotten before the first copy was made is not there, and readers are told.
        forgotten = [] if upto else list(rolled.forgotten.items())
        missing = None if is_same else rolled.missing
        change = Change(+now, rolled.rolled_upto, rolled.check, new, [], forgotten, missing)
        try:
            there.commit(change)
        except LogDamaged:
            # A left-over was removed before it was named; the local one is still there.
            for segment in there.missing(new):
                self._put(there, log, segment)
            if gone := there.missing(new):
                raise LogDamaged(gone[0].path, 0, f"`{self._place}` does not keep it") from None
        self.check()
        return new

    def _put(self, there: PlaceLog, log: EventLog, segment: Segment) -> None:
        data = log.segment_bytes(segment)
        if digest_of(data) != segment.digest:
            raise LogDamaged(segment.path, 0, "it does not match the digest in its name")
        there.put(segment.path, data)

    # -------------------------------------------------------- the note

    def _read(self) -> _Note | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Note)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, OSError) as problem:
            raise LogDamaged(self._path.name, 0, "it is no note about a place") from problem

    def _write(self, note: _Note) -> None:
        replace_file(self._path, msgspec.json.encode(note))
        sync_folder(self._path.parent)
        self._note = note
