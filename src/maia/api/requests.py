"""What goes into the pages of a domain's HTTP interface? Strict structs; an unknown word is refused.

An argument is a JSON value: text, a whole number, a fraction, true or false;
moments and principals are written `{"timestamp": "…"}` and
`{"principal": "ed25519:…"}`, so that no text is ever taken for one. What a
person typed is written `{"word": "42"}`, and read by the kind that the policy
declares.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

LIMIT: Final = 100
LIMIT_MAX: Final = 500
ROWS_MAX: Final = 200_000
POLICY_BYTES_MAX: Final = 1 << 20
SHOWN_MAX: Final = 64

_Limit: TypeAlias = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="how many at most")]
_After: TypeAlias = Annotated[str, Meta(max_length=2048, description="`next` of the page before")]
_Key: TypeAlias = Annotated[str, Meta(max_length=80, description="ed25519: and 64 hexadecimal digits")]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
_Id: TypeAlias = Annotated[
    str,
    # The page checks it, in words for people: a pattern that is not met would be shown as it is.
    Meta(description="the id of a certificate", extra_json_schema={"pattern": "^[0-9a-f]{64}$"}),
]
_Moment: TypeAlias = Annotated[str, Meta(max_length=40, description="such as 2026-11-15T08:30:00Z")]
_ReasonText: TypeAlias = Annotated[str, Meta(max_length=200)]


class Nothing(msgspec.Struct, frozen=True):
    """For a call that takes neither a body nor a query."""


class TypedArgument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A moment, a principal, or a word that is read by the declared kind; exactly one of them."""

    timestamp: str | None = None
    principal: str | None = None
    word: str | None = None


ApiArgument: TypeAlias = str | bool | int | float | TypedArgument


