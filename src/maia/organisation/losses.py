"""Who loses what, when an organisation revokes a grant, a certificate, or all that a principal has?

What it issued is in its folder. What its subjects passed on is known as far as
the register of its server knows it. Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from maia.credentials import (
    AuthorisationCertificate,
    NetworkName,
    NetworkPattern,
    Principal,
    SignedCertificate,
    Subject,
)

if TYPE_CHECKING:
    from maia.api.further_registers import End


@dataclass(frozen=True, slots=True)
class Loss:
    """A certificate that would count no more."""

    signed: SignedCertificate = field(repr=False)
    is_passed_on: bool = False
    """It rests on one that is revoked, and was issued by the subject of that one."""

    @property
    def subject(self) -> Subject:
        """Return who would lose it."""
        return self.signed.certificate.subject


@dataclass(frozen=True, slots=True)
class Losses:
    """What would end, and what its holder would keep."""

    lost: tuple[Loss, ...]
    kept: tuple[SignedCertificate, ...] = field(repr=False, default=())
    """Membership of a network, which is no right to events."""
    key: Principal | None = None
    """The key that is given nothing any more."""
    is_complete: bool = True
    """False: what was passed on could not be asked for."""
    ends: tuple[End, ...] = ()
    """Those who may have passed it on, and whether their own registers were asked."""


def is_membership(signed: SignedCertificate, network: NetworkName | None = None) -> bool:
    """Return whether a certificate lets its subject into a network (or into this one), and nothing else."""
    one = signed.certificate
    pattern = one.authority.resources if isinstance(one, AuthorisationCertificate) else None
    if not isinstance(pattern, NetworkPattern):
        return False
    return network is None or (pattern.owner == network.owner and pattern.name.matches(network.name))


def is_invitation(signed: SignedCertificate, network: NetworkName | None = None) -> bool:
    """Return whether a certificate makes an organisation part of the network, and no member of ours."""
    one = signed.certificate
    passes_on = isinstance(one, AuthorisationCertificate) and one.may_delegate
    return passes_on and is_membership(signed, network)


def may_pass_on(lost: Iterable[Loss]) -> list[Principal]:
    """Return who could let others do what is lost; what they registered with us is known."""
    some = (one.signed for one in lost if not is_membership(one.signed))
    found = (one.certificate for one in some if isinstance(one.certificate, AuthorisationCertificate))
    keys = (one.subject for one in found if one.may_delegate and isinstance(one.subject, Principal))
    return list(dict.fromkeys(keys))


def passed_on(ended: Iterable[SignedCertificate], register: Iterable[SignedCertificate]) -> list[Loss]:
    """Return what subjects of certificates that end have passed on of the same types, and so on.

    A holder of two rights to a type keeps what the other one lets it pass on; that is not looked at here.
    """
    known, found = {one.id for one in ended}, list[Loss]()
    holders = {key for one in ended for key in _held(one, one.certificate.subject)}
    entries = list(register)
    while True:
        new = [
            one for one in entries
            if one.id not in known and not holders.isdisjoint(_held(one, one.certificate.issuer))
        ]  # fmt: skip
        if not new:
            return found
        known |= {one.id for one in new}
        holders |= {key for one in new for key in _held(one, one.certificate.subject)}
        found += [Loss(one, is_passed_on=True) for one in new]


def _held(signed: SignedCertificate, by: object) -> set[tuple[object, object]]:
    """Return what of whose types a principal has, or passes on, by a certificate."""
    certificate = signed.certificate
    if not isinstance(certificate, AuthorisationCertificate) or not isinstance(by, Principal):
        return set()
    return {(by, certificate.authority.resources)}
