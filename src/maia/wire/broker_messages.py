"""What do brokers say to each other: about publications, each other, interests, offers and types?

Clients send none of these. What a broker says on behalf of others carries the
request and the certificates that prove it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from maia.wire.client_messages import Author, Column
from maia.wire.message_fields import (
    Address,
    AnyMessage,
    Credentials,
    Digest,
    Key,
    Moment,
    Number,
    RouteKey,
    Rows,
    Signature,
    Small,
    Token,
    Uid,
)

# ------------------------------------------------------------ between brokers: publications


class Carried(AnyMessage, tag=30, frozen=True, gc=False):
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


class CarriedWithAuthor(Carried, tag=33, frozen=True):
    """A frame on its way, with its publisher's statement, which the publisher's broker has attached."""

    author: Author


class Released(CarriedWithAuthor, tag=34, frozen=True):
    """A frame that has left its domain: what those see of it who belong to a class, and for them alone.

    `view` is the digest of the class, or nothing for those who see everything. The stream is one of its own
    (`broker/streams/borders.py`), and `origin` is the publisher's, by which subscribers know the frame. What
    is known of the publisher may be nothing at all.
    """

    view: Annotated[bytes, Meta(max_length=16)]
    origin: Token


class FrameSignature(AnyMessage, frozen=True, gc=False):
    """Who signed a frame, when, and under which right (`ShownRight`) it was published.

    `place` and `path` lead from the frame to what was signed, if frames were signed together.
    """

    signer: Key
    right: Digest
    signed_at: Moment
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]
    place: Annotated[int, Meta(ge=0, le=65_535)]
    path: Annotated[list[Digest], Meta(max_length=16)]


class CarriedSigned(Carried, tag=46, frozen=True):
    """A frame of a signed type on its way: its publisher's broker has signed it, and no broker cuts it.

    `view` is the class that it is for, if a broker at a border has made and signed it, and `origin` then the
    publisher's stream.
    """

    author: Author | None
    view: Annotated[bytes, Meta(max_length=16)] | None
    origin: Token | None
    signed: FrameSignature


class ShownRight(AnyMessage, tag=47, frozen=True):
    """The right that frames on this link are going to name: who publishes what, and who signs for it.

    `name` is the type that the publisher writes, `type_id` what its frames travel as: the same type, or a
    super-type of it; then definitions of the sub-type come before the certificates.
    """

    type_id: Digest
    publisher: Key
    signer: Key
    name: Small
    credentials: Credentials


class SealMark(AnyMessage, frozen=True, gc=False):
    """Who sealed something, and its how manyth it was: the process and a counter. No two seals share one."""

    instance: Token
    counter: Number


class SealedColumn(AnyMessage, frozen=True, gc=False):
    """One attribute of some rows, sealed; with an empty uid, all attributes together.

    `commitment` is what the signer said about its content. In a frame that is not
    committed it names the key, and the ciphertext itself is signed.
    """

    uid: Uid
    sealed: Annotated[bytes, Meta(min_length=16)]
    commitment: Digest


class Sealed(AnyMessage, tag=36, frozen=True, gc=False):
    """A sealed frame on its way. What opens and proves it is in `sealing/`.

    The publisher's broker seals it under its `mark` and signs it; `signer` names that broker and `signature`
    proves it. What is signed is the content of each column (`is_committed`), or a single event's ciphertexts.
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
    is_committed: bool
    kept: Annotated[list[Annotated[int, Meta(ge=0, le=65_535)]], Meta(max_length=65_536)]
    mark: SealMark
    columns: Annotated[list[SealedColumn], Meta(max_length=1024)]
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]
    place: Annotated[int, Meta(ge=0, le=65_535)]
    path: Annotated[list[Digest], Meta(max_length=16)]


class SealedWithAuthor(Sealed, tag=38, frozen=True):
    """A sealed frame on its way, with its publisher's statement, which its signer has attached and signed."""

    author: Author


class Unblinded(Sealed, tag=39, frozen=True):
    """A blinded frame as a log keeps it, and as no link carries it: under its type and the type's own epoch.

    `blinded_id` is what it travelled under, and `id_epoch` the epoch of that id. What is below is also in
    the envelope, sealed; here it says which publication was recorded before a restart.
    """

    blinded_id: Digest
    id_epoch: Number
    inner_publisher: Key
    inner_stream: Token
    inner_sequence: Number

    def travelled(self) -> Sealed:
        """Return the frame as it was on its way, which is what its signer signed."""
        fields = {name: getattr(self, name) for name in Sealed.__struct_fields__}
        fields |= {"type_id": self.blinded_id, "epoch": self.epoch - self.id_epoch}
        return Sealed(**fields)


