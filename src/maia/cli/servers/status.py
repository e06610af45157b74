"""`maia status`: what is connected to a broker or gateway on this machine, and what is registered there?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import typer

from maia.cli.command import opt
from maia.cli.output import answer, book


def status(
    data: Path | None = opt("The broker's data folder."),
    config: Path | None = opt("The broker's configuration, which names the folder.", "--config", "-c"),
) -> None:
    """Show the links, tables and leases of a broker that runs on this machine.

    Examples:
        maia status --data met-data
        maia status --config broker.toml --json
    """
    from maia.broker.server.processes import process_folders
    from maia.net.status_endpoint import DOOR_FILE, NoStatus, fetch_status, read_door

    folder = _folder(data, config)
    parts = [] if (folder / DOOR_FILE).exists() else process_folders(folder)
    if not parts:
        found = fetch_status(read_door(folder))
        answer(list(_lines(found)), found, as_json=as_json)
        return
    records: dict[str, dict[str, object]] = {}
    lines: list[str] = []
    for part in parts:
        try:
            records[part.name] = fetch_status(read_door(part))
            lines += [f"{part.name}:", *_lines(records[part.name]), ""]
        except NoStatus as problem:
            records[part.name] = {"problem": problem.message}
            lines += [f"{part.name}:", problem.message, ""]
    answer(lines[:-1], {"processes": records}, as_json=as_json)


def _folder(data: Path | None, config: Path | None) -> Path:
    import os

    from maia.broker.server.config import read_config

    if data is not None:
        return data
    if config is None and "MAIA_BROKER_DATA" in os.environ:
        return Path(os.environ["MAIA_BROKER_DATA"])
    if config is None:
        raise typer.BadParameter("say --data FOLDER or --config FILE")
    settings = read_config(config, flags={}, environment=os.environ)
    if settings.data is None:
        raise settings.wrong("data", "is not set, so the broker leaves no token to ask with")
    return settings.data


_REFUSALS_SHOWN: Final = 5
_HEAD: Final = ("principal", "network", "address")
_TABLES: Final = (
    "clients", "peers", "links_waiting", "subscriptions", "advertisements", "types", "certificates",
    "requests_remembered",
    # of a gateway
    "connections", "waiting", "sessions", "groups", "retainers", "mqtt_published", "mqtt_delivered",
    "http_accounts", "http_streams", "http_published", "http_delivered",
)  # fmt: skip


def _lines(found: Mapping[str, object]) -> list[str]:
    lines = [f"{name:<20} {found[name]}" for name in _HEAD if name in found]
    lines += [f"{name.replace('_', ' '):<20} {found[name]}" for name in _TABLES if name in found]
    lines += _connector_lines(found)
    lines += _log_lines(found.get("log"))
    links = found.get("links")
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict):
            lines.append(_link_line(link))
    names = found.get("type_names")
    types = names if isinstance(names, dict) else {}
    lines += _refusal_lines(found.get("refusals"), types)
    lines += _aggregation_lines(found.get("aggregation"), types)
    lines += _overlay_lines(found.get("overlay"))
    lines += _rendezvous_lines(found.get("rendezvous"), types)
    lines += _mesh_lines(found.get("mesh"))
    return _with_brokers(lines)


def _with_brokers(lines: list[str]) -> list[str]:
    """Return lines in which a broker that the user knows by name is its key, not the id that it routes by."""
    import re

    from maia.routing.overlay.table import node_id_of_key, node_id_text

    nodes = {node_id_text(node_id_of_key(one.principal.key)): key for key, one in book().keys.items()}
    return [re.sub(r"\b[0-9a-f]{32}\b", lambda at: nodes.get(at[0], at[0]), one) for one in lines]


def _connector_lines(found: Mapping[str, object]) -> list[str]:
    """Return what the stores and releases of a connected database have done since it started."""
    lines: list[str] = []
    tasks = found.get("tasks")
    for name, state in tasks.items() if isinstance(tasks, dict) else ():
        problem = state.get("problem")
        why = f": {problem['message']} [{problem['code']}]" if problem else ""
        now = "serving" if state.get("serving") else "waiting"
        lines.append(f"{name:<20} {now}, {state.get('events')} events{why}")
    return lines


def _log_lines(log: object) -> list[str]:
    """Return the position of the event log, and of its slowest reader."""
    if not isinstance(log, dict):
        return []
    safe = f"position {log.get('position')}, {log.get('unsafe')} on the way, {log.get('bytes', 0)} bytes"
    readers = f"{log.get('cursors')} durable, {log.get('cursors_attached')} of them here"
    behind = f"the farthest {log.get('farthest_behind')} behind"
    return [f"{'event log':<20} {safe}", f"{'':<20} {readers}, {behind}"]


def _aggregation_lines(aggregation: object, types: Mapping[str, str]) -> list[str]:
    """Return of each merged type its budget and size, and of each neighbour the spill in both directions."""
    if not isinstance(aggregation, dict):
        return []
    lines = []
    for type_id, one in aggregation.get("types", {}).items():
        if one.get("is_merged"):
            sizes = f"{one.get('announced_bytes')} bytes announced, {one.get('budget_bytes')} in the budget"
            merged = f"{one.get('wanted')} filters merged into {one.get('announced')}"
            lines.append(f"{f'aggregate {types.get(type_id, str(type_id)[:10])}':<20} {merged}, {sizes}")
    for peer, one in aggregation.get("neighbours", {}).items():
        if one.get("spilled_bytes") or one.get("reported_bytes"):
            here = f"{one.get('spilled_bytes')} of {one.get('arrived_bytes')} bytes arrived for nothing"
            lines.append(f"{'spill':<20} {peer}: {here}, {one.get('reported_bytes')} reported back")
    return lines


def _refusal_lines(refusals: object, types: Mapping[str, str]) -> list[str]:
    """Return the latest refusals; the console's *Why* explains their ids."""
    lines = []
    for one in refusals[:_REFUSALS_SHOWN] if isinstance(refusals, list) else []:
        asked = f"{one.get('asked') or ''} {types.get(one.get('type') or '', '')}".strip()
        lines.append(
            f"{'refused':<20} {one.get('id')} {one.get('code')}: {one.get('principal')} {asked}, "
            f"{one.get('times')} times, last {one.get('last')}"
        )
    return lines


