"""May the authorities of an X.509 path certify the names that the path proves?

An authority can be limited to some names (name constraints, RFC 5280 4.2.1.10). The library that builds
paths applies them to alternative names: DNS, IP and e-mail. What a path proves here is the subject's
*distinguished name*, so it is compared here, with the e-mail addresses in it, which are constrained as such.
We are stricter than the RFC in one point: an authority that may certify some names only may certify no
other *form* of name. One that is limited to `.example` in DNS names neither a person nor a mailbox.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.x509.oid import NameOID

from maia.errors import BrokenCredential

_Name: TypeAlias = x509.DirectoryName | x509.RFC822Name
_Levels: TypeAlias = list[frozenset[tuple[str, str | bytes]]]
_HIDDEN: Final = ("Cc", "Cf")


def check_name_constraints(path: Sequence[x509.Certificate]) -> None:
    """Raise if a certificate of a path, the subject's first, has a name that one above it may not certify."""
    for at, authority in enumerate(path):
        limits = _limits(authority) if at else None
        if limits is None:
            continue
        for below, certificate in enumerate(path[:at]):
            if below == 0 or certificate.subject != certificate.issuer:
                for name in _names(certificate):
                    _check(name, limits, authority)


def _limits(authority: x509.Certificate) -> x509.NameConstraints | None:
    try:
        limits = authority.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return None
    # `minimum` and `maximum` of a subtree are dropped by the parser; RFC 5280 wants neither
    if limits.public_bytes() not in authority.tbs_certificate_bytes:
        raise _broken(authority, "is limited to names in a way that is not understood here")
    return limits


def _names(certificate: x509.Certificate) -> Iterator[_Name]:
    """Return the names of a certificate that can become one in Maia, and others of the same forms."""
    if certificate.subject.rdns:
        yield x509.DirectoryName(certificate.subject)
    for one in certificate.subject.get_attributes_for_oid(NameOID.EMAIL_ADDRESS):
        yield _mailbox(str(one.value))
    try:
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from (one for one in others if isinstance(one, x509.DirectoryName | x509.RFC822Name))


def _mailbox(address: str) -> x509.RFC822Name:
    if not address.isascii():
        raise BrokenCredential("CREDENTIAL-X509", "an e-mail address in a name has letters beyond ASCII")
    return x509.RFC822Name(address)


def _check(name: _Name, limits: x509.NameConstraints, authority: x509.Certificate) -> None:
    permitted, excluded = limits.permitted_subtrees, limits.excluded_subtrees
    said = name.value.rfc4514_string() if isinstance(name, x509.DirectoryName) else name.value
    if permitted is not None and not any(_is_within(name, one) for one in permitted):
        raise _broken(authority, f"may not certify `{said}`: it is limited to other names")
    if excluded is not None and any(_is_within(name, one, is_excluded=True) for one in excluded):
        raise _broken(authority, f"may not certify `{said}`: such names are excluded")


def _is_within(name: _Name, subtree: x509.GeneralName, *, is_excluded: bool = False) -> bool:
    match name, subtree:
        case x509.DirectoryName(), x509.DirectoryName():
            base, levels = _levels(subtree.value), _levels(name.value)
            return levels[: len(base)] == base
        case x509.RFC822Name(), x509.RFC822Name():
            return _is_mailbox_within(name.value, subtree.value, is_excluded=is_excluded)
        case _:
            return False


def _is_mailbox_within(address: str, subtree: str, *, is_excluded: bool) -> bool:
    """Return whether an address is the mailbox, on the host, or below the `.domain` of a subtree."""
    local, at, host = address.rpartition("@")
    host = host.lower().removesuffix(".")
    if not (local and at and host):
        return is_excluded  # no mailbox: permitted by nothing, excluded by anything
    mailbox, at, domain = subtree.rpartition("@")
    domain = domain.lower().removesuffix(".")
    if at:
        is_same = mailbox.lower() == local.lower() if is_excluded else mailbox == local
        return is_same and host == domain
    return host.endswith(domain) if domain.startswith(".") else host == domain


def _levels(name: x509.Name) -> _Levels:
    """Return a name as it is compared (RFC 5280 7.1), without letter case, hidden letters and more spaces."""
    return [frozenset((one.oid.dotted_string, _folded(one.value)) for one in level) for level in name.rdns]


def _folded(value: str | bytes) -> str | bytes:
    if isinstance(value, bytes):
        return value
    seen = "".join(_shown(unicodedata.normalize("NFKC", value)))
    return " ".join(unicodedata.normalize("NFKC", seen.casefold()).split())


def _shown(text: str) -> Iterable[str]:
    return (one for one in text if one.isspace() or unicodedata.category(one) not in _HIDDEN)


def _broken(authority: x509.Certificate, what: str) -> BrokenCredential:
    return BrokenCredential("CREDENTIAL-X509", f"the authority `{authority.subject.rfc4514_string()}` {what}")
