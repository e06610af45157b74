"""What do nodes say to each other?

Each message is a MessagePack array that begins with its number. A field more
or less, another type, or an unknown number is a protocol violation. Sizes are
bounded before anything is decoded (`framing.py`). Requests that grant or ask
for rights carry the signed bytes themselves, and what was signed is what is
decided upon (`requests.py`).
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from maia.events import INSTANT_MAX, INSTANT_MIN, ROWS_MAX

__all__ = [
    "Accepted",
    "Advertise",
    "Announce",
    "AskState",
    "Bye",
    "Carried",
    "Changed",
    "Column",
    "Deliver",
    "DeliverLogged",
    "Ended",
    "Failed",
    "FindClosest",
    "ForgetDurable",
    "Greeting",
    "GroupKeys",
    "GroupsEnded",
    "Hello",
    "HistoryKeys",
    "HistoryKeysReply",
    "Interest",
    "JoinGroups",
    "KeyTermsRecord",
    "KeysHeld",
    "LeaveGroups",
    "Message",
    "Missed",
    "NodeRecord",
    "Nodes",
    "Offer",
    "OpenContent",
    "PROTOCOL_VERSION",
    "Ping",
    "Pong",
    "Publish",
    "Published",
    "Rekey",
    "RekeyPart",
    "Renew",
    "RenewAll",
    "Replica",
    "Resync",
    "SealMark",
    "Sealed",
    "SealedColumn",
    "SealedDoubted",
    "SealedInterest",
    "SealedOffer",
    "SealedPart",
    "SealedProof",
    "SealedReplica",
    "SealedRights",
    "SealedWanted",
    "SealedWithPlaintext",
    "Seen",
    "Show",
    "StateDone",
    "StateFrame",
    "StateGone",
    "StateQuery",
    "StateTold",
    "Subscribe",
    "SubscribeDurable",
    "TypeQuery",
    "TypeReply",
    "Unadvertise",
    "Unsubscribe",
    "Wanted",
    "Welcome",
    "WhoWrites",
    "Writer",
]

PROTOCOL_VERSION: Final = 1

Digest: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Token: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Small: TypeAlias = Annotated[bytes, Meta(max_length=1 << 16)]
# What people read is one line: no control characters, and nothing that turns a line around on a screen.
TEXT_MAX: Final = 1024
NOT_FOR_SCREENS: Final = "\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX, pattern=rf"\A[^{NOT_FOR_SCREENS}]*\Z")]
Code: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Z][A-Z0-9-]{0,63}\Z")]
Address: TypeAlias = Annotated[str, Meta(pattern=r"\A[!-~]{1,256}\Z")]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Moment: TypeAlias = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
Rows: TypeAlias = Annotated[int, Meta(ge=1, le=ROWS_MAX)]
Uid: TypeAlias = Annotated[str, Meta(max_length=64)]
DurableName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"\A[!-~]+\Z")]
Credentials: TypeAlias = Annotated[list[Small], Meta(max_length=256)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=64, max_length=64)]
SignedEpochBytes: TypeAlias = Annotated[bytes, Meta(max_length=1 << 18)]
StatementBytes: TypeAlias = Annotated[bytes, Meta(max_length=1 << 21)]


class _Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What all messages share: arrays, frozen, nothing unknown."""


# ------------------------------------------------------------ handshake: server speaks first


class Greeting(_Message, tag=1, frozen=True):
    """The accepting node: who it is for, and all of its credentials (C12: a broker discloses all)."""

    version: Number
    network: Small
    credentials: Credentials
    instance: Token


class Hello(_Message, tag=2, frozen=True):
    """The dialling node, once it has verified the greeting. A client's `address` is null."""

    version: Number
    network: Small
    credentials: Credentials
    instance: Token
    address: Address | None


class Welcome(_Message, tag=3, frozen=True):
    """The accepting node has verified the hello; everything else may now be said."""

    lease_s: Number


class Bye(_Message, tag=4, frozen=True):
    """The sender closes the link, and says why."""

    code: Code
    message: Text


class Ping(_Message, tag=5, frozen=True):
    """Are you there?"""

    nonce: Number


class Pong(_Message, tag=6, frozen=True):
    """Yes."""

    nonce: Number


# ------------------------------------------------------------ a client and its broker


