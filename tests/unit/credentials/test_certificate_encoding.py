"""A certificate has one form, and a mistake in it is named."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from maia.canonical import read_canonical
from maia.credentials import (
    ALL_ACTIONS,
    UNBOUNDED,
    Action,
    AnyResource,
    AuthorisationCertificate,
    Authority,
    BadAuthority,
    BadCertificate,
    BadValidity,
    LocalName,
    NameCertificate,
    NamePattern,
    NetworkPattern,
    Subject,
    Threshold,
    TopicPattern,
    TypePattern,
    Validity,
    certificate_from_bytes,
    certificate_from_expression,
    certificate_from_text,
    certificate_to_bytes,
    certificate_to_expression,
    certificate_to_text,
    issue,
    parse_name_pattern,
)
from maia.credentials.encoding.certificates import COMMENT_BYTES_MAX
from maia.credentials.encoding.parts import LINKED_NAMES_MAX, MEMBERS_MAX, THRESHOLD_DEPTH_MAX
from maia.events import AttributeUid, Instant
from maia.predicates.syntax import ALWAYS, Exists, Not
from maia.testing.refusals import raises
from support.certificates import KEYS

PITO_KEY, CCS_KEY, MET_KEY = KEYS[:3]
PITO, CCS, MET = (key.principal for key in KEYS[:3])
PLATE = AttributeUid("numberplate")
NUMBERPLATE = TypePattern(PITO, parse_name_pattern("uk.gov.pito.Numberplate"), None)
YEAR = Validity(Instant.parse("2026-01-01T00:00:00Z"), Instant.parse("2026-12-31T23:59:59Z"))
GRANT = Authority(NUMBERPLATE, frozenset({Action.PUBLISH, Action.SUBSCRIBE}))
CERTIFICATE = AuthorisationCertificate(PITO, CCS, True, GRANT, YEAR)


def test_the_id_is_the_digest_of_what_was_signed():
    signed = issue(CERTIFICATE, PITO_KEY)
    assert signed.id == sha256(signed.body).digest()
    assert signed.body in certificate_to_bytes(signed)
    assert read_canonical(signed.body) == certificate_to_expression(signed)[1]


def test_a_certificate_can_be_embedded_in_an_expression():
    signed = issue(CERTIFICATE, PITO_KEY)
    assert certificate_from_expression(certificate_to_expression(signed)) == signed


def test_people_can_read_a_certificate_file():
    comment = "for the congestion charge"
    text = certificate_to_text(issue(replace(CERTIFICATE, comment=comment), PITO_KEY))
    assert f"(issuer (ed25519 #{PITO.key.hex()}#))" in text
    assert '(valid (not-before "2026-01-01_00:00:00") (not-after "2026-12-31_23:59:59"))' in text
    assert "(name uk.gov.pito.Numberplate)" in text
    assert "(actions publish subscribe)" in text
    assert f'(comment "{comment}")' in text


def test_only_the_issuer_signs():
    with raises("INPUT-NOT-THE-ISSUER"):
        issue(CERTIFICATE, CCS_KEY)


@pytest.mark.parametrize(
    "subject",
    [
        CCS,
        LocalName(MET, ("Met Brokers",)),
        LocalName(MET, ("a",) * LINKED_NAMES_MAX),
        Threshold(2, (PITO, CCS, MET)),
        Threshold(1, (PITO, Threshold(2, (CCS, MET)), LocalName(MET, ("x",)))),
        Threshold(1, tuple(LocalName(MET, (f"m{n}",)) for n in range(MEMBERS_MAX))),
    ],
)
def test_subjects_are_read_back(subject):
    for certificate in (
        replace(CERTIFICATE, subject=subject),
        NameCertificate(PITO, "Group", subject, UNBOUNDED),
    ):
        signed = issue(certificate, PITO_KEY)
        assert certificate_from_bytes(certificate_to_bytes(signed)) == signed


def nested(depth: int) -> Subject:
    subject: Subject = CCS
    for _ in range(depth):
        subject = Threshold(1, (subject,))
    return subject


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        (Threshold(0, (PITO,)), "decimal"),
        (Threshold(2, (PITO,)), "impossible"),
        (Threshold(-1, (PITO,)), "decimal"),
        (Threshold(1, ()), "decimal"),
        (Threshold(2, (PITO, PITO)), "twice"),
        (Threshold(1, tuple(LocalName(MET, (f"m{n}",)) for n in range(MEMBERS_MAX + 1))), "at most 64"),
        (nested(THRESHOLD_DEPTH_MAX + 1), "deeper than 4"),
        (nested(10_000), "deeper than 4"),
        (LocalName(MET, ()), "1 to 16"),
        (LocalName(MET, ("a",) * (LINKED_NAMES_MAX + 1)), "1 to 16"),
        (LocalName(MET, ("bad*name",)), "not a name"),
    ],
)
def test_impossible_subjects_are_refused(subject, sentence):
    with pytest.raises(BadCertificate, match=sentence):
        issue(replace(CERTIFICATE, subject=subject), PITO_KEY)


def test_thresholds_nest_to_the_limit():
    issue(replace(CERTIFICATE, subject=nested(THRESHOLD_DEPTH_MAX)), PITO_KEY)


@pytest.mark.parametrize(
    "authority",
    [
        Authority(AnyResource(), ALL_ACTIONS),
        Authority(AnyResource(), frozenset({Action.CONNECT, Action.PUBLISH})),
        Authority(NUMBERPLATE, ALL_ACTIONS),
        Authority(NUMBERPLATE, frozenset({Action.EXTEND}), frozenset()),
        Authority(NetworkPattern(PITO, parse_name_pattern("UK Police Network")), frozenset({Action.CONNECT})),
        Authority(NetworkPattern(None, parse_name_pattern("*")), ALL_ACTIONS, condition=Exists(PLATE)),
        Authority(TopicPattern(PITO, parse_name_pattern("/traffic/*")), frozenset({Action.PUBLISH})),
        Authority(
            NUMBERPLATE, frozenset({Action.PUBLISH}), frozenset({PLATE}), Exists(PLATE), Not(Exists(PLATE))
        ),
    ],
)
def test_sensible_grants_are_read_back(authority):
    signed = issue(replace(CERTIFICATE, authority=authority), PITO_KEY)
    assert certificate_from_bytes(certificate_to_bytes(signed)) == signed


@pytest.mark.parametrize(
    ("authority", "sentence"),
    [
        (Authority(NUMBERPLATE, frozenset()), "without actions"),
        (Authority(NUMBERPLATE, frozenset({Action.CONNECT})), "`connect` cannot be done with a type"),
        (
            Authority(NetworkPattern(PITO, parse_name_pattern("n")), frozenset({Action.PUBLISH})),
            "with a network",
        ),
        (
            Authority(TopicPattern(PITO, parse_name_pattern("/")), frozenset({Action.MANAGE_ADD})),
            "with a topic",
        ),
        (Authority(NUMBERPLATE, frozenset({Action.PUBLISH}), frozenset()), "without any attribute"),
        (
            Authority(
                NetworkPattern(PITO, parse_name_pattern("n")), frozenset({Action.CONNECT}), frozenset({PLATE})
            ),
            "no attributes to choose",
        ),
        (
            Authority(NetworkPattern(PITO, parse_name_pattern("n")), ALL_ACTIONS, restriction=Exists(PLATE)),
            "no attributes to choose",
        ),
    ],
)
def test_grants_that_mean_nothing_are_refused(authority, sentence):
    with pytest.raises(BadAuthority, match=sentence):
        issue(replace(CERTIFICATE, authority=authority), PITO_KEY)


@pytest.mark.parametrize(
    "authority",
    [
        Authority(TypePattern(PITO, parse_name_pattern("/a"), None), ALL_ACTIONS),
        Authority(TypePattern(PITO, parse_name_pattern("/a*"), None), ALL_ACTIONS),
        Authority(TypePattern(PITO, parse_name_pattern("a."), None), ALL_ACTIONS),
        Authority(TypePattern(PITO, parse_name_pattern("a"), "1"), ALL_ACTIONS),
        Authority(TypePattern(PITO, NamePattern("a*b"), None), ALL_ACTIONS),
        Authority(TypePattern(PITO, NamePattern(None, "a**"), None), ALL_ACTIONS),
        Authority(TopicPattern(PITO, parse_name_pattern("a")), ALL_ACTIONS),
        Authority(TopicPattern(PITO, parse_name_pattern("/a.b*")), ALL_ACTIONS),
        Authority(NUMBERPLATE, ALL_ACTIONS, frozenset({AttributeUid("Bad Uid")})),
    ],
)
def test_patterns_and_uids_that_no_name_could_match_are_refused(authority):
    with pytest.raises(BadCertificate):
        issue(replace(CERTIFICATE, authority=authority), PITO_KEY)


@pytest.mark.parametrize(
    "comment", ["two\nlines", "\x1b[2J", "\u202ereversed", "\ud800", "\x00", "x" * (COMMENT_BYTES_MAX + 1)]
)
def test_comments_are_one_printable_line(comment):
    with pytest.raises(BadCertificate):
        issue(replace(CERTIFICATE, comment=comment), PITO_KEY)


def test_a_comment_may_be_as_long_as_promised_and_in_any_script():
    for comment in ("x" * COMMENT_BYTES_MAX, "für Ελένη"):
        signed = issue(replace(CERTIFICATE, comment=comment), PITO_KEY)
        assert certificate_from_bytes(certificate_to_bytes(signed)).certificate.comment == comment


def test_validity_has_whole_seconds():
    with pytest.raises(BadValidity, match="fraction"):
        issue(replace(CERTIFICATE, validity=Validity(Instant(1), None)), PITO_KEY)


def test_the_first_and_the_last_second_can_be_written():
    edges = Validity(Instant.parse("0001-01-01T00:00:00Z"), Instant.parse("9999-12-31T23:59:59Z"))
    signed = issue(replace(CERTIFICATE, validity=edges), PITO_KEY)
    assert b"0001-01-01_00:00:00" in signed.body
    assert certificate_from_bytes(certificate_to_bytes(signed)).certificate.validity == edges


def test_terms_that_are_always_true_are_left_out():
    signed = issue(CERTIFICATE, PITO_KEY)
    assert b"restriction" not in signed.body
    tampered = signed.body.replace(b"(10:attributes1:*)", b"(10:attributes1:*)(11:restriction(3:and))")
    with pytest.raises(BadAuthority, match="left out"):
        certificate_from_bytes(certificate_to_bytes(replace(signed, body=tampered)))
    assert CERTIFICATE.authority.restriction == ALWAYS


def test_a_file_is_read_as_strictly_as_bytes():
    text = certificate_to_text(issue(CERTIFICATE, PITO_KEY))
    assert certificate_from_text("\n\n " + text.replace("\n", " ")) == certificate_from_text(text)
    for changed in (text + "more", text.replace("propagate", "propagation"), text[:-3], ""):
        with pytest.raises(BadCertificate):
            certificate_from_text(changed)


def test_an_oversized_certificate_is_refused():
    with pytest.raises(BadCertificate, match="65536"):
        certificate_from_bytes(b"(" + b"1:a" * 30_000 + b")")
    with pytest.raises(BadCertificate, match="deeper"):
        certificate_from_bytes(b"(" * 60_000)
