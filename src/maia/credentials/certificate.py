"""What does a certificate say?

An authorisation certificate passes authority from its issuer to its subject;
a name certificate says whom a local name means. Both are values here; their
bytes, and the signature over exactly those bytes, are in `encoding/certificates.py`.

Both bounds of its period must be stated. A certificate that leaves one out is refused
(dissertation 6.2.1 reads an absent bound as unbounded, which is open by
default); an issuer that means "for ever" writes it. Beside its period a certificate
may demand tests, which `validity/monitor.py` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeAlias

from maia.credentials.authority import Action, Authority
from maia.credentials.keys import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    LocalName,
    Principal,
    SignedKind,
    Subject,
    Threshold,
)
from maia.errors import BadInput
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.expressions.syntax import Scope

# The testers that a verifier asks whether a certificate still holds.


class TestKind(Enum):
    """What a verifier must hold before it believes a certificate, or hear from then on."""

    __test__ = False  # pytest would otherwise take the name for a promise

    FOLLOWED_CRL = "followed-crl"
    """The certificate not in the newest list that has come: lists are followed, and none is waited for."""
    CRL = "crl"
    """Some list of what is revoked, however old, and the certificate not in the newest."""
    TIMED_CRL = "timed-crl"
    """A list that holds at this moment, and the certificate not in the newest."""
    REVALIDATION = "revalidation"
    """A statement that holds at this moment, with the certificate in it."""
    ONE_TIME = "one-time"
    """An answer to this verifier's own question, about this very request."""


@dataclass(frozen=True, slots=True)
class OnlineTest:
    """`by` must confirm the certificate in the way of `kind`; statements may be fetched at `locations`.

    A location is a hint. Statements prove themselves, wherever they come from.
    """

    kind: TestKind
    by: Principal
    locations: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, bytes, tuple[str, ...]]:
        """Return what tests are sorted by where their order could make two texts of one meaning."""
        return (self.kind.value, self.by.key, self.locations)


def united_tests(one: Iterable[OnlineTest], other: Iterable[OnlineTest]) -> tuple[OnlineTest, ...]:
    """Return the tests of both, in their one order, each once: who depends on both must pass both."""
    return tuple(sorted({*one, *other}, key=lambda test: test.order))


