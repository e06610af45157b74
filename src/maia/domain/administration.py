"""May this actor administer this domain?

The right to do so is a certificate like any other, over topics of the domain's
own key: to publish on `/admin/policy` is to change the policy, to subscribe to
`/admin/audit` is to read the audit. The policy kernel decides. The domain key
owns the topics and needs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    Budget,
    Principal,
    SignedCertificate,
    SigningKey,
    TopicName,
    TopicPattern,
    Validity,
    VerificationCache,
    exact_name,
    issue,
)
from maia.credentials.standing import Tester
from maia.domain.access_answers import AdminAct
from maia.domain.access_refusals import TooManyShown
from maia.events import Instant
from maia.policy import Denial, Facts, Permit, Request, decide, gather_evidence

__all__ = ["WORK_MAX", "authorised"]

_SECOND: Final = 1_000_000
_LEVELS_ABOVE: Final = ("/", "/admin")
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
    shown = [*pool, *_levels_above(key, actor, act, now)]
    evidence = gather_evidence(
        request, shown, at=now, cache=cache, standing=tester, budget=Budget.of(WORK_MAX)
    )
    decision = decide(request, evidence, Facts(), now)
    if isinstance(decision, Denial):
        raise decision.as_refusal()
    return decision


def _levels_above(key: SigningKey, actor: Principal, act: AdminAct, now: Instant) -> list[SignedCertificate]:
    """Return the right to publish on the topics above, for this second.

    Whoever publishes on a topic reaches the subscribers of those above it and
    needs their leave. Nobody listens to `/` or `/admin`, so the domain gives
    it, and an administrator's certificate names the one topic that it is about.
    """
    if act.action is not Action.PUBLISH or actor == key.principal:
        return []
    second = Instant(now - now % _SECOND)
    above = []
    for path in _LEVELS_ABOVE:
        authority = Authority(TopicPattern(key.principal, exact_name(path)), frozenset({Action.PUBLISH}))
        validity = Validity(second, Instant(second + _SECOND))
        above.append(issue(AuthorisationCertificate(key.principal, actor, False, authority, validity), key))
    return above
