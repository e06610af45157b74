"""Which secrets of a group can some people work out together, given all that was ever broadcast?

A slow and obvious answer for the tests of key trees. It has no tree of its
own: it listens to the real one. Every secret is known by its bytes, and every
use of `node_secrets` by the real manager is one rule: from these secrets
follow those. A wrapped secret is one too, for messages are public: its key
leads to its content. A secret that neither chance nor a rule brought forth,
such as a constant, is known to all. What a coalition knows is what it was
handed, closed under the rules. Rules that the manager never used lead to secrets that
nothing was ever sent under, so none is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from hashlib import blake2b
from itertools import count
from unittest.mock import patch

from maia.sealing.tree import node_secrets
from maia.sealing.tree.key_tree import Rekeyed
from maia.sealing.tree.rekey import read_path, read_rekey
from reference import oft
from reference.tree_store import Scheme, Tree, new_tree, tree_from_bytes, tree_to_bytes

GROUP = b"a group"


def counted_bytes(seed: bytes = b""):
    """Return random bytes that come again in the next run, for tests alone."""
    numbers = count()
    return lambda size: blake2b(seed + next(numbers).to_bytes(8, "big"), digest_size=size).digest()


@dataclass
class Rules:
    """What leads to what. Secrets are bits, so that knowledge is a number and closing it is quick."""

    bits: dict[bytes, int] = field(default_factory=dict)
    rules: list[tuple[int, int]] = field(default_factory=list)
    wrapped: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    public: int = 0
    """Secrets that came out of nowhere."""

    def choosing(self, random):
        """Return `random`, and write down that what it gives was chosen by chance."""

        def chosen(size: int) -> bytes:
            data = random(size)
            self.bit(data)
            return data

        return chosen

    def used(self, secrets) -> int:
        """Return the knowledge of these, which are in use; those that nobody brought forth are public."""
        for secret in secrets:
            if secret not in self.bits:
                self.public |= self.bit(secret)
        return self.known(secrets)

    def bit(self, secret: bytes) -> int:
        """Return the bit of one secret."""
        return self.bits.setdefault(secret, 1 << len(self.bits))

    def known(self, secrets) -> int:
        """Return the knowledge of all these."""
        knowledge = 0
        for secret in secrets:
            knowledge |= self.bit(secret)
        return knowledge

    def closed(self, knowledge: int) -> int:
        """Return all that follows."""
        before, knowledge = -1, knowledge | self.public
        while knowledge != before:
            before = knowledge
            for needed, gained in self.rules:
                if knowledge & needed == needed:
                    knowledge |= gained
        return knowledge

    def broadcast(self, message: bytes) -> None:
        """Let everybody hear a message: each of its entries leads from its key to its content."""
        for entry in read_rekey(message).entries:
            self.rules.append(self.wrapped[entry.wrapped])

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Write down what the real functions are asked and what they answer."""

        def deriving(function):
            @wraps(function)
            def heard(*asked, **named):
                answer = function(*asked, **named)
                answers = answer if isinstance(answer, tuple) else (answer,)
                self.rules.append((self.used([*asked, *named.values()]), self.known(answers)))
                return answer

            return heard

        def wrapping(key, nonce, content, bound_to):
            wrapped = original_wrap(key, nonce, content, bound_to)
            self.wrapped[wrapped] = (self.used([key]), self.used([content]))
            return wrapped

        original_wrap = node_secrets.wrap
        of_oft = {name: deriving(getattr(oft, name)) for name in oft.DERIVATIONS}
        with (
            patch.multiple(node_secrets, wrap=wrapping, step=deriving(node_secrets.step)),
            patch.multiple(oft, **of_oft),
        ):
            yield


@dataclass(frozen=True)
class Stay:
    """One stay of one member: in which versions it was in the group, and what it was handed."""

    member: bytes
    versions: range
    handed: int


@dataclass
class WatchedGroup:
    """A group under a real tree, with all that anybody was handed or could hear."""

    tree: Tree
    rules: Rules
    roots: list[int] = field(default_factory=list)
    """The group's secret, version by version, beginning with 1."""
    open_stays: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    past_stays: list[Stay] = field(default_factory=list)

    @classmethod
    def new(cls, scheme: Scheme) -> WatchedGroup:
        """Watch a group of nobody."""
        rules = Rules()
        return cls(new_tree(group=GROUP, random=rules.choosing(counted_bytes()), scheme=scheme), rules)

    def change(self, *, joins=(), leaves=()) -> Rekeyed:
        """Let the real tree change, and write down what everybody gets."""
        with self.rules.listening():
            rekeyed = self.tree.rekey(joins=joins, leaves=leaves)
        self.rules.broadcast(rekeyed.broadcast)
        self.roots.append(self.rules.bit(rekeyed.secret.reveal()))
        for member in leaves:
            since, handed = self.open_stays.pop(member)
            self.past_stays.append(Stay(member, range(since, rekeyed.version), handed))
        for member, path in rekeyed.welcomes.items():
            held = read_path(path.to_bytes()).secrets
            self.open_stays[member] = rekeyed.version, self.rules.known(secret for _, secret in held)
        return rekeyed

    def toggle(self, member: bytes) -> Rekeyed:
        """Let `member` leave if it is in the group, and join if it is not."""
        return self.change(leaves=[member]) if member in self.tree else self.change(joins=[member])

    def stays(self) -> list[Stay]:
        """Return every stay so far, those that go on included."""
        until = self.tree.version + 1
        going_on = [
            Stay(member, range(since, until), handed) for member, (since, handed) in self.open_stays.items()
        ]
        return [*self.past_stays, *going_on]

    def branch(self) -> WatchedGroup:
        """Return a copy that can go another way. The rules are shared lists of the past, and copied."""
        rules = Rules(dict(self.rules.bits), list(self.rules.rules), {}, self.rules.public)
        random = rules.choosing(counted_bytes(self.tree.confirmation))
        tree = tree_from_bytes(tree_to_bytes(self.tree), group=GROUP, random=random)
        return WatchedGroup(tree, rules, list(self.roots), dict(self.open_stays), list(self.past_stays))


