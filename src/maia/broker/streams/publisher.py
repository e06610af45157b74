"""What is asked of a publisher's frames before they leave, and when is it answered?

Read from top to bottom: the values, the number, the View, the rate, what is attached; then, behind everything
that others wait for, the memory of the last frames, the super-types, and the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from maia.broker.access.authorisation import Authorisation
from maia.broker.access.authoriser import Authoriser
from maia.broker.durable.recording import Recording
from maia.broker.publication.authors import attached
from maia.broker.publication.projection import project
from maia.broker.publication.publisher_view import Shaped, Shaper
from maia.broker.publication.retained import REMEMBERED, RetainedFrame, RetainedFrames
from maia.broker.publication.transit import Transit, written_as
from maia.broker.refusals import FrameTooLarge, PublishedTooFast
from maia.broker.sessions.links import Advertisement, Link, Projection
from maia.broker.streams.run import END, Apart, Run, Stream, Turn, take
from maia.errors import MaiaError
from maia.events import AttributeUid, Frame, Kinds
from maia.events import Column as Values
from maia.routing.table.hops import LOCAL, Hop
from maia.types.definition import TOPIC
from maia.wire.codec import encode_known
from maia.wire.columns import by_column, columns_to_frame, encode_column, events_to_frame, kind_to_number
from maia.wire.effects import Send
from maia.wire.messages import Carried, Column, Publish, Published, Sealed


class Read:
    """The values, each checked against the version that the publisher writes."""

    __slots__ = ("_entry", "_kinds", "_most", "_type_id", "_whom")

    def __init__(self, entry: Advertisement, link: Link, most: int) -> None:
        self._entry, self._whom, self._most = entry, link.peer, most
        self._kinds: Kinds = entry.writes.kinds
        self._type_id = entry.right.event_type.type_id

    def take(self, run: Run, _turn: Turn) -> None:
        """Read all frames of a run as one."""
        messages = run.published
        first = messages[0]
        columns = run.columns = [one.columns for one in messages]
        written: dict[AttributeUid, Column] = {}
        if len(messages) == 1:
            if first.rows > self._most:
                raise FrameTooLarge(
                    f"a frame of {first.rows} rows is larger than the {self._most} taken on here"
                )
            frame = columns_to_frame(columns[0], first.rows, self._kinds)
            written = written_as(columns[0])
        else:
            alike = by_column(columns)
            read = None if alike is None else events_to_frame(alike, self._kinds)
            if read is None:
                raise Apart
            frame = read
        run.given = frame
        whose = self._type_id, self._whom, self._entry.stream, first.sequence, first.published_at
        run.whole = Transit(*whose, frame, (), written)


class Answer:
    """A publisher is answered for each frame, once it is safe if this broker promises that."""

    __slots__ = ("_entry", "_link", "_log")

    def __init__(self, link: Link, entry: Advertisement, log: Recording | None) -> None:
        self._link, self._entry, self._log = link.id, entry, log

    def end(self, message: Publish, refused: int, turn: Turn) -> int:
        """Answer for a frame of which nothing is left."""
        answer = Send(self._link, encode_known(Published(message.ref, message.sequence, refused)))
        log = self._log
        if log is None:
            turn.effects.append(answer)
            return END
        types = self._entry.type_ids
        recorded = next((one for one in types if log.records(one)), types[0])
        turn.effects += log.once_recorded(recorded, answer)
        return END

    def take(self, run: Run, turn: Turn) -> None:
        """Answer for frames that were taken on."""
        refused = 0 if run.shaped is None else run.shaped.refused
        for message in run.published:
            self.end(message, refused, turn)
            turn.count("maia_rows_published_total", message.rows - refused)


class Numbers:
    """A number that was here is answered again, and goes nowhere."""

    __slots__ = ("_answer", "_entry")

    def __init__(self, entry: Advertisement, answer: Answer) -> None:
        self._entry, self._answer = entry, answer

    def look(self, run: Run, turn: Turn) -> int | None:
        """Look at the first number; those of a run grow."""
        last, first = self._entry.last_sequence, run.numbers[0]
        if last is not None and first <= last:
            if len(run.numbers) > 1:
                raise Apart
            return self._answer.end(run.published[0], 0, turn)
        if len(run.numbers) == 1:
            self._entry.last_sequence = first  # also of a frame of which nothing is left
        return None

    def take(self, run: Run, _turn: Turn) -> None:
        """Take note of the last number."""
        self._entry.last_sequence = run.numbers[-1]


class Shape:
    """What the publisher's View leaves: transformations, columns, forced values, restriction."""

    __slots__ = ("_answer", "_shaper")

    def __init__(self, shaper: Shaper, answer: Answer) -> None:
        self._shaper, self._answer = shaper, answer

    def take(self, run: Run, turn: Turn) -> int | None:
        """Put what is left in the place of what was given."""
        shaper, given = self._shaper, run.given
        shaped = run.shaped = shaper.shape(given)
        if shaped.refused and len(run.numbers) > 1:
            raise Apart
        if not shaped.frame.rows:
            return self._answer.end(run.published[0], shaped.refused, turn)
        whole, forced = run.whole, shaper.forced
        frame = shaped.frame
        if shaped.refused or shaper.transform is not None:
            kept: Sequence[int] = list(shaped.rows) if shaped.refused else ()
            run.columns = _written(frame, {}, (), run)
        elif forced or frame.columns.keys() != given.columns.keys():
            # Columns that were not changed travel in the bytes in which they came.
            came = {one.uid: at for at, one in enumerate(run.columns[0]) if one.uid not in forced}
            kept, run.columns = (), _written(frame, came, forced, run)
        else:
            return None
        written = written_as(run.columns[0]) if len(run.numbers) == 1 else {}
        whose = whole.type_id, whole.publisher, whole.stream, whole.sequence, whole.published_at
        run.whole = Transit(*whose, frame, kept, written)
        return None


