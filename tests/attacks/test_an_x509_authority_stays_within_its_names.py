"""A124: an authority proves no name beyond its constraints, and a revocation list counts for what it says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from maia.clock import system_now
from maia.credentials import SigningKey
from maia.credentials.x509_chains import VerifiedX509, verify_x509_chain
from maia.testing import raises
from maia.testing.x509 import Authority

ANNA = SigningKey.from_seed(b"a" * 32).principal
EVE = SigningKey.from_seed(b"e" * 32).principal
NOW = system_now()
ROOT, OFFICE = Authority("CN=Norway"), "CN=Office,O=Norway"
NAME, MAILED = "CN=Anna,O=Norway", "1.2.840.113549.1.9.1=anna@ward.example,CN=Anna,O=Norway"


def directory(name: str) -> x509.DirectoryName:
    return x509.DirectoryName(x509.Name.from_rfc4514_string(name))


def of_alternatives(*names: x509.GeneralName) -> tuple[x509.ExtensionType, bool]:
    return x509.SubjectAlternativeName(names), False


DNS, MAIL = x509.DNSName("norway.example"), x509.RFC822Name


def proved(
    name: str,
    permitted: list[x509.GeneralName] | None = None,
    excluded: list[x509.GeneralName] | None = None,
    *,
    says: tuple[tuple[x509.ExtensionType, bool], ...] = (),
    at_root: bool = False,
    is_critical: bool = False,
) -> VerifiedX509:
    """Return what an authority with these constraints proves."""
    limits = (x509.NameConstraints(permitted, excluded), is_critical)
    root = Authority("CN=Norway", says=[limits] if at_root else ())
    office = Authority(OFFICE, root, says=() if at_root else [limits])
    leaf = office.issue(ANNA, name, says=says)
    return verify_x509_chain(leaf, [office.certificate], [root.certificate], now=NOW)


@pytest.mark.parametrize(
    ("name", "permitted", "excluded"),
    [
        (NAME, [directory("O=Sweden")], None),
        (NAME, None, [directory("O=Norway")]),
        (NAME, None, [directory("O=NORWAY")]),
        ("CN=Anna,O=Nor\u200bway", None, [directory("O=norway")]),
        ("CN=Anna,O=Norway  Health", None, [directory("O=Norway Health")]),
        (NAME, [DNS], None),
        (NAME, [MAIL("norway.example")], None),
        (MAILED, [directory("O=Norway")], None),
        (MAILED, [directory("O=Norway"), MAIL("office.example")], None),
        (MAILED, [directory("O=Norway"), MAIL("ANNA@ward.example")], None),
        (MAILED, [directory("O=Norway"), MAIL(".ward.example")], None),
        (MAILED, None, [MAIL("ward.example")]),
        (MAILED, None, [MAIL(".example")]),
        (MAILED, None, [MAIL("ANNA@WARD.example")]),
        ("1.2.840.113549.1.9.1=anna,CN=Anna,O=Norway", None, [MAIL("ward.example")]),
    ],
    ids=[
        "of another organisation", "excluded", "excluded in capitals", "excluded, with a hidden character",
        "excluded, with more spaces", "DNS only", "mail only", "an address where none is permitted",
        "of another host", "of another mailbox", "below a host", "of an excluded host",
        "of an excluded domain", "of an excluded mailbox", "no address",
    ],
)  # fmt: skip
@pytest.mark.parametrize("at_root", [False, True], ids=["between", "root"])
def test_an_authority_proves_no_name_beyond_its_own(
    name: str,
    permitted: list[x509.GeneralName] | None,
    excluded: list[x509.GeneralName] | None,
    at_root: bool,
) -> None:
    with raises("CREDENTIAL-X509"):
        proved(name, permitted, excluded, at_root=at_root)
    with raises("CREDENTIAL-X509"):
        proved(name, permitted, excluded, at_root=at_root, is_critical=True)


@pytest.mark.parametrize(
    ("name", "permitted", "excluded"),
    [
        (NAME, [directory("O=norway")], [directory("O=Sweden")]),
        (NAME, [directory("O=Norway"), DNS], None),
        (NAME, None, [DNS, MAIL("ward.example")]),
        (MAILED, [directory("O=Norway"), MAIL("Ward.example")], None),
        (MAILED, [directory("O=Norway"), MAIL(".example")], [MAIL("other.example"), MAIL("ard.example")]),
        (MAILED, [directory("O=Norway"), MAIL("anna@ward.example")], None),
    ],
)
def test_an_authority_proves_a_name_of_its_own(
    name: str, permitted: list[x509.GeneralName] | None, excluded: list[x509.GeneralName] | None
) -> None:
    assert proved(name, permitted, excluded).principal == ANNA


@pytest.mark.parametrize(
    "beside",
    [directory("CN=Anna,O=Sweden"), MAIL("anna@ward.sweden")],
    ids=["a directory name", "a mailbox"],
)
def test_an_alternative_name_is_constrained_as_the_name_itself(beside: x509.GeneralName) -> None:
    allowed: list[x509.GeneralName] = [directory("O=Norway"), MAIL("ward.example")]
    with raises("CREDENTIAL-X509"):
        proved(NAME, allowed, says=(of_alternatives(beside),))
    assert proved(NAME, allowed, says=(of_alternatives(MAIL("anna@ward.example")),)).principal == ANNA


def test_a_constraint_holds_for_all_below_and_one_that_is_not_understood_for_nothing() -> None:
    root = Authority("CN=Norway", says=[(x509.NameConstraints([directory("O=Norway")], None), False)])
    stranger = Authority("CN=Office,O=Sweden", root)
    leaf = stranger.issue(ANNA, NAME)
    with raises("CREDENTIAL-X509"):
        verify_x509_chain(leaf, [stranger.certificate], [root.certificate], now=NOW)

    (mail, *_) = names = [MAIL("norway.example"), directory("O=Norway")]
    good = x509.NameConstraints(names, None).public_bytes()
    subtree = x509.NameConstraints([mail], None).public_bytes()[4:]
    with_least = subtree[:1] + bytes([subtree[1] + 3]) + subtree[2:] + b"\x80\x01\x01"  # minimum = 1
    inner = good[4:].replace(subtree, with_least)
    body = b"\xa0" + bytes([len(inner)]) + inner
    raw = b"\x30" + bytes([len(body)]) + body
    limits = x509.UnrecognizedExtension(x509.NameConstraints.oid, raw)
    office = Authority(OFFICE, ROOT, says=[(limits, False)])
    with raises("CREDENTIAL-X509"):
        verify_x509_chain(office.issue(ANNA, NAME), [office.certificate], [ROOT.certificate], now=NOW)


# ---------------------------------------------------------------- revocation lists

POINT = x509.UniformResourceIdentifier("http://crl.norway.example/1")


def scope(**more: object) -> tuple[x509.ExtensionType, bool]:
    said = {
        "full_name": None, "relative_name": None, "only_contains_user_certs": False,
        "only_contains_ca_certs": False, "only_some_reasons": None, "indirect_crl": False,
        "only_contains_attribute_certs": False,
    }  # fmt: skip
    return x509.IssuingDistributionPoint(**{**said, **more}), True  # type: ignore[arg-type]


BETWEEN = Authority(OFFICE, ROOT)
LEAF = BETWEEN.issue(
    ANNA,
    NAME,
    says=[(x509.CRLDistributionPoints([x509.DistributionPoint([POINT], None, None, None)]), False)],
)
ABOVE = ROOT.revoke()


def checked(*lists: bytes) -> VerifiedX509:
    return verify_x509_chain(LEAF, [BETWEEN.certificate], [ROOT.certificate], now=NOW, revocation_lists=lists)


@pytest.mark.parametrize(
    "lists",
    [
        (BETWEEN.revoke(begins=1), ABOVE),
        (BETWEEN.revoke(says=[scope(only_contains_ca_certs=True)]), ABOVE),
        (BETWEEN.revoke(), ROOT.revoke(says=[scope(only_contains_user_certs=True)])),
        (BETWEEN.revoke(says=[scope(only_contains_attribute_certs=True)]), ABOVE),
        (
            BETWEEN.revoke(says=[scope(only_some_reasons=frozenset({x509.ReasonFlags.key_compromise}))]),
            ABOVE,
        ),
        (BETWEEN.revoke(says=[scope(full_name=[x509.UniformResourceIdentifier("http://other/")])]), ABOVE),
        (BETWEEN.revoke(says=[(x509.DeltaCRLIndicator(1), True)]), ABOVE),
        (
            BETWEEN.revoke(
                says=[(x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3"), b"\x05\x00"), True)]
            ),
            ABOVE,
        ),
        (Authority(OFFICE, ROOT).revoke(), ABOVE),
        (Authority("CN=Other").revoke(), ABOVE),
        (ABOVE,),
        (BETWEEN.revoke(),),
        (BETWEEN.revoke(days=-1), ABOVE),
    ],
    ids=[
        "from the future", "for authorities only", "for subjects only", "for attributes only",
        "for some reasons", "of another place", "of changes", "with a critical word", "of another key",
        "of another issuer", "missing", "the authority's missing", "out of date",
    ],
)  # fmt: skip
def test_a_list_that_does_not_speak_of_a_certificate_says_nothing_good_of_it(
    lists: tuple[bytes, ...],
) -> None:
    with raises("CREDENTIAL-X509"):
        checked(*lists)


def test_lists_that_speak_of_each_certificate_are_enough_also_beside_others() -> None:
    old, future = BETWEEN.revoke(days=-1), BETWEEN.revoke(begins=1)
    for mine in (
        BETWEEN.revoke(),
        BETWEEN.revoke(says=[scope(only_contains_user_certs=True)]),
        BETWEEN.revoke(says=[scope(full_name=[POINT])]),
    ):
        others = (Authority("CN=Other").revoke(LEAF), old, future)
        assert (
            checked(*others, mine, ROOT.revoke(says=[scope(only_contains_ca_certs=True)])).principal == ANNA
        )


def test_what_any_list_of_its_issuer_names_is_revoked() -> None:
    for said in ((), (scope(only_contains_ca_certs=True),), ((x509.DeltaCRLIndicator(1), True),)):
        with raises("CREDENTIAL-X509", match="has revoked the certificate"):
            checked(BETWEEN.revoke(), BETWEEN.revoke(LEAF, says=said), ABOVE)


def test_an_indirect_list_revokes_by_issuer_and_serial() -> None:
    """A certificate of another issuer with the same serial number is another one."""

    def indirect(issuer: str) -> bytes:
        serial = x509.load_der_x509_certificate(LEAF).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(datetime.now(UTC))
        entry = entry.add_extension(x509.CertificateIssuer([directory(issuer)]), critical=True)
        empty = x509.load_pem_x509_crl(BETWEEN.revoke())
        builder = (
            x509.CertificateRevocationListBuilder(empty.issuer, empty.last_update_utc, empty.next_update_utc)
            .add_extension(scope(indirect_crl=True)[0], critical=True)
            .add_revoked_certificate(entry.build())
        )
        return builder.sign(BETWEEN.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    assert checked(indirect("CN=Other,O=Norway"), ABOVE).principal == ANNA
    with raises("CREDENTIAL-X509", match="has revoked the certificate"):
        checked(indirect(OFFICE), ABOVE)


def test_an_authority_that_may_not_sign_lists_says_nothing_by_one() -> None:
    office = Authority(OFFICE, ROOT, signs_lists=False)
    leaf = office.issue(ANNA, NAME)
    asked = {"now": NOW, "revocation_lists": (office.revoke(), ABOVE)}
    with raises("CREDENTIAL-X509", match="is missing"):
        verify_x509_chain(leaf, [office.certificate], [ROOT.certificate], **asked)  # type: ignore[arg-type]
