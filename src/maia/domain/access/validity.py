"""What speaks against a certificate, as this domain sees it?

Of its own certificates a domain knows more than any statement says: its
register is where statements come from. Of other issuers' it knows the
statements that it has received. The policy kernel asks here when the domain decides about its own
administrators, and when the register answers who can do what.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import cast

from maia.credentials import Principal, SignedCertificate
from maia.credentials.appointments import SignedAppointment
from maia.credentials.chains.errors import BrokenChain, shown_id
from maia.credentials.validity.statements import CertificateRevoked
from maia.credentials.validity.validity_state import Once, ValidityState
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import REVOKED
from maia.events import Instant


class DomainTester:
    """The register for certificates that this domain tests, received statements for all others."""

    def __init__(self, tables: Tables, standing: ValidityState, domain: Principal) -> None:
        """Ask `tables` about certificates of `domain`, and `standing` about others."""
        self._tables, self._validity, self._domain = tables, standing, domain

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return what speaks against a certificate at `at`, or None."""
        certificate = signed.certificate
        tests = certificate.validity.tests
        is_ours = self._domain in (certificate.issuer, *(test.by for test in tests))
        if is_ours and self._tables.get(REVOKED, signed.id) is not None:
            return CertificateRevoked(
                f"certificate {shown_id(signed.id)} was revoked here",
                certificate=signed.id,
                field="validity.online",
            )
        # The tests that this domain itself is asked for are left out: its register is the answer.
        others = tuple(test for test in tests if test.by != self._domain)
        if len(others) != len(tests):
            validity = replace(certificate.validity, tests=others)
            signed = replace(signed, certificate=replace(certificate, validity=validity))
        return self._validity.problem_with(signed, at, once=once)

    def problem_with_appointment(self, signed: SignedAppointment, at: Instant) -> BrokenChain | None:
        """Say the same of an appointment or a role membership certificate."""
        # `cast`: what is read (id, issuer, tests) has the same names in both.
        return self.problem_with(cast("SignedCertificate", signed), at)


class RegisterTester:
    """The same, for questions about rights: only a revocation counts against a certificate."""

    def __init__(self, inner: DomainTester, now: Instant) -> None:
        """Ask about what is known `now`, whichever moment the question is about."""
        self._inner, self._now = inner, now

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return that a certificate was revoked, if it was."""
        # Never asked about `at`: a `ValidityState` forgets for good what is over at the moment in question.
        problem = self._inner.problem_with(signed, self._now, once=once)
        return problem if isinstance(problem, CertificateRevoked) else None
