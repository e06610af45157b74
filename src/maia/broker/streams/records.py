"""Where do deliveries go on record, and when are summaries delivered?"""

from __future__ import annotations

from dataclasses import dataclass

from maia.broker.audiences.local_subscribers import Audiences, Seen, summary_deliveries
from maia.broker.links.links import Link, Subscription
from maia.broker.links.transit import Transit
from maia.broker.own import Own
from maia.broker.refusals import LedgerRequired
from maia.broker.rights.known_types import KnownTypes
from maia.broker.streams.disclosures import Disclosures
from maia.broker.timers import ClosePeriods, TimerWheel
from maia.broker.turn import Turn
from maia.events import Instant
from maia.ledger.records import Summarised
from maia.wire.effects import LinkId


@dataclass(slots=True, eq=False, repr=False)
class DeliveryRecords:
    """Which deliveries go on record, and when summaries are delivered."""

    own: Own
    types: KnownTypes
    links: dict[LinkId, Link]
    audiences: Audiences
    disclosures: Disclosures | None
    timers: TimerWheel

    def put_on_record(self, entry: Subscription, transit: Transit, seen: Seen, now: Instant) -> None:
        """Put a delivery to one subscriber on record, with this turn and before it is sent.

        Raise LedgerRequired if it may not be sent, because it cannot be put on record.
        """
        ledger, refused = self.ledger_for(entry.right.event_type.type_id)
        if refused is not None:
            raise refused
        if ledger is not None:
            ledger.record(self.links, [{entry.link: [entry.ref]}], transit.identity, seen.shown, now)

    def ledger_for(self, type_id: bytes) -> tuple[Disclosures | None, LedgerRequired | None]:
        """Return where deliveries of a type go on record, if they do, and why they may not be made."""
        ledger, required = self.disclosures, self.types.requires_ledger(type_id)
        if ledger is None and required:
            return None, LedgerRequired("every delivery has to be on record, and this broker keeps no ledger")
        return (ledger if ledger is not None and (required or ledger.is_of_all_types) else None), None

    # ------------------------------------------------------------ summaries

    def close_periods(self, type_id: bytes, turn: Turn) -> None:
        """Deliver the summaries of a type whose periods are closed by now, and put them on record before."""
        audience, now = self.audiences.get(type_id), turn.now
        if audience is None:
            return
        ledger, refused = self.ledger_for(type_id)
        for delivery in audience.close_periods(now):
            if refused is not None:
                turn.count("maia_frames_refused_total", code=refused.code)
                continue
            period, frame = delivery.period, delivery.rows
            whose = self.own.principal, delivery.stream, delivery.number, int(period.ends)
            transit = Transit(type_id, *whose, frame)
            if ledger is not None:
                shown = {frozenset(frame.columns): range(frame.rows)}
                source = Summarised(
                    delivery.stream, delivery.number, int(period.start), int(period.ends), period.events
                )
                ledger.record(self.links, [delivery.members], transit.identity, shown, now, source)
            summary_deliveries(transit, delivery, turn)
            turn.count("maia_summaries_delivered_total", frame.rows)
        if left_out := audience.take_left_out():
            turn.count("maia_summaries_left_out_total", left_out)
        self.schedule_closing(type_id, now)

    def schedule_closing(self, type_id: bytes, now: Instant) -> None:
        """Set the timer for the next period that is closed, as long as a subscriber here sees summaries."""
        audience = self.audiences.get(type_id)
        closes_at = None if audience is None else audience.closes_after(now)
        if closes_at is not None:
            self.timers.add(ClosePeriods(type_id), closes_at)
