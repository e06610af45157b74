"""Who are the current members of a quorum, and how do we know?

A quorum owns networks and types like a principal does (dissertation 3.4, 5.4).
Its identity is the digest of its founding constitution:

    (quorum (version 1) (k-of-n K N MEMBER …) (salt BYTES))

Members are replaced without changing that identity: a change names the
constitution it replaces by digest, carries the next sequence number, and is
signed by enough members of the constitution it replaces.

    (quorum-change (version 1) (quorum DIGEST) (sequence N) (replaces DIGEST) (k-of-n K N MEMBER …))

Verifiers of chains ask. A verifier that has seen a later constitution refuses
an earlier one, so that members who left cannot act again. Members are keys
or nested thresholds, never local names: the owner of a name could otherwise
change the quorum alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple, TypeVar, final

from maia.canonical import Limits, SExpression, read_advanced, read_canonical, write_advanced, write_canonical
from maia.canonical.fields import Part, bare, each, number, octets, one, record, rest
from maia.credentials.chains.reduction import QuorumNotReached, shown_id
from maia.credentials.documents import KEY
from maia.credentials.encoding.parts import MEMBERS_MAX, SUBJECT, THRESHOLD_DEPTH_MAX
from maia.credentials.keys import (
    SIGNATURE_BYTES,
    BadCertificate,
    BadKey,
    LocalName,
    Principal,
    QuorumId,
    SignedKind,
    SigningKey,
    Subject,
    Threshold,
    verify_signature,
)
from maia.credentials.proof import Proof
from maia.errors import BadInput, BrokenCredential


class BadQuorum(BrokenCredential):
    """A constitution, or a change of one, is not written as it must be."""

    code = "CREDENTIAL-CONSTITUTION"


# Agreement of k of n, and who was counted.


_Offer = TypeVar("_Offer")


def checked_threshold(threshold: Threshold) -> Threshold:
    """Return `threshold`, refused if it asks for the impossible or names a member twice.

    Everything recursive on thresholds runs behind this check.
    """
    seen: set[Subject] = set()
    waiting: list[tuple[Threshold, int]] = [(threshold, 1)]
    while waiting:
        here, depth = waiting.pop()
        if depth > THRESHOLD_DEPTH_MAX:
            raise BadInput("INPUT-THRESHOLD", f"a threshold nests at most {THRESHOLD_DEPTH_MAX} levels")
        if not 1 <= here.needed <= len(here.members):
            raise BadInput(
                "INPUT-THRESHOLD", f"a threshold cannot ask for {here.needed} of {len(here.members)} members"
            )
        for member in here.members:
            if isinstance(member, Threshold):
                waiting.append((member, depth + 1))
            elif member in seen:
                raise BadInput("INPUT-THRESHOLD", "a threshold names the same member twice")
            else:
                seen.add(member)
        if len(seen) + len(waiting) > MEMBERS_MAX:
            raise BadInput(
                "INPUT-THRESHOLD", f"a threshold has at most {MEMBERS_MAX} members, nested ones included"
            )
    return threshold


def leaves(threshold: Threshold) -> Iterator[Principal | LocalName]:
    """Yield the members that are no thresholds themselves, nested ones included."""
    waiting: list[Subject] = [threshold]
    while waiting:
        member = waiting.pop()
        if isinstance(member, Threshold):
            waiting.extend(reversed(member.members))
        else:
            yield member


def satisfied(threshold: Threshold, agreed: Collection[Principal]) -> bool:
    """Return whether `agreed` holds enough members of a checked threshold without names.

    Such a threshold lists every key once, so counting members counts keys.
    """
    count = sum(
        satisfied(member, agreed) if isinstance(member, Threshold) else member in agreed
        for member in threshold.members
    )
    return count >= threshold.needed


@dataclass(slots=True)
class Tries:
    """How many combinations are still to be tried; when none are left, the choosing stops."""

    left: int


def disjoint_choices(
    offers: Sequence[Sequence[tuple[frozenset[Principal], _Offer]]],
    *,
    needed: int,
    besides: frozenset[Principal],
    tries: Tries,
) -> Iterator[tuple[_Offer, ...]]:
    """Yield ways to take one offer each from `needed` members, with no principal behind two of them.

    `offers[i]` is what member i can contribute: the principals behind it, and the
    contribution. No principal in `besides` may be behind any. Members are tried
    in order, so the ways come in a fixed order. There can be very many ways,
    and more tries than ways; the choosing ends when `tries` does.
    """
    chosen: list[tuple[frozenset[Principal], _Offer]] = []

    def extend(first: int) -> Iterator[tuple[_Offer, ...]]:
        if len(chosen) == needed:
            yield tuple(offer for _, offer in chosen)
            return
        # Too few members are left to reach the number: no need to look.
        for place in range(first, len(offers) - (needed - len(chosen)) + 1):
            for behind, offer in offers[place]:
                tries.left -= 1
                if tries.left < 0:
                    return
                if behind.isdisjoint(besides) and all(behind.isdisjoint(others) for others, _ in chosen):
                    chosen.append((behind, offer))
                    yield from extend(place + 1)
                    chosen.pop()

    # INVARIANT: the recursion is at most `needed` deep, and a checked threshold needs at most MEMBERS_MAX.
    return extend(0)


CHANGES_MAX: Final = 256
SALT_BYTES_MAX: Final = 32
SEQUENCE_MAX: Final = 2**31 - 1

_LIMITS: Final = Limits(size_max=1 << 22, depth_max=32, atom_max=1 << 16)
_SEAL: Final = object()


@dataclass(frozen=True, slots=True)
class QuorumChange:
    """From `sequence` on, `threshold` acts for `quorum`, in place of the constitution `replaces`."""

    quorum: QuorumId
    sequence: int
    replaces: bytes
    threshold: Threshold


@dataclass(frozen=True, slots=True)
class SignedChange:
    """The exact bytes of a change, and who signed them."""

    body: bytes = field(repr=False)
    signatures: tuple[tuple[Principal, bytes], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class QuorumEvidence:
    """The founding constitution and every change since, oldest first. Nothing in it is checked yet."""

    founding: bytes = field(repr=False)
    changes: tuple[SignedChange, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class VerifiedConstitution(Proof):
    """The proof that `threshold` acts for `quorum` since change number `sequence`.

    Only the verifier builds one. `digest` is that of the bytes in force: the
    founding constitution, or the last change.
    """

    quorum: QuorumId
    threshold: Threshold
    sequence: int
    digest: bytes
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_constitution builds a VerifiedConstitution")


# ---------------------------------------------------------------- making


def found_quorum(threshold: Threshold, *, salt: bytes) -> QuorumEvidence:
    """Write the founding constitution of a quorum; its digest is the quorum's identity.

    Fresh random bytes as `salt` give the same members a second quorum whose
    changes cannot be mistaken for those of the first.
    """
    return QuorumEvidence(write_canonical(_FOUNDING.write(_Founding(threshold, salt))))


def propose_change(current: VerifiedConstitution, threshold: Threshold) -> QuorumChange:
    """Return the change that puts `threshold` in the place of the current constitution."""
    return QuorumChange(current.quorum, current.sequence + 1, current.digest, _checked_members(threshold))


def change_body(change: QuorumChange) -> bytes:
    """Return the bytes that members sign when they agree to a change."""
    return write_canonical(_CHANGE.write(change))


def sign_change(change: QuorumChange, keys: Iterable[SigningKey]) -> SignedChange:
    """Collect the signatures of some members under a change."""
    body = change_body(change)
    signed = {key.principal: key.sign(SignedKind.QUORUM_CHANGE, body) for key in keys}
    return SignedChange(body, tuple(sorted(signed.items())))


def cosign(evidence: QuorumEvidence, key: SigningKey) -> QuorumEvidence:
    """Add a member's signature to the last change; a member that has signed it already adds nothing."""
    if not evidence.changes:
        raise BadQuorum("a founding constitution needs no signature: its digest is the quorum's identity")
    last = evidence.changes[-1]
    signed = dict(last.signatures) | {key.principal: key.sign(SignedKind.QUORUM_CHANGE, last.body)}
    return QuorumEvidence(
        evidence.founding, (*evidence.changes[:-1], SignedChange(last.body, tuple(sorted(signed.items()))))
    )