class OpenContent(AnyMessage, frozen=True):
    """What is inside one sealed column of the frame beside it; with an empty uid, all columns together."""

    uid: Uid
    content: bytes


class SealedWithPlaintext(AnyMessage, tag=37, frozen=True):
    """A sealed frame, and what the receiver may read of it, to spare it the opening (K4).

    It goes to neighbours that have the right to exactly these contents, and to no others.
    """

    frame: Sealed | SealedWithAuthor
    contents: Annotated[list[OpenContent], Meta(min_length=1, max_length=1024)]


class PathHop(AnyMessage, frozen=True):
    """A router that passes a stream on, signed by it, and its identity statement in the short form."""

    router: Key
    until: Moment
    signature: Signature
    statement: Annotated[bytes, Meta(max_length=1 << 14)]


class Path(AnyMessage, tag=93, frozen=True):
    """Over which routers a publisher's stream comes, the publisher's broker first and the sender last."""

    publisher: Key
    stream: Token
    hops: Annotated[list[PathHop], Meta(min_length=1, max_length=64)]


# ------------------------------------------------------------ between brokers: overlay


class NodeRecord(AnyMessage, frozen=True):
    """A broker and where it listens."""

    key: Key
    address: Address


class FindClosest(AnyMessage, tag=40, frozen=True):
    """Which brokers do you know near this point of the id space?"""

    id: Number
    target: Token


class Nodes(AnyMessage, tag=41, frozen=True):
    """Those, and those of the routing table's row that the asker shares with me."""

    id: Number
    nodes: Annotated[list[NodeRecord], Meta(max_length=512)]


class Announce(AnyMessage, tag=42, frozen=True):
    """This broker has joined, or left, or was found dead."""

    node: NodeRecord
    alive: bool


# ------------------------------------------------------------ between brokers: interests and offers


class SealedPart(AnyMessage, frozen=True):
    """What a filter says about some attributes, for those who read all of them; without uids, for the type's.

    `mark` is equal for equal parts of one epoch (`filters/sealed_filters.py`).
    """

    uids: Annotated[list[Uid], Meta(max_length=64)]
    mark: Token
    box: Annotated[bytes, Meta(max_length=33_000)]


class SealedProof(AnyMessage, frozen=True):
    """The request and certificates behind an interest or offer, for those who read the type and `uids`.

    `seal` names this sealing, with the keys of an epoch, of the proof and of the filter that it is of. `tag`
    shows the type's own group that one of its members made all of it (`filters/proofs.py`).
    """

    epoch: Number
    seal: Token
    uids: Annotated[list[Uid], Meta(max_length=1024)]
    box: Annotated[bytes, Meta(max_length=(1 << 19) + 1024)]
    tag: Token


class Wanted(AnyMessage, frozen=True):
    """One filter of a subscriber behind the sender, with the request that proves it.

    Of sealed publications the filter is its sealed parts, and the certificates are in the sealed proof.
    """

    id: Token
    filter: Small | Annotated[list[SealedPart], Meta(max_length=64)]
    proof: Small | SealedProof | None
    credentials: Credentials
    view: Annotated[bytes, Meta(max_length=1 << 15)] = b""
    """What the subscriber sees, before it selects; nothing for everything, and for sealed publications."""


class Interest(AnyMessage, tag=50, frozen=True):
    """Changes to what the sender wants through this link; `key` is a name of the routing table."""

    key: RouteKey
    add: Annotated[list[Wanted], Meta(max_length=4096)]
    remove: Annotated[list[Token], Meta(max_length=4096)]


class Offer(AnyMessage, tag=51, frozen=True):
    """Whether publications may come from the sender's side of this link, with the proof."""

    key: RouteKey
    stands: bool
    proof: Small | SealedProof | None
    credentials: Credentials


class Renew(AnyMessage, tag=52, frozen=True):
    """All that I sent you through this link is still wanted: so many entries, with this digest of them."""

    entries: Number
    digest: Digest


class Resync(AnyMessage, tag=53, frozen=True):
    """Our books differ: tell me everything again."""


class Replica(AnyMessage, tag=54, frozen=True):
    """What one neighbour of the rendezvous wants and offers, for the brokers that would follow it."""

    key: RouteKey
    holder: NodeRecord
    wanted: Annotated[list[Wanted], Meta(max_length=4096)]
    offers: bool


class SealedDoubted(AnyMessage, tag=59, frozen=True):
    """These sealed interests, which you sent me, are refused here: let them cover no others."""

    type_id: Digest
    ids: Annotated[list[Token], Meta(max_length=4096)]


