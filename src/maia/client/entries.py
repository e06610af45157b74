"""Which requests does a client have at its broker, and in which stage is each?

An entry outlives links: its reference and its stream stay the same when the
client reconnects, and the numbers of its frames go on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from maia.bounded_map import BoundedMap
from maia.client.wallet import Wallet
from maia.credentials import Action, NetworkName, SigningKey, TypeName, VerifiedConstitution
from maia.credentials.requirements import NO_REQUIREMENT
from maia.errors import BadInput, MaiaError
from maia.events import Frame, Instant, Value
from maia.policy import Request
from maia.predicates import Predicate
from maia.types import SignedDefinition, VerifiedType, definition_to_bytes, verify_definition
from maia.types.definition import PUBLICATION
from maia.wire.columns import is_published_late
from maia.wire.messages import Advertise, Subscribe, SubscribePart
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

# ------------------------------------------------------------ types


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A verified version of a type, and the definitions to hand to a broker that does not know it."""

    event_type: VerifiedType
    definitions: tuple[bytes, ...] = field(repr=False)


def known_version(
    history: Sequence[SignedDefinition], *, at: Instant, constitutions: tuple[VerifiedConstitution, ...] = ()
) -> KnownVersion:
    """Verify a version and those it was made from, oldest first; the last one is what is meant."""
    verified: VerifiedType | None = None
    for signed in history:
        verified = verify_definition(signed, at=at, previous=verified, constitutions=constitutions)
    if verified is None:
        raise BadInput("INPUT-UNKNOWN-TYPE", "no definition of the type is at hand")
    return KnownVersion(verified, tuple(definition_to_bytes(signed) for signed in history))


def histories(definitions: Iterable[SignedDefinition]) -> list[tuple[SignedDefinition, ...]]:
    """Return each definition after those among the given ones that it was made from, oldest first."""
    by_name = {signed.definition.name: signed for signed in definitions}
    return [_history(signed, by_name) for signed in by_name.values()]


def _history(
    signed: SignedDefinition, by_name: dict[TypeName, SignedDefinition]
) -> tuple[SignedDefinition, ...]:
    found = [signed]
    while len(found) <= len(by_name):  # definitions may name each other in a circle
        name, before = found[0].definition.name, found[0].definition.previous
        previous = None if before is None else by_name.get(TypeName(name.owner, name.name, before))
        if previous is None:
            break
        found.insert(0, previous)
    return tuple(found)


_STREAM_BYTES: Final = 16
_NUMBER_MAX: Final = 2**63 - 1
_LABELS_REMEMBERED: Final = 64
"""Of each stream: far more frames than come again after a reconnection."""


# ------------------------------------------------------------ duplicates and late frames

# After a reconnection or a repair of the network, a frame may arrive twice, or on an old path after a later
# one on a new path. The application gets each publisher's frames in order and once, so a frame with a known
# label is dropped, and one that was published before the newest of its stream. One that was published long
# before it is not late: either the newest was forged, and must not silence its publisher (A85), or the
# publisher's clock was set back.


_Stream: TypeAlias = tuple[bytes, bytes]


@dataclass(slots=True)
class _NewestFrames:
    """When the newest frame of a stream was published, and the labels of those that came last."""

    published_at: int
    labels: dict[bytes, None] = field(default_factory=dict)


class SeenFrames:
    """The newest frames of many streams, by publisher's key and label of the stream."""

    __slots__ = ("_newest",)

    def __init__(self, streams_max: int) -> None:
        """Remember at most so many streams; the one unused for longest goes first."""
        self._newest: BoundedMap[_Stream, _NewestFrames] = BoundedMap(streams_max)

    def remember(self, publisher: bytes, stream: bytes, label: bytes, published_at: int) -> bool:
        """Remember a frame unless it is repeated or late in its stream; say whether it was remembered."""
        key = (publisher, stream)
        newest = self._newest.get(key) or _NewestFrames(published_at)
        is_late = is_published_late(published_at, newest=newest.published_at)
        if is_late or label in newest.labels:
            return False
        newest.published_at = published_at
        newest.labels[label] = None
        if len(newest.labels) > _LABELS_REMEMBERED:
            del newest.labels[next(iter(newest.labels))]
        self._newest.put(key, newest)
        return True


TOPICS_MAX: Final = 64
"""How many topics one subscription or publication may name."""


def check_several(event_type: VerifiedType) -> None:
    """Refuse a publication on several topics in a tree that was not declared for it."""
    if PUBLICATION not in event_type.attributes:
        raise BadInput(
            "INPUT-TOPICS",
            f"a publication in `{event_type.name.name}` has one topic, because its owner has declared it "
            "without `--several`",
        )


class SeenPublications:
    """The publications on several topics that an application has had, on one of them (Gismo 2)."""

    __slots__ = ("_seen",)

    def __init__(self, most: int = 16_384) -> None:
        """Remember so many; the one that came first goes first."""
        self._seen: BoundedMap[tuple[bytes, Value], bool] = BoundedMap(most)

    def unseen(self, publisher: bytes, frame: Frame) -> Frame:
        """Return a frame without the events that came on another topic; remember the others.

        Of the same publisher: another one could repeat a number to keep an event from its readers.
        """
        column = frame.columns.get(PUBLICATION.uid)
        if column is None:
            return frame
        rows = list[int]()
        for row, number in enumerate(column.values):
            if number is not None and (publisher, number) in self._seen:
                continue
            if number is not None:
                self._seen.put((publisher, number), value=True)
            rows.append(row)
        return frame if len(rows) == frame.rows else frame.take(rows)


