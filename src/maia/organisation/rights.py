"""What does `publish:LabResult` grant, and does it reach from the owner of the type to the participant?

    --may subscribe:LabResult --only ward,value --where 'ward in ("3", "4")'

A right to a type demands a timed list of its issuer, so that a revocation
counts everywhere; a right to connect or to install cannot, because the lists
themselves travel over connections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final, TypedDict

from maia.config.grant_terms import condition_of, on_topics_of, transformed
from maia.config.input_files import read_certificates
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AuthorisationCertificate,
    Authority,
    NetworkName,
    NetworkPattern,
    OnlineTest,
    Principal,
    SignedCertificate,
    SigningKey,
    Subject,
    TestKind,
    Transformation,
    TypePattern,
    Validity,
    VerifiedChain,
    certificate_to_text,
    issue,
)
from maia.credentials.names import NamePattern, type_id
from maia.credentials.x509_names import VerifiedX509Subject
from maia.errors import BadInput, Refusal
from maia.events import SECOND, Instant
from maia.expressions.syntax import Rule, Take
from maia.organisation.draft import write_file
from maia.policy import NO_FACTS, Audience, Denial, PolicyRefusal, Request, decide, gather_evidence
from maia.policy.decision import Reason
from maia.policy.grants import unread_in
from maia.policy.view import is_among
from maia.predicates import ALWAYS, AllOf, Predicate, parse_predicate
from maia.types import SealingLevel, VerifiedType, check_predicate
from maia.types.definition import TOPIC, tree_meant, tree_root
from maia.validity import ASSUMED_GOOD

MEMBER_DAYS: Final = 90
SERVER_DAYS: Final = 365
_ACTIONS: Final = {"publish": Action.PUBLISH, "subscribe": Action.SUBSCRIBE}


class Terms(TypedDict, total=False):
    """How far a right reaches, in the words of `maia grant`; what is left out narrows nothing."""

    only: Sequence[str]
    """Only these attributes; of what is `set`, if anything is."""
    where: str | None
    """Only events that this filter admits."""
    set: Sequence[str]
    """Show, or publish, what this makes of events: `place := first(place, 3)`."""
    shown_as: str | None
    """Show events as this type; it has what is `set`."""
    every: str | None
    """Show what events come to in each period: `5 minutes at least 5`."""
    per: Sequence[str]
    """Group the events of a period by a value: `area := first(place, 3)`."""
    condition: str | None
    """Only while this is true, over facts."""
    during: str | None
    """Only at these times."""
    topic: Sequence[str]
    """Only these topics of a tree of topics."""
    days: int
    """For so many days; 90 without it."""
    until: str | None
    """Until the end of a day, or until a moment, in place of `days`."""


@dataclass(frozen=True, slots=True)
class Right:
    """An action on one type, as far as its terms reach."""

    action: Action
    event_type: VerifiedType
    authority: Authority
    """What a certificate says of it."""
    ends: Instant
    result: VerifiedType | None = None
    """The type as which events are shown, if it is another one."""

    def __str__(self) -> str:
        return f"{self.action.value}:{self.event_type.name.name}"


def read_right(
    text: str, terms: Terms, *, issuer: Principal, find: Callable[[str], VerifiedType], now: Instant
) -> Right:
    """Read `publish:TYPE` or `subscribe:TYPE`, and what narrows it; `find` returns a type by its name.

    `subscribe:/news/uk` is the right to topics: the type is their tree, `/news/uk@hamburg` hamburg's.
    """
    word, colon, name = text.partition(":")
    if not colon or word not in _ACTIONS or not name:
        shown = text[:64].encode("unicode_escape").decode()
        raise BadInput("INPUT-RIGHT", f"`{shown}` is no right; say `publish:TYPE` or `subscribe:TYPE`")
    action, topics = _ACTIONS[word], list(terms.get("topic", ()))
    if name.startswith("/"):
        name, topic = tree_meant(name)
        topics = topics or [topic]
    event_type = find(name)
    authority = _narrowed(_whole(action, event_type), event_type, topics, terms)
    shown_as = terms.get("shown_as")
    result = None if shown_as is None else find(shown_as)
    if terms.get("set") or terms.get("every") or terms.get("per") or result is not None:
        if result is not None and (action is Action.PUBLISH or terms.get("only")):
            raise BadInput(
                "INPUT-RIGHT",
                "`--shown-as` goes with `subscribe:`, and without `--only`: what is `--set` is shown",
            )
        if not terms.get("set"):
            raise BadInput(
                "INPUT-RIGHT", "say with `--set` what is shown: `--set 'place := first(place, 3)'`"
            )
        authority = transformed(
            authority, issuer, reads=event_type.definition, assignments=terms.get("set", ()),
            result=None if result is None else result.definition,
            every=terms.get("every"), per=terms.get("per", ()),
        )  # fmt: skip
    ends = end_of(now, days=terms.get("days", MEMBER_DAYS), until=terms.get("until"))
    return Right(action, event_type, authority, ends, result)


def _whole(action: Action, event_type: VerifiedType) -> Authority:
    name = event_type.name
    return Authority(TypePattern(name.owner, NamePattern(name.name), None), frozenset({action}))


def let_broker(
    folder: Path, broker: Principal, action: Action, types: TypePattern, signing: Signing, *, passes_on: bool
) -> None:
    """Let a broker do what members behind it may: a certificate for the whole type, cut by what we hold.

    It lies in the folder of the broker's certificates, and is renewed in good time.
    """
    meant = types.name.exact
    spoken = b"" if meant is None or types.owner is None else type_id(types.owner, meant)
    label = spoken or sha256(f"{types.owner} {types.name}".encode()).digest()
    file = folder / f"{action.value}-{label.hex()[:24]}.cert"
    signing.keep_fresh(file, Authority(types, frozenset({action})), broker, may_delegate=passes_on)


def _narrowed(authority: Authority, event_type: VerifiedType, topics: list[str], terms: Terms) -> Authority:
    """Return an authority over some attributes and events of a type, by the names that the type has."""
    vocabulary, only = event_type.vocabulary, terms.get("only", ())
    for name in only:
        if name not in vocabulary:
            from difflib import get_close_matches

            near = get_close_matches(name[:64], vocabulary, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(vocabulary)}"
            shown = name[:64].encode("unicode_escape").decode()
            raise BadInput("INPUT-RIGHT", f"`{event_type.name.name}` has no attribute `{shown}`; {hint}")
    attributes = frozenset(vocabulary[name].uid for name in only)
    where = terms.get("where")
    restriction: Predicate = ALWAYS
    if where is not None:
        restriction = parse_predicate(where, vocabulary)
        check_predicate(restriction, event_type)
    if topics:
        tree, granted = on_topics_of(topics, authority.actions)
        if tree != event_type.name.name:
            raise BadInput("INPUT-RIGHT", f"`{topics[0][:64]}` is no topic of `{event_type.name.name}`")
        restriction = granted if restriction == ALWAYS else AllOf((granted, restriction))
        attributes |= {TOPIC.uid} if attributes else set()
    return replace(
        authority,
        attributes=attributes or ALL_ATTRIBUTES,
        restriction=restriction,
        condition=condition_of(terms.get("condition"), terms.get("during")),
    )


def sealed_apart(right: Right, issuer: Principal) -> Right:
    """Return a right for another organisation so that it has no more of a sealed event than it shows (X7).

    Where events are sealed as a whole, a right that only lists attributes, or admits some events, would have
    the key of all. As one that transforms it has a part of its own. Topics are subscribed to by their paths,
    which are in the event, and blinded types have no parts.
    """
    one, sealing = right.authority, right.event_type.sealing
    is_whole = one.attributes is ALL_ATTRIBUTES and one.restriction == ALWAYS
    if is_whole or one.transformations or right.action is not Action.SUBSCRIBE:
        return right
    if sealing is None or sealing.level is not SealingLevel.EVENT or sealing.blinded:
        return right
    if tree_root(right.event_type.name.name) is not None:
        return right
    kept = next(each for each in right.event_type.attributes if is_among(each.uid, one.attributes))
    step = Transformation(issuer, (Rule(kept.uid, Take(kept.uid, kept.kind)),), one.attributes)
    return replace(right, authority=replace(one, attributes=ALL_ATTRIBUTES, transformations=(step,)))


def end_of(now: Instant, *, days: int, until: str | None = None) -> Instant:
    """Return the last moment of a right: so many days from now, a moment, or the end of a day (UTC)."""
    start = Instant(now - now % SECOND)
    if until is None:
        return Instant.from_datetime(start.to_datetime() + timedelta(days=days))
    try:
        day = date.fromisoformat(until)
        end = Instant.from_datetime(datetime.combine(day, time(23, 59, 59), UTC))
    except ValueError:
        end = Instant.parse(until)
    if end <= now:
        raise BadInput("INPUT-RIGHT", f"`{until[:64]}` is over: a right ends in the future")
    return end


@dataclass(frozen=True, slots=True)
class Signing:
    """The organisation's key, and where its lists are to be had."""

    key: SigningKey
    statements_at: str
    now: Instant
    revoked_keys: Collection[Principal] = frozenset()
    """Keys that are given nothing any more (A123)."""

    def right(self, right: Right, subject: Subject, *, may_delegate: bool = False) -> SignedCertificate:
        """Grant a right to a type."""
        return self.issued(right.authority, subject, right.ends, self._listed, may_delegate=may_delegate)

    def name(self, proved: VerifiedX509Subject, ends: Instant) -> SignedCertificate:
        """Say in a certificate which principal has proved an X.509 name."""
        self._refuse_revoked(proved.principal)
        validity = Validity(Instant(self.now - self.now % SECOND), ends).with_tests(self._listed)
        return issue(proved.name_certificate(validity), self.key)

    def _refuse_revoked(self, subject: Subject) -> None:
        if subject in self.revoked_keys:
            raise Refusal(
                "REFUSED-KEY-REVOKED",
                f"the key `{subject}` was revoked here, and is given nothing any more: let its holder make "
                "another one, or say `--same-key`",
            )

    @property
    def _listed(self) -> OnlineTest:
        return OnlineTest(TestKind.TIMED_CRL, self.key.principal, (self.statements_at,))

    @property
    def followed(self) -> OnlineTest:
        """Name our lists for a right without which they could not travel: nobody waits for one."""
        return replace(self._listed, kind=TestKind.FOLLOWED_CRL)

    def issued(
        self,
        authority: Authority,
        subject: Subject,
        ends: Instant,
        *tests: OnlineTest,
        may_delegate: bool = False,
    ) -> SignedCertificate:
        """Grant an authority, such as the right to connect, from now on."""
        self._refuse_revoked(subject)
        validity = Validity(Instant(self.now - self.now % SECOND), ends).with_tests(*tests)
        certificate = AuthorisationCertificate(self.key.principal, subject, may_delegate, authority, validity)
        return issue(certificate, self.key)

    def keep_fresh(
        self, file: Path, authority: Authority, subject: Principal, *tests: OnlineTest, may_delegate: bool
    ) -> None:
        """Keep what a server or a member needs in a file; issue it anew when half of its time is over."""
        ends = end_of(self.now, days=SERVER_DAYS)
        if file.exists():
            held = read_certificates([file])[0].certificate
            last, wanted = held.validity.not_after, (authority, subject, may_delegate, tests)
            is_same = (
                isinstance(held, AuthorisationCertificate)
                and (held.authority, held.subject, held.may_delegate, held.validity.tests) == wanted
            )
            if is_same and last is not None and last - self.now > (ends - self.now) // 2:
                return
        given = self.issued(authority, subject, ends, *tests, may_delegate=may_delegate)
        write_file(file, certificate_to_text(given).encode())


