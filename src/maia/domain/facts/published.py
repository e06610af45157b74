"""Which facts does a domain publish, so that brokers can check its conditions?

A grant may hold only while something is true of its holder: `provided on-duty
== true`. Where the policy declares a fact of that name about one principal,
written `on_duty(who: principal)`, the domain states of whom it holds, beside
every list of what is revoked, and at once when it holds of fewer. Of more, it
says so with its next statement. Facts that no condition asks for are not
published: what is stated is public.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from maia.credentials import Principal
from maia.credentials.appointments import ParameterKind
from maia.credentials.validity.statements import FACTS_MAX, StatedFacts
from maia.domain.facts.store import arguments_of
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import FACTS, META, MetaRow
from maia.roles import Policy

_STATED: Final = "facts stated"
_NOT_YET: Final = b""

_WORD: Final = re.compile(r"[a-z0-9][a-z0-9-]*")


def stated_facts(tables: Tables, policy: Policy | None) -> StatedFacts | None:
    """Return what is true of whom, as far as conditions of the policy ask; None if nothing is stated.

    Of more people than one statement can name, nothing is stated, and no such condition holds.
    """
    names = [] if policy is None else _asked_for(policy)
    if not names:
        return None
    facts: dict[tuple[Principal, str], bool] = {}
    for name in names:
        for row in tables.find(FACTS, FACTS.c.name == name, limit=FACTS_MAX + 1):
            (whom,) = arguments_of(row)
            if isinstance(whom, Principal):
                facts[whom, _uid(name)] = True
    return facts if len(facts) <= FACTS_MAX else None


def take_unpublished_facts(tables: Tables, policy: Policy | None) -> StatedFacts | None:
    """Return what is to be stated now because it differs from what was stated last; None if it does not."""
    facts = stated_facts(tables, policy)
    stated = tables.get(META, _STATED)
    if _digest(facts) == (_digest(None) if stated is None else stated.data):
        return None
    mark_published(tables, facts)
    # Where nothing is to be stated any more, one list without facts says so.
    return {} if facts is None else facts


def mark_unpublished(tables: Tables, policy: Policy | None, name: str) -> bool:
    """Have a fact stated with the next statement if a condition asks for it; return whether one does."""
    if policy is None or name not in _asked_for(policy):
        return False
    tables.put(META, [MetaRow(_STATED, 0, _NOT_YET)])
    return True


def has_unpublished_facts(tables: Tables) -> bool:
    """Say whether facts wait to be stated."""
    stated = tables.get(META, _STATED)
    return stated is not None and stated.data == _NOT_YET


def mark_published(tables: Tables, facts: StatedFacts | None) -> None:
    """Note what has just been stated."""
    tables.put(META, [MetaRow(_STATED, 0, _digest(facts))])


def _digest(facts: StatedFacts | None) -> bytes:
    stated = b"nothing" if facts is None else b"".join(key.key + uid.encode() for key, uid in sorted(facts))
    return sha256(stated).digest()


def _asked_for(policy: Policy) -> list[str]:
    """Return the facts about one principal that a condition of a grant names."""
    grants = (grant for grants in policy.grants.values() for grant in grants)
    conditions = " ".join(grant.privilege.condition or "" for grant in grants)
    asked = set(_WORD.findall(conditions))
    return [
        name
        for name, declared in sorted(policy.facts.items())
        if [one.kind for one in declared.parameters] == [ParameterKind.PRINCIPAL] and _uid(name) in asked
    ]


def _uid(name: str) -> str:
    return name.replace("_", "-").lower()
