"""Attacks on event types: on their names, their managers, their versions, their bytes and their size."""

from dataclasses import replace

import pytest

from maia.canonical import write_canonical
from maia.credentials.authority import Action
from maia.credentials.certificate import SignedCertificate
from maia.credentials.chains.reduction import UnknownQuorum
from maia.credentials.encoding.certificates import certificate_from_bytes, certificate_to_bytes
from maia.credentials.keys import (
    BadCertificate,
    BadKey,
    BadSignature,
    QuorumId,
    SignedKind,
    SigningKey,
    verify_signature,
)
from maia.errors import MaiaError
from maia.events import ATTRIBUTES_MAX, Kind
from maia.testing.refusals import raises
from maia.types import (
    BadDefinition,
    BadDefinitionEncoding,
    InstallNotGranted,
    Sealing,
    SealingLevel,
    SignedDefinition,
    TypeHistory,
    UidReused,
    check_event,
    definition_from_bytes,
    definition_to_bytes,
    sign_definition,
    type_id,
    verify_definition,
)
from maia.types.encoding import definition_from_body, definition_to_expression
from support.types import (
    CCS,
    HELPER,
    LOCATION,
    MALLORY,
    MANAGER,
    NETWORK,
    NOON,
    NUMBERPLATE,
    PITO,
    PLATE,
    TIME,
    attribute,
    install,
    manage,
    numberplate,
)

FIRST = verify_definition(sign_definition(numberplate(), PITO), at=NOON)


# ---------------------------------------------------------------- A6: names


def test_a_friendly_name_under_another_key_is_another_type():
    """A6: the same readable name under another owner shares neither name, rendezvous nor history."""
    twin = verify_definition(sign_definition(numberplate(owner=MALLORY.principal), MALLORY), at=NOON)
    assert twin.name.name == FIRST.name.name
    assert twin.name != FIRST.name
    assert twin.type_id != FIRST.type_id
    with raises("TYPE-ANOTHER-TYPE"):
        TypeHistory(FIRST.type_id).remember(FIRST).remember(twin)


def test_the_capability_of_one_owner_says_nothing_about_the_twin():
    """A6: a certificate by Mallory for any type called so does not reach PITO's type."""
    own = manage(MALLORY, MANAGER, owner=MALLORY.principal)
    foreign = manage(MALLORY, MANAGER, owner=PITO.principal)
    for credentials in ((own,), (foreign,), (own, foreign)):
        signed = sign_definition(numberplate(number=1, credentials=credentials), MANAGER)
        with raises("TYPE-NOT-A-MANAGER"):
            verify_definition(signed, at=NOON)


def test_a_key_and_a_digest_of_the_same_bytes_are_different_owners():
    """A6: the bytes of a key taken as a quorum's digest name another owner."""
    assert type_id(PITO.principal, NUMBERPLATE) != type_id(QuorumId(PITO.principal.key), NUMBERPLATE)
    signed = sign_definition(numberplate(owner=QuorumId(PITO.principal.key)), PITO)
    with pytest.raises(UnknownQuorum):
        verify_definition(signed, at=NOON)


@pytest.mark.parametrize(
    "other_form",
    [
        (2**255 - 19 + 2).to_bytes(32, "little"),
        PITO.principal.key + b"\x00",
        PITO.principal.key.hex().encode(),
        b"\x01" + bytes(31),
        bytes(32),
    ],
    ids=["not reduced", "longer", "hexadecimal", "small order", "zero"],
)
def test_an_owner_key_in_another_encoding_is_refused(other_form):
    """A6: a key has one encoding; a second one would make a second name for one owner."""
    head, form, name, *rest = definition_to_expression(FIRST.definition)
    spoilt = (head, form, (name[0], (b"ed25519", other_form), *name[2:]), *rest)
    with pytest.raises(BadKey):
        definition_from_body(write_canonical(spoilt))


