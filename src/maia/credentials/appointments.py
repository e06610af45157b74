"""Who was appointed to what, who holds which role, and who says so?

An appointment certificate is lasting evidence: a court order, a medical
licence, a contract of employment. A role membership certificate says that a
domain has admitted a principal to one of its roles. Both name an issuer, a holder,
a name and parameters; policies of any domain may ask for either (dissertation
6.1; Bacon et al. 3.2). Neither grants anything by itself.

    (signed
      (appointment (version 1) (issuer KEY) (holder KEY) (name TEXT)
        (parameters (KIND VALUE) ...) (serial BYTES) VALID)
      (signature ed25519 BYTES))

A role membership begins with `role-membership` in place of `appointment`. The
order is fixed, every field is always there, and whatever is missing, repeated,
unknown or written in another way is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from enum import Enum
from functools import partial
from hashlib import sha256
from typing import Final, TypeAlias, final

from maia.canonical import Limits, SExpression, write_canonical
from maia.canonical.fields import Part, bare, choice, each, many, octets, one, record
from maia.credentials.certificate import Validity
from maia.credentials.documents import KEY, LABEL, Document
from maia.credentials.encoding.parts import VALIDITY
from maia.credentials.keys import (
    BadCertificate,
    Principal,
    SignedKind,
    SigningKey,
    principal_from_expression,
    principal_from_text,
    principal_to_expression,
    verify_signature,
)
from maia.credentials.proof import Proof
from maia.errors import BadInput, BrokenCredential
from maia.events import BadValue, Instant, Kind, PresentValue, checked_value, kind_of
from maia.predicates.encoding import literal_from_bytes, literal_to_bytes

# The arguments of roles, appointments and facts.


ARGUMENT_BYTES_MAX: Final = 1024

Argument: TypeAlias = str | int | float | bool | Instant | Principal
"""One value that a role, an appointment or a fact is about."""


@dataclass(frozen=True, slots=True)
class Word:
    """An argument as a person types it: the kind of its parameter says how it is read."""

    text: str


Given: TypeAlias = Argument | Word
"""An argument, or a word for one."""


class BadArgument(BadInput):
    """An argument is of another kind than its parameter, or cannot be an argument at all."""

    code = "INPUT-ARGUMENT"


class ParameterKind(Enum):
    """The declared kind of a parameter."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TIMESTAMP = "timestamp"
    PRINCIPAL = "principal"

    __hash__ = object.__hash__

    @property
    def value_kind(self) -> Kind | None:
        """Return the same kind among the kinds of attributes; None for a principal."""
        return _VALUE_KINDS[self]


_VALUE_KINDS: Final = {
    kind: None if kind is ParameterKind.PRINCIPAL else Kind(kind.value) for kind in ParameterKind
}


def argument_kind(argument: Argument) -> ParameterKind:
    """Return the kind of an argument, by its exact class: `True` is never an int."""
    if type(argument) is Principal:
        return ParameterKind.PRINCIPAL
    try:
        return ParameterKind(kind_of(argument).value)  # type: ignore[arg-type]  # refused below if it is none
    except (BadValue, ValueError):
        raise BadArgument(f"a `{type(argument).__name__}` cannot be an argument") from None


def checked_argument(argument: object, kind: ParameterKind) -> Argument:
    """Return `argument` as one of `kind`; refuse null, another kind, and what is too long."""
    if kind is ParameterKind.PRINCIPAL:
        if type(argument) is not Principal:
            raise BadArgument(f"a principal was expected, and a {_class(argument)} was given")
        return argument
    value_kind = kind.value_kind
    assert value_kind is not None  # noqa: S101 - only a principal has none
    try:
        value = checked_value(argument, value_kind)
    except BadValue as problem:
        raise BadArgument(problem.message) from problem
    if value is None or isinstance(value, bytes):
        raise BadArgument(f"a {kind.value} was expected, and nothing was given")
    if isinstance(value, str) and len(value.encode()) > ARGUMENT_BYTES_MAX:
        raise BadArgument(f"an argument is longer than {ARGUMENT_BYTES_MAX} bytes")
    return value


X509_WORD: Final = "x509:"
"""What stands before the distinguished name of a principal, where a word is one's."""


def read_word(word: Word, kind: ParameterKind | None) -> Argument:
    """Return the argument of this kind that a word means; None: of the kind that it looks like."""
    text = word.text
    match _looks_like(text) if kind is None else kind:
        case ParameterKind.STRING:
            return checked_argument(text, ParameterKind.STRING)
        case ParameterKind.INT if _INT.fullmatch(text):
            return checked_argument(int(text), ParameterKind.INT)
        case ParameterKind.FLOAT if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
            return checked_argument(float(text), ParameterKind.FLOAT)
        case ParameterKind.BOOL if text in ("true", "false"):
            return text == "true"
        case ParameterKind.TIMESTAMP:
            return Instant.parse(text)
        case ParameterKind.PRINCIPAL:
            return principal_from_text(text)
        case wanted:
            shown = text[:64].encode("unicode_escape").decode()
            raise BadArgument(f"a {wanted.value} was expected, and `{shown}` is none")


def _looks_like(text: str) -> ParameterKind:
    if text in ("true", "false"):
        return ParameterKind.BOOL
    if _INT.fullmatch(text):
        return ParameterKind.INT
    return ParameterKind.FLOAT if _FLOAT.fullmatch(text) else ParameterKind.STRING


_INT: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?\d+\.\d+(?:[eE][+-]?\d{1,3})?", re.ASCII)


