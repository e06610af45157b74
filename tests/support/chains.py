"""People, grants and names for tests about chains of certificates.

Keys come from fixed seeds, so that a failing test shows the same keys every
time. `pools()` draws small pools of certificates, with names, groups and
thresholds, in which chains exist about half of the time.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from maia.credentials import (
    ALL_ATTRIBUTES,
    UNBOUNDED,
    Action,
    AnyResource,
    AttributeSet,
    AuthorisationCertificate,
    Authority,
    Certificate,
    LocalName,
    NameCertificate,
    Owner,
    Principal,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    Subject,
    Threshold,
    TypeName,
    TypePattern,
    Validity,
    issue,
    parse_name_pattern,
)
from maia.events import AttributeUid, Instant
from maia.predicates.syntax import ALWAYS, Predicate

NOON = Instant.parse("2026-11-15T12:00:00Z")
MORNING = Instant.parse("2026-11-15T08:00:00Z")
EVENING = Instant.parse("2026-11-15T20:00:00Z")
TODAY = Validity(MORNING, EVENING)
YESTERDAY = Validity(Instant.parse("2026-11-14T00:00:00Z"), Instant.parse("2026-11-14T23:59:59Z"))
TOMORROW = Validity(Instant.parse("2026-11-16T00:00:00Z"), Instant.parse("2026-11-16T23:59:59Z"))

SUBSCRIBE = frozenset({Action.SUBSCRIBE})
PUBLISH = frozenset({Action.PUBLISH})
BOTH = SUBSCRIBE | PUBLISH


def key(number: int) -> SigningKey:
    """Return the signing key of test person `number`."""
    return SigningKey.from_seed(number.to_bytes(32, "big"))


KEYS = {made.principal: made for made in (key(number) for number in range(1, 41))}
PEOPLE = tuple(KEYS)
OWNER, ALICE, BOB, CAROL, DAVE = PEOPLE[:5]
TYPE = TypeName(OWNER, "uk.gov.pito.Numberplate", "0")


def known(signer: SigningKey) -> Principal:
    """Remember a key made in a test, so that `grant` can sign for it."""
    KEYS[signer.principal] = signer
    return signer.principal


def uids(*names: str) -> frozenset[AttributeUid]:
    """Return some attributes by uid."""
    return frozenset(AttributeUid(name) for name in names)


def about(
    resources: ResourcePattern | None = None,
    actions: frozenset[Action] = BOTH,
    attributes: AttributeSet = ALL_ATTRIBUTES,
    restriction: Predicate = ALWAYS,
) -> Authority:
    """Return an authority; about the type of these tests unless told otherwise."""
    return Authority(resources or types_of(OWNER), actions, attributes, restriction)


def types_of(owner: Owner | None, pattern: str = "*", version: str | None = None) -> TypePattern:
    """Return the types of an owner by name."""
    return TypePattern(owner, parse_name_pattern(pattern), version)


EVERYTHING = AnyResource()


def grant(
    issuer: Principal,
    subject: Subject,
    authority: Authority | None = None,
    *,
    final: bool = False,
    validity: Validity = UNBOUNDED,
    comment: str = "",
) -> SignedCertificate:
    """Sign an authorisation; `final` means that it may not be passed on."""
    certificate = AuthorisationCertificate(
        issuer, subject, not final, authority or about(), validity, comment
    )
    return issue(certificate, KEYS[issuer])


def call(
    issuer: Principal, name: str, subject: Subject, *, validity: Validity = UNBOUNDED
) -> SignedCertificate:
    """Sign a name: in `issuer`'s namespace, `name` means `subject`."""
    return issue(NameCertificate(issuer, name, subject, validity), KEYS[issuer])


def named(space: Principal, *names: str) -> LocalName:
    """Return a local name."""
    return LocalName(space, names)


def k_of(needed: int, *members: Subject) -> Threshold:
    """Return a threshold."""
    return Threshold(needed, members)


# ---------------------------------------------------------------- random pools

_FIVE = st.sampled_from((OWNER, *[ALICE, BOB, CAROL] * 3, DAVE))
_WORDS = st.sampled_from(("team", "boss"))


def local_names() -> SearchStrategy[LocalName]:
    """Draw a name of one or two words."""
    return st.builds(LocalName, _FIVE, st.lists(_WORDS, min_size=1, max_size=2).map(tuple))


