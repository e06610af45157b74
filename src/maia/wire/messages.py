"""What do nodes say to each other?

Each message is a MessagePack array that begins with its number. A field more
or less, another type, or an unknown number is a protocol violation. Sizes are
bounded before anything is decoded (`framing.py`). Requests that grant or ask
for rights carry the signed bytes themselves, and what was signed is what is
decided upon (`requests.py`).
"""

from __future__ import annotations

from typing import TypeAlias

from maia.wire.broker_messages import (
    Announce,
    Carried,
    CarriedSigned,
    CarriedWithAuthor,
    FetchLog,
    FindClosest,
    FrameSignature,
    Interest,
    LogAnswered,
    LogFetched,
    LogPlace,
    NodeRecord,
    Nodes,
    Offer,
    OpenContent,
    Path,
    PathHop,
    RecordedRun,
    Released,
    Renew,
    Replica,
    Resync,
    RoutesSynced,
    Sealed,
    SealedColumn,
    SealedDoubted,
    SealedPart,
    SealedProof,
    SealedRights,
    SealedWithAuthor,
    SealedWithPlaintext,
    SealMark,
    ShownRight,
    SpilledType,
    SpillReport,
    SyncRoutes,
    TypeQuery,
    TypeReply,
    Unblinded,
    VersionsQuery,
    Wanted,
)
from maia.wire.client_messages import (
    PROTOCOL_VERSION,
    Accepted,
    Advertise,
    AskRight,
    AskState,
    Author,
    Bye,
    Challenge,
    Changed,
    Column,
    Deliver,
    DeliverLogged,
    Ended,
    Failed,
    Greeting,
    Hello,
    Identify,
    Missed,
    Ping,
    Pong,
    Publish,
    Published,
    RenewAll,
    RightShown,
    Seen,
    ServedElsewhere,
    Show,
    SignedByPublisher,
    StateDone,
    StateFrame,
    StateGone,
    StateQuery,
    StateTold,
    Subscribe,
    SubscribePart,
    Vouched,
    Warned,
    Welcome,
    Withdraw,
)
from maia.wire.key_messages import (
    ExpectMember,
    GroupKeys,
    GroupsEnded,
    HistoryKeys,
    HistoryKeysReply,
    JoinGroups,
    KeysHeld,
    KeyTermsRecord,
    LeaveGroups,
    Rekey,
    RekeyPart,
    WhoWrites,
    Writer,
)
from maia.wire.mesh_messages import (
    AggregateContent,
    AggregateHead,
    AggregateLost,
    AggregateQuery,
    FrameTargets,
)

__all__ = [
    "Accepted",
    "Advertise",
    "AggregateContent",
    "AggregateHead",
    "AggregateLost",
    "AggregateQuery",
    "Announce",
    "AskRight",
    "AskState",
    "Author",
    "Bye",
    "Carried",
    "CarriedSigned",
    "CarriedWithAuthor",
    "Released",
    "Challenge",
    "Changed",
    "Column",
    "Deliver",
    "DeliverLogged",
    "Ended",
    "ExpectMember",
    "Failed",
    "FetchLog",
    "FindClosest",
    "FrameSignature",
    "FrameTargets",
    "Greeting",
    "GroupKeys",
    "GroupsEnded",
    "Hello",
    "HistoryKeys",
    "HistoryKeysReply",
    "Identify",
    "Interest",
    "JoinGroups",
    "KeyTermsRecord",
    "KeysHeld",
    "LeaveGroups",
    "LogAnswered",
    "LogFetched",
    "LogPlace",
    "Message",
    "Missed",
    "NodeRecord",
    "Nodes",
    "Offer",
    "Path",
    "PathHop",
    "OpenContent",
    "PROTOCOL_VERSION",
    "Ping",
    "Pong",
    "Publish",
    "Published",
    "Recorded",
    "RecordedRun",
    "Rekey",
    "RekeyPart",
    "Renew",
    "RenewAll",
    "RightShown",
    "Replica",
    "Resync",
    "RoutesSynced",
    "SealMark",
    "Sealed",
    "SealedColumn",
    "SealedDoubted",
    "SealedPart",
    "SealedProof",
    "SealedRights",
    "SealedWithAuthor",
    "SealedWithPlaintext",
    "Seen",
    "ServedElsewhere",
    "SignedByPublisher",
    "Show",
    "ShownRight",
    "SpillReport",
    "SpilledType",
    "StateDone",
    "StateFrame",
    "StateGone",
    "StateQuery",
    "StateTold",
    "Subscribe",
    "SubscribePart",
    "SyncRoutes",
    "TypeQuery",
    "TypeReply",
    "VersionsQuery",
    "Withdraw",
    "Unblinded",
    "Vouched",
    "Wanted",
    "Warned",
    "Welcome",
    "WhoWrites",
    "Writer",
    "signer_of",
]

Message: TypeAlias = (
    Greeting | Hello | Welcome | Bye | Ping | Pong
    | Advertise | Subscribe | SubscribePart | Withdraw | Accepted | Failed | Ended | RenewAll
    | AskRight | RightShown
    | DeliverLogged | Seen | Missed | Warned | ServedElsewhere
    | Publish | Published | Deliver
    | Carried | CarriedWithAuthor | CarriedSigned | Released | ShownRight | Path
    | Sealed | SealedWithAuthor | SealedWithPlaintext
    | FindClosest | Nodes | Announce | SpillReport | FetchLog | LogFetched | LogAnswered
    | Interest | Offer | Renew | Resync | Replica | SyncRoutes | RoutesSynced
    | SealedRights | SealedDoubted
    | AggregateHead | AggregateQuery | AggregateContent | AggregateLost | FrameTargets
    | TypeQuery | VersionsQuery | TypeReply
    | JoinGroups | GroupKeys | Rekey | KeysHeld | LeaveGroups | GroupsEnded | WhoWrites | Writer
    | HistoryKeys | HistoryKeysReply | ExpectMember
    | Show | Changed | Challenge | Vouched | Identify
    | AskState | StateTold | StateQuery | StateFrame | StateDone | StateGone
)  # fmt: skip

Recorded: TypeAlias = (
    Carried | CarriedWithAuthor | CarriedSigned | Released | Sealed | SealedWithAuthor | Unblinded
)
"""What a log keeps."""


def signer_of(frame: Carried | Sealed) -> bytes:
    """Return who is said to have signed a frame; no bytes for one that is not signed."""
    if isinstance(frame, Sealed):
        return frame.signer
    return frame.signed.signer if isinstance(frame, CarriedSigned) else b""
