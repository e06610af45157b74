"""Which bytes is a statement on validity, and which statement are these bytes?

    (signed
      (revocation-list (version 1) (by KEY) (sequence N) PERIOD? (revoked IDS) (audit N DIGEST)?)
      (signature ed25519 BYTES))

    (revalidation (version 1) (by KEY) (sequence N) PERIOD (valid IDS))
    (fact-list (version 1) (by KEY) (sequence N) PERIOD (fact KEY (== NAME (KIND LITERAL)))*)
    (one-time-answer (version 1) (by KEY) (certificate ID) (request DIGEST) (nonce BYTES))

    PERIOD is (period (not-before 2026-11-15_08:30:00.000000) (not-after 2026-11-15_08:30:29.999999))

Both bounds of a period are included, in microseconds, so that one period can
begin right where another ended. IDS is one string: 32 bytes for each
certificate, ascending. Every statement has one form, and anything else is
refused. Reading checks the form only; `check_statement` checks the signature.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from maia.canonical import Limits, SExpression, read_canonical, write_canonical
from maia.credentials.encoding.authority import principal_from_expression, principal_to_expression
from maia.credentials.encoding.certificates import NotTheIssuer
from maia.credentials.encoding.signed_documents import document_from_expression, document_to_bytes
from maia.credentials.keys import (
    SIGNATURE_BYTES,
    BadSignature,
    Principal,
    SignedKind,
    SigningKey,
    verify_signature,
)
from maia.credentials.validity.period import Validity
from maia.credentials.validity.statements import (
    FACTS_MAX,
    ID_BYTES,
    IDS_MAX,
    AuditHead,
    BadStatement,
    FactList,
    OneTimeAnswer,
    Revalidation,
    RevocationList,
    SignedStatement,
    Statement,
)
from maia.errors import BadInput, BrokenCredential
from maia.events import AttributeUid, Instant, PresentValue
from maia.predicates.encoding import predicate_from_expression, predicate_to_expression
from maia.predicates.syntax import Comparison, Operator

STATEMENT_BYTES_MAX: Final = 1 << 20
"""No more than one attribute of an event can carry."""

_LIMITS: Final = Limits(size_max=STATEMENT_BYTES_MAX, depth_max=8, atom_max=IDS_MAX * ID_BYTES)
_VERSION: Final = (b"version", b"1")
_NUMBER: Final = re.compile(rb"0|[1-9][0-9]{0,18}")
_MOMENT: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]{6})")


def sign_statement(statement: Statement, key: SigningKey) -> SignedStatement:
    """Sign a statement with the key of whom it is by; refuse one that could not be read back."""
    if key.principal != statement.by:
        raise NotTheIssuer(f"the statement is by `{statement.by}`, and the key is `{key.principal}`")
    body = _body(statement)
    if len(document_to_bytes(body, bytes(SIGNATURE_BYTES))) > STATEMENT_BYTES_MAX:
        raise BadStatement(f"a statement has at most {STATEMENT_BYTES_MAX} bytes")
    if _body(_from_expression(read_canonical(body, _LIMITS))) != body:
        raise BadStatement("the statement would not be read back as it was meant")
    return _as_signed(statement, body, key.sign(_kind(statement), body))


def statement_to_bytes(signed: SignedStatement) -> bytes:
    """Return the bytes in which a signed statement travels."""
    return document_to_bytes(signed.body, signed.signature)


def statement_from_bytes(data: bytes) -> SignedStatement:
    """Read a signed statement, strictly. Its signature is not verified here."""
    try:
        content, body, signature = document_from_expression(read_canonical(data, _LIMITS))
        statement = _from_expression(content)
    except BadStatement:
        raise
    except (BadInput, BrokenCredential) as problem:
        raise BadStatement(f"the statement cannot be read: {problem.message}") from problem
    if _body(statement) != body:
        raise BadStatement("the statement is not written in its one canonical form")
    return _as_signed(statement, body, signature)


def check_statement(signed: SignedStatement) -> None:
    """Return if whom the statement is by signed the very bytes that say what `statement` says."""
    statement = signed.statement
    if not signed.is_as_signed and (
        _body(statement) != signed.body or sha256(signed.body).digest() != signed.id
    ):
        raise BadSignature("the statement does not say what was signed")
    verify_signature(statement.by, _kind(statement), signed.body, signed.signature)


def moment_to_bytes(moment: Instant) -> bytes:
    """Write an instant as a date with microseconds."""
    date = moment.to_datetime().replace(tzinfo=None)
    return date.isoformat(sep="_", timespec="microseconds").encode("ascii")


def moment_from_bytes(date: bytes) -> Instant:
    """Read a date in exactly that form."""
    found = _MOMENT.fullmatch(date)
    shown = date[:64].decode("ascii", "backslashreplace")
    if not found:
        raise BadStatement(f"`{shown}` is not a moment such as `2026-11-15_08:30:00.000000`")
    try:
        year, month, day, hour, minute, second, fraction = map(int, found.groups())
        return Instant.from_datetime(datetime(year, month, day, hour, minute, second, fraction, tzinfo=UTC))
    except ValueError:
        raise BadStatement(f"`{shown}` is a moment that does not exist") from None


def _kind(statement: Statement) -> SignedKind:
    if isinstance(statement, OneTimeAnswer):
        return SignedKind.ONE_TIME_ANSWER
    return SignedKind.VALIDITY_STATEMENT


def _as_signed(statement: Statement, body: bytes, signature: bytes) -> SignedStatement:
    signed = SignedStatement(statement, body, signature, sha256(body).digest())
    object.__setattr__(signed, "is_as_signed", True)
    return signed


# ---------------------------------------------------------------- writing


def _body(statement: Statement) -> bytes:
    return write_canonical(_to_expression(statement))


def _to_expression(statement: Statement) -> SExpression:
    by = (b"by", principal_to_expression(statement.by))
    if isinstance(statement, OneTimeAnswer):
        certificate, request = (b"certificate", statement.certificate), (b"request", statement.request)
        return (b"one-time-answer", _VERSION, by, certificate, request, (b"nonce", statement.nonce))
    sequence = (b"sequence", b"%d" % statement.sequence)
    period = () if statement.period is None else (_period_to_expression(statement.period),)
    match statement:
        case RevocationList(revoked=revoked, audit=audit):
            ids = (b"revoked", b"".join(sorted(revoked)))
            head = () if audit is None else ((b"audit", b"%d" % audit.length, audit.digest),)
            return (b"revocation-list", _VERSION, by, sequence, *period, ids, *head)
        case Revalidation(valid=valid):
            ids = (b"valid", b"".join(sorted(valid)))
            return (b"revalidation", _VERSION, by, sequence, *period, ids)
        case FactList(facts=facts):
            listed = (_fact_to_expression(about, name, facts[about, name]) for about, name in sorted(facts))
            return (b"fact-list", _VERSION, by, sequence, *period, *listed)


def _period_to_expression(period: Validity) -> SExpression:
    assert period.not_before is not None  # noqa: S101 - no statement exists without both
    assert period.not_after is not None  # noqa: S101 - no statement exists without both
    return (
        b"period",
        (b"not-before", moment_to_bytes(period.not_before)),
        (b"not-after", moment_to_bytes(period.not_after)),
    )


def _fact_to_expression(about: Principal, name: str, value: PresentValue) -> SExpression:
    said = predicate_to_expression(Comparison(AttributeUid(name), Operator.EQ, value))
    return (b"fact", principal_to_expression(about), said)


# ---------------------------------------------------------------- reading


def _from_expression(expression: SExpression) -> Statement:
    match expression:
        case (bytes(kind), (b"version", b"1"), (b"by", by), *fields):
            return _statement(kind, principal_from_expression(by), fields)
        case (bytes(), (b"version", bytes(version)), *_) if version != b"1":
            shown = version[:64].decode("ascii", "backslashreplace")
            raise BadStatement(f"version `{shown}` of the statement format is unknown")
    raise BadStatement("a statement must begin `(KIND (version 1) (by KEY)`")


def _statement(kind: bytes, by: Principal, fields: list[SExpression]) -> Statement:
    match (kind, *fields):
        case (b"revocation-list", (b"sequence", number), (b"revoked", ids), *rest):
            return RevocationList(by, _number(number), None, _ids(ids), _audit(rest))
        case (b"revocation-list", (b"sequence", number), (b"period", *bounds), (b"revoked", ids), *rest):
            return RevocationList(by, _number(number), _period(bounds), _ids(ids), _audit(rest))
        case (b"revalidation", (b"sequence", number), (b"period", *bounds), (b"valid", ids)):
            return Revalidation(by, _number(number), _period(bounds), _ids(ids))
        case (b"fact-list", (b"sequence", number), (b"period", *bounds), *listed):
            if len(listed) > FACTS_MAX:
                raise BadStatement(f"a statement has at most {FACTS_MAX} facts")
            return FactList(by, _number(number), _period(bounds), dict(map(_fact, listed)))
        case (
            b"one-time-answer",
            (b"certificate", bytes(certificate)),
            (b"request", bytes(request)),
            (b"nonce", bytes(nonce)),
        ):
            return OneTimeAnswer(by, certificate, request, nonce)
    raise BadStatement("a field of the statement is missing, unknown, repeated or out of order")


def _number(expression: SExpression) -> int:
    if not isinstance(expression, bytes) or not _NUMBER.fullmatch(expression):
        raise BadStatement("a number must be decimal, without leading zeros, and of at most 19 digits")
    return int(expression)


def _period(bounds: list[SExpression]) -> Validity:
    match bounds:
        case [(b"not-before", bytes(start)), (b"not-after", bytes(end))]:
            return Validity(moment_from_bytes(start), moment_from_bytes(end))
    raise BadStatement("a period must be written `(period (not-before …) (not-after …))`")


def _ids(expression: SExpression) -> frozenset[bytes]:
    if not isinstance(expression, bytes) or len(expression) % ID_BYTES:
        raise BadStatement(f"certificates are named by {ID_BYTES} bytes each, in one string")
    listed = [expression[at : at + ID_BYTES] for at in range(0, len(expression), ID_BYTES)]
    # In any other order, or with one of them twice, the body would not be written again as it was read.
    return frozenset(listed)


def _audit(fields: list[SExpression]) -> AuditHead | None:
    match fields:
        case []:
            return None
        case [(b"audit", length, bytes(digest))]:
            return AuditHead(_number(length), digest)
    raise BadStatement("after the certificates a list has one `audit` or nothing")


def _fact(expression: SExpression) -> tuple[tuple[Principal, str], PresentValue]:
    match expression:
        case (b"fact", about, said):
            comparison = predicate_from_expression(said)
            if isinstance(comparison, Comparison) and comparison.operator is Operator.EQ:
                return (principal_from_expression(about), comparison.uid), comparison.literal
    raise BadStatement("a fact must be written `(fact KEY (== NAME (KIND LITERAL)))`")
