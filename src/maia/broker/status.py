"""What would an operator like to know about this broker?

`maia status` and the health page ask. The answer names links, tables, leases
and counters; it holds no filter, no restriction and no event (A70).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from maia.broker.audiences.local_subscribers import Audiences
from maia.broker.interests.proofs import Proofs
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.keys.keys import KeyRequests, SealingKeys
from maia.broker.links.links import Link, RepeatedNotes, Role
from maia.broker.links.pending import Waits
from maia.broker.own import Own
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.replay_journal import ReplayJournal
from maia.broker.rights.validity import ValidityTracker
from maia.broker.streams.durable import DurableSubscriptions
from maia.credentials import VerificationCache
from maia.credentials.brokers import made_by
from maia.credentials.requirements import NO_REQUIREMENT
from maia.events import Instant
from maia.sessions.challenges import ChallengeDesk
from maia.wire.effects import LinkId

_OPEN: Final = "all types: the coordinator has opened the network to it"
_CLOSED: Final = "types that it has a right to itself"


@dataclass(slots=True, eq=False, repr=False)
class Status:
    """What an operator is shown."""

    own: Own
    certificates: VerificationCache
    authoriser: Authoriser
    types: KnownTypes
    replays: ReplayJournal
    proofs: Proofs
    routes: Routes
    keys: KeyRequests
    seals: SealingKeys
    statements: ValidityTracker
    one_time: ChallengeDesk[Waits]
    router: Router
    links: dict[LinkId, Link]
    audiences: Audiences
    durable: DurableSubscriptions | None
    counters: Counter[str]
    repeated: RepeatedNotes

    def status_of(self, now: Instant) -> dict[str, object]:
        """Return the state of a broker as plain values, ready to be printed or sent."""
        links = [link for link in self.links.values() if link.is_ready]
        return {
            "principal": str(self.own.principal),
            "network": self.own.settings.network.name,
            "address": self.own.settings.address,
            "at": str(now),
            "draining": self.own.is_draining,
            "unkept": self.own.unkept,
            "serves": _OPEN if self.proofs.is_open(now) else _CLOSED,
            "open_borders": self.own.settings.open_borders,
            "links": [{**_link_record(link, now), "border": self._crossing(link)} for link in links],
            "links_waiting": len(self.links) - len(links),
            "clients": sum(link.role is Role.CLIENT for link in links),
            "peers": sum(link.role is Role.BROKER for link in links),
            "types": len(self.types),
            "type_names": self._type_names(),
            "certificates": len(self.certificates),
            "subscriptions": sum(len(link.subscriptions) for link in links),
            "advertisements": sum(len(link.advertisements) for link in links),
            "audiences": {
                type_id.hex(): {
                    "classes": len(audience.classes),
                    "members": sum(len(one.members) for one in audience.classes.values()),
                    "requiring": sum(one.requires != NO_REQUIREMENT for one in audience.classes.values()),
                }
                for type_id, audience in self.audiences.items()
            },
            **self.router.status(),
            "aggregation": self._aggregation_record(),
            "streams": len(self.routes.seen),
            "requests_remembered": len(self.replays.memory),
            "keys": self.keys.member.status(),
            "frames_waiting": len(self.seals.carrying) + len(self.seals.publishing),
            "statements": self.statements.status(now),
            "one_time": {"waiting": len(self.one_time), "questions": self.one_time.questions},
            "decisions": self.authoriser.decisions,
            "log": None if self.durable is None else self.durable.status(),
            "refusals": self.repeated.refusals.records(),
            "counters": dict(self.counters),
        }

    def _type_names(self) -> dict[str, str]:
        """Return the names of types by their ids; with the owner where several have one name."""
        names = {one.hex(): self.types.versions(one)[-1].name for one in self.types.type_ids()}
        shared = Counter(one.name for one in names.values())
        return {
            type_id: one.name if shared[one.name] == 1 else f"{one.name} of {one.owner}"
            for type_id, one in names.items()
        }

    def _crossing(self, link: Link) -> str | None:
        """Return what crosses to a broker of another domain; None for other peers."""
        if link.id not in self.routes.foreign:
            return None
        return "views" if link.id in self.routes.borders else "events"

    def _aggregation_record(self) -> dict[str, object]:
        """Say what is announced of each type within which budget, and what went to and fro for nothing."""
        routes = self.routes
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
                for link in self.links.values()
                if link.id == number
            },
        }


def _link_record(link: Link, now: Instant) -> dict[str, object]:
    entries = link.entries
    return {
        "link": int(link.id),
        "peer": str(link.peer),
        "role": link.role.value,
        "of": sorted(map(str, made_by(link.peer, link.connect.used))) if link.connect is not None else [],
        "address": link.address,
        "open_s": (now - link.opened_at) // 1_000_000,
        "silent_s": (now - link.heard_at) // 1_000_000,
        "identity": None if link.identity is None else link.identity.statement.identifier,
        "subscriptions": len(link.subscriptions),
        "advertisements": len(link.advertisements),
        "uses": _uses(link),
        "by_certificates": sum(bool(one.right.used) for one in entries),  # a revocation can end these
        "identified_until": None if link.identity is None else str(link.identity.statement.not_after),
        "next_lease_ends": str(min(entry.lease_ends for entry in entries)) if entries else None,
    }


def _uses(link: Link) -> list[dict[str, str]]:
    """Return which versions of types a peer reads and writes, each once."""
    # By identity first: a peer may have a hundred thousand subscriptions of one version.
    read = {id(each): each for one in link.subscriptions.values() if (each := one.basis.terms.asked_type)}
    written = {id(one.writes): one.writes for one in link.advertisements.values()}
    found = {("subscribe", one.name) for one in read.values()}
    found |= {("publish", one.name) for one in written.values()}
    return [
        {"action": action, "owner": str(name.owner), "name": name.name, "version": str(name.version)}
        for action, name in sorted(found, key=repr)
    ]
