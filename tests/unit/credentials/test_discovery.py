"""How a search explains that it found nothing, and what it prefers when it finds much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import (
    UNBOUNDED,
    Action,
    BrokenChain,
    NoChain,
    VerificationCache,
    WrongRoot,
    find_chain,
    find_chains,
)
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


def test_the_shorter_chain_is_found_first() -> None:
    direct = grant(OWNER, DAVE)
    assert found(grant(OWNER, ALICE), grant(ALICE, DAVE), direct).certificates == (direct,)


def test_a_renewed_certificate_makes_the_old_one_needless() -> None:
    old, new = grant(OWNER, DAVE, validity=TODAY), grant(OWNER, DAVE)
    chains = find_chains(
        [old, new], root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON
    )
    assert [chain.certificates for chain in chains] == [(new,)]


def test_a_renewed_name_outlives_the_old_one() -> None:
    group = grant(OWNER, named(ALICE, "team"))
    chain = found(group, call(ALICE, "team", DAVE, validity=TODAY), call(ALICE, "team", DAVE))
    assert chain.validity == UNBOUNDED


def test_members_of_a_group_who_cannot_help_cost_no_signature_check() -> None:
    cache = VerificationCache()
    team = [call(ALICE, "team", who) for who in (BOB, CAROL, DAVE)]
    found(grant(OWNER, named(ALICE, "team")), *team, cache=cache)
    assert len(cache) == 2


def test_a_resource_of_somebody_else_is_refused_before_any_search() -> None:
    with pytest.raises(WrongRoot):
        find_chain((), root=ALICE, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON)


def test_every_failure_is_one_of_ours() -> None:
    with pytest.raises(BrokenChain) as missed:
        found()
    assert missed.value.code == "CREDENTIAL-NO-CHAIN"
