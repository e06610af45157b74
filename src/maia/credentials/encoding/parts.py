"""How does a certificate say what it grants?

    (tag RESOURCE (actions * | ACTION …) (attributes * | UID …)
         (restriction PREDICATE)? (condition PREDICATE)?
         (transform (by KEY) (as (owner OWNER) (name NAME) (version VERSION))?
                    (rules RULE …) (attributes * | UID …) (restriction PREDICATE)? (summary …)?)?
         (bound KIND PREDICATE)*)

    RESOURCE = (any) | (any (owner OWNER))
             | (network (owner * | OWNER) (name PATTERN …))
             | (type (owner * | OWNER) (name PATTERN …) (version * | VERSION))
             | (topic (owner * | OWNER) (path PATTERN …))

Sets are sorted by their bytes, each element once. Several patterns mean all
of them. A term that is always true is left out. A combination that means
nothing, such as publishing a network, is refused by writer and reader alike,
so that no issuer believes to have granted it.

Its period, and who must confirm it meanwhile:

    (valid (not-before 2026-11-15_08:30:00) (not-after unbounded)
      (online timed-crl (by (ed25519 KEY)) (at "https://met.example/statements")*)*)

Both bounds are always there, in whole seconds of UTC. A bound that is missing
is refused; one that is meant to be open says so. Dates must exist: there is
no 30 February, and no second 60. Tests stand in one order, each once; a kind
of test that is not known is refused, for it could not be made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from maia.canonical import SExpression
from maia.canonical.fields import (
    Items,
    Part,
    alone,
    bare,
    choice,
    each,
    either,
    fields,
    many,
    one,
    record,
    rest,
    tagged,
    word_of,
)
from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    EVENT_ACTIONS,
    FITTING_ACTIONS,
    Action,
    AnyResource,
    AttributeSet,
    Authority,
    Bound,
    FilterBound,
    NetworkPattern,
    ResourcePattern,
    TopicPattern,
    Transformation,
    TypePattern,
)
from maia.credentials.certificate import OnlineTest, TestKind, Validity, united_tests
from maia.credentials.documents import KEY, LABEL, OWNER, TYPE_NAME, VERSION, dates
from maia.credentials.keys import BadCertificate, LocalName, Principal, Subject, Threshold
from maia.credentials.names import (
    NAME_MAX,
    NamePattern,
    checked_label,
    checked_topic_path,
    pattern_of_parts,
    text_from_atom,
)
from maia.events import ATTRIBUTES_MAX, attribute_uid
from maia.expressions.encoding import rules_from_expressions, rules_to_expressions
from maia.expressions.summary_text import summary_from_expression, summary_to_expression
from maia.predicates.encoding import predicate_from_expression, predicate_to_expression
from maia.predicates.syntax import ALWAYS, Predicate


class BadAuthority(BadCertificate):
    """A certificate grants something that means nothing."""

    code = "CREDENTIAL-AUTHORITY"


class BadValidity(BadCertificate):
    """A certificate does not say clearly from when to when it holds."""

    code = "CREDENTIAL-VALIDITY"


# ---------------------------------------------------------------- to whom


MEMBERS_MAX: Final = 64
THRESHOLD_DEPTH_MAX: Final = 4
LINKED_NAMES_MAX: Final = 16

_COUNT: Final = re.compile(rb"[1-9][0-9]?")
_SUBJECT: Final = (BadCertificate, "a subject must be a key, a `name` or a `k-of-n`")


def _write_threshold(threshold: Threshold) -> Items:
    """Refuse what nests too deeply before anything recursive runs on it."""
    inside: list[Subject] = [threshold]
    for _ in range(THRESHOLD_DEPTH_MAX + 1):
        inside = [member for one in inside if isinstance(one, Threshold) for member in one.members]
    if inside:
        raise BadCertificate(f"thresholds nest deeper than {THRESHOLD_DEPTH_MAX} levels")
    members = map(SUBJECT.write, threshold.members)
    return (b"%d" % threshold.needed, b"%d" % len(threshold.members), *members)


def _read_threshold(items: Items) -> Threshold:
    match items:
        case (bytes(needed), bytes(count), *members) if _COUNT.fullmatch(needed) and _COUNT.fullmatch(count):
            pass
        case (bytes(), bytes(), *_):
            raise BadCertificate("the numbers of a `k-of-n` must be decimal, without leading zeros")
        case _:
            raise BadCertificate(_SUBJECT[1])
    if int(count) != len(members) or not 1 <= int(needed) <= len(members) <= MEMBERS_MAX:
        raise BadCertificate(
            f"`{int(needed)}` of `{int(count)}` is impossible with {len(members)} subjects "
            f"(at most {MEMBERS_MAX})"
        )
    # One key listed twice would let one principal count for two.
    if len(set(members)) != len(members):
        raise BadCertificate("a subject is twice in one `k-of-n`")
    return Threshold(int(needed), tuple(map(SUBJECT.read, members)))


_NAMES: Final = (BadCertificate, f"a local name links 1 to {LINKED_NAMES_MAX} names, and {{}} were given")
_LOCAL_NAME: Final = fields(
    LocalName, _SUBJECT, space=bare(KEY), names=rest(each(LABEL, LINKED_NAMES_MAX, _NAMES, least=1))
)
SUBJECT: Final[Part[Subject]] = choice(
    _SUBJECT,
    {
        Principal: KEY,
        LocalName: tagged(b"name", _LOCAL_NAME, _SUBJECT),
        Threshold: tagged(b"k-of-n", Part(_write_threshold, _read_threshold), _SUBJECT),
    },
)


# ---------------------------------------------------------------- what


_REMEMBERED_PATTERNS: Final = 1024
_RESOURCE: Final = (
    BadAuthority,
    "a resource must be `any`, a `network`, a `type` or a `topic`, with all its fields in order",
)


def _pattern(checked_exact: Callable[[str], str], foreign: str) -> Part[NamePattern]:
    """Return how patterns of one kind of names are written; refuse those that no such name could match."""

    def checked(pattern: NamePattern) -> NamePattern:
        if pattern.exact is not None:
            checked_exact(pattern.exact)
        if any(foreign in part for part in pattern.parts()):
            raise BadAuthority(f"`{pattern}` matches no name of this kind, because of `{foreign}`")
        return pattern

    # The same few names are below many owners, in certificate after certificate.
    @lru_cache(maxsize=_REMEMBERED_PATTERNS)
    def write(pattern: NamePattern) -> Items:
        return tuple(part.encode("ascii") for part in checked(pattern).parts())

    @lru_cache(maxsize=_REMEMBERED_PATTERNS)
    def read(texts: tuple[str, ...]) -> NamePattern:
        return checked(pattern_of_parts(texts))

    # Only strings of a bounded length are remembered.
    return Part(write, lambda items: read(tuple(text_from_atom(item, NAME_MAX) for item in items)))


_NAME_PATTERN: Final = _pattern(checked_label, "/")
_ANY_OWNER: Final = either(b"*", None, OWNER)

RESOURCE: Final[Part[ResourcePattern]] = choice(
    _RESOURCE,
    {
        AnyResource: record(b"any", AnyResource, _RESOURCE, owner=one(_ANY_OWNER, left_out=None)),
        NetworkPattern: record(
            b"network", NetworkPattern, _RESOURCE, owner=one(_ANY_OWNER), name=many(_NAME_PATTERN)
        ),
        TypePattern: record(
            b"type",
            TypePattern,
            _RESOURCE,
            owner=one(_ANY_OWNER),
            name=many(_NAME_PATTERN),
            version=one(either(b"*", None, VERSION)),
        ),
        TopicPattern: record(
            b"topic",
            TopicPattern,
            _RESOURCE,
            owner=one(_ANY_OWNER),
            path=many(_pattern(checked_topic_path, ".")),
        ),
    },
)


resource_to_expression: Callable[[ResourcePattern], SExpression] = RESOURCE.write
resource_from_expression: Callable[[SExpression], ResourcePattern] = RESOURCE.read


def _set(everything: Any, part: Part[Any], most: int, sentence: str) -> Part[Any]:
    """Return how a set is written: `*` for everything, or its elements in the order of their bytes."""

    def write(chosen: Any) -> Items:
        if chosen == everything:
            return (b"*",)
        return checked(tuple(sorted(map(part.write, chosen))))

    def read(items: Items) -> Any:
        return everything if items == (b"*",) else frozenset(map(part.read, checked(items)))

    def checked(items: Items) -> Items:
        if len(items) > most:
            raise BadAuthority(sentence)
        strings = [item for item in items if isinstance(item, bytes)]
        if len(strings) != len(items) or any(first >= second for first, second in pairwise(strings)):
            raise BadAuthority("the elements of a set must be strings in the order of their bytes, each once")
        return items

    return Part(write, read)


_ACTIONS: Final = _set(
    ALL_ACTIONS,
    word_of(Action, BadAuthority, "`{}` is no action"),
    len(ALL_ACTIONS) - 1,
    "`(actions …)` was expected, and all of them together as `*`",
)
_ATTRIBUTES: Final = _set(
    ALL_ATTRIBUTES,
    Part(lambda uid: attribute_uid(uid).encode(), lambda atom: attribute_uid(text_from_atom(atom))),
    ATTRIBUTES_MAX,
    f"`(attributes …)` was expected, with at most {ATTRIBUTES_MAX} of them, or `*`",
)


def _read_term(expression: SExpression) -> Predicate:
    predicate = predicate_from_expression(expression)
    if predicate == ALWAYS:
        raise BadAuthority("a term that is always true must be left out")
    return predicate


_TERM: Final = Part(predicate_to_expression, _read_term)
_TRANSFORMATION: Final = fields(
    Transformation,
    (BadAuthority, "a `transform` has `by`, `rules` and `attributes`, and nothing that is not known here"),
    by=one(KEY),
    result=many(TYPE_NAME, b"as", left_out=None),
    rules=many(Part(rules_to_expressions, rules_from_expressions)),
    attributes=many(_ATTRIBUTES),
    restriction=one(_TERM, left_out=ALWAYS),
    summary=bare(Part(summary_to_expression, summary_from_expression), left_out=None),
)


def _write_only(steps: tuple[Transformation, ...]) -> Items:
    if len(steps) > 1:
        raise BadAuthority("a certificate has one transformation at most")
    return _TRANSFORMATION.write(steps[0])  # type: ignore[no-any-return]  # items, as `fields` writes them


def checked_sense(authority: Authority) -> Authority:
    """Return the authority, refused if it grants what cannot be done."""
    actions, fitting = authority.actions, FITTING_ACTIONS[type(authority.resources)]
    if not actions:
        raise BadAuthority("a certificate without actions grants nothing")
    if actions != ALL_ACTIONS and not actions <= fitting:
        called = type(authority.resources).__name__.removesuffix("Pattern").lower()
        odd = ", ".join(sorted(f"`{action.value}`" for action in actions - fitting))
        raise BadAuthority(f"{odd} cannot be done with a {called}")
    if Action.BROKER in actions and Action.CONNECT not in actions:
        raise BadAuthority("a broker connects: `broker` goes with `connect`, in one certificate")
    if not authority.attributes and actions & EVENT_ACTIONS:
        raise BadAuthority("publishing or subscribing without any attribute grants nothing")
    if isinstance(authority.resources, NetworkPattern) and (
        authority.attributes is not ALL_ATTRIBUTES or authority.restriction != ALWAYS
    ):
        raise BadAuthority("a network has no attributes to choose or to restrict")
    if authority.bounds and (
        not actions <= EVENT_ACTIONS or not isinstance(authority.resources, TypePattern)
    ):
        raise BadAuthority("a bound is of a grant to `subscribe` to types, or to `publish` them")
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


BOUNDS_MAX: Final = 4
"""How many bounds one certificate may set."""

_BOUND: Final = record(
    b"bound",
    FilterBound,
    (BadAuthority, "a `bound` is `(bound KIND PREDICATE)`, behind everything else"),
    bound=bare(word_of(Bound, BadAuthority, "`{}` is no bound")),
    filter=bare(Part(predicate_to_expression, predicate_from_expression)),
)
_BOUNDS: Final = each(
    _BOUND, BOUNDS_MAX, (BadAuthority, f"a certificate sets at most {BOUNDS_MAX} bounds, and not {{}}")
)
_AUTHORITY: Final = (BadAuthority, "a `tag` must state a resource, `actions` and `attributes`, in this order")
AUTHORITY: Final = record(
    b"tag",
    Authority,
    _AUTHORITY,
    check=checked_sense,
    resources=bare(RESOURCE),
    actions=many(_ACTIONS),
    attributes=many(_ATTRIBUTES),
    restriction=one(_TERM, left_out=ALWAYS),
    condition=one(_TERM, left_out=ALWAYS),
    transformations=many(
        Part(_write_only, lambda items: (_TRANSFORMATION.read(items),)), b"transform", left_out=()
    ),
    bounds=rest(_BOUNDS),
)


def transformation_to_expression(step: Transformation) -> SExpression:
    """Return the one expression of a transformation."""
    return (b"transform", *_TRANSFORMATION.write(step))


def transformation_from_expression(expression: SExpression, holder: bytes) -> Transformation:
    """Read what `transformation_to_expression` writes, for the one whom its certificate names."""
    if not isinstance(expression, tuple) or expression[:1] != (b"transform",):
        raise BadAuthority("`(transform …)` was expected")
    return replace(_TRANSFORMATION.read(expression[1:]), holder=holder)


attributes_to_expressions: Callable[[AttributeSet], Items] = _ATTRIBUTES.write
attributes_from_expressions: Callable[[Items], AttributeSet] = _ATTRIBUTES.read


# ---------------------------------------------------------------- from when to when


TESTS_MAX: Final = 8
"""How many tests one certificate may demand."""

LOCATIONS_MAX: Final = 4
LOCATION_BYTES_MAX: Final = 256

# One printable ASCII word: it is shown in terminals, and nothing in it can end a line or a field.
_LOCATION: Final = re.compile(rb"[!-~]{1,%d}" % LOCATION_BYTES_MAX)


DATE: Final = either(
    b"unbounded",
    None,
    dates(BadValidity, "a date such as `2026-11-15_08:30:00`, nor `unbounded`"),
)


def _checked_order(validity: Validity) -> Validity:
    if validity.is_empty:
        raise BadValidity(
            f"`not-after` ({validity.not_after}) is before `not-before` ({validity.not_before})"
        )
    if validity.tests and united_tests(validity.tests, ()) != validity.tests:
        raise BadValidity("online tests must stand in order of kind and key, each once")
    return validity


def _checked_locations(test: OnlineTest) -> OnlineTest:
    if len(set(test.locations)) < len(test.locations):
        raise BadValidity("an online test names a location twice")
    return test


def _checked_location(location: SExpression) -> str:
    if not isinstance(location, bytes) or not _LOCATION.fullmatch(location):
        raise BadValidity("a location of an online test must be printable ASCII, without spaces")
    return location.decode("ascii")


_TEST_FORM: Final = (
    BadValidity,
    "after its bounds a validity has only `(online KIND (by KEY) (at LOCATION)*)` fields",
)
_PLACE: Final[Part[str]] = Part(
    lambda location: _checked_location(location.encode("utf-8", "surrogatepass")).encode(), _checked_location
)
_PLACES: Final = each(
    tagged(b"at", alone(_PLACE, _TEST_FORM), _TEST_FORM),
    LOCATIONS_MAX,
    (BadValidity, f"an online test names at most {LOCATIONS_MAX} locations"),
)
_TEST: Final = record(
    b"online",
    OnlineTest,
    _TEST_FORM,
    check=_checked_locations,
    kind=bare(word_of(TestKind, BadValidity, "the online test `{}` is not known, so it cannot be made")),
    by=one(KEY),
    locations=rest(_PLACES),
)
_TESTS: Final = each(
    _TEST, TESTS_MAX, (BadValidity, f"a certificate demands at most {TESTS_MAX} online tests")
)
VALIDITY: Final = record(
    b"valid",
    Validity,
    (BadValidity, "a validity must state both bounds: `(valid (not-before …) (not-after …))`"),
    check=_checked_order,
    not_before=one(DATE),
    not_after=one(DATE),
    tests=rest(_TESTS),
)
