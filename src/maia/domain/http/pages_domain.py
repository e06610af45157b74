"""The pages about the domain itself: its policy, its event types, its appointments and facts."""

from __future__ import annotations

from typing import Final

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import NotFound
from maia.credentials import certificate_from_bytes, principal_from_text
from maia.domain.access.results import AdminAct, LoadedPolicy, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.pages import API_VERSION, Call, Endpoint, PageTable, page_of
from maia.types import definition_from_bytes

PAGES: Final = PageTable()
_ROWS_BYTES_MAX: Final = 32 << 20


@PAGES.serve(Endpoint(
    "GET", "/v1/domain", "which domain this is, and for which run to sign requests", answers.DomainAnswer,
    is_public=True
))  # fmt: skip
def domain(access: AccessControl, call: Call[None]) -> answers.DomainAnswer:
    gate, has_policy = call.pages.gate, access.policy() is not None
    run = str(gate.audience), gate.instance.hex(), str(call.now)
    return answers.DomainAnswer(*run, gate.skew_s, API_VERSION, has_policy)


@PAGES.serve(Endpoint(
    "GET", "/v1/policy", "the policy in force", answers.PolicyAnswer, act=AdminAct.READ_POLICY, tag="policy"
))  # fmt: skip
def policy(access: AccessControl, call: Call[None]) -> answers.PolicyAnswer:
    loaded = access.policy()
    if loaded is None:
        raise NotFound("no policy is in force; nothing is granted")
    return shaping.policy_answer(loaded)


@PAGES.serve(Endpoint(
    "PUT", "/v1/policy", "put a policy in force, or keep the last good one", answers.PolicyAnswer,
    bodies.PolicyBody, act=AdminAct.CHANGE_POLICY, takes_key=True, tag="policy", takes_away=True
))  # fmt: skip
def load_policy(access: AccessControl, call: Call[bodies.PolicyBody]) -> LoadedPolicy:
    body = call.asked
    return access.load_policy(
        body.text, actor=call.actor, now=call.now, parents=body.parents, owners=body.owners
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/policy/reload", "read the policy's file again", answers.PolicyAnswer,
    act=AdminAct.CHANGE_POLICY, tag="policy", takes_away=True
))  # fmt: skip
def reload_policy(access: AccessControl, call: Call[None]) -> LoadedPolicy:
    if call.pages.policy is None:
        raise NotFound("this domain's policy has no file; load it with PUT /v1/policy")
    text, parents = call.pages.policy.read()
    return access.load_policy(text, actor=call.actor, now=call.now, parents=parents)


@PAGES.serve(Endpoint(
    "GET", "/v1/types", "the event types that policies can speak of", answers.TypePage,
    question=bodies.PageQuestion, tag="types"
))  # fmt: skip
def types(access: AccessControl, call: Call[bodies.PageQuestion]) -> answers.TypePage:
    known = sorted(access.types(call.now).values(), key=lambda one: one.id)
    rest = [one for one in known if call.asked.after is None or one.id.hex() > call.asked.after]
    shown = rest[: call.asked.limit]
    following = shown[-1].id.hex() if len(rest) > len(shown) else None
    return answers.TypePage([shaping.type_answer(one.signed) for one in shown], following)


@PAGES.serve(Endpoint(
    "POST", "/v1/types", "register a version of an event type", answers.TypeAnswer, bodies.TypeBody,
    act=AdminAct.CHANGE_POLICY, takes_key=True, tag="types", answers_with=201
))  # fmt: skip
def register_type(access: AccessControl, call: Call[bodies.TypeBody]) -> answers.TypeAnswer:
    signed = definition_from_bytes(call.asked.definition)
    return shaping.type_answer(access.register_type(signed, actor=call.actor, now=call.now).signed)


@PAGES.serve(Endpoint(
    "POST", "/v1/held", "keep certificates that lead from owners to this domain", answers.Count,
    bodies.CertificatesBody, act=AdminAct.CHANGE_POLICY, takes_key=True, tag="policy", answers_with=201
))  # fmt: skip
def hold(access: AccessControl, call: Call[bodies.CertificatesBody]) -> answers.Count:
    held = [certificate_from_bytes(one) for one in call.asked.certificates]
    return answers.Count(access.hold(held, actor=call.actor, now=call.now))


