"""Do these certificates carry authority from the owner of a resource to this principal, now?

Brokers, type checks and policy ask, with the certificates that a requester
showed. The answer is a `VerifiedChain`, which no other function can make, or a
refusal that names the certificate and the field at fault. Verification is
the one of the dissertation (sections 2.6.1 and 5.3.2): signatures, validity,
names to keys, 5-tuple reduction, and the closing of the loop at a principal
that has proved its key.

A chain is shown in order, from the owner on. Name certificates may stand
anywhere between; a certificate that is shown twice, or that plays no part, is
refused. Where a threshold takes part, k sub-chains meet at the principal and
order means nothing; what was granted is what all k of them grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass
from typing import Final, final

from maia.credentials.authority import Authority
from maia.credentials.certificate import AuthorisationCertificate, SignedCertificate
from maia.credentials.chains.cache import VerificationCache, check_signature
from maia.credentials.chains.errors import (
    BrokenChain,
    Budget,
    CertificateExpired,
    CertificateNotYetValid,
    ChainTooLong,
    DuplicateCertificate,
    LoopNotClosed,
    NameUnresolved,
    QuorumNotReached,
    SuperfluousCertificate,
    UnknownQuorum,
    WrongRoot,
    shown_id,
)
from maia.credentials.chains.flows import DEFAULT_LIMITS, FlowLimits, Rules, certificates_of, flow_search
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.chains.reduction import (
    FiveTuple,
    Meaning,
    NameBook,
    Reducible,
    Terminal,
    checked_owned_part,
    full_authority,
    name_book,
    owned_part,
    reduce_chain,
)
from maia.credentials.keys import LocalName, Owner, Principal, QuorumId, Threshold
from maia.credentials.proof import Proof
from maia.credentials.validity.period import UNBOUNDED, Validity
from maia.events import Instant

_SEAL: Final = object()


@final
@dataclass(frozen=True, slots=True)
class VerifiedChain(Proof):
    """The proof that `root` let `subject` do what `authority` says, while `validity` lasts.

    Only the verifier builds one. `authority` speaks of resources of `root` and
    of no others. `certificates` are all that were used, in order.
    """

    root: Owner
    subject: Principal
    authority: Authority
    validity: Validity
    may_delegate: bool
    certificates: tuple[SignedCertificate, ...]
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_chain builds a VerifiedChain")


def owner_chain(owner: Principal, at: Instant) -> VerifiedChain:
    """Return the proof of no certificates: an owner may do everything with what is its own.

    `owner` has proved its key, as every subject of a chain has. The moment is
    asked for like everywhere else; ownership itself does not end.
    """
    assert isinstance(at, Instant)  # noqa: S101 - keeps the signature honest, and costs nothing
    return VerifiedChain(owner, owner, full_authority(owner), UNBOUNDED, True, (), _SEAL)


def verify_chain(  # noqa: PLR0913 - every one is named at the call
    certificates: Iterable[SignedCertificate],
    *,
    root: Owner,
    subject: Principal,
    at: Instant,
    cache: VerificationCache | None = None,
    constitutions: Iterable[VerifiedConstitution] = (),
    limits: FlowLimits = DEFAULT_LIMITS,
    budget: Budget | None = None,
) -> VerifiedChain:
    """Return the proof that `root` granted something to `subject`, or refuse and say why.

    `root` owns the resource, and `subject` has proved its key. A quorum as
    root needs its constitution among `constitutions`. Signatures are checked
    from the owner on, and the first bad one ends it.
    """
    given = tuple(certificates)
    budget = limits.budget() if budget is None else budget
    known = None if cache is None else cache.chain_of(given)
    if isinstance(known, VerifiedChain) and _still_proves(known, root, subject, at):
        return known
    if not given and root == subject:
        return owner_chain(subject, at)
    _check_set(given, limits)
    for signed in given:
        validity = signed.certificate.validity
        if validity is not UNBOUNDED and not validity.contains(at):
            raise out_of_time(signed, at)
    check = check_signature if cache is None else cache.check
    for signed in given:
        check(signed)
    if isinstance(root, QuorumId) or Threshold in {signed.certificate.subject.__class__ for signed in given}:
        return _shared_chain(given, root_terminal(root, constitutions), root, subject, limits, budget)
    chain = _plain_chain(given, root, subject, budget)
    if cache is not None:
        cache.remember_chain(given, chain)
    return chain


def root_terminal(root: Owner, constitutions: Iterable[VerifiedConstitution]) -> Terminal:
    """Return who acts for an owner: its key, or the members of its current constitution."""
    if isinstance(root, Principal):
        return root
    for constitution in constitutions:
        if constitution.quorum == root:
            return constitution.threshold
    raise UnknownQuorum(f"the constitution of `{root}` was not shown")


def out_of_time(signed: SignedCertificate, at: Instant) -> BrokenChain:
    """Return the refusal of a certificate that is not valid at this moment."""
    start, end = signed.certificate.validity.not_before, signed.certificate.validity.not_after
    if start is not None and at < start:
        return CertificateNotYetValid(
            f"certificate {shown_id(signed.id)} is valid from {start} on, and it is {at}",
            certificate=signed.id,
            field="validity",
        )
    return CertificateExpired(
        f"certificate {shown_id(signed.id)} expired at {end}, and it is {at}",
        certificate=signed.id,
        field="validity",
    )


def _still_proves(known: VerifiedChain, root: Owner, subject: Principal, at: Instant) -> bool:
    same_ends = known.subject == subject and (known.root is root or known.root == root)
    return same_ends and known.validity.contains(at)


def _check_set(given: Sequence[SignedCertificate], limits: FlowLimits) -> None:
    if not given:
        raise WrongRoot("no certificates were shown, and the principal is not the owner", field="issuer")
    if len(given) > limits.certificates_max:
        raise ChainTooLong(
            f"a chain has at most {limits.certificates_max} certificates, and {len(given)} were shown"
        )
    ids = [signed.id for signed in given]
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise DuplicateCertificate(f"certificate {shown_id(twice)} was shown twice", certificate=twice)


# ---------------------------------------------------------------- chains without thresholds


def _plain_chain(
    given: tuple[SignedCertificate, ...], root: Owner, subject: Principal, budget: Budget
) -> VerifiedChain:
    steps = [signed for signed in given if signed.certificate.__class__ is AuthorisationCertificate]
    if not steps or steps[0].certificate.issuer != root:
        raise _wrong_root(given, root)
    ids = [signed.id for signed in steps]
    links, used = _resolved_links(given, steps, subject, budget)
    links[0] = _owned_by(root, links[0], ids[0])
    result = reduce_chain(links, ids)
    if result.subject is not subject and result.subject != subject:
        raise _loop_not_closed(steps[-1], subject)
    return _proof(root, subject, result, used)


def _resolved_links(
    given: tuple[SignedCertificate, ...],
    steps: list[SignedCertificate],
    subject: Principal,
    budget: Budget,
) -> tuple[list[Reducible], tuple[SignedCertificate, ...]]:
    """Return the 5-tuples of a chain with every name replaced by a key, and the certificates in order."""
    keyed: list[Reducible] = [
        signed.certificate
        for signed in given
        if isinstance(signed.certificate, AuthorisationCertificate)
        and signed.certificate.subject.__class__ is Principal
    ]
    if len(keyed) == len(given):
        return keyed, given
    book = name_book(given, lambda _signed: True)
    holders = [*(step.certificate.issuer for step in steps[1:]), subject]
    links: list[Reducible] = []
    used: list[SignedCertificate] = []
    for signed, holder in zip(steps, holders, strict=True):
        link, names = _resolved(signed, holder, book, budget)
        links.append(link)
        used += (signed, *names)
    return links, _all_used(given, used)


def _owned_by(root: Owner, link: Reducible, identifier: bytes) -> Reducible:
    """Return the first link, cut to what its issuer owns: no issuer can grant more."""
    authority = checked_owned_part(link.authority, root, identifier)
    if authority is link.authority:
        return link
    return FiveTuple(root, link.subject, link.may_delegate, authority, link.validity)


def _resolved(
    signed: SignedCertificate, holder: Principal, book: NameBook, budget: Budget
) -> tuple[Reducible, tuple[SignedCertificate, ...]]:
    """Return a certificate with its subject's name replaced by the key that comes next."""
    certificate = signed.certificate
    assert isinstance(certificate, AuthorisationCertificate)  # noqa: S101 - the caller has sorted them
    named = certificate.subject
    if not isinstance(named, LocalName):
        return certificate, ()
    meanings = book.meanings(named, budget)
    meaning = next((one for one in meanings if one.subject == holder), None)
    if meaning is None:
        raise NameUnresolved(
            f"certificate {shown_id(signed.id)} speaks to the name {_shown_name(named)}, "
            f"and no name certificate shown says that this means `{holder}`",
            certificate=signed.id,
            field="subject",
        )
    return _renamed(certificate, meaning), meaning.through


