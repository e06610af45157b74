"""Who opens a log is warned of rights that end soon, before its tables become empty."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import maia
from maia.clock import system_now
from maia.events import SECOND, Instant
from maia.organisation import Organisation

DAY = 86_400 * SECOND


@pytest.mark.parametrize(("day", "is_warned"), [(70, False), (80, True)])
def test_a_log_is_opened_with_a_warning_two_weeks_before_the_right_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    day: int,
    is_warned: bool,
) -> None:
    ours = Organisation.create(tmp_path / "hospital")
    ours.define("LabResult", "ward:string")
    office = ours.add_member("office", may="subscribe:LabResult")
    now = Instant(system_now() + day * DAY)
    monkeypatch.setattr(sys.modules[maia.RecordedLog.__module__], "system_now", lambda: now)
    maia.open_log(tmp_path, as_=office).close()
    said = [one for one in caplog.messages if "POLICY-ENDS-SOON" in one]
    assert ["`subscribe:LabResult`, granted by" in one for one in said] == [True] * is_warned
