"""The table of pages: method, path, what goes in, what comes out, who may."""

from __future__ import annotations

from typing import Final

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.domain.access.results import AdminAct
from maia.domain.http.endpoints import Endpoint
from maia.domain.http.pages import Pages

__all__ = ["endpoints_of"]

_ROWS_BYTES_MAX: Final = 32 << 20


def endpoints_of(pages: Pages) -> tuple[Endpoint, ...]:
    """Return every page, in the order in which the OpenAPI document lists them."""
    return (*_about_the_domain(pages), *_about_people(pages), *_about_rights(pages), *_about_the_past(pages))


def _about_the_domain(pages: Pages) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "GET", "/v1/domain", pages.domain, "which domain this is, and for which run to sign requests",
            answers.DomainAnswer, is_public=True,
        ),
        Endpoint(
            "GET", "/v1/policy", pages.policy, "the policy in force", answers.PolicyAnswer,
            act=AdminAct.READ_POLICY, tag="policy",
        ),
        Endpoint(
            "PUT", "/v1/policy", pages.load_policy, "put a policy in force, or keep the last good one",
            answers.PolicyAnswer, bodies.PolicyBody, act=AdminAct.CHANGE_POLICY, takes_key=True, tag="policy",
            takes_away=True,
        ),
        Endpoint(
            "POST", "/v1/policy/reload", pages.reload_policy, "read the policy's file again",
            answers.PolicyAnswer, act=AdminAct.CHANGE_POLICY, tag="policy", takes_away=True,
        ),
        Endpoint(
            "GET", "/v1/types", pages.types, "the event types that policies can speak of", answers.TypePage,
            question=bodies.PageQuestion, tag="types",
        ),
        Endpoint(
            "POST", "/v1/types", pages.register_type, "register a version of an event type",
            answers.TypeAnswer, bodies.TypeBody, act=AdminAct.CHANGE_POLICY, takes_key=True, tag="types",
            answers_with=201,
        ),
        Endpoint(
            "POST", "/v1/held", pages.hold, "keep certificates that lead from owners to this domain",
            answers.Count, bodies.CertificatesBody, act=AdminAct.CHANGE_POLICY, takes_key=True, tag="policy",
            answers_with=201,
        ),
    )  # fmt: skip


def _about_people(pages: Pages) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "POST", "/v1/appointments", pages.appoint, "appoint somebody to something",
            answers.AppointmentAnswer, bodies.Appointing, act=AdminAct.CHANGE_APPOINTMENTS, takes_key=True,
            tag="appointments", answers_with=201,
        ),
        Endpoint(
            "GET", "/v1/appointments", pages.appointments, "appointments that stand", answers.AppointmentPage,
            question=bodies.HolderQuestion, act=AdminAct.READ_APPOINTMENTS, tag="appointments",
        ),
        Endpoint(
            "POST", "/v1/appointments/{id}/revocation", pages.revoke_appointment,
            "take an appointment back, and whatever rests on it", answers.RevokedAnswer, bodies.Reason,
            act=AdminAct.CHANGE_APPOINTMENTS, takes_key=True, tag="appointments", takes_away=True,
        ),
        Endpoint(
            "GET", "/v1/facts", pages.facts, "the rows of a fact", answers.FactPage,
            question=bodies.FactsQuestion, act=AdminAct.READ_FACTS, tag="facts",
        ),
        Endpoint(
            "POST", "/v1/facts", pages.assert_fact, "say that a fact holds", answers.News, bodies.FactBody,
            act=AdminAct.CHANGE_FACTS, takes_key=True, tag="facts",
        ),
        Endpoint(
            "POST", "/v1/facts/retraction", pages.retract_fact, "say that a fact holds no more",
            answers.RevokedAnswer, bodies.FactBody, act=AdminAct.CHANGE_FACTS, takes_key=True, tag="facts",
            takes_away=True,
        ),
        Endpoint(
            "PUT", "/v1/facts/{name}", pages.replace_facts, "make exactly these rows of a fact hold",
            answers.RevokedAnswer, bodies.FactRows, act=AdminAct.CHANGE_FACTS, takes_key=True, tag="facts",
            body_max=_ROWS_BYTES_MAX, takes_away=True,
        ),
    )  # fmt: skip


