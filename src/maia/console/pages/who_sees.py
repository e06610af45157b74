"""*Who sees what*: the people who may read a type, its attributes, and on which certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from maia.console.decisions import DECISIONS_MAX, Sees, may_see, who_sees
from maia.console.network import brokers_in
from maia.console.pages.page import (
    Data,
    Node,
    Page,
    Visit,
    choice,
    el,
    hint,
    moment,
    person,
    prose,
)
from maia.console.principal import READ_NETWORK, READ_REGISTER, REVOKE
from maia.console.rights import ShownNames
from maia.console.works import NoSuchThing
from maia.credentials import Principal
from maia.types import VerifiedType

_MARKS: Mapping[str, tuple[str, str]] = {
    "shown": ("●", "as it was published"),
    "changed": ("◐", "changed by a transformation"),
    "hidden": ("–", "hidden"),
}


async def readers_of(
    visit: Visit, event_type: VerifiedType, *, most: int = DECISIONS_MAX
) -> tuple[list[Sees], int]:
    """Return who sees what of a type, as far as the reader of the page may know."""
    entries = await visit.acting.entries(visit.acts)
    people = [visit.acting.principal]
    if READ_REGISTER in visit.acts:
        owner = event_type.name.owner
        owners = [owner] if isinstance(owner, Principal) else []
        names = await visit.names()
        others = sorted(may_see(event_type, entries), key=lambda one: names.key(str(one)))
        people = list(dict.fromkeys([*owners, *others, *people]))
    cache = visit.acting.verified
    return await asyncio.to_thread(who_sees, event_type, entries, people, visit.now, cache=cache, most=most)


async def _data(visit: Visit) -> Data:
    names, entries = await visit.names(), await visit.acting.entries(visit.acts)
    types = names.by_label
    asked = visit.asked("type") or next(iter(types), "")
    data: dict[str, object] = {
        "type": asked,
        "types": list(types),
        "is_register": READ_REGISTER in visit.acts,
        "may_revoke": REVOKE in visit.acts,
        "attributes": [],
        "people": [],
        "left_out": 0,
    }
    if not asked:
        return data
    if asked not in types:
        raise NoSuchThing("you know no type of this name")
    found, left_out = await readers_of(visit, types[asked])
    brokers = brokers_in(await visit.network.brokers()) if READ_NETWORK in visit.acts else frozenset[str]()
    domain = visit.held.profile.settings.domain
    revocable = {one.signed.id.hex() for one in entries if str(one.signed.certificate.issuer) == domain}
    known = [str(one.as_of) for one in entries if one.as_of is not None]
    return data | {
        "owner": str(types[asked].name.owner),
        "owner_name": names.key(str(types[asked].name.owner)),
        "attributes": [one.name for one in types[asked].attributes],
        "people": [_row(one, names, revocable, types[asked], brokers) for one in found],
        "left_out": left_out,
        "as_of": max(known, default=None),
        "unconfirmed": sum(one.problem == "unconfirmed" for one in entries),
    }


def _row(
    one: Sees, names: ShownNames, revocable: set[str], event_type: VerifiedType, brokers: frozenset[str]
) -> Data:
    chains = [list(chain) for chain in one.chains]
    return {
        "principal": str(one.principal),
        "name": names.key(str(one.principal)),
        "is_broker": str(one.principal) in brokers,
        "is_owner": one.principal == event_type.name.owner,
        "attributes": dict(one.attributes),
        "where": [text for text in one.windows if text != "true"],
        "is_everywhere": "true" in one.windows,
        "until": one.until,
        "is_conditional": one.is_conditional,
        "chains": chains,
        "revoke": [next((id_ for id_ in reversed(chain) if id_ in revocable), None) for chain in chains],
    }


def _view(data: Data) -> Sequence[Node]:
    if not data["types"]:
        return [hint("You know no type yet. `maia type define NAME attribute:kind …` defines one, and "
                     "`maia org join FILE.grant` brings those that were granted to you.")]  # fmt: skip
    form = el(
        "form", choice("Type", "type", data["type"], data["types"]), el("button", "Show"),
        action="/who-sees", method="get", role="search",
    )  # fmt: skip
    return [form, _matrix(data), *_notes(data)]


def _matrix(data: Data) -> Node:
    if not data["people"]:
        return hint("This type has no reader yet that you may know of. `maia grant ORGANISATION.pub --may "
                    f"subscribe:{data['type']}` lets another organisation read it, `maia member add NAME "
                    f"--may subscribe:{data['type']}` a member.")  # fmt: skip
    heads: list[Node] = [
        el("th", el("span", one), scope="col", class_="attribute") for one in data["attributes"]
    ]
    caption = f"Who sees what of {data['type']}"
    return el(
        "div",
        el(
            "table",
            el("caption", caption),
            el("thead", el("tr", el("th", "who", scope="col"), heads,
                           [el("th", one, scope="col") for one in ("where", "until", "by")])),
            el("tbody", [_person(one, data) for one in data["people"]]),
            class_="matrix",
        ),
        class_="scroll", tabindex="0", role="region", aria_label=caption,
    )  # fmt: skip


def _person(one: Data, data: Data) -> Node:
    cells = []
    for name in data["attributes"]:
        mark, meaning = _MARKS[one["attributes"][name]]
        said = f"{name}: {meaning}"
        cells.append(
            el("td", el("span", mark, role="img", aria_label=said, title=said),
               class_=f"mark {one['attributes'][name]}")
        )  # fmt: skip
    where: list[Node] = [el("code", text) for text in one["where"]]
    if one["is_conditional"]:
        where = ["a condition is asked at the moment of use"]
    elif one["is_everywhere"]:
        where = ["every event"]
    return el(
        "tr",
        el("th", person(one["principal"], one["name"]),
           [" ", el("span", "broker", class_="state")] if one["is_broker"] else None, scope="row"),
        cells,
        el("td", where, class_="where"),
        el("td", "while it owns the type" if one["is_owner"] else moment(one["until"])),
        el("td", _ways(one, data), class_="ways"),
    )  # fmt: skip


def _ways(one: Data, data: Data) -> list[Node]:
    if one["is_owner"]:
        return ["its owner"]
    found: list[Node] = []
    for chain, revocable in zip(one["chains"], one["revoke"], strict=True):
        steps = f"{len(chain)} certificate{'s' * (len(chain) > 1)}"
        found.append(el("a", "chain", href=f"/certificate?id={chain[-1]}", title=steps,
                        aria_label=f"chain of {one['name']}"))  # fmt: skip
        if data["may_revoke"] and revocable is not None:
            found.append(el("a", "revoke", href=f"/revoke?id={revocable}", class_="danger",
                            aria_label=f"revoke the right of {one['name']}"))  # fmt: skip
    return found


def _notes(data: Data) -> list[Node]:
    legend = el("p", [el("span", el("span", mark, class_=f"mark {word}"), f" {meaning}")
                      for word, (mark, meaning) in _MARKS.items()], class_="legend")  # fmt: skip
    known = data.get("as_of")
    stated = ["Validity as of ", moment(known), " UTC."] if known else ["No validity list was needed."]
    return [
        legend,
        el("p", stated, f" {data['unconfirmed']} are unconfirmed." if data["unconfirmed"] else None,
           " ", el("a", "Certificates about this type",
                   href="/rights?" + urlencode({"type": data["type"]})), ".", class_="as-of"),
        el("p", f"{data['left_out']} people were too many to ask about.", role="alert")
        if data["left_out"] else "",
        "" if data["is_register"] else
        el("p", prose("You see your own row: a right to `subscribe /admin/register` shows all of them."),
           class_="empty"),
    ]  # fmt: skip


WHO_SEES = Page("who-sees", "Who sees what", _data, _view)
