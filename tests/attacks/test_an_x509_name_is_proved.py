"""A111: an X.509 name in Maia is proved by its own chain, to its grantor, for one key, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from maia.clock import system_now
from maia.credentials import LocalName, SigningKey, Validity
from maia.credentials.x509_names import (
    SignedX509Proof,
    VerifiedX509Subject,
    X509Key,
    checked_local_name,
    make_x509_proof,
    verify_x509_proof,
    x509_proof_from_bytes,
    x509_proof_from_text,
    x509_proof_to_bytes,
    x509_proof_to_text,
    x509_subject,
)
from maia.events import SECOND, Instant
from maia.testing import raises
from maia.testing.x509 import Authority, in_pem
from support.processes import maia

GRANTOR, ANNA, EVE = (SigningKey.from_seed(one * 32) for one in (b"g", b"a", b"e"))
NORWAY, OTHER = Authority("CN=Norway"), Authority("CN=Norway")
BETWEEN = Authority("CN=Office", NORWAY)
NAME = "CN=Anna,O=Norway"
X509 = ec.generate_private_key(ec.SECP256R1())
NOW = system_now()


def proof(
    *certificates: bytes, signs: X509Key = X509, key: SigningKey = ANNA, **more: object
) -> SignedX509Proof:
    said = {"grantor": GRANTOR.principal, "at": NOW, **more}
    return make_x509_proof(certificates, signs, key, **said)


def proved(
    shown: SignedX509Proof, authority: Authority = NORWAY, *lists: bytes, **more: object
) -> VerifiedX509Subject:
    asked = {"grantor": GRANTOR.principal, "now": NOW, **more}
    return verify_x509_proof(shown, authority=authority.certificate, revocation_lists=lists, **asked)


def issued(**more: object) -> tuple[bytes, bytes]:
    return BETWEEN.issue(X509.public_key(), NAME, **more), BETWEEN.certificate


CERTIFICATE = BETWEEN.issue(X509.public_key(), NAME)
CHAIN = (CERTIFICATE, BETWEEN.certificate)


@pytest.mark.parametrize(
    "signs",
    [X509, rsa.generate_private_key(65537, 2048), Ed25519PrivateKey.generate()],
    ids=["ec", "rsa", "ed25519"],
)
def test_a_chain_proves_the_name_that_was_granted_to(signs: X509Key) -> None:
    certificate = BETWEEN.issue(signs.public_key(), NAME)
    shown = proof(certificate, BETWEEN.certificate, signs=signs)
    assert (
        x509_proof_from_text(x509_proof_to_text(shown))
        == shown
        == x509_proof_from_bytes(x509_proof_to_bytes(shown))
    )
    found = proved(shown, NORWAY, BETWEEN.revoke(), NORWAY.revoke())
    assert found.local == x509_subject(NAME, NORWAY.certificate, space=GRANTOR.principal)
    named = found.name_certificate(Validity(None, None))
    assert (named.issuer, named.subject) == (GRANTOR.principal, ANNA.principal)
    assert named.validity.not_after is not None
    assert named.validity.not_after <= NOW + 366 * 24 * 3600 * SECOND


@pytest.mark.parametrize(
    ("shown", "authority", "lists", "code"),
    [
        (proof(*CHAIN), OTHER, (), "CREDENTIAL-X509"),
        (proof(CERTIFICATE), NORWAY, (), "CREDENTIAL-X509"),
        (proof(*issued(days=-1)), NORWAY, (), "CREDENTIAL-X509"),
        (proof(*CHAIN), NORWAY, (BETWEEN.revoke(CERTIFICATE),), "CREDENTIAL-X509"),
        (proof(*CHAIN), NORWAY, (NORWAY.revoke(BETWEEN.certificate),), "CREDENTIAL-X509"),
        (proof(*CHAIN), NORWAY, (BETWEEN.revoke(days=-1),), "CREDENTIAL-X509"),
        (proof(*issued(uses=[ExtendedKeyUsageOID.SERVER_AUTH])), NORWAY, (), "CREDENTIAL-X509"),
        (proof(*issued(ca=True)), NORWAY, (), "CREDENTIAL-X509"),
        (proof(*CHAIN, signs=ec.generate_private_key(ec.SECP256R1())), NORWAY, (), "CREDENTIAL-X509-PROOF"),
        (proof(*CHAIN, grantor=EVE.principal), NORWAY, (), "CREDENTIAL-X509-PROOF"),
        (proof(*CHAIN, at=Instant(NOW - 8 * 24 * 3600 * SECOND)), NORWAY, (), "CREDENTIAL-X509-PROOF"),
        (proof(*CHAIN, at=Instant(NOW + 3600 * SECOND)), NORWAY, (), "CREDENTIAL-X509-PROOF"),
    ],
    ids=[
        "another authority of the same name", "no way to the authority", "expired", "revoked",
        "its authority revoked", "an old list", "for servers", "an authority", "another key",
        "for another grantor", "old", "early",
    ],
)  # fmt: skip
def test_a_chain_that_does_not_hold_proves_nothing(
    shown: SignedX509Proof, authority: Authority, lists: tuple[bytes, ...], code: str
) -> None:
    with raises(code):
        proved(shown, authority, *lists)


def test_a_proof_is_bound_to_one_key_in_maia() -> None:
    """Another principal that has seen it cannot put its own key in, nor sign it again."""
    shown = proof(*CHAIN)
    stolen = replace(shown.proof, principal=EVE.principal)
    with raises("CREDENTIAL-X509-PROOF"):
        proved(replace(shown, proof=stolen))
    forged = proof(*CHAIN, key=EVE)
    with raises("CREDENTIAL-X509-PROOF"):
        bound = replace(forged.proof, binding=shown.proof.binding)
        proved(make_again(bound))


def make_again(said: object) -> SignedX509Proof:
    from maia.credentials.x509_names import _PROOF

    return _PROOF.sign(said, EVE)


@pytest.mark.parametrize("name", ["CN=\u0410nna,O=Norway", "CN=Anna,O=Norw\u0430y", "CN=Anna\u200b,O=Norway"])
def test_a_name_that_looks_alike_is_another_name(name: str) -> None:
    """Homographs: what a grantor types is ASCII, and what a chain says is compared as a whole."""
    with raises("INPUT-X509-NAME"):
        x509_subject(name, NORWAY.certificate, space=GRANTOR.principal)
    found = proved(proof(BETWEEN.issue(X509.public_key(), name), BETWEEN.certificate))
    assert found.local != x509_subject(NAME, NORWAY.certificate, space=GRANTOR.principal)
    assert found.name_certificate(Validity(None, None)).comment.isascii()


def test_an_x509_name_collides_with_no_local_name() -> None:
    local = x509_subject("CN=Met Brokers", NORWAY.certificate, space=GRANTOR.principal)
    assert local != LocalName(GRANTOR.principal, ("Met Brokers",))
    assert local != x509_subject("CN=Met Brokers", OTHER.certificate, space=GRANTOR.principal)
    assert local != x509_subject("CN=Met Brokers", NORWAY.certificate, space=EVE.principal)
    (name,) = local.names
    for chosen in (name, name.upper(), "x509.anna"):
        with raises("INPUT-X509-NAME"):
            checked_local_name(chosen)


def test_commands_name_prove_and_refuse(tmp_path: Path) -> None:
    """A grantor names a subject by its X.509 name; its proof gets a name certificate, and no other does."""
    for name in ("met", "anna", "eve"):
        assert maia("key", "new", f"{name}.key", cwd=tmp_path).returncode == 0
    pem = X509.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files = {"anna.pem": in_pem(*CHAIN), "anna.x509": pem, "norway.pem": NORWAY.pem, "other.pem": OTHER.pem}
    files |= {"good.crl": BETWEEN.revoke(), "bad.crl": BETWEEN.revoke(CERTIFICATE)}
    files["above.crl"] = NORWAY.revoke()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    issue = (
        "cert",
        "issue",
        "-k",
        "met.key",
        "--owner",
        "met.pub",
        "--network",
        "Net",
        "--action",
        "connect",
    )
    granted = maia(
        *issue,
        "--subject",
        f"x509:{NAME}",
        "--authority",
        "norway.pem",
        "--days",
        7,
        "-o",
        "a.cert",
        cwd=tmp_path,
    )
    assert granted.returncode == 0, granted.stderr
    made = maia(
        "cert",
        "prove",
        "anna.pem",
        "--x509-key",
        "anna.x509",
        "-k",
        "anna.key",
        "--to",
        "met.pub",
        "-o",
        "anna.proof",
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    name = (
        "cert",
        "name",
        "-k",
        "met.key",
        "--subject",
        "anna.proof",
        "--days",
        7,
        "-o",
        "n.cert",
        "--authority",
    )
    for wrong, code in (
        (("other.pem",), "CREDENTIAL-X509"),
        (("norway.pem", "--revocation-list", "bad.crl"), "CREDENTIAL-X509"),
        (("norway.pem", "--revocation-list", "good.crl"), "CREDENTIAL-X509"),
        (("norway.pem", "--name", "Anna"), "INPUT-X509-NAME"),
    ):
        refused = maia(*name, *wrong, cwd=tmp_path)
        assert code in refused.stderr, refused
    lists = ("--revocation-list", "good.crl", "--revocation-list", "above.crl")
    named = maia(*name, "norway.pem", *lists, cwd=tmp_path)
    assert named.returncode == 0, named.stderr
    verify = ("cert", "verify", "a.cert", "n.cert", "--owner", "met.pub")
    for who, status in (("anna", 0), ("eve", 1)):
        found = maia(*verify, "--subject", f"{who}.pub", cwd=tmp_path)
        assert (found.returncode == 0) == (status == 0), found
