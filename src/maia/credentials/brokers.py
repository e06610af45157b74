"""Which certificates let a key connect as a broker, and whose broker is it then?

An organisation makes a key its broker by a certificate for that key itself, which says `connect` and
`broker` and cannot be passed on. Nothing else makes one: no wider certificate, no group, no right to
connect, to serve or to publish (C18). An organisation's own key makes brokers, and is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from maia.credentials.authority import Action
from maia.credentials.certificate import AuthorisationCertificate, SignedCertificate
from maia.credentials.keys import LocalName, Principal, Subject, Threshold

AS_BROKER: Final = frozenset({Action.CONNECT, Action.BROKER})
"""What a certificate says by which a broker connects."""


def as_broker(
    pool: Iterable[SignedCertificate],
    broker: Principal,
    counts: Callable[[Principal], bool] = lambda _: True,
) -> tuple[SignedCertificate, ...]:
    """Return the certificates that may lead to a key as a broker: of those to itself, what makes it one.

    A chain to it among these ends in the word of an organisation that it is its broker, of one that
    `counts`. What it has issued itself is left out: whoever lets others connect is an organisation, and
    no chain of its own.
    """
    return tuple(
        one
        for one in pool
        if one.certificate.issuer != broker
        and (
            (makes_broker(one) and counts(one.certificate.issuer))
            or not _means(one.certificate.subject, broker)
        )
    )


def makes_broker(signed: SignedCertificate) -> bool:
    """Return whether a certificate makes its subject a broker."""
    one = signed.certificate
    return isinstance(one, AuthorisationCertificate) and Action.BROKER in one.authority.actions


def made_by(broker: Principal, proof: Iterable[SignedCertificate]) -> frozenset[Principal]:
    """Return the organisations whose broker a key is, by the certificates that let it connect as one."""
    return frozenset(
        one.certificate.issuer for one in proof if one.certificate.subject == broker and makes_broker(one)
    )


def _means(subject: Subject, who: Principal) -> bool:
    """Return whether a subject names a key itself; what a local name means, another certificate says."""
    match subject:
        case Threshold():
            return any(_means(member, who) for member in subject.members)
        case LocalName():
            return False
        case _:
            return subject == who
