"""How do frames reach the log, the subscribers of this broker, and its neighbours?

Subscribers with the same View get the same bytes, and so do neighbours that want the same rows. What a
neighbour sent leaves in the bytes in which it came, unless some of it was here before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from maia.broker.durable.recording import Recording
from maia.broker.publication.authors import AttachedStatements, vouched_for
from maia.broker.publication.disclosures import Disclosures
from maia.broker.publication.tally import DeliveryTally
from maia.broker.publication.transit import StreamOrder, Transit
from maia.broker.refusals import LedgerRequired
from maia.broker.routing.router import Router
from maia.broker.routing.routes import Routes
from maia.broker.sessions.links import Link
from maia.broker.streams.run import LATER, Run, Stage, Turn, Unseen
from maia.broker.subscriptions.identity_classes import LinkIdentities
from maia.broker.subscriptions.local_subscribers import LocalSubscribers, Seen, SubscriberGroup, deliveries
from maia.events import Instant
from maia.routing.aggregation.spill import SpillAccounts
from maia.routing.table.hops import TypeId
from maia.wire.codec import encode_known
from maia.wire.effects import Effect, LinkId
from maia.wire.messages import Recorded

_FRAME_BYTES = 128
"""What a frame has beside its columns."""


class Record:
    """The event log has a frame before its publisher is answered, and before it is delivered."""

    __slots__ = ("_log",)

    def __init__(self, log: Recording) -> None:
        self._log = log

    def take(self, run: Run, turn: Turn) -> None:
        """Record a publisher's plain frames."""
        for number in range(len(run.numbers)):
            turn.effects += self._log.record(run.as_carried(number), turn.now)


class RecordArrived:
    """The same of a neighbour's frames, behind what was missed before them."""

    __slots__ = ("_arrived",)

    def __init__(self, arrived: Callable[[Recorded, Instant], list[Effect]]) -> None:
        self._arrived = arrived

    def take(self, run: Run, turn: Turn) -> None:
        """Record frames as they travel in the clear."""
        for number in range(len(run.numbers)):
            turn.effects += self._arrived(run.as_carried(number), turn.now)
        run.taken.update(range(run.whole.frame.rows))

    def sealed(self, run: Run, turn: Turn) -> None:
        """Record sealed frames as they came."""
        for message in run.sealed:
            turn.effects += self._arrived(message, turn.now)