def quorum_of(evidence: QuorumEvidence) -> QuorumId:
    """Return the identity of the quorum that a founding constitution makes."""
    return QuorumId(sha256(evidence.founding).digest())


# ---------------------------------------------------------------- checking


def verify_constitution(
    evidence: QuorumEvidence,
    *,
    quorum: QuorumId,
    not_below_sequence: int = 0,
    remembered_digest: bytes | None = None,
) -> VerifiedConstitution:
    """Return the members of `quorum`, following every change from its founding on.

    A verifier that remembers a sequence number gives it, and an older state is
    refused. With the digest it remembers at that number, a fork made by
    members who signed twice is refused too.
    """
    if sha256(evidence.founding).digest() != quorum.digest:
        raise BadQuorum(f"the constitution shown is not the one that founded `{quorum}`")
    if len(evidence.changes) > CHANGES_MAX:
        raise BadQuorum(f"a quorum is followed through at most {CHANGES_MAX} changes")
    threshold = _read(_FOUNDING, evidence.founding).threshold
    digest, sequence = quorum.digest, 0
    _check_not_forked(sequence, digest, not_below_sequence, remembered_digest)
    for signed in evidence.changes:
        change = _read(_CHANGE, signed.body)
        _check_follows(change, quorum, sequence=sequence, digest=digest)
        _check_agreed(signed, threshold)
        threshold, sequence, digest = change.threshold, change.sequence, sha256(signed.body).digest()
        _check_not_forked(sequence, digest, not_below_sequence, remembered_digest)
    if sequence < not_below_sequence:
        raise BrokenCredential(
            "CREDENTIAL-CONSTITUTION-STALE",
            f"the constitution shown of `{quorum}` is number {sequence}, "
            f"and number {not_below_sequence} is known",
        )
    return VerifiedConstitution(quorum, threshold, sequence, digest, _SEAL)


