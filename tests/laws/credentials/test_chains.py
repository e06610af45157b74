"""What holds of every chain, reduction and search."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from maia.credentials import (
    ALL_ATTRIBUTES,
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    BrokenChain,
    Budget,
    FiveTuple,
    SignedCertificate,
    Transformation,
    Validity,
    VerificationCache,
    VerifiedChain,
    certificate_to_bytes,
    covers_request,
    find_chain,
    find_chains,
    intersect,
    reduce_chain,
    reduced,
    verify_chain,
)
from maia.credentials.chains.discovery import FORGED_MAX, read_from_owner
from maia.credentials.chains.flows import FlowLimits, FlowSearch
from maia.credentials.chains.reduction import includes, owned_part
from maia.credentials.statements import CertificateRevoked
from maia.errors import BrokenCredential
from maia.events import AttributeUid, Instant
from maia.policy import Request, gather_evidence
from maia.policy.evidence import _Search
from maia.predicates import ALWAYS, AllOf, Comparison, Operator
from reference.chain_model import grants
from support.chains import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    EVERYTHING,
    KEYS,
    NOON,
    OWNER,
    PEOPLE,
    TYPE,
    YESTERDAY,
    about,
    authorities,
    call,
    grant,
    k_of,
    named,
    pools,
    types_of,
    uids,
)
from support.policy import NUMBERPLATE_ATTRIBUTES, defined

pytestmark = pytest.mark.laws

# The ends meet often enough that most chains of five have a moment in common, and some have none.
starts = st.one_of(st.none(), st.integers(0, 11).map(Instant))
ends = st.one_of(st.none(), st.integers(10, 20).map(Instant))
validities = st.builds(Validity, starts, ends).filter(lambda validity: not validity.is_empty)


@st.composite
def linked(draw: st.DrawFn, *, length: int) -> list[FiveTuple]:
    """Draw 5-tuples that follow one another; now and then one may not be passed on."""
    people = PEOPLE[: length + 1]
    wide = st.sampled_from((about(EVERYTHING), about(types_of(OWNER)), about(types_of(None, "uk.*"))))
    granted = st.one_of(wide, wide, authorities())
    return [
        FiveTuple(issuer, subject, draw(st.integers(0, 19)) > 0, draw(granted), draw(validities))
        for issuer, subject in pairwise(people)
    ]


def attempted(*links: FiveTuple) -> FiveTuple | None:
    try:
        return reduce_chain(links)
    except BrokenChain:
        return None


@given(linked(length=3))
def test_reduction_is_associative(links: list[FiveTuple]) -> None:
    first, second, third = links
    left, right = attempted(first, second), attempted(second, third)
    from_the_left = None if left is None else attempted(left, third)
    from_the_right = None if right is None else attempted(first, right)
    assert from_the_left == from_the_right == attempted(first, second, third)


@given(linked(length=5))
def test_a_chain_reduces_to_what_pairs_reduce_to(links: list[FiveTuple]) -> None:
    step_by_step: FiveTuple | None = links[0]
    for link in links[1:]:
        step_by_step = None if step_by_step is None else attempted(step_by_step, link)
    assert step_by_step == attempted(*links)


def test_a_pair_reduces_as_the_dissertation_writes_it() -> None:
    """Section 2.6.1: issuer of the first, subject and delegation of the second, intersections."""
    early, late = Validity(Instant(1), Instant(9)), Validity(Instant(5), None)
    first = FiveTuple(OWNER, ALICE, True, about(types_of(OWNER, "uk.*")), early)
    second = FiveTuple(ALICE, BOB, False, about(EVERYTHING), late)
    assert reduced(first, second) == FiveTuple(
        OWNER, BOB, False, about(types_of(OWNER, "uk.*")), Validity(Instant(5), Instant(9))
    )


@given(linked(length=4))
def test_authority_and_validity_never_widen_along_a_chain(links: list[FiveTuple]) -> None:
    whole = attempted(*links)
    assume(whole is not None)
    assert whole is not None
    for link in links:
        assert includes(wide=link.authority, narrow=whole.authority)
        assert link.validity.intersection(whole.validity) == whole.validity
    assert whole.may_delegate == links[-1].may_delegate


@given(authorities(), authorities())
def test_includes_never_says_yes_where_the_intersection_is_smaller(one, other) -> None:
    if includes(wide=one, narrow=other):
        assert intersect(one, other) == other


@given(authorities())
def test_no_principal_grants_more_than_it_owns(authority) -> None:
    owned = owned_part(authority, OWNER)
    assert owned is None or owned.resources.owner == OWNER


# ---------------------------------------------------------------- searching


def the_model_says(pool: list[SignedCertificate], action: Action) -> list:
    """Return what reaches DAVE from OWNER by brute force, cut to what OWNER owns."""
    in_force = [one.certificate for one in pool if one.certificate.validity.contains(NOON)]
    unique = list(dict.fromkeys(in_force))
    found = []
    for one in grants(unique, OWNER, DAVE):
        owned = None if one.authority is None else owned_part(one.authority, OWNER)
        if owned is not None and covers_request(owned, action, TYPE):
            found.append((owned, one.validity, one.may_delegate))
    return found


def the_search_says(
    pool: list[SignedCertificate], action: Action, *, explains: bool = True
) -> tuple[VerifiedChain, ...]:
    asked = {"root": OWNER, "subject": DAVE, "action": action, "resource": TYPE, "at": NOON}
    try:
        return find_chains(pool, **asked, explains=explains)
    except BrokenChain:
        return ()


THROUGH_A_GROUP = [
    grant(OWNER, named(ALICE, "team")),
    call(ALICE, "team", named(BOB, "team")),
    call(BOB, "team", DAVE),
    call(BOB, "team", CAROL),
]
TWO_OF_THREE = [
    grant(OWNER, k_of(2, ALICE, BOB, CAROL)),
    grant(ALICE, DAVE),
    grant(BOB, CAROL),
    grant(CAROL, DAVE),
]
ONE_PERSON_BEHIND_TWO_NAMES = [
    grant(OWNER, k_of(2, named(ALICE, "team"), named(ALICE, "boss"))),
    call(ALICE, "team", BOB),
    call(ALICE, "boss", BOB),
    grant(BOB, DAVE),
]
TWO_PEOPLE_BEHIND_TWO_NAMES = [
    *ONE_PERSON_BEHIND_TWO_NAMES,
    call(ALICE, "boss", CAROL),
    grant(CAROL, DAVE),
]


@given(pools(), st.sampled_from((Action.SUBSCRIBE, Action.PUBLISH)))
@example(THROUGH_A_GROUP, Action.SUBSCRIBE)
@example(TWO_OF_THREE, Action.SUBSCRIBE)
@example(ONE_PERSON_BEHIND_TWO_NAMES, Action.SUBSCRIBE)
@example(TWO_PEOPLE_BEHIND_TWO_NAMES, Action.SUBSCRIBE)
@example([grant(OWNER, k_of(1, named(ALICE, "team")), final=True), call(ALICE, "team", DAVE)], Action.PUBLISH)
def test_the_search_finds_a_chain_exactly_where_brute_force_does(
    pool: list[SignedCertificate], action: Action
) -> None:
    chains = the_search_says(pool, action)
    assert bool(chains) == bool(the_model_says(pool, action))
    assert the_search_says(pool, action, explains=False) == chains, "whether or not a miss is explained"


@given(pools(), st.sampled_from((Action.SUBSCRIBE, Action.PUBLISH)))
@example(TWO_OF_THREE, Action.SUBSCRIBE)
def test_no_grant_is_lost_among_the_chains_found(pool: list[SignedCertificate], action: Action) -> None:
    """Names are followed by their longest-lived shortest way, so validity is compared without names."""
    found = the_search_says(pool, action)
    for authority, _validity, may_delegate in the_model_says(pool, action):
        assert any(
            includes(wide=chain.authority, narrow=authority) and chain.may_delegate >= may_delegate
            for chain in found
        )


@given(pools(), st.sampled_from((Action.SUBSCRIBE, Action.PUBLISH)))
@example(TWO_OF_THREE, Action.SUBSCRIBE)
def test_every_chain_found_is_granted_by_brute_force_too(
    pool: list[SignedCertificate], action: Action
) -> None:
    wanted = the_model_says(pool, action)
    for chain in the_search_says(pool, action):
        assert any(
            includes(wide=authority, narrow=chain.authority)
            and validity.intersection(chain.validity) == chain.validity
            and may_delegate >= chain.may_delegate
            for authority, validity, may_delegate in wanted
        )


@given(pools(), st.randoms(use_true_random=False))
def test_the_order_of_a_pool_does_not_matter(pool: list[SignedCertificate], random) -> None:
    shuffled = [*pool, *pool[:2]]
    random.shuffle(shuffled)
    assert the_search_says(shuffled, Action.SUBSCRIBE) == the_search_says(pool, Action.SUBSCRIBE)


@given(pools(), pools(), st.sampled_from((Action.SUBSCRIBE, Action.PUBLISH)))
@example(TWO_OF_THREE, THROUGH_A_GROUP, Action.SUBSCRIBE)
def test_forged_certificates_change_nothing(
    pool: list[SignedCertificate], others: list[SignedCertificate], action: Action
) -> None:
    """Neither what is found nor its order, whatever the forgeries say and wherever they stand (A87)."""
    forged = [replace(one, signature=bytes(64)) for one in others]
    assert the_search_says([*forged, *pool], action) == the_search_says(pool, action)


@given(pools(), pools())
@example(TWO_OF_THREE, [])
@example(THROUGH_A_GROUP, [])
@example([grant(OWNER, named(ALICE, "team"), final=True), call(ALICE, "team", DAVE)], [])
def test_what_the_owners_signatures_lead_to_is_all_that_a_search_needs(
    pool: list[SignedCertificate], others: list[SignedCertificate]
) -> None:
    """The chains in what is read of a stranger's certificates are those in all of them (A87)."""
    forged = [replace(one, signature=bytes(64)) for one in others][:FORGED_MAX]
    shown = [certificate_to_bytes(one) for one in (*pool, *forged)]
    read = read_from_owner(shown, root=OWNER, cache=VerificationCache(), budget=Budget.of(100_000))
    assert set(read.values()) <= set(pool)
    assert the_search_says(list(read.values()), Action.SUBSCRIBE) == the_search_says(pool, Action.SUBSCRIBE)


