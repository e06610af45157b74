"""A definition is believed for a reason, and refused for a named one."""

import copy
import dataclasses
import pickle
from dataclasses import replace

import pytest

from maia.credentials.authority import Action, Authority
from maia.credentials.certificate import UNBOUNDED, AuthorisationCertificate, Validity
from maia.credentials.encoding.certificates import issue
from maia.events import AttributeUid, Instant, Kind
from maia.predicates.syntax import Exists
from maia.testing.refusals import raises
from maia.types import (
    Added,
    InstallNotGranted,
    VerifiedType,
    VerifiedTypeCache,
    definition_to_bytes,
    sign_definition,
    verify_definition,
)
from support.types import (
    CCS,
    HELPER,
    LOCATION,
    MALLORY,
    MANAGE,
    MANAGER,
    NETWORK,
    NOON,
    PITO,
    PLATE,
    TIME,
    attribute,
    grant,
    install,
    manage,
    numberplate,
    type_pattern,
)

HOUR = 3_600_000_000
COLOUR = attribute("colour", "7")
FIRST = verify_definition(sign_definition(numberplate(), PITO), at=NOON)


def later(*attributes, signer=MANAGER, credentials=(), number=1, previous=0):
    definition = numberplate(*attributes, number=number, previous=previous, credentials=credentials)
    return sign_definition(definition, signer)


def test_a_verified_type_shows_the_attributes_both_ways():
    assert FIRST.attributes == (PLATE, TIME, LOCATION)
    assert FIRST.vocabulary["location"] == LOCATION
    assert FIRST.kinds[TIME.uid] is Kind.TIMESTAMP


def test_the_chain_must_begin_at_the_owner_and_end_at_the_signer():
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(later(credentials=(manage(CCS, MANAGER),)), at=NOON)
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(later(credentials=(manage(PITO, HELPER),)), at=NOON)


def test_a_version_in_the_capability_is_the_version_that_may_be_changed():
    """Dissertation 5.2.2: what matters is which version a manager starts from."""
    only_first = grant(PITO, MANAGER.principal, MANAGE, type_pattern(version="0"))
    assert verify_definition(later(credentials=(only_first,)), at=NOON)
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(later(credentials=(only_first,), number=2, previous=1), at=NOON)


CHANGED = {
    Action.MANAGE_ADD: (PLATE, TIME, LOCATION, COLOUR),
    Action.MANAGE_REMOVE: (PLATE, TIME),
    Action.MANAGE_RENAME: (attribute("plate", PLATE.uid), TIME, LOCATION),
    Action.MANAGE_RETYPE: (PLATE, TIME, attribute("location", "8", Kind.BYTES)),
}


def test_remove_and_add_together_allow_a_retype():
    both = (manage(PITO, MANAGER, Action.MANAGE_ADD, Action.MANAGE_REMOVE),)
    signed = later(*CHANGED[Action.MANAGE_RETYPE], credentials=both)
    assert verify_definition(signed, at=NOON, previous=FIRST)


def test_a_version_without_changes_needs_some_management_right():
    signed = later(LOCATION, PLATE, TIME, credentials=(manage(PITO, MANAGER, Action.MANAGE_ADD),))
    assert verify_definition(signed, at=NOON, previous=FIRST).changes == ()
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(later(), at=NOON, previous=FIRST)


def test_all_rights_on_some_attributes_are_not_all_rights():
    some = manage(PITO, MANAGER, attributes=frozenset({PLATE.uid}))
    with raises("TYPE-PREVIOUS-NEEDED"):
        verify_definition(later(credentials=(some,)), at=NOON)
    first = sign_definition(numberplate(credentials=(some,)), MANAGER)
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(first, at=NOON)


def test_a_right_under_terms_that_no_principal_can_settle_here_is_no_right():
    for terms in ({"restriction": Exists(PLATE.uid)}, {"condition": Exists(AttributeUid("on-duty"))}):
        authority = Authority(type_pattern(), MANAGE, **terms)
        certificate = AuthorisationCertificate(PITO.principal, MANAGER.principal, False, authority, UNBOUNDED)
        with raises("TYPE-NOT-A-MANAGER"):
            verify_definition(later(credentials=(issue(certificate, PITO),)), at=NOON)


def test_the_first_version_by_a_manager_needs_all_four_rights():
    full = sign_definition(numberplate(credentials=(manage(PITO, MANAGER),)), MANAGER)
    assert verify_definition(full, at=NOON)
    some = manage(PITO, MANAGER, *(MANAGE - {Action.MANAGE_RENAME}))
    with raises("TYPE-NOT-A-MANAGER", match="all management rights"):
        verify_definition(sign_definition(numberplate(credentials=(some,)), MANAGER), at=NOON)


