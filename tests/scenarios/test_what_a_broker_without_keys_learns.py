"""What does a broker of a third domain learn of a sealed type that it carries?

Measured, not claimed: everything that reached the broker is checked, and
the table in `docs/limitations/sealed.md` has to name exactly what was found there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maia.predicates import AllOf, Comparison, Operator
from maia.types import SealingLevel, type_id
from maia.wire.messages import Interest, Message, Offer, Sealed, SealedPart, Wanted
from support.numberplate import EVERY_KEY, LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP, sighting, the_three
from support.sealed_messages import is_sealed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "limitations" / "sealed.md"
THE_SUSPECT = Comparison(NUMBERPLATE, Operator.EQ, SUSPECT)
AT_VICTORIA = Comparison(LOCATION, Operator.EQ, "Victoria")
HARMLESS = Comparison(NUMBERPLATE, Operator.EQ, "LC04 ABC")


class Overheard:
    """A day in the life of a broker without keys: three subscriptions, four frames, a new epoch."""

    def __init__(self, level: SealingLevel) -> None:
        self.net, self.ccs, self.middle, self.met = the_three(level)
        camera, office = self.net.client("camera at Victoria"), self.net.client("CCS", "Met broker")
        self.camera, self.office = camera, office
        camera.advertise(ref=1)
        office.subscribe(AllOf((THE_SUSPECT, AT_VICTORIA)), ref=1)
        office.subscribe(THE_SUSPECT, ref=2)
        office.subscribe(AllOf((HARMLESS, AT_VICTORIA)), ref=3)
        for plate in (SUSPECT, "nobody", "LC04 ABC", SUSPECT):
            camera.publish(1, sighting(plate))
        self.first = self.heard()
        self.net.carried.clear()
        for running in (self.ccs, self.met):
            self.net.hold(running, *EVERY_KEY, epochs=(1, 2))
        camera.publish(1, *[sighting(SUSPECT)] * 20)
        self.later = self.heard()

    def heard(self) -> list[Message]:
        return [message for _, to, message in self.net.carried if to == self.middle.name]

    def frames(self, when: list[Message]) -> list[Sealed]:
        return [message for message in when if isinstance(message, Sealed)]

    def wanted(self, when: list[Message]) -> list[Wanted]:
        return [one for message in when if is_sealed(message, Interest) for one in message.add]

    def parts(self, when: list[Message]) -> list[SealedPart]:
        return [part for one in self.wanted(when) for part in one.filter]


# ------------------------------------------------------------ one measurement for each line of the table


def the_id_of_the_type(seen: Overheard) -> bool:
    """A client that knows the owner's key and guesses the name knows which type it is."""
    name = seen.net.cast.type_name
    return {one.type_id for one in seen.frames(seen.first)} == {type_id(name.owner, name.name)}


def the_attributes_of_a_frame(seen: Overheard) -> bool:
    uids = {column.uid for frame in seen.frames(seen.first) for column in frame.columns}
    return uids == {NUMBERPLATE, TIMESTAMP, LOCATION}


def the_attributes_of_a_filter(seen: Overheard) -> bool:
    return {tuple(part.uids) for part in seen.parts(seen.first)} == {(NUMBERPLATE,), (LOCATION,)}


def the_number_of_events(seen: Overheard) -> bool:
    return [frame.rows for frame in seen.frames(seen.later)] == [20]


def the_length_of_what_is_sealed(seen: Overheard) -> bool:
    """To 64 bytes in frames and filters, to 512 in proofs: the last frame had more plates than usual."""
    first, last = (
        {column.uid: len(column.sealed) for column in seen.frames(when)[0].columns}
        for when in (seen.first, seen.later)
    )
    steps = {more - less for less, more in zip(first.values(), last.values(), strict=True)}
    rounded = all((len(part.box) - 28) % 64 == 0 for part in seen.parts(seen.first))
    return rounded and max(steps) > 0 and all(step % 64 == 0 for step in steps)


def the_publisher_and_its_stream(seen: Overheard) -> bool:
    told = {(frame.publisher, frame.stream) for frame in seen.frames(seen.first)}
    return told == {(seen.camera.principal.key, seen.camera.stream)}


