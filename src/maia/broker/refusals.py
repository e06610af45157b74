"""In which ways does a broker say no, beside those of the policy kernel?

A `ProtocolViolation` closes the link that it came from; every other error
answers one request and leaves the link alone. Sentences are for the peer, so
none of them names another's rights, filters or references.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from maia.errors import Refusal, Unavailable
from maia.sessions.admission import TooManyRequests
from maia.sessions.challenges import NotVouchedFor, TooManyQuestions
from maia.sessions.session import PeerSilent

__all__ = [
    "CutOff",
    "KeyServerAway",
    "KeysAwaited",
    "LogFull",
    "NoKeys",
    "NotABroker",
    "NotVouchedFor",
    "PeerSilent",
    "PublishedTooLongAgo",
    "PlainOfSealed",
    "SealTooNew",
    "SealedTooWeakly",
    "TooManyQuestions",
    "TooManyRequests",
    "PublishedTooFast",
    "refusal_id",
]


def refusal_id(fields: Mapping[str, object]) -> str:
    """Return the id of a refusal: the same for all that refuse one principal the same thing by one code."""
    said = "\n".join(str(fields.get(one)) for one in ("code", "principal", "asked", "type"))
    return sha256(b"maia/1/refusal\x00" + said.encode()).digest()[:6].hex()


class SealedTooWeakly(Refusal):
    """A frame is sealed at a lower level than its type asks for."""

    code = "SEALING-TOO-WEAK"


class PublishedTooLongAgo(Refusal):
    """A frame's moment of publication does not fit the keys that are in use: it is late, or dated back."""

    code = "SEALING-PUBLISHED-AT"


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


class NotABroker(Refusal):
    """A peer would be a broker, and no organisation has said that its key is one."""

    code = "REFUSED-NOT-A-BROKER"

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__(
            "no organisation has made this key its broker: `maia up` and `maia broker add NAME` do that, and "
            "never for an organisation's own key; without it, a key may connect as a client"
        )


class BrokerNoMore(Unavailable):
    """This broker's organisation has revoked what made it one; clients go on at another one."""

    code = "UNAVAILABLE-NOT-A-BROKER"

    def __init__(self) -> None:
        """Say where to go."""
        super().__init__("this broker was made one no more by its organisation: connect to another one")


class LogFull(Unavailable):
    """The disk of this broker's event log takes nothing, and what is published is to be on it first."""

    code = "UNAVAILABLE-LOG-FULL"


class PlainOfSealed(Refusal):
    """Something of a type whose owner wants it sealed was sent in the clear."""

    code = "REFUSED-PLAIN-OF-SEALED"


class SealTooNew(Refusal):
    """A sealed interest or offer is of an epoch further ahead than a key can be on its way."""

    code = "REFUSED-SEAL-TOO-NEW"


class LedgerRequired(Refusal):
    """The owner of a type demands a record of every delivery, and this broker keeps no ledger."""

    code = "REFUSED-LEDGER-REQUIRED"


class PublishedTooFast(Refusal):
    """A frame would take its publisher beyond the rate up to which its certificates hold."""

    code = "REFUSED-RATE"