@given(pools())
@example(TWO_OF_THREE)
@example(TWO_PEOPLE_BEHIND_TWO_NAMES)
def test_a_chain_found_is_a_chain_that_verifies_again(pool: list[SignedCertificate]) -> None:
    for chain in the_search_says(pool, Action.SUBSCRIBE):
        again = verify_chain(chain.certificates, root=OWNER, subject=DAVE, at=NOON)
        assert again == chain


@given(st.permutations([grant(PEOPLE[place], PEOPLE[place + 1]) for place in range(4)]))
def test_a_plain_chain_verifies_in_its_own_order_only(certificates: list[SignedCertificate]) -> None:
    in_order = [one.certificate.issuer for one in certificates] == list(PEOPLE[:4])
    try:
        verify_chain(certificates, root=OWNER, subject=DAVE, at=NOON)
    except BrokenCredential:
        assert not in_order
    else:
        assert in_order


@given(pools(size_max=5), st.data())
def test_leaving_a_certificate_out_never_grants_more(
    pool: list[SignedCertificate], data: st.DataObject
) -> None:
    fewer = list(pool)
    fewer.pop(data.draw(st.integers(0, len(pool) - 1)))
    whole = the_search_says(pool, Action.SUBSCRIBE)
    for chain in the_search_says(fewer, Action.SUBSCRIBE):
        assert any(includes(wide=one.authority, narrow=chain.authority) for one in whole)


