"""In which ways does a broker say no, beside those of the policy kernel?

A `ProtocolViolation` closes the link that it came from; every other error
answers one request and leaves the link alone. Sentences are for the peer, so
none of them names another's rights, filters or references.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from maia.errors import BadInput, ProtocolViolation, Refusal, Unavailable
from maia.sessions.admission import TooManyRequests
from maia.sessions.challenges import NotVouchedFor, NotVouchedForInTime, TooManyQuestions
from maia.sessions.session import (
    HandshakeTooSlow,
    OutOfTurn,
    PeerSilent,
    Shutdown,
    WrongNetwork,
    WrongProtocol,
)
from maia.wire.framing import BeyondShare

__all__ = [
    "BeyondCover",
    "BeyondShare",
    "BrokersOnly",
    "ClientsOnly",
    "CursorAhead",
    "CursorOfAnotherType",
    "CursorTaken",
    "CutOff",
    "FrameTooLarge",
    "FrameUnasked",
    "HandshakeTooSlow",
    "KeyServerAway",
    "KeysAwaited",
    "LeaseEnded",
    "LinkNotNeeded",
    "LogFull",
    "LogKeysGone",
    "LogRemoved",
    "LogUnreadable",
    "NoKeys",
    "NotProved",
    "NotVouchedFor",
    "NotVouchedForInTime",
    "NotRecorded",
    "OutOfTurn",
    "PeerSilent",
    "PublishedTooLongAgo",
    "PlainOfSealed",
    "RefTaken",
    "RequirementOnBlinded",
    "RightChanged",
    "SealOutdated",
    "SealTooNew",
    "SealedTooWeakly",
    "Shutdown",
    "SlotsTaken",
    "SignerNotEntitled",
    "StatementAwaited",
    "TooManyCursors",
    "TooManyEntries",
    "TooManyLinks",
    "TooManyQuestions",
    "TooManyRequests",
    "TooMuchAtOnce",
    "TypesFull",
    "UnknownRef",
    "UnknownType",
    "WrongNetwork",
    "WrongProtocol",
    "StateOfDurable",
    "SummaryNotKept",
    "PublishedTooFast",
    "refusal_id",
]


def refusal_id(fields: Mapping[str, object]) -> str:
    """Return the id of a refusal: the same for all that refuse one principal the same thing by one code."""
    said = "\n".join(str(fields.get(one)) for one in ("code", "principal", "asked", "type"))
    return sha256(b"maia/1/refusal\x00" + said.encode()).digest()[:6].hex()


class BrokersOnly(ProtocolViolation):
    """A client sent what only brokers may say to each other."""

    code = "PROTOCOL-BROKERS-ONLY"


class ClientsOnly(ProtocolViolation):
    """A broker sent what only a client says, or what only a broker says to a client."""

    code = "PROTOCOL-CLIENTS-ONLY"


class NotProved(Refusal):
    """An interest or offer of another broker is not proved by a request."""

    code = "REFUSED-NOT-PROVED"


class SealedTooWeakly(Refusal):
    """A frame is sealed at a lower level than its type asks for."""

    code = "SEALING-TOO-WEAK"


class SignerNotEntitled(Refusal):
    """A sealed frame was signed by a principal that may not publish what is in it."""

    code = "SEALING-SIGNER-NOT-ENTITLED"


class PublishedTooLongAgo(Refusal):
    """A frame's moment of publication does not fit the keys that are in use: it is late, or dated back."""

    code = "SEALING-PUBLISHED-AT"


class RequirementOnBlinded(Refusal):
    """A requirement was made for a blinded type, whose frames show neither publishers nor requirements."""

    code = "REFUSED-REQUIREMENT-BLINDED"


class SummaryNotKept(Refusal):
    """A durable subscription was asked for by a right that shows summaries, which are kept nowhere."""

    code = "REFUSED-SUMMARY-DURABLE"


class UnknownRef(BadInput):
    """Nothing is registered under this reference on this link."""

    code = "INPUT-UNKNOWN-REF"


class RefTaken(BadInput):
    """The reference is used for something else on this link."""

    code = "INPUT-REF-TAKEN"


class UnknownType(BadInput):
    """The request names a type version that this broker does not know and was not handed."""

    code = "TYPE-UNKNOWN"


class FrameTooLarge(BadInput):
    """A frame has more rows than this broker takes on."""

    code = "INPUT-FRAME-ROWS"


class BeyondCover(BadInput):
    """An event of a covered type is longer than the frames that the owner of the type chose."""

    code = "INPUT-BEYOND-COVER"


class SlotsTaken(Unavailable):
    """More frames of a covered type wait for their slots than this broker has room for."""

    code = "UNAVAILABLE-SLOTS"


class TooMuchAtOnce(ProtocolViolation):
    """A message of another broker takes more work than one message may: it has to be sent in several."""

    code = "PROTOCOL-TOO-MUCH-AT-ONCE"


class TooManyEntries(Unavailable):
    """The client, or the peer, has as many entries here as it may."""

    code = "UNAVAILABLE-ENTRY-QUOTA"


