"""Which key groups of a type may this principal be in, and for how long has that been so?

The certificates that let a principal publish or subscribe admit it to the key
groups, and nothing else does (dissertation 7.6): the answer is the policy
kernel's, asked for publishing and for subscribing. A group is open to a principal that
has a View that shows or writes its attribute at this moment; the type's own
group to a principal with any View of the type.

Where certificates demand a one-time test, a key server asks here which testers
must confirm them so that the member gets keys, before it admits it and again
while it stays. What a question is about is named by a digest that server and
member work out alike: these keys, for this member, from this server, in this
session.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from maia.canonical import write_canonical
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Budget,
    Principal,
    SignedCertificate,
    Subject,
    Validity,
    VerificationCache,
    VerifiedConstitution,
    steady_period,
)
from maia.credentials.statements import CertificateStale
from maia.errors import BadInput, Refusal
from maia.events import INSTANT_MAX, INSTANT_MIN, AttributeUid, Instant
from maia.policy import (
    CHAINS_COUNTED,
    NO_EVIDENCE,
    NO_FACTS,
    BoundRule,
    Evidence,
    Permit,
    Reason,
    Request,
    TooMuchToSearch,
    decide,
    gather_evidence,
)
from maia.policy.answers import Answers, Said, is_answerable, may_read, needed_answers, needed_part
from maia.policy.view import View, keeps
from maia.sealing.groups.key_group import GroupId
from maia.types import SealingLevel, VerifiedType
from maia.validity import (
    ASSUMED_GOOD,
    NO_ANSWERS,
    Monitor,
    Once,
    Tester,
    VouchedFor,
    one_time_tests,
    questions_for,
)

VERSIONS_MAX: Final = 16
"""Versions of a type that one member may ask for."""

PERIODS_MAX: Final = 1024
"""Periods of a principal's rights that are checked for one answer."""
_WORK_MAX: Final = 40_000
"""Steps that the search for one right of one claim may take."""
_ACTIONS: Final = (Action.PUBLISH, Action.SUBSCRIBE)
_NOTHING_HEARD: Final = Monitor()


class NoGroupOpen(Refusal):
    """No certificate lets the principal publish or subscribe to anything of this type at this moment."""

    code = "REFUSED-NO-KEY-GROUP"


@dataclass(frozen=True, slots=True)
class Claim:
    """The principal, its versions of the type, and the certificates it shows."""

    principal: Principal
    versions: tuple[VerifiedType, ...] = field(repr=False)
    pool: tuple[SignedCertificate, ...] = field(repr=False)
    vouched: VouchedFor | None = field(default=None, repr=False)
    """The one-time answers for this very claim, and how long they serve."""

    def __post_init__(self) -> None:
        """Refuse more than a manager checks."""
        if len(self.versions) > VERSIONS_MAX:
            raise BadInput(
                "INPUT-GROUP-VERSIONS", f"a member asks for at most {VERSIONS_MAX} versions of a type"
            )

    def once(self, at: Instant) -> frozenset[Once]:
        """Return the one-time answers that count for the claim at a moment."""
        return NO_ANSWERS if self.vouched is None else self.vouched.counting(at)


@dataclass(frozen=True, slots=True)
class AnsweredRights:
    """What is answered of rights whose holders may not read all that these are about, and its names."""

    known: Answers
    """Those that have readers, by the uid of their answer."""
    uid_of: Callable[[Said, frozenset[Subject]], AttributeUid | None]
    """The uid of an answer, for rights that rest on grants to these; None where there is no room for it."""


@dataclass(frozen=True, slots=True)
class MemberGrounds:
    """What a decision depends on beside the certificates that were shown."""

    level: SealingLevel
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    cache: VerificationCache | None = field(default=None, repr=False)
    standing: Tester | None = field(default=None, repr=False)
    """The validity statements received; None for none."""
    chains_max: int = CHAINS_COUNTED
    """Chains of one principal to one version that add up."""
    answers: AnsweredRights | None = field(default=None, repr=False)
    """None where it does not matter who reads answers."""

    @property
    def tester(self) -> Tester:
        """Return who is asked about certificates."""
        return _NOTHING_HEARD if self.standing is None else self.standing


