"""A right that ends soon is told of where it is used and where it was given, until it is renewed."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import maia
from maia.clock import system_now
from maia.config.input_files import read_principal
from maia.credentials import Action, TypePattern, Validity, certificate_to_text
from maia.credentials.names import NamePattern
from maia.events import SECOND, Instant
from maia.keystore.key_files import load_signing_key
from maia.testing import grant, wait_until
from support.processes import Answer, running_maia
from support.processes import maia as command

DAY = 86_400 * SECOND


@pytest.fixture
def hospital(tmp_path: Path) -> Iterator[maia.Organisation]:
    """A hospital whose office may read everything for 90 days, of which 89 are over."""
    made = maia.Organisation.create(tmp_path / "hospital")
    result = made.define("LabResult", ward="string", value="int").definition.name
    office = made.add_member("office", may="subscribe:LabResult", only=["ward"])
    now = system_now() // SECOND * SECOND
    key = load_signing_key(made.folder / "hospital.key")
    period = Validity(Instant(now - 89 * DAY), Instant(now + DAY))
    about = TypePattern(result.owner, NamePattern(result.name), None)
    right = grant(key, read_principal(office.principal()), about, Action.SUBSCRIBE, validity=period)
    for place in ("issued", "office.maia/certs"):
        (made.folder / place / f"{right.id.hex()[:24]}.cert").write_text(certificate_to_text(right))
    with running_maia("up", "--org", made.folder, cwd=tmp_path / "servers"):
        wait_until(lambda: bool((tmp_path / "servers" / "out.log").read_text()))
        yield made


def said(made: maia.Organisation, *words: object) -> Answer:
    return command(*words, cwd=made.folder)


def test_an_end_is_told_to_who_reads_and_to_who_runs_it_until_it_is_renewed(
    hospital: maia.Organisation,
) -> None:
    reading = ("subscribe", "LabResult", "--as", "office", "--for", "0.2")
    answer = said(hospital, *reading)
    assert "maia: warning: `subscribe:LabResult`, granted by hospital" in answer.stderr
    assert "[POLICY-ENDS-SOON]" in answer.stderr
    told = said(hospital, *reading, "--json").stderr.splitlines()[0]
    assert json.loads(told)["warning"]["code"] == "POLICY-ENDS-SOON"
    (shown,) = [one for one in said(hospital, "status").stdout.splitlines() if one.startswith("ends ")]
    assert "subscribe:LabResult of office" in shown
    assert "(`maia renew`)" in shown
    wait_until(lambda: "maia_rights_expiring_next 1.0" in metrics(hospital))
    done = json.loads(said(hospital, "renew", "--json").stdout)
    assert [(one["may"], one["delegable"]) for one in done["renewed"]] == [("subscribe:LabResult", False)]
    assert json.loads(said(hospital, "status", "--json").stdout)["ends"] == []
    answer = said(hospital, *reading)
    assert (answer.returncode, "ENDS-SOON" in answer.stderr) == (0, False)


def metrics(made: maia.Organisation) -> str:
    """Return the numbers of the domain's server."""
    door = json.loads((made.folder / "domain-data" / "status.door").read_text())
    connection = http.client.HTTPConnection(door["address"], timeout=60)
    with closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
