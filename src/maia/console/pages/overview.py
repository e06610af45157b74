"""*Overview*: organisations, readers, what ends soon and what was refused, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from maia.console.network import brokers_in
from maia.console.pages.page import Data, Node, Page, Visit, bare, el, moment, person, table
from maia.console.pages.refusals import refusals_seen
from maia.console.pages.who_sees import readers_of
from maia.console.principal import READ_NETWORK, READ_REGISTER, RegisterEntry
from maia.console.rights import ShownNames, record_of, state_of
from maia.credentials import Action, AuthorisationCertificate, Principal
from maia.credentials.authority import EVENT_ACTIONS
from maia.events import Instant
from maia.policy.endings import AGAIN_DAYS, DAY, WARNED_DAYS, last_ends

TYPES_MAX: Final = 20
PEOPLE_MAX: Final = 100
"""People of each type about whom the kernel is asked here; *Who sees what* asks about all."""
ROWS: Final = 12
_OF_AN_ORGANISATION: Final = EVENT_ACTIONS | {Action.INSTALL}


async def _data(visit: Visit) -> Data:
    names, entries = await visit.names(), await visit.acting.entries(visit.acts)
    sees_network = READ_NETWORK in visit.acts
    rows = await visit.network.brokers() if sees_network else []
    brokers = brokers_in(rows)
    types, readers, left_out = [], set[Principal](), 0
    for label, event_type in list(names.by_label.items())[:TYPES_MAX]:
        found, more = await readers_of(visit, event_type, most=PEOPLE_MAX)
        left_out += more
        others = [one for one in found if str(one.principal) not in {str(event_type.name.owner), *brokers}]
        readers |= {one.principal for one in others}
        owner = str(event_type.name.owner)
        types.append({
            "type": label,
            "owner": owner,
            "owner_name": names.key(owner),
            "attributes": len(event_type.attributes),
            "readers": [names.key(str(one.principal)) for one in others],
        })  # fmt: skip
    ending = [
        {**record_of(one, names, visit.now), "days_left": days} for one, days in ends_soon(entries, visit.now)
    ]
    refused = refusals_seen(rows, names)
    known = [str(one.as_of) for one in entries if one.as_of is not None]
    return {
        "is_register": READ_REGISTER in visit.acts,
        "sees_network": sees_network,
        "organisations": _organisations(entries, names, visit.now),
        "types": types,
        "types_left_out": max(0, len(names.types) - TYPES_MAX),
        "readers": len(readers),
        "readers_left_out": left_out,
        "ending": ending,
        "refused": refused,
        "brokers": len(rows),
        "brokers_up": sum(one.status is not None for one in rows),
        "as_of": max(known, default=None),
    }


def ends_soon(entries: Sequence[RegisterEntry], now: Instant) -> list[tuple[RegisterEntry, int]]:
    """Return what holds now, ends within two weeks and was not renewed, with its days; the next end first."""
    valid = {one.signed.id: one for one in entries if state_of(one, now) == "valid"}
    found = last_ends(one.signed for one in valid.values())
    soon = [one for one in found if one.at - now < WARNED_DAYS * DAY]
    return [(valid[one.signed.id], (one.at - now) // DAY) for one in soon]


def _organisations(entries: Sequence[RegisterEntry], names: ShownNames, now: Instant) -> list[Data]:
    """Return the owners of types and networks, and those who may pass on what they were granted."""
    owned: dict[str, list[str]] = {}
    for label, one in names.by_label.items():
        owned.setdefault(str(one.name.owner), []).append(label)
    held: dict[str, list[Data]] = {one: [] for one in owned}
    given: dict[str, int] = {}
    for entry in entries:
        said = entry.signed.certificate
        if not isinstance(said, AuthorisationCertificate) or state_of(entry, now) != "valid":
            continue
        given[str(said.issuer)] = given.get(str(said.issuer), 0) + 1
        held.setdefault(str(said.issuer), [])
        passes_on = said.may_delegate and said.authority.actions & _OF_AN_ORGANISATION
        if passes_on and isinstance(said.subject, Principal):
            held.setdefault(str(said.subject), []).append(record_of(entry, names, now))
    return [
        {
            "principal": one,
            "name": names.key(one),
            "owns": sorted(owned.get(one, [])),
            "granted": sorted({f"{', '.join(kept['actions'])} {kept['resource']}" for kept in found}),
            "until": min((str(kept["not_after"]) for kept in found if kept["not_after"]), default=None),
            "grants": given.get(one, 0),
        }
        for one, found in held.items()
    ]


def _view(data: Data) -> Sequence[Node]:
    tiles = [
        _tile(len(data["organisations"]), "organisations", "#organisations"),
        _tile(f"{data['readers']}{'+' * bool(data['readers_left_out'])}", "readers", "#readers"),
        _tile(len(data["ending"]), "end in two weeks", "#ending", warn=bool(data["ending"])),
    ]
    if data["sees_network"]:
        up, of = data["brokers_up"], data["brokers"]
        tiles.append(_tile(len(data["refused"]), "refused", "#refused", warn=bool(data["refused"])))
        tiles.append(_tile(f"{up}/{of}", "brokers up", "/network", warn=up < of))
    return [
        el("div", tiles, class_="tiles"),
        el("p", "Validity as of ", moment(data["as_of"]), " UTC.", class_="as-of") if data["as_of"] else "",
        el("div", el("section", _types(data), id="readers"),
           el("section", _organisation_table(data), id="organisations"), class_="columns"),
        el("div", el("section", _ending_table(data), id="ending"),
           el("section", _refused_table(data), id="refused"), class_="columns"),
    ]  # fmt: skip


def _tile(number: object, label: str, where: str, *, warn: bool = False) -> Node:
    return el(
        "a", el("b", str(number)), el("span", label), href=where, class_="tile warn" if warn else "tile"
    )


def _types(data: Data) -> Node:
    rows = [
        [
            el("a", one["type"], href="/who-sees?" + urlencode({"type": one["type"]})),
            person(one["owner"], bare(one["owner_name"])),
            str(one["attributes"]),
            _first(one["readers"]),
        ]
        for one in data["types"]
    ]
    empty = "No type is known here yet. `maia type define NAME attribute:kind …` defines one."
    return table("Readers", ["type", "owner", "attributes", "who reads it"], rows, empty=empty)


def _first(names: Sequence[str]) -> Node:
    """Name three, and say how many more there are."""
    short = [bare(one) for one in names[:3]]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(short) + more if names else el("span", "none yet", class_="empty")


def _organisation_table(data: Data) -> Node:
    rows = [
        [
            person(one["principal"], bare(one["name"])),
            ", ".join(one["owns"]),
            bare("; ".join(one["granted"])),
            str(one["grants"]),
            moment(one["until"], digits=10) if one["until"] else "",
        ]
        for one in data["organisations"]
    ]
    empty = "No organisation is known here yet. `maia grant THEIR.pub --may subscribe:TYPE` lets one read."
    heads = ["organisation", "owns", "was granted", "grants", "until"]
    return table("Organisations", heads, rows, empty=empty)


def _ending_table(data: Data) -> Node:
    rows = [
        [
            _end(one),
            person(one["subject"], bare(one["subject_name"])),
            el(
                "a",
                bare(f"{', '.join(one['actions'])} {one['resource']}"),
                href=f"/certificate?id={one['id']}",
            ),
        ]
        for one in data["ending"][:ROWS]
    ]
    return table("Ends within two weeks", ["end", "who", "may"], rows,
                 empty="No right that you may see ends within two weeks.")  # fmt: skip


def _end(one: Data) -> Node:
    if one["days_left"] >= AGAIN_DAYS:
        return moment(one["not_after"])
    return el("b", moment(one["not_after"]), " ", el("span", "within two days", class_="state near"))


def _refused_table(data: Data) -> Node:
    rows = [
        [
            el("a", one["id"], href="/why?" + urlencode({"refusal": one["id"]})),
            person(one["principal"], bare(one["name"])),
            el("span", bare(one["asked"]), " ", el("code", one["code"])),
            moment(one["last"]),
        ]
        for one in data["refused"][:ROWS]
    ]
    empty = ("No broker here has refused anything since it started." if data["sees_network"] else
             "What brokers refused is shown to those who may `subscribe /admin/network`.")  # fmt: skip
    return table("Refused", ["id", "who", "asked", "last"], rows, empty=empty)


OVERVIEW = Page("overview", "Overview", _data, _view)
