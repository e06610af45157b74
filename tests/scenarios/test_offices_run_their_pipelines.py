"""The numberplate story in Spark (dissertation, 3.7): each office runs its own application over one log.

What the cameras published lies recorded. No client hands an office a table: it
names the log, shows its certificates, and gets what they grant.
"""

from __future__ import annotations

import json

import pytest

from maia.cli import main
from maia.credentials import certificate_to_text
from maia.events import Instant
from maia.keystore.key_files import create_key_file
from maia.spark.generators import CAMERAS, SIGHTINGS, WATCHED_PLATE
from maia.types import definition_to_text, verify_definition
from reference import pipeline_applications as by_hand
from support.governed import Recorded
from support.numberplate import NUMBERPLATE_ATTRIBUTES, tell_numberplate_story

NOW = Instant.parse("2026-11-15T12:00:00Z")
ROWS = 1_500


@pytest.fixture
def city(sparkling, tmp_path, monkeypatch, capsys):
    """A log of sightings, and for each member of the cast a key file and one folder of certificates."""
    story = tell_numberplate_story(b"offices", now=NOW)
    sightings = SIGHTINGS.rows(rows=ROWS, seed=5, per_day=500).to_pylist()
    # The suspect drives a lot.
    sightings = [
        row | ({"numberplate": WATCHED_PLATE} if at % 9 == 0 else {}) for at, row in enumerate(sightings)
    ]
    uids = {one.name: one.uid for one in NUMBERPLATE_ATTRIBUTES}
    recorded = Recorded(tmp_path / "log", event_type=verify_definition(story.definition, at=NOW))
    for start in range(0, ROWS, 500):
        events = [
            {uids[name]: Instant.from_datetime(v) if name == "timestamp" else v for name, v in row.items()}
            for row in sightings[start : start + 500]
        ]
        recorded.publish(events, published_at=NOW)
    recorded.write()
    _write_files(story, tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(who: str, command: str, application: str, *more: str) -> tuple[int, dict[str, object], str]:
        words = ("--log", "log", "-d", "plate.type", "-k", f"{who}.key", "--credentials", "certs", "--json")
        status = main(("pipeline", command, application, *words, *more))
        said = capsys.readouterr()
        return status, json.loads(said.out or "{}"), said.err

    return sightings, run


def _write_files(story, folder) -> None:
    (folder / "plate.type").write_text(definition_to_text(story.definition), encoding="utf-8")
    (folder / "certs").mkdir()
    for number, signed in enumerate(story.certificates):
        (folder / "certs" / f"{number}.cert").write_text(certificate_to_text(signed), encoding="utf-8")
    for who, key in story.keys.items():
        create_key_file(folder / f"{who}.key", key, None)


def test_each_office_gets_what_its_certificates_grant_and_its_answer_is_right(city):
    sightings, run = city
    status, billed, err = run("billing office", "run", "billing", "--stream")
    assert status == 0, err
    assert billed["charges"] == len(by_hand.charges(sightings))

    status, counted, err = run("statistics office", "run", "statistics")
    assert status == 0, err
    assert (counted["sightings"], counted["windows"]) == (ROWS, len(by_hand.counts(sightings)))

    status, followed, err = run("Detective Smith", "run", "tracking", "--set", f"vehicle={WATCHED_PLATE}")
    assert status == 0, err
    assert followed["sightings"] == len(by_hand.path(sightings, CAMERAS, vehicle=WATCHED_PLATE))


def test_what_an_office_may_not_read_is_not_there_for_its_pipeline(city):
    sightings, run = city
    # The statistics office holds no plates, so it can bill no client; the billing office knows no place.
    assert run("statistics office", "run", "billing")[1]["charges"] == 0
    assert run("billing office", "run", "statistics")[1]["sightings"] == 0
    # The detective may read everything about one vehicle, and nothing about any other.
    billed = run("Detective Smith", "run", "billing")[1]
    assert billed["vehicles"] == 1
    other = next(row["numberplate"] for row in sightings if row["numberplate"] not in {None, WATCHED_PLATE})
    assert run("Detective Smith", "run", "tracking", "--set", f"vehicle={other}")[1]["sightings"] == 0


def test_the_plan_of_the_detective_does_not_name_the_suspect(city):
    _, run = city
    status, told, err = run("Detective Smith", "explain", "statistics")
    assert status == 0, err
    assert WATCHED_PLATE not in json.dumps(told)
    assert "MapInArrow" in "".join(told["plan"])


def test_who_has_no_right_is_refused_before_anything_is_read(city):
    _, run = city
    status, _, err = run("camera at Victoria", "run", "billing")
    assert status == 3, err
