"""Who sees which cars? The numberplate story of the dissertation, sections 1.2.2, 3.7, 5.2 and 6.1.1.

PITO runs the network and owns the type, and has no clients. The congestion charge service (CCS) has the
cameras, the billing office and, at a broker of its own, the statistics office; the Metropolitan Police (Met)
employs Detective Smith, whom its policy lets follow a plate while a court order is in force. Between
their brokers is that of the Highways, an organisation of the network without any right to the
type: all that it received and kept is searched for what was written. The same search of the
others has to find everything, or it would prove nothing.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.demo.spark import TABLES
from maia.demo.world import HEARD, Happening, Story, StoryReader, StoryWorld
from maia.events import SECOND, Instant

if TYPE_CHECKING:
    from maia.credentials import Principal
    from maia.demo.stage import Stage
    from maia.routing.overlay.table import NodeId
    from maia.wire.messages import Sealed

SUSPECT: Final = "AE05 XYZ"
KIND: Final = "Numberplate"
DETECTIVE: Final = "Detective Smith"
CARRIER: Final = "highways"
"""Whose broker is in the middle."""
ORDER: Final = f"met/smith.maia/smith.pub court_order 'case 7' '{SUSPECT}' --days 1 --as met"
_ROWS: Final = 2_000
"""How many sightings of the other cameras there are."""
_SEED: Final = 2003
_SUSPECT_EVERY: Final = 150
_EXCERPT: Final = 12
_MANY: Final = 200
_CARRIED: Final = "Highways broker"

_SETUP: Final = """\
org new pito
org new ccs
org new met
type define Numberplate numberplate:string timestamp:timestamp location:string --sealed --org pito
grant ccs/ccs.pub --org pito --may publish:Numberplate --may subscribe:Numberplate --delegable -o ccs.grant
grant met/met.pub --org pito --may subscribe:Numberplate --delegable -o met.grant
network join ccs.grant --org ccs
network join met.grant --org met
broker add offices --org ccs
member add camera --org ccs --may publish:Numberplate --where 'location == "Victoria"'
member add room --org ccs --may publish:Numberplate
member add billing --org ccs --may subscribe:Numberplate --only numberplate,timestamp
member add statistics --org ccs --may subscribe:Numberplate --only location,timestamp
member add smith --org met
"""
_POLICY: Final = """\
policy "Metropolitan Police"

appointment court_order(case: string, plate: string) by here
fact detective(who: principal)
fact case_assignment(who: principal, case: string)

role np_tracker(plate: string)

rule np_tracker(plate)
    while court_order(case, plate)
    while detective(holder)
    while case_assignment(holder, case)
    until the court_order ends

grant np_tracker(plate)
    may subscribe to Numberplate(numberplate, timestamp, location)
    where numberplate == $plate
    checked by timed-crl

