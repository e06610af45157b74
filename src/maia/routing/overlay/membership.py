"""How does a broker find its place among the others, and keep it while they come and go?

A value without I/O: the broker hands in what happened and performs the steps
that come back. To join, a node connects to a seed and asks the brokers nearest
to its own id which brokers they know, until all of its leaves have answered
and none knows a closer one. When a leaf is lost, the remaining leaves are
asked in the same way. A periodic refresh asks again, and fills the table; while
nobody comes, moves or goes, it comes less and less often.

Promises. A node enters the overlay when a handshake has confirmed it and not
before. The loss of a link takes it out at once; no report of others does. All
memory, questions, connections and gossip are bounded (`MembershipLimits`), and
no report is forwarded without a link of our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.back_off import doubled
from maia.events import SECOND
from maia.routing.overlay.table import (
    DIGIT_BITS,
    LEAF_SIZE,
    RING,
    CandidateLimits,
    Candidates,
    Contact,
    NodeId,
    Overlay,
    distance,
    slot_of,
)

__all__ = ["Ask", "Connect", "Contact", "Dropped", "OverlayMembership", "MembershipLimits", "Spread", "Step"]

_ANSWERS_REMEMBERED: Final = 256
_PLACES_IN_LEVEL: Final = 30
"""Fifteen prefixes of each width on either side."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection to this address; report `confirmed` or `dial_failed`."""

    address: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a linked node for the nodes around `target`; hand in its `reply`."""

    node: NodeId
    target: NodeId
    number: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Inform a linked node that a broker is there, or is gone."""

    to: NodeId
    about: Contact
    alive: bool


@dataclass(frozen=True, slots=True)
class Dropped:
    """A node is no longer kept. If nothing else needs the link with it, the link may be closed."""

    node: NodeId


Step: TypeAlias = Connect | Ask | Spread | Dropped


@dataclass(frozen=True, slots=True)
class MembershipLimits:
    """How often a node asks, and how much it asks and says at a time."""

    refresh_s: int = 30
    refresh_most_s: int = 120
    """A refresh before which nothing changed is followed by one twice as late, up to this."""
    ask_timeout_s: int = 10
    asks_at_once: int = 8
    answer_max: int = 128
    """How many brokers one answer names, and how many names of one answer are read."""
    seed_every_s: int = 480
    """After so long one seed is tried again, in case the network was split for long."""
    candidates: CandidateLimits = field(default_factory=CandidateLimits)


