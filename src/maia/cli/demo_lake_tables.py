"""How does the last part of the demonstration look: what Spark found in the log, and what it did not?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from maia.scenarios.lake import LakeResult

__all__ = ["show_lake"]


def show_lake(screen: Console, found: LakeResult) -> None:
    """Show each office's table beside its live deliveries, the bill, the traffic, and the search."""
    _show_offices(screen, found)
    _show_bill(screen, found)
    _show_traffic(screen, found)
    _show_search(screen, found)


def _show_offices(screen: Console, found: LakeResult) -> None:
    title = f"Spark reads the sealed log of CCS's broker: {found.events:,} events in {found.frames} frames"
    table = Table(title=title, title_justify="left")
    for heading in (
        "under the rights of",
        "columns opened",
        "sightings",
        "plates",
        "places",
        "live, the same",
    ):
        table.add_column(
            heading, justify="left" if heading in {"under the rights of", "columns opened"} else "right"
        )
    for one in found.offices:
        counts = (one.rows, one.values["numberplate"], one.values["location"])
        same = "every row" if one.same else "NO"
        table.add_row(one.office, " ".join(one.columns_read), *(f"{count:,}" for count in counts), same)
    screen.print(table)


def _show_bill(screen: Console, found: LakeResult) -> None:
    bill, most = found.bill, found.most_seen
    screen.print(
        f"  [bold]billing office[/bold]: {_number(bill, 'charges')} charges for {_number(bill, 'vehicles')} "
        f"vehicles on {_number(bill, 'days')} days, £{_number(bill, 'pounds')} in all"
    )
    screen.print(
        f"    each vehicle once a day: {most.plate} was seen {most.sightings} times on {most.day}, "
        f"and owes {most.charges} charge"
    )
    screen.print(f"    the bill of what was delivered live is {_same(found.bill_same)}")


def _show_traffic(screen: Console, found: LakeResult) -> None:
    traffic = found.traffic
    screen.print(
        f"  [bold]statistics office[/bold]: {_number(traffic, 'sightings')} sightings by "
        f"{_number(traffic, 'cameras')} cameras; the busiest quarter hour was at {traffic['busiest_camera']}"
    )
    screen.print(f"    the counts of what was delivered live are {_same(found.traffic_same)}")
    screen.print(f"    drawn: {found.plot or found.no_plot}\n", soft_wrap=True)


def _show_search(screen: Console, found: LakeResult) -> None:
    table = Table(title="Was a place ever in the bill? We looked for every one of them", title_justify="left")
    for heading in ("searched", "bytes", "places", "found"):
        table.add_column(heading, justify="left" if heading == "searched" else "right")
    for one in found.searches:
        table.add_row(one.where, f"{one.searched:,}", str(one.looked_for), str(len(one.found)))
    screen.print(table)
    screen.print("  The statistics office may know places: there the same search finds them.\n")


def _number(figures: Mapping[str, object], name: str) -> str:
    value = figures[name]
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def _same(same: bool) -> str:
    return "the same" if same else "ANOTHER"
