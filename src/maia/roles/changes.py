"""What does a new policy say that the old one did not, and what does it no longer say?

An operator asks before loading it, the audit record keeps the answer. Rules
are compared by what they say, not by where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.roles.policy import Grant, Policy, Rule

__all__ = ["PolicyChanges", "changes"]


@dataclass(frozen=True, slots=True)
class PolicyChanges:
    """The rules and grants that one policy has and the other has not."""

    rules_gone: tuple[Rule, ...]
    rules_new: tuple[Rule, ...]
    grants_gone: tuple[Grant, ...]
    grants_new: tuple[Grant, ...]
    issuers_gone: tuple[str, ...]
    """Appointments that lose an issuer, or are no longer declared."""

    @property
    def takes_away(self) -> bool:
        """Return whether a member may lose a role or right."""
        return bool(self.rules_gone or self.grants_gone or self.issuers_gone)


def changes(old: Policy, new: Policy) -> PolicyChanges:
    """Compare two policies."""
    return PolicyChanges(
        tuple(rule for rule in _rules(old) if new.rule(rule.id) is None),
        tuple(rule for rule in _rules(new) if old.rule(rule.id) is None),
        tuple(grant for grant in _grants(old) if new.grant(grant.id) is None),
        tuple(grant for grant in _grants(new) if old.grant(grant.id) is None),
        tuple(name for name in old.appointments if not _issuers(old, name) <= _issuers(new, name)),
    )


def _rules(policy: Policy) -> list[Rule]:
    return [rule for rules in policy.rules.values() for rule in rules]


def _grants(policy: Policy) -> list[Grant]:
    return [grant for grants in policy.grants.values() for grant in grants]


def _issuers(policy: Policy, appointment: str) -> frozenset[object]:
    return frozenset(policy.issuers(appointment)) if appointment in policy.appointments else frozenset()
