"""What of an event leaves its domain, and for whom?

A *border* is a link to a broker of another domain: one that another organisation has made its broker
(`credentials/brokers.py`). Events do not cross it, views do. The interests that came over the link say,
with their proofs, which classes of subscribers are behind it; of each frame every class is sent what it
sees, in a frame of its own that is marked with the class and is routed to this class alone. So a foreign
broker never holds a row, an attribute or a value that no subscriber behind it may see (A103,
`docs/decisions/borders.md`).

What is released has a stream of its own for each class, with the publisher's numbers: all that brokers do
with streams (order, duplicates, logs, catching up) they do with these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from maia.bounded_map import BoundedMap
from maia.broker.audiences.local_subscribers import Audiences, ClassSummaries, as_rules_see
from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.outbox import seen_behind
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.keys.keys import SealingKeys
from maia.broker.links.transit import Transit, author_of_part, without_proof
from maia.broker.own import Own
from maia.broker.timers import ClosePeriods, TimerWheel
from maia.broker.turn import Turn
from maia.credentials import AllAttributes
from maia.errors import MaiaError
from maia.events import AttributeUid, Column, Event, Frame, Instant, Kinds, is_of_event
from maia.expressions.meaning import TransformationKeys
from maia.policy import View
from maia.policy.view import is_summarised, kinds_shown, publisher_asked
from maia.policy.view_bytes import EVERYTHING, view_from_bytes
from maia.predicates import ALWAYS
from maia.predicates.meaning import RowReader, row_reader
from maia.routing.table.hops import LOCAL, Hop, TypeId
from maia.sealing.frames.signed import draft_signed
from maia.views import See, to_python
from maia.views.frame_transformers import SeeFrame, transforming_frames
from maia.wire.codec import encode_known
from maia.wire.effects import LinkId
from maia.wire.messages import Author, Carried
from maia.wire.messages import Column as WireColumn

_STREAM_BYTES: Final = 16
_VIEWS_REMEMBERED: Final = 4096


@dataclass(slots=True, eq=False)
class Released:
    """What one class of Views shows of frames."""

    view: View = field(repr=False)
    mark: bytes
    keys: TransformationKeys = field(repr=False)
    _read: RowReader | None = field(default=None, repr=False)
    _see: See | None = field(default=None, repr=False)
    _see_frame: SeeFrame | None = field(default=None, repr=False)

    @property
    def asked(self) -> frozenset[AttributeUid]:
        """Return what rules ask of a frame's publisher."""
        return frozenset(publisher_asked(self.view))

    def of(self, transit: Transit, rows: Sequence[int]) -> Transit | None:
        """Return what the class sees of some rows of a frame; None for nothing."""
        cut = transit.cut(rows)
        if len(self.view.windows) > 1:
            return self._row_by_row(cut)
        (window,) = self.view.windows
        if window.transformations:
            see = self._see_frame = self._see_frame or transforming_frames(self.view, self.keys)
            outcome, left = see(as_rules_see(cut, self.asked))
            if outcome is None:
                return None
            columns = {uid: column for uid, column in outcome.columns.items() if is_of_event(uid)}
            return self._made(cut, Frame(outcome.rows, columns), left)
        if window.admits != ALWAYS:
            read = self._read = self._read or row_reader(window.admits)
            cut = cut.cut(read(range(cut.frame.rows), cut.frame))
        if not cut.frame.rows:
            return None
        shown = None if isinstance(window.attributes, AllAttributes) else window.attributes
        columns = {uid: one for uid, one in cut.frame.columns.items() if shown is None or uid in shown}
        frame = Frame(cut.frame.rows, columns)
        author = author_of_part(cut.author, cut.frame, range(frame.rows), shown)
        return self._made(cut, frame, range(frame.rows), cut.columns(shown), author)

    def _row_by_row(self, cut: Transit) -> Transit | None:
        see = self._see = self._see or to_python(self.view, self.keys)
        events = enumerate(as_rules_see(cut, self.asked).events())
        seen = [(row, part) for row, event in events if (part := see(event)) is not None]
        if not seen:
            return None
        came = {uid: column.kind for uid, column in cut.frame.columns.items()}
        parts: list[Event] = [part for _, part in seen]
        columns = {
            uid: Column(kind, tuple(part.get(uid) for part in parts))
            for uid, kind in self._kinds(came).items()
            if any(uid in part for part in parts)
        }
        return self._made(cut, Frame(len(parts), columns), [row for row, _ in seen])

    def _kinds(self, came: Kinds) -> Kinds:
        return {uid: kind for one in self.view.windows for uid, kind in kinds_shown(one, came).items()}

    def _made(
        self,
        cut: Transit,
        frame: Frame,
        rows: Sequence[int],
        written: Sequence[WireColumn] = (),
        author: Author | None = None,
    ) -> Transit:
        """Return a frame for the class; the publisher's signature goes along where it covers that."""
        kept = cut.kept
        if len(rows) != cut.frame.rows:
            kept = [kept[row] for row in rows] if kept else list(rows)
        return Transit(
            cut.type_id,
            cut.publisher,
            released_stream(cut.stream, self.mark),
            cut.sequence,
            cut.published_at,
            frame,
            kept,
            written,
            author or without_proof(cut.author),
            view=self.mark,
            origin=cut.published_in,
        )