class SealedRights(AnyMessage, tag=58, frozen=True):
    """The sender's own certificates for a sealed type, for those who are in its group."""

    type_id: Digest
    proof: SealedProof


class SyncRoutes(AnyMessage, tag=111, frozen=True):
    """Answer when what I sent of these routes before, and what is sent me in return, has arrived everywhere.

    `keys` are names of the routing table. `origin` and `number` are the aggregate of a mesh that every router
    has to have, and 0 elsewhere. An offer needs to have arrived at the rendezvous alone.
    """

    id: Token
    keys: Annotated[list[RouteKey], Meta(max_length=64)]
    is_offer: bool
    origin: Key
    number: Number


class RoutesSynced(AnyMessage, tag=112, frozen=True):
    """It has."""

    id: Token


# ------------------------------------------------------------ between brokers: what one has missed


class LogPlace(AnyMessage, frozen=True):
    """Up to which position of a broker's event log something is known.

    `log` tells that log from one before it, also from the same one before it was put back.
    """

    broker: Key
    log: Token
    position: Number


class RecordedRun(AnyMessage, frozen=True, gc=False):
    """Frames of one stream that need not be sent: their first and last numbers.

    Of frames whose signer the asker could not judge it names that one: others of these numbers are sent.
    """

    publisher: Key
    stream: Token
    signer: Annotated[bytes, Meta(max_length=32)]
    first: Number
    last: Number


class FetchLog(AnyMessage, tag=114, frozen=True):
    """What did you, and the brokers behind you, record of a type that I may have and lack?

    A broker in `places` is asked for what is behind its place, every other one for what it
    recorded from `since` on. `recorded` is not to be sent. `views` are the classes that it is for. Of what is
    `missing` it is to be said if it will never be sent. `reached` are further places up to which something
    was known already: it is to be said if a log does not have them any more.
    """

    id: Token
    type_id: Digest
    since: Moment
    places: Annotated[list[LogPlace], Meta(max_length=256)]
    recorded: Annotated[list[RecordedRun], Meta(max_length=1024)]
    views: Annotated[list[Annotated[bytes, Meta(max_length=16)]], Meta(max_length=256)] = field(
        default_factory=list
    )
    missing: Annotated[list[RecordedRun], Meta(max_length=1024)] = field(default_factory=list)
    reached: Annotated[list[LogPlace], Meta(max_length=256)] = field(default_factory=list)


class LogFetched(AnyMessage, tag=115, frozen=True):
    """What one broker has recorded, as it travelled: looked through up to `place`; its log ends at `end`.

    That is this broker's own word, which it signs (`wire/log_places.py`). It is not whole if something
    behind the asker's place is not in the log any more. It is cut if there is more than the interests
    behind the link admit, on which it was asked for. It is early if interests of the classes that it is
    for have not come to where it was sent from. What is missing and `settled` was refused here, or is
    recorded and not for the asker, or not in the log any more: with all that was sent, it is complete.
    It was put back if a place that the asker named is of a log, or of a run, that is not there any more: what
    this broker alone had recorded there is lost.
    """

    id: Token
    place: LogPlace
    end: Number
    is_whole: bool
    signature: Annotated[bytes, Meta(max_length=64)]
    is_cut: bool
    frames: Annotated[list[bytes], Meta(max_length=8192)]
    is_early: bool = False
    settled: Annotated[list[RecordedRun], Meta(max_length=1024)] = field(default_factory=list)
    was_put_back: bool = False


class LogAnswered(AnyMessage, tag=116, frozen=True):
    """All that I and those behind me have was sent; not whole if one of us publishes and records nothing.

    It is short if somebody behind me was asked and has not answered.
    """

    id: Token
    is_whole: bool
    is_short: bool = False


# ------------------------------------------------------------ spill


class SpilledType(AnyMessage, frozen=True):
    """How many rows of one type, and how many bytes, arrived from a neighbour for nothing."""

    type_id: Digest
    rows: Number
    size: Number


class SpillReport(AnyMessage, tag=110, frozen=True):
    """What you have sent me since my last report and that no subscription behind me wanted; no event."""

    types: Annotated[list[SpilledType], Meta(min_length=1, max_length=256)]


# ------------------------------------------------------------ type registry


class TypeQuery(AnyMessage, tag=60, frozen=True):
    """Who has this version of this type? Owner and name are inside `name`, a canonical expression."""

    id: Number
    name: Small


class VersionsQuery(TypeQuery, tag=62, frozen=True):
    """Which versions of this type are there, whichever is named? Where not all fit, the newest are told."""


class TypeReply(AnyMessage, tag=61, frozen=True):
    """Here are signed definitions, oldest first; none if I have none. Verify them yourself."""

    id: Number
    definitions: Credentials
