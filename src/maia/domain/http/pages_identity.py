"""The pages of the identity provider: subjects, statements, trust in other providers, guests, TPMs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.problems import BadCall, NotFound
from maia.credentials.attestation import NONCE_BYTES, SECRET_BYTES, Approved, Configuration
from maia.credentials.identity import identity_from_bytes, identity_to_bytes
from maia.domain.access.attestations import ApprovedBoots
from maia.domain.access.identities import Subject, TrustedProvider
from maia.domain.access.results import AdminAct
from maia.domain.access.service import AccessControl
from maia.domain.http.pages import Call, Endpoint, PageTable, check_own, page_of

PAGES: Final = PageTable()


@PAGES.serve(Endpoint(
    "GET", "/v1/subjects", "the registered subjects", answers.SubjectPage, question=bodies.PageQuestion,
    act=AdminAct.READ_SUBJECTS, tag="identity"
))  # fmt: skip
def subjects(access: AccessControl, call: Call[bodies.PageQuestion]) -> answers.SubjectPage:
    found = access.subjects(after=call.asked.after, limit=call.asked.limit)
    return page_of(answers.SubjectPage, found, _subject)


@PAGES.serve(Endpoint(
    "GET", "/v1/subjects/{principal}", "a subject: the caller, or any with /admin/subjects",
    answers.SubjectAnswer, tag="identity"
))  # fmt: skip
def subject(access: AccessControl, call: Call[None]) -> answers.SubjectAnswer:
    check_own(access, call, call.principal, AdminAct.READ_SUBJECTS)
    return _subject(access.subject(call.principal))


@PAGES.serve(Endpoint(
    "PUT", "/v1/subjects/{principal}", "register a subject, or replace what is registered about it",
    answers.SubjectAnswer, bodies.SubjectBody, act=AdminAct.CHANGE_SUBJECTS, takes_key=True, tag="identity"
))  # fmt: skip
def register_subject(access: AccessControl, call: Call[bodies.SubjectBody]) -> answers.SubjectAnswer:
    attributes = {name: bodies.argument(value) for name, value in call.asked.attributes.items()}
    who = call.principal, call.asked.identifier
    return _subject(access.register_subject(*who, attributes, actor=call.actor, now=call.now))


@PAGES.serve(Endpoint(
    "POST", "/v1/subjects/{principal}/removal", "remove a subject; it gets no statement from now on",
    answers.News, bodies.Reason, act=AdminAct.CHANGE_SUBJECTS, takes_key=True, tag="identity"
))  # fmt: skip
def remove_subject(access: AccessControl, call: Call[bodies.Reason]) -> answers.News:
    access.remove_subject(call.principal, call.asked.reason, actor=call.actor, now=call.now)
    return answers.News(True)


@PAGES.serve(Endpoint(
    "POST", "/v1/identity", "an identity statement about the caller", answers.IdentityAnswer,
    bodies.IdentityBody, tag="identity"
))  # fmt: skip
def identity(access: AccessControl, call: Call[bodies.IdentityBody]) -> answers.IdentityAnswer:
    signed = access.identity(call.actor, now=call.now, lifetime_s=call.asked.lifetime_s)
    return answers.IdentityAnswer(identity_to_bytes(signed))


@PAGES.serve(Endpoint(
    "POST", "/v1/identity/guest", "a guest statement for the caller, on a statement of its home provider",
    answers.GuestAnswer, bodies.GuestBody, tag="identity"
))  # fmt: skip
def guest(access: AccessControl, call: Call[bodies.GuestBody]) -> answers.GuestAnswer:
    given = access.guest_identity(call.actor, identity_from_bytes(call.asked.statement), now=call.now)
    return answers.GuestAnswer(identity_to_bytes(given.statement), identity_to_bytes(given.home))


@PAGES.serve(Endpoint(
    "GET", "/v1/trusted-providers", "the identity providers that this domain trusts", answers.ProviderPage,
    question=bodies.PageQuestion, act=AdminAct.READ_TRUST, tag="identity"
))  # fmt: skip
def providers(access: AccessControl, call: Call[bodies.PageQuestion]) -> answers.ProviderPage:
    found = access.providers(after=call.asked.after, limit=call.asked.limit)
    return page_of(answers.ProviderPage, found, _provider)


@PAGES.serve(Endpoint(
    "PUT", "/v1/trusted-providers/{principal}", "trust the identity provider of another domain",
    answers.ProviderAnswer, bodies.TrustBody, act=AdminAct.CHANGE_TRUST, takes_key=True, tag="identity"
))  # fmt: skip
def trust(access: AccessControl, call: Call[bodies.TrustBody]) -> answers.ProviderAnswer:
    until = None if call.asked.until == "unbounded" else bodies.moment(call.asked.until)
    who = call.principal, call.asked.identifier
    return _provider(access.trust_provider(*who, until, actor=call.actor, now=call.now))


@PAGES.serve(Endpoint(
    "POST", "/v1/trusted-providers/{principal}/removal", "trust an identity provider no more", answers.News,
    bodies.Reason, act=AdminAct.CHANGE_TRUST, takes_key=True, tag="identity"
))  # fmt: skip
def distrust(access: AccessControl, call: Call[bodies.Reason]) -> answers.News:
    access.distrust_provider(call.principal, call.asked.reason, actor=call.actor, now=call.now)
    return answers.News(True)


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
def approved(access: AccessControl, call: Call[None]) -> answers.ApprovedAnswer:
    found = access.approved_boots()
    if found is None:
        raise NotFound("no boots are approved; no router has a level")
    return _approved(found)


@PAGES.serve(Endpoint(
    "PUT", "/v1/tpm/approved", "approve exactly these boots, and makers of TPMs", answers.ApprovedAnswer,
    bodies.ApprovedBody, act=AdminAct.CHANGE_TPM, takes_key=True, tag="tpm"
))  # fmt: skip
def approve(access: AccessControl, call: Call[bodies.ApprovedBody]) -> answers.ApprovedAnswer:
    boots = [Configuration(one.name, one.level, _registers(one.values)) for one in call.asked.configurations]
    approved = Approved(tuple(call.asked.pcrs), tuple(boots))
    return _approved(access.approve_boots(approved, call.asked.roots, actor=call.actor, now=call.now))


@PAGES.serve(Endpoint(
    "POST", "/v1/tpm/enrolment", "enrol the caller's TPM: a credential that it has to open",
    answers.CredentialAnswer, bodies.EnrolBody, tag="tpm"
))  # fmt: skip
def enrol(access: AccessControl, call: Call[bodies.EnrolBody]) -> answers.CredentialAnswer:
    body = call.asked
    secret, seed = os.urandom(SECRET_BYTES), os.urandom(32)
    shown = body.endorsement, body.intermediates, body.attestation_key
    given = access.enrol_tpm(call.actor, *shown, now=call.now, secret=secret, seed=seed)
    return answers.CredentialAnswer(given)


@PAGES.serve(Endpoint(
    "POST", "/v1/tpm/activation", "show that the caller's TPM has opened its credential", answers.News,
    bodies.ActivationBody, tag="tpm"
))  # fmt: skip
def activate(access: AccessControl, call: Call[bodies.ActivationBody]) -> answers.News:
    access.activate_tpm(call.actor, call.asked.secret, now=call.now)
    return answers.News(True)


@PAGES.serve(Endpoint(
    "POST", "/v1/tpm/nonce", "a nonce for one quote of the caller's TPM", answers.NonceAnswer, tag="tpm"
))  # fmt: skip
def nonce(access: AccessControl, call: Call[None]) -> answers.NonceAnswer:
    fresh = os.urandom(NONCE_BYTES)
    pcrs, until = access.expect_quote(call.actor, fresh, now=call.now)
    return answers.NonceAnswer(fresh.hex(), list(pcrs), str(until))


@PAGES.serve(Endpoint(
    "POST", "/v1/tpm/quote", "prove the caller's boot by a quote for its nonce", answers.AttestedAnswer,
    bodies.QuoteBody, tag="tpm"
))  # fmt: skip
def quote(access: AccessControl, call: Call[bodies.QuoteBody]) -> answers.AttestedAnswer:
    body = call.asked
    if bool(body.log) == bool(body.registers):
        raise BadCall("a quote goes with the event log of the boot, or with the values of the registers")
    boot = body.log or _registers(body.registers)
    found = access.attest(call.actor, body.quoted, body.signature, boot, now=call.now)
    return answers.AttestedAnswer(found.configuration, found.level, str(found.until), found.is_rebooted)


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