def test_the_previous_version_must_be_the_one_named():
    second = verify_definition(later(signer=PITO), at=NOON)
    with raises("TYPE-WRONG-PREVIOUS"):
        verify_definition(later(signer=PITO, number=3, previous=2), at=NOON, previous=second)
    with raises("TYPE-WRONG-PREVIOUS"):
        verify_definition(FIRST.signed, at=NOON, previous=second)


def test_the_coordinator_itself_needs_no_certificate_to_install():
    assert verify_definition(FIRST.signed, at=NOON, network=NETWORK).chains == ()


def valid(start, end):
    return Validity(Instant(NOON + start * HOUR), Instant(NOON + end * HOUR))


def test_a_definition_expires_with_its_credentials():
    signed = later(credentials=(manage(PITO, MANAGER, validity=valid(-2, -1)),))
    with raises("TYPE-EXPIRED", match="11:00:00Z"):
        verify_definition(signed, at=NOON)
    assert verify_definition(signed, at=Instant(NOON - HOUR))


def test_a_definition_may_begin_to_hold_later():
    signed = later(credentials=(manage(PITO, MANAGER, validity=valid(1, 2)),))
    with raises("TYPE-NOT-YET-VALID", match="13:00:00Z"):
        verify_definition(signed, at=NOON)


def test_an_expired_certificate_beside_the_point_is_not_blamed():
    credentials = (manage(PITO, HELPER, validity=valid(-2, -1)),)
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(later(credentials=credentials), at=NOON)


def test_an_expired_right_to_install_expires_the_definition():
    credentials = (manage(PITO, MANAGER), install(PITO, MANAGER, validity=valid(-2, -1)))
    with raises("TYPE-EXPIRED"):
        verify_definition(later(credentials=credentials), at=NOON, network=NETWORK)


def test_the_validity_of_the_proof_is_that_of_everything_it_depends_on():
    credentials = (
        manage(PITO, MANAGER, validity=valid(-3, 2)),
        install(PITO, MANAGER, validity=valid(-1, 3)),
    )
    verified = verify_definition(later(credentials=credentials), at=NOON, network=NETWORK)
    assert verified.validity == valid(-1, 2)


def test_a_manager_with_some_rights_depends_on_the_version_it_changed():
    """See docs/decisions/type-definitions.md."""
    second = later(credentials=(manage(PITO, MANAGER, validity=valid(-2, 1)),))
    previous = verify_definition(second, at=NOON)
    adds = manage(PITO, HELPER, Action.MANAGE_ADD)
    definition = numberplate(PLATE, TIME, LOCATION, COLOUR, number=2, previous=1, credentials=(adds,))
    third = sign_definition(definition, HELPER)
    assert verify_definition(third, at=NOON, previous=previous).validity == valid(-2, 1)
    with raises("TYPE-EXPIRED"):
        verify_definition(third, at=Instant(NOON + 2 * HOUR), previous=previous)


def test_a_manager_with_all_rights_outlives_the_version_it_changed():
    second = later(credentials=(manage(PITO, MANAGER, validity=valid(-2, 1)),))
    previous = verify_definition(second, at=NOON)
    third = later(signer=HELPER, credentials=(manage(PITO, HELPER),), number=2, previous=1)
    verified = verify_definition(third, at=Instant(NOON + 2 * HOUR), previous=previous)
    assert verified.validity == UNBOUNDED


def test_the_signed_bytes_decide_and_not_the_object_beside_them():
    richer = numberplate(PLATE, TIME, LOCATION, COLOUR)
    with raises("TYPE-TAMPERED"):
        verify_definition(replace(FIRST.signed, definition=richer), at=NOON)
    with raises("TYPE-TAMPERED"):
        verify_definition(replace(FIRST.signed, id=b"\x00" * 32), at=NOON)


def test_only_the_verifier_makes_a_verified_type():
    fields = {field.name: getattr(FIRST, field.name) for field in dataclasses.fields(FIRST) if field.init}
    with pytest.raises(TypeError):
        VerifiedType(**fields, seal=object())
    with pytest.raises((TypeError, ValueError)):
        replace(FIRST, validity=UNBOUNDED)
    with pytest.raises(TypeError):
        pickle.dumps(FIRST)
    assert copy.deepcopy(FIRST) is FIRST
    with pytest.raises(TypeError):
        FIRST.vocabulary["extra"] = COLOUR


# ---------------------------------------------------------------- the cache


def test_a_second_look_is_one_look_into_the_cache():
    cache = VerifiedTypeCache()
    verified = verify_definition(FIRST.signed, at=NOON, cache=cache)
    assert verify_definition(FIRST.signed, at=NOON, cache=cache) is verified
    again = sign_definition(numberplate(), PITO)
    assert again is not FIRST.signed
    assert verify_definition(again, at=NOON, cache=cache) is verified


