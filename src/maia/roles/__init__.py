"""OASIS roles: who becomes a member of what, by which rules, and what a member is granted."""

from maia.roles.cascade import ended_memberships, ended_rights
from maia.roles.changes import PolicyChanges, changes
from maia.roles.engine import (
    ActivationLimits,
    UnknownAppointment,
    UnknownFact,
    UnknownRole,
    activate,
    activate_all,
    appointment_called,
    checked_arguments,
    fact_called,
    membership_certificate,
    stated_arguments,
)
from maia.roles.grants import PossibleRight, possible_rights, rights
from maia.roles.known_world import KnownWorld, WithMemberships
from maia.roles.matching import ActivationTooLarge
from maia.roles.memberships import (
    EndedMembership,
    EndReason,
    GrantedRight,
    Ground,
    RoleMembership,
    Support,
    SupportKind,
    World,
    certificate_support,
    fact_support,
    membership_support,
)
from maia.roles.parsing import parse_policy
from maia.roles.policy import (
    AppointmentDeclaration,
    FactDeclaration,
    Grant,
    Parameter,
    Policy,
    RoleDeclaration,
    Rule,
)
from maia.roles.problems import BadPolicy, PolicyProblem

__all__ = [
    "ActivationLimits",
    "ActivationTooLarge",
    "AppointmentDeclaration",
    "BadPolicy",
    "FactDeclaration",
    "EndReason",
    "EndedMembership",
    "Grant",
    "GrantedRight",
    "Ground",
    "KnownWorld",
    "RoleMembership",
    "Parameter",
    "Policy",
    "PolicyChanges",
    "PolicyProblem",
    "PossibleRight",
    "RoleDeclaration",
    "Rule",
    "Support",
    "SupportKind",
    "UnknownAppointment",
    "UnknownFact",
    "UnknownRole",
    "WithMemberships",
    "World",
    "activate",
    "activate_all",
    "appointment_called",
    "certificate_support",
    "changes",
    "checked_arguments",
    "fact_called",
    "fact_support",
    "ended_memberships",
    "ended_rights",
    "membership_certificate",
    "membership_support",
    "parse_policy",
    "possible_rights",
    "rights",
    "stated_arguments",
]