@given(pools())
def test_an_expired_pool_grants_nothing(pool: list[SignedCertificate]) -> None:
    expired = [
        grant(one.certificate.issuer, one.certificate.subject, validity=YESTERDAY)
        for one in pool
        if isinstance(one.certificate, AuthorisationCertificate)
    ]
    with pytest.raises(BrokenChain):
        find_chain(expired, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON)
    assert UNBOUNDED.contains(NOON)


# ---------------------------------------------------------------- what a search need not try

_PAIRS = (
    (OWNER, ALICE),
    (OWNER, BOB),
    (ALICE, BOB),
    (ALICE, CAROL),
    (BOB, CAROL),
    (CAROL, DAVE),
    (BOB, DAVE),
)
_LATER = Instant(NOON + 3_600_000_000)


@st.composite
def crowded_pools(draw: st.DrawFn) -> list[SignedCertificate]:
    """Draw many grants between few, some wider than others, so that most make others needless."""
    speeds = [Comparison(AttributeUid("a"), Operator.GE, speed) for speed in (1, 2)]
    pool = [call(CAROL, "team", DAVE), call(BOB, "team", named(CAROL, "team"))]
    for issuer, subject in draw(st.lists(st.sampled_from(_PAIRS), min_size=10, max_size=24)):
        to_group = subject == DAVE and draw(st.integers(0, 5)) == 0
        authority = Authority(
            draw(
                st.sampled_from((types_of(OWNER), types_of(OWNER), types_of(None), types_of(OWNER, "uk.*")))
            ),
            frozenset({Action.SUBSCRIBE}),
            draw(st.sampled_from((ALL_ATTRIBUTES, ALL_ATTRIBUTES, uids("a", "b"), uids("a"), uids("b")))),
            draw(st.sampled_from((ALWAYS, ALWAYS, *speeds, AllOf(tuple(speeds))))),
            transformations=(Transformation(issuer, ()),) if draw(st.integers(0, 9)) == 0 else (),
        )
        pool.append(
            grant(
                issuer,
                named(issuer, "team") if to_group else subject,
                authority,
                final=draw(st.integers(0, 7)) == 0,
                validity=draw(st.sampled_from((UNBOUNDED, UNBOUNDED, Validity(None, _LATER)))),
            )
        )
    return pool