def _check_follows(change: QuorumChange, quorum: QuorumId, *, sequence: int, digest: bytes) -> None:
    if change.quorum != quorum:
        raise BrokenCredential(
            "CREDENTIAL-SUCCESSION", f"a change of `{change.quorum}` was shown for `{quorum}`"
        )
    if change.sequence != sequence + 1:
        raise BrokenCredential(
            "CREDENTIAL-SUCCESSION",
            f"change number {sequence + 1} was expected, and number {change.sequence} was shown",
        )
    if change.replaces != digest:
        raise BrokenCredential(
            "CREDENTIAL-SUCCESSION",
            f"change number {change.sequence} replaces another constitution than {shown_id(digest)}",
        )


def _check_agreed(signed: SignedChange, threshold: Threshold) -> None:
    """Return if enough members of `threshold` signed; a stranger or a repetition is refused outright."""
    members = set(leaves(threshold))
    agreed: set[Principal] = set()
    for principal, signature in signed.signatures:
        if principal not in members:
            raise BrokenCredential(
                "CREDENTIAL-SUCCESSION", f"`{principal}` signed a change, and is not a member"
            )
        if principal in agreed:
            raise BrokenCredential("CREDENTIAL-SUCCESSION", f"`{principal}` signed a change twice")
        verify_signature(principal, SignedKind.QUORUM_CHANGE, signed.body, signature)
        agreed.add(principal)
    if not satisfied(threshold, agreed):
        raise QuorumNotReached(
            f"{len(agreed)} members signed a change, and that is not enough for the constitution in force",
            field="signatures",
        )


def _check_not_forked(sequence: int, digest: bytes, remembered: int, remembered_digest: bytes | None) -> None:
    if remembered_digest is not None and sequence == remembered and digest != remembered_digest:
        raise BrokenCredential(
            "CREDENTIAL-SUCCESSION", f"constitution number {sequence} is not the one known under that number"
        )


# ---------------------------------------------------------------- reading and writing


def _checked_members(threshold: Threshold) -> Threshold:
    checked_threshold(threshold)
    if any(isinstance(member, LocalName) for member in leaves(threshold)):
        raise BadQuorum("a member of a quorum must be a key or a threshold, not a local name")
    return threshold


