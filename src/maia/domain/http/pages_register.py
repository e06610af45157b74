"""The pages that tell who can do what, and what was done, to those who may read register or audit."""

from __future__ import annotations

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import BadCall, NotFound
from maia.credentials import (
    Action,
    TypeName,
    actions_from_words,
    principal_from_text,
)
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.endpoints import Answer, Call
from maia.domain.http.handlers import PageWork, check_own, page_of
from maia.events import Instant
from maia.types import VerifiedType

__all__ = ["RegisterPages"]


class RegisterPages(PageWork):
    """The register and the audit."""

    async def who_can(self, call: Call) -> Answer:
        """Say who can do what was asked about."""
        question: bodies.WhoCanQuestion = call.question
        at = call.now if question.at is None else bodies.moment(question.at)
        action = _action(question.action)

        def work(access: AccessControl) -> answers.HolderPage:
            event_type = _type(access, question, call.now)
            found = access.who_can(
                action, event_type.name, question.attribute, at, after=question.after, limit=question.limit
            )
            return page_of(answers.HolderPage, found, lambda one: shaping.holder_answer(one, event_type))

        return await self.ask(call, work)

    async def rights(self, call: Call) -> Answer:
        """List what the register knows of a principal: oneself, or anybody with the register's right."""
        question: bodies.PageQuestion = call.question
        principal = principal_from_text(call.path["principal"])

        def work(access: AccessControl) -> answers.EntryPage:
            check_own(access, call, principal)
            found = access.rights_of(principal, after=question.after, limit=question.limit)
            return page_of(answers.EntryPage, found, shaping.entry_answer)

        return await self.ask(call, work)

    async def register(self, call: Call) -> Answer:
        """List the register."""
        question: bodies.RegisterQuestion = call.question
        at = question.standing_at
        standing = call.now if at == "now" else None if at is None else bodies.moment(at)
        return await self.ask(
            call,
            lambda access: page_of(
                answers.EntryPage,
                access.register(standing_at=standing, after=question.after, limit=question.limit),
                shaping.entry_answer,
            ),
        )

    async def would(self, call: Call) -> Answer:
        """Say what a member of a role would be able to do."""
        body: bodies.WouldBody = call.body
        wanted = bodies.arguments(body.arguments)

        def work(access: AccessControl) -> answers.AbilitiesAnswer:
            known = access.types(call.now).values()
            names = {one.uid: one.name for event_type in known for one in event_type.attributes}
            found = access.would_be_able(body.role, wanted, call.now)
            return answers.AbilitiesAnswer([shaping.ability_answer(one, names) for one in found])

        return await self.ask(call, work)

    async def audit(self, call: Call) -> Answer:
        """List audit records."""
        question: bodies.AuditQuestion = call.question

        def work(access: AccessControl) -> answers.AuditPage:
            found = access.audit(after=question.after, limit=question.limit)
            following = found.rows[-1].number if found.rows and found.after is not None else None
            return answers.AuditPage([shaping.audit_answer(one) for one in found.rows], following)

        return await self.ask(call, work)

    async def audit_head(self, call: Call) -> Answer:
        """Say how long the audit is, and what its last record makes of all of them."""

        def work(access: AccessControl) -> answers.AuditHeadAnswer:
            head = access.audit_head()
            return answers.AuditHeadAnswer(head.length, head.digest.hex())

        return await self.ask(call, work)


def _action(word: str) -> Action:
    actions = actions_from_words([word])
    if len(actions) != 1:
        raise BadCall("one action is asked about at a time")
    return next(iter(actions))


def _type(access: AccessControl, question: bodies.WhoCanQuestion, now: Instant) -> VerifiedType:
    def fits(name: TypeName) -> bool:
        return (
            name.name == question.type
            and (question.owner is None or str(name.owner) == question.owner)
            and (question.version is None or name.version == question.version)
        )

    found = [one for name, one in access.types(now).items() if fits(name)]
    older = {one.definition.previous for one in found}
    newest = (
        found if question.version is not None else [one for one in found if one.name.version not in older]
    )
    if len(newest) != 1:
        raise NotFound(f"{len(newest)} types fit; say which with owner and version")
    return newest[0]