@given(crowded_pools(), st.sampled_from((3, 4, 64)), st.sampled_from((2, 256)))
def test_a_search_that_tries_every_certificate_again_finds_the_same_certificates(
    pool: list[SignedCertificate], longest: int, flows: int
) -> None:
    """What another certificate makes needless is not tried again, which changes nothing of what is found."""
    limits = FlowLimits(certificates_max=longest, flows_per_subject_max=flows)

    def found() -> list[tuple[bytes, ...]]:
        try:
            chains = find_chains(
                pool, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON, limits=limits
            )
        except BrokenChain:
            return []
        return [tuple(signed.id for signed in chain.certificates) for chain in chains]

    with (
        patch.object(FlowSearch, "_edges_into", lambda self, here: self._into.get(here, [])),
        patch.object(FlowSearch, "_adds_nothing", lambda *_: False),
    ):
        by_trying_all = found()
    assert found() == by_trying_all


class Revoking:
    """A tester that has revoked some certificates."""

    def __init__(self, ids: frozenset[bytes]) -> None:
        self.ids = ids

    def check(self, signed: SignedCertificate, at: Instant, *, once: object = ()) -> BrokenChain | None:
        del at, once
        return CertificateRevoked("it was revoked", certificate=signed.id) if signed.id in self.ids else None


DEFINED = defined(KEYS[OWNER], TYPE.name, NUMBERPLATE_ATTRIBUTES)
OVER = Validity(None, Instant(NOON - 1_000_000))
DIRECT = [grant(OWNER, DAVE), grant(OWNER, DAVE, final=True), grant(ALICE, BOB)]


@given(pools(size_max=4), st.integers(0, 255), st.booleans())
@example(DIRECT, 255, True)
@example(DIRECT, 0b1011, True)
@example([grant(OWNER, DAVE), grant(OWNER, ALICE), grant(ALICE, DAVE)], 255, True)
@example([grant(OWNER, DAVE, validity=OVER), grant(OWNER, DAVE)], 255, True)
def test_of_revoked_certificates_the_same_are_blamed_without_a_search(
    pool: list[SignedCertificate], chosen: int, is_verified: bool
) -> None:
    ids = sorted(signed.id for signed in pool)
    revoked = Revoking(frozenset(one for at, one in enumerate(ids) if chosen >> at & 1))
    request = Request(DAVE, Action.SUBSCRIBE, DEFINED.name, DEFINED)
    cache = VerificationCache()
    for signed in pool if is_verified else ():
        cache.check(signed)

    def gathered() -> tuple[object, ...]:
        found = gather_evidence(request, pool, at=NOON, cache=cache, standing=revoked)
        blamed = [(problem.code, problem.certificate) for problem in found.broken]
        return blamed, [signed.id for signed in found.missed], len(found.chains)

    shortly = gathered()
    with patch.object(_Search, "_granted_directly", lambda *_: None):
        assert gathered() == shortly
