"""TPM quotes, verified from bytes: which are believed, and which are not."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from hashlib import sha256
from struct import pack

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from maia.clock import system_now
from maia.credentials.attestation import (
    CERTIFICATE_BYTES_MAX,
    CONFIGURATIONS_MAX,
    INTERMEDIATES_MAX,
    LOG_BYTES_MAX,
    LOG_EVENTS_MAX,
    STRUCTURE_BYTES_MAX,
    Approved,
    Configuration,
    attestation_key_from_bytes,
    make_credential,
    replay_log,
    verify_endorsement,
    verify_quote,
)
from maia.errors import BrokenCredential, MaiaError
from maia.events import Instant
from maia.testing.refusals import raises
from maia.testing.software_tpm import ATTRIBUTES, EK_USAGE, Maker, SoftwareTpm, boot_log, registers, sized

MAKER, STRANGER = Maker(), Maker("Stranger")
EVENTS = ((0, b"firmware 1"), (4, b"loader 2"), (7, b"secure boot"), (4, b"kernel 3"))
PCRS = (0, 4, 7)
NONCE = bytes(range(32))
NOW = system_now()


@pytest.fixture(scope="module", params=[True, False], ids=["rsa", "p256"])
def tpm(request: pytest.FixtureRequest) -> SoftwareTpm:
    return SoftwareTpm(MAKER, is_rsa=request.param)


def verified(tpm, quoted, signature, log, *, nonce=NONCE, pcrs=PCRS):
    key = attestation_key_from_bytes(tpm.attestation_key)
    return verify_quote(quoted, signature, log, key=key, nonce=nonce, pcrs=pcrs)


def test_a_quote_and_its_log_give_the_registers(tpm):
    log = tpm.boot(*EVENTS)
    boot = verified(tpm, *tpm.quote(NONCE, PCRS), log)
    expected = registers(*EVENTS)
    assert boot.values == {pcr: expected[pcr] for pcr in PCRS}
    assert (boot.resets, boot.clock_ms) == (tpm.resets, tpm.clock)


def test_a_register_that_nothing_extended_is_zero(tpm):
    log = tpm.boot(*EVENTS)
    assert verified(tpm, *tpm.quote(NONCE, (0, 5)), log, pcrs=(0, 5)).values[5] == bytes(32)


def test_a_quote_for_another_nonce_or_other_registers_is_refused(tpm):
    """A97: replayed, or for another provider's nonce."""
    log = tpm.boot(*EVENTS)
    old = tpm.quote(NONCE, PCRS)
    with raises("CREDENTIAL-TPM-QUOTE"):
        verified(tpm, *old, log, nonce=bytes(32))
    with raises("CREDENTIAL-TPM-QUOTE"):
        verified(tpm, *tpm.quote(b"", PCRS), log, nonce=b"")
    with raises("CREDENTIAL-TPM-QUOTE"):
        verified(tpm, *tpm.quote(NONCE, (0, 4)), log)


def test_a_quote_of_another_machine_or_changed_by_a_bit_is_refused(tpm):
    """A97: of another machine."""
    other = SoftwareTpm(MAKER, is_rsa=True)
    log = other.boot(*EVENTS)
    with raises("CREDENTIAL-TPM-QUOTE"):
        verified(tpm, *other.quote(NONCE, PCRS), log)
    log = tpm.boot(*EVENTS)
    quoted, signature = tpm.quote(NONCE, PCRS)
    with raises("CREDENTIAL-TPM-QUOTE"):
        verified(tpm, bytes([quoted[0] ^ 1, *quoted[1:]]), signature, log)


@pytest.mark.parametrize("change", [{"magic": 0xFF544348}, {"kind": 0x8017}])
def test_what_a_key_signs_that_is_no_quote_is_refused(tpm, change):
    log = tpm.boot(*EVENTS)
    said = tpm.attested(NONCE, PCRS, **change)
    with raises("CREDENTIAL-TPM-QUOTE"):
        verified(tpm, said, tpm.sign(said), log)


def test_bytes_after_the_end_are_refused(tpm):
    log = tpm.boot(*EVENTS)
    said = tpm.attested(NONCE, PCRS) + b"\x00"
    with raises("CREDENTIAL-TPM-STRUCTURE"):
        verified(tpm, said, tpm.sign(said), log)
    quoted, signature = tpm.quote(NONCE, PCRS)
    with raises("CREDENTIAL-TPM-STRUCTURE"):
        verified(tpm, quoted, signature + b"\x00", log)
    with raises("CREDENTIAL-TPM-STRUCTURE"):
        attestation_key_from_bytes(tpm.attestation_key + b"\x00")


