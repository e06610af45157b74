"""What happens to those who try for more than they were given?

Each attempt is made with real keys and real certificates against the kernel
that serves all others. An attempt that succeeds is reported as such: the
demonstration then fails, and so does the test suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from maia.credentials import (
    ALL_ATTRIBUTES,
    ASSUMED_GOOD,
    Action,
    AuthorisationCertificate,
    SignedCertificate,
    issue,
    verify_chain,
)
from maia.demo.numberplate import LOCATION, NumberplateStory
from maia.demo.performance import ask
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Audience, Denial
from maia.predicates import Comparison, Operator

__all__ = ["Attempt", "attempts"]

_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who tried what, and the answer: a code and a sentence, or None if nothing stopped it."""

    title: str
    code: str | None
    sentence: str

    @property
    def was_refused(self) -> bool:
        """Say whether the attempt failed, as it must."""
        return self.code is not None


def attempts(story: NumberplateStory, *, now: Instant) -> Iterator[Attempt]:
    """Try a forged, a widened, an expired and a probing request, one after the other."""
    yield _attempt(
        "a forged certificate: the billing office signs in CCS's name", lambda: _forged(story, now)
    )
    yield _attempt(
        "a widened certificate: the billing office grants itself the location", lambda: _widened(story, now)
    )
    yield _attempt(
        "an expired certificate: the detective, a minute after her court order ends", lambda: _expired(story)
    )
    yield _attempt(
        "a probing filter: the billing office filters on the location", lambda: _probing(story, now)
    )


def _attempt(title: str, run: Callable[[], Denial | None]) -> Attempt:
    try:
        denial = run()
    except MaiaError as problem:
        return Attempt(title, problem.code, problem.message)
    if denial is None:
        return Attempt(title, None, "nothing stopped it")
    return Attempt(title, denial.code, "; ".join(denial.explanation.lines(Audience.REQUESTER)))


def _forged(story: NumberplateStory, now: Instant) -> Denial | None:
    """Keep CCS as the issuer, ask for everything, and sign with the only key at hand."""
    by_ccs, own = _chain_of(story, "billing office")
    wanted = replace(
        _authorisation(own), authority=replace(_authorisation(own).authority, attributes=ALL_ATTRIBUTES)
    )
    signed_by_billing = issue(
        replace(wanted, issuer=story.principal("billing office")), story.keys["billing office"]
    )
    signed_by_ccs = issue(wanted, story.keys["CCS"])
    # The body says CCS; the signature is the billing office's.
    forged = replace(signed_by_ccs, signature=signed_by_billing.signature)
    verify_chain(
        (by_ccs, forged), root=story.principal("PITO"), subject=story.principal("billing office"), at=now
    )
    return None


def _widened(story: NumberplateStory, now: Instant) -> Denial | None:
    """Issue oneself a certificate for what one was not given, and append it to the chain."""
    by_ccs, signed = _chain_of(story, "billing office")
    own, billing = _authorisation(signed), story.principal("billing office")
    everything = replace(own.authority, attributes=ALL_ATTRIBUTES)
    wider = issue(replace(own, issuer=billing, authority=everything), story.keys["billing office"])
    verify_chain((by_ccs, signed, wider), root=story.principal("PITO"), subject=billing, at=now)
    return None


def _expired(story: NumberplateStory) -> Denial | None:
    end = _authorisation(_chain_of(story, "Detective Smith")[1]).validity.not_after
    assert end is not None  # noqa: S101 - every certificate of the story ends
    late = Instant(end + _MINUTE)
    return _denial(ask(story, "Detective Smith", Action.SUBSCRIBE, now=late, standing=ASSUMED_GOOD))


def _probing(story: NumberplateStory, now: Instant) -> Denial | None:
    about_location = Comparison(LOCATION, Operator.EQ, "Victoria")
    return _denial(ask(story, "billing office", Action.SUBSCRIBE, now=now, filter=about_location))


def _denial(decision: object) -> Denial | None:
    return decision if isinstance(decision, Denial) else None


def _chain_of(story: NumberplateStory, who: str) -> tuple[SignedCertificate, SignedCertificate]:
    """Return the two certificates that let `who` subscribe: the domain's, then its own."""
    own = next(
        one
        for one in story.certificates
        if _lets_subscribe(one) and one.certificate.subject == story.principal(who)
    )
    issuer = own.certificate.issuer
    domain = next(
        one for one in story.certificates if _lets_subscribe(one) and one.certificate.subject == issuer
    )
    return domain, own


def _lets_subscribe(signed: SignedCertificate) -> bool:
    certificate = signed.certificate
    return (
        isinstance(certificate, AuthorisationCertificate)
        and Action.SUBSCRIBE in certificate.authority.actions
    )


def _authorisation(signed: SignedCertificate) -> AuthorisationCertificate:
    assert isinstance(signed.certificate, AuthorisationCertificate)  # noqa: S101 - chosen by _lets_subscribe
    return signed.certificate
