"""What does one grant say?

    grant np_tracker(plate)
        may subscribe Numberplate(location, timestamp, numberplate)
        where numberplate == $plate

    grant watch_officer(station)
        while on_duty(holder)
        may publish Incident(*)
        where station == $station
        provided between 06:00 and 22:00 in Europe/London
        for 8 hours
        may delegate
        checked by timed-crl

    grant clerk
        may publish topic "/admin/facts" of here

    grant auditor
        may subscribe Prescribe(*)
        where drug_class in ("A", "B")
        as ControlledDrugAuth
        set drug := drug
        set reference := pseudonym(patient)

`where` restricts the events, and is checked against the type. `provided` is a
condition that brokers watch, over the facts they know. Attributes are listed
or `*`: nothing is open because it was left out. `set` changes what is shown,
and `as` shows it as an event of another type, which has what is `set` and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Final, TypeAlias

from maia.credentials import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    BadPattern,
    NetworkPattern,
    QuorumId,
    TopicPattern,
    TypePattern,
    UnknownAction,
    actions_from_words,
    exact_name,
    parse_name_pattern,
)
from maia.credentials.authority import EVENT_ACTIONS, FITTING_ACTIONS, Bound, FilterBound
from maia.credentials.certificate import TestKind
from maia.events import WORLD_PREFIX, AttributeUid, Kind, PresentValue, Vocabulary
from maia.events.zones import UnknownZone
from maia.expressions.language import parse_rule
from maia.expressions.summaries import Summary, checked_summary
from maia.expressions.summary_text import parse_every, parse_key, parse_measure
from maia.expressions.syntax import RULES_MAX, BadExpression, Rule, checked_rules, reads_of
from maia.policy.facts import VERIFIERS_OWN, check_clock_facts, clock_kind, inside_network
from maia.policy.restrictions import possible_outcomes
from maia.predicates.language.literals import read_text
from maia.predicates.language.scanner import NAME
from maia.predicates.language.writer import format_predicate
from maia.predicates.meaning import verdict
from maia.predicates.syntax import (
    AllOf,
    Atom,
    NotAConstraintFilter,
    Predicate,
    atoms,
    attributes_of,
    mistyped,
)
from maia.roles.declarations import TYPE_NAME, Names, take_key
from maia.roles.policy import FactDeclaration, Privilege, Resource, ResourceKind, Transform
from maia.roles.rule_reader import Reading, TermReader, take_networks, take_window, template
from maia.roles.statements import Complaint, Fragment, did_you_mean, shown
from maia.roles.time_windows import TimeWindow
from maia.types import VerifiedType

_ACTION: Final = re.compile(r"\*|[a-z]+(?:\.(?:[a-z]+|\*))?")
_WINDOW: Final = re.compile(r"\s*(?:between\s|on\s+[A-Za-z])")  # a fact may be called `on-duty`, or `on`
_BOUND: Final = re.compile(r"\s*(?P<kind>(?:strict\s+)?(?:upper|lower))\s+")
_PLACE: Final = re.compile(r"\s*address\s+in\s+[0-9A-Fa-f:.]")
_QUORUM: Final = re.compile(r"quorum:[0-9a-f]{64}")
_PATTERNS: Final = {
    ResourceKind.TYPE: TypePattern,
    ResourceKind.TOPIC: TopicPattern,
    ResourceKind.NETWORK: NetworkPattern,
}
_TESTS: Final = {test.value: test for test in TestKind}


@dataclass(frozen=True, slots=True)
class May:
    """What follows `may`."""

    actions: frozenset[Action]
    resource: Resource
    event_type: VerifiedType | None
    attributes: AttributeSet


def read_may(reading: Reading) -> May | None:
    """Read what members may do; None if something was wrong."""
    found: list[May] = []

    def read(reader: TermReader) -> bool:
        at = reader.scanner.mark()
        may = _privileged(reader)
        if found:
            raise Complaint("a grant ends in one privilege: write a second grant", at=at)
        found.append(may)
        return True

    clauses = [fragment for fragment in reading.clauses("may") if not _is_delegation(fragment)]
    fine = None not in [reading.attempt(fragment, read) for fragment in clauses]
    if fine and not found:
        said = "a grant says what its members may do: `may subscribe Numberplate(…)`"
        reading.problems.add(reading.statement.head.problem(reading.label, said))
    return found[0] if fine and found else None


def _is_delegation(fragment: Fragment) -> bool:
    scanner = fragment.scanner()
    return scanner.take_word("delegate") is not None and scanner.at_end()


def read_privilege(reading: Reading, may: May) -> Privilege | None:
    """Read the other clauses of a grant; None if something was wrong."""
    restriction, vocabulary, fine = None, None, True
    for fragment in reading.clauses("where"):
        found = _restriction(reading, fragment, may)
        fine &= found is not None
        if found is not None:
            restriction, vocabulary = fragment.text.strip(), found
    bounds, named = _bounds(reading, may)
    if named is not None:
        vocabulary = {**(vocabulary or {}), **named}
    condition, during, provided = _provided(reading)
    tests = _tests(reading)
    transform, transformed = _transform(reading, may)
    if not fine or not provided or not transformed or tests is None or named is None:
        return None
    return Privilege(
        may.actions,
        may.resource,
        may.attributes,
        restriction,
        condition,
        during,
        vocabulary,
        any(map(_is_delegation, reading.clauses("may"))),
        tests,
        transform,
        bounds,
    )


def _bounds(reading: Reading, may: May) -> tuple[tuple[tuple[Bound, str], ...], Vocabulary | None]:
    """Read `bound`: what members may ask for or announce, and the attributes in it; None if not good."""
    found: list[tuple[Bound, str]] = []
    named: Vocabulary = {}
    for fragment in reading.clauses("bound"):
        said = _BOUND.match(fragment.text)
        if said is None or may.event_type is None or not may.actions <= EVENT_ACTIONS:
            problem = "a bound is of a grant to subscribe to a type or to publish it: `bound upper price < 9`"
            reading.problems.add(fragment.problem(reading.label, problem))
            return (), None
        kind = Bound(" ".join(said.group("kind").split()))
        part = Fragment(fragment.text[said.end() :], *fragment.place(said.end()), "bound")
        vocabulary = may.event_type.vocabulary
        predicate = template(reading, part, vocabulary)
        if predicate is None:
            return (), None
        try:
            FilterBound(kind, predicate)
        except NotAConstraintFilter as problem_found:
            reading.problems.add(part.problem(reading.label, problem_found.message))
            return (), None
        found.append((kind, part.text.strip()))
        named = {**named, **_only(vocabulary, attributes_of(predicate))}
    return tuple(found), named


def _privileged(reader: TermReader) -> May:
    scanner = reader.scanner
    at = scanner.mark()
    actions = _actions(reader)
    may = _about(reader, actions)
    odd = actions - FITTING_ACTIONS[_PATTERNS[may.resource.kind]]
    if Action.BROKER in actions:
        raise Complaint("no role makes a broker: the organisation's key does, by a certificate", at=at)
    if odd and actions != ALL_ACTIONS:
        named = ", ".join(sorted(action.value for action in odd))
        raise Complaint(f"`{named}` means nothing for a {may.resource.kind.value}", at=at)
    return may


def _about(reader: TermReader, actions: frozenset[Action]) -> May:
    scanner = reader.scanner
    if not scanner.take_word("to"):
        scanner.take_word("on")
    for kind in ResourceKind:
        at = scanner.mark()
        if scanner.take_word(kind.value) and scanner.sees('"'):
            return May(actions, _by_pattern(reader, kind), None, ALL_ATTRIBUTES)
        scanner.position = at
    event_type = _take_type(reader)
    name = event_type.name
    resource = Resource(ResourceKind.TYPE, name.owner, exact_name(name.name))
    return May(actions, resource, event_type, _attributes(reader, event_type, actions))


def _actions(reader: TermReader) -> frozenset[Action]:
    scanner = reader.scanner
    words: list[str] = []
    at = scanner.mark()
    while True:
        word = scanner.take_match(_ACTION)
        if word is None:
            raise scanner.expected("an action such as `subscribe`")
        words.append(word)
        if not scanner.take(",") and not scanner.take_word("and"):
            break
    try:
        return actions_from_words(words)
    except UnknownAction as problem:
        hint = did_you_mean(words[-1], [action.value for action in Action])
        raise Complaint(problem.message, at=at, hint=hint) from problem


def _by_pattern(reader: TermReader, kind: ResourceKind) -> Resource:
    at = reader.scanner.mark()
    text = read_text(reader.scanner)
    try:
        pattern = parse_name_pattern(text)
    except BadPattern as problem:
        raise Complaint(problem.message, at=at) from problem
    if kind is ResourceKind.TOPIC and text[:1] not in ("/", "*"):
        raise Complaint("a topic begins with `/`", at=at, hint=f"write `/{shown(text)}`")
    reader.scanner.must_take_word("of")
    quorum = reader.scanner.take_match(_QUORUM)
    if quorum is not None:
        return Resource(kind, QuorumId(bytes.fromhex(quorum.removeprefix("quorum:"))), pattern)
    return Resource(kind, take_key(reader.scanner, reader.names), pattern)


def _take_type(reader: TermReader) -> VerifiedType:
    at = reader.scanner.mark()
    name = reader.scanner.take_match(TYPE_NAME)
    if name is None:
        raise reader.scanner.expected("a type, or `topic`, `network` or `type` and a pattern in quotes")
    return reader.names.must_be_type(name, at=at)


def _attributes(reader: TermReader, event_type: VerifiedType, actions: frozenset[Action]) -> AttributeSet:
    scanner = reader.scanner
    if not scanner.take("("):
        if not actions & EVENT_ACTIONS:
            return ALL_ATTRIBUTES
        raise scanner.expected("the attributes in parentheses, or `(*)` for all of them")
    if scanner.take("*"):
        scanner.must_take(")")
        return ALL_ATTRIBUTES

    def read() -> AttributeUid:
        at = scanner.mark()
        name = scanner.take_match(NAME)
        if name is None:
            raise scanner.expected("an attribute or `*`")
        if name not in event_type.vocabulary:
            hint = did_you_mean(name, event_type.vocabulary)
            raise Complaint(f"the type has no attribute `{shown(name)}`", at=at, hint=hint)
        return event_type.vocabulary[name].uid

    return frozenset(scanner.take_list(read))


def _restriction(reading: Reading, fragment: Fragment, may: May) -> Vocabulary | None:
    """Check a restriction against its type; return the attributes that it speaks of, by name."""
    if may.event_type is None:
        said = "`where` needs a type with known attributes"
        reading.problems.add(fragment.problem(reading.label, said))
        return None
    vocabulary = may.event_type.vocabulary
    predicate = template(reading, fragment, vocabulary)
    return None if predicate is None else _only(vocabulary, attributes_of(predicate))


def _only(vocabulary: Vocabulary, uids: Collection[AttributeUid]) -> Vocabulary:
    return {name: attribute for name, attribute in vocabulary.items() if attribute.uid in uids}


def _provided(reading: Reading) -> tuple[str | None, TimeWindow | None, bool]:
    """Read `provided`: a time window, or a condition over facts; and return whether it was good."""
    for fragment in reading.clauses("provided"):
        if _PLACE.match(fragment.text):
            networks = reading.attempt(fragment, lambda reader: take_networks(reader.scanner))
            tests = [format_predicate(inside_network(ip_network(one))) for one in networks or ()]
            return " or ".join(tests) or None, None, networks is not None
        if _WINDOW.match(fragment.text):
            window = reading.attempt(fragment, lambda reader: take_window(reader.scanner))
            return None, window, window is not None
        predicate = template(reading, fragment, None)
        if predicate is None:
            return None, None, False
        try:
            check_clock_facts(predicate)
            _check_facts(predicate, reading.names)
        except (UnknownZone, Complaint) as problem:
            if isinstance(problem, Complaint):
                fragment.report(reading.problems, reading.label, problem)
            else:
                reading.problems.add(fragment.problem(reading.label, problem.message))
            return None, None, False
        return fragment.text.strip(), None, True
    return None, None, True


def _check_facts(condition: Predicate, names: Names, *, must_hold: bool = True) -> None:
    """Complain of a condition over what this domain, or a broker, can never state."""
    declared = {one.uid: one for one in names.every(FactDeclaration).values()}
    kinds: dict[AttributeUid, Kind] = {**VERIFIERS_OWN}
    holds: dict[AttributeUid, PresentValue] = {}
    for uid in sorted(attributes_of(condition)):
        kind = clock_kind(uid) or VERIFIERS_OWN.get(uid)
        fact = declared.get(uid)
        if kind is None and fact is None:
            raise names.unknown("fact", uid, [*declared, *VERIFIERS_OWN], at=0)
        if kind is None and fact is not None:
            kind = fact.stated_kind
            if kind is None:
                said = (
                    f"`{uid}` can never be stated: a condition asks for one value, of the holder or of none"
                )
                hint = f"ask for it with `while {fact.name}(…)`"
                raise Complaint(said, at=0, hint=hint)
            if fact.is_about_a_principal and len(fact.parameters) == 1:
                holds[uid] = True  # it is stated of whom it holds, and nothing of others
        if kind is not None:
            kinds[uid] = kind
    wrong = mistyped(condition, kinds)
    if wrong is not None:
        raise Complaint(f"`{wrong}` is a {kinds[wrong].value}, and is compared with another kind", at=0)

    def outcomes(atom: Atom) -> frozenset[bool]:
        answer = verdict(atom, holds) if atom.uid in holds else None
        return frozenset((True, False)) if answer is None else frozenset((answer,))

    if must_hold and True not in possible_outcomes(condition, outcomes):
        said = "this condition can never hold: such a fact is stated of whom it holds, and never as false"
        raise Complaint(said, at=0, hint="declare a value: `fact suspended(who: principal, is: bool)`")


def _tests(reading: Reading) -> tuple[TestKind, ...] | None:
    """Read `checked by`: a timed revocation list by default; `dates` alone demands no statement."""

    def read(reader: TermReader) -> list[TestKind]:
        found: list[TestKind] = []
        reader.scanner.must_take_word("by")
        if reader.scanner.take_word("dates"):
            return found
        while not found or reader.scanner.take(","):
            at = reader.scanner.mark()
            word = reader.scanner.take_name() or ""
            if word not in _TESTS:
                hint = did_you_mean(word, [*_TESTS, "dates"])
                raise Complaint(f"expected `dates` or some of {', '.join(_TESTS)}", at=at, hint=hint)
            found.append(_TESTS[word])
        return found

    if not reading.clauses("checked"):
        return (TestKind.TIMED_CRL,)
    tests = reading.attempt_all("checked", read)
    if tests is None:
        return None
    return tuple(sorted({one for some in tests for one in some}, key=lambda test: test.value))


# What a grant makes of events.


def _transform(reading: Reading, may: May) -> tuple[Transform | None, bool]:
    """Read what a grant makes of events; return what it says, if anything, and whether it was good."""
    results, assignments, periods, per = (reading.clauses(word) for word in ("as", "set", "every", "per"))
    clauses = (*results, *assignments, *periods, *per)
    if not clauses:
        return None, True
    said, event_type, is_published = "", may.event_type, Action.PUBLISH in may.actions
    if event_type is None or len(may.actions) != 1 or not may.actions <= EVENT_ACTIONS:
        said = "a transformation belongs to a grant to `subscribe` to a type, or to one to `publish` it"
    elif not assignments:
        said = "an event of another type has what is `set`, and nothing is"
    elif len(assignments) > RULES_MAX:
        said = f"a transformation has at most {RULES_MAX} assignments"
    elif (periods or per) and (not periods or not results or is_published):
        said = "what is summarised is shown to subscribers `every` period, and `as` another type"
    if said or event_type is None:
        reading.problems.add(clauses[0].problem(reading.label, said))
        return None, False
    for fragment in results[1:]:
        reading.problems.add(fragment.problem(reading.label, "`as` is here twice"))
    found = reading.attempt_all("as", _take_type)
    if found is None or len(found) > 1:
        return None, False
    result = found[0] if found else None
    reads, assigns = event_type.vocabulary, event_type.vocabulary if result is None else result.vocabulary
    if periods:
        read, assigned = _summarised(reading, reads, assigns) or (None, None)
    else:
        shown_uids = may.attributes if result is None else ALL_ATTRIBUTES
        read, assigned = _assigned(reading, reads, assigns, shown_uids, clauses[0]) or (None, None)
    if read is None or assigned is None:
        return None, False
    return Transform(
        tuple(fragment.text.strip() for fragment in assignments),
        _only(reads, read),
        _only(assigns, assigned),
        None if result is None else result.name,
        event_type.name if result is not None and is_published else None,
        periods[0].text.strip() if periods else None,
        tuple(fragment.text.strip() for fragment in per) if periods else (),
    ), True


_Uids: TypeAlias = tuple[Collection[AttributeUid], Collection[AttributeUid]]
"""The attributes that are read, and those that are assigned."""


def _assigned(
    reading: Reading, reads: Vocabulary, assigns: Vocabulary, shown_uids: AttributeSet, first: Fragment
) -> _Uids | None:
    """Read the assignments of a grant, each at its own line."""

    def read(text: str, samples: Mapping[str, PresentValue]) -> Rule:
        rule = parse_rule(text, reads, assigns, samples)
        asked = (atom for atom in atoms(rule.condition) if atom.uid.startswith(WORLD_PREFIX))
        bare = (replace(one, uid=AttributeUid(one.uid.removeprefix(WORLD_PREFIX))) for one in asked)
        _check_facts(AllOf(tuple(bare)), reading.names, must_hold=False)
        return rule

    rules = reading.attempt_all_over("set", read)
    if rules is None:
        return None
    try:
        checked_rules(tuple(rules))
    except BadExpression as refusal:
        reading.problems.add(first.problem(reading.label, refusal.message))
        return None
    hidden = [
        fragment
        for rule, fragment in zip(rules, reading.clauses("set"), strict=True)
        if shown_uids is not ALL_ATTRIBUTES and rule.uid not in shown_uids
    ]
    for fragment in hidden:
        said = "the grant does not show the attribute that is set here"
        hint = "name it among the attributes of the grant"
        reading.problems.add(fragment.problem(reading.label, said, hint=hint))
    return None if hidden else (reads_of(rules), {rule.uid for rule in rules})


def _summarised(reading: Reading, reads: Vocabulary, assigns: Vocabulary) -> _Uids | None:
    """Read `every`, `per` and `set` of a grant that summarises, each at its own line."""
    every = reading.attempt_all_over("every", lambda text, _: parse_every(text))
    keys = reading.attempt_all_over("per", lambda text, samples: parse_key(text, reads, assigns, samples))
    measures = reading.attempt_all_over(
        "set", lambda text, samples: parse_measure(text, reads, assigns, samples)
    )
    if every is None or keys is None or measures is None:
        return None
    every_s, at_least, late_s = every[0]
    try:
        summary = checked_summary(Summary(every_s, tuple(keys), tuple(measures), at_least, late_s))
    except BadExpression as refusal:
        reading.problems.add(reading.clauses("every")[0].problem(reading.label, refusal.message))
        return None
    return summary.reads, summary.kinds
