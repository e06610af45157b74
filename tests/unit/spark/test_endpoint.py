"""A session that serves SQL to others is refused while SQL reaches more than tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from maia.spark import check_endpoint
from maia.spark.endpoint import RESTRICTED
from maia.spark.keys.key_server import job_desk
from maia.testing.refusals import raises


def session(restricted: str) -> SimpleNamespace:
    """Stand in for a session whose static setting was chosen at its start."""
    return SimpleNamespace(conf=SimpleNamespace(get={RESTRICTED: restricted}.get))


def test_a_session_in_which_sql_reaches_code_keys_or_files_is_refused(tmp_path: Path) -> None:
    """A93: each hole is named, with the way to close it."""
    with raises("PIPELINE-ENDPOINT-OPEN", match="calls Java") as refused:
        check_endpoint(session("false"), keeps_out=[])
    assert refused.value.code == "PIPELINE-ENDPOINT-OPEN"
    for place in (tmp_path, str(tmp_path), tmp_path.as_uri()):
        (tmp_path / "manifest").touch()
        with raises("PIPELINE-ENDPOINT-OPEN", match="opens files"):
            check_endpoint(session("true"), keeps_out=[place])
    with job_desk(), raises("PIPELINE-ENDPOINT-OPEN", match="keys of a governed table"):
        check_endpoint(session("true"), keeps_out=[])


def test_an_endpoint_without_keys_that_cannot_read_the_log_may_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The places that it keeps out are not there for its account."""
    monkeypatch.setattr("maia.spark.endpoint.desks_open", lambda: 0)
    away = tmp_path / "log of another account"
    check_endpoint(session("true"), keeps_out=[away, away.as_uri()])


def test_the_setting_is_one_that_no_session_turns_off(spark) -> None:
    """A93: Spark knows it as static, and a usual session does not have it."""
    with pytest.raises(Exception, match="CANNOT_MODIFY_STATIC_CONFIG"):
        spark.sql(f"set {RESTRICTED}=true")
    with raises("PIPELINE-ENDPOINT-OPEN", match="calls Java"):
        check_endpoint(spark, keeps_out=[])
