"""How do frames reach the log, the subscribers of this broker, and its neighbours?

Subscribers with the same View get the same bytes, and so do neighbours that want the same rows. What a
neighbour sent leaves in the bytes in which it came, unless some of it was here before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.audiences.local_subscribers import LocalSubscribers, Seen, SubscriberGroup, deliver
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.links.authors import AttachedStatements, vouched_for
from maia.broker.links.links import Link
from maia.broker.links.transit import Labels, StreamOrder, Transit
from maia.broker.log.recording import Recording
from maia.broker.refusals import LedgerRequired
from maia.broker.streams.borders import Borders
from maia.broker.streams.disclosures import DeliveryTally, Disclosures
from maia.broker.streams.paths import Paths
from maia.broker.streams.run import LATER, Run, Stage, pass_all, refuse
from maia.broker.turn import Turn
from maia.credentials.requirements import NO_REQUIREMENT, is_met
from maia.events import Instant
from maia.routing.aggregation.spill import SpillAccounts
from maia.wire.codec import encode_known
from maia.wire.effects import LinkId
from maia.wire.messages import Recorded

Send = Callable[[Run, Transit, Turn], None]
"""Sends a run to neighbours; the rows are those of the frame beside it."""


def recording(log: Recording) -> Stage:
    """Record a publisher's plain frames: before it is answered, and before they are delivered."""

    def record(run: Run, turn: Turn) -> None:
        for number in range(run.count):
            log.record_own(run.as_carried(number), turn)

    return record


def recording_arrived(
    log: Recording, record: Callable[[Recorded, Turn], object], *, is_sealed: bool
) -> Stage:
    """Record a neighbour's frames, behind what was missed before them: sealed ones as they came."""

    def stage(run: Run, turn: Turn) -> None:
        for number in range(run.count):
            frame = run.sealed[number] if is_sealed else run.as_carried(number)
            if log.has_room_for(frame.type_id):
                record(frame, turn)
        run.got(range(run.whole.frame.rows))

    return stage


# ------------------------------------------------------------ subscribers