@pytest.mark.parametrize(
    "name", ["uk.gov.pito.Numberplаte", "uk.gov.pito.Numberplate ", "uk..pito", "x\x00", "x."]
)
def test_a_name_that_looks_like_another_is_refused_by_the_reader(name):
    """A6: homoglyphs, blanks and empty segments never reach a name."""
    head, form, (word, owner, _, version), *rest = definition_to_expression(FIRST.definition)
    with pytest.raises(MaiaError):
        definition_from_body(write_canonical((head, form, (word, owner, name.encode(), version), *rest)))


# ---------------------------------------------------------------- A29: managers, versions, uids


def changed(*attributes, credentials=(), signer=MANAGER, number=1, previous=0):
    definition = numberplate(*attributes, number=number, previous=previous, credentials=credentials)
    return sign_definition(definition, signer)


def test_a_manager_without_manage_is_refused():
    """A29: nothing, `install`, and a right that may not be passed on are not `manage`."""
    passed_on_without_leave = (manage(PITO, HELPER), manage(HELPER, MANAGER))
    for credentials in ((), (install(PITO, MANAGER),), passed_on_without_leave):
        with raises("TYPE-NOT-A-MANAGER"):
            verify_definition(changed(credentials=credentials), at=NOON, network=NETWORK)


def test_a_manager_without_install_is_refused():
    """A29: `manage` does not open the network, and only its coordinator grants `install`."""
    stranger = install(CCS, MANAGER)
    for extra in ((), (stranger,), (install(PITO, HELPER),)):
        signed = changed(credentials=(manage(PITO, MANAGER), *extra))
        with pytest.raises(InstallNotGranted):
            verify_definition(signed, at=NOON, network=NETWORK)


def test_a_manager_cannot_stretch_its_rights_over_two_steps():
    """A29: a peer that may only add cannot remove by pretending that an emptier version came before."""
    adds = (manage(PITO, MANAGER, Action.MANAGE_ADD),)
    hollow = changed(PLATE, credentials=adds)
    with raises("TYPE-CHANGE-NOT-GRANTED"):
        verify_definition(hollow, at=NOON, previous=FIRST)
    refilled = changed(PLATE, TIME, number=2, previous=1, credentials=adds)
    with pytest.raises(MaiaError):
        verify_definition(refilled, at=NOON, previous=FIRST)


def test_a_manager_cannot_grant_itself_more_than_it_has():
    """A29: a wider certificate further down the chain is cut to what came before."""
    chain = (manage(PITO, HELPER, Action.MANAGE_ADD, may_delegate=True), manage(HELPER, MANAGER))
    with raises("TYPE-CHANGE-NOT-GRANTED"):
        verify_definition(changed(PLATE, TIME, credentials=chain), at=NOON, previous=FIRST)


def test_a_downgrade_is_refused_to_a_peer_that_follows_the_newest_version():
    """A29: an old version, correctly signed, is not an upgrade."""
    second = verify_definition(changed(PLATE, TIME, signer=PITO), at=NOON)
    history = TypeHistory(FIRST.type_id).remember(FIRST).remember(second)
    with raises("TYPE-DOWNGRADE"):
        history.upgrade(current=second, offered=FIRST)


def test_a_fork_of_a_version_is_refused():
    """A29: an owner, or two managers, sign two definitions under one full name."""
    history = TypeHistory(FIRST.type_id).remember(FIRST)
    for fork in (numberplate(PLATE), numberplate(LOCATION, TIME, PLATE)):
        with raises("TYPE-FORK"):
            history.remember(verify_definition(sign_definition(fork, PITO), at=NOON))