def _written(
    frame: Frame, came: Mapping[str, int], same: Container[str], run: Run
) -> Sequence[Sequence[Column]]:
    """Return the columns of each frame as they travel: as they came, or written anew."""
    is_one = len(run.numbers) == 1
    made: list[tuple[int | None, Sequence[Column]]] = []
    for uid, column in frame.columns.items():
        at = came.get(uid)
        new = () if at is not None else _columns(uid, column, is_one=is_one, is_same=uid in same)
        made.append((at, new))
    return [
        [new[number] if at is None else before[at] for at, new in made]
        for number, before in enumerate(run.columns)
    ]


def _columns(uid: str, column: Values, *, is_one: bool, is_same: bool) -> Sequence[Column]:
    kind, number, values = column.kind, kind_to_number(column.kind), column.values
    if is_one:
        return (Column(uid, number, encode_column(kind, values)),)
    if is_same:
        return [Column(uid, number, encode_column(kind, values[:1]))] * len(values)
    return [Column(uid, number, encode_column(kind, (value,))) for value in values]


class Rate:
    """A right that holds up to a rate is asked about each frame."""

    __slots__ = ("_answer", "_authoriser", "_right")

    def __init__(self, authoriser: Authoriser, right: Authorisation, answer: Answer) -> None:
        self._authoriser, self._right, self._answer = authoriser, right, answer

    def take(self, run: Run, turn: Turn) -> int | None:
        """Refuse a frame that would be too much, and count all others."""
        if len(run.numbers) > 1:
            raise Apart
        if self._authoriser.spend_rate(self._right, run.whole.frame.rows, turn.now):
            return None
        turn.refuse(PublishedTooFast)
        message = run.published[0]
        return self._answer.end(message, message.rows, turn)


class Attach:
    """What this broker attaches to frames of its own publisher: statement, signature, requirement."""

    __slots__ = ("_entry", "_link")

    def __init__(self, link: Link, entry: Advertisement) -> None:
        self._link, self._entry = link, entry

    def take(self, run: Run, _turn: Turn) -> None:
        """Verify a signature over what was given, and attach what covers what is left."""
        message, given = run.published[0], run.given
        shaped = run.shaped or Shaped(given, range(given.rows), 0)
        author = attached(self._link, message, self._entry, given, shaped)
        if author is None:
            return
        if len(run.numbers) > 1 and type(message) is not Publish:
            raise Apart
        whole = run.whole
        whose = whole.type_id, whole.publisher, whole.stream, whole.sequence, whole.published_at
        run.whole = Transit(*whose, whole.frame, whole.kept, whole.written, author)