class Advertise(_Message, tag=10, frozen=True):
    """`request` is a signed request to publish; it names type, filter, stream, moment, network."""

    id: Number
    request: Small
    credentials: Credentials
    definitions: Credentials


class Subscribe(_Message, tag=11, frozen=True):
    """`request` is a signed request to subscribe."""

    id: Number
    request: Small
    credentials: Credentials
    definitions: Credentials


class Unadvertise(_Message, tag=12, frozen=True):
    """The publisher is done with what it advertised under `ref`."""

    id: Number
    ref: Number


class Unsubscribe(_Message, tag=13, frozen=True):
    """The subscriber is done with what it subscribed under `ref`."""

    id: Number
    ref: Number


class Accepted(_Message, tag=14, frozen=True):
    """The request `id` stands; it must be renewed within the lease. `until` is null for ever."""

    id: Number
    until: Moment | None


class Failed(_Message, tag=15, frozen=True):
    """The request `id` was refused or is broken."""

    id: Number
    code: Code
    message: Text


class Ended(_Message, tag=16, frozen=True):
    """What was accepted under `ref` has ended: expired, revoked, too slow."""

    ref: Number
    code: Code
    message: Text


class RenewAll(_Message, tag=17, frozen=True):
    """All that stands on this link is still wanted: so many requests, with this digest (`standing.py`)."""

    id: Number
    entries: Number
    digest: Digest


class SubscribeDurable(_Message, tag=18, frozen=True):
    """`request` is a signed request to subscribe, to what this broker records; `name` names the cursor.

    Cursors belong to the principal that the link has proved. `seen` is the last position that this
    client has handed to its application itself, if it remembers: nothing up to there is sent again.
    """

    id: Number
    request: Small
    credentials: Credentials
    definitions: Credentials
    name: DurableName
    seen: Number | None


class Column(_Message, frozen=True):
    """One attribute of some rows, encoded by `columns.py`; opaque to whoever only carries it."""

    uid: Uid
    kind: Annotated[int, Meta(ge=0, le=15)]
    data: bytes


class Publish(_Message, tag=20, frozen=True):
    """A publisher's frame for the advertisement `ref`; numbers of a stream grow by one."""

    ref: Number
    sequence: Number
    published_at: Moment
    rows: Rows
    columns: Annotated[list[Column], Meta(max_length=1024)]


class Published(_Message, tag=21, frozen=True):
    """Every frame of `ref` up to `sequence` was taken on; rows that were refused are counted."""

    ref: Number
    sequence: Number
    refused_rows: Number


class Deliver(_Message, tag=22, frozen=True):
    """A frame for one or more subscriptions of this client, as they may see it."""

    refs: Annotated[list[Number], Meta(max_length=65_536)]
    publisher: Key
    stream: Token
    sequence: Number
    published_at: Moment
    rows: Rows
    columns: Annotated[list[Column], Meta(max_length=1024)]


class DeliverLogged(_Message, tag=23, frozen=True):
    """A recorded frame for the durable subscription `ref`, as it may be seen now, with its position."""

    ref: Number
    position: Number
    publisher: Key
    stream: Token
    sequence: Number
    published_at: Moment
    rows: Rows
    columns: Annotated[list[Column], Meta(max_length=1024)]


class Seen(_Message, tag=24, frozen=True):
    """The client has had everything of a durable subscription up to this position, and wants it no more."""

    ref: Number
    position: Number


class Missed(_Message, tag=25, frozen=True):
    """Something that a durable subscription should have had is gone: frames from `first` to `last`.

    Positions count the frames of all types, so no more than `last - first + 1` of them were of this one.
    """

    ref: Number
    first: Number
    last: Number
    code: Code
    message: Text


class ForgetDurable(_Message, tag=26, frozen=True):
    """The client is done with the durable subscription `ref` for good: its cursor is forgotten."""

    id: Number
    ref: Number


# ------------------------------------------------------------ between brokers: publications


class Carried(_Message, tag=30, frozen=True):
    """A frame on its way: by type id and attribute uids, never by name or version.

    `kept` numbers the rows of the publisher's frame that are still here, or is
    empty when all of them are.
    """

    type_id: Digest
    publisher: Key
    stream: Token
    sequence: Number
    published_at: Moment
    rows: Rows
    kept: Annotated[list[Annotated[int, Meta(ge=0, le=65_535)]], Meta(max_length=65_536)]
    columns: Annotated[list[Column], Meta(max_length=1024)]


