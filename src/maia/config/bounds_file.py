"""Which bounds does a domain set on its members' filters and advertisements?

    [[bound]]
    principal = "agency.pub"                     # whom it limits: keys or .pub files,
    certificate = "agency.cert"                  # or the holders of a certificate
    action = "subscribe"                         # or "publish"
    bound = "strict upper"                       # "upper", "lower", "strict upper", "strict lower"
    definition = "news.type"                     # the type, and the names of its attributes
    filter = "exists(message) and exists(price)"

Brokers, domains' servers, jobs and `maia explain` read the same file. What
each bound means is in `maia.policy.evidence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from maia.config.input_files import BadFile, read_certificates, read_definition, read_principal
from maia.config.settings import BadConfig, Paths, PrincipalWord, Text, from_file, read_tables
from maia.credentials import Action, TypePattern, exact_name
from maia.errors import MaiaError
from maia.policy import Bound, BoundRule
from maia.policy.evidence import BOUNDS_MAX, Holder
from maia.predicates import parse_predicate
from maia.types import check_predicate

_TABLE: Final = "bound"


class _BoundTable(msgspec.Struct, frozen=True, kw_only=True):
    """One `[[bound]]` table, as the operator wrote it."""

    principal: tuple[PrincipalWord, ...] = ()
    certificate: Paths = ()
    action: Literal["publish", "subscribe"]
    bound: Bound
    definition: Path
    filter: Text


def read_bounds(files: Iterable[Path]) -> tuple[BoundRule, ...]:
    """Read every bound in these files; raise BadConfig at the line of the first that makes no sense."""
    rules = tuple(rule for file in files for rule in _rules(file))
    for holder in {rule.holder for rule in rules}:
        if sum(rule.holder == holder for rule in rules) > BOUNDS_MAX:
            raise BadConfig(f"there are more than {BOUNDS_MAX} bounds on the same principal or certificate")
    return rules


def _rules(file: Path) -> Iterator[BoundRule]:
    written = from_file(file, {_TABLE}).get(_TABLE)
    if written is None:
        raise BadConfig(f"`{file}`: there is no bound in it; each begins with `[[{_TABLE}]]`")
    for number, table in enumerate(read_tables(written, _TABLE, _BoundTable), start=1):
        try:
            yield from _of_table(table)
        except MaiaError as problem:
            why = f"number {number} does not work: {problem.message} [{problem.code}]"
            raise written.in_table(number).wrong(_TABLE, why) from problem


def _of_table(table: _BoundTable) -> list[BoundRule]:
    definition = read_definition(table.definition).definition
    bound = parse_predicate(table.filter, definition.vocabulary)
    check_predicate(bound, definition)
    holders: list[Holder] = [read_principal(word) for word in table.principal]
    holders += [signed.id for signed in read_certificates(table.certificate)]
    if not holders:
        raise BadFile("it limits no principal: name a `principal` or a `certificate`")
    pattern = TypePattern(definition.name.owner, exact_name(definition.name.name), None)
    return [BoundRule(one, Action(table.action), table.bound, bound, pattern) for one in holders]
