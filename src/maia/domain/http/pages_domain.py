"""The pages about the domain itself: its policy, its event types, its appointments and facts."""

from __future__ import annotations

from typing import Final

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import NotFound
from maia.credentials import certificate_from_bytes, principal_from_text
from maia.domain.access.results import AdminAct, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.pages import (
    API_VERSION,
    Answer,
    Call,
    Endpoint,
    Pages,
    PageTable,
    id_from_text,
    page_of,
    published,
)
from maia.types import definition_from_bytes

PAGES: Final = PageTable()
_ROWS_BYTES_MAX: Final = 32 << 20


@PAGES.serve(Endpoint(
    "GET", "/v1/domain", "which domain this is, and for which run to sign requests", answers.DomainAnswer,
    is_public=True
))  # fmt: skip
async def domain(pages: Pages, call: Call) -> Answer:
    has_policy = await pages.service.ask(lambda access: access.policy() is not None)
    gate = pages.gate
    return Answer(
        answers.DomainAnswer(
            str(gate.audience), gate.instance.hex(), str(call.now), gate.skew_s, API_VERSION, has_policy
        )
    )


@PAGES.serve(Endpoint(
    "GET", "/v1/policy", "the policy in force", answers.PolicyAnswer, act=AdminAct.READ_POLICY, tag="policy"
))  # fmt: skip
async def policy(pages: Pages, call: Call) -> Answer:
    def work(access: AccessControl) -> answers.PolicyAnswer:
        loaded = access.policy()
        if loaded is None:
            raise NotFound("no policy is in force; nothing is granted")
        return shaping.policy_answer(loaded)

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "PUT", "/v1/policy", "put a policy in force, or keep the last good one", answers.PolicyAnswer,
    bodies.PolicyBody, act=AdminAct.CHANGE_POLICY, takes_key=True, tag="policy", takes_away=True
))  # fmt: skip
async def load_policy(pages: Pages, call: Call) -> Answer:
    body: bodies.PolicyBody = call.body
    loaded: list[answers.PolicyAnswer] = []

    def work(access: AccessControl) -> Revoked:
        found = access.load_policy(body.text, actor=call.actor, now=call.now, parents=body.parents)
        loaded.append(shaping.policy_answer(found))
        return found.revoked

    return await pages.take_away(call, work, lambda _revoked: loaded[0])


@PAGES.serve(Endpoint(
    "POST", "/v1/policy/reload", "read the policy's file again", answers.PolicyAnswer,
    act=AdminAct.CHANGE_POLICY, tag="policy", takes_away=True
))  # fmt: skip
async def reload_policy(pages: Pages, call: Call) -> Answer:
    await pages.ask(call, lambda _access: None)
    if pages.reload is None:
        raise NotFound("this domain's policy has no file; load it with PUT /v1/policy")
    loaded, is_known = await pages.reload(call.actor)
    return published(shaping.policy_answer(loaded), is_known=is_known)


@PAGES.serve(Endpoint(
    "GET", "/v1/types", "the event types that policies can speak of", answers.TypePage,
    question=bodies.PageQuestion, tag="types"
))  # fmt: skip
async def types(pages: Pages, call: Call) -> Answer:
    question: bodies.PageQuestion = call.question

    def work(access: AccessControl) -> answers.TypePage:
        known = sorted(access.types(call.now).values(), key=lambda one: one.id)
        rest = [one for one in known if question.after is None or one.id.hex() > question.after]
        shown = rest[: question.limit]
        following = shown[-1].id.hex() if len(rest) > len(shown) else None
        return answers.TypePage([shaping.type_answer(one.signed) for one in shown], following)

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "POST", "/v1/types", "register a version of an event type", answers.TypeAnswer, bodies.TypeBody,
    act=AdminAct.CHANGE_POLICY, takes_key=True, tag="types", answers_with=201
))  # fmt: skip
async def register_type(pages: Pages, call: Call) -> Answer:
    signed = definition_from_bytes(call.body.definition)
    return await pages.issue(
        call,
        lambda access: shaping.type_answer(
            access.register_type(signed, actor=call.actor, now=call.now).signed
        ),
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/held", "keep certificates that lead from owners to this domain", answers.Count,
    bodies.CertificatesBody, act=AdminAct.CHANGE_POLICY, takes_key=True, tag="policy", answers_with=201
))  # fmt: skip
async def hold(pages: Pages, call: Call) -> Answer:
    held = [certificate_from_bytes(one) for one in call.body.certificates]
    return await pages.issue(
        call, lambda access: answers.Count(access.hold(held, actor=call.actor, now=call.now))
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/appointments", "issue an appointment", answers.AppointmentAnswer,
    bodies.Appointing, act=AdminAct.CHANGE_APPOINTMENTS, takes_key=True, tag="appointments",
    answers_with=201
))  # fmt: skip
async def appoint(pages: Pages, call: Call) -> Answer:
    body: bodies.Appointing = call.body
    holder, valid = principal_from_text(body.holder), bodies.validity(body.valid)
    parameters = bodies.arguments(body.parameters)
    return await pages.issue(
        call,
        lambda access: shaping.appointment_answer(
            access.appoint(holder, body.name, parameters, valid, actor=call.actor, now=call.now)
        ),
    )


