"""Keys and signatures: what was signed is what is decided upon, by that key, as that kind of object."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from maia.canonical import SExpression, read_canonical, write_canonical
from maia.credentials import (
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    BadCertificate,
    BadKey,
    BadSignature,
    NameCertificate,
    Principal,
    SignedKind,
    SigningKey,
    TypePattern,
    Validity,
    certificate_from_bytes,
    certificate_to_bytes,
    issue,
    parse_name_pattern,
    principal_from_bytes,
    verify_signature,
)
from maia.credentials.encoding.certificates import CERTIFICATE as FORM
from maia.events import AttributeUid, Instant
from maia.predicates.syntax import AllOf, Comparison, Exists, Operator
from support.certificates import KEYS

KEY, OTHER = KEYS[0], KEYS[1]
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
X_ZERO_BIT = 1 << 255

# The eight points whose multiples stay among themselves, in every encoding that some library accepts.
SMALL_ORDER = [
    0,
    1,
    P - 1,
    P,
    P + 1,
    int.from_bytes(
        bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
    ),
    int.from_bytes(
        bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
    ),
]

GRANT = Authority(
    TypePattern(KEY.principal, parse_name_pattern("uk.gov.pito.Numberplate"), None),
    frozenset({Action.PUBLISH, Action.SUBSCRIBE}),
    frozenset({AttributeUid("numberplate"), AttributeUid("timestamp")}),
    Comparison(AttributeUid("numberplate"), Operator.EQ, "AE05 XYZ"),
    Exists(AttributeUid("on-duty")),
)
CERTIFICATE = AuthorisationCertificate(
    KEY.principal, OTHER.principal, True, GRANT, Validity(Instant(0), None), "a comment"
)
SIGNED = issue(CERTIFICATE, KEY)
NAMED = issue(NameCertificate(KEY.principal, "Group", OTHER.principal, UNBOUNDED), KEY)
DATA = certificate_to_bytes(SIGNED)


def torsion_points() -> list[bytes]:
    return [(y | sign).to_bytes(32, "little") for y in SMALL_ORDER for sign in (0, X_ZERO_BIT)]


@pytest.mark.parametrize("key", torsion_points(), ids=lambda key: key.hex()[:8] + key.hex()[-4:])
def test_keys_of_small_order_are_refused_everywhere(key):
    """A17: under such a key any peer can sign."""
    with pytest.raises(BadKey):
        principal_from_bytes(key)
    # A principal built without the check does not pass either.
    with pytest.raises(BadKey):
        verify_signature(Principal(key), SignedKind.CERTIFICATE, b"", key + bytes(32))


@pytest.mark.parametrize("y", [P, P + 1, P + 2, P + 3, P + 9, P + 18, 2**255 - 1])
def test_keys_that_are_not_reduced_are_refused(y):
    """A17, A6: y and y + p would be two forms of one key."""
    for sign in (0, X_ZERO_BIT):
        with pytest.raises(BadKey):
            principal_from_bytes((y | sign).to_bytes(32, "little"))


@pytest.mark.parametrize("y", [2, 7, P - 2])
def test_a_key_beside_the_curve_verifies_nothing(y):
    """A17: such bytes name no peer; no signature holds under them."""
    nobody = principal_from_bytes(y.to_bytes(32, "little"))
    for signature in (bytes(64), b"\x01" + bytes(63), SIGNED.signature):
        with pytest.raises(BadSignature):
            verify_signature(nobody, SignedKind.CERTIFICATE, SIGNED.body, signature)


def malleated(signature: bytes, times: int) -> bytes:
    s = int.from_bytes(signature[32:], "little") + times * L
    return signature[:32] + s.to_bytes(32, "little")


@pytest.mark.parametrize("times", [1, 2, 7, 14])
def test_a_second_form_of_a_signature_is_refused(times):
    """A17: S + L satisfies the equation and is not accepted."""
    with pytest.raises(BadSignature, match="canonical"):
        verify_signature(
            KEY.principal, SignedKind.CERTIFICATE, SIGNED.body, malleated(SIGNED.signature, times)
        )


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        bytes(64),
        b"\x01" + bytes(63),
        SIGNED.signature[:63],
        SIGNED.signature[:32],
        SIGNED.signature + b"\x00",
        SIGNED.signature * 2,
        SIGNED.signature[32:] + SIGNED.signature[:32],
        SIGNED.signature[:32] + bytes(32),
        bytes(32) + SIGNED.signature[32:],
        SIGNED.signature[:32] + L.to_bytes(32, "little"),
        SIGNED.signature[:32] + b"\xff" * 32,
    ],
)
def test_truncated_zero_and_rearranged_signatures_are_refused(signature):
    """A17: hand-made cases after Wycheproof's."""
    with pytest.raises(BadSignature):
        verify_signature(KEY.principal, SignedKind.CERTIFICATE, SIGNED.body, signature)