# ------------------------------------------------------------ behind the line


class Retain:
    """The last frames of a stream, for subscribers that ask for the present state."""

    __slots__ = ("_consents", "_retained", "_right")

    def __init__(
        self, retained: RetainedFrames, right: Authorisation, consents: tuple[Authorisation, ...] = ()
    ) -> None:
        self._retained, self._right, self._consents = retained, right, consents

    def take(self, run: Run, turn: Turn) -> None:
        """Remember the last of them, as they were written."""
        count = len(run.numbers)
        for number in range(max(0, count - REMEMBERED), count):
            last = RetainedFrame(run.as_carried(number), turn.now, LOCAL, self._right, self._consents)
            self._retained.remember(last)


class RetainTopics:
    """The last event on each topic; other brokers ask here for it each time."""

    __slots__ = ("_retained", "_right")

    def __init__(self, retained: RetainedFrames, right: Authorisation) -> None:
        self._retained, self._right = retained, right

    def take(self, run: Run, turn: Turn) -> None:
        """Remember the last row on each topic."""
        for number in range(len(run.numbers)):
            frame = run.transit(number)
            rows = {str(topic): row for row, topic in enumerate(frame.frame.columns[TOPIC.uid].values)}
            for topic, row in rows.items():
                self._retained.remember(RetainedFrame(frame, turn.now, LOCAL, self._right, row=row), topic)


class RetainPassing:
    """The last frames that pass whole; a part of one, or one of topics, is not retained."""

    __slots__ = ("_came_from", "_retained")

    def __init__(self, retained: RetainedFrames, came_from: Hop) -> None:
        self._retained, self._came_from = retained, came_from

    def take(self, run: Run, turn: Turn) -> None:
        """Remember the last of them, as they came."""
        passing: Sequence[Carried | Sealed] = run.carried
        for message in passing[-REMEMBERED:]:
            if not message.kept and not (isinstance(message, Sealed) and message.blocks):
                self._retained.remember(RetainedFrame(message, turn.now, self._came_from))


Above = Callable[[Link, Advertisement, Projection], Stream]
_LOST: Final = "maia_projections_lost_total"


class Project:
    """The super-types, each a stream of its own that shows a part of the columns.

    What goes wrong here is nothing to the publisher, who has published its own type.
    """

    __slots__ = ("_above", "_consents", "_entry", "_link", "_streams")

    def __init__(
        self,
        link: Link,
        entry: Advertisement,
        above: Above,
        consents: Callable[[Link, Advertisement, Turn], Advertisement],
    ) -> None:
        """Compile with `above` what a super-type's frames go through; `consents` looks at the rights."""
        self._link, self._entry, self._above, self._consents = link, entry, above, consents
        self._streams: dict[bytes, Stream] = {}

    def take(self, run: Run, turn: Turn) -> None:
        """Publish frames as each super-type to which there is consent at this moment."""
        entry = self._consents(self._link, self._entry, turn)
        if entry is not self._entry:
            self._entry = entry
            self._streams.clear()
        for projection in entry.projections:
            stream = self._streams.get(projection.stream)
            if stream is None:
                stream = self._streams[projection.stream] = self._above(self._link, entry, projection)
            try:
                take(stream, self._projected(run, projection), turn)
            except (Apart, MaiaError):
                for number in range(len(run.numbers)):
                    self._published(stream, self._alone(run, number, projection), turn)

    def _published(self, stream: Stream, run: Run, turn: Turn) -> None:
        try:
            take(stream, run, turn)
        except (
            MaiaError
        ) as problem:  # a key that this broker has no right to, or a moment whose keys are gone
            turn.count(_LOST)
            turn.refuse(problem)

    def _projected(self, run: Run, projection: Projection) -> Run:
        kinds = projection.super_type.kinds
        above = Run(run.link, run.messages, run.data)
        above.whole = project(run.whole, projection)
        above.columns = [[one for one in columns if one.uid in kinds] for columns in run.columns]
        return above

    def _alone(self, run: Run, number: int, projection: Projection) -> Run:
        one = Run(run.link, run.messages[number : number + 1], run.data[number : number + 1])
        one.whole, one.columns = run.transit(number), run.columns[number : number + 1]
        return self._projected(one, projection)
