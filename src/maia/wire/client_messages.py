"""Which messages do a client and its broker exchange, and any two nodes in their handshake?

The side that accepts a connection sends first. Requests that grant or ask for rights carry
the signed bytes themselves (`requests.py`).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from maia.events import ROWS_MAX
from maia.wire.message_fields import (
    Address,
    AnswerBytes,
    AnyMessage,
    Code,
    Credentials,
    Digest,
    DurableName,
    IdentityBytes,
    Key,
    Moment,
    Number,
    Position,
    QuestionBytes,
    References,
    RequirementBytes,
    Rows,
    Signature,
    Small,
    StatementBytes,
    Text,
    Token,
    Uid,
)

PROTOCOL_VERSION: Final = 1


# ------------------------------------------------------------ handshake: server speaks first


class Greeting(AnyMessage, tag=1, frozen=True):
    """The accepting node: who it is for, and all of its credentials (C12: a broker discloses all)."""

    version: Number
    network: Small
    credentials: Credentials
    instance: Token


class Hello(AnyMessage, tag=2, frozen=True):
    """The dialling node, once it has verified the greeting. A client's `address` is null."""

    version: Number
    network: Small
    credentials: Credentials
    instance: Token
    address: Address | None


class Welcome(AnyMessage, tag=3, frozen=True):
    """The accepting node has verified the hello; everything else may now be said."""

    lease_s: Number


class Bye(AnyMessage, tag=4, frozen=True):
    """The sender closes the link, and says why."""

    code: Code
    message: Text


class Ping(AnyMessage, tag=5, frozen=True):
    """Are you there?"""

    nonce: Number


class Pong(AnyMessage, tag=6, frozen=True):
    """Yes."""

    nonce: Number


# ------------------------------------------------------------ a client and its broker


class AskRight(AnyMessage, tag=18, frozen=True):
    """May you do this with this type yourself? Owner and name are inside `name`, a canonical expression.

    A client asks before it hands anything of the type over: events, filters, certificates.
    """

    id: Number
    action: Literal["publish", "subscribe"]
    name: Small


class RightShown(AnyMessage, tag=19, frozen=True):
    """Here are the certificates by which I may; none if I may not. Verify them yourself."""

    id: Number
    credentials: Credentials


class Advertise(AnyMessage, tag=10, frozen=True):
    """`request` is a signed request to publish; it names type, filter, stream, moment, network."""

    id: Number
    request: Small
    credentials: Credentials
    definitions: Credentials


class Subscribe(AnyMessage, tag=11, frozen=True):
    """`request` is a signed request to subscribe; a `name` makes it durable: it goes on where it was.

    What this broker records is delivered then, and the name is that of a cursor, which belongs to the
    principal that the link has proved. `seen` is the last position that this client has handed to its
    application itself, if it remembers: nothing up to there is sent again.
    """

    id: Number
    request: Small
    credentials: Credentials
    definitions: Credentials
    name: DurableName | None = None
    seen: Position | None = None


class SubscribePart(Subscribe, tag=13, frozen=True):
    """A durable subscription of one of several clients of one principal, which share the work of reading.

    One of them, whose `upto` is empty, is sent how many rows each frame has, and nothing that is in them;
    others are sent what is behind `seen` up to a position, and leave the cursor where it is.
    """

    upto: Annotated[bytes, Meta(max_length=24)] = b""


class Withdraw(AnyMessage, tag=12, frozen=True):
    """The client is done with what it advertised or subscribed to under `ref`.

    `forget` is for a durable subscription that is over for good: its cursor is forgotten.
    """

    id: Number
    ref: Number
    forget: bool = False


class Accepted(AnyMessage, tag=14, frozen=True):
    """The request `id` is accepted; it must be renewed within the lease. `until` is null for ever."""

    id: Number
    until: Moment | None


class Failed(AnyMessage, tag=15, frozen=True):
    """The request `id` was refused or is broken."""

    id: Number
    code: Code
    message: Text


class Ended(AnyMessage, tag=16, frozen=True):
    """What was accepted under these references has ended, for one reason: expired, revoked, too slow."""

    refs: References
    code: Code
    message: Text


class RenewAll(AnyMessage, tag=17, frozen=True):
    """All of this link is still wanted: so many requests, with this digest (`requests.py`)."""

    id: Number
    entries: Number
    digest: Digest


class Warned(AnyMessage, tag=27, frozen=True):
    """What was accepted under `ref` cannot be served now, and why; without a code, it can again."""

    ref: Number
    code: Code | None
    message: Text


class ServedElsewhere(AnyMessage, tag=113, frozen=True):
    """Another process of this broker serves the type that was asked for: ask there."""

    id: Number
    address: Address


class Column(AnyMessage, frozen=True, gc=False):
    """One attribute of some rows, encoded by `columns.py`; opaque to brokers that only forward it."""

    uid: Uid
    kind: Annotated[int, Meta(ge=0, le=15)]
    data: bytes


class Author(AnyMessage, frozen=True):
    """What travels with a frame about its publisher (docs/decisions/publisher-statements.md).

    `statement` is the short form of its identity statement, which its broker has verified and
    attached; empty if it has none. `proof` is the publisher's own signature over what is here of the frame
    (`sealing/frames/authorship.py`), empty if it signs nothing. `requires` is what subscribers have
    to meet, empty for nothing; whoever signs the frame signs it, too.
    """

    statement: Annotated[bytes, Meta(max_length=1 << 14)]
    proof: Annotated[bytes, Meta(max_length=1 << 23)]
    requires: RequirementBytes = b""


