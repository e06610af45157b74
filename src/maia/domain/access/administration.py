"""May this actor administer this domain?

The right to do so is a certificate like any other, over topics of the domain's
own key: to publish on `/admin/policy` is to change the policy, to subscribe to
`/admin/audit` is to read the audit. The policy kernel decides: these topics
are reserved, so no wildcard and no blanket grant covers them
(docs/decisions/names.md). The domain key owns them and needs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from maia.credentials import (
    Budget,
    Principal,
    SignedCertificate,
    SigningKey,
    TopicName,
    VerificationCache,
)
from maia.credentials.validity.validity_state import Tester
from maia.domain.access.refusals import TooManyShown
from maia.domain.access.results import AdminAct
from maia.events import Instant
from maia.policy import Denial, Facts, Permit, Request, decide, gather_evidence

__all__ = ["WORK_MAX", "authorised"]

_POOL_MAX: Final = 256
WORK_MAX: Final = 4096
"""Steps that the search for the right to one act may take; a signature check counts for some (A87)."""


def authorised(
    key: SigningKey,
    actor: Principal,
    pool: Sequence[SignedCertificate],
    act: AdminAct,
    *,
    now: Instant,
    tester: Tester,
    cache: VerificationCache,
) -> Permit:
    """Return the kernel's permit for an act; raise its refusal if there is none."""
    if len(pool) > _POOL_MAX:
        raise TooManyShown(f"a request shows at most {_POOL_MAX} certificates")
    request = Request(actor, act.action, TopicName(key.principal, act.topic))
    evidence = gather_evidence(
        request, pool, at=now, cache=cache, standing=tester, budget=Budget.of(WORK_MAX)
    )
    decision = decide(request, evidence, Facts(), now)
    if isinstance(decision, Denial):
        raise decision.as_refusal()
    return decision
