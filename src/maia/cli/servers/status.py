"""`maia status`: what is connected to a broker or gateway on this machine, and what is registered there?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from maia.cli.command import opt
from maia.cli.organisation import ORG, opened
from maia.cli.output import Answer, book, plain, row, several

if TYPE_CHECKING:
    from maia.organisation import Organisation


def status(
    data: Path | None = opt("The broker's data folder."),
    config: Path | None = opt("The broker's configuration, which names the folder.", "--config", "-c"),
    org: Path | None = ORG,
) -> Answer:
    """Show the links, tables and leases of a broker that runs on this machine.

    In the folder of an organisation, also which rights end soon, so that `maia renew` is due.

    Examples:
        maia status --org hospital
        maia status --data met-data
        maia status --config broker.toml --json
    """
    import os

    from maia.net.status_endpoint import DOOR_FILE, NoStatus, fetch_status, process_folders, read_door

    folder = _folder(data, config, org)
    ends = Answer() if data or config or _DATA in os.environ else _ends(opened(org))
    parts = [] if (folder / DOOR_FILE).exists() else process_folders(folder)
    if not parts:
        found = fetch_status(read_door(folder))
        return Answer(row("", _lines(found), **found), ends)
    records: dict[str, dict[str, object]] = {}
    lines: list[str] = []
    for part in parts:
        try:
            records[part.name] = fetch_status(read_door(part))
            lines += [f"{part.name}:", *_lines(records[part.name]), ""]
        except NoStatus as problem:
            records[part.name] = {"problem": problem.message}
            lines += [f"{part.name}:", problem.message, ""]
    return Answer(row("", lines[:-1], processes=records), ends)


def _folder(data: Path | None, config: Path | None, org: Path | None) -> Path:
    import os

    from maia.broker.server.config import read_config

    if data is not None:
        return data
    if config is None and org is None and _DATA in os.environ:
        return Path(os.environ[_DATA])
    if config is None:
        config = opened(org).folder / "broker.toml"
    settings = read_config(config, flags={}, environment=os.environ)
    if settings.data is None:
        raise settings.wrong("data", "is not set, so the broker leaves no token to ask with")
    return settings.data


def _ends(ours: Organisation) -> Answer:
    """Return which rights end soon, of those that the organisation issued or was granted."""
    from maia.cli.trust.grants import shown_subject

    made = []
    for one in ours.ends():
        said = one.signed.certificate
        whom = shown_subject(said.subject)
        how = "`maia renew`" if said.issuer == ours.principal else f"ask {said.issuer}"
        line = f"{one.at}: {one.right} of {whom} ({how})"
        made.append(row("ends", line, **plain({**one.fields(), "subject": whom})))
    return several("ends", made)


_DATA: Final = "MAIA_BROKER_DATA"
_REFUSALS_SHOWN: Final = 5
_HEAD: Final = ("principal", "network", "address", "serves")
_TABLES: Final = (
    "clients", "peers", "links_waiting", "subscriptions", "advertisements", "types", "certificates",
    "requests_remembered",
    # of a gateway
    "connections", "waiting", "sessions", "groups", "retainers", "mqtt_published", "mqtt_delivered",
    "http_accounts", "http_streams", "http_published", "http_delivered",
)  # fmt: skip


# Any, here and below: what a server says of itself; a part that it does not have is left out.
def _lines(found: Mapping[str, Any]) -> list[str]:
    types = found.get("type_names") or {}
    said = [(name, found[name]) for name in (*_HEAD, *_TABLES) if name in found]
    said += [("not kept", found["unkept"])] if found.get("unkept") else []
    said += _connector(found.get("tasks") or {})
    said += _log(found["log"]) if found.get("log") else []
    said += [_link(one) for one in found.get("links") or ()]
    said += [_refusal(one, types) for one in (found.get("refusals") or ())[:_REFUSALS_SHOWN]]
    said += _aggregation(found.get("aggregation") or {}, types)
    said += _overlay(found["overlay"]) if found.get("overlay") else []
    said += _rendezvous(found.get("rendezvous") or {}, types)
    said += _mesh(found["mesh"]) if found.get("mesh") else []
    return _with_brokers([f"{name.replace('_', ' '):<20} {text}" for name, text in said])


def _with_brokers(lines: list[str]) -> list[str]:
    """Return lines in which a broker that the user knows by name is its key, not the id that it routes by."""
    import re

    from maia.routing.overlay.table import node_id_of_key, node_id_text

    nodes = {node_id_text(node_id_of_key(one.principal.key)): key for key, one in book().keys.items()}
    return [re.sub(r"\b[0-9a-f]{32}\b", lambda at: nodes.get(at[0], at[0]), one) for one in lines]


_Said: TypeAlias = tuple[str, object]


def _connector(tasks: Mapping[str, Any]) -> Iterator[_Said]:
    """Yield what the stores and releases of a connected database have done since it started."""
    for name, state in tasks.items():
        problem = state.get("problem")
        why = f": {problem['message']} [{problem['code']}]" if problem else ""
        yield name, f"{'serving' if state.get('serving') else 'waiting'}, {state.get('events')} events{why}"


def _log(log: Mapping[str, Any]) -> Iterator[_Said]:
    """Yield the position of the event log, and of its slowest reader."""
    if log.get("problem"):
        yield "not recorded", log["problem"]
    yield "event log", "position {position}, {unsafe} on the way, {bytes} bytes".format(**{"bytes": 0, **log})
    if log.get("missing_events"):
        yield (
            "",
            "{missing_events} publications are missing by their numbers: other brokers are asked".format(
                **log
            ),
        )
    readers = "{cursors} durable, {cursors_attached} of them here, the farthest {farthest_behind} behind"
    yield "", readers.format(**log)


def _link(link: Mapping[str, Any]) -> _Said:
    ends = link.get("next_lease_ends")
    crosses = {"views": "a border", "events": "an open border: events cross it as they were published"}
    parts = [
        " of ".join([f"{link.get('role')} {link.get('peer')}", *(link.get("of") or ())]),
        crosses.get(link.get("border") or "", ""),
        f"at {link.get('address')}" if link.get("address") else "",
        f"{link.get('subscriptions')} subscriptions, {link.get('advertisements')} advertisements",
        f"open {link.get('open_s')} s",
        f"next lease ends {ends}" if ends else "",
    ]
    return f"link {link.get('link')}", ", ".join(part for part in parts if part)


def _refusal(one: Mapping[str, Any], types: Mapping[str, str]) -> _Said:
    """Return a refusal; the console's *Why* explains its id."""
    asked = f"{one.get('asked') or ''} {types.get(one.get('type') or '', '')}".strip()
    text = f"{one.get('id')} {one.get('code')}: {one.get('principal')} {asked}"
    return "refused", f"{text}, {one.get('times')} times, last {one.get('last')}"


