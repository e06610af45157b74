"""Does any role depend on itself, and in which order can roles be activated?

Roles that depend on each other in a circle are refused. Without circles, to
activate every role of a policy in this order takes one pass, a membership
never supports itself, and no role can be kept alive by renewing it from
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from maia.roles.policy import RolePremise, Rule

__all__ = ["CircularRoles", "roles_in_order"]


class CircularRoles(Exception):
    """Some roles depend on each other; `circle` names them, the first again at the end."""

    def __init__(self, circle: tuple[str, ...]) -> None:
        """Keep the names in the order in which each depends on the next."""
        super().__init__(" > ".join(circle))
        self.circle = circle


def roles_in_order(roles: Iterable[str], rules: Mapping[str, tuple[Rule, ...]]) -> tuple[str, ...]:
    """Return every role after those that its rules depend on; or raise `CircularRoles`."""
    depends_on = {role: sorted(_prerequisites(rules.get(role, ()))) for role in sorted(roles)}
    try:
        return tuple(TopologicalSorter(depends_on).static_order())
    except CycleError as problem:
        raise CircularRoles(tuple(problem.args[1])) from problem


def _prerequisites(rules: Iterable[Rule]) -> set[str]:
    return {premise.name for rule in rules for premise in rule.premises if isinstance(premise, RolePremise)}
