"""A city's sensors: exact for the operator, coarse for the public (OASIS'08, section 2.1).

Residents have sensors for noise and air at their houses, which a company operates. The council owns the
data; citizens see it in real time, planners keep it for history. Where a
sensor hangs and when its resident is at home is not for everybody: the public
gets kilometre squares, whole hours and round figures, unless the air is
dangerous. Researchers can follow a sensor without knowing which it is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from maia.demo.world import Database, Happening, Made, Story, StoryReader, on_staff, staff_roles
from maia.events import SECOND, Instant

if TYPE_CHECKING:
    from maia.demo.stage import Stage

_ROWS: Final = 480
"""How many generated readings there are beside the ones that are shown."""
_SEED: Final = 2008
_DANGEROUS: Final = 50.0
"""From here on the policy shows dust as it is."""
_DAY: Final = 86_400 * SECOND

_SETUP: Final = """\
org new council
org new sensors
type define Reading time:timestamp district:string sensor:string easting:int northing:int noise_db:float \\
    pm25:float no2:float --org council
type define Alarm time:timestamp district:string pm25:float officer:string --org council
grant sensors/sensors.pub --org council --may publish:Reading --delegable -o sensors.grant
network join sensors.grant --org sensors
member add gateway --org sensors --may publish:Reading
member add operator --org council
member add planner --org council
member add researcher --org council
member add okafor --org council
member add patel --org council
member add app --org council
member add database --org council --may subscribe:Reading --may publish:Alarm
"""
_STAFF: Final = {
    "operator": "works_as HOLDER operator",
    "planner": "works_as HOLDER planner",
    "researcher": "works_as HOLDER researcher",
    "okafor": "hosts HOLDER 'Camden 7'",
    "patel": "works_as HOLDER 'Dr Patel'",
    "app": "works_as HOLDER citizen",
}
_POLICY: Final = """\
policy "City council"

fact hosts(who: principal, sensor: string)
STAFF
role resident(sensor: string)
role health_officer(name: string)

rule resident(s)
    while hosts(holder, s)
    for 1 days
rule health_officer(n)
    while works_as(holder, n)
    for 1 days

grant operator
    may subscribe Reading(*)
grant planner
    may subscribe Reading(time, district, noise_db, pm25, no2)
grant researcher
    may subscribe Reading(time, district, sensor, noise_db, pm25, no2)
grant resident(s)
    may subscribe Reading(*)
    where sensor == $s
grant health_officer(n)
    may subscribe Alarm(time, district, pm25)
    where officer == $n
grant citizen
    may subscribe Reading(time, district, easting, northing, noise_db, pm25)

# Planners keep history by the hour.
transform Reading for planner
    set time := truncate(time, "hour")

# A researcher can follow a sensor, and does not learn which it is.
transform Reading for researcher
    set sensor := pseudonym(sensor)
    set noise_db := perturb(noise_db, 1.0)

# The public sees a kilometre square, the hour and round figures; dangerous air is shown as it is.
transform Reading for citizen
    set time := truncate(time, "hour")
    set easting := bucket(easting, 1000)
    set northing := bucket(northing, 1000)
    set noise_db := round_to(noise_db, 5.0)
    set pm25 := round_to(pm25, 5.0) when pm25 < 50.0
