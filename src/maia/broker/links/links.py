"""Which peer is at the other end of each link, what is registered there, and when is the link checked?

Everything that a client was granted belongs to its link: a reference means
nothing on any other link, so knowing another client's reference is worth nothing
(A13, A69), and a closed link takes everything with it.

A peer that is refused can ask as often as it likes, and a stranger that is
sent away can come back. The log of the broker has a line for the first of
them; those that follow within a period are counted, and a line at the end of
the period says how many there were (A89). Metrics count every one. The latest refusals
are kept with an id, which the refused client is sent: operators look it up.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import msgspec

from maia.bounded_map import BoundedMap
from maia.broker.links.cursors import Cursor
from maia.broker.refusals import refusal_id
from maia.broker.rights.authorisation import Authorisation, Basis, Circumstances
from maia.broker.rights.publisher_view import Shaper
from maia.broker.timers import CheckLink, KeepAlive, RecheckEntries, TimerWheel
from maia.broker.turn import Turn
from maia.credentials.identity import identity_values
from maia.credentials.paths import Stream, VerifiedPath
from maia.credentials.requirements import NO_REQUIREMENT
from maia.errors import BadInput
from maia.events import INSTANT_MAX, SUBSCRIBER_PREFIX, AttributeUid, Instant, just_after, seconds_after
from maia.policy.facts import place_facts
from maia.predicates import Predicate
from maia.sessions.admission import RequestQuota
from maia.sessions.session import ROUNDS_IN_A_LEASE, Session, Stage
from maia.types import VerifiedType
from maia.wire.effects import Effect, LinkId, Note, ReadLater
from maia.wire.messages import SealedRights
from maia.wire.requests import RequestFrame, signed_at, with_filter

__all__ = [
    "Advertisement",
    "Entry",
    "Link",
    "Projection",
    "Role",
    "Share",
    "Stage",
    "Subscription",
]


class Role(Enum):
    """What the peer is to this broker; nothing before the handshake ends."""

    UNKNOWN = "unknown"
    CLIENT = "client"
    BROKER = "broker"


_PATHS_REMEMBERED: Final = 1024
"""Of how many streams of a neighbour the path is remembered (A89)."""

OWN_LINK: Final = LinkId(-2)
"""In place of a client's link: this broker's own subscriptions to what it records."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A super-type that events of a sub-type are also published as (docs/decisions/inheritance.md)."""

    super_type: VerifiedType
    stream: bytes
    """The stream of its frames: a subscriber to both types cannot be given one for the other."""
    consents: tuple[Authorisation, ...] = field(repr=False)
    """The rights to `extend`, of each type on the way whose signer does not own the next."""

    @property
    def type_id(self) -> bytes:
        """Return by what the super-type is routed."""
        return self.super_type.type_id