class Deliver:
    """What subscribers of this broker see: in the order of the publisher, and on record before it leaves."""

    __slots__ = (
        "_attached",
        "_audiences",
        "_delivered",
        "_identities",
        "_ledger",
        "_links",
        "_order",
        "_type_id",
    )

    def __init__(  # noqa: PLR0913 - most are named at the call
        self,
        type_id: bytes,
        audiences: Mapping[bytes, LocalSubscribers],
        order: StreamOrder,
        ledger: Callable[[bytes], tuple[Disclosures | None, LedgerRequired | None]],
        *,
        links: Mapping[LinkId, Link],
        identities: LinkIdentities,
        attached: AttachedStatements,
        delivered: DeliveryTally,
    ) -> None:
        """Deliver to the subscribers of a type; `ledger` says where that goes on record, if it does."""
        self._type_id, self._audiences, self._order, self._ledger = type_id, audiences, order, ledger
        self._links, self._identities, self._attached, self._delivered = (
            links,
            identities,
            attached,
            delivered,
        )

    def take(self, run: Run, turn: Turn) -> None:
        """Deliver what each class of subscribers sees, unless a later frame of the stream was delivered."""
        audience = self._audiences.get(self._type_id)
        if audience is None or run.is_unread:
            return
        self.give(audience, run, run.whole, turn)

    def inner(self, run: Run, turn: Turn) -> None:
        """Deliver the publication in a blinded frame."""
        audience = self._audiences.get(self._type_id)
        if audience is not None and run.inner is not None:
            self.give(audience, run, run.inner, turn)

    def give(self, audience: LocalSubscribers, run: Run, whole: Transit, turn: Turn) -> None:
        """Deliver frames whose rows are those of `whole`."""
        publisher, stream, numbers = whole.publisher.key, whole.stream, run.numbers
        if len(numbers) == 1:
            is_late = [not self._order.admit(publisher, stream, whole.sequence, run.signer)]
        else:
            is_late = self._order.late_in(publisher, stream, numbers, run.signer)
        if any(is_late):
            turn.count("maia_late_frames_total", sum(is_late))  # order comes first
            if all(is_late):
                return
        ledger, refused = self._ledger(self._type_id)
        if refused is not None:
            turn.refuse(refused)
            return
        if whole.author is not None:
            whole = vouched_for(self._attached, whole, turn.now)
        matched = audience.matched(whole.matched)
        if not matched:
            return
        for number, found in enumerate(run.by_frame(matched)):
            if found and not is_late[number]:
                frame = whole if len(numbers) == 1 else None
                self._give_one(audience, run, number, frame, found, ledger, turn)

    def _give_one(
        self,
        audience: LocalSubscribers,
        run: Run,
        number: int,
        frame: Transit | None,
        found: Sequence[tuple[bytes, Sequence[int]]],
        ledger: Disclosures | None,
        turn: Turn,
    ) -> None:
        """Deliver one frame to the classes that were found: screened and written once for each of them."""
        labels, now, missing = None, turn.now, run.missing
        for key, rows in found:
            group = audience.classes[key]
            if missing and not missing.isdisjoint(group.asks):
                continue  # it cannot be known whether it may see them
            if frame is None and group.shown is not None and run.whole.author is None:
                columns = [column for column in run.columns[number] if column.uid in group.shown]
                seen: Seen | None = Seen(1, columns, {group.shown: rows})
                members: Sequence[Mapping[LinkId, list[int]]] = [group.members]
            else:
                frame = frame or run.transit(number)
                if group.summaries is not None:
                    group.summaries.take(frame, rows, now)
                    run.taken.update(rows if len(run.numbers) == 1 else (number,))
                    continue
                members = [group.members]
                if frame.requires:
                    members = group.admitted(frame.requires, self._identities, now)
                seen = group.screened(frame, rows) if members else None
            if seen is None:
                continue
            run.taken.update(rows if len(run.numbers) == 1 else (number,))
            moment = run.messages[number].published_at if frame is None else frame.published_at
            whole = run.whole if frame is None else frame
            sequence = run.numbers[number] if frame is None else frame.sequence
            if ledger is not None:
                identity = whole.publisher.key, whole.stream, sequence
                ledger.record(self._links, members, identity, seen.shown, now)
            self._delivered.add(seen.rows * _count(group, members), moment, now)
            labels = labels or whole.labels_of(sequence, moment)
            turn.effects += deliveries(labels, seen, members)


def _count(group: SubscriberGroup, members: Sequence[Mapping[LinkId, list[int]]]) -> int:
    if len(members) == 1 and len(members[0]) == 1:
        return group.subscribers
    return sum(len(refs) for part in members for refs in part.values())


class Forward:
    """Neighbours behind which rows of a plain type are wanted."""

    __slots__ = ("_book", "_router", "_source", "_spill", "_type_id")

    def __init__(self, type_id: TypeId, source: LinkId | None, routes: Routes, router: Router) -> None:
        self._type_id, self._source, self._book, self._router = type_id, source, routes.book, router
        self._spill: SpillAccounts[LinkId] = routes.spill

    def take(self, run: Run, turn: Turn) -> None:
        """Send each neighbour the rows that are wanted behind it."""
        if self._book.is_wanted(self._type_id):
            self.send(run, run.whole, turn)

    def send(self, run: Run, whole: Transit, turn: Turn) -> None:
        """Send rows of a frame, or of all frames of a run."""
        targets = self._router.targets(self._type_id, whole, source=self._source)
        if len(run.numbers) > 1:
            self._send_each(run, targets, turn)
            return
        ready: dict[tuple[int, ...], bytes] = {}
        for link, rows in targets.items():
            same = () if len(rows) == whole.frame.rows else tuple(rows)
            data = ready.get(same)
            if data is None:
                is_as_it_came = self._source is not None and not same and _is_whole(run, whole)
                data = run.as_it_came(0) if is_as_it_came else encode_known(whole.cut(rows).as_carried())
                ready[same] = data
            turn.effects += self._router.before_frame(link)
            turn.send(link, data)
            self._spill.of(link).sent_bytes += len(data)
            run.taken.update(rows)

    def _send_each(self, run: Run, targets: Mapping[LinkId, Sequence[int]], turn: Turn) -> None:
        ready: dict[int, bytes] = {}
        for link, rows in targets.items():
            account = self._spill.of(link)
            for row in rows:
                data = ready.get(row)
                if data is None:
                    is_own = self._source is None
                    data = ready[row] = encode_known(run.as_carried(row)) if is_own else run.as_it_came(row)
                turn.send(link, data)
                account.sent_bytes += len(data)
            run.taken.update(rows)


