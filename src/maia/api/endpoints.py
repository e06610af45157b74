"""What can be asked of a domain over HTTP? Every call, said once.

From an entry of this table follow the route, the check of the right and the OpenAPI document
(`maia.domain.http`), the call of a client (`DomainClient.ask`), what a command of `maia domain` sends and
reads, and the reference page (`docs/domain-api.md`). A call that only reads is a GET and takes its
question from the query; every other one takes it from the body.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.requests import Nothing

BODY_BYTES_MAX: Final = 2 << 20
"""How much is read of a body, unless its page takes more."""

Asked = TypeVar("Asked")
Answer_co = TypeVar("Answer_co", covariant=True)
_PARAMETER: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint(Generic[Asked, Answer_co]):
    """One call: what goes in and comes out, and who may make it."""

    method: str
    path: str
    summary: str
    takes: type[Asked]
    answer: type[Answer_co]
    tag: str
    right: str = ""
    """What an administrator's certificates must allow: `ACTION TOPIC`; empty where the caller needs none."""
    is_public: bool = False
    """Whether an unsigned call is answered."""
    is_once: bool = False
    """Whether an idempotency key counts: for calls that issue something."""
    revokes: bool = False
    """Whether it answers 202 where no broker has accepted yet what it revoked."""
    status: int = 200
    body_max: int = BODY_BYTES_MAX

    @property
    def has_body(self) -> bool:
        return self.method != "GET" and self.takes is not Nothing

    @property
    def has_query(self) -> bool:
        return self.method == "GET" and self.takes is not Nothing

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the path's parameters."""
        return tuple(_PARAMETER.findall(self.path))


# fmt: off
DOMAIN: Final = Endpoint("GET", "/v1/domain", "which domain this is, and for which run to sign requests",
    Nothing, answers.DomainAnswer, tag="domain", is_public=True)
POLICY: Final = Endpoint("GET", "/v1/policy", "the policy in force", Nothing, answers.PolicyAnswer,
    tag="policy", right="subscribe /admin/policy")
LOAD_POLICY: Final = Endpoint("PUT", "/v1/policy", "put a policy in force, or keep the last good one",
    bodies.PolicyBody, answers.PolicyAnswer, tag="policy", right="publish /admin/policy", is_once=True,
    revokes=True)
RELOAD_POLICY: Final = Endpoint("POST", "/v1/policy/reload", "read the policy's file again", Nothing,
    answers.PolicyAnswer, tag="policy", right="publish /admin/policy", revokes=True)
TYPES: Final = Endpoint("GET", "/v1/types", "the event types that policies can speak of",
    bodies.TypesQuestion, answers.TypePage, tag="types")
REGISTER_TYPE: Final = Endpoint("POST", "/v1/types", "register a version of an event type", bodies.TypeBody,
    answers.TypeAnswer, tag="types", right="publish /admin/policy", is_once=True, status=201)
HOLD: Final = Endpoint("POST", "/v1/held", "keep certificates that lead from owners to this domain",
    bodies.CertificatesBody, answers.Count, tag="policy", right="publish /admin/policy", is_once=True,
    status=201)
APPOINT: Final = Endpoint("POST", "/v1/appointments", "issue an appointment", bodies.Appointing,
    answers.AppointmentAnswer, tag="appointments", right="publish /admin/appointments", is_once=True,
    status=201)
APPOINTMENTS: Final = Endpoint("GET", "/v1/appointments", "appointments that are valid",
    bodies.HolderQuestion, answers.AppointmentPage, tag="appointments",
    right="subscribe /admin/appointments")
REVOKE_APPOINTMENT: Final = Endpoint("POST", "/v1/appointments/{id}/revocation",
    "revoke an appointment, and all that depends on it", bodies.Reason, answers.RevokedAnswer,
    tag="appointments", right="publish /admin/appointments", is_once=True, revokes=True)
FACTS: Final = Endpoint("GET", "/v1/facts", "the rows of a fact", bodies.FactsQuestion, answers.FactPage,
    tag="facts", right="subscribe /admin/facts")
ASSERT_FACT: Final = Endpoint("POST", "/v1/facts", "say that a fact holds", bodies.FactBody, answers.News,
    tag="facts", right="publish /admin/facts", is_once=True)
