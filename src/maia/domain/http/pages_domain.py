"""The pages about the domain itself: its policy, its event types, its appointments and facts."""

from __future__ import annotations

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import NotFound
from maia.credentials import (
    certificate_from_bytes,
    principal_from_text,
)
from maia.domain.access.results import Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.endpoints import Answer, Call
from maia.domain.http.handlers import PageWork, id_of, page_of, told
from maia.domain.http.openapi import API_VERSION
from maia.types import definition_from_bytes

__all__ = ["DomainPages"]


class DomainPages(PageWork):
    """Policy, types, appointments and facts."""

    async def domain(self, call: Call) -> Answer:
        """Say which domain this is, and for which run requests are to be signed."""
        has_policy = await self.service.ask(lambda access: access.policy() is not None)
        gate = self.gate
        return Answer(
            answers.DomainAnswer(
                str(gate.audience), gate.instance.hex(), str(call.now), gate.skew_s, API_VERSION, has_policy
            )
        )

    async def policy(self, call: Call) -> Answer:
        """Show the policy in force."""

        def work(access: AccessControl) -> answers.PolicyAnswer:
            loaded = access.policy()
            if loaded is None:
                raise NotFound("no policy is in force; nothing is granted")
            return shaping.policy_answer(loaded)

        return await self.ask(call, work)

    async def load_policy(self, call: Call) -> Answer:
        """Put a policy in force; a policy with errors leaves the one before in force."""
        body: bodies.PolicyBody = call.body
        loaded: list[answers.PolicyAnswer] = []

        def work(access: AccessControl) -> Revoked:
            found = access.load_policy(body.text, actor=call.actor, now=call.now, parents=body.parents)
            loaded.append(shaping.policy_answer(found))
            return found.revoked

        return await self.take_away(call, work, lambda _revoked: loaded[0])

    async def reload_policy(self, call: Call) -> Answer:
        """Read the policy's file again."""
        await self.ask(call, lambda _access: None)
        if self.reload is None:
            raise NotFound("this domain's policy has no file; load it with PUT /v1/policy")
        loaded, is_known = await self.reload(call.actor)
        return told(shaping.policy_answer(loaded), is_known=is_known)

    async def types(self, call: Call) -> Answer:
        """List the types that policies can speak of."""
        question: bodies.PageQuestion = call.question

        def work(access: AccessControl) -> answers.TypePage:
            known = sorted(access.types(call.now).values(), key=lambda one: one.id)
            rest = [one for one in known if question.after is None or one.id.hex() > question.after]
            shown = rest[: question.limit]
            following = shown[-1].id.hex() if len(rest) > len(shown) else None
            return answers.TypePage([shaping.type_answer(one.signed) for one in shown], following)

        return await self.ask(call, work)

    async def register_type(self, call: Call) -> Answer:
        """Keep a version of a type."""
        signed = definition_from_bytes(call.body.definition)
        return await self.issue(
            call,
            lambda access: shaping.type_answer(
                access.register_type(signed, actor=call.actor, now=call.now).signed
            ),
        )

    async def hold(self, call: Call) -> Answer:
        """Keep certificates that lead from owners to this domain."""
        held = [certificate_from_bytes(one) for one in call.body.certificates]
        return await self.issue(
            call, lambda access: answers.Count(access.hold(held, actor=call.actor, now=call.now))
        )

    async def appoint(self, call: Call) -> Answer:
        """Appoint somebody to something."""
        body: bodies.Appointing = call.body
        holder, valid = principal_from_text(body.holder), bodies.validity(body.valid)
        parameters = bodies.arguments(body.parameters)
        return await self.issue(
            call,
            lambda access: shaping.appointment_answer(
                access.appoint(holder, body.name, parameters, valid, actor=call.actor, now=call.now)
            ),
        )

    async def appointments(self, call: Call) -> Answer:
        """List appointments that stand."""
        question: bodies.HolderQuestion = call.question
        holder = None if question.holder is None else principal_from_text(question.holder)
        return await self.ask(
            call,
            lambda access: page_of(
                answers.AppointmentPage,
                access.appointments(holder=holder, after=question.after, limit=question.limit),
                shaping.appointment_answer,
            ),
        )

    async def revoke_appointment(self, call: Call) -> Answer:
        """Take an appointment back, and whatever rests on it."""
        id_, reason = id_of(call), call.body.reason
        return await self.take_away(
            call, lambda access: access.revoke_appointment(id_, reason, actor=call.actor, now=call.now)
        )

    async def facts(self, call: Call) -> Answer:
        """List the rows of a fact."""
        question: bodies.FactsQuestion = call.question
        return await self.ask(
            call,
            lambda access: page_of(
                answers.FactPage,
                access.facts(question.name, after=question.after, limit=question.limit),
                lambda row: [bodies.written(one) for one in row],
            ),
        )

    async def assert_fact(self, call: Call) -> Answer:
        """Say that a fact holds."""
        body: bodies.FactBody = call.body
        row = bodies.arguments(body.arguments)
        return await self.issue(
            call,
            lambda access: answers.News(access.assert_fact(body.name, row, actor=call.actor, now=call.now)),
            status=200,
        )

    async def retract_fact(self, call: Call) -> Answer:
        """Say that a fact holds no more."""
        body: bodies.FactBody = call.body
        row = bodies.arguments(body.arguments)
        return await self.take_away(
            call, lambda access: access.retract_fact(body.name, row, actor=call.actor, now=call.now)
        )

    async def replace_facts(self, call: Call) -> Answer:
        """Make exactly these rows of a fact hold."""
        rows = [bodies.arguments(row) for row in call.body.rows]
        name = call.path["name"]
        return await self.take_away(
            call, lambda access: access.replace_facts(name, rows, actor=call.actor, now=call.now)
        )
