"""Two ports and a customs agency share what they know of ships: who sees what of whom, and until when?

The tutorial docs/tutorials/consortium.md as a demonstration, with its commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from maia.demo.world import Happening, Story, StoryReader

if TYPE_CHECKING:
    from maia.demo.stage import Stage

_MOVEMENT, _MANIFEST, _BERTH = "ShipMovement@hamburg", "Manifest", "ShipMovement@rotterdam"
_ROWS: Final = 20
_SETUP: Final = """\
org new hamburg
org new rotterdam
org new customs
type define ShipMovement ship:string quay:string draught:float --org hamburg
type define Manifest ship:string cargo:string value:int --sealed --org hamburg
type define ShipMovement ship:string berth:int --org rotterdam
member add tower --org hamburg --may publish:ShipMovement --may publish:Manifest
grant rotterdam/rotterdam.pub --org hamburg --may subscribe:ShipMovement \\
    --set 'draught := round_to(draught, 5.0)' --delegable -o rotterdam.grant
network join rotterdam.grant --org rotterdam
grant customs/customs.pub --org hamburg --delegable -o hamburg-customs.grant \\
    --may subscribe:ShipMovement --may subscribe:Manifest
grant customs/customs.pub --org rotterdam --may subscribe:ShipMovement@rotterdam --delegable \\
    -o rotterdam-customs.grant
network join hamburg-customs.grant --org customs
network join rotterdam-customs.grant --org customs
member add pilot --org rotterdam --may publish:ShipMovement@rotterdam --may subscribe:ShipMovement@hamburg
member add desk --org customs --may subscribe:ShipMovement@rotterdam
member add desk --org customs --may subscribe:Manifest --only ship
member add inspector --org customs
"""
_POLICY: Final = """\
policy "Customs"
fact on_duty(who: principal)
role inspector
rule inspector
    while on_duty(holder)
    for 1 day
grant inspector
    may subscribe to Manifest(ship, cargo)
end
"""
_DUTY: Final = "on_duty customs/inspector.maia/inspector.pub --as customs"


def _events(ship: str, rows: int = _ROWS) -> list[tuple[str, str, list[Happening]]]:
    return [
        ("tower", _MOVEMENT, [{"ship": ship, "quay": "Burchard", "draught": 13.4}] * rows),
        ("tower", _MANIFEST, [{"ship": ship, "cargo": "coffee", "value": 90_000 + at} for at in range(rows)]),
        ("pilot", _BERTH, [{"ship": ship, "berth": at} for at in range(rows)]),
    ]


def _each_sees_its_part(stage: Stage) -> None:
    for by, of, events in _events("Otto"):
        stage.send(by, of, events[:1], is_close_up=True)
        stage.send(by, of, events[1:])
    stage.receive()
    stage.say(f"{_ROWS} movements, manifests and berths: {stage.deliveries()} deliveries")


def _some_try_for_more(stage: Stage) -> None:
    desk, pilot = stage.client("desk"), stage.client("pilot")
    manifest = stage.members["tower"].type(_MANIFEST).signed
    stage.attempt("customs grants its desk `ShipMovement`, of either port", stage.maia,
                  "member add desk --org customs --may subscribe:ShipMovement")  # fmt: skip
    stage.attempt("the desk filters manifests by cargo", desk.subscribe, _MANIFEST, 'cargo == "coffee"')
    stage.attempt("the pilot subscribes to manifests", pilot.subscribe, manifest)
    stage.attempt("the pilot publishes as Hamburg", pilot.publish, _MOVEMENT, {"ship": "Otto"})


def _a_broker_is_killed(stage: Stage) -> None:
    berths = stage.inboxes["desk, berths"].subscription
    berths.acknowledge()
    stage.world.children["broker of customs"].kill()
    stage.send(*_events("Emma")[2])
    stage.world.start("broker of customs").ready()
    stage.receive()
    stage.expect("a killed broker misses nothing", berths.missed, ())
    stage.say(f"the broker of customs is killed, and fetches the {_ROWS} berths that it missed")


def _an_inspector_is_on_duty(stage: Stage) -> None:
    stage.maia(f"domain fact assert {_DUTY}")
    stage.maia("login --as inspector")
    stage.join(stage.story.readers[-1])
    stage.settle()
    stage.publish(*_events("Emma")[1])
    seen = stage.inboxes["inspector"].events[-1]
    stage.maia(f"domain fact retract {_DUTY}")
    stage.say(f"an inspector on duty sees the cargo: {seen['cargo']}; off duty, {stage.end_of('inspector')}")


def _hamburg_revokes(stage: Stage) -> None:
    stage.maia("revoke hamburg-customs.grant --org hamburg --reason 'the agreement has ended'")
    ended, before = stage.end_of("desk, manifests"), stage.deliveries()
    stage.publish(*_events("Otto")[2])
    stage.expect("customs goes on with Rotterdam's berths", stage.deliveries() - before, _ROWS)
    stage.say(f"Hamburg revokes its grant: {ended}; customs goes on with Rotterdam's berths")


STORY: Final = Story(
    name="consortium",
    before="""\
Two ports and a customs agency share what they know of ships, over servers of their own.
  Hamburg    owns `ShipMovement`, and `Manifest`, which travels sealed
  Rotterdam  owns another type `ShipMovement`; its pilot sees Hamburg's ships, with the
             draught rounded to five metres
  customs    sees Rotterdam's ships; its desk sees which ship has a manifest in Hamburg,
             and an inspector also the cargo, while on duty
""",
    setup=_SETUP,
    policies={"customs": _POLICY},
    readers=(
        StoryReader("pilot", "pilot", _MOVEMENT, "draughts rounded"),
        StoryReader("desk, manifests", "desk", _MANIFEST, "which ship has one"),
        StoryReader("desk, berths", "desk", _BERTH, "all of Rotterdam's", durable="berths"),
        StoryReader("inspector", "inspector", _MANIFEST, "the cargo, on duty", joins_later=True),
    ),
    probes=lambda number: [(by, of, events[0]) for by, of, events in _events(f"probe {number}", 1)],
    is_probe=lambda event: str(event["ship"]).startswith("probe"),
    acts=(
        _each_sees_its_part,
        _some_try_for_more,
        _a_broker_is_killed,
        _an_inspector_is_on_duty,
        _hamburg_revokes,
    ),
    kills_brokers=True,
    next=("docs/tutorials/consortium.md", "docs/quickstart.md"),
)