RETRACT_FACT: Final = Endpoint("POST", "/v1/facts/retraction", "say that a fact holds no more",
    bodies.FactBody, answers.RevokedAnswer, tag="facts", right="publish /admin/facts", is_once=True,
    revokes=True)
REPLACE_FACTS: Final = Endpoint("PUT", "/v1/facts/{name}", "make exactly these rows of a fact hold",
    bodies.FactRows, answers.RevokedAnswer, tag="facts", right="publish /admin/facts", is_once=True,
    revokes=True, body_max=32 << 20)
LOGIN: Final = Endpoint("POST", "/v1/login", "every role and every right that the caller can have now",
    bodies.LoginBody, answers.WalletAnswer, tag="rights", is_once=True)
ACTS: Final = Endpoint("GET", "/v1/acts",
    "what the caller's certificates let it do and read here as an administrator, now", bodies.ActsQuestion,
    answers.ActsAnswer, tag="rights")
ACTIVATE: Final = Endpoint("POST", "/v1/memberships", "make the caller a member of a role",
    bodies.Activation, answers.MembershipPage, tag="rights", is_once=True, status=201)
AUTHORISE: Final = Endpoint("POST", "/v1/memberships/{id}/rights",
    "issue the rights of one of the caller's memberships", Nothing, answers.RightsAnswer, tag="rights",
    is_once=True, status=201)
DEACTIVATE: Final = Endpoint("POST", "/v1/memberships/{id}/end",
    "end a membership: the caller's, or any with /admin/rights", bodies.Reason, answers.RevokedAnswer,
    tag="rights", is_once=True, revokes=True)
MEMBERSHIPS: Final = Endpoint("GET", "/v1/principals/{principal}/memberships",
    "active roles: the caller's, or those of any principal with /admin/register", bodies.PageQuestion,
    answers.MembershipPage, tag="rights")
RIGHTS: Final = Endpoint("GET", "/v1/principals/{principal}/rights",
    "what the register has: about the caller, or about any principal with /admin/register",
    bodies.PageQuestion, answers.EntryPage, tag="register")
REGISTER_DELEGATION: Final = Endpoint("POST", "/v1/delegations", "note that the caller passed a right on",
    bodies.DelegationBody, answers.EntryAnswer, tag="register", is_once=True, status=201)
REVOKE: Final = Endpoint("POST", "/v1/revocations", "revoke certificates, and all that depends on them",
    bodies.Revocation, answers.RevokedAnswer, tag="rights", right="publish /admin/rights", is_once=True,
    revokes=True)
REGISTER: Final = Endpoint("GET", "/v1/register", "the register of rights", bodies.RegisterQuestion,
    answers.EntryPage, tag="register", right="subscribe /admin/register")
WHO_CAN: Final = Endpoint("GET", "/v1/register/who-can", "who can do something with a type",
    bodies.WhoCanQuestion, answers.HolderPage, tag="register", right="subscribe /admin/register")
WOULD_BE_ABLE: Final = Endpoint("POST", "/v1/register/would-be-able",
    "what a member of a role would be able to do", bodies.WouldBody, answers.AbilitiesAnswer, tag="register",
    right="subscribe /admin/register")
STATEMENTS: Final = Endpoint("GET", "/v1/statements", "the statements that hold now", Nothing,
    answers.StatementPage, tag="statements", is_public=True)
STATEMENT_HISTORY: Final = Endpoint("GET", "/v1/statements/history", "the statements that are kept",
    bodies.PageQuestion, answers.StatementPage, tag="statements", is_public=True)
RECEIVE_STATEMENT: Final = Endpoint("POST", "/v1/statements", "accept a statement of another issuer",
    bodies.StatementBody, answers.RevokedAnswer, tag="statements", right="publish /admin/register",
    is_once=True, revokes=True)
REVALIDATE: Final = Endpoint("POST", "/v1/revalidations",
    "is a certificate valid for this one request? (one-time revalidation)", bodies.OneTimeQuestion,
    answers.StatementAnswer, tag="statements")
AUDIT: Final = Endpoint("GET", "/v1/audit", "audit records", bodies.AuditQuestion, answers.AuditPage,
    tag="audit", right="subscribe /admin/audit")
