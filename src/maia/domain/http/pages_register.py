"""The pages about the register, what the domain states, and its audit. Statements are public."""

from __future__ import annotations

from typing import Final

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import BadCall, NotFound
from maia.credentials import TypeName, actions_from_words
from maia.credentials.statements import AuditHead, statement_from_bytes
from maia.domain.access.results import AdminAct, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.pages import Call, Endpoint, PageTable, id_from_text, page_of
from maia.events import Instant
from maia.types import VerifiedType

PAGES: Final = PageTable()


@PAGES.serve(Endpoint(
    "GET", "/v1/register", "the register of rights", answers.EntryPage, question=bodies.RegisterQuestion,
    act=AdminAct.READ_REGISTER, tag="register"
))  # fmt: skip
def register(access: AccessControl, call: Call[bodies.RegisterQuestion]) -> answers.EntryPage:
    at = call.asked.standing_at
    standing = call.now if at == "now" else None if at is None else bodies.moment(at)
    found = access.register(standing_at=standing, after=call.asked.after, limit=call.asked.limit)
    return page_of(answers.EntryPage, found, shaping.entry_answer)


@PAGES.serve(Endpoint(
    "GET", "/v1/register/who-can", "who can do something with a type", answers.HolderPage,
    question=bodies.WhoCanQuestion, act=AdminAct.READ_REGISTER, tag="register"
))  # fmt: skip
def who_can(access: AccessControl, call: Call[bodies.WhoCanQuestion]) -> answers.HolderPage:
    question = call.asked
    at = call.now if question.at is None else bodies.moment(question.at)
    actions = actions_from_words([question.action])
    if len(actions) != 1:
        raise BadCall("one action is asked about at a time")
    (action,) = actions
    event_type = _type(access, question, call.now)
    found = access.who_can(
        action, event_type.name, question.attribute, at, after=question.after, limit=question.limit
    )
    return page_of(answers.HolderPage, found, lambda one: shaping.holder_answer(one, event_type))


@PAGES.serve(Endpoint(
    "POST", "/v1/register/would-be-able", "what a member of a role would be able to do",
    answers.AbilitiesAnswer, bodies.WouldBody, act=AdminAct.READ_REGISTER, tag="register"
))  # fmt: skip
def would(access: AccessControl, call: Call[bodies.WouldBody]) -> answers.AbilitiesAnswer:
    known = access.types(call.now).values()
    names = {one.uid: one.name for event_type in known for one in event_type.attributes}
    found = access.would_be_able(call.asked.role, bodies.arguments(call.asked.arguments), call.now)
    return answers.AbilitiesAnswer([shaping.ability_answer(one, names) for one in found])


@PAGES.serve(Endpoint(
    "GET", "/v1/statements", "the statements that hold now", answers.StatementPage, is_public=True,
    tag="statements"
))  # fmt: skip
def statements(access: AccessControl, call: Call[None]) -> answers.StatementPage:
    found = access.current_stored(call.now)
    return answers.StatementPage([answers.StatementAnswer(one) for one in found], None, access.stream)


@PAGES.serve(Endpoint(
    "GET", "/v1/statements/history", "the statements that are kept", answers.StatementPage,
    question=bodies.PageQuestion, is_public=True, tag="statements"
))  # fmt: skip
def history(access: AccessControl, call: Call[bodies.PageQuestion]) -> answers.StatementPage:
    found = access.stored_statements(after=call.asked.after, limit=call.asked.limit)
    return page_of(answers.StatementPage, found, answers.StatementAnswer)


@PAGES.serve(Endpoint(
    "POST", "/v1/statements", "accept a statement of another issuer", answers.RevokedAnswer,
    bodies.StatementBody, act=AdminAct.CHANGE_REGISTER, takes_key=True, tag="statements",
    takes_away=True
))  # fmt: skip
def receive_statement(access: AccessControl, call: Call[bodies.StatementBody]) -> Revoked:
    signed = statement_from_bytes(call.asked.statement)
    return access.receive_statement(signed, actor=call.actor, now=call.now)


@PAGES.serve(Endpoint(
    "POST", "/v1/revalidations", "is a certificate valid for this one request? (one-time revalidation)",
    answers.StatementAnswer, bodies.OneTimeQuestion, tag="statements"
))  # fmt: skip
def revalidate(access: AccessControl, call: Call[bodies.OneTimeQuestion]) -> answers.StatementAnswer:
    body = call.asked
    signed = access.revalidate_once(body.certificate, body.request, body.nonce, now=call.now)
    return shaping.statement_answer(signed)


@PAGES.serve(Endpoint(
    "GET", "/v1/audit", "audit records", answers.AuditPage, question=bodies.AuditQuestion,
    act=AdminAct.READ_AUDIT, tag="audit"
))  # fmt: skip
def audit(access: AccessControl, call: Call[bodies.AuditQuestion]) -> answers.AuditPage:
    found = access.audit(after=call.asked.after, limit=call.asked.limit)
    following = found.rows[-1].number if found.rows and found.after is not None else None
    return answers.AuditPage([shaping.audit_answer(one) for one in found.rows], following)


@PAGES.serve(Endpoint(
    "GET", "/v1/audit/head", "the length and the digest of the audit", answers.AuditHeadAnswer,
    act=AdminAct.READ_AUDIT, tag="audit"
))  # fmt: skip
def audit_head(access: AccessControl, call: Call[None]) -> answers.AuditHeadAnswer:
    head = access.audit_head()
    return answers.AuditHeadAnswer(head.length, head.digest.hex())


@PAGES.serve(Endpoint(
    "POST", "/v1/ledgers/head", "put the head of the caller's ledger on record in the audit",
    answers.LedgerHeadAnswer, bodies.LedgerHeadBody, act=AdminAct.STATE_LEDGER, tag="audit"
))  # fmt: skip
def ledger_head(access: AccessControl, call: Call[bodies.LedgerHeadBody]) -> answers.LedgerHeadAnswer:
    head = AuditHead(call.asked.entries, id_from_text(call.asked.head))
    record, problem = access.state_ledger_head(head, actor=call.actor, now=call.now)
    return answers.LedgerHeadAnswer(record.number, problem)


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
