"""No peer gains a right by cutting, mixing, repeating or widening certificates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import (
    UNBOUNDED,
    Action,
    BadSignature,
    BrokenChain,
    CertificateExpired,
    CertificateNotYetValid,
    NoChain,
    SuperfluousCertificate,
    TypeName,
    VerificationCache,
    VerifiedChain,
    covers_request,
    find_chain,
    verify_chain,
)
from maia.credentials.keys import SignedKind
from maia.events import AttributeUid
from maia.predicates.syntax import AllOf, Comparison, Operator
from maia.testing.refusals import raises
from support.chains import (
    ALICE,
    BOB,
    BOTH,
    CAROL,
    DAVE,
    EVERYTHING,
    KEYS,
    NOON,
    OWNER,
    PUBLISH,
    SUBSCRIBE,
    TODAY,
    TOMORROW,
    TYPE,
    YESTERDAY,
    about,
    call,
    grant,
    named,
    types_of,
    uids,
)

FIRST, SECOND, THIRD = grant(OWNER, ALICE), grant(ALICE, BOB), grant(BOB, DAVE)
PLATE = AttributeUid("plate")


def verified(*certificates, root=OWNER, subject=DAVE, at=NOON) -> VerifiedChain:
    return verify_chain(certificates, root=root, subject=subject, at=at)


def test_the_honest_chain_holds() -> None:
    assert verified(FIRST, SECOND, THIRD).authority == about()


def test_a20_a_certificate_that_may_not_be_passed_on_ends_its_chain() -> None:
    """A20: delegation bit false in the middle of a chain."""
    kept = grant(ALICE, BOB, final=True)
    with raises("CREDENTIAL-NOT-DELEGABLE") as refused:
        verified(FIRST, kept, THIRD)
    assert refused.value.certificate == kept.id
    assert refused.value.field == "delegation"


@pytest.mark.parametrize(
    ("certificates", "problem"),
    [
        ((FIRST, THIRD), "CREDENTIAL-CHAIN-GAP"),
        ((SECOND, FIRST, THIRD), "CREDENTIAL-WRONG-ROOT"),
        ((FIRST, THIRD, SECOND), "CREDENTIAL-CHAIN-GAP"),
        ((THIRD, SECOND, FIRST), "CREDENTIAL-WRONG-ROOT"),
        ((FIRST, SECOND, SECOND, THIRD), "CREDENTIAL-DUPLICATE"),
        ((FIRST, FIRST, SECOND, THIRD), "CREDENTIAL-DUPLICATE"),
        ((FIRST, SECOND), "CREDENTIAL-WRONG-SUBJECT"),
        ((SECOND, THIRD), "CREDENTIAL-WRONG-ROOT"),
        ((), "CREDENTIAL-WRONG-ROOT"),
    ],
)
def test_a20_gaps_and_disorder_are_refused(certificates, problem) -> None:
    """A20: issuer/subject gap, wrong root, reordered, duplicated, cut off."""
    with raises(problem):
        verified(*certificates)


def test_a20_a_second_signature_does_not_make_a_second_certificate() -> None:
    """A20: the same text with other signature bytes is the same certificate, and a duplicate."""
    twin = replace(FIRST, signature=bytes(64))
    with raises("CREDENTIAL-DUPLICATE"):
        verified(FIRST, twin, SECOND, THIRD)


def test_a20_a_chain_of_another_owner_opens_nothing() -> None:
    """A20: wrong root."""
    with raises("CREDENTIAL-WRONG-ROOT"):
        verified(FIRST, SECOND, THIRD, root=CAROL)


def test_a20_a_stranger_certificate_rides_along_in_vain() -> None:
    """A20: a name certificate that plays no part is refused, not ignored."""
    with pytest.raises(SuperfluousCertificate):
        verified(FIRST, SECOND, THIRD, call(BOB, "friend", CAROL))


@pytest.mark.parametrize(
    ("parent", "child", "narrow"),
    [
        (about(actions=SUBSCRIBE), about(actions=BOTH), about(actions=SUBSCRIBE)),
        (
            about(attributes=uids("time")),
            about(attributes=uids("time", "plate")),
            about(attributes=uids("time")),
        ),
        (about(types_of(OWNER, "*", "0")), about(types_of(OWNER)), about(types_of(OWNER, "*", "0"))),
        (
            about(types_of(OWNER, "uk.gov.pito.*")),
            about(types_of(OWNER, "*")),
            about(types_of(OWNER, "uk.gov.pito.*")),
        ),
        (about(types_of(OWNER)), about(EVERYTHING), about(types_of(OWNER))),
    ],
)
def test_a21_a_wider_child_is_cut_to_its_parent(parent, child, narrow) -> None:
    """A21: child grants an attribute, action, version or name that its parent does not."""
    assert verified(grant(OWNER, ALICE, parent), grant(ALICE, DAVE, child)).authority == narrow


def test_a21_a_child_cannot_drop_or_loosen_a_restriction() -> None:
    """A21: value range."""
    one_car = Comparison(PLATE, Operator.EQ, "AE05 XYZ")
    later = Comparison(AttributeUid("time"), Operator.GT, 5)
    parent = grant(OWNER, ALICE, about(restriction=one_car))
    free = verified(parent, grant(ALICE, DAVE)).authority
    assert free.restriction == one_car
    both = verified(parent, grant(ALICE, DAVE, about(restriction=later))).authority
    assert both.restriction == AllOf((one_car, later))


def test_a21_narrowing_the_attributes_does_not_lose_the_restriction_on_a_hidden_one() -> None:
    """A21: `{plate == "AE05 XYZ", time}` narrowed to `{time}` still names one car."""
    one_car = Comparison(PLATE, Operator.EQ, "AE05 XYZ")
    chain = verified(
        grant(OWNER, ALICE, about(restriction=one_car)),
        grant(ALICE, DAVE, about(attributes=uids("time"))),
    )
    assert (chain.authority.restriction, chain.authority.attributes) == (one_car, uids("time"))


def test_a21_a_child_that_lives_longer_ends_with_its_parent() -> None:
    """A21: time."""
    chain = verified(grant(OWNER, ALICE, validity=TODAY), grant(ALICE, DAVE))
    assert chain.validity == TODAY


@pytest.mark.parametrize(
    ("validity", "problem"), [(YESTERDAY, CertificateExpired), (TOMORROW, CertificateNotYetValid)]
)
def test_a21_a_link_out_of_its_time_breaks_the_chain(validity, problem) -> None:
    """A21: time; the refusal names the certificate."""
    late = grant(ALICE, DAVE, validity=validity)
    with raises(problem) as refused:
        verified(FIRST, late)
    assert refused.value.certificate == late.id


def test_a21_both_ends_of_the_validity_count_and_nothing_beyond() -> None:
    """A21: just inside and just outside."""
    chain = (grant(OWNER, DAVE, validity=TODAY),)
    start, end = TODAY.not_before, TODAY.not_after
    assert verified(*chain, at=start) == verified(*chain, at=end)
    for outside in (type(start)(start - 1), type(end)(end + 1)):
        with pytest.raises(BrokenChain):
            verified(*chain, at=outside)


def test_a22_a_chain_for_one_principal_is_of_no_use_to_another() -> None:
    """A22: token bound to A used by B."""
    with raises("CREDENTIAL-WRONG-SUBJECT"):
        verified(FIRST, SECOND, THIRD, subject=CAROL)


def test_a22_a_chain_for_one_type_does_not_open_another() -> None:
    """A22: for type X on type Y."""
    other = TypeName(OWNER, "uk.gov.pito.Vehicle", "0")
    chain = (grant(OWNER, DAVE, about(types_of(OWNER, "uk.gov.pito.Numberplate"))),)
    assert not covers_request(verified(*chain).authority, Action.SUBSCRIBE, other)
    with pytest.raises(NoChain):
        find_chain(chain, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=other, at=NOON)


def test_a22_an_owner_grants_its_own_resources_and_no_others() -> None:
    """A22: `type: *`, written by one owner, opens that owner's types alone."""
    bobs = TypeName(BOB, "uk.gov.pito.Numberplate", "0")
    for wide in (about(EVERYTHING), about(types_of(None))):
        authority = verified(grant(OWNER, DAVE, wide)).authority
        assert covers_request(authority, Action.SUBSCRIBE, TYPE)
        assert not covers_request(authority, Action.SUBSCRIBE, bobs)
    with raises("CREDENTIAL-NOT-OWNER"):
        verified(grant(OWNER, DAVE, about(types_of(BOB))))
    with raises("CREDENTIAL-NO-AUTHORITY"):
        verified(grant(OWNER, ALICE, about(EVERYTHING)), grant(ALICE, DAVE, about(types_of(BOB))))


