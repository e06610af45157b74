"""The pages about roles and rights: callers ask for their own; taking away wants an administrator's right."""

from __future__ import annotations

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import BadCall
from maia.credentials import (
    certificate_from_bytes,
    principal_from_text,
)
from maia.credentials.encoding.statements import statement_from_bytes
from maia.domain.access.results import AdminAct
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.endpoints import Answer, Call
from maia.domain.http.handlers import (
    PageWork,
    check_own,
    id_from_word,
    id_of,
    page_of,
    pool_of,
    shown_of,
)
from maia.errors import Refusal

__all__ = ["RightsPages"]


class LoginGrantsNothing(Refusal):
    """Nothing that the caller showed, or is known for, gives it a role or a right here now."""

    code = "REFUSED-LOGIN"


class RightsPages(PageWork):
    """Roles, rights and statements."""

    async def login(self, call: Call) -> Answer:
        """Give the caller every role and every right that it can have now."""
        shown = shown_of(call.body.shown)

        def work(access: AccessControl) -> answers.WalletAnswer:
            wallet = access.login(call.actor, shown, actor=call.actor, now=call.now)
            if not wallet.memberships and not wallet.issued:
                raise LoginGrantsNothing("nothing gives you a role or a right here now")
            return shaping.wallet_answer(wallet)

        return await self.issue(call, work, status=200)

    async def activate(self, call: Call) -> Answer:
        """Make the caller a member of a role."""
        body: bodies.Activation = call.body
        shown = shown_of(body.shown)
        wanted = None if body.arguments is None else bodies.arguments(body.arguments)

        def work(access: AccessControl) -> answers.MembershipPage:
            found = access.activate(call.actor, body.role, wanted, shown, actor=call.actor, now=call.now)
            return answers.MembershipPage([shaping.activation_answer(one) for one in found], None)

        return await self.issue(call, work)

    async def memberships(self, call: Call) -> Answer:
        """List the active roles of a principal: one's own, or anybody's with the register's right."""
        question: bodies.PageQuestion = call.question
        principal = principal_from_text(call.path["principal"])

        def work(access: AccessControl) -> answers.MembershipPage:
            check_own(access, call, principal)
            found = access.memberships_of(principal, call.now, after=question.after, limit=question.limit)
            return page_of(answers.MembershipPage, found, shaping.activation_answer)

        return await self.ask(call, work)

    async def deactivate(self, call: Call) -> Answer:
        """End a membership: one's own, or anybody's with the right to change rights."""
        id_, reason = id_of(call), call.body.reason

        def may(access: AccessControl) -> None:
            # Also where it has ended: whoever ended it may ask again, and hears the same.
            if not access.is_of(call.actor, id_):
                access.authorised(call.actor, pool_of(call), AdminAct.CHANGE_RIGHTS, call.now)

        return await self.take_away(
            call, lambda access: access.deactivate(id_, reason, actor=call.actor, now=call.now), may=may
        )

    async def authorise(self, call: Call) -> Answer:
        """Issue the rights of one of the caller's memberships."""
        id_ = id_of(call)
        return await self.issue(
            call,
            lambda access: answers.RightsAnswer([
                shaping.right_answer(one)
                for one in access.authorise(call.actor, id_, actor=call.actor, now=call.now)
            ]),
        )  # fmt: skip

    async def register_delegation(self, call: Call) -> Answer:
        """Note that the caller passed a right on."""
        signed = certificate_from_bytes(call.body.certificate)

        return await self.issue(
            call,
            lambda access: shaping.entry_answer(
                access.register_delegation(signed, actor=call.actor, now=call.now)
            ),
            may=lambda access: check_own(access, call, signed.certificate.issuer, AdminAct.CHANGE_REGISTER),
        )

    async def revoke(self, call: Call) -> Answer:
        """Take certificates back, and whatever rests on them."""
        body: bodies.Revocation = call.body
        ids = [id_from_word(one) for one in body.ids]
        shown = [certificate_from_bytes(one) for one in body.certificates]
        if not ids and not shown:
            raise BadCall("say what to revoke: `ids`, or `certificates`")
        return await self.take_away(
            call,
            lambda access: access.revoke(
                ids, body.reason, actor=call.actor, now=call.now, certificates=shown
            ),
        )

    async def statements(self, call: Call) -> Answer:
        """Give what tells a newcomer everything about what is revoked; statements are public."""
        found = await self.service.ask(lambda access: access.current_statements(call.now))
        return Answer(answers.StatementPage([shaping.statement_answer(one) for one in found], None))

    async def history(self, call: Call) -> Answer:
        """Give the statements that are kept, the oldest first."""
        question: bodies.PageQuestion = call.question
        found = await self.service.ask(
            lambda access: access.statements(after=question.after, limit=question.limit)
        )
        return Answer(page_of(answers.StatementPage, found, shaping.statement_answer))

    async def hear(self, call: Call) -> Answer:
        """Believe a statement of another issuer."""
        signed = statement_from_bytes(call.body.statement)
        return await self.take_away(
            call, lambda access: access.hear_statement(signed, actor=call.actor, now=call.now)
        )

    async def revalidate(self, call: Call) -> Answer:
        """Say that a certificate is valid for one request of one verifier."""
        body: bodies.OneTimeQuestion = call.body
        return await self.ask(
            call,
            lambda access: shaping.statement_answer(
                access.revalidate_once(body.certificate, body.request, body.nonce, now=call.now)
            ),
        )
