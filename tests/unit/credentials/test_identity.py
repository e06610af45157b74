"""Identity statements: what they say, which of them are believed, and which become guest statements."""

from __future__ import annotations

from dataclasses import replace
from pickle import dumps

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import SigningKey
from maia.credentials.identity import (
    IDENTIFIER_BYTES_MAX,
    IDENTITY_ATTRIBUTES_MAX,
    BadIdentity,
    Identity,
    SignedIdentity,
    VerifiedIdentity,
    guest_statement,
    identity_from_bytes,
    identity_to_bytes,
    issue_identity,
    pack_identity,
    unpack_identity,
    verify_identity,
)
from maia.credentials.requirements import attributes_of_identity, is_met
from maia.errors import BrokenCredential
from maia.events import AttributeUid, Instant
from maia.predicates import parse_predicate
from maia.testing.refusals import raises

NORWAY, UK, ANNA, EVE = (SigningKey.from_seed(bytes([n]) * 32) for n in range(1, 5))
START = Instant.parse("2026-11-16T08:00:00Z")
END = Instant.parse("2026-11-16T09:00:00Z")


def identity(**changes):
    said = Identity(
        NORWAY.principal,
        "coalition.north",
        ANNA.principal,
        "anna@norway",
        {AttributeUid("nationality"): "no", AttributeUid("clearance"): 2},
        START,
        END,
        NORWAY.principal,
    )
    return replace(said, **changes)


def verified(signed, *, providers=(NORWAY.principal,), now=START, subject=ANNA.principal, **changes):
    facts = {"community": "coalition.north", **changes}
    return verify_identity(signed, subject=subject, providers=providers, now=now, **facts)


def test_the_bytes_of_a_statement_are_fixed():
    signed = issue_identity(identity(), NORWAY)
    assert signed.id.hex() == "884f7ec7951a7545c62ab2b146c5ab863531df07e1ce9aec40c71a05dc508317"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"subject": EVE.principal}, BadIdentity),
        ({"community": "coalition.south"}, "CREDENTIAL-IDENTITY-COMMUNITY"),
        ({"providers": (UK.principal,)}, "CREDENTIAL-IDENTITY-PROVIDER"),
        ({"now": Instant(END + 1)}, "CREDENTIAL-IDENTITY-EXPIRED"),
        ({"now": Instant(START - 1)}, "CREDENTIAL-IDENTITY-EXPIRED"),
    ],
)
def test_a_statement_counts_for_one_key_one_community_and_its_period_alone(wrong, problem):
    """On another link, in another community, from another provider, before and after its period."""
    signed = issue_identity(identity(), NORWAY)
    assert verified(signed, now=END)
    with raises(problem):
        verified(signed, **wrong)


def test_a_verified_statement_cannot_be_made_by_hand():
    signed = issue_identity(identity(), NORWAY)
    with pytest.raises(TypeError):
        VerifiedIdentity(signed, object())
    with pytest.raises(TypeError):
        dumps(verified(signed))


def test_a_guest_gets_the_same_content_from_a_provider_that_trusts_its_own():
    guest = guest_statement(verified(issue_identity(identity(), NORWAY)), UK, not_after=Instant(END + 10**9))
    assert guest.statement == identity(issuer=UK.principal)
    assert guest.statement.is_guest
    assert guest.statement.not_after == END
    assert verified(guest, providers=(UK.principal,)).statement.attributes == identity().attributes


def test_a_guest_statement_repeats_no_check_that_another_provider_made():
    """A96: that a machine has booted well, or that a key is a provider's, is said by whoever checked it."""
    checked = {
        **identity().attributes,
        AttributeUid("tpm-integrity"): 3,
        AttributeUid("identity-provider"): True,
    }
    home = verified(issue_identity(identity(attributes=checked), NORWAY))
    assert guest_statement(home, UK, not_after=END).statement.attributes == identity().attributes