def _is_whole(run: Run, whole: Transit) -> bool:
    return run.messages[0].rows == whole.frame.rows


class Arrival:
    """What neighbours send for nothing is counted."""

    __slots__ = ("_link", "_spill", "_type_id")

    def __init__(self, link: LinkId, type_id: bytes, spill: SpillAccounts[LinkId]) -> None:
        self._link, self._type_id, self._spill = link, type_id, spill

    def take(self, run: Run, turn: Turn) -> None:
        """Count the rows of frames, and those that nothing here and behind here took."""
        messages = run.carried
        sizes = [_FRAME_BYTES + sum([len(column.data) for column in one.columns]) for one in messages]
        if len(messages) == 1:
            rows = run.whole.frame.rows
            if rows == messages[0].rows:  # the others were here before
                self._note(sizes[0], rows, rows - len(run.taken), turn)
            return
        taken = run.taken
        spilled = [size for number, size in enumerate(sizes) if number not in taken]
        if taken:
            self._note(sum(sizes) - sum(spilled), len(taken), 0, turn)
        if spilled:
            self._note(sum(spilled), len(spilled), len(spilled), turn)

    def _note(self, size: int, rows: int, spilled: int, turn: Turn) -> None:
        self._spill.note_arrival(self._link, self._type_id, size=size, rows=rows, spilled_rows=spilled)
        if spilled:
            turn.count("maia_spilled_rows_total", spilled)


class AgainOnMesh:
    """On a mesh, a frame that was here may be carried on for the sake of others."""

    __slots__ = ("_carries_again", "_forward", "_unseen")

    def __init__(
        self,
        unseen: Unseen,
        forward: Callable[[Run, Transit, Turn], None],
        carries_again: Callable[[Run], bool],
    ) -> None:
        self._unseen, self._forward, self._carries_again = unseen, forward, carries_again

    def take(self, run: Run, turn: Turn) -> int | None:
        """Remember a frame, and forward all of it if a neighbour has named others for it."""
        whole, is_again = run.whole, self._carries_again(run)
        ended = self._unseen.take(run, turn)
        if is_again:
            self._forward(run, whole, turn)
        return ended

    def forward(self, run: Run, turn: Turn) -> None:
        """Forward a frame for which no neighbour has named others."""
        if not self._carries_again(run):
            self._forward(run, run.whole, turn)


class Statements:
    """Validity statements: what one takes away here is gone before a subscriber here gets it (A35).

    The other brokers come first, who have the same to do. Those whose rights it ends do not wait for the
    disk; subscribers and the publisher do.
    """

    __slots__ = ("_given", "_hold_back", "_receive")

    def __init__(
        self,
        given: tuple[Stage, ...],
        receive: Callable[[Transit, Instant], list[Effect]],
        hold_back: Callable[[], Callable[[], None]],
    ) -> None:
        """Let stages have frames once their statements were heard.

        `hold_back` holds back what is to be kept, and returns what lets it go.
        """
        self._given, self._receive, self._hold_back = given, receive, hold_back

    def take(self, run: Run, turn: Turn) -> int:
        """Hear what is said, then give it to subscribers."""
        link, whole = run.link.id, run.whole

        def received() -> list[Effect]:
            ended = self._receive(whole, turn.now)
            let_go = self._hold_back()

            def given() -> list[Effect]:
                let_go()
                turn.effects = []
                for stage in self._given:
                    stage(run, turn)
                return turn.effects

            turn.next(link, given)
            return ended

        turn.after(link, received)
        return LATER