@dataclass(frozen=True, slots=True)
class MembershipState:
    """The groups that are open to a principal, whether it may write, and for which period."""

    groups: frozenset[GroupId]
    may_write: bool
    since: Instant
    until: Instant
    is_cut: bool = False
    """Whether a limit kept some of the certificates from being counted."""
    needs: frozenset[Said] = field(default=frozenset(), repr=False)
    """What the principal's rights make of attributes that it may not read."""
    granted_to: frozenset[Subject] = frozenset()
    """To whom the type's owner gave that, who may have passed it on; asked where there are needs."""

    @property
    def is_open(self) -> bool:
        """Return whether there are keys for the principal, of groups or of what is made for its rights."""
        return bool(self.groups or self.needs)

    def is_within(self, other: MembershipState) -> bool:
        """Return whether it gives no more than another one."""
        return self.groups <= other.groups and self.may_write <= other.may_write


NOTHING_HELD: Final = MembershipState(
    frozenset(), may_write=False, since=Instant(INSTANT_MIN), until=Instant(INSTANT_MAX)
)


def requests_for(claim: Claim) -> list[Request]:
    """Return what the kernel is asked about a claim."""
    return [
        Request(claim.principal, action, version.name, version)
        for version in claim.versions
        for action in _ACTIONS
    ]


def standing(claim: Claim, grounds: MemberGrounds, at: Instant) -> MembershipState:
    """Return what the certificates of a claim open at a moment."""
    groups: set[GroupId] = set()
    restricted: list[tuple[View, VerifiedType]] = []
    may_write = is_cut = False
    period = steady_period((signed.certificate.validity for signed in claim.pool), at)
    for version in claim.versions:
        for action in _ACTIONS:
            shown, stable, limit, view = _opened(claim, version, action, grounds, at)
            groups |= shown
            restricted += () if view is None else ((view, version),)
            is_cut |= limit is not None
            may_write |= bool(shown) and action is Action.PUBLISH
            period = period.intersection(stable)
    needs = _needs(claim, restricted, groups, grounds.level)
    granted_to = _granted_to(claim, grounds, at) if needs else frozenset[Subject]()
    if grounds.answers is not None and (groups or needs):
        held = frozenset(group.uid for group in groups)
        groups |= _answers(claim.versions[0].type_id, grounds.answers, held, needs, granted_to)
    since, until = period.not_before, period.not_after
    return MembershipState(
        frozenset(groups),
        may_write,
        since=Instant(INSTANT_MIN) if since is None else since,
        until=Instant(INSTANT_MAX) if until is None else until,
        is_cut=is_cut,
        needs=needs,
        granted_to=granted_to,
    )


def _granted_to(claim: Claim, grounds: MemberGrounds, at: Instant) -> frozenset[Subject]:
    """Return whom the owner granted what a claim reads by, whatever else its principal shows."""
    found: set[Subject] = set()
    for version in claim.versions:
        request = Request(claim.principal, Action.SUBSCRIBE, version.name, version)
        for chain in evidence_for(request, claim, grounds, at).chains:
            links = (signed.certificate for signed in chain.certificates)
            found.update(
                one.subject
                for one in links
                if isinstance(one, AuthorisationCertificate) and one.issuer == version.name.owner
            )
    return frozenset(found)


def _needs(
    claim: Claim, restricted: list[tuple[View, VerifiedType]], groups: set[GroupId], level: SealingLevel
) -> frozenset[Said]:
    """Return what has to be answered for a principal to which these groups are open."""
    found: set[Said] = set()
    readable = frozenset(group.uid for group in groups if group.uid is not None)
    known = {uid: kind for version in claim.versions for uid, kind in version.kinds.items()}
    for view, version in restricted:
        for window in view.windows:
            if level is SealingLevel.ATTRIBUTE:
                found.update(needed_answers(window, readable, version.kinds, view.recipient))
            elif not groups:
                found.update(needed_part(window, known, view.recipient))
    return frozenset(found)


def _answers(
    type_id: bytes,
    answers: AnsweredRights,
    held: frozenset[AttributeUid | None],
    needs: frozenset[Said],
    granted_to: frozenset[Subject],
) -> set[GroupId]:
    """Return the groups of answers: those made of what is held, and those for the principal's rights."""
    own = {uid for one in needs if (uid := answers.uid_of(one, granted_to)) is not None}
    known = {uid for uid, said in answers.known.items() if may_read(said, held)}
    return {GroupId(type_id, uid) for uid in own | known}


