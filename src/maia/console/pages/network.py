"""*Network*: brokers, links, types and rates, while they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from maia.console.network import BrokerRow
from maia.console.pages.page import Data, Element, Live, Node, Page, Visit, bare, el, named, table
from maia.console.principal import READ_NETWORK
from maia.console.rights import ShownNames

_LINKS_SHOWN = 500


async def _data(visit: Visit) -> Data:
    names = await visit.names()
    rows = await visit.network.brokers()
    return {"brokers": [_broker(row, names) for row in rows]}


_BORDERS: Final = {"views": ", border", "events": ", open border"}
"""What is added to the role of a peer that is a broker of another domain."""


def _broker(row: BrokerRow, names: ShownNames) -> Data:
    status = row.status
    if status is None:
        problem = "does not answer" if row.problem is None else row.problem.message
        return {"folder": row.folder.name, "is_up": False, "problem": problem}
    audiences = status.get("audiences") or {}
    return {
        "folder": row.folder.name,
        "is_up": True,
        "principal": status["principal"],
        "name": names.key(status["principal"]),
        "address": status["address"],
        "network": status["network"],
        "serves": status.get("serves"),
        **{
            one: status[one]
            for one in ("clients", "peers", "subscriptions", "advertisements", "certificates")
        },
        "events_per_s": round(row.events_per_s, 1),
        "events": row.published,
        "refused": row.refused,
        "links": [
            {
                "link": one["link"],
                "peer": one["peer"],
                "name": _peer(one, names),
                "role": one["role"] + _BORDERS.get(one.get("border"), ""),
                "subscriptions": one["subscriptions"],
                "advertisements": one["advertisements"],
                "open_s": one["open_s"],
                "in_bytes_per_s": round(row.bytes_per_s.get(str(one["link"]), (0.0, 0.0))[0]),
                "out_bytes_per_s": round(row.bytes_per_s.get(str(one["link"]), (0.0, 0.0))[1]),
            }
            for one in status.get("links") or ()
        ],
        "types": [
            {
                "id": type_id,
                "name": names.type(type_id),
                "groups": one["classes"],
                "subscribers": one["members"],
            }
            for type_id, one in audiences.items()
        ],
    }


def _peer(link: Mapping[str, Any], names: ShownNames) -> str:
    """Return what a peer is called; a broker without a name here is called by whose broker it is."""
    peer, whose = str(link["peer"]), [one for one in link.get("of") or () if one in names.book.keys]
    if peer in names.book.keys or not whose:
        return names.key(peer)
    return f"broker of {' and '.join(map(names.key, whose))}"


def _view(data: Data) -> Sequence[Node]:
    brokers, up = data["brokers"], [one for one in data["brokers"] if one["is_up"]]

    def live(broker: Data, name: str) -> Node:
        return Live(f"{broker['folder']}.{broker['principal']}.{name}", f"{broker[name]}")

    total = sum(one["events_per_s"] for one in up)
    rows = [
        [
            el("span", named(one["name"]), el("br"), one["address"]),
            live(one, "events_per_s"), live(one, "events"),
            live(one, "clients"), live(one, "peers"), live(one, "subscriptions"),
            live(one, "advertisements"), live(one, "refused"), one["serves"] or "",
        ]
        for one in up
    ]  # fmt: skip
    links = [
        [
            named(link["name"]), named(one["name"]), link["role"],
            Live(f"{one['principal']}.{link['link']}.subscriptions", str(link["subscriptions"])),
            Live(f"{one['principal']}.{link['link']}.advertisements", str(link["advertisements"])),
            Live(f"{one['principal']}.{link['link']}.in", _rate(link["in_bytes_per_s"])),
            Live(f"{one['principal']}.{link['link']}.out", _rate(link["out_bytes_per_s"])),
            Live(f"{one['principal']}.{link['link']}.open", f"{link['open_s']} s"),
        ]
        for one in up
        for link in one["links"]
    ]  # fmt: skip
    types = [
        [
            named(kind["name"]), named(one["name"]),
            Live(f"{one['principal']}.{kind['id']}.subscribers", str(kind["subscribers"])),
            Live(f"{one['principal']}.{kind['id']}.groups", str(kind["groups"])),
        ]
        for one in up
        for kind in one["types"]
    ]  # fmt: skip
    down = [el("li", el("b", one["folder"]), f": {one['problem']}") for one in brokers if not one["is_up"]]
    more = len(links) - _LINKS_SHOWN
    return [
        el("p", f"{len(up)} of {len(brokers)} brokers answer; together they take ",
           Live("total", f"{total:.1f}"), " events a second."),
        el("div", el("h2", "Brokers that do not answer"), el("ul", down), class_="alert") if down else "",
        _map(up) if up else "",
        table(
            "Brokers",
            ["broker", "events/s", "events", "clients", "peers", "subscribes", "publishes", "refused",
             "serves"],
            rows, empty="No broker of this machine answers. `maia up` starts the one of an organisation; "
            "`brokers` in the console's settings names the data folders of others.",
        ),
        table("Types", ["type", "broker", "subscribers", "groups with equal Views"], types,
              empty="There are no subscriptions. `maia subscribe TYPE --as NAME` makes one."),
        table("Links", ["peer", "broker", "role", "subscribes", "publishes", "in", "out", "open for"],
              links[:_LINKS_SHOWN],
              empty="There are no links. A program connects with `maia.connect(\"NAME\")`."),
        el("p", f"{more} more links are in the JSON twin of this page.") if more > 0 else "",
    ]  # fmt: skip


# ------------------------------------------------------------ the map
#
# Brokers of this machine are in the middle, each with a line to every peer: those that publish are on
# the left, those that subscribe and brokers elsewhere on the right. A wide line carries much.

_WIDTH, _HIGH, _ROW, _COLUMNS = 210, 46, 62, (4, 395, 786)
_PEERS_SHOWN = 12
_LABEL = 24
_LEVELS = (1, 1_000, 100_000, 10_000_000)


def _map(brokers: Sequence[Data]) -> Element:
    here = {one["principal"]: one for one in brokers}
    sides: tuple[dict[str, Data], dict[str, Data]] = ({}, {})
    left_out = 0
    for link in (link for one in brokers for link in one["links"] if link["peer"] not in here):
        side = sides[0 if link["advertisements"] and link["role"] != "broker" else 1]
        if link["peer"] in side or len(side) < _PEERS_SHOWN:
            side.setdefault(link["peer"], link)
        else:
            left_out += 1
    columns = (list(sides[0].values()), list(brokers), list(sides[1].values()))
    tallest = max(map(len, columns))
    places: dict[tuple[int, str], tuple[int, int]] = {}
    nodes: list[Node] = []
    for number, column in enumerate(columns):
        above = (tallest - len(column)) * _ROW // 2
        for row, one in enumerate(column):
            key = one["principal"] if number == 1 else one["peer"]
            places[number, key] = (_COLUMNS[number], above + row * _ROW + 4)
            nodes.append(_node(one, *places[number, key]))
    lines = [_drawn_link(one, link, places) for one in brokers for link in one["links"]]
    width, height = _COLUMNS[2] + _WIDTH + 4, tallest * _ROW
    return el(
        "figure",
        el("figcaption", "Brokers of this machine are in the middle, publishers on the left, subscribers and "
           "brokers elsewhere on the right. The tables say the same."),
        el("p", f"{left_out} more links are in the table.") if left_out else None,
        el(
            "div",
            el("svg", el("g", [one for one in lines if one is not None]), nodes, class_="map",
               viewBox=f"0 0 {width} {height}", width=width, height=height, role="group", aria_label="Map"),
            class_="scroll", tabindex="0", role="region", aria_label="Map of brokers and links",
        ),
    )  # fmt: skip


def _node(one: Data, x: int, y: int) -> Element:
    is_broker = "links" in one
    name = bare(one["name"])
    short = name if len(name) <= _LABEL else name[: _LABEL - 1] + "…"
    below: list[Node] = [f"{one.get('role')}"]
    if is_broker:
        below = [Live(f"map.{one['principal']}.rate", f"{one['events_per_s']:g}", "tspan"), " events/s"]
    return el(
        "g",
        el("title", one["name"]),
        el("rect", x=x, y=y, width=_WIDTH, height=_HIGH, rx=10),
        el("text", short, x=x + 14, y=y + 20, class_="name"),
        el("text", below, x=x + 14, y=y + 37, class_="rate"),
        class_="here" if is_broker else f"peer {one['role']}",
    )


def _drawn_link(
    broker: Data, link: Data, places: Mapping[tuple[int, str], tuple[int, int]]
) -> Element | None:
    (x, y), key = places[1, broker["principal"]], link["peer"]
    rate = link["in_bytes_per_s"] + link["out_bytes_per_s"]
    level = sum(rate >= one for one in _LEVELS)
    number = next((one for one in (0, 2, 1) if (one, key) in places), None)
    if number is None or (number == 1 and key < broker["principal"]):
        return None  # no room, or drawn from its other end
    ax, ay = places[number, key]
    start, end = (x if number == 0 else x + _WIDTH, y + _HIGH // 2), (ax + _WIDTH, ay + _HIGH // 2)
    bend = (start[0] + end[0]) // 2
    if number:
        end = (ax if number == 2 else ax + _WIDTH, end[1])
        bend = (start[0] + end[0]) // 2 if number == 2 else x + _WIDTH + 60
    middle = ((start[0] + 6 * bend + end[0]) // 8, (start[1] + end[1]) // 2 - 6)
    said = Live(f"map.{broker['principal']}.{link['link']}", _rate(rate), "tspan")
    return el(
        "g",
        el("path", d=f"M {start[0]} {start[1]} C {bend} {start[1]}, {bend} {end[1]}, {end[0]} {end[1]}"),
        el("text", said, x=middle[0], y=middle[1], text_anchor="middle", class_="rate"),
        class_=f"link level-{level}",
    )


def _rate(bytes_per_s: int) -> str:
    for size, unit in ((1_000_000, "MB/s"), (1_000, "kB/s")):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.1f} {unit}"
    return f"{bytes_per_s} B/s"


NETWORK = Page("network", "Network", _data, _view, READ_NETWORK, is_live=True)