class TooManyLinks(Unavailable):
    """The broker has as many connections as it may."""

    code = "UNAVAILABLE-LINKS"


class TypesFull(Unavailable):
    """The broker remembers as many types as it may."""

    code = "UNAVAILABLE-TYPES-FULL"


class LeaseEnded(Unavailable):
    """What was accepted has not been renewed within its lease."""

    code = "UNAVAILABLE-LEASE-ENDED"


class EntriesDiffer(Unavailable):
    """A client renewed all entries of its link, and other entries are registered there."""

    code = "UNAVAILABLE-ENTRIES-DIFFER"


class StatementAwaited(Unavailable):
    """A certificate demands a validity statement, and this broker waits for it."""

    code = "UNAVAILABLE-STATEMENT-AWAITED"


class RightChanged(Refusal):
    """An entry depends on other certificates than before, and may show less, or more."""

    code = "REFUSED-RIGHT-CHANGED"


class KeysAwaited(Unavailable):
    """A frame of a sealed type waited for keys that this broker does not have yet."""

    code = "UNAVAILABLE-KEYS-AWAITED"


class NoKeys(Unavailable):
    """This broker can neither seal nor open a type: it has no right to keys, or nowhere to ask for them."""

    code = "UNAVAILABLE-NO-KEYS"


class KeyServerAway(Unavailable):
    """This broker can neither seal nor open a type yet: the key server of the type cannot be reached."""

    code = "UNAVAILABLE-KEY-SERVER"


class NoSecret(Unavailable):
    """A right shows a pseudonym, noise or a lookup, and this broker lacks its issuer's secret or table."""

    code = "UNAVAILABLE-NO-SECRET"


class CutOff(Unavailable):
    """This broker has no link to any other broker of its network, and should have one."""

    code = "UNAVAILABLE-CUT-OFF"


class LogFull(Unavailable):
    """The disk of this broker's event log has no room, and what is published is to be on it first."""

    code = "UNAVAILABLE-LOG-FULL"


class FrameUnasked(Refusal):
    """A broker sent a frame of a type that it neither offers nor leads to."""

    code = "REFUSED-FRAME-UNASKED"


class PlainOfSealed(Refusal):
    """Something of a type whose owner wants it sealed was sent in the clear."""

    code = "REFUSED-PLAIN-OF-SEALED"


class SealOutdated(Refusal):
    """A sealed interest or offer is of an epoch that is over: its maker has not sealed it anew."""

    code = "REFUSED-SEAL-OUTDATED"


class SealTooNew(Refusal):
    """A sealed interest or offer is of an epoch further ahead than a key can be on its way."""

    code = "REFUSED-SEAL-TOO-NEW"


class LinkNotNeeded(Unavailable):
    """There is another link between the same two brokers."""

    code = "UNAVAILABLE-LINK-NOT-NEEDED"


class LedgerRequired(Refusal):
    """The owner of a type demands a record of every delivery, and this broker keeps no ledger."""

    code = "REFUSED-LEDGER-REQUIRED"


class NotRecorded(BadInput):
    """A durable subscription was asked for at a broker that does not record the type."""

    code = "INPUT-NOT-RECORDED"


class CursorOfAnotherType(BadInput):
    """The name of a durable subscription is used for one to another type."""

    code = "INPUT-DURABLE-OTHER-TYPE"


class CursorAhead(Refusal):
    """A client goes on from a position that this event log has not given it: it was served from another."""

    code = "REFUSED-DURABLE-OTHER-LOG"


class CursorTaken(Refusal):
    """The same principal goes on with this durable subscription somewhere else."""

    code = "REFUSED-DURABLE-TAKEN-OVER"


class TooManyCursors(Refusal):
    """There are as many durable subscriptions as there may be."""

    code = "REFUSED-DURABLE-QUOTA"


class LogRemoved(Unavailable):
    """What a durable subscription should have had is older than what the event log keeps."""

    code = "UNAVAILABLE-LOG-REMOVED"


class LogKeysGone(Unavailable):
    """What a durable subscription should have had is sealed with keys that are not held any more."""

    code = "UNAVAILABLE-LOG-KEYS-GONE"


class LogNotFetched(Unavailable):
    """This broker was cut off, and what was published meanwhile may be in no log that it can fetch from."""

    code = "UNAVAILABLE-LOG-NOT-FETCHED"


class LogGap(Unavailable):
    """Events of a publisher are missing between others, or came too late to be delivered in their order."""

    code = "UNAVAILABLE-LOG-GAP"


class LogUnreadable(Unavailable):
    """What a durable subscription should have had cannot be read, or its signer cannot be found."""

    code = "UNAVAILABLE-LOG-UNREADABLE"


class StateOfDurable(BadInput):
    """The state was asked for on a durable subscription, which goes on where it was."""

    code = "INPUT-STATE-DURABLE"


class PublishedTooFast(Refusal):
    """A frame would take its publisher beyond the rate up to which its certificates hold."""

    code = "REFUSED-RATE"
