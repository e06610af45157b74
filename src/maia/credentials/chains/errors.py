"""What can be wrong with a chain of certificates, and which certificate is to blame?

Verifier, reducer and search raise these. Each names the certificate by the
first twelve digits of its id, and the field that failed, so that its issuer
can find it. The sentences are for the owner of the certificates: a broker
that answers a stranger decides for itself how much of them to pass on.

How much work may one question about certificates cause?

Verifiers search on behalf of others, and strangers ask too. A budget counts
what a search does: steps, weighed by the size of the terms that a step
compares, and signature checks. It never counts time, so a verdict is the same
on a busy machine (A80). All searches for one answer share one budget, and a
signature that was found bad is not checked again for the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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


TERMS_PER_STEP: Final = 4
"""Comparing so many parts of restrictions, conditions or attribute lists costs about as much as a step."""
BYTES_PER_STEP: Final = 16
"""Reading so many bytes of a peer costs about as much as a step."""
STEPS_PER_CHECK: Final = 16
"""A signature check costs about as much as so many steps."""


@dataclass(slots=True)
class Budget:
    """What is left of the steps and signature checks for one answer, and how much of them was used."""

    steps: int
    checks: int = 0
    used: int = 0
    """Steps, a signature check counted as `STEPS_PER_CHECK` of them."""
    refused: set[tuple[bytes, bytes]] = field(default_factory=set, repr=False)
    """Certificates whose signature was found bad, by id and signature."""
    meter: Budget | None = field(default=None, repr=False)
    """Another budget that counts, in its `used`, what this one and others use."""

    @classmethod
    def of(cls, work: int, meter: Budget | None = None) -> Budget:
        """Return a budget of so many steps, and of as many signature checks as would cost the same."""
        return cls(work, work // STEPS_PER_CHECK, meter=meter)

    def spend(self, steps: int = 1, *, terms: int = 0) -> None:
        """Take some steps, which compare so many parts of terms, or stop the search."""
        price = steps + terms // TERMS_PER_STEP
        self._count(price)
        self.steps -= price
        if self.steps < 0:
            raise SearchTooLarge("the search for a chain reached its limit of steps; give fewer certificates")

    def spend_reading(self, size: int) -> None:
        """Take as many steps as it costs to read so many bytes, or stop."""
        self.spend(size // BYTES_PER_STEP)

    def spend_check(self) -> None:
        """Take one signature check, or stop the search."""
        self._count(STEPS_PER_CHECK)
        self.checks -= 1
        if self.checks < 0:
            raise SearchTooLarge(
                "the search for a chain reached its limit of signature checks; give fewer certificates"
            )

    @contextmanager
    def all_but(self, share: int) -> Iterator[Budget]:
        """Lend all but a half, a third … to a search that may use it up; what it leaves comes back."""
        kept = self.steps // share, self.checks // share
        part = Budget(self.steps - kept[0], self.checks - kept[1], refused=self.refused, meter=self.meter)
        self.steps, self.checks = self.steps - part.steps, self.checks - part.checks
        try:
            yield part
        finally:
            self.steps, self.checks = self.steps + max(0, part.steps), self.checks + max(0, part.checks)
            self.used += part.used

    def _count(self, price: int) -> None:
        self.used += price
        if self.meter is not None:
            self.meter.used += price