class Deliveries:
    """Delivers what subscribers of this broker see, in the publisher's order, and on record before."""

    __slots__ = (
        "_attached",
        "_audiences",
        "_delivered",
        "_identities",
        "_ledger",
        "_links",
        "_order",
        "_paths",
    )

    def __init__(  # noqa: PLR0913 - the parts of one broker
        self,
        audiences: Mapping[bytes, LocalSubscribers],
        order: StreamOrder,
        ledger: Callable[[bytes], tuple[Disclosures | None, LedgerRequired | None]],
        links: Mapping[LinkId, Link],
        identities: LinkIdentities,
        attached: AttachedStatements,
        delivered: DeliveryTally,
        *,
        paths: Paths | None = None,
    ) -> None:
        """Deliver to the subscribers of each type; `ledger` says where that goes on record, if it does."""
        self._audiences, self._order, self._ledger, self._links = audiences, order, ledger, links
        self._identities, self._attached, self._delivered = identities, attached, delivered
        self._paths = paths

    def of(self, type_id: bytes) -> Stage:
        """Deliver frames of a type; of a blinded one, the publications that are in them."""
        audiences, (ledger, refused) = self._audiences, self._ledger(type_id)

        def give(run: Run, turn: Turn) -> None:
            audience, view = audiences.get(type_id), run.whole.view
            if audience is None or run.is_unread:
                return
            if view is not None:
                audience = audience.behind(view)
            if refused is not None:
                refuse(refused, turn)
            else:
                self._give(audience, run, run.inner or run.whole, ledger, turn)

        return give

    def _give(
        self, audience: LocalSubscribers, run: Run, whole: Transit, ledger: Disclosures | None, turn: Turn
    ) -> None:
        publisher, stream = whole.publisher.key, whole.stream
        numbers = (whole.sequence,) if run.count == 1 else run.numbers
        is_late = self._order.late_in(publisher, stream, numbers, run.signer)
        if is_late is not None:
            turn.count("maia_late_frames_total", sum(is_late))  # order comes first
        if whole.author is not None:
            whole = vouched_for(self._attached, whole, turn.now)
        matched = audience.matched(whole.matched)
        one = whole if run.count == 1 else None
        for number, found in enumerate(run.by_frame(matched) if matched else ()):
            if found and (is_late is None or not is_late[number]):
                self._give_frame(audience, run, number, one, found, ledger, turn)

    def _give_frame(
        self,
        audience: LocalSubscribers,
        run: Run,
        number: int,
        frame: Transit | None,
        found: Iterable[tuple[bytes, Sequence[int]]],
        ledger: Disclosures | None,
        turn: Turn,
    ) -> None:
        """Deliver one frame to the classes that match it: screened and written once for each of them."""
        labels: Labels | None = None
        now, missing, whole = turn.now, run.missing, run.whole if frame is None else frame
        label = run.messages[number] if frame is None else frame
        for key, rows in found:
            group = audience.classes[key]
            if missing and not missing.isdisjoint(group.asks):
                continue  # it cannot be known whether its members may see them
            if group.sort.of_path is not NO_REQUIREMENT and not self._path_meets(group, run, whole, now):
                continue
            members: Sequence[Mapping[LinkId, list[int]]] = [group.members]
            taken, shown, made = rows if run.count == 1 else (number,), group.sort.shown, group.made
            if made is not None and made.summaries is not None:
                if audience.counts(group, whole.view):
                    frame = frame or run.transit(number)
                    made.summaries.take(frame, rows, now)
                run.got(taken)
                continue
            is_whole = frame is None or len(rows) == frame.frame.rows
            if is_whole and shown is not None and whole.author is None:
                columns = [column for column in run.columns[number] if column.uid in shown]
                seen: Seen | None = Seen(len(rows), columns, {shown: (frame and frame.kept) or rows})
            else:
                frame = frame or run.transit(number)
                if frame.requires:
                    members = group.admitted(frame.requires, self._identities, now)
                seen = group.screened(frame, rows) if members else None
            if seen is None:
                continue
            run.got(taken)
            if ledger is not None:
                identity = whole.publisher.key, whole.published_in, label.sequence
                ledger.record(self._links, members, identity, seen.shown, now)
            labels = labels or whole.labels_of(label.sequence, label.published_at)
            sent = deliver(labels, seen, members, turn)
            self._delivered.add(seen.rows * sent, label.published_at, now)

    def _path_meets(self, group: SubscriberGroup, run: Run, whole: Transit, now: Instant) -> bool:
        """Return whether the routers on the way are what the members of a class require."""
        paths = self._paths
        return paths is not None and is_met(group.sort.of_path, paths.attributes(run.link, whole, now))


# ------------------------------------------------------------ neighbours


def forwarding(type_id: bytes, source: LinkId | None, routes: Routes, router: Router, paths: Paths) -> Send:
    """Send each neighbour the rows of a plain type that are wanted behind it, but none behind a border."""
    spill, flooding = routes.spill, router.flooding

    def send(run: Run, whole: Transit, turn: Turn) -> None:
        ready: dict[object, bytes] = {}
        targets = router.targets(type_id, whole, source=source)
        paths.announce(targets, source, whole, turn)
        for link, rows in targets.items():
            account = spill.of(link)
            if run.count > 1:
                for row in rows:
                    data = ready.get(row)
                    if data is None:
                        data = encode_known(run.as_carried(row)) if source is None else run.as_it_came(row)
                        ready[row] = data
                    turn.send_bytes(link, data)
                    account.sent_bytes += len(data)
            else:
                part = () if len(rows) == whole.frame.rows else tuple(rows)
                data = ready.get(part)
                if data is None:
                    if not part and source is not None and run.messages[0].rows == len(rows):
                        data = run.as_it_came(0)
                    else:
                        data = encode_known(whole.cut(rows).as_carried() if part else run.as_carried(0))
                    ready[part] = data
                if flooding is not None:
                    flooding.before_frame(link, turn, whole.view)
                turn.send_bytes(link, data)
                account.sent_bytes += len(data)
            run.got(rows)

    return send