def _renamed(certificate: AuthorisationCertificate, meaning: Meaning) -> FiveTuple:
    return FiveTuple(
        certificate.issuer,
        meaning.subject,
        certificate.may_delegate,
        certificate.authority,
        certificate.validity.intersection(meaning.validity),
    )


# ---------------------------------------------------------------- chains in which thresholds take part


def _shared_chain(
    given: tuple[SignedCertificate, ...],
    terminal: Terminal,
    root: Owner,
    subject: Principal,
    limits: FlowLimits,
    budget: Budget,
) -> VerifiedChain:
    search = flow_search(given, terminal, subject, _ALREADY_CHECKED, limits, budget)
    leftover: SignedCertificate | None = None
    for flow in search.run():
        used = certificates_of(flow)
        owned = None if flow.authority is None else owned_part(flow.authority, root)
        if owned is None:
            continue
        if len(used) == len(given):
            return _proof(
                root, subject, FiveTuple(root, subject, flow.may_delegate, owned, flow.validity), used
            )
        leftover = leftover or _left_over(given, used)
    if leftover is not None:
        raise _superfluous(leftover)
    raise QuorumNotReached(
        f"the {len(given)} certificates shown do not carry enough shares from `{root}` to `{subject}`: "
        f"each threshold needs its number of different members, all granting something in common, "
        f"and every certificate but the last of each path must allow delegation",
        field="subject",
    )


