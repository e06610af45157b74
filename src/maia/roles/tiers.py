"""Does a domain hold sub-domains, or brokers and clients?

Never both (dissertation 3.2.1, 5.1.4): brokers share all rights of their
domain, so a domain whose parts have different rights has no brokers of its
own. What distinguishes the two is who may pass the right to connect on: only a
domain has use for that. The owner of a network is no domain of it in this
sense, and lets domains and brokers connect as it likes.

A policy that would make a domain both is refused when it is read, and so is a
certificate that was signed by hand when it is registered.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from maia.credentials import (
    Action,
    AnyResource,
    AuthorisationCertificate,
    Certificate,
    NetworkPattern,
    Principal,
)
from maia.roles.policy import HERE, Grant, ResourceKind


class Tier(Enum):
    """What a domain holds."""

    MEMBERS = "brokers and clients"
    SUB_DOMAINS = "sub-domains"


def tier_of_grant(grant: Grant, domain: Principal) -> Tier | None:
    """Return what a grant in the policy of `domain` makes of its members; None if none may connect."""
    privilege = grant.privilege
    resource = privilege.resource
    if resource.kind is not ResourceKind.NETWORK or resource.owner in (HERE, domain):
        return None
    return _tier(privilege.actions, may_delegate=privilege.may_delegate)


def tier_of_certificate(certificate: Certificate) -> Tier | None:
    """Return what a certificate of a domain makes of its subject; None if that may not connect."""
    if not isinstance(certificate, AuthorisationCertificate):
        return None
    resources = certificate.authority.resources
    if not isinstance(resources, NetworkPattern | AnyResource) or resources.owner == certificate.issuer:
        return None
    return _tier(certificate.authority.actions, may_delegate=certificate.may_delegate)


def clash(grants: Iterable[Grant], domain: Principal) -> tuple[Grant, Grant] | None:
    """Return two grants that no domain can make together, the earlier one first; None if there are none."""
    first: dict[Tier, Grant] = {}
    for grant in grants:
        tier = tier_of_grant(grant, domain)
        if tier is not None:
            first.setdefault(tier, grant)
        if len(first) == len(Tier):
            one, other = first.values()
            return one, other
    return None


def _tier(actions: frozenset[Action], *, may_delegate: bool) -> Tier | None:
    if Action.CONNECT not in actions:
        return None
    return Tier.SUB_DOMAINS if may_delegate else Tier.MEMBERS
