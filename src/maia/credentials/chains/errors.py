"""What can be wrong with a chain of certificates, and which certificate is to blame?

Verifier, reducer and search raise these. Each names the certificate by the
first twelve digits of its id, and the field that failed, so that its issuer
can find it. The sentences are for the owner of the certificates: a broker
that answers a stranger decides for itself how much of them to pass on.
"""

from __future__ import annotations

from typing import Final

from maia.errors import BadInput, BrokenCredential

SHOWN_DIGITS: Final = 12


def shown_id(identifier: bytes) -> str:
    """Return an id as people quote it: its first twelve hexadecimal digits, in backticks."""
    return f"`{identifier.hex()[:SHOWN_DIGITS]}`"


class BrokenChain(BrokenCredential):
    """Some certificates do not add up to a chain; `certificate` and `field` say where."""

    code = "CREDENTIAL-CHAIN"

    def __init__(self, sentence: str, *, certificate: bytes | None = None, field: str | None = None) -> None:
        """Keep the id of the certificate to blame and its field, where there is one."""
        self.certificate = certificate
        self.field = field
        super().__init__(sentence)

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields; the id in full."""
        record = super().as_record()
        if self.certificate is not None:
            record["certificate"] = self.certificate.hex()
        if self.field is not None:
            record["field"] = self.field
        return record


class ChainGap(BrokenChain):
    """The issuer of a certificate is not the subject of the one before."""

    code = "CREDENTIAL-CHAIN-GAP"


class NotDelegable(BrokenChain):
    """A subject passed on what it was not allowed to pass on."""

    code = "CREDENTIAL-NOT-DELEGABLE"


class NothingInCommon(BrokenChain):
    """The authorities of a chain have nothing in common."""

    code = "CREDENTIAL-NO-AUTHORITY"


class ValiditiesDisjoint(BrokenChain):
    """The validity periods of a chain have no moment in common."""

    code = "CREDENTIAL-VALIDITY-DISJOINT"


class CertificateExpired(BrokenChain):
    """A certificate was valid once, and is no more."""

    code = "CREDENTIAL-EXPIRED"


class CertificateNotYetValid(BrokenChain):
    """A certificate will be valid, and is not yet."""

    code = "CREDENTIAL-NOT-YET-VALID"


class WrongRoot(BrokenChain):
    """A chain does not begin at the owner of the resource."""

    code = "CREDENTIAL-WRONG-ROOT"


class LoopNotClosed(BrokenChain):
    """A chain does not end at the principal who proved its key."""

    code = "CREDENTIAL-WRONG-SUBJECT"


class NotOwnedByRoot(BrokenChain):
    """An owner granted rights on resources that belong to another owner."""

    code = "CREDENTIAL-NOT-OWNER"


class DuplicateCertificate(BrokenChain):
    """A certificate was given twice."""

    code = "CREDENTIAL-DUPLICATE"


class SuperfluousCertificate(BrokenChain):
    """A certificate plays no part in the chain it was given with."""

    code = "CREDENTIAL-SUPERFLUOUS"


class ChainTooLong(BrokenChain):
    """A chain has more certificates than a verifier reads."""

    code = "CREDENTIAL-CHAIN-LENGTH"


class NameUnresolved(BrokenChain):
    """No name certificate leads from a local name to the principal that was needed."""

    code = "CREDENTIAL-NAME-UNRESOLVED"


class QuorumNotReached(BrokenChain):
    """Fewer members of a threshold agreed than it asks for."""

    code = "CREDENTIAL-QUORUM"


class UnknownQuorum(BrokenChain):
    """A chain is rooted at a quorum whose constitution was not shown."""

    code = "CREDENTIAL-QUORUM-UNKNOWN"


class SearchTooLarge(BrokenChain):
    """A search for a chain reached its limit before it found one."""

    code = "CREDENTIAL-SEARCH-LIMIT"


class NoChain(BrokenChain):
    """The certificates at hand hold no chain for the request."""

    code = "CREDENTIAL-NO-CHAIN"


class BadThreshold(BadInput):
    """A threshold requires too many, counts a principal twice, or nests too deeply."""

    code = "INPUT-THRESHOLD"


class BadQuorum(BrokenCredential):
    """A constitution, or a change of one, is not written as it must be."""

    code = "CREDENTIAL-CONSTITUTION"


class BrokenSuccession(BrokenCredential):
    """A change of constitution does not follow from the one before."""

    code = "CREDENTIAL-SUCCESSION"


class StaleConstitution(BrokenCredential):
    """A constitution is older than one that this verifier already knows."""

    code = "CREDENTIAL-CONSTITUTION-STALE"
