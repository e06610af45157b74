"""Which of the certificates that a stranger shows do the owner's signatures lead to?

Brokers, key servers and the domain's interface are shown certificates by
peers of whom nothing is known yet. To read a certificate costs as much as to
check its signature, so neither is done to one that could not matter: the
walk begins with what the owner has issued, and goes on with what those have
issued who may pass something on by certificates whose signatures hold. What
a stranger signed itself is never read, and a few forgeries end the walk.
Nothing here is a proof; `find_chains` looks for one in what is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from maia.credentials.certificate import Certificate, NameCertificate, SignedCertificate
from maia.credentials.chains.budget import Budget
from maia.credentials.chains.cache import VerificationCache
from maia.credentials.chains.chain import root_terminal
from maia.credentials.chains.errors import SearchTooLarge, UnknownQuorum
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.chains.thresholds import leaves
from maia.credentials.encoding.fast_reader import signed_part
from maia.credentials.keys import BadSignature
from maia.credentials.principals import LocalName, Owner, Principal, Subject, Threshold

__all__ = ["FORGED_MAX", "read_from_owner"]

FORGED_MAX: Final = 8
"""Bad signatures that a pool may have before the rest of it is left unread: an honest one has none."""


def read_from_owner(
    shown: Iterable[bytes],
    *,
    root: Owner,
    cache: VerificationCache,
    budget: Budget,
    constitutions: Iterable[VerifiedConstitution] = (),
) -> dict[bytes, SignedCertificate]:
    """Return the certificates that signatures lead to from `root` on, by their bytes, in that order.

    What the budget does not reach is left out. Bytes that are framed like no
    certificate are refused.
    """
    by_issuer: dict[bytes, list[bytes]] = {}
    for data in dict.fromkeys(shown):
        by_issuer.setdefault(signed_part(data).issuer, []).append(data)
    try:
        waiting = deque(_keys_in(root_terminal(root, constitutions), may_pass_on=True))
    except UnknownQuorum:
        return {}
    read: dict[bytes, SignedCertificate] = {}
    forged = 0
    while waiting and forged <= FORGED_MAX:
        for data in by_issuer.pop(waiting.popleft(), ()):
            try:
                signed = cache.read_checked(data, budget)
            except SearchTooLarge:
                return read
            except BadSignature:
                forged += 1
                if forged > FORGED_MAX:
                    break
            else:
                read[data] = signed
                waiting.extend(_led_to(signed.certificate))
    return read


def _led_to(certificate: Certificate) -> Iterator[bytes]:
    """Yield the keys whose certificates may matter because of this one."""
    may_pass_on = isinstance(certificate, NameCertificate) or certificate.may_delegate
    return _keys_in(certificate.subject, may_pass_on=may_pass_on)


def _keys_in(subject: Subject, *, may_pass_on: bool) -> Iterator[bytes]:
    for member in leaves(subject) if isinstance(subject, Threshold) else (subject,):
        match member:
            case LocalName(space, _):
                yield space.key  # it says whom the name means
            case Principal(key) if may_pass_on:
                yield key
