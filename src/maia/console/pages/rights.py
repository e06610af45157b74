"""*Rights*: who granted what to whom; a certificate, the way to it and what depends on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from maia.console.decisions import preview
from maia.console.pages.page import (
    Data,
    Element,
    Node,
    Page,
    Visit,
    badge,
    bare,
    choice,
    el,
    facts,
    field_of,
    moment,
    named,
    person,
    table,
)
from maia.console.principal import REVOKE, RegisterEntry
from maia.console.rights import STATES, AskedInConsole, chain_above, filtered, graph_of, record_of
from maia.console.works import NoSuchThing

ROWS: Final = 100
_WIDTH, _HEIGHT, _ACROSS, _DOWN = 220, 30, 320, 44
_LABEL: Final = 28


async def _data(visit: Visit) -> Data:
    names, entries = await visit.names(), await visit.acting.entries(visit.acts)
    asked = AskedInConsole(*(visit.asked(one) for one in ("type", "person", "attribute", "state")))
    found = filtered(entries, asked, names, visit.now)
    first = max(0, int(visit.asked("from", 6))) if visit.asked("from", 6).isdecimal() else 0
    graph = graph_of(found)
    return {
        "asked": {
            "type": asked.type,
            "person": asked.person,
            "attribute": asked.attribute,
            "state": asked.state,
        },
        "suggest": await visit.suggestions(),
        "of": len(entries),
        "found": len(found),
        "from": first,
        "certificates": [record_of(one, names, visit.now) for one in found[first : first + ROWS]],
        "as_of": max((str(one.as_of) for one in found if one.as_of is not None), default=None),
        "graph": {
            "layers": [
                [{"principal": one, "name": names.key(one)} for one in layer] for layer in graph.layers
            ],
            "edges": [
                {"issuer": issuer, "subject": subject, "certificates": count}
                for (issuer, subject), count in graph.edges.items()
            ],
            "left_out": graph.left_out,
        },
    }


def _view(data: Data) -> Sequence[Node]:
    asked, first, found, offered = data["asked"], data["from"], data["found"], data["suggest"]
    pages = []
    for label, start in (("Earlier", first - ROWS), ("More", first + ROWS)):
        if 0 <= start < found:
            pages.append(el("a", label, href="/rights?" + urlencode({**asked, "from": start})))
    return [
        el(
            "form",
            field_of("Type", "type", asked["type"], offered["type"]),
            field_of("Person", "person", asked["person"], offered["person"], title="A name, or a whole key"),
            field_of("Attribute", "attribute", asked["attribute"], offered["attribute"]),
            choice("State", "state", asked["state"], ("", *STATES)),
            el("button", "Filter"),
            action="/rights", method="get", role="search",
        ),
        el("p", f"{found} of {data['of']} certificates that you may read.",
           [" Validity as of ", moment(data["as_of"]), " UTC."] if data["as_of"] else None, class_="as-of"),
        _drawing(data["graph"]) if found else "",
        table(
            "Certificates",
            ["certificate", "state", "from", "to", "may", "what", "attributes", "where", "until"],
            [_row(one) for one in data["certificates"]],
            empty="No certificate fits: leave a field empty to see more." if data["of"] else
            "You hold no certificate. `maia member add NAME --may subscribe:TYPE` or `maia grant` gives one.",
        ),
        el("nav", pages, aria_label="Pages of certificates") if pages else "",
    ]  # fmt: skip


def _row(one: Data) -> list[Node]:
    attributes = one.get("attributes")
    return [
        _link(one),
        badge(one["state"]),
        person(one["issuer"], one["issuer_name"]),
        person(one["subject"], one["subject_name"]),
        ", ".join(one["actions"]) + (" and pass it on" if one.get("may_delegate") else ""),
        named(one["resource"]),
        "all" if attributes is None else ", ".join(attributes),
        el("code", one["where"]) if one.get("where") else "",
        moment(one["not_after"]),
    ]


def _link(one: Data) -> Element:
    return el("a", one["id"][:12], href=f"/certificate?id={one['id']}")


def _drawing(graph: Data) -> Element:
    """Draw principals in columns, owners left, with a line from each that granted to the one that got it."""
    places: dict[str, tuple[int, int]] = {}
    nodes: list[Node] = []
    for across, layer in enumerate(graph["layers"]):
        for down, one in enumerate(layer):
            x, y = across * _ACROSS + 4, down * _DOWN + 4
            places[one["principal"]] = (x, y)
            name = bare(one["name"])
            short = name if len(name) <= _LABEL else name[: _LABEL - 1] + "…"
            nodes.append(
                el(
                    "a",
                    el("title", one["name"]),
                    el("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=6),
                    el("text", short, x=x + 10, y=y + 20),
                    href="/rights?" + urlencode({"person": one["principal"]}),
                )
            )
    lines = [_line(edge, places) for edge in graph["edges"]]
    width = max((x for x, _ in places.values()), default=0) + _WIDTH + 8
    height = max((y for _, y in places.values()), default=0) + _HEIGHT + 8
    note = (
        f"{graph['left_out']} principals have no room here; a filter shows them."
        if graph["left_out"]
        else None
    )
    return el(
        "figure",
        el("figcaption", "Who granted to whom: owners are on the left. The table below says the same."),
        el("p", note) if note else None,
        el(
            "div",
            el("svg", el("g", lines, class_="edges"), nodes, viewBox=f"0 0 {width} {height}",
               width=width, height=height, role="group", aria_label="Graph of grants"),
            class_="scroll", tabindex="0", role="region", aria_label="Graph of grants",
        ),
    )  # fmt: skip


def _line(edge: Data, places: Mapping[str, tuple[int, int]]) -> Element:
    (x1, y1), (x2, y2) = places[edge["issuer"]], places[edge["subject"]]
    ends = (x1 + _WIDTH, y1 + _HEIGHT // 2), (x2, y2 + _HEIGHT // 2)
    bend = (ends[0][0] + ends[1][0]) // 2
    if x2 <= x1:  # back, or within one column: around the right
        ends = ends[0], (x2 + _WIDTH, y2 + _HEIGHT // 2)
        bend = max(x1, x2) + _WIDTH + 40
    (ax, ay), (bx, by) = ends
    return el(
        "path",
        d=f"M {ax} {ay} C {bend} {ay}, {bend} {by}, {bx} {by}",
        stroke_width=min(1 + edge["certificates"], 6),
    )


RIGHTS = Page("rights", "Rights", _data, _view)


# ------------------------------------------------------------ one certificate


async def found_entry(visit: Visit) -> tuple[RegisterEntry, list[RegisterEntry]]:
    """Return the certificate that the query names, if its reader may see it, and all others."""
    wanted, entries = visit.asked("id", 64), await visit.acting.entries(visit.acts)
    fitting = [one for one in entries if len(wanted) >= 8 and one.signed.id.hex().startswith(wanted)]
    if len(fitting) != 1:
        raise NoSuchThing("there is no certificate of this id that you may read")
    return fitting[0], entries


async def preview_record(visit: Visit, entry: RegisterEntry, entries: list[RegisterEntry]) -> Data:
    """Return who would lose what with a certificate, as the kernel decides without it."""
    import asyncio

    names = await visit.names()
    networks = [] if visit.held.profile.settings.network is None else [visit.held.profile.network()]
    found = await asyncio.to_thread(preview, entry, entries, list(names.types.values()), networks, visit.now)
    by_id = {one.signed.id: one for one in entries}
    return {
        "losses": [
            {
                "principal": str(one.principal),
                "name": names.key(str(one.principal)),
                "action": one.action,
                "resource": one.resource,
                "is_whole": one.is_whole,
                "attributes": list(one.attributes),
            }
            for one in found.losses
        ],
        "falls": [record_of(by_id[one], names, visit.now) for one in found.falls],
        "left_out": found.left_out,
    }


def preview_view(found: Data) -> list[Node]:
    """Draw who would lose what."""
    losses = [
        [
            person(one["principal"], one["name"]),
            one["action"],
            one["resource"],
            "everything" if one["is_whole"] else "a part",
            ", ".join(one["attributes"]),
        ]
        for one in found["losses"]
    ]
    falls = [
        [_link(one), named(one["issuer_name"]), named(one["subject_name"]), ", ".join(one["actions"]),
         named(one["resource"])]
        for one in found["falls"]
    ]  # fmt: skip
    return [
        table("Rights that depend on it", ["who", "may", "what", "loses", "attributes"], losses,
              empty="No right at this moment depends on it."),
        table("Certificates that would grant nothing without it",
              ["certificate", "from", "to", "may", "what"], falls, empty="None."),
        el("p", f"{found['left_out']} questions were too many to ask.") if found["left_out"] else "",
    ]  # fmt: skip


async def _certificate(visit: Visit) -> Data:
    entry, entries = await found_entry(visit)
    names = await visit.names()
    above = chain_above(entry, entries, visit.now)
    return {
        "certificate": record_of(entry, names, visit.now),
        "chain": [record_of(one, names, visit.now) for one in above],
        "depends": await preview_record(visit, entry, entries),
        "may_revoke": REVOKE in visit.acts,
    }


def _certificate_view(data: Data) -> Sequence[Node]:
    one = data["certificate"]
    chain = [
        [_link(up), badge(up["state"]), named(up["issuer_name"]), named(up["subject_name"]),
         moment(up["not_after"])]
        for up in (*data["chain"], one)
    ]  # fmt: skip
    revoke = None
    if data["may_revoke"] and one["state"] != "revoked":
        revoke = el(
            "p", el("a", "Revoke this certificate …", href=f"/revoke?id={one['id']}", class_="button")
        )
    attributes = one.get("attributes")
    return [
        facts([
            ("Id", el("code", one["id"])),
            ("From", person(one["issuer"], one["issuer_name"])),
            ("To", person(one["subject"], one["subject_name"])),
            ("May", ", ".join(one["actions"])),
            ("What", named(one["resource"])),
            ("Attributes", "all" if attributes is None else ", ".join(attributes)),
            ("Where", one.get("where")),
            ("Condition", one.get("condition")),
            ("Transforms", "; ".join(one.get("transforms") or ())),
            ("May pass it on", "yes" if one.get("may_delegate") else "no"),
            ("Valid from", moment(one["not_before"])),
            ("Valid until", moment(one["not_after"])),
            ("Tested by", named("; ".join(one["tests"]))),
            ("State", badge(one["state"])),
            ("As of", moment(one["as_of"]) if one["as_of"] else None),
            ("Revoked at", one["revoked_at"]),
            ("Reason", one["reason"]),
            ("Rule", one["rule"]),
        ]),
        table("The way from the owner to it", ["certificate", "state", "from", "to", "until"], chain,
              empty=""),
        *preview_view(data["depends"]),
        revoke or "",
    ]  # fmt: skip


CERTIFICATE = Page("certificate", "Certificate", _certificate, _certificate_view, is_in_menu=False)
