"""The pages of the identity provider: subjects, statements, trust in other providers, guests, TPMs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import BadCall, NotFound
from maia.credentials import principal_from_text
from maia.credentials.attestation import NONCE_BYTES, SECRET_BYTES, Approved, Configuration
from maia.credentials.identity import identity_from_bytes, identity_to_bytes
from maia.domain.access.attestations import ApprovedBoots
from maia.domain.access.identities import Subject, TrustedProvider
from maia.domain.access.results import AdminAct
from maia.domain.access.service import AccessControl
from maia.domain.http.pages import Answer, Call, Endpoint, Pages, PageTable, check_own, page_of

PAGES: Final = PageTable()


@PAGES.serve(Endpoint(
    "GET", "/v1/subjects", "the registered subjects", answers.SubjectPage, question=bodies.PageQuestion,
    act=AdminAct.READ_SUBJECTS, tag="identity"
))  # fmt: skip
async def subjects(pages: Pages, call: Call) -> Answer:
    question: bodies.PageQuestion = call.question
    return await pages.ask(
        call,
        lambda access: page_of(
            answers.SubjectPage, access.subjects(after=question.after, limit=question.limit), _subject
        ),
    )


@PAGES.serve(Endpoint(
    "GET", "/v1/subjects/{principal}", "a subject: the caller, or any with /admin/subjects",
    answers.SubjectAnswer, tag="identity"
))  # fmt: skip
async def subject(pages: Pages, call: Call) -> Answer:
    principal = principal_from_text(call.path["principal"])

    def work(access: AccessControl) -> answers.SubjectAnswer:
        check_own(access, call, principal, AdminAct.READ_SUBJECTS)
        return _subject(access.subject(principal))

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "PUT", "/v1/subjects/{principal}", "register a subject, or replace what is registered about it",
    answers.SubjectAnswer, bodies.SubjectBody, act=AdminAct.CHANGE_SUBJECTS, takes_key=True, tag="identity"
))  # fmt: skip
async def register_subject(pages: Pages, call: Call) -> Answer:
    body: bodies.SubjectBody = call.body
    principal = principal_from_text(call.path["principal"])
    attributes = {name: bodies.argument(value) for name, value in body.attributes.items()}
    return await pages.issue(
        call,
        lambda access: _subject(
            access.register_subject(principal, body.identifier, attributes, actor=call.actor, now=call.now)
        ),
        status=200,
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/subjects/{principal}/removal", "remove a subject; it gets no statement from now on",
    answers.News, bodies.Reason, act=AdminAct.CHANGE_SUBJECTS, takes_key=True, tag="identity"
))  # fmt: skip
async def remove_subject(pages: Pages, call: Call) -> Answer:
    principal, reason = principal_from_text(call.path["principal"]), call.body.reason

    def work(access: AccessControl) -> answers.News:
        access.remove_subject(principal, reason, actor=call.actor, now=call.now)
        return answers.News(True)

    return await pages.issue(call, work, status=200)


@PAGES.serve(Endpoint(
    "POST", "/v1/identity", "an identity statement about the caller", answers.IdentityAnswer,
    bodies.IdentityBody, tag="identity"
))  # fmt: skip
async def identity(pages: Pages, call: Call) -> Answer:
    body: bodies.IdentityBody = call.body
    return await pages.ask(
        call,
        lambda access: answers.IdentityAnswer(
            identity_to_bytes(access.identity(call.actor, now=call.now, lifetime_s=body.lifetime_s))
        ),
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/identity/guest", "a guest statement for the caller, on a statement of its home provider",
    answers.GuestAnswer, bodies.GuestBody, tag="identity"
))  # fmt: skip
async def guest(pages: Pages, call: Call) -> Answer:
    shown = identity_from_bytes(call.body.statement)

    def work(access: AccessControl) -> answers.GuestAnswer:
        given = access.guest_identity(call.actor, shown, now=call.now)
        return answers.GuestAnswer(identity_to_bytes(given.statement), identity_to_bytes(given.home))

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "GET", "/v1/trusted-providers", "the identity providers that this domain trusts", answers.ProviderPage,
    question=bodies.PageQuestion, act=AdminAct.READ_TRUST, tag="identity"
))  # fmt: skip
async def providers(pages: Pages, call: Call) -> Answer:
    question: bodies.PageQuestion = call.question
    return await pages.ask(
        call,
        lambda access: page_of(
            answers.ProviderPage, access.providers(after=question.after, limit=question.limit), _provider
        ),
    )


@PAGES.serve(Endpoint(
    "PUT", "/v1/trusted-providers/{principal}", "trust the identity provider of another domain",
    answers.ProviderAnswer, bodies.TrustBody, act=AdminAct.CHANGE_TRUST, takes_key=True, tag="identity"
))  # fmt: skip
async def trust(pages: Pages, call: Call) -> Answer:
    body: bodies.TrustBody = call.body
    provider = principal_from_text(call.path["principal"])
    until = None if body.until == "unbounded" else bodies.moment(body.until)
    return await pages.issue(
        call,
        lambda access: _provider(
            access.trust_provider(provider, body.identifier, until, actor=call.actor, now=call.now)
        ),
        status=200,
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/trusted-providers/{principal}/removal", "trust an identity provider no more", answers.News,
    bodies.Reason, act=AdminAct.CHANGE_TRUST, takes_key=True, tag="identity"
))  # fmt: skip
async def distrust(pages: Pages, call: Call) -> Answer:
    provider, reason = principal_from_text(call.path["principal"]), call.body.reason

    def work(access: AccessControl) -> answers.News:
        access.distrust_provider(provider, reason, actor=call.actor, now=call.now)
        return answers.News(True)

    return await pages.issue(call, work, status=200)


def _subject(one: Subject) -> answers.SubjectAnswer:
    return answers.SubjectAnswer(
        str(one.principal),
        one.identifier,
        {uid: bodies.written(value) for uid, value in sorted(one.attributes.items())},
        str(one.registered_by),
        str(one.registered_at),
    )


def _provider(one: TrustedProvider) -> answers.ProviderAnswer:
    return answers.ProviderAnswer(
        str(one.principal),
        one.identifier,
        str(one.trusted_by),
        str(one.since),
        None if one.until is None else str(one.until),
    )


# The pages by which routers prove their boot with a TPM, and administrators approve boots.


@PAGES.serve(Endpoint(
    "GET", "/v1/tpm/approved", "the approved boots, and makers of TPMs", answers.ApprovedAnswer,
    act=AdminAct.READ_TPM, tag="tpm"
))  # fmt: skip
async def approved(pages: Pages, call: Call) -> Answer:
    def work(access: AccessControl) -> answers.ApprovedAnswer:
        found = access.approved_boots()
        if found is None:
            raise NotFound("no boots are approved; no router has a level")
        return _approved(found)

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "PUT", "/v1/tpm/approved", "approve exactly these boots, and makers of TPMs", answers.ApprovedAnswer,
    bodies.ApprovedBody, act=AdminAct.CHANGE_TPM, takes_key=True, tag="tpm"
))  # fmt: skip
async def approve(pages: Pages, call: Call) -> Answer:
    body: bodies.ApprovedBody = call.body
    boots = Approved(tuple(body.pcrs), tuple(_configuration(one) for one in body.configurations))
    return await pages.issue(
        call,
        lambda access: _approved(access.approve_boots(boots, body.roots, actor=call.actor, now=call.now)),
        status=200,
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/tpm/enrolment", "enrol the caller's TPM: a credential that it has to open",
    answers.CredentialAnswer, bodies.EnrolBody, tag="tpm"
))  # fmt: skip
async def enrol(pages: Pages, call: Call) -> Answer:
    body: bodies.EnrolBody = call.body
    secret, seed = os.urandom(SECRET_BYTES), os.urandom(32)
    return await pages.ask(
        call,
        lambda access: answers.CredentialAnswer(
            access.enrol_tpm(
                call.actor,
                body.endorsement,
                body.intermediates,
                body.attestation_key,
                now=call.now,
                secret=secret,
                seed=seed,
            )
        ),
    )


@PAGES.serve(Endpoint(
    "POST", "/v1/tpm/activation", "show that the caller's TPM has opened its credential", answers.News,
    bodies.ActivationBody, tag="tpm"
))  # fmt: skip
async def activate(pages: Pages, call: Call) -> Answer:
    def work(access: AccessControl) -> answers.News:
        access.activate_tpm(call.actor, call.body.secret, now=call.now)
        return answers.News(True)

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "POST", "/v1/tpm/nonce", "a nonce for one quote of the caller's TPM", answers.NonceAnswer, tag="tpm"
))  # fmt: skip
async def nonce(pages: Pages, call: Call) -> Answer:
    fresh = os.urandom(NONCE_BYTES)

    def work(access: AccessControl) -> answers.NonceAnswer:
        pcrs, until = access.expect_quote(call.actor, fresh, now=call.now)
        return answers.NonceAnswer(fresh.hex(), list(pcrs), str(until))

    return await pages.ask(call, work)


@PAGES.serve(Endpoint(
    "POST", "/v1/tpm/quote", "prove the caller's boot by a quote for its nonce", answers.AttestedAnswer,
    bodies.QuoteBody, tag="tpm"
))  # fmt: skip
async def quote(pages: Pages, call: Call) -> Answer:
    body: bodies.QuoteBody = call.body
    if bool(body.log) == bool(body.registers):
        raise BadCall("a quote goes with the event log of the boot, or with the values of the registers")
    boot = body.log or _registers(body.registers)

    def work(access: AccessControl) -> answers.AttestedAnswer:
        found = access.attest(call.actor, body.quoted, body.signature, boot, now=call.now)
        return answers.AttestedAnswer(found.configuration, found.level, str(found.until), found.is_rebooted)

    return await pages.ask(call, work)


def _configuration(one: bodies.BootConfiguration) -> Configuration:
    return Configuration(one.name, one.level, _registers(one.values))


def _registers(values: Mapping[str, str]) -> dict[int, bytes]:
    try:
        return {int(pcr): bytes.fromhex(value) for pcr, value in values.items()}
    except ValueError:
        raise BadCall("registers are given as hexadecimal digits, by the number of the register") from None


def _approved(found: ApprovedBoots) -> answers.ApprovedAnswer:
    boots = [
        bodies.BootConfiguration(
            one.name, one.level, {str(pcr): value.hex() for pcr, value in sorted(one.values.items())}
        )
        for one in found.approved.configurations
    ]
    digests = [sha256(one).hexdigest() for one in found.roots]
    return answers.ApprovedAnswer(found.version, list(found.approved.pcrs), boots, digests)
