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
from dataclasses import dataclass
from typing import Final

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
from maia.credentials.authority import FITTING_ACTIONS
from maia.credentials.certificate import TestKind
from maia.events import Kind, Vocabulary
from maia.events.zones import UnknownZone
from maia.policy.facts import check_clock_facts
from maia.predicates.language.literals import read_literal
from maia.predicates.syntax import Predicate, attributes_of
from maia.roles.changes import grant_id
from maia.roles.declarations import take_key
from maia.roles.policy import Grant, Privilege, Resource, ResourceKind, RoleDeclaration, Term
from maia.roles.rule_reader import (
    Reading,
    TermReader,
    read_conditions,
    read_ends,
    read_premises,
    take_window,
    template,
)
from maia.roles.statements import Complaint, Fragment, did_you_mean, shown
from maia.roles.time_windows import TimeWindow
from maia.roles.transform_reader import read_transform, take_type
from maia.types import VerifiedType

_ACTION: Final = re.compile(r"\*|[a-z]+(?:\.(?:[a-z]+|\*))?")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WINDOW: Final = re.compile(r"\s*(?:between\s|on\s+[A-Za-z])")  # a fact may be called `on-duty`, or `on`
_QUORUM: Final = re.compile(r"quorum:[0-9a-f]{64}")
_EVENTS: Final = frozenset({Action.PUBLISH, Action.SUBSCRIBE})
_PATTERNS: Final = {
    ResourceKind.TYPE: TypePattern,
    ResourceKind.TOPIC: TopicPattern,
    ResourceKind.NETWORK: NetworkPattern,
}
_TESTS: Final = {test.value: test for test in TestKind}


@dataclass(frozen=True, slots=True)
class _May:
    """What follows `may`."""

    actions: frozenset[Action]
    resource: Resource
    event_type: VerifiedType | None
    attributes: AttributeSet


def read_grant(reading: Reading, role: RoleDeclaration, terms: tuple[Term, ...]) -> Grant | None:
    """Read the clauses of a grant whose head has been read; None if something was wrong."""
    reading.refuse_clauses_except(
        "while", "given", "if", "for", "until", "may", "where", "provided", "checked", "as", "set",
        "every", "per",
    )  # fmt: skip
    fine = all([read_premises(reading), read_ends(reading, of_grant=True)])
    may = _may(reading)
    conditions = read_conditions(reading) if fine else None
    if may is None or conditions is None:
        return None
    privilege = _privilege(reading, may)
    if privilege is None:
        return None
    reading.variables.check()
    kinds, premises = reading.variables.kinds, tuple(reading.premises)
    identity = grant_id(
        (role.name, terms),
        premises,
        conditions,
        privilege=privilege,
        ends=reading.ends,
        kinds=kinds,
        declared=reading.names.declared,
    )
    return Grant(
        identity, role.name, terms, premises, conditions, privilege, reading.ends, kinds, reading.place
    )


def _privilege(reading: Reading, may: _May) -> Privilege | None:
    restriction, vocabulary, fine = None, None, True
    for _, fragment in reading.clauses("where"):
        found = _restriction(reading, fragment, may)
        fine &= found is not None
        if found is not None:
            restriction, vocabulary = fragment.text.strip(), found
    condition, during, provided = _provided(reading)
    tests = _tests(reading)
    transform, transformed = read_transform(reading, may.event_type, may.actions, may.attributes)
    if not fine or not provided or not transformed or tests is None:
        return None
    may_delegate = any(_is_delegation(fragment) for _, fragment in reading.clauses("may"))
    return Privilege(
        may.actions,
        may.resource,
        may.attributes,
        restriction,
        condition,
        during,
        vocabulary,
        may_delegate,
        tests,
        transform,
    )


def _may(reading: Reading) -> _May | None:
    found: list[_May] = []

    def read(reader: TermReader) -> None:
        at = reader.scanner.mark()
        may = _privileged(reader)
        if found:
            raise Complaint("a grant ends in one privilege: write a second grant", at=at)
        found.append(may)

    fine = True
    for _, fragment in reading.clauses("may"):
        if not _is_delegation(fragment):
            fine &= reading.attempt(fragment, read)
    if fine and not found:
        said = "a grant says what its members may do: `may subscribe Numberplate(…)`"
        reading.problems.add(reading.statement.head.problem(reading.label, said))
    return found[0] if fine and found else None


def _is_delegation(fragment: Fragment) -> bool:
    scanner = fragment.scanner()
    return scanner.take_word("delegate") and scanner.at_end()