@PAGES.serve(Endpoint(
    "GET", "/v1/appointments", "appointments that are valid", answers.AppointmentPage,
    question=bodies.HolderQuestion, act=AdminAct.READ_APPOINTMENTS, tag="appointments"
))  # fmt: skip
async def appointments(pages: Pages, call: Call) -> Answer:
    question: bodies.HolderQuestion = call.question
    holder = None if question.holder is None else principal_from_text(question.holder)
    return await pages.ask(
        call,
        lambda access: page_of(
            answers.AppointmentPage,
            access.appointments(holder=holder, after=question.after, limit=question.limit),
            shaping.appointment_answer,
        ),
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/appointments/{id}/revocation", "revoke an appointment, and all that depends on it",
    answers.RevokedAnswer, bodies.Reason, act=AdminAct.CHANGE_APPOINTMENTS, takes_key=True,
    tag="appointments", takes_away=True
))  # fmt: skip
async def revoke_appointment(pages: Pages, call: Call) -> Answer:
    id_, reason = id_from_text(call.path["id"]), call.body.reason
    return await pages.take_away(
        call, lambda access: access.revoke_appointment(id_, reason, actor=call.actor, now=call.now)
    )


@PAGES.serve(Endpoint(
    "GET", "/v1/facts", "the rows of a fact", answers.FactPage, question=bodies.FactsQuestion,
    act=AdminAct.READ_FACTS, tag="facts"
))  # fmt: skip
async def facts(pages: Pages, call: Call) -> Answer:
    question: bodies.FactsQuestion = call.question
    return await pages.ask(
        call,
        lambda access: page_of(
            answers.FactPage,
            access.facts(question.name, after=question.after, limit=question.limit),
            lambda row: [bodies.written(one) for one in row],
        ),
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/facts", "say that a fact holds", answers.News, bodies.FactBody, act=AdminAct.CHANGE_FACTS,
    takes_key=True, tag="facts"
))  # fmt: skip
async def assert_fact(pages: Pages, call: Call) -> Answer:
    body: bodies.FactBody = call.body
    row = bodies.arguments(body.arguments)
    return await pages.issue(
        call,
        lambda access: answers.News(access.assert_fact(body.name, row, actor=call.actor, now=call.now)),
        status=200,
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/facts/retraction", "say that a fact holds no more", answers.RevokedAnswer, bodies.FactBody,
    act=AdminAct.CHANGE_FACTS, takes_key=True, tag="facts", takes_away=True
))  # fmt: skip
async def retract_fact(pages: Pages, call: Call) -> Answer:
    body: bodies.FactBody = call.body
    row = bodies.arguments(body.arguments)
    return await pages.take_away(
        call, lambda access: access.retract_fact(body.name, row, actor=call.actor, now=call.now)
    )


@PAGES.serve(Endpoint(
    "PUT", "/v1/facts/{name}", "make exactly these rows of a fact hold", answers.RevokedAnswer,
    bodies.FactRows, act=AdminAct.CHANGE_FACTS, takes_key=True, tag="facts", body_max=_ROWS_BYTES_MAX,
    takes_away=True
))  # fmt: skip
async def replace_facts(pages: Pages, call: Call) -> Answer:
    rows = [bodies.arguments(row) for row in call.body.rows]
    name = call.path["name"]
    return await pages.take_away(
        call, lambda access: access.replace_facts(name, rows, actor=call.actor, now=call.now)
    )
