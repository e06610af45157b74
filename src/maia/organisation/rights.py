"""What does `publish:LabResult` grant, and does it reach from the owner of the type to the participant?

    --may subscribe:LabResult --only ward,value --where 'ward in ("3", "4")'

A right to a type demands a timed list of its issuer, so that a revocation
counts everywhere; a right to connect or to install cannot, because the lists
themselves travel over connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from maia.credentials import (
    ALL_ATTRIBUTES,
    ASSUMED_GOOD,
    Action,
    AttributeSet,
    AuthorisationCertificate,
    Authority,
    NetworkName,
    NetworkPattern,
    OnlineTest,
    Principal,
    SignedCertificate,
    SigningKey,
    TestKind,
    TypePattern,
    Validity,
    issue,
)
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.names import NamePattern
from maia.errors import BadInput, Refusal
from maia.events import SECOND, Instant
from maia.policy import NO_FACTS, Audience, Denial, Permit, Request, View, decide, gather_evidence
from maia.policy.answers import hidden_restriction, is_askable
from maia.policy.view import keeps
from maia.predicates import ALWAYS, Predicate, attributes_of, parse_predicate
from maia.types import SealingLevel, VerifiedType, check_predicate

_ACTIONS: Final = {"publish": Action.PUBLISH, "subscribe": Action.SUBSCRIBE}


class BadRight(BadInput):
    """A right is not `publish:TYPE` or `subscribe:TYPE`, or names what the type does not have."""

    code = "INPUT-RIGHT"


class NotHeld(Refusal):
    """The organisation cannot grant what it does not hold itself, or may not pass on."""

    code = "REFUSED-NOT-HELD"


class RestrictionHidden(BadInput):
    """A right to a sealed type is restricted by an attribute that its issuer may not read itself."""

    code = "INPUT-RESTRICTION-HIDDEN"


@dataclass(frozen=True, slots=True)
class Right:
    """An action on one type, narrowed to some attributes and some events."""

    action: Action
    event_type: VerifiedType
    attributes: AttributeSet = ALL_ATTRIBUTES
    restriction: Predicate = ALWAYS

    @property
    def authority(self) -> Authority:
        """Return what a certificate says of it."""
        name = self.event_type.name
        pattern = TypePattern(name.owner, NamePattern(name.name), None)
        return Authority(pattern, frozenset({self.action}), self.attributes, self.restriction)

    @property
    def whole(self) -> Right:
        """Return the same action on the whole type: what remains of it is what its issuer has itself."""
        return Right(self.action, self.event_type)


def parse_right(text: str) -> tuple[Action, str]:
    """Read `publish:TYPE` or `subscribe:TYPE`."""
    word, colon, name = text.partition(":")
    if not colon or word not in _ACTIONS or not name:
        shown = text[:64].encode("unicode_escape").decode()
        raise BadRight(f"`{shown}` is no right; say `publish:TYPE` or `subscribe:TYPE`")
    return _ACTIONS[word], name


def narrowed(
    action: Action, event_type: VerifiedType, *, only: Sequence[str] = (), where: str | None = None
) -> Right:
    """Return a right to some attributes and events of a type, by the names that the type has."""
    vocabulary = event_type.vocabulary
    for name in only:
        if name not in vocabulary:
            from difflib import get_close_matches

            near = get_close_matches(name[:64], vocabulary, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(vocabulary)}"
            shown = name[:64].encode("unicode_escape").decode()
            raise BadRight(f"`{event_type.name.name}` has no attribute `{shown}`; {hint}")
    attributes = frozenset(vocabulary[name].uid for name in only) if only else ALL_ATTRIBUTES
    restriction = ALWAYS if where is None else parse_predicate(where, vocabulary)
    check_predicate(restriction, event_type)
    return Right(action, event_type, attributes, restriction)


@dataclass(frozen=True, slots=True)
class Signing:
    """The organisation's key, and where its lists are to be had."""

    key: SigningKey
    statements_at: str
    now: Instant

    def right(
        self,
        right: Right,
        subject: Principal,
        *,
        days: int,
        may_delegate: bool = False,
        is_tested: bool = True,
    ) -> SignedCertificate:
        """Grant a right to a type."""
        tests = (OnlineTest(TestKind.TIMED_CRL, self.key.principal, (self.statements_at,)),)
        validity = self._days(days).with_tests(*(tests if is_tested else ()))
        return self._issued(right.authority, subject, validity, may_delegate)

    def network(
        self, network: NetworkName, actions: frozenset[Action], subject: Principal, *, days: int,
        may_delegate: bool = False,
    ) -> SignedCertificate:  # fmt: skip
        """Grant the right to connect to a network, or to install types on it."""
        authority = Authority(NetworkPattern(network.owner, NamePattern(network.name)), actions)
        return self._issued(authority, subject, self._days(days), may_delegate)

    def _issued(
        self, authority: Authority, subject: Principal, validity: Validity, may_delegate: bool
    ) -> SignedCertificate:
        certificate = AuthorisationCertificate(self.key.principal, subject, may_delegate, authority, validity)
        return issue(certificate, self.key)

    def _days(self, days: int) -> Validity:
        start = Instant(self.now - self.now % SECOND)
        return Validity(start, Instant.from_datetime(start.to_datetime() + timedelta(days=days)))


def check_held(
    right: Right, subject: Principal, pool: Sequence[SignedCertificate], *, issuer: str, now: Instant
) -> None:
    """Refuse a right that does not reach from the owner of the type to the subject."""
    request = Request(subject, right.action, right.event_type.name, right.event_type)
    evidence = gather_evidence(request, pool, at=now, standing=ASSUMED_GOOD)
    decision = decide(request, evidence, NO_FACTS, now)
    if isinstance(decision, Denial):
        names = {one.uid: one.name for one in right.event_type.attributes}
        why = "; ".join(decision.explanation.lines(Audience.OWNER, names))
        what = f"{right.action.value}:{right.event_type.name.name}"
        raise NotHeld(f"`{issuer}` cannot grant `{what}`, which it does not hold or may not pass on: {why}")
    if isinstance(decision, Permit):
        _check_answered(right, decision.view, evidence.chains, issuer=issuer)


def _check_answered(right: Right, view: View, chains: Sequence[VerifiedChain], *, issuer: str) -> None:
    """Refuse to restrict a right to a sealed type by attributes that neither side may read."""
    sealing, kinds = right.event_type.sealing, right.event_type.kinds
    if sealing is None or sealing.level is not SealingLevel.ATTRIBUTE or right.action is not Action.SUBSCRIBE:
        return
    readable = {uid for uid in kinds if any(keeps(window, uid) for window in view.windows)}
    if any(hidden_restriction(one, readable) for one in view.windows) and not all(map(is_askable, chains)):
        names = {one.uid: one.name for one in right.event_type.attributes}
        asked = ", ".join(f"`{names.get(uid, uid)}`" for uid in sorted(attributes_of(right.restriction)))
        raise RestrictionHidden(
            f"`{issuer}` may not read all of {asked}, and nothing would ever be delivered: a restriction on "
            "sealed events is answered only for issuers that may read what it asks about; restrict by others"
        )


def reaches_network(
    network: NetworkName, subject: Principal, pool: Sequence[SignedCertificate], *, now: Instant
) -> bool:
    """Say whether certificates let a subject connect to a network."""
    request = Request(subject, Action.CONNECT, network)
    evidence = gather_evidence(request, pool, at=now, standing=ASSUMED_GOOD)
    return not isinstance(decide(request, evidence, NO_FACTS, now), Denial)
