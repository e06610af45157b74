"""A certificate has one form, and a mistake in it is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import (
    ALL_ACTIONS,
    Action,
    AuthorisationCertificate,
    Authority,
    BadAuthority,
    BadCertificate,
    BadValidity,
    LocalName,
    NamePattern,
    NetworkPattern,
    Subject,
    Threshold,
    TopicPattern,
    TypePattern,
    Validity,
    certificate_from_bytes,
    certificate_from_text,
    certificate_to_bytes,
    certificate_to_text,
    issue,
    parse_name_pattern,
)
from maia.credentials.encoding.certificates import COMMENT_BYTES_MAX
from maia.credentials.encoding.parts import LINKED_NAMES_MAX, MEMBERS_MAX, THRESHOLD_DEPTH_MAX
from maia.events import AttributeUid, Instant
from maia.predicates.syntax import ALWAYS, Exists
from maia.testing.refusals import raises
from support.certificates import KEYS

PITO_KEY, CCS_KEY, MET_KEY = KEYS[:3]
PITO, CCS, MET = (key.principal for key in KEYS[:3])
PLATE = AttributeUid("numberplate")
NUMBERPLATE = TypePattern(PITO, parse_name_pattern("uk.gov.pito.Numberplate"), None)
YEAR = Validity(Instant.parse("2026-01-01T00:00:00Z"), Instant.parse("2026-12-31T23:59:59Z"))
GRANT = Authority(NUMBERPLATE, frozenset({Action.PUBLISH, Action.SUBSCRIBE}))
CERTIFICATE = AuthorisationCertificate(PITO, CCS, True, GRANT, YEAR)


def test_only_the_issuer_signs():
    with raises("INPUT-NOT-THE-ISSUER"):
        issue(CERTIFICATE, CCS_KEY)


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
