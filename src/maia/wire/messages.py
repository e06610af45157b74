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
    FindClosest,
    Interest,
    NodeRecord,
    Nodes,
    Offer,
    OpenContent,
    Renew,
    Replica,
    Resync,
    Sealed,
    SealedColumn,
    SealedDoubted,
    SealedInterest,
    SealedOffer,
    SealedPart,
    SealedProof,
    SealedReplica,
    SealedRights,
    SealedWanted,
    SealedWithAuthor,
    SealedWithPlaintext,
    SealMark,
    SpilledType,
    SpillReport,
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
    DeliverLoggedWithAuthor,
    DeliverWithAuthor,
    Ended,
    Failed,
    ForgetDurable,
    Greeting,
    Hello,
    Identify,
    Missed,
    Ping,
    Pong,
    Publish,
    Published,
    PublishSigned,
    PublishTo,
    RenewAll,
    Seen,
    Show,
    StateDone,
    StateFrame,
    StateGone,
    StateQuery,
    StateTold,
    Subscribe,
    SubscribeDurable,
    Unadvertise,
    Unsubscribe,
    Vouched,
    Warned,
    Welcome,
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
    "DeliverLoggedWithAuthor",
    "DeliverWithAuthor",
    "Ended",
    "Failed",
    "FindClosest",
    "ForgetDurable",
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
    "PublishSigned",
    "PublishTo",
    "Published",
    "Rekey",
    "RekeyPart",
    "Renew",
    "Recorded",
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
    "SealedWithAuthor",
    "SealedWithPlaintext",
    "Seen",
    "Show",
    "SpillReport",
    "SpilledType",
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
    "Unblinded",
    "Unsubscribe",
    "Vouched",
    "Wanted",
    "Warned",
    "Welcome",
    "WhoWrites",
    "Writer",
]

Message: TypeAlias = (
    Greeting | Hello | Welcome | Bye | Ping | Pong
    | Advertise | Subscribe | Unadvertise | Unsubscribe | Accepted | Failed | Ended | RenewAll
    | SubscribeDurable | DeliverLogged | Seen | Missed | ForgetDurable | Warned
    | Publish | PublishSigned | PublishTo | Published | Deliver | DeliverWithAuthor | DeliverLoggedWithAuthor
    | Carried | CarriedWithAuthor | Sealed | SealedWithAuthor | SealedWithPlaintext
    | FindClosest | Nodes | Announce | SpillReport
    | Interest | Offer | Renew | Resync | Replica
    | SealedInterest | SealedOffer | SealedReplica | SealedRights | SealedDoubted
    | AggregateHead | AggregateQuery | AggregateContent | AggregateLost | FrameTargets
    | TypeQuery | TypeReply
    | JoinGroups | GroupKeys | Rekey | KeysHeld | LeaveGroups | GroupsEnded | WhoWrites | Writer
    | HistoryKeys | HistoryKeysReply
    | Show | Changed | Challenge | Vouched | Identify
    | AskState | StateTold | StateQuery | StateFrame | StateDone | StateGone
)  # fmt: skip

Recorded: TypeAlias = Carried | CarriedWithAuthor | Sealed | SealedWithAuthor | Unblinded
"""What a log keeps."""