@dataclass(frozen=True, slots=True)
class Validity:
    """From `not_before` to `not_after`, both included; None is a bound stated as unbounded.

    Within the period every one of `tests` must be passed as well; a plain
    period has none. They are in their one order (`with_tests` sees to it).
    """

    not_before: Instant | None
    not_after: Instant | None
    tests: tuple[OnlineTest, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether no moment lies inside."""
        return self.not_before is not None and self.not_after is not None and self.not_after < self.not_before

    def contains(self, now: Instant) -> bool:
        """Return whether `now` lies inside the period. Nothing is said about the tests."""
        start, end = self.not_before, self.not_after
        return (start is None or start <= now) and (end is None or now <= end)

    def intersection(self, other: Validity) -> Validity:
        """Return the moments that lie inside both, with the tests of both; it may be empty.

        One of the two themselves where it lies inside the other: every link of a chain is asked for it.
        """
        tests = self.tests
        if tests is not other.tests and tests != other.tests:
            tests = united_tests(tests, other.tests)
        start, end = self.not_before, self.not_after
        later, earlier = other.not_before, other.not_after
        starts_last = later is None or (start is not None and later <= start)
        ends_first = earlier is None or (end is not None and end <= earlier)
        if starts_last and ends_first and tests is self.tests:
            return self
        is_inside = (start == later or not starts_last) and (end == earlier or not ends_first)
        if is_inside and tests == other.tests:
            return other
        return new_validity(start if starts_last else later, end if ends_first else earlier, tests)

    def outlasts(self, other: Validity) -> bool:
        """Whether every moment of `other` lies inside, and no test is asked that `other` is free of."""
        start, end = self.not_before, self.not_after
        later, earlier = other.not_before, other.not_after
        if start is not None and (later is None or later < start):
            return False
        if end is not None and (earlier is None or end < earlier):
            return False
        return self.tests is other.tests or set(self.tests) <= set(other.tests)

    def with_tests(self, *tests: OnlineTest) -> Validity:
        """Return the same period, with these tests demanded besides those that already are."""
        return Validity(self.not_before, self.not_after, united_tests(self.tests, tests))


# The slots themselves, whose types are Any: a frozen dataclass takes twice as long to fill them, and one
# validity is made for every link of a chain that is reduced.
_set_not_before, _set_not_after, _set_tests = (
    Validity.__dict__[name].__set__ for name in ("not_before", "not_after", "tests")
)


def new_validity(
    not_before: Instant | None, not_after: Instant | None, tests: tuple[OnlineTest, ...]
) -> Validity:
    """Return the same as `Validity(…)`, quickly."""
    made = object.__new__(Validity)
    _set_not_before(made, not_before)
    _set_not_after(made, not_after)
    _set_tests(made, tests)
    return made


UNBOUNDED = Validity(None, None)
"""For ever, in both directions; a certificate must say so in as many words."""


def steady_period(validities: Iterable[Validity], at: Instant) -> Validity:
    """Return the longest period around `at` in which none of these begins or ends.

    What was found out at one moment of it from the certificates alone holds at all the others.
    """
    since, until = INSTANT_MIN, INSTANT_MAX
    for validity in validities:
        starts, ends = validity.not_before, validity.not_after
        if starts is not None:
            since, until = (max(since, starts), until) if starts <= at else (since, min(until, starts - 1))
        if ends is not None:
            since, until = (since, min(until, ends)) if at <= ends else (max(since, ends + 1), until)
    return Validity(Instant(since), Instant(until))


@dataclass(frozen=True, slots=True)
class AuthorisationCertificate:
    """`issuer` grants `authority` to `subject`, who may pass it on if `may_delegate`."""

    issuer: Principal
    subject: Subject
    may_delegate: bool
    authority: Authority
    validity: Validity
    comment: str = ""

    def __post_init__(self) -> None:
        """Refuse a transformation under another issuer's secret, and a broker that is none.

        Name the holder of a transformation where noise is its own.
        """
        steps = self.authority.transformations
        for step in steps:
            if step.by != self.issuer:
                raise BadInput(
                    "INPUT-TRANSFORMATION-ISSUER",
                    "a certificate transforms events in the name of its own issuer, and of no other",
                )
        if Action.BROKER in self.authority.actions and (
            self.may_delegate or not isinstance(self.subject, Principal) or self.subject == self.issuer
        ):
            raise BadInput(
                "INPUT-BROKER-CERTIFICATE",
                "an organisation makes a key of its own a broker, for itself: another key than the "
                "organisation's, no group, and without the right to pass that on",
            )
        if steps:
            holder = _holder_of(self.subject)
            held = tuple(
                replace(step, holder=holder if step.is_keyed(Scope.RECIPIENT) else b"") for step in steps
            )
            if held != steps:
                object.__setattr__(self, "authority", replace(self.authority, transformations=held))


def _holder_of(subject: Subject) -> bytes:
    """Return whose noise a subject shares: of a group, its owner's, who says who is in it."""
    match subject:
        case Threshold():
            return b"".join(sorted(map(_holder_of, subject.members)))
        case LocalName():
            return subject.space.key
        case _:
            return subject.key


@dataclass(frozen=True, slots=True)
class NameCertificate:
    """In `issuer`'s namespace, `name` means `subject` (among others: a name is a group)."""

    issuer: Principal
    name: str
    subject: Subject
    validity: Validity
    comment: str = ""


Certificate: TypeAlias = AuthorisationCertificate | NameCertificate


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CertificateFrame:
    """What packed certificates have in common: the bytes around those that each has of its own."""

    before_subject: bytes = field(repr=False)
    after_subject: bytes = field(repr=False)
    end: bytes = field(repr=False)
    read: Callable[[bytes], Certificate] = field(repr=False)
    """Reads what a body says."""

    def body(self, own: bytes) -> bytes:
        """Return the bytes that were signed."""
        subject, said = own[:KEY_BYTES], own[KEY_BYTES:-SIGNATURE_BYTES]
        return b"".join((self.before_subject, subject, self.after_subject, said, self.end))


@dataclass(frozen=True, slots=True)
class SignedCertificate:
    """A certificate, the exact bytes that were signed, and the signature.

    `id` is SHA-256 over the signed bytes and never over the signature, so that
    no second signature of the same text escapes a revocation.
    """

    certificate: Certificate
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    id: bytes
    # True only where `encoding/certificates.py` made `certificate`, `body` and `id` of one another. A copy
    # with a field replaced starts at False, and the verifier compares its parts before it believes them.
    is_as_signed: bool = field(default=False, init=False, repr=False, compare=False)
    # Of a packed certificate alone (`encoding/certificates.py`), which has the other parts no more.
    frame: CertificateFrame | None = field(default=None, init=False, repr=False, compare=False)
    own: bytes = field(default=b"", init=False, repr=False, compare=False)

    if not TYPE_CHECKING:  # no other name is ever missing

        def __getattr__(self, name: str) -> object:
            """Return a part of a packed certificate, from its bytes."""
            if self.frame is None or name not in PACKED:
                raise AttributeError(name)
            if name == "signature":
                return self.own[-SIGNATURE_BYTES:]
            body = self.frame.body(self.own)
            return body if name == "body" else self.frame.read(body)


PACKED: Final = ("certificate", "body", "signature")
"""The parts that a packed certificate makes when it is asked for them."""


# As with periods: one is made for every certificate that is read.
_set_certificate, _set_body, _set_signature, _set_id, _set_as_signed, _set_frame, _set_own = (
    SignedCertificate.__dict__[one.name].__set__ for one in fields(SignedCertificate)
)


def as_signed(certificate: Certificate, body: bytes, signature: bytes) -> SignedCertificate:
    """Put together what `certificate` says, its signed bytes and the signature.

    For those who have just read or written `body`, and know that it says this.
    """
    signed = object.__new__(SignedCertificate)
    _set_certificate(signed, certificate)
    _set_body(signed, body)
    _set_signature(signed, signature)
    _set_id(signed, sha256(body).digest())
    _set_as_signed(signed, True)
    _set_frame(signed, None)
    _set_own(signed, b"")
    return signed


def signed_kind(certificate: Certificate) -> SignedKind:
    """Return the kind that a certificate is signed as."""
    if isinstance(certificate, AuthorisationCertificate):
        return SignedKind.CERTIFICATE
    return SignedKind.NAME_CERTIFICATE
