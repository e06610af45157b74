"""How far does a right reach, in the words of `maia cert issue`, `maia grant` and `maia member add`?

    --set 'place := first(place, 3)'     what becomes of an event before its reader sees it
    --condition 'on-duty = true'         what must be true, over facts
    --during 'on monday in Europe/London'    when it counts
    --topic '/news/uk/#'                 which topics of a tree

One reading for every command, so that a word means the same in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.credentials import Action, Authority, Principal
    from maia.credentials.authority import FilterBound
    from maia.events import Vocabulary
    from maia.predicates import Predicate
    from maia.types import TypeDefinition


def transformed(
    authority: Authority,
    issuer: Principal,
    *,
    reads: TypeDefinition,
    assignments: Sequence[str],
    result: TypeDefinition | None = None,
    every: str | None = None,
    per: Sequence[str] = (),
) -> Authority:
    """Return a right that shows, or publishes, what assignments make of an event.

    Listed attributes are of the outcome. Of a right to publish, so is the restriction, unless it is as
    another type: then it is about what is written, and the right is on that type.
    """
    from maia.credentials import ALL_ATTRIBUTES, Action, Transformation, TypePattern, exact_name
    from maia.expressions import parse_rule
    from maia.expressions.summary_text import parse_summary
    from maia.predicates import ALWAYS

    assigns = None if result is None else result.vocabulary
    if every is not None or per:
        if every is None or result is None or assigns is None or Action.PUBLISH in authority.actions:
            raise BadInput(
                "INPUT-GRANT", "a summary is shown to subscribers: it needs `--every` and `--shown-as`"
            )
        summary = parse_summary(every, per, assignments, reads.vocabulary, assigns)
        step = Transformation(issuer, (), ALL_ATTRIBUTES, ALWAYS, result.name, summary)
        return replace(authority, attributes=ALL_ATTRIBUTES, transformations=(step,))
    rules = tuple(parse_rule(text, reads.vocabulary, assigns) for text in assignments)
    if Action.PUBLISH in authority.actions:
        if result is None:
            return replace(authority, transformations=(Transformation(issuer, rules),))
        step = Transformation(issuer, rules, ALL_ATTRIBUTES, authority.restriction, reads.name)
        return replace(
            authority,
            resources=TypePattern(result.name.owner, exact_name(result.name.name), None),
            attributes=ALL_ATTRIBUTES,
            restriction=ALWAYS,
            transformations=(step,),
        )
    shown = authority.attributes if result is None else ALL_ATTRIBUTES
    step = Transformation(issuer, rules, shown, result=None if result is None else result.name)
    return replace(authority, attributes=ALL_ATTRIBUTES, transformations=(step,))


def on_topics_of(topics: Sequence[str], actions: frozenset[Action]) -> tuple[str, Predicate]:
    """Return the tree in which all these topics lie, and the restriction to them.

    To subscribe to a topic is to subscribe to those below it; to publish is to publish there.
    """
    from maia.credentials import Action as Do
    from maia.predicates.path_patterns import parse_path_pattern
    from maia.types.definition import on_topics, tree_label

    patterns = [parse_path_pattern(text) for text in topics]
    trees = {tree_label(pattern) for pattern in patterns}
    if len(trees) != 1:
        raise BadInput(
            "INPUT-GRANT",
            "one certificate speaks of the topics of one tree, such as `/news` and `/news/uk/#`",
        )
    if Do.SUBSCRIBE in actions and Do.PUBLISH not in actions:
        patterns = [replace(pattern, has_rest=True) for pattern in patterns]
    elif Do.SUBSCRIBE in actions and not all(pattern.has_rest for pattern in patterns):
        raise BadInput(
            "INPUT-GRANT",
            "to subscribe to a topic includes those below it, to publish does not: end with `/#`",
        )
    return trees.pop(), on_topics(patterns)


def bound_of(text: str, vocabulary: Vocabulary | None) -> FilterBound:
    """Read a bound: its kind, and the filter that others stay inside."""
    from maia.credentials.authority import Bound, FilterBound
    from maia.predicates import parse_predicate

    for kind in sorted(Bound, key=lambda one: -len(one.value)):
        if text.startswith(f"{kind.value} "):
            return FilterBound(kind, parse_predicate(text[len(kind.value) :], vocabulary))
    raise BadInput("INPUT-GRANT", f"`{text[:64]}` is no bound such as `strict upper exists(plate)`")


def condition_of(condition: str | None, during: str | None) -> Predicate:
    """Read the condition of a right: over facts, and over the time."""
    from maia.policy.facts import check_clock_facts
    from maia.predicates import ALWAYS, AllOf, parse_predicate

    said = [] if condition is None else [parse_predicate(condition)]
    said += [] if during is None else [_hours(during)]
    for one in said:
        check_clock_facts(one)
    if not said:
        return ALWAYS
    return said[0] if len(said) == 1 else AllOf(tuple(said))


def _hours(text: str) -> Predicate:
    """Read a time of the day and week, in the syntax of a policy."""
    from maia.policy.facts import during
    from maia.predicates.language.scanner import Scanner
    from maia.roles.rule_reader import take_window
    from maia.roles.statements import Complaint

    scanner = Scanner(text)
    try:
        window = take_window(scanner)
    except Complaint as problem:
        hint = f": {problem.hint}" if problem.hint else ""
        raise BadInput("INPUT-GRANT", f"`{text[:64]}` is no time: {problem.sentence}{hint}") from problem
    if window is None or not scanner.at_end():
        example = "between 09:00 and 17:00 on monday to friday in Europe/London"
        raise BadInput("INPUT-GRANT", f"`{text[:64]}` is no time such as `{example}`")
    return during(window.zone, days=window.days, start=window.begins, end=window.ends)


def hours_in(condition: Predicate) -> str | None:
    """Return the time of the day and week, if a condition says that and nothing else."""
    from maia.policy.facts import window_in
    from maia.roles.time_windows import DAY_NAMES

    window = window_in(condition)
    if window is None:
        return None
    zone, days, start, end = window
    clock = " and ".join(f"{one // 60:02}:{one % 60:02}" for one in (start, end))
    named = ", ".join(DAY_NAMES[one - 1] for one in sorted(days))
    return f"between {clock} on {named} in {zone}" if len(days) < 7 else f"between {clock} in {zone}"
