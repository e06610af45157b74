"""OASIS roles: who becomes a member of what, by which rules, and what a member is granted."""

from maia.roles.changes import changes
from maia.roles.engine import (
    ActivationLimits,
    activate,
    appointment_called,
    fact_called,
    stated_arguments,
)
from maia.roles.grants import possible_rights, rights
from maia.roles.memberships import (
    EndReason,
    GrantedRight,
    Ground,
    RoleMembership,
    Support,
    SupportKind,
    certificate_support,
    ended_memberships,
    ended_rights,
    fact_support,
    membership_support,
)
from maia.roles.parsing import parse_policy
from maia.roles.policy import AppointmentDeclaration, FactDeclaration, Grant, Policy, RoleDeclaration
from maia.roles.statements import BadPolicy

__all__ = [
    "ActivationLimits",
    "AppointmentDeclaration",
    "BadPolicy",
    "FactDeclaration",
    "EndReason",
    "Grant",
    "GrantedRight",
    "Ground",
    "RoleMembership",
    "Policy",
    "RoleDeclaration",
    "Support",
    "SupportKind",
    "activate",
    "appointment_called",
    "certificate_support",
    "changes",
    "fact_called",
    "fact_support",
    "ended_memberships",
    "ended_rights",
    "membership_support",
    "parse_policy",
    "possible_rights",
    "rights",
    "stated_arguments",
]
