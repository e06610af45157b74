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

An Ed25519 check costs a hundred times what everything else about a
certificate costs, and its answer never changes; so brokers remember it
(dissertation 5.3.3). What does change with time, validity and revocation, is
never remembered here: a cached certificate still expires. Memory is bounded
by number and by bytes, for any peer can sign certificates and make them long:
of the signatures, the least recently used is forgotten first.

A signature is remembered with the id, the signature bytes and the content
that was checked. None of the three alone is enough: a second signature, or a
certificate object altered beside its signed bytes, is a new question. Of two
good signatures of one text, which no honest issuer makes, the later is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final, final

from maia.bounded_map import BoundedMap
from maia.credentials.authority import Authority
from maia.credentials.certificate import (
    UNBOUNDED,
    AuthorisationCertificate,
    SignedCertificate,
    Validity,
    signed_kind,
)
from maia.credentials.chains.flows import DEFAULT_LIMITS, FlowLimits, Rules, certificates_of, flow_search
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.chains.reduction import (
    BrokenChain,
    Budget,
    CertificateExpired,
    CertificateNotYetValid,
    FiveTuple,
    Meaning,
    NameBook,
    QuorumNotReached,
    Reducible,
    SuperfluousCertificate,
    Terminal,
    UnknownQuorum,
    checked_owned_part,
    full_authority,
    name_book,
    owned_part,
    reduce_chain,
    shown_id,
)
from maia.credentials.encoding.certificates import certificate_body, certificate_from_bytes, signed_part
from maia.credentials.keys import (
    BadSignature,
    LocalName,
    Owner,
    Principal,
    QuorumId,
    Threshold,
    principal_from_bytes,
    verify_signature,
)
from maia.credentials.proof import Proof
from maia.errors import BrokenCredential
from maia.events import Instant

