"""Issuers who take rights back: certificates that demand statements, and statements on their streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    AuthorisationCertificate,
    Authority,
    NetworkPattern,
    OnlineTest,
    Principal,
    ResourcePattern,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    TypePattern,
    Validity,
    issue,
    parse_name_pattern,
    period_from,
    sign_statement,
)
from maia.events import Instant
from maia.predicates import ALWAYS, Predicate
from maia.types import definition_to_bytes, validity_definition, validity_type_name
from maia.types.verified import STATEMENT, statement_to_event
from maia.wire.messages import Published
from support.broker import SECOND, Client, Net
from support.numberplate import NumberplateStory

DAY = 86_400 * SECOND


def connecting(story: NumberplateStory) -> NetworkPattern:
    return NetworkPattern(story.network.owner, parse_name_pattern(story.network.name))


def seeing(story: NumberplateStory) -> TypePattern:
    name = story.definition.definition.name
    return TypePattern(name.owner, parse_name_pattern(name.name), None)


def grant_demanding(
    story: NumberplateStory,
    issuer: str,
    subject: Principal,
    resources: ResourcePattern,
    *actions: Action,
    by: Principal | None = None,
    kind: TestKind | None = TestKind.TIMED_CRL,
    attributes: AttributeSet = ALL_ATTRIBUTES,
    restriction: Predicate = ALWAYS,
    now: Instant,
    comment: str = "",
) -> SignedCertificate:
    """Issue a certificate that demands the word of its issuer, or of somebody else, or of nobody."""
    validity = Validity(Instant(now - now % DAY - DAY), Instant(now - now % DAY + 30 * DAY))
    if kind is not None:
        validity = validity.with_tests(OnlineTest(kind, by or story.principal(issuer)))
    certificate = AuthorisationCertificate(
        issuer=story.principal(issuer),
        subject=subject,
        may_delegate=False,
        authority=Authority(resources, frozenset(actions), attributes, restriction),
        validity=validity,
        comment=comment,
    )
    return issue(certificate, story.keys[issuer])


@dataclass(slots=True)
class Statements:
    """Somebody who states what it has revoked, one number after the other."""

    key: SigningKey = field(repr=False)
    sequence: int = 0
    revoked: set[bytes] = field(default_factory=set)

    def list_now(self) -> SignedStatement:
        """Return a list without a period: in force at once."""
        return self._signed(None)

    def list_for(self, since: Instant, seconds: float) -> SignedStatement:
        """Return a list that holds from a moment on, for so many seconds."""
        return self._signed(period_from(Instant(since), microseconds=round(seconds * SECOND)))

    def _signed(self, period: Validity | None) -> SignedStatement:
        self.sequence += 1
        stated = RevocationList(self.key.principal, self.sequence, period, frozenset(self.revoked))
        return sign_statement(stated, self.key)

    def revoke(self, *certificates: SignedCertificate) -> SignedStatement:
        """Revoke certificates, and state it at once."""
        self.revoked |= {signed.id for signed in certificates}
        return self.list_now()


class Issuer:
    """A domain that is connected to a broker and publishes its statements there."""

    def __init__(self, net: Net, who: str = "CCS", at: str = "CCS broker") -> None:
        self.net, self.key = net, net.story.keys[who]
        self.says = Statements(self.key)
        self.client: Client = net.client(who, at)
        own = [one for one in net.story.certificates if one.certificate.subject == self.key.principal]
        install = tuple(one for one in own if Action.INSTALL in one.certificate.authority.actions)
        definition = definition_to_bytes(validity_definition(self.key, install))
        self.ref = self.client.advertise(
            definitions=[definition], event_type=validity_type_name(self.key.principal)
        )
        assert self.client.was_accepted(self.ref), self.client.heard

    def state(self, *statements: SignedStatement) -> None:
        """Publish statements in one frame, and wait for the answer."""
        before = len(self.client.all_heard(Published))
        events = [statement_to_event(signed) for signed in statements]
        self.client.publish(self.ref, *events, kinds={STATEMENT.uid: STATEMENT.kind})
        assert len(self.client.all_heard(Published)) == before + 1, self.client.heard

    def vouch(self, seconds: float = 60.0, *, since: Instant | None = None) -> SignedStatement:
        """State that nothing but what is listed is revoked, for so many seconds from now."""
        signed = self.says.list_for(self.net.now if since is None else since, seconds)
        self.state(signed)
        return signed

    def revoke(self, *certificates: SignedCertificate) -> SignedStatement:
        """Revoke certificates, and publish that at once."""
        signed = self.says.revoke(*certificates)
        self.state(signed)
        return signed


def without(story: NumberplateStory, *comments: str) -> tuple[SignedCertificate, ...]:
    """Return the certificates of the story but for those with such comments."""
    return tuple(one for one in story.certificates if one.certificate.comment not in comments)


def of_story(story: NumberplateStory, comment: str, action: Action) -> SignedCertificate:
    """Return one certificate of the story, by who issued it to whom and what it grants."""
    (found,) = (
        one
        for one in story.certificates
        if one.certificate.comment == comment and action in one.certificate.authority.actions
    )
    return found


def ids(certificates: Iterable[SignedCertificate]) -> frozenset[bytes]:
    return frozenset(one.id for one in certificates)
