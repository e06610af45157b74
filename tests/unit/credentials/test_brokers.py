"""An organisation says in as many words that a key is its broker, and nothing else does (C18)."""

from __future__ import annotations

import pytest

from maia.credentials import (
    ALL_ACTIONS,
    UNBOUNDED,
    Action,
    AnyResource,
    AuthorisationCertificate,
    Authority,
    LocalName,
    NameCertificate,
    NetworkName,
    NetworkPattern,
    Subject,
    Threshold,
    actions_from_words,
    exact_name,
    find_chains,
    issue,
)
from maia.credentials.authority import covers_request
from maia.credentials.brokers import AS_BROKER, as_broker, made_by
from maia.errors import BrokenCredential
from maia.events import Instant
from maia.testing.cast import grant, key_of
from maia.testing.refusals import raises

OWNER, ORG, OTHER, BROKER, MEMBER = map(key_of, ("owner", "organisation", "another", "broker", "member"))
NETWORK = NetworkName(OWNER.principal, "Network")
ON = NetworkPattern(OWNER.principal, exact_name("Network"))
NOW = Instant.parse("2026-11-15T12:00:00Z")
INVITED = [
    grant(OWNER, one, NETWORK, Action.CONNECT, Action.INSTALL, may_delegate=True) for one in (ORG, OTHER)
]


def connects(pool, who):
    return find_chains(
        pool, root=OWNER.principal, subject=who.principal, action=Action.CONNECT, resource=NETWORK, at=NOW
    )


def makers(pool, who=BROKER):
    """Return whose broker a key is, by the chains that let it connect as one."""
    try:
        chains = connects(as_broker(pool, who.principal), who)
    except BrokenCredential:
        return set()
    return made_by(who.principal, [one for chain in chains for one in chain.certificates])


def test_a_broker_is_whose_key_an_organisation_says_it_is():
    assert makers([*INVITED, grant(ORG, BROKER, NETWORK, *AS_BROKER)]) == {ORG.principal}
    assert makers([grant(OWNER, BROKER, NETWORK, *AS_BROKER)]) == {OWNER.principal}


@pytest.mark.parametrize(
    "given",
    [
        [grant(ORG, BROKER, NETWORK, Action.CONNECT)],
        [grant(ORG, BROKER, NETWORK, Action.CONNECT, Action.SERVE, Action.INSTALL, may_delegate=True)],
        [grant(ORG, BROKER, AnyResource(), *ALL_ACTIONS, may_delegate=True)],
        [grant(ORG, BROKER, AnyResource(OWNER.principal), *ALL_ACTIONS)],
        [grant(ORG, MEMBER, NETWORK, *AS_BROKER), grant(MEMBER, BROKER, NETWORK, Action.CONNECT)],
        [grant(ORG, BROKER, NETWORK, Action.CONNECT), grant(MEMBER, BROKER, NETWORK, *AS_BROKER)],
        [
            grant(ORG, LocalName(ORG.principal, ("brokers",)), NETWORK, Action.CONNECT),
            issue(NameCertificate(ORG.principal, "brokers", BROKER.principal, UNBOUNDED), ORG),
        ],
        [grant(ORG, Threshold(1, (BROKER.principal,)), NETWORK, Action.CONNECT)],
    ],
    ids=[
        "connect",
        "serve",
        "all",
        "all of the owner",
        "a broker's word",
        "no organisation",
        "group",
        "one of",
    ],
)
def test_nothing_else_makes_a_broker(given):
    assert makers([*INVITED, *given]) == set()


def test_who_says_that_others_connect_is_no_broker_by_its_own_word():
    """An invited organisation has a key made that it invites, and that is to make it a broker."""
    made_up = grant(ORG, MEMBER, NETWORK, Action.CONNECT, may_delegate=True)
    back = grant(MEMBER, ORG, NETWORK, *AS_BROKER)
    assert makers([*INVITED, made_up, back], ORG) == set()
    assert makers([*INVITED, made_up, grant(MEMBER, BROKER, NETWORK, *AS_BROKER)]) == {MEMBER.principal}


@pytest.mark.parametrize(
    ("subject", "may_delegate"),
    [
        (BROKER.principal, True),
        (ORG.principal, False),
        (LocalName(ORG.principal, ("brokers",)), False),
        (Threshold(1, (BROKER.principal,)), False),
    ],
    ids=["may be passed on", "itself", "a group", "one of several"],
)
def test_no_certificate_makes_others_brokers_or_the_organisation_itself(subject: Subject, may_delegate):
    authority = Authority(ON, AS_BROKER)
    with raises("INPUT-BROKER-CERTIFICATE"):
        AuthorisationCertificate(ORG.principal, subject, may_delegate, authority, UNBOUNDED)


def test_everything_does_not_mean_to_be_a_broker():
    assert Action.BROKER not in actions_from_words(["*"])
    assert not covers_request(Authority(AnyResource(), ALL_ACTIONS), Action.BROKER, NETWORK)
    for resource, actions in ((AnyResource(), AS_BROKER), (ON, {Action.BROKER})):
        certificate = AuthorisationCertificate(
            ORG.principal, BROKER.principal, False, Authority(resource, frozenset(actions)), UNBOUNDED
        )
        with raises("CREDENTIAL-AUTHORITY"):
            issue(certificate, ORG)
