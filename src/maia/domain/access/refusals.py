"""In which ways does the access control service refuse, beside those of the policy kernel?"""

from __future__ import annotations

from maia.errors import BadInput, BrokenCredential, Refusal, Unavailable


class NoPolicy(Refusal):
    """No policy is in force, so nothing is granted."""

    code = "REFUSED-NO-POLICY"


class ActivationRefused(Refusal):
    """No rule makes this principal a member of this role now."""

    code = "REFUSED-ACTIVATION"


class NotTheirMembership(Refusal):
    """The membership belongs to another principal, or has ended."""

    code = "REFUSED-NOT-THEIR-MEMBERSHIP"


class NotOurs(Refusal):
    """This domain did not issue it, and cannot revoke it or state its validity."""

    code = "REFUSED-NOT-OURS"


class TiersMixed(Refusal):
    """A domain holds sub-domains or brokers, never both, and would hold both."""

    code = "REFUSED-TIERS"


class HandedOverForGood(Refusal):
    """A certificate hands root authority over for good, and cannot be revoked."""

    code = "REFUSED-HANDED-OVER"


class UnknownMembership(BadInput):
    """No membership has this id."""

    code = "INPUT-UNKNOWN-MEMBERSHIP"


class UnknownCertificate(BadInput):
    """No certificate of the register has this id."""

    code = "INPUT-UNKNOWN-CERTIFICATE"


class UnknownType(BadInput):
    """The domain knows no such event type, or attribute of it."""

    code = "INPUT-TYPE-NOT-REGISTERED"


class NoIdentityProvider(Refusal):
    """The domain has no community of interest, so it issues no identity statements."""

    code = "REFUSED-NO-IDENTITY-PROVIDER"


class NotRegistered(Refusal):
    """The identity provider has registered no subject with this key."""

    code = "REFUSED-NOT-REGISTERED"


class TpmNotEnrolled(Refusal):
    """No TPM is enrolled for this subject, or no quote is expected of it now."""

    code = "REFUSED-TPM-NOT-ENROLLED"


class UnknownSubject(BadInput):
    """No subject of the identity provider, or no provider that it trusts, has this key."""

    code = "INPUT-UNKNOWN-SUBJECT"


class BadSubject(BadInput):
    """A subject cannot be registered as it was given, or a provider cannot be trusted so."""

    code = "INPUT-SUBJECT"


class TooManyShown(BadInput):
    """A request shows more certificates than one request may."""

    code = "INPUT-TOO-MANY-SHOWN"


class BadPage(BadInput):
    """A page was asked for that does not exist: its size or its cursor is none of ours."""

    code = "INPUT-PAGE"


class BadRegistration(BrokenCredential):
    """A certificate does not lead through this domain, or passes on what its issuer may not."""

    code = "CREDENTIAL-REGISTRATION"


class AnswerBelongsToAnotherRequest(BadInput):
    """An idempotency key was used before, for another request."""

    code = "INPUT-IDEMPOTENCY-KEY"


class ServiceFull(Unavailable):
    """The service holds as many facts, types, memberships or rights as it may."""

    code = "UNAVAILABLE-ACCESS-CONTROL-FULL"


class DomainStoreUnavailable(Unavailable):
    """What the domain keeps cannot be written or read."""

    code = "UNAVAILABLE-DOMAIN-STORE"
