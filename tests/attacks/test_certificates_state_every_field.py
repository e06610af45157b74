"""Certificates: whatever is missing, unknown, repeated or impossible is refused, even if it is signed."""

from __future__ import annotations

import pytest

from maia.canonical import SExpression, read_canonical, write_canonical
from maia.credentials import (
    UNBOUNDED,
    Action,
    Authority,
    BadCertificate,
    BadValidity,
    NameCertificate,
    SignedKind,
    TypePattern,
    Validity,
    certificate_from_bytes,
    issue,
    parse_name_pattern,
)
from maia.events import AttributeUid, Instant
from maia.predicates.syntax import Exists
from maia.testing import grant
from support.certificates import KEYS

KEY, OTHER = KEYS[0], KEYS[1]
GRANT = Authority(
    TypePattern(KEY.principal, parse_name_pattern("a.b"), None),
    frozenset({Action.PUBLISH}),
    frozenset({AttributeUid("u")}),
    Exists(AttributeUid("u")),
)
CERT = grant(KEY, OTHER, GRANT, may_delegate=True, comment="note").body
NAME_CERT = issue(NameCertificate(KEY.principal, "Group", OTHER.principal, UNBOUNDED, "note"), KEY).body
OPTIONAL = {b"propagate", b"comment", b"restriction"}


def sealed(body: bytes) -> bytes:
    return b"(6:signed%b(9:signature7:ed2551964:%b))" % (body, KEY.sign(SignedKind.CERTIFICATE, body))


def refuse(body: bytes) -> None:
    with pytest.raises(BadCertificate):
        certificate_from_bytes(sealed(body))


def with_validity(validity: bytes) -> bytes:
    at = CERT.index(b"(5:valid")
    return CERT[:at] + validity + b")"


def bound(date: bytes) -> bytes:
    return b"%d:%b" % (len(date), date)


def every_list(expression: SExpression) -> list[tuple[SExpression, ...]]:
    found: list[tuple[SExpression, ...]] = []
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            found.append(node)
            pending.extend(node)
    return found


def test_the_unchanged_certificates_are_accepted():
    assert certificate_from_bytes(sealed(CERT)).body == CERT
    assert certificate_from_bytes(sealed(NAME_CERT)).body == NAME_CERT


@pytest.mark.parametrize(
    "validity",
    [
        b"",
        b"(5:valid)",
        b"(5:valid(10:not-before9:unbounded))",
        b"(5:valid(9:not-after9:unbounded))",
        b"(5:valid(9:not-after9:unbounded)(10:not-before9:unbounded))",
        b"(5:valid(10:not-before9:unbounded)(10:not-before9:unbounded))",
        b"(5:valid(10:not-before)(9:not-after))",
        b"(5:valid(10:not-before0:)(9:not-after0:))",
        b"(5:valid(10:not-before9:unbounded)(9:not-after9:unbounded)(6:online))",
        b"(5:valid(10:not-before9:Unbounded)(9:not-after9:unbounded))",
    ],
)
def test_a_missing_bound_is_refused(validity):
    """A27: a peer that means "for ever" writes it."""
    refuse(with_validity(validity))


@pytest.mark.parametrize(
    "date",
    [
        b"2026-02-29_00:00:00",
        b"2026-13-01_00:00:00",
        b"2026-00-10_00:00:00",
        b"2026-11-31_00:00:00",
        b"2026-11-15_24:00:00",
        b"2026-11-15_23:60:00",
        b"2016-12-31_23:59:60",
        b"0000-01-01_00:00:00",
        b"10000-01-01_00:00:00",
        b"-001-01-01_00:00:00",
        b"2026-11-15 08:30:00",
        b"2026-1-5_08:30:00",
        b"2026-11-15_08:30:00\n",
        b"9223372036854775808",
        b"-1",
        b"1763195400",
        b"1e9",
        b"NaN",
        b"inf",
        b"now",
        b"",
        "２０２６-11-15_08:30:00".encode(),
    ],
)
def test_dates_that_do_not_exist_are_refused(date):
    """A27: leap seconds, 2^63, negative times and NaN are no dates."""
    for validity in (
        b"(5:valid(10:not-before%b)(9:not-after9:unbounded))" % bound(date),
        b"(5:valid(10:not-before9:unbounded)(9:not-after%b))" % bound(date),
    ):
        with pytest.raises(BadValidity):
            certificate_from_bytes(sealed(with_validity(validity)))