def test_a_log_that_does_not_lead_to_the_registers_is_refused(tpm):
    """A97: with a log that does not match its registers, or of the boot before."""
    good = tpm.boot(*EVENTS)
    tpm.boot((0, b"another firmware"), *EVENTS[1:])
    with raises("CREDENTIAL-TPM-LOG"):
        verified(tpm, *tpm.quote(NONCE, PCRS), good)
    for events in (EVENTS[:-1], (*EVENTS, EVENTS[0]), EVENTS[::-1]):
        tpm.boot(*EVENTS)
        with raises("CREDENTIAL-TPM-LOG"):
            verified(tpm, *tpm.quote(NONCE, PCRS), boot_log(*events))


def test_the_locality_of_the_start_is_the_first_value_of_register_0():
    located = pack("<III", 0, 3, 0) + pack("<I", 17) + b"StartupLocality\x00\x03"
    header, entry = boot_log(), boot_log((0, b"x"))[len(boot_log()) :]
    assert (
        replay_log(header + located + entry)[0]
        == sha256(bytes(31) + b"\x03" + sha256(b"x").digest()).digest()
    )
    after = replay_log(header + entry + located)[0]
    assert after == registers((0, b"x"))[0], "a locality that comes late changes nothing"


# ------------------------------------------------------------ keys and certificates


def test_an_endorsement_certificate_leads_to_a_root():
    tpm = SoftwareTpm(MAKER)
    found = verify_endorsement(tpm.certificate, [], [STRANGER.root, MAKER.root], now=NOW)
    assert found.key.public_numbers() == tpm.ek.public_key().public_numbers()


def test_an_endorsement_certificate_may_have_an_intermediate_authority():
    middle = Maker("Middle")
    link = MAKER.certificate(middle.key.public_key(), middle.name, ca=True)
    tpm = SoftwareTpm(middle)
    assert verify_endorsement(tpm.certificate, [link], [MAKER.root], now=NOW)
    with raises("CREDENTIAL-TPM-ENDORSEMENT"):
        verify_endorsement(tpm.certificate, [], [MAKER.root], now=NOW)
    for number, is_read in ((INTERMEDIATES_MAX, True), (INTERMEDIATES_MAX + 1, False)):
        with nullcontext() if is_read else raises("CREDENTIAL-TPM-ENDORSEMENT"):
            verify_endorsement(tpm.certificate, [link] * number, [MAKER.root], now=NOW)
    leaf = MAKER.certificate(middle.key.public_key(), middle.name, usage=None)
    with raises("CREDENTIAL-TPM-ENDORSEMENT"):
        verify_endorsement(tpm.certificate, [leaf], [MAKER.root], now=NOW)


def test_an_endorsement_key_that_no_root_certified_is_refused():
    """A97: with an endorsement key that no root certified, for another use, or out of its time."""
    tpm, name = SoftwareTpm(MAKER), x509.Name([])
    public = tpm.ek.public_key()
    web = MAKER.certificate(public, name, usage=x509.ExtendedKeyUsageOID.SERVER_AUTH)
    over = MAKER.certificate(public, name, days=-1)
    point = MAKER.certificate(ec.generate_private_key(ec.SECP256R1()).public_key(), name, usage=EK_USAGE)
    lookalike = Maker()  # the same name, and another key
    for certificate, roots in (
        (tpm.certificate, []),
        (tpm.certificate, [STRANGER.root]),
        (tpm.certificate, [lookalike.root]),
        (MAKER.root, [MAKER.root]),
        (MAKER.certificate(public, name, usage=None), [MAKER.root]),
        (web, [MAKER.root]),
        (over, [MAKER.root]),
        (point, [MAKER.root]),
        (b"", [MAKER.root]),
        (bytes(CERTIFICATE_BYTES_MAX + 1), [MAKER.root]),
    ):
        with raises("CREDENTIAL-TPM-ENDORSEMENT"):
            verify_endorsement(certificate, [], roots, now=NOW)
    with raises("CREDENTIAL-TPM-ENDORSEMENT"):
        verify_endorsement(tpm.certificate, [], [MAKER.root], now=Instant.parse("2000-01-01T00:00:00Z"))


