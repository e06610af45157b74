"""What would an operator like to know about this broker?

`maia status` and the health page ask. The answer names links, tables, leases
and counters; it holds no filter, no restriction and no event (A70).
"""

from __future__ import annotations

from maia.broker.routing.routes import Routes
from maia.broker.sessions.links import Link, Role
from maia.broker.state import BrokerState
from maia.credentials.requirements import NO_REQUIREMENT
from maia.events import Instant
from maia.routing.overlay.table import NodeId, node_id_text
from maia.routing.table.hops import is_of_sealed, type_of_book_key

__all__ = ["status_of"]


def status_of(state: BrokerState, now: Instant) -> dict[str, object]:
    """Return the state of a broker as plain values, ready to be printed or sent."""
    links = [link for link in state.links.values() if link.is_ready]
    return {
        "principal": str(state.principal),
        "network": state.settings.network.name,
        "address": state.settings.address,
        "at": str(now),
        "draining": state.is_draining,
        "links": [_link_record(link, now) for link in links],
        "links_waiting": len(state.links) - len(links),
        "clients": sum(link.role is Role.CLIENT for link in links),
        "peers": sum(link.role is Role.BROKER for link in links),
        "types": len(state.types),
        "certificates": len(state.certificates),
        "subscriptions": sum(len(link.subscriptions) for link in links),
        "advertisements": sum(len(link.advertisements) for link in links),
        "audiences": {
            type_id.hex(): {
                "classes": len(audience.classes),
                "members": sum(len(one.members) for one in audience.classes.values()),
                "requiring": sum(one.requires != NO_REQUIREMENT for one in audience.classes.values()),
            }
            for type_id, audience in state.audiences.items()
        },
        "overlay": _overlay_record(state.routes),
        "rendezvous": _rendezvous_record(state.routes),
        "replicas": len(state.routes.store),
        "streams": len(state.routes.seen),
        "requests_remembered": len(state.requests.memory),
        "keys": state.keys.member.status(),
        "frames_waiting": len(state.seals.carrying) + len(state.seals.publishing),
        "statements": state.statements.status(now),
        "one_time": {"waiting": len(state.one_time), "questions": state.one_time.questions},
        "decisions": state.authoriser.decisions,
        "log": None if state.recording is None else state.recording.status(),
        "counters": dict(state.counters),
    }


def _overlay_record(routes: Routes) -> dict[str, object]:
    overlay = routes.overlay
    return {
        "node": node_id_text(overlay.own),
        "is_joined": routes.membership.is_joined,
        "known": len(overlay),
        "leaves": [node_id_text(node) for node in sorted(overlay.leaf_set)],
        "table": len(overlay.table),
    }


def _rendezvous_record(routes: Routes) -> dict[str, dict[str, object]]:
    """Say of each type where it leads to, and how much is wanted and offered behind which neighbour."""
    book = routes.book
    return {
        type_of_book_key(type_id).hex() + ("/sealed" if is_of_sealed(type_id) else ""): {
            "is_here": book.parent(type_id) is None,
            "parent": _hop_text(book.parent(type_id)),
            "hops": {
                _hop_text(hop): {
                    "wanted": len(book.entries(hop, type_id)),
                    "offers": book.offers(hop, type_id),
                }
                for hop in book.hops(type_id)
            },
        }
        for type_id in book.types()
    }


def _hop_text(hop: object) -> str | None:
    match hop:
        case None:
            return None
        case int():
            return node_id_text(NodeId(hop))
        case _:
            return "local"


def _link_record(link: Link, now: Instant) -> dict[str, object]:
    entries = link.entries
    return {
        "link": int(link.id),
        "peer": str(link.peer),
        "role": link.role.value,
        "address": link.address,
        "open_s": (now - link.opened_at) // 1_000_000,
        "silent_s": (now - link.heard_at) // 1_000_000,
        "subscriptions": len(link.subscriptions),
        "advertisements": len(link.advertisements),
        "identified_until": None if link.identity is None else str(link.identity.statement.not_after),
        "next_lease_ends": str(min(entry.lease_ends for entry in entries)) if entries else None,
    }
