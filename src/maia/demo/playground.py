"""What can a newcomer try on the network of the numberplate story, with commands of Maia alone?

After the story, `maia demo --keep` starts the killed broker again, has the court
make a new order, and prints commands that can be copied; the profiles are those of the
organisations' members. Cameras go on publishing until Ctrl-C.
"""

from __future__ import annotations

import itertools
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import maia
from maia.clock import system_now
from maia.demo.numberplate import KIND, ORDER, SUSPECT, city_traffic

if TYPE_CHECKING:
    from maia.demo.stage import Screen, Stage

_EVERY_S: Final = 1.0


def play_until_interrupted(stage: Stage, screen: Screen, command: str) -> None:
    """Put the network in order, print what can be typed, and publish a sighting a second until Ctrl-C."""
    for name, child in list(stage.world.children.items()):
        if child.has_ended:
            stage.world.start(name).ready()
    stage.maia(f"domain appoint {ORDER} -o second.appointment")
    stage.maia("login --as smith --show second.appointment")
    order = stage.maia("domain appointments --as met")["appointments"][-1]["id"]
    folder = shlex.quote(str(stage.world.folder))
    screen.line("\nThe network keeps running, the killed broker again too; Ctrl-C ends it.")
    screen.line(f"A sighting a second is published. In another terminal:\n\ncd {folder}")
    for words, why in commands(order):
        screen.line(f"# {why}\n{words.replace('maia ', f'{command} ')}")
    _publish_traffic()


def commands(order: str) -> tuple[tuple[str, str], ...]:
    """Return what can be typed, and what it shows."""
    return (
        (f"maia subscribe {KIND} --as billing --count 3", "sees plates, never a place"),
        (f"maia subscribe {KIND} --as statistics --count 3", "sees places, never a plate"),
        (f"maia subscribe {KIND} --as smith", "sees one car, until her court order is revoked"),
        (f"maia publish {KIND} --as camera --set 'numberplate={SUSPECT}' --set timestamp=now "
         "--set location=Euston",
         "whatever place the camera names, Victoria is published"),
        (f"maia explain {KIND} --as billing --action subscribe --filter 'location == \"Victoria\"'",
         "why may the billing office not ask for a place?"),
        (f"maia domain revoke {order} --appointment --as met --reason 'appeal allowed'",
         "the stream of smith ends at once"),
        (f"maia domain appoint {ORDER} -o new.appointment && maia login --as smith --show new.appointment",
         "a new court order, with which smith subscribes again"),
        ("maia status --data pito/broker-data", "the links and tables of PITO's broker"),
    )  # fmt: skip


def _publish_traffic() -> None:
    """Publish what the other cameras see, one car a second and the suspect's now and then."""
    elsewhere = [one for one in city_traffic() if one["location"] != "Victoria"]
    with maia.connect(Path("ccs/room.maia"), on_waiting=lambda _: None, on_warning=lambda _: None) as room:
        for number, seen in enumerate(itertools.cycle(elsewhere)):
            plate = SUSPECT if number % 3 == 0 else seen["numberplate"]
            room.publish(KIND, {**seen, "numberplate": plate, "timestamp": system_now()})
            time.sleep(_EVERY_S)