AUDIT_HEAD: Final = Endpoint("GET", "/v1/audit/head", "the length and the digest of the audit", Nothing,
    answers.AuditHeadAnswer, tag="audit", right="subscribe /admin/audit")
LEDGER_HEAD: Final = Endpoint("POST", "/v1/ledgers/head",
    "put the head of the caller's ledger on record in the audit", bodies.LedgerHeadBody,
    answers.LedgerHeadAnswer, tag="audit", right="publish /admin/ledgers")
SUBJECTS: Final = Endpoint("GET", "/v1/subjects", "the registered subjects", bodies.PageQuestion,
    answers.SubjectPage, tag="identity", right="subscribe /admin/subjects")
SUBJECT: Final = Endpoint("GET", "/v1/subjects/{principal}",
    "a subject: the caller, or any with /admin/subjects", Nothing, answers.SubjectAnswer, tag="identity")
REGISTER_SUBJECT: Final = Endpoint("PUT", "/v1/subjects/{principal}",
    "register a subject, or replace what is registered about it", bodies.SubjectBody, answers.SubjectAnswer,
    tag="identity", right="publish /admin/subjects", is_once=True)
REMOVE_SUBJECT: Final = Endpoint("POST", "/v1/subjects/{principal}/removal",
    "remove a subject; it gets no statement from now on", bodies.Reason, answers.News, tag="identity",
    right="publish /admin/subjects", is_once=True)
IDENTITY: Final = Endpoint("POST", "/v1/identity", "an identity statement about the caller",
    bodies.IdentityBody, answers.IdentityAnswer, tag="identity")
GUEST: Final = Endpoint("POST", "/v1/identity/guest",
    "a guest statement for the caller, on a statement of its home provider", bodies.GuestBody,
    answers.GuestAnswer, tag="identity")
PROVIDERS: Final = Endpoint("GET", "/v1/trusted-providers", "the identity providers that this domain trusts",
    bodies.PageQuestion, answers.ProviderPage, tag="identity", right="subscribe /admin/trust")
TRUST_PROVIDER: Final = Endpoint("PUT", "/v1/trusted-providers/{principal}",
    "trust the identity provider of another domain", bodies.TrustBody, answers.ProviderAnswer,
    tag="identity", right="publish /admin/trust", is_once=True)
DISTRUST_PROVIDER: Final = Endpoint("POST", "/v1/trusted-providers/{principal}/removal",
    "trust an identity provider no more", bodies.Reason, answers.News, tag="identity",
    right="publish /admin/trust", is_once=True)
APPROVED_BOOTS: Final = Endpoint("GET", "/v1/tpm/approved", "the approved boots, and makers of TPMs",
    Nothing, answers.ApprovedAnswer, tag="tpm", right="subscribe /admin/tpm")
APPROVE_BOOTS: Final = Endpoint("PUT", "/v1/tpm/approved", "approve exactly these boots, and makers of TPMs",
    bodies.ApprovedBody, answers.ApprovedAnswer, tag="tpm", right="publish /admin/tpm", is_once=True)
ENROL_TPM: Final = Endpoint("POST", "/v1/tpm/enrolment",
    "enrol the caller's TPM: a credential that it has to open", bodies.EnrolBody, answers.CredentialAnswer,
    tag="tpm")
ACTIVATE_TPM: Final = Endpoint("POST", "/v1/tpm/activation",
    "show that the caller's TPM has opened its credential", bodies.ActivationBody, answers.News, tag="tpm")
TPM_NONCE: Final = Endpoint("POST", "/v1/tpm/nonce", "a nonce for one quote of the caller's TPM", Nothing,
    answers.NonceAnswer, tag="tpm")
TPM_QUOTE: Final = Endpoint("POST", "/v1/tpm/quote", "prove the caller's boot by a quote for its nonce",
    bodies.QuoteBody, answers.AttestedAnswer, tag="tpm")
# fmt: on

# Any: each call has structs of its own.
ENDPOINTS: Final[tuple[Endpoint[Any, Any], ...]] = tuple(
    one for one in list(globals().values()) if isinstance(one, Endpoint)
)
"""Every call, in the order in which the OpenAPI document lists them."""
