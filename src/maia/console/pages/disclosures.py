"""*Disclosures*: who was shown which attributes of which type, on which certificates? From the ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from maia.console.pages.page import Data, Node, Page, Visit, el, field_of, hint, moment, person, table
from maia.console.principal import READ_AUDIT
from maia.console.rights import ShownNames
from maia.credentials import Principal
from maia.events import Instant
from maia.ledger.files import disclosures_in

ROWS_MAX: Final = 500
DELIVERIES_MAX: Final = 1_000_000


@dataclass(slots=True)
class _Sum:
    """Deliveries to one recipient that showed the same attributes of one type."""

    events: int
    first: Instant
    last: Instant
    certificates: set[bytes]


async def _data(visit: Visit) -> Data:
    names = await visit.names()
    asked = {one: visit.asked(one) for one in ("recipient", "type", "attribute", "certificate")}
    rows, is_whole = await asyncio.to_thread(_rows, visit.held.ledgers, asked, names)
    return {
        "asked": asked,
        "suggest": await visit.suggestions(),
        "ledgers": [one.name for one in visit.held.ledgers],
        "found": len(rows),
        "is_whole": is_whole,
        "rows": rows[:ROWS_MAX],
    }


def _rows(ledgers: Sequence[Path], asked: dict[str, str], names: ShownNames) -> tuple[list[Data], bool]:
    """Add deliveries up by recipient, type and attributes; a ledger is verified as it is read."""
    known = names.attributes
    types = {one.type_id: label for label, one in names.by_label.items()}
    sums: dict[tuple[str, str, tuple[str, ...]], _Sum] = {}
    read = 0
    for one in chain.from_iterable(map(disclosures_in, ledgers)):
        read += 1
        if read > DELIVERIES_MAX:
            break
        recipient = str(Principal(one.recipient))
        called = types.get(one.type_id, one.type_id.hex()[:16])
        shown = tuple(sorted(known.get(uid, uid) for uid in one.attributes))
        fits = (
            (not asked["recipient"] or names.principal(asked["recipient"]) == recipient)
            and asked["type"] in ("", called)
            and (not asked["attribute"] or asked["attribute"] in shown)
            and any(id_.hex().startswith(asked["certificate"]) for id_ in one.certificates)
        )
        if fits:
            found = sums.setdefault((recipient, called, shown), _Sum(0, one.at, one.at, set()))
            found.events += one.rows
            found.first, found.last = min(found.first, one.at), max(found.last, one.at)
            found.certificates.update(one.certificates)
    rows: list[Data] = [
        {
            "recipient": recipient,
            "name": names.key(recipient),
            "type": called,
            "attributes": list(shown),
            "events": one.events,
            "first": str(one.first),
            "last": str(one.last),
            "certificates": sorted(id_.hex() for id_ in one.certificates),
        }
        for (recipient, called, shown), one in sums.items()
    ]
    return sorted(rows, key=lambda one: -one["events"]), read <= DELIVERIES_MAX


def _view(data: Data) -> Sequence[Node]:
    asked, offered = data["asked"], data["suggest"]
    rows = [
        [
            person(one["recipient"], one["name"]), one["type"], ", ".join(one["attributes"]),
            f"{one['events']:,}", moment(one["first"]), moment(one["last"]),
            el("span", [el("a", f"{id_[:12]} ", href=f"/certificate?id={id_}")
                        for id_ in one["certificates"]]),
        ]
        for one in data["rows"]
    ]  # fmt: skip
    return [
        el(
            "form",
            field_of("Recipient", "recipient", asked["recipient"], offered["person"]),
            field_of("Type", "type", asked["type"], offered["type"]),
            field_of("Attribute", "attribute", asked["attribute"], offered["attribute"]),
            field_of("Certificate", "certificate", asked["certificate"], offered["certificate"]),
            el("button", "Filter"),
            action="/disclosures", method="get", role="search",
        ),
        el("p", f"Ledgers: {', '.join(data['ledgers'])}.") if data["ledgers"] else
        hint("There is no ledger: a broker keeps one with `[ledger]` and `folder = \"ledger\"` in its "
             "settings, for types that ask for it, or with `all = true` for all."),
        "" if data["is_whole"] else el("p", "These are the first deliveries only.", role="alert"),
        table(
            "Who was shown what",
            ["recipient", "type", "attributes", "events", "first", "last", "certificates"],
            rows,
            empty="No delivery fits: leave a field empty to see more." if data["ledgers"] else "",
        ),
    ]  # fmt: skip


DISCLOSURES = Page("disclosures", "Disclosures", _data, _view, READ_AUDIT)
