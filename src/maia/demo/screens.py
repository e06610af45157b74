"""How does the demonstration look on a screen? One function for each table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table

from maia.cli.trust.grants import authority_record

if TYPE_CHECKING:
    from rich.console import Console

    from maia.demo.acts import Attempt, LivePlay
    from maia.demo.lake import LakeResult
    from maia.demo.million import Comparison
    from maia.demo.numberplate import NumberplateStory
    from maia.demo.program import Searched
    from maia.events import Value

NOBODY_MAY_SEE: Final = (("billing office", "location"), ("statistics office", "numberplate"))
"""Whom the demonstration watches: an office, and the attribute that must never reach it."""


# Any: each option of a table has a type of its own.
LOOK: Final[dict[str, Any]] = {"title_justify": "left", "box": SIMPLE_HEAD, "pad_edge": False}


def show_story(screen: Console, story: NumberplateStory) -> None:
    """Show who granted what to whom."""
    from maia.credentials import ALL_ATTRIBUTES, AuthorisationCertificate, TypePattern
    from maia.demo.numberplate import NUMBERPLATE_ATTRIBUTES

    names = {attribute.uid: attribute.name for attribute in NUMBERPLATE_ATTRIBUTES}
    who: dict[object, str] = {key.principal: name for name, key in story.keys.items()}
    table = Table(title="Who granted what: certificates for uk.gov.pito.Numberplate", **LOOK)
    for heading in ("from", "to", "may", "attributes", "only where"):
        table.add_column(heading)
    for signed in story.certificates:
        certificate = signed.certificate
        assert isinstance(certificate, AuthorisationCertificate)  # noqa: S101 - the story issues no others
        if not isinstance(certificate.authority.resources, TypePattern):
            continue
        record = authority_record(certificate.authority, names)
        may = _joined(record["actions"]) + (", pass it on" if certificate.may_delegate else "")
        may += ", until revoked" if certificate.validity.tests else ""
        attributes = certificate.authority.attributes
        is_all = attributes is ALL_ATTRIBUTES or attributes == names.keys()
        seen = "all" if is_all else _joined(record["attributes"])
        ends = (who.get(end, "?") for end in (certificate.issuer, certificate.subject))
        table.add_row(*ends, may, seen, str(record.get("where", "")))
    screen.print(table)


def show_performance(screen: Console, live: LivePlay) -> None:
    """Show what was written, what travelled, and what was delivered to whom over the network."""
    delivered = live.seen_close_up()
    table = Table(title="What the camera at Victoria wrote, and who saw what", **LOOK)
    for heading in ("camera wrote", "network carried", *(one.office for one in delivered)):
        table.add_column(heading)
    inboxes = {one.office: {str(event["timestamp"]): event for event in one.events} for one in delivered}
    for written, sent in zip(live.close_up.written, live.close_up.sent, strict=True):
        moment = str(sent["timestamp"])
        cells = [_cell(inbox.get(moment)) for inbox in inboxes.values()]
        table.add_row(_cell(written), _cell(sent), *cells)
    screen.print(table)
    say(screen, "· is nothing, or hidden from that reader; - was not delivered.")
    say(
        screen,
        "The camera claimed Euston, and once no place: its certificate says Victoria, so Victoria it is.",
    )
    for office, attribute in NOBODY_MAY_SEE:
        events, values = live.of(office).events, live.of(office).values_of(attribute)
        say(screen, f"{office}: {len(events):,} events in all, with {len(values)} values of `{attribute}`")
    screen.print()


def show_one_event(screen: Console, live: LivePlay, searched: Searched) -> None:
    """Show what four readers have of a sighting of the suspect, before the revocation and after it."""
    from maia.demo.numberplate import SUSPECT

    seen = [
        (wrote, sent)
        for wrote, sent in zip(live.close_up.written, live.close_up.sent, strict=True)
        if wrote["numberplate"] == SUSPECT
    ]
    shown = (seen[0], seen[-1])
    rows = [["One car, seen twice", "under the court order", "after its revocation"]]
    rows.append(["the camera wrote", *(_in_line(wrote) for wrote, _ in shown)])
    for one in live.seen_close_up():
        inbox = {event["timestamp"]: event for event in one.events}
        rows.append([one.office, *(_in_line(inbox.get(sent["timestamp"])) for _, sent in shown)])
    frames = {one.frame: one for one in searched.carrier.frames}
    passed = (frames.get(live.frames.get(str(sent["timestamp"]), "")) for _, sent in shown)
    rows.append(
        [searched.carrier.broker, *("nothing" if one is None else f"0x{one.excerpt}" for one in passed)]
    )
    for who, before, after in rows:
        screen.print(f"{who:<20} {before:<28} {after}".rstrip())
    screen.print("The camera's certificate says Victoria, whatever the camera writes.\n")


def _in_line(event: Mapping[str, Value] | None) -> str:
    return (
        "nothing" if event is None else "  ".join(f"{one:<10}" for one in _cell(event).split("\n")).rstrip()
    )


def show_carriage(screen: Console, live: LivePlay, searched: Searched) -> None:
    """Show what the broker in the middle could see, beside what the billing office saw of the same frames."""
    from maia.demo.live_network import WITNESS

    carrier, reader = searched.carrier, searched.reader
    frames = {one.frame: one for one in carrier.frames}
    table = Table(title=f"What the {carrier.broker} carried, and could not read", **LOOK)
    for heading in ("frame", "events", "sealed plates, first bytes", "bytes", f"the {WITNESS} saw"):
        table.add_column(heading, justify="right" if heading in {"frame", "events", "bytes"} else "left")
    witness = next(one for one in live.seen_close_up() if one.office == WITNESS)
    for event in witness.events:
        frame = frames.get(live.frames[str(event["timestamp"])])
        cells = ("", "", "did not pass", "")
        if frame is not None:
            cells = (str(frame.frame[1]), str(frame.rows), frame.excerpt, str(frame.size))
        table.add_row(*cells, str(event["numberplate"]))
    screen.print(table)
    say(
        screen,
        f"{carrier.events:,} events passed it in {len(carrier.frames)} sealed frames, with "
        f"{carrier.interests} sealed filters, and {carrier.in_clear} messages with events in clear.",
    )
    say(
        screen,
        f"All that it received and kept, {carrier.searched:,} bytes in {carrier.files} files, was searched "
        f"for {carrier.looked_for:,} plates, places, moments, names and keys: {len(carrier.found)} found. "
        f"The same search finds {len(reader.found):,} at the {reader.broker}, which may read them.\n",
    )


def show_attempts(screen: Console, tried: list[Attempt]) -> None:
    """Show who tried for more, and the answer as the attacker reads it."""
    screen.print("[italic]Those who tried for more, and the answers that they got[/italic]")
    for one in tried:
        say(screen, one.title)
        say(screen, f"[bold]{one.code or 'SUCCEEDED'}[/bold] {_short(one.sentence)}", indent=6)
    screen.print()


def show_comparisons(screen: Console, compared: list[Comparison], *, rows: int) -> None:
    """Show what each office saw through Spark, and whether the kernel says the same."""
    table = Table(title=f"Each office's View as a Spark job over {rows:,} generated sightings", **LOOK)
    for heading in ("office", "rows", "plates", "places", "Spark took", "kernel agrees"):
        table.add_column(heading, justify="left" if heading == "office" else "right")
    for one in compared:
        counts = (f"{one.values_seen[name]:,}" for name in ("numberplate", "location"))
        agrees = "on every row" if one.same else "NO"
        table.add_row(one.office, f"{one.seen_by_spark:,}", *counts, f"{one.spark_s:.1f} s", agrees)
    screen.print(table)
    say(screen, "The jobs ran side by side, and the first pays for much of Spark's own loading.\n")


def show_summary(screen: Console, record: Mapping[str, object]) -> None:
    """Show the figures of the whole demonstration, one line each."""
    deliveries = record["deliveries"]
    delivered = sum(deliveries.values()) if isinstance(deliveries, dict) else 0
    lines = [
        ("first event delivered, since the start", _seconds(record["first_event_s"])),
        ("sightings delivered, and compared with the kernel", f"{delivered:,}"),
        ("subscriptions lost with the killed broker", _number(record["lost"])),
        *_of_revocation(record["revocation"]),
        ("sealed events that passed the broker without rights", _of_carrier(record, "events")),
        ("of what they say, found in all it received and kept", _of_carrier(record, "found")),
        ("attempts to get more, and how many were refused", _of_attempts(record["attempts"])),
    ]
    if record["spark_result_s"] is not None:
        lines.append(
            ("Spark and kernel compared row by row, since the start", _seconds(record["spark_result_s"]))
        )
        lines.append(
            ("bill and traffic made from the log, since the start", _seconds(record["lake_result_s"]))
        )
    lake = record.get("lake")
    if isinstance(lake, dict):
        _, billing, statistics = (_number(one["found"]) for one in lake["searches"])
        lines.append(
            ("places in what Spark made for billing, and for statistics", f"{billing}, {statistics}")
        )
    for name, value in lines:
        screen.print(f"  {name:<57} {value:>8}")
    screen.print()


def _of_revocation(record: object) -> list[tuple[str, str]]:
    if not isinstance(record, dict):
        return []
    return [
        ("court order revoked; the detective's stream ended after", f"{record['delay_ms']:.0f} ms"),
        ("her suspect's car seen since then", f"{record['suspect_seen_after']:,}"),
        ("of these shown to her", f"{record['delivered_after']:,}"),
        ("sightings shown to the billing office since then", f"{record['billing_after']:,}"),
    ]


def _of_carrier(record: Mapping[str, object], name: str) -> str:
    carrier = record["carrier"]
    return _number(carrier[name]) if isinstance(carrier, dict) else "?"


def _of_attempts(tried: object) -> str:
    made = tried if isinstance(tried, list) else []
    return f"{len(made)}, {sum(one['code'] is not None for one in made)}"


def _number(value: object) -> str:
    count = len(value) if isinstance(value, list | tuple) else value
    return f"{count:,}" if isinstance(count, int) else "?"


def say(screen: Console, text: str, *, indent: int = 2) -> None:
    """Print a paragraph below a table; where it is too long for a line, the next begins where it did."""
    screen.print(Padding(text, (0, 0, 0, indent)))


def _seconds(value: object) -> str:
    return f"{value:.2f} s" if isinstance(value, float) else "never"


def _cell(event: object) -> str:
    if not isinstance(event, dict):
        return "-"
    return "\n".join(
        str(event.get(name)) if event.get(name) is not None else "·" for name in ("numberplate", "location")
    )


def _short(sentence: str) -> str:
    """Return a sentence in which keys are shortened."""
    return re.sub(r"([0-9a-f]{8})[0-9a-f]{56}", r"\1…", sentence)


def _joined(words: object) -> str:
    return " ".join(words) if isinstance(words, list) else str(words)


# How does the last part of the demonstration look: what Spark found in the log, and what it did not?


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