def test_an_end_before_the_beginning_is_refused():
    """A27: by the reader and by the issuer."""
    backwards = b"(5:valid(10:not-before19:2026-01-02_00:00:00)(9:not-after19:2026-01-01_23:59:59))"
    with pytest.raises(BadValidity, match="before"):
        certificate_from_bytes(sealed(with_validity(backwards)))
    validity = Validity(Instant(1_000_000), Instant(0))
    with pytest.raises(BadValidity, match="before"):
        issue(NameCertificate(KEY.principal, "Group", OTHER.principal, validity), KEY)
    instant = Validity(Instant(0), Instant(0))
    assert issue(NameCertificate(KEY.principal, "Group", OTHER.principal, instant), KEY)


@pytest.mark.parametrize("moment", [-1, 999_999])
def test_a_bound_is_included_to_the_microsecond_and_not_beyond(moment):
    """A27: not-before in the future means not yet."""
    assert not Validity(Instant(1_000_000), None).contains(Instant(moment))
    assert Validity(Instant(1_000_000), None).contains(Instant(1_000_000))


@pytest.mark.parametrize("body", [CERT, NAME_CERT], ids=["cert", "name-cert"])
def test_an_unknown_field_is_refused_wherever_it_stands(body):
    """A28: in every list of a certificate, at every position, hints and empty lists included."""
    whole = write_canonical(read_canonical(body))
    assert whole == body
    for node in every_list(read_canonical(body)):
        old = write_canonical(node)
        for extra in ((b"critical", b"yes"), b"extra", (), b""):
            for position in range(len(node) + 1):
                new = write_canonical((*node[:position], extra, *node[position:]))
                changed = body.replace(old, new, 1)
                if changed != body and not _only_another_attribute(node, extra):
                    refuse(changed)


def _only_another_attribute(node: tuple[SExpression, ...], extra: SExpression) -> bool:
    """Return whether the addition is no unknown field but one more attribute uid, which is a wider grant."""
    return node[0] == b"attributes" and extra == b"extra"


@pytest.mark.parametrize("body", [CERT, NAME_CERT], ids=["cert", "name-cert"])
def test_a_missing_or_repeated_field_is_refused(body):
    """A28: every field but the optional ones must be there, each once."""
    expression = read_canonical(body)
    assert isinstance(expression, tuple)
    for position, field in enumerate(expression[1:], start=1):
        assert isinstance(field, tuple)
        refuse(write_canonical((*expression[:position], field, *expression[position:])))
        if field[0] not in OPTIONAL:
            refuse(write_canonical((*expression[:position], *expression[position + 1 :])))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"(7:version1:1)", b"(7:version1:2)"),
        (b"(7:version1:1)", b"(7:version1:0)"),
        (b"(7:version1:1)", b"(7:version0:)"),
        (b"7:publish", b"7:destroy"),
        (b"7:publish", b"7:PUBLISH"),
        (b"7:publish", b"6:manage"),
        (b"7:publish", b"1:*7:publish"),
        (b"(4:type(5:owner", b"(4:file(5:owner"),
        (b"(6:exists1:u)", b"(5:maybe1:u)"),
        (b"(6:exists1:u)", b""),
        (b"4:cert(7", b"3:acl(7"),
        (b"7:ed25519", b"7:ed25518"),
        (b"7:ed25519", b"3:rsa"),
    ],
)
def test_unknown_versions_actions_resources_and_algorithms_are_refused(old, new):
    """A28: what is not fully understood is not half understood."""
    changed = CERT.replace(old, new)
    assert changed != CERT
    refuse(changed)


@pytest.mark.parametrize("body", [CERT, NAME_CERT], ids=["cert", "name-cert"])
def test_no_list_may_lose_an_element(body):
    """A28: in every list at any depth; what may be left out is listed above."""
    for node in every_list(read_canonical(body)):
        for position in range(len(node)):
            element = node[position]
            optional = isinstance(element, tuple) and bool(element) and element[0] in OPTIONAL
            shorter = (*node[:position], *node[position + 1 :])
            changed = body.replace(write_canonical(node), write_canonical(shorter), 1)
            if not optional:
                refuse(changed)
