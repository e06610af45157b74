"""The pages about roles and rights.

Callers ask for their own; taking away, and reading about others, wants an administrator's right.
"""

from __future__ import annotations

from typing import Final

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import BadCall
from maia.credentials import certificate_from_bytes
from maia.credentials.appointments import appointment_from_bytes
from maia.domain.access.results import AdminAct, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.pages import Call, Endpoint, PageTable, check_own, id_from_text, page_of
from maia.errors import Refusal

PAGES: Final = PageTable()


class LoginGrantsNothing(Refusal):
    """Nothing that the caller showed, or is known for, gives it a role or a right here now."""

    code = "REFUSED-LOGIN"


@PAGES.serve(Endpoint(
    "POST", "/v1/login", "every role and every right that the caller can have now", answers.WalletAnswer,
    bodies.LoginBody, takes_key=True, tag="rights"
))  # fmt: skip
def login(access: AccessControl, call: Call[bodies.LoginBody]) -> answers.WalletAnswer:
    shown = [appointment_from_bytes(one) for one in call.asked.shown]
    wallet = access.login(call.actor, shown, actor=call.actor, now=call.now)
    if not wallet.memberships and not wallet.issued:
        raise LoginGrantsNothing("nothing gives you a role or a right here now")
    return shaping.wallet_answer(wallet)


@PAGES.serve(Endpoint(
    "GET", "/v1/acts", "what the caller's certificates let it do and read here as an administrator, now",
    answers.ActsAnswer, question=bodies.ActsQuestion, tag="rights"
))  # fmt: skip
def acts(access: AccessControl, call: Call[bodies.ActsQuestion]) -> answers.ActsAnswer:
    def may(act: AdminAct) -> bool:
        try:
            access.authorised(call.actor, call.pool, act, call.now)
        except Refusal:
            return False
        return True

    topics = call.asked.topics
    asked = [act for act in AdminAct if topics is None or act.topic in topics.split(",")]
    return answers.ActsAnswer([f"{act.action.value} {act.topic}" for act in asked if may(act)])


@PAGES.serve(Endpoint(
    "POST", "/v1/memberships", "make the caller a member of a role", answers.MembershipPage,
    bodies.Activation, takes_key=True, tag="rights", answers_with=201
))  # fmt: skip
def activate(access: AccessControl, call: Call[bodies.Activation]) -> answers.MembershipPage:
    body = call.asked
    shown = [appointment_from_bytes(one) for one in body.shown]
    wanted = None if body.arguments is None else bodies.arguments(body.arguments)
    found = access.activate(call.actor, body.role, wanted, shown, actor=call.actor, now=call.now)
    return answers.MembershipPage([shaping.activation_answer(one) for one in found], None)


@PAGES.serve(Endpoint(
    "POST", "/v1/memberships/{id}/rights", "issue the rights of one of the caller's memberships",
    answers.RightsAnswer, takes_key=True, tag="rights", answers_with=201
))  # fmt: skip
def authorise(access: AccessControl, call: Call[None]) -> answers.RightsAnswer:
    issued = access.authorise(call.actor, call.id, actor=call.actor, now=call.now)
    return answers.RightsAnswer([shaping.right_answer(one) for one in issued])


def _may_deactivate(access: AccessControl, call: Call[bodies.Reason]) -> None:
    # Also where it has ended: the caller that ended it may ask again, and gets the same answer.
    if not access.is_of(call.actor, call.id):
        access.authorised(call.actor, call.pool, AdminAct.CHANGE_RIGHTS, call.now)


@PAGES.serve(Endpoint(
    "POST", "/v1/memberships/{id}/end", "end a membership: the caller's, or any with /admin/rights",
    answers.RevokedAnswer, bodies.Reason, takes_key=True, tag="rights", takes_away=True,
    may=_may_deactivate
))  # fmt: skip
def deactivate(access: AccessControl, call: Call[bodies.Reason]) -> Revoked:
    return access.deactivate(call.id, call.asked.reason, actor=call.actor, now=call.now)


@PAGES.serve(Endpoint(
    "GET", "/v1/principals/{principal}/memberships",
    "active roles: the caller's, or those of any principal with /admin/register", answers.MembershipPage,
    question=bodies.PageQuestion, tag="rights"
))  # fmt: skip
def memberships(access: AccessControl, call: Call[bodies.PageQuestion]) -> answers.MembershipPage:
    check_own(access, call, call.principal)
    part = call.asked
    found = access.memberships_of(call.principal, call.now, after=part.after, limit=part.limit)
    return page_of(answers.MembershipPage, found, shaping.activation_answer)


@PAGES.serve(Endpoint(
    "GET", "/v1/principals/{principal}/rights",
    "what the register has: about the caller, or about any principal with /admin/register", answers.EntryPage,
    question=bodies.PageQuestion, tag="register"
))  # fmt: skip
def rights(access: AccessControl, call: Call[bodies.PageQuestion]) -> answers.EntryPage:
    check_own(access, call, call.principal)
    found = access.rights_of(call.principal, after=call.asked.after, limit=call.asked.limit)
    return page_of(answers.EntryPage, found, shaping.entry_answer)


def _may_register(access: AccessControl, call: Call[bodies.DelegationBody]) -> None:
    issuer = certificate_from_bytes(call.asked.certificate).certificate.issuer
    check_own(access, call, issuer, AdminAct.CHANGE_REGISTER)


@PAGES.serve(Endpoint(
    "POST", "/v1/delegations", "note that the caller passed a right on", answers.EntryAnswer,
    bodies.DelegationBody, takes_key=True, tag="register", answers_with=201, may=_may_register
))  # fmt: skip
def register_delegation(access: AccessControl, call: Call[bodies.DelegationBody]) -> answers.EntryAnswer:
    signed = certificate_from_bytes(call.asked.certificate)
    return shaping.entry_answer(access.register_delegation(signed, actor=call.actor, now=call.now))


@PAGES.serve(Endpoint(
    "POST", "/v1/revocations", "revoke certificates, and all that depends on them", answers.RevokedAnswer,
    bodies.Revocation, act=AdminAct.CHANGE_RIGHTS, takes_key=True, tag="rights", takes_away=True
))  # fmt: skip
def revoke(access: AccessControl, call: Call[bodies.Revocation]) -> Revoked:
    body = call.asked
    ids = [id_from_text(one) for one in body.ids]
    shown = [certificate_from_bytes(one) for one in body.certificates]
    if not ids and not shown:
        raise BadCall("say what to revoke: `ids`, or `certificates`")
    return access.revoke(ids, body.reason, actor=call.actor, now=call.now, certificates=shown)
