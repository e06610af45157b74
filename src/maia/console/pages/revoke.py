"""*Revoke*: who would lose what; then do it, and watch it fall at each broker, with the measured delay."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Final

from maia.api import endpoints
from maia.api.requests import Revocation
from maia.console.network import Network
from maia.console.pages.page import (
    Data,
    Live,
    Node,
    Page,
    Visit,
    badge,
    el,
    facts,
    field_of,
    moment,
    named,
    table,
)
from maia.console.pages.rights import found_entry, preview_record, preview_view
from maia.console.principal import READ_NETWORK
from maia.console.principal import REVOKE as MAY_REVOKE
from maia.console.rights import record_of
from maia.credentials import Principal, certificate_to_bytes
from maia.errors import MaiaError

WATCH_S: Final = 30.0
_LOOK_S: Final = 0.02


@dataclass(slots=True)
class _Fall:
    """What the principals that lose a right had open at one broker before, and when less of it was left."""

    before: int
    left: int
    after_s: float | None = None


@dataclass(slots=True)
class _Watch:
    """One revocation, from the moment at which it was asked for."""

    by: Principal
    certificate: Data
    principals: frozenset[str]
    started: float
    answered_s: float = 0.0
    is_published: bool | None = None
    ids: tuple[str, ...] = ()
    falls: dict[Path, _Fall] = field(default_factory=dict)


async def revoke(visit: Visit, form: Mapping[str, str]) -> str:
    """Revoke a certificate as the principal that is signed in; return the id of the watch."""
    visit = replace(visit, query=form)
    entry, entries = await found_entry(visit)
    losses = (await preview_record(visit, entry, entries))["losses"]
    lose = frozenset(one["principal"] for one in losses)
    rows = await visit.network.brokers(fresh_s=0) if READ_NETWORK in visit.acts else []
    body = Revocation([], form.get("reason", "")[:200], [certificate_to_bytes(entry.signed)])
    record = record_of(entry, await visit.names(), visit.now)
    watch = _Watch(visit.acting.principal, record, lose, monotonic())
    watch.falls = {row.folder: _Fall(held, held) for row in rows if (held := row.entries_of(lose))}
    falling = visit.works.beside(_follow(watch, visit.network))
    try:
        done = await visit.acting.ask(endpoints.REVOKE, body)
    except MaiaError:
        falling.cancel()
        raise
    watch.answered_s = monotonic() - watch.started
    watch.ids = tuple(done.ids)
    visit.acting.forget()
    return visit.works.keep(watch)


async def _follow(watch: _Watch, network: Network) -> None:
    """Ask brokers until all that depended on the certificate has ended there, or for long enough."""
    while any(one.after_s is None for one in watch.falls.values()):
        since = monotonic() - watch.started
        if since > WATCH_S:
            return
        for row in await network.brokers(fresh_s=_LOOK_S):
            fall = watch.falls.get(row.folder)
            if fall is not None and row.status is not None:
                fall.left = row.entries_of(watch.principals)
                if fall.left < fall.before and fall.after_s is None:
                    fall.after_s = monotonic() - watch.started
        await asyncio.sleep(_LOOK_S)


# ------------------------------------------------------------ before


async def _data(visit: Visit) -> Data:
    if not visit.asked("id"):
        return {"certificate": None, "preview": None, "suggest": await visit.suggestions()}
    entry, entries = await found_entry(visit)
    return {
        "certificate": record_of(entry, await visit.names(), visit.now),
        "preview": await preview_record(visit, entry, entries),
        "suggest": await visit.suggestions(),
    }


def _view(data: Data) -> Sequence[Node]:
    one = data["certificate"]
    if one is None:
        return [
            el("p", "Choose a person under ", el("a", "Who sees what", href="/who-sees"),
               ", a certificate under ", el("a", "Rights", href="/rights?state=valid"),
               ", or begin to write a name here.", class_="empty"),
            el("form", field_of("Certificate", "id", "", data["suggest"]["certificate"], required=True,
                                minlength=8, placeholder="its id"),
               el("button", "Preview"), action="/revoke", method="get"),
        ]  # fmt: skip
    return [
        facts([
            ("Certificate", el("a", one["id"], href=f"/certificate?id={one['id']}")),
            ("From", named(one["issuer_name"])),
            ("To", named(one["subject_name"])),
            ("May", ", ".join(one["actions"])),
            ("What", named(one["resource"])),
            ("State", badge(one["state"])),
            ("As of", moment(one["as_of"]) if one["as_of"] else None),
        ]),
        *preview_view(data["preview"]),
        el(
            "form",
            el("input", type="hidden", name="id", value=one["id"]),
            field_of("Reason, for the audit", "reason", "", data["suggest"]["reason"], maxlength=200),
            el("button", "Revoke it now", class_="danger"),
            el("p", "A revocation cannot be taken back: a right is granted anew by a new certificate."),
            action="/revoke", method="post",
        ) if one["state"] != "revoked" else el("p", "It has been revoked."),
    ]  # fmt: skip


REVOKE = Page("revoke", "Revoke", _data, _view, MAY_REVOKE)


# ------------------------------------------------------------ after


async def _fallen(visit: Visit) -> Data:
    watch = visit.works.found(_Watch, visit.asked("id"), visit.acting.principal)
    return {
        "certificate": watch.certificate,
        "revoked": list(watch.ids),
        "answered_s": round(watch.answered_s, 3),
        "brokers": [
            {"broker": folder.name, "before": one.before, "left": one.left,
             "after_s": None if one.after_s is None else round(one.after_s, 3)}
            for folder, one in watch.falls.items()
        ],
    }  # fmt: skip


def _fallen_view(data: Data) -> Sequence[Node]:
    def delay(one: Data) -> Node:
        text = "still open" if one["after_s"] is None else f"{one['after_s'] * 1000:.0f} ms"
        return Live(f"{one['broker']}.after", text)

    rows = [
        [one["broker"], str(one["before"]), Live(f"{one['broker']}.left", str(one["left"])), delay(one)]
        for one in data["brokers"]
    ]
    certificate = data["certificate"]
    return [
        el("p", "Revoked: ", el("a", certificate["id"][:12], href=f"/certificate?id={certificate['id']}"),
           f", with {len(data['revoked'])} certificates in all. The domain answered after "
           f"{data['answered_s'] * 1000:.0f} ms."),
        table("Where it fell", ["broker", "entries open before", "left", "the first ended after"], rows,
              empty="No broker that you may look at had anything open that depended on it: its end is in the "
              "domain's next list."),
    ]  # fmt: skip


REVOCATION = Page(
    "revocation", "Revocation", _fallen, _fallen_view, MAY_REVOKE, is_live=True, is_in_menu=False
)
