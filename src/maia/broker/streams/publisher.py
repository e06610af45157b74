"""What is asked of a publisher's frames before they leave, and when is it answered?

Read from top to bottom: the values, the number, the View, the rate, what is attached; then, behind all
that others wait for, the memory of the last frames, the super-types, and the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from maia.broker.links.authors import attached
from maia.broker.links.links import Advertisement, Link, Projection
from maia.broker.links.projection import project
from maia.broker.links.transit import Transit
from maia.broker.log.recording import Recording
from maia.broker.log.retained import REMEMBERED, RetainedFrame, RetainedFrames
from maia.broker.refusals import PublishedTooFast
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.publisher_view import Shaped, Shaper
from maia.broker.streams.run import END, Apart, Run, Stage, Stream, refuse, take
from maia.broker.turn import Turn
from maia.errors import BadInput, MaiaError
from maia.events import Frame
from maia.routing.table.hops import LOCAL, Hop
from maia.types.definition import TOPIC
from maia.wire.codec import encode_known
from maia.wire.columns import FrameReader, encode_column, kind_to_number
from maia.wire.effects import Send
from maia.wire.messages import Carried, Column, Publish, Published, Sealed

Answer = Callable[[Publish, int, Turn], int]
"""Answers a publisher for a frame of which so many rows were refused."""


def reading(entry: Advertisement, link: Link, most: int) -> Stage:
    """Read values, each checked against the version that the publisher writes; all frames of a run as one."""
    reader, type_id = FrameReader(entry.writes.kinds), entry.right.event_type.type_id
    stream, peer = entry.stream, link.peer

    def read(run: Run, _turn: Turn) -> None:
        messages = run.published
        first = messages[0]
        columns = run.columns = [one.columns for one in messages]
        if first.rows > most:
            raise BadInput(
                "INPUT-FRAME-ROWS", f"a frame of {first.rows} rows is larger than the {most} taken on here"
            )
        frame = reader.read(columns, first.rows)
        if frame is None:
            raise Apart
        run.given, written = frame, columns[0] if run.count == 1 else ()
        run.whole = Transit(type_id, peer, stream, first.sequence, first.published_at, frame, (), written)

    return read


def answering(link: Link, entry: Advertisement, log: Recording | None) -> Answer:
    """Answer once everything before is safe, if this broker promises that."""
    number = link.id

    def answer(message: Publish, refused: int, turn: Turn) -> int:
        said = Send(number, encode_known(Published(message.ref, message.sequence, refused)))
        if log is None:
            turn.add(said)
            return END
        types = entry.type_ids
        recorded = next((one for one in types if log.records(one)), types[0])
        log.once_recorded(recorded, said, turn)
        return END

    return answer


def answered(answer: Answer) -> Stage:
    """Answer for frames that were taken on."""

    def stage(run: Run, turn: Turn) -> None:
        refused = 0 if run.shaped is None else run.shaped.refused
        for message in run.published:
            answer(message, refused, turn)
            turn.count("maia_rows_published_total", message.rows - refused)

    return stage


def numbering(entry: Advertisement, answer: Answer) -> tuple[Stage, Stage]:
    """Answer a number that was here again; and take note of the last one."""

    def look(run: Run, turn: Turn) -> int | None:
        last, first = entry.last_sequence, run.messages[0].sequence
        if last is not None and first <= last:
            if run.count > 1:
                raise Apart
            return answer(run.published[0], 0, turn)
        if run.count == 1:
            entry.last_sequence = first  # also of a frame of which nothing is left
        return None

    def note(run: Run, _turn: Turn) -> None:
        entry.last_sequence = run.messages[-1].sequence

    return look, note


def shaping(shaper: Shaper, answer: Answer) -> Stage:
    """Leave what the publisher's View does: transformations, columns, forced values, restriction."""
    forced = shaper.forced

    def shape(run: Run, turn: Turn) -> int | None:
        given, whole = run.given, run.whole
        shaped = run.shaped = shaper.shape(given)
        frame, kept = shaped.frame, list[int]()
        if shaped.refused and run.count > 1:
            raise Apart
        if not frame.rows:
            return answer(run.published[0], shaped.refused, turn)
        if shaped.refused or shaper.transform is not None:
            kept = list(shaped.rows) if shaped.refused else kept
            run.columns = _written(frame, {}, (), run)
        elif forced or frame.columns.keys() != given.columns.keys():
            # Columns that were not changed travel in the bytes in which they came.
            came = {one.uid: at for at, one in enumerate(run.columns[0]) if one.uid not in forced}
            run.columns = _written(frame, came, forced, run)
        else:
            return None
        written = run.columns[0] if run.count == 1 else ()
        whose = whole.type_id, whole.publisher, whole.stream, whole.sequence, whole.published_at
        run.whole = Transit(*whose, frame, kept, written)
        return None

    return shape