end
""".replace("STAFF\n", staff_roles("operator", "planner", "researcher", "citizen"))


def _reading(sensor: str, at: str, east: int, north: int, *, noise: float, pm25: float) -> Happening:
    return {
        "time": Instant.parse(f"2026-11-02T{at}Z"),
        "district": sensor.rpartition(" ")[0],
        "sensor": sensor,
        "easting": east,
        "northing": north,
        "noise_db": noise,
        "pm25": pm25,
        "no2": 31.5,
    }


_SHOWN: Final = (
    _reading("Camden 7", "08:17:23", 529_312, 184_077, noise=63.4, pm25=11.8),
    _reading("Hackney 3", "08:41:09", 534_986, 185_240, noise=71.2, pm25=18.3),
    _reading("Camden 7", "23:52:48", 529_312, 184_077, noise=41.7, pm25=63.9),
)


def _generated() -> list[Happening]:
    """Return a day of the generated sensors, with a place for each of them."""
    from maia.spark.generators import SENSORS

    rows = SENSORS.rows(rows=_ROWS, seed=_SEED, per_day=_ROWS).to_pylist()
    return [
        {
            **row,
            "time": Instant.from_datetime(row["time"]),
            "easting": 525_000 + sum(map(ord, row["sensor"])) * 7 % 12_000,
            "northing": 176_000 + sum(map(ord, row["sensor"])) * 13 % 9_000,
        }
        for row in rows
    ]


def _sensors_report(stage: Stage) -> None:
    stage.publish("gateway", "Reading", _SHOWN, is_close_up=True)
    stage.say("three readings: a morning in Camden, one in Hackney, and dangerous air at night")
    delivered = stage.publish("gateway", "Reading", _generated())
    stage.say(f"{_ROWS} more readings of a day in ten districts: {delivered:,} deliveries")


def _some_ask_for_more(stage: Stage) -> None:
    app, planner = stage.client("app"), stage.client("planner")
    stage.attempt("the citizen app asks for one sensor", app.subscribe, "Reading", 'sensor == "Camden 7"')
    stage.attempt(
        "the planning office asks for one square", planner.subscribe, "Reading", "easting == 529312"
    )
    stage.attempt("the citizen app publishes a reading", app.advertise, "Reading")


def _nothing_exact_leaked(stage: Stage) -> None:
    """Search what the public received for what it must not hold, and count what the database holds."""
    stage.check_stored()
    seen = stage.inboxes["citizen app"].values()
    exact = {
        "sensor": seen["sensor"],
        "easting": {one for one in seen["easting"] if isinstance(one, int) and one % 1000},
        "time": {one for one in seen["time"] if isinstance(one, Instant) and one % (3600 * SECOND)},
        "pm25": {one for one in seen["pm25"] if isinstance(one, float) and one < _DANGEROUS and one % 5.0},
    }
    for name, values in exact.items():
        stage.expect(f"the citizen app sees no exact {name}", values, set())


_ON_CALL: Final = frozenset({("Camden", "Dr Patel"), ("Hackney", "Dr Jones"), ("City", "Dr Jones")})
_ALARMS: Final = """\
SELECT a.time, a.district, a.pm25, o.officer
FROM arrived a JOIN on_call o ON o.district = a.district
WHERE a.pm25 >= 50 ORDER BY a.maia_position, a.maia_row
"""


def _alarms(event: Happening, on_call: Collection[tuple[str, str]]) -> Made:
    """Say what the query has to make of a reading."""
    dust, district = event["pm25"], event["district"]
    if not isinstance(dust, float) or dust < _DANGEROUS:
        return []
    shown = {name: event[name] for name in ("time", "district", "pm25")}
    return [("Alarm", {**shown, "officer": officer}) for of, officer in on_call if of == district]


STORY: Final = Story(
    name="city",
    before="""\
Residents of a city have sensors for noise and air at their houses. A company
operates them; the council owns the data and writes one policy. By that policy
  the operator         sees every reading as it is
  the planning office  sees values by district and hour, never a place
  the researcher       follows a sensor by a pseudonym, with a little noise added
  Mrs Okafor           sees the sensor at her own house
  Dr Patel             gets an alarm, made by the council's PostgreSQL database of
                       a reading that it stores, when the air is dangerous
  the citizen app      sees kilometre squares, hours and round figures,
                       and the exact dust when it is dangerous
""",
    setup=_SETUP,
    policies={"council": _POLICY},
    logins=on_staff("council", _STAFF),
    readers=(
        StoryReader("operator", "operator", "Reading", "everything", application="environment"),
        StoryReader("planning office", "planner", "Reading", "by district and hour",
                    application="environment"),
        StoryReader("researcher", "researcher", "Reading", "sensors by pseudonym"),
        StoryReader("Mrs Okafor", "okafor", "Reading", "her own sensor"),
        StoryReader("Dr Patel", "patel", "Alarm", "alarms while on call"),
        StoryReader("citizen app", "app", "Reading", "squares, hours, round figures"),
    ),
    probes=lambda number: [("gateway", "Reading", {**_SHOWN[2], "time": Instant(number * _DAY)})],
    acts=(_sensors_report, _some_ask_for_more, _nothing_exact_leaked),
    database=Database(
        "council database", "council", "Reading", {"Alarm": _ALARMS}, "on_call", ("district", "officer"),
        _ON_CALL, _alarms,
    ),
    secrets_of="council",
)  # fmt: skip