def test_a_uid_with_another_kind_is_refused_next_door_and_across_history():
    """A29: no peer, not even the owner, gives a uid another kind, at once or after a removal."""
    direct = changed(attribute("numberplate", PLATE.uid, Kind.INT), signer=PITO)
    with pytest.raises(UidReused):
        verify_definition(direct, at=NOON, previous=FIRST)
    without = verify_definition(changed(TIME, signer=PITO), at=NOON, previous=FIRST)
    revived = changed(TIME, attribute("speed", PLATE.uid, Kind.INT), signer=PITO, number=2, previous=1)
    accepted_alone = verify_definition(revived, at=NOON, previous=without)
    with pytest.raises(UidReused):
        TypeHistory(FIRST.type_id).remember(FIRST).remember(without).remember(accepted_alone)


# ---------------------------------------------------------------- A32: bytes and signatures of another kind


def test_a_certificate_is_never_read_as_a_type_definition_nor_the_other_way_round():
    """A32: the two readers share no bytes."""
    with pytest.raises(BadDefinitionEncoding):
        definition_from_bytes(certificate_to_bytes(manage(PITO, MANAGER)))
    with pytest.raises(BadCertificate):
        certificate_from_bytes(definition_to_bytes(FIRST.signed))


@pytest.mark.parametrize("kind", [kind for kind in SignedKind if kind is not SignedKind.TYPE_DEFINITION])
def test_a_signature_for_another_kind_of_object_does_not_hold(kind):
    """A32: signing the same bytes as a certificate, a request or a change of quorum proves nothing here."""
    borrowed = replace(FIRST.signed, signature=PITO.sign(kind, FIRST.signed.body))
    with pytest.raises(BadSignature):
        verify_definition(borrowed, at=NOON)
    with pytest.raises(BadSignature):
        verify_signature(PITO.principal, kind, FIRST.signed.body, FIRST.signed.signature)


def test_the_signature_of_a_certificate_does_not_carry_a_definition():
    """A32: a certificate's signature moved into a definition's envelope is refused."""
    certificate = manage(PITO, MANAGER)
    moved = SignedDefinition(
        FIRST.definition, PITO.principal, certificate.body, certificate.signature, certificate.id
    )
    with pytest.raises(BadSignature):
        verify_definition(moved, at=NOON)


def test_moving_a_boundary_between_two_fields_breaks_the_signature():
    """A32: `ab|c` and `a|bc` are different bytes, because every string carries its length."""
    body = sign_definition(numberplate(attribute("ab", "c1")), PITO).body
    shifted = sign_definition(numberplate(attribute("a", "bc1")), PITO).body
    assert body != shifted
    forged = definition_to_bytes(FIRST.signed).replace(b"11:numberplate4:3265", b"10:numberplat5:e3265")
    with pytest.raises(BadSignature):
        verify_definition(definition_from_bytes(forged), at=NOON)


def test_an_embedded_certificate_altered_beside_its_bytes_is_refused():
    """A32: decisions depend on the signed bytes of the definition and of each certificate in it."""
    real = manage(PITO, MANAGER, Action.MANAGE_ADD)
    wider = manage(PITO, MANAGER)
    mixed = SignedCertificate(wider.certificate, real.body, real.signature, real.id)
    honest = changed(PLATE, credentials=(real,))
    definition = replace(honest.definition, credentials=(mixed,))
    with raises("TYPE-TAMPERED"):
        verify_definition(replace(honest, definition=definition), at=NOON, previous=FIRST)
    with pytest.raises(BadDefinition):
        sign_definition(definition, MANAGER)


def test_a_forged_certificate_inside_a_well_signed_definition_is_refused():
    """A32: Mallory signs the definition well, and the owner's certificate badly."""
    real = manage(PITO, MALLORY)
    for forged in (
        replace(real, signature=MALLORY.sign(SignedKind.CERTIFICATE, real.body)),
        replace(real, signature=PITO.sign(SignedKind.TYPE_DEFINITION, real.body)),
    ):
        signed = changed(PLATE, credentials=(forged,), signer=MALLORY)
        with raises("TYPE-NOT-A-MANAGER", "CREDENTIAL-SIGNATURE"):
            verify_definition(signed, at=NOON)


# ---------------------------------------------------------------- A76: many tiny attributes