class SignedByPublisher(AnyMessage, frozen=True):
    """A publisher's own signature; `seed` is what the hashes of the values are salted from."""

    signature: Signature
    seed: Digest


class Publish(AnyMessage, tag=20, frozen=True, gc=False):
    """A publisher's frame for the advertisement `ref`; numbers of a stream grow by one.

    `requires` is what subscribers have to meet; null leaves what the advertisement requires.
    """

    ref: Number
    sequence: Number
    published_at: Moment
    rows: Rows
    columns: Annotated[list[Column], Meta(max_length=1024)]
    requires: RequirementBytes | None = None
    signed: SignedByPublisher | None = None

    @property
    def is_bare(self) -> bool:
        """Return whether nothing is in it but the frame."""
        return self.requires is None and self.signed is None


class Published(AnyMessage, tag=21, frozen=True, gc=False):
    """Every frame of `ref` up to `sequence` was taken on; rows that were refused are counted."""

    ref: Number
    sequence: Number
    refused_rows: Number


class Deliver(AnyMessage, tag=22, frozen=True, gc=False):
    """A frame for one or more subscriptions of this client, as they may see it.

    `stream` and `label` tell streams and frames apart, and count nothing (`columns.py`).
    `author` is what the client's broker has verified about the publisher.
    """

    refs: References
    publisher: Key
    stream: Token
    label: Token
    published_at: Moment
    rows: Rows
    columns: Annotated[list[Column], Meta(max_length=1024)]
    author: Author | None = None


class DeliverLogged(AnyMessage, tag=23, frozen=True):
    """A recorded frame for the durable subscription `ref`, as it may be seen now, with its position.

    The last position of a range always comes; without rows, if nothing there may be seen. It is late if the
    subscription had a later one of its publisher's stream before: it was missing there, and was found since.
    """

    ref: Number
    position: Position
    publisher: Key
    stream: Token
    label: Token
    published_at: Moment
    rows: Annotated[int, Meta(ge=0, le=ROWS_MAX)]
    columns: Annotated[list[Column], Meta(max_length=1024)]
    author: Author | None = None
    is_late: bool = False


class Seen(AnyMessage, tag=24, frozen=True):
    """The client has had everything of a durable subscription up to this position, and wants it no more."""

    ref: Number
    position: Position


class Missed(AnyMessage, tag=25, frozen=True):
    """The event log is not whole up to this position, so a durable subscription may lack something, and why.

    How much is not said: the broker cannot look whether it was for this subscriber.
    """

    ref: Number
    position: Position
    code: Code
    message: Text


# ------------------------------------------------------------ the current state: retained events


class AskState(AnyMessage, tag=84, frozen=True):
    """What is the present state, as far as the subscription `ref` shows it? Then wait for news."""

    id: Number
    ref: Number


class StateTold(AnyMessage, tag=85, frozen=True):
    """What is known of the state was delivered; `is_whole` says whether every broker has answered."""

    id: Number
    is_whole: bool


class StateQuery(AnyMessage, tag=86, frozen=True):
    """A broker asks the next one on the way to publishers: what did they say last?"""

    question: Token
    type_id: Digest


class StateFrame(AnyMessage, tag=87, frozen=True):
    """The last frame of one publisher, as a `Carried` or a `Sealed`, in answer to a question."""

    question: Token
    frame: Annotated[bytes, Meta(max_length=1 << 24)]


class StateDone(AnyMessage, tag=88, frozen=True):
    """That was all; `is_whole` says whether every broker behind has answered."""

    question: Token
    is_whole: bool


class StateGone(AnyMessage, tag=89, frozen=True):
    """What a publisher said last counts no more: its right was taken away."""

    type_id: Digest
    publisher: Key
    stream: Token


# ------------------------------------------------------------ validity statements


class Show(AnyMessage, tag=80, frozen=True):
    """These certificates speak for me too; these statements say which certificates still count.

    On a ready link, accepted requests are rechecked, and `Accepted` follows
    under this number. Before that, statements alone are shown, for the
    certificates of the greeting or hello that comes next.
    """

    id: Number
    certificates: Credentials
    statements: Annotated[list[StatementBytes], Meta(max_length=64)]


class Changed(AnyMessage, tag=83, frozen=True):
    """What was accepted under `ref` depends on another right from now on, and may show less, or more."""

    ref: Number
    until: Moment | None
    code: Code
    message: Text


class Challenge(AnyMessage, tag=90, frozen=True):
    """A broker: I decide about `ref` when these questions are answered, and wait so many seconds for that.

    The client has its certificates' testers answer them. A challenge takes the place of an earlier one for
    the same reference.
    """

    id: Number
    ref: Number
    seconds: Number
    questions: Annotated[list[QuestionBytes], Meta(min_length=1, max_length=64)]


class Vouched(AnyMessage, tag=91, frozen=True):
    """A client: here are the signed answers to a challenge; none if no tester answered."""

    id: Number
    answers: Annotated[list[AnswerBytes], Meta(max_length=64)]


# ------------------------------------------------------------ identity statements


class Identify(AnyMessage, tag=92, frozen=True):
    """The sender's own identity statement, in its short form, in place of the one that it showed before.

    On any ready link, by either side. `Accepted` says until when it holds; after `Failed`, the one
    before it counts until it expires.
    """

    id: Number
    statement: IdentityBytes
