"""What a broker remembers of certificates, and what it never does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import (
    BadSignature,
    Budget,
    CertificateExpired,
    VerificationCache,
    certificate_from_bytes,
    certificate_to_bytes,
    reduce_chain,
    verify_chain,
)
from maia.credentials.chains import chain as chain_module
from maia.credentials.chains.chain import ChainLinks
from maia.events import Instant
from maia.testing.refusals import raises
from support.chains import ALICE, BOB, CAROL, DAVE, NOON, OWNER, TODAY, about, grant, types_of

CHAIN = (grant(OWNER, ALICE, validity=TODAY), grant(ALICE, DAVE))


def test_a_checked_signature_is_remembered_and_a_bad_one_is_not() -> None:
    cache = VerificationCache()
    verify_chain(CHAIN, root=OWNER, subject=DAVE, at=NOON, cache=cache)
    assert all(cache.knows(signed) for signed in CHAIN)
    bad = replace(CHAIN[0], signature=bytes(64))
    with pytest.raises(BadSignature):
        cache.check(bad)
    assert not cache.knows(bad)
    assert len(cache) == 2


def test_a_forgery_that_is_shown_again_costs_no_check_and_a_bounded_number_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A87, A89: the oldest is forgotten, and checked again; the genuine one is never taken for a forgery."""
    monkeypatch.setattr(chain_module, "_FORGED_MAX", 2)
    cache, budget = VerificationCache(), Budget(10_000, 100)
    genuine = certificate_to_bytes(CHAIN[0])
    forged = [genuine[:-66] + bytes([number]) * 64 + b"))" for number in range(3)]

    def checks_for(data: bytes) -> int:
        before = budget.checks
        with pytest.raises(BadSignature):
            cache.read_checked(data, budget)
        return before - budget.checks

    assert [checks_for(data) for data in (*forged, *forged[1:])] == [1, 1, 1, 0, 0]
    assert checks_for(forged[0]) == 1
    assert cache.read_checked(genuine, budget) == CHAIN[0]


def test_the_same_certificate_read_again_is_known() -> None:
    cache = VerificationCache()
    cache.check(CHAIN[0])
    assert cache.knows(certificate_from_bytes(certificate_to_bytes(CHAIN[0])))


def test_a_remembered_chain_still_expires() -> None:
    cache = VerificationCache()
    first = verify_chain(CHAIN, root=OWNER, subject=DAVE, at=NOON, cache=cache)
    assert verify_chain(CHAIN, root=OWNER, subject=DAVE, at=NOON, cache=cache) is first
    with pytest.raises(CertificateExpired):
        verify_chain(CHAIN, root=OWNER, subject=DAVE, at=Instant(TODAY.not_after + 1), cache=cache)


def test_a_remembered_chain_serves_its_own_root_and_subject_only() -> None:
    cache = VerificationCache()
    verify_chain(CHAIN, root=OWNER, subject=DAVE, at=NOON, cache=cache)
    with raises("CREDENTIAL-WRONG-SUBJECT"):
        verify_chain(CHAIN, root=OWNER, subject=BOB, at=NOON, cache=cache)
    with raises("CREDENTIAL-WRONG-ROOT"):
        verify_chain(CHAIN, root=CAROL, subject=DAVE, at=NOON, cache=cache)


def test_memory_is_bounded_and_the_least_recently_used_goes_first() -> None:
    cache = VerificationCache(certificates_max=2, reductions_max=2)
    one, two, three = (grant(OWNER, who) for who in (ALICE, BOB, CAROL))
    cache.check(one)
    cache.check(two)
    cache.check(one)
    cache.check(three)
    assert [cache.knows(signed) for signed in (one, two, three)] == [True, False, True]


def test_signatures_are_remembered_within_a_number_of_bytes() -> None:
    """A89: at the edge, and one byte beyond it."""
    size = sum(len(signed.body) for signed in CHAIN)
    for bytes_max, left in ((size, 2), (size - 1, 1)):
        cache = VerificationCache(bytes_max=bytes_max)
        for signed in CHAIN:
            cache.check(signed)
            cache.check(signed)
        assert len(cache) == left
        assert cache.knows(CHAIN[-1])


def test_chains_and_readings_are_remembered_within_a_number_of_bytes() -> None:
    """A89: beyond it they make room, and what is asked for next is worked out again."""
    chains = [CHAIN, tuple(reversed(CHAIN))]
    size = sum(len(signed.body) for signed in CHAIN)
    for bytes_max, is_left in ((2 * size, True), (2 * size - 1, False)):
        cache = VerificationCache(bytes_max=bytes_max)
        for chain in chains:
            cache.remember_chain(chain, "found")
        assert (cache.chain_of(chains[0]) == "found") is is_left
        assert cache.chain_of(chains[1]) == "found"
    data = [certificate_to_bytes(signed) for signed in CHAIN]
    for bytes_max, is_left in ((sum(map(len, data)), True), (sum(map(len, data)) - 1, False)):
        cache = VerificationCache(bytes_max=bytes_max)
        first, _ = cache.read(data[0]), cache.read(data[1])
        assert (cache.read(data[0]) is first) is is_left


def test_a_reduction_is_worked_out_once_for_the_same_links() -> None:
    cache = VerificationCache(reductions_max=2)
    certificates = tuple(signed.certificate for signed in CHAIN)
    links = ChainLinks(certificates)
    assert cache.reduce(links) is cache.reduce(links)
    assert cache.reduce(links) == reduce_chain(certificates)
    for other in range(5):
        cache.reduce(ChainLinks((replace(certificates[0], comment=str(other)), certificates[1])))
    assert cache.reduce(links) == reduce_chain(certificates)


def test_a_cache_from_disk_is_checked_again_and_not_believed() -> None:
    cache = VerificationCache()
    for signed in CHAIN:
        cache.check(signed)
    written = [certificate_to_bytes(signed) for signed in cache.exported()]
    read = [certificate_from_bytes(data) for data in written]
    wide = grant(OWNER, ALICE, about(types_of(None)))
    tampered = replace(wide, signature=CHAIN[0].signature)
    again = VerificationCache.reloaded([*read, tampered, replace(read[0], id=bytes(32))])
    assert len(again) == 2
    assert all(again.knows(signed) for signed in CHAIN)
    assert not again.knows(tampered)
