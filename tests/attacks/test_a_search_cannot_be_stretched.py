"""Whatever an attacker puts into a pool, a search ends within its steps, with the same verdict each time."""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import pytest

from maia.credentials import (
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    BrokenChain,
    Budget,
    FlowLimits,
    NoChain,
    Principal,
    SearchTooLarge,
    SignedCertificate,
    VerificationCache,
    find_chain,
    find_chains,
    verify_chain,
)
from maia.events import AttributeUid
from maia.predicates import AllOf, Comparison, Operator, Predicate
from maia.testing.refusals import raises
from support.chains import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    NOON,
    OWNER,
    TYPE,
    about,
    call,
    grant,
    k_of,
    key,
    known,
    named,
    uids,
)
from support.costs import counted


@pytest.fixture(scope="module")
def crowd():
    """Return many principals that can sign."""
    return tuple(known(key(number)) for number in range(1_000, 1_200))


def found(pool, **options):
    return find_chain(
        pool, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON, **options
    )


def test_a24_a_delegation_cycle_ends_the_search() -> None:
    """A24: cycle, with and without a way out."""
    cycle = [grant(OWNER, ALICE), grant(ALICE, BOB), grant(BOB, CAROL), grant(CAROL, ALICE)]
    with pytest.raises(NoChain):
        found(cycle)
    assert len(found([*cycle, grant(CAROL, DAVE)]).certificates) == 4


def test_a24_a_cycle_through_the_owner_and_the_principal_ends_too() -> None:
    """A24: cycle back to both ends."""
    pool = [
        grant(OWNER, ALICE),
        grant(ALICE, DAVE),
        grant(DAVE, ALICE),
        grant(ALICE, OWNER),
        grant(DAVE, OWNER),
    ]
    assert len(found(pool).certificates) == 2


def test_a24_a_chain_of_ten_thousand_is_refused_and_not_followed() -> None:
    """A24: depth 10^4, beyond Python's recursion limit, in a pool and in a chain.

    No peer signed these: the search must cope before it checks a signature, and
    explains the miss with a search that checks none.
    """
    people = [OWNER, *(Principal(sha256(b"%d" % number).digest()) for number in range(10_000)), DAVE]
    assert len(people) > sys.getrecursionlimit()
    deep = [unsigned(one, other) for one, other in pairwise(people)]
    with pytest.raises(NoChain, match="at most 64 certificates, and 10001 were shown"):
        found(deep)
    with raises("CREDENTIAL-CHAIN-LENGTH"):
        verify_chain(deep, root=OWNER, subject=DAVE, at=NOON)


def unsigned(issuer: Principal, subject: Principal) -> SignedCertificate:
    certificate = AuthorisationCertificate(issuer, subject, True, about(), UNBOUNDED)
    body = issuer.key + subject.key
    return SignedCertificate(certificate, body, bytes(64), sha256(body).digest())


def test_a24_the_longest_allowed_chain_is_found_and_one_more_is_not(crowd) -> None:
    """A24: the edge of the limit."""
    people = [OWNER, *crowd[:63], DAVE]
    chain = [grant(one, other) for one, other in pairwise(people)]
    assert len(found(reversed(chain)).certificates) == 64
    longer = [*chain[:-1], grant(crowd[62], crowd[63]), grant(crowd[63], DAVE)]
    with pytest.raises(NoChain):
        found(longer)


def diamond(crowd, layers: int, *, distinct: bool):
    """Return certificates with two ways through each of `layers` layers."""
    pool = []
    here = OWNER
    for layer in range(layers):
        last = layer == layers - 1
        there = DAVE if last else crowd[3 * layer]
        for side in (1, 2):
            middle = crowd[3 * layer + side]
            mine = about(attributes=uids("common", f"{layer}-{side}")) if distinct else about()
            pool += [grant(here, middle, mine), grant(middle, there)]
        here = there
    return pool


def replace_terms(signed: SignedCertificate, terms: Predicate) -> SignedCertificate:
    """Sign the same grant anew, under a restriction."""
    certificate = signed.certificate
    assert isinstance(certificate, AuthorisationCertificate)
    return grant(certificate.issuer, certificate.subject, replace(certificate.authority, restriction=terms))


