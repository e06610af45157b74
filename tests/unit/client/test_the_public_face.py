"""What does an application see of the library: names, types, tables?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import maia
from maia.client.api import data_frames
from maia.client.api.blocking_client import BlockingPublisher, BlockingSubscription
from maia.client.api.data_frames import to_pandas, to_polars
from maia.errors import ExtraMissing

ROOT = Path(__file__).resolve().parents[3]

PAGE = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
FACES = (
    maia.Client,
    maia.BlockingClient,
    maia.Connection,
    maia.Publisher,
    BlockingPublisher,
    maia.Subscription,
    BlockingSubscription,
    maia.ReceivedEvent,
    maia.RecordedLog,
    maia.RecordedTable,
)
TYPED = """\
from datetime import datetime
import maia

with maia.connect("lab", timeout_s=3.0, on_warning=print) as lab:
    lab.publish("LabResult", value=1)
    moment: datetime = next(iter(lab.subscribe("LabResult"))).published_at.datetime
client: maia.BlockingClient = maia.connect("lab").open()

async def follow() -> None:
    async with maia.connect("lab") as lab:
        async for event in lab.subscribe("LabResult"):
            shown: frozenset[str] = event.hidden
        subscription: maia.Subscription = await lab.subscribe("LabResult")
"""
MISTAKES = """\
import maia

maia.connect("lab", tiemout_s=3.0)
maia.connect("lab", timeout_s="soon")
maia.open_log("log")
maia.open_log(as_="lab").table("LabResult", columns=3)
"""


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_a_public_class_has_only_what_the_page_of_the_interface_names(face: type) -> None:
    shown = {name for name in vars(face) if not name.startswith("_")}
    assert {name for name in shown if f"`{name}`" not in PAGE and f".{name}" not in PAGE} == set()


def test_a_program_is_checked_by_its_types_down_to_each_option(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(TYPED)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    # By the settings of `make check`, whose cache of what is known of our own files is used again.
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        "--no-pretty",
        *sorted(tmp_path.glob("*.py")),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600, cwd=ROOT)
    found = [
        line.split(" error: ")[0].rpartition("/")[2]
        for line in done.stdout.splitlines()
        if " error: " in line
    ]
    assert found == [f"mistakes.py:{line}:" for line in (3, 4, 5, 6)], done.stdout


def test_whole_numbers_stay_whole_in_pandas_and_polars_where_some_are_missing() -> None:
    table = pa.table({"value": pa.array([1 << 60 | 1, None]), "urgent": pa.array([True, None])})
    pandas, polars = to_pandas(table), to_polars(table)
    assert pandas["value"][0] == polars["value"][0] == 1 << 60 | 1
    assert [str(one) for one in pandas.dtypes] == ["Int64", "boolean"]


@pytest.mark.parametrize(("convert", "extra"), [(to_pandas, "pandas"), (to_polars, "polars")])
def test_what_is_not_installed_is_named_with_its_extra(convert, extra, monkeypatch) -> None:
    def absent(name: str) -> object:
        raise ModuleNotFoundError(name=name)

    table = pa.table({"value": [1]})
    wanted = data_frames.import_module
    monkeypatch.setattr(
        data_frames, "import_module", lambda name: absent(name) if name == extra else wanted(name)
    )
    with pytest.raises(ExtraMissing, match=rf"pip install 'maia-pubsub\[{extra}\]'") as missing:
        convert(table)
    assert missing.value.code == "UNAVAILABLE-EXTRA"
