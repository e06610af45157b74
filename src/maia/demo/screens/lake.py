"""How does the last part of the demonstration look: what Spark found in the log, and what it did not?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from maia.demo.screens.tables import LOOK, say

if TYPE_CHECKING:
    from rich.console import Console

    from maia.demo.lake import LakeResult

__all__ = ["show_lake"]


def show_lake(screen: Console, details: Console, found: LakeResult) -> None:
    """Show each office's table beside its live deliveries; with details the bill, the traffic, the search."""
    _show_offices(screen, found)
    _show_bill(details, found)
    _show_traffic(details, found)
    _show_search(details, found)


def _show_offices(screen: Console, found: LakeResult) -> None:
    screen.print(
        f"CCS's broker recorded {found.events:,} sealed events in {found.frames} frames, "
        f"{found.trials} of them trials. Spark reads that log, each time under the rights of one office:"
    )
    table = Table(**LOOK)
    for heading in ("reader", "columns read", "rows", "plates", "places", "as live"):
        table.add_column(heading, justify="left" if heading in {"reader", "columns read"} else "right")
    for one in found.offices:
        counts = (one.rows, one.values["numberplate"], one.values["location"])
        same = "every row" if one.same else "NO"
        same = "refused" if one.is_revoked and one.is_as_live else same
        table.add_row(one.office, " ".join(one.columns_read), *(f"{count:,}" for count in counts), same)
    screen.print(table)
    for one in found.offices:
        if one.is_revoked and one.is_as_live:
            say(
                screen,
                f"{one.office} saw {one.rows_live} sightings while her court order stood; it is revoked, "
                f"and no past opens to her either: {one.refused}",
            )
    screen.print()


def _show_bill(screen: Console, found: LakeResult) -> None:
    bill, most = found.bill, found.most_seen
    screen.print(
        f"  [bold]billing office[/bold]: {bill.charges:,} charges, {bill.vehicles:,} vehicles, "
        f"{bill.days} days, £{bill.pounds:,.0f}; {_same(bill.same)}"
    )
    screen.print(
        f"    once a day: {most.plate} was seen {most.sightings} times on {most.day}, "
        f"and is charged {most.charges} time"
    )


def _show_traffic(screen: Console, found: LakeResult) -> None:
    traffic = found.traffic
    screen.print(
        f"  [bold]statistics office[/bold]: {traffic.sightings:,} sightings, {traffic.cameras} cameras, "
        f"{_same(traffic.same)}"
    )
    screen.print(
        f"    most traffic at {traffic.busiest_camera}; drawn: {found.plot or found.no_plot}\n",
        soft_wrap=True,
    )


def _show_search(screen: Console, found: LakeResult) -> None:
    title = "Was a place ever in what Spark made for the billing office?"
    table = Table(title=title, **LOOK)
    for heading in ("searched for every place that a camera named", "bytes", "places", "found"):
        table.add_column(heading, justify="left" if heading.startswith("searched") else "right")
    for one in found.searches:
        table.add_row(one.where, f"{one.searched:,}", str(one.looked_for), str(len(one.found)))
    screen.print(table)
    screen.print("  The statistics office may know places: there the same search finds them all.\n")


def _same(same: bool) -> str:
    return "as live" if same else "NOT AS LIVE"
