"""May a principal do this, now or then, and why? And who loses what with a certificate?

The kernel answers both (`policy.decide`), from the certificates that the asker may read. What the
register says about revocations counts from its moment on, so that a question about yesterday has
yesterday's answer. The tests that a broker makes beside that are taken for passed, as `maia explain` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from maia.console.principal import RegisterEntry
from maia.console.rights import issued_below, people_in
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    NetworkName,
    Principal,
    SignedCertificate,
    VerificationCache,
)
from maia.credentials.authority import EVENT_ACTIONS, covers_request
from maia.credentials.chains.reduction import BrokenChain
from maia.credentials.statements import CertificateRevoked
from maia.events import AttributeUid, Instant
from maia.policy import NO_FACTS, Audience, Denial, Permit, Request, decide, gather_evidence
from maia.policy.view import Window, keeps, shows
from maia.predicates import format_predicate
from maia.types import VerifiedType
from maia.validity import Once

DECISIONS_MAX: Final = 2000
"""How many questions one preview asks the kernel; it says how many it left out."""


class _RegisterView:
    """Knows what the register says: revoked, and from when on."""

    def __init__(self, entries: Sequence[RegisterEntry], without: Collection[bytes] = ()) -> None:
        self._revoked = {one.signed.id: one.revoked_at for one in entries if one.revoked_at is not None}
        listed = (one.signed.id for one in entries if one.problem == "revoked" and one.revoked_at is None)
        self._without = {*without, *listed}  # since when is not known here

    def check(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        since = self._revoked.get(signed.id)
        if signed.id in self._without or (since is not None and since <= at):
            when = "" if since is None else f" at {since}"
            return CertificateRevoked(
                f"the certificate was revoked{when}", certificate=signed.id, field="validity"
            )
        return None


@dataclass(frozen=True, slots=True)
class ConsoleAnswer:
    """What the kernel decided, for one audience."""

    is_permitted: bool
    code: str | None
    until: str | None
    reasons: tuple[tuple[str, str | None], ...]
    """Sentences, each with the id of the certificate that it is about."""
    attributes: Mapping[str, bool]
    """Of each attribute of the type, whether it is shown (or may be written)."""
    windows: tuple[str, ...]


def ask(
    request: Request,
    entries: Sequence[RegisterEntry],
    at: Instant,
    audience: Audience,
    *,
    cache: VerificationCache | None = None,
) -> ConsoleAnswer:
    """Decide a request at a moment, and explain it."""
    decision = _decided(request, entries, at, _RegisterView(entries), cache)
    names = {} if request.event_type is None else {one.uid: one.name for one in request.event_type.attributes}
    reasons = tuple(
        (one.line(names), None if one.certificate is None else one.certificate.hex())
        for one in decision.explanation.reasons(audience)
    )
    if isinstance(decision, Denial):
        return ConsoleAnswer(False, decision.code, None, reasons, dict.fromkeys(names.values(), False), ())
    windows: tuple[str, ...] = ()
    if audience is Audience.OWNER:
        windows = tuple(format_predicate(one.admits, names) for one in decision.view.windows)
    shown = {name: uid in _shown(decision, (uid,)) for uid, name in names.items()}
    until = None if decision.until is None else str(decision.until)
    return ConsoleAnswer(True, None, until, reasons, shown, windows)


def _decided(
    request: Request,
    entries: Sequence[RegisterEntry],
    at: Instant,
    register: _RegisterView,
    cache: VerificationCache | None,
) -> Permit | Denial:
    pool = [one.signed for one in entries]
    return decide(
        request, gather_evidence(request, pool, at=at, standing=register, cache=cache), NO_FACTS, at
    )


def _shown(permit: Permit, uids: Collection[AttributeUid]) -> frozenset[AttributeUid]:
    return frozenset(uid for uid in uids if any(shows(one, uid) for one in permit.view.windows))


# ------------------------------------------------------------ who sees what


@dataclass(frozen=True, slots=True)
class Sees:
    """What one principal sees of a type, until when, and on which certificates."""

    principal: Principal
    attributes: Mapping[str, str]
    """Of each attribute: `shown`, `changed` where a transformation stands before it, or `hidden`."""
    windows: tuple[str, ...]
    until: str | None
    chains: tuple[tuple[str, ...], ...]
    is_conditional: bool
    """A broker asks a condition at the moment of use, so what is seen cannot be said here."""


def may_see(event_type: VerifiedType, entries: Sequence[RegisterEntry]) -> list[Principal]:
    """Return whom a certificate lets subscribe to a type, if its chain holds."""
    return people_in([
        entry
        for entry in entries
        if not isinstance(said := entry.signed.certificate, AuthorisationCertificate)
        or covers_request(said.authority, Action.SUBSCRIBE, event_type.name)
    ])  # fmt: skip


def who_sees(
    event_type: VerifiedType,
    entries: Sequence[RegisterEntry],
    people: Sequence[Principal],
    now: Instant,
    *,
    cache: VerificationCache | None = None,
    most: int = DECISIONS_MAX,
) -> tuple[list[Sees], int]:
    """Ask the kernel about each of these; return those who see something, and how many were too many."""
    names = {one.uid: one.name for one in event_type.attributes}
    register, found = _RegisterView(entries), []
    to_keys: dict[Principal, list[SignedCertificate]] = defaultdict(list)
    to_names: list[SignedCertificate] = []
    for signed in (one.signed for one in entries):
        subject = signed.certificate.subject
        (to_keys[subject] if isinstance(subject, Principal) else to_names).append(signed)
    for principal in people[:most]:
        request = Request(principal, Action.SUBSCRIBE, event_type.name, event_type)
        pool = _leading_to(principal, to_keys, to_names)
        evidence = gather_evidence(request, pool, at=now, standing=register, cache=cache)
        decision = decide(request, evidence, NO_FACTS, now)
        is_conditional = isinstance(decision, Denial) and decision.code == "POLICY-CONDITION-NOT-MET"
        if isinstance(decision, Denial) and not is_conditional:
            continue
        windows = decision.view.windows if isinstance(decision, Permit) else ()
        until = decision.until if isinstance(decision, Permit) else None
        chains = tuple(tuple(one.id.hex() for one in chain.certificates) for chain in evidence.chains)
        found.append(Sees(
            principal,
            {name: _seen(windows, uid) for uid, name in names.items()},
            tuple(format_predicate(one.admits, names) for one in windows),
            None if until is None else str(until),
            tuple(one for one in chains if one),
            is_conditional,
        ))  # fmt: skip
    return found, max(0, len(people) - most)


def _leading_to(
    principal: Principal,
    to_keys: Mapping[Principal, Sequence[SignedCertificate]],
    to_names: Sequence[SignedCertificate],
) -> list[SignedCertificate]:
    """Return the certificates that can be part of a chain to a principal, which are few of very many."""
    found, known = list(to_names), set[Principal]()
    frontier = [principal, *(one.certificate.issuer for one in to_names)]
    while frontier:
        holder = frontier.pop()
        if holder not in known:
            known.add(holder)
            found += to_keys.get(holder, ())
            frontier += [one.certificate.issuer for one in to_keys.get(holder, ())]
    return found


def _seen(windows: Sequence[Window], uid: AttributeUid) -> str:
    if any(keeps(one, uid) for one in windows):
        return "shown"
    return "changed" if any(shows(one, uid) for one in windows) else "hidden"


# ------------------------------------------------------------ what would fall


@dataclass(frozen=True, slots=True)
class LostRight:
    """What one principal would lose."""

    principal: Principal
    action: str
    resource: str
    is_whole: bool
    """Whether nothing is left of this right."""
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """Who would lose what if a certificate were revoked, and which certificates would be worth nothing."""

    losses: tuple[LostRight, ...]
    falls: tuple[bytes, ...]
    left_out: int


def preview(
    entry: RegisterEntry,
    entries: Sequence[RegisterEntry],
    types: Sequence[VerifiedType],
    networks: Sequence[NetworkName],
    now: Instant,
) -> Preview:
    """Decide every right behind a certificate twice: as things are, and without it."""
    said = entry.signed.certificate
    if not isinstance(said, AuthorisationCertificate):
        return Preview((), (entry.signed.id,), 0)
    cache = VerificationCache(certificates_max=2 * len(entries) + 1)
    actions = sorted(said.authority.actions & (EVENT_ACTIONS | {Action.CONNECT}), key=lambda one: one.value)
    questions = [
        (principal, action, resource)
        for principal in issued_below(entry, entries)
        for action in actions
        for resource in _covered(said, action, types, networks)
    ]
    losses: list[LostRight] = []
    lost: set[tuple[Principal, Action, str]] = set()
    for principal, action, resource in questions[:DECISIONS_MAX]:
        if isinstance(resource, NetworkName):
            request = Request(principal, action, resource)
        else:
            request = Request(principal, action, resource.name, resource)
        then, later = (
            _decided(request, entries, now, _RegisterView(entries, without), cache)
            for without in ((), {entry.signed.id})
        )
        found = _loss(request, _called(resource), then, later)
        if found is not None:
            losses.append(found)
            if found.is_whole:
                lost.add((principal, action, found.resource))
    falls = [entry.signed.id]
    for one in entries:
        other = one.signed.certificate
        if one is not entry and one.revoked_at is None and isinstance(other, AuthorisationCertificate):
            about = (
                what == _called(resource)
                for who, action, what in lost
                if who == other.issuer
                for resource in _covered(other, action, types, networks)
            )
            if any(about):
                falls.append(one.signed.id)
    return Preview(tuple(losses), tuple(falls), max(0, len(questions) - DECISIONS_MAX))


def _covered(
    certificate: AuthorisationCertificate,
    action: Action,
    types: Sequence[VerifiedType],
    networks: Sequence[NetworkName],
) -> list[VerifiedType | NetworkName]:
    resources: Sequence[VerifiedType | NetworkName] = networks if action is Action.CONNECT else types
    return [
        one
        for one in resources
        if covers_request(certificate.authority, action, one if isinstance(one, NetworkName) else one.name)
    ]


def _called(resource: VerifiedType | NetworkName) -> str:
    return resource.name if isinstance(resource, NetworkName) else resource.name.name


def _loss(request: Request, called: str, then: Permit | Denial, later: Permit | Denial) -> LostRight | None:
    if isinstance(then, Denial):
        return None
    names = {} if request.event_type is None else {one.uid: one.name for one in request.event_type.attributes}
    is_whole = isinstance(later, Denial)
    left = frozenset() if isinstance(later, Denial) else _shown(later, names)
    gone = tuple(sorted(names[uid] for uid in _shown(then, names) - left))
    narrower = not isinstance(later, Denial) and len(later.view.windows) < len(then.view.windows)
    if not (is_whole or gone or narrower):
        return None
    return LostRight(request.principal, request.action.value, called, is_whole, gone)
