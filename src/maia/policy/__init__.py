"""Request, evidence, facts and a moment in; a permit with a View, or a denial, out."""

from maia.policy.bounds import BadBound, Bound, BoundRule
from maia.policy.decide import decide
from maia.policy.decision import Decision, Denial, Permit
from maia.policy.evidence import CHAINS_COUNTED, CHAINS_MAX, NO_EVIDENCE, Evidence, TooMuchEvidence
from maia.policy.evidence_search import gather_evidence
from maia.policy.facts import NO_FACTS, Facts
from maia.policy.reasons import Audience, Explanation, Reason
from maia.policy.refusals import (
    ActionNotGranted,
    AdvertisementOutOfBounds,
    AttributeNotReadable,
    AttributeNotWritable,
    ConditionNotMet,
    FilterMistyped,
    GrantExpired,
    GrantNotYetValid,
    GrantRevoked,
    GrantsLeftOut,
    GrantStale,
    GrantTestedOnce,
    GrantUnmeetable,
    NoChain,
    PolicyRefusal,
    ResourceNotGranted,
    SubscriptionTooNarrow,
    SubscriptionTooWide,
    TooMuchToSearch,
    TypeNotValid,
)
from maia.policy.request import BadRequest, Request, request_digest
from maia.policy.view import PublicationRefused, View, Window, see, shape, shows

__all__ = [
    "CHAINS_COUNTED",
    "CHAINS_MAX",
    "NO_EVIDENCE",
    "NO_FACTS",
    "ActionNotGranted",
    "AdvertisementOutOfBounds",
    "AttributeNotReadable",
    "AttributeNotWritable",
    "Audience",
    "BadBound",
    "BadRequest",
    "Bound",
    "BoundRule",
    "ConditionNotMet",
    "Decision",
    "Denial",
    "Evidence",
    "Explanation",
    "Facts",
    "FilterMistyped",
    "GrantExpired",
    "GrantNotYetValid",
    "GrantRevoked",
    "GrantStale",
    "GrantTestedOnce",
    "GrantUnmeetable",
    "GrantsLeftOut",
    "NoChain",
    "Permit",
    "PolicyRefusal",
    "PublicationRefused",
    "Reason",
    "Request",
    "ResourceNotGranted",
    "SubscriptionTooNarrow",
    "SubscriptionTooWide",
    "TooMuchToSearch",
    "TooMuchEvidence",
    "TypeNotValid",
    "View",
    "Window",
    "decide",
    "gather_evidence",
    "request_digest",
    "see",
    "shape",
    "shows",
]