def test_a22_the_same_name_under_another_owner_is_another_type() -> None:
    """A22: a chain of CAROL's for a type of the same readable name is refused for the owner's."""
    chain = (grant(CAROL, DAVE, about(types_of(CAROL))),)
    with raises("CREDENTIAL-WRONG-ROOT"):
        verified(*chain)
    with pytest.raises(NoChain):
        find_chain(chain, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON)


def test_a25_a_name_certificate_cycle_means_no_peer() -> None:
    """A25: group and name cycles end."""
    certificates = (
        grant(OWNER, named(ALICE, "team")),
        call(ALICE, "team", named(BOB, "team")),
        call(BOB, "team", named(ALICE, "team")),
    )
    with raises("CREDENTIAL-NAME-UNRESOLVED"):
        verified(*certificates)
    with pytest.raises(NoChain):
        find_chain(certificates, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON)


def test_a25_a_name_that_grows_at_every_step_ends() -> None:
    """A25: `team -> team team` never resolves, and costs little."""
    certificates = (grant(OWNER, named(ALICE, "team")), call(ALICE, "team", named(ALICE, "team", "team")))
    with raises("CREDENTIAL-NAME-UNRESOLVED"):
        verified(*certificates)


def test_a25_no_other_peer_can_define_a_name() -> None:
    """A25: name redefined by another issuer."""
    brokers = grant(OWNER, named(ALICE, "brokers"))
    with raises("CREDENTIAL-NAME-UNRESOLVED"):
        verified(brokers, call(BOB, "brokers", DAVE))
    honest = verified(brokers, call(ALICE, "brokers", DAVE))
    assert honest.subject == DAVE


