"""A city whose cameras publish sightings, and whose office publishes what vehicles owe; and a clerk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import maia
from maia.testing import wait_until
from support.processes import running_maia

__all__ = ["MONDAY", "charging_city", "following_words"]

MONDAY = datetime(2026, 11, 16, 12, tzinfo=UTC)


@contextmanager
def charging_city(folder: Path) -> Iterator[maia.Organisation]:
    """Make the organisation in a new folder; its broker, which records, and its domain's server run."""
    made = maia.Organisation.create(folder)
    made.define("Sighting", numberplate="string", timestamp="timestamp", location="string")
    made.define("Charge", numberplate="string", day="timestamp", charge_pence="int")
    made.add_member("camera", may="publish:Sighting")
    made.add_member("office", may=["subscribe:Sighting", "publish:Charge"])
    made.add_member("desk", may="subscribe:Charge")
    made.define("Note", text="string")
    made.add_member("clerk", may=["subscribe:Note", "publish:Note"])
    with (made.folder / "broker.toml").open("a") as settings:
        settings.write('\n[log]\nfolder = "log"\ntypes = ["*"]\n')
    with ExitStack() as stack:
        for name, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
            output = made.folder / f"{name}-output"
            output.mkdir()
            stack.enter_context(running_maia(*words, "--config", made.folder / f"{name}.toml", cwd=output))
            wait_until(lambda out=output / "out.log": "listening" in out.read_text())
        yield made


def following_words(city: Path, checkpoint: Path) -> list[str]:
    """Return the command that charges vehicles, live, until it is stopped."""
    return f"""pipeline run billing --follow --live {city}/office.maia --type Sighting
        --durable charges --publish {city}/office.maia --publish-type Charge
        --checkpoint {checkpoint} --every 0.3 --json""".split()
