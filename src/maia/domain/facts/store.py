"""Which facts hold in this domain?

Facts are rows of a relation: `caseAssignment(smith, 42)`. They are asserted
by administrators, or replaced as a whole by a source that the domain
follows. Each argument is kept beside its row, so that the rows that agree
with any one of them are found without reading the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from maia.credentials import Principal
from maia.credentials.appointments import (
    Argument,
    argument_key,
    argument_kind,
    arguments_digest,
    checked_argument,
)
from maia.credentials.names import checked_label
from maia.credentials.statements import FACTS_MAX, About, StatedFacts
from maia.domain.access.settings import AccessLimits, check_room
from maia.domain.access.unit_of_work import add_to
from maia.domain.storage.records import from_cell, to_cell
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import FactArgumentRow, FactRow, MetaRow
from maia.events import Instant, PresentValue
from maia.roles import FactDeclaration, Policy, Support, fact_support
from maia.roles.policy import Privilege

_Arguments = tuple[Argument, ...]
_COUNT: Final = "facts"


def assert_fact(
    tables: Tables, name: str, arguments: Sequence[Argument], limits: AccessLimits, now: Instant
) -> bool:
    """Put a fact on record; return whether it was not there."""
    row = _row(name, arguments, now)
    if tables.get(FactRow, row.name, row.digest) is not None:
        return False
    _check_room(tables, 1, limits)
    _put(tables, [(row, tuple(arguments))])
    return True


def retract_fact(tables: Tables, name: str, arguments: Sequence[Argument]) -> set[Support]:
    """Take a fact off the record; return what is lost by it."""
    support = fact_support(name, arguments)
    if not tables.delete(FactRow, FactRow.c.name == name, FactRow.c.digest == support.id):
        return set()
    tables.delete(FactArgumentRow, FactArgumentRow.c.name == name, FactArgumentRow.c.digest == support.id)
    add_to(tables, _COUNT, -1)
    return {support}


def replace_facts(
    tables: Tables, name: str, rows: Iterable[Sequence[Argument]], limits: AccessLimits, now: Instant
) -> tuple[int, set[Support]]:
    """Make exactly these rows hold; return how many are new, and what is lost with those that are gone."""
    wanted: dict[bytes, tuple[FactRow, tuple[Argument, ...]]] = {}
    for arguments in rows:
        row = _row(name, arguments, now)
        wanted[row.digest] = row, tuple(arguments)
        check_room(len(wanted), limits.fact_rows, "a source hands over at most {} rows at once")
    present = {row.digest: row for row in _all_rows(tables, name)}
    gone = present.keys() - wanted.keys()
    tables.delete_in(FactRow, FactRow.c.digest, gone, FactRow.c.name == name)
    tables.delete_in(FactArgumentRow, FactArgumentRow.c.digest, gone, FactArgumentRow.c.name == name)
    new = [one for digest, one in wanted.items() if digest not in present]
    _check_room(tables, len(new) - len(gone), limits)
    _put(tables, new)
    return len(new), {fact_support(name, arguments_of(present[digest])) for digest in gone}


def matching_facts(
    tables: Tables, name: str, arguments: Sequence[Argument | None]
) -> Iterator[tuple[Argument, ...]]:
    """Yield the rows of a fact that agree with `arguments`; None agrees with everything."""
    known = {place: argument for place, argument in enumerate(arguments) if argument is not None}
    if len(known) == len(arguments):
        row = tables.get(FactRow, name, fact_support(name, known.values()).id)
        rows: Iterable[FactRow] = () if row is None else (row,)
    elif known:
        rows = _rows_with(tables, name, known)
    else:
        rows = _all_rows(tables, name)
    wanted = {place: argument_key(argument) for place, argument in known.items()}
    for row in rows:
        found = arguments_of(row)
        if len(found) == len(arguments) and all(
            argument_key(found[place]) == key for place, key in wanted.items()
        ):
            yield found


def arguments_of(row: FactRow) -> tuple[Argument, ...]:
    found: _Arguments = from_cell(_Arguments, row.arguments, "a fact in the store")
    return found


def _row(name: str, arguments: Sequence[Argument], now: Instant) -> FactRow:
    checked = tuple(checked_argument(argument, argument_kind(argument)) for argument in arguments)
    return FactRow(checked_label(name), fact_support(name, checked).id, to_cell(_Arguments, checked), now)


def _put(tables: Tables, rows: Sequence[tuple[FactRow, tuple[Argument, ...]]]) -> None:
    tables.put(*(row for row, _ in rows))
    placed = [
        FactArgumentRow(row.name, place, _argument_digest(argument), row.digest)
        for row, arguments in rows
        for place, argument in enumerate(arguments)
    ]
    tables.put(*placed)


def _rows_with(tables: Tables, name: str, known: dict[int, Argument]) -> Iterator[FactRow]:
    """Yield the rows that agree with the rarest of the known arguments."""
    columns = FactArgumentRow.c
    conditions = [
        (columns.name == name, columns.position == place, columns.value == _argument_digest(argument))
        for place, argument in known.items()
    ]
    where = conditions[0]
    if len(known) > 1:
        where = min(conditions, key=lambda one: tables.count(FactArgumentRow, *one))
    for found in tables.every(FactArgumentRow, *where, order=columns.digest):
        digests = [row.digest for row in found]
        yield from tables.find(
            FactRow, FactRow.c.name == name, FactRow.c.digest.in_(digests), limit=len(digests)
        )


def _all_rows(tables: Tables, name: str) -> Iterator[FactRow]:
    for found in tables.every(FactRow, FactRow.c.name == name, order=FactRow.c.digest):
        yield from found


def _argument_digest(argument: Argument) -> bytes:
    return arguments_digest(b"argument", "", (argument,))


def _check_room(tables: Tables, more: int, limits: AccessLimits) -> None:
    count = add_to(tables, _COUNT, more)
    check_room(count if more > 0 else 0, limits.facts, "this domain keeps at most {} facts")


# ------------------------------------------------------------ the facts that a domain publishes

# A grant may hold only while something is true, of its holder or of the world:
# `provided on-duty == true`, `provided incident == true`. Where the policy declares
# a fact of that name, `on_duty(who: principal)` or `incident`, with a value behind
# it or without, the domain states what holds of whom, beside
# every list of what is revoked, and at once when it holds of fewer. Of more, it
# says so with its next statement. Facts that no condition asks for are not
# published: what is stated is public.


_STATED: Final = "facts stated"
_NOT_YET: Final = b""

_WORD: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_OF_THE_WORLD: Final = re.compile(r"\bworld\.([a-z0-9-]+)")


def stated_facts(tables: Tables, policy: Policy | None) -> StatedFacts | None:
    """Return what is true of whom, as far as conditions of the policy ask; None if nothing is stated.

    Of more people than one statement can name, nothing is stated, and no such condition holds.
    """
    names = [] if policy is None else _asked_for(policy)
    if not names:
        return None
    facts: dict[About, PresentValue] = {}
    for declared in names:
        ambiguous: set[About] = set()
        if not declared.parameters and not tables.count(FactRow, FactRow.c.name == declared.name):
            facts[None, declared.uid] = False  # of the world it is known that it does not hold
        for row in tables.find(FactRow, FactRow.c.name == declared.name, limit=FACTS_MAX + 1):
            said = _as_stated(declared, arguments_of(row))
            if said is not None and facts.setdefault(*said) is not said[1]:
                ambiguous.add(said[0])
        for about in ambiguous:  # two values of one fact: neither is known to hold
            del facts[about]
    return facts if len(facts) <= FACTS_MAX else None


def _as_stated(declared: FactDeclaration, row: _Arguments) -> tuple[About, PresentValue] | None:
    """Return of whom a row says what; None for a row of an earlier policy with other parameters."""
    if list(map(argument_kind, row)) != [one.kind for one in declared.parameters]:
        return None
    whom = row[0] if declared.is_about_a_principal else None
    values = row[1:] if declared.is_about_a_principal else row
    value = values[0] if values else True
    if isinstance(value, Principal) or not (whom is None or isinstance(whom, Principal)):
        return None
    return (whom, declared.uid), value


def take_unpublished_facts(tables: Tables, policy: Policy | None) -> StatedFacts | None:
    """Return what is to be stated now because it differs from what was stated last; None if it does not."""
    facts = stated_facts(tables, policy)
    stated = tables.get(MetaRow, _STATED)
    if _digest(facts) == (_digest(None) if stated is None else stated.data):
        return None
    mark_published(tables, facts)
    # Where nothing is to be stated any more, one list without facts says so.
    return {} if facts is None else facts


def mark_unpublished(tables: Tables, policy: Policy | None, name: str) -> bool:
    """Have a fact stated with the next statement if a condition asks for it; return whether one does."""
    if policy is None or name not in {one.name for one in _asked_for(policy)}:
        return False
    tables.put(MetaRow(_STATED, 0, _NOT_YET))
    return True


def has_unpublished_facts(tables: Tables) -> bool:
    stated = tables.get(MetaRow, _STATED)
    return stated is not None and stated.data == _NOT_YET


def mark_published(tables: Tables, facts: StatedFacts | None) -> None:
    tables.put(MetaRow(_STATED, 0, _digest(facts)))


def _digest(facts: StatedFacts | None) -> bytes:
    stated = "nothing" if facts is None else repr(sorted(map(repr, facts.items())))
    return sha256(stated.encode()).digest()


def _conditions(privilege: Privilege) -> Iterator[str]:
    yield privilege.condition or ""
    for text in () if privilege.transform is None else privilege.transform.assignments:
        yield from _OF_THE_WORLD.findall(text)


def _asked_for(policy: Policy) -> list[FactDeclaration]:
    """Return the facts that can be stated and that a condition of a grant names."""
    grants = (grant for grants in policy.grants.values() for grant in grants)
    asked = set(_WORD.findall(" ".join(text for grant in grants for text in _conditions(grant.privilege))))
    return [
        one for _, one in sorted(policy.facts.items()) if one.stated_kind is not None and one.uid in asked
    ]