class SealMark(_Message, frozen=True):
    """Who sealed something, and its how manyth it was: the process and a counter. No two seals share one."""

    instance: Token
    counter: Number


class SealedColumn(_Message, frozen=True):
    """One attribute of some rows, sealed; with an empty uid, all attributes together.

    `commitment` is what the signer said about its content, and `path` leads to
    it from the blocks that are left of a frame that was cut (`sealing/block_tree.py`).
    """

    uid: Uid
    sealed: Annotated[bytes, Meta(min_length=16)]
    commitment: Digest
    path: Annotated[bytes, Meta(max_length=32 * 64)]


class Sealed(_Message, tag=31, frozen=True):
    """A sealed frame on its way. What opens it and proves it is told in `sealing/`.

    `rows`, `block_rows`, `kept` and `origin` are the publisher's broker's, which `signer` names
    and `signature` proves; a cut leaves them as they are, and `blocks` says what is left.
    `place` and `path` lead from this frame to what was signed, if frames were signed together.
    """

    type_id: Digest
    publisher: Key
    signer: Key
    stream: Token
    sequence: Number
    published_at: Moment
    level: Annotated[int, Meta(ge=1, le=2)]
    epoch: Number
    rows: Rows
    block_rows: Rows
    kept: Annotated[list[Annotated[int, Meta(ge=0, le=65_535)]], Meta(max_length=65_536)]
    origin: SealMark
    sealed_by: SealMark
    blocks: Annotated[list[Annotated[int, Meta(ge=0, le=63)]], Meta(max_length=64)]
    columns: Annotated[list[SealedColumn], Meta(max_length=1024)]
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]
    place: Annotated[int, Meta(ge=0, le=65_535)]
    path: Annotated[list[Digest], Meta(max_length=16)]


class OpenContent(_Message, frozen=True):
    """What is inside one sealed column of the frame beside it; with an empty uid, all columns together."""

    uid: Uid
    content: bytes


class SealedWithPlaintext(_Message, tag=32, frozen=True):
    """A sealed frame, and what the receiver may read of it, to spare it the opening (K4).

    It goes to neighbours that have the right to exactly these contents, and to nobody else.
    """

    frame: Sealed
    contents: Annotated[list[OpenContent], Meta(min_length=1, max_length=1024)]


# ------------------------------------------------------------ between brokers: overlay


class NodeRecord(_Message, frozen=True):
    """A broker and where it listens."""

    key: Key
    address: Address


class FindClosest(_Message, tag=40, frozen=True):
    """Which brokers do you know near this point of the id space?"""

    id: Number
    target: Token


class Nodes(_Message, tag=41, frozen=True):
    """Those, and those of the routing table's row that the asker shares with me."""

    id: Number
    nodes: Annotated[list[NodeRecord], Meta(max_length=512)]


class Announce(_Message, tag=42, frozen=True):
    """This broker has joined, or left, or was found dead."""

    node: NodeRecord
    alive: bool


# ------------------------------------------------------------ between brokers: interests and offers


class Wanted(_Message, frozen=True):
    """One filter that somebody behind the sender is interested in, with the request that proves it."""

    id: Token
    filter: Small
    proof: Small | None
    credentials: Credentials


class Interest(_Message, tag=50, frozen=True):
    """Changes to what the sender wants of a type through this link."""

    type_id: Digest
    add: Annotated[list[Wanted], Meta(max_length=4096)]
    remove: Annotated[list[Token], Meta(max_length=4096)]


class Offer(_Message, tag=51, frozen=True):
    """Whether publications of a type may come from the sender's side of this link, with the proof."""

    type_id: Digest
    stands: bool
    proof: Small | None
    credentials: Credentials


class Renew(_Message, tag=52, frozen=True):
    """All that I told you through this link still stands: so many entries, with this digest of them."""

    entries: Number
    digest: Digest


class Resync(_Message, tag=53, frozen=True):
    """Our books differ: tell me everything again."""


class Replica(_Message, tag=54, frozen=True):
    """The rendezvous node's book for a type, for the brokers that would follow it."""

    type_id: Digest
    holder: NodeRecord
    wanted: Annotated[list[Wanted], Meta(max_length=4096)]
    offers: bool