def releasing(
    type_id: bytes,
    source: LinkId | None,
    router: Router,
    borders: Borders,
    paths: Paths,
    right: Callable[[Run, int], bytes],
) -> Send:
    """Send neighbours behind borders what each class there sees; of a signed type, under this `right`."""
    spill, flooding = borders.routes.spill, router.flooding

    def release(run: Run, whole: Transit, turn: Turn) -> None:
        if not borders.routes.borders or whole.view is not None:
            return
        found = borders.released(
            type_id, whole, turn.now, source=source, signer=run.signer, right=right(run, 0)
        )
        for seen, wanted in found:
            paths.announce([link for link, _ in wanted], source, whole, turn)
            for number, frame in enumerate(one_by_one(run, seen)):
                for link, rows in wanted:
                    message = borders.message(link, frame, right(run, number), turn)
                    if message is None:
                        continue
                    if flooding is not None:
                        flooding.before_frame(link, turn, seen.view)
                    data = encode_known(message)
                    turn.send_bytes(link, data)
                    spill.of(link).sent_bytes += len(data)
                    run.got(rows)

    return release


def one_by_one(run: Run, seen: Transit) -> Iterator[Transit]:
    """Yield what a class sees of each frame of a run, as a frame."""
    if run.count == 1:
        yield seen
        return
    for row, number in enumerate(seen.kept or range(seen.frame.rows)):
        message = run.messages[number]
        yield replace(
            seen,
            sequence=message.sequence,
            published_at=message.published_at,
            frame=seen.frame.take((row,)),
            kept=(),
            written=(),
        )


def in_turn(*sends: Send) -> tuple[Stage, Send]:
    """Return what sends a run in several ways, as a stage and by itself."""

    def send(run: Run, whole: Transit, turn: Turn) -> None:
        for one in sends:
            one(run, whole, turn)

    return lambda run, turn: send(run, run.whole, turn), send


def counting_arrivals(link: LinkId, type_id: bytes, spill: SpillAccounts[LinkId]) -> Stage:
    """Count the rows of frames, and those that nothing here and behind here took."""

    def note(size: int, rows: int, spilled: int, turn: Turn) -> None:
        spill.note_arrival(link, type_id, size=size, rows=rows, spilled_rows=spilled)
        if spilled:
            turn.count("maia_spilled_rows_total", spilled)

    def arrived(run: Run, turn: Turn) -> None:
        taken, messages = run.taken, run.carried
        sizes = [len(run.as_it_came(number)) for number in range(run.count)]
        if run.count == 1:
            rows = run.whole.frame.rows
            if rows == messages[0].rows:  # the others were here before
                note(sizes[0], rows, rows - len(taken), turn)
            return
        spilled = [size for number, size in enumerate(sizes) if number not in taken]
        if taken:
            note(sum(sizes) - sum(spilled), len(taken), 0, turn)
        if spilled:
            note(sum(spilled), len(spilled), len(spilled), turn)

    return arrived


def on_mesh(remember: Stage, send: Send, carries_again: Callable[[Run], bool]) -> tuple[Stage, Stage]:
    """Carry a frame that was here on all the same where a neighbour has named other routers for it."""

    def remember_or_carry(run: Run, turn: Turn) -> int | None:
        whole, is_again = run.whole, carries_again(run)
        ended = remember(run, turn)
        if is_again:
            send(run, whole, turn)
        return ended

    def forward(run: Run, turn: Turn) -> None:
        if not carries_again(run):
            send(run, run.whole, turn)

    return remember_or_carry, forward


# ------------------------------------------------------------ validity statements


def hearing(
    given: Sequence[Stage],
    receive: Callable[[Transit, Turn], None],
) -> Stage:
    """Hear statements: what one takes away here is gone before a subscriber here gets it (A35).

    The other brokers come first, who have the same to do. Those whose rights it ends do not wait for the
    disk; subscribers and the publisher do: the stages that are `given` come in the next part.
    """

    def hear(run: Run, turn: Turn) -> int:
        link, whole = run.link.id, run.whole

        def received(turn: Turn) -> None:
            receive(whole, turn)
            turn.keep_later(link, partial(pass_all, given, run))

        turn.after(link, received)
        return LATER

    return hear