def the_broker_of_the_publisher(seen: Overheard) -> bool:
    return {frame.signer for frame in seen.frames(seen.first)} == {seen.ccs.key.principal.key}


def numbers_and_moments(seen: Overheard) -> bool:
    return all(frame.published_at == int(seen.net.now) for frame in seen.frames(seen.first))


def which_frames_were_wanted(seen: Overheard) -> bool:
    """The publisher's broker can read the filters: a frame that matches none of them does not come."""
    return [frame.sequence for frame in seen.frames(seen.first)] == [0, 2, 3]


def equal_parts_of_filters(seen: Overheard) -> bool:
    """Two subscriptions ask for the same plate, and two for one place; in the next epoch marks differ."""
    marks = [part.mark for part in seen.parts(seen.first)]
    later = {part.mark for part in seen.parts(seen.later)}
    return len(set(marks)) < len(marks) and not set(marks) & later


def how_many_interests_and_offers(seen: Overheard) -> bool:
    offers = [message for message in seen.first if is_sealed(message, Offer) and message.stands]
    return len({one.id for one in seen.wanted(seen.first)}) == 3 and bool(offers)


def when_keys_change(seen: Overheard) -> bool:
    interests = {one.proof.epoch for one in seen.wanted(seen.later)}
    epochs = interests | {one.epoch for one in seen.frames(seen.later)}
    return epochs == {2}


MEASURED = {
    "the id of the type": the_id_of_the_type,
    "which attributes a frame has": the_attributes_of_a_frame,
    "which attributes a filter speaks of": the_attributes_of_a_filter,
    "how many events a frame has": the_number_of_events,
    "how long the content is": the_length_of_what_is_sealed,
    "the publisher's key and stream": the_publisher_and_its_stream,
    "the publisher's broker": the_broker_of_the_publisher,
    "numbers and moments": numbers_and_moments,
    "which frames are wanted behind it": which_frames_were_wanted,
    "which parts of filters are equal": equal_parts_of_filters,
    "how many interests and offers there are": how_many_interests_and_offers,
    "when keys change": when_keys_change,
}
NOT_AT_EVENT_LEVEL = {"which attributes a frame has", "which attributes a filter speaks of"}


@pytest.fixture(scope="module")
def by_attribute() -> Overheard:
    return Overheard(SealingLevel.ATTRIBUTE)


@pytest.fixture(scope="module")
def by_event() -> Overheard:
    return Overheard(SealingLevel.EVENT)


@pytest.mark.parametrize("what", MEASURED)
def test_this_is_learned_at_attribute_level(by_attribute, what):
    assert MEASURED[what](by_attribute)


@pytest.mark.parametrize("what", sorted(NOT_AT_EVENT_LEVEL))
def test_this_is_not_learned_at_event_level(by_event, what):
    assert not MEASURED[what](by_event)


def test_the_page_says_exactly_what_was_measured():
    section = PAGE.read_text().partition("## What a broker without keys learns")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) +\| ([^|]+?) +\| ([^|]+?) +\|", section, re.MULTILINE)
    told = {name: (attribute, event) for name, attribute, event in rows if name in MEASURED}
    assert told.keys() == MEASURED.keys()
    assert {name for name, (_, event) in told.items() if event == "no"} == NOT_AT_EVENT_LEVEL
    assert all(attribute != "no" for attribute, _ in told.values())


@pytest.mark.parametrize("level", [SealingLevel.EVENT, SealingLevel.ATTRIBUTE])
def test_values_operands_names_certificates_and_readers_are_not_learned(level):
    seen = Overheard(level)
    heard = repr(seen.first + seen.later).encode() + seen.net.heard_by(seen.middle)
    story = seen.net.cast
    secrets = [SUSPECT.encode(), b"LC04", b"Victoria", story.type_name.name.encode()]
    secrets += [signed.signature for signed in story.certificates[6:]]
    secrets += [seen.office.principal.key, seen.office.stream]
    assert seen.office.events()
    for secret in secrets:
        assert secret not in heard