def test_a24_a_diamond_of_a_million_paths_costs_as_much_as_its_edges(crowd) -> None:
    """A24: 2^20 paths; memory stays small and few steps are enough."""
    pool = diamond(crowd, 20, distinct=False)
    cache = VerificationCache()
    tracemalloc.start()
    chain = found(pool, cache=cache, limits=FlowLimits(steps_max=2_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(chain.certificates) == 40
    assert len(cache) <= len(pool)
    assert peak < 4_000_000


def test_a24_a_diamond_in_which_every_path_differs_is_bounded_too(crowd) -> None:
    """A24: 2^20 different authorities; a subject keeps a few of them, and one chain is found."""
    pool = diamond(crowd, 20, distinct=True)
    assert uids("common") <= found(pool).authority.attributes
    chains = find_chains(pool, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON)
    assert 1 <= len(chains) <= FlowLimits().chains_max


def test_a24_a_cross_product_of_groups_is_stopped_by_steps(crowd) -> None:
    """A24: `team` x `team` x `team`: a thousand times a thousand meanings are never listed."""
    people = crowd[:40]
    pool = [grant(OWNER, named(ALICE, *["team"] * 8))]
    pool += [call(ALICE, "team", person) for person in people]
    pool += [call(one, "team", other) for one in people for other in people[:20]]
    with pytest.raises((SearchTooLarge, NoChain)):
        found(pool, limits=FlowLimits(steps_max=5_000))


def test_a24_every_subset_of_a_large_threshold_is_not_tried(crowd) -> None:
    """A24: 32 of 64 has 10^18 subsets; the first that agrees is enough."""
    members = crowd[:64]
    pool = [grant(OWNER, k_of(32, *members)), *(grant(member, DAVE) for member in members)]
    chain = found(pool, limits=FlowLimits(certificates_max=64))
    assert len(chain.certificates) == 33


def test_a24_a_threshold_of_names_that_all_mean_the_same_few_is_bounded(crowd) -> None:
    """A24: pigeons without holes, which a search could try for ever."""
    few = crowd[:10]
    names = [named(ALICE, f"role{number}") for number in range(20)]
    pool = [grant(OWNER, k_of(11, *names)), *(grant(person, DAVE) for person in few)]
    pool += [call(ALICE, name.names[0], person) for name in names for person in few]
    with pytest.raises(BrokenChain):
        found(pool)


def test_a24_a_large_pool_is_refused_by_number(crowd) -> None:
    """A24: the pool itself has a limit."""
    pool = [grant(OWNER, person) for person in crowd[:11]]
    with pytest.raises(SearchTooLarge):
        found(pool, limits=FlowLimits(pool_max=10))


def test_a24_forged_certificates_cost_a_bounded_number_of_checks(crowd) -> None:
    """A24: signature checks are counted; a flood of forgeries stops the search, it does not stretch it."""
    forged = [replace(grant(OWNER, person), signature=bytes(64)) for person in crowd[:30]]
    forged += [grant(person, DAVE) for person in crowd[:30]]
    with pytest.raises(SearchTooLarge, match="signature checks"):
        found(forged, limits=FlowLimits(signatures_max=20))


def test_a87_signatures_are_checked_from_the_owner_on(crowd) -> None:
    """A24, A87: a diamond of genuine certificates behind a forged one costs the check of the forged one."""
    forged = replace(grant(OWNER, crowd[0]), signature=bytes(64))
    pool = [forged, *diamond(crowd, 20, distinct=True)[4:]]
    with counted() as costs, pytest.raises(NoChain):
        found(pool, budget=Budget.of(100_000))
    assert costs.checks == 1


def test_a87_what_may_not_be_passed_on_leads_no_further(crowd) -> None:
    """A24, A87: nothing is checked of what a peer issued who had nothing to pass on."""
    behind = [grant(crowd[0], crowd[1]), grant(crowd[1], crowd[2]), grant(crowd[2], DAVE)]
    with counted() as costs, pytest.raises(NoChain):
        found([grant(OWNER, crowd[0], final=True), *behind], budget=Budget.of(100_000))
    assert costs.checks == 1


def test_a87_a_step_is_priced_by_the_size_of_its_terms(crowd) -> None:
    """A24, A87: the same diamond costs more where its certificates are longer."""

    def cost(parts: int) -> int:
        terms = AllOf(tuple(Comparison(AttributeUid(f"a{part}"), Operator.EQ, "x") for part in range(parts)))
        pool = [replace_terms(one, terms) for one in diamond(crowd, 4, distinct=True)]
        budget = Budget.of(1_000_000)
        found(pool, budget=budget)
        return budget.used

    assert cost(200) > 4 * cost(2)


def test_a80_limits_count_steps_so_the_verdict_is_the_same_every_time(crowd) -> None:
    """A80: for every budget of steps, the same pool gives the same verdict, busy machine or not."""
    pool = diamond(crowd, 4, distinct=True)

    def verdict(steps: int) -> object:
        try:
            return found(pool, limits=FlowLimits(steps_max=steps)).certificates
        except BrokenChain as problem:
            return (problem.code, problem.message)

    budgets = range(0, 400, 7)
    first = [verdict(steps) for steps in budgets]
    assert first == [verdict(steps) for steps in budgets]
    assert len(set(first)) == 2, "some budgets are too small, the others all find the same chain"