def over_network(network: NetworkName, *actions: Action) -> Authority:
    """Return the right to connect to a network, as a broker or not, or to install types on it."""
    return Authority(NetworkPattern(network.owner, NamePattern(network.name)), frozenset(actions))


def check_held(
    right: Right,
    subject: Principal,
    pool: Sequence[SignedCertificate],
    *,
    issuer: str,
    by: Principal,
    now: Instant,
) -> None:
    """Refuse a right that does not reach from the owner of the type to the subject."""
    request = Request(subject, right.action, right.event_type.name, right.event_type)
    evidence = gather_evidence(request, pool, at=now, standing=ASSUMED_GOOD)
    decision = decide(request, evidence, NO_FACTS, now)
    names = {one.uid: one.name for one in right.event_type.attributes}
    for uid in unread_in(evidence, right.action):
        sentence = (
            f"`{issuer}` cannot restrict a right by `{names.get(uid, uid)}`, which it may not see itself"
        )
        raise PolicyRefusal("POLICY-ATTRIBUTE-NOT-READABLE", (Reason("readable", sentence, attribute=uid),))
    # Whether a condition holds is asked at the moment of use.
    if isinstance(decision, Denial) and decision.code != "POLICY-CONDITION-NOT-MET":
        held = _chains(right, by, pool, now=now)
        if not held:
            wanted = f"`maia grant {issuer}.pub --may {right} --delegable -o {issuer}.grant`"
            raise Refusal(
                "REFUSED-NOT-HELD",
                f"`{issuer}` does not hold `{right}`: ask `{right.event_type.name.owner}` for it ({wanted})",
            )
        if not any(one.may_delegate for one in held):
            givers = dict.fromkeys(f"`{one.certificates[-1].certificate.issuer}`" for one in held)
            raise Refusal(
                "REFUSED-NOT-HELD",
                f"`{issuer}` may not pass `{right}` on: ask {' or '.join(givers)} for a grant with "
                "`--delegable`",
            )
        why = "; ".join(decision.explanation.lines(Audience.OWNER, names))
        raise Refusal("REFUSED-NOT-HELD", f"`{issuer}` cannot grant `{right}` so: {why}")


def _chains(
    right: Right, who: Principal, pool: Sequence[SignedCertificate], *, now: Instant
) -> tuple[VerifiedChain, ...]:
    """Return the chains by which a principal may do the same itself."""
    request = Request(who, right.action, right.event_type.name, right.event_type)
    return tuple(gather_evidence(request, pool, at=now, standing=ASSUMED_GOOD).chains)


def reaches_network(
    network: NetworkName, subject: Principal, pool: Sequence[SignedCertificate], *, now: Instant
) -> bool:
    """Return whether certificates let a subject connect to a network."""
    request = Request(subject, Action.CONNECT, network)
    evidence = gather_evidence(request, pool, at=now, standing=ASSUMED_GOOD)
    return not isinstance(decide(request, evidence, NO_FACTS, now), Denial)
