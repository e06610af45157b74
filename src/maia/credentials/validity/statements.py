"""What does an issuer state about the validity of certificates?

An issuer says which of its certificates are revoked, which are still valid,
or what is a fact about whom; each statement has a number, and most have a
period (dissertation 6.2). Domain servers make statements, verifiers receive
them. The bytes of statements are in `encoding/statements.py`; what follows
from them is in `validity/validity_state.py`. A statement that exists is well formed.

Two numberings never mix: lists of what is revoked, with and without a
period, share one; revalidations and facts have one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from maia.credentials.chains.errors import BrokenChain
from maia.credentials.keys import Principal
from maia.credentials.validity.period import Validity
from maia.errors import BrokenCredential, Unavailable
from maia.events import BadAttribute, BadValue, Instant, PresentValue, attribute_uid, checked_value, kind_of

# What can be wrong with a statement on validity, and with a certificate in the light of one?


class BrokenStatement(BrokenCredential):
    """A statement on the validity of certificates is not accepted."""

    code = "STATEMENT"


class BadStatement(BrokenStatement):
    """A statement is not written in the one form that Maia understands in full."""

    code = "STATEMENT-FORMAT"


class StatementOld(BrokenStatement):
    """A newer statement of the same issuer is known: numbers never go back."""

    code = "STATEMENT-OLD"


class StatementTooEarly(BrokenStatement):
    """A statement is about a time too far ahead."""

    code = "STATEMENT-TOO-EARLY"


class StatementOverlap(BrokenStatement):
    """The periods of two statements of one issuer overlap, which leaves open which of them holds."""

    code = "STATEMENT-OVERLAP"


class StatementConflict(BrokenStatement):
    """An issuer has signed two different statements with one number."""

    code = "STATEMENT-CONFLICT"


class AnswerNotAsked(BrokenStatement):
    """A one-time answer is to no open question: it was used before, came too late, or was never asked for."""

    code = "STATEMENT-NOT-ASKED"


class StandingFull(Unavailable):
    """A verifier holds as many statements, or open questions, as it has room for."""

    code = "UNAVAILABLE-STANDING-FULL"


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

StatedFacts: TypeAlias = Mapping[tuple[Principal, str], PresentValue]
"""What is said of whom: by principal and name of the fact."""


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
    # True only where `encoding/statements.py` made the parts of one another.
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