def test_every_single_bit_of_a_signature_counts():
    """A17: no mutated signature verifies."""
    for bit in range(512):
        changed = (int.from_bytes(SIGNED.signature, "big") ^ (1 << bit)).to_bytes(64, "big")
        with pytest.raises(BadSignature):
            verify_signature(KEY.principal, SignedKind.CERTIFICATE, SIGNED.body, changed)


def test_another_signature_does_not_change_the_id():
    """A17: a peer that can make a second signature cannot escape a revocation."""
    for signature in (bytes(64), malleated(SIGNED.signature, 1)):
        changed = certificate_from_bytes(certificate_to_bytes(replace(SIGNED, signature=signature)))
        assert changed.id == SIGNED.id


def variants() -> list[tuple[str, bytes]]:
    """Return other ways to write the same certificate, one mistake each."""
    body = SIGNED.body
    return [
        ("actions in another order", body.replace(b"7:publish9:subscribe", b"9:subscribe7:publish")),
        ("an action twice", body.replace(b"7:publish9:subscribe", b"7:publish7:publish9:subscribe")),
        (
            "attributes in another order",
            body.replace(b"11:numberplate9:timestamp", b"9:timestamp11:numberplate"),
        ),
        ("an attribute twice", body.replace(b"9:timestamp", b"9:timestamp9:timestamp")),
        ("a leading zero", body.replace(b"7:publish", b"07:publish")),
        ("a display hint", body.replace(b"7:publish", b"[1:x]7:publish")),
        ("white space", body.replace(b"(7:actions", b" (7:actions")),
        ("version 1.0", body.replace(b"(7:version1:1)", b"(7:version3:1.0)")),
        ("version 1e0", body.replace(b"(7:version1:1)", b"(7:version3:1e0)")),
        ("version 01", body.replace(b"(7:version1:1)", b"(7:version2:01)")),
        ("version +1", body.replace(b"(7:version1:1)", b"(7:version2:+1)")),
        ("a date with T", body.replace(b"1970-01-01_00:00:00", b"1970-01-01T00:00:00")),
        ("a date with Z", body.replace(b"19:1970-01-01_00:00:00", b"20:1970-01-01_00:00:00Z")),
        ("a date with a fraction", body.replace(b"19:1970-01-01_00:00:00", b"21:1970-01-01_00:00:00.0")),
        ("a date without seconds", body.replace(b"19:1970-01-01_00:00:00", b"16:1970-01-01_00:00")),
        (
            "the patterns spelt twice",
            body.replace(b"23:uk.gov.pito.Numberplate)", b"1:*23:uk.gov.pito.Numberplate)"),
        ),
        ("an empty comment", body.replace(b"9:a comment", b"0:")),
        ("propagate with an argument", body.replace(b"(9:propagate)", b"(9:propagate4:true)")),
        ("a trailing byte", body + b"\x00"),
    ]