def test_bytes_of_a_known_type_are_not_read_again_and_other_bytes_of_it_are():
    cache = VerifiedTypeCache(types_max=1)
    signed = FIRST.signed
    data = definition_to_bytes(signed)
    verify_definition(signed, at=NOON, cache=cache)
    assert cache.read(data) is signed
    forged = bytes(64)
    read = cache.read(definition_to_bytes(replace(signed, signature=forged)))
    assert (read.body, read.signature) == (signed.body, forged)
    verify_definition(later(signer=PITO), at=NOON, previous=FIRST, cache=cache)
    assert cache.read(data) is not signed, "it was forgotten with its proof"
    assert cache.read(data) == signed


def test_the_cache_never_extends_a_right():
    cache = VerifiedTypeCache()
    signed = later(credentials=(manage(PITO, MANAGER, validity=valid(-1, 1)),))
    verify_definition(signed, at=NOON, cache=cache)
    with raises("TYPE-EXPIRED"):
        verify_definition(signed, at=Instant(NOON + 2 * HOUR), cache=cache)


def test_the_cache_does_not_take_one_network_for_another():
    cache = VerifiedTypeCache()
    signed = later(credentials=(manage(PITO, MANAGER),))
    verify_definition(signed, at=NOON, cache=cache)
    with pytest.raises(InstallNotGranted):
        verify_definition(signed, at=NOON, network=NETWORK, cache=cache)


def test_the_cache_does_not_take_a_bad_signature_for_a_good_one():
    cache = VerifiedTypeCache()
    verify_definition(FIRST.signed, at=NOON, cache=cache)
    for spoilt in (
        replace(FIRST.signed, signature=bytes(64)),
        replace(FIRST.signed, signer=MALLORY.principal),
        replace(later(signer=MALLORY), id=FIRST.id),
    ):
        with raises("CREDENTIAL-SIGNATURE", "TYPE-TAMPERED", "TYPE-NOT-A-MANAGER"):
            verify_definition(spoilt, at=NOON, cache=cache)


def test_the_cache_compares_again_when_another_previous_version_is_given():
    cache = VerifiedTypeCache()
    signed = later(PLATE, TIME, LOCATION, COLOUR, signer=PITO)
    assert verify_definition(signed, at=NOON, cache=cache).changes is None
    assert verify_definition(signed, at=NOON, previous=FIRST, cache=cache).changes == (Added(COLOUR),)


def test_the_cache_is_bounded_and_forgets_what_was_not_used_longest():
    cache = VerifiedTypeCache(types_max=2)
    one, two, three = (sign_definition(numberplate(number=number), PITO) for number in (1, 2, 3))
    kept = verify_definition(one, at=NOON, cache=cache)
    forgotten = verify_definition(two, at=NOON, cache=cache)
    verify_definition(one, at=NOON, cache=cache)
    verify_definition(three, at=NOON, cache=cache)
    assert len(cache) == 2
    assert verify_definition(one, at=NOON, cache=cache) is kept
    assert verify_definition(two, at=NOON, cache=cache) is not forgotten


def test_a_flood_of_new_types_does_not_push_out_a_type_in_use():
    cache = VerifiedTypeCache(types_max=4)
    used = sign_definition(numberplate(), PITO)
    kept = verify_definition(used, at=NOON, cache=cache)
    for number in range(1, 20):
        verify_definition(sign_definition(numberplate(number=number), PITO), at=NOON, cache=cache)
        assert verify_definition(used, at=NOON, cache=cache) is kept
    assert len(cache) == 4


def test_the_longest_lived_of_several_chains_is_relied_on():
    short, long = (manage(PITO, MANAGER, validity=valid(-1, hours)) for hours in (1, 5))
    for credentials in ((short, long), (long, short)):
        assert verify_definition(later(credentials=credentials), at=NOON).validity == valid(-1, 5)


def test_rights_on_different_attributes_add_up():
    credentials = tuple(
        manage(PITO, MANAGER, Action.MANAGE_RENAME, attributes=frozenset({uid}))
        for uid in (PLATE.uid, TIME.uid)
    )
    renamed = (attribute("plate", PLATE.uid), attribute("seen-at", TIME.uid, Kind.TIMESTAMP), LOCATION)
    assert (
        len(verify_definition(later(*renamed, credentials=credentials), at=NOON, previous=FIRST).changes) == 2
    )
    with raises("TYPE-CHANGE-NOT-GRANTED"):
        verify_definition(later(*renamed, credentials=credentials[:1]), at=NOON, previous=FIRST)
