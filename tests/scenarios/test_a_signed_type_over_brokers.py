"""C14 over real processes: a type as `maia type define` writes it, published through three brokers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from maia.clock import system_now
from maia.credentials import Action
from maia.log.disk.event_log import EventLog
from maia.testing import Cast, Processes, wait_until
from maia.testing.refusals import raises
from maia.types import definition_from_text
from maia.wire.codec import decode_recorded
from maia.wire.messages import CarriedSigned
from support.processes import forked, maia

LOG = '[log]\nfolder = "log"\n'
DEFINE = (
    "type",
    "define",
    "--key",
    "city.key",
    "--name",
    "Weather",
    "-a",
    "place:string",
    "-a",
    "degrees:float",
)


def defined(folder: Path) -> Cast:
    """Let the city define a type with the command; a station publishes it, and a newspaper reads it."""
    cast = Cast.of("city", "station", "newspaper", of_type="Weather", place="string", degrees="float")
    with Processes(folder / "keys", cast):
        answer = maia(*DEFINE, "-o", "weather.type", cwd=folder / "keys")
        assert "protection" in answer.stdout, answer
        again = maia("type", "change", "weather.type", "-k", "city.key", "--protection", "none", "-o",
                     "less.type", cwd=folder / "keys")  # fmt: skip
        assert "INPUT-PROTECTION-GIVEN-UP" in again.stderr, again
    written = definition_from_text((folder / "keys" / "weather.type").read_text())
    cast = replace(cast, definition=written)
    return cast.let("station", Action.PUBLISH).let("newspaper", Action.SUBSCRIBE)


def test_a_signed_type_is_published_through_brokers_and_read_live_later_and_as_the_present_state(
    tmp_path: Path,
) -> None:
    (tmp_path / "keys").mkdir()
    cast = defined(tmp_path)
    (tmp_path / "run").mkdir()
    with Processes(tmp_path / "run", cast, start=forked) as processes:
        rights = {
            name: (*cast.identity(name)[1], *[cast.right(cast.identity(name)[0], one) for one in actions])
            for name, actions in {"north": [Action.PUBLISH], "south": [Action.SUBSCRIBE]}.items()
        }
        north = processes.broker("north", credentials=rights["north"])
        between = processes.broker("between", join=[north.address], more="verify_in_transit = 0.0\n")
        south = processes.broker("south", credentials=rights["south"], join=[between.address], more=LOG)
        with processes.client("station", between) as station, raises("REFUSED-BROKER-CANNOT-SIGN"):
            station.advertise(cast.definition)
        with (
            processes.client("newspaper", south) as newspaper,
            processes.client("station", north) as station,
        ):
            durable = newspaper.subscribe(cast.definition, durable="archive")
            live = newspaper.subscribe(cast.definition)
            weather, seen = station.advertise(cast.definition), list[float]()

            def arrives() -> bool:
                weather.publish({"place": "pier", "degrees": float(len(seen))})
                weather.flush()
                seen.extend(one["degrees"] for one in live.some(1, timeout_s=0.5))
                return bool(seen)

            wait_until(arrives, "an event that was signed in the north is read in the south")
            assert durable.some(1, timeout_s=60)[0]["place"] == "pier"
            board = newspaper.subscribe(cast.definition, state=True)
            assert board.some(1, timeout_s=60)[0]["place"] == "pier"
        south.stop()
        with EventLog.open(processes.folder / "south-broker" / "log") as log:
            recorded = [decode_recorded(one.message) for one in log.read(0)]
    frames = [one for one in recorded if one.type_id == cast.type_id]
    assert frames, "they are recorded as they were signed"
    assert all(isinstance(one, CarriedSigned) for one in frames)
    assert {one.signed.signer for one in frames} == {cast.identity("north")[0].principal.key}
    assert max(one.signed.signed_at for one in frames) <= system_now()