class SealedPart(_Message, frozen=True):
    """What a filter says about some attributes, for those who read all of them; without uids, for the type's.

    `mark` is equal for equal parts of one epoch (`sealing/filters.py`).
    """

    uids: Annotated[list[Uid], Meta(max_length=64)]
    mark: Token
    box: Annotated[bytes, Meta(max_length=33_000)]


class SealedProof(_Message, frozen=True):
    """The request and certificates behind an interest or offer, for those who read the type and `uids`.

    `tag` shows the type's own group that one of its members made all of it
    (`sealing/filter_proofs.py`).
    """

    uids: Annotated[list[Uid], Meta(max_length=1024)]
    box: Annotated[bytes, Meta(max_length=(1 << 19) + 1024)]
    tag: Token


class SealedWanted(_Message, frozen=True):
    """One sealed filter that somebody behind the sender is interested in; `seal` names this sealing of it."""

    id: Token
    epoch: Number
    seal: Token
    parts: Annotated[list[SealedPart], Meta(max_length=64)]
    proof: SealedProof


class SealedInterest(_Message, tag=55, frozen=True):
    """Changes to what the sender wants of sealed publications of a type through this link."""

    type_id: Digest
    add: Annotated[list[SealedWanted], Meta(max_length=4096)]
    remove: Annotated[list[Token], Meta(max_length=4096)]


class SealedOffer(_Message, tag=56, frozen=True):
    """Whether sealed publications of a type may come from the sender's side; if so, with the proof."""

    type_id: Digest
    epoch: Number
    seal: Token
    proof: SealedProof | None


class SealedReplica(_Message, tag=57, frozen=True):
    """The rendezvous node's book for sealed publications of a type, for the brokers that would follow it."""

    type_id: Digest
    holder: NodeRecord
    wanted: Annotated[list[SealedWanted], Meta(max_length=4096)]
    offers: bool


class SealedDoubted(_Message, tag=59, frozen=True):
    """These sealed interests, which you told me, are refused here: let them stand for no others."""

    type_id: Digest
    ids: Annotated[list[Token], Meta(max_length=4096)]


class SealedRights(_Message, tag=58, frozen=True):
    """The sender's own certificates for a sealed type, for those who are in its group."""

    type_id: Digest
    epoch: Number
    seal: Token
    proof: SealedProof


# ------------------------------------------------------------ type registry


class TypeQuery(_Message, tag=60, frozen=True):
    """Who has this version of this type? Owner and name are inside `name`, a canonical expression."""

    id: Number
    name: Small


class TypeReply(_Message, tag=61, frozen=True):
    """Here are signed definitions, oldest first; none if I have none. Verify them yourself."""

    id: Number
    definitions: Credentials


# ------------------------------------------------------------ key groups: a member and its manager


class JoinGroups(_Message, tag=70, frozen=True):
    """Let me into the key groups that these certificates open; or: tell me again, I have missed something.

    `key` is an encryption key for this session alone, signed by the member.
    `head` is the newest signed epoch that the member holds.
    """

    id: Number
    definitions: Credentials
    credentials: Credentials
    key: Key
    signature: Signature
    head: SignedEpochBytes | None


class KeyTermsRecord(_Message, frozen=True):
    """How long keys are used and kept, in seconds."""

    refresh_s: Number
    overdue_s: Number
    drift_s: Number
    back_dating_s: Number


class GroupKeys(_Message, tag=71, frozen=True):
    """What a member may hold, sealed to its session; `id` is 0 where nobody asked.

    `until` is the last moment of the right to it; null for ever.
    """

    id: Number
    type_id: Digest
    terms: KeyTermsRecord
    epochs: Annotated[list[SignedEpochBytes], Meta(max_length=4096)]
    sealed: Annotated[bytes, Meta(max_length=1 << 22)]
    until: Moment | None


class RekeyPart(_Message, frozen=True):
    """How the members of one group find its new secret: a change of its key tree."""

    uid: Uid | None
    change: Annotated[bytes, Meta(max_length=1 << 23)]


class Rekey(_Message, tag=72, frozen=True):
    """A new epoch begins. The same bytes go to every member, and each finds in them what it may know."""

    type_id: Digest
    epoch: SignedEpochBytes
    parts: Annotated[list[RekeyPart], Meta(max_length=1025)]