@dataclass(slots=True)
class Advertisement:
    """What a publisher may write under one reference, and how far its stream has come."""

    ref: int
    link: LinkId
    right: Authorisation
    shaper: Shaper
    stream: bytes
    lease_ends: Instant
    proof: bytes = field(repr=False)
    last_sequence: int | None = None
    projections: tuple[Projection, ...] = ()
    """The super-types that its events are also published as, the nearest first."""
    requires: bytes = field(default=b"", repr=False)
    """What subscribers have to meet, unless a frame says otherwise."""
    written: VerifiedType | None = field(default=None, repr=False)
    """The type whose events the publisher writes, where its right converts them into its own."""
    # Any: a stream, whose stages are above all links.
    streams: dict[bool, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What its frames go through, and those with a signature or requirement of their own."""

    @property
    def basis(self) -> Basis:
        """Return what its right depends on."""
        return self.right.basis

    @property
    def signed_at(self) -> Instant:
        """Return when its request was signed."""
        return signed_at(self.proof)

    @property
    def writes(self) -> VerifiedType:
        """Return the version that the publisher's frames are in."""
        return self.right.event_type if self.written is None else self.written

    @property
    def type_ids(self) -> tuple[bytes, ...]:
        """Return the types that it publishes: its own, and those that it is a sub-type of."""
        return (self.right.event_type.type_id, *(one.type_id for one in self.projections))


class Subscription(msgspec.Struct, eq=False, gc=False):
    """What a subscriber sees under one reference; `view_class` is shared with everybody who sees the same."""

    ref: int
    link: LinkId
    basis: Basis
    """What its right depends on; `filter` is what it selects of that."""
    filter: Predicate
    view_class: bytes
    lease_ends: Instant
    frame: RequestFrame
    """What the signed request shares with others, and beside it what it has of its own but the filter."""
    own: bytes
    cursor: Cursor | None = None
    """How far it has come, if it is durable: it is served from the event log."""
    requires: Predicate = NO_REQUIREMENT
    """What publishers have to meet."""

    def __repr__(self) -> str:
        """Show what it is known by."""
        return f"Subscription(ref={self.ref}, link={self.link}, right={self.right!r})"

    @property
    def right(self) -> Authorisation:
        """Return what its holder was permitted."""
        return Authorisation(self.basis, self.filter)

    @property
    def proof(self) -> bytes:
        """Return the signed request."""
        return self.frame.whole(with_filter(self.frame, self.own, self.filter))

    @property
    def signed_at(self) -> Instant:
        """Return when its request was signed."""
        return signed_at(self.own, self.frame)


Entry = Advertisement | Subscription


@dataclass(frozen=True, slots=True)
class Share:
    """The uids that a neighbour may read, as sealed columns name them, and for how long that is so."""

    uids: frozenset[str]
    since: Instant
    until: Instant
    evidence: int
    versions: int

    def holds(self, now: Instant, evidence: int, versions: int) -> bool:
        """Return whether the answer was worked out for this moment, from what is known today."""
        return self.since <= now <= self.until and self.evidence == evidence and self.versions == versions


@dataclass(slots=True)
class Link(Session):
    """One connection of a broker, from the first byte on."""

    role: Role = Role.UNKNOWN
    has_shown_identity: bool = False
    """Whether the peer has shown an identity statement in the handshake, good or bad."""
    connect: Authorisation | None = None
    is_foreign: bool = True
    """Whether it is another organisation that has made the peer a broker."""
    remote: str | None = None
    """Where the peer has dialled from, without the port: conditions may ask for it."""
    advertisements: dict[int, Advertisement] = field(default_factory=dict)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    warned: dict[int, str] = field(default_factory=dict)
    """Of what stands, why it cannot be served, as its holder was told last; see `interests/impairment.py`."""
    lease_ends: Instant | None = None
    """When the lease that was granted last ends, for others to share."""
    sealed_rights: dict[bytes, SealedRights] = field(default_factory=dict, repr=False)
    """What the peer showed of its rights to sealed types, by type, while there is no key to open it."""
    shares: dict[bytes, Share] = field(default_factory=dict)
    """What of each sealed type the peer may read, by what it has shown."""
    rights: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict, repr=False)
    """The certificates that a broker showed for each sealed type, sealed for its members."""
    streams: dict[tuple[type, bytes], Any] = field(default_factory=dict, repr=False)
    """What frames of each type go through that a neighbour sends, by their message and type."""
    paths: BoundedMap[Stream, VerifiedPath] = field(
        default_factory=lambda: BoundedMap(_PATHS_REMEMBERED), repr=False
    )
    """Over which routers streams come that a neighbour sends, as it has proved."""
    paths_told: BoundedMap[Stream, tuple[tuple[bytes, bytes], Instant]] = field(
        default_factory=lambda: BoundedMap(_PATHS_REMEMBERED), repr=False
    )
    """What a neighbour was told of them: what that followed from, and until when it is not told again."""
    standing: bytes | None = None
    """The digest of all entries, by which they are renewed; None since one of them has changed."""
    reliance_max: int = 4096
    """From how many certificates on it is looked at what still rests on them."""
    rights_bytes: int = 0
    """How many bytes `sealed_rights` and `rights` take, about."""

    @property
    def circumstances(self) -> Circumstances:
        """Return what conditions may ask of the peer: where it has dialled from, and its identity."""
        place = place_facts(self.remote)
        if self.identity is None:
            return place
        said = identity_values(self.identity.statement)
        return {**place, **{AttributeUid(SUBSCRIBER_PREFIX + uid): value for uid, value in said.items()}}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return all that stands on this link."""
        return (*self.subscriptions.values(), *self.advertisements.values())

    def advertisement(self, ref: int) -> Advertisement:
        """Return what is advertised under `ref` on this link."""
        entry = self.advertisements.get(ref)
        if entry is None:
            raise BadInput("INPUT-UNKNOWN-REF", f"nothing is advertised under `{ref}` on this link")
        return entry

    def subscription(self, ref: int) -> Subscription:
        """Return what is subscribed to under `ref` on this link."""
        entry = self.subscriptions.get(ref)
        if entry is None:
            raise BadInput("INPUT-UNKNOWN-REF", f"nothing is subscribed to under `{ref}` on this link")
        return entry


_PERIOD_US: Final = 60_000_000
_LINES_OF_STRANGERS: Final = 60
"""Of how many peers that were never welcomed the end is told in a period, for each reason."""
_KINDS_MAX: Final = 4096


@dataclass(slots=True)
class _Said:
    note: Note
    until: int
    lines: int = 1
    left_out: int = 0


REFUSALS_MAX: Final = 256
_REFUSALS_OF_ONE: Final = 16
_POLICY, _LATER = "POLICY-", "UNAVAILABLE-"


def end_of_entry(entry: Entry, code: str, principal: str) -> dict[str, object]:
    """Return what is noted of a subscription or an advertisement that the broker ends."""
    asked = "Subscribe" if isinstance(entry, Subscription) else "Advertise"
    of = entry.right.event_type.type_id.hex()
    fields: dict[str, object] = {"code": code, "principal": principal, "asked": asked, "type": of}
    return {"refusal": refusal_id(fields), **fields, "ref": entry.ref}


class Refusals:
    """The latest refusals by their ids: who was refused what, with which code, when and how often."""

    __slots__ = ("_kept", "_of_one")

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: OrderedDict[str, dict[str, object]] = OrderedDict()
        self._of_one: Counter[object] = Counter()

    def record(self, note: Note, now: Instant) -> None:
        """Keep what a log line says of a refusal; one principal cannot displace all others (A89)."""
        fields = note.fields
        if note.event == "closing" and str(fields.get("code")).startswith(_POLICY):
            fields = {"code": fields["code"], "principal": fields["peer"], "asked": "Connect"}
        elif (
            note.event != "refused"
            or "principal" not in fields
            or str(fields.get("code")).startswith(_LATER)  # not yet is no refusal
        ):
            return
        known = refusal_id(fields)
        one = self._kept.pop(known, None)
        if one is None:
            named = {name: fields.get(name) for name in ("code", "principal", "asked", "type")}
            one = {"id": known, **named, "first": str(now), "times": 0}
            self._make_room(one["principal"])
        self._kept[known] = {**one, "last": str(now), "times": int(str(one["times"])) + 1}

    def _make_room(self, principal: object) -> None:
        mine = self._of_one[principal] >= _REFUSALS_OF_ONE
        if mine or len(self._kept) >= REFUSALS_MAX:
            id_ = next(id_ for id_, kept in self._kept.items() if not mine or kept["principal"] == principal)
            gone = self._kept.pop(id_)["principal"]
            self._of_one[gone] -= 1
            self._of_one += Counter()  # those of which none is left
        self._of_one[principal] += 1

    def records(self) -> list[dict[str, object]]:
        """Return them, the latest first."""
        return list(reversed(self._kept.values()))


class RepeatedNotes:
    """What was noted lately, and how often it was left out since."""

    __slots__ = ("_said", "due_at", "refusals")

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self._said: OrderedDict[Hashable, _Said] = OrderedDict()
        self.refusals = Refusals()
        self.due_at: int = INSTANT_MAX
        """When the first period ends."""

    def thinned(self, effects: list[Effect], now: Instant) -> list[Effect]:
        """Return effects without the lines that have been said, and with those that sum them up."""
        kept = [one for one in effects if type(one) is not Note or self._count(one, now)]
        summed = self._ended(now)
        self.due_at = next((said.until for said in self._said.values()), INSTANT_MAX)
        return [*kept, *summed]

    def _count(self, note: Note, now: Instant) -> bool:
        self.refusals.record(note, now)
        kind, lines_max = _kind_of(note)
        if kind is None:
            return True
        said = self._said.get(kind)
        if said is None:
            self._said[kind] = _Said(note, now + _PERIOD_US)
            return True
        if said.lines < lines_max:
            said.lines += 1
            return True
        said.left_out += 1
        return False

    def _ended(self, now: Instant) -> list[Effect]:
        summed: list[Effect] = []
        while self._said and (next(iter(self._said.values())).until <= now or len(self._said) > _KINDS_MAX):
            _, said = self._said.popitem(last=False)
            if said.left_out:
                summed.append(Note(said.note.event, {**said.note.fields, "repeated": said.left_out}))
        return summed


def _kind_of(note: Note) -> tuple[Hashable, int]:
    """Return by what a line is the same as another one, None if it is not, and how many are said."""
    fields = note.fields
    if note.event == "refused":
        return ("refused", fields.get("link"), fields.get("code"), fields.get("asked")), 1
    if note.event in {"closing", "disconnected"} and fields.get("role") == Role.UNKNOWN.value:
        return (note.event, fields.get("code")), _LINES_OF_STRANGERS
    return None, 0


_HOUR_S: Final = 3600
_READ_LATER_S: Final = 10
"""How long a broker that owes work is not read at most: a message that has begun must end in time.