@pytest.mark.parametrize(("what", "body"), variants(), ids=[what for what, _ in variants()])
def test_a_second_encoding_is_refused_even_when_it_is_signed(what, body):
    """A31: the issuer may sign what it likes; only one form is ever accepted."""
    assert body != SIGNED.body, what
    signature = KEY.sign(SignedKind.CERTIFICATE, body)
    data = b"(6:signed%b(9:signature7:ed2551964:%b))" % (body, signature)
    for read in (certificate_from_bytes, FORM.read_in_full):
        with pytest.raises(BadCertificate):
            read(data)
    assert FORM.from_known_parts(data) is None


def test_fields_in_any_other_order_are_refused():
    """A31: the order of the fields is part of the form."""
    expression = read_canonical(SIGNED.body)
    assert isinstance(expression, tuple)
    for order in permutations(expression[1:]):
        shuffled = write_canonical((expression[0], *order))
        if shuffled != SIGNED.body:
            with pytest.raises(BadCertificate):
                certificate_from_bytes(b"(6:signed%b(9:signature7:ed2551964:%b))" % (shuffled, bytes(64)))


def test_trailing_bytes_are_refused():
    """A31: nothing may follow."""
    for tail in (b"\x00", b" ", b"\n", b"()", DATA):
        with pytest.raises(BadCertificate):
            certificate_from_bytes(DATA + tail)


def test_every_single_byte_of_a_certificate_counts():
    """A31, A33: a changed byte is refused, or is a different certificate whose signature fails."""
    for at in range(len(DATA)):
        changed = bytearray(DATA)
        changed[at] ^= 1
        try:
            found = certificate_from_bytes(bytes(changed))
        except (BadCertificate, BadKey):
            continue
        issuer = found.certificate.issuer
        with pytest.raises(BadSignature):
            verify_signature(issuer, SignedKind.CERTIFICATE, found.body, found.signature)


def test_bytes_cannot_move_between_neighbouring_fields():
    """A32: `ab|c` and `a|bc` are different bytes, so they have different digests and signatures."""
    words = [("ab", "c"), ("a", "bc"), ("abc", "d"), ("a", "b.c")]
    bodies = [write_canonical((one.encode(), other.encode())) for one, other in words]
    assert len(set(bodies)) == len(bodies)
    one = issue(NameCertificate(KEY.principal, "ab", OTHER.principal, UNBOUNDED, "c"), KEY)
    other = issue(NameCertificate(KEY.principal, "a", OTHER.principal, UNBOUNDED, "bc"), KEY)
    assert one.id != other.id
    with pytest.raises(BadSignature):
        verify_signature(KEY.principal, SignedKind.NAME_CERTIFICATE, other.body, one.signature)


@pytest.mark.parametrize(("signed_as", "taken_for"), list(permutations(SignedKind, 2)))
def test_a_signature_for_one_kind_is_none_for_another(signed_as, taken_for):
    """A32: a certificate is never accepted as a type definition, nor any kind as any other."""
    signature = KEY.sign(signed_as, SIGNED.body)
    verify_signature(KEY.principal, signed_as, SIGNED.body, signature)
    with pytest.raises(BadSignature):
        verify_signature(KEY.principal, taken_for, SIGNED.body, signature)


def test_no_body_can_imitate_the_prefix_of_another_kind():
    """A32: the kind ends with a byte that no kind contains, so no prefix is a prefix of another."""
    prefixes = [b"maia/1/" + kind.value + b"\x00" for kind in SignedKind]
    assert all(kind.value.isascii() and b"\x00" not in kind.value for kind in SignedKind)
    assert not any(one.startswith(other) or other.startswith(one) for one, other in permutations(prefixes, 2))
    # A signature without any prefix, as another program might make it, is none of ours.
    bare = KEY._secret.sign(SIGNED.body)
    for kind in SignedKind:
        with pytest.raises(BadSignature):
            verify_signature(KEY.principal, kind, SIGNED.body, bare)


def test_a_name_certificate_is_never_an_authorisation():
    """A32: the two kinds of certificate are signed as two kinds."""
    with pytest.raises(BadSignature):
        verify_signature(KEY.principal, SignedKind.CERTIFICATE, NAMED.body, NAMED.signature)