def right_of(frame: Transit) -> bytes:
    """Return how a signed frame names the right that it was published under; nothing for another frame."""
    return b"" if frame.signed is None else frame.signed.right


def released_stream(stream: bytes, mark: bytes) -> bytes:
    """Return the stream of what a class sees of a publisher's stream."""
    return sha256(b"maia/1/released-stream\x00" + stream + mark).digest()[:_STREAM_BYTES]


@dataclass(slots=True, eq=False)
class Borders:
    """What is released to brokers of other domains."""

    own: Own
    routes: Routes
    router: Router
    audiences: Audiences
    named_rights: NamedRights
    seals: SealingKeys
    timers: TimerWheel
    _views: BoundedMap[bytes, Released] = field(default_factory=lambda: BoundedMap(_VIEWS_REMEMBERED))
    _summaries: dict[bytes, dict[bytes, ClassSummaries]] = field(default_factory=dict)
    """What the events of each type come to, by type and class, for those who see summaries alone."""

    def released(
        self, key: TypeId, whole: Transit, now: Instant, *, source: LinkId | None, signer: bytes, right: bytes
    ) -> Iterator[tuple[Transit, list[tuple[LinkId, Sequence[int]]]]]:
        """Yield the frames that are released of a published one, and to whom each of them goes.

        With each neighbour go the rows of the published frame that it is about. Whole events come first:
        all that a broker shows is made of them, and what is released beside them is not shown.
        """
        by_class = self.router.released(key, whole, source=source, signer=signer)
        for mark in sorted(by_class):
            wanted, released = by_class[mark], self._view_of(key, mark)
            if released is not None and is_summarised(released.view):
                self._summarise(key, released, whole, wanted, now, right)
                continue
            made: dict[tuple[int, ...], list[LinkId]] = {}
            for link, rows in wanted.items():
                made.setdefault(tuple(rows), []).append(link)
            for rows, links in made.items():
                frame = self.seen(key, mark, whole, rows)
                if frame is not None:
                    yield frame, [(link, rows) for link in links]

    def for_neighbour(self, link: LinkId, key: TypeId, frame: Transit, *, came_from: Hop) -> list[Transit]:
        """Return a remembered frame as a neighbour that asks for it may have it, in one piece or several."""
        found: list[Transit | None] = []
        for mark, rows in self.router.answer_rows(link, key, frame, came_from=came_from).items():
            if rows and mark is None:
                found.append(frame.cut(rows))
            elif rows and mark is not None:
                found.append(self.seen(key, mark, frame, rows))
        return [one for one in found if one is not None]

    def seen(self, key: TypeId, mark: bytes, frame: Transit, rows: Sequence[int]) -> Transit | None:
        """Return what a class sees of rows of a frame; None for nothing, or without such a class."""
        released = self._view_of(key, mark)
        return None if released is None or is_summarised(released.view) else released.of(frame, rows)

    def made_for(self, frame: Transit) -> View | None:
        """Return the View for which a frame was made at a border; None for one as it was published."""
        released = None if frame.view is None else self._view_of(frame.type_id, frame.view)
        return None if released is None else released.view

    def message(self, link: LinkId, seen: Transit, right: bytes, turn: Turn) -> Carried | None:
        """Return what was made for a class as it travels; of a signed type this broker signs it.

        `right` names the publisher's, as the frame did that it was made of, or one of those that a summary
        was made of. None if this broker cannot sign.
        """
        if not right:
            return seen.as_carried()
        try:
            name = self.named_rights.signed_here(right, seen.publisher, link, turn)
            self.named_rights.check_own(name, seen.frame, self.made_for(seen), turn)
        except MaiaError as problem:
            turn.count("maia_frames_refused_total", code=problem.code)
            about = {"asked": "Release", "type": seen.type_id.hex()}
            turn.note_refused(problem, self.own.principal, link=link, **about)
            return None
        self.named_rights.show(link, name, None, turn)
        draft = draft_signed(seen.as_carried(), self.own.principal, right=name, at=turn.now)
        signed = self.seals.sealer.sign([draft])[0]
        return signed if isinstance(signed, Carried) else None

    def _view_of(self, key: TypeId, mark: bytes) -> Released | None:
        released = self._views.use(mark)
        if released is None:
            wanted = self.routes.book.in_class(key, mark)
            shown = next((seen for _, one in wanted if (seen := seen_behind(one))), EVERYTHING)
            if mark != EVERYTHING and shown == EVERYTHING:
                return None
            released = Released(view_from_bytes(shown), mark, self.audiences.secrets)
            self._views.put(mark, released)
        return released

    # ------------------------------------------------------------ summaries

    def _summarise(
        self,
        key: TypeId,
        released: Released,
        whole: Transit,
        wanted: Mapping[LinkId, Sequence[int]],
        now: Instant,
        right: bytes,
    ) -> None:
        """Count rows for those who see summaries alone; links get the periods that begin from now on."""
        audiences, of_type = self.audiences, self._summaries.setdefault(key, {})
        summaries = of_type.get(released.mark)
        if summaries is None:
            about = key + released.mark
            summaries = ClassSummaries.begin(about, released.view, audiences.secrets, audiences.room, now)
            of_type[released.mark] = summaries
        for link in wanted:
            summaries.joined.setdefault((link, 0), now)
        rows = sorted({row for some in wanted.values() for row in some})
        summaries.take(whole, rows, now)
        summaries.right = right
        self.timers.add(ClosePeriods(key), summaries.periods.closes_after(now))

    def close_periods(self, key: TypeId, turn: Turn) -> None:
        """Release the summaries of a type whose periods are closed by now."""
        for mark, summaries in list(self._summaries.get(key, {}).items()):
            is_wanted = any(hop != LOCAL for hop, _ in self.routes.book.in_class(key, mark))
            for link, ref in list(summaries.joined):
                if not self._is_owed(link, key, is_wanted=is_wanted):
                    del summaries.joined[link, ref]
            for delivery in summaries.close(turn.now):
                whose = self.own.principal, delivery.stream, delivery.number, int(delivery.period.ends)
                frame = Transit(key, *whose, delivery.rows, view=mark, origin=delivery.stream)
                for link in delivery.members:
                    message = self.message(link, frame, summaries.right, turn)
                    if message is not None:
                        turn.send_bytes(link, encode_known(message))
            if summaries.joined:
                self.timers.add(ClosePeriods(key), summaries.periods.closes_after(turn.now))
            else:
                self._summaries[key].pop(mark).periods.drop()

    def _is_owed(self, link: LinkId, key: TypeId, *, is_wanted: bool) -> bool:
        """Return whether a neighbour gets what was counted for a class that it wanted.

        While no publisher is here, it may not say that it does, and nothing is published.
        """
        routes = self.routes
        return link in routes.borders and (is_wanted or routes.book.awaits_offer(routes.node_of[link], key))