Nor longer than a third of a lease: what it asks meanwhile is whether this broker is still there.
"""


def ask_to_recheck(timers: TimerWheel, link: Link, at: Instant) -> None:
    """Have all entries of a link rechecked at a moment; entries share their moments."""
    timers.add(RecheckEntries(link.id), at)


def ask_to_look_at_link(timers: TimerWheel, link: Link, at: Instant | None) -> None:
    """Have a link looked at, or not at all; an earlier wish is forgotten."""
    timers.reset(CheckLink(link.id), at)


def begin_rounds(timers: TimerWheel, lease_s: int, now: Instant) -> None:
    """Look for silent peers three times in a lease, for as long as there are links."""
    if KeepAlive() not in timers:
        timers.add(KeepAlive(), seconds_after(now, lease_s / ROUNDS_IN_A_LEASE))


def next_look_at_right_to_connect(link: Link, now: Instant) -> Instant | None:
    """Return when the right to connect of a peer has to be asked about again.

    Within the hour, so that links that came and went leave no wishes behind for years.
    """
    if link.connect is None or link.connect.stable.not_after is None:
        return None
    ends = min(just_after(link.connect.stable.not_after), seconds_after(now, _HOUR_S))
    vouched = link.connect.vouched
    return ends if vouched is None or vouched.ask_at <= now else min(ends, vouched.ask_at)


def read_later(broker_quota: RequestQuota, link: Link, lease_s: int, turn: Turn) -> None:
    """Read nothing more from a broker that has caused more work than its share, until that is paid (A87)."""
    paid_at = broker_quota.paid_at(link.peer, turn.now)
    if paid_at is not None:
        longest_s = min(_READ_LATER_S, lease_s / ROUNDS_IN_A_LEASE)
        turn.add(ReadLater(link.id, min(paid_at, seconds_after(turn.now, longest_s))))
        turn.count("maia_links_slowed_total")
