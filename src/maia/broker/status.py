"""What would an operator like to know about this broker?

`maia status` and the health page ask. The answer names links, tables, leases
and counters; it holds no filter, no restriction and no event (A70).
"""

from __future__ import annotations

from maia.broker.sessions.links import Link, Role
from maia.broker.state import BrokerState
from maia.credentials.requirements import NO_REQUIREMENT
from maia.events import Instant


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
        "type_names": {one.hex(): state.types.versions(one)[-1].name.name for one in state.types.type_ids()},
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
        **state.router.status(),
        "aggregation": _aggregation_record(state),
        "streams": len(state.routes.seen),
        "requests_remembered": len(state.requests.memory),
        "keys": state.keys.member.status(),
        "frames_waiting": len(state.seals.carrying) + len(state.seals.publishing),
        "statements": state.statements.status(now),
        "one_time": {"waiting": len(state.one_time), "questions": state.one_time.questions},
        "decisions": state.authoriser.decisions,
        "log": None if state.durable is None else state.durable.status(),
        "refusals": state.repeated.refusals.records(),
        "counters": dict(state.counters),
    }


def _aggregation_record(state: BrokerState) -> dict[str, object]:
    """Say what is announced of each type within which budget, and what went to and fro for nothing."""
    routes = state.routes
    return {
        "types": {
            type_id.hex(): {
                "budget_bytes": None if one.budget is None else one.budget.bytes,
                "announced_bytes": one.size,
                "announced": len(one.announcements),
                "wanted": one.announcements.wanted,
                "is_merged": not one.announcements.is_exact,
            }
            for type_id, one in routes.aggregates.items()
        },
        "neighbours": {
            str(link.peer): {
                "arrived_bytes": account.arrived_bytes,
                "spilled_bytes": account.spilled_bytes,
                "spilled_rows": account.spilled_rows,
                "reported_bytes": account.reported_bytes,
                "reported_rows": account.reported_rows,
            }
            for number, account in routes.spill.neighbours()
            for link in state.links.values()
            if link.id == number
        },
    }


def _link_record(link: Link, now: Instant) -> dict[str, object]:
    entries = link.entries
    return {
        "link": int(link.id),
        "peer": str(link.peer),
        "role": link.role.value,
        "address": link.address,
        "open_s": (now - link.opened_at) // 1_000_000,
        "silent_s": (now - link.heard_at) // 1_000_000,
        "identity": None if link.identity is None else link.identity.statement.identifier,
        "subscriptions": len(link.subscriptions),
        "advertisements": len(link.advertisements),
        "identified_until": None if link.identity is None else str(link.identity.statement.not_after),
        "next_lease_ends": str(min(entry.lease_ends for entry in entries)) if entries else None,
    }
