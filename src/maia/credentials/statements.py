"""What does an issuer state about the validity of certificates?

An issuer says which of its certificates are revoked, which are still valid,
or what is a fact about whom; each statement has a number, and most have a
period (dissertation 6.2). Domain servers make statements, verifiers receive
them; what follows from them is in `validity/monitor.py`. A statement that
exists is well formed.

Two numberings never mix: lists of what is revoked, with and without a
period, share one; revalidations and facts have one each.

The bytes of a statement:

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final, TypeAlias

from maia.canonical import Limits, SExpression
from maia.canonical.fields import (
    Field,
    Part,
    bare,
    choice,
    each,
    fields,
    many,
    number,
    octets,
    one,
    record,
    rest,
)
from maia.credentials.certificate import Validity
from maia.credentials.chains.reduction import BrokenChain
from maia.credentials.documents import KEY, Document, dates
from maia.credentials.keys import BadSignature, Principal, SignedKind, SigningKey, verify_signature
from maia.errors import BadInput, BrokenCredential
from maia.events import (
    AttributeUid,
    BadAttribute,
    BadValue,
    Instant,
    PresentValue,
    attribute_uid,
    checked_value,
    kind_of,
)
from maia.predicates.encoding import predicate_from_expression, predicate_to_expression
from maia.predicates.syntax import Comparison, Operator

# Errors of statements, and of certificates in the light of one.


class BrokenStatement(BrokenCredential):
    """A statement on the validity of certificates is not accepted."""

    code = "STATEMENT"


class BadStatement(BrokenStatement):
    """A statement is not written in the one form that Maia understands in full."""

    code = "STATEMENT-FORMAT"


class StatementOld(BrokenStatement):
    """A newer statement of the same issuer is known: numbers never go back."""

    code = "STATEMENT-OLD"


class CertificateRevoked(BrokenChain):
    """The issuer of a certificate, or its tester, has revoked it."""

    code = "CREDENTIAL-REVOKED"


class CertificateStale(BrokenChain):
    """A certificate demands a statement that holds at this moment, and there is none at hand."""

    code = "CREDENTIAL-STALE"


class CertificateNotRevalidated(BrokenChain):
    """The statement that would have to name a certificate as still valid does not name it."""

    code = "CREDENTIAL-NOT-REVALIDATED"


class CertificateTestedOnce(BrokenChain):
    """A certificate must be asked about anew for each request, and was not for this one."""

    code = "CREDENTIAL-ONE-TIME"


ID_BYTES: Final = 32
NONCE_BYTES: Final = 32
IDS_MAX: Final = 20_000
FACTS_MAX: Final = 4096
SEQUENCE_MAX: Final = 2**63 - 1
PERIOD_MAX: Final = 31 * 24 * 3600 * 1_000_000
"""How many microseconds one statement may hold: a slip of the pen must not silence an issuer for years."""

About: TypeAlias = tuple[Principal | None, str]
"""Of whom something is said, and the name of the fact; None where it is about no principal."""
StatedFacts: TypeAlias = Mapping[About, PresentValue]
"""What is said of whom."""


@dataclass(frozen=True, slots=True)
class AuditHead:
    """How long an issuer's audit log was, and the digest of its chain, when a statement was made."""

    length: int
    digest: bytes

    def __post_init__(self) -> None:
        """Refuse what is no length or no digest."""
        if not 0 <= self.length <= SEQUENCE_MAX or len(self.digest) != ID_BYTES:
            raise BadStatement(f"an audit head is a length and a digest of {ID_BYTES} bytes")


@dataclass(frozen=True, slots=True)
class RevocationList:
    """`by` has revoked `revoked`, and nothing else that still matters.

    With a period it is a timed list: certificates that demand one are valid
    only while one holds. Without, it replaces the list before at once and
    says nothing about time.
    """

    by: Principal
    sequence: int
    period: Validity | None
    revoked: frozenset[bytes] = field(repr=False)
    audit: AuditHead | None = None

    def __post_init__(self) -> None:
        """Refuse what no verifier could use."""
        _check_sequence(self.sequence)
        if self.period is not None:
            _check_period(self.period)
        _check_ids(self.revoked)


