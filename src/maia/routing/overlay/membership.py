"""How does a broker find its place among the others, and keep it while they come and go?

A value without I/O: the broker hands in what happened and performs the steps
that come back. To join, a node connects to a seed and asks the brokers nearest
to its own id which brokers they know, until all of its leaves have answered
and none knows a closer one. When a leaf is lost, the remaining leaves are
asked in the same way. A periodic refresh asks again, and fills the table; while
nobody comes, moves or goes, it comes less and less often.

Promises. A node enters the overlay when a handshake has confirmed it and not
before, and is kept as long as its link. The loss of the link takes it out at
once; no report of others does. All memory, questions, connections and gossip
are bounded (`MembershipLimits`), and no report is forwarded without a link of
our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.back_off import doubled
from maia.events import SECOND
from maia.routing.overlay.candidates import CandidateLimits, Candidates, Contact
from maia.routing.overlay.table import DIGIT_BITS, LEAF_SIZE, RING, NodeId, Overlay, distance, slot_of

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
    """A node is no longer kept, so that types may lead elsewhere."""

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
    """After so long a seed that is too far away to be kept is tried again, in case the network was split."""
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
        self._answers: dict[NodeId, tuple[Contact, ...]] = {}  # until a node comes, moves or goes
        self._linked: dict[NodeId, Contact] = {}  # the overlay keeps some of them
        self._linked_since: dict[NodeId, int] = {}
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
        self._behind_seed: dict[str, NodeId] = {}
        """By the address of a seed, who was reached there last."""
        self._joined = not self._seeds

    # ------------------------------------------------------------ what the broker reads

    @property
    def is_joined(self) -> bool:
        """Return whether this node has found its place at least once."""
        return self._joined

    @property
    def candidates_waiting(self) -> int:
        """Return how many brokers are known by hearsay only."""
        return len(self._candidates)

    def contact(self, node: NodeId) -> Contact | None:
        """Return the confirmed key and address of a kept node."""
        return self._linked[node] if node in self.overlay else None

    def answer(self, target: NodeId) -> tuple[Contact, ...]:
        """Return the answer to a query for the nodes around `target`, closest first."""
        if target not in self._answers:
            if len(self._answers) >= _ANSWERS_REMEMBERED:
                self._answers.clear()
            closest = self.overlay.closest(target, self._limits.answer_max)
            self._answers[target] = tuple(self._linked.get(node, self.own) for node in closest)
        return self._answers[target]

    def wake_at(self, now: int) -> int | None:
        """Return when `tick` wants to be called, in microseconds."""
        # A settled node waits for no answer: a question that none comes to is given up at the next refresh.
        is_settled = self._joined and self.overlay.leaf_set <= self._asked and not self.candidates_waiting
        asks = [] if is_settled else [until for _, until in self._asking.values()]
        seeds_and_names = self._candidates.next_moment(now, also=self._missed_seeds())
        moments = (self._refresh_at, min(asks, default=None), seeds_and_names)
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
        self._behind_seed |= {
            seed: contact.node for seed in self._seeds if seed in {dialled, contact.address}
        }
        self._candidates.confirmed(contact, dialled=dialled)
        was_known = contact.node in self.overlay
        self._is_changed |= not was_known or self._linked.get(contact.node) != contact
        self._linked[contact.node] = contact
        self._linked_since.setdefault(contact.node, now)
        self._leaving.discard(contact.node)
        steps = self._learn(contact.node)
        if not was_known and contact.node in self._nearest():
            steps += self._spread(contact, alive=True)
        return [*steps, *self._advance(now)]

    def dial_failed(self, address: str, now: int) -> list[Step]:
        """No broker with a valid handshake listens there."""
        self._candidates.failed(address, now)
        return self._advance(now)

    def lost(self, node: NodeId, now: int) -> list[Step]:
        """The last link with a node broke. It is taken out, reported, and tried again."""
        was_kept, was_nearest = node in self.overlay, node in self._nearest()
        steps = self._remove(node)
        self._leaving.discard(node)
        contact, since = self._linked.pop(node, None), self._linked_since.pop(node, now)
        if contact is not None:
            seeds = (seed for seed, behind in self._behind_seed.items() if behind == node)
            for address in {contact.address, *seeds}:
                self._candidates.broke(address, now, since=since)
        if was_kept and contact is not None:
            self._candidates.add(contact, teller=self.own.node)
            if was_nearest:
                steps += self._spread(contact, alive=False)
        return [*steps, *self._advance(now)]

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
        return self._advance(now)

    def leave(self) -> list[Step]:
        """Say goodbye to every linked node."""
        return [Spread(node, self.own, alive=False) for node in sorted(self._linked)]

    def tick(self, now: int) -> list[Step]:
        """Time has passed: give up on what took too long, and refresh when it is due."""
        steps: list[Step] = []
        for address in self._candidates.dials.overdue(now):
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
        steps = [step for seed in self._missed_seeds() for step in self._connect(seed, now)]
        if not leaves <= self._asked:
            for leaf in sorted(leaves - self._asked, key=lambda leaf: distance(leaf, self.own.node)):
                steps += self._ask(leaf, self.own.node, now)
        would_keep = self.overlay.would_keep
        steps += map(Connect, self._candidates.next_dials(now, useful=would_keep))
        if not self._joined and len(self.overlay) and not self._asking and leaves <= self._asked:
            is_dialling = self._candidates.dials.under_way.keys() - set(self._seeds)
            self._joined = not is_dialling and not self._candidates.any_waits(would_keep)
        return steps

    def _missed_seeds(self) -> list[str]:
        """Return the seeds to try: those never reached, and those that would be kept and have no link.

        That others have found us is no reason to leave a seed alone: they may have nobody but us, and a seed
        that was restarted may know of nobody.
        """
        if not len(self.overlay):
            return list(self._seeds)
        return [seed for seed in self._seeds if self._is_missed(self._behind_seed.get(seed))]

    def _is_missed(self, node: NodeId | None) -> bool:
        return node is None or (node not in self._linked and self.overlay.would_keep(node))

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
        if not self._candidates.dials.may_begin(address, now):
            return []
        self._candidates.dials.begin(address, now)
        return [Connect(address)]

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
            self._seeds_tried += 1
            seed = self._seeds[self._seeds_tried % len(self._seeds)]
            is_known = any(self._linked[node].address == seed for node in self.overlay.nodes)
            steps += [] if is_known else self._connect(seed, now)
        return steps

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

    def _learn(self, node: NodeId) -> list[Step]:
        """Take in a linked node; a node that is pushed out, perhaps itself, is dropped."""
        before = self.overlay.nodes
        self.overlay.learn(node)
        self._answers.clear()
        gone = [one for one in dict.fromkeys((*before, node)) if one not in self.overlay]
        self._asked.difference_update(gone)
        return [Dropped(one) for one in gone]

    def _remove(self, node: NodeId) -> list[Step]:
        """Take a node out, let linked nodes follow it, and let the remaining leaves be asked."""
        self._asking.pop(node, None)
        self._candidates.forget_teller(node)
        was_leaf = node in self.overlay.leaf_set
        if not self.overlay.forget(node):
            return []
        self._is_changed = True
        self._answers.clear()
        self._asked.discard(node)
        steps: list[Step] = [Dropped(node)]
        for linked in sorted(self._linked.keys() - self._leaving - {node}):
            if self.overlay.would_keep(linked):
                steps += self._learn(linked)
        if was_leaf:
            self._asked -= self.overlay.leaf_set
        return steps


def _place(own: NodeId, lowest: int, number: int) -> NodeId:
    """Return the middle of a prefix around `own`; they are numbered from the narrowest outwards."""
    level, within = divmod(number, _PLACES_IN_LEVEL)
    middle = (2 * (1 + within // 2) + 1) << (DIGIT_BITS * (lowest + level))
    return NodeId((own + (middle if within % 2 == 0 else -middle) // 2) % RING)
