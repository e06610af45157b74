"""How does a certificate say what it grants?

    (tag RESOURCE (actions * | ACTION …) (attributes * | UID …)
         (restriction PREDICATE)? (condition PREDICATE)?
         (transform (by KEY) (as (owner OWNER) (name NAME) (version VERSION))?
                    (rules RULE …) (attributes * | UID …) (restriction PREDICATE)? (summary …)?)?)

    RESOURCE = (any) | (any (owner OWNER))
             | (network (owner * | OWNER) (name PATTERN …))
             | (type (owner * | OWNER) (name PATTERN …) (version * | VERSION))
             | (topic (owner * | OWNER) (path PATTERN …))

Sets are sorted by their bytes, each element once. Several patterns mean all
of them. A term that is always true is left out. A combination that means
nothing, such as publishing a network, is refused by writer and reader alike,
so that no issuer believes to have granted it.

How does a certificate say from when to when it holds, and who must vouch for it meanwhile?

    (valid (not-before 2026-11-15_08:30:00) (not-after unbounded)
      (online timed-crl (by (ed25519 KEY)) (at "https://met.example/statements")*)*)

Both bounds are always there, in whole seconds of UTC. A bound that is missing
is refused; one that is meant to be open says so. Dates must exist: there is
no 30 February, and no second 60. Tests stand in one order, each once; a kind
of test that is not known is refused, for it could not be made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

from maia.canonical import SExpression
from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    EVENT_ACTIONS,
    FITTING_ACTIONS,
    Action,
    AnyResource,
    AttributeSet,
    Authority,
    NetworkPattern,
    ResourcePattern,
    TopicPattern,
    Transformation,
    TypePattern,
)
from maia.credentials.certificate import OnlineTest, TestKind, Validity, united_tests
from maia.credentials.keys import (
    BadCertificate,
    LocalName,
    Owner,
    Principal,
    Subject,
    Threshold,
    owner_from_expression,
    owner_to_expression,
    principal_from_bytes,
    principal_from_expression,
    principal_to_expression,
)
from maia.credentials.names import (
    NAME_MAX,
    NamePattern,
    TypeName,
    checked_label,
    checked_topic_path,
    checked_version,
    pattern_of_parts,
    text_from_atom,
)
from maia.events import ATTRIBUTES_MAX, SECOND, AttributeUid, Instant, attribute_uid
from maia.expressions.encoding import rules_from_expressions, rules_to_expressions
from maia.expressions.summary_text import summary_from_expression, summary_to_expression
from maia.predicates.encoding import predicate_from_expression, predicate_to_expression
from maia.predicates.syntax import ALWAYS, Predicate


class BadAuthority(BadCertificate):
    """A certificate grants something that means nothing."""

    code = "CREDENTIAL-AUTHORITY"


# Which S-expression names a key, an owner or a subject?


MEMBERS_MAX: Final = 64
THRESHOLD_DEPTH_MAX: Final = 4
LINKED_NAMES_MAX: Final = 16

_COUNT: Final = re.compile(rb"[1-9][0-9]?")


def subject_to_expression(subject: Subject, depth: int = 0) -> SExpression:
    """Return the expression of a key, a local name or a threshold."""
    match subject:
        case Principal():
            return principal_to_expression(subject)
        case LocalName(space, names):
            return (
                b"name",
                principal_to_expression(space),
                *(checked_label(name).encode() for name in names),
            )
        case Threshold(needed, members):
            if depth >= THRESHOLD_DEPTH_MAX:
                raise BadCertificate(f"thresholds nest deeper than {THRESHOLD_DEPTH_MAX} levels")
            inner = (subject_to_expression(member, depth + 1) for member in members)
            return (b"k-of-n", b"%d" % needed, b"%d" % len(members), *inner)


def subject_from_expression(expression: SExpression, depth: int = 0) -> Subject:
    """Read a key, a local name or a threshold, strictly."""
    match expression:
        case (b"ed25519", bytes(key)):
            return principal_from_bytes(key)
        case (b"name", space, *words):
            return _local_name(principal_from_expression(space), words)
        case (b"k-of-n", bytes(needed), bytes(count), *members):
            if depth >= THRESHOLD_DEPTH_MAX:
                raise BadCertificate(f"thresholds nest deeper than {THRESHOLD_DEPTH_MAX} levels")
            return _threshold(needed, count, members, depth)
    raise BadCertificate("a subject must be a key, a `name` or a `k-of-n`")


def _local_name(space: Principal, words: list[SExpression]) -> LocalName:
    if not 1 <= len(words) <= LINKED_NAMES_MAX:
        raise BadCertificate(f"a local name links 1 to {LINKED_NAMES_MAX} names, and {len(words)} were given")
    return LocalName(space, tuple(checked_label(text_from_atom(word)) for word in words))


def _threshold(needed: bytes, count: bytes, members: list[SExpression], depth: int) -> Threshold:
    if not _COUNT.fullmatch(needed) or not _COUNT.fullmatch(count):
        raise BadCertificate("the numbers of a `k-of-n` must be decimal, without leading zeros")
    if int(count) != len(members) or not 1 <= int(needed) <= len(members) <= MEMBERS_MAX:
        raise BadCertificate(
            f"`{int(needed)}` of `{int(count)}` is impossible with {len(members)} subjects "
            f"(at most {MEMBERS_MAX})"
        )
    # One key listed twice would let one principal count for two.
    if len(set(members)) != len(members):
        raise BadCertificate("a subject is twice in one `k-of-n`")
    inner = tuple(subject_from_expression(member, depth + 1) for member in members)
    return Threshold(int(needed), inner)


_ANY: Final = b"*"
_REMEMBERED_PATTERNS: Final = 1024
_ACTIONS: Final = {action.value.encode(): action for action in Action}


def authority_to_expression(authority: Authority) -> SExpression:
    """Return the one expression of an authority."""
    checked_sense(authority)
    return (
        b"tag",
        resource_to_expression(authority.resources),
        actions_to_expression(authority.actions),
        attributes_to_expression(authority.attributes),
        *terms_to_expressions((authority.restriction, authority.condition, authority.transformations)),
    )


def authority_from_expression(expression: SExpression) -> Authority:
    """Read an authority strictly: whatever `authority_to_expression` would not write is refused."""
    match expression:
        case (b"tag", resource, actions, attributes, *terms):
            authority = Authority(
                resource_from_expression(resource),
                actions_from_expression(actions),
                attributes_from_expression(attributes),
                *terms_from_expressions(terms),
            )
            return checked_sense(authority)
    raise BadAuthority("a `tag` must state a resource, `actions` and `attributes`, in this order")


def checked_sense(authority: Authority) -> Authority:
    """Return the authority, refused if it grants what cannot be done."""
    actions, fitting = authority.actions, FITTING_ACTIONS[type(authority.resources)]
    if not actions:
        raise BadAuthority("a certificate without actions grants nothing")
    if actions != ALL_ACTIONS and not actions <= fitting:
        odd = ", ".join(sorted(f"`{action.value}`" for action in actions - fitting))
        raise BadAuthority(f"{odd} cannot be done with a {_called(authority.resources)}")
    if not authority.attributes and actions & EVENT_ACTIONS:
        raise BadAuthority("publishing or subscribing without any attribute grants nothing")
    if isinstance(authority.resources, NetworkPattern) and (
        authority.attributes is not ALL_ATTRIBUTES or authority.restriction != ALWAYS
    ):
        raise BadAuthority("a network has no attributes to choose or to restrict")
    if authority.transformations:
        one = len(actions) == 1 and actions <= EVENT_ACTIONS
        if not one or not isinstance(authority.resources, TypePattern):
            raise BadAuthority("a transformation is of a grant to `subscribe` to a type, or to `publish` it")
        if not all(step.attributes for step in authority.transformations):
            raise BadAuthority("a transformation that shows no attribute grants nothing")
        for step in authority.transformations:
            if step.summary is not None and (step.rules or step.result is None or Action.PUBLISH in actions):
                raise BadAuthority("a summary is shown to subscribers as another type, and has no rules")
    return authority


def _called(resources: ResourcePattern) -> str:
    return type(resources).__name__.removesuffix("Pattern").lower()


def resource_to_expression(resources: ResourcePattern) -> SExpression:
    """Return the one expression of a resource pattern."""
    match resources:
        case AnyResource(owner):
            return (b"any",) if owner is None else (b"any", _owner_field(owner))
        case NetworkPattern(owner, name):
            return (b"network", _owner_field(owner), _pattern_field(b"name", name, checked_label))
        case TypePattern(owner, name, version):
            written = _ANY if version is None else checked_version(version).encode()
            return (
                b"type",
                _owner_field(owner),
                _pattern_field(b"name", name, checked_label),
                (b"version", written),
            )
        case TopicPattern(owner, path):
            return (b"topic", _owner_field(owner), _pattern_field(b"path", path, checked_topic_path))


def resource_from_expression(expression: SExpression) -> ResourcePattern:
    """Read a resource pattern, strictly."""
    match expression:
        case (b"type", (b"owner", owner), (b"name", *parts), (b"version", version)):
            wanted = None if version == _ANY else checked_version(text_from_atom(version))
            return TypePattern(_owner(owner), _pattern(parts, checked_label), wanted)
        case (b"network", (b"owner", owner), (b"name", *parts)):
            return NetworkPattern(_owner(owner), _pattern(parts, checked_label))
        case (b"topic", (b"owner", owner), (b"path", *parts)):
            return TopicPattern(_owner(owner), _pattern(parts, checked_topic_path))
        case (b"any",):
            return AnyResource()
        case (b"any", (b"owner", owner)) if owner != _ANY:
            return AnyResource(_owner(owner))
    raise BadAuthority(
        "a resource must be `any`, a `network`, a `type` or a `topic`, with all its fields in order"
    )


def _owner_field(owner: Owner | None) -> SExpression:
    return (b"owner", _ANY if owner is None else owner_to_expression(owner))


def _owner(expression: SExpression) -> Owner | None:
    return None if expression == _ANY else owner_from_expression(expression)


# The same few names are below many owners, in certificate after certificate.
@lru_cache(maxsize=_REMEMBERED_PATTERNS)
def _pattern_field(field: bytes, pattern: NamePattern, checked_exact: Callable[[str], str]) -> SExpression:
    checked = _checked_pattern(pattern, checked_exact)
    return (field, *(part.encode("ascii") for part in checked.parts()))


def _pattern(parts: list[SExpression], checked_exact: Callable[[str], str]) -> NamePattern:
    # Only strings of a bounded length are remembered.
    return _pattern_of_texts(tuple(text_from_atom(part, NAME_MAX) for part in parts), checked_exact)


@lru_cache(maxsize=_REMEMBERED_PATTERNS)
def _pattern_of_texts(texts: tuple[str, ...], checked_exact: Callable[[str], str]) -> NamePattern:
    return _checked_pattern(pattern_of_parts(texts), checked_exact)


def _checked_pattern(pattern: NamePattern, checked_exact: Callable[[str], str]) -> NamePattern:
    """Refuse a pattern that no name of its kind could match."""
    if pattern.exact is not None:
        checked_exact(pattern.exact)
    foreign = "/" if checked_exact is checked_label else "."
    if any(foreign in part for part in pattern.parts()):
        raise BadAuthority(f"`{pattern}` matches no name of this kind, because of `{foreign}`")
    return pattern


def actions_to_expression(actions: frozenset[Action]) -> SExpression:
    """Return `(actions …)`, sorted; all of them together are `*`."""
    return (
        (b"actions", _ANY)
        if actions == ALL_ACTIONS
        else (b"actions", *sorted(a.value.encode() for a in actions))
    )


def actions_from_expression(expression: SExpression) -> frozenset[Action]:
    """Read `(actions …)`, strictly."""
    match expression:
        case (b"actions", b"*"):
            return ALL_ACTIONS
        case (b"actions", *atoms) if len(atoms) < len(ALL_ACTIONS):
            return frozenset(map(_action, _checked_set(atoms)))
    raise BadAuthority("`(actions …)` was expected, and all of them together as `*`")


def attributes_to_expression(attributes: AttributeSet) -> SExpression:
    """Return `(attributes …)`, sorted by uid, or `*`."""
    if attributes is ALL_ATTRIBUTES:
        return (b"attributes", _ANY)
    if len(attributes) > ATTRIBUTES_MAX:
        raise BadAuthority(f"more than {ATTRIBUTES_MAX} attributes are listed")
    return (b"attributes", *sorted(attribute_uid(uid).encode() for uid in attributes))


def attributes_from_expression(expression: SExpression) -> AttributeSet:
    """Read `(attributes …)`, strictly."""
    match expression:
        case (b"attributes", b"*"):
            return ALL_ATTRIBUTES
        case (b"attributes", *atoms) if len(atoms) <= ATTRIBUTES_MAX:
            return frozenset(map(_uid, _checked_set(atoms)))
    raise BadAuthority(f"`(attributes …)` was expected, with at most {ATTRIBUTES_MAX} of them, or `*`")


def _action(atom: bytes) -> Action:
    if atom not in _ACTIONS:
        raise BadAuthority(f"`{atom[:64].decode('ascii', 'backslashreplace')}` is no action")
    return _ACTIONS[atom]


def _uid(atom: bytes) -> AttributeUid:
    return attribute_uid(text_from_atom(atom))


def _checked_set(atoms: list[SExpression]) -> list[bytes]:
    """Return the strings of a set, refused unless they are sorted and unique."""
    strings = [atom for atom in atoms if isinstance(atom, bytes)]
    if len(strings) != len(atoms) or any(first >= second for first, second in pairwise(strings)):
        raise BadAuthority("the elements of a set must be strings in the order of their bytes, each once")
    return strings


Terms: TypeAlias = tuple[Predicate, Predicate, tuple[Transformation, ...]]
"""Restriction, condition, and the transformation of a certificate, if it has one."""


def terms_to_expressions(terms: Terms) -> tuple[SExpression, ...]:
    """Return restriction, condition and transformation, each left out where it changes nothing."""
    restriction, condition, transformations = terms
    if len(transformations) > 1:
        raise BadAuthority("a certificate has one transformation at most")
    named = zip((b"restriction", b"condition"), (restriction, condition), strict=True)
    written = tuple((name, predicate_to_expression(term)) for name, term in named if term != ALWAYS)
    return (*written, *map(transformation_to_expression, transformations))


def terms_from_expressions(terms: Sequence[SExpression]) -> Terms:
    """Read restriction, condition and transformation, strictly; a term that is left out is always true."""
    left = list(terms)
    restriction = _take_term(left, b"restriction")
    condition = _take_term(left, b"condition")
    match left:
        case []:
            return restriction, condition, ()
        case [(b"transform", *parts)]:
            return restriction, condition, (_read_transformation(parts),)
    raise BadAuthority(
        "after `attributes` a `tag` may have one `restriction`, then one `condition`, then one `transform`"
    )


def _take_term(left: list[SExpression], name: bytes) -> Predicate:
    match left:
        case [(head, term), *_] if head == name:
            del left[0]
            return _term(term)
    return ALWAYS


def transformation_to_expression(step: Transformation) -> SExpression:
    """Return the one expression of a transformation."""
    result: tuple[SExpression, ...] = ()
    if step.result is not None:
        name = step.result
        written = (
            (b"owner", owner_to_expression(name.owner)),
            (b"name", checked_label(name.name).encode()),
            (b"version", checked_version(name.version).encode()),
        )
        result = ((b"as", *written),)
    ending: tuple[SExpression, ...] = ()
    if step.restriction != ALWAYS:
        ending = ((b"restriction", predicate_to_expression(step.restriction)),)
    return (
        b"transform",
        (b"by", principal_to_expression(step.by)),
        *result,
        (b"rules", *rules_to_expressions(step.rules)),
        attributes_to_expression(step.attributes),
        *ending,
        *(() if step.summary is None else (summary_to_expression(step.summary),)),
    )


def _read_transformation(parts: list[SExpression]) -> Transformation:
    result: TypeName | None = None
    match parts:
        case [by, (b"as", (b"owner", owner), (b"name", name), (b"version", version)), *rest]:
            result = TypeName(
                owner_from_expression(owner),
                checked_label(text_from_atom(name)),
                checked_version(text_from_atom(version)),
            )
            parts = [by, *rest]
        case _:
            pass
    match parts:
        case [(b"by", by), (b"rules", *rules), (b"attributes", *_) as attributes, *ending]:
            left = list(ending)
            restriction, summary = _take_term(left, b"restriction"), None
            if left:
                summary = summary_from_expression(left.pop(0))
            if not left:
                return Transformation(
                    principal_from_expression(by),
                    rules_from_expressions(rules),
                    attributes_from_expression(attributes),
                    restriction,
                    result,
                    summary,
                )
    raise BadAuthority("a `transform` has `by`, `rules` and `attributes`, and nothing that is not known here")


def _term(expression: SExpression) -> Predicate:
    predicate = predicate_from_expression(expression)
    if predicate == ALWAYS:
        raise BadAuthority("a term that is always true must be left out")
    return predicate


TESTS_MAX: Final = 8
"""How many tests one certificate may demand."""

LOCATIONS_MAX: Final = 4
LOCATION_BYTES_MAX: Final = 256

_DATE: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2}):([0-9]{2}):([0-9]{2})")
_OPEN: Final = b"unbounded"
_REMEMBERED_DATES: Final = 4096
_KINDS: Final = {kind.value.encode(): kind for kind in TestKind}
# One printable ASCII word: it is shown in terminals, and nothing in it can end a line or a field.
_LOCATION: Final = re.compile(rb"[!-~]{1,%d}" % LOCATION_BYTES_MAX)


class BadValidity(BadCertificate):
    """A certificate does not say clearly from when to when it holds."""

    code = "CREDENTIAL-VALIDITY"


def validity_to_expression(validity: Validity) -> SExpression:
    """Return `(valid (not-before …) (not-after …) (online …)*)`; refuse an empty or finer period."""
    _checked_order(validity)
    return (
        b"valid",
        (b"not-before", _bound_to_bytes(validity.not_before)),
        (b"not-after", _bound_to_bytes(validity.not_after)),
        *map(_test_to_expression, _checked_tests(validity.tests)),
    )


def validity_from_expression(expression: SExpression) -> Validity:
    """Read both bounds and the tests, strictly."""
    match expression:
        case (b"valid", (b"not-before", bytes(start)), (b"not-after", bytes(end)), *online):
            tests = _checked_tests(tuple(map(_test_from_expression, online))) if online else ()
            return _checked_order(Validity(instant_from_bytes(start), instant_from_bytes(end), tests))
    raise BadValidity("a validity must state both bounds: `(valid (not-before …) (not-after …))`")


@lru_cache(maxsize=_REMEMBERED_DATES)
def instant_to_bytes(instant: Instant) -> bytes:
    """Write an instant in the date form of RFC 2693, which has whole seconds only."""
    if instant % SECOND:
        raise BadValidity(f"`{instant}` has a fraction of a second, which a certificate cannot say")
    moment = instant.to_datetime().replace(tzinfo=None)
    return moment.isoformat(sep="_", timespec="seconds").encode("ascii")


@lru_cache(maxsize=_REMEMBERED_DATES)
def instant_from_bytes(date: bytes) -> Instant | None:
    """Read a date in exactly that form, or None for `unbounded`."""
    if date == _OPEN:
        return None
    found = _DATE.fullmatch(date)
    shown = date[:64].decode("ascii", "backslashreplace")
    if not found:
        raise BadValidity(f"`{shown}` is not a date such as `2026-11-15_08:30:00`, nor `unbounded`")
    year, month, day, hour, minute, second = map(int, found.groups())
    try:
        return Instant.from_datetime(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
    except ValueError:
        raise BadValidity(f"`{shown}` is a date that does not exist") from None


def _bound_to_bytes(bound: Instant | None) -> bytes:
    return _OPEN if bound is None else instant_to_bytes(bound)


def _checked_order(validity: Validity) -> Validity:
    if validity.is_empty:
        raise BadValidity(
            f"`not-after` ({validity.not_after}) is before `not-before` ({validity.not_before})"
        )
    return validity


def _checked_tests(tests: tuple[OnlineTest, ...]) -> tuple[OnlineTest, ...]:
    if len(tests) > TESTS_MAX:
        raise BadValidity(f"a certificate demands at most {TESTS_MAX} online tests")
    if tests and united_tests(tests, ()) != tests:
        raise BadValidity("online tests must stand in order of kind and key, each once")
    return tests


def _test_to_expression(test: OnlineTest) -> SExpression:
    places = tuple((b"at", location.encode("ascii", "replace")) for location in test.locations)
    written: SExpression = (
        b"online",
        test.kind.value.encode(),
        (b"by", principal_to_expression(test.by)),
        *places,
    )
    if _test_from_expression(written) != test:
        raise BadValidity("a location of an online test must be printable ASCII, without spaces")
    return written


def _test_from_expression(expression: SExpression) -> OnlineTest:
    match expression:
        case (b"online", bytes(kind), (b"by", by), *places):
            if kind not in _KINDS:
                shown = kind[:64].decode("ascii", "backslashreplace")
                raise BadValidity(f"the online test `{shown}` is not known, so it cannot be made")
            if len(places) > LOCATIONS_MAX:
                raise BadValidity(f"an online test names at most {LOCATIONS_MAX} locations")
            locations = tuple(map(_location_from_expression, places))
            if len(set(locations)) < len(locations):
                raise BadValidity("an online test names a location twice")
            return OnlineTest(_KINDS[kind], principal_from_expression(by), locations)
    raise BadValidity("after its bounds a validity has only `(online KIND (by KEY) (at LOCATION)*)` fields")


def _location_from_expression(expression: SExpression) -> str:
    match expression:
        case (b"at", bytes(location)) if _LOCATION.fullmatch(location):
            return location.decode("ascii")
    raise BadValidity("a location of an online test must be printable ASCII, without spaces")