def _privileged(reader: TermReader) -> _May:
    scanner = reader.scanner
    at = scanner.mark()
    actions = _actions(reader)
    may = _about(reader, actions)
    odd = actions - FITTING_ACTIONS[_PATTERNS[may.resource.kind]]
    if odd and actions != ALL_ACTIONS:
        named = ", ".join(sorted(action.value for action in odd))
        raise Complaint(f"`{named}` means nothing for a {may.resource.kind.value}", at=at)
    return may


def _about(reader: TermReader, actions: frozenset[Action]) -> _May:
    scanner = reader.scanner
    if not scanner.take_word("to"):
        scanner.take_word("on")
    for kind in ResourceKind:
        at = scanner.mark()
        if scanner.take_word(kind.value) and scanner.sees('"'):
            return _May(actions, _by_pattern(reader, kind), None, ALL_ATTRIBUTES)
        scanner.go_back(at)
    event_type = take_type(reader)
    name = event_type.name
    resource = Resource(ResourceKind.TYPE, name.owner, exact_name(name.name))
    return _May(actions, resource, event_type, _attributes(reader, event_type, actions))


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
    text = str(read_literal(reader.scanner, Kind.STRING))
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


def _attributes(reader: TermReader, event_type: VerifiedType, actions: frozenset[Action]) -> AttributeSet:
    scanner = reader.scanner
    if not scanner.take("("):
        if not actions & _EVENTS:
            return ALL_ATTRIBUTES
        raise scanner.expected("the attributes in parentheses, or `(*)` for all of them")
    if scanner.take("*"):
        scanner.must_take(")")
        return ALL_ATTRIBUTES
    uids = set()
    while True:
        at = scanner.mark()
        name = scanner.take_match(_ATTRIBUTE)
        if name is None:
            raise scanner.expected("an attribute or `*`")
        if name not in event_type.vocabulary:
            hint = did_you_mean(name, event_type.vocabulary)
            raise Complaint(f"the type has no attribute `{shown(name)}`", at=at, hint=hint)
        uids.add(event_type.vocabulary[name].uid)
        if scanner.take(")"):
            return frozenset(uids)
        if not scanner.take(","):
            raise scanner.expected("`,` or `)`")


def _restriction(reading: Reading, fragment: Fragment, may: _May) -> Vocabulary | None:
    """Check a restriction against its type; return the attributes that it speaks of, by name."""
    if may.event_type is None:
        said = "`where` needs a type with known attributes"
        reading.problems.add(fragment.problem(reading.label, said))
        return None
    vocabulary = may.event_type.vocabulary
    predicate = template(reading, fragment, vocabulary)
    if predicate is None:
        return None
    spoken = attributes_of(predicate)
    return {name: attribute for name, attribute in vocabulary.items() if attribute.uid in spoken}


def _provided(reading: Reading) -> tuple[str | None, TimeWindow | None, bool]:
    """Read `provided`: a time window, or a condition over facts; and return whether it was good."""
    for _, fragment in reading.clauses("provided"):
        windows: list[TimeWindow | None] = []
        opens_window = _WINDOW.match(fragment.text) is not None

        def read(reader: TermReader, windows: list[TimeWindow | None] = windows) -> None:
            windows.append(take_window(reader.scanner))

        if opens_window:
            fine = reading.attempt(fragment, read)
            return None, windows[0] if fine else None, fine
        predicate = template(reading, fragment, None)
        fine = predicate is not None and _known_zones(reading, fragment, predicate)
        return fragment.text.strip(), None, fine
    return None, None, True


def _known_zones(reading: Reading, fragment: Fragment, predicate: Predicate) -> bool:
    try:
        check_clock_facts(predicate)
    except UnknownZone as problem:
        reading.problems.add(fragment.problem(reading.label, problem.message))
        return False
    return True


def _tests(reading: Reading) -> tuple[TestKind, ...] | None:
    """Read `checked by`: a timed revocation list by default; `dates` alone demands no statement."""
    found: list[TestKind] = []

    def read(reader: TermReader) -> None:
        reader.scanner.must_take_word("by")
        if reader.scanner.take_word("dates"):
            return
        while True:
            at = reader.scanner.mark()
            word = reader.scanner.take_name() or ""
            if word not in _TESTS:
                hint = did_you_mean(word, [*_TESTS, "dates"])
                raise Complaint(f"expected `dates` or some of {', '.join(_TESTS)}", at=at, hint=hint)
            found.append(_TESTS[word])
            if not reader.scanner.take(","):
                return

    if not reading.attempt_all("checked", read):
        return None
    if not reading.clauses("checked"):
        return (TestKind.TIMED_CRL,)
    return tuple(sorted(set(found), key=lambda test: test.value))