# ------------------------------------------------------------ entries


@dataclass(frozen=True, slots=True)
class Numbering:
    """How a publisher's frames are identified: by their stream, and by numbers that grow.

    A publisher that may have to say the same thing twice chooses both itself,
    and the network takes the second time for what it is.
    """

    stream: bytes
    first: int = 0

    def __post_init__(self) -> None:
        """Refuse what does not fit into a message."""
        if len(self.stream) != _STREAM_BYTES or not 0 <= self.first <= _NUMBER_MAX:
            raise BadInput(
                "INPUT-NUMBERING", f"a stream has {_STREAM_BYTES} bytes, and its numbers begin at 0 or later"
            )


class EntryStage(Enum):
    """How far a request has come on the present link."""

    WAITING = "waiting"
    """Not asked for on this link yet."""
    ASKED = "asked"
    ACCEPTED = "accepted"
    WITHDRAWING = "withdrawing"


@dataclass(slots=True)
class RequestEntry:
    """Something to be asked for again and again, for as long as the application wants it."""

    ref: int
    known: KnownVersion = field(repr=False)
    filter: Predicate = field(repr=False)
    stream: bytes
    stage: EntryStage = EntryStage.WAITING
    was_accepted: bool = False
    is_renewing: bool = False
    hands_over: bool = True
    """Whether the next request hands the definitions over."""
    failures: int = 0
    problem: MaiaError | None = field(default=None, repr=False)
    """Why it was last put off."""
    is_warned: bool = False
    """Whether the broker has said that it cannot be served at this moment."""
    asked_at: Instant | None = None
    asked: bytes = field(default=b"", repr=False)
    """The digest of the latest request, signed at `asked_at`."""
    requires: Predicate = field(default=NO_REQUIREMENT, repr=False)
    """What the other side has to meet: publishers, or subscribers of what is advertised."""
    limit: MaiaError | None = field(default=None, repr=False)
    """That the latest request had no room for all certificates that speak for it, if that is so."""

    @property
    def action(self) -> Action:
        """Return what the request asks for."""
        return Action.SUBSCRIBE


@dataclass(slots=True)
class Subscribed(RequestEntry):
    """A subscription, and which frames its application has had."""

    seen: SeenFrames = field(default_factory=lambda: SeenFrames(1), repr=False)
    durable: str | None = None
    """The name of its cursor, if what was missed is to come later."""
    arrived: bytes | None = None
    """The position of the last recorded frame that was handed to the application."""
    acknowledged: bytes | None = None
    wants_state: bool = False
    """Whether it asks for the retained state each time it is accepted anew."""
    state_asked: int | None = None
    """The number of the question that was not answered yet."""
    shown_as: VerifiedType | None = None
    """The type that the subscriber's right converts events into, if it does."""
    upto: bytes | None = None
    """Where it ends, if it is one of several readers; empty for the one that is sent row counts only."""

    @property
    def delivered_type(self) -> VerifiedType:
        """Return the version in whose names events are delivered."""
        return self.known.event_type if self.shown_as is None else self.shown_as


@dataclass(slots=True)
class Advertised(RequestEntry):
    """An advertisement, and the frames that the broker has not answered for."""

    next_sequence: int = 0
    under_way: OrderedDict[int, bytes] = field(default_factory=OrderedDict, repr=False)
    signs: bool = False
    """Whether the publisher signs each frame itself."""
    written: KnownVersion | None = field(default=None, repr=False)
    """The type whose events are written, where the publisher's right converts them into its own."""

    @property
    def written_type(self) -> VerifiedType:
        """Return the version in whose names events are written."""
        return self.known.event_type if self.written is None else self.written.event_type

    @property
    def action(self) -> Action:
        """Return what the request asks for."""
        return Action.PUBLISH


# ------------------------------------------------------------ requests


# A request is signed anew each time it is made, with a fresh moment and nonce, and carries the chains that
# support it and no other certificate.
def message_asking_for(
    entry: RequestEntry, *, key: SigningKey, network: NetworkName, wallet: Wallet, nonce: bytes, now: Instant
) -> Advertise | Subscribe:
    """Return the message that asks for an entry, or for its renewal; raise if nothing speaks for it."""
    version = entry.known.event_type
    request = Request(key.principal, entry.action, version.name, version, entry.filter)
    shown = wallet.needed_for(request, now)
    entry.limit = wallet.limit_of(request)
    asked = EdgeRequest(
        entry.action, network, version.name, entry.filter, entry.stream, now, nonce, entry.requires
    )
    signed = request_to_bytes(sign_request(asked, key))
    definitions = list(entry.known.definitions) if entry.hands_over else []
    if isinstance(entry, Advertised) and entry.written is not None and entry.hands_over:
        definitions += entry.written.definitions
    if isinstance(entry, Subscribed) and entry.durable is not None:
        # Acknowledged or not, what the application has had is not to be sent to this client again.
        about = entry.ref, signed, shown, definitions, entry.durable, entry.arrived
        return Subscribe(*about) if entry.upto is None else SubscribePart(*about, entry.upto)
    kind = Advertise if entry.action is Action.PUBLISH else Subscribe
    return kind(entry.ref, signed, shown, definitions)