def _read_members(expression: SExpression) -> Threshold:
    try:
        subject = SUBJECT.read(expression)
        if isinstance(subject, Threshold):
            return _checked_members(subject)
    except (BadInput, BrokenCredential) as problem:
        raise BadQuorum(f"the members of a quorum cannot be read: {problem.message}") from problem
    raise BadQuorum("a constitution must name its members with `k-of-n`")


def _read_signature(expression: SExpression) -> tuple[Principal, bytes]:
    match expression:
        case (b"signature", signer, bytes(made)) if len(made) == SIGNATURE_BYTES:
            return KEY.read(signer), made
    raise BadQuorum(f"a signature must be written `(signature KEY BYTES)`, with {SIGNATURE_BYTES} bytes")


class _Founding(NamedTuple):
    threshold: Threshold
    salt: bytes


_ENTRY: Final = (BadQuorum, "a change must be written `(change BODY SIGNATURE …)`")
_WRONG_EVIDENCE: Final = (BadQuorum, "the evidence of a quorum is not written as it must be")
_WRONG_CHANGE: Final = (BadQuorum, "a change of constitution is not written as it must be")
_OCTETS: Final = octets(0, _LIMITS.atom_max, _WRONG_EVIDENCE)
_MEMBERS: Final = bare(Part(lambda members: SUBJECT.write(_checked_members(members)), _read_members))
_SIGNATURES: Final = each(
    Part(lambda signature: (b"signature", KEY.write(signature[0]), signature[1]), _read_signature),
    MEMBERS_MAX,
    (BadQuorum, f"a change has at most {MEMBERS_MAX} signatures"),
)
_SALT: Final = octets(
    0, SALT_BYTES_MAX, (BadQuorum, f"the salt of a constitution has at most {SALT_BYTES_MAX} bytes")
)
_FOUNDING: Final = record(
    b"quorum",
    _Founding,
    (BadQuorum, "a constitution must be written `(quorum (version 1) (k-of-n …) (salt …))`"),
    version_of="constitution",
    threshold=_MEMBERS,
    salt=one(_SALT),
)
_CHANGE: Final = record(
    b"quorum-change",
    QuorumChange,
    _WRONG_CHANGE,
    version_of="constitution",
    quorum=one(Part[QuorumId](lambda quorum: quorum.digest, lambda digest: QuorumId(_OCTETS.read(digest)))),
    sequence=one(number(0, SEQUENCE_MAX, (BadQuorum, "a sequence number is not written as it must be"))),
    replaces=one(_OCTETS),
    threshold=_MEMBERS,
)
_EVIDENCE: Final = record(
    b"quorum-evidence",
    QuorumEvidence,
    _WRONG_EVIDENCE,
    version_of="evidence",
    founding=one(_OCTETS),
    changes=rest(
        each(
            record(b"change", SignedChange, _ENTRY, body=bare(_OCTETS), signatures=rest(_SIGNATURES)),
            CHANGES_MAX,
            _WRONG_EVIDENCE,
        )
    ),
)


def _read(part: Part[_Offer], data: bytes) -> _Offer:
    """Read bytes, strictly. What they claim is not verified here."""
    try:
        said = part.read(read_canonical(data, _LIMITS))
        if write_canonical(part.write(said)) == data:
            return said
    except (BadInput, BadCertificate, BadKey) as problem:
        raise BadQuorum(f"a constitution cannot be read: {problem.message}") from problem
    raise BadQuorum("a constitution is not written in its one canonical form")


def evidence_from_bytes(data: bytes) -> QuorumEvidence:
    """Read evidence, strictly. What it claims is not verified here."""
    return _read(_EVIDENCE, data)


def evidence_to_bytes(evidence: QuorumEvidence) -> bytes:
    """Return evidence as it travels."""
    return write_canonical(_EVIDENCE.write(evidence))


def evidence_to_text(evidence: QuorumEvidence) -> str:
    """Return evidence in its file form."""
    return write_advanced(_EVIDENCE.write(evidence)) + "\n"


def evidence_from_text(text: str) -> QuorumEvidence:
    """Read evidence from a file, as strictly as from bytes."""
    try:
        expression = read_advanced(text, _LIMITS)
    except BadInput as problem:
        raise BadQuorum(f"a constitution cannot be read: {problem.message}") from problem
    return evidence_from_bytes(write_canonical(expression))