class KeysHeld(_Message, tag=73, frozen=True):
    """This is the newest epoch I hold; number 0 for none. The manager answers with its own."""

    type_id: Digest
    number: Number
    digest: Digest | None


class LeaveGroups(_Message, tag=74, frozen=True):
    """I need the keys of this type no more."""

    type_id: Digest


class GroupsEnded(_Message, tag=75, frozen=True):
    """You are no longer in these groups; null stands for the type's own."""

    type_id: Digest
    uids: Annotated[list[Uid | None], Meta(max_length=1025)]
    code: Code
    message: Text


class WhoWrites(_Message, tag=76, frozen=True):
    """With which certificates does this member publish?"""

    id: Number
    type_id: Digest
    principal: Key


class Writer(_Message, tag=77, frozen=True):
    """With these; none if it is not known here. Decide upon them yourself."""

    id: Number
    type_id: Digest
    principal: Key
    credentials: Credentials


class HistoryKeys(_Message, tag=78, frozen=True):
    """Which keys of epochs that are over may I have, with these certificates?

    `key` is an encryption key for this session alone, signed by the reader.
    Epochs up to number `after` were answered before.
    """

    id: Number
    definitions: Credentials
    credentials: Credentials
    key: Key
    signature: Signature
    since: Moment
    until: Moment
    after: Number


class HistoryKeysReply(_Message, tag=79, frozen=True):
    """These, sealed to the session; `after` is where to go on asking, null at the end."""

    id: Number
    type_id: Digest
    terms: KeyTermsRecord
    sealed: Annotated[bytes, Meta(max_length=1 << 24)]
    after: Number | None


# ------------------------------------------------------------ what speaks for and against certificates


class Show(_Message, tag=80, frozen=True):
    """These certificates speak for me too; these statements say which certificates still count.

    On a ready link, what stands there is decided again, and `Accepted` follows
    under this number. Before that, statements alone are shown, for the
    certificates of the greeting or hello that comes next.
    """

    id: Number
    certificates: Credentials
    statements: Annotated[list[StatementBytes], Meta(max_length=64)]


class Changed(_Message, tag=83, frozen=True):
    """What stands under `ref` rests on another right from now on, and may show less, or more."""

    ref: Number
    until: Moment | None
    code: Code
    message: Text


# ------------------------------------------------------------ what was said last


class AskState(_Message, tag=84, frozen=True):
    """What is the present state, as far as the subscription `ref` shows it? Then wait for news."""

    id: Number
    ref: Number


class StateTold(_Message, tag=85, frozen=True):
    """What is known of the state was delivered; `is_whole` says whether everybody has answered."""

    id: Number
    is_whole: bool


class StateQuery(_Message, tag=86, frozen=True):
    """A broker asks the next one on the way to publishers: what did they say last?"""

    question: Token
    type_id: Digest


class StateFrame(_Message, tag=87, frozen=True):
    """The last frame of one publisher, as a `Carried` or a `Sealed`, in answer to a question."""

    question: Token
    frame: Annotated[bytes, Meta(max_length=1 << 24)]


class StateDone(_Message, tag=88, frozen=True):
    """That was all; `is_whole` says whether everybody behind has answered."""

    question: Token
    is_whole: bool


class StateGone(_Message, tag=89, frozen=True):
    """What a publisher said last counts no more: its right was taken away."""

    type_id: Digest
    publisher: Key
    stream: Token


Message: TypeAlias = (
    Greeting | Hello | Welcome | Bye | Ping | Pong
    | Advertise | Subscribe | Unadvertise | Unsubscribe | Accepted | Failed | Ended | RenewAll
    | SubscribeDurable | DeliverLogged | Seen | Missed | ForgetDurable
    | Publish | Published | Deliver | Carried | Sealed | SealedWithPlaintext
    | FindClosest | Nodes | Announce
    | Interest | Offer | Renew | Resync | Replica
    | SealedInterest | SealedOffer | SealedReplica | SealedRights | SealedDoubted
    | TypeQuery | TypeReply
    | JoinGroups | GroupKeys | Rekey | KeysHeld | LeaveGroups | GroupsEnded | WhoWrites | Writer
    | HistoryKeys | HistoryKeysReply
    | Show | Changed
    | AskState | StateTold | StateQuery | StateFrame | StateDone | StateGone
)  # fmt: skip