def test_a25_a_name_borrowed_into_a_namespace_ends_with_its_certificate() -> None:
    """A25: a name certificate counts towards the validity of the chain."""
    member = call(ALICE, "brokers", DAVE, validity=TODAY)
    chain = verified(grant(OWNER, named(ALICE, "brokers")), member)
    assert chain.validity == TODAY
    with pytest.raises(CertificateExpired):
        verified(grant(OWNER, named(ALICE, "brokers")), call(ALICE, "brokers", DAVE, validity=YESTERDAY))


def test_a26_a_certificate_says_what_was_signed_and_nothing_else() -> None:
    """A26, A33: content exchanged beside the signed bytes, cold and with a warm cache."""
    narrow = grant(OWNER, DAVE, about(actions=SUBSCRIBE))
    wide = grant(OWNER, DAVE, about(actions=BOTH))
    forged = replace(narrow, certificate=wide.certificate)
    cache = VerificationCache()
    cache.check(narrow)
    for remembered in (None, cache):
        with pytest.raises(BadSignature):
            verify_chain((forged,), root=OWNER, subject=DAVE, at=NOON, cache=remembered)


@pytest.mark.parametrize("field", ["body", "signature", "id"])
def test_a26_no_part_of_a_certificate_can_be_taken_from_another(field: str) -> None:
    """A26: parts of two genuine certificates mixed."""
    one, other = grant(OWNER, DAVE, about(actions=SUBSCRIBE)), grant(OWNER, DAVE, about(actions=PUBLISH))
    mixed = replace(one, **{field: getattr(other, field)})
    cache = VerificationCache()
    cache.check(one)
    cache.check(other)
    for remembered in (None, cache):
        with pytest.raises(BadSignature):
            verify_chain((mixed,), root=OWNER, subject=DAVE, at=NOON, cache=remembered)


def test_a26_a_certificate_in_the_name_of_another_peer_is_refused() -> None:
    """A26: signed by BOB, issued "by" the owner."""
    genuine = grant(OWNER, DAVE)
    forged = replace(genuine, signature=KEYS[BOB].sign(SignedKind.CERTIFICATE, genuine.body))
    with pytest.raises(BadSignature):
        verified(forged)


def test_a26_a_forged_twin_in_a_pool_does_not_hide_the_genuine_certificate() -> None:
    """A26: same id, bad signature, for grants and for names."""
    genuine, name = grant(OWNER, named(ALICE, "team")), call(ALICE, "team", DAVE)
    pool = [genuine, name]
    pool += [replace(one, signature=bytes(64)) for one in pool]
    pool += [replace(one, signature=b"\xff" * 64) for one in pool]
    for order in (pool, pool[::-1]):
        chain = find_chain(order, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON)
        assert set(chain.certificates) == {genuine, name}
        assert chain.validity == UNBOUNDED