def _aggregation(found: Mapping[str, Any], types: Mapping[str, str]) -> Iterator[_Said]:
    """Yield of each merged type its budget and size, and of each neighbour the spill in both directions."""
    for type_id, one in found.get("types", {}).items():
        if one.get("is_merged"):
            sizes = f"{one.get('announced_bytes')} bytes announced, {one.get('budget_bytes')} in the budget"
            merged = f"{one.get('wanted')} filters merged into {one.get('announced')}"
            yield f"aggregate {types.get(type_id, str(type_id)[:10])}", f"{merged}, {sizes}"
    for peer, one in found.get("neighbours", {}).items():
        if one.get("spilled_bytes") or one.get("reported_bytes"):
            here = f"{one.get('spilled_bytes')} of {one.get('arrived_bytes')} bytes arrived for nothing"
            yield "spill", f"{peer}: {here}, {one.get('reported_bytes')} reported back"


def _overlay(found: Mapping[str, Any]) -> Iterator[_Said]:
    joined, near = "joined" if found.get("is_joined") else "still joining", len(found.get("leaves") or ())
    yield "overlay", f"{joined}, {found.get('known')} brokers known, {near} of them near by id"


def _rendezvous(routes: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[_Said]:
    """Yield for each type its next hop, and what is wanted behind each neighbour."""
    for type_id, one in routes.items():
        towards = "its rendezvous is here" if one.get("is_here") else f"rendezvous by {one.get('parent')}"
        yield f"type {names.get(type_id, str(type_id)[:12])}", towards
        for hop, wanted in one.get("hops", {}).items():
            yield "", f"{hop}: {wanted.get('wanted')} filters{', offers' if wanted.get('offers') else ''}"


def _mesh(mesh: Mapping[str, Any]) -> Iterator[_Said]:
    """Yield the neighbours of a router of a mesh, and the way to each other router."""
    missing = mesh.get("missing")
    away = f", no answer at {' '.join(missing)}" if missing else ""
    yield "mesh", f"{len(mesh.get('neighbours') or [])} neighbours{away}"
    for name, router in (mesh.get("routers") or {}).items():
        via = " ".join(map(str, router.get("via") or [])) or "no way"
        yield "router", f"{name} by {via}, {router.get('parts')} parts"