class OverlayMembership:
    """One node's way into the overlay and its upkeep; `overlay` answers the routing questions."""

    def __init__(
        self,
        own: Contact,
        *,
        seeds: Sequence[str] = (),
        leaf_size: int = LEAF_SIZE,
        limits: MembershipLimits | None = None,
    ) -> None:
        self.own = own
        self.overlay = Overlay(own.node, leaf_size)
        self._limits = limits or MembershipLimits()
        self._seeds = tuple(seed for seed in seeds if seed != own.address)
        self._candidates = Candidates(own.node, self._limits.candidates)
        self._contacts: dict[NodeId, Contact] = {}
        self._answers: dict[NodeId, tuple[Contact, ...]] = {}  # until a node comes, moves or goes
        self._linked: dict[NodeId, Contact] = {}
        self._leaving: set[NodeId] = set()  # said goodbye, and the link is still open
        self._asked: set[NodeId] = set()
        self._asking: dict[NodeId, tuple[int, int]] = {}  # number of the question, and until when
        self._questions = 0
        self._refreshes = 0
        self._refresh_at: int | None = None
        self._calm_refreshes = 0  # since a node came, moved or went
        self._is_changed = False
        self._seed_at = 0
        self._seeds_tried = 0
        self._joined = not self._seeds

    # ------------------------------------------------------------ what the broker reads

    @property
    def is_joined(self) -> bool:
        """Say whether this node has found its place at least once."""
        return self._joined

    @property
    def candidates_waiting(self) -> int:
        """Return how many brokers are known by hearsay only."""
        return len(self._candidates)

    def contact(self, node: NodeId) -> Contact | None:
        """Return the confirmed key and address of a kept node."""
        return self._contacts.get(node)

    def answer(self, target: NodeId) -> tuple[Contact, ...]:
        """Return the answer to a query for the nodes around `target`, closest first."""
        known = self._answers.get(target)
        if known is None:
            closest = self.overlay.closest(target, self._limits.answer_max)
            known = tuple(self.own if node == self.own.node else self._contacts[node] for node in closest)
            if len(self._answers) >= _ANSWERS_REMEMBERED:
                self._answers.clear()
            self._answers[target] = known
        return known

    def links_wanted(self, targets: Iterable[NodeId] = ()) -> frozenset[NodeId]:
        """Return the nodes to be linked with; `targets` are the types that this node routes."""
        return self.overlay.neighbours(targets)

    def wake_at(self, now: int) -> int | None:
        """Return when `tick` wants to be called, in microseconds."""
        # A settled node waits for no answer: a question that none comes to is given up at the next refresh.
        is_settled = self._joined and self.overlay.leaf_set <= self._asked and not self.candidates_waiting
        asks = [] if is_settled else [until for _, until in self._asking.values()]
        seeds = () if len(self.overlay) else self._seeds
        moments = (self._refresh_at, min(asks, default=None), self._candidates.next_moment(now, also=seeds))
        return min((moment for moment in moments if moment is not None), default=None)

    # ------------------------------------------------------------ what happens

    def start(self, now: int) -> list[Step]:
        """Begin: connect to the seeds."""
        self._refresh_at = now + self._limits.refresh_s * SECOND
        self._seed_at = now + self._limits.seed_every_s * SECOND
        return self._advance(now)

    def seek(self, seeds: Sequence[str], now: int) -> list[Step]:
        """Join through these seeds from now on; connect to those that are new."""
        before, self._seeds = self._seeds, tuple(seed for seed in seeds if seed != self.own.address)
        return [step for seed in self._seeds if seed not in before for step in self._connect(seed, now)]

    def confirmed(self, contact: Contact, now: int, *, dialled: str | None = None) -> list[Step]:
        """A handshake with a broker is complete; `dialled` is the address that we did."""
        if contact.node == self.own.node:
            return self.dial_failed(dialled, now) if dialled is not None else []
        self._candidates.confirmed(contact, dialled=dialled)
        steps = [] if dialled is None else self._displaced(contact.node, dialled)
        was_known = contact.node in self._contacts
        self._linked[contact.node] = contact
        self._leaving.discard(contact.node)
        steps += self._learn(contact)
        if not was_known and contact.node in self._nearest():
            steps += self._spread(contact, alive=True)
        return [*steps, *self._advance(now)]

    def dial_failed(self, address: str, now: int) -> list[Step]:
        """No broker with a valid handshake listens there. A kept node without a link is gone then."""
        self._candidates.failed(address, now)
        return [*self._displaced(None, address), *self._advance(now)]

    def lost(self, node: NodeId, now: int) -> list[Step]:
        """The last link with a node broke. It is taken out, reported, and tried again."""
        self._linked.pop(node, None)
        self._leaving.discard(node)
        contact = self._contacts.get(node)
        if contact is None:
            self._asking.pop(node, None)
            self._candidates.forget_teller(node)
            return self._advance(now)
        was_nearest = node in self._nearest()
        steps = self._remove(node)
        self._candidates.add(contact, teller=self.own.node)
        if was_nearest:
            steps += self._spread(contact, alive=False)
        return [*steps, *self._advance(now)]

    def rested(self, node: NodeId) -> None:
        """We closed the link with a node because it is not needed; the node stays known."""
        self._linked.pop(node, None)
        self._leaving.discard(node)
        self._asking.pop(node, None)

    def reply(self, node: NodeId, number: int, contacts: Sequence[Contact], now: int) -> list[Step]:
        """A node answered. Answers to no question of ours are ignored."""
        if self._asking.get(node, (None, 0))[0] != number:
            return []
        del self._asking[node]
        for contact in contacts[: self._limits.answer_max]:
            self._hear_of(contact, teller=node)
        return self._advance(now)

    def heard(self, sender: NodeId, about: Contact, alive: bool, now: int) -> list[Step]:
        """A linked node announced a broker. Only about itself is it believed; the rest is looked into."""
        if sender not in self._linked:
            return []
        if sender == about.node:
            if alive:
                return []
            self._leaving.add(sender)
            return [*self._remove(sender), *self._advance(now)]
        if alive:
            self._hear_of(about, teller=sender)
        elif about.node in self.overlay and about.node not in self._linked:
            return self._connect(self._contacts[about.node].address, now)
        return self._advance(now)

    def leave(self) -> list[Step]:
        """Say goodbye to every linked node."""
        return [Spread(node, self.own, alive=False) for node in sorted(self._linked)]

    def tick(self, now: int) -> list[Step]:
        """Time has passed: give up on what took too long, and refresh when it is due."""
        steps: list[Step] = []
        for address in self._candidates.overdue(now):
            steps += self.dial_failed(address, now)
        for node in [node for node, (_, until) in self._asking.items() if until <= now]:
            del self._asking[node]
        if self._refresh_at is not None and self._refresh_at <= now:
            self._calm_refreshes += 1
            limits = self._limits
            wait_s = doubled(limits.refresh_s, self._calm_refreshes, most=limits.refresh_most_s)
            self._refresh_at = now + wait_s * SECOND
            steps += self._refresh(now)
        return [*steps, *self._advance(now)]

    # ------------------------------------------------------------ joining and repairing

    def _advance(self, now: int) -> list[Step]:
        """Ask every leaf once, try the candidates that would be kept, and see whether we are done."""
        if self._is_changed and self._refresh_at is not None:
            self._is_changed, self._calm_refreshes = False, 0
            self._refresh_at = min(self._refresh_at, now + self._limits.refresh_s * SECOND)
        leaves = self.overlay.leaf_set
        steps = [] if leaves else self._dial_seeds(now)
        if not leaves <= self._linked.keys():
            for leaf in sorted(leaves - self._linked.keys()):
                steps += self._connect(self._contacts[leaf].address, now)
        if not leaves <= self._asked:
            for leaf in sorted(leaves - self._asked, key=lambda leaf: distance(leaf, self.own.node)):
                steps += self._ask(leaf, self.own.node, now)
        for address in self._candidates.next_dials(now, useful=self.overlay.would_keep):
            steps.append(Connect(address))
        if not self._joined:
            self._joined = len(self.overlay) > 0 and self._is_settled()
        return steps

    def _is_settled(self) -> bool:
        if self._asking or self._candidates.dials_under_way(besides=self._seeds):
            return False
        if self.overlay.leaf_set - self._asked:
            return False
        return not any(self.overlay.would_keep(node) for node in self._candidates.waiting())

    def _ask(self, node: NodeId, target: NodeId, now: int) -> list[Step]:
        free = len(self._asking) < self._limits.asks_at_once
        if not free or node in self._asking or node not in self._linked:
            return []
        self._questions += 1
        self._asking[node] = self._questions, now + self._limits.ask_timeout_s * SECOND
        if target == self.own.node:
            self._asked.add(node)
        return [Ask(node, target, self._questions)]

    def _hear_of(self, contact: Contact, *, teller: NodeId) -> None:
        # A linked node would be kept already if there were a place for it, or has said goodbye.
        if contact.node in self._linked or contact.address == self.own.address:
            return
        if self.overlay.would_keep(contact.node):
            self._candidates.add(contact, teller=teller)

    def _connect(self, address: str, now: int) -> list[Step]:
        if not self._candidates.may_dial(address, now):
            return []
        self._candidates.dial(address, now)
        return [Connect(address)]

    def _dial_seeds(self, now: int) -> list[Step]:
        return [step for seed in self._seeds for step in self._connect(seed, now)]

    # ------------------------------------------------------------ upkeep

    def _refresh(self, now: int) -> list[Step]:
        """Let the nearest neighbours be asked again, look for one empty place, and try a seed at times."""
        self._refreshes += 1
        self._asked -= self._nearest()
        steps: list[Step] = []
        for target in self._empty_place():
            hop = self.overlay.next_hop(target)
            steps += [] if hop is None else self._ask(hop, target, now)
        if self._seeds and self._seed_at <= now:
            self._seed_at = now + self._limits.seed_every_s * SECOND
            steps += self._retry_seed(now)
        return steps

    def _retry_seed(self, now: int) -> list[Step]:
        self._seeds_tried += 1
        seed = self._seeds[self._seeds_tried % len(self._seeds)]
        known = any(contact.address == seed for contact in self._contacts.values())
        return [] if known else self._connect(seed, now)

    def _empty_place(self) -> list[NodeId]:
        """Return the middle of one empty prefix around us, another one at each refresh."""
        leaves = self.overlay.leaf_set
        if not leaves:
            return []
        own, table = self.own.node, self.overlay.table
        lowest = min(slot_of(leaf, own=own)[0] for leaf in leaves)
        places = (RING.bit_length() // DIGIT_BITS - lowest) * _PLACES_IN_LEVEL
        for turn in range(self._refreshes, self._refreshes + places):
            point = _place(own, lowest, turn % places)
            if slot_of(point, own=own) not in table:
                return [point]
        return []

    def _nearest(self) -> set[NodeId]:
        return {*self.overlay.successors()[:1], *self.overlay.predecessors()[:1]}

    def _spread(self, about: Contact, *, alive: bool) -> list[Step]:
        """Tell the leaves of a change among them.

        Only the two nodes next to the change tell it, and only what they saw themselves: news never goes
        round, and one arrival costs at most two leaf sets of messages.
        """
        informed = self.overlay.leaf_set & self._linked.keys() - {about.node}
        return [Spread(leaf, about, alive) for leaf in sorted(informed)]

    # ------------------------------------------------------------ who is kept

    def _learn(self, contact: Contact) -> list[Step]:
        """Take in a confirmed node; a node that is pushed out, perhaps itself, is dropped."""
        self.overlay.learn(contact.node, contact.address)
        self._is_changed |= self._contacts.get(contact.node) != contact
        self._contacts[contact.node] = contact
        self._answers.clear()
        gone = [node for node in self._contacts if node not in self.overlay]
        for node in gone:
            del self._contacts[node]
            self._asked.discard(node)
        return [Dropped(node) for node in gone]

    def _displaced(self, found: NodeId | None, address: str) -> list[Step]:
        """Remove the nodes at rest whose address now belongs to another node, or to none."""
        gone = [
            node
            for node, contact in self._contacts.items()
            if contact.address == address and node not in self._linked and node != found
        ]
        return [step for node in gone for step in self._remove(node)]

    def _remove(self, node: NodeId) -> list[Step]:
        """Take a node out, let linked nodes follow it, and let the remaining leaves be asked."""
        was_leaf = node in self.overlay.leaf_set
        kept = self.overlay.forget(node)
        self._contacts.pop(node, None)
        self._is_changed = True
        self._answers.clear()
        self._asking.pop(node, None)
        self._asked.discard(node)
        self._candidates.forget_teller(node)
        steps: list[Step] = [Dropped(node)] if kept else []
        for linked in sorted(self._linked.keys() - self._leaving - {node}):
            if self.overlay.would_keep(linked):
                steps += self._learn(self._linked[linked])
        if was_leaf:
            self._asked -= self.overlay.leaf_set
        return steps


def _place(own: NodeId, lowest: int, number: int) -> NodeId:
    """Return the middle of a prefix around `own`; they are numbered from the narrowest outwards."""
    level, within = divmod(number, _PLACES_IN_LEVEL)
    middle = (2 * (1 + within // 2) + 1) << (DIGIT_BITS * (lowest + level))
    return NodeId((own + (middle if within % 2 == 0 else -middle) // 2) % RING)
