"""What is done at each call of the table (`maia.api.endpoints`)? What it returns is shown as that says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from maia.api import endpoints as api
from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.arguments import argument, arguments, moment, validity
from maia.api.endpoints import Asked, Endpoint
from maia.credentials import TypeName, actions_from_words, certificate_from_bytes, principal_from_text
from maia.credentials.appointments import X509_WORD, Argument, Word, appointment_from_bytes, read_word
from maia.credentials.attestation import NONCE_BYTES, SECRET_BYTES, Approved, Configuration
from maia.credentials.identity import identity_from_bytes
from maia.credentials.statements import AuditHead, statement_from_bytes
from maia.domain.access.results import AdminAct, LoadedPolicy, Page, Revoked, Wallet
from maia.domain.access.service import AccessControl
from maia.domain.http.answers import ability_answer, holder_answer
from maia.domain.http.calls import Call, Handler, id_from_text
from maia.domain.http.calls import Page as HttpPage
from maia.errors import BadInput, Refusal
from maia.events import AttributeUid, Instant, named_uid
from maia.types import VerifiedType, definition_from_bytes

_API_VERSION: Final = "1"
_Found = TypeVar("_Found")
_Read = TypeVar("_Read")

# Any: each call has a struct of its own.
PAGES: Final[dict[Endpoint[Any, Any], HttpPage[Any]]] = {}
"""Every call with what is done at it."""


def _at(
    endpoint: Endpoint[Asked, Any], may: Handler[Asked] | None = None
) -> Callable[[Handler[Asked]], Handler[Asked]]:
    """Have the function that follows answer a call."""

    def entered(handler: Handler[Asked]) -> Handler[Asked]:
        PAGES[endpoint] = HttpPage(endpoint, handler, may)
        return handler

    return entered


def _own(act: AdminAct) -> Handler[Any]:
    """Raise unless the caller asks about itself, or its certificates allow `act`."""
    return lambda access, call: _check_own(access, call, call.actor == call.principal, act)


def _check_own(access: AccessControl, call: Call[Any], is_own: bool, act: AdminAct) -> None:
    if not is_own:
        access.authorised(call.actor, call.pool, act, call.now)


def _there(found: _Found | None, missing: str) -> _Found:
    if found is None:
        raise BadInput("INPUT-NOT-FOUND", missing)
    return found


def _each(read: Callable[[bytes], _Read], given: Sequence[bytes]) -> list[_Read]:
    return [read(one) for one in given]


# ------------------------------------------------------------ the domain itself


@_at(api.DOMAIN)
def _domain(access: AccessControl, call: Call[bodies.Nothing]) -> answers.DomainAnswer:
    gate, has_policy = call.pages.gate, access.policy() is not None
    run = str(gate.audience), gate.instance.hex(), str(call.now)
    brokers = list(call.pages.brokers)
    return answers.DomainAnswer(*run, gate.skew_s, _API_VERSION, has_policy, brokers)


_at(api.POLICY)(lambda access, call: _there(access.policy(), "no policy is in force; nothing is granted"))
_at(api.LOAD_POLICY)(
    lambda access, call: access.load_policy(
        call.asked.text, parents=call.asked.parents, owners=call.asked.owners, **call.acting
    )
)


@_at(api.RELOAD_POLICY)
def _reload_policy(access: AccessControl, call: Call[bodies.Nothing]) -> LoadedPolicy:
    file = _there(call.pages.policy, "this domain's policy has no file; load it with PUT /v1/policy")
    text, parents = file.read()
    return access.load_policy(text, parents=parents, **call.acting)


@_at(api.TYPES)
def _types(access: AccessControl, call: Call[bodies.TypesQuestion]) -> Page[object]:
    owner, name = call.asked.owner, call.asked.name
    every = (one for one in access.types(call.now).values() if owner in (None, str(one.name.owner)))
    known = sorted((one for one in every if name in (None, one.name.name)), key=lambda one: one.id)
    rest = [one for one in known if call.asked.after is None or one.id.hex() > call.asked.after]
    shown = rest[: call.asked.limit]
    following = shown[-1].id.hex() if len(rest) > len(shown) else None
    return Page(tuple(one.signed for one in shown), following)


_at(api.REGISTER_TYPE)(
    lambda access, call: (
        access.register_type(definition_from_bytes(call.asked.definition), **call.acting).signed
    )
)
_at(api.HOLD)(
    lambda access, call: access.hold(_each(certificate_from_bytes, call.asked.certificates), **call.acting)
)


@_at(api.APPOINT)
def _appoint(access: AccessControl, call: Call[bodies.Appointing]) -> object:
    body = call.asked
    is_name, valid = body.holder.startswith(X509_WORD), validity(body.valid)
    holder = Word(body.holder) if is_name else principal_from_text(body.holder)
    return access.appoint(holder, body.name, arguments(body.parameters), valid, **call.acting)


@_at(api.APPOINTMENTS)
def _appointments(access: AccessControl, call: Call[bodies.HolderQuestion]) -> object:
    holder = None if call.asked.holder is None else principal_from_text(call.asked.holder)
    return access.appointments(holder=holder, **call.page)


_at(api.REVOKE_APPOINTMENT)(
    lambda access, call: access.revoke_appointment(call.id, call.asked.reason, **call.acting)
)
_at(api.FACTS)(lambda access, call: access.facts(call.asked.name, **call.page))
_at(api.ASSERT_FACT)(
    lambda access, call: access.assert_fact(call.asked.name, arguments(call.asked.arguments), **call.acting)
)
_at(api.RETRACT_FACT)(
    lambda access, call: access.retract_fact(call.asked.name, arguments(call.asked.arguments), **call.acting)
)
_at(api.REPLACE_FACTS)(
    lambda access, call: access.replace_facts(
        call.path["name"], [arguments(row) for row in call.asked.rows], **call.acting
    )
)


# ------------------------------------------------------------ roles and rights


@_at(api.LOGIN)
def _login(access: AccessControl, call: Call[bodies.LoginBody]) -> Wallet:
    shown = _each(appointment_from_bytes, call.asked.shown)
    wallet = access.login(call.actor, shown, address=call.address, **call.acting)
    if not wallet.memberships and not wallet.issued:
        raise Refusal("REFUSED-LOGIN", "nothing gives you a role or a right here now")
    return wallet


@_at(api.ACTS)
def _acts(access: AccessControl, call: Call[bodies.ActsQuestion]) -> list[str]:
    def may(act: AdminAct) -> bool:
        try:
            access.authorised(call.actor, call.pool, act, call.now)
        except Refusal:
            return False
        return True

    topics = call.asked.topics
    asked = [act for act in AdminAct if topics is None or act.topic in topics.split(",")]
    return [act.right for act in asked if may(act)]


@_at(api.ACTIVATE)
def _activate(access: AccessControl, call: Call[bodies.Activation]) -> Page[object]:
    body, shown = call.asked, _each(appointment_from_bytes, call.asked.shown)
    wanted = None if body.arguments is None else arguments(body.arguments)
    return Page(access.activate(call.actor, body.role, wanted, shown, address=call.address, **call.acting))


_at(api.AUTHORISE)(lambda access, call: access.authorise(call.actor, call.id, **call.acting))
# Also where it has ended: the caller that ended it may ask again, and gets the same answer.
_at(
    api.DEACTIVATE,
    lambda access, call: _check_own(access, call, access.is_of(call.actor, call.id), AdminAct.CHANGE_RIGHTS),
)(lambda access, call: access.deactivate(call.id, call.asked.reason, **call.acting))
_at(api.MEMBERSHIPS, _own(AdminAct.READ_REGISTER))(
    lambda access, call: access.memberships_of(call.principal, call.now, **call.page)
)
_at(api.RIGHTS, _own(AdminAct.READ_REGISTER))(
    lambda access, call: access.rights_of(call.principal, **call.page)
)


def _may_register(access: AccessControl, call: Call[bodies.DelegationBody]) -> None:
    issuer = certificate_from_bytes(call.asked.certificate).certificate.issuer
    _check_own(access, call, call.actor == issuer, AdminAct.CHANGE_REGISTER)


_at(api.REGISTER_DELEGATION, _may_register)(
    lambda access, call: access.register_delegation(
        certificate_from_bytes(call.asked.certificate), **call.acting
    )
)


@_at(api.REVOKE)
def _revoke(access: AccessControl, call: Call[bodies.Revocation]) -> Revoked:
    ids = [id_from_text(one) for one in call.asked.ids]
    shown = _each(certificate_from_bytes, call.asked.certificates)
    if not ids and not shown:
        raise BadInput("INPUT-API-CALL", "say what to revoke: `ids`, or `certificates`")
    return access.revoke(ids, call.asked.reason, certificates=shown, **call.acting)


# ------------------------------------------------------------ the register, statements, the audit


@_at(api.REGISTER)
def _register(access: AccessControl, call: Call[bodies.RegisterQuestion]) -> object:
    at = call.asked.standing_at
    standing = call.now if at == "now" else None if at is None else moment(at)
    return access.register(standing_at=standing, **call.page)


@_at(api.WHO_CAN)
def _who_can(access: AccessControl, call: Call[bodies.WhoCanQuestion]) -> Page[object]:
    question = call.asked
    at = call.now if question.at is None else moment(question.at)
    actions = actions_from_words([question.action])
    if len(actions) != 1:
        raise BadInput("INPUT-API-CALL", "one action is asked about at a time")
    (action,) = actions
    event_type = _type(access, question, call.now)
    found = access.who_can(action, event_type.name, question.attribute, at, **call.page)
    return Page(tuple(holder_answer(one, event_type) for one in found.rows), found.after)


def _type(access: AccessControl, question: bodies.WhoCanQuestion, now: Instant) -> VerifiedType:
    def fits(name: TypeName) -> bool:
        return (
            name.name == question.type
            and (question.owner is None or str(name.owner) == question.owner)
            and (question.version is None or name.version == question.version)
        )

    found = [one for name, one in access.types(now).items() if fits(name)]
    older = {one.definition.previous for one in found} if question.version is None else set()
    newest = [one for one in found if one.name.version not in older]
    if len(newest) != 1:
        raise BadInput("INPUT-NOT-FOUND", f"{len(newest)} types fit; say which with owner and version")
    return newest[0]


@_at(api.WOULD_BE_ABLE)
def _would(access: AccessControl, call: Call[bodies.WouldBody]) -> list[answers.AbilityAnswer]:
    known = access.types(call.now).values()
    names = {one.uid: one.name for event_type in known for one in event_type.attributes}
    found = access.would_be_able(call.asked.role, arguments(call.asked.arguments), call.now)
    return [ability_answer(one, names) for one in found]


_at(api.STATEMENTS)(lambda access, call: (access.current_stored(call.now), None, access.stream))
_at(api.STATEMENT_HISTORY)(lambda access, call: access.stored_statements(**call.page))
_at(api.RECEIVE_STATEMENT)(
    lambda access, call: access.receive_statement(statement_from_bytes(call.asked.statement), **call.acting)
)
_at(api.REVALIDATE)(
    lambda access, call: access.revalidate_once(
        call.asked.certificate, call.asked.request, call.asked.nonce, now=call.now
    )
)
_at(api.AUDIT)(lambda access, call: access.audit(**call.page))
_at(api.AUDIT_HEAD)(lambda access, call: access.audit_head())


@_at(api.LEDGER_HEAD)
def _ledger_head(access: AccessControl, call: Call[bodies.LedgerHeadBody]) -> tuple[int, str | None]:
    head = AuditHead(call.asked.entries, id_from_text(call.asked.head))
    record, problem = access.state_ledger_head(head, **call.acting)
    return record.number, problem


# ------------------------------------------------------------ the identity provider


_at(api.SUBJECTS)(lambda access, call: access.subjects(**call.page))
_at(api.SUBJECT, _own(AdminAct.READ_SUBJECTS))(lambda access, call: access.subject(call.principal))


@_at(api.REGISTER_SUBJECT)
def _register_subject(access: AccessControl, call: Call[bodies.SubjectBody]) -> object:
    attributes = {name: argument(value) for name, value in call.asked.attributes.items()}
    given = call.asked.identifier, attributes, call.asked.certificates
    return access.register_subject(call.principal, *given, **call.acting)


@_at(api.REMOVE_SUBJECT)
def _remove_subject(access: AccessControl, call: Call[bodies.Reason]) -> bool:
    access.remove_subject(call.principal, call.asked.reason, **call.acting)
    return True


_at(api.IDENTITY)(
    lambda access, call: access.identity(call.actor, now=call.now, lifetime_s=call.asked.lifetime_s)
)
_at(api.GUEST)(
    lambda access, call: access.guest_identity(
        call.actor, identity_from_bytes(call.asked.statement), now=call.now
    )
)
_at(api.PROVIDERS)(lambda access, call: access.providers(**call.page))


@_at(api.TRUST_PROVIDER)
def _trust(access: AccessControl, call: Call[bodies.TrustBody]) -> object:
    until = None if call.asked.until == "unbounded" else moment(call.asked.until)
    return access.trust_provider(call.principal, call.asked.identifier, until, **call.acting)


@_at(api.DISTRUST_PROVIDER)
def _distrust(access: AccessControl, call: Call[bodies.Reason]) -> bool:
    access.distrust_provider(call.principal, call.asked.reason, **call.acting)
    return True


# ------------------------------------------------------------ routers that prove their boot with a TPM


_at(api.APPROVED_BOOTS)(
    lambda access, call: _there(access.approved_boots(), "no boots are approved; no router has a level")
)


@_at(api.APPROVE_BOOTS)
def _approve(access: AccessControl, call: Call[bodies.ApprovedBody]) -> object:
    boots = [
        Configuration(
            one.name,
            one.level,
            _registers(one.values),
            _properties(one.properties),
        )
        for one in call.asked.configurations
    ]
    approved = Approved(tuple(call.asked.pcrs), tuple(boots), call.asked.scan)
    return access.approve_boots(approved, call.asked.roots, **call.acting)


@_at(api.ENROL_TPM)
def _enrol(access: AccessControl, call: Call[bodies.EnrolBody]) -> bytes:
    body, secret, seed = call.asked, os.urandom(SECRET_BYTES), os.urandom(32)
    shown = body.endorsement, body.intermediates, body.attestation_key
    return access.enrol_tpm(call.actor, *shown, now=call.now, secret=secret, seed=seed)


@_at(api.ACTIVATE_TPM)
def _activate_tpm(access: AccessControl, call: Call[bodies.ActivationBody]) -> bool:
    access.activate_tpm(call.actor, call.asked.secret, now=call.now)
    return True


@_at(api.TPM_NONCE)
def _nonce(access: AccessControl, call: Call[bodies.Nothing]) -> tuple[bytes, tuple[int, ...], Instant]:
    fresh = os.urandom(NONCE_BYTES)
    return fresh, *access.expect_quote(call.actor, fresh, now=call.now)


@_at(api.TPM_QUOTE)
def _quote(access: AccessControl, call: Call[bodies.QuoteBody]) -> object:
    body = call.asked
    if not (body.log or body.registers):
        raise BadInput(
            "INPUT-API-CALL",
            "a quote goes with the event log of the boot, or with the values of the registers",
        )
    given = _registers(body.registers)
    shown = body.quoted, body.signature, body.log or given, body.scan, given if body.log else {}
    return access.attest(call.actor, *shown, now=call.now)


def _properties(given: Mapping[str, bodies.ApiArgument]) -> dict[AttributeUid, Argument]:
    """Return what an administrator says of a machine with an approved boot."""
    said = {named_uid(name): argument(value) for name, value in given.items()}
    return {uid: read_word(one, None) if isinstance(one, Word) else one for uid, one in said.items()}


def _registers(values: Mapping[str, str]) -> dict[int, bytes]:
    try:
        return {int(pcr): bytes.fromhex(value) for pcr, value in values.items()}
    except ValueError:
        raise BadInput(
            "INPUT-API-CALL", "registers are given as hexadecimal digits, by the number of the register"
        ) from None