class Period(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From when to when something holds; both bounds are stated, `unbounded` where there is none."""

    not_before: _Moment
    not_after: _Moment


class PolicyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy, and the texts of the role sets that it imports, by the names it gives them."""

    text: Annotated[str, Meta(max_length=POLICY_BYTES_MAX)]
    parents: dict[str, str] = {}
    owners: dict[str, _Key] = {}
    """Keys by the names that the texts use for owners of types, as the caller knows them."""


class Appointing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to appoint to what."""

    holder: _Key
    name: _Name
    valid: Period
    parameters: list[ApiArgument] = []


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is taken back."""

    reason: _ReasonText = ""


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to take back: rights, appointments, memberships, by the ids of their certificates.

    Or the certificates themselves, in base64: what the domain's own key signed need not be in its register.
    """

    ids: Annotated[list[_Id], Meta(max_length=1000)] = []
    reason: _ReasonText = ""
    certificates: Annotated[list[bytes], Meta(max_length=SHOWN_MAX)] = []


class FactBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that holds, or holds no more."""

    name: _Name
    arguments: list[ApiArgument] = []


class FactRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rows of a fact."""

    rows: Annotated[list[list[ApiArgument]], Meta(max_length=ROWS_MAX)]


class Activation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which role the caller wants; without arguments, with all that some rule allows."""

    role: _Name
    arguments: list[ApiArgument] | None = None
    shown: Annotated[list[bytes], Meta(max_length=SHOWN_MAX)] = []
    """Appointment and role membership certificates, in base64."""


class LoginBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the caller shows to get every role and every right that it can have."""

    shown: Annotated[list[bytes], Meta(max_length=SHOWN_MAX)] = []


class CertificatesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates that lead from owners to this domain, in base64."""

    certificates: Annotated[list[bytes], Meta(min_length=1, max_length=1000)]


class DelegationBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A certificate by which its issuer passed a right on, in base64."""

    certificate: bytes


class StatementBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement of another issuer, in base64."""

    statement: bytes


class LedgerHeadBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far the ledger of the caller, a broker, has come."""

    entries: Annotated[int, Meta(ge=0, le=2**53)]
    head: Annotated[
        str, Meta(description="the check of the last entry", extra_json_schema={"pattern": "^[0-9a-f]{64}$"})
    ]


class TypeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed type definition, in base64."""

    definition: bytes


class OneTimeQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Is this certificate valid for this request of this verifier, now? (Base64.)"""

    certificate: Annotated[bytes, Meta(min_length=32, max_length=32)]
    request: Annotated[bytes, Meta(min_length=32, max_length=32)]
    nonce: Annotated[bytes, Meta(min_length=32, max_length=32)]


class SubjectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subject of the identity provider: what it is called, and all of its attributes.

    `certificates` are X.509 (DER, in Base64): the subject's own, and those that lead to its authority.
    """

    identifier: _Name
    attributes: dict[str, ApiArgument] = {}
    certificates: Annotated[list[bytes], Meta(max_length=9)] = []


class IdentityBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For how long the caller wants an identity statement; at most, and unsaid, what the domain allows."""

    lifetime_s: Annotated[int, Meta(ge=1, le=86_400)] | None = None


class GuestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The caller's identity statement of its home provider, in base64."""

    statement: Annotated[bytes, Meta(max_length=1 << 14)]


class TrustBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a trusted identity provider is called here, and until when it is trusted."""

    identifier: _Name
    until: _Moment = "unbounded"


class BootConfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An approved boot: its name, what it is worth, and its registers in hexadecimal digits, by number."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    level: Annotated[int, Meta(ge=1, le=255)]
    values: dict[str, str]
    properties: dict[str, ApiArgument] = {}


class ApprovedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which registers are asked for, which boots are approved, and which makers of TPMs (DER, base64)."""

    pcrs: Annotated[list[Annotated[int, Meta(ge=0, le=22)]], Meta(min_length=1, max_length=22)]
    configurations: Annotated[list[BootConfiguration], Meta(max_length=256)]
    roots: Annotated[list[bytes], Meta(max_length=64)]
    scan: Annotated[int, Meta(ge=18, le=22)] | None = None


class EnrolBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The caller's TPM: endorsement certificate and those that lead to a root (DER), and the
    attestation key as a TPM2B_PUBLIC; in base64.
    """

    endorsement: bytes
    attestation_key: bytes
    intermediates: Annotated[list[bytes], Meta(max_length=4)] = []


class ActivationBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The secret that the caller's TPM found in the credential, in base64."""

    secret: Annotated[bytes, Meta(max_length=64)]


class QuoteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A TPMS_ATTEST and its TPMT_SIGNATURE, in base64, and what explains them.

    That is the event log of the boot, in base64. Where a machine has none, and of registers 17 to 22, it is
    the values of the registers: hexadecimal digits by number. `scan` is what a scanner found.
    """

    quoted: bytes
    signature: bytes
    log: bytes = b""
    registers: Annotated[dict[str, str], Meta(max_length=24)] = {}
    scan: Annotated[bytes, Meta(max_length=4096)] = b""


class WouldBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which role it is asked what a member would be able to do."""

    role: _Name
    arguments: list[ApiArgument] = []


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a page; sub-classes say which words it takes."""


class PageQuestion(Question, frozen=True):
    """Which part of a long answer."""

    after: _After | None = None
    limit: _Limit = LIMIT


class TypesQuestion(PageQuestion, frozen=True, kw_only=True):
    """All types, or all versions of one, by its owner and name."""

    owner: str | None = None
    name: str | None = None


class ActsQuestion(Question, frozen=True):
    """About which `/admin/…` topics: their names, with commas in between; without any, about all."""

    topics: str | None = None


class FactsQuestion(PageQuestion, frozen=True, kw_only=True):
    """The rows of which fact."""

    name: _Name


class HolderQuestion(PageQuestion, frozen=True, kw_only=True):
    """Whose appointments; all of them if none is named."""

    holder: _Key | None = None


class RegisterQuestion(PageQuestion, frozen=True, kw_only=True):
    """Only what is valid at a moment, if one is given; `now` is one."""

    standing_at: _Moment | None = None


class WhoCanQuestion(PageQuestion, frozen=True, kw_only=True):
    """Who can do what with which type, reading which attribute, when."""

    action: _Name
    type: _Name
    owner: str | None = None
    version: str | None = None
    attribute: _Name | None = None
    at: _Moment | None = None


class AuditQuestion(Question, frozen=True):
    """Which audit records: those that follow a number."""

    after: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    limit: _Limit = LIMIT
