"""What can be wrong with the text of a certificate, before its signature is checked?"""

from __future__ import annotations

from maia.errors import BrokenCredential


class BadCertificate(BrokenCredential):
    """A certificate is not written in the one form that Maia understands in full."""

    code = "CREDENTIAL-FORMAT"


class BadAuthority(BadCertificate):
    """A certificate grants something that means nothing."""

    code = "CREDENTIAL-AUTHORITY"


class BadValidity(BadCertificate):
    """A certificate does not say clearly from when to when it holds."""

    code = "CREDENTIAL-VALIDITY"
