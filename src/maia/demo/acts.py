"""What happens on the live network, act by act, and what is found?

An act is a function of the stage: it publishes, kills or asks, and notes what
it found. The stage knows, from the kernel alone (`numberplate.py`), what each
office should have received by then; nothing is taken on trust. To tell more,
write one more act and put it where it belongs in `LIVE_ACTS`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from maia.clock import system_now
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AuthorisationCertificate,
    Principal,
    SignedCertificate,
    issue,
    verify_chain,
)
from maia.demo.carriage import FrameId
from maia.demo.live_network import LiveBroker, LiveNetwork
from maia.demo.met_domain import DETECTIVE, DetectivesRight, MetDesk, with_certificates
from maia.demo.numberplate import (
    CAMERA,
    CONTROL_ROOM,
    LOCATION,
    OFFICES,
    SUSPECT,
    NumberplateStory,
    Performance,
    Received,
    Sighting,
    ask,
    city_traffic,
    close_up,
    play,
)
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.policy import Audience, Denial, GrantRevoked
from maia.predicates import Comparison, Operator
from maia.validity import ASSUMED_GOOD, Monitor

# What happens to those who try for more than they were given?


_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who tried what, and the answer: a code and a sentence, or None if nothing stopped it."""

    title: str
    code: str | None
    sentence: str

    @property
    def was_refused(self) -> bool:
        """Say whether the attempt failed, as it must."""
        return self.code is not None


def attempts(story: NumberplateStory, *, now: Instant) -> Iterator[Attempt]:
    """Try a forged, a widened, an expired and a probing request, one after the other."""
    yield _attempt(
        "a forged certificate: the billing office signs in CCS's name", lambda: _forged(story, now)
    )
    yield _attempt(
        "a widened certificate: the billing office grants itself the location", lambda: _widened(story, now)
    )
    yield _attempt(
        "an expired certificate: the detective, a minute after her court order ends", lambda: _expired(story)
    )
    yield _attempt(
        "a probing filter: the billing office filters on the location", lambda: _probing(story, now)
    )


def _attempt(title: str, run: Callable[[], Denial | None]) -> Attempt:
    try:
        denial = run()
    except MaiaError as problem:
        return Attempt(title, problem.code, problem.message)
    if denial is None:
        return Attempt(title, None, "nothing stopped it")
    return Attempt(title, denial.code, "; ".join(denial.explanation.lines(Audience.REQUESTER)))


def _forged(story: NumberplateStory, now: Instant) -> Denial | None:
    """Keep CCS as the issuer, ask for everything, and sign with the only key at hand."""
    by_ccs, own = _chain_of(story, "billing office")
    wanted = replace(
        _authorisation(own), authority=replace(_authorisation(own).authority, attributes=ALL_ATTRIBUTES)
    )
    signed_by_billing = issue(
        replace(wanted, issuer=story.principal("billing office")), story.keys["billing office"]
    )
    signed_by_ccs = issue(wanted, story.keys["CCS"])
    # The body says CCS; the signature is the billing office's.
    forged = replace(signed_by_ccs, signature=signed_by_billing.signature)
    verify_chain(
        (by_ccs, forged), root=story.principal("PITO"), subject=story.principal("billing office"), at=now
    )
    return None


def _widened(story: NumberplateStory, now: Instant) -> Denial | None:
    """Issue oneself a certificate for what one was not given, and append it to the chain."""
    by_ccs, signed = _chain_of(story, "billing office")
    own, billing = _authorisation(signed), story.principal("billing office")
    everything = replace(own.authority, attributes=ALL_ATTRIBUTES)
    wider = issue(replace(own, issuer=billing, authority=everything), story.keys["billing office"])
    verify_chain((by_ccs, signed, wider), root=story.principal("PITO"), subject=billing, at=now)
    return None


def _expired(story: NumberplateStory) -> Denial | None:
    end = _authorisation(_chain_of(story, "Detective Smith")[1]).validity.not_after
    assert end is not None  # noqa: S101 - every certificate of the story ends
    late = Instant(end + _MINUTE)
    return _denial(ask(story, "Detective Smith", Action.SUBSCRIBE, now=late, standing=ASSUMED_GOOD))


def _probing(story: NumberplateStory, now: Instant) -> Denial | None:
    about_location = Comparison(LOCATION, Operator.EQ, "Victoria")
    return _denial(ask(story, "billing office", Action.SUBSCRIBE, now=now, filter=about_location))


def _denial(decision: object) -> Denial | None:
    return decision if isinstance(decision, Denial) else None