def argument_to_expression(argument: Argument) -> SExpression:
    """Return `(KIND VALUE)`."""
    kind = argument_kind(argument)
    checked = checked_argument(argument, kind)
    if isinstance(checked, Principal):
        return (kind.value.encode(), principal_to_expression(checked))
    return (kind.value.encode(), literal_to_bytes(checked))


def argument_from_expression(expression: SExpression) -> Argument:
    """Read `(KIND VALUE)`, strictly."""
    match expression:
        case (b"principal", principal):
            return principal_from_expression(principal)
        case (bytes(word), bytes(octets)) if word in _KINDS_BY_WORD:
            kind = _KINDS_BY_WORD[word]
            value_kind = kind.value_kind
            assert value_kind is not None  # noqa: S101 - a principal is read above
            value: PresentValue = literal_from_bytes(value_kind, octets)
            return checked_argument(value, kind)
    raise BadCertificate("a parameter must be written `(KIND VALUE)`")


_KINDS_BY_WORD: Final = {
    kind.value.encode(): kind for kind in ParameterKind if kind is not ParameterKind.PRINCIPAL
}


def argument_key(argument: Argument) -> tuple[str, Argument]:
    """Return what to compare and to hash an argument by: its kind beside its value."""
    return argument_kind(argument).value, argument


def arguments_digest(domain: bytes, name: str, arguments: Iterable[Argument]) -> bytes:
    """Return a digest of `name(arguments)` that no other name, arguments or `domain` share."""
    expression = (name.encode(), *map(argument_to_expression, arguments))
    return sha256(b"maia/1/" + domain + b"\x00" + write_canonical(expression)).digest()


def _class(argument: object) -> str:
    return "null" if argument is None else type(argument).__name__


APPOINTMENT_BYTES_MAX: Final = 1 << 14
PARAMETERS_MAX: Final = 16
SERIAL_BYTES_MAX: Final = 32

_SEAL: Final = object()


class BadAppointment(BrokenCredential):
    """Bytes are not an appointment or role membership certificate."""

    code = "CREDENTIAL-APPOINTMENT"


class AppointmentKind(Enum):
    """Which of the two a certificate is; one is never taken for the other."""

    APPOINTMENT = "appointment"
    ROLE_MEMBERSHIP = "role-membership"


@dataclass(frozen=True, slots=True)
class Appointment:
    """`issuer` says that `holder` was appointed to, or is in the role, `name(parameters)`.

    The serial tells two certificates apart that say the same: a court order
    that is made again after its revocation must not be taken for the old one.
    """

    issuer: Principal
    holder: Principal
    name: str
    parameters: tuple[Argument, ...]
    validity: Validity
    kind: AppointmentKind = AppointmentKind.APPOINTMENT
    serial: bytes = b""


@dataclass(frozen=True, slots=True)
class SignedAppointment:
    """A certificate as read: its exact signed bytes and the unverified signature.

    `id` is SHA-256 over the signed bytes and never over the signature, so that
    no second signature of the same text escapes a revocation.
    """

    certificate: Appointment
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    id: bytes


@final
@dataclass(frozen=True, slots=True)
class VerifiedAppointment(Proof):
    """A certificate that its issuer has signed. Whether it holds now is another question."""

    signed: SignedAppointment
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_appointment makes a VerifiedAppointment")

    @property
    def certificate(self) -> Appointment:
        """Return what the certificate says."""
        return self.signed.certificate

    @property
    def id(self) -> bytes:
        """Return SHA-256 of the signed bytes."""
        return self.signed.id


_WRONG: Final = (BadAppointment, "a field of the certificate is missing, unknown, repeated or out of order")
_PARAMETERS: Final = each(
    Part(argument_to_expression, argument_from_expression),
    PARAMETERS_MAX,
    (BadAppointment, f"a certificate has at most {PARAMETERS_MAX} parameters"),
)
_SERIAL: Final = octets(
    0, SERIAL_BYTES_MAX, (BadAppointment, f"a serial has at most {SERIAL_BYTES_MAX} bytes")
)
APPOINTMENT: Final = Document[Appointment, SignedAppointment](
    choice(
        _WRONG,
        {
            kind: record(
                kind.value.encode(),
                partial(Appointment, kind=kind),
                _WRONG,
                version_of="certificate format",
                issuer=one(KEY),
                holder=one(KEY),
                name=one(LABEL),
                parameters=many(_PARAMETERS),
                serial=one(_SERIAL),
                validity=bare(VALIDITY),
            )
            for kind in AppointmentKind
        },
        by=lambda appointment: appointment.kind,
    ),
    "certificate",
    BadAppointment,
    Limits(size_max=APPOINTMENT_BYTES_MAX, depth_max=8, atom_max=4096),
    lambda _: SignedKind.APPOINTMENT,
    lambda said, body, signature: SignedAppointment(said, body, signature, sha256(body).digest()),
)

appointment_to_bytes = APPOINTMENT.to_bytes
appointment_from_bytes = APPOINTMENT.from_bytes
appointment_to_text = APPOINTMENT.to_text
appointment_from_text = APPOINTMENT.from_text


def issue_appointment(appointment: Appointment, key: SigningKey) -> SignedAppointment:
    """Sign a certificate with its issuer's key; refuse one that could not be read back."""
    return APPOINTMENT.sign(appointment, key, by=appointment.issuer)


def verify_appointment(signed: SignedAppointment) -> VerifiedAppointment:
    """Return the proof that the issuer signed exactly this, or raise `BadSignature`."""
    understood = APPOINTMENT.read_again(signed)
    verify_signature(signed.certificate.issuer, SignedKind.APPOINTMENT, understood.body, understood.signature)
    return VerifiedAppointment(understood, _SEAL)
