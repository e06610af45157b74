"""Random name patterns, authorities and certificates, signed with fixed test keys."""

from __future__ import annotations

from hypothesis import strategies as st

from maia.credentials import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    UNBOUNDED,
    Action,
    AnyResource,
    AuthorisationCertificate,
    Authority,
    Certificate,
    LocalName,
    NameCertificate,
    NetworkName,
    NetworkPattern,
    OnlineTest,
    QuorumId,
    ResourceName,
    ResourcePattern,
    SigningKey,
    Subject,
    TestKind,
    Threshold,
    TopicName,
    TopicPattern,
    TypeName,
    TypePattern,
    Validity,
    parse_name_pattern,
)
from maia.credentials.authority import FITTING_ACTIONS, Bound, FilterBound
from maia.events import AttributeUid, Instant
from maia.predicates.syntax import (
    ALWAYS,
    AllOf,
    Comparison,
    Exists,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)

KEYS = tuple(SigningKey.from_seed(bytes([number]) * 32) for number in range(1, 6))
KEY_OF = {key.principal: key for key in KEYS}
VERSION = "0f8fad5b-d9cb-469f-a165-70867728950e"
UIDS = tuple(AttributeUid(uid) for uid in ("location", "numberplate", "timestamp"))

NAMES = st.sampled_from(["a", "b", "ab", "ba", "aa", "a.b", "ab.a", "b.a.b", "abba"])
PATHS = st.sampled_from(["/", "/a", "/a/b", "/b/a", "/ab"])
SUBSECOND = st.integers(-62_135_596_800, 253_402_300_799).map(lambda second: Instant(second * 1_000_000))


