"""Which grants do these certificates add up to? The slow and obvious answer.

Every path is walked, every choice of k members is tried, and nothing is
remembered, pruned or shared. Only pools of a few certificates can be asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

from maia.credentials import (
    UNBOUNDED,
    AuthorisationCertificate,
    Authority,
    Certificate,
    LocalName,
    NameCertificate,
    Principal,
    Subject,
    Threshold,
    Validity,
    intersect,
)

WORDS_MAX = 6


@dataclass(frozen=True)
class Grant:
    """What reaches the principal along one way; `authority` is None where nothing was cut yet."""

    authority: Authority | None
    validity: Validity
    may_delegate: bool
    is_passed_on: bool
    counted: tuple[Principal, ...]


def grants(certificates: list[Certificate], start: Subject, end: Principal) -> Iterator[Grant]:
    """Yield what `start` passes to `end`, along every way."""
    yield from _from(certificates, start, end, trail=())


def _from(
    certificates: list[Certificate], start: Subject, end: Principal, trail: tuple[Subject, ...]
) -> Iterator[Grant]:
    if start in trail:
        return
    trail = (*trail, start)
    match start:
        case Principal():
            if start == end:
                yield Grant(None, UNBOUNDED, True, False, (start,))
            yield from _by_certificate(certificates, start, end, trail)
        case LocalName():
            for definition in certificates:
                if isinstance(definition, NameCertificate):
                    after = _renamed(start, definition)
                    if after is not None:
                        for one in _from(certificates, after, end, trail):
                            yield _during(one, definition.validity)
        case Threshold():
            if _members_are_distinct(start):
                yield from _by_threshold(certificates, start, end, trail)


def _by_certificate(
    certificates: list[Certificate], issuer: Principal, end: Principal, trail: tuple[Subject, ...]
) -> Iterator[Grant]:
    for certificate in certificates:
        if isinstance(certificate, AuthorisationCertificate) and certificate.issuer == issuer:
            for one in _from(certificates, certificate.subject, end, trail):
                if one.is_passed_on and not certificate.may_delegate:
                    continue
                authority = certificate.authority
                if one.authority is not None:
                    common = intersect(authority, one.authority)
                    if common is None:
                        continue
                    authority = common
                yield Grant(
                    authority,
                    one.validity.intersection(certificate.validity),
                    one.may_delegate and certificate.may_delegate,
                    True,
                    (issuer,),
                )


def _by_threshold(
    certificates: list[Certificate], threshold: Threshold, end: Principal, trail: tuple[Subject, ...]
) -> Iterator[Grant]:
    offers = [list(_from(certificates, member, end, trail)) for member in threshold.members]
    for members in combinations(offers, threshold.needed):
        for shares in product(*members):
            counted = tuple(person for share in shares for person in share.counted)
            if len(set(counted)) == len(counted):
                yield from _together(shares, counted)


def _together(shares: tuple[Grant, ...], counted: tuple[Principal, ...]) -> Iterator[Grant]:
    authority: Authority | None = None
    validity = UNBOUNDED
    for share in shares:
        validity = validity.intersection(share.validity)
        if share.authority is not None:
            authority = share.authority if authority is None else intersect(authority, share.authority)
            if authority is None:
                return
    yield Grant(
        authority,
        validity,
        all(share.may_delegate for share in shares),
        any(share.is_passed_on for share in shares),
        counted,
    )


def _renamed(name: LocalName, definition: NameCertificate) -> Subject | None:
    if (definition.issuer, definition.name) != (name.space, name.names[0]):
        return None
    rest = name.names[1:]
    match definition.subject:
        case Principal() as found:
            return LocalName(found, rest) if rest else found
        case LocalName(space, names):
            return LocalName(space, names + rest) if len(names + rest) <= WORDS_MAX else None
        case found:
            return None if rest else found


def _during(one: Grant, validity: Validity) -> Grant:
    return Grant(
        one.authority,
        one.validity.intersection(validity),
        one.may_delegate,
        one.is_passed_on,
        one.counted,
    )


def _members_are_distinct(threshold: Threshold) -> bool:
    found: list[Subject] = []
    waiting: list[Subject] = [threshold]
    while waiting:
        match waiting.pop():
            case Threshold(_, members):
                waiting.extend(members)
            case leaf:
                found.append(leaf)
    return len(set(found)) == len(found)