@dataclass(frozen=True)
class Breach:
    """A version whose secret some stays lead to together, none of which was in the group then."""

    version: int
    stays: tuple[Stay, ...]


def breaches(group: WatchedGroup) -> list[Breach]:
    """Return the versions that all who were outside can read together; knowledge only grows with company.

    That covers every coalition: if everybody who was outside cannot work a
    secret out together, no part of them can.
    """
    stays = group.stays()
    found = []
    learned: dict[int, int] = {}
    for version, root in enumerate(group.roots, start=1):
        outside = tuple(stay for stay in stays if version not in stay.versions)
        handed = _together(outside)
        if handed not in learned:
            learned[handed] = group.rules.closed(handed)
        if learned[handed] & root:
            found.append(Breach(version, outside))
    return found


def smallest(breach: Breach, group: WatchedGroup) -> Breach:
    """Return the breach with nobody in it who is not needed."""
    root, needed = group.roots[breach.version - 1], list(breach.stays)
    for stay in breach.stays:
        fewer = [other for other in needed if other is not stay]
        if group.rules.closed(_together(fewer)) & root:
            needed = fewer
    return Breach(breach.version, tuple(needed))


def left_in_the_dark(group: WatchedGroup) -> list[tuple[Stay, int]]:
    """Return stays with a version of their own that they cannot read; there should be none."""
    dark = []
    for stay in group.stays():
        knowledge = group.rules.closed(stay.handed)
        dark += [(stay, version) for version in stay.versions if not knowledge & group.roots[version - 1]]
    return dark


def read_alone(group: WatchedGroup) -> list[tuple[Stay, int]]:
    """Return stays that lead, without any company, to a secret of another time; there should be none."""
    alone = []
    for stay in group.stays():
        knowledge = group.rules.closed(stay.handed)
        versions = [version for version, root in enumerate(group.roots, start=1) if knowledge & root]
        alone += [(stay, version) for version in versions if version not in stay.versions]
    return alone


def _together(stays) -> int:
    knowledge = 0
    for stay in stays:
        knowledge |= stay.handed
    return knowledge


MEMBERS = (b"Ann", b"Bob", b"Cem", b"Dee", b"Eva")


def histories(
    scheme: Scheme, *, founders: int, operations: int, members: tuple[bytes, ...] = MEMBERS
) -> Iterator[tuple[tuple[bytes, ...], WatchedGroup]]:
    """Yield every history of joins and leaves after a founding of some members.

    Who was never in the group is like anybody else who never was, so of those
    only the first may join. Only whole histories come: what can be worked out
    early can be worked out late. A name in the history joins, or leaves if it is in.
    """
    group = WatchedGroup.new(scheme)
    if founders:
        group.change(joins=members[:founders])
    yield from _continued(group, (), seen=founders, operations=operations, members=members)


def _continued(group, history, *, seen, operations, members):
    if not operations:
        yield history, group
        return
    for number, member in enumerate(members[: seen + 1]):
        branch = group.branch()
        branch.toggle(member)
        yield from _continued(
            branch,
            (*history, member),
            seen=max(seen, number + 1),
            operations=operations - 1,
            members=members,
        )


def told(founders: int, history: tuple[bytes, ...], breach: Breach, group: WatchedGroup) -> str:
    """Tell a breach as a story, for people."""
    inside = set(MEMBERS[:founders])
    lines = [f"founded by {', '.join(m.decode() for m in MEMBERS[:founders]) or 'nobody'}"]
    for step, member in enumerate(history):
        version = step + 1 + bool(founders)
        lines.append(f"version {version}: {member.decode()} {'leaves' if member in inside else 'joins'}")
        inside ^= {member}
    who = [
        f"{stay.member.decode()} (in the group in versions {stay.versions.start} to {stay.versions.stop - 1})"
        for stay in breach.stays
    ]
    return "; ".join(lines) + f". Version {breach.version} is read by {' and '.join(who)}"
