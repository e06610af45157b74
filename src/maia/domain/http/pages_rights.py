"""The pages about roles and rights.

Callers ask for their own; taking away, and reading about others, wants an administrator's right.
"""

from __future__ import annotations

from typing import Final

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import BadCall
from maia.credentials import certificate_from_bytes, principal_from_text
from maia.credentials.appointments import appointment_from_bytes
from maia.domain.access.results import AdminAct
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.pages import (
    Answer,
    Call,
    Endpoint,
    Pages,
    PageTable,
    check_own,
    id_from_text,
    page_of,
    pool_of,
)
from maia.errors import Refusal

PAGES: Final = PageTable()


class LoginGrantsNothing(Refusal):
    """Nothing that the caller showed, or is known for, gives it a role or a right here now."""

    code = "REFUSED-LOGIN"


@PAGES.serve(Endpoint(
    "POST", "/v1/login", "every role and every right that the caller can have now", answers.WalletAnswer,
    bodies.LoginBody, takes_key=True, tag="rights"
))  # fmt: skip
async def login(pages: Pages, call: Call) -> Answer:
    shown = [appointment_from_bytes(one) for one in call.body.shown]

    def work(access: AccessControl) -> answers.WalletAnswer:
        wallet = access.login(call.actor, shown, actor=call.actor, now=call.now)
        if not wallet.memberships and not wallet.issued:
            raise LoginGrantsNothing("nothing gives you a role or a right here now")
        return shaping.wallet_answer(wallet)

    return await pages.issue(call, work, status=200)


@PAGES.serve(Endpoint(
    "GET", "/v1/acts", "what the caller's certificates let it do and read here as an administrator, now",
    answers.ActsAnswer, question=bodies.ActsQuestion, tag="rights"
))  # fmt: skip
async def acts(pages: Pages, call: Call) -> Answer:
    def may(access: AccessControl, act: AdminAct) -> bool:
        try:
            access.authorised(call.actor, pool_of(call), act, call.now)
        except Refusal:
            return False
        return True

    topics: str | None = call.question.topics
    asked = [act for act in AdminAct if topics is None or act.topic in topics.split(",")]

    def work(access: AccessControl) -> answers.ActsAnswer:
        return answers.ActsAnswer([f"{act.action.value} {act.topic}" for act in asked if may(access, act)])

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "POST", "/v1/memberships", "make the caller a member of a role", answers.MembershipPage,
    bodies.Activation, takes_key=True, tag="rights", answers_with=201
))  # fmt: skip
async def activate(pages: Pages, call: Call) -> Answer:
    body: bodies.Activation = call.body
    shown = [appointment_from_bytes(one) for one in body.shown]
    wanted = None if body.arguments is None else bodies.arguments(body.arguments)

    def work(access: AccessControl) -> answers.MembershipPage:
        found = access.activate(call.actor, body.role, wanted, shown, actor=call.actor, now=call.now)
        return answers.MembershipPage([shaping.activation_answer(one) for one in found], None)

    return await pages.issue(call, work)


@PAGES.serve(Endpoint(
    "POST", "/v1/memberships/{id}/rights", "issue the rights of one of the caller's memberships",
    answers.RightsAnswer, takes_key=True, tag="rights", answers_with=201
))  # fmt: skip
async def authorise(pages: Pages, call: Call) -> Answer:
    id_ = id_from_text(call.path["id"])
    return await pages.issue(
        call,
        lambda access: answers.RightsAnswer([
            shaping.right_answer(one)
            for one in access.authorise(call.actor, id_, actor=call.actor, now=call.now)
        ]),
    )  # fmt: skip


@PAGES.serve(Endpoint(
    "POST", "/v1/memberships/{id}/end", "end a membership: the caller's, or any with /admin/rights",
    answers.RevokedAnswer, bodies.Reason, takes_key=True, tag="rights", takes_away=True
))  # fmt: skip
async def deactivate(pages: Pages, call: Call) -> Answer:
    id_, reason = id_from_text(call.path["id"]), call.body.reason

    def may(access: AccessControl) -> None:
        # Also where it has ended: the caller that ended it may ask again, and gets the same answer.
        if not access.is_of(call.actor, id_):
            access.authorised(call.actor, pool_of(call), AdminAct.CHANGE_RIGHTS, call.now)

    return await pages.take_away(
        call, lambda access: access.deactivate(id_, reason, actor=call.actor, now=call.now), may=may
    )


@PAGES.serve(Endpoint(
    "GET", "/v1/principals/{principal}/memberships",
    "active roles: the caller's, or those of any principal with /admin/register", answers.MembershipPage,
    question=bodies.PageQuestion, tag="rights"
))  # fmt: skip
async def memberships(pages: Pages, call: Call) -> Answer:
    question: bodies.PageQuestion = call.question
    principal = principal_from_text(call.path["principal"])

    def work(access: AccessControl) -> answers.MembershipPage:
        check_own(access, call, principal)
        found = access.memberships_of(principal, call.now, after=question.after, limit=question.limit)
        return page_of(answers.MembershipPage, found, shaping.activation_answer)

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "GET", "/v1/principals/{principal}/rights",
    "what the register has: about the caller, or about any principal with /admin/register", answers.EntryPage,
    question=bodies.PageQuestion, tag="register"
))  # fmt: skip
async def rights(pages: Pages, call: Call) -> Answer:
    question: bodies.PageQuestion = call.question
    principal = principal_from_text(call.path["principal"])

    def work(access: AccessControl) -> answers.EntryPage:
        check_own(access, call, principal)
        found = access.rights_of(principal, after=question.after, limit=question.limit)
        return page_of(answers.EntryPage, found, shaping.entry_answer)

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "POST", "/v1/delegations", "note that the caller passed a right on", answers.EntryAnswer,
    bodies.DelegationBody, takes_key=True, tag="register", answers_with=201
))  # fmt: skip
async def register_delegation(pages: Pages, call: Call) -> Answer:
    signed = certificate_from_bytes(call.body.certificate)

    return await pages.issue(
        call,
        lambda access: shaping.entry_answer(
            access.register_delegation(signed, actor=call.actor, now=call.now)
        ),
        may=lambda access: check_own(access, call, signed.certificate.issuer, AdminAct.CHANGE_REGISTER),
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/revocations", "revoke certificates, and all that depends on them", answers.RevokedAnswer,
    bodies.Revocation, act=AdminAct.CHANGE_RIGHTS, takes_key=True, tag="rights", takes_away=True
))  # fmt: skip
async def revoke(pages: Pages, call: Call) -> Answer:
    body: bodies.Revocation = call.body
    ids = [id_from_text(one) for one in body.ids]
    shown = [certificate_from_bytes(one) for one in body.certificates]
    if not ids and not shown:
        raise BadCall("say what to revoke: `ids`, or `certificates`")
    return await pages.take_away(
        call,
        lambda access: access.revoke(ids, body.reason, actor=call.actor, now=call.now, certificates=shown),
    )
