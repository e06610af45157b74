"""How a certificate demands to be tested, and how demands add up along a chain."""

from __future__ import annotations

import pytest

from maia.credentials import (
    UNBOUNDED,
    BadValidity,
    OnlineTest,
    TestKind,
    Validity,
    reduce_chain,
    verify_chain,
)
from maia.credentials.encoding.parts import (
    LOCATIONS_MAX,
    TESTS_MAX,
    VALIDITY,
)
from maia.events import Instant
from support.certificates import KEYS
from support.chains import ALICE, BOB, NOON, OWNER, grant

BY, OTHER = KEYS[0].principal, KEYS[1].principal
TIMED = OnlineTest(TestKind.TIMED_CRL, BY)
PLAIN = OnlineTest(TestKind.CRL, OTHER)


def online(*fields):
    """Return a validity with these fields after its bounds."""
    return (b"valid", (b"not-before", b"unbounded"), (b"not-after", b"unbounded"), *fields)


BY_FIELD = (b"by", (b"ed25519", BY.key))


def test_tests_stand_in_one_order_each_once():
    assert UNBOUNDED.with_tests(TIMED, PLAIN, TIMED) == UNBOUNDED.with_tests(PLAIN, TIMED)
    with pytest.raises(BadValidity, match="in order"):
        VALIDITY.write(Validity(None, None, (TIMED, PLAIN)))
    twice = (b"online", b"crl", BY_FIELD)
    with pytest.raises(BadValidity, match="each once"):
        VALIDITY.read(online(twice, twice))


@pytest.mark.parametrize(
    "field",
    [
        (b"online", b"tomorrow", BY_FIELD),
        (b"online", b"timed-crl"),
        (b"online", b"timed-crl", BY_FIELD, BY_FIELD),
        (b"online", BY_FIELD),
        (b"offline", b"timed-crl", BY_FIELD),
        (b"online", b"TIMED-CRL", BY_FIELD),
        (b"online", b"timed-crl", BY_FIELD, (b"at",)),
        (b"online", b"timed-crl", BY_FIELD, (b"at", b"")),
        (b"online", b"timed-crl", BY_FIELD, (b"at", b"two words")),
        (b"online", b"timed-crl", BY_FIELD, (b"at", b"caf\xc3\xa9")),
        (b"online", b"timed-crl", BY_FIELD, (b"at", b"a" * 257)),
        (b"online", b"timed-crl", BY_FIELD, (b"at", b"a"), (b"at", b"a")),
        (b"online", b"timed-crl", BY_FIELD, *((b"at", b"%d" % n) for n in range(LOCATIONS_MAX + 1))),
        b"online",
    ],
)
def test_a_test_that_is_not_fully_understood_is_refused(field):
    with pytest.raises(BadValidity):
        VALIDITY.read(online(field))


def test_a_certificate_demands_a_bounded_number_of_tests():
    tests = [OnlineTest(TestKind.CRL, BY, (f"at:{n}",)) for n in range(TESTS_MAX + 1)]
    assert VALIDITY.write(UNBOUNDED.with_tests(*tests[:-1]))
    with pytest.raises(BadValidity, match="at most"):
        VALIDITY.write(UNBOUNDED.with_tests(*tests))


def test_a_location_that_cannot_be_written_is_refused():
    with pytest.raises(BadValidity, match="ASCII"):
        VALIDITY.write(UNBOUNDED.with_tests(OnlineTest(TestKind.CRL, BY, ("café",))))


def test_two_validities_together_demand_the_tests_of_both():
    one = Validity(Instant(0), None).with_tests(TIMED)
    other = Validity(None, Instant(10_000_000)).with_tests(PLAIN)
    both = Validity(Instant(0), Instant(10_000_000)).with_tests(PLAIN, TIMED)
    assert one.intersection(other) == other.intersection(one) == both
    assert one.intersection(one) == one
    assert one.intersection(UNBOUNDED) == one


def test_a_chain_demands_the_tests_of_all_its_certificates():
    first = grant(OWNER, ALICE, validity=UNBOUNDED.with_tests(TIMED))
    second = grant(ALICE, BOB, validity=UNBOUNDED.with_tests(PLAIN))
    chain = verify_chain((first, second), root=OWNER, subject=BOB, at=NOON)
    assert chain.validity.tests == (PLAIN, TIMED)
    links = [first.certificate, second.certificate]
    assert reduce_chain(links).validity.tests == (PLAIN, TIMED)