def pattern_texts(fragments: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw a pattern of one of the six written forms."""
    some = fragments.filter(bool)
    return st.one_of(
        st.just("*"),
        some,
        some.map(lambda prefix: f"{prefix}*"),
        some.map(lambda suffix: f"*{suffix}"),
        st.builds(lambda prefix, suffix: f"{prefix}*{suffix}", some, some),
        some.map(lambda infix: f"*{infix}*"),
    )


LABEL_PATTERNS = pattern_texts(NAMES).map(parse_name_pattern)
PATH_PATTERNS = st.one_of(PATHS, PATHS.map(lambda path: f"{path}*"), st.just("*")).map(parse_name_pattern)
OWNERS = st.sampled_from([None, KEYS[0].principal, KEYS[1].principal, QuorumId(b"q" * 32)])
RESOURCES: st.SearchStrategy[ResourcePattern] = st.one_of(
    st.builds(AnyResource, OWNERS),
    st.builds(TypePattern, OWNERS, LABEL_PATTERNS, st.sampled_from([None, "0", VERSION])),
    st.builds(NetworkPattern, OWNERS, LABEL_PATTERNS),
    st.builds(TopicPattern, OWNERS, PATH_PATTERNS),
)
SOME_OWNER = OWNERS.filter(lambda owner: owner is not None)
RESOURCE_NAMES: st.SearchStrategy[ResourceName] = st.one_of(
    st.builds(TypeName, SOME_OWNER, NAMES, st.sampled_from(["0", VERSION])),
    st.builds(NetworkName, SOME_OWNER, NAMES),
    st.builds(TopicName, SOME_OWNER, PATHS),
)
ATTRIBUTES = st.one_of(st.just(ALL_ATTRIBUTES), st.frozensets(st.sampled_from(UIDS)))
TERMS: st.SearchStrategy[Predicate] = st.one_of(
    st.just(ALWAYS),
    st.builds(
        Comparison,
        st.sampled_from(UIDS),
        st.sampled_from([Operator.EQ, Operator.NE]),
        st.sampled_from(["x", 1, 1.0, True, -0.0, 2**63 - 1, b"\x00", Instant(0), "Å"]),
    ),
    st.builds(TextMatch, st.sampled_from(UIDS), st.just(TextTest.PREFIX), st.text("ab", max_size=2)),
    st.sampled_from([Not(Exists(UIDS[0])), AllOf((Exists(UIDS[0]), Exists(UIDS[1])))]),
)


@st.composite
def authorities(draw: st.DrawFn) -> Authority:
    """Draw an authority that a certificate can state."""
    resources = draw(RESOURCES)
    fitting = FITTING_ACTIONS[type(resources)]
    actions = draw(
        st.one_of(
            st.just(ALL_ACTIONS),
            st.frozensets(st.sampled_from(sorted(fitting, key=lambda a: a.value)), min_size=1),
        )
    )
    if isinstance(resources, NetworkPattern):
        connects = {Action.CONNECT} if Action.BROKER in actions else set()
        return Authority(resources, actions | connects, condition=draw(TERMS))
    attributes = draw(ATTRIBUTES)
    if not attributes and actions & {Action.PUBLISH, Action.SUBSCRIBE}:
        attributes = frozenset(UIDS)
    bounds: tuple[FilterBound, ...] = ()
    if isinstance(resources, TypePattern) and actions <= {Action.PUBLISH, Action.SUBSCRIBE}:
        bounds = draw(st.lists(st.builds(FilterBound, st.just(Bound.UPPER), TERMS), max_size=2).map(tuple))
    return Authority(resources, actions, attributes, draw(TERMS), draw(TERMS), bounds=bounds)


PRINCIPALS = st.sampled_from([key.principal for key in KEYS])
LOCAL_NAMES = st.builds(
    LocalName,
    PRINCIPALS,
    st.lists(st.sampled_from(["Met Brokers", "a", "b.c"]), min_size=1, max_size=3).map(tuple),
)


def _thresholds(inner: st.SearchStrategy[Subject]) -> st.SearchStrategy[Subject]:
    members = st.lists(inner, min_size=1, max_size=3, unique=True).map(tuple)
    return members.flatmap(lambda some: st.builds(Threshold, st.integers(1, len(some)), st.just(some)))


SUBJECTS: st.SearchStrategy[Subject] = st.recursive(
    st.one_of(PRINCIPALS, LOCAL_NAMES), _thresholds, max_leaves=4
)
BOUNDS = st.one_of(st.none(), SUBSECOND)
PERIODS = st.one_of(
    st.just(UNBOUNDED), st.builds(Validity, BOUNDS, BOUNDS).filter(lambda validity: not validity.is_empty)
)
ONLINE_TESTS = st.builds(
    OnlineTest,
    st.sampled_from(TestKind),
    PRINCIPALS,
    st.lists(st.sampled_from(["https://a/b", "(5:valid", "x)", "(6:online"]), unique=True, max_size=2).map(
        tuple
    ),
)
VALIDITIES = st.one_of(
    PERIODS,
    st.builds(lambda period, tests: period.with_tests(*tests), PERIODS, st.lists(ONLINE_TESTS, max_size=3)),
)
COMMENTS = st.sampled_from(
    ["", "for the night shift", "für die Nacht", "(5:valid(10:not-before", "(3:tag", "("]
)


@st.composite
def _authorisations(draw: st.DrawFn) -> AuthorisationCertificate:
    """Draw what one principal grants another; what makes a broker goes to another key and no further."""
    issuer, authority = draw(PRINCIPALS), draw(authorities())
    makes_broker = Action.BROKER in authority.actions
    subject = draw(PRINCIPALS.filter(lambda one: one != issuer) if makes_broker else SUBJECTS)
    may_delegate = not makes_broker and draw(st.booleans())
    return AuthorisationCertificate(
        issuer, subject, may_delegate, authority, draw(VALIDITIES), draw(COMMENTS)
    )


CERTIFICATES: st.SearchStrategy[Certificate] = st.one_of(
    _authorisations(),
    st.builds(
        NameCertificate, PRINCIPALS, st.sampled_from(["Met Brokers", "x"]), SUBJECTS, VALIDITIES, COMMENTS
    ),
)
