"""OASIS roles: who becomes a member of what, by which rules, and what a member is granted."""

from maia.roles.memberships import (
    Fallen,
    FallReason,
    GrantedRight,
    Ground,
    Membership,
    Support,
    SupportKind,
    World,
    certificate_support,
    fact_support,
    membership_support,
)
from maia.roles.policy import (
    AppointmentDeclaration,
    FactDeclaration,
    Grant,
    Parameter,
    Policy,
    RoleDeclaration,
    Rule,
)

__all__ = [
    "AppointmentDeclaration",
    "FactDeclaration",
    "FallReason",
    "Fallen",
    "Grant",
    "GrantedRight",
    "Ground",
    "Membership",
    "Parameter",
    "Policy",
    "RoleDeclaration",
    "Rule",
    "Support",
    "SupportKind",
    "World",
    "certificate_support",
    "fact_support",
    "membership_support",
]
