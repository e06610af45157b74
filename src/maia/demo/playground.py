"""What can a newcomer try on the network of the demonstration, with commands of Maia alone?

After the story, `maia demo --keep` starts the killed broker again, has the court
make a new order, writes a profile for each person, and prints commands that
can be copied. Cameras go on publishing until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import itertools
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.clock import system_now
from maia.credentials import SignedCertificate, certificate_to_text
from maia.demo.live_network import HOMES, connected
from maia.demo.met_domain import CASE, COURT, DETECTIVE, MetDesk
from maia.demo.numberplate import CAMERA, CONTROL_ROOM, SUSPECT, city_traffic
from maia.keystore.key_files import create_key_file
from maia.profile import PROFILE_SUFFIX, write_profile
from maia.types import definition_to_text

if TYPE_CHECKING:
    from maia.demo.live_network import LiveNodes
    from maia.demo.met_domain import DetectivesRight
    from maia.demo.program import Demonstration


PEOPLE: Final = {
    "billing": "billing office",
    "statistics": "statistics office",
    "camera": CAMERA,
    "smith": DETECTIVE,
    "court": COURT,
}
"""The profiles that are written, each with the member of the cast that it is of."""

_EVERY_S: Final = 1.0
_SEEN: Final = 3_000


@dataclass(frozen=True, slots=True)
class Playground:
    """Where the profiles lie, and what can be typed there: a command and what it shows."""

    folder: Path
    commands: tuple[tuple[str, str], ...]


def play_until_interrupted(demo: Demonstration, maia: str) -> None:
    """Put the network in order, print what can be typed, and publish a sighting a second until Ctrl-C."""
    is_path = "/" in maia  # typed from another folder, it would mean another file
    found = prepared(demo, shlex.quote(str(Path(maia).absolute())) if is_path else maia)
    demo.screen.print("\nThe network keeps running, PITO's broker again too; Ctrl-C ends it.")
    demo.screen.print("A sighting a second is published. In another terminal:\n")
    demo.screen.print(f"cd {shlex.quote(str(found.folder))}", soft_wrap=True)
    for command, why in found.commands:
        demo.screen.print(f"[dim]# {why}[/dim]\n{command}", soft_wrap=True)
    asyncio.run(_traffic(demo.nodes, seed=demo.options.seed))


def prepared(demo: Demonstration, maia: str) -> Playground:
    """Start brokers that have ended, get the detective a new court order, and write everybody's profile."""
    from dataclasses import replace

    ended = [one for one in demo.nodes.brokers.values() if one.process.has_ended]
    again = {one.name: demo.starting.restarted(one) for one in ended}
    demo.nodes = nodes = replace(demo.nodes, brokers={**demo.nodes.brokers, **again})
    right = demo.desk.log_in(system_now())
    folder = demo.folder / "people"
    for name, who in PEOPLE.items():
        _write_person(folder / f"{name}{PROFILE_SUFFIX}", who, nodes, demo.desk, right)
    (folder / "smith.pub").write_text(f"{nodes.story.principal(DETECTIVE)}\n", encoding="utf-8")
    kind = "Numberplate"
    order = f"court_order {shlex.quote(CASE)} {shlex.quote(SUSPECT)}"
    return Playground(
        folder,
        (
            (f"{maia} subscribe {kind} --as billing --count 3", "sees plates, never a place"),
            (f"{maia} subscribe {kind} --as statistics --count 3", "sees places, never a plate"),
            (f"{maia} subscribe {kind} --as smith", "sees one car, until her court order is revoked"),
            (
                f"{maia} publish {kind} --as camera --set 'numberplate={SUSPECT}' --set timestamp=now "
                "--set location=Euston",
                "whatever place the camera names, Victoria is published",
            ),
            (
                f"{maia} explain {kind} --as billing --action subscribe --filter 'location == \"Victoria\"'",
                "why may the billing office not ask for a place?",
            ),
            (
                f"{maia} domain revoke {right.order} --appointment --as court --reason 'appeal allowed'",
                "the stream of smith ends at once",
            ),
            (
                f"{maia} domain appoint smith.pub {order} --days 1 --as court -o new.appointment && "
                f"{maia} login --as smith --show new.appointment",
                "a new court order, with which smith subscribes again",
            ),
            (
                f"{maia} status --data {shlex.quote(str(nodes.brokers['PITO broker'].folder / 'data'))}",
                "the links and tables of PITO's broker",
            ),
        ),
    )


def _write_person(folder: Path, who: str, nodes: LiveNodes, desk: MetDesk, right: DetectivesRight) -> None:
    """Write a profile: key, certificates, the type, the brokers, and the Met's server for its own people."""
    from maia.keystore.wallet_folder import WalletFolder

    story, met = nodes.story, nodes.story.principal("Met")
    is_of_met = who in {DETECTIVE, COURT}
    write_profile(
        folder,
        {
            "key": "person.key",
            "credentials": ["certs", *(["wallet"] if who == DETECTIVE else [])],
            "types": ["numberplate.type"],
            "network": story.network.name,
            "coordinator": str(story.network.owner),
            "brokers": [nodes.brokers[home].address for home in HOMES.get(who, ())] or None,
            "server": desk.address if is_of_met else None,
            "domain": str(met) if is_of_met else None,
            "wallet": "wallet" if who == DETECTIVE else None,
        },
    )
    create_key_file(folder / "person.key", story.keys[who])
    (folder / "numberplate.type").write_text(definition_to_text(story.definition), encoding="utf-8")
    _write_certificates(folder / "certs", [desk.courts_right()] if who == COURT else story.certificates)
    if who == DETECTIVE:
        wallet = WalletFolder(folder / "wallet")
        wallet.add([right.appointment])
        wallet.keep(right.wallet, domain=met, address=desk.address, now=system_now())


def _write_certificates(folder: Path, certificates: Iterable[SignedCertificate]) -> None:
    folder.mkdir()
    for number, signed in enumerate(certificates):
        (folder / f"{number}.cert").write_text(certificate_to_text(signed), encoding="utf-8")


async def _traffic(nodes: LiveNodes, *, seed: int) -> None:
    """Publish what the other cameras see, one car a second and the suspect's now and then."""
    elsewhere = [one for one in city_traffic(_SEEN, seed=seed) if one["location"] != "Victoria"]
    async with connected(nodes, lambda *_delivery: None, offices=()) as network:
        for number, seen in enumerate(itertools.cycle(elsewhere)):
            plate = SUSPECT if number % 3 == 0 else seen["numberplate"]
            sighting = {**seen, "numberplate": plate, "timestamp": system_now()}
            await network.publish([sighting], by=CONTROL_ROOM)
            await asyncio.sleep(_EVERY_S)