def tested_now(claim: Claim, grounds: MemberGrounds, now: Instant) -> tuple[Claim, MemberGrounds]:
    """Return what is left of a claim at the present moment, and grounds on which to judge its past.

    Whether a certificate is revoked, or stale, is a question about the
    present. A moment that is over is not judged again: what passes its tests
    now counts for the past too, and what does not counts for nothing.
    """
    check, once = grounds.tester.check, claim.once(now)
    pool = tuple(signed for signed in claim.pool if check(signed, now, once=once) is None)
    return replace(claim, pool=pool), replace(grounds, standing=ASSUMED_GOOD)


def standing_now(
    claim: Claim, grounds: MemberGrounds, now: Instant, held: MembershipState = NOTHING_HELD
) -> MembershipState:
    """Return what a claim opens at the present moment to a member that holds this already.

    One-time answers were given for one authorisation. Until the next ones, what depends on them is never
    more than it was, whatever else begins to count meanwhile, and ends with them.
    """
    good, tested = tested_now(claim, grounds, now)
    found = standing(good, tested, now)
    vouched = claim.vouched
    if vouched is None or not any(one_time_tests(signed) for signed in good.pool):
        return found
    found = replace(found, until=min(found.until, vouched.until))
    if vouched.since == now or found.is_within(held):
        return found
    without = standing_now(replace(claim, vouched=None), grounds, now)
    groups = found.groups & (held.groups | without.groups)
    return replace(found, groups=groups, may_write=found.may_write and (held.may_write or without.may_write))


def awaits_statement(claim: Claim, grounds: MemberGrounds, now: Instant) -> bool:
    """Return whether a certificate of a claim lacks a validity statement that may come at any moment."""
    check = grounds.tester.check
    return any(isinstance(check(one, now, once=one_time_tests(one)), CertificateStale) for one in claim.pool)


def writing_certificates(claim: Claim, grounds: MemberGrounds, at: Instant) -> tuple[SignedCertificate, ...]:
    """Return the certificates of a claim that let its principal publish, and no others."""
    found: dict[bytes, SignedCertificate] = {}
    for version in claim.versions:
        evidence = evidence_for(
            Request(claim.principal, Action.PUBLISH, version.name, version), claim, grounds, at
        )
        found |= {signed.id: signed for chain in evidence.chains for signed in chain.certificates}
    return tuple(found.values())


class RightHistory:
    """What a claim opens now, and has opened before; each steady period is decided once, on demand."""

    __slots__ = ("_claim", "_found", "_grounds", "_trusted_since", "at", "now")

    def __init__(
        self,
        claim: Claim,
        grounds: MemberGrounds,
        now: Instant,
        held: MembershipState | None = NOTHING_HELD,
        *,
        trusted_since: Instant | None = None,
    ) -> None:
        """Begin with what is open at `now` to a member that holds this already; None reads the past alone.

        `trusted_since` is when an evicted principal was admitted again; nothing from before is for it.
        """
        self._claim, self._grounds = tested_now(claim, grounds, now)
        self._trusted_since, self.at = trusted_since, now
        if held is None:
            self.now = standing(self._claim, self._grounds, now)
        else:
            self.now = standing_now(claim, grounds, now, held)
        self._found = [self.now]

    def held_since(self, group: GroupId, moment: Instant) -> bool:
        """Return whether a group was open at every moment from `moment` on."""
        return group in self.throughout(moment, self.at)

    def throughout(self, since: Instant, last: Instant) -> frozenset[GroupId]:
        """Return the groups that were open at every moment between these two."""
        if self._trusted_since is not None and since < self._trusted_since:
            return frozenset()
        moment: int = since
        groups: frozenset[GroupId] | None = None
        while moment <= last:
            period = self._period(Instant(moment))
            if period is None:
                return frozenset()  # too many: an extra refresh does no harm
            groups = period.groups if groups is None else groups & period.groups
            if not groups:
                break
            moment = period.until + 1
        return groups or frozenset()

    def _period(self, moment: Instant) -> MembershipState | None:
        """Return what was open at a moment; None once too many periods were checked."""
        place = bisect_right(self._found, moment, key=lambda one: one.since)
        if place and self._found[place - 1].until >= moment:
            return self._found[place - 1]
        if len(self._found) >= PERIODS_MAX:
            return None
        self._found.insert(place, standing(self._claim, self._grounds, moment))
        return self._found[place]