def _written(
    frame: Frame, came: Mapping[str, int], same: Container[str], run: Run
) -> Sequence[Sequence[Column]]:
    """Return the columns of each frame as they travel: as they came, or written anew."""
    made: list[tuple[int | None, Sequence[Column]]] = []
    for uid, column in frame.columns.items():
        new: Sequence[Column] = ()
        if (at := came.get(uid)) is None:
            # Frames of one row each have a value each; what is forced is the same in all of them.
            values = [column.values] if run.count == 1 else [(one,) for one in column.values]
            data = [encode_column(column.kind, one) for one in (values[:1] if uid in same else values)]
            new = [Column(uid, kind_to_number(column.kind), one) for one in data]
            new = new * run.count if uid in same else new
        made.append((at, new))
    return [
        [new[number] if at is None else before[at] for at, new in made]
        for number, before in enumerate(run.columns)
    ]


def rating(authoriser: Authoriser, right: Authorisation, answer: Answer) -> Stage:
    """Ask a right that holds up to a rate about each frame, and refuse one that would be too much."""

    def rate(run: Run, turn: Turn) -> int | None:
        if run.count > 1:
            raise Apart
        if authoriser.spend_rate(right, run.whole.frame.rows, turn.now):
            return None
        refuse(PublishedTooFast, turn)
        message = run.published[0]
        return answer(message, message.rows, turn)

    return rate


def attaching(link: Link, entry: Advertisement) -> Stage:
    """Attach statement, signature and requirement; a signature was verified over what was given."""

    def attach(run: Run, _turn: Turn) -> None:
        message, given, whole = run.published[0], run.given, run.whole
        shaped = run.shaped or Shaped(given, range(given.rows), 0)
        author = attached(link, message, entry, given, shaped)
        if author is not None:
            whose = whole.type_id, whole.publisher, whole.stream, whole.sequence, whole.published_at
            run.whole = Transit(*whose, whole.frame, whole.kept, whole.written, author)

    return attach


# ------------------------------------------------------------ what is remembered


def retaining(
    retained: RetainedFrames, right: Authorisation, consents: tuple[Authorisation, ...] = ()
) -> Stage:
    """Remember the last frames of a stream as they were written, for subscribers that ask for the state."""

    def retain(run: Run, turn: Turn) -> None:
        last = range(max(0, run.count - REMEMBERED), run.count)
        retained.remember(
            [RetainedFrame(run.as_carried(one), turn.now, LOCAL, right, consents) for one in last]
        )

    return retain


def retaining_topics(retained: RetainedFrames, right: Authorisation) -> Stage:
    """Remember the last event on each topic; other brokers ask here for it each time."""

    def retain(run: Run, turn: Turn) -> None:
        for number in range(run.count):
            frame = run.transit(number)
            rows = {str(topic): row for row, topic in enumerate(frame.frame.columns[TOPIC.uid].values)}
            for topic, row in rows.items():
                retained.remember([RetainedFrame(frame, turn.now, LOCAL, right, row=row)], topic)

    return retain


def retaining_passing(retained: RetainedFrames, came_from: Hop) -> Stage:
    """Remember the last frames that pass whole, as they came."""

    def retain(run: Run, turn: Turn) -> None:
        passing: Sequence[Carried | Sealed] = run.carried
        now = turn.now
        if whole := [RetainedFrame(one, now, came_from) for one in passing[-REMEMBERED:] if not one.kept]:
            retained.remember(whole)

    return retain


# ------------------------------------------------------------ super-types

LOST: Final = "maia_projections_lost_total"


def projecting(
    link: Link,
    entry: Advertisement,
    above: Callable[[Link, Advertisement, Projection], Stream],
    consenting: Callable[[Link, Advertisement, Turn], Advertisement],
) -> Stage:
    """Publish frames as each super-type to which there is consent: a stream of its own, with fewer columns.

    What goes wrong here is nothing to the publisher, who has published its own type. `above` compiles what
    a super-type's frames go through, and `consenting` looks at the rights to it.
    """
    streams: dict[bytes, Stream] = {}
    known = entry

    def publish_above(run: Run, turn: Turn) -> None:
        nonlocal known
        now = consenting(link, known, turn)
        if now is not known:
            known = now
            streams.clear()
        for projection in known.projections:
            stream = streams.get(projection.stream)
            if stream is None:
                stream = streams[projection.stream] = above(link, known, projection)
            try:
                take(stream, _projected(run, projection), turn)
            except (Apart, MaiaError):
                for number in range(run.count):
                    one = Run(run.link, run.messages[number : number + 1], run.data[number : number + 1])
                    one.whole, one.columns = run.transit(number), run.columns[number : number + 1]
                    take_or_lose(stream, _projected(one, projection), turn)

    return publish_above


def take_or_lose(stream: Stream, run: Run, turn: Turn) -> None:
    """Publish a frame as a super-type, unless a key is missing, or the keys of its moment are gone."""
    try:
        take(stream, run, turn)
    except MaiaError as problem:
        turn.count(LOST)
        refuse(problem, turn)


def _projected(run: Run, projection: Projection) -> Run:
    kinds = projection.super_type.kinds
    above = Run(run.link, run.messages, run.data)
    above.whole = project(run.whole, projection)
    above.columns = [[one for one in columns if one.uid in kinds] for columns in run.columns]
    return above