def test_what_is_decided_upon_is_what_was_signed():
    """A33: the certificate is read from exactly the bytes whose signature is checked."""
    for signed in (SIGNED, NAMED):
        data = certificate_to_bytes(signed)
        found = certificate_from_bytes(data)
        at = data.index(found.body)
        assert data[:at] == b"(6:signed"
        assert issue(found.certificate, KEY).body == found.body


def test_two_bodies_or_two_signatures_are_refused():
    """A33: there is no second body for another reader to prefer."""
    expression = read_canonical(DATA)
    assert isinstance(expression, tuple)
    signed, body, signature = expression
    other = read_canonical(issue(replace(CERTIFICATE, may_delegate=False), KEY).body)
    forged: list[SExpression] = [
        (signed, body, other, signature),
        (signed, other, body, signature),
        (signed, body, signature, signature),
        (signed, signature, body),
        (signed, body),
        (signed, body, (b"signature", b"ed448", bytes(64))),
        (signed, body, (b"signature", b"none", b"")),
        (signed, body, (b"signature", b"ed25519", b"")),
        (signed, body, (b"signature", b"ed25519")),
        body,
    ]
    for expression in forged:
        with pytest.raises(BadCertificate):
            certificate_from_bytes(write_canonical(expression))


@pytest.mark.parametrize(
    "literal",
    [
        2**63 - 1,
        -(2**63),
        2**53 + 1,
        0.1,
        5e-324,
        1.7976931348623157e308,
        "e\u0301",
        "\u00e9",
        "",
        True,
        b"\x00\xff",
    ],
)
def test_literals_come_back_unchanged(literal):
    """A34: large integers, tiny floats and unnormalised text survive signing and reading."""
    term = Comparison(AttributeUid("x"), Operator.EQ, literal)
    signed = issue(replace(CERTIFICATE, authority=replace(GRANT, restriction=term)), KEY)
    found = certificate_from_bytes(certificate_to_bytes(signed)).certificate
    assert isinstance(found, AuthorisationCertificate)
    assert isinstance(found.authority.restriction, Comparison)
    assert found.authority.restriction.literal == literal
    assert type(found.authority.restriction.literal) is type(literal)


def test_equal_looking_literals_have_different_ids():
    """A31, A34: 1, 1.0, true and "1" are four certificates; NFC and NFD are two."""
    literals = [1, 1.0, True, "1", b"1", Instant(1), "\u00e9", "e\u0301"]
    terms = [Comparison(AttributeUid("x"), Operator.EQ, literal) for literal in literals]
    ids = {issue(replace(CERTIFICATE, authority=replace(GRANT, restriction=term)), KEY).id for term in terms}
    assert len(ids) == len(literals)


@pytest.mark.parametrize(
    "forged", [b"-0.0", b"-0", b"nan", b"NaN", b"inf", b"-inf", b"1e0", b"1.", b"01.5", b"1.50"]
)
def test_minus_zero_nan_and_other_spellings_are_refused_in_signed_bytes(forged):
    """A34: minus zero is folded before signing, and never accepted afterwards."""
    term = Comparison(AttributeUid("x"), Operator.EQ, 7.25)
    body = issue(replace(CERTIFICATE, authority=replace(GRANT, restriction=AllOf((term,)))), KEY).body
    changed = body.replace(b"4:7.25", b"%d:%b" % (len(forged), forged))
    assert changed != body
    with pytest.raises(BadCertificate):
        certificate_from_bytes(certificate_to_bytes(replace(SIGNED, body=changed)))


def test_a_secret_key_does_not_compare_itself():
    """A79: two signing keys are distinguished by their public halves; no comparison checks a seed."""
    one, twin = SigningKey.from_seed(bytes(32)), SigningKey.from_seed(bytes(32))
    assert one != twin
    assert one.principal == twin.principal
