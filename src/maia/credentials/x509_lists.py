"""Do the revocation lists of X.509 authorities say that a certificate is still good?

Where lists are given, each certificate below the trusted authority needs one of its issuer that is in force
and speaks of it (RFC 5280 6.3.3). A list that is out of date, from the future, or about other certificates
says nothing, and a certificate of which nothing is said is refused. What a list names is revoked, whatever
else is wrong with the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from maia.errors import BrokenCredential
from maia.events import SECOND, Instant

_SKEW_S: Final = 300
_UNDERSTOOD: Final = (
    x509.CRLNumber,
    x509.AuthorityKeyIdentifier,
    x509.IssuerAlternativeName,
    x509.FreshestCRL,
)


def check_not_revoked(
    path: Sequence[x509.Certificate], lists: Sequence[x509.CertificateRevocationList], now: Instant
) -> None:
    """Raise if a certificate of a path, subject first, is revoked, or if no list says that it is not."""
    for certificate, issuer in pairwise(path):
        name, problem = issuer.subject.rfc4514_string(), "is missing: fetch it"
        is_good = not lists
        for listed in lists:
            if not _is_of(listed, issuer):
                continue
            if _names(listed, certificate, issuer):
                raise _broken(f"`{name}` has revoked the certificate")
            wrong = _problem(listed, certificate, now)
            is_good, problem = is_good or wrong is None, wrong or problem
        if not is_good:
            of = certificate.subject.rfc4514_string()
            raise _broken(f"the revocation list of `{name}` for `{of}` {problem}")


def _is_of(listed: x509.CertificateRevocationList, issuer: x509.Certificate) -> bool:
    """Return whether an issuer has signed a list, and may sign lists; another may have its name."""
    key = issuer.public_key()
    if listed.issuer != issuer.subject or not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        return False
    for extension in issuer.extensions:
        match extension.value:
            case x509.KeyUsage(crl_sign=False):
                return False
            case _:
                pass
    return listed.is_signature_valid(key)


def _names(
    listed: x509.CertificateRevocationList, certificate: x509.Certificate, issuer: x509.Certificate
) -> bool:
    """Return whether a list names a certificate; an indirect one also names those of other issuers."""
    scope = _scope(listed)
    if scope is None or not scope.indirect_crl:
        return listed.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
    of = [issuer.subject]
    for entry in listed:
        for extension in entry.extensions:
            match extension.value:
                case x509.CertificateIssuer() as said:
                    of = said.get_values_for_type(x509.DirectoryName)  # until another entry says otherwise
                case _:
                    pass
        if entry.serial_number == certificate.serial_number and issuer.subject in of:
            return True
    return False


def _problem(
    listed: x509.CertificateRevocationList, certificate: x509.Certificate, now: Instant
) -> str | None:
    """Return why a list cannot say that a certificate is good; None if it can."""
    if listed.next_update_utc is None:
        return "does not say until when it holds"
    if Instant.from_datetime(listed.next_update_utc) < now:
        return "is out of date: fetch a new one"
    if Instant.from_datetime(listed.last_update_utc) > now + _SKEW_S * SECOND:
        return "is dated in the future: compare the clocks"
    for extension in listed.extensions:
        match extension.value:
            case x509.IssuingDistributionPoint() as scope if not _speaks_of(scope, certificate):
                return "is about other certificates: fetch the one that it has for this one"
            case x509.DeltaCRLIndicator():
                return "holds only what has changed: fetch the whole list"
            case value if extension.critical and not isinstance(
                value, (*_UNDERSTOOD, x509.IssuingDistributionPoint)
            ):
                return "has a critical extension that is not understood here"
            case _:
                pass
    return None


def _speaks_of(scope: x509.IssuingDistributionPoint, certificate: x509.Certificate) -> bool:
    is_authority, points = False, list[x509.GeneralName]()
    for extension in certificate.extensions:
        match extension.value:
            case x509.BasicConstraints() as basic:
                is_authority = basic.ca
            case x509.CRLDistributionPoints() as given:
                points = [name for point in given for name in point.full_name or ()]
            case _:
                pass
    return not (
        scope.only_contains_attribute_certs
        or scope.only_some_reasons is not None
        or scope.relative_name is not None
        or (scope.only_contains_ca_certs and not is_authority)
        or (scope.only_contains_user_certs and is_authority)
        or (scope.full_name is not None and not any(one in points for one in scope.full_name))
    )


def _scope(listed: x509.CertificateRevocationList) -> x509.IssuingDistributionPoint | None:
    try:
        return listed.extensions.get_extension_for_class(x509.IssuingDistributionPoint).value
    except x509.ExtensionNotFound:
        return None


def _broken(sentence: str) -> BrokenCredential:
    return BrokenCredential("CREDENTIAL-X509", sentence)