end
"""
_FACTS: Final = """\
domain fact assert detective met/smith.maia/smith.pub --as met
domain fact assert case_assignment met/smith.maia/smith.pub 'case 7' --as met
"""


def _sightings(*seen: tuple[str, str | None]) -> list[Happening]:
    begun = Instant.parse("2026-11-05T13:00:00Z")
    return [
        {"numberplate": plate, "timestamp": Instant(begun + at * SECOND), "location": place}
        for at, (plate, place) in enumerate(seen)
    ]


# The first claims another place and the third names none: the broker writes what the certificate says.
_AT_VICTORIA: Final = _sightings(
    (SUSPECT, "Euston"),
    ("LB02 KRT", "Victoria"),
    ("KX51 AAD", None),
    (SUSPECT, "Victoria"),
    (SUSPECT, "Victoria"),
)


@cache
def city_traffic(rows: int = _ROWS) -> list[Happening]:
    """Return what the other cameras see in three days; the suspect drives a lot."""
    from maia.spark.generators import SIGHTINGS

    made = SIGHTINGS.rows(rows=rows, seed=_SEED, per_day=rows // 3).to_pylist()
    return [
        {
            "numberplate": SUSPECT if at % _SUSPECT_EVERY == 0 else one["numberplate"],
            "timestamp": Instant.from_datetime(one["timestamp"]),
            "location": one["location"],
        }
        for at, one in enumerate(made)
    ]


def _add_carrier(world: StoryWorld) -> None:
    """Invite the Highways, and choose its broker's key so that it is the rendezvous of the type."""
    from maia.keystore.key_files import create_key_file, new_signing_key, public_half
    from maia.organisation import Organisation
    from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type

    point = node_id_of_type(Organisation("pito").event_type(KIND).type_id)

    def distance(broker: Principal) -> tuple[int, NodeId]:
        return closeness(node_id_of_key(broker.key), point)

    keys = [*(Path(one, "broker.key") for one in world.organisations()), Path("ccs", "offices.key")]
    nearest = min(distance(public_half(one)) for one in keys)
    while distance((key := new_signing_key()).principal) >= nearest:
        pass
    world.maia(f"org new {CARRIER}")
    for file in ("broker.key", "broker.pub", "broker-certs/connect.cert"):  # joining issues the last one anew
        Path(CARRIER, file).unlink()
    create_key_file(Path(CARRIER, "broker.key"), key)
    Path(CARRIER, "broker.pub").write_text(f"{key.principal}\n", encoding="utf-8")
    world.maia(f"network invite {CARRIER}/{CARRIER}.pub --org pito -o {CARRIER}.invitation")
    world.maia(f"network join {CARRIER}.invitation --org {CARRIER}")
    # The statistics office is at the second broker of CCS, and knows the first for when that one is gone.
    profile = Path("ccs/statistics.maia/profile.toml")
    lines = profile.read_text(encoding="utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("brokers"))
    lines[at] = f"brokers = {json.dumps(tomllib.loads(lines[at])['brokers'][::-1])}"
    profile.write_text("\n".join(lines), encoding="utf-8")


def _start(world: StoryWorld) -> None:
    """Start all servers but one: the Highways issue nothing to members, and lend the network a broker."""
    world.up(*(name for name in world.servers() if name != f"server of {CARRIER}"))


def _detective_logs_in(stage: Stage) -> None:
    stage.world.type_all(_FACTS)
    stage.maia(f"domain appoint {ORDER} -o order.appointment")
    stage.record["roles"] = stage.maia("login --as smith --show order.appointment")["roles"]
    stage.join(stage.story.readers[-1])
    stage.settle()
    stage.say("with a court order, Detective Smith may follow one plate")


def _cars_pass(stage: Stage) -> None:
    stage.publish("camera", KIND, _AT_VICTORIA[:1], is_close_up=True)
    stage.publish("camera", KIND, _AT_VICTORIA[1:3])
    stage.publish("room", KIND, city_traffic()[: _ROWS // 2])
    stage.say(f"{_ROWS // 2 + 3:,} cars: {stage.deliveries():,} deliveries")


def _some_try_for_more(stage: Stage) -> None:
    billing = stage.client("billing")
    stage.attempt("billing filters on the location", billing.subscribe, KIND, 'location == "Victoria"')
    stage.attempt("billing publishes a sighting", billing.advertise, KIND)


def _a_broker_dies(stage: Stage) -> None:
    stage.world.children["offices of ccs"].kill()
    seconds = stage.settle()
    stage.record["repaired_s"] = round(seconds, 3)
    stage.say(f"a broker of CCS is killed; all readers are reached after {seconds:.2f} s")
    stage.publish("camera", KIND, _AT_VICTORIA[3:4])


def _order_is_revoked(stage: Stage) -> None:
    inbox, before = stage.inboxes[DETECTIVE], {who: len(one.events) for who, one in stage.inboxes.items()}
    order = stage.maia("domain appointments --as met")["appointments"][0]["id"]
    begun = time.monotonic()
    stage.maia(f"domain revoke {order} --appointment --as met --reason 'appeal allowed'")
    code, delay = stage.end_of(DETECTIVE), round((inbox.ended_at - begun) * 1000, 1)
    stage.say(f"court order revoked; her stream ends {delay:.0f} ms later: {code}")
    stage.attempt("the detective subscribes again", stage.client("smith").subscribe, KIND)
    stage.publish("camera", KIND, _AT_VICTORIA[4:], is_close_up=True)
    later = city_traffic()[_ROWS // 2 :]
    stage.publish("room", KIND, later)
    after = {who: len(one.events) - before[who] for who, one in stage.inboxes.items()}
    suspect = 1 + sum(one["numberplate"] == SUSPECT for one in later)
    stage.expect(
        "the others go on", [after["billing office"], after["statistics office"]], [1 + len(later)] * 2
    )
    stage.figures |= {
        "court order revoked; the detective's stream ended after": f"{delay:.0f} ms",
        "her suspect's car seen since then, and shown to her": f"{suspect}, {after[DETECTIVE]}",
    }
    stage.record["revocation"] = {"delay_ms": delay, "code": code, "suspect_seen": suspect, "after": after}


# ------------------------------------------------------------ what could the broker in the middle see?


def words_to_look_for(stage: Stage) -> dict[str, tuple[bytes, ...]]:
    """Return what must not be found, by what people call it: each as it could be written."""
    words: dict[str, tuple[bytes, ...]] = {
        name: (name.encode(),) for name in (KIND, "numberplate", "location", "billing", "statistics", "smith")
    }
    for who in ("billing", "statistics", "smith"):
        key = stage.members[who].principal.key
        words[f"the key of {who}"] = (key, key.hex().encode())
    for one in (one for one in stage.published if not one.is_probe):
        for value in one.event.values():
            if isinstance(value, Instant):
                written = (int(value).to_bytes(8, order, signed=True) for order in ("big", "little"))
                words[str(value)] = (str(value).encode(), str(int(value)).encode(), *written)
            elif value is not None:
                words[str(value)] = (str(value).encode(),)
    return words


def found_in(files: Iterable[Path], words: Mapping[str, Iterable[bytes]]) -> tuple[set[str], int]:
    """Return which words are in some files, and how many bytes were searched."""
    found, searched = set[str](), 0
    alike = Counter(len(way) for ways in words.values() for way in ways)
    for path in (path for path in files if path.is_file()):
        data, windows = path.read_bytes(), dict[int, set[bytes]]()

        def has(way: bytes, data: bytes = data, windows: dict[int, set[bytes]] = windows) -> bool:
            size = len(way)
            if alike[size] < _MANY:
                return way in data
            if size not in windows:  # of so many words of one length, each is looked up and not searched for
                windows[size] = {data[at : at + size] for at in range(len(data) - size + 1)}
            return way in windows[size]

        searched += len(data)
        found |= {word for word in words.keys() - found if any(map(has, words[word]))}
    return found, searched


def carried_by(broker: Path) -> Iterator[Sealed]:
    """Yield the sealed frames that a broker received."""
    from maia.broker.server.server import read_heard
    from maia.wire.codec import decode
    from maia.wire.messages import Sealed

    heard = read_heard(broker / HEARD)
    assert heard.is_whole, "not everything that was received was recorded"  # noqa: S101 - nothing proved without
    yield from (one for one in map(decode, heard.messages) if isinstance(one, Sealed))


def _search(stage: Stage) -> None:
    """Search all that the broker in the middle received and kept, and what Spark made for the offices."""
    from maia.wire.columns import frame_label

    words, folder = words_to_look_for(stage), stage.world.folder
    frames = {
        frame_label(one.publisher, one.stream, one.sequence): one for one in carried_by(folder / CARRIER)
    }
    found, searched = found_in((folder / CARRIER).rglob("*"), words)
    others = [path for one in ("pito", "met", "ccs") for path in (folder / one).rglob("*")]
    elsewhere, _ = found_in([folder / "ccs" / HEARD, *others], words)
    stage.expect("sealed events pass the broker in the middle", bool(frames))
    for word in sorted(found):
        stage.broken.append(f"the broker of {CARRIER} could read {word}")
    stage.expect("the same search finds all words where they may be read", elsewhere, set(words))
    labels = {str(one["timestamp"]): one.delivered.label for one in stage.inboxes["billing office"].events}
    for one in stage.published:
        frame = frames.get(labels.get(str(one.event["timestamp"]), b""))
        sealed = "nothing" if frame is None else f"0x{frame.columns[0].sealed[:_EXCERPT].hex()}"
        stage.beside[repr(one.event)] = {_CARRIED: sealed}
    rows = sum(one.rows for one in frames.values())
    stage.figures |= {
        "sealed events that passed the broker without rights": rows,
        f"of {len(words):,} words, found in the {searched:,} bytes that it received and kept": len(found),
    }
    stage.record["carrier"] = {
        "events": rows, "frames": len(frames), "looked_for": len(words), "found": sorted(found),
        "found_elsewhere": len(elsewhere), "bytes": searched,
    }  # fmt: skip
    places = {
        str(one): (str(one).encode(),) for one in stage.inboxes["statistics office"].values()["location"]
    }
    if (folder / TABLES).exists():
        made = [(folder / TABLES / who).rglob("*") for who in ("billing office", "statistics office")]
        billing, statistics = (found_in(files, places)[0] for files in made)
        stage.expect("Spark made no place for the billing office", billing, set())
        stage.expect("the same search finds all places where they are", statistics, set(places))
        stage.figures["places in what Spark made for billing, and for statistics"] = (
            f"{len(billing)}, {len(statistics)}"
        )
        stage.record["places"] = {"billing": len(billing), "statistics": len(statistics)}


STORY: Final = Story(
    name="numberplate",
    before="""\
Cameras in London publish sightings of cars: numberplate, time, place. PITO owns
this type of event, CCS runs the cameras, the Met is the police. By certificates
  the billing office     sees plates, never a place
  the statistics office  sees places, never a plate
  Detective Smith        sees one car, while a court order is in force
Between their brokers is that of the Highways, which may read nothing.
A camera's certificate says where it is, whatever the camera writes.

  camera ─────────┬─ CCS broker ─┐                   ┌─ PITO broker
  billing office ─┘              ├─ Highways broker ─┤
  statistics ── 2nd CCS broker ──┘  without rights   └─ Met broker ── Det. Smith
""",
    setup=_SETUP,
    prepare=_add_carrier,
    policies={"met": _POLICY},
    start=_start,
    readers=(
        StoryReader("billing office", "billing", KIND, "plates, never a place", application="billing"),
        StoryReader(
            "statistics office", "statistics", KIND, "places, never a plate", application="statistics"
        ),
        StoryReader(DETECTIVE, "smith", KIND, "one car", joins_later=True),
    ),
    probes=lambda number: [("camera", KIND, {**_AT_VICTORIA[0], "timestamp": Instant(number)})],
    acts=(_detective_logs_in, _cars_pass, _some_try_for_more, _a_broker_dies, _order_is_revoked),
    finish=_search,
    listened_to=(CARRIER, "ccs"),
    kills_brokers=True,
    close_ups=2,
    next=("docs/quickstart.md", "docs/limitations.md"),
)
