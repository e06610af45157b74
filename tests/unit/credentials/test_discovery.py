"""How a search explains that it found nothing, and what it prefers when it finds much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import (
    Action,
    BrokenChain,
    FlowLimits,
    LeftOut,
    NoChain,
    find_chain,
    find_chains,
)
from maia.testing.refusals import raises
from support.chains import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    NOON,
    OWNER,
    PUBLISH,
    TODAY,
    TYPE,
    YESTERDAY,
    about,
    call,
    grant,
    named,
    uids,
)


def found(*pool, **options):
    return find_chain(
        pool, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON, **options
    )


OLD, KEPT = grant(ALICE, DAVE, validity=YESTERDAY), grant(OWNER, ALICE, final=True)
OTHER_RIGHT = grant(ALICE, DAVE, about(actions=PUBLISH))
FORGED = replace(grant(ALICE, DAVE), signature=bytes(64))


@pytest.mark.parametrize(
    ("pool", "sentence", "certificate", "field"),
    [
        ((grant(OWNER, ALICE), OLD), "expired at 2026-11-14", OLD, "validity"),
        ((KEPT, grant(ALICE, DAVE)), "pass the authority on", KEPT, "delegation"),
        ((grant(OWNER, ALICE), OTHER_RIGHT), "does not grant this action", OTHER_RIGHT, "authority"),
        ((grant(OWNER, ALICE), FORGED), "signature", None, "signature"),
        ((grant(OWNER, ALICE), grant(BOB, DAVE)), "no path of certificates", None, None),
        ((), "no path of certificates", None, None),
    ],
)
def test_a_failed_search_tells_the_nearest_miss(pool, sentence, certificate, field) -> None:
    with pytest.raises(NoChain, match=sentence) as missed:
        found(*pool)
    assert missed.value.certificate == (certificate and certificate.id)
    assert missed.value.field == field


def test_certificates_with_nothing_in_common_are_a_miss_of_their_own() -> None:
    apart = grant(ALICE, DAVE, about(attributes=uids("b")))
    with pytest.raises(NoChain, match="grants nothing that the chain before it grants"):
        found(grant(OWNER, ALICE, about(attributes=uids("a"))), apart)


def test_a_renewed_certificate_makes_the_old_one_needless() -> None:
    old, new = grant(OWNER, DAVE, validity=TODAY), grant(OWNER, DAVE)
    chains = find_chains(
        [old, new], root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON
    )
    assert [chain.certificates for chain in chains] == [(new,)]


def test_a_resource_of_another_principal_is_refused_before_any_search() -> None:
    with raises("CREDENTIAL-WRONG-ROOT"):
        find_chain((), root=ALICE, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON)


def test_every_failure_is_one_of_ours() -> None:
    with pytest.raises(BrokenChain) as missed:
        found()
    assert missed.value.code == "CREDENTIAL-NO-CHAIN"


# ---------------------------------------------------------------- what is kept, and what is left out


def many(*pool, **options):
    return find_chains(
        pool, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON, **options
    )


def test_beside_a_doubtful_certificate_others_are_found_that_grant_less() -> None:
    wide, narrow = grant(OWNER, DAVE), grant(OWNER, DAVE, about(attributes=uids("a")))
    assert [chain.certificates for chain in many(wide, narrow)] == [(wide,)]
    found_beside = many(wide, narrow, doubtful=frozenset({wide.id}))
    assert {chain.certificates for chain in found_beside} == {(wide,), (narrow,)}
    # What is free of doubt still makes needless what is not.
    assert [chain.certificates for chain in many(wide, narrow, doubtful=frozenset({narrow.id}))] == [(wide,)]


def test_a_wide_grant_that_comes_late_makes_room_for_itself_and_nothing_was_lost() -> None:
    """Narrow grants fill the limit before the wide one, over a longer way, is at the owner."""
    narrow = [grant(OWNER, DAVE, about(attributes=uids(f"a{number}"))) for number in range(20)]
    left_out = LeftOut()
    limits = FlowLimits(flows_per_subject_max=8, chains_max=8)
    chains = many(*narrow, grant(OWNER, ALICE), grant(ALICE, DAVE), limits=limits, left_out=left_out)
    assert [len(chain.certificates) for chain in chains] == [2]
    assert left_out.count == 0


@pytest.mark.parametrize("steps", [700, 1000])
def test_a_search_that_runs_out_of_steps_says_that_there_may_be_more(steps) -> None:
    pool = [grant(OWNER, DAVE, about(attributes=uids(f"a{number}"))) for number in range(60)]
    left_out = LeftOut()
    chains = many(*pool, limits=FlowLimits(steps_max=steps), left_out=left_out)
    assert 1 <= len(chains) < 60
    assert left_out.count >= 1


def test_in_doubt_a_search_that_would_take_too_long_finds_what_it_finds_without() -> None:
    """Every certificate doubtful, and a group whose names link to one another in very many ways."""
    people = [ALICE, BOB, CAROL]
    pool = [grant(OWNER, named(ALICE, *["team"] * 8))]
    pool += [call(one, "team", other) for one in people for other in people]
    pool += [call(one, "team", DAVE) for one in people]
    every = frozenset(signed.id for signed in pool)
    left_out = LeftOut()
    chains = many(*pool, limits=FlowLimits(steps_max=3_000), doubtful=every, left_out=left_out)
    assert chains[0].subject == DAVE
    assert left_out.count >= 1