@dataclass(frozen=True, slots=True)
class Revalidation:
    """During `period`, `by` confirms the certificates in `valid` and no others."""

    by: Principal
    sequence: int
    period: Validity
    valid: frozenset[bytes] = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what no verifier could use."""
        _check_sequence(self.sequence)
        _check_period(self.period)
        _check_ids(self.valid)


@dataclass(frozen=True, slots=True)
class FactList:
    """During `period`, `by` says that these facts hold, and knows of no others."""

    by: Principal
    sequence: int
    period: Validity
    facts: StatedFacts = field(repr=False, hash=False)

    def __post_init__(self) -> None:
        """Refuse what no verifier could use."""
        _check_sequence(self.sequence)
        _check_period(self.period)
        if len(self.facts) > FACTS_MAX:
            raise BadStatement(f"a statement has at most {FACTS_MAX} facts")
        checked = {(about, name): _checked_fact(name, value) for (about, name), value in self.facts.items()}
        object.__setattr__(self, "facts", MappingProxyType(checked))


@dataclass(frozen=True, slots=True)
class OneTimeAnswer:
    """`by` confirms one certificate, for one request, to the one verifier that drew `nonce`."""

    by: Principal
    certificate: bytes
    request: bytes
    nonce: bytes

    def __post_init__(self) -> None:
        """Refuse what answers no question."""
        if len(self.certificate) != ID_BYTES or len(self.request) != ID_BYTES:
            raise BadStatement(f"a certificate and a request are named by {ID_BYTES} bytes each")
        if len(self.nonce) != NONCE_BYTES:
            raise BadStatement(f"a nonce has {NONCE_BYTES} bytes")


Statement: TypeAlias = RevocationList | Revalidation | FactList | OneTimeAnswer


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """A statement, the exact bytes that were signed, and the signature; not yet verified."""

    statement: Statement
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    id: bytes
    # True only where `sign_statement` or `statement_from_bytes` made the parts of one another.
    is_as_signed: bool = field(default=False, init=False, repr=False, compare=False)


def period_from(start: Instant, *, microseconds: int) -> Validity:
    """Return the period of so many microseconds that begins at `start`.

    The next one begins at `start + microseconds`: no moment lies in both, and none between.
    """
    return Validity(start, Instant(start + microseconds - 1))


def _check_sequence(sequence: int) -> None:
    if not 1 <= sequence <= SEQUENCE_MAX:
        raise BadStatement("statements are numbered from 1 on")


def _check_period(period: Validity) -> None:
    start, end = period.not_before, period.not_after
    if start is None or end is None or period.tests:
        raise BadStatement("the period of a statement has two bounds and no tests")
    if end < start:
        raise BadStatement(f"the period of a statement ends ({end}) before it begins ({start})")
    if end - start >= PERIOD_MAX:
        raise BadStatement("the period of a statement is longer than 31 days")


def _check_ids(ids: frozenset[bytes]) -> None:
    if len(ids) > IDS_MAX:
        raise BadStatement(f"a statement names at most {IDS_MAX} certificates")
    if any(len(identifier) != ID_BYTES for identifier in ids):
        raise BadStatement(f"a certificate is named by {ID_BYTES} bytes")


def _checked_fact(name: str, value: PresentValue) -> PresentValue:
    try:
        attribute_uid(name)
        checked = checked_value(value, kind_of(value))
    except (BadAttribute, BadValue) as problem:
        raise BadStatement(f"a fact cannot be stated: {problem.message}") from problem
    assert checked is not None  # noqa: S101 - `kind_of` has refused null
    return checked


STATEMENT_BYTES_MAX: Final = 1 << 20
"""No more than one attribute of an event can carry."""


def _as_signed(statement: Statement, body: bytes, signature: bytes) -> SignedStatement:
    signed = SignedStatement(statement, body, signature, sha256(body).digest())
    object.__setattr__(signed, "is_as_signed", True)
    return signed


def _read_ids(string: SExpression) -> frozenset[bytes]:
    if not isinstance(string, bytes) or len(string) % ID_BYTES:
        raise BadStatement(f"certificates are named by {ID_BYTES} bytes each, in one string")
    # In any other order, or with one of them twice, the body would not be written again as it was read.
    return frozenset(string[at : at + ID_BYTES] for at in range(0, len(string), ID_BYTES))


_Fact: TypeAlias = tuple[About, PresentValue]


def _write_fact(fact: _Fact) -> SExpression:
    (about, name), value = fact
    said = predicate_to_expression(Comparison(AttributeUid(name), Operator.EQ, value))
    return (b"fact", said) if about is None else (b"fact", KEY.write(about), said)


def _in_order(about: About) -> tuple[bytes, str]:
    return (b"" if about[0] is None else about[0].key, about[1])


def _read_fact(expression: SExpression) -> _Fact:
    match expression:
        case (b"fact", *about, said) if len(about) <= 1:
            comparison = predicate_from_expression(said)
            if isinstance(comparison, Comparison) and comparison.operator is Operator.EQ:
                return (KEY.read(about[0]) if about else None, comparison.uid), comparison.literal
    raise BadStatement("a fact must be written `(fact KEY? (== NAME (KIND LITERAL)))`")


_WRONG: Final = (BadStatement, "a field of the statement is missing, unknown, repeated or out of order")
_COUNTED: Final = number(
    0,
    10**19 - 1,
    (BadStatement, "a number must be decimal, without leading zeros, and of at most 19 digits"),
)
_OCTETS: Final = one(octets(0, STATEMENT_BYTES_MAX, _WRONG))
_IDS: Final = one(Part[frozenset[bytes]](lambda ids: b"".join(sorted(ids)), _read_ids))
_BOUND: Final = one(dates(BadStatement, "a moment such as `2026-11-15_08:30:00.000000`", is_fine=True))
_PERIOD: Final = fields(
    Validity,
    (BadStatement, "a period must be written `(period (not-before …) (not-after …))`"),
    not_before=_BOUND,
    not_after=_BOUND,
)
_AUDIT: Final = fields(AuditHead, _WRONG, length=bare(_COUNTED), digest=bare(_OCTETS.part))
_FACTS: Final = each(
    Part(_write_fact, _read_fact), FACTS_MAX, (BadStatement, f"a statement has at most {FACTS_MAX} facts")
)
_ALL_FACTS: Final = Part[StatedFacts](
    lambda facts: _FACTS.write(tuple((key, facts[key]) for key in sorted(facts, key=_in_order))),
    lambda items: dict(_FACTS.read(items)),
)


def _statement(word: bytes, make: Callable[..., Statement], **declared: Field) -> Part[Statement]:
    return record(word, make, _WRONG, version_of="statement format", by=one(KEY), **declared)


STATEMENT: Final = Document[Statement, SignedStatement](
    choice(
        (BadStatement, "a statement must begin `(KIND (version 1) (by KEY)`"),
        {
            RevocationList: _statement(
                b"revocation-list",
                RevocationList,
                sequence=one(_COUNTED),
                period=many(_PERIOD, left_out=None),
                revoked=_IDS,
                audit=many(_AUDIT, left_out=None),
            ),
            Revalidation: _statement(
                b"revalidation", Revalidation, sequence=one(_COUNTED), period=many(_PERIOD), valid=_IDS
            ),
            FactList: _statement(
                b"fact-list", FactList, sequence=one(_COUNTED), period=many(_PERIOD), facts=rest(_ALL_FACTS)
            ),
            OneTimeAnswer: _statement(
                b"one-time-answer", OneTimeAnswer, certificate=_OCTETS, request=_OCTETS, nonce=_OCTETS
            ),
        },
    ),
    "statement",
    BadStatement,
    Limits(size_max=STATEMENT_BYTES_MAX, depth_max=8, atom_max=IDS_MAX * ID_BYTES),
    lambda said: (
        SignedKind.ONE_TIME_ANSWER if isinstance(said, OneTimeAnswer) else SignedKind.VALIDITY_STATEMENT
    ),
    _as_signed,
    wraps=(BadInput, BrokenCredential),
)

statement_to_bytes = STATEMENT.to_bytes
statement_from_bytes = STATEMENT.from_bytes


def sign_statement(statement: Statement, key: SigningKey) -> SignedStatement:
    """Sign a statement with the key of whom it is by; refuse one that could not be read back."""
    return STATEMENT.sign(statement, key, by=statement.by)


def check_statement(signed: SignedStatement) -> None:
    """Return if whom the statement is by signed the very bytes that say what `statement` says."""
    statement = signed.statement
    if not signed.is_as_signed and (
        STATEMENT.body(statement) != signed.body or sha256(signed.body).digest() != signed.id
    ):
        raise BadSignature("the statement does not say what was signed")
    verify_signature(statement.by, STATEMENT.kind(statement), signed.body, signed.signature)
