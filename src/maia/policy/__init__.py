"""Request, evidence, facts and a moment in; a permit with a View, or a denial, out."""

from maia.credentials.authority import Bound
from maia.policy.decide import decide, publisher_views
from maia.policy.decision import (
    Audience,
    Decision,
    Denial,
    GrantStale,
    GrantTestedOnce,
    Permit,
    PolicyRefusal,
    Reason,
    Request,
    TooMuchToSearch,
    request_digest,
)
from maia.policy.evidence import (
    CHAINS_COUNTED,
    CHAINS_MAX,
    NO_EVIDENCE,
    BoundRule,
    Evidence,
    gather_evidence,
)
from maia.policy.facts import NO_FACTS, Facts
from maia.policy.view import PublicationRefused, View, Window, see, shape, shows

__all__ = [
    "CHAINS_COUNTED",
    "CHAINS_MAX",
    "NO_EVIDENCE",
    "NO_FACTS",
    "Audience",
    "Bound",
    "BoundRule",
    "Decision",
    "Denial",
    "Evidence",
    "Facts",
    "GrantStale",
    "GrantTestedOnce",
    "Permit",
    "PolicyRefusal",
    "PublicationRefused",
    "Reason",
    "Request",
    "TooMuchToSearch",
    "View",
    "Window",
    "decide",
    "gather_evidence",
    "publisher_views",
    "request_digest",
    "see",
    "shape",
    "shows",
]