CERTIFICATES_MAX: Final = 65_536
REDUCTIONS_MAX: Final = 2_048
CERTIFICATE_BYTES_MAX: Final = 32 << 20
"""How many bytes the remembered certificates have together, and again those of remembered chains."""
_FORGED_MAX: Final = 1024
"""Bad signatures that are remembered, so that showing one again costs no check: 96 bytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class ChainLinks:
    """A chain to be reduced again and again: equal to itself alone, so no memo looks inside."""

    certificates: tuple[Reducible, ...]


def _reduced_links(links: ChainLinks) -> FiveTuple:
    return reduce_chain(links.certificates)


class VerificationCache:
    """Signatures that were found good, and reductions that were worked out. Never validity.

    `cache.reduce(links)` returns what a chain amounts to, at once if the same
    `Links` were reduced before.
    """

    __slots__ = (
        "_bytes_max",
        "_certificates",
        "_chain_bytes",
        "_chains",
        "_forged",
        "_forget_reductions",
        "_read",
        "_reductions_max",
        "reduce",
    )

    def __init__(
        self,
        *,
        certificates_max: int = CERTIFICATES_MAX,
        reductions_max: int = REDUCTIONS_MAX,
        bytes_max: int = CERTIFICATE_BYTES_MAX,
    ) -> None:
        """Make an empty cache of bounded size."""
        self._reductions_max, self._bytes_max = reductions_max, bytes_max
        self._chain_bytes = 0
        self._certificates: BoundedMap[bytes, SignedCertificate] = BoundedMap(
            certificates_max, bytes_max=bytes_max, size_of=lambda _, signed: len(signed.body)
        )
        # A method of ours would cost more than the lookup, so the memo itself is what is called.
        reduce = lru_cache(reductions_max)(_reduced_links)
        self.reduce: Callable[[ChainLinks], FiveTuple] = reduce
        self._forget_reductions = reduce.cache_clear
        # By the identity of a tuple, which is a key only while the tuple lives; so the tuple is kept too.
        self._chains: dict[int, tuple[tuple[SignedCertificate, ...], object]] = {}
        self._read: BoundedMap[bytes, SignedCertificate] = BoundedMap(
            reductions_max, bytes_max=bytes_max, size_of=lambda data, _: len(data)
        )
        self._forged: BoundedMap[tuple[bytes, bytes], None] = BoundedMap(_FORGED_MAX)

    def __len__(self) -> int:
        """Return how many signatures are remembered."""
        return len(self._certificates)

    def read(self, data: bytes) -> SignedCertificate:
        """Read a certificate as strictly as ever, at once if the same bytes were read before.

        Nothing is said about its signature: that is asked with `check`.
        """
        known = self._read.get(data)
        if known is None:
            known = certificate_from_bytes(data)
            self._read.put(data, known)
        return known

    def knows(self, signed: SignedCertificate) -> bool:
        """Return whether the signature of exactly this certificate was found good before."""
        kept = self._certificates.get(signed.id)
        if kept is None or not (kept is signed or _is_same(kept, signed)):
            return False
        self._certificates.use(signed.id)
        return True

    def check(self, signed: SignedCertificate) -> None:
        """Check a signature, or remember that it was checked."""
        if not self.knows(signed):
            check_signature(signed)
            self._remember(signed)

    def read_checked(self, data: bytes, budget: Budget) -> SignedCertificate:
        """Read a certificate whose signature holds; it is checked over the bytes as they are, before.

        A forged certificate costs one check, and is not parsed.
        """
        part = signed_part(data)
        key = (sha256(part.body).digest(), part.signature)
        known = self._certificates.get(key[0])
        if known is not None and (known.body, known.signature) == (part.body, part.signature):
            return known
        if key in self._forged:
            raise BadSignature("the signature was found bad before")
        budget.spend_check()
        try:
            verify_signature(principal_from_bytes(part.issuer), part.kind, part.body, part.signature)
        except BadSignature:
            self._forged.put(key, None)
            raise
        budget.spend_reading(len(data))
        signed = certificate_from_bytes(data)
        self._remember(signed)
        return signed

    def _remember(self, signed: SignedCertificate) -> None:
        self._certificates.put(signed.id, signed)

    def chain_of(self, certificates: tuple[SignedCertificate, ...]) -> object | None:
        """Return what the verifier remembered for exactly this tuple of certificates."""
        known = self._chains.get(id(certificates))
        return known[1] if known is not None and known[0] is certificates else None

    def remember_chain(self, certificates: tuple[SignedCertificate, ...], chain: object) -> None:
        """Keep what the verifier found; the verifier checks root, subject and time again."""
        size = sum(len(signed.body) for signed in certificates)
        self._chain_bytes += size
        if len(self._chains) >= self._reductions_max or self._chain_bytes > self._bytes_max:
            self._chains.clear()  # it fills again at once with what is in use
            self._forget_reductions()
            self._chain_bytes = size
        self._chains[id(certificates)] = (certificates, chain)

    def exported(self) -> tuple[SignedCertificate, ...]:
        """Return the remembered certificates, the least recently used first, to be written to disk."""
        return tuple(self._certificates.values())

    @classmethod
    def reloaded(
        cls, certificates: Iterable[SignedCertificate], *, certificates_max: int = CERTIFICATES_MAX
    ) -> VerificationCache:
        """Return a cache of what holds among certificates read back from disk.

        A file on disk is a hint on what to check early, never a proof: each
        signature is checked again, and what fails is left out.
        """
        cache = cls(certificates_max=certificates_max)
        for signed in certificates:
            try:
                cache.check(signed)
            except BrokenCredential:
                continue
        return cache


def check_signature(signed: SignedCertificate) -> None:
    """Return if the issuer signed the very bytes that say what `certificate` says.

    The decision is made on `certificate` and the signature is over `body`; an
    object whose parts were not read together has them compared here first.
    """
    certificate = signed.certificate
    if not signed.is_as_signed and not (
        sha256(signed.body).digest() == signed.id and certificate_body(signed.certificate) == signed.body
    ):
        raise BadSignature(f"certificate {shown_id(signed.id)} does not say what was signed")
    try:
        verify_signature(certificate.issuer, signed_kind(certificate), signed.body, signed.signature)
    except BadSignature as problem:
        raise BadSignature(f"certificate {shown_id(signed.id)}: {problem.message}") from problem


def _is_same(kept: SignedCertificate, signed: SignedCertificate) -> bool:
    """Compare what was checked with what is shown: bytes with bytes, and content with content."""
    if kept.body != signed.body or kept.signature != signed.signature:
        return False
    # What was read from equal bytes is equal; anything else is compared field by field.
    return (kept.is_as_signed and signed.is_as_signed) or kept.certificate == signed.certificate


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


def verify_needed(
    certificates: tuple[SignedCertificate, ...],
    verify: Callable[[tuple[SignedCertificate, ...]], VerifiedChain],
) -> VerifiedChain:
    """Return the proof of some certificates, without those that turn out to play no part in it."""
    while True:
        try:
            return verify(certificates)
        except SuperfluousCertificate as extra:
            certificates = tuple(one for one in certificates if one.id != extra.certificate)


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
    return CertificateExpired(f"certificate {shown_id(signed.id)} expired at {end}, and it is {at}", signed)


def _still_proves(known: VerifiedChain, root: Owner, subject: Principal, at: Instant) -> bool:
    same_ends = known.subject == subject and (known.root is root or known.root == root)
    return same_ends and known.validity.contains(at)


def _check_set(given: Sequence[SignedCertificate], limits: FlowLimits) -> None:
    if not given:
        raise BrokenChain(
            "CREDENTIAL-WRONG-ROOT",
            "no certificates were shown, and the principal is not the owner",
            field="issuer",
        )
    if len(given) > limits.certificates_max:
        raise BrokenChain(
            "CREDENTIAL-CHAIN-LENGTH",
            f"a chain has at most {limits.certificates_max} certificates, and {len(given)} were shown",
        )
    ids = [signed.id for signed in given]
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise BrokenChain(
            "CREDENTIAL-DUPLICATE", f"certificate {shown_id(twice)} was shown twice", certificate=twice
        )


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
    given: tuple[SignedCertificate, ...], steps: list[SignedCertificate], subject: Principal, budget: Budget
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
        raise BrokenChain(
            "CREDENTIAL-NAME-UNRESOLVED",
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


def _wrong_root(given: Sequence[SignedCertificate], root: Owner) -> BrokenChain:
    return BrokenChain(
        "CREDENTIAL-WRONG-ROOT",
        f"the chain begins with certificate {shown_id(given[0].id)} of "
        f"`{given[0].certificate.issuer}`, and the resource belongs to `{root}`",
        certificate=given[0].id,
        field="issuer",
    )


def _loop_not_closed(last: SignedCertificate, subject: Principal) -> BrokenChain:
    return BrokenChain(
        "CREDENTIAL-WRONG-SUBJECT",
        f"the chain ends with certificate {shown_id(last.id)}, which does not speak to `{subject}`",
        certificate=last.id,
        field="subject",
    )


def _shown_name(name: LocalName) -> str:
    words = " ".join(f'"{word}"' for word in name.names)
    return f"`{name.space} {words}`"
