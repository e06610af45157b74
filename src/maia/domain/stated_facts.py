"""Which facts does a domain tell the network, so that brokers can ask its conditions?

A grant may hold only while something is true of its holder: `provided on-duty
== true`. Where the policy declares a fact of that name about one principal,
written `on_duty(who: principal)`, the domain states of whom it holds, beside
every list of what is revoked. Facts that no condition asks for stay at home:
what is stated is public.
"""

from __future__ import annotations

import re
from typing import Final

from maia.credentials import Principal
from maia.credentials.arguments import ParameterKind
from maia.credentials.statements import FACTS_MAX, StatedFacts
from maia.domain.access_store import Tables
from maia.domain.access_tables import FACTS
from maia.domain.facts_on_record import arguments_of
from maia.roles import Policy

__all__ = ["stated_facts"]

_WORD: Final = re.compile(r"[a-z0-9][a-z0-9-]*")


def stated_facts(tables: Tables, policy: Policy | None) -> StatedFacts | None:
    """Return what is true of whom, as far as conditions of the policy ask; None if nothing is to be said.

    Of more people than one statement can name, nothing is said, and no such condition holds.
    """
    names = [] if policy is None else _asked_for(policy)
    if not names:
        return None
    facts: dict[tuple[Principal, str], bool] = {}
    for name in names:
        for row in tables.find(FACTS, {"name": name}, limit=FACTS_MAX + 1):
            (whom,) = arguments_of(row)
            if isinstance(whom, Principal):
                facts[whom, _uid(name)] = True
    return facts if len(facts) <= FACTS_MAX else None


def _asked_for(policy: Policy) -> list[str]:
    """Return the facts about one principal that a condition of a grant names."""
    grants = (grant for grants in policy.grants.values() for grant in grants)
    said = " ".join(grant.privilege.condition or "" for grant in grants)
    asked = set(_WORD.findall(said))
    return [
        name
        for name, declared in sorted(policy.facts.items())
        if [one.kind for one in declared.parameters] == [ParameterKind.PRINCIPAL] and _uid(name) in asked
    ]


def _uid(name: str) -> str:
    return name.replace("_", "-").lower()