def _about_rights(pages: Pages) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "POST", "/v1/login", pages.login, "every role and every right that the caller can have now",
            answers.WalletAnswer, bodies.LoginBody, takes_key=True, tag="rights",
        ),
        Endpoint(
            "POST", "/v1/memberships", pages.activate, "make the caller a member of a role",
            answers.MembershipPage, bodies.Activation, takes_key=True, tag="rights", answers_with=201,
        ),
        Endpoint(
            "POST", "/v1/memberships/{id}/rights", pages.authorise,
            "issue the rights of one of the caller's memberships", answers.RightsAnswer, takes_key=True,
            tag="rights", answers_with=201,
        ),
        Endpoint(
            "POST", "/v1/memberships/{id}/end", pages.deactivate,
            "end a membership: the caller's, or anybody's with /admin/rights", answers.RevokedAnswer,
            bodies.Reason, takes_key=True, tag="rights", takes_away=True,
        ),
        Endpoint(
            "GET", "/v1/principals/{principal}/memberships", pages.memberships,
            "active roles: the caller's, or anybody's with /admin/register", answers.MembershipPage,
            question=bodies.PageQuestion, tag="rights",
        ),
        Endpoint(
            "GET", "/v1/principals/{principal}/rights", pages.rights,
            "what the register has: about the caller, or about anybody with /admin/register",
            answers.EntryPage, question=bodies.PageQuestion, tag="register",
        ),
        Endpoint(
            "POST", "/v1/delegations", pages.register_delegation, "note that the caller passed a right on",
            answers.EntryAnswer, bodies.DelegationBody, takes_key=True, tag="register", answers_with=201,
        ),
        Endpoint(
            "POST", "/v1/revocations", pages.revoke, "take certificates back, and whatever rests on them",
            answers.RevokedAnswer, bodies.Revocation, act=AdminAct.CHANGE_RIGHTS, takes_key=True,
            tag="rights", takes_away=True,
        ),
        Endpoint(
            "GET", "/v1/register", pages.register, "the register of rights", answers.EntryPage,
            question=bodies.RegisterQuestion, act=AdminAct.READ_REGISTER, tag="register",
        ),
        Endpoint(
            "GET", "/v1/register/who-can", pages.who_can, "who can do something with a type",
            answers.HolderPage, question=bodies.WhoCanQuestion, act=AdminAct.READ_REGISTER, tag="register",
        ),
        Endpoint(
            "POST", "/v1/register/would-be-able", pages.would,
            "what a member of a role would be able to do", answers.AbilitiesAnswer, bodies.WouldBody,
            act=AdminAct.READ_REGISTER, tag="register",
        ),
    )  # fmt: skip


def _about_the_past(pages: Pages) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "GET", "/v1/statements", pages.statements, "the statements that hold now", answers.StatementPage,
            is_public=True, tag="statements",
        ),
        Endpoint(
            "GET", "/v1/statements/history", pages.history, "the statements that are kept",
            answers.StatementPage, question=bodies.PageQuestion, is_public=True, tag="statements",
        ),
        Endpoint(
            "POST", "/v1/statements", pages.hear, "believe a statement of another issuer",
            answers.RevokedAnswer, bodies.StatementBody, act=AdminAct.CHANGE_REGISTER, tag="statements",
            takes_away=True,
        ),
        Endpoint(
            "POST", "/v1/revalidations", pages.revalidate,
            "is a certificate valid for this one request? (one-time revalidation)", answers.StatementAnswer,
            bodies.OneTimeQuestion, tag="statements",
        ),
        Endpoint(
            "GET", "/v1/audit", pages.audit, "audit records", answers.AuditPage,
            question=bodies.AuditQuestion, act=AdminAct.READ_AUDIT, tag="audit",
        ),
        Endpoint(
            "GET", "/v1/audit/head", pages.audit_head, "the length and the digest of the audit",
            answers.AuditHeadAnswer, act=AdminAct.READ_AUDIT, tag="audit",
        ),
    )  # fmt: skip
