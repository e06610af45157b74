"""What can be wrong with a statement on validity, and with a certificate in the light of one?

A statement that changes nothing is refused with the first group of errors. A
certificate that fails a test is refused with the second: the issuer of the
certificate can look it up by its id.
"""

from __future__ import annotations

from maia.credentials.chains.errors import BrokenChain
from maia.errors import BrokenCredential, Unavailable

__all__ = [
    "AnswerNotAsked",
    "BadStatement",
    "BrokenStatement",
    "CertificateNotRevalidated",
    "CertificateRevoked",
    "CertificateStale",
    "CertificateTestedOnce",
    "StandingFull",
    "StatementConflict",
    "StatementOld",
    "StatementOverlap",
    "StatementTooEarly",
]


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
