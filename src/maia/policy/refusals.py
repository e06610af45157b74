"""What are the ways in which policy says no?

Each has a code that programs may rely on. The sentence is the requester's
version; what the owner may know besides is in the `Denial` that it came from.
"""

from __future__ import annotations

from maia.errors import Refusal
from maia.policy.reasons import Reason

__all__ = [
    "ActionNotGranted",
    "AdvertisementOutOfBounds",
    "AttributeNotReadable",
    "AttributeNotWritable",
    "ConditionNotMet",
    "FilterMistyped",
    "GrantExpired",
    "GrantNotYetValid",
    "GrantRevoked",
    "GrantStale",
    "GrantTestedOnce",
    "GrantUnmeetable",
    "GrantsLeftOut",
    "NoChain",
    "PolicyRefusal",
    "ResourceNotGranted",
    "SubscriptionTooNarrow",
    "SubscriptionTooWide",
    "TooMuchToSearch",
    "TypeNotValid",
]


class PolicyRefusal(Refusal):
    """The kernel's `decide` denied a request; carries the requester's reasons."""

    code = "POLICY-REFUSED"

    def __init__(self, reasons: tuple[Reason, ...]) -> None:
        """Keep the requester's reasons; together they are the sentence."""
        self.reasons = reasons
        said = "; ".join(reason.line() for reason in reasons)
        super().__init__(said or "the request is not permitted")

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields, with the requester's reasons."""
        return {
            "code": self.code,
            "message": self.message,
            "reasons": [reason.record() for reason in self.reasons],
        }


class NoChain(PolicyRefusal):
    """No chain of certificates leads from the owner of the resource to the requester."""

    code = "POLICY-NO-CHAIN"


class ResourceNotGranted(PolicyRefusal):
    """The requester's chains from this owner are about other resources."""

    code = "POLICY-RESOURCE-NOT-GRANTED"


class ActionNotGranted(PolicyRefusal):
    """The requester's chains for this resource grant other actions."""

    code = "POLICY-ACTION-NOT-GRANTED"


class GrantExpired(PolicyRefusal):
    """The chain that would grant this has ended."""

    code = "POLICY-EXPIRED"


class GrantNotYetValid(PolicyRefusal):
    """The chain that would grant this has not begun."""

    code = "POLICY-NOT-YET-VALID"


class GrantRevoked(PolicyRefusal):
    """A certificate of the chain that would grant this was revoked."""

    code = "POLICY-REVOKED"


class GrantStale(PolicyRefusal):
    """A certificate of the chain has no valid statement for this moment."""

    code = "POLICY-STALE"


class GrantTestedOnce(PolicyRefusal):
    """A certificate of the chain must be confirmed anew for each request, and was not for this one."""

    code = "POLICY-ONE-TIME"


class ConditionNotMet(PolicyRefusal):
    """The chain grants this under a condition that does not hold, or is not known to hold."""

    code = "POLICY-CONDITION-NOT-MET"


class AttributeNotReadable(PolicyRefusal):
    """The filter names an attribute that is hidden from its author, or that does not exist."""

    code = "POLICY-ATTRIBUTE-NOT-READABLE"


class AttributeNotWritable(PolicyRefusal):
    """The advertisement names an attribute that its author may not write, or that does not exist."""

    code = "POLICY-ATTRIBUTE-NOT-WRITABLE"


class FilterMistyped(PolicyRefusal):
    """The filter compares a readable attribute with another kind of value."""

    code = "POLICY-FILTER-MISTYPED"


class SubscriptionTooWide(PolicyRefusal):
    """The filter admits events outside an upper bound."""

    code = "POLICY-SUBSCRIPTION-TOO-WIDE"


class SubscriptionTooNarrow(PolicyRefusal):
    """The filter asks for more than a lower bound allows to ask for."""

    code = "POLICY-SUBSCRIPTION-TOO-NARROW"


class AdvertisementOutOfBounds(PolicyRefusal):
    """The advertisement announces events outside a publisher's bound."""

    code = "POLICY-ADVERTISEMENT-OUT-OF-BOUNDS"


class GrantUnmeetable(PolicyRefusal):
    """The grant's restriction can be met by no event that this publisher may write."""

    code = "POLICY-GRANT-UNMEETABLE"


class GrantsLeftOut(PolicyRefusal):
    """The requester holds more grants than are counted, so that it may see less than was granted."""

    code = "POLICY-GRANTS-LEFT-OUT"


class TypeNotValid(PolicyRefusal):
    """The proof behind the event type's definition does not hold at this moment."""

    code = "POLICY-TYPE-NOT-VALID"


class TooMuchToSearch(PolicyRefusal):
    """No chain was found within the work that is done for one answer; fewer certificates may do."""

    code = "POLICY-SEARCH-LIMIT"
