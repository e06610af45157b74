"""What do the cameras see, in the demonstration?

Five sightings are shown one by one: two vehicles pass Victoria twice, one of
them the suspect's. The other cameras of the city see many more, which the
generator of the pipeline makes; CCS's control room publishes them, from
whatever place they are. All of them lie in one week, in and out of charging
hours, so that a bill of them is the same whenever it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    issue,
)
from maia.demo.numberplate import SUSPECT, NumberplateStory, key_of
from maia.events import SECOND, Instant, Value

__all__ = ["CONTROL_ROOM", "Sighting", "add_control_room", "city_traffic", "close_up", "trial_sighting"]

CONTROL_ROOM: Final = "CCS control room"
"""Who publishes what the other cameras see."""

Sighting = Mapping[str, Value]

_AT_VICTORIA: Final = Instant.parse("2026-11-05T13:00:00Z")
_DAYS: Final = 3
_SUSPECT_EVERY: Final = 150


def close_up() -> list[Sighting]:
    """Return the sightings that are shown one by one, as the camera at Victoria writes them."""
    # The second claims another place and the fourth names none: the broker writes what the certificate says.
    seen = [
        ("LB02 KRT", "Victoria"),
        (SUSPECT, "Euston"),
        ("KX51 AAD", "Victoria"),
        ("LB02 KRT", None),
        (SUSPECT, "Victoria"),
    ]
    return [
        {"numberplate": plate, "timestamp": Instant(_AT_VICTORIA + number * SECOND), "location": place}
        for number, (plate, place) in enumerate(seen)
    ]


def city_traffic(rows: int, *, seed: int) -> list[Sighting]:
    """Return what the other cameras see in three days; the suspect drives a lot."""
    from maia.spark.generators import SIGHTINGS

    made = SIGHTINGS.rows(rows=rows, seed=seed, per_day=max(1, rows // _DAYS)).to_pylist()
    return [
        {
            "numberplate": SUSPECT if at % _SUSPECT_EVERY == 0 else one["numberplate"],
            "timestamp": Instant.from_datetime(one["timestamp"]),
            "location": one["location"],
        }
        for at, one in enumerate(made)
    ]


def trial_sighting(number: int) -> Sighting:
    """Return a sighting that every office receives and no bill counts: it is from 1970."""
    return {"numberplate": SUSPECT, "timestamp": Instant(number), "location": "Victoria"}


def add_control_room(story: NumberplateStory, seed: bytes) -> NumberplateStory:
    """Let CCS have a control room, which may publish sightings of any place."""
    key = key_of(CONTROL_ROOM, seed)
    granted = (
        _granted(story, key, story.network_pattern, Action.CONNECT),
        _granted(story, key, story.type_pattern, Action.PUBLISH),
    )
    keys = {**story.keys, CONTROL_ROOM: key}
    return replace(story, keys=keys, certificates=(*story.certificates, *granted))


def _granted(
    story: NumberplateStory, to: SigningKey, resources: ResourcePattern, action: Action
) -> SignedCertificate:
    certificate = AuthorisationCertificate(
        issuer=story.principal("CCS"),
        subject=to.principal,
        may_delegate=False,
        authority=Authority(resources, frozenset({action})),
        validity=story.certificates[0].certificate.validity,
        comment=f"CCS to {CONTROL_ROOM}",
    )
    return issue(certificate, story.keys["CCS"])
