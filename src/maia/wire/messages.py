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
    SealedWithPlaintext,
    SealMark,
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
    Bye,
    Challenge,
    Changed,
    Column,
    Deliver,
    DeliverLogged,
    Ended,
    Failed,
    ForgetDurable,
    Greeting,
    Hello,
    Missed,
    Ping,
    Pong,
    Publish,
    Published,
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

__all__ = [
    "Accepted",
    "Advertise",
    "Announce",
    "AskState",
    "Bye",
    "Carried",
    "Challenge",
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
    | Publish | Published | Deliver | Carried | Sealed | SealedWithPlaintext
    | FindClosest | Nodes | Announce
    | Interest | Offer | Renew | Resync | Replica
    | SealedInterest | SealedOffer | SealedReplica | SealedRights | SealedDoubted
    | TypeQuery | TypeReply
    | JoinGroups | GroupKeys | Rekey | KeysHeld | LeaveGroups | GroupsEnded | WhoWrites | Writer
    | HistoryKeys | HistoryKeysReply
    | Show | Changed | Challenge | Vouched
    | AskState | StateTold | StateQuery | StateFrame | StateDone | StateGone
)  # fmt: skip

Recorded: TypeAlias = Carried | Sealed | Unblinded
"""What a log keeps."""