def thresholds() -> SearchStrategy[Threshold]:
    """Draw a small threshold, sometimes nested, sometimes with names in it."""
    leaf = st.one_of(_FIVE, _FIVE, local_names())

    def of(members: SearchStrategy[Subject]) -> SearchStrategy[Threshold]:
        several = st.lists(members, min_size=1, max_size=3, unique=True).map(tuple)
        return several.flatmap(
            lambda chosen: st.integers(1, len(chosen)).map(lambda needed: Threshold(needed, chosen))
        )

    return of(st.one_of(leaf, leaf, of(leaf)))


def subjects() -> SearchStrategy[Subject]:
    """Draw a subject, most often a key."""
    return st.one_of(_FIVE, _FIVE, _FIVE, local_names(), thresholds())


def _as_uids(names: frozenset[str]) -> frozenset[AttributeUid]:
    return uids(*names)


def authorities() -> SearchStrategy[Authority]:
    """Draw an authority over few attributes and actions, so that they often meet."""
    attributes = st.one_of(
        st.just(ALL_ATTRIBUTES), st.frozensets(st.sampled_from(("a", "b", "c")), min_size=1).map(_as_uids)
    )
    resources = st.sampled_from((EVERYTHING, types_of(OWNER), types_of(None, "uk.*"), types_of(ALICE)))
    return st.builds(Authority, resources, st.sampled_from((BOTH, SUBSCRIBE, PUBLISH)), attributes)


# Built once: Hypothesis spends far longer on making a strategy than on drawing from it.
_SUBJECTS = subjects()
_SUBJECTS_OFTEN_DAVE = st.one_of(st.just(DAVE), st.just(DAVE), _SUBJECTS)
_AUTHORITIES = st.one_of(
    *[st.sampled_from((about(EVERYTHING), about(), about(types_of(None, "uk.*"))))] * 2, authorities()
)
_VALIDITIES = st.sampled_from((UNBOUNDED, UNBOUNDED, UNBOUNDED, TODAY, YESTERDAY))
_DICE = st.integers(0, 7)


@st.composite
def pools(draw: st.DrawFn, size_max: int = 8) -> list[SignedCertificate]:
    """Draw a small pool in no particular order.

    A certificate is mostly issued by somebody who was spoken to before, and a
    name mostly defined where it was used: many pools hold a chain from OWNER
    to DAVE, and most of the others miss one by little.
    """
    holders: list[Principal] = [OWNER]
    words: list[tuple[Principal, str]] = []
    pool: list[SignedCertificate] = []
    for place in range(draw(_DICE) % size_max + 1):
        if words and draw(_DICE) < 4:
            certificate: Certificate = _draw_name(draw, words[draw(_DICE) % len(words)])
        elif draw(_DICE) == 0:
            certificate = _draw_name(draw, (draw(_FIVE), draw(_WORDS)))
        else:
            certificate = _draw_grant(draw, holders[-(draw(_DICE) % len(holders))], is_first=place == 0)
        _mention(certificate.subject, holders, words)
        pool.append(issue(certificate, KEYS[certificate.issuer]))
    # Ids are as good as random, so this is an order that has nothing to do with the making.
    return sorted(pool, key=lambda signed: signed.id)


def _draw_grant(draw: st.DrawFn, issuer: Principal, *, is_first: bool) -> AuthorisationCertificate:
    return AuthorisationCertificate(
        issuer,
        draw(_SUBJECTS if is_first else _SUBJECTS_OFTEN_DAVE),
        draw(_DICE) > 1,
        draw(_AUTHORITIES),
        draw(_VALIDITIES),
    )


def _draw_name(draw: st.DrawFn, defines: tuple[Principal, str]) -> NameCertificate:
    issuer, word = defines
    return NameCertificate(issuer, word, draw(_SUBJECTS_OFTEN_DAVE), draw(_VALIDITIES))


def _mention(subject: Subject, holders: list[Principal], words: list[tuple[Principal, str]]) -> None:
    match subject:
        case Principal():
            holders.append(subject)
        case LocalName(space, names):
            words.append((space, names[0]))
        case Threshold(_, members):
            for member in members:
                _mention(member, holders, words)