def _chain_of(story: NumberplateStory, who: str) -> tuple[SignedCertificate, SignedCertificate]:
    """Return the two certificates that let `who` subscribe: the domain's, then its own."""
    own = next(
        one
        for one in story.certificates
        if _lets_subscribe(one) and one.certificate.subject == story.principal(who)
    )
    issuer = own.certificate.issuer
    domain = next(
        one for one in story.certificates if _lets_subscribe(one) and one.certificate.subject == issuer
    )
    return domain, own


def _lets_subscribe(signed: SignedCertificate) -> bool:
    certificate = signed.certificate
    return (
        isinstance(certificate, AuthorisationCertificate)
        and Action.SUBSCRIBE in certificate.authority.actions
    )


def _authorisation(signed: SignedCertificate) -> AuthorisationCertificate:
    assert isinstance(signed.certificate, AuthorisationCertificate)  # noqa: S101 - chosen by _lets_subscribe
    return signed.certificate


# What came of the revocation in the middle of the demonstration?


_BILLING, _STATISTICS, _DETECTIVE = OFFICES


class NotRevoked(Unavailable):
    """A court order was revoked, and the network did not act on it in time."""

    code = "UNAVAILABLE-NOT-REVOKED"


@dataclass(frozen=True, slots=True)
class Revocation:
    """A revocation, how long it took, and what was delivered to whom afterwards."""

    delay_ms: float
    """From the call until the detective was notified."""
    answered_ms: float
    """From the call until it returned: the network knew by then."""
    code: str
    sentence: str
    received_before: Mapping[str, int]
    published_before: int
    delivered_after: int = 0
    """Sightings that reached the detective after she was notified."""
    suspect_seen_after: int = 0
    """How often the cameras saw the suspect's car after that."""
    billing_after: int = 0
    statistics_after: int = 0
    still_subscribed: int = 0
    """Subscriptions of the detective at her broker."""

    def and_then(
        self, *, received: Mapping[str, int], suspect_seen: int, still_subscribed: int
    ) -> Revocation:
        """Return it with what came after, counted from what every office has received by now."""
        after = {office: received[office] - self.received_before[office] for office in OFFICES}
        return replace(
            self,
            delivered_after=after[_DETECTIVE],
            suspect_seen_after=suspect_seen,
            billing_after=after[_BILLING],
            statistics_after=after[_STATISTICS],
            still_subscribed=still_subscribed,
        )

    def record(self) -> dict[str, object]:
        """Return it for programs."""
        names = (
            "delay_ms", "answered_ms", "code", "delivered_after", "suspect_seen_after",
            "billing_after", "statistics_after", "still_subscribed",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def broken_claims(self) -> Iterator[str]:
        """Say what a right that was taken away still gave, or whom it should not have touched."""
        if self.code != GrantRevoked.code:
            yield f"the detective's subscription ended for another reason: {self.code}"
        if self.delivered_after:
            yield f"{self.delivered_after} sightings reached the detective after her right was revoked"
        if self.still_subscribed:
            yield f"the detective still has {self.still_subscribed} subscriptions at her broker"
        if not self.suspect_seen_after:
            yield "the suspect's car was not seen again, so the silence proves nothing"
        for office, after in (("billing", self.billing_after), ("statistics", self.statistics_after)):
            if not after:
                yield f"the {office} office receives nothing since the court order was revoked"


def subscriptions_at(broker: Path, principal: Principal) -> int:
    """Ask a broker how many subscriptions of somebody stand there."""
    from maia.net.status_endpoint import fetch_status, read_door

    links = fetch_status(read_door(broker / "data")).get("links")
    return sum(
        int(link["subscriptions"])
        for link in (links if isinstance(links, list) else [])
        if link.get("peer") == str(principal)
    )


_BEFORE_THE_CRASH: Final = slice(0, 3)
_BEFORE_THE_REVOCATION: Final = slice(3, 5)
_AFTER_THE_REVOCATION: Final = slice(5, None)
"""Which of the sightings at Victoria come when."""
_NOTHING: Final = Performance((), (), tuple(Received(office, ()) for office in OFFICES))


@dataclass(slots=True)
class Stage:
    """What an act works with, and what the acts before it have left."""

    network: LiveNetwork
    brokers: Mapping[str, LiveBroker]
    story: NumberplateStory
    """Whose certificates count at this moment; an act that changes them puts another story here."""
    now: Instant
    say: Callable[[str], None]
    say_more: Callable[[str], None]
    """Called with what only those read who want the details."""
    traffic: int
    """How many sightings of the other cameras there are."""
    seed: int
    expected: Performance = _NOTHING
    close_up: Performance = _NOTHING
    refused: list[Attempt] = field(default_factory=list)
    killed: str = ""
    ready_s: float = 0.0
    repaired_s: float = 0.0
    standing: Monitor = field(default_factory=Monitor)
    """The validity statements that the kernel has received, from the Met alone."""
    desk: MetDesk | None = None
    right: DetectivesRight | None = None
    revocation: Revocation | None = None

    async def publish(self, sightings: Sequence[Sighting], *, by: str) -> Performance:
        """Publish, and wait until every office has what the kernel says that it should have by now."""
        expected = play(self.story, sightings, now=self.now, by=by, standing=self.standing)
        self.expected = self.expected.and_then(expected)
        await self.network.publish(sightings, by=by)
        await self.network.receive({one.office: len(one.events) for one in self.expected.received})
        return expected


Act = Callable[[Stage], Awaitable[None]]


async def every_office_is_reached(stage: Stage) -> None:
    """Wait until events reach all offices for the first time."""
    stage.ready_s = await stage.network.settle()
    stage.say_more(f"both offices receive, {stage.ready_s:.2f} s after the camera's first event")


async def the_detective_logs_in(stage: Stage) -> None:
    """Let the detective get her right from the Met's policy, and subscribe with it."""
    domain = stage.network.nodes.domain
    assert domain is not None  # noqa: S101 - the demonstration's cast has one
    address = await asyncio.to_thread(domain.interface)
    stage.desk = MetDesk(stage.story, address)
    stage.right = right = await asyncio.to_thread(stage.desk.log_in, system_now())
    stage.story, stage.now = with_certificates(stage.story, right.certificates), system_now()
    for statement in right.statements:
        stage.standing.receive(statement, stage.now)
    stage.say(f"with a court order, {DETECTIVE} becomes {right.role}")
    await stage.network.join(DETECTIVE, credentials=right.certificates, statements=right.statements)
    await stage.network.settle()


async def cars_pass_victoria(stage: Stage) -> None:
    """Publish the first sightings at Victoria, one by one."""
    await _pass_victoria(stage, _BEFORE_THE_CRASH)


async def the_city_is_busy(stage: Stage) -> None:
    """Publish half of what the other cameras see."""
    await _publish_traffic(stage, slice(0, stage.traffic // 2))


async def an_office_asks_for_too_much(stage: Stage) -> None:
    """Let the billing office ask its broker for a filter on what it may not read."""
    title = "over the network: the billing office asks CCS's broker to filter on the location"
    billing = stage.network.clients["billing office"]
    try:
        await billing.subscribe(stage.network.story.definition, 'location == "Victoria"')
    except MaiaError as problem:
        stage.refused.append(Attempt(title, problem.code, problem.message))
    else:
        stage.refused.append(Attempt(title, None, "nothing stopped it"))


async def a_broker_dies(stage: Stage) -> None:
    """Kill the broker that a reader is connected to, and wait until events reach every office again."""
    stage.killed = "PITO broker"
    stage.brokers[stage.killed].kill()
    stage.say_more("PITO's broker is killed; the statistics office was connected to it")
    stage.repaired_s = await stage.network.settle()
    stage.say(f"PITO's broker was killed; all offices receive again after {stage.repaired_s:.2f} s")


async def more_cars_pass_victoria(stage: Stage) -> None:
    """Publish the other sightings at Victoria, without any new subscription."""
    await _pass_victoria(stage, _BEFORE_THE_REVOCATION)


async def the_court_order_is_revoked(stage: Stage) -> None:
    """Have the court take its order back, and measure when the detective's subscription ends."""
    desk, right, network = stage.desk, stage.right, stage.network
    assert desk is not None  # noqa: S101 - the detective has logged in
    assert right is not None  # noqa: S101 - the detective has logged in
    begun = time.monotonic()
    statement = await asyncio.to_thread(desk.take_back, right.order, "appeal allowed")
    answered = time.monotonic()
    ending = await network.until_ended(DETECTIVE)
    if statement is None or ending is None:
        raise NotRevoked("the court order was revoked, and the detective's subscription goes on")
    stage.now = system_now()
    stage.standing.receive(statement, stage.now)
    stage.right = replace(right, statements=(*right.statements, statement))
    stage.revocation = Revocation(
        delay_ms=round((ending.at - begun) * 1000, 1),
        answered_ms=round((answered - begun) * 1000, 1),
        code=ending.problem.code,
        sentence=ending.problem.message,
        received_before={office: len(network.inboxes[office]) for office in OFFICES},
        published_before=len(stage.expected.sent),
    )
    stage.say(
        f"court order revoked; her stream ends {stage.revocation.delay_ms:.0f} ms later: "
        f"{stage.revocation.code}"
    )
    await _asks_again(stage)


async def the_city_is_busy_again(stage: Stage) -> None:
    """Publish what all cameras see now; the suspect's car is among it."""
    await _pass_victoria(stage, _AFTER_THE_REVOCATION)
    await _publish_traffic(stage, slice(stage.traffic // 2, None))
    if stage.revocation is not None:
        stage.revocation = stage.revocation.and_then(
            received={office: len(stage.network.inboxes[office]) for office in OFFICES},
            suspect_seen=sum(
                event["numberplate"] == SUSPECT
                for event in stage.expected.sent[stage.revocation.published_before :]
            ),
            still_subscribed=await asyncio.to_thread(
                subscriptions_at, stage.brokers["Met broker"].folder, stage.story.principal(DETECTIVE)
            ),
        )


LIVE_ACTS: Final[tuple[Act, ...]] = (
    every_office_is_reached,
    the_detective_logs_in,
    cars_pass_victoria,
    the_city_is_busy,
    an_office_asks_for_too_much,
    a_broker_dies,
    more_cars_pass_victoria,
    the_court_order_is_revoked,
    the_city_is_busy_again,
)


async def _asks_again(stage: Stage) -> None:
    """Let the detective ask once more, with the certificates that she still has."""
    title = "over the network: the detective subscribes again after the revocation"
    try:
        await stage.network.clients[DETECTIVE].subscribe(stage.network.story.definition)
    except MaiaError as problem:
        stage.refused.append(Attempt(title, problem.code, problem.message))
    else:
        stage.refused.append(Attempt(title, None, "nothing stopped it"))


async def _pass_victoria(stage: Stage, part: slice) -> None:
    stage.close_up = stage.close_up.and_then(await stage.publish(close_up()[part], by=CAMERA))


async def _publish_traffic(stage: Stage, part: slice) -> None:
    some, inboxes = city_traffic(stage.traffic, seed=stage.seed)[part], stage.network.inboxes
    before = {office: len(inboxes[office]) for office in OFFICES}
    await stage.publish(some, by=CONTROL_ROOM)
    stage.say_more(f"the other cameras see {len(some):,} cars; delivered of these:")
    for office in OFFICES:
        stage.say_more(f"{office:<18} {len(inboxes[office]) - before[office]:,}")


@dataclass(frozen=True, slots=True)
class LivePlay:
    """What was received over the network, beside what the kernel says."""

    received: tuple[Received, ...]
    expected: Performance
    close_up: Performance
    """Those of the expected sightings that are shown one by one."""
    tried: frozenset[Instant]
    """The moments of trial sightings."""
    killed: str
    ready_s: float
    """From the first trial until events reached every office."""
    repaired_s: float
    """From the death of a broker until events reached every office again."""
    first_event_at: float | None
    refused: tuple[Attempt, ...]
    frames: Mapping[str, FrameId]
    """In which frame each sighting reached the billing office, by its moment."""
    revocation: Revocation | None = None
    right: DetectivesRight | None = None
    ended: Mapping[str, str] = field(default_factory=dict)
    """The offices whose subscription has ended, with the code."""

    def of(self, office: str) -> Received:
        """Return what one office received."""
        return next(one for one in self.received if one.office == office)

    def seen_close_up(self) -> tuple[Received, ...]:
        """Return what each office received of the sightings that are shown one by one."""
        moments = {event["timestamp"] for event in self.close_up.sent}
        return tuple(
            Received(one.office, tuple(event for event in one.events if event["timestamp"] in moments))
            for one in self.received
        )

    def lost(self) -> list[str]:
        """Return the offices that did not receive the last event they should have seen after the loss."""
        pairs = zip(self.received, self.expected.received, strict=True)
        return [
            live.office
            for live, expected in pairs
            if expected.events and expected.events[-1] not in live.events
        ]

    def differences(self) -> list[str]:
        """Return where the network and the kernel disagree, as sentences."""
        found = [] if self.revocation is None else list(self.revocation.broken_claims())
        for office, code in self.ended.items():
            if self.revocation is None or office != DETECTIVE:
                found.append(f"the subscription of the {office} has ended: {code}")
        for live, expected in zip(self.received, self.expected.received, strict=True):
            if list(live.events) != list(expected.events):
                found.append(
                    f"the {live.office} received {len(live.events)} events over the network "
                    f"that differ from the {len(expected.events)} it should have seen"
                )
        return found


async def play_live(stage: Stage, acts: Sequence[Act] = LIVE_ACTS) -> LivePlay:
    """Play all acts, and return what was received."""
    for act in acts:
        await act(stage)
    network = stage.network
    return LivePlay(
        received=tuple(Received(office, tuple(network.inboxes[office])) for office in OFFICES),
        expected=stage.expected,
        close_up=stage.close_up,
        tried=frozenset(network.tried),
        killed=stage.killed,
        ready_s=stage.ready_s,
        repaired_s=stage.repaired_s,
        first_event_at=network.first_event_at,
        refused=tuple(stage.refused),
        frames=network.frames,
        revocation=stage.revocation,
        right=stage.right,
        ended={office: one.problem.code for office, one in network.ended.items()},
    )
