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
    CarriedWithAuthor,
    FetchLog,
    FindClosest,
    Interest,
    LogAnswered,
    LogFetched,
    LogPlace,
    NodeRecord,
    Nodes,
    Offer,
    OpenContent,
    RecordedRun,
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
    SpilledType,
    SpillReport,
    SyncRoutes,
    TypeQuery,
    TypeReply,
    Unblinded,
    Wanted,
)
from maia.wire.client_messages import (
    PROTOCOL_VERSION,
    Accepted,
    Advertise,
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
    Vouched,
    Warned,
    Welcome,
    Withdraw,
)
from maia.wire.key_messages import (
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
    "AskState",
    "Author",
    "Bye",
    "Carried",
    "CarriedWithAuthor",
    "Challenge",
    "Changed",
    "Column",
    "Deliver",
    "DeliverLogged",
    "Ended",
    "Failed",
    "FetchLog",
    "FindClosest",
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
    "SpillReport",
    "SpilledType",
    "StateDone",
    "StateFrame",
    "StateGone",
    "StateQuery",
    "StateTold",
    "Subscribe",
    "SyncRoutes",
    "TypeQuery",
    "TypeReply",
    "Withdraw",
    "Unblinded",
    "Vouched",
    "Wanted",
    "Warned",
    "Welcome",
    "WhoWrites",
    "Writer",
]

Message: TypeAlias = (
    Greeting | Hello | Welcome | Bye | Ping | Pong
    | Advertise | Subscribe | Withdraw | Accepted | Failed | Ended | RenewAll
    | DeliverLogged | Seen | Missed | Warned | ServedElsewhere
    | Publish | Published | Deliver
    | Carried | CarriedWithAuthor | Sealed | SealedWithAuthor | SealedWithPlaintext
    | FindClosest | Nodes | Announce | SpillReport | FetchLog | LogFetched | LogAnswered
    | Interest | Offer | Renew | Resync | Replica | SyncRoutes | RoutesSynced
    | SealedRights | SealedDoubted
    | AggregateHead | AggregateQuery | AggregateContent | AggregateLost | FrameTargets
    | TypeQuery | TypeReply
    | JoinGroups | GroupKeys | Rekey | KeysHeld | LeaveGroups | GroupsEnded | WhoWrites | Writer
    | HistoryKeys | HistoryKeysReply
    | Show | Changed | Challenge | Vouched | Identify
    | AskState | StateTold | StateQuery | StateFrame | StateDone | StateGone
)  # fmt: skip

Recorded: TypeAlias = Carried | CarriedWithAuthor | Sealed | SealedWithAuthor | Unblinded
"""What a log keeps."""
