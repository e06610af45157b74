"""What do a member of key groups and their manager say to each other?

Secrets travel sealed to a key of the member's session (`sealing/`).
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from maia.wire.message_fields import (
    AnyMessage,
    Code,
    Credentials,
    Digest,
    Key,
    Moment,
    Number,
    Signature,
    SignedEpochBytes,
    Text,
    Uid,
)


class JoinGroups(AnyMessage, tag=70, frozen=True):
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


class KeyTermsRecord(AnyMessage, frozen=True):
    """How long keys are used and kept, in seconds."""

    refresh_s: Number
    overdue_s: Number
    drift_s: Number
    back_dating_s: Number


class GroupKeys(AnyMessage, tag=71, frozen=True):
    """What a member may hold, sealed to its session; `id` is 0 where it answers no question.

    `until` is the last moment of the right to it; null for ever.
    """

    id: Number
    type_id: Digest
    terms: KeyTermsRecord
    epochs: Annotated[list[SignedEpochBytes], Meta(max_length=4096)]
    sealed: Annotated[bytes, Meta(max_length=1 << 22)]
    until: Moment | None


class RekeyPart(AnyMessage, frozen=True):
    """How the members of one group find its new secret: a change of its key tree."""

    uid: Uid | None
    change: Annotated[bytes, Meta(max_length=1 << 23)]


class Rekey(AnyMessage, tag=72, frozen=True):
    """A new epoch begins. The same bytes go to every member, and each finds in them what it may know."""

    type_id: Digest
    epoch: SignedEpochBytes
    parts: Annotated[list[RekeyPart], Meta(max_length=1025)]


class KeysHeld(AnyMessage, tag=73, frozen=True):
    """This is the newest epoch I hold; number 0 for none. The manager answers with its own."""

    type_id: Digest
    number: Number
    digest: Digest | None


class LeaveGroups(AnyMessage, tag=74, frozen=True):
    """I need the keys of this type no more."""

    type_id: Digest


STATEMENT_AWAITED: Final = "UNAVAILABLE-STATEMENT-AWAITED"
"""The code of what a validity statement that is late has ended: it goes on when the statement comes."""


class GroupsEnded(AnyMessage, tag=75, frozen=True):
    """You are no longer in these groups; null stands for the type's own."""

    type_id: Digest
    uids: Annotated[list[Uid | None], Meta(max_length=1025)]
    code: Code
    message: Text


class ExpectMember(AnyMessage, tag=94, frozen=True):
    """Begin the keys of a principal that will ask for them: these certificates are for it.

    `Accepted` or `Failed` answers. No key is handed out by that.
    """

    id: Number
    principal: Key
    definitions: Credentials
    credentials: Credentials


class WhoWrites(AnyMessage, tag=76, frozen=True):
    """With which certificates does this member publish?"""

    id: Number
    type_id: Digest
    principal: Key


class Writer(AnyMessage, tag=77, frozen=True):
    """With these; none if it is not known here. Decide upon them yourself."""

    id: Number
    type_id: Digest
    principal: Key
    credentials: Credentials


class HistoryKeys(AnyMessage, tag=78, frozen=True):
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


class HistoryKeysReply(AnyMessage, tag=79, frozen=True):
    """These, sealed to the session; `after` is where to go on asking, null at the end."""

    id: Number
    type_id: Digest
    terms: KeyTermsRecord
    sealed: Annotated[bytes, Meta(max_length=1 << 24)]
    after: Number | None