def _overlay_lines(overlay: object) -> list[str]:
    if not isinstance(overlay, dict):
        return []
    leaves = overlay.get("leaves")
    joined = "joined" if overlay.get("is_joined") else "still joining"
    near = len(leaves) if isinstance(leaves, list) else 0
    return [f"{'overlay':<20} {joined}, {overlay.get('known')} brokers known, {near} of them near by id"]


def _rendezvous_lines(routes: object, names: Mapping[str, str]) -> list[str]:
    """Return for each type its next hop, and what is wanted behind each neighbour."""
    lines = []
    for type_id, one in routes.items() if isinstance(routes, dict) else ():
        towards = "its rendezvous is here" if one.get("is_here") else f"rendezvous by {one.get('parent')}"
        lines.append(f"{f'type {names.get(type_id, str(type_id)[:12])}':<20} {towards}")
        for hop, wanted in one.get("hops", {}).items():
            offers = ", offers" if wanted.get("offers") else ""
            lines.append(f"{'':<20} {hop}: {wanted.get('wanted')} filters{offers}")
    return lines


def _mesh_lines(mesh: object) -> list[str]:
    """Return the neighbours of a router of a mesh, and the way to each other router."""
    if not isinstance(mesh, dict):
        return []
    missing = mesh.get("missing") or []
    away = f", no answer at {' '.join(missing)}" if missing else ""
    lines = [f"{'mesh':<20} {len(mesh.get('neighbours') or [])} neighbours{away}"]
    for name, router in (mesh.get("routers") or {}).items():
        via = " ".join(map(str, router.get("via") or [])) or "no way"
        lines.append(f"{'router':<20} {name} by {via}, {router.get('parts')} parts")
    return lines


def _link_line(link: Mapping[str, object]) -> str:
    ends = link.get("next_lease_ends")
    parts = [
        f"{'link ' + str(link.get('link')):<20} {link.get('role')} {link.get('peer')}",
        f"at {link.get('address')}" if link.get("address") else "",
        f"{link.get('subscriptions')} subscriptions, {link.get('advertisements')} advertisements",
        f"open {link.get('open_s')} s",
        f"next lease ends {ends}" if ends else "",
    ]
    return ", ".join(part for part in parts if part)