def test_a_guest_statement_is_the_ground_for_no_other():
    """The third domain trusts the second, and the second trusts the first: the third learns nothing."""
    guest = guest_statement(verified(issue_identity(identity(), NORWAY)), UK, not_after=END)
    seen = verified(guest, providers=(UK.principal,))
    with raises("CREDENTIAL-IDENTITY-GUEST"):
        guest_statement(seen, EVE, not_after=END)
    # The home cannot be renamed: it is part of what the issuer signed.
    renamed = SignedIdentity(
        replace(guest.statement, home=UK.principal), guest.body, guest.signature, guest.id
    )
    with pytest.raises(BadIdentity):
        verified(renamed, providers=(UK.principal,))


def test_a_domain_issues_no_guest_statement_for_its_own_subjects():
    with raises("CREDENTIAL-IDENTITY-GUEST", match="is no guest"):
        guest_statement(verified(issue_identity(identity(), NORWAY)), NORWAY, not_after=END)


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ('nationality == "no" or clearance >= 3', True),
        ("clearance >= 3", False),
        ("clearance >= 2", True),
        ('clearance == "2"', False),
        ('not (clearance == "2")', False),
        ("tpm-integrity >= 1", False),
        ("not (tpm-integrity >= 1)", False),
    ],
)
def test_a_missing_attribute_or_one_of_another_kind_satisfies_nothing(requirement, met):
    assert is_met(parse_predicate(requirement), attributes_of_identity(identity())) is met


@pytest.mark.parametrize(
    "changes",
    [
        {"identifier": ""},
        {"identifier": "x" * (IDENTIFIER_BYTES_MAX + 1)},
        {"identifier": "a\nb"},
        {"not_after": Instant(START - 1_000_000)},
        {"attributes": {AttributeUid(f"a{n}"): n for n in range(IDENTITY_ATTRIBUTES_MAX + 1)}},
        {"attributes": {AttributeUid("Not A Name"): 1}},
        {"community": "a..b"},
    ],
)
def test_a_statement_beyond_its_bounds_is_not_issued(changes):
    with pytest.raises(BadIdentity):
        issue_identity(identity(**changes), NORWAY)


@given(st.data())
def test_no_changed_byte_of_a_statement_is_believed(data):
    whole = identity_to_bytes(issue_identity(identity(), NORWAY))
    place = data.draw(st.integers(0, len(whole) - 1))
    bit = data.draw(st.integers(0, 7))
    changed = whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :]
    with raises(
        "CREDENTIAL-IDENTITY",
        "CREDENTIAL-SIGNATURE",
        "CREDENTIAL-IDENTITY-PROVIDER",
        "CREDENTIAL-IDENTITY-COMMUNITY",
        "CREDENTIAL-IDENTITY-EXPIRED",
    ):
        verified(identity_from_bytes(changed))


# ------------------------------------------------------------ the short form


def test_the_short_form_is_read_back_as_the_same_signed_statement():
    home = issue_identity(identity(), NORWAY)
    guest = guest_statement(verified(home), UK, not_after=END)
    bare = issue_identity(identity(attributes={}), NORWAY)
    for signed in (home, guest, bare):
        assert unpack_identity(pack_identity(signed)) == signed
        assert len(pack_identity(signed)) < 0.6 * len(identity_to_bytes(signed))


@given(st.integers(0, 400), st.integers(1, 255))
def test_an_altered_short_form_is_refused_or_is_another_statement(at, change):
    signed = issue_identity(identity(), NORWAY)
    data = bytearray(pack_identity(signed))
    data[at % len(data)] ^= change
    try:
        read = unpack_identity(bytes(data))
    except BadIdentity:
        return
    with pytest.raises(BrokenCredential):
        verified(read, subject=read.statement.subject)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_are_read_as_a_short_form_by_accident(data, end):
    whole = pack_identity(issue_identity(identity(), NORWAY))
    for bad in (data, whole + b"\0", whole[: end % len(whole)]):
        with pytest.raises(BadIdentity):
            unpack_identity(bad)