def tiny(count):
    return (
        b"attributes",
        *((b"attribute", b"a%d" % number, b"%d" % number, b"int") for number in range(count)),
    )


def test_one_attribute_too_many_is_refused_before_any_is_built():
    """A76: the count is checked on the list, not after a million attributes were made."""
    head, form, name, _ = definition_to_expression(FIRST.definition)
    assert (
        len(definition_from_body(write_canonical((head, form, name, tiny(ATTRIBUTES_MAX)))).attributes)
        == 1024
    )
    with pytest.raises(BadDefinitionEncoding, match="at most 1024"):
        definition_from_body(write_canonical((head, form, name, tiny(ATTRIBUTES_MAX + 1))))


def test_a_definition_of_a_megabyte_is_refused_by_its_size():
    """A76: a hundred thousand tiny attributes do not fit into the bytes that a reader takes."""
    head, form, name, _ = definition_to_expression(FIRST.definition)
    with pytest.raises(BadDefinitionEncoding):
        definition_from_body(write_canonical((head, form, name, tiny(100_000))))


def test_one_certificate_too_many_is_refused_before_any_is_read():
    """A76: so many embedded certificates cost a reader nothing."""
    head, form, name, attributes = definition_to_expression(FIRST.definition)
    with pytest.raises(BadDefinitionEncoding, match="1 to 64"):
        definition_from_body(write_canonical((head, form, name, attributes, (b"credentials", *[b"x"] * 65))))


def test_an_event_with_endless_unknown_attributes_stops_at_the_first():
    """A76: a map of a hundred thousand names is refused at its first stranger."""
    with raises("TYPE-UNKNOWN-ATTRIBUTE"):
        check_event({f"a{number}": number for number in range(100_000)}, FIRST)


def test_a_largest_type_with_the_most_certificates_is_still_answered():
    """A76: a definition at every limit is verified, or refused, within the step limits."""
    names = tuple(attribute(f"a{number}", str(number)) for number in range(ATTRIBUTES_MAX))
    crowd = tuple(manage(SigningKey.from_seed(bytes([7, number]) * 16), MANAGER) for number in range(64))
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(changed(*names, credentials=crowd), at=NOON)


# ---------------------------------------------------------------- A29: the seal comes off


def test_no_later_version_takes_the_seal_off():
    """A29: a peer that may change everything still cannot publish the type in clear again."""
    seal = Sealing(SealingLevel.ATTRIBUTE, PITO.principal)
    sealed = verify_definition(sign_definition(replace(numberplate(), sealing=seal), PITO), at=NOON)
    for signer, credentials in ((PITO, ()), (MANAGER, (manage(PITO, MANAGER),))):
        clear = sign_definition(numberplate(number=1, credentials=credentials), signer)
        with raises("TYPE-SEALING-WEAKENED"):
            verify_definition(clear, at=NOON, previous=sealed)
        # The signer is believed without the earlier version, and a history that has met both is not fooled.
        alone = verify_definition(clear, at=NOON)
        with raises("TYPE-SEALING-WEAKENED"):
            TypeHistory(sealed.type_id).remember(sealed).remember(alone)
        with raises("TYPE-SEALING-WEAKENED"):
            TypeHistory(sealed.type_id).remember(alone).remember(sealed)


def test_a_partial_manager_cannot_name_itself_the_key_manager():
    """A29: a right over attributes is no right over keys."""
    seal = Sealing(SealingLevel.EVENT, PITO.principal)
    sealed = verify_definition(sign_definition(replace(numberplate(), sealing=seal), PITO), at=NOON)
    taken = replace(
        numberplate(number=1, credentials=(manage(PITO, HELPER, Action.MANAGE_ADD),)),
        sealing=replace(seal, manager=HELPER.principal),
    )
    with raises("TYPE-CHANGE-NOT-GRANTED"):
        verify_definition(sign_definition(taken, HELPER), at=NOON, previous=sealed)
