"""*Network*: brokers, links, types and rates, while they change."""

from __future__ import annotations

from collections.abc import Sequence

from maia.console.network import BrokerRow
from maia.console.pages.page import Data, Live, Node, Page, Visit, el, table
from maia.console.principal import READ_NETWORK
from maia.console.rights import Names

_LINKS_SHOWN = 500


async def _data(visit: Visit) -> Data:
    names = await visit.names()
    rows = await visit.network.brokers()
    return {"brokers": [_broker(row, names) for row in rows]}


def _broker(row: BrokerRow, names: Names) -> Data:
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
                "name": names.key(one["peer"]),
                "role": one["role"],
                "subscriptions": one["subscriptions"],
                "advertisements": one["advertisements"],
                "open_s": one["open_s"],
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


def _view(data: Data) -> Sequence[Node]:
    brokers, up = data["brokers"], [one for one in data["brokers"] if one["is_up"]]

    def live(broker: Data, name: str) -> Node:
        return Live(f"{broker['folder']}.{broker['principal']}.{name}", f"{broker[name]}")

    total = sum(one["events_per_s"] for one in up)
    rows = [
        [
            one["name"], one["address"], live(one, "events_per_s"), live(one, "events"),
            live(one, "clients"), live(one, "peers"), live(one, "subscriptions"),
            live(one, "advertisements"), live(one, "certificates"), live(one, "refused"),
        ]
        for one in up
    ]  # fmt: skip
    links = [
        [
            link["name"], one["name"], link["role"],
            Live(f"{one['principal']}.{link['link']}.subscriptions", str(link["subscriptions"])),
            Live(f"{one['principal']}.{link['link']}.advertisements", str(link["advertisements"])),
            Live(f"{one['principal']}.{link['link']}.open", f"{link['open_s']} s"),
        ]
        for one in up
        for link in one["links"]
    ]  # fmt: skip
    types = [
        [
            kind["name"], one["name"],
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
        table(
            "Brokers",
            ["broker", "address", "events/s", "events", "clients", "peers", "subscriptions", "advertisements",
             "certificates", "refused"],
            rows, empty="No broker answers.",
        ),
        table("Types", ["type", "broker", "subscribers", "groups with equal Views"], types,
              empty="Nobody subscribes to anything."),
        table("Links", ["peer", "broker", "role", "subscriptions", "advertisements", "open for"],
              links[:_LINKS_SHOWN], empty="There are no links."),
        el("p", f"{more} more links are in the JSON twin of this page.") if more > 0 else "",
    ]  # fmt: skip


NETWORK = Page("network", "Network", _data, _view, READ_NETWORK, is_live=True)
