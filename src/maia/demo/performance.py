"""How does the numberplate story go when it is played?

One process plays every part with the kernel alone: the camera's broker shapes
what the camera wrote, the offices' brokers show what each office may see.
Everything here is decided from certificates; no answer is given in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from maia.credentials import Action, SignedCertificate, Tester
from maia.demo.numberplate import NumberplateStory
from maia.events import Event, Instant, PresentValue, Value
from maia.policy import (
    NO_FACTS,
    Decision,
    Denial,
    GrantRevoked,
    Permit,
    Request,
    View,
    decide,
    gather_evidence,
    see,
    shape,
)
from maia.predicates import ALWAYS, Predicate
from maia.types import VerifiedType, from_transit, to_transit, verify_definition

CAMERA: Final = "camera at Victoria"
OFFICES: Final = ("billing office", "statistics office", "Detective Smith")


@dataclass(frozen=True, slots=True)
class Received:
    """What one office was sent, as its own version of the type names it."""

    office: str
    events: tuple[Mapping[str, Value], ...]

    def values_of(self, name: str) -> frozenset[PresentValue]:
        """Return every value of an attribute that reached the office; none if it never saw one."""
        return frozenset(value for event in self.events if (value := event[name]) is not None)


@dataclass(frozen=True, slots=True)
class Performance:
    """What the camera wrote, what was sent on its behalf, and who received what."""

    written: tuple[Mapping[str, Value], ...]
    sent: tuple[Mapping[str, Value], ...]
    received: tuple[Received, ...]

    def and_then(self, other: Performance) -> Performance:
        """Return this performance and another after it, as one."""
        pairs = zip(self.received, other.received, strict=True)
        received = tuple(Received(one.office, one.events + more.events) for one, more in pairs)
        return Performance(self.written + other.written, self.sent + other.sent, received)


def ask(
    story: NumberplateStory,
    who: str,
    action: Action,
    *,
    now: Instant,
    filter: Predicate = ALWAYS,  # noqa: A002 - the word of the papers
    pool: Iterable[SignedCertificate] | None = None,
    standing: Tester | None = None,
) -> Decision:
    """Let a member of the cast ask for a right to the numberplate type, with the story's certificates.

    `standing` holds the validity statements received so far.
    """
    event_type = verify_definition(story.definition, at=now)
    request = Request(story.principal(who), action, event_type.name, event_type, filter)
    certificates = story.certificates if pool is None else tuple(pool)
    evidence = gather_evidence(request, certificates, at=now, standing=standing)
    return decide(request, evidence, NO_FACTS, now)


def view_of(
    story: NumberplateStory, who: str, action: Action, *, now: Instant, standing: Tester | None = None
) -> View:
    """Return the View of a member of the cast; raise the refusal if there is none."""
    match ask(story, who, action, now=now, standing=standing):
        case Permit() as permit:
            return permit.view
        case Denial() as denial:
            raise denial.as_refusal()


def play(
    story: NumberplateStory,
    sightings: Iterable[Mapping[str, Value]],
    *,
    now: Instant,
    by: str = CAMERA,
    standing: Tester | None = None,
) -> Performance:
    """Publish sightings through a camera and deliver them to the three offices.

    An office whose right is revoked receives nothing; any other refusal is raised.
    """
    event_type = verify_definition(story.definition, at=now)
    publishing = view_of(story, by, Action.PUBLISH, now=now, standing=standing)
    views: dict[str, View] = {}
    for office in OFFICES:
        with suppress(GrantRevoked):
            views[office] = view_of(story, office, Action.SUBSCRIBE, now=now, standing=standing)
    inboxes: dict[str, list[Mapping[str, Value]]] = {office: [] for office in OFFICES}
    written, sent = tuple(sightings), []
    for sighting in written:
        event = shape(publishing, to_transit(sighting, event_type))
        sent.append(from_transit(event, event_type))
        for office, delivered in _deliveries(event, views, event_type):
            inboxes[office].append(delivered)
    received = tuple(Received(office, tuple(events)) for office, events in inboxes.items())
    return Performance(written, tuple(sent), received)


def _deliveries(
    event: Event, views: Mapping[str, View], event_type: VerifiedType
) -> Iterable[tuple[str, Mapping[str, Value]]]:
    for office, view in views.items():
        seen = see(view, event)
        if seen is not None:
            yield office, from_transit(seen, event_type)