_ALREADY_CHECKED: Final = Rules(admits=lambda _signed: True)


# ---------------------------------------------------------------- the proof, and why there is none


def _proof(
    root: Owner, subject: Principal, result: FiveTuple, used: tuple[SignedCertificate, ...]
) -> VerifiedChain:
    return VerifiedChain(root, subject, result.authority, result.validity, result.may_delegate, used, _SEAL)


def _all_used(
    given: tuple[SignedCertificate, ...], used: list[SignedCertificate]
) -> tuple[SignedCertificate, ...]:
    """Return the certificates in the order of their use, each once; refuse one that had none."""
    once = tuple({signed.id: signed for signed in used}.values())
    leftover = _left_over(given, once)
    if leftover is not None:
        raise _superfluous(leftover)
    return once


def _left_over(
    given: Iterable[SignedCertificate], used: Iterable[SignedCertificate]
) -> SignedCertificate | None:
    ids = {signed.id for signed in used}
    return next((signed for signed in given if signed.id not in ids), None)


def _superfluous(signed: SignedCertificate) -> SuperfluousCertificate:
    return SuperfluousCertificate(
        f"certificate {shown_id(signed.id)} plays no part in this chain", certificate=signed.id
    )


def _wrong_root(given: Sequence[SignedCertificate], root: Owner) -> WrongRoot:
    return WrongRoot(
        f"the chain begins with certificate {shown_id(given[0].id)} of "
        f"`{given[0].certificate.issuer}`, and the resource belongs to `{root}`",
        certificate=given[0].id,
        field="issuer",
    )


def _loop_not_closed(last: SignedCertificate, subject: Principal) -> LoopNotClosed:
    return LoopNotClosed(
        f"the chain ends with certificate {shown_id(last.id)}, which does not speak to `{subject}`",
        certificate=last.id,
        field="subject",
    )


def _shown_name(name: LocalName) -> str:
    words = " ".join(f'"{word}"' for word in name.names)
    return f"`{name.space} {words}`"