def _opened(
    claim: Claim, version: VerifiedType, action: Action, grounds: MemberGrounds, at: Instant
) -> tuple[set[GroupId], Validity, Reason | None, View | None]:
    """Return the groups that an action opens, for how long, what a limit left out, and what is answered."""
    request = Request(claim.principal, action, version.name, version)
    decision = decide(request, evidence_for(request, claim, grounds, at), NO_FACTS, at)
    if not isinstance(decision, Permit) or not decision.view.windows:
        return set(), decision.stable, None, None
    windows, is_by_attribute = decision.view.windows, grounds.level is SealingLevel.ATTRIBUTE
    is_read = action is Action.SUBSCRIBE
    if all(one.transformations and not (is_by_attribute and is_answerable(one)) for one in windows):
        # The type's own key opens whole events, or there is nothing that this principal could open. What is
        # made for it of whole events has its own key; that of a blinded type would have to be hidden, too.
        sealing = version.sealing
        is_made = not is_by_attribute and is_read and sealing is not None and not sealing.blinded
        return set(), decision.stable, None, decision.view if is_made else None
    groups = {GroupId(version.type_id)}
    if is_by_attribute:
        # A holder of transformed values has no business with the keys of those that they are made of.
        kept = (uid for uid in version.kinds if any(keeps(window, uid) for window in windows))
        groups |= {GroupId(version.type_id, uid) for uid in kept}
    is_answered = is_by_attribute and is_read
    return groups, decision.stable, decision.limit, decision.view if is_answered else None


def evidence_for(request: Request, claim: Claim, grounds: MemberGrounds, at: Instant) -> Evidence:
    """Return the chains in a claim for a request, with the answers that serve at the moment."""
    try:
        return gather_evidence(
            request,
            claim.pool,
            at=at,
            bounds=grounds.bounds,
            cache=grounds.cache,
            constitutions=grounds.constitutions,
            standing=grounds.standing,
            once=claim.once(at),
            chains_max=grounds.chains_max,
            budget=Budget.of(_WORK_MAX),
        )
    except TooMuchToSearch:
        return NO_EVIDENCE  # what exceeds the budget of one answer opens nothing


_PRESENT: Final = b"join"
_PAST: Final = b"history"


def keys_digest(
    *, member: Principal, manager: Principal, type_id: bytes, session: bytes, is_past: bool
) -> bytes:
    """Return 32 bytes that name a request for keys; `session` is the key that they would be sealed to."""
    what = _PAST if is_past else _PRESENT
    asked = (b"maia/1/keys-digest", what, member.key, manager.key, type_id, session)
    return sha256(write_canonical(asked)).digest()


def demanded(
    claim: Claim, grounds: MemberGrounds, now: Instant, *, most: int, held: MembershipState | None = None
) -> frozenset[Once]:
    """Return which testers must confirm what so that a claim opens more than is `held`, or than without.

    None, if that would not do: what leads to no key is not asked about (A30). Of many chains, so many
    are asked about as one request may.
    """
    every = _would_do(claim, grounds, now)
    if not every:
        return NO_ANSWERS
    hoped = _answered(claim, every, now)
    found = (evidence_for(request, hoped, grounds, now) for request in requests_for(claim))
    wanted = questions_for((chain for evidence in found for chain in evidence.chains), most)
    opened = standing_now(_answered(claim, wanted, now), grounds, now)
    beyond = standing_now(replace(claim, vouched=None), grounds, now) if held is None else held
    return NO_ANSWERS if opened.is_within(beyond) else wanted


def _would_do(claim: Claim, grounds: MemberGrounds, now: Instant) -> frozenset[Once]:
    """Return whose word is all that some certificates lack."""
    check = grounds.tester.check
    tested = [(signed, tests) for signed in claim.pool if (tests := one_time_tests(signed))]
    return frozenset(
        one for signed, tests in tested if check(signed, now, once=tests) is None for one in tests
    )


def _answered(claim: Claim, once: frozenset[Once], now: Instant) -> Claim:
    return replace(claim, vouched=VouchedFor(once, now, now, now) if once else None)
