"""A certificate counts if it leads to a trusted authority, is in force, and is not revoked."""

from __future__ import annotations

import pytest

from maia.clock import system_now
from maia.credentials import SigningKey
from maia.credentials.x509_chains import verify_x509_chain, x509_from_file
from maia.testing import raises
from maia.testing.x509 import Authority, in_pem

ANNA = SigningKey.from_seed(b"a" * 32).principal
NOW = system_now()


def test_a_path_over_an_authority_between_proves_name_key_and_end() -> None:
    root = Authority("root")
    between = Authority("CN=Issuing,O=Norway", root, days=100)
    leaf = between.issue(ANNA, "CN=anna,O=Norway")
    first, *others = x509_from_file(in_pem(leaf, between.certificate))
    proved = verify_x509_chain(first, others, [root.certificate], now=NOW)
    assert (proved.name, proved.principal) == ("CN=anna,O=Norway", ANNA)
    assert proved.not_after - NOW < 101 * 86400 * 10**6
    with raises("CREDENTIAL-X509"):
        verify_x509_chain(leaf, [], [root.certificate], now=NOW)


def test_what_is_no_subject_in_force_of_a_trusted_authority_is_refused() -> None:
    root, stranger = Authority("root"), Authority("root")
    leaf = root.issue(ANNA, "anna")
    assert verify_x509_chain(leaf, [], [root.certificate], now=NOW).principal == ANNA
    refused = {
        "another authority of the same name": (stranger.issue(ANNA, "anna"), ()),
        "ended": (root.issue(ANNA, "anna", days=-1), ()),
        "an authority": (Authority("sub", root).certificate, ()),
        "changed": (leaf[:-1] + bytes([leaf[-1] ^ 1]), ()),
        "not a certificate": (b"x", ()),
        "revoked": (leaf, (root.revoke(leaf),)),
        "a list that has ended": (leaf, (root.revoke(days=-1),)),
    }
    for what, (certificate, lists) in refused.items():
        with raises("CREDENTIAL-X509"):
            verify_x509_chain(certificate, [], [root.certificate], now=NOW, revocation_lists=lists)
            pytest.fail(what)
    others = (stranger.revoke(leaf), root.revoke())
    verify_x509_chain(leaf, [], [root.certificate], now=NOW, revocation_lists=others)


def test_a_key_of_another_kind_names_no_principal() -> None:
    root = Authority("root")
    leaf = root.issue(Authority("other").key.public_key(), "anna")
    assert verify_x509_chain(leaf, [], [root.certificate], now=NOW).principal is None