@pytest.mark.parametrize("bit", [1, 4, 5, 16, 18])
def test_a_key_that_could_sign_anything_is_no_attestation_key(bit):
    with raises("CREDENTIAL-TPM-KEY"):
        attestation_key_from_bytes(SoftwareTpm(MAKER, attributes=ATTRIBUTES & ~(1 << bit)).attestation_key)


def test_only_the_endorsed_tpm_opens_a_credential_and_only_for_this_key(tpm):
    other = SoftwareTpm(MAKER)
    endorsement = verify_endorsement(tpm.certificate, [], [MAKER.root], now=NOW)
    secret, seed = b"s" * 32, b"r" * 32
    own = make_credential(endorsement, attestation_key_from_bytes(tpm.attestation_key), secret, seed=seed)
    assert tpm.activate(own) == secret
    with pytest.raises(ValueError, match=r"[Dd]ecrypt"):
        other.activate(own)
    borrowed = attestation_key_from_bytes(other.attestation_key)
    with pytest.raises(ValueError, match="INTEGRITY"):
        tpm.activate(make_credential(endorsement, borrowed, secret, seed=seed))


# ------------------------------------------------------------ limits, and bytes of every kind


def test_structures_and_logs_are_bounded(tpm):
    log = tpm.boot(*EVENTS)
    quoted, signature = tpm.quote(NONCE, PCRS)
    for parts in (
        (bytes(STRUCTURE_BYTES_MAX + 1), signature, log),
        (quoted, bytes(STRUCTURE_BYTES_MAX + 1), log),
    ):
        with pytest.raises(MaiaError):
            verified(tpm, *parts)
    with raises("CREDENTIAL-TPM-STRUCTURE"):
        replay_log(bytes(LOG_BYTES_MAX + 1))
    most = [(1, b"")] * LOG_EVENTS_MAX
    assert replay_log(boot_log(*most))
    with raises("CREDENTIAL-TPM-STRUCTURE"):
        replay_log(boot_log(*most, (1, b"")))


def test_a_list_of_configurations_is_unambiguous_and_bounded():
    def one(name="a", level=1, pcrs=PCRS, seed=0):
        return Configuration(name, level, {pcr: bytes([seed]) * 32 for pcr in pcrs})

    many = tuple(
        Configuration(f"c{n}", 1, {0: sha256(pack(">I", n)).digest()}) for n in range(CONFIGURATIONS_MAX + 1)
    )
    assert Approved((0,), many[:-1])
    for pcrs, configurations in (
        ((), ()), ((0, 0), ()), ((4, 0), ()), ((16,), ()), ((-1,), ()),
        (PCRS, (one(), one("b"))), (PCRS, (one(pcrs=(0,)),)), (PCRS, (one(level=0),)),
        (PCRS, (one(level=256),)), (PCRS, (one(""),)), (PCRS, (one("\n"),)), (PCRS, (one("x" * 129),)),
        ((0,), many),
    ):  # fmt: skip
        with raises("INPUT-TPM-APPROVED"):
            Approved(pcrs, configurations)
    approved = Approved(PCRS, (one(), replace(one("b", 2, seed=1))))
    assert approved.find(dict.fromkeys(PCRS, b"\x01" * 32)).name == "b"
    assert approved.find(dict.fromkeys(PCRS, b"\x02" * 32)) is None


P256 = SoftwareTpm(MAKER)
LOG = P256.boot(*EVENTS)
QUOTED, SIGNATURE = P256.quote(NONCE, PCRS)


@given(st.sampled_from(["key", "quote", "signature", "log"]), st.integers(0, 400), st.binary(max_size=6))
def test_whatever_bytes_come_the_refusal_is_one_of_ours(what, at, other):
    parts = {"key": P256.attestation_key, "quote": QUOTED, "signature": SIGNATURE, "log": LOG}
    parts[what] = parts[what][:at] + other + parts[what][at + len(other) + 1 :]
    with suppress(BrokenCredential):
        key = attestation_key_from_bytes(parts["key"])
        verify_quote(parts["quote"], parts["signature"], parts["log"], key=key, nonce=NONCE, pcrs=PCRS)


@given(st.binary(max_size=300))
def test_no_bytes_are_an_unforeseen_error(data):
    for read in (attestation_key_from_bytes, replay_log, lambda one: attestation_key_from_bytes(sized(one))):
        with suppress(BrokenCredential):
            read(data)