@PAGES.serve(Endpoint(
    "POST", "/v1/appointments", "issue an appointment", answers.AppointmentAnswer,
    bodies.Appointing, act=AdminAct.CHANGE_APPOINTMENTS, takes_key=True, tag="appointments",
    answers_with=201
))  # fmt: skip
def appoint(access: AccessControl, call: Call[bodies.Appointing]) -> answers.AppointmentAnswer:
    body = call.asked
    holder, valid = principal_from_text(body.holder), bodies.validity(body.valid)
    parameters = bodies.arguments(body.parameters)
    signed = access.appoint(holder, body.name, parameters, valid, actor=call.actor, now=call.now)
    return shaping.appointment_answer(signed)


@PAGES.serve(Endpoint(
    "GET", "/v1/appointments", "appointments that are valid", answers.AppointmentPage,
    question=bodies.HolderQuestion, act=AdminAct.READ_APPOINTMENTS, tag="appointments"
))  # fmt: skip
def appointments(access: AccessControl, call: Call[bodies.HolderQuestion]) -> answers.AppointmentPage:
    holder = None if call.asked.holder is None else principal_from_text(call.asked.holder)
    found = access.appointments(holder=holder, after=call.asked.after, limit=call.asked.limit)
    return page_of(answers.AppointmentPage, found, shaping.appointment_answer)


@PAGES.serve(Endpoint(
    "POST", "/v1/appointments/{id}/revocation", "revoke an appointment, and all that depends on it",
    answers.RevokedAnswer, bodies.Reason, act=AdminAct.CHANGE_APPOINTMENTS, takes_key=True,
    tag="appointments", takes_away=True
))  # fmt: skip
def revoke_appointment(access: AccessControl, call: Call[bodies.Reason]) -> Revoked:
    return access.revoke_appointment(call.id, call.asked.reason, actor=call.actor, now=call.now)


@PAGES.serve(Endpoint(
    "GET", "/v1/facts", "the rows of a fact", answers.FactPage, question=bodies.FactsQuestion,
    act=AdminAct.READ_FACTS, tag="facts"
))  # fmt: skip
def facts(access: AccessControl, call: Call[bodies.FactsQuestion]) -> answers.FactPage:
    found = access.facts(call.asked.name, after=call.asked.after, limit=call.asked.limit)
    return page_of(answers.FactPage, found, lambda row: [bodies.written(one) for one in row])


@PAGES.serve(Endpoint(
    "POST", "/v1/facts", "say that a fact holds", answers.News, bodies.FactBody, act=AdminAct.CHANGE_FACTS,
    takes_key=True, tag="facts"
))  # fmt: skip
def assert_fact(access: AccessControl, call: Call[bodies.FactBody]) -> answers.News:
    row = bodies.arguments(call.asked.arguments)
    return answers.News(access.assert_fact(call.asked.name, row, actor=call.actor, now=call.now))


@PAGES.serve(Endpoint(
    "POST", "/v1/facts/retraction", "say that a fact holds no more", answers.RevokedAnswer, bodies.FactBody,
    act=AdminAct.CHANGE_FACTS, takes_key=True, tag="facts", takes_away=True
))  # fmt: skip
def retract_fact(access: AccessControl, call: Call[bodies.FactBody]) -> Revoked:
    row = bodies.arguments(call.asked.arguments)
    return access.retract_fact(call.asked.name, row, actor=call.actor, now=call.now)


@PAGES.serve(Endpoint(
    "PUT", "/v1/facts/{name}", "make exactly these rows of a fact hold", answers.RevokedAnswer,
    bodies.FactRows, act=AdminAct.CHANGE_FACTS, takes_key=True, tag="facts", body_max=_ROWS_BYTES_MAX,
    takes_away=True
))  # fmt: skip
def replace_facts(access: AccessControl, call: Call[bodies.FactRows]) -> Revoked:
    rows = [bodies.arguments(row) for row in call.asked.rows]
    return access.replace_facts(call.path["name"], rows, actor=call.actor, now=call.now)
