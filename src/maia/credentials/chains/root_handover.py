"""Has an owner handed its root authority over for good?

An owner that leaves grants a successor everything, for ever, with the right
to pass it on (dissertation 5.4). No special certificate is needed: the
successor's chains begin with this one. Owners ask before they sign, and tools
ask to warn. Verifiers ask too: such a certificate cannot be taken back, so
what its issuer says about it later counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from maia.credentials.authority import (
    ALL_ATTRIBUTES,
    FITTING_ACTIONS,
    NAMED_BY,
    Action,
    AnyResource,
    Authority,
    NetworkPattern,
    ResourcePattern,
    TypePattern,
)
from maia.credentials.certificate import UNBOUNDED, AuthorisationCertificate, Certificate
from maia.credentials.chains.reduction import full_authority
from maia.credentials.keys import Principal
from maia.credentials.names import (
    FIRST_VERSION,
    NetworkName,
    ResourceName,
    TypeName,
    exact_name,
    is_reserved,
)
from maia.predicates.syntax import ALWAYS


def root_handover_certificate(
    owner: Principal, successor: Principal, resource: NetworkName | TypeName | None = None
) -> AuthorisationCertificate:
    """Return what an owner signs to hand over everything it owns, or one network or type, for good."""
    authority = full_authority(owner)
    match resource:
        case NetworkName(name=name):
            authority = _whole(NetworkPattern(owner, exact_name(name)))
        case TypeName(name=name):
            authority = _whole(TypePattern(owner, exact_name(name), None))
    return AuthorisationCertificate(
        owner, successor, may_delegate=True, authority=authority, validity=UNBOUNDED
    )


def is_for_good(certificate: Certificate) -> bool:
    """Return whether a certificate hands over all that its issuer owns, or one network or type, for good.

    It says whose that is. A blanket over every owner's resources is for brokers, and can be revoked.
    """
    if not isinstance(certificate, AuthorisationCertificate):
        return False
    pattern, owner = certificate.authority.resources, certificate.issuer
    if pattern.owner != owner:
        return False
    resource: ResourceName | None = None
    match pattern:
        case NetworkPattern(name=name) if name.exact is not None:
            resource = NetworkName(owner, name.exact)
        case TypePattern(name=name) if name.exact is not None:
            resource = TypeName(owner, name.exact, FIRST_VERSION)
    return is_root_handover(certificate, owner=owner, resource=resource)


def is_root_handover(
    certificate: Certificate, *, owner: Principal, resource: ResourceName | None = None
) -> bool:
    """Return whether `certificate` hands over all of `owner`'s resources, or the one `resource`, for good."""
    return not reasons_against_handover(certificate, owner=owner, resource=resource)


def reasons_against_handover(
    certificate: Certificate, *, owner: Principal, resource: ResourceName | None = None
) -> tuple[str, ...]:
    """Return every reason why `certificate` is no hand-over; none if it is one."""
    if not isinstance(certificate, AuthorisationCertificate):
        return ("it is a name certificate and grants nothing",)
    return tuple(_reasons(certificate, owner, resource))


def _reasons(
    certificate: AuthorisationCertificate, owner: Principal, resource: ResourceName | None
) -> Iterator[str]:
    authority = certificate.authority
    if certificate.issuer != owner:
        yield f"it was issued by `{certificate.issuer}` and not by the owner"
    if not isinstance(certificate.subject, Principal):
        yield "its subject is a name or a threshold, whose members may change"
    if not certificate.may_delegate:
        yield "it does not let the successor grant rights to others"
    if certificate.validity != UNBOUNDED:
        yield "its validity is bounded"
    if not _actions_on(authority.resources) <= authority.actions:
        yield "it does not grant every action"
    if authority.attributes is not ALL_ATTRIBUTES:
        yield "it does not grant every attribute"
    if authority.restriction != ALWAYS or authority.condition != ALWAYS or authority.transformations:
        yield "it holds under terms only"
    if authority.resources.owner not in (None, owner):
        yield "it names resources of another owner"
    if not _reaches_all(authority.resources, resource):
        yield ("it does not cover every resource" if resource is None else "it does not cover this resource")


def _whole(pattern: NetworkPattern | TypePattern) -> Authority:
    return Authority(pattern, _actions_on(pattern))


def _actions_on(pattern: ResourcePattern) -> frozenset[Action]:
    """Return all that can be passed on: each organisation says itself which keys are its brokers."""
    return FITTING_ACTIONS[type(pattern)] - {Action.BROKER}


def _reaches_all(pattern: ResourcePattern, resource: ResourceName | None) -> bool:
    """Return whether a pattern covers `resource` in all its versions, or (None) of every resource."""
    if isinstance(pattern, AnyResource):
        return resource is None or not is_reserved(resource.name)
    fits = isinstance(resource, NAMED_BY[type(pattern)]) and pattern.version is None
    return fits and resource is not None and pattern.name.matches(resource.name)
