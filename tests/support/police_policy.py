"""A policy of the police: whoever is said to be a detective is an officer, and officers get one right."""

from __future__ import annotations

__all__ = ["police_policy"]

_POLICY = """\
policy "Police"
fact detective(who: principal)
role officer()
rule officer()
    while detective(holder)
    for 1 day
grant officer()
    {grant}
end
"""


def police_policy(grant: str = 'may subscribe to topic "/calls" of here') -> str:
    """Return the policy that grants officers this."""
    return _POLICY.format(grant=grant)
